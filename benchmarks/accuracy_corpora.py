"""The corpora of docs/accuracy.md: what is read, which labels are given, and what is tested."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.neighbors import kneighbors_graph

from leafwise import WordCounter, neighbor_graph
from leafwise.datasets import (
    DIRECTORIES,
    Dataset,
    load_20newsgroups,
    load_directory,
    load_reuters,
    load_stdlib,
)
from leafwise.evaluation import FewLabelSplit

N_NEIGHBORS = 30


class Split(NamedTuple):
    """Numbers of documents: given with a label, given without, and not given."""

    known: np.ndarray
    pool: np.ndarray
    new: np.ndarray


@dataclass(frozen=True)
class Corpus:
    """What is measured on a corpus.

    Attributes
    ----------
    name : in the file of results and on the command line
    load : returns the documents, given the folder of the corpora
    split : returns the split of a size and a draw
    sizes : labels per class, or shares of all labels
    n_draws : of each size at which chance has a part
    fixed : the sizes at which it has none
    nodes : those that single methods can predict
    methods : which apply: "all", "taxonomy", "several" or "unlabelled"
    group : corpora whose mean is shown
    large : measured only where asked for
    """

    name: str
    load: Callable[[str | None], Dataset]
    split: Callable[[Dataset, float, int], Split]
    sizes: tuple[float, ...]
    n_draws: int = 10
    fixed: tuple[float, ...] = (0,)
    nodes: str = "leaves"
    methods: str = "all"
    group: str = ""
    large: bool = False

    def draws(self, size: float, most: int | None = None) -> range:
        n = self.n_draws if most is None else min(most, self.n_draws)
        return range(1 if size in self.fixed else n)


class Documents:
    """A corpus, and what methods share of it: each is made when first asked for."""

    def __init__(self, corpus: Corpus, data: Dataset):
        self.nodes, self.tree = corpus.nodes, data.taxonomy
        self.texts = np.array(data.texts, dtype=object)
        self.several = isinstance(data.labels[0], tuple)
        self.y = np.empty(len(data), object) if self.several else np.array(data.labels)
        self.y[:] = data.labels
        # Words are those of the documents that are given, whichever have labels.
        self.new = corpus.split(data, corpus.sizes[-1], 0).new
        self.given = np.setdiff1d(np.arange(len(data)), self.new)

    @cached_property
    def counter(self) -> WordCounter:
        """As `TaxonomyClassifier` counts words."""
        counter = WordCounter(stop_words="english", stemmer="english", compounds=True)
        return counter.fit(self.texts[self.given])

    @cached_property
    def words(self) -> sparse.csr_matrix:
        return self.counter.transform(self.texts)

    @cached_property
    def graph(self) -> sparse.csr_matrix:
        return neighbor_graph(self.words, N_NEIGHBORS, "cosine", symmetric=True)

    # ---- as scikit-learn counts them ----

    @cached_property
    def counts(self) -> sparse.csr_matrix:
        return CountVectorizer(stop_words="english").fit_transform(self.texts)

    @cached_property
    def tfidf(self) -> sparse.csr_matrix:
        vectorizer = TfidfVectorizer(stop_words="english", sublinear_tf=True)
        return vectorizer.fit(self.texts[self.given]).transform(self.texts)

    @cached_property
    def near(self) -> sparse.csr_matrix:
        n = min(N_NEIGHBORS, len(self.texts))
        return kneighbors_graph(self.tfidf, n, metric="cosine", include_self=True)

    def about(self) -> dict[str, int]:
        """Return its size, for the page."""
        labels = [one for row in self.y for one in (row if self.several else (row,))]
        return {
            "documents": len(self.texts),
            "given": len(self.given),
            "new": len(self.new),
            "classes": len(set(labels)),
            "nodes": len(self.tree),
            "words": self.words.shape[1],
        }


# ---- which labels are given ----------------------------------------------------------------------


def per_class(data: Dataset, n: float, draw: int, short: str = "raise") -> Split:
    """Give `n` labels of each class; all others are the pool."""
    few = FewLabelSplit(int(n), draw + 1, short=short)
    known = list(few.split(None, data.labels))[draw][0]
    return Split(known, np.setdiff1d(np.arange(len(data)), known), np.empty(0, int))


def kept_apart(data: Dataset, n: float, draw: int) -> Split:
    """Keep a fifth of the others away altogether."""
    known, rest, _ = per_class(data, n, draw)
    drawn = np.random.default_rng(draw).permutation(rest)
    n_new = len(rest) // 5
    return Split(known, np.sort(drawn[n_new:]), np.sort(drawn[:n_new]))


def half_of_classes(data: Dataset, n: float, draw: int) -> Split:
    """Give `n` labels of each of half of the classes, which are drawn; all others are the pool."""
    classes = sorted(set(data.labels))
    drawn = set(np.random.default_rng(draw).permutation(classes)[: len(classes) // 2].tolist())
    known = per_class(data, n, draw).known
    known = known[[data.labels[i] in drawn for i in known]]
    return Split(known, np.setdiff1d(np.arange(len(data)), known), np.empty(0, int))


def share(data: Dataset, size: float, draw: int) -> Split:
    """Give a share of the labels, those of the training documents where there are such."""
    given, new = np.arange(len(data)), np.empty(0, int)
    if data.split is not None:
        given, new = (np.flatnonzero(data.split == part) for part in ("train", "test"))
    drawn = np.random.default_rng(draw).permutation(given)
    n_known = round(size * len(given))
    return Split(np.sort(drawn[:n_known]), np.sort(drawn[n_known:]), new)


# ---- the corpora ---------------------------------------------------------------------------------


def _newsgroups(data: str | None) -> Dataset:
    return load_20newsgroups(data=data)


CORPORA = [
    Corpus("newsgroups", _newsgroups, per_class, (0, 1, 7, 14, 20, 34, 67, 133, 667), n_draws=10),
    Corpus(
        "newsgroups-new", _newsgroups, kept_apart, (0, 7, 20, 67, 667), fixed=(),
        methods="taxonomy",
    ),
    Corpus("newsgroups-half", _newsgroups, half_of_classes, (0, 7, 20, 67), methods="taxonomy"),
    Corpus(
        "newsgroups-20", lambda data: load_20newsgroups("18828", groups=20, data=data), per_class,
        (7, 20, 67),
    ),
    Corpus(
        "reuters", lambda data: load_reuters(data=data), share, (0.01, 0.1, 1), fixed=(1,),
        methods="several",
    ),
    *(
        Corpus(
            f"directory-{name}", partial(load_directory, name), share,
            (0, 0.1, 0.25, 0.5), nodes="all", group="directories",
        )
        for name in DIRECTORIES
    ),
    Corpus(
        "stdlib", lambda data: load_stdlib(), partial(per_class, short="take"), (0, 1, 2, 5),
    ),
    Corpus(
        "directory-all", lambda data: load_directory("all", data=data), share, (0,),
        methods="unlabelled", large=True,
    ),
]  # fmt: skip
