"""Harmonic functions on a graph: seeds held, every other document the mean of its neighbours.

With similarities S between documents, D their sums by document, and a weight w of each document's
own seed s, what is solved for is

    y_i = w_i s_i + (1 - w_i) Σ_j S_ij y_j / D_i,

which is E eq. 13-16 where all weights are 0 or 1. With D_i / (1 - w_i) on both sides it is
symmetric and positive definite, so conjugate gradients find y in a few dozen products.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.sparse.csgraph import connected_components
from scipy.special import gammaln

from leafwise.models._blocks import Blocks, PerDocument
from leafwise.taxonomy import Taxonomy
from leafwise.threads import in_threads

_LOG_WEIGHTS = np.log([1e-2, 1e6])  # of the Dirichlet that proportions are drawn from
_COLUMNS = 32  # solved at a time, so that work space does not grow with the classes
_ROWS = 1 << 12  # multiplied at a time by one thread


class Harmonic(NamedTuple):
    """What `harmonic` found."""

    y: np.ndarray  # documents × classes
    reached: np.ndarray  # bool: whether a seed is connected to the document
    n_iter: int  # of the slowest class
    residual: float  # the largest that is left of any class, relative to its right-hand side


def harmonic(
    graph: sparse.csr_matrix,
    seeds: np.ndarray,
    weight: np.ndarray,
    prior: np.ndarray,
    tol: float,
    max_iter: int,
    blocks: Blocks | None = None,
) -> Harmonic:
    """Solve for y (E eq. 16).

    Parameters
    ----------
    graph : n × n, symmetric, similarities above 0, none of a document to itself (E eq. 14)
    seeds : n × classes, s; rows without weight are not looked at
    weight : n numbers from 0 to 1: 1 holds a document to its seed, 0 is a document without one
    prior : y of documents that no seed is connected to; the mean of no neighbours
    tol : of D^(-1/2) times the residual of each class, relative to the right-hand side
    blocks : where it is solved, some classes in each place; None for here
    """
    degree = np.asarray(graph.sum(axis=1)).ravel()
    _, component = connected_components(graph, directed=False)
    reached = np.isin(component, component[weight > 0])
    y = np.tile(np.asarray(prior, np.float64), (graph.shape[0], 1))
    seeded = weight > 0
    w = weight[seeded, None]
    y[seeded] = w * seeds[seeded] + (1 - w) * y[seeded]  # stays so where there is no neighbour

    free = np.flatnonzero(reached & (weight < 1) & (degree > 0))
    held = np.flatnonzero(weight == 1)
    if not len(free):
        return Harmonic(y, reached, 0, 0.0)
    # Jacobi's preconditioner, folded into the matrix: (I - T) x = b with y = scale x.
    w_free = weight[free]
    scale = np.sqrt((1 - w_free) / degree[free])
    rows = graph[free]
    between = sparse.csr_matrix(rows[:, free])
    between.data *= scale[np.repeat(np.arange(len(free)), np.diff(between.indptr))]
    between.data *= scale[between.indices]
    b = rows[:, held] @ seeds[held]
    b += (degree[free] * w_free / (1 - w_free))[:, None] * np.where(
        w_free[:, None] > 0, seeds[free], 0.0
    )
    b *= scale[:, None]
    here = Blocks([], []) if blocks is None else blocks
    width = _COLUMNS if blocks is None else -(-b.shape[1] // max(1, len(blocks.sizes)))
    width = min(max(width, 1), _COLUMNS)
    parts = [b[:, first : first + width] for first in range(0, b.shape[1], width)]
    x, steps, residual = here.spread(parts).total(_solve_columns, between, tol, max_iter)
    y[free] = scale[:, None] * x.T
    return Harmonic(y, reached, int(steps.max()), float(residual.max()))


def _solve_columns(b: np.ndarray, T: sparse.csr_matrix, tol: float, max_iter: int) -> tuple:
    x, steps, residual = conjugate_gradients(T, np.ascontiguousarray(b), tol, max_iter)
    return PerDocument(x.T), PerDocument([steps]), PerDocument([residual])


def conjugate_gradients(
    T: sparse.csr_matrix, b: np.ndarray, tol: float, max_iter: int
) -> tuple[np.ndarray, int, float]:
    """Solve (I - T) x = b for every column of b, with one product of all columns per step.

    Each column has step lengths of its own, and rests once its residual is below `tol` times b.

    Returns
    -------
    x, steps, residual : the residual is the largest of any column, relative to b
    """
    x, r = np.zeros_like(b), b.copy()
    p, q = r.copy(), np.empty_like(b)
    rr = _dots(r, r)
    size = np.where(rr > 0, rr, 1.0)
    steps = 0
    while steps < max_iter and (active := rr > tol**2 * size).any():
        _multiply(T, p, q)
        alpha = np.divide(rr, _dots(p, q), out=np.zeros_like(rr), where=active)
        x += alpha * p
        q *= alpha
        r -= q
        new = _dots(r, r)
        p *= np.divide(new, rr, out=np.zeros_like(rr), where=active)
        p += r
        rr = new
        steps += 1
    return x, steps, float(np.sqrt((rr / size).max(initial=0.0)))


def _multiply(T: sparse.csr_matrix, p: np.ndarray, q: np.ndarray) -> None:
    """Set q to (I - T) p. SciPy's product holds the lock, and has one thread."""
    blocks = [(first, min(first + _ROWS, len(p))) for first in range(0, len(p), _ROWS)]
    in_threads(lambda rows: _left(*rows, T.indptr, T.indices, T.data, p, q), blocks)


