"""The Hierarchical Mixture: words find the level of the tree that they belong to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from leafwise.models._em import Expected, Fitted, Rows, Sharing, check_sharing, e_step, run_em
from leafwise.models._heldout import HeldOut, Holdout
from leafwise.models._path_mixture import PathMixture, Sources, check_positive, to_shares
from leafwise.taxonomy import Taxonomy

_MOST_STEPS = 10  # T: more than two to five are unnecessary, and overfit


class _State(NamedTuple):
    sources: Sources
    weights: np.ndarray


class HierarchicalMixture(PathMixture):
    """Node word distributions and level weights fitted by EM (T 2.2, eq. 1-9).

    Each word of a document comes from some node between the document's class and the root. EM
    moves general words up the tree and special ones down, so that a class shares with others only
    what is common to them. Fitting looks at no document after counting: its time and memory grow
    with the distinct (node, word) pairs.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    steps : int or "auto"
        EM steps for the word distributions (T eq. 6). From levels taken apart one is enough; from
        pooled ones T took two to five. "auto" goes on while the held-out evidence becomes more
        likely, 10 steps at most; 0 leaves the distributions of `HierarchicalShrinkage`.
    weights : {"heldout", "training", "uniform"} or array
        P(v | c): fitted to held-out evidence (T eq. 7), to the training counts themselves, all
        levels alike (G's HiMi), or given for each level: the class's own first, the uniform one
        last; a path that is shorter leaves out those before the uniform one.
    holdout, class_prior, nodes, random_state
        As in `HierarchicalShrinkage`.
    levels : {"apart", "pooled"}
        The word distributions to start from, as in `HierarchicalShrinkage`.
    beta : float or list of floats
        Tempering: posteriors are taken to this power (T 2.2, G eq. 4). Several values are gone
        through in turn: deterministic annealing.
    variant : {"em", "cem", "sem"}
        "cem" gives each word of a class whole to its most probable level, "sem" to one drawn at
        random (G section 7).
    weight_steps : int
        EM steps for the weights to each step of the word distributions. One, as T's E and M
        steps have it, keeps the weights of classes from drifting apart more than classes differ.
    random_state : int or None
        Which documents a fraction holds out, and the draws of "sem".

    Attributes
    ----------
    level_weights_ : array, nodes × levels
        P(v | c), as in `HierarchicalShrinkage`.
    bounds_ : list of float
        The bound before each EM step: for `beta` = 1 the log likelihood of the training counts.
    n_steps_ : int
        EM steps that were taken.
    """

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        steps: int | str = 1,
        weights: Any = "heldout",
        holdout: Holdout = "occurrence",
        levels: str = "apart",
        beta: Any = 1.0,
        variant: str = "em",
        class_prior: Any = "learned",
        nodes: Any = "all",
        weight_steps: int = 1,
        random_state: int | None = None,
    ):
        self.taxonomy = taxonomy
        self.steps = steps
        self.weights = weights
        self.holdout = holdout
        self.levels = levels
        self.beta = beta
        self.variant = variant
        self.class_prior = class_prior
        self.nodes = nodes
        self.weight_steps = weight_steps
        self.random_state = random_state

    def _fit_sources(self, evidence: HeldOut) -> tuple[Sources, np.ndarray]:
        auto = isinstance(self.steps, str)
        most = _MOST_STEPS if auto else int(self.steps)
        fitted = self._fit_steps(evidence.kept, evidence, most, auto, self._given_weights())
        sources, weights = fitted.parameters
        if not np.array_equal(evidence.kept, self._paths.n):
            # The weights are of a model of the documents not held out; those now join.
            again = self._fit_steps(self._paths.n, evidence, fitted.n_steps, False, weights)
            sources = again.parameters.sources
        self.bounds_, self.n_steps_ = fitted.bounds, fitted.n_steps
        return sources, weights

    def _fit_steps(
        self, n: np.ndarray, evidence: HeldOut, most: int, judged: bool, fixed: np.ndarray | None
    ) -> Fitted[_State]:
        """Alternate T eq. 5-7 over counts `n`, with `fixed` weights where they are given."""
        entry, pooled = np.arange(len(n)), self._pooled(n)

        def reweigh(sources: Sources, by_row: np.ndarray | None, before: np.ndarray) -> _State:
            if fixed is not None:
                return _State(sources, fixed)
            if self.weights == "training":
                return _State(
                    sources, before if by_row is None else self._normalised(by_row, before)
                )
            q = self._q(sources, evidence)
            fitted = self._fit_weights(q, evidence.mass, before, self.weight_steps)
            return _State(sources, fitted.parameters)

        def expect(state: _State, sharing: Sharing) -> tuple[Expected, float]:
            rows = Rows(self._paths.indptr, entry, n)
            return e_step(rows, self._q(state.sources), state.weights, sharing, items="apart")

        def update(expected: Expected, state: _State) -> _State:
            assert expected.by_item is not None
            moved = expected.by_item[:, : self._paths.n_levels]
            share = np.divide(moved, n[:, None], out=np.zeros_like(moved), where=n[:, None] > 0)
            mass, length = self._paths.pool(moved)  # T eq. 6
            # A node that no word was drawn from says what the documents below it say.
            idle = (length <= 0) & (pooled.length > 0)
            words = np.append(np.repeat(idle[:-1], np.diff(self._paths.lists.indptr)), False)
            mass = np.where(words, pooled.mass, mass)
            share[idle[self._paths.path][self._paths.row]] = 1.0
            sources = Sources(mass, np.where(idle, pooled.length, length), share, False)
            return reweigh(sources, expected.by_row, state.weights)

        def worth(state: _State) -> float:
            rows = Rows(self._paths.indptr, entry, evidence.mass)
            return e_step(rows, self._q(state.sources, evidence), state.weights, Sharing())[1]

        return run_em(
            expect,
            update,
            reweigh(pooled, None, self._equal_weights(pooled)),
            max_iter=most,
            beta=self.beta,
            variant=self.variant,
            seed=0 if self.random_state is None else int(self.random_state),
            judge=worth if judged else None,
        )

    def _given_weights(self) -> np.ndarray | None:
        if isinstance(self.weights, str):
            even = self._equal_weights(self._pooled(self._paths.n)._replace(apart=False))
            return even if self.weights == "uniform" else None
        given = np.asarray(self.weights, dtype=float)
        usable = self._usable(self._pooled(self._paths.n)._replace(apart=False))
        if given.shape != usable.shape[1:]:
            raise ValueError(
                f"weights has shape {given.shape}, expected {usable.shape[1]} numbers: one for "
                "each level of the deepest path, the class's own first, "
                f"the {'uniform one' if self._uniform else 'root'} last."
            )
        weights = usable * given
        return to_shares(np.where(weights.any(axis=1, keepdims=True), weights, usable))

    def _p_w_given_node(self, node: int) -> np.ndarray:
        """Return the fitted P(w | v); of the documents at and below a node where it has none."""
        inner = np.flatnonzero(self._paths.source_node[len(self.nodes_) :] == node)
        own = np.flatnonzero(self.nodes_ == node)
        sources = [len(self.nodes_) + inner[0]] if len(inner) else own.tolist()
        if not sources:
            return super()._p_w_given_node(node)
        mass = self._paths.of_source(sources[0], self._sources.mass)
        return mass / mass.sum() if mass.any() else super()._p_w_given_node(node)

    def _validate(self) -> None:
        super()._validate()
        check_sharing(self.beta, self.variant)
        check_positive("weight_steps", self.weight_steps)
        known = self.steps == "auto" or (
            isinstance(self.steps, int | np.integer) and self.steps >= 0
        )
        if not known:
            raise ValueError(f'steps={self.steps!r}: expected "auto" or an integer of at least 0.')
        if isinstance(self.weights, str):
            if self.weights not in ("heldout", "training", "uniform"):
                raise ValueError(
                    f'weights={self.weights!r}: expected "heldout", "training", "uniform" or an '
                    "array."
                )
            return
        given = np.asarray(self.weights, dtype=float)
        if not (given >= 0).all() or not given.any():
            raise ValueError(
                f"weights={self.weights!r}: expected numbers of at least 0, not all of them 0."
            )
