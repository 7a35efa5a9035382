"""Nearest neighbours: a document belongs where the documents most similar to it do."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length

from leafwise.labels import of_no_class
from leafwise.models._similar import SimilarityClassifier
from leafwise.taxonomy import Taxonomy


class NeighborsClassifier(SimilarityClassifier):
    """The k most similar labelled documents vote (E eq. 7-8, T eq. 15).

    With thresholds, for any number of classes per document, it is
    ``MultiLabelClassifier(NeighborsClassifier(), cv="leave-one-out")``.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    k : int
        The number of neighbours.
    similarity, mu, approximate : see `NeighborIndex`
    vote : {"weighted", "majority"}
        Whether a neighbour counts by its similarity (E eq. 8) or as one (E eq. 7).
    nodes : {"all", "leaves"} or list of labels
        The nodes that can be predicted.
    verbose : bool
        Whether to show progress on the standard error stream.

    Attributes
    ----------
    index_ : NeighborIndex
        Of all documents, among which those whose labels are known can be neighbours. The others
        have a part in how much a word is worth.
    membership_ : CSR matrix, documents × classes
        The labels. Each of a document's several counts in full.
    """

    _learned = (*SimilarityClassifier._learned, "membership_")
    membership_: sparse.csr_matrix

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        k: int = 30,
        similarity: str = "cosine",
        vote: str = "weighted",
        mu: float = 1000.0,
        nodes: Any = "all",
        approximate: bool | int = False,
        verbose: bool = False,
    ):
        self.taxonomy = taxonomy
        self.k = k
        self.similarity = similarity
        self.vote = vote
        self.mu = mu
        self.nodes = nodes
        self.approximate = approximate
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Take documents and their labels (None where unknown).

        Among lists of labels an empty one is a document of no class: a neighbour without a vote.
        """
        self._validate()
        X = self._counts(X, reset=True)
        labels, classes = self._labels(y, None, reset=True)
        check_consistent_length(X, range(labels.n_documents))
        membership = classes.membership(labels)
        membership.data[:] = 1.0
        labelled = np.diff(membership.indptr) > 0
        if not labelled.any():
            raise ValueError("No document has a label, so there is nothing to learn.")
        self._set_classes(classes)
        self.membership_ = membership
        self.index_ = self._index().fit(X, among=labelled | of_no_class(y, X.shape[0]))
        return self

    def class_scores(self, X: Any) -> np.ndarray:
        """Return the sum of the similarities, or the number, of each class's neighbours."""
        return self._votes(self.index_.query(self._counts(X), self.k))

    def left_out_scores(self) -> np.ndarray:
        """Return the `class_scores` of the documents fitted to, each by the others."""
        return self._votes(self.index_.graph(self.k))

    def _votes(self, graph: sparse.csr_matrix) -> np.ndarray:
        if self.vote == "majority":
            graph.data[:] = 1.0
        return np.asarray((graph @ self.membership_).todense())

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        scores = self._votes(self.index_.query(X, self.k))
        # Without a neighbour, a document is one like any other.
        scores[~scores.any(axis=1)] = np.asarray(self.membership_.sum(axis=0)).ravel()
        with np.errstate(divide="ignore"):
            return np.log(scores)

    def _restore(self) -> None:
        """Check what a file held."""
        super()._restore()
        shape = (self.index_.documents_.shape[0], len(self.classes_))
        if self.membership_.shape != shape or not self.membership_.nnz:
            raise ValueError("the labels do not fit the documents")

    def _validate(self) -> None:
        super()._validate()
        if self.vote not in ("weighted", "majority"):
            raise ValueError(f'vote={self.vote!r}: expected "weighted" or "majority".')
