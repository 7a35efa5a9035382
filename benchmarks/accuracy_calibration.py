"""Reliability curves in the file of results, and of several draws together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from leafwise.metrics import ReliabilityCurve, reliability_curve

Bins = Sequence[Sequence[float]]  # documents, mean confidence and accuracy, of bins that have some
N_BINS = 15


def reliability(truth: np.ndarray, proba: np.ndarray, classes: Any) -> ReliabilityCurve:
    """Return the curve; a label that is no class is one of probability 0."""
    missing = np.setdiff1d(truth, classes)
    proba = np.hstack([proba, np.zeros((len(proba), len(missing)))])
    silent = proba.sum(axis=1) == 0
    proba[silent] = 1 / proba.shape[1]
    return reliability_curve(truth, proba, [*classes, *missing], N_BINS)


def bins_of(curve: ReliabilityCurve) -> Bins:
    every = zip(curve.n_docs.tolist(), curve.mean_confidence.tolist(), curve.accuracy.tolist())
    return [one for one in every if one[0]]


def together(draws: Iterable[Bins]) -> ReliabilityCurve:
    """Put the bins of some draws together."""
    n, confidence, accuracy = np.array([one for bins in draws for one in bins]).T
    # Bins are closed above, and the mean of one is inside of it.
    bin_of = np.ceil(confidence * N_BINS).astype(int)
    n_docs, *sums = (np.bincount(bin_of, weights=x) for x in (n, n * confidence, n * accuracy))
    there = n_docs > 0
    return ReliabilityCurve(*(x[there] / n_docs[there] for x in sums), n_docs[there])
