"""What is measured for docs/performance.md: leafwise, and the libraries that do the same work.

Each function does one piece of work on a corpus, and returns what was measured: seconds of its
steps, how good the result is, and what it needs to be compared by. It runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import re
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring import forget_peak
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from sklearn.naive_bayes import ComplementNB, MultinomialNB
from sklearn.neighbors import kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import LinearSVC

import leafwise as lw
from leafwise.models.graph import NeighborIndex
from leafwise.taxonomy import Taxonomy
from leafwise.threads import limited

K = 30  # neighbours
_CORES = os.cpu_count() or 1


class Work(NamedTuple):
    """Documents to work on.

    Attributes
    ----------
    known : numbers of the documents whose labels are given; the others are sorted
    asked : other texts, which are sorted in place of these to measure speed
    """

    texts: list[str]
    labels: np.ndarray
    tree: Taxonomy
    known: np.ndarray
    asked: list[str] = []  # noqa: RUF012 - never changed

    @property
    def rest(self) -> np.ndarray:
        return np.setdiff1d(np.arange(len(self.texts)), self.known)

    @property
    def megabytes(self) -> float:
        return sum(len(text.encode()) for text in self.texts) / 1e6

    def some(self, rows: np.ndarray) -> list[str]:
        return [self.texts[i] for i in rows]


class Unavailable(Exception):
    """A peer is not installed."""


class Memory:
    """The most memory that this process has had, from some point on, in MiB."""

    def begin(self) -> None:
        forget_peak()
        self._start = self.peak()

    def above(self) -> float:
        return self.peak() - self._start

    def peak(self) -> float:
        status = Path("/proc/self/status")
        if status.exists():  # what `getrusage` says begins with the memory of the parent process
            line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
            return int(line.split()[1]) / 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


memory = Memory()


def timed(function: Callable, *arguments: Any) -> tuple[float, Any]:
    started = time.perf_counter()
    found = function(*arguments)
    return time.perf_counter() - started, found


# ---- words to counts -----------------------------------------------------------------------------

COUNTERS: dict[str, Callable[[], Any]] = {
    "CountVectorizer": CountVectorizer,
    "HashingVectorizer": HashingVectorizer,
    "WordCounter": lw.WordCounter,
    "WordCounter, one thread": lambda: lw.WordCounter(n_jobs=1),
    "WordCounter, stems and compounds": lambda: lw.WordCounter(
        stop_words="english", stemmer="english", compounds=True
    ),
}


def count(work: Work, name: str) -> dict[str, Any]:
    counter = COUNTERS[name]()
    if name.startswith("WordCounter"):
        COUNTERS[name]().fit_transform(work.texts[:20])  # loops are loaded
    fit, X = timed(counter.fit_transform, work.texts)
    again, _ = timed(counter.transform, work.texts)
    # What tells whether two matrices are the same; of hashed words the columns mean nothing.
    return {"fit": fit, "transform": again, "same": [*X.shape, X.nnz, float(X.sum())]}


# ---- counts to labels ----------------------------------------------------------------------------


class PerParent(ClassifierMixin, BaseEstimator):
    """A classifier at each inner node (hiclass), of paths as labels."""

    def __init__(self, tree: Taxonomy, local: Any = None):
        self.tree, self.local = tree, local

    def fit(self, X: Any, y: np.ndarray) -> PerParent:
        try:
            from hiclass import LocalClassifierPerParentNode
        except ImportError as error:
            raise Unavailable(str(error)) from None
        rows = [self._levels(label) for label in y.tolist()]
        deepest = max(map(len, rows))
        levels = np.array([row + [""] * (deepest - len(row)) for row in rows], dtype=object)
        self.model_ = LocalClassifierPerParentNode(local_classifier=self.local).fit(X, levels)
        return self

    def predict(self, X: Any) -> np.ndarray:
        found = self.model_.predict(X).tolist()
        last = [[level for level in row if level][-1] for row in found]
        return np.array([level.removesuffix("/.") for level in last])

    def _levels(self, label: str) -> list[str]:
        node = self.tree.index(label)
        path = [self.tree.paths[node]]
        leaf = self.tree.end[node] == node + 1
        while (node := int(self.tree.parent[node])) > 0:
            path.insert(0, self.tree.paths[node])
        return path if leaf else [*path, path[-1] + "/."]  # documents of an inner node have a leaf


class ClassTfIdf(ClassifierMixin, BaseEstimator):
    """The class whose words, weighed by BERTopic's class-based tf-idf, are nearest (cosine)."""

    def fit(self, X: Any, y: np.ndarray) -> ClassTfIdf:
        self.classes_, column = np.unique(y, return_inverse=True)
        of_class = sparse.csr_matrix((np.ones(len(y)), (column, np.arange(len(y)))))
        counts = sparse.csr_matrix(of_class @ X)
        self.words_ = np.flatnonzero(np.asarray(counts.sum(axis=0)).ravel())
        self.weights_ = normalize(_class_tfidf().fit_transform(counts[:, self.words_]))
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[(X[:, self.words_] @ self.weights_.T).toarray().argmax(axis=1)]


