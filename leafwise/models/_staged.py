"""How `TaxonomyClassifier` learns from counts in one of its ways: which stages there are."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import clone

from leafwise.keywords import Keywords
from leafwise.models._belief import Belief
from leafwise.models._counts import best_columns
from leafwise.models._evidence import First
from leafwise.models._scored import MODEL, ScoredClassifier
from leafwise.models._stages import (
    EXACT,
    OWN,
    SPREAD,
    LinearScores,
    agreement,
    first_sorting,
    learn_anew,
    learn_several,
    trust,
)
from leafwise.models._sums import scale_rows
from leafwise.models.dirichlet import HierarchicalDirichlet
from leafwise.models.graph import average_graphs, neighbor_graph
from leafwise.models.harmonic import HarmonicClassifier

MODEL_ALONE = 0.2  # what the model counts where nothing was spread: all that is known is from it
_ROUNDS = 5  # of EM in which a model learns: after more it has drifted away from its keywords
_AS_GOOD = 5  # labels per class that are as good to begin with as keywords
# What linear scores count that ask no neighbours, in ways that have both.
APART = {"all": 0.0, "mostly": 1 / 3, "evenly": 0.5, "partly": 0.8}
_LABELS_MODEL = 0.04  # what a model of labels alone counts beside them, where there are no keywords


class Counted(NamedTuple):
    """What is learned from.

    Attributes
    ----------
    X : word counts
    membership : labels, documents × classes; rows sum to 1, or to 0 for documents without
    keywords : of the tree; None where they have no part
    vectors : of an encoder; None where there is none
    cuts : see `learn_several`; None where labels are too few, or one for each document
    least : see `learn_anew`
    """

    X: sparse.csr_matrix
    membership: sparse.csr_matrix
    keywords: Keywords | None
    vectors: np.ndarray | None = None
    cuts: np.ndarray | None = None
    least: float = 0.0

    def without(self, out: np.ndarray, hidden: np.ndarray) -> Counted:
        """Leave some documents out, and the labels of others; both are row numbers."""
        kept = np.ones(self.X.shape[0])
        kept[hidden] = 0.0
        membership = scale_rows(self.membership, kept)
        rest = np.setdiff1d(np.arange(len(kept)), out)
        return self._replace(membership=membership).take(rest)

    def take(self, rows: np.ndarray) -> Counted:
        vectors = None if self.vectors is None else self.vectors[rows]
        return self._replace(X=self.X[rows], membership=self.membership[rows], vectors=vectors)

    @property
    def labelled(self) -> np.ndarray:
        return np.flatnonzero(np.diff(self.membership.indptr))


class StagedClassifier(ScoredClassifier):
    """Evidence → spread → generalise, on counts of words."""

    model: HierarchicalDirichlet | None
    spread: Any
    linear: Any

    @property
    def _spreading(self) -> HarmonicClassifier:
        return self.spread if isinstance(self.spread, HarmonicClassifier) else SPREAD

    def _graph(self, counted: Counted) -> sparse.csr_matrix:
        """Return the neighbours of each document, by its words, and by an encoder's vectors."""
        how = self._spreading
        words = neighbor_graph(
            counted.X,
            how.k,
            how.similarity,
            symmetric=True,
            mu=how.mu,
            approximate=how.approximate or counted.X.shape[0] > EXACT,
        )
        if counted.vectors is None:
            return words
        near = neighbor_graph(counted.vectors, how.k, "embedding", symmetric=True)
        both = average_graphs([words, near])
        return sparse.csr_matrix(both.maximum(both.T))

    def _fit_stages(
        self,
        counted: Counted,
        graph: sparse.csr_matrix | None,
        way: str,
        sigma: Mapping[str, Any] = MappingProxyType({}),
        again: bool = False,
    ) -> Fitted:
        """Learn in one of the ways; returns what was seen on the way.

        `sigma` has the models' σ by ways, as far as it is known. `again` says that the model was
        just fitted so, to the same documents.
        """
        if APART.get(way):
            self._fit_stages(counted, graph, "words", sigma)
            apart = self._linear, self.model_
            fitted = self._fit_stages(counted, graph, "all", sigma)
            self._mix(self._linear, *apart, way, counted.keywords)
            return fitted
        self._belief = Belief()
        self._linear = None
        X, membership, keywords = counted[:3]
        self.model_share_ = MODEL
        pool = way in ("all", "model")
        first, graph = None, graph if pool else None
        if not again:
            first = None if graph is None else self._first(counted, graph)
            self._fit_model(counted, pool, sigma.get(way), first)
        if way not in ("all", "words", "several"):
            return Fitted()
        if way == "several" and counted.cuts is not None:
            linear = learn_several(X, membership, counted.cuts)
            if linear is not None:
                self._linear = linear
                self.model_share_ = 0.0
            return Fitted()
        log_p = log_softmax(self._scores(X), axis=1)
        machine = None if isinstance(self.linear, bool) else self.linear
        matched = None
        if keywords is not None:
            matched = self._matches(keywords, X)
        own = OWN if self.several_ else 1.0
        linear, agreed, every, by_labels = learn_anew(
            X, membership, log_p, graph, self._spreading, machine, matched, own, counted.least
        )
        few = len(np.unique(membership.indices)) == 1  # labels, all of one class
        asked = self.spread is True or agreed is None or not few
        if linear is not None and (asked or trust(agreed or 0.0) > 0):
            if not membership.nnz and not trust(agreed or 0.0):
                self.model_share_ = MODEL_ALONE
            if self.linear is False:  # the model generalises what was found
                found = counted._replace(membership=every)
                self._fit_model(found, True, self.model_.sigma_)
            else:
                self._linear = linear
        by_neighbours = None if first is None else best_columns(first.membership)
        return Fitted(agreed, by_neighbours, by_labels)

    def _mix(
        self,
        scores: LinearScores | None,
        apart: LinearScores | None,
        model: Any,
        way: str,
        keywords: Keywords | None,
    ) -> None:
        """Take linear scores, of which others, learned apart from neighbours, have a share.

        Without keywords the model beside them is the one learned apart, too: where neighbours are
        not asked alone, what EM makes of a few labels is worth less than the labels.
        """
        if scores is None or apart is None:
            return
        share = APART[way]
        coef = scores.coef - apart.coef  # large, so in place from here on
        coef *= 1 - share
        coef += apart.coef
        intercept = (1 - share) * scores.intercept + share * apart.intercept
        self._linear = scores._replace(coef=coef, intercept=intercept)
        if keywords is None:
            self.model_, self.model_share_ = model, _LABELS_MODEL

    def _matches(self, keywords: Keywords, X: sparse.csr_matrix) -> np.ndarray:
        """Return how well the keywords of each class match."""
        return keywords.scores(X, self.taxonomy_.parent)[:, self.nodes_]

    def _first(self, counted: Counted, graph: sparse.csr_matrix) -> First | None:
        """Spread labels over neighbours, for the model to begin with, where neighbours agree.

        Whether they do is seen at documents that have keywords; where there are none, labels are
        all there is to begin with.
        """
        X, membership, keywords = counted[:3]
        if not membership.nnz:
            return None
        weight = 1.0
        if keywords is not None:
            matches = self._matches(keywords, X)
            rows = np.flatnonzero(matches.any(axis=1))
            if not trust(agreement(graph[rows][:, rows], matches[rows].argmax(axis=1))):
                return None
            each = membership.sum() / len(np.unique(membership.indices))  # labels per class
            weight = each**2 / (each**2 + _AS_GOOD**2)
        return First(first_sorting(graph, membership, self._spreading), weight)

    def _fit_model(
        self, counted: Counted, pool: bool = True, sigma: Any = None, first: First | None = None
    ) -> None:
        """Fit the model; without the `pool` of unlabelled documents, to labels and keywords."""
        model = HierarchicalDirichlet(words="roots") if self.model is None else clone(self.model)
        if self.model is None and counted.keywords is not None:
            model.set_params(max_iter=_ROUNDS)
        if sigma is not None:
            model.set_params(sigma=sigma)
        model._validate()
        X, membership, keywords = counted[:3]
        weight = np.ones(X.shape[0])
        if not pool:
            weight[np.diff(membership.indptr) == 0] = 0.0
        self.model_ = model._fit(X, self._classes, membership, weight, keywords, first)


class Fitted(NamedTuple):
    """What was seen on the way: how far neighbours agree, and what others say of each document.

    None where that was not asked.
    """

    agreed: float | None = None
    by_neighbours: np.ndarray | None = None
    by_labels: np.ndarray | None = None
