"""The one EM loop of the package, and the one E step of its mixtures.

Every model of the family says the same thing: an occurrence of a word in a row (a class, or a
document) was drawn from one of K sources, with the row's weights,

    P(w | row) = Σ_k weight[row, k] q[item, k],

where the item is the word, or the pair of row and word where a source's probability depends on
both. The models differ in what the sources are and in what their M step does with the expected
counts. Tempering, annealing, classification EM and stochastic EM change how an occurrence is shared
among the sources, so they are options here and not of any model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, Generic, NamedTuple, TypeVar

import numba
import numpy as np
from scipy import sparse

from leafwise.threads import in_threads, n_threads

Parameters = TypeVar("Parameters")
Statistics = TypeVar("Statistics")

VARIANTS = ("em", "cem", "sem")
_FEW = 1 << 14  # occurrences that are not worth a thread
_FOLDED = 1 << 12  # occurrences at a time, of rows that have all of their steps
_BLOCK = 1 << 16  # occurrences at a time: sums are taken block by block, however many threads


class Sharing(NamedTuple):
    """How an occurrence is shared among the sources that may have drawn it.

    Attributes
    ----------
    beta : float
        The tempering of T 2.2 and G eq. 4: posteriors are proportional to the joint to this power.
    variant : {"em", "cem", "sem"}
        By its posterior; whole to the most probable source; or whole to one drawn from the
        posterior (G section 7).
    seed : int
        Of the draws of "sem".
    """

    beta: float = 1.0
    variant: str = "em"
    seed: int = 0


class Fitted(NamedTuple, Generic[Parameters]):
    """What `run_em` found."""

    parameters: Parameters
    bounds: list[float]  # at the parameters before each step
    n_steps: int  # that led to the parameters
    converged: bool


def run_em(
    e_step: Callable[[Parameters, Sharing], tuple[Statistics, float]],
    m_step: Callable[[Statistics, Parameters], Parameters],
    parameters: Parameters,
    *,
    max_iter: int,
    tol: float = 0.0,
    beta: float | Iterable[float] = 1.0,
    variant: str = "em",
    seed: int = 0,
    judge: Callable[[Parameters], float] | None = None,
    settled: Callable[[], bool] | None = None,
) -> Fitted[Parameters]:
    """Alternate E and M steps until the bound settles.

    Parameters
    ----------
    e_step : parameters and sharing -> statistics and the bound at these parameters
    m_step : statistics and the parameters they were taken at -> new parameters
    max_iter : most updates for each value of `beta`
    tol : stop when the bound rises by less than this, relative to its size; 0 never stops early
    beta : one number, or several to be gone through in turn (deterministic annealing, G section 4)
    variant, seed : see `Sharing`
    judge : stop once this falls, and keep the parameters before that: held-out evidence
    settled : stop when this is true after an E step, whatever the bound says
    """
    bounds: list[float] = []
    converged = False
    best = judge(parameters) if judge else 0.0
    schedule = [float(beta)] if isinstance(beta, Real) else [float(b) for b in beta]  # type: ignore
    step = 0
    for b in schedule:
        converged, last = False, -np.inf
        for _ in range(max_iter):
            statistics, bound = e_step(parameters, Sharing(b, variant, seed + step))
            bounds.append(bound)
            if (tol > 0 and bound - last <= tol * abs(bound)) or (settled and settled()):
                converged = True
                break
            last = bound
            proposal = m_step(statistics, parameters)
            step += 1
            if judge:
                worth = judge(proposal)
                if worth < best:
                    return Fitted(parameters, bounds, step - 1, True)
                best = worth
            parameters = proposal
    return Fitted(parameters, bounds, step, converged)


def check_sharing(beta: Any, variant: Any) -> None:
    """Refuse settings that `run_em` has no meaning for."""
    values = list(beta) if np.iterable(beta) else [beta]
    if not values or not all(isinstance(b, Real) and 0 < float(b) < np.inf for b in values):
        raise ValueError(
            f"beta={beta!r}: expected a number above 0, or several to go through in turn."
        )
    if variant not in VARIANTS:
        raise ValueError(f'variant={variant!r}: expected "em", "cem" or "sem".')


class Rows(NamedTuple):
    """Occurrences by row: what `e_step` goes over.

    Attributes
    ----------
    indptr : where each row's entries begin
    item : the row of `q` of each entry
    mass : how often it occurs
    """

    indptr: np.ndarray
    item: np.ndarray
    mass: np.ndarray

    @classmethod
    def of(cls, X: sparse.csr_matrix) -> Rows:
        """Rows of word counts: documents, whose items are words."""
        return cls(X.indptr.astype(np.int64), X.indices, X.data.astype(np.float64, copy=False))


class Expected(NamedTuple):
    """Expected counts: Σ over a row's entries, by source; and by item and source, if asked for."""

    by_row: np.ndarray
    by_item: np.ndarray | None


