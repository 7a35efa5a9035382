"""Texts in, nodes out, whatever labels there are: none, some, or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, softmax
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from leafwise.explain import Explanation
from leafwise.keywords import Keywords, read_keywords
from leafwise.labels import Classes, Occurrences, read_labels
from leafwise.models._base import BLOCK_SCORES, NodeClassifier
from leafwise.models._counts import best_columns, order_by_content
from leafwise.models._stages import EXACT, MOST, MOST_WORK, K, LinearScores, learn_anew, trust
from leafwise.models.dirichlet import HierarchicalDirichlet
from leafwise.models.graph import neighbor_graph
from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter

_ENOUGH_LABELS = 50  # from here on some are held out, to learn how far the model can be believed
_MANY_LABELS = 1000  # from here on one part of them does; with fewer, each part in turn
_N_PARTS = 4
_LARGE = 40_000_000  # words in documents, times nodes, from which on there are two parts
_SAMPLE = 5_000  # documents that tell as much about that as all of them would
_FEW_DOCUMENTS = 100  # below, neighbours and linear scores tell nothing
_MODEL = 0.02  # what the model counts beside linear scores: for words and nodes that these lack
_WAYS = {  # of learning from documents, the first preferred where nothing speaks against it
    "all": "neighbours and linear scores help",
    "model": "neighbours and linear scores did not help, and are left out",
    "labels": "unlabelled documents did not help, and are left out",
}


class TaxonomyClassifier(NodeClassifier):
    """Sort texts into a tree, from its keywords, from labels, or from both.

    The words are counted; keywords and labels give a first guess; a generative model is fitted to
    it, sorts the documents that have no label, and is fitted again to the result
    (`HierarchicalDirichlet`). Where neighbouring documents agree on that, labels and the surest
    documents are spread over the graph of neighbours (`HarmonicClassifier`); linear scores of
    words, learned from all documents, then sort any text. Labels that are held out decide whether
    these stages help, and how sure to be.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        None makes the distinct labels a flat tree.
    counter : WordCounter or None
        How words are counted. None leaves out English stop words, takes English stems, and counts
        the parts of words written together ("FastAPI") besides the whole.
    nodes : {"auto", "all", "leaves"} or list of labels
        The nodes that can be predicted. "auto": the leaves, and inner nodes that have labels.
    model : HierarchicalDirichlet or None
        Settings of the model; its taxonomy, nodes and vocabulary are those of this classifier.
        None is ``HierarchicalDirichlet(words="roots")``.
    keywords : bool
        Whether the tree's keywords are evidence.
    spread : {"auto"} or bool
        Whether the model's sorting is spread over neighbours, and linear scores are learned. "auto"
        has held-out labels decide, or, where these are too few, how far neighbours agree. A tree
        of very many nodes has the model alone.

    Attributes
    ----------
    transduction_ : array
        The node of each document that `fit` was given: its label, or the best guess.
    report_ : list of str
        What `fit` did, in words.
    temperature_, doubt_ : float
        What log probabilities are divided by, to be believed, and how much of the result is shared
        among all nodes alike: that the document is one of those of which nothing is known.
    counter_, model_ : the parts, fitted
    coef_, intercept_, idf_ : arrays or None
        Linear scores of words: words × classes, of each class, and of each word. None where the
        model alone sorts texts.
    """

    _learned = (
        *NodeClassifier._learned,
        "counter_",
        "model_",
        "coef_",
        "intercept_",
        "idf_",
        "temperature_",
        "doubt_",
        "report_",
    )

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        counter: WordCounter | None = None,
        nodes: Any = "auto",
        model: HierarchicalDirichlet | None = None,
        keywords: bool = True,
        spread: Any = "auto",
    ):
        self.taxonomy = taxonomy
        self.counter = counter
        self.nodes = nodes
        self.model = model
        self.keywords = keywords
        self.spread = spread

    def fit(self, texts: Iterable[str], labels: Any = None) -> Self:
        """Learn from texts, of which all, some or none have a label (None where unknown).

        `texts` is read once, and `labels` only after that: both can come from one stream.
        """
        self._validate()
        self.__dict__.pop("model_", None)  # a fit that fails leaves no half of the last one
        counter = WordCounter(stop_words="english", stemmer="english", compounds=True)
        self.counter_ = counter if self.counter is None else clone(self.counter)
        X = self._count(texts)
        occurrences = read_labels([None] * X.shape[0] if labels is None else labels)
        if occurrences.n_documents != X.shape[0]:
            raise ValueError(f"Got {X.shape[0]} texts and {occurrences.n_documents} labels.")
        self._set_classes(self._choose_classes(occurrences))
        membership = self._classes.membership(occurrences)
        if not (self.keywords or membership.nnz):
            raise ValueError(
                "No document has a label, and keywords=False: there is nothing to learn from."
            )
        keywords = None  # of a tree made from labels, names are no keywords
        if self.keywords and not self._plain:
            keywords = read_keywords(self.taxonomy_, self.counter_, X)
        order = order_by_content(X, membership)  # so that the order of documents changes nothing
        how = self._fit_parts(X[order], membership[order], keywords)
        best = self._best_of(X)
        given = best_columns(membership)
        labelled = given >= 0
        best[labelled] = given[labelled]
        self.transduction_ = self.classes_[best]
        self._write_report(X, labelled, keywords, how)
        return self

    def explain(self, text: str, node: str | None = None) -> Explanation:
        """Say which words put a text on a node, and which spoke against it.

        `node` is any label among the classes, by default the one predicted.
        """
        X = self._counts([text])
        log_joint = self._log_joint(X)
        column = int(log_joint.argmax())
        if node is not None:
            column = int(self._classes.columns(np.array([node]))[0])
        words, counts = X.indices, self.model_._as_read(X).data
        said = self._temper(X)[0] * counts * self.model_.word_evidence(column, words)
        if (linear := self._linear) is not None:
            rest = np.delete(linear.coef[words], column, axis=1).mean(axis=1)
            weighed = linear.weigh(X)
            weight = np.zeros(X.shape[1])
            weight[weighed.indices] = weighed.data
            known = linear.known(X)[0, 0]
            said = (_MODEL * known + 1 - known) * said
            said += known * weight[words] * (linear.coef[words, column] - rest)
        vocabulary = list(self.counter_.vocabulary_)
        return Explanation.of(
            path=str(self.classes_[column]),
            probability=float(softmax(log_joint, axis=1)[0, column]),
            contributions=dict(zip([vocabulary[w] for w in words], said / self.temperature_)),
            forms=self.counter_.words_of(text),
        )

    def node_words(self, path: Any, n: int = 10) -> list[tuple[str, float]]:
        """List what a node says that its parent does not: word stems, weightiest first.

        See `NaiveBayes.node_words`; the words are those that the counter counts.
        """
        check_is_fitted(self, "model_")
        return self.model_.node_words(path, n, list(self.counter_.vocabulary_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags

    def _choose_classes(self, labels: Occurrences) -> Classes:
        if self.taxonomy is None:
            return Classes.of_labels(labels)
        if not (isinstance(self.nodes, str) and self.nodes == "auto"):
            return Classes.of_taxonomy(self.taxonomy, self.nodes)
        every = Classes.of_taxonomy(self.taxonomy)
        used = every.nodes[np.unique(every.columns(labels.labels))]
        return Classes.of_nodes(self.taxonomy, np.union1d(self.taxonomy.leaves, used))

    def _count(self, texts: Iterable[str]) -> sparse.csr_matrix:
        """Count words, the tree's keywords too: a text may use one that no text had so far."""
        if self.taxonomy is None:
            return self.counter_.fit_transform(texts)
        if isinstance(texts, str | bytes) or hasattr(texts, "columns"):
            return self.counter_.fit_transform(texts)  # it knows what to say
        keywords = " ".join(word for words in self.taxonomy.keywords for word in words)
        return self.counter_.fit_transform(chain(texts, [keywords]))[:-1]

    def _fit_parts(
        self, X: sparse.csr_matrix, membership: sparse.csr_matrix, keywords: Keywords | None
    ) -> list[str]:
        """Fit, deciding which stages help, and how far to believe the result; say how.

        With enough labels some are held out first, and decide. With few, the preferred way is
        taken, and it is as sure as its parts agree.
        """
        labelled = np.flatnonzero(np.diff(membership.indptr))
        ways = self._ways(X, len(labelled))
        graph = None
        if "all" in ways and len(labelled) < X.shape[0]:
            many = X.shape[0] > EXACT
            graph = neighbor_graph(X, K, symmetric=True, approximate=many)
        if len(labelled) < _ENOUGH_LABELS:
            agreed = self._fit_stages(X, membership, keywords, graph, ways[0])
            said = _said_of_neighbours(agreed) if ways[0] == "all" else []
            return [*said, f"Probabilities are set by {self._believe(X, keywords)}."]
        found = self._hold_out(X, membership, keywords, graph, ways)
        # Few labels tell little: without a clear sign against it, the first way is taken.
        wrong = {way: one.wrong for way, one in found.items()}
        way = min(ways, key=lambda way: (_clearly_worse(wrong, way), ways.index(way)))
        self._fit_stages(X, membership, keywords, graph, way, sigma=found[way].sigma)
        self.temperature_, self.doubt_ = found[way].temperature, found[way].doubt
        n_held_out = _n(len(wrong[way]), "label")
        said = []
        if len(ways) > 1:
            text = _WAYS[way] if graph is not None or way != "all" else "linear scores help"
            said = [f"{text[0].upper()}{text[1:]}: so say {n_held_out} held out."]
        return [*said, f"Probabilities are set by {n_held_out} held out."]

    def _ways(self, X: sparse.csr_matrix, n_labelled: int) -> list[str]:
        """Return the ways of learning that come into question, the preferred one first."""
        n_classes = len(self.nodes_)
        feasible = max(X.shape) * n_classes <= MOST and X.nnz * n_classes <= MOST_WORK
        every = self.spread is not False and X.shape[0] >= _FEW_DOCUMENTS and feasible
        if self.spread is True and every:
            return ["all"]
        some = n_labelled < X.shape[0]
        return [*(["all"] if every else []), "model", *(["labels"] if some else [])]

    def _hold_out(
        self,
        X: sparse.csr_matrix,
        membership: sparse.csr_matrix,
        keywords: Keywords | None,
        graph: sparse.csr_matrix | None,
        ways: list[str],
    ) -> dict[str, _HeldOut]:
        """Return, for each way, what becomes of labelled documents that it was not given."""
        labelled = np.flatnonzero(np.diff(membership.indptr))
        drawn = np.random.default_rng(0).permutation(labelled)
        sample_size = min(_SAMPLE, max(200, 4 * BLOCK_SCORES // len(self.nodes_)))
        if len(labelled) < _MANY_LABELS:
            large = X.nnz * len(self.nodes_) > _LARGE
            parts = np.array_split(drawn, 2 if large else _N_PARTS)
        else:
            parts = [drawn[: min(len(labelled) // 5, sample_size)]]
        scored: dict[str, list[np.ndarray]] = {way: [] for way in ways}
        sigma: dict[str, Any] = {}
        for part in parts:
            rest = np.setdiff1d(np.arange(X.shape[0]), part)
            among = None if graph is None else graph[rest][:, rest]
            some = X[rest], membership[rest], keywords, among
            for way in reversed(ways):  # "all" goes on from "model"
                self._fit_stages(*some, way, sigma=sigma.get(way), again="model" in ways)
                scored[way].append(self._log_joint(X[part]))
                sigma[way] = self.model_.sigma_
        truth = membership[np.concatenate(parts)].toarray()
        found = {}
        for way in ways:
            log_joint = np.concatenate(scored[way])
            wrong = truth[np.arange(len(truth)), log_joint.argmax(axis=1)] == 0
            how_sure = _likeliest(truth, log_joint, way == "all")
            found[way] = _HeldOut(wrong.astype(float), *how_sure, sigma[way])
        return found

    def _fit_stages(
        self,
        X: sparse.csr_matrix,
        membership: sparse.csr_matrix,
        keywords: Keywords | None,
        graph: sparse.csr_matrix | None,
        way: str,
        sigma: Any = None,
        again: bool = False,
    ) -> float | None:
        """Learn in one of the ways; returns how far neighbours agree, if they are asked.

        `again` says that the model was just fitted to the same in another way.
        """
        self.temperature_, self.doubt_ = 1.0, 0.0
        self.coef_ = self.intercept_ = self.idf_ = None
        if not (again and way == "all"):
            self._fit_model(X, membership, keywords, way != "labels", sigma)
        if way != "all":
            return None
        log_p = log_softmax(self._log_joint(X), axis=1)
        linear, agreed = learn_anew(X, membership, log_p, graph)
        asked = self.spread is True or agreed is None or len(np.unique(membership.indices)) > 1
        if linear is not None and (asked or trust(agreed or 0.0) > 0):
            self.coef_, self.intercept_, self.idf_ = linear
        return agreed

    def _fit_model(
        self,
        X: sparse.csr_matrix,
        membership: sparse.csr_matrix,
        keywords: Keywords | None,
        pool: bool = True,
        sigma: Any = None,
    ) -> None:
        """Fit the model; without the `pool` of unlabelled documents, to labels and keywords."""
        model = HierarchicalDirichlet(words="roots") if self.model is None else clone(self.model)
        if sigma is not None:
            model.set_params(sigma=sigma)
        model._validate()
        weight = np.ones(X.shape[0])
        if not pool:
            weight[np.diff(membership.indptr) == 0] = 0.0
        self.model_ = model._fit(X, self._classes, membership, weight, keywords)

    def _believe(self, X: sparse.csr_matrix, keywords: Keywords | None) -> str:
        """Be as sure, on average, as those agree that had a part in it; says who.

        Keywords alone are wrong more often than what is made of them, and stages that follow each
        other are wrong together: the truth lies between.
        """
        sample_size = min(_SAMPLE, max(200, 4 * BLOCK_SCORES // len(self.nodes_)))
        some = X[:: max(1, X.shape[0] // sample_size)]
        log_joint = self._log_joint(some)
        best = log_joint.argmax(axis=1)
        agreed = {}
        if keywords is not None and keywords.weights.nnz:
            scores = keywords.scores(some, self.taxonomy_.parent)[:, self.nodes_]
            matched = scores.any(axis=1)
            agreed["with its keywords"] = (scores.argmax(axis=1) == best)[matched].mean()
        if self._linear is not None:
            by_model = self.model_._log_joint(some).argmax(axis=1)
            agreed["before and after spreading"] = (by_model == best).mean()
        if not agreed:
            return "the model alone: there are too few labels and keywords to check them by"
        mean = np.mean(list(agreed.values()))

        def excess(t: float) -> float:
            return float(softmax(log_joint / t, axis=1).max(axis=1).mean() - mean) ** 2

        self.temperature_ = _best_temperature(excess, self._linear is not None)
        said = ", and ".join(f"{what} ({share:.0%})" for what, share in agreed.items())
        return f"how often the model agrees {said}"

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        log_joint = self._temper(X) * self.model_._log_joint(X)
        if (linear := self._linear) is not None:
            known = linear.known(X)
            log_joint = known * linear.scores(X) + (_MODEL * known + 1 - known) * log_joint
        log_joint /= self.temperature_
        return _with_doubt(log_joint, self.doubt_) if self.doubt_ else log_joint

    @property
    def _linear(self) -> LinearScores | None:
        if self.coef_ is None or self.intercept_ is None or self.idf_ is None:
            return None
        return LinearScores(self.coef_, self.intercept_, self.idf_)

    def _best_of(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return the best column of each document whose words are counted."""
        return np.concatenate([log_joint.argmax(axis=1) for _, log_joint in self._blocks(X)])

    def _temper(self, X: sparse.csr_matrix) -> np.ndarray:
        """How much each word of a document speaks for itself: as when documents are shared."""
        length = np.asarray(self.model_._as_read(X).sum(axis=1), float).reshape(-1, 1)
        return np.maximum(length, 1.0) ** -0.5

    def _counts(self, X: Any, reset: bool = False) -> sparse.csr_matrix:
        check_is_fitted(self, "model_")
        return self.counter_.transform(X)

    def _write_report(
        self, X: sparse.csr_matrix, labelled: np.ndarray, keywords: Keywords | None, how: list[str]
    ) -> None:
        n_matched = 0
        if keywords is not None:
            n_matched = int(np.count_nonzero(np.diff(keywords.matches(X).indptr)))
        model = self.model_
        self.report_ = [
            f"Counted {_n(X.shape[1], 'different word')} in {_n(X.shape[0], 'document')}.",
            f"With a label: {int(labelled.sum()):,}. With a keyword: {n_matched:,}.",
            f"Sorted them over {_n(len(self.nodes_), 'node')} in {_n(model.n_iter_, 'round')}; "
            f"nodes are bound to their parents by {_n(round(np.mean(model.sigma_)), 'word')} (σ).",
            *how,
        ]
        if unknown := model.unknown_keywords_:
            shown = ", ".join(unknown[:10]) + (", ..." if len(unknown) > 10 else "")
            self.report_.append(
                f"Keywords that find no document, since none has them or they are stop words "
                f"({len(unknown):,}): {shown}"
            )

    def _validate(self) -> None:
        if self.counter is not None and not isinstance(self.counter, WordCounter):
            raise ValueError(f"counter={self.counter!r}: expected a WordCounter.")
        for name, known in (("keywords", (True, False)), ("spread", ("auto", True, False))):
            value = getattr(self, name)
            if not (isinstance(value, bool) or value in known):
                raise ValueError(f"{name}={value!r}: expected one of {known}.")
        if self.model is not None and not isinstance(self.model, HierarchicalDirichlet):
            raise ValueError(f"model={self.model!r}: expected a HierarchicalDirichlet.")
        if self.model is not None and self.model.reject is not None:
            raise ValueError(
                f"model: reject={self.model.reject!r} is for HierarchicalDirichlet alone. Here, "
                "predict_proba says how sure each document is."
            )

    def _restore(self) -> None:
        """Check what a file held."""
        self._check_classes()
        n_words = len(self.counter_.vocabulary_)
        if self.model_.word_counts_.shape != (len(self.nodes_), n_words):
            raise ValueError("the model does not fit the words and classes")
        if (linear := self._linear) is not None and (
            linear.coef.shape != (n_words, len(self.nodes_))
            or linear.intercept.shape != (len(self.nodes_),)
            or linear.idf.shape != (n_words,)
        ):
            raise ValueError("the linear scores do not fit the words and classes")
        if not 0 < self.temperature_ < np.inf:
            raise ValueError("the temperature is no positive number")
        if not 0 <= self.doubt_ < 1:
            raise ValueError("the doubt is no number from 0 to 1")
        self._validate()


class _HeldOut(NamedTuple):
    """Which documents went wrong whose labels were held out, and the likeliest temperature."""

    wrong: np.ndarray
    temperature: float
    doubt: float
    sigma: Any


def _clearly_worse(wrong: dict[str, np.ndarray], way: str) -> bool:
    """Whether another way has fewer wrong, by more than two standard errors of the difference."""
    more = [wrong[way] - other for other in wrong.values()]
    return any(gain.mean() > 2 * gain.std() / np.sqrt(len(gain)) for gain in more)


def _said_of_neighbours(agreed: float | None) -> list[str]:
    if agreed is None:
        return []
    used = "spread over them" if trust(agreed) > 0 else "not spread"
    return [f"Neighbours are sorted alike by {agreed:.0%} of their weight: what is sure is {used}."]


def _n(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _with_doubt(log_joint: np.ndarray, doubt: float) -> np.ndarray:
    """Return log P, of which a part is shared among all classes alike."""
    return np.log(doubt / log_joint.shape[1] + (1 - doubt) * softmax(log_joint, axis=1))


def _likeliest(truth: np.ndarray, log_joint: np.ndarray, linear: bool) -> tuple[float, float]:
    """Find the temperature and the doubt under which held-out labels are likeliest.

    `linear` says whether scores are linear ones: a model is never surer than it says.
    """

    def loss(point: np.ndarray) -> float:
        log_p = _with_doubt(log_joint / np.exp(point[0]), float(expit(point[1])))
        return -float((truth * log_p).sum(axis=1).mean())

    bounds = [(-4 if linear else 0, 5), (-9, 0)]
    starts = [(-1.5, -3.0)] if linear else []
    found = [minimize(loss, start, bounds=bounds) for start in [*starts, (0.5, -3.0), (0.5, -1.0)]]
    log_t, logit = min(found, key=lambda one: one.fun).x
    return float(np.exp(log_t)), float(expit(logit))


def _best_temperature(loss: Callable[[float], float], linear: bool) -> float:
    """Find the temperature of the least loss, as `_likeliest` does."""
    bounds = (-4 if linear else 0, 5)
    found = minimize_scalar(lambda log_t: loss(np.exp(log_t)), bounds=bounds, method="bounded")
    return float(np.exp(found.x))
