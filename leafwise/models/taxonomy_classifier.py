"""Texts in, nodes out, whatever labels there are: none, some, or many."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import has_fit_parameter

from leafwise.explain import Explanation
from leafwise.keywords import read_keywords
from leafwise.labels import Classes, Occurrences, read_labels
from leafwise.models import _query
from leafwise.models._base import BLOCK_SCORES, NodeClassifier, descend, top_of
from leafwise.models._belief import Belief, assigned
from leafwise.models._choosing import ENOUGH_LABELS, n_of
from leafwise.models._counts import best_columns, keys_of, order_by_content
from leafwise.models._output import Framed
from leafwise.models._staged import Counted
from leafwise.models._stages import clearly_better
from leafwise.models._tfidf import LogTfIdf
from leafwise.models._updated import Pool, UpdatedClassifier
from leafwise.models.dirichlet import HierarchicalDirichlet
from leafwise.models.harmonic import HarmonicClassifier
from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter
from leafwise.threads import in_threads, limited, n_threads

_SURE = 0.5  # how sure stop="confident" is to be, where min_confidence does not say
_SAMPLE = 2000  # labelled documents that decide how words are counted
_FEWEST, _CACHED = 1024, 1 << 18  # documents, and scores, that a thread takes at a time


class TaxonomyClassifier(Framed, UpdatedClassifier):
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
        How words are counted. None takes English stems, and counts the parts of words written
        together ("FastAPI") besides the whole. It leaves out English stop words, unless labels
        that are held out speak for them.
    nodes : {"auto", "all", "leaves"} or list of labels
        The nodes that can be predicted. "auto": the leaves, and inner nodes that have labels.
    model : HierarchicalDirichlet or None
        Settings of the model; its taxonomy, nodes and vocabulary are those of this classifier.
        None is ``HierarchicalDirichlet(words="roots")``.
    keywords : bool
        Whether the tree's keywords are evidence.
    spread : {"auto"}, bool or HarmonicClassifier
        Whether the model's sorting is spread over neighbours, and linear scores are learned. "auto"
        has held-out labels decide, or, where these are too few, how far neighbours agree. A tree
        of very many nodes has the model alone. A `HarmonicClassifier` has other settings of
        neighbours and of spreading, and is used whatever held-out labels say.
    linear : bool or classifier
        Whether linear scores sort texts in the end. False has the model learn anew from what was
        found. A linear classifier of scikit-learn (with `coef_` and `sample_weight`) takes the
        place of support vector machines; a saved model does not keep it.
    encoder : callable, object with a method `encode`, or None
        Turns a list of texts into an array of vectors, as those of sentence-transformers do. Its
        graph of neighbours is averaged with that of words. `fit` alone needs it, and a saved model
        does not keep it.
    several : {"auto"} or bool
        Whether a document can have several nodes. "auto": where labels in `fit` do.
    min_confidence : float or None
        `predict` gives None where the best node's probability is less; of several nodes, those
        are left out whose probability is less.
    stop : {"confident"} or None
        "confident" goes down the tree only as far as is sure: `predict` gives the deepest node
        whose branch has a probability of `min_confidence`, by default .5, inner ones too; None
        where no branch has. With several nodes for each text it changes nothing.

    Attributes
    ----------
    on_progress : callable or None
        Set it before `fit`, which calls it with "Learning", the steps that are done, and all steps.
        Neither a copy nor a file keeps it.
    transduction_ : array, or list of tuples
        The node of each document that `fit` was given: its label, or the best guess.
    report_ : list of str
        What `fit` did, in words.
    several_ : bool
    label_counts_ : array of int
        Labels of each class that were learned from.
    temperature_, new_temperature_ : float
        What scores of texts that `fit` was given, with or without a label, are divided by, to be
        believed, and those of others: their scores are lower, and right as often.
    doubt_, leaning_ : float
        How much of the result is shared by scores that differ less, and how much they still do: 0
        shares it among all nodes alike.
    learned_keys_ : array of int
        Numbers by which texts that `fit` was given are known again.
    thresholds_, offset_ : array or None, and float
        With several nodes, the score from which each is assigned, and the log odds there.
    at_least_one_ : bool
        With several nodes, whether a text below all thresholds has the node that comes closest.
        Labels that are held out decide: where the closest is too often wrong, it has none.
    counter_, model_ : the parts, fitted
    coef_, intercept_, idf_, least_ : arrays or None, and float
        Linear scores of words: words × classes, of each class, and of each word, of which `least_`
        is what a word weighs that all documents have. None where the model alone sorts texts.
    """

    _learned = (
        *NodeClassifier._learned,
        "counter_",
        "model_",
        "model_share_",
        "coef_",
        "intercept_",
        "idf_",
        "least_",
        *(f"{name}_" for name in Belief._fields),
        "learned_keys_",
        "several_",
        "label_counts_",
        "report_",
    )
    _essential = "model_"  # without it, a fit failed half-way
    _unsaved = ("encoder", "linear")  # parameters that may be code, which no file holds

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        counter: WordCounter | None = None,
        nodes: Any = "auto",
        model: HierarchicalDirichlet | None = None,
        keywords: bool = True,
        spread: Any = "auto",
        linear: Any = True,
        encoder: Any = None,
        several: Any = "auto",
        min_confidence: float | None = None,
        stop: str | None = None,
    ):
        self.taxonomy = taxonomy
        self.counter = counter
        self.nodes = nodes
        self.model = model
        self.keywords = keywords
        self.spread = spread
        self.linear = linear
        self.encoder = encoder
        self.several = several
        self.min_confidence = min_confidence
        self.stop = stop

    # ---- learning ----

    def fit(self, texts: Iterable[str], labels: Any = None) -> Self:
        """Learn from texts, of which all, some or none have a label (None where unknown).

        `texts` is read once, and `labels` only after that: both can come from one stream. Labels
        are one for each text, or a list of labels for each.
        """
        self._validate()
        if self.taxonomy is not None and not isinstance(self.taxonomy, Taxonomy):
            Classes.of_taxonomy(self.taxonomy)  # which knows what to say
        if isinstance(texts, str | bytes) or hasattr(texts, "columns"):
            WordCounter().fit(texts)  # which knows what to say
        _check_texts(texts)
        texts = list(texts)
        if not texts:
            raise ValueError("There are no texts: nothing to learn from.")
        counter = _usual_counter() if self.counter is None else clone(self.counter)
        X = self._count(texts, counter)
        occurrences = read_labels([None] * X.shape[0] if labels is None else labels)
        if occurrences.n_documents != X.shape[0]:
            raise ValueError(f"Got {X.shape[0]} texts and {occurrences.n_documents} labels.")
        classes = self._choose_classes(occurrences)
        membership = classes.membership(occurrences)
        if not (self.keywords or membership.nnz):
            raise ValueError(
                "No document has a label, and keywords=False: there is nothing to learn from."
            )
        n_labels = np.diff(membership.indptr)
        several = bool((n_labels > 1).any()) if self.several == "auto" else self.several
        if several and not (n_labels > 0).any():
            raise ValueError("several=True: expected some labels, and no document has one.")
        vectors = self._encode(texts, X.shape[0])
        # What was given is as it should be. Until here the last fit is as it was; where this one
        # fails from here on, no half of that is left.
        for name in ("model_", "_pool", "transduction_", "report_"):
            self.__dict__.pop(name, None)
        self._failed = True
        self.counter_, self.several_ = counter, several
        self._set_classes(classes)
        if self.counter is None and (words := self._count_better(texts, X, membership)) is not None:
            X = words
        keywords = None  # of a tree made from labels, names are no keywords
        if self.keywords and not self._plain:
            keywords = read_keywords(self.taxonomy_, self.counter_, X)
        order = order_by_content(X, membership)  # so that the order of documents changes nothing
        counted = Counted(X, membership, keywords, vectors).take(order)
        how = self._fit_counted(counted)
        self.label_counts_ = np.bincount(membership.indices, minlength=len(self.nodes_))
        self._pool = Pool(X, n_labels > 0, keys_of(X))
        self._transduce(X, membership)
        self._write_report(counted, how)
        del self._failed
        return self

    # ---- answers ----

    def predict(self, X: Any) -> Any:
        """Return the node of each text; with several, a list of tuples.

        None, or no node, where it is not sure enough: see `min_confidence` and `stop`.
        """
        self._validate()
        X_counts = self._counts(X)
        if not self.several_ and self.stop is None and self.min_confidence is None:
            return self._framed(X, self.classes_[self._best_of(X_counts)], name="label")
        found = self._decided_of(X_counts)
        one_each = None if self.several_ else np.array([*found, None], dtype=object)[:-1]
        return self._framed(X, found if one_each is None else one_each, name="label")

    def predict_log_proba(self, X: Any) -> Any:
        """Return log P(node | text); a column per node in `classes_`."""
        log_p = self._log_joint(self._counts(X))
        return self._framed(X, log_p, columns=self.classes_)

    def predict_proba(self, X: Any) -> Any:
        """Return P(node | text): that the text belongs at this very node.

        With one node for each text, a row sums to 1; with several, each node has its own odds.
        """
        return self._framed(X, np.exp(self._log_joint(self._counts(X))), columns=self.classes_)

    def predict_branch_proba(self, X: Any) -> Any:
        """Return the probability of each node of `taxonomy_` with all that is below it.

        A parent's is the sum over its branch, and the root's is 1. With several nodes for each
        text, it is that at least one is in the branch, as if each came independently.
        """
        branches = self._branches(np.exp(self._log_joint(self._counts(X))))
        return self._framed(X, branches, columns=self.taxonomy_.paths)

    def top_k(self, X: Any, k: int = 3) -> tuple[np.ndarray, np.ndarray]:
        """Return the k most probable nodes of each text and their probabilities, best first."""
        return top_of(np.exp(self._log_joint(self._counts(X))), self.classes_, k)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of texts put on one of their nodes; unlabelled ones do not count.

        A label that was not learned, or a node that is no class, counts as wrong. With several
        nodes for each text, it is the micro F1 of `predict`: of all decisions together.
        `min_confidence` and `stop` change nothing.
        """
        if not self.several_:
            return super().score(X, y, sample_weight)
        if sample_weight is not None:
            raise ValueError("sample_weight: expected None, with several nodes for each text.")
        classes = self._classes
        truth = classes.membership(read_labels(y, classes), unseen=True).toarray() > 0
        blocks = (self._assigned(log_p) for _, log_p in self._blocks(self._counts(X)))
        found = np.concatenate([np.empty((0, len(classes.nodes)), bool), *blocks])
        check_consistent_length(found, truth)
        found = np.pad(found, ((0, 0), (0, truth.shape[1] - found.shape[1])))
        known = truth.any(axis=1)
        if not known.any():
            raise ValueError("No document has a label, so there is nothing to score.")
        found, truth = found[known], truth[known]
        return float(2 * (found & truth).sum() / (found.sum() + truth.sum()))

    def query(
        self, n: int = 10, strategy: str = "mix", texts: Iterable[str] | None = None
    ) -> np.ndarray:
        """Say which documents to label next: their numbers, the most wanted first.

        Parameters
        ----------
        n : how many; fewer where fewer have no label
        strategy : {"mix", "uncertainty", "diversity", "coverage", "random"}
            Documents that may well be wrong; that stand for many others, and are unlike each other
            and those labelled; that may belong to nodes of which nothing is known; all three; or
            any.
        texts : the documents to choose from
            By default those given to `fit` that have no label. A model from a file has none.
        """
        self._check_fitted()
        if texts is not None:
            X = self._counts(texts)
            labelled = np.zeros(X.shape[0], bool)
        elif hasattr(self, "_pool"):
            X, labelled = self._pool.X, self._pool.labelled
        else:
            raise ValueError(
                "This model comes from a file, which keeps no documents: give those to choose from "
                "as texts."
            )
        if (linear := self._linear) is not None:
            vectors = linear.weigh(X)
        else:  # no documents have no weights
            vectors = LogTfIdf().fit_transform(X) if X.shape[0] else X
        proba = np.concatenate(
            [np.empty((0, len(self.nodes_)))] + [np.exp(log_p) for _, log_p in self._blocks(X)]
        )
        sorted_there = self.model_.document_counts_ > 0  # by its keywords, say
        evidence = np.maximum(self.label_counts_, sorted_there)
        return _query.choose(n, strategy, proba, vectors, labelled, evidence)

    def explain(self, text: str, node: str | None = None) -> Explanation:
        """Say which words put a text on a node, which spoke against it, and for which level.

        `node` is any label among the classes, by default the likeliest of them, whatever `stop`
        and `min_confidence` make of it.
        """
        X = self._counts([text])
        text = text.decode() if isinstance(text, bytes) else text
        log_p = self._log_joint(X)
        column = int(log_p.argmax())
        if node is not None:
            column = int(self._classes.columns(np.array([node]))[0])
        forms, column_of = self.counter_.words_of(text), self.counter_.vocabulary_
        word_of: Any = {column_of[word]: word for word in forms if word in column_of}
        if not word_of.keys() >= set(X.indices.tolist()):  # n-grams
            word_of = list(column_of)
        words = [word_of[w] for w in X.indices.tolist()]
        levels, of_word = self.model_.said_at_levels(column, X.indices)
        return Explanation.of(
            path=str(self.classes_[column]),
            probability=float(np.exp(log_p[0, column])),
            contributions=dict(zip(words, self._said_by_words(X, column) / self.temperature_)),
            forms=forms,
            levels=(levels, dict(zip(words, of_word.tolist()))),
        )

    def node_words(self, path: Any, n: int = 10) -> list[tuple[str, float]]:
        """List what a node says that its parent does not: word stems, weightiest first.

        See `NaiveBayes.node_words`; the words are those that the counter counts.
        """
        self._check_fitted()
        return self.model_.node_words(path, n, list(self.counter_.vocabulary_))

    def __getstate__(self) -> dict[str, Any]:
        # What is called on the way may hold anything, such as the window that shows it.
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "on_progress"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.classifier_tags.multi_label = True
        return tags

    # ---- the parts of learning ----

    def _choose_classes(self, labels: Occurrences) -> Classes:
        if self.taxonomy is None:
            return Classes.of_labels(labels)
        if not (isinstance(self.nodes, str) and self.nodes == "auto"):
            return Classes.of_taxonomy(self.taxonomy, self.nodes)
        every = Classes.of_taxonomy(self.taxonomy)
        used = every.nodes[np.unique(every.columns(labels.labels))]
        return Classes.of_nodes(self.taxonomy, np.union1d(self.taxonomy.leaves, used))

    def _count(self, texts: list[str], counter: WordCounter) -> sparse.csr_matrix:
        """Count words, the tree's keywords too: a text may use one that no text had so far."""
        if self.taxonomy is None:
            return counter.fit_transform(texts)
        keywords = " ".join(word for words in self.taxonomy.keywords for word in words)
        return counter.fit_transform(chain(texts, [keywords]))[:-1]

    def _count_better(
        self, texts: list[str], X: sparse.csr_matrix, membership: sparse.csr_matrix
    ) -> sparse.csr_matrix | None:
        """Count stop words too, where documents held out are clearly sorted better so."""
        labelled = np.flatnonzero(np.diff(membership.indptr))
        if len(labelled) < ENOUGH_LABELS:
            return None
        if len(labelled) > _SAMPLE:
            labelled = np.random.default_rng(0).permutation(labelled)[:_SAMPLE]
        labelled = labelled[order_by_content(X[labelled], membership[labelled])]
        every = clone(self.counter_).set_params(stop_words=None)
        words = every.fit_transform([texts[i] for i in labelled])
        if not clearly_better(X[labelled], words, membership[labelled]):
            return None
        self.counter_ = every
        return self._count(texts, every)

    def _encode(self, texts: list[str], n: int) -> np.ndarray | None:
        if self.encoder is None:
            return None
        encode = getattr(self.encoder, "encode", self.encoder)
        vectors = np.asarray(encode(texts), dtype=np.float64)
        good = vectors.ndim == 2 and len(vectors) == n and vectors.shape[1] > 0
        if not (good and np.isfinite(vectors).all()):
            raise ValueError(
                f"encoder gave an array of shape {vectors.shape} for {n} texts: expected a row of "
                "finite numbers for each."
            )
        return vectors

    def _transduce(self, X: sparse.csr_matrix, membership: sparse.csr_matrix) -> None:
        given = best_columns(membership)
        labelled = np.flatnonzero(given >= 0)
        if self.several_:
            self.transduction_ = self._decided_of(X)
            for i in labelled:
                self.transduction_[i] = tuple(self.classes_[membership[i].indices].tolist())
            return
        best = self._best_of(X)
        best[labelled] = given[labelled]
        self.transduction_ = self.classes_[best]

    # ---- the parts of answering ----

    def _best_of(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return the best column of each document whose words are counted."""
        n, n_classes = n_threads(), len(self.nodes_)
        size = max(_FEWEST, min(-(-X.shape[0] // n), _CACHED // n_classes))
        edges = range(0, X.shape[0], max(1, min(size, BLOCK_SCORES // n // n_classes)))
        best = np.empty(X.shape[0], np.int64)

        def work(part: slice) -> None:
            with limited(1):  # parts are in threads: nothing within them is
                best[part] = self._scores(X[part], shifted=True).argmax(axis=1)

        in_threads(work, [slice(*ends) for ends in pairwise([*edges, X.shape[0]])])
        return best

    def _best(self, X: Any) -> np.ndarray:
        return self._best_of(self._counts(X))

    def _decided_of(self, X: sparse.csr_matrix) -> list:
        """Return what `predict` says of documents whose words are counted, as a list."""
        return [one for _, log_p in self._blocks(X) for one in self._decided(log_p)]

    def _decided_with_proba(self, texts: Any) -> tuple[list, np.ndarray]:
        """Return what `predict` and `predict_proba` say, counting words once."""
        self._validate()
        log_p = self._log_joint(self._counts(texts))
        return self._decided(log_p), np.exp(log_p)

    def _decided(self, log_p: np.ndarray) -> list:
        """Return what `predict` makes of log P(node | text), documents × nodes."""
        if not self.several_:
            return self._sure_of(np.exp(log_p))
        found = sparse.csr_matrix(self._assigned(log_p))
        names = self.classes_[found.indices].tolist()
        return [tuple(names[a:b]) for a, b in pairwise(found.indptr.tolist())]

    def _sure_of(self, proba: np.ndarray) -> list:
        """Return the node of each document that is sure enough, or None."""
        least = self.min_confidence
        if self.stop is None:
            least = 0.0 if least is None else least
            best = proba.argmax(axis=1)
            names = self.classes_[best].tolist()
            return [n if p >= least else None for n, p in zip(names, proba.max(axis=1))]
        least = _SURE if least is None else least
        branches = self._branches(proba)
        own = np.zeros(branches.shape)
        own[:, self.nodes_] = proba
        nodes = descend(self.taxonomy_, own, branches, least)
        named = dict(zip(self.nodes_.tolist(), self.classes_.tolist()))
        return [named.get(i, self.taxonomy_.paths[i]) if i else None for i in nodes.tolist()]

    def _branches(self, proba: np.ndarray) -> np.ndarray:
        at_node = np.zeros((len(proba), len(self.taxonomy_)))
        if self.several_:
            at_node[:, self.nodes_] = np.log1p(-np.minimum(proba, 1 - 1e-12))
            return -np.expm1(self.taxonomy_.subtree_sum(at_node))
        at_node[:, self.nodes_] = proba
        return np.minimum(self.taxonomy_.subtree_sum(at_node), 1.0)

    def _assigned(self, log_p: np.ndarray) -> np.ndarray:
        """Say which classes each document is of, where it can be of several."""
        # Thresholds are where the log odds are the offset.
        odds = log_p - np.log1p(-np.minimum(np.exp(log_p), 1 - 1e-12))
        sure = True if self.min_confidence is None else np.exp(log_p) >= self.min_confidence
        return assigned(odds - self.offset_, self.at_least_one_) & sure

    def _counts(self, X: Any, reset: bool = False) -> sparse.csr_matrix:
        self._check_fitted()
        _check_texts(X)
        return self.counter_.transform(X)

    def _write_report(self, counted: Counted, how: list[str]) -> None:
        X, keywords = counted.X, counted.keywords
        n_matched = 0
        if keywords is not None:
            n_matched = int(np.count_nonzero(np.diff(keywords.matches(X).indptr)))
        model = self.model_
        self.report_ = [
            f"Counted {n_of(X.shape[1], 'different word')} in {n_of(X.shape[0], 'document')}.",
            f"With a label: {len(counted.labelled):,}. With a keyword: {n_matched:,}.",
            f"Sorted them over {n_of(len(self.nodes_), 'node')} in {n_of(model.n_iter_, 'round')}; "
            "nodes are bound to their parents by "
            f"{n_of(round(np.mean(model.sigma_)), 'word')} (σ).",
            *how,
        ]
        if self.counter is None and self.counter_.stop_words is None:
            self.report_.insert(1, "Stop words help: so say labels held out. They are counted.")
        if counted.vectors is not None and self.spread is not False:
            self.report_.append("Neighbours are those by words and by the encoder, on average.")
        if unknown := model.unknown_keywords_:
            shown = ", ".join(unknown[:10]) + (", ..." if len(unknown) > 10 else "")
            self.report_.append(
                f"Keywords that find no document, since none has them or they are stop words "
                f"({len(unknown):,}): {shown}"
            )

    def _validate(self) -> None:
        if self.counter is not None and not isinstance(self.counter, WordCounter):
            raise ValueError(f"counter={self.counter!r}: expected a WordCounter.")
        for name, known in (
            ("keywords", (True, False)),
            ("spread", ("auto", True, False)),
            ("several", ("auto", True, False)),
            ("stop", (None, "confident")),
        ):
            value = getattr(self, name)
            if name == "spread" and isinstance(value, HarmonicClassifier):
                continue
            if not any(value is one or (isinstance(value, str) and value == one) for one in known):
                raise ValueError(f"{name}={value!r}: expected one of {known}.")
        is_object = hasattr(self.linear, "fit") and not isinstance(self.linear, type)
        replaced = is_object and is_classifier(self.linear)
        if not (isinstance(self.linear, bool) or replaced):
            raise ValueError(
                f"linear={self.linear!r}: expected True, False or a classifier, such as "
                "LogisticRegression()."
            )
        if replaced and not has_fit_parameter(self.linear, "sample_weight"):
            raise ValueError(
                f"linear={self.linear!r}: expected a classifier whose fit takes sample_weight."
            )
        if replaced and hasattr(self.linear, "kernel"):  # whose coef_ are of pairs of classes
            raise ValueError(
                f"linear={self.linear!r}: expected a classifier with coef_ and intercept_ of each "
                "class, such as LinearSVC()."
            )
        least = self.min_confidence
        if least is not None and not (isinstance(least, Real) and 0 <= float(least) <= 1):
            raise ValueError(f"min_confidence={least!r}: expected a number from 0 to 1, or None.")
        encode = getattr(self.encoder, "encode", self.encoder)
        if self.encoder is not None and (isinstance(self.encoder, str) or not callable(encode)):
            raise ValueError(
                f"encoder={self.encoder!r}: expected a function of a list of texts, or an object "
                "with a method `encode`."
            )
        if self.model is not None and not isinstance(self.model, HierarchicalDirichlet):
            raise ValueError(f"model={self.model!r}: expected a HierarchicalDirichlet.")
        if self.model is not None and self.model.reject is not None:
            raise ValueError(
                f"model: reject={self.model.reject!r} is for HierarchicalDirichlet alone. Here, "
                "min_confidence says how sure predict is to be."
            )
        if self.model is not None:
            self.model._validate()

    def _restore(self) -> None:
        """Check what a file held."""
        self._check_classes()
        n_words, n_classes = len(self.counter_.vocabulary_), len(self.nodes_)
        if self.model_.word_counts_.shape != (n_classes, n_words):
            raise ValueError("the model does not fit the words and classes")
        if (linear := self._linear) is not None and (
            linear.coef.shape != (n_words, n_classes)
            or linear.intercept.shape != (n_classes,)
            or linear.idf.shape != (n_words,)
        ):
            raise ValueError("the linear scores do not fit the words and classes")
        if not (0 < self.temperature_ < np.inf and 0 < self.new_temperature_ < np.inf):
            raise ValueError("the temperature is no positive number")
        if not (0 <= self.doubt_ < 1 and 0 <= self.leaning_ <= 1):
            raise ValueError("the doubt is no number from 0 to 1")
        keys = self.learned_keys_
        if keys.ndim != 1 or not len(keys) or (keys[1:] <= keys[:-1]).any():
            raise ValueError("the numbers of texts that were learned from are not in order")
        if self.several_ is not (self.thresholds_ is not None) or not np.isfinite(self.offset_):
            raise ValueError("the thresholds are not those of several nodes")
        if self.thresholds_ is not None and self.thresholds_.shape != (n_classes,):
            raise ValueError("the thresholds do not fit the classes")
        if np.shape(self.label_counts_) != (n_classes,):
            raise ValueError("the numbers of labels do not fit the classes")
        self._validate()


def _check_texts(texts: Any) -> None:
    try:
        iter(texts)
    except TypeError:
        raise ValueError(f"Expected a list of texts, got {texts!r}.") from None


def counter_of(language: str) -> WordCounter | None:
    """Return how to count words of a language; "none" has no stems.

    None for English, of which `TaxonomyClassifier` knows more: labels decide about its stop words.
    """
    if language == "english":
        return None
    return WordCounter(stemmer=None if language == "none" else language, compounds=True)


def _usual_counter() -> WordCounter:
    return WordCounter(stop_words="english", stemmer="english", compounds=True)