@numba.njit(nogil=True, cache=True)
def _left(first, last, indptr, indices, data, p, q):  # pragma: no cover - compiled
    # Without slices, whose checks would take numba ten times as long to compile as all of this.
    n_columns = p.shape[1]
    for i in range(first, last):
        for k in range(n_columns):
            q[i, k] = p[i, k]
        for e in range(indptr[i], indptr[i + 1]):
            weight, j = data[e], indices[e]
            for k in range(n_columns):
                q[i, k] -= weight * p[j, k]


def _dots(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", a, b)


def raised(similarity: np.ndarray, power: float) -> np.ndarray:
    """Raise similarities to a power, as shares of the largest: only their ratios count."""
    return (similarity / similarity.max(initial=0.0)) ** power if len(similarity) else similarity


def estimated_proportions(counts: np.ndarray) -> np.ndarray:
    """Estimate the proportions of classes from how many labels each has.

    Proportions are taken to be drawn from a symmetric Dirichlet distribution, whose weight is the
    one under which the counts are most likely. Counts that differ by chance alone give equal
    proportions; counts that differ by more give nearly their shares.
    """
    n, n_classes = counts.sum(), len(counts)

    def loss(log_weight: float) -> float:
        each = np.exp(log_weight) / n_classes
        drawn = gammaln(counts + each).sum() - n_classes * gammaln(each)
        return float(gammaln(n + each * n_classes) - gammaln(each * n_classes) - drawn)

    weight = np.exp(minimize_scalar(loss, bounds=_LOG_WEIGHTS, method="bounded").x)
    return (counts + weight / n_classes) / (n + weight)


class ClassMasses:
    """Class mass normalisation (E eq. 17), which is z = scale y - offset for each class.

    Parameters
    ----------
    r : the proportion of each class, above 0
    y : of the documents whose y are the masses, documents × classes
    branches : normalises y down a tree before that, or None
    normalise : False leaves y as it is, with a threshold of 1/2
    """

    def __init__(
        self,
        r: np.ndarray,
        y: np.ndarray,
        branches: BranchMasses | None = None,
        normalise: bool = True,
    ):
        n = len(y)
        self.r = r
        self.branches = branches if normalise else None
        if not normalise:
            self.scale, self.offset = np.ones(len(r)), np.full(len(r), 0.5)
            self._z_of_none = r - 0.5
            return
        # A class with no mass at all, or all there is, is taken to have the mass that it should:
        # r n. Then z is (2 y - 1) / n; and so it is where nothing is known, and y is r.
        mass = self._down(y).sum(axis=0)
        mass = np.where((mass > 0) & (mass < n), mass, r * n)
        self.offset = np.divide(1 - r, n - mass, out=np.full(len(r), 1 / n), where=mass < n)
        self.scale = r / mass + self.offset
        self._z_of_none = (2 * r - 1) / n

    def z(self, y: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return z of documents; `known` says whether there is anything to their y."""
        z = self.scale * self._down(y) - self.offset
        z[~known] = self._z_of_none
        return z

    def p(self, y: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return probabilities that have the order of z; of what is not known, r."""
        z = self.z(y, known)
        p = np.maximum(z + self.offset.min(), 0.0)
        p[~known] = self.r
        silent = ~p.any(axis=1)
        p[silent, z[silent].argmax(axis=1)] = 1.0
        return p / p.sum(axis=1, keepdims=True)

    def _down(self, y: np.ndarray) -> np.ndarray:
        return y if self.branches is None else self.branches.normalise(y)


class BranchMasses:
    """Class mass normalisation down a tree, by the rule of Zhu et al. at each node.

    At node v a document goes into branch o, or stays if v is a class, with weight y_o r_o / m_o:
    its y, proportion and mass, all summed over the branch. So branches have the masses that they
    should first, and then the classes within.

    Parameters
    ----------
    nodes : the node of each class
    r, y : as in `ClassMasses`
    """

    def __init__(self, tree: Taxonomy, nodes: np.ndarray, r: np.ndarray, y: np.ndarray):
        self.tree, self.nodes = tree, nodes
        of_class = np.zeros((2, len(tree)))
        of_class[:, nodes] = r, y.sum(axis=0)
        self._staying, self._entering = (
            # Where there is no mass, as if it were what it should be: r n.
            np.divide(shares, mass, out=np.full(len(tree), 1 / len(y)), where=mass > 0)
            for shares, mass in (of_class, tree.subtree_sum(of_class))
        )

    def normalise(self, y: np.ndarray) -> np.ndarray:
        """Return P(class) of documents from their y; rows sum to 1, or 0 where y is 0."""
        parent = self.tree.parent
        stay = np.zeros((len(y), len(self.tree)))
        stay[:, self.nodes] = y
        enter = self.tree.subtree_sum(stay) * self._entering
        stay *= self._staying
        total = stay.copy()
        for nodes, first in self.tree.levels:
            total[:, parent[nodes[first]]] += np.add.reduceat(enter[:, nodes], first, axis=1)
        total[total == 0] = 1.0
        p = np.ones_like(total)  # of each branch, over the weight of all ways at its node
        p /= total
        for nodes, _ in self.tree.levels:
            p[:, nodes] *= p[:, parent[nodes]] * enter[:, nodes]
        return (p * stay)[:, self.nodes]
