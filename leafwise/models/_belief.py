"""How far scores can be believed: from scores to probabilities, by labels that were held out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from leafwise.models._thresholds import FEW_DOCUMENTS, choose_thresholds

# What is usual before any label is held out, and how far that is off, of a model's scores, and of
# linear ones: the logarithm of the temperature, the logits of the doubt and of its leaning, and the
# logarithm of how much higher the temperature is for documents that were not learned from. Of
# linear scores, where neighbours are not trusted, and where they are: then what was spread makes
# documents that were learned from look surer than new ones.
_USUAL = np.array([0.5, -1.9, -3.5, 0.0]), np.array([1.0, 1.0, 1.0, 0.3])
_USUAL_LINEAR = np.array(
    [
        [[-2.4, -0.3, -1.4, 0.05], [0.35, 0.9, 1.0, 0.2]],
        [[-1.6, -1.7, -2.0, -0.3], [0.3, 0.6, 1.0, 0.2]],
    ]
)
_LEAST = {False: 0.0, True: -4.0}  # log temperature: a model is never surer than it says
_MOST = 5.0
_LOGITS = -9.0, 3.0
_NEWER = -1.0, 1.0
_USUAL_TEMPERATURE = 0.25  # of linear scores, with few labels
_CURVE = 0.2  # errors shrink with so high a power of the number of labels
_MOST_DOUBT = 0.99
_UNEVEN = 2.0  # mean square of weights: by so many times fewer documents would tell as much
_SHARE_ROUNDS = 30  # of EM, after which shares of classes move little
_TINY = 1e-9
_LEAST_SLOPE = 1e-3  # of log odds: a higher score is never less likely


class Belief(NamedTuple):
    """What turns scores, documents × classes, into probabilities.

    Of one class for each document: scores over the temperature, scaled to sum to 1. A part of it,
    the doubt, is shared by scores that differ less: where many classes come close, the best is
    right more often than one temperature for all documents can say without being too sure where
    few do. Of several classes: how far a score is above its class's threshold, over the
    temperature, plus the offset, as log odds.

    Attributes
    ----------
    temperature : for documents that were learned from
    leaning : how much scores still differ for the doubt; 0: it is shared among all classes alike
    thresholds : of each class; None where each document is of one class
    at_least_one : whether a document below all thresholds has the class that comes closest
    new_temperature : for documents that were not: they have words that nothing is known of, and
        their scores had no part in what was learned
    """

    temperature: float = 1.0
    doubt: float = 0.0
    thresholds: np.ndarray | None = None
    offset: float = 0.0
    at_least_one: bool = True
    leaning: float = 0.0
    new_temperature: float = 1.0

    def log_proba(self, scores: np.ndarray, learned: np.ndarray) -> np.ndarray:
        """Return log P of each class, given which documents were learned from."""
        if self.thresholds is None:
            temperature = np.where(learned, self.temperature, self.new_temperature)
            return with_doubt(scores / temperature[:, None], self.doubt, self.leaning)
        return log_expit((scores - self.thresholds) / self.temperature + self.offset)


def with_doubt(scores: np.ndarray, doubt: float, leaning: float = 0.0) -> np.ndarray:
    """Return log P, of which a part is shared by scores that differ less, or not at all."""
    if not doubt:
        return log_softmax(scores, axis=1)
    shared = softmax(leaning * scores, axis=1) if leaning else 1 / scores.shape[1]
    with np.errstate(divide="ignore"):  # a class of which nothing is known may be impossible
        return np.log(doubt * shared + (1 - doubt) * softmax(scores, axis=1))


def believe_one(
    right: np.ndarray,
    scores: np.ndarray,
    learned: np.ndarray,
    linear: bool,
    share: float = 1.0,
    trusted: float = 0.0,
) -> Belief:
    """Find temperatures and a doubt under which it is likeliest which documents are right.

    Labels that are held out may be few, so all are drawn towards what is usual.

    Parameters
    ----------
    right : whether each held-out document has its label as the best class
    scores : what was said of them
    learned : whether each was learned from, without its label
    linear : whether scores are linear ones
    share : of the labels that those scores were learned from: with all, fewer will be wrong
    trusted : how much neighbours are, from 0 to 1
    """
    usual, spread = _USUAL
    if linear:
        usual, spread = (1 - trusted) * _USUAL_LINEAR[0] + trusted * _USUAL_LINEAR[1]
    alike = not learned.any()  # all are new: there is one temperature
    learned = learned | alike
    below = scores - scores.max(axis=1, keepdims=True)

    def best(slope: np.ndarray | float) -> np.ndarray:
        return 1 / np.exp(below * slope).sum(axis=1)

    def confidence(log_t: float, doubt: float, leaning: float, log_newer: float) -> np.ndarray:
        slope = np.exp(-log_t - np.where(learned, 0.0, log_newer))[:, None]
        p = (1 - doubt) * best(slope) + doubt * best(leaning * slope)
        return np.clip(p, _TINY, 1 - _TINY)

    def loss(point: np.ndarray) -> float:
        p = confidence(point[0], expit(point[1]), expit(point[2]), point[3])
        log_likelihood = np.log(np.where(right, p, 1 - p)).sum()
        return float((((point - usual) / spread) ** 2).sum() / 2 - log_likelihood) / len(right)

    bounds = [(_LEAST[linear], _MOST), _LOGITS, _LOGITS, _NEWER]
    log_t, doubt, leaning, log_newer = minimize(loss, usual, bounds=bounds).x
    doubt, leaning, less = float(expit(doubt)), float(expit(leaning)), share**_CURVE
    aim = 1 - less * (1 - confidence(log_t, doubt, leaning, log_newer).mean())
    doubt *= less

    def excess(t: float) -> float:
        return float(confidence(np.log(t), doubt, leaning, log_newer).mean() - aim) ** 2

    t = best_temperature(excess, linear)
    newer = 1.0 if alike else float(np.exp(log_newer))
    return Belief(t, doubt, leaning=leaning, new_temperature=t * newer)


def believe_agreement(mean: float, scores: np.ndarray, linear: bool) -> Belief:
    """Be as sure on average as this: linear scores with what is left to doubt."""

    def sure(t: float) -> float:
        return float(softmax(scores / t, axis=1).max(axis=1).mean())

    if not linear:
        t = best_temperature(lambda t: (sure(t) - mean) ** 2, linear)
        return Belief(t, new_temperature=t)
    least, most = 1 / scores.shape[1], sure(_USUAL_TEMPERATURE)
    doubt = (most - mean) / max(most - least, _TINY)
    doubt = float(np.clip(doubt, 0.0, _MOST_DOUBT))
    return Belief(_USUAL_TEMPERATURE, doubt, new_temperature=_USUAL_TEMPERATURE)


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
    bounds = (_LEAST[linear], _MOST)
    found = minimize_scalar(lambda log_t: loss(np.exp(log_t)), bounds=bounds, method="bounded")
    return float(np.exp(found.x))


def clearly_worse(wrong: dict[str, np.ndarray], way: str, by: float = 2.0) -> bool:
    """Whether another way has fewer wrong, by some standard errors of the difference."""
    more = [wrong[way] - other for other in wrong.values()]
    return any(gain.mean() > by * gain.std() / np.sqrt(len(gain)) for gain in more)


def weights_of_classes(
    classes: np.ndarray, n_labels: np.ndarray, n_sorted: np.ndarray
) -> np.ndarray:
    """Weigh documents held out as if classes had labels in proportion to their documents.

    Labels are often given so many for each class, where some classes have most of the documents:
    what is wrong with those decides then. Where labels are nearly in proportion, or a random
    sample, all weigh the same: to weigh them would add more chance than it takes away.

    Parameters
    ----------
    classes : of the documents held out
    n_labels : labels of each class
    n_sorted : documents that were sorted into each class
    """
    share = (n_sorted + 1) / (n_sorted.sum() + len(n_sorted))
    weight = share[classes] / n_labels[classes]
    weight /= weight.mean()
    return weight if np.mean(weight**2) > _UNEVEN else np.ones(len(classes))


def log_more_common(log_p: np.ndarray, n_labels: np.ndarray) -> np.ndarray:
    """Return how much more common each class is among documents than among labels, as a logarithm.

    What is believed of documents is right where classes have the shares that labels have. By
    Bayes' rule it changes with the shares, and their mean is the shares: EM finds where the two
    agree (Saerens, Latinne and Decaestecker, 2002). As many documents as there are classes, with
    the shares of the labels, are added: so a class of which little is seen stays possible. Nothing
    is said of classes without a label, since nobody knows how far they can be believed.

    Parameters
    ----------
    log_p : log P(class | document), of documents of the kind that is asked for
    n_labels : labels of each class
    """
    n_classes = len(n_labels)
    among_labels = (n_labels + 1) / (n_labels.sum() + n_classes)
    p, more = np.exp(log_p), np.ones(n_classes)
    for _ in range(_SHARE_ROUNDS):
        of = p * more
        found = (of / of.sum(axis=1, keepdims=True)).sum(axis=0)
        more = (found / among_labels + n_classes) / (len(p) + n_classes)
        more[n_labels == 0] = 1.0
    return np.log(more)


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
