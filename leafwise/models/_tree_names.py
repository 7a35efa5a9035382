"""Names for the nodes of a tree that was grown."""

from __future__ import annotations

import numpy as np

from leafwise.models._growth import Tree
from leafwise.selection import telling_words
from leafwise.taxonomy import Taxonomy
from leafwise.taxonomy_building import preorder

N_KEYWORDS, N_IN_NAME = 10, 3


def named(
    tree: Tree, occurs: np.ndarray, n_documents: np.ndarray, words: np.ndarray | None
) -> tuple[Taxonomy, np.ndarray]:
    """Name each node by the words that set it apart from the one above it.

    Parameters
    ----------
    occurs : leaves × words, in how many of a leaf's documents a word is
    n_documents : of each leaf

    Returns
    -------
    Taxonomy, nodes : and the node in it that each node of `tree` is
    """
    n_nodes = len(tree.parent)
    counts, sizes = np.zeros((n_nodes, occurs.shape[1])), np.zeros(n_nodes)
    counts[list(tree.leaves)], sizes[list(tree.leaves)] = occurs, n_documents
    for v in range(n_nodes - 1, 0, -1):  # a child comes after its parent
        counts[tree.parent[v]] += counts[v]
        sizes[tree.parent[v]] += sizes[v]
    p = counts / np.maximum(sizes, 1e-300)[:, None]
    vocabulary = [] if words is None else [str(word) for word in words]
    names, used = [""], [set[int]()]
    keywords: list[tuple[str, ...]] = [()]
    for v in range(1, n_nodes):
        above = tree.parent[v]
        number = f"{tree.parent[:v].count(above) + 1}"
        told: list[int] = []
        if vocabulary:
            # A word in the name of a node above says nothing more of this one.
            told = [
                w for w in telling_words(p[v], p[above], 2 * N_KEYWORDS) if w not in used[above]
            ]
        mine = told[:N_IN_NAME]
        names.append(", ".join(vocabulary[w] for w in mine) if mine else number)
        keywords.append(tuple(vocabulary[w] for w in told[:N_KEYWORDS]))
        used.append(used[above] | set(mine))
    nodes = np.empty(n_nodes, np.int64)
    nodes[preorder(names, tree.parent, None)] = np.arange(n_nodes)
    return Taxonomy(names, tree.parent, keywords), nodes
