"""How far scores can be believed: from scores to probabilities, by labels that were held out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from leafwise.models._thresholds import choose_thresholds

_FEW_DOCUMENTS = 15  # a class of fewer has no threshold of its own
_LEAST_DOUBT, _MOST_DOUBT = -9, 0  # as logits
_LEAST_SLOPE = 1e-3  # of log odds: a higher score is never less likely


class Belief(NamedTuple):
    """What turns scores, documents × classes, into probabilities.

    Of one class for each document: scores over the temperature, scaled to sum to 1, of which the
    doubt is shared among all classes alike. Of several: how far a score is above its class's
    threshold, over the temperature, plus the offset, as log odds.

    Attributes
    ----------
    thresholds : of each class; None where each document is of one class
    """

    temperature: float = 1.0
    doubt: float = 0.0
    thresholds: np.ndarray | None = None
    offset: float = 0.0

    def log_proba(self, scores: np.ndarray) -> np.ndarray:
        if self.thresholds is None:
            return with_doubt(scores / self.temperature, self.doubt)
        return log_expit((scores - self.thresholds) / self.temperature + self.offset)


def with_doubt(scores: np.ndarray, doubt: float) -> np.ndarray:
    """Return log P, of which a part is shared among all classes alike."""
    if not doubt:
        return log_softmax(scores, axis=1)
    return np.log(doubt / scores.shape[1] + (1 - doubt) * softmax(scores, axis=1))


def believe_one(truth: np.ndarray, scores: np.ndarray, linear: bool) -> Belief:
    """Find the temperature and the doubt under which held-out labels are likeliest.

    `linear` says whether scores are linear ones: a model is never surer than it says.
    """

    def loss(point: np.ndarray) -> float:
        log_p = with_doubt(scores / np.exp(point[0]), float(expit(point[1])))
        return -float((truth * log_p).sum(axis=1).mean())

    bounds = [(-4 if linear else 0, 5), (_LEAST_DOUBT, _MOST_DOUBT)]
    starts = [(-1.5, -3.0)] if linear else []
    found = [minimize(loss, start, bounds=bounds) for start in [*starts, (0.5, -3.0), (0.5, -1.0)]]
    log_t, logit = min(found, key=lambda one: one.fun).x
    return Belief(float(np.exp(log_t)), float(expit(logit)))


def believe_several(truth: np.ndarray, scores: np.ndarray) -> Belief:
    """Find thresholds of the highest F1, and the odds under which held-out labels are likeliest."""
    there = truth > 0
    thresholds, _ = choose_thresholds(scores, there, _FEW_DOCUMENTS)
    possible = np.isfinite(scores)
    above, there = (scores - thresholds)[possible], there[possible]
    if there.all() or not there.any():
        return Belief(1.0, 0.0, thresholds)
    line = LogisticRegression(C=1e6).fit(above[:, None], there)
    slope = max(float(line.coef_[0, 0]), _LEAST_SLOPE)
    return Belief(1 / slope, 0.0, thresholds, float(line.intercept_[0]))


def best_temperature(loss: Callable[[float], float], linear: bool) -> float:
    """Find the temperature of the least loss, as `believe_one` does."""
    bounds = (-4 if linear else 0, 5)
    found = minimize_scalar(lambda log_t: loss(np.exp(log_t)), bounds=bounds, method="bounded")
    return float(np.exp(found.x))


def clearly_worse(wrong: dict[str, np.ndarray], way: str) -> bool:
    """Whether another way has fewer wrong, by more than two standard errors of the difference."""
    more = [wrong[way] - other for other in wrong.values()]
    return any(gain.mean() > 2 * gain.std() / np.sqrt(len(gain)) for gain in more)


def errors(truth: np.ndarray, scores: np.ndarray, belief: Belief) -> np.ndarray:
    """Return what is wrong with each document: 0 or 1, or with several labels one minus its F1."""
    if belief.thresholds is None:
        return (truth[np.arange(len(truth)), scores.argmax(axis=1)] == 0).astype(float)
    there, found = truth > 0, assigned(scores - belief.thresholds, True)
    return 1 - 2 * (there & found).sum(axis=1) / np.maximum(there.sum(1) + found.sum(1), 1)


def assigned(above: np.ndarray, at_least_one: bool) -> np.ndarray:
    """Say which classes are above their thresholds, or the one that comes closest."""
    found = above > 0
    if at_least_one:
        none = np.flatnonzero(~found.any(axis=1))
        found[none, above[none].argmax(axis=1)] = True
    return found
