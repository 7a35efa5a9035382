"""Keywords as evidence: how strongly the words of a document speak for each node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter

INHERITED = 0.3  # what a parent's keyword is worth to its child, and so on down the tree


class Keywords(NamedTuple):
    """The weight of each word for each node, and the keywords that are in no document."""

    weights: sparse.csr_matrix  # words × nodes
    unknown: list[str]


def keyword_weights(taxonomy: Taxonomy, counter: WordCounter, X: sparse.csr_matrix) -> Keywords:
    """Weigh the keywords of a tree by how common they are in documents.

    A word counts more the fewer documents have it (idf), and less the more nodes share it. The
    words of a keyword of several words share its weight. A child has its parent's keywords too, at
    a fraction.
    """
    n_documents = np.bincount(X.indices, minlength=X.shape[1])
    of_node = [(i, keyword) for i in range(1, len(taxonomy)) for keyword in taxonomy.keywords[i]]
    counts = counter.transform([keyword for _, keyword in of_node])
    n_words = np.diff(counts.indptr)
    n_found = counts @ (n_documents > 0)
    unknown = sorted({keyword for (_, keyword), n in zip(of_node, n_found) if n == 0})
    node = np.repeat(np.array([i for i, _ in of_node], np.int64), n_words)
    share = np.repeat(1.0 / np.maximum(n_words, 1), n_words)
    shape = (len(taxonomy), counts.shape[1])
    own = sparse.csr_matrix((share, (node, counts.indices)), shape)
    own.data = np.minimum(own.data, 1.0)  # a word that is there twice counts once

    idf = np.log1p(X.shape[0] / np.maximum(n_documents, 1))  # never 0
    n_nodes = np.maximum(np.diff(own.tocsc().indptr), 1)
    own = own @ sparse.diags_array(idf / n_nodes)
    # Σ_k INHERITED^k parent^k, applied from the root down: parents stand before children.
    inherited = own.tocsr()
    up = sparse.csr_matrix(
        (
            np.full(len(taxonomy) - 1, INHERITED),
            (np.arange(1, len(taxonomy)), taxonomy.parent[1:]),
        ),
        (len(taxonomy), len(taxonomy)),
    )
    step = own
    for _ in range(int(taxonomy.depth.max())):
        step = up @ step
        inherited = inherited + step
    return Keywords(sparse.csr_matrix(inherited.T), unknown)


def keyword_scores(X: sparse.csr_matrix, weights: sparse.csr_matrix) -> np.ndarray:
    """Return documents × nodes: the weights of the words that occur, repetition damped."""
    damped = sparse.csr_matrix((1.0 + np.log(X.data), X.indices, X.indptr), X.shape)
    return (damped @ weights).toarray()
