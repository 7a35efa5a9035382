"""What a model of the tree learns from: labels, keywords, and documents without a label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import sparse

from leafwise.keywords import INHERITED, Keywords
from leafwise.labels import Classes
from leafwise.models._counts import statistics
from leafwise.models._tree_scores import TreeScores, word_lists


@dataclass(frozen=True)
class Evidence:
    """What is learned from: labels, keywords, and unlabelled documents.

    Attributes
    ----------
    labels, n_labelled : words and documents of each class, by labels
    keyword_counts, keyword_documents : by keywords
    possible : for each class, whether there is any evidence for it
    pool : the unlabelled documents
    weight, learned : of each of them, as a document and for each of its words
    beta : of each, when it is shared among classes
    first : how each is shared by its keywords alone
    """

    classes: Classes
    labels: sparse.csr_matrix
    n_labelled: np.ndarray
    keyword_counts: sparse.csr_matrix
    keyword_documents: np.ndarray
    possible: np.ndarray
    pool: sparse.csr_matrix
    weight: np.ndarray
    learned: np.ndarray
    beta: np.ndarray
    first: sparse.csr_matrix

    @property
    def n_pool(self) -> int:
        return int(self.pool.shape[0])

    def only(self, rows: np.ndarray) -> Evidence:
        """Some of the unlabelled documents, and all the rest."""
        return replace(
            self,
            pool=self.pool[rows],
            weight=self.weight[rows],
            learned=self.learned[rows],
            beta=self.beta[rows],
            first=self.first[rows],
        )

    def count(
        self, membership: sparse.csr_matrix | None, label_weight: float, is_set: bool
    ) -> tuple[sparse.csr_matrix, np.ndarray]:
        """Count words and documents of each class, unlabelled documents shared as given.

        A labelled document weighs as much as a share of the unlabelled ones of its class, but no
        class is larger for that. Larger ones are punished for each word they lack: were labels to
        make classes larger, the first label of a class would drive documents away from it.
        """
        others, documents = self.keyword_counts, np.zeros(len(self.n_labelled))
        if membership is not None:
            weighed = sparse.csr_matrix(sparse.diags_array(self.learned) @ membership)
            others = others + statistics(self.pool, weighed)[0]
            documents = self.weight @ membership
        if not others.nnz or not self.labels.nnz:
            return sparse.csr_matrix(self.labels + others), self.n_labelled + documents
        each = np.maximum(1.0, label_weight * documents)
        own, rest = self.n_labelled, documents + self.keyword_documents
        if not is_set:
            own, rest = (np.asarray(part.sum(axis=1)).ravel() for part in (self.labels, others))
        weighed = each * own + rest
        scale = (own + rest) / np.where(weighed > 0, weighed, 1.0)
        both = sparse.diags_array(each) @ self.labels + others
        return sparse.csr_matrix(sparse.diags_array(scale) @ both), self.n_labelled + documents


class First(NamedTuple):
    """How documents are shared at first: documents × classes, and its weight beside keywords."""

    membership: sparse.csr_matrix
    weight: float


def match_scores(classes: Classes, scale: float) -> TreeScores:
    """Score documents down the tree by what matches at each node (`Keywords.at_nodes`)."""
    n_nodes = len(classes.taxonomy)
    flat = np.zeros(n_nodes)
    return TreeScores(
        *word_lists(sparse.eye_array(n_nodes, format="csr"), scale),
        counted=np.zeros(n_nodes, bool),
        parent=classes.taxonomy.parent,
        end=classes.taxonomy.end,
        bias=flat,
        prior=flat,
        column=_columns(classes),
        decay=INHERITED,
    )


def prototype_scores(
    classes: Classes,
    keywords: Keywords,
    used: np.ndarray,
    prototype: tuple[float, float],
    is_set: bool,
) -> TreeScores:
    """Score documents by V eq. 14, with the words that are used as the vocabulary."""
    high, low = prototype
    has = sparse.csr_matrix((keywords.terms.T @ (keywords.weights > 0)) > 0, dtype=float)
    n_keywords = np.asarray(has.sum(axis=0)).ravel()
    bias = prior = np.zeros(len(classes.taxonomy))
    value = np.log(high / low)
    if is_set:
        value -= np.log1p(-high) - np.log1p(-low)
        prior = n_keywords * (np.log1p(-high) - np.log1p(-low))
    else:
        bias = -np.log(used.sum() * low + n_keywords * (high - low))
    return TreeScores(
        *word_lists(has, value),
        counted=used,
        parent=classes.taxonomy.parent,
        end=classes.taxonomy.end,
        bias=bias,
        prior=prior,
        column=_columns(classes),
        decay=0.0,
    )


def _columns(classes: Classes) -> np.ndarray:
    column = np.full(len(classes.taxonomy), -1)
    column[classes.nodes] = np.arange(len(classes.nodes))
    return column
