"""V: Veeramachaneni, Sona and Avesani's experiments: keywords and a tree, and no labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from leafwise.datasets import DIRECTORIES, Dataset, load_directory, load_stdlib
from leafwise.keywords import Keywords, read_keywords
from leafwise.metrics import RejectCurve, reject_curve
from leafwise.models.dirichlet import HierarchicalDirichlet
from leafwise.papers import (
    SEED,
    Data,
    OnProgress,
    Page,
    Result,
    Steps,
    markdown,
    panels,
    row,
)
from leafwise.plots import COLORS, _log_odds
from leafwise.taxonomy import Taxonomy, join_path
from leafwise.text import WordCounter

# V table 2, in per cent: NB, EM, HD at its best σ, that σ, and HD at σ = 2.
TABLE_2 = {
    "Google, Archaeology": (25.63, 0.42, 27.74, 1, 25.83),
    "Google, Language": (24.67, 30.69, 27.31, 1, 26.21),
    "Google, Neuro. Disord.": (37.78, 0.61, 42.24, 1, 41.55),
    "Google, News Media": (31.66, 37.86, 41.71, 5, 39.53),
    "LookSmart, Archaeology": (18.54, 5.75, 34.48, 10, 29.56),
    "LookSmart, Common Lang.": (11.25, 1.06, 29.93, 7, 28.09),
    "LookSmart, Movies": (26.83, 33.71, 42.70, 5, 41.09),
    "LookSmart, Peripherals": (10.96, 0.05, 20.43, 7, 19.13),
}
SIGMAS = (1.0, 2.0, 5.0, 7.0, 10.0, 20.0, 50.0)  # for V's procedure
HALF_DECADES = tuple((10.0 ** np.arange(0, 5.5, 0.5)).tolist())  # for leafwise's defaults
RATES = (0.0, 0.1, 0.2, 0.3, 0.5)
# V's EM: sets of words, from prototypes (V 3.2, eq. 14), until fewer than 1 % of documents change
# their node or for 10 iterations (V 3.4).
PROCEDURE: dict[str, Any] = {
    "words": "set", "init": "prototypes", "beta": 1.0, "keyword_weight": 0.0, "max_iter": 10,
    "tol": 0.01,
}  # fmt: skip
OURS: dict[str, Any] = {"words": "roots"}  # as in TaxonomyClassifier
_NO_SHARING = 1e-6  # a σ under which nodes learn nothing from each other

NB, EM, V_BEST, V_2 = "keyword NB", "plain EM", "V's HD, best σ", "V's HD, σ = 2"
MATCH, AUTO, BEST = "keyword match", "HD, σ auto", "HD, best σ"
TRUTH = "the true labels"


class Corpus(NamedTuple):
    """Documents of one taxonomy.

    Attributes
    ----------
    X : counts of all words
    V : which words documents have, of those that V's choice leaves: rare and frequent ones are
        gone, unless they are keywords (V 3.1)
    y : the node of each document
    nodes : those that can be predicted: all but the root, or the modules of the standard library
    own : documents × nodes, whether a document has a keyword of the node itself
    """

    name: str
    tree: Taxonomy
    counter: WordCounter
    X: sparse.csr_matrix
    V: sparse.csr_matrix
    y: np.ndarray
    nodes: np.ndarray
    keywords: Keywords
    own: np.ndarray


class Found(NamedTuple):
    """The node of each document, 0 where there is none, and the σ where there is one."""

    nodes: np.ndarray
    sigma: float | None = None


F1 = Mapping[str, Mapping[str, float]]  # taxonomy -> method -> figure
Measured = Mapping[str, Mapping[str, Found]]
Pairs = Mapping[str, Mapping[str, tuple[float, float]]]  # what `about_keywords` says
Lines = Mapping[str, Sequence[float]]  # taxonomy or method -> figures
Chosen = Mapping[str, tuple[float, float]]  # taxonomy -> the σ chosen, and the figure there


# ---- table 2 ------------------------------------------------------------------------------------


def table_2(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """V table 2; `sizes` are the σ that the best is taken of."""
    names = [*DIRECTORIES, "stdlib", "stdlib, docstrings alone"]
    of_v, of_ours = _sigmas(sizes, SIGMAS), _sigmas(sizes, HALF_DECADES)
    steps = Steps(len(names) * (len({*of_v, 2.0}) + len(of_ours) + 2), on_progress)
    measured: dict[str, dict[str, Found]] = {}
    curves: dict[str, RejectCurve] = {}
    corpora = {}
    for name in names:
        steps.begin(f"Reading {name}")
        corpus = corpora[name] = _read(name, data)
        model = _model(corpus)
        measured[name] = {
            NB: _prototypes(corpus),
            EM: _plain_em(corpus, steps),
            **_by_v(corpus, of_v, steps),
            MATCH: _matches(corpus),
            AUTO: _fitted(model, corpus, corpus.X, steps),
            BEST: _best([_fitted(_model(corpus, s), corpus, corpus.X, steps) for s in of_ours],
                        corpus.y),
        }  # fmt: skip
        curves[name] = reject_curve(
            corpus.y, measured[name][AUTO].nodes, _log_odds(model, corpus.X)
        )
    f1 = {
        name: {method: float(np.mean(one.nodes == corpora[name].y)) for method, one in of.items()}
        for name, of in measured.items()
    }
    shares = {
        name: {
            method: about_keywords(found.nodes, corpora[name].own)
            for method, found in {TRUTH: Found(corpora[name].y), **measured[name]}.items()
            if method in (TRUTH, EM, V_2, AUTO)
        }
        for name in DIRECTORIES
    }
    return Page(
        name="veeramachaneni-table-2",
        corpus=f"{_described(corpora.values())} The last two are the docstrings of the running "
        "Python's standard library, with the names of what they document and without.",
        protocol=_protocol(of_v, of_ours),
        rows=_table_rows(measured, f1, curves, shares),
        figure=lambda: _reject_figure({name: curves[name] for name in DIRECTORIES}),
        tables=(
            _main_table(corpora, measured, f1),
            _wins(f1),
            _reject_table(curves),
            _identity_table(shares),
            _published_table(),
        ),
    )


def _protocol(of_v: Sequence[float], of_ours: Sequence[float]) -> str:
    sigmas, our_sigmas = (", ".join(map(_number, of)) for of in (of_v, of_ours))
    return (
        "Nodes have their keywords, documents no labels; all documents are sorted at once, into "
        "any node but the root (of the standard library, into its modules, where all documents "
        "are), and labels are looked at only to score, and for the columns with "
        "the best σ, which that flatters. None is rejected, so micro F1 is the share of documents "
        "put on their own node. English stop words are left out, words are stemmed (Snowball, "
        f"English), and parts of compounds count as words. {NB}, {EM} and V's HD are V's own "
        "procedure: sets of words, of which those in fewer than 3 or in more than 30 % of the "
        "documents are left out unless they are keywords (V 3.1 leaves out rare and frequent ones "
        f"and gives no numbers). {NB} is V eq. 14 alone; documents with several best nodes, such "
        f"as those without any keyword, go to the first, where V rejects them. {EM} is V's HD with "
        "every node a child of the root and σ = 10⁻⁶. EM begins with eq. 14 and ends after 10 "
        "estimates, or when fewer than 1 % of the documents change their node (V 3.4); P(node) "
        f"counts one document more at every node. The best σ of V's HD is among {sigmas}. "
        f"{MATCH} takes the node whose keywords, and with less weight those above it, weigh most; "
        f"a document without a keyword counts as wrong. {AUTO} is HierarchicalDirichlet as "
        "TaxonomyClassifier has it: roots of the counts of all words, keywords that stay in the "
        "counts, tempered EM, and the σ that makes a part of the documents, drawn with seed "
        f"{SEED}, most likely. Its other settings were chosen by accuracy on these very documents "
        f"and on the newsgroups, some forty variants in all, so its figures flatter it. "
        f"{BEST} is the "
        f"same at the best of {our_sigmas}. V removes documents of fewer than four words and "
        "subtrees whose root has no documents; here all are kept."
    )


def _by_v(corpus: Corpus, sigmas: Sequence[float], steps: Steps) -> dict[str, Found]:
    found = {
        sigma: _fitted(_model(corpus, sigma, **PROCEDURE), corpus, corpus.V, steps)
        for sigma in dict.fromkeys([*sigmas, 2.0])
    }
    return {V_BEST: _best([found[sigma] for sigma in sigmas], corpus.y), V_2: found[2.0]}


def _best(found: Sequence[Found], y: np.ndarray) -> Found:
    return max(found, key=lambda one: float(np.mean(one.nodes == y)))


def _prototypes(corpus: Corpus) -> Found:
    """Sort by V eq. 14 alone.

    A keyword that the document has is worth log 0.9/0.1, and one that it lacks as much less.
    """
    words = _node_words(corpus.keywords)[:, corpus.nodes]
    n_keywords = np.asarray(words.sum(axis=0)).ravel()
    return Found(corpus.nodes[(2 * (corpus.V @ words).toarray() - n_keywords).argmax(axis=1)])


def _plain_em(corpus: Corpus, steps: Steps) -> Found:
    """V's standard EM: nodes share nothing, and the tree has no part."""
    tree = corpus.tree
    names = [join_path((path,)) for path in tree.paths[1:]]
    flat = corpus._replace(
        tree=Taxonomy.from_paths(names, keywords=dict(zip(names, tree.keywords[1:])))
    )
    # Nodes keep their numbers.
    return Found(_fitted(_model(flat, _NO_SHARING, **PROCEDURE), flat, flat.V, steps).nodes)


