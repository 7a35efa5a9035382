"""A class's words drawn from the levels of its path: what shrinkage and mixture models share."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from leafwise.models._counts import TableClassifier
from leafwise.models._em import Fitted, Rows, Sharing, e_step, run_em
from leafwise.models._heldout import (
    HeldOut,
    Holdout,
    check_holdout,
    evidence_statistics,
    held_out,
)
from leafwise.models._paths import Paths

_NOTHING = 1e-9  # what is left of a count that is all taken away may be rounding


class Sources(NamedTuple):
    """Word distributions along the paths.

    Attributes
    ----------
    mass : of each (source, word) pair, and a 0
    length : of each source, and a 0
    share : pairs × levels, how much of a pair's count each level holds; None: all of it
    apart : each level is without the level below it on the path
    """

    mass: np.ndarray
    length: np.ndarray
    share: np.ndarray | None
    apart: bool


class ClassMixture(TableClassifier):
    """A classifier whose P(w | c) mixes sources, with weights fitted to held-out evidence."""

    holdout: Holdout
    random_state: Any

    def _statistics(
        self, X: sparse.csr_matrix, membership: sparse.csr_matrix
    ) -> tuple[sparse.csr_matrix | np.ndarray, ...]:
        seed = 0 if self.random_state is None else int(self.random_state)
        return (
            *super()._statistics(X, membership),
            evidence_statistics(X, membership, self.holdout, seed),
        )

    def _held_out(self, counts: sparse.csr_matrix) -> HeldOut:
        return held_out(counts, self.evidence_counts_, self.holdout)

    def _validate(self) -> None:
        super()._validate()
        check_holdout(self.holdout)
        check_seed(self.random_state)


class PathMixture(ClassMixture):
    """P(w | c) = Σ_v P(v | c) P(w | v) over the levels v of a class's path (T eq. 1).

    Attributes
    ----------
    level_weights_ : array, nodes × levels
        P(v | c): the class's own documents first, then each node above it up to the root, and
        last the uniform distribution over all words. A path that is shorter has zeros.
    """

    levels: str
    _above = True  # whether there is more to a class than its own documents
    _uniform = True  # whether there is a uniform node above the root

    def _set_parameters(self) -> None:
        counts = sparse.csr_matrix(self.word_counts_)
        counts.sum_duplicates()
        self._paths = Paths(self.taxonomy_, self.nodes_, counts, self._above)
        self._sources, weights = self._fit_sources(self._held_out(counts))
        # A level without words of its own, as that of an only child's parent taken apart, has none.
        self.level_weights_ = to_shares(weights * self._usable(self._sources))

    @abstractmethod
    def _fit_sources(self, evidence: HeldOut) -> tuple[Sources, np.ndarray]:
        """Fit word distributions and weights to the counts."""

    def _pooled(self, mass: np.ndarray) -> Sources:
        """Sum the counts of all documents below each node."""
        return Sources(*self._paths.pool(mass), None, self.levels == "apart")

    def _q(self, sources: Sources, without: HeldOut | None = None) -> np.ndarray:
        """Return P(w | v) for each pair and level, and the uniform one last.

        With evidence to do `without`, each pair's probabilities are those with a piece of it left
        out: for one occurrence (n_cw - 1) / (n_c - 1), and so at every level that it counts for.
        """
        paths = self._paths
        mass, per_pair = sources.mass[paths.level], self._lengths(sources)[paths.row]
        if sources.apart:
            mass[:, 1:] -= mass[:, :-1].copy()
        if without is not None:
            share: np.ndarray | float = 1.0 if sources.share is None else sources.share
            removed = without.removed[:, None] * share
            if without.removed_length is None:
                shorter = removed
            else:
                shorter = (without.removed_length[:, None] * self._mean_share(sources))[paths.row]
            some = slice(0, 1) if sources.apart else slice(None)  # the others do not have it
            removed = np.broadcast_to(removed, mass.shape)
            shorter = np.broadcast_to(shorter, mass.shape)
            mass[:, some] -= removed[:, some]
            per_pair[:, some] -= shorter[:, some]
        q = np.zeros((len(mass), paths.n_levels + self._uniform))
        np.divide(
            mass,
            per_pair,
            out=q[:, : paths.n_levels],
            where=(mass > _NOTHING) & (per_pair > _NOTHING),
        )
        if self._uniform:
            q[:, -1] = 1 / paths.n_words
        return q

    def _mean_share(self, sources: Sources) -> np.ndarray:
        """Return how much of a class's words each level holds."""
        if sources.share is None:
            return (self._paths.path >= 0).astype(float)
        n = self._paths.n[:, None] * sources.share
        total = _sum_rows(n, self._paths.indptr)
        return total / np.maximum(_sum_rows(self._paths.n[:, None], self._paths.indptr), 1e-300)

    def _fit_weights(
        self, q: np.ndarray, mass: np.ndarray, weights: np.ndarray, max_iter: int
    ) -> Fitted[np.ndarray]:
        """Fit P(v | c) to evidence, with the word distributions as they are (T eq. 7).

        A class has one more word of evidence for itself: where none of its words occurs twice,
        all evidence would be against what it says.
        """
        paths = self._paths
        rows = Rows(paths.indptr, np.arange(len(mass)), mass)

        def expect(weights: np.ndarray, sharing: Sharing) -> tuple[np.ndarray, float]:
            expected, bound = e_step(rows, q, weights, sharing)
            expected.by_row[:, 0] += expected.by_row.any(axis=1)
            return expected.by_row, bound

        return run_em(expect, self._normalised, weights, max_iter=max_iter, tol=1e-6)

    def _normalised(self, expected: np.ndarray, before: np.ndarray) -> np.ndarray:
        """Scale expected counts to weights; a class without evidence does as others do."""
        known = expected.sum(axis=1) > 0
        weights = np.where(known[:, None], to_shares(expected), before)
        if known.all():
            return weights
        usable = self._usable(self._pooled(self._paths.n))
        depth = (self._paths.path >= 0).sum(axis=1)
        for c in np.flatnonzero(~known):
            alike = known & (depth == depth[c])
            guess = weights[alike].mean(axis=0) if alike.any() else np.ones(usable.shape[1])
            guess = guess * usable[c]
            weights[c] = to_shares(guess if guess.any() else usable[c])
        return weights

    def _usable(self, sources: Sources) -> np.ndarray:
        """Say which levels of each class have any words."""
        usable = self._lengths(sources) > _NOTHING
        if self._uniform:
            usable = np.column_stack([usable, np.ones(len(usable), bool)])
        return usable

    def _equal_weights(self, sources: Sources) -> np.ndarray:
        return to_shares(self._usable(sources).astype(float))

    def _lengths(self, sources: Sources) -> np.ndarray:
        """Return how many words each level of each class has, 0 past the root."""
        length = sources.length[self._paths.path]
        if sources.apart:
            length[:, 1:] -= length[:, :-1].copy()
        length[self._paths.path < 0] = 0.0
        return length

    def _coefficients(self, columns: Any = slice(None)) -> np.ndarray:
        """Return what each source's mass counts for in P(w | c)."""
        weights = self.level_weights_[columns][:, : self._paths.n_levels]
        length = self._lengths(self._sources)[columns]
        a = np.divide(weights, length, out=np.zeros_like(weights), where=length > _NOTHING)
        if self._sources.apart:  # Σ_l a_l (m_l - m_{l-1})
            a[:, :-1] -= a[:, 1:].copy()
        return a

    def _p_w_given_classes(self, columns: np.ndarray) -> np.ndarray:
        a = np.zeros_like(self.level_weights_[:, : self._paths.n_levels])
        a[columns] = self._coefficients(columns)
        p = self._paths.mix(a, self._sources.mass, columns)
        if self._sources.apart:
            np.maximum(p, 0.0, out=p)
        if self._uniform:
            p += (self.level_weights_[columns, -1] / self._paths.n_words)[:, None]
        return p

    def word_levels(self, column: int, words: np.ndarray) -> tuple[list[str], np.ndarray]:
        """Return the levels that words of a class are drawn from, and P(v | c, w) (T eq. 5).

        The levels are the class's own documents, the nodes above, and "" for the uniform one.
        """
        paths, sources = self._paths, self._sources
        on_path = paths.path[column][paths.path[column] >= 0]
        mass = np.array([paths.of_source(s, sources.mass)[words] for s in on_path])
        if sources.apart:
            mass[1:] -= mass[:-1].copy()
        length = self._lengths(sources)[column, : len(on_path), None]
        q = np.divide(mass, length, out=np.zeros_like(mass), where=length > _NOTHING)
        joint = q * self.level_weights_[column, : len(on_path), None]
        names = [self._name(node) for node in paths.source_node[on_path].tolist()]
        if len(names) > 1 and names[0] == names[1]:  # an inner node: itself, then all below it
            names[0] += " (its own documents)"
        if self._uniform:
            names.append("")
            even = np.full((1, len(words)), self.level_weights_[column, -1] / paths.n_words)
            joint = np.concatenate([joint, even])
        return names, to_shares(joint.T)

    def _name(self, node: int) -> str:
        if self._plain and node:
            return str(self.classes_[np.flatnonzero(self.nodes_ == node)[0]])
        return self.taxonomy_.paths[node]

    def _validate(self) -> None:
        super()._validate()
        if self.levels not in ("apart", "pooled"):
            raise ValueError(f'levels={self.levels!r}: expected "apart" or "pooled".')


def to_shares(counts: np.ndarray) -> np.ndarray:
    """Scale along the last axis to sum to 1, where there is anything."""
    total = counts.sum(axis=-1, keepdims=True)
    return np.divide(counts, total, out=np.zeros(counts.shape), where=total > 0)


def _sum_rows(values: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    total = np.zeros((len(indptr) - 1, values.shape[1]))
    used = indptr[1:] > indptr[:-1]
    if used.any():
        total[used] = np.add.reduceat(values, indptr[:-1][used])
    return total


def check_positive(name: str, value: Any) -> None:
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name}={value!r}: expected an integer of at least 1.")


def check_seed(random_state: Any) -> None:
    if random_state is None:
        return
    if not isinstance(random_state, int | np.integer) or not 0 <= random_state < 1 << 63:
        raise ValueError(
            f"random_state={random_state!r}: expected an integer of at least 0, or None."
        )
