"""E: Erkan, Hassan, Diao and Radev's experiments with neighbours and harmonic functions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.svm import LinearSVC

from leafwise.datasets import load_20newsgroups, load_reuters, make_corpus
from leafwise.evaluation import LearningCurve
from leafwise.exceptions import CorpusError, LabelError
from leafwise.metrics import break_even, micro_break_even, paired_t_test
from leafwise.models._tfidf import LogTfIdf
from leafwise.models.graph import NeighborIndex, neighbor_graph
from leafwise.models.harmonic import HarmonicClassifier
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.models.tsvm import TransductiveSVM
from leafwise.papers import (
    SEED,
    Data,
    OnProgress,
    Page,
    Result,
    Steps,
    curve_rows,
    markdown,
    row,
)
from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter

K, MU = 30, 1000.0  # E 5.1, 5.2
# What scores are made of (for Harm., what r in E eq. 17 is), and how documents are compared.
METHODS = {
    "v-kNN (cos)": ("votes", "cosine"),
    "w-kNN (cos)": ("similarities", "cosine"),
    "v-kNN (KL)": ("votes", "kl"),
    "w-kNN (KL)": ("similarities", "kl"),
    "Harm. (cos)": ("labels", "cosine"),
    "Harm. (KL)": ("labels", "kl"),
    "NB": ("NB", ""),
    "SVM": ("SVM", ""),
    "TSVM": ("TSVM", ""),
    "Harm. (cos), r alike": ("uniform", "cosine"),
    "Harm. (KL), r alike": ("uniform", "kl"),
    "Harm. (KL), r estimated": ("estimated", "kl"),
}
NEIGHBOURS, PUBLISHED, VARIANTS = tuple(METHODS)[:6], tuple(METHODS)[:9], tuple(METHODS)[9:]
OTHERS = ("w-kNN (KL)", "Harm. (KL)", "NB", "SVM", "TSVM")
# E table 1: documents whose nearest neighbour outweighs the other 29, newsgroups and Reuters.
TABLE_1 = {"cosine": (0, 0), "p_LM": (17879, 8985), "exp(-KL)": (8, 0)}
# E table 2: break-even points on Reuters in per cent, and means weighted by size.
TABLE_2 = {
    name: dict(zip(METHODS, points))
    for name, points in {
        "acq": (88.87, 86.09, 94.30, 93.46, 89.57, 94.99, 93.05, 97.50, 97.08),
        "corn": (71.43, 67.86, 62.50, 62.50, 67.86, 66.07, 46.43, 87.50, 78.57),
        "crude": (83.07, 83.60, 85.71, 85.19, 87.30, 88.36, 84.13, 89.42, 88.89),
        "earn": (93.65, 95.31, 97.52, 97.33, 95.03, 97.88, 94.85, 98.80, 98.53),
        "grain": (83.22, 83.22, 81.21, 80.54, 85.23, 83.22, 73.15, 92.62, 87.25),
        "interest": (71.76, 73.28, 76.34, 75.57, 77.10, 79.39, 61.07, 81.68, 82.44),
        "money-fx": (70.39, 69.27, 79.33, 77.65, 77.09, 78.77, 65.92, 79.89, 81.01),
        "ship": (79.78, 78.65, 80.90, 79.78, 78.65, 80.90, 79.78, 88.76, 85.39),
        "trade": (74.36, 71.79, 74.36, 75.21, 77.78, 74.36, 57.27, 76.92, 70.09),
        "wheat": (67.61, 67.61, 64.79, 64.79, 74.65, 69.01, 63.38, 85.92, 77.46),
        "micro of the 10 largest": (
            86.26, 86.01, 89.81, 89.31, 88.27, 90.71, 85.22, 93.68, 92.47,
        ),
        "micro of all 90": (80.07, 79.89, 82.61, 82.18, 82.05, 83.89, 74.63, 88.62, 85.90),
    }.items()
}  # fmt: skip
# E table 3: whether the method of a row is below (<), above (>) or like (=) that of a column, in
# the order of both.
TABLE_3 = {
    "w-kNN (cos)": "=<=<<<<<",
    "w-kNN (KL)": ">=>=<<<=",
    "v-kNN (cos)": "=<=<<<<<",
    "v-kNN (KL)": ">=>=<<<=",
    "Harm. (cos)": ">>>>=<<>",
    "Harm. (KL)": ">>>>>==>",
    "NB": ">>>>>==>",
    "SVM": ">=>=<<<=",
}
SYMBOLS = {"<": "<<", ">": ">>", "=": "≈"}
# Labelled documents in all. E has figures without numbers; the least are one for each class.
NEWS_SIZES = (20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
REUTERS_SIZES = (90, 200, 500, 1000, 2000, 5000)
RCV1_SIZES = (103, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)
N_DOCUMENTS = 50_000  # of the made-up corpus; RCV1 has 804,414
EXACT = 100_000  # the most documents whose neighbours are not approximate

_WORDS = (
    "Letters are lowered, English stop words left out, words stemmed (Porter) and all of them kept "
    f"(E 5.1); k = {K} and μ = {MU:g}. Words are weighed by all documents, labelled or not."
)
_MADE_UP = (
    f"k = {K} and μ = {MU:g}; beyond {EXACT:,} documents the neighbours of the graphs are "
    "approximate. E has RCV1's 804,414 documents, which cannot be had. These are drawn from "
    "a model in which every topic has a distribution of words, and words are independent: the "
    "figure says how methods change with the number of labels, not which is best on news."
)
_KNN = (
    f"v-kNN scores by how many of the {K} nearest labelled documents are in a class (E eq. 7), "
    "w-kNN by their share of the similarities of all of these (E eq. 12). Cosines are of "
    "(1 + log tf) log(N / df). Harm. is HarmonicClassifier on the graph of all documents (E 5.2)."
)
_MACHINES = (
    "NB is smoothed by the labelled documents (E eq. 4). SVM is scikit-learn's LinearSVC with its "
    f"defaults (seed {SEED}), one class against the rest, on the weights that cosines are of, at "
    "unit length; TSVM is TransductiveSVM with its defaults on the same. Where documents have "
    "several labels, NB too is one class against the rest."
)
_BREAK_EVEN = (
    "A break-even point is the precision among as many of the best documents as are in the class; "
    "where that cut falls among equal scores, such as numbers of votes, it is the mean over all "
    "their orders."
)


class Corpus(NamedTuple):
    """Documents and which classes they are in.

    Attributes
    ----------
    X : counts
    Y : bool array, documents × classes; every class has a document
    classes : names, sorted
    train : whether a document is for training; none is, where the corpus has no split
    about : what it is
    """

    X: sparse.csr_matrix
    Y: np.ndarray
    classes: list[str]
    train: np.ndarray
    about: str

    @property
    def metric(self) -> str:
        """What is measured: accuracy, unless documents have several labels."""
        return "micro break-even" if (self.Y.sum(axis=1) > 1).any() else "accuracy"


# ---- tables 1 to 3 ------------------------------------------------------------------------------


def table_1(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """E table 1: how often one neighbour outweighs all others. Nothing is drawn."""
    kinds = ("newsgroups", "Reuters")
    steps = Steps(len(kinds) * len(TABLE_1), on_progress)
    rows, lines, about = [], [], []
    for i, kind in enumerate(kinds):
        steps.begin(f"Reading {kind}")
        corpus = _read(kind, data)
        about.append(corpus.about)
        lines.append([kind, f"{corpus.X.shape[0]:,}"])
        for (method, paper), similarity in zip(TABLE_1.items(), ("cosine", "lm", "kl")):
            n = int(outweighed(neighbor_graph(corpus.X, K, similarity, mu=MU)).sum())
            rows.append(row(method, kind, "documents", n, paper[i]))
            lines[-1] += [f"{n:,}", f"{paper[i]:,}"]
            steps.end(f"{method}, {kind}")
    header = ["corpus", "documents", *(cell for name in TABLE_1 for cell in (name, "paper"))]
    return Page(
        name="erkan-table-1",
        corpus=" ".join(about),
        protocol="How many documents have a nearest neighbour that is more similar to them than "
        f"the next {K - 1} together. {_WORDS} Cosines are of (1 + log tf) log(N / df).",
        rows=rows,
        tables=(f"## documents\n\n{markdown(header, lines)}",),
    )


def outweighed(graph: sparse.csr_matrix) -> np.ndarray:
    """Return for each row whether the largest entry is above the sum of all others."""
    largest = graph.max(axis=1).toarray().ravel()
    return 2 * largest > np.asarray(graph.sum(axis=1)).ravel()


def table_2(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """E table 2. The split is given, so there is one draw, and no sizes."""
    reuters, found = _by_split(data, on_progress)
    Y, n_classes = reuters.Y[~reuters.train], len(reuters.classes)
    n_train = reuters.Y[reuters.train].sum(axis=0)
    largest = sorted(np.argsort(-n_train, kind="stable")[:10].tolist())
    columns = {reuters.classes[c]: [c] for c in largest}
    columns[f"micro of the {len(largest)} largest"] = largest
    columns[f"micro of all {n_classes}"] = list(range(n_classes))
    rows = []
    for method, scores in found.items():
        for setting, of in columns.items():
            value = micro_break_even(Y[:, of], scores[:, of])
            paper = TABLE_2[setting][method] if setting in TABLE_2 else None
            rows.append(row(method, setting, "break-even", value, paper and round(paper / 100, 4)))
    return Result(
        name="erkan-table-2",
        corpus=reuters.about,
        protocol=f"The ModApte split, once; test documents are the pool of Harm. and TSVM. {_WORDS}"
        f" {_KNN} {_MACHINES} {_BREAK_EVEN} Means are weighted "
        "by the number of test documents in a category.",
        rows=rows,
    )


def table_3(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """E table 3, on Reuters-21578: RCV1 cannot be had."""
    reuters, found = _by_split(data, on_progress)
    Y = reuters.Y[~reuters.train]
    tested = np.flatnonzero(Y.any(axis=0))
    points = {m: [break_even(Y[:, c], s[:, c]) for c in tested] for m, s in found.items()}
    mean = f"mean of {len(tested)} categories"
    rows = [row(method, mean, "break-even", np.mean(of)) for method, of in points.items()]
    lines, n_same, n_cells = [], 0, 0
    for a, of_a in points.items():
        line = [a, f"{np.mean(of_a):.3f}"]
        for b, of_b in points.items():
            test = paired_t_test(of_a, of_b)
            line.append(f"{test.symbol} ({test.p_value:.3f})" if a != b else test.symbol)
            if a != b:
                rows.append(row(a, b, "p-value", test.p_value))
                if a in TABLE_3 and b in TABLE_3:
                    n_cells += 1
                    n_same += test.symbol == SYMBOLS[TABLE_3[a][list(TABLE_3).index(b)]]
        lines.append(line)
    published = [[a, *(SYMBOLS[cell] for cell in cells)] for a, cells in TABLE_3.items()]
    return Page(
        name="erkan-table-3",
        corpus=reuters.about,
        protocol=f"Paired t-tests over the break-even points of {len(tested)} categories, each of "
        "the same weight: << is where the method of the row is below that of the column with p < "
        ".05, >> where it is above, ≈ where neither holds; p is in brackets. E has RCV1 with 5,000 "
        "labelled documents, which cannot be had; these are the scores of erkan-table-2, of "
        "Reuters-21578 in its ModApte split, where three in four documents are labelled. "
        f"{_WORDS} {_KNN} {_MACHINES} {_BREAK_EVEN}",
        rows=rows,
        tables=(
            f"## ours\n\n{markdown(['method', 'mean', *points], lines)}",
            f"## E's, on RCV1\n\n{markdown(['method', *TABLE_3], published)}",
            f"Of the {n_cells} cells that both have, {n_same} are the same.",
        ),
    )


def _by_split(data: Data, on_progress: OnProgress | None) -> tuple[Corpus, dict[str, np.ndarray]]:
    """Read Reuters, and have each method score its test documents."""
    steps = Steps(len(PUBLISHED), on_progress)
    steps.begin("Reading Reuters")
    reuters, found = _read("Reuters", data), {}
    train, test = np.flatnonzero(reuters.train), np.flatnonzero(~reuters.train)
    for method, scores in Bench(reuters).scores(PUBLISHED, train, test):
        found[method] = scores
        steps.end(method)
    return reuters, found


# ---- figures ------------------------------------------------------------------------------------


def _figure(
    name: str,
    kind: str,
    methods: Sequence[str],
    data: Data,
    draws: int,
    sizes: Sequence[int] | None,
    on_progress: OnProgress | None,
) -> Result:
    """Label some documents; `sizes` are how many, or of made-up ones how many there are."""
    if made := kind == "made-up documents":
        n_documents, sizes = _made_up_sizes(sizes)
    elif sizes is None:
        sizes = NEWS_SIZES if kind == "newsgroups" else REUTERS_SIZES
    steps = Steps(len(methods) * len(sizes) * draws, on_progress)
    steps.begin(f"Reading {kind}")
    corpus = made_up(n_documents) if made else _read(kind, data)
    curve = measure(Bench(corpus), methods, sizes, draws, steps)

    def figure() -> Any:
        ax = curve.plot().ax_
        ax.set_xlabel("labelled documents")
        return ax.figure

    what = (
        "Accuracy; of classes with equal scores, such as votes, each is as likely. The r of E eq. "
        "17 is a class's share of the labels; r alike is the same for all classes, and r "
        "estimated, HarmonicClassifier's default, is between the two."
        if corpus.metric == "accuracy"
        else "Means of the break-even points of all classes, weighted by their test documents; "
        f"classes without any are left out. {_BREAK_EVEN}"
    )
    protocol = [what, _drawn(draws), _MADE_UP if made else _WORDS, _KNN]
    protocol += [_MACHINES] * ("NB" in methods)
    return Result(
        name=name,
        corpus=corpus.about,
        protocol=" ".join([*protocol, "E has a figure without numbers."]),
        rows=curve_rows(curve),
        figure=figure,
    )


def _made_up_sizes(sizes: Sequence[int] | None) -> tuple[int, list[int]]:
    """Return how many documents to make, and how many of them are labelled in turn."""
    [n_documents, *more] = [N_DOCUMENTS] if sizes is None else sizes
    if more or n_documents < 2 * RCV1_SIZES[0]:
        raise CorpusError(
            f"sizes={sizes}: expected one number, that of made-up documents, of at least "
            f"{2 * RCV1_SIZES[0]}, two for each topic."
        )
    return n_documents, [size for size in RCV1_SIZES if 2 * size <= n_documents]


figure_1 = partial(_figure, "erkan-figure-1", "newsgroups", (*NEIGHBOURS, *VARIANTS))
figure_2 = partial(_figure, "erkan-figure-2", "Reuters", NEIGHBOURS)
figure_3 = partial(_figure, "erkan-figure-3", "made-up documents", NEIGHBOURS)
figure_4 = partial(_figure, "erkan-figure-4", "newsgroups", (*OTHERS, *VARIANTS[1:]))
figure_5 = partial(_figure, "erkan-figure-5", "Reuters", OTHERS)
figure_6 = partial(_figure, "erkan-figure-6", "made-up documents", OTHERS[:-1])  # E has no TSVM


def _drawn(draws: int) -> str:
    times = "One draw" if draws == 1 else f"{draws} draws"
    return (
        f"{times} of labelled documents, with seed {SEED}: one of each class at least, and others "
        "at random (E 5.3.2); a smaller draw is part of a larger one. All other documents are "
        "tested on, and are the pool of methods that learn from it. A setting is the number of "
        "labelled documents in all."
    )


# ---- what is measured ---------------------------------------------------------------------------


class Bench:
    """A corpus, with what of the methods does not depend on labels: made once for all draws."""

    def __init__(self, corpus: Corpus):
        self.corpus, self._graphs = corpus, dict[str, sparse.csr_matrix]()

    @cached_property
    def vectors(self) -> sparse.csr_matrix:
        """The documents as SVM takes them."""
        return LogTfIdf().fit(self.corpus.X).transform(self.corpus.X)

    def graph(self, similarity: str) -> sparse.csr_matrix:
        """Return the graph that labels are spread over."""
        if similarity not in self._graphs:
            X = self.corpus.X
            self._graphs[similarity] = neighbor_graph(
                X, K, similarity, mu=MU, symmetric=True, approximate=X.shape[0] > EXACT
            )
        return self._graphs[similarity]

    def scores(
        self, methods: Sequence[str], train: np.ndarray, test: np.ndarray
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yield what each method scores the test documents, documents × classes."""
        X, Y = self.corpus.X, self.corpus.Y
        near: dict[str, sparse.csr_matrix] = {}
        for method in methods:
            kind, similarity = METHODS[method]
            if kind in ("votes", "similarities"):
                if similarity not in near:
                    index = NeighborIndex(similarity, mu=MU).fit(X, among=train)
                    near[similarity] = index.query(X[test], K)
                yield method, _votes(near[similarity], Y, kind == "similarities")
            elif kind in ("labels", "uniform", "estimated"):
                yield method, self._harmonic(similarity, kind, train)[test]
            elif kind == "NB":
                yield method, self._naive_bayes(train, test)
            elif kind == "SVM":
                svm = OneVsRestClassifier(LinearSVC(random_state=SEED))
                svm.fit(self.vectors[train], Y[train].astype(np.int8))
                yield method, svm.decision_function(self.vectors[test])
            else:
                model = TransductiveSVM().fit(X, self._labels(train))
                yield method, model.decision_function(X[test])

    def _harmonic(self, similarity: str, proportions: str, train: np.ndarray) -> np.ndarray:
        graph = self.graph(similarity)
        # All neighbours of the graph are kept: it has the k nearest already, both ways.
        settings = {"similarity": "precomputed", "k": graph.shape[0], "proportions": proportions}
        with warnings.catch_warnings():
            # A document without a neighbour has the scores of the class shares.
            warnings.filterwarnings("ignore", message="No label reaches")
            return HarmonicClassifier(**settings).fit(graph, self._labels(train)).decision_

    def _naive_bayes(self, train: np.ndarray, test: np.ndarray) -> np.ndarray:
        """Return log P(class | document); of several labels, the log odds of each (E 5.2)."""
        X, Y = self.corpus.X, self.corpus.Y
        model = NaiveBayes(smoothing="dirichlet", mu=MU)
        X_train, X_test = X[train], X[test]
        if self.corpus.metric == "accuracy":
            return model.fit(X_train, Y[train].argmax(axis=1)).predict_log_proba(X_test)
        odds = np.empty((len(test), Y.shape[1]))
        for c in range(Y.shape[1]):
            log_p = model.fit(X_train, Y[train, c].astype(int)).predict_log_proba(X_test)
            odds[:, c] = log_p[:, 1] - log_p[:, 0]
        return odds

    def _labels(self, train: np.ndarray) -> list[tuple[int, ...] | None]:
        """Return the classes of the training documents, and None for all others."""
        labels: list[tuple[int, ...] | None] = [None] * self.corpus.X.shape[0]
        for i in train.tolist():
            labels[i] = tuple(np.flatnonzero(self.corpus.Y[i]).tolist())
        return labels


