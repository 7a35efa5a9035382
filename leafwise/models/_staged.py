"""How `TaxonomyClassifier` learns from counts: which stages help, and how sure to be.

Labels that are held out decide, where there are enough of them; else how far the stages agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import clone

from leafwise.keywords import Keywords
from leafwise.models._base import BLOCK_SCORES, NodeClassifier
from leafwise.models._belief import (
    Belief,
    believe_agreement,
    believe_one,
    believe_several,
    clearly_worse,
    errors,
)
from leafwise.models._counts import best_columns
from leafwise.models._evidence import First
from leafwise.models._stages import (
    EXACT,
    MOST,
    MOST_WORK,
    OWN,
    SPREAD,
    LinearScores,
    agreement,
    cuts_of_labels,
    first_sorting,
    fit_linear,
    learn_anew,
    learn_several,
    trust,
)
from leafwise.models._tfidf import LogTfIdf
from leafwise.models._thresholds import deal
from leafwise.models.dirichlet import HierarchicalDirichlet
from leafwise.models.graph import average_graphs, neighbor_graph
from leafwise.models.harmonic import HarmonicClassifier

ENOUGH_LABELS = 50  # from here on some are held out, to learn how far the model can be believed
MANY_LABELS = 1000  # from here on one part of them does; with fewer, each part in turn
_N_PARTS = 4
_LARGE = 40_000_000  # words in documents, times nodes, from which on there are two parts
SAMPLE = 5_000  # documents that tell as much about that as all of them would
_FEW_DOCUMENTS = 100  # below, neighbours and linear scores tell nothing
_MODEL = 0.02  # what the model counts beside linear scores: for words and nodes that these lack
_MODEL_ALONE = 0.2  # the same where nothing was spread: all that they know is from the model
_ROUNDS = 5  # of EM in which a model learns: after more it has drifted away from its keywords
_AS_GOOD = 5  # labels per class that are as good to begin with as keywords
_WAYS = {  # of learning from documents, the first preferred where nothing speaks against it
    "all": "neighbours and linear scores help",
    "words": "neighbours did not help, and are left out",
    "several": "linear scores say which nodes other documents have, and learn from them",
    "model": "neighbours and linear scores did not help, and are left out",
    "labels": "unlabelled documents did not help, and are left out",
}
_FITTED_IN_TURN = "labels", "several", "words", "model", "all"
_GO_ON_FROM = {"several": "labels", "words": "labels", "all": "model"}


class Counted(NamedTuple):
    """What is learned from.

    Attributes
    ----------
    X : word counts
    membership : labels, documents × classes; rows sum to 1, or to 0 for documents without
    keywords : of the tree; None where they have no part
    vectors : of an encoder; None where there is none
    cuts : see `learn_several`; None where labels are too few, or one for each document
    """

    X: sparse.csr_matrix
    membership: sparse.csr_matrix
    keywords: Keywords | None
    vectors: np.ndarray | None = None
    cuts: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> Counted:
        vectors = None if self.vectors is None else self.vectors[rows]
        return Counted(self.X[rows], self.membership[rows], self.keywords, vectors, self.cuts)

    @property
    def labelled(self) -> np.ndarray:
        return np.flatnonzero(np.diff(self.membership.indptr))


class _Steps:
    """Tells, each time it is called, that one more step of learning is done."""

    def __init__(self, tell: Callable[[str, int, int], None] | None, n_steps: int):
        self._tell, self._n_steps, self._done = tell, n_steps, -1
        self()

    def __call__(self) -> None:
        self._done += 1
        if self._tell is not None:
            self._tell("Learning", self._done, self._n_steps)


class StagedClassifier(NodeClassifier):
    """Evidence → spread → generalise, on counts of words."""

    model: HierarchicalDirichlet | None
    spread: Any
    linear: Any
    on_progress: Callable[[str, int, int], None] | None = None
    several_: bool
    model_: HierarchicalDirichlet
    temperature_: float
    doubt_: float
    thresholds_: np.ndarray | None
    offset_: float
    at_least_one_: bool
    model_share_: float = _MODEL  # what the model counts beside linear scores; 0: nothing at all
    coef_: np.ndarray | None
    intercept_: np.ndarray | None
    idf_: np.ndarray | None

    def _fit_counted(self, counted: Counted) -> list[str]:
        """Fit, deciding which stages help, and how far to believe the result; say how.

        With enough labels some are held out first, and decide. With few, the preferred way is
        taken, and it is as sure as its parts agree.
        """
        n_labelled = len(counted.labelled)
        ways = self._ways(counted)
        with_graph = "all" in ways and n_labelled < counted.X.shape[0]
        parts = self._parts(counted) if n_labelled >= ENOUGH_LABELS else []
        if "several" in ways and parts:
            known = counted.labelled
            counted = counted._replace(
                cuts=cuts_of_labels(counted.X[known], counted.membership[known])
            )
        step = _Steps(self.on_progress, with_graph + len(parts) * len(ways) + 1)
        graph = None
        if with_graph:
            graph = self._graph(counted)
            step()
        if not parts:
            fitted = self._fit_stages(counted, graph, ways[0])
            step()
            said = _said_of_neighbours(fitted.agreed) if ways[0] == "all" else []
            return [*said, f"Probabilities are set by {self._believe(counted, fitted)}."]
        found = self._hold_out(counted, graph, ways, parts, step)
        # Few labels tell little: without a clear sign against it, the first way is taken.
        wrong = {way: one.wrong for way, one in found.items()}
        way = min(ways, key=lambda way: (clearly_worse(wrong, way), ways.index(way)))
        self._fit_stages(counted, graph, way, sigma=found[way].sigma)
        step()
        self._belief = found[way].belief
        n_held_out = n_of(len(wrong[way]), "label" if not self.several_ else "document")
        said = []
        if len(ways) > 1 and not (way == "model" and "all" not in ways):
            text = _WAYS[way] if graph is not None or way != "all" else "linear scores help"
            said = [f"{text[0].upper()}{text[1:]}: so say {n_held_out} held out."]
        what = "Probabilities are" if not self.several_ else "Thresholds and probabilities are"
        said.append(f"{what} set by {n_held_out} held out.")
        if not self.at_least_one_:
            said.append("A text below all of them gets no node: the closest was too often wrong.")
        return said

    def _ways(self, counted: Counted) -> list[str]:
        """Return the ways of learning that come into question, the preferred one first."""
        X, n_classes = counted.X, len(self.nodes_)
        feasible = max(X.shape) * n_classes <= MOST and X.nnz * n_classes <= MOST_WORK
        every = self.spread is not False and X.shape[0] >= _FEW_DOCUMENTS and feasible
        if every and (self.spread is True or isinstance(self.spread, HarmonicClassifier)):
            return ["all"]
        some = len(counted.labelled) < X.shape[0]
        words = every and some
        several = words and self.several_ and self.linear is True
        usable = {"all": every, "words": words, "several": several, "model": True, "labels": some}
        order: tuple[str, ...] = tuple(_WAYS)
        if self.several_ and len(counted.labelled) >= ENOUGH_LABELS:
            # What is spread is one class of each document. A class without a label is found by
            # keywords alone, which "several" leaves out.
            first = ("several", "words") if counted.keywords is None else ("words", "several")
            order = (*first, "all", "model", "labels")
        return [way for way in order if usable[way]]

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

    def _hold_out(
        self,
        counted: Counted,
        graph: sparse.csr_matrix | None,
        ways: list[str],
        parts: list[np.ndarray],
        step: Callable[[], None],
    ) -> dict[str, _HeldOut]:
        """Return, for each way, what becomes of labelled documents that it was not given."""
        scored: dict[str, list[np.ndarray]] = {way: [] for way in ways}
        sigma: dict[str, Any] = {}
        for part in parts:
            rest = np.setdiff1d(np.arange(counted.X.shape[0]), part)
            some, among = counted.take(rest), None if graph is None else graph[rest][:, rest]
            for way in [one for one in _FITTED_IN_TURN if one in ways]:
                again = _GO_ON_FROM.get(way) in ways
                self._fit_stages(some, among, way, sigma=sigma.get(way), again=again)
                scored[way].append(self._scores(counted.X[part]))
                sigma[way] = self.model_.sigma_
                step()
        truth = counted.membership[np.concatenate(parts)].toarray()
        share = 1 - len(parts[0]) / len(counted.labelled)
        found = {}
        for way in ways:
            scores = np.concatenate(scored[way])
            belief = (
                believe_several(truth, scores)
                if self.several_
                else believe_one(errors(truth, scores, Belief()) == 0, scores, way == "all", share)
            )
            found[way] = _HeldOut(errors(truth, scores, belief), belief, sigma[way])
        return found

    def _parts(self, counted: Counted) -> list[np.ndarray]:
        """Deal labelled documents into parts that are held out in turn, or draw one part."""
        labelled, rng = counted.labelled, np.random.default_rng(0)
        n_parts = 2 if counted.X.nnz * len(self.nodes_) > _LARGE else _N_PARTS
        if self.several_:  # every class needs documents for its threshold
            part = deal(counted.membership[labelled].toarray() > 0, n_parts, rng)
            return [labelled[part == i] for i in range(n_parts)]
        drawn = rng.permutation(labelled)
        if len(labelled) < MANY_LABELS:
            return np.array_split(drawn, n_parts)
        return [drawn[: min(len(labelled) // 5, self._sample_size)]]

    @property
    def _sample_size(self) -> int:
        return min(SAMPLE, max(200, 4 * BLOCK_SCORES // len(self.nodes_)))

    def _fit_stages(
        self,
        counted: Counted,
        graph: sparse.csr_matrix | None,
        way: str,
        sigma: Any = None,
        again: bool = False,
    ) -> _Fitted:
        """Learn in one of the ways; returns what was seen on the way.

        `again` says that the model was just fitted so, to the same documents.
        """
        self._belief = Belief()
        self.coef_ = self.intercept_ = self.idf_ = None
        X, membership, keywords = counted[:3]
        self.model_share_ = _MODEL
        pool = way in ("all", "model")
        first, graph = None, graph if pool else None
        if not again:
            first = None if graph is None else self._first(counted, graph)
            self._fit_model(counted, pool, sigma, first)
        if way not in ("all", "words", "several"):
            return _Fitted()
        if way == "several" and counted.cuts is not None:
            linear = learn_several(X, membership, counted.cuts)
            if linear is not None:
                self.coef_, self.intercept_, self.idf_ = linear
                self.model_share_ = 0.0
            return _Fitted()
        log_p = log_softmax(self._scores(X), axis=1)
        machine = None if isinstance(self.linear, bool) else self.linear
        matched = None
        if keywords is not None:
            matched = keywords.scores(X, self.taxonomy_.parent)[:, self.nodes_]
        own = OWN if self.several_ else 1.0
        linear, agreed, every, by_labels = learn_anew(
            X, membership, log_p, graph, self._spreading, machine, matched, own
        )
        few = len(np.unique(membership.indices)) == 1  # labels, all of one class
        asked = self.spread is True or agreed is None or not few
        if linear is not None and (asked or trust(agreed or 0.0) > 0):
            if not membership.nnz and not trust(agreed or 0.0):
                self.model_share_ = _MODEL_ALONE
            if self.linear is False:  # the model generalises what was found
                sigma = self.model_.sigma_
                self._fit_model(counted._replace(membership=every), True, sigma)
            else:
                self.coef_, self.intercept_, self.idf_ = linear
        by_neighbours = None if first is None else best_columns(first.membership)
        return _Fitted(agreed, by_neighbours, by_labels)

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
            matches = keywords.scores(X, self.taxonomy_.parent)[:, self.nodes_]
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

    def _believe(self, counted: Counted, fitted: _Fitted) -> str:
        """Be as sure, on average, as those agree that had a part in it; says who.

        Keywords alone are wrong more often than what is made of them, and stages that follow each
        other are wrong together: the truth lies between.
        """
        X, keywords = counted.X, counted.keywords
        drawn = slice(None, None, max(1, X.shape[0] // self._sample_size))
        some = X[drawn]
        scores, linear = self._scores(some), self._linear is not None
        best = scores.argmax(axis=1)
        if self.several_:
            cut = np.zeros(scores.shape[1]) if linear else np.full(scores.shape[1], np.log(0.5))
            self._belief = Belief(1 / 3 if linear else 1.0, 0.0, cut)
            return "the scores alone: there are too few labels to check them by"
        agreed = {}
        if keywords is not None and keywords.weights.nnz:
            matches = keywords.scores(some, self.taxonomy_.parent)[:, self.nodes_]
            matched = matches.any(axis=1)
            agreed["with its keywords"] = (matches.argmax(axis=1) == best)[matched].mean()
        if linear and self.model_share_ < _MODEL_ALONE:  # else they only repeat it
            by_model = self.model_._log_joint(some).argmax(axis=1)
            agreed["before and after spreading"] = (by_model == best).mean()
            beside = {
                "with neighbours of the labels": fitted.by_neighbours,
                "with the labels' own words": fitted.by_labels,
            }
            for what, column in beside.items():
                if column is not None and keywords is None:
                    agreed[what] = (column[drawn] == best).mean()
        if not agreed:
            return "the model alone: there are too few labels and keywords to check them by"
        self._belief = believe_agreement(float(np.mean(list(agreed.values()))), scores, linear)
        said = ", and ".join(f"{what} ({share:.0%})" for what, share in agreed.items())
        return f"how often the model agrees {said}"

    def _scores(self, X: sparse.csr_matrix, shifted: bool = False) -> np.ndarray:
        """Return what the stages say of each document and class, before it is believed.

        With `shifted`, all scores of a document may be off by the same: the best is the same.
        """
        if not self.model_share_ and (linear := self._linear) is not None:
            return linear.scores(X)
        scores = self._temper(X) * self.model_._log_joint(X)
        if not shifted:
            scores = log_softmax(scores, axis=1)
        if (linear := self._linear) is not None:
            by_words, known = linear.scores_and_known(X)
            scores = known * by_words + (self.model_share_ * known + 1 - known) * scores
        return scores

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        return self._belief.log_proba(self._scores(X))

    @property
    def _belief(self) -> Belief:
        return Belief(
            self.temperature_, self.doubt_, self.thresholds_, self.offset_, self.at_least_one_
        )

    @_belief.setter
    def _belief(self, belief: Belief) -> None:
        self.temperature_, self.doubt_, self.thresholds_, self.offset_, self.at_least_one_ = belief

    @property
    def _linear(self) -> LinearScores | None:
        if self.coef_ is None or self.intercept_ is None or self.idf_ is None:
            return None
        return LinearScores(self.coef_, self.intercept_, self.idf_)

    def _temper(self, X: sparse.csr_matrix) -> np.ndarray:
        """How much each word of a document speaks for itself: as when documents are shared."""
        length = np.asarray(self.model_._as_read(X).sum(axis=1), float).reshape(-1, 1)
        return np.maximum(length, 1.0) ** -0.5

    def _said_by_words(self, X: sparse.csr_matrix, column: int) -> np.ndarray:
        """Return what each word of one document adds to the score of a class."""
        words, counts = X.indices, self.model_._as_read(X).data
        said = self._temper(X)[0] * counts * self.model_.word_evidence(column, words)
        if (linear := self._linear) is None:
            return said
        rest = np.delete(linear.coef[words], column, axis=1).mean(axis=1)
        weighed = linear.weigh(X)
        weight = np.zeros(X.shape[1])
        weight[weighed.indices] = weighed.data
        own = weight[words] * (linear.coef[words, column] - rest)
        if not self.model_share_:
            return own
        known = linear.known(X)[0, 0]
        return known * own + (self.model_share_ * known + 1 - known) * said


class _Fitted(NamedTuple):
    """What was seen on the way: how far neighbours agree, and what others say of each document.

    None where that was not asked.
    """

    agreed: float | None = None
    by_neighbours: np.ndarray | None = None
    by_labels: np.ndarray | None = None


class _HeldOut(NamedTuple):
    """What went wrong with documents held out, and how far to believe such scores."""

    wrong: np.ndarray
    belief: Belief
    sigma: Any


def clearly_better(A: sparse.csr_matrix, B: sparse.csr_matrix, membership: Any) -> bool:
    """Whether linear scores of documents counted as in B are right more often than as in A.

    Documents are held out in turn; more often is by more than two standard errors. Where there are
    so many words and classes that linear scores have no part in it, nothing is said of B.
    """
    membership = membership[:, np.unique(membership.indices)]  # no table of what has no document
    A, B = (X[:, np.unique(X.indices)] for X in (A, B))
    if max(A.shape[1], B.shape[1]) * membership.shape[1] > MOST:
        return False
    column = best_columns(membership)
    part = np.random.default_rng(0).permutation(len(column)) % _N_PARTS
    wrong = []
    for X in (A, B):
        tfidf = LogTfIdf().fit(X)
        V, missed = tfidf.transform(X), np.ones(len(column))
        for i in range(_N_PARTS):
            rest, out = np.flatnonzero(part != i), np.flatnonzero(part == i)
            linear = fit_linear(V[rest], membership[rest], np.ones(len(rest)), tfidf.idf_)
            if linear is not None:
                best = (V[out] @ linear.coef + linear.intercept).argmax(axis=1)
                missed[out] = best != column[out]
        wrong.append(missed)
    return clearly_worse({"a": wrong[0], "b": wrong[1]}, "a")


def _said_of_neighbours(agreed: float | None) -> list[str]:
    if agreed is None:
        return []
    used = "spread over them" if trust(agreed) > 0 else "not spread"
    return [f"Neighbours are sorted alike by {agreed:.0%} of their weight: what is sure is {used}."]


def n_of(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
