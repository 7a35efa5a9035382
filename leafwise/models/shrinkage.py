"""Shrinkage: a class with few documents leans on the nodes above it, or on other classes."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from leafwise.models._em import Rows, Sharing, e_step, run_em
from leafwise.models._heldout import HeldOut, Holdout
from leafwise.models._path_mixture import (
    ClassMixture,
    PathMixture,
    Sources,
    check_positive,
    to_shares,
)
from leafwise.models._sums import scale_rows
from leafwise.taxonomy import Taxonomy


class HierarchicalShrinkage(PathMixture):
    """Maximum-likelihood word distributions, mixed along the path to the root (T 3.2.3, Z 2).

    P(w | c) = Σ_v λ_cv P(w | v), with v the class, the nodes above it, and a uniform node above
    the root. Only the weights λ are fitted, by EM, to held-out evidence. Fitting looks at no
    document after counting: its time and memory grow with the distinct (node, word) pairs.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    levels : {"pooled", "apart"}
        "pooled" counts for a node all documents below it; "apart" leaves out those that the level
        below on the path has already, so that levels are independent. A class of a few words is
        then worse off with each of its own words that its weight does not trust.
    holdout : {"occurrence", "document"} or float
        What the weights are fitted to: each occurrence of a word, explained by all others of its
        class; all of a word's occurrences in a document together (taking them as spread evenly
        over the class's documents that have the word); or this fraction of the documents, which
        their own words choose, in which case the weights are those of a model of the others.
    class_prior : {"learned", "uniform"} or array
        P(node), as in `NaiveBayes`.
    nodes : {"all", "leaves"} or list of labels
        The nodes that can be predicted.
    max_iter : int
        Most EM steps for the weights; fewer where they settle.
    random_state : int or None
        Which documents a fraction holds out.

    Attributes
    ----------
    level_weights_ : array, nodes × levels
        λ: the class's own documents first, then each node above it up to the root, and last the
        uniform distribution. An inner node has its own documents first, then itself with all that
        is below it. A path that is shorter has zeros.
    n_iter_ : int
        EM steps that were taken.
    """

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        levels: str = "pooled",
        holdout: Holdout = "occurrence",
        class_prior: Any = "learned",
        nodes: Any = "all",
        max_iter: int = 20,
        random_state: int | None = None,
    ):
        self.taxonomy = taxonomy
        self.levels = levels
        self.holdout = holdout
        self.class_prior = class_prior
        self.nodes = nodes
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit_sources(self, evidence: HeldOut) -> tuple[Sources, np.ndarray]:
        sources = self._pooled(evidence.kept)
        q, start = self._q(sources, evidence), self._equal_weights(sources)
        fitted = self._fit_weights(q, evidence.mass, start, self.max_iter)
        self.n_iter_ = max(1, fitted.n_steps)
        return self._pooled(self._paths.n), fitted.parameters

    def _validate(self) -> None:
        super()._validate()
        check_positive("max_iter", self.max_iter)


class GeneralShrinkage(ClassMixture):
    """Every class a mixture of all classes, whatever the tree says (Z 3.3, eq. 6-8).

    P(w | c) = Σ_k λ_ck P(w | k) over all classes k and a uniform distribution. The |C|² weights
    are fitted by EM to held-out evidence. That takes a table of words × classes, and time by the
    number of classes for each distinct (class, word) pair: it is for some hundreds of classes.
    Where documents have several labels, other classes hold the same words and are trusted too
    much.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    alpha : float
        Added to every count of a class's own distribution: 1 is the Laplace smoothing of Z eq. 2.
        0 leaves all smoothing to the mixture, which is better with few documents.
    holdout : {"occurrence", "document"} or float
        As in `HierarchicalShrinkage`.
    class_prior : {"learned", "uniform"} or array
        P(node), as in `NaiveBayes`.
    nodes : {"all", "leaves"} or list of labels
        The nodes that can be predicted.
    max_iter : int
        Most EM steps; fewer where the weights settle.
    random_state : int or None
        Which documents a fraction holds out.

    Attributes
    ----------
    weights_ : array, nodes × (nodes + 1)
        λ, with the uniform distribution last.
    n_iter_ : int
        EM steps that were taken.
    """

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        alpha: float = 0.0,
        holdout: Holdout = "occurrence",
        class_prior: Any = "learned",
        nodes: Any = "all",
        max_iter: int = 20,
        random_state: int | None = None,
    ):
        self.taxonomy = taxonomy
        self.alpha = alpha
        self.holdout = holdout
        self.class_prior = class_prior
        self.nodes = nodes
        self.max_iter = max_iter
        self.random_state = random_state

    def _set_parameters(self) -> None:
        counts = sparse.csr_matrix(self.word_counts_, dtype=np.float64)
        counts.sum_duplicates()
        counts.eliminate_zeros()
        evidence = self._held_out(counts)
        length = np.asarray(counts.sum(axis=1)).ravel()
        filled = np.flatnonzero(length > 0)  # the classes there is anything to mix of
        n_sources = len(filled) + 1
        words = np.flatnonzero(self._seen)
        rows = Rows(  # all pairs: the other classes have none
            np.concatenate([[0], np.cumsum(np.diff(counts.indptr)[filled])]),
            np.searchsorted(words, counts.indices),
            evidence.mass,
        )
        kept = sparse.csr_matrix((evidence.kept, counts.indices, counts.indptr), counts.shape)
        q = np.empty((len(words), n_sources))
        q[:, :-1] = self._smoothed(kept)[filled][:, words].T.toarray()
        q[:, :-1] += self._floor(kept)[filled]
        q[:, -1] = 1 / counts.shape[1]
        own = self._left_out(counts, evidence)

        def expect(weights: np.ndarray, sharing: Sharing) -> tuple[np.ndarray, float]:
            expected, bound = e_step(rows, q, weights, sharing, own=own)  # Z eq. 7
            expected.by_row[np.diag_indices(len(filled))] += 1.0  # as in `_fit_weights`
            return expected.by_row, bound

        start = np.full((len(filled), n_sources), 1 / n_sources)
        fitted = run_em(expect, _normalised, start, max_iter=self.max_iter, tol=1e-6)
        self.n_iter_ = max(1, fitted.n_steps)
        weights = np.zeros((len(self.nodes_), len(self.nodes_) + 1))
        weights[np.ix_(filled, filled)] = fitted.parameters[:, :-1]
        weights[filled, -1] = fitted.parameters[:, -1]
        for c in np.flatnonzero(length == 0):  # nothing is known of it: all classes alike
            weights[c, -1] = fitted.parameters[:, -1].mean() if len(filled) else 1.0
            if len(filled):
                weights[c, filled] = (1 - weights[c, -1]) / len(filled)
        self.weights_ = weights

    def _smoothed(self, counts: sparse.csr_matrix) -> sparse.csr_matrix:
        """Return P(w | k) less what every word has."""
        length = np.asarray(counts.sum(axis=1)).ravel() + self.alpha * counts.shape[1]
        return scale_rows(counts, 1 / np.maximum(length, 1e-300))

    def _floor(self, counts: sparse.csr_matrix) -> np.ndarray:
        length = np.asarray(counts.sum(axis=1)).ravel() + self.alpha * counts.shape[1]
        return self.alpha / np.maximum(length, 1e-300)  # Z eq. 2

    def _left_out(self, counts: sparse.csr_matrix, evidence: HeldOut) -> np.ndarray:
        """Return P(w | c) of each pair by all other evidence for its own class."""
        row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        kept = sparse.csr_matrix((evidence.kept, counts.indices, counts.indptr), counts.shape)
        length = np.asarray(kept.sum(axis=1)).ravel()[row]
        shorter = evidence.removed
        if evidence.removed_length is not None:
            shorter = evidence.removed_length[row]
        mass = np.maximum(evidence.kept - evidence.removed, 0.0) + self.alpha
        length = length - shorter + self.alpha * counts.shape[1]
        return np.divide(mass, length, out=np.zeros_like(mass), where=length > 1e-9)

    def _p_w_given_classes(self, columns: np.ndarray) -> np.ndarray:
        counts = sparse.csr_matrix(self.word_counts_)
        weights = self.weights_[columns]
        p = np.ascontiguousarray((self._smoothed(counts).T @ weights[:, :-1].T).T)
        p += (weights[:, :-1] @ self._floor(counts))[:, None]
        p += weights[:, -1:] / counts.shape[1]
        return p

    def _validate(self) -> None:
        super()._validate()
        if not (isinstance(self.alpha, Real) and 0 <= float(self.alpha) < np.inf):
            raise ValueError(f"alpha={self.alpha!r}: expected a number of at least 0.")
        check_positive("max_iter", self.max_iter)


def _normalised(expected: np.ndarray, before: np.ndarray) -> np.ndarray:
    known = expected.any(axis=1, keepdims=True)
    return np.where(known, to_shares(expected), before)  # Z eq. 8
