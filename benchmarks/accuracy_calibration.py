"""How far probabilities are off, and how far they would seem to be off by chance alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

from scipy.stats import binom

Bins = Sequence[Sequence[float]]  # documents, mean confidence, accuracy


def calibration_error(bins: Bins) -> float:
    """As `leafwise.metrics.expected_calibration_error`, of bins that are counted already."""
    off = sum(n * abs(accuracy - confidence) for n, confidence, accuracy in bins)
    return off / sum(n for n, _, _ in bins)


def by_chance(bins: Bins) -> float:
    """Return the error to expect of so few documents where every probability is right.

    How many of n documents are right is then binomial, and off by 2 ν (1 - p) P(ν) on average, ν
    being the first number above n p (de Moivre).
    """
    off = 0.0
    for n, p, _ in bins:
        first = int(n * p) + 1
        off += 2 * first * (1 - p) * binom.pmf(first, n, p)
    return off / sum(n for n, _, _ in bins)


def together(draws: Iterable[Bins], n_bins: int = 15) -> Bins:
    """Put bins of several draws together."""
    sums: dict[int, list[float]] = {}
    for bins in draws:
        for n, confidence, accuracy in bins:
            # Bins are closed above, and the mean of one is inside of it.
            there = sums.setdefault(ceil(confidence * n_bins), [0.0, 0.0, 0.0])
            there[0] += n
            there[1] += n * confidence
            there[2] += n * accuracy
    return [
        (n, of_confidence / n, of_accuracy / n) for n, of_confidence, of_accuracy in sums.values()
    ]
