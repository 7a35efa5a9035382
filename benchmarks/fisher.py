"""Whether Fisher kernels help where labels are few: the table of docs/fisher.md.

T's 15 newsgroups, subject and body, English stop words left out, words of fewer than three
occurrences dropped. All documents are given to HPLSA and PLSA without labels; some labels of each
group are given to the classifiers, and accuracy is on the other documents.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

import leafwise as lw
from leafwise.datasets import load_20newsgroups
from leafwise.evaluation import FewLabelSplit, few_labels
from leafwise.fisher import FisherMap
from leafwise.models._tfidf import LogTfIdf
from leafwise.models.growth import HPLSA

SIZES = (7, 20)
K = 30
LEAST = 0.01
PARTS: dict[str, Any] = {
    "k1": "classes",
    "k2": "words",
    "k1 + k2 + k3": ("classes", "words", "levels"),
}


def vectors(X: sparse.csr_matrix, n_leaves: int) -> Iterator[tuple[str, sparse.csr_matrix]]:
    """Yield what documents are compared by, each of length 1."""
    tfidf = LogTfIdf().fit(X).transform(X)
    yield "tf-idf", tfidf
    for name, topics in (("HPLSA", "path"), ("PLSA", "leaf")):
        started = time.perf_counter()
        model = HPLSA(n_leaves, topics=topics, random_state=0).fit(X)
        took = time.perf_counter() - started
        print(f"{name}: {len(model.leaves_)} leaves, {took:.0f} s", flush=True)
        for said, parts in PARTS.items():
            features = normalize(FisherMap(model, parts, least=LEAST).fit(X).transform(X))
            yield f"{name}, {said}", features
            if isinstance(parts, str):
                both = sparse.hstack([tfidf, features], format="csr")
                yield f"{name}, {said}, beside tf-idf", normalize(both)


def by_margin(V: sparse.csr_matrix, y: np.ndarray, known: np.ndarray, rest: np.ndarray) -> float:
    return float(LinearSVC().fit(V[known], y[known]).score(V[rest], y[rest]))


def by_graph(graph: sparse.csr_matrix, y: np.ndarray, known: np.ndarray, rest: np.ndarray) -> float:
    model = lw.HarmonicClassifier(similarity="precomputed", k=len(y))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No label reaches")
        model.fit(graph, few_labels(y, known))
    return float(np.mean(model.transduction_[rest] == y[rest]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--leaves", type=int, default=30)
    args = parser.parse_args()
    news = load_20newsgroups(data=args.data)
    X = lw.WordCounter(stop_words="english", min_count=3).fit_transform(news.texts)
    y = np.array(news.labels)
    print(f"{X.shape[0]:,} documents, {X.shape[1]:,} words, {args.draws} draws\n")
    rows = []
    for name, V in vectors(X, args.leaves):
        graph = lw.neighbor_graph(V, K, "embedding", symmetric=True)
        cells = []
        for classify, given in ((by_margin, V), (by_graph, graph)):
            for n in SIZES:
                splits = FewLabelSplit(n, args.draws).split(X, y)
                right = [classify(given, y, known, rest) for known, rest in splits]
                cells.append(f"{np.mean(right):.3f} ± {np.std(right, ddof=1):.3f}")
        rows.append([name, f"{V.nnz / X.shape[0]:,.0f}", *cells])
    methods = [f"{what}, {n}" for what in ("SVM", "graph") for n in SIZES]
    print("\n| vectors | numbers per document | " + " | ".join(methods) + " |")
    print("|---|" + "---|" * (len(methods) + 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