def e_step(
    rows: Rows,
    q: np.ndarray,
    weights: np.ndarray,
    sharing: Sharing,
    *,
    own: np.ndarray | None = None,
    items: str = "",
) -> tuple[Expected, float]:
    """Share every occurrence among the K sources.

    Parameters
    ----------
    q : items × K, P(item | source)
    weights : rows × K
    own : one number per entry, or None
        Source r is the row's own; its probability of this entry is this rather than `q`'s, which
        counts the entry itself.
    items : {"", "shared", "apart"}
        Return counts by item too; "apart" promises that no two rows have an item in common.

    Returns
    -------
    Expected, bound
        The bound is Σ n log Σ_k (w q)^β / β, which is the log likelihood for β = 1; for "cem",
        Σ n log max_k w q. An entry that no source can have drawn is passed over.
    """
    n_rows, n_sources = weights.shape
    variant = VARIANTS.index(sharing.variant)
    by_row = np.zeros((n_rows, n_sources))
    blocks = _blocks(rows.indptr)
    by_item = np.zeros(q.shape if items == "apart" else (0, n_sources))
    no_own = np.empty(0)

    def work(bounds: tuple[int, int]) -> tuple[float, np.ndarray]:
        counts = np.zeros(q.shape) if items == "shared" else by_item
        bound = _share(
            *bounds,
            *rows,
            q,
            weights,
            no_own if own is None else own,
            sharing.beta,
            variant,
            sharing.seed,
            by_row,
            counts,
        )
        return bound, counts

    if items == "shared":  # a table per thread rather than per block, or memory would go
        blocks = parts_of(rows.indptr)
    results = in_threads(work, blocks)
    if items == "shared":
        by_item = results[0][1] if results else np.zeros(q.shape)
        for _, counts in results[1:]:
            by_item += counts
    return Expected(by_row, by_item if items else None), float(sum(b for b, _ in results))


def fold(
    rows: Rows,
    q: np.ndarray,
    start: np.ndarray,
    numerator: np.ndarray,
    denominator: np.ndarray,
    own: float,
    steps: int,
) -> np.ndarray:
    """Fit each row's weights by some EM steps, while the sources stay as they are.

    An M step turns expected counts e into weights numerator · e / (denominator + own · e). No row
    depends on another, so each has all of its steps before the next begins, and what it needs of
    `q` stays in the cache meanwhile. (By `run_em` and `e_step`, which go over all rows step by
    step, this took four times as long with 1,600 classes.)

    Parameters
    ----------
    q : items × K, P(item | source)
    start : the weights to begin from, of all rows alike

    Returns
    -------
    weights : rows × K; those of a row that no source can have drawn from are `start`
    """
    weights = np.empty((len(rows.indptr) - 1, len(start)))

    def work(bounds: tuple[int, int]) -> None:
        _fold(*bounds, *rows, q, start, numerator, denominator, own, steps, weights)

    in_threads(work, _blocks(rows.indptr, _FOLDED))
    return weights


def _blocks(indptr: np.ndarray, size: int = _BLOCK) -> list[tuple[int, int]]:
    """Cut rows into blocks of some size, which do not depend on the machine."""
    return _between(indptr, np.searchsorted(indptr, np.arange(size, indptr[-1], size)))