def _class_tfidf() -> Any:
    """Return BERTopic's transformer, from its file: the package needs many others."""
    spec = importlib.util.find_spec("bertopic")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable("No module named 'bertopic'")
    file = Path(spec.submodule_search_locations[0]) / "vectorizers" / "_ctfidf.py"
    own = importlib.util.spec_from_file_location("class_tfidf", file)
    assert own is not None
    assert own.loader is not None
    module = importlib.util.module_from_spec(own)
    own.loader.exec_module(module)
    return module.ClassTfidfTransformer()


CLASSIFIERS: dict[str, Callable[[Taxonomy], Any]] = {
    "MultinomialNB": lambda tree: MultinomialNB(),
    "ComplementNB": lambda tree: ComplementNB(),
    "LinearSVC": lambda tree: LinearSVC(random_state=0),
    "hiclass, MultinomialNB at each node": lambda tree: PerParent(tree, MultinomialNB()),
    "BERTopic's class-based tf-idf": lambda tree: ClassTfIdf(),
    "NaiveBayes": lambda tree: lw.NaiveBayes(tree),
    "HierarchicalShrinkage": lambda tree: lw.HierarchicalShrinkage(tree),
    "HierarchicalMixture": lambda tree: lw.HierarchicalMixture(tree),
    "HierarchicalDirichlet": lambda tree: lw.HierarchicalDirichlet(tree),
}


