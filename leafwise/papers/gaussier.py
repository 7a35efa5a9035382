"""G: Gaussier, Goutte, Popat and Chen's experiments: trees that grow, and newsgroups."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import normalized_mutual_info_score

from leafwise.datasets import load_20newsgroups
from leafwise.evaluation import FewLabelSplit, LearningCurve, learning_curve
from leafwise.exceptions import CorpusError, LabelError
from leafwise.metrics import gini_impurity, paired_t_test
from leafwise.models._tfidf import LogTfIdf
from leafwise.models.growth import G_SCHEDULE, HPLSA
from leafwise.models.mixture import HierarchicalMixture
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.models.plsa import HPLC, PLC
from leafwise.papers import (
    SEED,
    Counted,
    Data,
    OnProgress,
    Page,
    Result,
    Steps,
    curve_rows,
    markdown,
    newsgroups,
    panels,
    row,
)
from leafwise.plots import TreeWordsDisplay
from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter

# G 6.1: the mean Gini impurity of labels over clusters, and of clusters over labels.
TABLE_1 = {"HPLSA": (0.20, 0.16), "PLSA": (0.34, 0.30), "HS": (0.40, 0.45)}
N_GROUPS, N_DOCUMENTS = 16, 700  # G 6.1
SOFT, HARD = ("G_l", "G_α"), ("G_l, one leaf", "G_α, one leaf")
WEIGHTED = ("G_l, by documents", "G_α, by documents")
OTHERS = ("NMI", "largest", "leaves")
HLDA_SMOOTHING, HLDA_BRANCHING = (0.7, 1.0, 1.4), 10.0  # the leaves depend on both
GROUP, N_LEAVES, N_WORDS = (
    "politics/talk.politics.mideast",
    4,
    5,
)  # G figure 3 has 4 leaves and 5 words

Method = Callable[[sparse.csr_matrix, int, int], np.ndarray]  # words, leaves, seed -> clusters
# G 6.2 names the smallest and the largest; G figure 5 has no numbers.
SIZES = (10, 20, 30, 50, 70, 100, 200)
METRICS = ("micro_f1", "macro_f1")
# Tokens with an alphabetic character in them, the only preprocessing in G 6.2.
TOKEN_PATTERN = r"\b\w*[^\W\d_]\w*\b"


# ---- table 1 ------------------------------------------------------------------------------------


class Draw(NamedTuple):
    """Some documents of some groups."""

    X: sparse.csr_matrix
    y: np.ndarray
    n_groups: int


def table_1(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """G table 1, of 6.1; `sizes` are how many documents are drawn."""
    sizes = (N_DOCUMENTS,) if sizes is None else sizes
    methods = _methods()
    steps = Steps(len(sizes) * draws * len(methods), on_progress)
    steps.begin("Reading newsgroups")
    news = load_20newsgroups("18828", groups=20, data=data)
    texts, labels = np.array(news.texts, dtype=object), np.array(news.labels)
    n_groups = min(N_GROUPS, len(set(news.labels)))
    rows, tables = [], []
    for size in sizes:
        found: dict[str, list[dict[str, float]]] = {name: [] for name in methods}
        for k in range(draws):
            draw = sample(texts, labels, n_groups, size, k)
            for name, method in methods.items():
                found[name].append(measure(method(draw.X, draw.n_groups, k), draw.y))
                steps.end(f"{name}, draw {k + 1}")
        values = {name: _by_metric(of_draws) for name, of_draws in found.items()}
        for name, by_metric in values.items():
            paper = dict(zip(SOFT, _published(name, size)))
            rows += [
                row(name, size, metric, v, paper.get(metric)) for metric, v in by_metric.items()
            ]
        tables += _tables(values, size)
    said = "one draw" if draws == 1 else f"{draws} draws"
    return Page(
        name="gaussier-table-1",
        corpus=f"{news.description} TDT-1, which G has, is not public.",
        protocol=f"{said[0].upper()}{said[1:]} of {n_groups} groups, and of "
        f"{' or '.join(f'{n:,}' for n in sizes)} documents of these, the k-th with seed {SEED} and "
        "k. Subject and body; English stop words are left out, and words that one document alone "
        f"has. All methods are asked for {n_groups} clusters. HPLSA has leafwise's defaults; in "
        "the second row, G's schedule, and classes stand under those they split from. PLSA begins "
        "at random and is tempered by the same schedule; annealed, it grows as HPLSA does, and "
        "draws words from leaves alone. HS has documents whole in one class (HACM). Words are "
        "weighed for the others by (1 + log tf) log(N / df), at unit length; k-means is the best "
        f"of 10 starts. {_hlda_note()}",
        rows=rows,
        tables=tuple(tables),
    )  # fmt: skip


def sample(texts: np.ndarray, labels: np.ndarray, n_groups: int, size: int, k: int) -> Draw:
    """Draw groups, then documents of these, and count the words of two documents or more."""
    rng = np.random.default_rng([SEED, k])
    groups = rng.choice(np.unique(labels), n_groups, replace=False)
    pool = np.flatnonzero(np.isin(labels, groups))
    if size > len(pool):
        raise CorpusError(f"There are {len(pool):,} documents of {n_groups} groups, not {size:,}.")
    chosen = np.sort(rng.choice(pool, size, replace=False))
    X = WordCounter(stop_words="english").fit_transform(texts[chosen].tolist())
    X = X[:, np.bincount(X.indices, minlength=X.shape[1]) >= 2]
    there = np.flatnonzero(np.diff(X.indptr))  # a document without words has no place
    return Draw(X[there], labels[chosen][there], n_groups)


def measure(clusters: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Score clusters; a matrix is P(cluster | document)."""
    hard = clusters.argmax(axis=1) if clusters.ndim == 2 else clusters
    sizes = np.bincount(hard)
    return {
        **dict(zip(SOFT, gini_impurity(y, clusters))),
        **dict(zip(HARD, gini_impurity(y, hard))),
        **dict(zip(WEIGHTED, gini_impurity(y, hard, weighted=True))),
        "NMI": float(normalized_mutual_info_score(y, hard)),
        "largest": float(sizes.max() / sizes.sum()),
        "leaves": float((sizes > 0).sum()),
    }


