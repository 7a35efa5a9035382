"""What the stages of `TaxonomyClassifier`, once fitted, say of documents."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.special import log_softmax

from leafwise.models._base import NodeClassifier
from leafwise.models._belief import Belief
from leafwise.models._counts import keys_of
from leafwise.models._stages import LinearScores
from leafwise.models.dirichlet import HierarchicalDirichlet

MODEL = 0.02  # what the model counts beside linear scores: for words and nodes that these lack


class ScoredClassifier(NodeClassifier):
    """Scores of a model and linear ones, and how far to believe them."""

    several_: bool
    model_: HierarchicalDirichlet
    temperature_: float
    doubt_: float
    thresholds_: np.ndarray | None
    offset_: float
    at_least_one_: bool
    leaning_: float
    new_temperature_: float
    learned_keys_: np.ndarray
    model_share_: float = MODEL  # what the model counts beside linear scores; 0: nothing at all
    coef_: np.ndarray | None
    intercept_: np.ndarray | None
    idf_: np.ndarray | None
    least_: float

    def _scores(self, X: sparse.csr_matrix, shifted: bool = False) -> np.ndarray:
        """Return what the stages say of each document and class, before it is believed.

        With `shifted`, all scores of a document may be off by the same: the best is the same.
        """
        if not self.model_share_ and (linear := self._linear) is not None:
            return linear.scores(X)
        scores = self.model_._log_joint(X)
        scores *= self._temper(X)  # in place: tables of short texts by many nodes are what costs
        if not shifted:
            scores = log_softmax(scores, axis=1)
        if (linear := self._linear) is None:
            return scores
        by_words, known = linear.scores_and_known(X)
        by_words *= known
        scores *= self.model_share_ * known + 1 - known
        by_words += scores
        return by_words

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        belief = self._belief
        learned = np.zeros(X.shape[0], bool)
        if belief.thresholds is None and belief.new_temperature != belief.temperature:
            keys = keys_of(X)
            known = self.learned_keys_
            learned = known[np.minimum(np.searchsorted(known, keys), len(known) - 1)] == keys
        return belief.log_proba(self._scores(X), learned)

    @property
    def _belief(self) -> Belief:
        return Belief(**{name: getattr(self, f"{name}_") for name in Belief._fields})

    @_belief.setter
    def _belief(self, belief: Belief) -> None:
        for name, value in belief._asdict().items():
            setattr(self, f"{name}_", value)

    @property
    def _linear(self) -> LinearScores | None:
        if self.coef_ is None or self.intercept_ is None or self.idf_ is None:
            return None
        return LinearScores(self.coef_, self.intercept_, self.idf_, self.least_)

    @_linear.setter
    def _linear(self, scores: LinearScores | None) -> None:
        found = (None, None, None, 0.0) if scores is None else scores
        self.coef_, self.intercept_, self.idf_, self.least_ = found

    def _temper(self, X: sparse.csr_matrix) -> np.ndarray:
        """How much each word of a document speaks for itself: as when documents are shared."""
        length = np.asarray(self.model_._as_read(X).sum(axis=1), float).reshape(-1, 1)
        return np.maximum(length, 1.0) ** -0.5

    def _said_by_words(self, X: sparse.csr_matrix, column: int) -> np.ndarray:
        """Return what each word of one document adds to the score of a class."""
        words, counts = X.indices, self.model_._as_read(X).data
        said = self._temper(X)[0] * counts * self.model_.word_evidence(column, words)
        if (linear := self._linear) is None:
            return said
        rest = np.delete(linear.coef[words], column, axis=1).mean(axis=1)
        weighed = linear.weigh(X)
        weight = np.zeros(X.shape[1])
        weight[weighed.indices] = weighed.data
        own = weight[words] * (linear.coef[words, column] - rest)
        if not self.model_share_:
            return own
        known = linear.known(X)[0, 0]
        return known * own + (self.model_share_ * known + 1 - known) * said
