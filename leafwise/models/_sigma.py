"""How tightly nodes are bound to their parents: σ chosen by documents that had no part in it."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
from scipy import sparse

from leafwise.threads import in_threads

GRID = 10.0 ** np.arange(0, 6.5, 0.5)  # what "auto" chooses from
_START = 100.0  # where the search among documents begins


def likeliest(log_likelihood: Callable[[float], np.ndarray], most: float) -> float:
    """Climb from σ = 100 to where held-out documents are most likely, first in tens.

    Each look is an EM, and likelihood has one top. A step is taken where documents gain by more
    than the standard error of the gain, and never to more than `most`: few documents tell little.
    """
    found: dict[int, np.ndarray] = {}
    top = int(np.searchsorted(GRID, max(most, GRID[0]), side="right")) - 1
    best = min(int(np.searchsorted(GRID, _START)), top)

    def gain(k: int) -> float:
        for at in (best, k):
            if at not in found:
                found[at] = log_likelihood(float(GRID[at]))
        rise = found[k] - found[best]
        mean = float(rise.mean())
        return mean if mean > rise.std() / np.sqrt(len(rise)) else 0.0

    for step in (2, 1):
        while True:
            nearby = [k for k in (best - step, best + step) if 0 <= k <= top]
            gains = [gain(k) for k in nearby]
            if not gains or max(gains) <= 0:
                break
            best = nearby[int(np.argmax(gains))]
    return float(GRID[best])


def likeliest_of_the_best(right: np.ndarray, likelihood: np.ndarray, weight: np.ndarray) -> int:
    """Choose a row: of those with about as many right as the best, the one of highest likelihood.

    Few documents leave it to chance which row has the most; so a row is left out only where it
    has fewer by more than two standard errors of the difference.
    """
    share = weight / weight.sum()
    lost = right[np.argmax(right @ share)] - right
    mean = lost @ share
    error = np.sqrt(((lost - mean[:, None]) ** 2) @ share / weight.sum())
    return int(np.argmax(np.where(mean <= 2 * error, likelihood, -np.inf)))


def left_out_scores(
    X: sparse.csr_matrix,
    sizes: np.ndarray,
    weight: np.ndarray,
    own: np.ndarray,
    theta: np.ndarray,
    rise: np.ndarray,
    pooled: np.ndarray,
    set_of_words: bool,
) -> np.ndarray:
    """Return documents × classes: log P(d | c), each document under the estimates from all others.

    Parameters
    ----------
    sizes : what each document adds to the size of its node: its words, or one
    weight : how much of each document is left out
    own : its class
    theta : words × classes
    rise : how much the estimate of each class rises with a count at each other class
    pooled : how often each word is in all documents together
    """
    scores = np.zeros((X.shape[0], theta.shape[1]))
    parts = [part for part in np.array_split(np.arange(X.shape[0]), 8) if len(part)]
    lack = np.empty((0, 0))
    if set_of_words:  # what the words that a document lacks say: of all words first
        known = theta[pooled > 0]
        scores += np.log1p(-known).sum(axis=0)
        lack = (1 / (1 - known)).T @ known
    arguments = (X.indptr, X.indices, X.data, sizes, weight, own, theta, rise, pooled, lack)

    def score(part: np.ndarray) -> None:
        _left_out(part[0], part[-1] + 1, *arguments, scores)

    in_threads(score, parts)
    return scores


@numba.njit(nogil=True, cache=True)
def _left_out(
    first, last, indptr, words, counts, sizes, weight, own, theta, rise, pooled, lack, scores
):  # pragma: no cover - compiled
    """Add log P(d | j) of documents, each under the estimates from all others.

    Without K of the size of node c, of which k are w, its equation loses K from its total and k
    from its counts, so that θ_j(w) becomes θ_j - g_jc k + g_jc K (θ_c - g_cc k) / (1 - g_cc K).
    For the words that a set of words lacks, log (1 - θ) is taken as linear in that change.
    """
    n_classes = theta.shape[1]
    is_set = lack.shape[0] > 0
    for d in range(first, last):
        c = own[d]
        share = sizes[d] * weight[d] / (1.0 - rise[c, c] * sizes[d] * weight[d])
        if is_set:
            for j in range(n_classes):
                scores[d, j] -= rise[j, c] * share * lack[j, c]
        for p in range(indptr[d], indptr[d + 1]):
            w, k = words[p], counts[p] * weight[d]
            if pooled[w] - k < 1e-9:  # a word of this document alone: the others say nothing of it
                continue
            rest = (theta[w, c] - rise[c, c] * k) * share
            for j in range(n_classes):
                t = max(theta[w, j] - rise[j, c] * (k - rest), 1e-12)
                if is_set:
                    lacked = 1.0 - theta[w, j]
                    scores[d, j] += np.log(min(t, 1.0 - 1e-12)) - np.log(lacked)
                    scores[d, j] += rise[j, c] * share * theta[w, c] / lacked
                else:
                    scores[d, j] += counts[p] * np.log(t)