# ---- the methods --------------------------------------------------------------------------------


def _methods() -> dict[str, Method]:
    methods: dict[str, Method] = {
        "HPLSA": _growing(),
        "HPLSA, G's schedule and tree": _growing(betas=G_SCHEDULE, shape="splits"),
        "PLSA": _plsa,
        "PLSA, annealed": _growing(topics="leaf"),
        "HS": _growing(unit="document"),
        "k-means": _k_means,
        "agglomerative, Ward": _agglomerative("ward", "euclidean"),
        "agglomerative, average": _agglomerative("average", "cosine"),
    }
    if find_spec("tomotopy") is not None:
        methods["hLDA"] = _hlda
    return methods


def _growing(**settings: Any) -> Method:
    def grow(X: sparse.csr_matrix, n_leaves: int, seed: int) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the page has how many leaves
            return HPLSA(n_leaves, random_state=seed, **settings).fit(X).p_leaf_given_document_

    return grow


def _plsa(X: sparse.csr_matrix, n_leaves: int, seed: int) -> np.ndarray:
    flat = Taxonomy.from_paths([str(i) for i in range(n_leaves)])
    return HPLSA(tree=flat, random_state=seed).fit(X).p_leaf_given_document_


def _k_means(X: sparse.csr_matrix, n_clusters: int, seed: int) -> np.ndarray:
    return KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(LogTfIdf().fit_transform(X))


def _agglomerative(linkage: str, metric: str) -> Method:
    def cluster(X: sparse.csr_matrix, n_clusters: int, seed: int) -> np.ndarray:
        model = AgglomerativeClustering(n_clusters, linkage=linkage, metric=metric)
        return model.fit_predict(LogTfIdf().fit_transform(X).toarray())

    return cluster


def hlda(X: sparse.csr_matrix, smoothing: float, seed: int, n_steps: int = 200) -> np.ndarray:
    """Return the leaf of each document under tomotopy's hierarchical LDA, of three levels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of how its own parts are found
        import tomotopy

    model = tomotopy.HLDAModel(depth=3, eta=smoothing, gamma=HLDA_BRANCHING, seed=seed + 1)
    counts = X.astype(np.int64)
    for i in range(X.shape[0]):
        own = slice(*counts.indptr[i : i + 2])
        words = np.repeat(counts.indices[own], counts.data[own])
        model.add_doc([str(word) for word in words])
    model.train(n_steps, workers=1)
    # In 0.14 the property that is meant for it looks for another name, and finds nothing.
    return np.unique([doc._path[-1] for doc in model.docs], return_inverse=True)[1]


def _hlda(X: sparse.csr_matrix, n_leaves: int, seed: int) -> np.ndarray:
    """Take the smoothing that comes nearest to the number of leaves, which cannot be set."""
    found = [hlda(X, smoothing, seed) for smoothing in HLDA_SMOOTHING]
    return min(found, key=lambda clusters: abs(clusters.max() + 1 - n_leaves))


def _hlda_note() -> str:
    if find_spec("tomotopy") is None:
        return "hLDA is left out: it needs tomotopy, which is not installed."
    return (
        "hLDA is tomotopy's, with three levels and 200 steps; as its number of leaves cannot be "
        f"set, it is run with γ of {HLDA_BRANCHING:g} and η of "
        f"{', '.join(f'{eta:g}' for eta in HLDA_SMOOTHING)}, and the number nearest is taken."
    )


# ---- the page -----------------------------------------------------------------------------------


def _published(method: str, size: int) -> Sequence[float]:
    """Return G's figures, if as many documents are drawn as G has."""
    return TABLE_1.get(method, ()) if size == N_DOCUMENTS else ()


