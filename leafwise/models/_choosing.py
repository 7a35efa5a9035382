"""Which way of learning `TaxonomyClassifier` takes, and how sure it is to be.

Labels that are held out decide, where there are enough of them; else how far the stages agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import log_softmax

from leafwise.models._base import BLOCK_SCORES
from leafwise.models._belief import (
    Belief,
    believe_agreement,
    believe_one,
    believe_several,
    clearly_worse,
    errors,
    log_more_common,
    weights_of_classes,
)
from leafwise.models._counts import keys_of
from leafwise.models._lent import best_of, lend, passed_over
from leafwise.models._progress import Steps
from leafwise.models._staged import APART, MODEL_ALONE, Counted, Fitted, StagedClassifier
from leafwise.models._stages import (
    MOST,
    MOST_WORK,
    LinearScores,
    common_weight,
    cuts_of_labels,
    trust,
)
from leafwise.models._thresholds import deal
from leafwise.models.harmonic import HarmonicClassifier

ENOUGH_LABELS = 50  # from here on some are held out, to learn how far the model can be believed
MANY_LABELS = 1000  # from here on some parts of them do; with fewer, each part in turn
_N_PARTS = 4
_ENOUGH_HELD_OUT = 500  # labels, for which so many parts are needed
_HOPELESS = 4.0  # standard errors, by which a way is worse that is not tried on more parts
_LARGE = 40_000_000  # words in documents, times nodes, from which on there are two parts
SAMPLE = 5_000  # documents that tell as much about that as all of them would
_FEW_DOCUMENTS = 100  # below, neighbours and linear scores tell nothing
_WAYS = {  # of learning from documents, the first preferred where nothing speaks against it
    "all": "neighbours and linear scores help",
    "mostly": "neighbours and linear scores help, together with some scores that ask no neighbours",
    "evenly": "neighbours help, beside linear scores that ask none",
    "partly": "neighbours help a little, beside linear scores that ask none",
    "words": "neighbours did not help, and are left out",
    "several": "linear scores say which nodes other documents have, and learn from them",
    "model": "neighbours and linear scores did not help, and are left out",
    "labels": "unlabelled documents did not help, and are left out",
}
_FITTED_IN_TURN = "labels", "several", "words", "model", "all", "mostly", "evenly", "partly"
_GO_ON_FROM = {"several": "labels", "words": "labels", "all": "model"}
_BETWEEN = 1.0  # standard errors that decide between these: they differ little
_MUCH = 0.5  # trust in neighbours
_FAVOUR = 2 / 3  # of what Bayes' rule gives to common classes: what was learned has a part of it


class ChoosingClassifier(StagedClassifier):
    """Takes the way of learning that labels held out speak for, and is as sure as they say."""

    on_progress: Callable[[str, int, int], None] | None = None

    def _fit_counted(self, counted: Counted) -> list[str]:
        """Fit, deciding which stages help, and how far to believe the result; say how.

        With enough labels some are held out first, and decide. With few, the preferred way is
        taken, and it is as sure as its parts agree.
        """
        self.learned_keys_ = np.unique(keys_of(counted.X))
        n_labelled = len(counted.labelled)
        ways = self._ways(counted)
        with_graph = "all" in ways and n_labelled < counted.X.shape[0]
        parts = self._parts(counted) if n_labelled >= ENOUGH_LABELS else []
        if "several" in ways and parts:
            known = counted.labelled
            counted = counted._replace(
                cuts=cuts_of_labels(counted.X[known], counted.membership[known])
            )
        if parts and not self.several_:
            counted = counted._replace(least=common_weight(counted.X))
        passed = self._passed_over(counted)
        n_fits = len(parts) * sum(not APART.get(way) for way in ways)
        step = Steps(self.on_progress, with_graph + (passed > 0) + n_fits + 1)
        graph: sparse.csr_matrix | None = None
        lent: list[str] = []
        if with_graph:
            graph = self._graph(counted)
            step()
        if passed:
            counted, lent = self._lend(counted, graph, passed)
            step()
        return [*lent, *self._fit_ways(counted, graph, ways, parts, step)]

    def _passed_over(self, counted: Counted) -> float:
        """Return what share of the documents are of classes that labels have passed over."""
        keywords, n_labelled = counted.keywords, len(np.unique(counted.membership.indices))
        if self.several_ or keywords is None or n_labelled in (0, len(self.nodes_)):
            return 0.0
        best, match = best_of(partial(self._matches, keywords), counted.X, len(self.nodes_))
        return passed_over(best, match > 0, counted.membership)

    def _lend(
        self, counted: Counted, graph: sparse.csr_matrix | None, passed: float
    ) -> tuple[Counted, list[str]]:
        """Lend labels to classes that have been passed over, by keywords alone; say so."""
        nothing = counted._replace(membership=sparse.csr_matrix(counted.membership.shape))
        self._fit_stages(nothing, graph, "model" if graph is None else "all")
        best, sure = best_of(
            lambda X: log_softmax(self._scores(X), axis=1), counted.X, len(self.nodes_)
        )
        lent = lend(best, sure, counted.membership)
        n_nodes = len(np.unique(lent.indices))
        if not n_nodes:
            return counted, []
        said = (
            f"Labels were not given at random: {n_of(n_nodes, 'node')} without one seem to have "
            f"{passed:.0%} of the other documents. {n_of(lent.nnz, 'document')} that keywords put "
            "there count as labels; how sure to be is known of the other nodes alone."
        )
        return counted._replace(membership=sparse.csr_matrix(counted.membership + lent)), [said]

    def _fit_ways(
        self,
        counted: Counted,
        graph: sparse.csr_matrix | None,
        ways: list[str],
        parts: list[np.ndarray],
        step: Callable[[], None],
    ) -> list[str]:
        """Fit in the way that does best for the parts that are held out; say how."""
        if not parts:
            fitted = self._fit_stages(counted, graph, ways[0])
            step()
            said = _said_of_neighbours(fitted.agreed) if ways[0] == "all" else []
            return [*said, f"Probabilities are set by {self._believe(counted, fitted)}."]
        found = self._hold_out(counted, graph, ways, parts, step)
        one = next(iter(found.values()))
        if one.uneven:
            # What is spread gives rare classes too much, and few labels are of the others.
            ways = sorted(ways, key=lambda way: -APART.get(way, float(way == "words")))
        elif "mostly" in ways and trust(one.agreed) >= _MUCH:
            # Where neighbours can be trusted, scores that ask none have little to add.
            ways = sorted(ways, key=lambda way: APART.get(way, 1.0))
        # Few labels tell little: without a clear sign against it, the first way is taken.
        wrong = {way: one.wrong for way, one in found.items()}
        way = min(wrong, key=lambda way: (clearly_worse(wrong, way), ways.index(way)))
        if way in APART:
            wrong = {one: wrong[one] for one in APART if one in wrong}
            way = min(wrong, key=lambda one: (clearly_worse(wrong, one, _BETWEEN), ways.index(one)))
        self._fit_stages(counted, graph, way, {one: found[one].sigma for one in found})
        step()
        self._belief = found[way].belief
        said = self._favour_common(counted) if one.uneven else []
        n_held_out = n_of(len(wrong[way]), "label" if not self.several_ else "document")
        if len(ways) > 1 and not (way == "model" and "all" not in ways):
            text = _WAYS[way] if graph is not None or way != "all" else "linear scores help"
            said.insert(0, f"{text[0].upper()}{text[1:]}: so say {n_held_out} held out.")
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
        order = first = tuple(_WAYS)
        enough = len(counted.labelled) >= ENOUGH_LABELS
        if enough and not self.several_ and self.linear is not False:
            usable |= {"mostly": words, "evenly": words, "partly": words}
            beside = counted.keywords is None
            first = ("evenly", "partly", "mostly", "all") if beside else ("mostly", "all", "partly")
            order = (*first, *order[4:])
        if self.several_ and enough:
            # What is spread is one class of each document. A class without a label is found by
            # keywords alone, which "several" leaves out.
            first = ("several", "words") if counted.keywords is None else ("words", "several")
            order = (*first, "all", "model", "labels")
        return [way for way in order if usable.get(way)]

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
        pool = len(counted.labelled) < counted.X.shape[0] and not self.several_
        is_linear: dict[str, bool] = {}
        agreed, n_sorted = 0.0, np.zeros(len(self.nodes_))
        drawn = counted.X[self._drawn(counted)]
        learned, truth = [], []
        for part in parts:
            hidden = part[1::2] if pool else part[:0]
            out = np.setdiff1d(part, hidden)
            learned.append(np.isin(part, hidden))
            truth.append(counted.membership[part].toarray())
            rest = np.setdiff1d(np.arange(counted.X.shape[0]), out)
            some = counted.without(out, hidden)
            among = None if graph is None else graph[rest][:, rest]
            linear: dict[str, tuple[LinearScores | None, Any]] = {}
            for way in [one for one in _FITTED_IN_TURN if one in ways]:
                if way in scored:
                    if APART.get(way):
                        self._mix(linear["all"][0], *linear["words"], way, counted.keywords)
                    else:
                        again = _GO_ON_FROM.get(way) in scored
                        fitted = self._fit_stages(some, among, way, sigma, again=again)
                        agreed += (fitted.agreed or 0.0) / len(parts)
                        if not self.several_:
                            best = self._scores(drawn).argmax(axis=1)
                            n_sorted += np.bincount(best, minlength=len(self.nodes_))
                        sigma[way], linear[way] = self.model_.sigma_, (self._linear, self.model_)
                    is_linear[way] = self._linear is not None
                    scored[way].append(self._scores(counted.X[part]))
                if not APART.get(way):
                    step()
            if not self.several_:
                self._drop_hopeless(scored, np.concatenate(truth))
        share = 1 - len(parts[0]) / len(counted.labelled)
        labels, seen, found = np.concatenate(truth), np.concatenate(learned), {}
        weight = np.ones(len(labels))
        if not self.several_:
            n_labels = np.asarray(counted.membership.sum(axis=0)).ravel()
            weight = weights_of_classes(labels.argmax(axis=1), n_labels, n_sorted)
        uneven = bool(np.ptp(weight) > 0)
        for way, several_scores in scored.items():
            scores = np.concatenate(several_scores)
            if self.several_:
                belief = believe_several(labels, scores)
            else:
                right = errors(labels, scores, Belief()) == 0
                belief = believe_one(right, scores, seen, is_linear[way], share, trust(agreed))
            wrong = errors(labels, scores, belief)
            found[way] = _HeldOut(wrong * weight, belief, sigma.get(way), agreed, uneven)
        return found

    @staticmethod
    def _drop_hopeless(scored: dict[str, list[np.ndarray]], truth: np.ndarray) -> None:
        """Drop ways that are so much worse than others that more parts would not change it."""
        wrong = {
            way: errors(truth, np.concatenate(scores), Belief()) for way, scores in scored.items()
        }
        for way in wrong:
            if way in scored and clearly_worse(wrong, way, _HOPELESS):
                del scored[way]
        if not {"all", "words"} <= scored.keys():  # of which these two are made
            for way in filter(APART.get, APART):
                scored.pop(way, None)

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
        n_parts = n_fifths(len(labelled), self._sample_size)
        if n_parts > 1:
            return np.array_split(drawn, 5)[:n_parts]
        return [drawn[: min(len(labelled) // 5, self._sample_size)]]

    def _favour_common(self, counted: Counted) -> list[str]:
        """Let linear scores know which classes have many documents, where labels do not; say so."""
        if self._linear is None:
            return []
        some = counted.X[self._drawn(counted)]
        log_p = self._belief.log_proba(self._scores(some), np.ones(some.shape[0], bool))
        gain = log_more_common(log_p, np.asarray(counted.membership.sum(axis=0)).ravel())
        self._linear = self._linear.favouring(_FAVOUR * self._belief.temperature * gain)
        return [
            "Labels are far from in proportion to documents: nodes that have more of these are "
            f"favoured, most of all {self.classes_[gain.argmax()]}."
        ]

    def _drawn(self, counted: Counted) -> slice:
        """Return a sample of the documents."""
        return slice(None, None, max(1, counted.X.shape[0] // self._sample_size))

    @property
    def _sample_size(self) -> int:
        return min(SAMPLE, max(200, 8 * BLOCK_SCORES // len(self.nodes_)))

    def _believe(self, counted: Counted, fitted: Fitted) -> str:
        """Be as sure, on average, as those agree that had a part in it; says who.

        Keywords alone are wrong more often than what is made of them, and stages that follow each
        other are wrong together: the truth lies between.
        """
        X, keywords = counted.X, counted.keywords
        drawn = self._drawn(counted)
        some = X[drawn]
        scores, linear = self._scores(some), self._linear is not None
        best = scores.argmax(axis=1)
        if self.several_:
            cut = np.zeros(scores.shape[1]) if linear else np.full(scores.shape[1], np.log(0.5))
            self._belief = Belief(1 / 3 if linear else 1.0, thresholds=cut)
            return "the scores alone: there are too few labels to check them by"
        agreed = {}
        if keywords is not None and keywords.weights.nnz:
            matches = self._matches(keywords, some)
            matched = matches.any(axis=1)
            agreed["with its keywords"] = (matches.argmax(axis=1) == best)[matched].mean()
        if linear and self.model_share_ < MODEL_ALONE:  # else they only repeat it
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


class _HeldOut(NamedTuple):
    """What went wrong with documents held out, times their weights, and how far to believe scores.

    `agreed` is how far neighbours agreed meanwhile, in whichever way they were asked; `uneven` says
    that weights differ, as labels are far from in proportion to classes.
    """

    wrong: np.ndarray
    belief: Belief
    sigma: Any
    agreed: float
    uneven: bool


def n_fifths(n_labels: int, most: int) -> int:
    """Return how many fifths of many labels are held out, where so many tell as much as all."""
    return max(1, ceil(min(_ENOUGH_HELD_OUT, most) / (n_labels // 5)))


def _said_of_neighbours(agreed: float | None) -> list[str]:
    if agreed is None:
        return []
    used = "spread over them" if trust(agreed) > 0 else "not spread"
    return [f"Neighbours are sorted alike by {agreed:.0%} of their weight: what is sure is {used}."]


def n_of(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
