"""What the models have in common that learn from word counts per node alone.

Fitting is counting, and then deriving parameters from the counts: `fit`, `partial_fit`, blocks
of a large corpus and a loaded file are drivers over the same two steps.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from numbers import Real
from typing import Any, Self

import numba
import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from leafwise.explain import Explanation
from leafwise.labels import Classes
from leafwise.models._base import BLOCK_SCORES, NodeClassifier
from leafwise.models._blocks import Blocks, Documents
from leafwise.models._sums import scale_rows, table_product, words_by_class

_TABLE = 1 << 27  # words × classes up to which log P(w | c) is kept whole: 1 GiB
_BLOCK = 1 << 22  # else so much of it at a time
_TINY = 1e-300  # for the logarithm of nothing
_IN_CACHE = 1 << 20  # scores by a table at a time: more would come from memory again
DENSE_WEIGHTS = 1 << 25  # up to here a dense table of weights is faster, and takes 256 MiB


class CountClassifier(NodeClassifier):
    """A classifier by log P(c) + Σ_w n_dw log P(w | c), learned from counts per class.

    Attributes
    ----------
    word_counts_ : CSR matrix, nodes × words
    document_counts_ : array, documents per node
        All that is learned is in counts, and they add up over documents.
    """

    _learned = (*NodeClassifier._learned, "word_counts_", "document_counts_", "evidence_counts_")
    class_prior: Any
    word_counts_: sparse.csr_matrix
    document_counts_: np.ndarray
    _weights: np.ndarray | None = None  # words × live classes, where scores are their product

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from word counts and labels."""
        self._learn(X, y, None, sample_weight, reset=True)
        if not self.document_counts_.any():
            raise ValueError("No document has a label, so there is nothing to learn.")
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more documents.

        Without a taxonomy, `classes` lists all labels there will be, at the first call.
        """
        return self._learn(X, y, classes, sample_weight, reset=not hasattr(self, "word_counts_"))

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, reset: bool) -> Self:
        self._validate()
        X = self._counts(X, reset=reset)
        labels, known = self._labels(y, classes, reset)
        check_consistent_length(X, range(labels.n_documents))
        membership = known.membership(labels)
        if sample_weight is not None:
            membership = scale_rows(membership, document_weights(sample_weight, X.shape[0]))
        found = self._statistics(X, membership)
        if not reset:
            found = tuple(old + new for old, new in zip(self._counted(), found))
        return self._set_statistics(known, *found)

    def _fit_blocks(self, blocks: Blocks, classes: Classes) -> Self:
        """Learn from blocks of `Documents`, wherever they are."""
        self._validate()
        self._set_statistics(classes, *blocks.total(_statistics_of, clone(self)))
        if not self.document_counts_.any():
            raise ValueError("No document has a label, so there is nothing to learn.")
        return self

    def _statistics(
        self, X: sparse.csr_matrix, membership: sparse.csr_matrix
    ) -> tuple[sparse.csr_matrix | np.ndarray, ...]:
        """Count what is needed of a block of documents. Blocks add up."""
        return statistics(X, membership)

    def _counted(self) -> tuple[sparse.csr_matrix | np.ndarray, ...]:
        names = ("word_counts_", "document_counts_", "evidence_counts_")
        return tuple(getattr(self, name) for name in names if hasattr(self, name))

    def _set_statistics(
        self,
        classes: Classes,
        word_counts: Any,
        document_counts: Any,
        evidence_counts: Any = None,
    ) -> Self:
        """Become the model of these counts, wherever they were made."""
        self._set_classes(classes)
        self.n_features_in_ = word_counts.shape[1]
        self.word_counts_, self.document_counts_ = word_counts, document_counts
        if evidence_counts is not None:
            self.evidence_counts_ = evidence_counts
        elif hasattr(self, "evidence_counts_"):
            del self.evidence_counts_
        self._derive()
        return self

    def _derive(self) -> None:
        pooled = np.asarray(self.word_counts_.sum(axis=0)).ravel()
        self._seen = pooled > 0
        self._log_p_w = np.log(np.where(self._seen, pooled, 1.0) / max(pooled.sum(), 1.0))
        self._log_prior = self._learned_prior()
        self._live = np.flatnonzero(np.isfinite(self._log_prior))
        self._set_parameters()

    @abstractmethod
    def _set_parameters(self) -> None:
        """Derive P(w | c) from the counts."""

    @abstractmethod
    def _log_likelihood(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return log P(d | c) for the classes `_live`, up to a term per document."""

    @abstractmethod
    def _log_p_w_given_class(self, column: int) -> np.ndarray:
        """Return log P(w | c) of one class, for every word."""

    @property
    def log_p_w_given_node_(self) -> np.ndarray:
        """log P(word | node), nodes × words, dense: for looking at small models."""
        check_is_fitted(self)
        return np.stack([self._log_p_w_given_class(c) for c in range(len(self.nodes_))])

    def _learned_prior(self) -> np.ndarray:
        n_classes = len(self.nodes_)
        if isinstance(self.class_prior, str):
            if self.class_prior == "uniform":
                return np.full(n_classes, -np.log(n_classes))
            total = self.document_counts_.sum()
            if not total:
                return np.full(n_classes, -np.log(n_classes))
            p = self.document_counts_ / total  # Z eq. 1
        else:
            p = np.asarray(self.class_prior, dtype=float)
            if p.shape != (n_classes,):
                raise ValueError(
                    f"class_prior has shape {p.shape}, expected one number for each of the "
                    f"{n_classes} classes."
                )
            if not (p >= 0).all():
                raise ValueError("class_prior has numbers below 0: expected probabilities.")
            if not np.isclose(p.sum(), 1):
                raise ValueError(f"class_prior is no distribution: it sums to {p.sum()}.")
        with np.errstate(divide="ignore"):
            return np.log(p)

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return log P(c) + Σ_w n_dw log P(w | c) (T eq. 8, E eq. 6)."""
        scores = self._log_likelihood(X)
        scores += self._log_prior[self._live]
        return self._on_all_columns(scores)

    def _best(self, X: Any) -> np.ndarray:
        if type(self)._log_joint is not CountClassifier._log_joint:
            return super()._best(X)
        X = self._counts(X)
        best, most = np.zeros(X.shape[0], np.int64), np.full(X.shape[0], -np.inf)
        at_once = BLOCK_SCORES if self._weights is None else _IN_CACHE
        for columns, log_likelihood in self._by_classes():
            step = max(1, at_once // len(columns))
            for start in range(0, X.shape[0], step):
                rows = slice(start, start + step)
                scores = log_likelihood(X[rows])
                scores += self._log_prior[columns]
                found = scores.argmax(axis=1)
                top = scores[np.arange(len(found)), found]
                best[rows] = np.where(top > most[rows], columns[found], best[rows])
                most[rows] = np.maximum(most[rows], top)
        return best

    def _by_classes(self) -> Iterator[tuple[np.ndarray, Callable]]:
        """Yield columns, all or some at a time, and what returns log P(document | column)."""
        yield self._live, self._log_likelihood

    def _on_all_columns(self, scores: np.ndarray) -> np.ndarray:
        """Put scores of the live classes among all; those that cannot be predicted have -inf."""
        if len(self._live) == len(self.nodes_):
            return scores
        every = np.full((scores.shape[0], len(self.nodes_)), -np.inf)
        every[:, self._live] = scores
        return every

    def likelihood_ratio(self, X: Any) -> np.ndarray:
        """Return log P(d | c) - log P(d), a column per node in `classes_` (T 2.2).

        P(d) is that of words drawn from all training documents together. Words that none of them
        had say nothing.
        """
        X = self._counts(X).copy()
        X.data = X.data * self._seen[X.indices]
        ratio = self._log_likelihood(X) - self._log_pooled(X)[:, None]
        return self._on_all_columns(ratio)

    def _as_read(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        """Return what the model takes a document to be, from its word counts."""
        return X

    def _log_pooled(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return log P(d) of each document, its words drawn from all documents together."""
        return X @ self._log_p_w

    def word_evidence(self, column: int, words: np.ndarray) -> np.ndarray:
        """Return log P(w | node) - log P(w): how much each word speaks for a node, or against it.

        P(w) is that of all nodes' words together. A word that no document had speaks for none.
        """
        ratio = self._log_p_w_given_class(column)[words] - self._log_p_w[words]
        return np.where(self._seen[words], ratio, 0.0)

    def word_levels(self, column: int, words: np.ndarray) -> tuple[list[str], np.ndarray] | None:
        """Return the levels that words of a class are drawn from, and P(level | c, w).

        None where a model has no levels.
        """
        return None

    def explain(
        self, x: Any, node: Any = None, feature_names: Sequence[str] | None = None
    ) -> Explanation:
        """Say which words of one document speak for a node, and which against it.

        Parameters
        ----------
        x : the word counts of one document: a row of a matrix
        node : any label among the classes, by default the one predicted
        feature_names : the word of each column; without them, words are shown by number
        """
        X = self._as_read(self._counts(x))
        if X.shape[0] != 1:
            raise ValueError(f"explain takes one document, got {X.shape[0]}.")
        proba = self.predict_proba(x)[0]
        column = int(proba.argmax()) if node is None else self._column(node)
        used = X.data > 0
        words = X.indices[used]
        names = _names(words, feature_names, X.shape[1])
        said = X.data[used] * self.word_evidence(column, words)
        levels = self.word_levels(column, words)
        return Explanation.of(
            str(self.classes_[column]),
            float(proba[column]),
            dict(zip(names, said.tolist())),
            levels=None if levels is None else (levels[0], dict(zip(names, levels[1].tolist()))),
        )

    def node_words(
        self, path: Any, n: int = 10, feature_names: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        """List what a node says that its parent does not: words, weightiest first.

        The weight of a word is what it adds to the divergence of the node's word distribution
        from the mean of its own and its parent's (the root's from that of all words alike), in
        bits. A node without documents, itself and below, has no words.
        """
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n={n}: expected a number of words of at least 1.")
        node = self.taxonomy_.index(path) if not self._plain else self._plain_node(path)
        p = self._p_w_given_node(node)
        above = int(self.taxonomy_.parent[node])
        of_parent = np.full(len(p), 1 / len(p)) if above < 0 else self._p_w_given_node(above)
        mean = (p + of_parent) / 2
        weight = p * np.log2(np.divide(p, mean, out=np.ones_like(p), where=p > 0))
        best = np.argsort(-weight, kind="stable")[:n]
        best = best[weight[best] > 0]
        return list(zip(_names(best, feature_names, len(p)), weight[best].tolist()))

    def _p_w_given_node(self, node: int) -> np.ndarray:
        """Return P(w | v) of any node of the tree: here of all documents at it and below."""
        below = (self.nodes_ >= node) & (self.nodes_ < self.taxonomy_.end[node])
        counts = np.asarray(self.word_counts_[below].sum(axis=0)).ravel()
        return counts / max(counts.sum(), 1.0)

    def _plain_node(self, label: Any) -> int:
        return 0 if label == "/" else int(self.nodes_[self._column(label)])

    def _column(self, path: Any) -> int:
        return int(self._classes.columns(np.array([path]))[0])

    def _restore(self) -> None:
        """Derive the rest from what a file held, after checking it."""
        self._check_classes()
        n_classes, n_words = len(self.nodes_), self.n_features_in_
        shapes = ((n_classes, n_words), (n_classes,), (n_classes, n_words + 1))
        for name, shape, counts in zip(("word", "document", "evidence"), shapes, self._counted()):
            values = np.asarray(counts.data if sparse.issparse(counts) else counts)
            if counts.shape != shape:
                raise ValueError(f"{name} counts do not fit the classes and words")
            if not np.isfinite(values).all() or (values < 0).any():
                raise ValueError(f"{name} counts are no counts")
        self._validate()
        self._derive()

    def _validate(self) -> None:
        if isinstance(self.class_prior, str) and self.class_prior not in ("learned", "uniform"):
            raise ValueError(
                f'class_prior={self.class_prior!r}: expected "learned", "uniform" or an array.'
            )


def order_by_content(*matrices: Any) -> np.ndarray:
    """Return an order of the documents that depends on what they are, not on how they came.

    Where a method stops within a tolerance depends, in the last digits, on the order it went in.
    """
    rng = np.random.default_rng(0)
    return np.lexsort([matrix @ rng.random(matrix.shape[1]) for matrix in matrices][::-1])


class TableClassifier(CountClassifier):
    """A classifier with P(w | c) for every class and word, kept as a table where that is small."""

    def _derive(self) -> None:
        super()._derive()
        small = self.n_features_in_ * len(self._live) <= _TABLE
        self._weights = self._table(self._live) if small else None

    @abstractmethod
    def _p_w_given_classes(self, columns: np.ndarray) -> np.ndarray:
        """Return P(w | c) of some classes: classes × words, dense."""

    def _log_p_w_given_class(self, column: int) -> np.ndarray:
        return np.log(np.maximum(self._p_w_given_classes(np.array([column]))[0], _TINY))

    def _table(self, columns: np.ndarray) -> np.ndarray:
        """Return log P(w | c), words × classes. A word that no document had says nothing.

        It would say how much weight a class gives to words unheard of, many times over.
        """
        p = self._p_w_given_classes(columns)
        table = np.log(np.maximum(p, _TINY, out=p), out=p)
        table[:, ~self._seen] = 0.0
        return np.ascontiguousarray(table.T)

    def _log_likelihood(self, X: sparse.csr_matrix) -> np.ndarray:
        if self._weights is not None:
            return table_product(X, self._weights)
        scores = np.empty((X.shape[0], len(self._live)))
        for part in self._some_classes():
            scores[:, part] = table_product(X, self._table(self._live[part]))
        return scores

    def _by_classes(self) -> Iterator[tuple[np.ndarray, Callable]]:
        if self._weights is not None:
            yield from super()._by_classes()
            return
        # Classes first: to make their part of the table takes longer than to use it.
        for part in self._some_classes():
            columns = self._live[part]
            yield columns, partial(table_product, table=self._table(columns))

    def _some_classes(self) -> Iterator[slice]:
        """Cut the classes, of which there is no whole table, into some at a time."""
        step = max(1, _BLOCK // self.n_features_in_)
        for start in range(0, len(self._live), step):
            yield slice(start, start + step)


def statistics(
    X: sparse.csr_matrix, membership: sparse.csr_matrix
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Count words and documents per class. Blocks of documents add up."""
    return words_by_class(X, membership), np.asarray(membership.sum(axis=0)).ravel()


def _statistics_of(block: Documents, model: CountClassifier) -> tuple:
    return model._statistics(block.X, block.weighted)


def document_weights(sample_weight: Any, n_documents: int) -> np.ndarray:
    """Check the weights of documents."""
    if isinstance(sample_weight, Real):
        return np.full(n_documents, float(sample_weight))
    weight = column_or_1d(sample_weight, dtype=np.float64)
    check_consistent_length(weight, range(n_documents))
    if (weight < 0).any():
        raise ValueError("sample_weight has negative values; expected weights of 0 or more.")
    if n_documents and not weight.any():
        raise ValueError("sample_weight is zero for every document: there is nothing to learn.")
    return weight


def _names(words: np.ndarray, feature_names: Sequence[str] | None, n_words: int) -> list[str]:
    if feature_names is None:
        return [str(word) for word in words.tolist()]
    if len(feature_names) != n_words:
        raise ValueError(
            f"feature_names has {len(feature_names)} words, the model {n_words}: expected the "
            "names of its columns, as get_feature_names_out of the counter gives them."
        )
    return [str(feature_names[word]) for word in words.tolist()]


def best_columns(membership: sparse.csr_matrix) -> np.ndarray:
    """Return the column of the largest entry of each row, the first of several; -1 for no entry.

    Entries are above 0. (scipy's argmax goes row by row in Python.)
    """
    best = np.full(membership.shape[0], -1)
    _first_largest(membership.indptr, membership.indices, membership.data, best)
    return best


@numba.njit(nogil=True, cache=True)
def _first_largest(indptr, columns, values, best):  # pragma: no cover - compiled
    for r in range(best.shape[0]):
        most = 0.0
        for p in range(indptr[r], indptr[r + 1]):
            if values[p] > most:
                most = values[p]
                best[r] = columns[p]


def keys_of(X: sparse.csr_matrix) -> np.ndarray:
    """Return a number for each document, the same for the same words and counts."""
    # Columns are scrambled as in the generator SplitMix64. All is modulo 2^64, so in any order.
    h = (X.indices.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        h = (h ^ (h >> np.uint64(shift))) * np.uint64(factor)
    sums = np.cumsum(h * X.data.astype(np.uint64), dtype=np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), sums])
    return sums[X.indptr[1:]] - sums[X.indptr[:-1]]
