"""What a model of the tree learns from: labels, keywords, and documents without a label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from leafwise.keywords import INHERITED, Keywords, count_terms
from leafwise.labels import Classes
from leafwise.models._blocks import Blocks, Documents, PerDocument, one_block
from leafwise.models._counts import best_columns, statistics
from leafwise.models._dirichlet_tree import read_as
from leafwise.models._sums import scale_rows
from leafwise.models._tree_scores import Posteriors, TreeScores, word_lists


class Pool(NamedTuple):
    """A block of documents without a label.

    Attributes
    ----------
    X : their words
    weight, learned : of each of them, as a document and for each of its words
    beta : of each, when it is shared among classes
    first : how each is shared by its keywords alone
    """

    X: sparse.csr_matrix
    weight: np.ndarray
    learned: np.ndarray
    beta: np.ndarray
    first: sparse.csr_matrix

    def take(self, rows: np.ndarray) -> Pool:
        return Pool(*(field[rows] for field in self))

    def counted(self, membership: sparse.csr_matrix) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Count words and documents of each class, documents shared as given."""
        return statistics(self.X, scale_rows(membership, self.learned))[0], self.weight @ membership


@dataclass(frozen=True)
class Evidence:
    """What is learned from: labels, keywords, and unlabelled documents.

    Attributes
    ----------
    labels, n_labelled : words and documents of each class, by labels
    keyword_counts, keyword_documents : by keywords
    possible : for each class, whether there is any evidence for it
    pool : the unlabelled documents, in blocks that are a `Pool` each
    n_first : how many shares they have in classes at first; with 0, nothing is known of them
    """

    classes: Classes
    labels: sparse.csr_matrix
    n_labelled: np.ndarray
    keyword_counts: sparse.csr_matrix
    keyword_documents: np.ndarray
    possible: np.ndarray
    pool: Blocks
    n_first: int

    @property
    def n_pool(self) -> int:
        return self.pool.n_documents

    def only(self, rows: np.ndarray) -> Evidence:
        """Some of the unlabelled documents, in one block, and all the rest."""
        pool = Pool(*self.pool.gather(rows))
        return replace(self, pool=one_block(pool, len(rows)), n_first=pool.first.nnz)

    def count(
        self, shared: tuple[Any, np.ndarray] | None, label_weight: float, is_set: bool
    ) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Count words and documents of each class; `shared` are those of unlabelled documents.

        A labelled document weighs as much as a share of the unlabelled ones of its class, but no
        class is larger for that. Larger ones are punished for each word they lack: were labels to
        make classes larger, the first label of a class would drive documents away from it.
        """
        others, documents = self.keyword_counts, np.zeros(len(self.n_labelled))
        if shared is not None:
            others, documents = others + shared[0], shared[1]
        if not others.nnz or not self.labels.nnz:
            return sparse.csr_matrix(self.labels + others), self.n_labelled + documents
        each = np.maximum(1.0, label_weight * documents)
        own, rest = self.n_labelled, documents + self.keyword_documents
        if not is_set:
            own, rest = (np.asarray(part.sum(axis=1)).ravel() for part in (self.labels, others))
        weighed = each * own + rest
        scale = (own + rest) / np.where(weighed > 0, weighed, 1.0)
        both = sparse.csr_matrix(scale_rows(self.labels, each) + others)
        return scale_rows(both, scale), self.n_labelled + documents


def share_first(pool: Pool) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Count words and documents of each class, shared by keywords alone."""
    return pool.counted(pool.first)


def share(pool: Pool, scores: Any, live: np.ndarray, n_classes: int, kept: dict) -> tuple:
    """Share documents among classes: what they add to each, the bound, and the best of each."""
    found = posteriors(pool.X, pool.beta, scores, live, n_classes, kept)
    counts, documents = pool.counted(found.membership)
    bound = float((pool.weight * found.log_norm).sum())  # not by BLAS (`threads.py`)
    return counts, documents, bound, PerDocument(best_columns(found.membership).astype(np.int32))


def posteriors(
    X: sparse.csr_matrix,
    beta: np.ndarray,
    scores: Any,
    live: np.ndarray,
    n_classes: int,
    kept: dict,
) -> Posteriors:
    """Share documents among classes, of which the `live` ones are those that are scored."""
    found = scores.posteriors(X, beta, **kept)
    m = found.membership
    every = sparse.csr_matrix((m.data, live[m.indices], m.indptr), (X.shape[0], n_classes))
    return Posteriors(every, found.log_norm)


class First(NamedTuple):
    """How documents are shared at first: documents × classes, and its weight beside keywords."""

    membership: sparse.csr_matrix
    weight: float


