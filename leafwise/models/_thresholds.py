"""Thresholds per class, by the scores of documents that a model has not seen."""

from __future__ import annotations

import numpy as np

FEW_DOCUMENTS = 15  # a class of fewer has no threshold of its own


def choose_thresholds(
    scores: np.ndarray, truth: np.ndarray, min_documents: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the threshold of each class, and which classes share one.

    Classes of fewer documents share the threshold under which the F1 of all their decisions
    together is highest. Scores and truth are documents × classes.
    """
    shared = truth.sum(axis=0) < min_documents
    thresholds = np.empty(truth.shape[1])
    for c in np.flatnonzero(~shared):
        thresholds[c] = best_threshold(scores[:, c], truth[:, c])
    if shared.any():
        found: np.ndarray = np.any(truth & (scores > -np.inf), axis=0)
        # Where no held-out score of theirs can be right, all classes are the evidence.
        pool = shared if found[shared].any() else np.ones_like(found)
        thresholds[shared] = best_threshold(scores[:, pool].ravel(), truth[:, pool].ravel())
    return thresholds, shared


def best_threshold(scores: np.ndarray, truth: np.ndarray) -> float:
    """Return where to cut one class, so that the documents with scores above have the highest F1.

    The threshold is half-way between two neighbouring scores; where several cuts have the same
    F1, in the widest gap. Where no cut has an F1 above 0, no document is above the threshold.
    """
    order = np.argsort(-scores, kind="stable")
    above = scores[order]
    below = np.append(above[1:], -np.inf)
    n_right = np.cumsum(truth[order])
    f1 = 2 * n_right / (n_right[-1] + np.arange(1, len(above) + 1))
    f1[above == below] = 0.0  # equal scores are on the same side
    best = np.flatnonzero(f1 == f1.max())
    low, high = below[best], above[best]
    if not f1.max():
        low, high = above[:1], np.array([np.inf])
    gap = np.argmax(np.where(np.isfinite(low) & np.isfinite(high), high - low, 0.0))
    return _between(float(low[gap]), float(high[gap]))


def _between(low: float, high: float) -> float:
    """Return a finite number t with low <= t < high, the middle where there is one."""
    if not np.isfinite(low):
        return float(np.nextafter(high, -np.inf)) if np.isfinite(high) else 0.0
    middle = low + (high - low) / 2
    return middle if middle < high else low


def deal(truth: np.ndarray, n_parts: int, rng: np.random.Generator) -> np.ndarray:
    """Deal documents into parts of equal size with about equal numbers of every class.

    The rarest class is dealt first, each document to the part that has the fewest of the class,
    and among these to the smallest: a frequent class has documents enough left to even things out.
    """
    part = np.full(len(truth), -1)
    size = np.zeros(n_parts, np.int64)
    for c in [*np.argsort(truth.sum(axis=0), kind="stable"), None]:
        mine = np.flatnonzero(truth[:, c]) if c is not None else np.arange(len(truth))
        dealt = part[mine]
        have = np.bincount(dealt[dealt >= 0], minlength=n_parts)
        free = rng.permutation(mine[dealt < 0])
        # The places that each part offers: its next one makes it hold one more of the class.
        to = np.repeat(np.arange(n_parts), len(free))
        holds = (have[:, None] + np.arange(len(free))).ravel()
        part[free] = to[np.lexsort((size[to], holds))[: len(free)]]
        size += np.bincount(part[free], minlength=n_parts)
    return part
