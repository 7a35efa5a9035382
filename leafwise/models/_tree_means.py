"""Word distributions drawn around those of parents: all of V eq. 13 at once, exactly.

Eq. 13 makes each node's estimate a weighted mean of its parent's, its children's and its own
counts. V iterates it. For each word it is a linear system whose graph is the tree, so going up once
and down once solves it. A word that is nowhere in a branch needs no arithmetic there: its estimate
is the parent's times a number that is the same for all such words.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from leafwise.models._word_lists import WordLists
from leafwise.taxonomy import Taxonomy


class TreeMeans(NamedTuple):
    """Estimates for every node and word.

    Attributes
    ----------
    theta : of each (node, word) pair of the lists
    unseen : of a word that is in no list, at the root
    shrink : for each node, what a word that is not in its list has, as a share of its parent's
    share : for each node, how much of its counts its parent takes for its own
    gain : for each node, how much its own estimate of a word rises with one more count of it
    """

    theta: np.ndarray
    unseen: float
    shrink: np.ndarray
    share: np.ndarray
    gain: np.ndarray


def solve(
    lists: WordLists,
    counts: np.ndarray,
    sizes: np.ndarray,
    sigma: np.ndarray,
    prior: tuple[float, float],
) -> TreeMeans:
    """Solve V eq. 13 (or 15) for all nodes and words.

    Parameters
    ----------
    lists : words of each node and of all below; parents come before children
    counts : of each pair: n_ij of the node itself
    sizes : N_i of each node
    sigma : of each node: how tightly it is bound to its parent; the root's is not looked at
    prior : the root's: counts of each word that it adds, and in all
    """
    parent = lists.parent
    n_nodes = len(parent)
    # D_i θ_i = σ_i θ_pa + Σ_ch (σ_c + 1) θ_c + n_i
    total = sizes + np.append(0.0, sigma[1:])
    total[0] += prior[1]
    np.add.at(total, parent[1:], sigma[1:] + 1)
    share = np.zeros(n_nodes)  # of a child's equation in its parent's
    for i in range(n_nodes - 1, 0, -1):
        share[i] = (sigma[i] + 1) / total[i]
        total[parent[i]] -= share[i] * sigma[i]
    shrink = np.append(0.0, sigma[1:] / total[1:])
    gain = np.empty(n_nodes)
    gain[0] = 1 / total[0]
    for i in range(1, n_nodes):
        gain[i] = 1 / total[i] + shrink[i] * share[i] * gain[parent[i]]
    right = counts.astype(np.float64)
    right[lists.indptr[0] : lists.indptr[1]] += prior[0]
    theta = np.empty_like(right)
    _up_and_down(lists.indptr, lists.up, share, shrink, total, right, theta)
    return TreeMeans(theta, prior[0] / total[0], shrink, share, gain)


def responses(taxonomy: Taxonomy, means: TreeMeans, nodes: np.ndarray) -> np.ndarray:
    """Return how much the estimate of each node rises with one more count at each other one.

    A count goes up to the lowest node above both, where it raises the estimate as one there
    does, and from there down. Rows are the nodes that rise, columns those of the count.
    """
    with np.errstate(divide="ignore"):
        up, down = np.log(means.share), np.log(means.shrink)
    up[0] = down[0] = 0.0
    for i in range(1, len(up)):
        up[i] += up[taxonomy.parent[i]]
        down[i] += down[taxonomy.parent[i]]
    top = taxonomy.lca(*(grid.ravel() for grid in np.meshgrid(nodes, nodes, indexing="ij")))
    top = np.asarray(top).reshape(len(nodes), len(nodes))
    return np.exp(up[nodes][None, :] - up[top] + down[nodes][:, None] - down[top]) * means.gain[top]


@numba.njit(nogil=True, cache=True)
def _up_and_down(indptr, up, share, shrink, total, right, theta):  # pragma: no cover - compiled
    n_nodes = indptr.shape[0] - 1
    for i in range(n_nodes - 1, 0, -1):
        for p in range(indptr[i], indptr[i + 1]):
            right[up[p]] += share[i] * right[p]
    for p in range(indptr[0], indptr[1]):
        theta[p] = right[p] / total[0]
    for i in range(1, n_nodes):
        for p in range(indptr[i], indptr[i + 1]):
            theta[p] = shrink[i] * theta[up[p]] + right[p] / total[i]
