"""Naive Bayes: one word distribution per node, each smoothed by itself."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from leafwise.labels import Classes
from leafwise.models._base import NodeClassifier
from leafwise.taxonomy import Taxonomy

_DENSE_WEIGHTS = 1 << 25  # up to here a dense table of weights is faster, and takes 256 MiB


class NaiveBayes(NodeClassifier):
    """Multinomial Naive Bayes over the nodes of a tree (T 3.2.1, Z 3.1, E 3).

    Fitting only counts words per node, so `partial_fit` in pieces gives the same model as one
    `fit`. Documents without a label are passed over. A document with several labels is counted
    for each of them in equal fractions (T 3.2.1).

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    smoothing : {"lidstone", "laplace", "dirichlet"}
        "lidstone" adds `alpha` to every count; "laplace" adds one (Z eq. 2); "dirichlet" adds
        `mu` words drawn from the whole training corpus (E eq. 4-5).
    alpha : float or "heldout"
        Lidstone's λ. "heldout" takes the value under which each word occurrence is most likely
        given all others of its class (T 3.2.1).
    mu : float
        The weight of the corpus in "dirichlet", in words.
    class_prior : {"learned", "uniform"} or array
        P(node): by number of documents (Z eq. 1), all equal, or given, in the order of `classes_`.
        Under "learned" a node without a document has probability 0.
    nodes : {"all", "leaves"} or list of labels
        The nodes that can be predicted.

    Attributes
    ----------
    word_counts_ : CSR matrix, nodes × words
    document_counts_ : array, documents per node
        These two are all that is learned; they add up over documents.
    alpha_ : float
        The λ in use (absent for "dirichlet").
    """

    _learned = (*NodeClassifier._learned, "word_counts_", "document_counts_")

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        smoothing: str = "lidstone",
        alpha: float | str = "heldout",
        mu: float = 1000.0,
        class_prior: Any = "learned",
        nodes: Any = "all",
    ):
        self.taxonomy = taxonomy
        self.smoothing = smoothing
        self.alpha = alpha
        self.mu = mu
        self.class_prior = class_prior
        self.nodes = nodes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from word counts and labels."""
        return self._learn(X, y, None, sample_weight, reset=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more documents.

        Without a taxonomy, `classes` lists all labels there will be, at the first call.
        """
        return self._learn(X, y, classes, sample_weight, reset=not hasattr(self, "word_counts_"))

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, reset: bool) -> Self:
        self._validate()
        X = self._counts(X, reset=reset)
        labels, known = self._labels(y, classes, reset)
        check_consistent_length(X, range(labels.n_documents))
        membership = known.membership(labels)
        if sample_weight is not None:
            membership = sparse.diags_array(_weights(sample_weight, X.shape[0])) @ membership
        word_counts, document_counts = statistics(X, membership)
        if not reset:
            word_counts = self.word_counts_ + word_counts
            document_counts = self.document_counts_ + document_counts
        return self._set_statistics(known, word_counts, document_counts)

    def _set_statistics(
        self, classes: Classes, word_counts: sparse.csr_matrix, document_counts: np.ndarray
    ) -> Self:
        """Become the model of these counts, wherever they were made."""
        self._set_classes(classes)
        self.n_features_in_ = word_counts.shape[1]
        self.word_counts_, self.document_counts_ = word_counts, document_counts
        self._set_parameters()
        return self

    def _set_parameters(self) -> None:
        """Derive log P(w | node) = background(w) + offset(node) + excess(node, w).

        The excess is there only for words that the node has seen, so nothing here is as large as
        nodes × words.
        """
        counts, n_words = self.word_counts_, self.word_counts_.shape[1]
        length = np.asarray(counts.sum(axis=1)).ravel()
        if self.smoothing == "dirichlet":
            corpus = np.asarray(counts.sum(axis=0)).ravel()
            p_w = corpus / max(corpus.sum(), 1.0)  # E eq. 5
            added = self.mu * p_w
            n_added = self.mu
        else:
            self.alpha_ = 1.0 if self.smoothing == "laplace" else self.alpha
            if self.alpha_ == "heldout":
                self.alpha_ = heldout_alpha(counts)
            added = np.full(n_words, float(self.alpha_))
            n_added = self.alpha_ * n_words
        # A word that no document had says nothing about any node: E eq. 4 would be log 0 there.
        self._background = np.log(added, where=added > 0, out=np.zeros(n_words))
        self._offset = -np.log(length + n_added)
        self._excess = counts.copy()
        self._excess.data = np.log1p(counts.data / added[counts.indices])
        self._log_prior = self._learned_prior()
        self._live = np.flatnonzero(np.isfinite(self._log_prior))
        self._weights = self._excess[self._live].T.tocsr()
        if n_words * len(self._live) <= _DENSE_WEIGHTS:
            self._weights = self._weights.toarray(order="C")
            self._weights += self._background[:, None] + self._offset[self._live]

    def _learned_prior(self) -> np.ndarray:
        n_classes = len(self.nodes_)
        if isinstance(self.class_prior, str):
            if self.class_prior == "uniform":
                return np.full(n_classes, -np.log(n_classes))
            total = self.document_counts_.sum()
            if not total:
                return np.full(n_classes, -np.log(n_classes))
            p = self.document_counts_ / total  # Z eq. 1
        else:
            p = np.asarray(self.class_prior, dtype=float)
            if p.shape != (n_classes,):
                raise ValueError(
                    f"class_prior has shape {p.shape}, expected one number for each of the "
                    f"{n_classes} classes."
                )
            if (p < 0).any() or not np.isclose(p.sum(), 1):
                raise ValueError(f"class_prior is no distribution: it sums to {p.sum()}.")
        with np.errstate(divide="ignore"):
            return np.log(p)

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return log P(c) + Σ_w n_dw log P(w | c) (E eq. 6)."""
        live = self._live
        scores = X @ self._weights
        if sparse.issparse(scores):
            length = np.asarray(X.sum(axis=1)).reshape(-1, 1)
            scores = scores.toarray() + length * self._offset[live]
            scores += (X @ self._background)[:, None]
        scores += self._log_prior[live]
        if len(live) == len(self.nodes_):
            return scores
        log_joint = np.full((X.shape[0], len(self.nodes_)), -np.inf)
        log_joint[:, live] = scores
        return log_joint

    @property
    def log_p_w_given_node_(self) -> np.ndarray:
        """log P(word | node), nodes × words, dense: for looking at small models."""
        check_is_fitted(self)
        return self._background + self._offset[:, None] + self._excess.toarray()

    def word_evidence(self, column: int, words: np.ndarray) -> np.ndarray:
        """Return log P(w | node) - log P(w): how much each word speaks for a node, or against it.

        P(w) is that of all nodes' words together. A word that no document had speaks for none.
        """
        pooled = np.asarray(self.word_counts_.sum(axis=0)).ravel()
        seen = pooled[words] > 0
        log_p_w = np.log(np.where(seen, pooled[words], 1.0) / max(pooled.sum(), 1.0))
        excess = self._excess[column].toarray().ravel()[words]
        return np.where(seen, self._background[words] + self._offset[column] + excess - log_p_w, 0)

    def _restore(self) -> None:
        """Derive the rest from what a file held, after checking it."""
        self._check_classes()
        if self.word_counts_.shape != (len(self.nodes_), self.n_features_in_):
            raise ValueError("word counts do not fit the classes and words")
        for name, counts in (("word", self.word_counts_.data), ("document", self.document_counts_)):
            if not np.isfinite(counts).all() or (counts < 0).any():
                raise ValueError(f"{name} counts are no counts")
        if self.document_counts_.shape != (len(self.nodes_),):
            raise ValueError("document counts do not fit the classes")
        self._validate()
        self._set_parameters()

    def _validate(self) -> None:
        if self.smoothing not in ("lidstone", "laplace", "dirichlet"):
            raise ValueError(
                f'smoothing={self.smoothing!r}: expected "lidstone", "laplace" or "dirichlet".'
            )
        number = isinstance(self.alpha, Real) and self.alpha > 0
        if not (number or self.alpha == "heldout"):
            raise ValueError(f'alpha={self.alpha!r}: expected a number above 0, or "heldout".')
        if not self.mu > 0:
            raise ValueError(f"mu={self.mu!r}: expected a number above 0.")
        if isinstance(self.class_prior, str) and self.class_prior not in ("learned", "uniform"):
            raise ValueError(
                f'class_prior={self.class_prior!r}: expected "learned", "uniform" or an array.'
            )


def statistics(
    X: sparse.csr_matrix, membership: sparse.csr_matrix
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Count words and documents per class. Blocks of documents add up."""
    word_counts = (membership.T.tocsr() @ X).astype(np.float64, copy=False)
    return word_counts, np.asarray(membership.sum(axis=0)).ravel()


def heldout_alpha(word_counts: sparse.csr_matrix) -> float:
    """Choose Lidstone's λ by leaving each word occurrence out of its own class in turn.

    The likelihood of what is left out, Σ_cw n_cw log((n_cw - 1 + λ) / (n_c - 1 + λ|V|)), needs the
    counts alone: equal counts share a term, so its cost hardly depends on the corpus.
    """
    counts = word_counts.data[word_counts.data > 0]
    length = np.asarray(word_counts.sum(axis=1)).ravel()
    length = length[length > 0]
    if not len(length):
        return 1.0
    whole = counts.astype(np.int64)
    if np.array_equal(whole, counts) and whole.max() < 1 << 24:
        n_pairs = np.bincount(whole)
        values = np.flatnonzero(n_pairs)
        occurrences = values * n_pairs[values]
    else:
        values, n_pairs = np.unique(counts, return_counts=True)
        occurrences = values * n_pairs
    others, length_of_others = np.maximum(values - 1, 0), np.maximum(length - 1, 0)
    n_words = word_counts.shape[1]

    def loss(log_alpha: float) -> float:
        alpha = np.exp(log_alpha)
        numerator = occurrences @ np.log(others + alpha)
        return float(length @ np.log(length_of_others + alpha * n_words) - numerator)

    return float(np.exp(minimize_scalar(loss, bounds=np.log([1e-6, 1e2]), method="bounded").x))


def _weights(sample_weight: Any, n_documents: int) -> np.ndarray:
    if isinstance(sample_weight, Real):
        return np.full(n_documents, float(sample_weight))
    weight = column_or_1d(sample_weight, dtype=np.float64)
    check_consistent_length(weight, range(n_documents))
    if (weight < 0).any():
        raise ValueError("sample_weight has negative values; expected weights of 0 or more.")
    if n_documents and not weight.any():
        raise ValueError("sample_weight is zero for every document: there is nothing to learn.")
    return weight