def _votes(near: sparse.csr_matrix, Y: np.ndarray, weighted: bool) -> np.ndarray:
    """Score by neighbours (E eq. 7, 12); a document without any has 0 for all classes."""
    near = near.copy()
    if not weighted:
        near.data[:] = 1.0
    total = np.asarray(near.sum(axis=1)).reshape(-1, 1)
    votes = (near @ sparse.csr_matrix(Y, dtype=np.float64)).toarray()
    return votes / np.where(total > 0, total, 1.0) if weighted else votes


def accuracy(Y: np.ndarray, scores: np.ndarray) -> float:
    """Return how often the class of the highest score is right, in the mean over ties."""
    best = scores == scores.max(axis=1, keepdims=True)
    return float(np.mean((best & Y).sum(axis=1) / best.sum(axis=1)))


def orders(Y: np.ndarray, n_draws: int) -> Iterator[np.ndarray]:
    """Yield random orders of the documents that begin with one of each class (E 5.3.2)."""
    for seed in np.random.SeedSequence(SEED).spawn(n_draws):
        order = np.random.default_rng(seed).permutation(len(Y))
        first = np.unique(Y[order].argmax(axis=0))
        yield np.concatenate([order[first], np.delete(order, first)])


def measure(
    bench: Bench, methods: Sequence[str], sizes: Sequence[int], draws: int, steps: Steps
) -> LearningCurve:
    """Label some documents, and score the methods on all others."""
    Y, metric = bench.corpus.Y, bench.corpus.metric
    n_documents, n_classes = Y.shape
    if min(sizes) < n_classes or max(sizes) >= n_documents:
        raise LabelError(
            f"sizes={list(sizes)}: expected numbers of labelled documents from {n_classes}, one "
            f"for each class, to {n_documents - 1}, which leaves one to test on."
        )
    values = np.empty((len(methods), len(sizes), draws))
    for draw, order in enumerate(orders(Y, draws)):
        for i, size in enumerate(sizes):
            train, test = np.sort(order[:size]), np.sort(order[size:])
            for j, (_, scores) in enumerate(bench.scores(methods, train, test)):
                evaluate = accuracy if metric == "accuracy" else micro_break_even
                values[j, i, draw] = evaluate(Y[test], scores)
                steps.end(f"{size:,} labelled documents")
    untimed = np.full(values.shape, np.nan)  # methods share what they need
    n_test = tuple(n_documents - size for size in sizes)
    return LearningCurve(
        tuple(methods), tuple(sizes), {metric: values}, untimed, untimed, tuple(sizes), n_test
    )