def match_scores(classes: Classes, scale: float) -> TreeScores:
    """Score documents down the tree by what matches at each node (`Keywords.at_nodes`)."""
    n_nodes = len(classes.taxonomy)
    flat = np.zeros(n_nodes)
    return TreeScores(
        *word_lists(sparse.eye_array(n_nodes, format="csr"), scale),
        counted=np.zeros(n_nodes, bool),
        parent=classes.taxonomy.parent,
        end=classes.taxonomy.end,
        bias=flat,
        prior=flat,
        column=_columns(classes),
        decay=INHERITED,
    )


def prototype_scores(
    classes: Classes,
    keywords: Keywords,
    used: np.ndarray,
    prototype: tuple[float, float],
    is_set: bool,
) -> TreeScores:
    """Score documents by V eq. 14, with the words that are used as the vocabulary."""
    high, low = prototype
    has = sparse.csr_matrix((keywords.terms.T @ (keywords.weights > 0)) > 0, dtype=float)
    n_keywords = np.asarray(has.sum(axis=0)).ravel()
    bias = prior = np.zeros(len(classes.taxonomy))
    value = np.log(high / low)
    if is_set:
        value -= np.log1p(-high) - np.log1p(-low)
        prior = n_keywords * (np.log1p(-high) - np.log1p(-low))
    else:
        bias = -np.log(used.sum() * low + n_keywords * (high - low))
    return TreeScores(
        *word_lists(has, value),
        counted=used,
        parent=classes.taxonomy.parent,
        end=classes.taxonomy.end,
        bias=bias,
        prior=prior,
        column=_columns(classes),
        decay=0.0,
    )


def _columns(classes: Classes) -> np.ndarray:
    column = np.full(len(classes.taxonomy), -1)
    column[classes.nodes] = np.arange(len(classes.nodes))
    return column


# ---- what is asked of blocks ----


class ByMatches(NamedTuple):
    """Documents are shared by the keywords that they have."""

    scores: TreeScores
    keywords: Keywords
    settings: dict[str, Any]

    def __call__(self, X: sparse.csr_matrix, beta: np.ndarray) -> sparse.csr_matrix:
        found, one = self.keywords.at_nodes(X), np.ones(X.shape[0])
        return self.scores.posteriors(found, one, only_matched=True, **self.settings).membership


class ByPrototypes(NamedTuple):
    """Documents are shared by V's prototypes (V eq. 14)."""

    scores: TreeScores
    settings: dict[str, Any]

    def __call__(self, X: sparse.csr_matrix, beta: np.ndarray) -> sparse.csr_matrix:
        return self.scores.posteriors(X, beta, **self.settings).membership


def n_words_of(block: Documents) -> int:
    return int(block.X.shape[1])


def count_terms_of(block: Documents, terms: sparse.csr_matrix) -> np.ndarray:
    return count_terms(block.X, terms)


def read_block_as(block: Documents, words: str) -> Documents:
    return block._replace(X=read_as(block.X, words))


def sizes_of(block: Documents) -> tuple[PerDocument, ...]:
    """How many labels and different words each document has, how long it is and what it weighs."""
    n_labels, n_words = np.diff(block.membership.indptr), np.diff(block.X.indptr)
    length = np.asarray(block.X.sum(axis=1), dtype=float).ravel()
    return tuple(map(PerDocument, (n_labels, n_words, length, block.weight)))


def count_labels(block: Documents, counted: np.ndarray) -> tuple[sparse.csr_matrix, np.ndarray]:
    weighted = block.weighted
    words, _ = statistics(block.X, scale_rows(weighted, counted))
    return words, np.asarray(weighted.sum(axis=0)).ravel()


def used_words(block: Documents, in_pool: np.ndarray) -> np.ndarray:
    X = block.X[np.flatnonzero(in_pool)]
    return np.bincount(X.indices, minlength=X.shape[1])


def pool_of(
    block: Documents,
    n_classes: int,
    first: Callable | None,
    given_weight: float,
    in_pool: np.ndarray,
    learned: np.ndarray,
    beta: np.ndarray,
    given: sparse.csr_matrix | None = None,
) -> Pool:
    rows = np.flatnonzero(in_pool)
    X = block.X if len(rows) == block.X.shape[0] else block.X[rows]
    shares = sparse.csr_matrix((len(rows), n_classes))
    if first is not None and len(rows):
        shares = first(X, beta[rows])
    if given is not None:
        shares = sparse.csr_matrix((1 - given_weight) * shares + given_weight * given[rows])
    return Pool(X, block.weight[rows], learned[rows], beta[rows], shares)


def n_shares(pool: Pool) -> int:
    return int(pool.first.nnz)
