"""Trees that grow: how long that takes beside others, how it grows, and the tree of all newsgroups.

Every line is measured in a process of its own. --tree writes the page and picture of the tree that
grows from all 20 Newsgroups.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import alone, head, n_cores, peak, row, slope
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import leafwise as lw
from leafwise import growing
from leafwise.datasets import Dataset, load_20newsgroups, load_stdlib
from leafwise.models._tfidf import LogTfIdf
from leafwise.papers.gaussier import hlda, measure, sample
from leafwise.plots import TreeWordsDisplay
from leafwise.synthetic import make_corpus

SMALL, GROUPS = 700, 16  # as in gaussier-table-1
LEAVES = 20
HLDA = {SMALL: (1.0, 200), 18_828: (1.0, 20)}  # η, and steps of Gibbs sampling
DOCUMENTS, WORDS, LENGTH = 8000, 10_000, 100  # of drawn documents
ALONG: dict[str, tuple[int, ...]] = {
    "documents": (2000, 4000, 8000, 16_000),
    "leaves": (4, 8, 16, 32),
    "words": (2500, 5000, 10_000, 20_000, 40_000),
}

PAGE = """\
# Scale of growth

Printed by `make docs` (`python benchmarks/growth.py --data DIR --out FILE`) on {} of {},
Python {}. Times vary with what else the machine does. Gini impurities are of one leaf for each
document and count documents alike (`gini_impurity(..., weighted=True)`): how far a label is spread
over leaves, and a leaf over labels; lower is better.
"""
GROWN = """\
Drawn by `make_corpus` from a tree of two levels with {} leaves: {:,} documents of {} words, {:,}
different ones, unless the table says otherwise, and 16 leaves to grow. Memory is the most that the
process had at once, with imports and documents.
"""
TREE = """\
# The tree of the 20 Newsgroups

{} messages of 20 newsgroups, subject and body, without their labels. Words are counted as
`leafwise grow` does; `HPLSA({})` grew this tree in {:.0f} s. Names are the words that set a node
apart from the one above it. Beside each leaf stand the newsgroups that most of its messages are
from.

![the tree](newsgroups-tree.png)

```text
{}
```
"""
PAIRS = """
## Messages of one group under one branch

