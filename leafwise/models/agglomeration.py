"""Grow the middle of a tree: classes whose documents use the same words come under one node."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from scipy.cluster import hierarchy
from sklearn.preprocessing import normalize
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_non_negative

from leafwise.exceptions import LabelError
from leafwise.labels import Classes, read_labels
from leafwise.selection import best_words, check_n_words, gain_of_meetings, meetings, telling_words
from leafwise.taxonomy import Taxonomy, split_path

LINKAGES = ("ward", "average", "complete", "single", "weighted")
N_KEYWORDS = 10  # telling words that a group is given as keywords


def agglomerate(
    X: Any,
    y: Any,
    n_groups: int = 4,
    *,
    n_words: int = 2000,
    linkage: str = "ward",
    vocabulary: Sequence[str] | None = None,
) -> Taxonomy:
    """Put the classes of documents under a few groups, by agglomerative clustering (T 3.1.2).

    A class is the sum of the word counts of its documents; one with several labels adds an equal
    fraction to each. Classes are compared by tf-idf with classes in the place of documents: the
    roots of their words' shares, times the logarithm of how few classes have the word. Their
    distance is one minus the cosine.

    Parameters
    ----------
    X : word counts, documents × words, sparse or dense
    y : labels, in any form that the classifiers read, but no integers, which with a tree mean
        nodes; unlabelled documents are passed over
    n_groups : int
        How many nodes stand between the root and the classes.
    n_words : int
        Classes are compared by this many words, those that tell most about the class (T eq. 10).
    linkage : {"ward", "average", "complete", "single", "weighted"}
        How far groups are from each other. Under "average" and "single" one group tends to take
        most classes and leave single ones to the others.
    vocabulary : sequence of str or None
        The word of each column, such as ``counter.get_feature_names_out()``. With it, a group is
        called by its three most telling words and has ten as keywords; without, by its two
        largest classes.

    Returns
    -------
    Taxonomy
        Of two levels. The name of a class is its label, whole even where that is a path, so that
        a model with this tree takes the same `y`. It predicts paths of this tree; the label is
        the last name on them.

    Examples
    --------
    >>> from leafwise import NaiveBayes
    >>> X = [[2, 1, 0, 0], [1, 2, 0, 0], [0, 0, 2, 1], [0, 0, 1, 2]]
    >>> y = ["fruit/fig", "fruit/plum", "metal/tin", "metal/zinc"]
    >>> tree = agglomerate(X, y, 2)
    >>> model = NaiveBayes(tree).fit(X, y)
    >>> [split_path(path)[-1] for path in model.predict(X)] == y
    True
    """
    check_n_words(n_words)
    if not isinstance(n_groups, Integral) or n_groups < 1:
        raise ValueError(f"n_groups={n_groups!r}: expected a whole number of groups, at least 1.")
    if linkage not in LINKAGES:
        raise ValueError(f"linkage={linkage!r}: expected one of {', '.join(LINKAGES)}.")
    X = check_array(X, accept_sparse="csr")
    check_non_negative(X, "agglomerate (input X)")
    if vocabulary is not None and len(vocabulary) != X.shape[1]:
        raise ValueError(
            f"vocabulary has {len(vocabulary)} words, X has {X.shape[1]} columns: expected a word "
            "for each column."
        )
    labels = read_labels(y)
    check_consistent_length(X, range(labels.n_documents))
    if not len(labels.labels):
        raise ValueError("No document has a label, so there are no classes to group.")
    if labels.labels.dtype.kind in "iu":
        raise LabelError(
            "agglomerate names nodes by labels, but y has integers, which a model with a tree "
            "takes for the numbers of nodes. Give them as text: y.astype(str), with None for a "
            "document without a label."
        )
    classes = Classes.of_labels(labels)
    membership = classes.membership(labels)
    n_documents = np.asarray(membership.sum(axis=0)).ravel()
    used = np.flatnonzero(n_documents)  # paths bring their parents, which may have no document
    if len(used) < n_groups:
        raise ValueError(
            f"y has {len(used)} classes, fewer than n_groups={n_groups}: expected at least one "
            "class for each group. Ask for fewer groups."
        )
    membership, n_documents = membership[:, used], n_documents[used]
    names = [str(label) for label in classes.names[used].tolist()]

    X = sparse.csr_matrix(X)
    group = np.arange(len(used))
    if n_groups < len(used):
        cut = hierarchy.cut_tree(merges(X, membership, n_words, linkage), n_groups).ravel()
        _, first, group = np.unique(cut, return_index=True, return_inverse=True)
        group = np.argsort(np.argsort(first))[group]  # numbered by their first class
    keywords: list[tuple[str, ...]] = [()] * n_groups
    if vocabulary is not None:
        occurs = sparse.diags_array(1 / n_documents) @ (membership.T @ (X > 0))
        keywords = _telling_words(occurs.tocsr(), group, vocabulary)
    largest = np.argsort(-np.round(n_documents, 9), kind="stable")  # fractions may add up to ties
    group_names = [
        ", ".join(told[:3]) or " + ".join([names[c] for c in largest if group[c] == g][:2])
        for g, told in enumerate(keywords)
    ]
    return _tree(names, group, group_names, keywords)


def merges(
    X: sparse.csr_matrix, membership: Any, n_words: int = 2000, linkage: str = "ward"
) -> np.ndarray:
    """Return which classes are put together, in turn, as SciPy's `linkage` has it."""
    return merges_of_counts(*class_counts(X, membership), n_words=n_words, linkage=linkage)


