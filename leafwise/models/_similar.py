"""What classifiers have in common that compare documents with documents."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from leafwise.models._base import NodeClassifier
from leafwise.models.graph import OF_VECTORS, NeighborIndex, check_k, check_similarity


class SimilarityClassifier(NodeClassifier):
    """A classifier of word counts, of vectors, or by similarities that are given.

    Attributes
    ----------
    index_ : NeighborIndex
        Of the documents fitted to.
    """

    _learned = (*NodeClassifier._learned, "index_")
    k: int
    similarity: str
    mu: float
    approximate: bool | int
    verbose: bool
    index_: NeighborIndex

    def _index(self) -> NeighborIndex:
        return NeighborIndex(
            self.similarity, mu=self.mu, approximate=self.approximate, verbose=self.verbose
        )

    def _counts(self, X: Any, reset: bool = False) -> Any:
        if self.similarity not in ("embedding", "precomputed"):
            try:
                return super()._counts(X, reset)
            except ValueError as error:
                if not str(error).startswith("Negative values"):
                    raise
                raise ValueError(f"{error} {OF_VECTORS}.") from None
        if not reset:
            check_is_fitted(self)
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.similarity != "embedding"
        tags.input_tags.pairwise = self.similarity == "precomputed"
        return tags

    def _restore(self) -> None:
        """Check what a file held."""
        self._check_classes()
        self._validate()
        index = self.index_
        if not isinstance(index, NeighborIndex) or index.similarity != self.similarity:
            raise ValueError("the index of neighbours does not fit the model")

    def _validate(self) -> None:
        check_k(self.k)
        check_similarity(self.similarity, self.mu, self.approximate)