def parts_of(indptr: np.ndarray) -> list[tuple[int, int]]:
    """Cut rows into a part for each thread, of as many occurrences each."""
    n = min(n_threads(), 1 + int(indptr[-1]) // _FEW)
    cuts = np.searchsorted(indptr, indptr[-1] * np.arange(1, n) / n)
    return _between(indptr, cuts)


def _between(indptr: np.ndarray, cuts: np.ndarray) -> list[tuple[int, int]]:
    edges = np.unique(np.concatenate([[0], cuts, [len(indptr) - 1]]))
    return list(zip(edges[:-1].tolist(), edges[1:].tolist()))


@numba.njit(nogil=True, cache=True)
def _share(
    first, last, indptr, item, mass, q, weights, own, beta, variant, seed, by_row, by_item
):  # pragma: no cover - compiled
    n_sources = q.shape[1]
    joint = np.empty(n_sources)
    plain = beta == 1.0 and not own.shape[0]
    bound = 0.0
    for r in range(first, last):
        for e in range(indptr[r], indptr[r + 1]):
            n, i = mass[e], item[e]
            if n <= 0.0:
                continue
            total = 0.0
            if plain:  # a loop that asks nothing takes two thirds of the time
                for k in range(n_sources):
                    joint[k] = weights[r, k] * q[i, k]
                    total += joint[k]
            else:
                for k in range(n_sources):
                    one = weights[r, k] * (own[e] if k == r and own.shape[0] else q[i, k])
                    joint[k] = one if beta == 1.0 else one**beta
                    total += joint[k]
            if not total > 0.0:
                continue
            scale = n / total
            if variant == 0:
                bound += n * np.log(total) / beta
            elif variant == 1:
                scale = 1.0
                best = np.argmax(joint)
                bound += n * np.log(joint[best]) / beta
                joint[:] = 0.0
                joint[best] = n
            else:
                scale = 1.0
                bound += n * np.log(total) / beta
                _draw(joint, n, total, seed, e)
            if by_item.shape[0]:
                for k in range(n_sources):
                    one = joint[k] * scale
                    by_row[r, k] += one
                    by_item[i, k] += one
            else:
                for k in range(n_sources):
                    by_row[r, k] += joint[k] * scale
    return bound


@numba.njit(nogil=True, cache=True)
def _fold(
    first, last, indptr, item, mass, q, start, numerator, denominator, own, steps, weights
):  # pragma: no cover - compiled
    n_sources = q.shape[1]
    w, ratio = np.empty(n_sources), np.empty(n_sources)
    for r in range(first, last):
        for k in range(n_sources):
            w[k] = start[k]
        for _ in range(steps):
            known = False
            for k in range(n_sources):
                ratio[k] = 0.0
            for e in range(indptr[r], indptr[r + 1]):
                n, i = mass[e], item[e]
                total = _product(w, q, i)
                if n <= 0.0 or not total > 0.0:
                    continue
                known = True
                scale = n / total
                for k in range(n_sources):
                    ratio[k] += scale * q[i, k]
            if not known:
                break
            for k in range(n_sources):
                expected = w[k] * ratio[k]
                w[k] = numerator[k] * expected / (denominator[k] + own * expected)
        for k in range(n_sources):
            weights[r, k] = w[k]


@numba.njit(nogil=True, cache=True)
def _product(w, q, i):  # pragma: no cover - compiled
    """Return Σ_k w[k] q[i, k].

    As eight sums: a single one would wait for each addition before the next.
    """
    n = w.shape[0]
    many = n - n % 8
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for k in range(0, many, 8):
        s0 += w[k] * q[i, k]
        s1 += w[k + 1] * q[i, k + 1]
        s2 += w[k + 2] * q[i, k + 2]
        s3 += w[k + 3] * q[i, k + 3]
        s4 += w[k + 4] * q[i, k + 4]
        s5 += w[k + 5] * q[i, k + 5]
        s6 += w[k + 6] * q[i, k + 6]
        s7 += w[k + 7] * q[i, k + 7]
    total = ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))
    for k in range(many, n):
        total += w[k] * q[i, k]
    return total


@numba.njit(nogil=True, cache=True)
def _draw(joint, n, total, seed, entry):  # pragma: no cover - compiled
    """Replace `joint` by n occurrences dealt out at random; what is left of n is one more draw."""
    chance = joint.copy()
    joint[:] = 0.0
    drawn = 0
    while n > 0.0:
        u = _uniform(seed, entry, drawn) * total
        k = 0
        while k < chance.shape[0] - 1 and u >= chance[k]:
            u -= chance[k]
            k += 1
        while chance[k] == 0.0 and k > 0:  # rounding ran past the last possible source
            k -= 1
        joint[k] += min(n, 1.0)
        n -= 1.0
        drawn += 1


@numba.njit(nogil=True, cache=True)
def _uniform(seed, entry, draw):  # pragma: no cover - compiled
    """A number in [0, 1) that depends on these three alone, so threads change nothing."""
    x = np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
    for part in (np.uint64(entry), np.uint64(draw)):
        x = (x ^ part) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return np.float64(x >> np.uint64(11)) * 2.0**-53