def _by_metric(of_draws: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    return {metric: [one[metric] for one in of_draws] for metric in of_draws[0]}


def _tables(values: Mapping[str, Mapping[str, Sequence[float]]], size: int) -> list[str]:
    """Return G's table, one of other measures, and one of tests against HPLSA."""
    papers = [[f"{p:.2f}" for p in _published(m, size)] or ["", ""] for m in values]
    of_paper = [f"{metric}, paper" for metric in SOFT]
    tables = [
        f"## {title}, {size:,} documents\n\n"
        + markdown(
            ["method", *metrics, *of_paper] if metrics is SOFT else ["method", *metrics],
            [
                [m, *(_cell(of[metric]) for metric in metrics), *(p if metrics is SOFT else [])]
                for (m, of), p in zip(values.items(), papers)
            ],
        )
        + f"\n\n{said}"
        for title, metrics, said in (
            (
                "Gini impurity",
                SOFT,
                "By P(leaf given document), as G has it; HS nearly always, and what stands below "
                "it always, has a document whole in one cluster. Lower is better.",
            ),
            (
                "one leaf for each document",
                (*HARD, *WEIGHTED, *OTHERS),
                "G counts labels and clusters alike, large or small: where half of the documents "
                "are in one cluster and the others in small ones, all of these but one are pure, "
                "and most labels lie in one. By documents, each counts as many documents as it "
                "has. NMI is normalised mutual information, of which more is better; the last "
                "columns are the largest cluster's share of documents, and how many have any.",
            ),
        )
    ]
    n_draws = len(values["HPLSA"]["NMI"])
    if n_draws > 1:
        tables.append(_tests(values))
        tables.append("Figures are means ± standard deviations over draws.")
    return tables


def _tests(values: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    metrics = (*SOFT, *WEIGHTED, "NMI")
    ours = values["HPLSA"]
    lines = []
    for method, of in values.items():
        if method != "HPLSA":
            tests = [paired_t_test(of[metric], ours[metric]) for metric in metrics]
            lines.append([method, *(f"{t.mean_difference:+.3f} ({_p(t.p_value)})" for t in tests)])
    return (
        f"## less HPLSA's\n\n{markdown(['method', *metrics], lines)}\n\nThe mean difference, and p "
        "of a paired t-test over the draws, two-sided."
    )


def _p(p: float) -> str:
    return f"p = {p:.3f}" if p >= 0.001 else "p < .001"


def _cell(values: Sequence[float]) -> str:
    return (
        f"{np.mean(values):.3f} ± {np.std(values):.3f}" if len(values) > 1 else f"{values[0]:.3f}"
    )


# ---- figure 3 -----------------------------------------------------------------------------------


def figure_3(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """G figure 3: the tree of one topic. Nothing is drawn, and there are no sizes."""
    steps = Steps(1, on_progress)
    steps.begin("Reading newsgroups")
    news = load_20newsgroups("18828", groups=20, data=data)
    own = [label == GROUP for label in news.labels]
    counter = WordCounter(stop_words="english")
    X = counter.fit_transform(news.subset(own).texts)
    steps.begin("Growing a tree")
    model = HPLSA(N_LEAVES, vocabulary=counter).fit(X)
    steps.end("Growing a tree")
    tree, words = model.tree_, counter.get_feature_names_out()
    best = [
        words[np.argsort(-p, kind="stable")[:N_WORDS]].tolist() for p in model.p_word_given_node_
    ]
    share = model.node_proba(X).mean(axis=0)
    numbers = [f"({i + 1})" for i in range(len(tree))]
    lines = [
        [numbers[i], numbers[tree.parent[i]] if i else "", f"{share[i]:.3f}", ", ".join(best[i]),
         tree.names[i]]
        for i in range(len(tree))
    ]  # fmt: skip
    shown = Taxonomy(["(1)", *numbers[1:]], tree.parent)
    return Page(
        name="gaussier-figure-3",
        corpus=f"The newsgroup {GROUP.rpartition('/')[2]} of {news.description} "
        f"{X.shape[0]:,} documents, {X.shape[1]:,} words. TDT-1, of which G has the 273 documents "
        "about one event, is not public.",
        protocol="Subject and body, without English stop words. HPLSA with leafwise's defaults "
        f"grows {N_LEAVES} leaves. Of each node the page has the {N_WORDS} words of largest "
        "P(word given node), as G has, P(node given document) on average, and the name that "
        "leafwise gives it, of the words that set it apart from the node above. Nothing is left "
        "to chance.",
        rows=[row(numbers[i], "share", "documents, share", p) for i, p in enumerate(share)],
        figure=lambda: TreeWordsDisplay(shown, best).plot().figure_,
        tables=(
            "## the tree\n\n" + markdown(["node", "under", "documents", "words", "name"], lines),
        ),
    )


# ---- figure 5 -----------------------------------------------------------------------------------


def figure_5(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """G figure 5; `sizes` are documents per class, to train and to test on together."""
    sizes = SIZES if sizes is None else sizes
    if min(sizes) < 3:
        raise LabelError(
            f"{min(sizes)} documents per class cannot be parted into two thirds to train and one "
            "third to test on. Give sizes from 3 on."
        )
    steps = Steps(len(sizes) * draws, on_progress)
    steps.begin("Reading newsgroups")
    counter = WordCounter(token_pattern=TOKEN_PATTERN, lowercase=False)
    news = newsgroups(counter, data, "subject+body")
    curve = _learn(news, sizes, draws, steps)

    def figure() -> Any:
        both, axes = panels()
        for ax, metric in zip(axes, METRICS):
            curve.plot(ax, metric)
            ax.set_xlabel("documents per class, to train and to test on")
        return both

    return Result(
        name="gaussier-figure-5",
        corpus=news.corpus,
        protocol=f"{'One sample' if draws == 1 else f'{draws} samples'} for each size, as many "
        f"documents from each group, by FewLabelSplit with seed {SEED}; the k-th is parted with "
        "seed k. A setting is the size of a sample per group: two thirds of it, rounded up, are "
        "learned from, and the rest is tested on (7 and 3 of 10, 134 and 66 of 200). Words are "
        "runs of letters and digits with a letter in them, with their capitals (G 6.2 names no "
        "other preprocessing), and none is left out. G does not say which headers are read. NB "
        "adds 0.5 to every count; HiMi is the hierarchical mixture with uniform weights of its "
        "levels. G has a figure without numbers, with sizes from 10 to 200.",
        rows=curve_rows(curve),
        figure=figure,
    )


def n_train(size: int) -> int:
    """Return how many of a sample are learned from: 7 of 10, 134 of 200 (G 6.2)."""
    return math.ceil(2 * size / 3)


def _classifiers(tree: Taxonomy | None) -> dict[str, Any]:
    return {
        "NB": NaiveBayes(tree, nodes="leaves", alpha=0.5),
        "PLC": PLC(tree, nodes="leaves"),
        "HiMi": HierarchicalMixture(tree, nodes="leaves", weights="uniform"),
        "HPLC": HPLC(tree, nodes="leaves"),
    }


def _learn(news: Counted, sizes: Sequence[int], draws: int, steps: Steps) -> LearningCurve:
    """Score on the rest of each sample, not on all other documents as `learning_curve` does."""
    splits = {n: FewLabelSplit(n, draws, random_state=SEED) for n in sizes}
    samples = {n: [s for s, _ in split.split(news.X, news.y)] for n, split in splits.items()}
    methods = _classifiers(news.taxonomy)
    shape = len(methods), len(sizes), draws
    scores = {metric: np.empty(shape) for metric in METRICS}
    fit_seconds, predict_seconds = np.empty(shape), np.empty(shape)
    for i, (n, of_size) in enumerate(samples.items()):
        for k, sample in enumerate(of_size):
            X, y = news.X[sample], news.y[sample]
            one = learning_curve(methods, X, y, [n_train(n)], 1, metric=METRICS, random_state=k)
            for metric in METRICS:
                scores[metric][:, i, k] = one.scores[metric][:, 0, 0]
            fit_seconds[:, i, k] = one.fit_seconds[:, 0, 0]
            predict_seconds[:, i, k] = one.predict_seconds[:, 0, 0]
            steps.end(f"{n} documents per class")
    n_groups = len(np.unique(news.y))
    return LearningCurve(
        names=tuple(methods),
        sizes=tuple(sizes),
        scores=scores,
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        n_train=tuple(n_groups * n_train(n) for n in sizes),
        n_test=tuple(n_groups * (n - n_train(n)) for n in sizes),
    )
