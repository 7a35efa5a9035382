"""Linear support vector machines of two classes, trained in the dual.

Compiled, without a lock: the machines of many classes are trained in threads, from where the last
training ended. With squared slack they are those of scikit-learn's ``LinearSVC``, for documents of
several classes too.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from scipy import sparse

HINGE, SQUARED = 0.0, 0.5  # what `soft` is for a cost of the slack, and of its square
_FREE_PASSES = 5  # over documents on the margin, for each pass over all


class Documents(NamedTuple):
    """The vectors of documents, as compiled code takes them."""

    indptr: np.ndarray
    words: np.ndarray
    values: np.ndarray
    square: np.ndarray  # |x|² + 1 of each: the 1 is the intercept's
    n_words: int

    @classmethod
    def of(cls, X: sparse.csr_matrix) -> Documents:
        """Take the rows of a matrix."""
        square = 1.0 + np.asarray(X.multiply(X).sum(axis=1)).ravel()
        return cls(X.indptr.astype(np.int64), X.indices, X.data, square, X.shape[1])

    def take(self, rows: np.ndarray) -> Documents:
        """Return some of the documents."""
        shape = (len(self.square), self.n_words)
        matrix = sparse.csr_matrix((self.values, self.words, self.indptr), shape)
        return self.of(matrix[rows])

    def score(self, w: np.ndarray) -> np.ndarray:
        """Return w·x + b of each; the last of `w` is b."""
        score = np.empty(len(self.indptr) - 1)
        _score(*self[:3], w, score)
        return score


def train(
    indptr: np.ndarray, words: np.ndarray, values: np.ndarray, square: np.ndarray, n_words: int,
    y: np.ndarray, cost: np.ndarray, share: np.ndarray, soft: float, tol: float, max_iter: int,
) -> tuple[np.ndarray, np.ndarray, int, bool]:  # fmt: skip
    """Find the w of least ½ |w|² + Σ cost ξ, or Σ cost ξ², by coordinate ascent in the dual.

    ξ = max(0, 1 - y (w·x + b)) is a document's slack. w = Σ share cost y x with one number per
    document, changed in place: 0 ≤ share ≤ 1, and `soft` is 0, for the slack itself; 0 ≤ share,
    which is 2 ξ in the end, and `soft` is ½, for its square. The gap between the two objectives
    says how far from the least there is w can be at most.

    Returns w with b last, the scores, the passes taken, and whether it came within `tol`.
    """
    w, score, order = np.zeros(n_words + 1), np.empty(len(y)), np.arange(len(y))
    n_passes, close = _train(
        indptr, words, values, square, y, cost, share, soft, tol, max_iter, w, score, order
    )
    return w, score, n_passes, close


# Compiled code makes no arrays and takes no slices: numba takes longer to compile these than all
# the rest.


@numba.njit(nogil=True, cache=True)
def _train(
    indptr, words, values, square, y, cost, share, soft, tol, max_iter, w, score, order
):  # pragma: no cover - compiled
    n_documents = len(y)
    for i in range(n_documents):
        _add(indptr, words, values, w, i, share[i] * cost[i] * y[i])
    state = np.uint64(1)
    n_passes = 0
    while True:
        _score(indptr, words, values, w, score)
        square_of_w = 0.0
        for k in range(len(w)):
            square_of_w += w[k] * w[k]
        slack = 0.0
        dual = 0.0
        for i in range(n_documents):
            gone = max(0.0, 1.0 - y[i] * score[i])
            slack += cost[i] * (gone if soft == 0.0 else gone * gone)
            dual += share[i] * cost[i] * (1.0 - 0.5 * soft * share[i])
        close = square_of_w + slack - dual <= tol * (0.5 * square_of_w + slack)
        if close or n_passes >= max_iter:
            return n_passes, close
        # Most documents stay where they are, at a share of 0 or 1: more turns go to the others.
        n_free = n_documents
        for turn in range(1 + _FREE_PASSES):
            state = _shuffle(order, n_free, state)
            free = _ascend(indptr, words, values, square, y, cost, share, soft, w, order, n_free)
            if turn == 0:
                n_free = free
        n_passes += 1


@numba.njit(nogil=True, cache=True)
def _ascend(
    indptr, words, values, square, y, cost, share, soft, w, order, n
):  # pragma: no cover - compiled
    """Set the share of each of the first n to its best; move those within bounds to the front.

    Returns how many these are.
    """
    n_free = 0
    most = 1.0 if soft == 0.0 else np.inf
    for k in range(n):
        i = order[k]
        score = _product(indptr, words, values, w, i)
        step = (1.0 - y[i] * score - soft * share[i]) / (square[i] * cost[i] + soft)
        new = min(max(share[i] + step, 0.0), most)
        if new != share[i]:
            _add(indptr, words, values, w, i, (new - share[i]) * cost[i] * y[i])
            share[i] = new
        if 0.0 < new < most:
            order[k] = order[n_free]
            order[n_free] = i
            n_free += 1
    return n_free


@numba.njit(nogil=True, cache=True)
def _shuffle(order, n, state):  # pragma: no cover - compiled
    """Put the first n in random order: always in the same order, hundreds of passes may be needed.

    The draws are a linear congruence of its own, since numba's generator is each thread's.
    """
    for k in range(n - 1, 0, -1):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        j = np.int64((state >> np.uint64(33)) % np.uint64(k + 1))
        order[k], order[j] = order[j], order[k]
    return state


@numba.njit(nogil=True, cache=True)
def _add(indptr, words, values, w, i, amount):  # pragma: no cover - compiled
    if amount != 0.0:
        w[-1] += amount
        for e in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            w[np.uint64(words[e])] += amount * values[e]


@numba.njit(nogil=True, cache=True)
def _score(indptr, words, values, w, score):  # pragma: no cover - compiled
    for i in range(len(score)):
        score[i] = _product(indptr, words, values, w, i)


@numba.njit(nogil=True, cache=True)
def _product(indptr, words, values, w, i):  # pragma: no cover - compiled
    """Return w·x + b of one document.

    As four sums: a single one would wait for each addition before the next. Indices are unsigned,
    so that numba need not ask whether they count from the end. (With the words renumbered, the
    common ones first, it took longer.)
    """
    e, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    s0 = s1 = s2 = s3 = 0.0
    while e + four <= end:
        s0 += values[e] * w[np.uint64(words[e])]
        s1 += values[e + one] * w[np.uint64(words[e + one])]
        s2 += values[e + two] * w[np.uint64(words[e + two])]
        s3 += values[e + three] * w[np.uint64(words[e + three])]
        e += four
    while e < end:
        s0 += values[e] * w[np.uint64(words[e])]
        e += one
    return w[-1] + ((s0 + s1) + (s2 + s3))
