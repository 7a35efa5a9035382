"""Texts in, nodes out, whatever labels there are: none, some, or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from leafwise.explain import Explanation
from leafwise.keywords import Keywords, read_keywords
from leafwise.labels import Classes, Occurrences, read_labels
from leafwise.models._base import BLOCK_SCORES, NodeClassifier
from leafwise.models.dirichlet import HierarchicalDirichlet
from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter

_ENOUGH_LABELS = 50  # from here on some are held out, to learn how far the model can be believed
_SAMPLE = 5_000  # documents that tell as much about that as all of them would


class TaxonomyClassifier(NodeClassifier):
    """Sort texts into a tree, from its keywords, from labels, or from both.

    The words are counted; keywords and labels give a first guess; a generative model is fitted to
    it, sorts the documents that have no label, and is fitted again to the result
    (`HierarchicalDirichlet`).

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

    Attributes
    ----------
    transduction_ : array
        The node of each document that `fit` was given: its label, or the best guess.
    report_ : list of str
        What `fit` did, in words.
    temperature_ : float
        What the model's log probabilities are divided by, to be believed.
    counter_, model_ : the parts, fitted
    """

    _learned = (*NodeClassifier._learned, "counter_", "model_", "temperature_", "report_")

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        counter: WordCounter | None = None,
        nodes: Any = "auto",
        model: HierarchicalDirichlet | None = None,
    ):
        self.taxonomy = taxonomy
        self.counter = counter
        self.nodes = nodes
        self.model = model

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
        keywords = None  # of a tree made from labels, names are no keywords
        if not self._plain:
            keywords = read_keywords(self.taxonomy_, self.counter_, X)
        how = self._fit_parts(X, membership, keywords)
        best = self.model_._best(X)
        labelled = np.diff(membership.indptr) > 0
        best[labelled] = np.asarray(membership.argmax(axis=1)).ravel()[labelled]
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
        self.temperature_ = 1.0
        self.model_ = model._fit(X, self._classes, membership, weight, keywords)

    def _fit_parts(
        self, X: sparse.csr_matrix, membership: sparse.csr_matrix, keywords: Keywords | None
    ) -> str:
        """Fit, deciding whether unlabelled documents help, and how far to believe the result.

        With enough labels a fifth of them is held out first, and its likelihood decides. With few,
        unlabelled documents are used, and the model is to be as sure, on average, as it agrees
        with the keywords it started from: both can be wrong together, so that is too sure still,
        but far less than without.
        """
        labelled = np.flatnonzero(np.diff(membership.indptr))
        sample_size = min(_SAMPLE, max(200, 4 * BLOCK_SCORES // len(self.nodes_)))
        if len(labelled) >= _ENOUGH_LABELS:
            n_held_out = min(len(labelled) // 5, sample_size)
            held_out = np.random.default_rng(0).permutation(labelled)[:n_held_out]
            kept = np.ones(X.shape[0])
            kept[held_out] = 0.0
            some = sparse.csr_matrix(sparse.diags_array(kept) @ membership)
            some.eliminate_zeros()
            truth = membership[held_out].toarray()
            losses, temperatures, sigmas = {}, {}, {}
            for pool in (True, False):
                self._fit_model(X, some, keywords, pool)
                log_joint = self._log_joint(X[held_out])
                temperatures[pool] = _best_temperature(partial(_mean_loss, truth, log_joint))
                losses[pool] = _losses(truth, log_joint, temperatures[pool])
                sigmas[pool] = self.model_.sigma_
            # Few labels tell little: without a clear sign against them, unlabelled documents stay.
            gain = losses[True] - losses[False]
            pool = bool(gain.mean() <= gain.std() / np.sqrt(len(gain)))
            self._fit_model(X, membership, keywords, pool, sigmas[pool])
            self.temperature_ = temperatures[pool]
            how = f"{len(held_out):,} labels held out"
            if len(labelled) < X.shape[0]:
                used = "helped" if pool else "did not help, and are left out"
                how += f"; unlabelled documents {used}"
            return how
        self._fit_model(X, membership, keywords)
        some = X[:: max(1, X.shape[0] // sample_size)]
        if keywords is None or not keywords.weights.nnz:
            return "the model alone: there are too few labels and keywords to check them by"
        scores = keywords.scores(some, self.taxonomy_.parent)[:, self.nodes_]
        log_joint = self._log_joint(some)
        matched = scores.any(axis=1)
        agreed = (scores.argmax(axis=1) == log_joint.argmax(axis=1))[matched].mean()

        def excess(t: float) -> float:
            return float(softmax(log_joint / t, axis=1).max(axis=1).mean() - agreed) ** 2

        self.temperature_ = _best_temperature(excess)
        return f"how often the model agrees with its keywords ({agreed:.0%})"

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        return self._temper(X) * self.model_._log_joint(X) / self.temperature_

    def _temper(self, X: sparse.csr_matrix) -> np.ndarray:
        """How much each word of a document speaks for itself: as when documents are shared."""
        length = np.asarray(self.model_._as_read(X).sum(axis=1), float).reshape(-1, 1)
        return np.maximum(length, 1.0) ** -0.5

    def _counts(self, X: Any, reset: bool = False) -> sparse.csr_matrix:
        check_is_fitted(self, "model_")
        return self.counter_.transform(X)

    def _write_report(
        self, X: sparse.csr_matrix, labelled: np.ndarray, keywords: Keywords | None, how: str
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
            f"Probabilities are set by {how}.",
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
        if not 0 < self.temperature_ < np.inf:
            raise ValueError("the temperature is no positive number")
        self._validate()


def _n(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _losses(truth: np.ndarray, log_joint: np.ndarray, temperature: float) -> np.ndarray:
    """Return -log P(the true node) of each document."""
    return -(truth * log_softmax(log_joint / temperature, axis=1)).sum(axis=1)


def _mean_loss(truth: np.ndarray, log_joint: np.ndarray, temperature: float) -> float:
    return float(_losses(truth, log_joint, temperature).mean())


def _best_temperature(loss: Callable[[float], float]) -> float:
    """Find the temperature of the least loss, from as sure as the model is to hardly at all."""
    found = minimize_scalar(lambda log_t: loss(np.exp(log_t)), bounds=(0, 5), method="bounded")
    return float(np.exp(found.x))
