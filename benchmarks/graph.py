"""The neighbour graph and harmonic functions: how long they take beside others, and how they grow.

The first part is of the 18,828 documents of 20 Newsgroups (all fields, stop words left out, Porter
stems): every method in turn, several times, medians; ratios are within a run. The second is of
documents drawn by `make_corpus`, up to the size of RCV1; each size has a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from measuring import alone, head, in_turn, peak, row, slope
from scipy import sparse
from sklearn.neighbors import kneighbors_graph
from sklearn.semi_supervised import LabelSpreading

import leafwise as lw
from leafwise.datasets import load_20newsgroups
from leafwise.models.graph import NeighborIndex
from leafwise.synthetic import make_corpus

K = 30
PER_CLASS = 20
SIZES = (10_000, 20_000, 50_000, 100_000, 200_000, 400_000, 804_414)
EXACT_UP_TO = 100_000
SAMPLE = 1000  # documents on which recall is measured
MORE = 1000  # documents looked at for each word, in place of 200
TOPICS, WORDS, LENGTH = 103, 50_000, 100  # about 76 distinct words in a document

PAGE = """\
# Scale of the neighbour graph

Printed by `make docs` (`python benchmarks/graph.py --data DIR --out FILE`) on {} cores of {},
Python {}. Times vary with what else the machine does; ratios are of methods that took turns in one
run.
"""
GROWTH = """\
Drawn by `make_corpus`: {} topics, {:,} words, {} words in a document. "Approximate" looks at no
more than 200 documents for each word. Recall is the share of the 30 exact neighbours that it finds,
for {:,} documents; "recall, {:,}" is that of looking at so many documents for each word. The
harmonic solution is for {} classes, with twenty labels each. Memory is the most that the process
had at once, with imports and documents.
"""


def prepared(data: str | None) -> tuple[sparse.csr_matrix, np.ndarray]:
    news = load_20newsgroups(version="18828", fields="all", groups=20, data=data)
    X = lw.WordCounter(stop_words="english", stemmer="porter").fit_transform(news.texts)
    return X, np.array(news.labels)


def some_labels(y: np.ndarray, seed: int = 0) -> np.ndarray:
    """Keep twenty labels of each class, and None for the rest."""
    rng = np.random.default_rng(seed)
    kept = np.full(len(y), None, object)
    for name in np.unique(y):
        drawn = rng.permutation(np.flatnonzero(y == name))[:PER_CLASS]
        kept[drawn] = name
    return kept


def recall(exact: sparse.csr_matrix, found: Any) -> float:
    """Return how many of the exact neighbours were found, of every tenth document."""
    shares = []
    for i in range(0, exact.shape[0], 10):
        mine = exact.indices[exact.indptr[i] : exact.indptr[i + 1]]
        shares.append(len(np.intersect1d(mine, found[i])) / max(len(mine), 1))
    return float(np.mean(shares))


def newsgroups(data: str | None, repeat: int) -> None:
    X, y = prepared(data)
    n = X.shape[0]
    index = NeighborIndex("cosine").fit(X)
    weights = index._B
    words = sparse.csr_matrix(weights.T)
    labels = some_labels(y)
    numbers = np.array(
        [-1 if label is None else int(np.unique(y).searchsorted(label)) for label in labels]
    )
    hidden = numbers < 0
    right: dict[str, float] = {}
    recalls: dict[str, float] = {}
    exact = index.graph(K)
    graph = lw.neighbor_graph(X, K, symmetric=True)

    def bare() -> Any:
        from sparse_dot_topn import sp_matmul_topn

        return sp_matmul_topn(weights, words, top_n=K + 1, n_threads=os.cpu_count(), sort=False)

    def descent() -> None:
        from pynndescent import NNDescent

        made = NNDescent(weights, "cosine", n_neighbors=K + 1, random_state=0, n_jobs=2)
        found = made.neighbor_graph[0]
        others = [[j for j in near if j != i][:K] for i, near in enumerate(found.tolist())]
        recalls["descent"] = recall(exact, others)

    def approximate() -> None:
        found = NeighborIndex("cosine", approximate=True).fit(X).graph(K)
        recalls["approximate"] = recall(exact, np.split(found.indices, found.indptr[1:-1]))

    def harmonic() -> None:
        model = lw.HarmonicClassifier(k=K).fit(X, labels)
        right["harmonic"] = float(np.mean(model.transduction_[hidden] == y[hidden]))

    def solved() -> None:
        lw.HarmonicClassifier(k=n, similarity="precomputed").fit(graph, labels)

    def spreading() -> None:
        model = LabelSpreading(kernel="knn", n_neighbors=K, n_jobs=2).fit(weights, numbers)
        found = np.unique(y)[model.transduction_]
        right["spreading"] = float(np.mean(found[hidden] == y[hidden]))

    methods = {
        "bare": bare,
        "graph": lambda: NeighborIndex("cosine").fit(X).graph(K),
        "kl": lambda: NeighborIndex("kl").fit(X).graph(K),
        "approximate": approximate,
        "descent": descent,
        "scikit-learn": lambda: kneighbors_graph(weights, K, metric="cosine", n_jobs=2),
        "harmonic": harmonic,
        "solve": solved,
        "spreading": spreading,
    }
    took = in_turn(methods, repeat)
    print(f"## 20 Newsgroups: {n:,} documents, {X.shape[1]:,} words, k = {K}\n")
    head("what", "s", "× the bare product", "recall")
    names = {
        "bare": "the bare product, `sp_matmul_topn` of sparse_dot_topn",
        "graph": "exact graph, cosine, with its weights",
        "kl": "exact graph, KL, with its weights",
        "approximate": "approximate graph, cosine",
        "descent": "`NNDescent` of pynndescent, cosine, approximate",
        "scikit-learn": "`kneighbors_graph` of scikit-learn, cosine",
    }
    for name, said in names.items():
        found = f"{recalls[name]:.3f}" if name in recalls else ""
        row([said, f"{took[name]:.2f}", f"{took[name] / took['bare']:.2f}", found])
    print(f"\n### With {PER_CLASS} labels for each of 20 classes\n")
    head("what", "s", "× the exact graph", "accuracy")
    said = "graph given: components, solution, masses"
    row([said, f"{took['solve']:.2f}", f"{took['solve'] / took['graph']:.2f}", ""])
    for name, said in (
        ("harmonic", "`HarmonicClassifier`, whole"),
        ("spreading", '`LabelSpreading(kernel="knn", n_jobs=2)` on the same weights'),
    ):
        ratio = took[name] / took["graph"]
        row([said, f"{took[name]:.2f}", f"{ratio:.2f}", f"{right[name]:.3f}"])
    print()


def drawn(n: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    tree = lw.Taxonomy.from_paths([f"t{i}" for i in range(TOPICS)])
    corpus = make_corpus(
        tree, n, WORDS, LENGTH, concentration=100.0, level_weights=[0.9, 0.1], random_state=0
    )
    return corpus.X, np.array(corpus.labels)


def without_itself(found: sparse.csr_matrix, own: np.ndarray) -> sparse.csr_matrix:
    """Return 1 for each document that was found, other than the one that was asked for."""
    mine = np.repeat(own, np.diff(found.indptr))
    one = sparse.csr_matrix(
        ((found.indices != mine).astype(float), found.indices, found.indptr), found.shape
    )
    one.eliminate_zeros()
    return one


def measure(n: int, exact: bool) -> dict[str, float]:
    """Make the graph of drawn documents and solve for their labels."""
    warm = make_corpus(n_documents=300, random_state=0)
    for approximate in (False, True):
        lw.HarmonicClassifier(approximate=approximate).fit(
            warm.X, some_labels(np.array(warm.labels))
        )
    X, y = drawn(n)
    labels = some_labels(y)
    hidden = np.equal(labels, None)
    found: dict[str, float] = {}
    started = time.perf_counter()
    index = NeighborIndex("kl", approximate=True).fit(X)
    graph = index.graph(K)
    found["approximate"] = time.perf_counter() - started
    some = np.random.default_rng(0).permutation(n)[:SAMPLE]
    started = time.perf_counter()
    truth = without_itself(NeighborIndex("kl").fit(X).query(X[some], K + 1), some)
    found["exact, each"] = (time.perf_counter() - started) / SAMPLE
    more = NeighborIndex("kl", approximate=MORE).fit(X).query(X[some], K + 1)
    for name, near in (("recall", graph[some]), ("recall, more", without_itself(more, some))):
        found[name] = float(truth.multiply(near > 0).sum() / truth.sum())
    if exact:
        started = time.perf_counter()
        NeighborIndex("kl").fit(X).graph(K)
        found["exact"] = time.perf_counter() - started
    started = time.perf_counter()
    model = lw.HarmonicClassifier(k=n, similarity="precomputed").fit(graph, labels)
    found["solve"] = time.perf_counter() - started
    found["accuracy"] = float(np.mean(model.transduction_[hidden] == y[hidden]))
    found["distinct"] = X.nnz / n
    found["peak"] = peak()
    return found


def growth(largest: int) -> None:
    print("## Growth\n")
    print(GROWTH.format(TOPICS, WORDS, LENGTH, SAMPLE, MORE, TOPICS))
    recalls = "recall", f"recall, {MORE:,}"
    head("documents", "exact, s", "approximate, s", *recalls, "solve, s", "accuracy", "GiB")
    sizes = [n for n in SIZES if n <= largest]
    table = []
    for n in sizes:
        found = alone(measure, n, n <= EXACT_UP_TO)
        table.append(found)
        exact = f"{found['exact']:.1f}" if "exact" in found else f"({n * found['exact, each']:.0f})"
        recalls = f"{found['recall']:.3f}", f"{found['recall, more']:.3f}"
        solved = f"{found['solve']:.1f}", f"{found['accuracy']:.3f}", f"{found['peak']:.2f}"
        row([f"{n:,}", exact, f"{found['approximate']:.1f}", *recalls, *solved])
    known = [n for n, found in zip(sizes, table) if "exact" in found]
    slopes = [
        slope(known, [found["exact"] for found in table[: len(known)]]),
        slope(sizes, [found["approximate"] for found in table]),
        "",
        "",
        slope(sizes, [found["solve"] for found in table]),
    ]
    row(["exponent", *slopes, "", ""])
    print(
        "\nIn brackets: what all documents would take, by the time of those that recall is for.\n"
    )


def printed(function: Callable, *args: Any) -> str:
    """Call a function and return what it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        function(*args)
    return output.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--repeat", type=int, default=3, help="how often each method is timed")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="most documents to draw")
    parser.add_argument("--out", type=Path, help="Markdown file to write, besides printing")
    args = parser.parse_args()
    page = io.StringIO()
    with contextlib.redirect_stdout(page):
        print(PAGE.format(os.cpu_count(), platform.machine(), platform.python_version()))
        print(alone(printed, newsgroups, args.data, args.repeat), end="")
        growth(args.largest)
    print(page.getvalue())
    if args.out:
        args.out.write_text(page.getvalue().rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