# ---- what goes in -------------------------------------------------------------------------------


def _read(kind: str, data: Data) -> Corpus:
    news = kind == "newsgroups"
    dataset = load_20newsgroups("18828", "all", 20, data) if news else load_reuters(data=data)
    X = WordCounter(stop_words="english", stemmer="porter").fit_transform(dataset.texts)
    paths = [(path,) if isinstance(path, str) else path for path in dataset.labels]
    binarizer = MultiLabelBinarizer()
    Y = binarizer.fit_transform([[path.rpartition("/")[2] for path in of] for of in paths])
    train = np.zeros(len(Y), bool) if dataset.split is None else dataset.split == "train"
    about = f"{dataset.description} {X.shape[0]:,} documents, {X.shape[1]:,} stems."
    return Corpus(X, Y > 0, binarizer.classes_.tolist(), train, about)


def made_up(n_documents: int) -> Corpus:
    """Draw documents of 103 topics, each also in the topics above its own, as RCV1's are."""
    tree = Taxonomy.from_paths(f"{i % 4}/{i}/{i}{x}" for i in range(33) for x in "ab")
    rng = np.random.default_rng(SEED)
    prior = np.zeros(len(tree))
    prior[tree.leaves] = rng.permutation(1 / np.arange(1, len(tree.leaves) + 1))
    lengths = np.ceil(rng.lognormal(4.17, 0.6, n_documents)).astype(int)
    drawn = make_corpus(
        tree, n_documents, 47_236, lengths, concentration=1000.0, level_weights=(4, 2, 1, 1),
        class_prior=prior / prior.sum(), random_state=SEED,
    )  # fmt: skip
    Y, node = np.zeros((n_documents, len(tree)), bool), drawn.y
    for _ in range(tree.depth.max()):
        Y[np.arange(n_documents), node] = True
        node = tree.parent[node]
    used = np.flatnonzero(Y.any(axis=0))
    classes = [tree.paths[i] for i in used]
    about = (
        f"{n_documents:,} documents made up by make_corpus with seed {SEED}, of {len(used)} topics "
        f"in three levels; {drawn.X.nnz / n_documents:.1f} distinct words each, of 47,236. Of a "
        "document's words, half are of the distribution that all share, a quarter of its group's, "
        "an eighth of its subgroup's and an eighth of its own topic's."
    )
    return Corpus(drawn.X, Y[:, used], classes, np.zeros(n_documents, bool), about)
