"""How far scores can be believed: from scores to probabilities, by labels that were held out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from leafwise.models._thresholds import FEW_DOCUMENTS, choose_thresholds

_DOUBTS = -9.0, 3.0  # the least and the most, as logits
# The logarithm of the temperature and the logit of the doubt before any label is held out, and how
# far they are off: of a model's scores, and of linear ones.
_USUAL = {
    False: (np.array([0.5, -1.9]), np.array([1.0, 1.0])),
    True: (np.array([-1.6, -1.9]), np.array([0.3, 0.5])),
}
_USUAL_TEMPERATURE = 0.25  # of linear scores, with few labels
_CURVE = 0.3  # errors shrink with so high a power of the number of labels
_MOST_DOUBT = 0.99
_TINY = 1e-9
_LEAST_SLOPE = 1e-3  # of log odds: a higher score is never less likely


class Belief(NamedTuple):
    """What turns scores, documents × classes, into probabilities.

    Of one class for each document: scores over the temperature, scaled to sum to 1, of which the
    doubt is shared among all classes alike. Of several: how far a score is above its class's
    threshold, over the temperature, plus the offset, as log odds.

    Attributes
    ----------
    thresholds : of each class; None where each document is of one class
    at_least_one : whether a document below all thresholds has the class that comes closest
    """

    temperature: float = 1.0
    doubt: float = 0.0
    thresholds: np.ndarray | None = None
    offset: float = 0.0
    at_least_one: bool = True

    def log_proba(self, scores: np.ndarray) -> np.ndarray:
        if self.thresholds is None:
            return with_doubt(scores / self.temperature, self.doubt)
        return log_expit((scores - self.thresholds) / self.temperature + self.offset)


def with_doubt(scores: np.ndarray, doubt: float) -> np.ndarray:
    """Return log P, of which a part is shared among all classes alike."""
    if not doubt:
        return log_softmax(scores, axis=1)
    return np.log(doubt / scores.shape[1] + (1 - doubt) * softmax(scores, axis=1))


def believe_one(right: np.ndarray, scores: np.ndarray, linear: bool, share: float = 1.0) -> Belief:
    """Find the temperature and the doubt under which it is likeliest which documents are right.

    Labels that are held out may be few, so both are drawn towards what is usual.

    Parameters
    ----------
    right : whether each held-out document has its label as the best class
    scores : what was said of them
    linear : whether scores are linear ones; a model is never surer than it says
    share : of the labels that those scores were learned from: with all, fewer will be wrong
    """
    usual, spread = _USUAL[linear]
    lowest, highest = -4.0 if linear else 0.0, 5.0

    def confidence(log_t: float, doubt: float) -> np.ndarray:
        p = softmax(scores / np.exp(log_t), axis=1).max(axis=1)
        return np.clip(doubt / scores.shape[1] + (1 - doubt) * p, _TINY, 1 - _TINY)

    def loss(point: np.ndarray) -> float:
        p = confidence(point[0], float(expit(point[1])))
        log_likelihood = np.log(np.where(right, p, 1 - p)).sum()
        return float((((point - usual) / spread) ** 2).sum() / 2 - log_likelihood) / len(right)

    log_t, logit = minimize(loss, usual, bounds=[(lowest, highest), _DOUBTS]).x
    doubt, less = float(expit(logit)), share**_CURVE
    aim = 1 - less * (1 - confidence(log_t, doubt).mean())
    doubt *= less

    def excess(t: float) -> float:
        return float(confidence(np.log(t), doubt).mean() - aim) ** 2

    return Belief(best_temperature(excess, linear), doubt)


def believe_agreement(mean: float, scores: np.ndarray, linear: bool) -> Belief:
    """Be as sure on average as this: linear scores with what is left to doubt."""

    def sure(t: float) -> float:
        return float(softmax(scores / t, axis=1).max(axis=1).mean())

    if not linear:
        return Belief(best_temperature(lambda t: (sure(t) - mean) ** 2, linear))
    least, most = 1 / scores.shape[1], sure(_USUAL_TEMPERATURE)
    doubt = (most - mean) / max(most - least, _TINY)
    return Belief(_USUAL_TEMPERATURE, float(np.clip(doubt, 0.0, _MOST_DOUBT)))


def believe_several(truth: np.ndarray, scores: np.ndarray) -> Belief:
    """Find thresholds of the highest F1, and the odds under which held-out labels are likeliest.

    A document has at least one class, unless that lowers the F1 of all decisions.
    """
    there = truth > 0
    thresholds, _ = choose_thresholds(scores, there, FEW_DOCUMENTS)
    belief = Belief(thresholds=thresholds)
    free = belief._replace(at_least_one=False)
    if errors(truth, scores, free).mean() < errors(truth, scores, belief).mean():
        belief = free
    possible = np.isfinite(scores)
    above, there = (scores - thresholds)[possible], there[possible]
    if there.all() or not there.any():
        return belief
    line = LogisticRegression(C=1e6).fit(above[:, None], there)
    slope = max(float(line.coef_[0, 0]), _LEAST_SLOPE)
    return belief._replace(temperature=1 / slope, offset=float(line.intercept_[0]))


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
    """Return what is wrong with each document; the mean is one minus the (micro) F1.

    0 or 1, or with several labels the wrong decisions on it, over those that could be on average.
    """
    if belief.thresholds is None:
        return (truth[np.arange(len(truth)), scores.argmax(axis=1)] == 0).astype(float)
    there, found = truth > 0, assigned(scores - belief.thresholds, belief.at_least_one)
    most = (there.sum() + found.sum()) / len(truth)
    return (there ^ found).sum(axis=1) / max(most, _TINY)


def assigned(above: np.ndarray, at_least_one: bool) -> np.ndarray:
    """Say which classes are above their thresholds, or the one that comes closest."""
    found = above > 0
    if at_least_one:
        none = np.flatnonzero(~found.any(axis=1))
        found[none, above[none].argmax(axis=1)] = True
    return found
