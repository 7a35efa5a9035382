"""Naive Bayes: one word distribution per node, each smoothed by itself."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar

from leafwise.models._counts import DENSE_WEIGHTS, CountClassifier
from leafwise.models._heldout import evidence_statistics, held_out
from leafwise.models._sums import table_product
from leafwise.models._tree_scores import TreeScores, word_lists
from leafwise.taxonomy import Taxonomy


class NaiveBayes(CountClassifier):
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
                self.alpha_ = heldout_alpha(counts, self._removed())
            added = np.full(n_words, float(self.alpha_))
            n_added = self.alpha_ * n_words
        # A word that no document had says nothing about any node: E eq. 4 would be log 0 there.
        self._background = np.log(added, where=added > 0, out=np.zeros(n_words))
        self._offset = -np.log(length + n_added)
        self._excess = counts.copy()
        self._excess.data = np.log1p(counts.data / added[counts.indices])
        by_word, n_live = self._excess[self._live].T.tocsr(), len(self._live)
        self._weights = None
        self._lists: TreeScores | None = None
        if n_words * n_live <= DENSE_WEIGHTS:
            self._weights = by_word.toarray(order="C")
            self._weights += self._background[:, None] + self._offset[self._live]
            return
        self._lists = TreeScores(
            *word_lists(by_word, 1.0),
            counted=np.ones(n_words, bool),
            parent=np.full(n_live, -1),
            end=np.arange(1, n_live + 1),
            bias=self._offset[self._live],
            prior=np.zeros(n_live),
            column=np.arange(n_live),
        )

    def _statistics(
        self, X: sparse.csr_matrix, membership: sparse.csr_matrix
    ) -> tuple[sparse.csr_matrix | np.ndarray, ...]:
        evidence = evidence_statistics(X, membership, "occurrence", 0)
        return (*super()._statistics(X, membership), evidence)

    def _removed(self) -> np.ndarray | None:
        """Return what one occurrence of each pair weighs; None where that is 1."""
        evidence = getattr(self, "evidence_counts_", None)
        if evidence is None or not evidence.nnz:
            return None
        self.word_counts_.sum_duplicates()
        return held_out(self.word_counts_, evidence, "occurrence").removed

    def _log_likelihood(self, X: sparse.csr_matrix) -> np.ndarray:
        if self._weights is not None:
            return table_product(X, self._weights)
        assert self._lists is not None
        scores = self._lists.log_joint(X)
        scores += (X @ self._background)[:, None]
        return scores

    def _log_p_w_given_class(self, column: int) -> np.ndarray:
        return self._background + self._offset[column] + self._excess[column].toarray().ravel()

    def _validate(self) -> None:
        if self.smoothing not in ("lidstone", "laplace", "dirichlet"):
            raise ValueError(
                f'smoothing={self.smoothing!r}: expected "lidstone", "laplace" or "dirichlet".'
            )
        number = isinstance(self.alpha, Real) and 0 < float(self.alpha) < np.inf
        if not (number or self.alpha == "heldout"):
            raise ValueError(f'alpha={self.alpha!r}: expected a number above 0, or "heldout".')
        if not (isinstance(self.mu, Real) and 0 < float(self.mu) < np.inf):
            raise ValueError(f"mu={self.mu!r}: expected a number above 0.")
        super()._validate()


def heldout_alpha(word_counts: sparse.csr_matrix, removed: np.ndarray | None = None) -> float:
    """Choose Lidstone's λ by leaving each word occurrence out of its own class in turn.

    The likelihood of what is left out, Σ_cw n_cw log((n_cw - 1 + λ) / (n_c - 1 + λ|V|)), needs the
    counts alone: equal counts share a term, so its cost hardly depends on the corpus. `removed` is
    what an occurrence of each pair weighs, where that is not 1.
    """
    length = np.asarray(word_counts.sum(axis=1)).ravel()
    length = length[length > 0]
    if not len(length):
        return 1.0
    counts, least = word_counts.data, 1.0
    if removed is None or (removed == 1).all():
        values, n_pairs = np.unique(counts[counts > 0], return_counts=True)
        occurrences, others = values * n_pairs, np.maximum(values - 1, 0)
    else:
        used = counts > 0
        occurrences, others = counts[used], np.maximum(counts - removed, 0)[used]
        least = float(np.average(removed, weights=counts))
    length_of_others = np.maximum(length - least, 0)
    n_words = word_counts.shape[1]

    def loss(log_alpha: float) -> float:
        alpha = np.exp(log_alpha)
        numerator = occurrences @ np.log(others + alpha)
        return float(length @ np.log(length_of_others + alpha * n_words) - numerator)

    return float(np.exp(minimize_scalar(loss, bounds=np.log([1e-6, 1e2]), method="bounded").x))