T puts newsgroups into groups (religion, politics, sports, vehicles, computers; here also science
and sales), which the tree has not seen. Cut at each depth, how many pairs of messages lie under the
same branch: of those from one newsgroup, from one group of T, from different groups.
"""


def cores() -> str:
    """Say how many cores this process may use."""
    n = n_cores()
    return "one core" if n == 1 else f"{n} cores"


def all_newsgroups(data: str | None) -> Dataset:
    return load_20newsgroups("18828", groups=20, data=data)


def documents(data: str | None, n: int) -> tuple[sparse.csr_matrix, np.ndarray, int]:
    """Return words, labels, and how many leaves to grow."""
    news = all_newsgroups(data)
    labels = np.array(news.labels)
    if n == SMALL:
        return sample(np.array(news.texts, dtype=object), labels, GROUPS, n, 0)
    X = lw.WordCounter(stop_words="english").fit_transform(news.texts)
    X = X[:, np.bincount(X.indices, minlength=X.shape[1]) >= 2]
    there = np.flatnonzero(np.diff(X.indptr))  # hLDA has no place for a document without words
    return X[there], labels[there], LEAVES


def grow(X: sparse.csr_matrix, n_leaves: int, **settings: Any) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return lw.HPLSA(n_leaves, random_state=0, **settings).fit(X).p_leaf_given_document_


def k_means(X: sparse.csr_matrix, n_leaves: int) -> np.ndarray:
    return KMeans(n_leaves, n_init=10, random_state=0).fit_predict(LogTfIdf().fit_transform(X))


def by_hlda(X: sparse.csr_matrix, n_leaves: int) -> np.ndarray:
    smoothing, steps = HLDA[min(HLDA, key=lambda n: abs(n - X.shape[0]))]
    return hlda(X, smoothing, 0, steps)


METHODS: dict[str, tuple[Callable[..., np.ndarray], dict[str, Any]]] = {
    "`HPLSA`": (grow, {}),
    '`HPLSA(variant="cem")`': (grow, {"variant": "cem"}),
    '`HPLSA(variant="sem")`': (grow, {"variant": "sem"}),
    "`HPLSA`, as many leaves as held-out words bear out": (grow, {}),
    "`KMeans(n_init=10)` of scikit-learn, tf-idf": (k_means, {}),
    "`HLDAModel` of tomotopy": (by_hlda, {}),
}


def timed(data: str | None, n: int, name: str) -> dict[str, float]:
    method, settings = METHODS[name]
    X, y, n_leaves = documents(data, n)
    warm = make_corpus(n_documents=200, random_state=0).X
    if method is grow:  # loops are compiled
        grow(warm, 3, **settings)
    started = time.perf_counter()
    clusters = method(X, "auto" if "held-out" in name else n_leaves, **settings)
    took = time.perf_counter() - started
    return {"s": took, "GiB": peak(), **measure(clusters, y)}


def beside_others(data: str | None, n: int) -> None:
    X, _, n_leaves = documents(data, n)
    print(f"## {X.shape[0]:,} documents, {X.shape[1]:,} words, {n_leaves} leaves\n")
    head("what", "s", "× HPLSA", "leaves", "G_l", "G_α", "NMI", "GiB")
    ours = 0.0
    for name in METHODS:
        if n > SMALL and "held-out" in name:
            continue  # it grows until it is worse, which takes an hour
        found = alone(timed, data, n, name)
        ours = ours or found["s"]
        said = f"{name}, {HLDA[n][1]} steps" if "HLDA" in name else name
        figures = [f"{found[m]:.3f}" for m in ("G_l, by documents", "G_α, by documents", "NMI")]
        times = f"{found['s']:.1f}", f"{found['s'] / ours:.2f}", f"{found['leaves']:.0f}"
        row([said, *times, *figures, f"{found['GiB']:.2f}"])
        print(f"{name}: {found['s']:.1f} s", file=sys.stderr, flush=True)
    print()


def grown(n: int, n_leaves: int, n_words: int) -> tuple[float, float]:
    tree = lw.Taxonomy.from_paths([f"g{i // 8}/t{i}" for i in range(64)])
    X = make_corpus(tree, n, n_words, LENGTH, concentration=50.0, random_state=0).X
    grow(X[:200], 3)
    started = time.perf_counter()
    grow(X, n_leaves)
    return time.perf_counter() - started, peak()


def growth() -> None:
    print("## Growth\n")
    print(GROWN.format(64, DOCUMENTS, LENGTH, WORDS))
    usual = {"documents": DOCUMENTS, "leaves": 16, "words": WORDS}
    for along, sizes in ALONG.items():
        head(along, "s", "GiB")
        times = []
        for size in sizes:
            took, memory = alone(grown, *(usual | {along: size}).values())
            times.append(took)
            row([f"{size:,}", f"{took:.1f}", f"{memory:.2f}"])
            print(f"{size:,} {along}: {took:.1f} s", file=sys.stderr, flush=True)
        row(["exponent", slope(sizes, times), ""])
        print()


def agreement(data: str | None) -> None:
    """Grow a tree, and sort the documents into it by its keywords alone."""
    print("## A tree that grew, and documents sorted by its keywords\n")
    print(
        "`leafwise grow`, then `leafwise classify` with the tree and no labels: how many\n"
        "documents both put on the same leaf, and how many of those where `grow` is more than .9\n"
        "sure.\n"
    )
    head("documents", "leaves", "the same", "where sure")
    news = load_20newsgroups("18828", groups=20, data=data)
    some = np.random.default_rng(0).choice(len(news), 2000, replace=False)
    stdlib = load_stdlib(names=False)
    for name, texts, n_leaves in (
        ("docstrings of Python's library", stdlib.texts, 12),
        ("newsgroup messages", news.subset(some).texts, 16),
    ):
        result = growing.grow(growing.count_words(texts), n_leaves)
        sorted_ = lw.TaxonomyClassifier(result.tree).fit(texts).transduction_
        best = result.best(result.tree.paths, 1)
        same = np.array([sorted_[i] == leaf for i, [(leaf, _)] in best.items()])
        sure = np.array([p > 0.9 for [(_, p)] in best.values()])
        figures = f"{same.mean():.2f}", f"{same[sure].mean():.2f}"
        row([f"{len(texts):,} {name}", n_leaves, *figures])
    print()


# ---- the tree of all newsgroups -----------------------------------------------------------------


def pairs(parts: np.ndarray, branches: np.ndarray) -> float:
    """Return how many pairs of one part are of one branch."""
    _, part = np.unique(parts, return_inverse=True)
    _, branch = np.unique(branches, return_inverse=True)
    table = np.zeros((part.max() + 1, branch.max() + 1))
    np.add.at(table, (part, branch), 1)
    of_part = table.sum(axis=1)
    return float((table * (table - 1)).sum() / (of_part * (of_part - 1)).sum())


def apart(parts: np.ndarray, branches: np.ndarray) -> float:
    """Return how many pairs of different parts are of one branch."""
    n, one = len(parts), np.zeros(len(parts))
    _, sizes = np.unique(parts, return_counts=True)
    within = float((sizes * (sizes - 1.0)).sum())
    all_pairs = n * (n - 1.0)
    return (pairs(one, branches) * all_pairs - pairs(parts, branches) * within) / (
        all_pairs - within
    )


def tree_of_newsgroups(data: str | None, picture: str) -> str:
    """Grow, draw, and return the page."""
    news = all_newsgroups(data)
    labels = np.array(news.labels)
    words = growing.count_words(news.texts)
    X, labels = words.X, labels[words.documents]
    started = time.perf_counter()
    model = lw.HPLSA(LEAVES, vocabulary=words.words).fit(X)
    took = time.perf_counter() - started
    tree = model.tree_
    leaf = model.leaves_[model.p_leaf_given_document_.argmax(axis=1)]
    lines = []
    for i in range(1, len(tree)):
        below = (leaf >= i) & (leaf < tree.end[i])
        line = f"{'    ' * (int(tree.depth[i]) - 1)}{tree.names[i]} ({below.sum():,})"
        if i in tree.leaves:
            names, sizes = np.unique(labels[below], return_counts=True)
            most = np.argsort(-sizes)[:2]
            line += "  ← " + ", ".join(
                f"{names[k].rpartition('/')[2]} {sizes[k] / max(below.sum(), 1):.0%}" for k in most
            )
        lines.append(line)
    display = TreeWordsDisplay(tree, [keywords[3:8] for keywords in tree.keywords]).plot()
    display.figure_.savefig(picture, dpi=80)
    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        print(TREE.format(f"{X.shape[0]:,}", LEAVES, took, "\n".join(lines)), end="")
        print(PAIRS)
        head("depth", "branches", "one newsgroup", "one group of T", "different groups")
        groups = np.array([label.partition("/")[0] for label in labels])
        for depth in range(1, int(tree.depth.max()) + 1):
            above = [
                next(a for a in (v, *tree.ancestors(v)) if tree.depth[a] <= depth) for v in leaf
            ]
            branches = np.array(above)
            shares = pairs(labels, branches), pairs(groups, branches), apart(groups, branches)
            row([depth, len(np.unique(branches)), *(f"{share:.3f}" for share in shares)])
        print("\nWritten by `python benchmarks/growth.py --data DIR --tree FILE`.")
    return page.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--out", type=Path, help="Markdown file to write, besides printing")
    parser.add_argument("--tree", type=Path, help="page of the newsgroups' tree, and nothing else")
    args = parser.parse_args()
    if args.tree:
        page = alone(tree_of_newsgroups, args.data, str(args.tree.with_suffix(".png")))
        args.tree.write_text(page, encoding="utf-8")
        return
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        print(PAGE.format(cores(), platform.machine(), platform.python_version()))
        beside_others(args.data, SMALL)
        beside_others(args.data, 18_828)
        growth()
        agreement(args.data)
    print(output.getvalue())
    if args.out:
        args.out.write_text(output.getvalue().rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