def _matches(corpus: Corpus) -> Found:
    scores = corpus.keywords.scores(corpus.X, corpus.tree.parent)[:, corpus.nodes]
    return Found(np.where(scores.any(axis=1), corpus.nodes[scores.argmax(axis=1)], 0))


def about_keywords(found: np.ndarray, own: np.ndarray) -> tuple[float, float]:
    """Say how many nodes have documents, and of how many the documents are about their keywords.

    The second is a share of the nodes with documents and with a keyword that any document has:
    of those whose documents have one of the node's own keywords more often than all documents do.
    Where EM takes a node for another (V 3.4), they do not.

    Parameters
    ----------
    found : the node of each document, 0 for none
    own : documents × nodes, whether a document has a keyword of the node itself
    """
    used = np.setdiff1d(found, [0])
    everywhere = own.mean(axis=0)
    more = [own[found == i, i].mean() > everywhere[i] for i in used if everywhere[i] > 0]
    return len(used) / (own.shape[1] - 1), float(np.mean(more)) if more else 0.0


# ---- figure 4 -----------------------------------------------------------------------------------


def figure_4(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """V figure 4, for V's procedure and for leafwise's defaults; `sizes` are the σ."""
    panel_sigmas = {
        "V's HD": _sigmas(sizes, (0.1, 0.2, 0.5, *SIGMAS)),
        "HD": _sigmas(sizes, HALF_DECADES),
    }
    n_fits = sum(len(sigmas) + 1 for sigmas in panel_sigmas.values())
    steps = Steps(len(DIRECTORIES) * n_fits, on_progress)
    f1: dict[str, dict[str, list[float]]] = {method: {} for method in panel_sigmas}
    auto: dict[str, dict[str, tuple[float, float]]] = {method: {} for method in panel_sigmas}
    corpora, rows = [], []
    for name in DIRECTORIES:
        steps.begin(f"Reading {name}")
        corpus = _read(name, data)
        corpora.append(corpus)
        for method, sigmas in panel_sigmas.items():
            settings, X = ({}, corpus.X) if method == "HD" else (PROCEDURE, corpus.V)
            found = [
                _fitted(_model(corpus, sigma, **settings), corpus, X, steps)
                for sigma in [*sigmas, "auto"]
            ]
            *f1[method][name], at_auto = (float(np.mean(one.nodes == corpus.y)) for one in found)
            auto[method][name] = (float(found[-1].sigma or 0.0), at_auto)
            for sigma, value in zip(sigmas, f1[method][name]):
                rows.append(row(method, f"{name}, σ = {_number(sigma)}", "micro_f1", value))
            rows.append(row(method, f"{name}, σ auto", "micro_f1", at_auto))
            rows.append(row(method, f"{name}, σ auto", "sigma", auto[method][name][0]))
    return Page(
        name="veeramachaneni-figure-4",
        corpus=_described(corpora),
        protocol="Micro F1, which is the share of documents put on their own node, by σ. V's HD is "
        "V's own procedure, HD leafwise's defaults, both as in veeramachaneni-table-2. σ auto is "
        "what the model chooses without labels, by how likely a part of the documents, drawn with "
        f"seed {SEED}, is under what the others teach; it chooses from 1 to 10⁶ in half decades, "
        "and is a ring in the figure. For sets of words σ is in documents, for counts in words. V "
        "has a figure without numbers.",
        rows=rows,
        figure=lambda: _sigma_figure(panel_sigmas, f1, auto),
        tables=tuple(
            _sigma_table(method, panel_sigmas[method], f1[method], auto[method])
            for method in panel_sigmas
        ),
    )


# ---- what goes in, and how it is sorted ---------------------------------------------------------


def _sigmas(sizes: Sequence[int] | None, usual: Sequence[float]) -> list[float]:
    return sorted(map(float, usual if sizes is None else sizes))


def _read(name: str, data: Data) -> Corpus:
    if name in DIRECTORIES:
        return _count(name, load_directory(name, data))
    return _count(name, load_stdlib(names=name == "stdlib"))


def _count(name: str, dataset: Dataset) -> Corpus:
    tree = dataset.taxonomy
    counter = WordCounter(stop_words="english", stemmer="english", compounds=True)
    X = counter.fit_transform(dataset.texts)
    keywords = read_keywords(tree, counter, X)
    words = _node_words(keywords)
    n_with_word = np.bincount(X.indices, minlength=X.shape[1])
    kept = (n_with_word >= 3) & (n_with_word <= 0.3 * X.shape[0])
    kept |= np.diff(words.indptr) > 0
    # Columns stay where they are: a word that no document has says nothing.
    V = sparse.csr_matrix(X.multiply(kept[None, :]))
    V.eliminate_zeros()
    V.data[:] = 1
    y = np.asarray(tree.indices(dataset.labels))
    nodes = np.asarray(tree.leaves) if name.startswith("stdlib") else np.arange(1, len(tree))
    return Corpus(name, tree, counter, X, V, y, nodes, keywords, (V @ words).toarray() > 0)


def _node_words(keywords: Keywords) -> sparse.csr_matrix:
    """Return words × nodes: ones where documents have a word that a node has for a keyword."""
    return sparse.csr_matrix((keywords.terms.T @ (keywords.weights > 0)) > 0, dtype=float)


def _model(corpus: Corpus, sigma: Any = "auto", **settings: Any) -> HierarchicalDirichlet:
    nodes = [corpus.tree.paths[i] for i in corpus.nodes]
    settings = {**(settings or OURS), "nodes": nodes, "vocabulary": corpus.counter}
    return HierarchicalDirichlet(corpus.tree, sigma=sigma, random_state=SEED, **settings)


def _fitted(
    model: HierarchicalDirichlet, corpus: Corpus, X: sparse.csr_matrix, steps: Steps
) -> Found:
    """Sort documents by what they teach the model."""
    nodes = np.asarray(corpus.tree.indices(model.fit(X).predict(X).tolist()))
    steps.end(corpus.name)
    return Found(nodes, float(model.sigma_))


# ---- what comes out -----------------------------------------------------------------------------


def _table_rows(
    measured: Measured, f1: F1, curves: Mapping[str, RejectCurve], shares: Pairs
) -> list[dict[str, Any]]:
    rows = []
    for name, methods in measured.items():
        for method, (_, sigma) in methods.items():
            rows.append(row(method, name, "micro_f1", f1[name][method]))
            if sigma is not None:
                rows.append(row(method, name, "sigma", sigma))
    for name, curve in curves.items():
        for rate, value in zip(RATES, curve.at(RATES)):
            if np.isfinite(value):  # some of the documents can be left
                rows.append(row(AUTO, f"{name}, {100 * rate:g} % rejected", "micro_f1", value))
    for name, of in shares.items():
        for method, (with_documents, about) in of.items():
            rows.append(row(method, name, "nodes with documents", with_documents))
            rows.append(row(method, name, "nodes about their keywords", about))
    return rows


def _main_table(corpora: Mapping[str, Corpus], measured: Measured, f1: F1) -> str:
    methods = list(next(iter(f1.values())))
    bracketed = (V_BEST, AUTO, BEST)
    lines = _lines({name: list(of.values()) for name, of in f1.items()})
    for line in lines:
        sizes = ["", ""]
        if line[0] in corpora:
            corpus = corpora[line[0]]
            sizes = [f"{len(corpus.y):,}", f"{len(corpus.tree) - 1:,}"]
            for k, method in enumerate(methods, 1):
                if method in bracketed:
                    line[k] += f" ({_number(measured[line[0]][method].sigma or 0.0)})"
        line[1:1] = sizes
    columns = [f"{method} (σ)" if method in bracketed else method for method in methods]
    return f"## micro F1\n\n{markdown(['taxonomy', 'documents', 'nodes', *columns], lines)}"


def _wins(f1: F1) -> str:
    def above(*others: str) -> int:
        return sum(all(f1[n][AUTO] > f1[n][other] for other in others) for n in DIRECTORIES)

    return (
        f"Of the {len(DIRECTORIES)} directories, {AUTO} is above {MATCH} on {above(MATCH)}, above "
        f"{EM} on {above(EM)}, and above both on {above(MATCH, EM)}."
    )


def _reject_table(curves: Mapping[str, RejectCurve]) -> str:
    header = ["taxonomy", *(f"{100 * rate:g} %" for rate in RATES)]
    lines = _lines({name: curve.at(RATES).tolist() for name, curve in curves.items()})
    return (
        f"## micro F1 when the least sure documents are rejected, {AUTO}\n\n"
        "A rejected document costs recall, not precision. The surest have the highest odds of "
        f"their node.\n\n{markdown(header, lines)}"
    )


def _identity_table(shares: Pairs) -> str:
    lines = [
        [method, *_three(np.mean([of[method] for of in shares.values()], axis=0))]
        for method in next(iter(shares.values()))
    ]
    return (
        "## Are nodes still about their keywords?\n\n"
        "Of all nodes, the share that has documents; of these, the share whose documents have one "
        "of the node's own keywords more often than all documents do, which they would not if EM "
        "had taken one node for another (V 3.4). Means of the directories.\n\n"
        + markdown(["sorted by", "nodes with documents", "of these, about their keywords"], lines)
    )


def _published_table() -> str:
    lines = [
        [name, f"{nb / 100:.4f}", f"{em / 100:.4f}", f"{best / 100:.4f} ({sigma})",
         f"{two / 100:.4f}"]
        for name, (nb, em, best, sigma, two) in TABLE_2.items()
    ]  # fmt: skip
    return (
        "## V's own table 2\n\n"
        "Published, for orientation: these are other taxonomies, which cannot be had.\n\n"
        + markdown(["taxonomy", "NB", "EM", "HD, best σ", "HD, σ = 2"], lines)
    )


def _sigma_table(method: str, sigmas: Sequence[float], f1: Lines, auto: Chosen) -> str:
    lines = _lines({name: [*values, auto[name][1]] for name, values in f1.items()})
    for line in lines[: len(auto)]:
        line[-1] += f" ({_number(auto[line[0]][0])})"
    header = ["taxonomy", *(f"σ = {_number(sigma)}" for sigma in sigmas), "σ auto (σ)"]
    return f"## micro F1, {method}\n\n{markdown(header, lines)}"


def _lines(figures: Lines) -> list[list[str]]:
    """Return a line for each taxonomy, and after the directories one for their mean."""
    mean = np.mean([figures[name] for name in DIRECTORIES], axis=0)
    lines = [[name, *_three(values)] for name, values in figures.items()]
    lines.insert(len(DIRECTORIES), ["mean of the directories", *_three(mean)])
    return lines


def _described(corpora: Iterable[Corpus]) -> str:
    sizes = "; ".join(
        f"{c.name}: {c.X.shape[0]:,} documents, {len(c.tree) - 1:,} nodes, {c.X.shape[1]:,} words"
        for c in corpora
    )
    return (
        "Parts of a web directory, one-line descriptions and titles of links, in place of V's, "
        f"which cannot be had. {sizes}."
    )


def _three(values: Iterable[float]) -> list[str]:
    return [f"{value:.3f}" for value in values]


def _number(sigma: float) -> str:
    return f"{sigma:,.3g}" if sigma < 1000 else f"{sigma:,.0f}"


def _reject_figure(curves: Mapping[str, RejectCurve]) -> Any:
    both, axes = panels()
    for ax, metric, label in zip(axes, ("micro_f1", "precision"), ("micro F1", "precision")):
        for style, (name, curve) in zip(_styles(), curves.items()):
            shown = curve.reject_rate <= 0.9  # beyond, too few are left
            values = getattr(curve, metric)[shown]
            ax.plot(100 * curve.reject_rate[shown], values, label=name, **style)
        _dress(ax, label, "documents rejected, percent")
    axes[0].set_ylim(bottom=0)
    axes[0].legend(frameon=False, fontsize=8, ncols=2)
    return both


def _sigma_figure(sigmas: Lines, f1: Mapping[str, Lines], auto: Mapping[str, Chosen]) -> Any:
    both, axes = panels()
    titles = {"V's HD": "V's procedure", "HD": "leafwise's defaults"}
    for ax, method in zip(axes, sigmas):
        for style, (name, values) in zip(_styles(), f1[method].items()):
            ax.semilogx(sigmas[method], values, marker=".", label=name, **style)
            at, value = auto[method][name]
            ax.plot([at], [value], "o", color=style["color"], markersize=9, fillstyle="none")
        _dress(ax, titles[method], "σ (rings: the one chosen without labels)")
    axes[0].set_ylabel("micro F1")
    axes[0].set_ylim(bottom=0)
    axes[1].legend(frameon=False, fontsize=8, ncols=2)
    return both


def _styles() -> list[dict[str, Any]]:
    """Return more than there are directories: those past the last colour are dashed."""
    styles = product(("-", "--"), COLORS)
    return [{"color": color, "linestyle": line, "linewidth": 1.5} for line, color in styles]


def _dress(ax: Any, title: str, below: str) -> None:
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(below)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#DDDDDD", linewidth=0.6)
