"""Texts in, nodes out, whatever labels there are: none, some, or many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from leafwise.explain import Explanation
from leafwise.keywords import keyword_scores, keyword_weights
from leafwise.labels import Classes, Occurrences, read_labels
from leafwise.models._base import NodeClassifier
from leafwise.models._counts import statistics
from leafwise.models._em import Sharing, run_em
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter

_BLOCK_SCORES = 1 << 22  # documents × nodes that are worked on at a time
_ENOUGH_LABELS = 50  # from here on some are held out, to learn how far the model can be believed
_SAMPLE = 5_000  # documents that tell as much about that as all of them would
_NEGLIGIBLE = 1e-3  # posterior probabilities below are dropped, so that what is kept stays sparse


class TaxonomyClassifier(NodeClassifier):
    """Sort texts into a tree, from its keywords, from labels, or from both.

    The words are counted; keywords and labels give a first guess; a generative model is fitted to
    it, sorts the documents that have no label, and is fitted again to the result (EM, with the
    labels held fixed).

    Parameters
    ----------
    taxonomy : Taxonomy or None
        None makes the distinct labels a flat tree.
    counter : WordCounter or None
        How words are counted. None leaves out English stop words and takes English stems.
    nodes : {"auto", "all", "leaves"} or list of labels
        The nodes that can be predicted. "auto": the leaves, and inner nodes that have labels.
    rounds : int
        How often the model is fitted to its own sorting of the unlabelled documents.
    label_weight : float
        How many unlabelled documents a labelled one counts for.
    word_limit : float
        A document's words count as at most so many independent ones. Without a limit the model is
        far too sure of long documents (E 4.2).
    mu : float
        The weight of the corpus in a node's word distribution (E eq. 4), in words.

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

    _learned = (
        *NodeClassifier._learned,
        "counter_",
        "model_",
        "temperature_",
        "_keyword_weights",
        "report_",
    )

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        counter: WordCounter | None = None,
        nodes: Any = "auto",
        rounds: int = 4,
        label_weight: float = 20.0,
        word_limit: float = 20.0,
        mu: float = 300.0,
    ):
        self.taxonomy = taxonomy
        self.counter = counter
        self.nodes = nodes
        self.rounds = rounds
        self.label_weight = label_weight
        self.word_limit = word_limit
        self.mu = mu

    def fit(self, texts: Iterable[str], labels: Any = None) -> Self:
        """Learn from texts, of which all, some or none have a label (None where unknown).

        `texts` is read once, and `labels` only after that: both can come from one stream.
        """
        self._validate()
        self.__dict__.pop("model_", None)  # a fit that fails leaves no half of the last one
        counter = WordCounter(stop_words="english", stemmer="english")
        self.counter_ = counter if self.counter is None else clone(self.counter)
        X = self._count(texts)
        occurrences = read_labels([None] * X.shape[0] if labels is None else labels)
        if occurrences.n_documents != X.shape[0]:
            raise ValueError(f"Got {X.shape[0]} texts and {occurrences.n_documents} labels.")
        self._set_classes(self._choose_classes(occurrences))
        membership = self._classes.membership(occurrences)
        unknown = self._weigh_keywords(X)
        how = self._fit_parts(X, membership)
        best = np.concatenate([log_joint.argmax(axis=1) for _, log_joint in self._blocks(X)])
        labelled = np.diff(membership.indptr) > 0
        best[labelled] = np.asarray(membership.argmax(axis=1)).ravel()[labelled]
        self.transduction_ = self.classes_[best]
        self._write_report(X, labelled, unknown, how)
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
        words = X.indices
        said = self._temper(X)[0] * X.data * self.model_.word_evidence(column, words)
        n = len(words)
        each = sparse.csr_matrix((X.data, np.arange(n), np.arange(n + 1)), shape=(n, n))
        matched = keyword_scores(each, self._keyword_weights[words])
        vocabulary = list(self.counter_.vocabulary_)
        return Explanation.of(
            path=str(self.classes_[column]),
            probability=float(softmax(log_joint, axis=1)[0, column]),
            contributions=dict(
                zip([vocabulary[w] for w in words], (said + matched[:, column]) / self.temperature_)
            ),
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

    def _weigh_keywords(self, X: sparse.csr_matrix) -> list[str]:
        if self._plain:  # a tree made from labels: their names are no keywords
            self._keyword_weights = sparse.csr_matrix((self._n_words, len(self.nodes_)))
            return []
        weights, unknown = keyword_weights(self.taxonomy_, self.counter_, X)
        self._keyword_weights = weights[:, self.nodes_]
        return unknown

    @property
    def _n_words(self) -> int:
        return len(self.counter_.vocabulary_)

    @property
    def _sample_size(self) -> int:
        return min(_SAMPLE, max(200, 4 * _BLOCK_SCORES // len(self.nodes_)))

    def _fit_rounds(self, X: sparse.csr_matrix, membership: sparse.csr_matrix, pool: bool) -> None:
        """Alternate between sorting the unlabelled documents and fitting the model to all.

        Without the `pool` of unlabelled documents the model is that of the labels alone.
        """
        self.temperature_ = 1.0
        labelled = np.diff(membership.indptr) > 0
        used = np.bincount(X.indices, minlength=X.shape[1]) > 0
        if not labelled.any() and not self._keyword_weights[used].nnz:
            raise ValueError(
                "There is nothing to learn from: no document has a label, and no keyword of the "
                "tree is in any document. Give some labels, or keywords that the texts use. (Words "
                "are what stands between spaces and marks: for a script without spaces, give a "
                "counter with another token_pattern.)"
            )
        X = _shortened(X)
        labels, n_labelled = statistics(X, membership)
        mu = min(self.mu, X.sum() / len(self.nodes_))  # a small corpus is not to drown in it
        has_evidence = (n_labelled > 0) | (self._keyword_weights[used].getnnz(axis=0) > 0)

        def sort(model: NaiveBayes | None, _: Sharing) -> tuple[Any, float]:
            """Expect words and documents of each node: by keywords, until there is a model."""
            sorted_, n_sorted = sparse.csr_matrix(labels.shape), np.zeros(len(n_labelled))
            for start, scores in self._blocks(X, first=model is None) if pool else ():
                rows = slice(start, start + len(scores))
                p = softmax(scores, axis=1)
                p[p < _NEGLIGIBLE] = 0.0
                p[labelled[rows]] = 0.0
                p[:, ~has_evidence] = 0.0
                if model is None:
                    p[~scores.any(axis=1)] = 0.0  # a document without a keyword: no guess yet
                counts, n_documents = statistics(X[rows], sparse.csr_matrix(p))
                sorted_, n_sorted = sorted_ + counts, n_sorted + n_documents
            return (sorted_, n_sorted), 0.0

        def learn(expected: Any, _: NaiveBayes | None) -> NaiveBayes:
            sorted_, n_sorted = expected
            model = NaiveBayes(smoothing="dirichlet", mu=mu, class_prior="uniform")
            counts = _blend(labels, sorted_, self.label_weight)
            self.model_ = model._set_statistics(self._classes, counts, n_labelled + n_sorted)
            return self.model_

        run_em(sort, learn, None, max_iter=self.rounds if pool else 1)

    def _fit_parts(self, X: sparse.csr_matrix, membership: sparse.csr_matrix) -> str:
        """Fit, deciding whether unlabelled documents help, and how far to believe the result.

        With enough labels a fifth of them is held out first, and its likelihood decides. With few,
        unlabelled documents are used, and the model is to be as sure, on average, as it agrees
        with the keywords it started from: both can be wrong together, so that is too sure still,
        but far less than without.
        """
        labelled = np.flatnonzero(np.diff(membership.indptr))
        if len(labelled) >= _ENOUGH_LABELS:
            n_held_out = min(len(labelled) // 5, self._sample_size)
            held_out = np.random.default_rng(0).permutation(labelled)[:n_held_out]
            kept = np.ones(X.shape[0])
            kept[held_out] = 0.0
            some = sparse.csr_matrix(sparse.diags_array(kept) @ membership)
            truth = membership[held_out].toarray()
            losses, temperatures = {}, {}
            for pool in (True, False):
                self._fit_rounds(X, some, pool)
                log_joint = self._log_joint(X[held_out])
                temperatures[pool] = _best_temperature(partial(_mean_loss, truth, log_joint))
                losses[pool] = _losses(truth, log_joint, temperatures[pool])
            # Few labels tell little: without a clear sign against them, unlabelled documents stay.
            gain = losses[True] - losses[False]
            pool = bool(gain.mean() <= gain.std() / np.sqrt(len(gain)))
            temperature = temperatures[pool]
            self._fit_rounds(X, membership, pool)
            self.temperature_ = temperature
            how = f"{len(held_out):,} labels held out"
            if len(labelled) < X.shape[0]:
                used = "helped" if pool else "did not help, and are left out"
                how += f"; unlabelled documents {used}"
            return how
        self._fit_rounds(X, membership, True)
        some = X[:: max(1, X.shape[0] // self._sample_size)]
        scores, log_joint = keyword_scores(some, self._keyword_weights), self._log_joint(some)
        matched = scores.any(axis=1)
        if not matched.any():
            return "the model alone: there are too few labels and keywords to check them by"
        agreed = (scores.argmax(axis=1) == log_joint.argmax(axis=1))[matched].mean()

        def excess(t: float) -> float:
            return float(softmax(log_joint / t, axis=1).max(axis=1).mean() - agreed) ** 2

        self.temperature_ = _best_temperature(excess)
        return f"how often the model agrees with its keywords ({agreed:.0%})"

    def _blocks(
        self, X: sparse.csr_matrix, first: bool = False
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Score documents a block at a time; at `first`, when there is no model, by keywords."""
        step = max(1, _BLOCK_SCORES // len(self.nodes_))
        for start in range(0, X.shape[0], step):
            block = X[start : start + step]
            if first:
                yield start, keyword_scores(block, self._keyword_weights)
            else:
                yield start, self._log_joint(block)

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        scores = self._temper(X) * self.model_._log_joint(X)
        empty = self.model_.document_counts_ == 0
        if empty.any() and not empty.all():
            # A node that nothing is known of says every word as often as the corpus does, and would
            # collect whatever fits nowhere. It is neither better nor worse than the others.
            scores[:, empty] = scores[:, ~empty].mean(axis=1, keepdims=True)
        return (scores + keyword_scores(X, self._keyword_weights)) / self.temperature_

    def _temper(self, X: sparse.csr_matrix) -> np.ndarray:
        length = np.asarray(X.sum(axis=1)).reshape(-1, 1)
        return np.minimum(1.0, self.word_limit / np.maximum(length, 1))

    def _counts(self, X: Any, reset: bool = False) -> sparse.csr_matrix:
        check_is_fitted(self, "model_")
        return self.counter_.transform(X)

    def _write_report(
        self, X: sparse.csr_matrix, labelled: np.ndarray, unknown: list[str], how: str
    ) -> None:
        is_keyword = np.diff(self._keyword_weights.indptr) > 0
        n_matched = np.count_nonzero(X @ is_keyword.astype(float))
        self.report_ = [
            f"Counted {_n(X.shape[1], 'different word')} in {_n(X.shape[0], 'document')}.",
            f"With a label: {int(labelled.sum()):,}. With a keyword: {n_matched:,}.",
            f"Sorted them over {_n(len(self.nodes_), 'node')} in {_n(self.rounds, 'round')}.",
            f"Probabilities are set by {how}.",
        ]
        if unknown:
            shown = ", ".join(unknown[:10]) + (", ..." if len(unknown) > 10 else "")
            self.report_.append(f"Keywords that are in no document ({len(unknown):,}): {shown}")

    def _validate(self) -> None:
        if self.counter is not None and not isinstance(self.counter, WordCounter):
            raise ValueError(f"counter={self.counter!r}: expected a WordCounter.")
        for name in ("label_weight", "word_limit", "mu"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 < float(value) < np.inf:
                raise ValueError(f"{name}={value!r}: expected a number above 0.")
        if not isinstance(self.rounds, Integral) or self.rounds < 1:
            raise ValueError(f"rounds={self.rounds!r}: expected an integer of at least 1.")

    def _restore(self) -> None:
        """Check what a file held."""
        self._check_classes()
        n_words = len(self.counter_.vocabulary_)
        if self._keyword_weights.shape != (n_words, len(self.nodes_)):
            raise ValueError("keyword weights do not fit the words and classes")
        if self.model_.word_counts_.shape != (len(self.nodes_), n_words):
            raise ValueError("the model does not fit the words and classes")
        if not 0 < self.temperature_ < np.inf:
            raise ValueError("the temperature is no positive number")
        self._validate()


def _shortened(X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Have no document count for more words than five of the usual length."""
    length = np.asarray(X.sum(axis=1), dtype=float).ravel()
    limit = 5 * np.median(length[length > 0]) if length.any() else 1.0
    return sparse.csr_matrix(sparse.diags_array(limit / np.maximum(length, limit)) @ X)


def _n(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _blend(
    labels: sparse.csr_matrix, sorted_: sparse.csr_matrix, weight: float
) -> sparse.csr_matrix:
    """Add word counts, a labelled word weighing more, but no node having more words for that.

    Longer nodes are punished for each word they lack: were labels to make nodes longer, the
    first label of a node would drive documents away from it.
    """
    both = weight * labels + sorted_
    words = np.asarray((labels + sorted_).sum(axis=1)).ravel()
    weighed = np.asarray(both.sum(axis=1)).ravel()
    scale = np.divide(words, weighed, out=np.zeros_like(words), where=weighed > 0)
    return sparse.csr_matrix(sparse.diags_array(scale) @ both)


def _losses(truth: np.ndarray, log_joint: np.ndarray, temperature: float) -> np.ndarray:
    """Return -log P(the true node) of each document."""
    return -(truth * log_softmax(log_joint / temperature, axis=1)).sum(axis=1)


def _mean_loss(truth: np.ndarray, log_joint: np.ndarray, temperature: float) -> float:
    return float(_losses(truth, log_joint, temperature).mean())


def _best_temperature(loss: Callable[[float], float]) -> float:
    """Find the temperature of the least loss, from as sure as the model is to hardly at all."""
    found = minimize_scalar(lambda log_t: loss(np.exp(log_t)), bounds=(0, 5), method="bounded")
    return float(np.exp(found.x))