def classify(work: Work, name: str) -> dict[str, Any]:
    X = lw.WordCounter(stop_words="english", min_count=2).fit_transform(work.texts)
    known, rest, y = work.known, work.rest, work.labels
    few = known[:: max(1, len(known) // 50)]
    if name in OURS:
        model = CLASSIFIERS[name](work.tree).fit(X[few], y[few])  # loops are loaded
        model.predict(X[few])
    model = CLASSIFIERS[name](work.tree)
    memory.begin()
    fit, _ = timed(model.fit, X[known], y[known])
    predict, found = timed(model.predict, X[rest])
    return {"fit": fit, "predict": predict, "score": float(np.mean(found == y[rest]))}


# ---- raw text to labels --------------------------------------------------------------------------


class FastText(ClassifierMixin, BaseEstimator):
    """fastText's linear model of words and pairs of words; it does not shuffle by itself."""

    def fit(self, texts: list[str], y: np.ndarray) -> FastText:
        try:
            import fasttext
        except ImportError as error:
            raise Unavailable(str(error)) from None
        fasttext.FastText.eprint = lambda *_: None
        self.classes_, column = np.unique(y, return_inverse=True)
        order = np.random.default_rng(0).permutation(len(texts))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "texts"
            lines = (f"__label__{column[i]} {_one_line(texts[i])}\n" for i in order)
            file.write_text("".join(lines), encoding="utf-8")
            how = {"epoch": 100, "lr": 0.5, "wordNgrams": 2, "bucket": 200_000, "seed": 0}
            try:
                self.model_ = fasttext.train_supervised(str(file), thread=_CORES, verbose=0, **how)
            except RuntimeError as error:  # its loss can overflow
                raise Unavailable(str(error)) from None
        return self

    def predict(self, texts: list[str]) -> np.ndarray:
        found, _ = self.model_.predict(list(map(_one_line, texts)))
        return self.classes_[[int(one[0].removeprefix("__label__")) for one in found]]


def _one_line(text: str) -> str:
    return " ".join(re.findall(r"\w\w+", text.lower()))


class Spreading(ClassifierMixin, BaseEstimator):
    """`LabelSpreading` over neighbours by tf-idf; takes texts without a label, too."""

    def fit(self, texts: list[str], y: np.ndarray) -> Spreading:
        self.words_ = TfidfVectorizer(stop_words="english", sublinear_tf=True)
        X = self.words_.fit_transform(texts)
        there = np.array([label is not None for label in y])
        self.classes_, column = np.unique(y[there].astype(str), return_inverse=True)
        numbers = np.full(len(y), -1)
        numbers[there] = column
        self.model_ = LabelSpreading(kernel="knn", n_neighbors=K, n_jobs=_CORES).fit(X, numbers)
        return self

    def predict(self, texts: list[str]) -> np.ndarray:
        return self.classes_[self.model_.predict(self.words_.transform(texts))]


def _tfidf() -> TfidfVectorizer:
    return TfidfVectorizer(stop_words="english", sublinear_tf=True)


PIPELINES: dict[str, Callable[[Taxonomy], Any]] = {
    "CountVectorizer, MultinomialNB": lambda tree: make_pipeline(
        CountVectorizer(), MultinomialNB()
    ),
    "TfidfVectorizer, ComplementNB": lambda tree: make_pipeline(_tfidf(), ComplementNB()),
    "TfidfVectorizer, LinearSVC": lambda tree: make_pipeline(_tfidf(), LinearSVC(random_state=0)),
    "TfidfVectorizer, hiclass": lambda tree: make_pipeline(
        _tfidf(), PerParent(tree, LinearSVC(random_state=0, class_weight="balanced"))
    ),
    "TfidfVectorizer, LabelSpreading": lambda tree: Spreading(),
    "fastText": lambda tree: FastText(),
    "WordCounter, NaiveBayes": lambda tree: make_pipeline(lw.WordCounter(), lw.NaiveBayes(tree)),
    "TaxonomyClassifier": lambda tree: lw.TaxonomyClassifier(tree, keywords=False),
}
POOL = ("TaxonomyClassifier", "TfidfVectorizer, LabelSpreading")
OURS = {
    *(name for name in COUNTERS if name.startswith("WordCounter")),
    *("NaiveBayes", "HierarchicalShrinkage", "HierarchicalMixture", "HierarchicalDirichlet"),
    *("WordCounter, NaiveBayes", "TaxonomyClassifier"),
    *("NeighborIndex", "NeighborIndex(approximate=True)", "HPLSA"),
}


def sort(work: Work, name: str) -> dict[str, Any]:
    """Learn from few labels, and from all other texts where a method can; then sort those."""
    model, known, rest, y = PIPELINES[name](work.tree), work.known, work.rest, work.labels
    if name in POOL:
        given = np.full(len(work.texts), None, object)
        given[known] = y[known]
        fit, _ = timed(model.fit, work.texts, given)
    else:
        fit, _ = timed(model.fit, work.some(known), y[known])
    texts = work.some(rest)
    model.predict(texts[:50])  # loops are loaded
    most = 2000 if name == "TfidfVectorizer, LabelSpreading" else None  # it is slow
    right = float(np.mean(model.predict(texts[:most]) == y[rest][:most]))
    asked = (work.asked or texts)[:most]
    predict = min(timed(model.predict, asked)[0] for _ in range(2))
    return {"fit": fit, "predict": predict / len(asked), "score": right}


def unlabelled(work: Work, name: str) -> dict[str, Any]:
    """Learn from the tree's keywords and texts without a label; then sort these."""
    fit, model = timed(lw.TaxonomyClassifier(work.tree).fit, work.texts)
    peak = memory.peak()
    predict, found = min((timed(model.predict, work.texts) for _ in range(3)), key=lambda x: x[0])
    right = float(np.mean(found == work.labels))
    return {"fit": fit, "predict": predict / len(found), "score": right, "peak": peak}


# ---- neighbours, trees ---------------------------------------------------------------------------


def _bare(index: NeighborIndex, X: Any) -> sparse.csr_matrix:
    try:
        from sparse_dot_topn import sp_matmul_topn
    except ImportError as error:
        raise Unavailable(str(error)) from None
    words = sparse.csr_matrix(index._B.T)
    return sp_matmul_topn(index._B, words, top_n=K + 1, n_threads=_CORES, sort=False)


NEIGHBOURS: dict[str, Callable[[NeighborIndex, Any], sparse.csr_matrix]] = {
    "sparse_dot_topn, bare": _bare,
    "scikit-learn's kneighbors_graph": lambda index, X: kneighbors_graph(
        index._B, K, metric="cosine", n_jobs=_CORES
    ),
    "NeighborIndex": lambda index, X: NeighborIndex("cosine").fit(X).graph(K),
    "NeighborIndex(approximate=True)": lambda index, X: (
        NeighborIndex("cosine", approximate=True).fit(X).graph(K)
    ),
}


def near(work: Work, name: str) -> dict[str, Any]:
    X = lw.WordCounter(stop_words="english", min_count=2).fit_transform(work.texts)
    index = NeighborIndex("cosine").fit(X)
    exact = index.graph(K)  # loops are loaded
    memory.begin()
    took, found = timed(NEIGHBOURS[name], index, X)
    there = (found != 0).multiply(exact != 0).sum() / exact.nnz
    return {"fit": took, "score": float(there)}


def grown(work: Work, name: str) -> dict[str, Any]:
    from growth import METHODS
    from sklearn.metrics import normalized_mutual_info_score

    X = lw.WordCounter(stop_words="english", min_count=3).fit_transform(work.texts)
    there = np.flatnonzero(np.diff(X.indptr))
    X, y = X[there], work.labels[there]
    method, settings = METHODS[TREES[name]]
    if name == "HPLSA":
        method(X[:100], 3, **settings)  # loops are loaded
    memory.begin()
    try:
        took, found = timed(method, X, len(np.unique(y)))
    except ImportError as error:
        raise Unavailable(str(error)) from None
    found = found if found.ndim == 1 else found.argmax(axis=1)
    return {"fit": took, "score": float(normalized_mutual_info_score(y, found))}


TREES = {
    "HLDAModel of tomotopy": "`HLDAModel` of tomotopy",
    "KMeans of scikit-learn (no tree)": "`KMeans(n_init=10)` of scikit-learn, tf-idf",
    "HPLSA": "`HPLSA`",
}


# ---- one core and two ----------------------------------------------------------------------------


def speedup(work: Work, name: str) -> dict[str, Any]:
    """Do the same in one thread and in all, taking turns."""
    function = _SCALED[name](work)
    function()  # loops are loaded
    one, several = [], []
    for _ in range(3):
        with limited(1):
            one.append(timed(function)[0])
        several.append(timed(function)[0])
    return {"one": float(np.median(one)), "several": float(np.median(several))}


def _counting(work: Work) -> Callable[[], Any]:
    return lambda: lw.WordCounter().fit_transform(work.texts)


def _counting_again(work: Work) -> Callable[[], Any]:
    counter = lw.WordCounter().fit(work.texts)
    return lambda: counter.transform(work.texts)


def _graph(work: Work) -> Callable[[], Any]:
    X = lw.WordCounter(stop_words="english", min_count=2).fit_transform(work.texts)
    return lambda: NeighborIndex("cosine").fit(X).graph(K)


def _em(work: Work) -> Callable[[], Any]:
    X = lw.WordCounter(stop_words="english", min_count=2).fit_transform(work.texts)
    y = np.full(len(work.texts), None, object)
    y[work.known] = work.labels[work.known]
    return lambda: lw.HierarchicalDirichlet(work.tree, sigma=1e3, max_iter=5, tol=0).fit(X, y)


def _plsa(work: Work) -> Callable[[], Any]:
    X = lw.WordCounter(stop_words="english", min_count=2).fit_transform(work.texts)
    model = lw.PLC(work.tree).fit(X[work.known], work.labels[work.known])
    some = X[:8000]
    return lambda: model.predict(some)


_SCALED: dict[str, Callable[[Work], Callable[[], Any]]] = {
    "counting: WordCounter.fit_transform": _counting,
    "counting: WordCounter.transform": _counting_again,
    "the graph of neighbours": _graph,
    "EM: HierarchicalDirichlet, five rounds": _em,
    "EM: documents folded into PLC": _plsa,
}


# ---- all of it -----------------------------------------------------------------------------------


class Part(NamedTuple):
    """A piece of work, and who does it; the first is what others are compared with."""

    do: Callable[[Work, str], dict[str, Any]]
    names: tuple[str, ...]


PARTS = {
    "count": Part(count, tuple(COUNTERS)),
    "classify": Part(classify, tuple(CLASSIFIERS)),
    "sort": Part(sort, tuple(PIPELINES)),
    "unlabelled": Part(unlabelled, ("TaxonomyClassifier",)),
    "near": Part(near, tuple(NEIGHBOURS)),
    "grown": Part(grown, tuple(TREES)),
    "speedup": Part(speedup, tuple(_SCALED)),
}