def class_counts(X: sparse.csr_matrix, membership: Any) -> tuple:
    """Count what classes are compared by. Blocks of documents add up."""
    return (sparse.csr_matrix(membership.T @ X), *meetings(X, membership))


def merges_of_counts(
    counts: sparse.csr_matrix,
    met: sparse.csr_matrix,
    n_documents: np.ndarray,
    *,
    n_words: int = 2000,
    linkage: str = "ward",
) -> np.ndarray:
    """Return the same from what `class_counts` has counted."""
    counts = counts[:, best_words(gain_of_meetings(met, n_documents), n_words)]
    n_classes = counts.shape[0]
    counts.eliminate_zeros()
    n_classes_with = np.bincount(counts.indices, minlength=counts.shape[1])
    # Above 0 also for a word that all classes have: in a small vocabulary every word is so.
    rarity = np.log((1 + n_classes) / np.maximum(n_classes_with, 1))
    weights = normalize(counts.sqrt() @ sparse.diags_array(rarity))
    distance = np.clip(1 - (weights @ weights.T).toarray(), 0, 1)
    # Ward's method is meant for Euclidean distances. One minus the cosine is half their square:
    # it sets far classes further apart, and came nearer to known trees (T table 2 among them).
    return hierarchy.linkage(distance[np.triu_indices(n_classes, 1)], linkage)


def _telling_words(
    p_w_given_c: sparse.csr_matrix, group: np.ndarray, vocabulary: Sequence[str]
) -> list[tuple[str, ...]]:
    """Return the words that most set each group apart: largest in P(w|g) log P(w|g) / P(w).

    P(w|c) is that the word occurs in a document of the class, so that words of every document
    tell nothing; within a group all classes count alike, as they do when it is formed.
    """
    p_w = np.asarray(p_w_given_c.mean(axis=0)).ravel()
    told = []
    for g in range(group.max() + 1):
        p = np.asarray(p_w_given_c[group == g].mean(axis=0)).ravel()
        best = telling_words(p, p_w, N_KEYWORDS)
        told.append(tuple(str(vocabulary[w]) for w in best))
    return told


def _tree(
    names: Sequence[str],
    group: np.ndarray,
    group_names: Sequence[str],
    keywords: Sequence[tuple[str, ...]],
) -> Taxonomy:
    """Put each class under its group."""
    # A label must not name both a class and a group, nor be the path of a class in a group.
    taken = {*names, *(split_path(name)[0] for name in names if "/" in name)}
    inner = []
    for name in group_names:
        while name in taken:
            name += " (group)"
        taken.add(name)
        inner.append(name)
    return Taxonomy(
        ["", *inner, *names],
        [-1, *[0] * len(inner), *(group + 1).tolist()],
        [(), *keywords, *[None] * len(names)],
    )
