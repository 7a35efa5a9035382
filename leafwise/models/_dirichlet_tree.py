"""Word distributions drawn around those of parents: parameters, scores and σ from counts."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import logsumexp

from leafwise.labels import Classes, read_labels
from leafwise.models import _sigma
from leafwise.models._counts import CountClassifier, document_weights, statistics
from leafwise.models._path_mixture import check_positive, check_seed
from leafwise.models._table_scores import TableScores
from leafwise.models._tree_means import TreeMeans, responses, solve
from leafwise.models._tree_scores import TreeScores
from leafwise.models._word_lists import WordLists
from leafwise.threads import in_threads

MOST_CLASSES = 1000  # beyond, only those of the documents that decide on σ
_TABLE = 1 << 27  # words × classes up to which there can be a table: 1 GiB
_BLOCK = 1 << 19  # logs taken by a thread at a time: fewer take longer to hand out than to take
_MOST_SURE = 1e-12  # a probability is never nearer to 0 or 1, where its logarithm is needed


class DirichletTree(CountClassifier):
    """V's model of counts per class, with labels: see `HierarchicalDirichlet`."""

    _learned = (*CountClassifier._learned, "sigma_", "_prior_documents", "_keyword_documents")
    words: str
    sigma: Any
    sample_size: int
    random_state: int | None
    sigma_: Any
    _prior_documents: float  # that each class is expected to have, besides those counted
    _keyword_documents: np.ndarray  # that stand for the keywords of each class

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, reset: bool) -> Self:
        if reset:
            for name in ("sigma_", "_keyword_documents"):
                self.__dict__.pop(name, None)
            self._prior_documents = 0.0
        super()._learn(X, y, classes, sample_weight, reset)
        if reset and isinstance(self.sigma, str):
            X = self._as_read(self._counts(X))
            weight = np.ones(X.shape[0])
            if sample_weight is not None:
                weight = document_weights(sample_weight, X.shape[0])
            labels = read_labels(y, self._classes)
            membership = self._classes.membership(labels)
            judges = self._judges(np.diff(membership.indptr), np.diff(X.indptr), weight)
            self.sigma_ = self._likeliest(X[judges], membership[judges], weight[judges])
            self._derive()
        return self

    def _statistics(self, X: sparse.csr_matrix, membership: sparse.csr_matrix) -> tuple:
        return statistics(self._as_read(X), membership)

    def _as_read(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        return read_as(X, self.words)

    def _learned_prior(self) -> np.ndarray:
        if not (isinstance(self.class_prior, str) and self.class_prior == "learned"):
            return super()._learned_prior()
        counts = self.document_counts_ + self._prior_documents
        if not counts.any():
            counts = counts + 1.0
        with np.errstate(divide="ignore"):
            return np.log(counts / counts.sum())

    def _set_parameters(self) -> None:
        for name in ("_lists", "_n", "_means", "_scores"):  # large, and not needed any more
            self.__dict__.pop(name, None)
        counts = sparse.csr_matrix(self.word_counts_, dtype=np.float64)
        counts.sum_duplicates()
        n_entries = np.zeros(len(self.taxonomy_), np.int64)
        n_entries[self.nodes_] = np.diff(counts.indptr)
        entries = _entries(counts.indptr, np.argsort(self.nodes_))
        at_nodes = sparse.csr_matrix(
            (counts.data[entries], counts.indices[entries], np.append(0, np.cumsum(n_entries))),
            (len(self.taxonomy_), counts.shape[1]),
        )
        self._lists = WordLists(self.taxonomy_.parent, at_nodes)
        self._n = np.zeros(self._lists.n_pairs)
        self._n[self._lists.own] = at_nodes.data
        self._sizes = np.asarray(at_nodes.sum(axis=1)).ravel()
        if self.words == "set":
            self._sizes = np.zeros(len(self.taxonomy_))
            self._sizes[self.nodes_] = self.document_counts_
            self._sizes[self.nodes_] += getattr(self, "_keyword_documents", 0.0)
        if not isinstance(self.sigma, str):
            self.sigma_ = self.sigma
        self._means = self._solve(getattr(self, "sigma_", 1.0))
        if self.words == "set" and self.n_features_in_ * len(self._live) > _TABLE:
            raise ValueError(
                f'words="set" needs a table of {self.n_features_in_:,} words and '
                f'{len(self._live):,} nodes, which is too large. words="counts" does without.'
            )
        self._scores = self._table_scores() if self.words == "set" else self._tree_scores()

    def _solve(self, sigma: Any) -> TreeMeans:
        depth = self.taxonomy_.depth
        if np.ndim(sigma) and len(sigma) != depth.max():
            raise ValueError(
                f"sigma has {len(sigma)} numbers, the tree {depth.max()} levels below its root."
            )
        of_node = np.full(len(depth), sigma) if not np.ndim(sigma) else np.append(1.0, sigma)[depth]
        # V 2: Dir(1, ..., 1), over the words that there are; others would only take their share.
        # For a set each word has a prior of its own, Beta(1, 1) (V 3.2).
        prior = (1.0, 2.0 if self.words == "set" else float(max(self._seen.sum(), 1)))
        return solve(self._lists, self._n, self._sizes, of_node.astype(float), prior)

    def _tree_scores(self) -> TreeScores:
        lists, means, parent = self._lists, self._means, self.taxonomy_.parent
        log_theta = _logs(np.append(means.theta, 1.0))
        log_shrink = np.append(0.0, np.log(means.shrink[1:]))
        added = log_theta[:-1] - log_theta[lists.up]
        added -= np.repeat(log_shrink, np.diff(lists.indptr))
        bias = log_shrink.copy()
        for i in range(1, len(parent)):
            bias[i] += bias[parent[i]]
        empty = self.document_counts_ == 0
        if self._prior_documents and empty.any() and not empty.all():
            # It says every word nearly as often as its parent does, and would win whatever fits
            # nowhere: new words are to cost it what they cost the others.
            usual = bias[self.nodes_[~empty]].mean()
            bias[self.nodes_[empty]] = np.minimum(bias[self.nodes_[empty]], usual)
        column = np.full(len(parent), -1)
        column[self.nodes_[self._live]] = np.arange(len(self._live))
        flat = np.zeros(len(parent))
        end = self.taxonomy_.end
        return TreeScores(*lists.by_word(added), self._seen, parent, end, bias, flat, column)

    def _table_scores(self) -> TableScores:
        theta = self._p_w_given_classes(self._live).T
        np.clip(theta, _MOST_SURE, 1.0 - _MOST_SURE, out=theta)
        lacking = np.where(self._seen[:, None], np.log1p(-theta), 0.0)
        weights = np.where(self._seen[:, None], np.log(theta) - lacking, 0.0)
        return TableScores(np.ascontiguousarray(weights), lacking.sum(axis=0))

    def _log_likelihood(self, X: sparse.csr_matrix) -> np.ndarray:
        return self._scores.log_joint(self._as_read(X))

    def _log_pooled(self, X: sparse.csr_matrix) -> np.ndarray:
        if self.words != "set":
            return super()._log_pooled(self._as_read(X))
        rate = np.clip(np.exp(self._log_p_w), _MOST_SURE, 1.0 - _MOST_SURE)
        lacking = np.where(self._seen, np.log1p(-rate), 0.0)
        return self._as_read(X) @ np.where(self._seen, np.log(rate) - lacking, 0.0) + lacking.sum()

    def _derive(self) -> None:
        super()._derive()
        if self.words == "set":
            pooled = np.asarray(self.word_counts_.sum(axis=0)).ravel()
            total = max(self.document_counts_.sum(), 1.0)
            self._log_p_w = np.log(np.where(self._seen, pooled, total) / total)

    def _log_p_w_given_class(self, column: int) -> np.ndarray:
        return np.log(np.maximum(self._p_w_given_node(int(self.nodes_[column])), _MOST_SURE))

    def _p_w_given_classes(self, columns: np.ndarray) -> np.ndarray:
        return np.stack([self._p_w_given_node(int(node)) for node in self.nodes_[columns]])

    def _p_w_given_node(self, node: int) -> np.ndarray:
        lists, means = self._lists, self._means
        p = np.full(lists.n_words, means.unseen)
        for i in [node, *self.taxonomy_.ancestors(node)][::-1]:
            if i:
                p *= means.shrink[i]
            pairs = slice(lists.indptr[i], lists.indptr[i + 1])
            p[lists.words[pairs]] = means.theta[pairs]
        if self._seen.any():
            p[~self._seen] = 0.0
        return p

    def _judges(self, n_labels: np.ndarray, n_words: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return the documents that decide on σ, from their numbers of labels and words."""
        documents = np.flatnonzero((n_labels == 1) & (weight > 0) & (n_words > 0))
        if len(documents) > self.sample_size:
            rng = np.random.default_rng(self.random_state)
            documents = np.sort(rng.permutation(documents)[: self.sample_size])
        return documents

    def _likeliest(
        self, X: sparse.csr_matrix, membership: sparse.csr_matrix, weight: np.ndarray
    ) -> float:
        """Choose the σ under which documents are put where they are, most often and most surely.

        Each is judged by the model of all others, which is known from that of all in closed form.
        """
        own = membership.indices
        columns = self._live
        if len(columns) > MOST_CLASSES:
            columns = np.unique(own)
        if len(own) == 0 or len(columns) < 2:
            return 1.0
        own = np.searchsorted(columns, own)
        X = sparse.csr_matrix(X, dtype=np.float64)
        X.sum_duplicates()
        is_set = self.words == "set"
        sizes = np.ones(len(own)) if is_set else np.asarray(X.sum(axis=1)).ravel()
        pooled = np.asarray(self.word_counts_.sum(axis=0)).ravel()
        words = np.arange(X.shape[1])
        if not is_set:  # of words that these documents do not have, nothing is asked
            words = np.unique(X.indices)
            X, pooled = X[:, words], pooled[words]
        once = np.minimum(weight, 1.0)  # a document of weight 2 is two, of which one is left out
        at_own = (np.arange(len(own)), own)
        log_prior = np.tile(self._log_prior[columns], (len(own), 1))
        if isinstance(self.class_prior, str) and self.class_prior == "learned":
            left = self.document_counts_[columns][own] + self._prior_documents - once
            total = self.document_counts_.sum() + self._prior_documents * len(self.nodes_)
            with np.errstate(divide="ignore"):
                log_prior[at_own] = np.log(np.maximum(left, 0.0) / total)
        grid = _sigma.GRID
        right, likelihood = np.empty((len(grid), len(own))), np.empty(len(grid))
        for k, sigma in enumerate(grid):
            self._means = self._solve(sigma)
            theta = np.array([self._p_w_given_node(int(i))[words] for i in self.nodes_[columns]])
            theta = np.ascontiguousarray(theta.T)
            rise = responses(self.taxonomy_, self._means, self.nodes_[columns])
            scores = _sigma.left_out_scores(X, sizes, once, own, theta, rise, pooled, is_set)
            log_p = scores[at_own] - logsumexp(scores, axis=1)
            likelihood[k] = np.average(log_p, weights=weight)
            right[k] = (scores + log_prior).argmax(axis=1) == own
        return float(grid[_sigma.likeliest_of_the_best(right, likelihood, weight)])

    def said_at_levels(self, column: int, words: np.ndarray) -> tuple[list[str], np.ndarray]:
        """Return the nodes on the path to a class, and which of them each word speaks for.

        A word speaks for a node as far as it is likelier there than at the parent, in logarithms;
        the rows of the array, words × nodes, sum to 1. The last column, "", is for a word that is
        nowhere likelier.
        """
        node = int(self.nodes_[column])
        path = [node, *self.taxonomy_.ancestors(node)]  # up to the root
        log_p = np.log(np.maximum([self._p_w_given_node(int(i))[words] for i in path], _MOST_SURE))
        gain = np.maximum(log_p[:-1] - log_p[1:], 0.0).T.reshape(len(words), len(path) - 1)
        gain[~self._seen[words]] = 0.0
        total = gain.sum(axis=1, keepdims=True)
        share = np.divide(gain, total, out=np.zeros_like(gain), where=total > 0)
        names = [self.taxonomy_.paths[i] for i in path[:-1]]
        return [*names, ""], np.column_stack([share, total.ravel() == 0])

    def _gather(self, classes: Classes, column_of: np.ndarray) -> None:
        """Have other classes: `column_of` says which each of the old ones is, or -1.

        Counts add up, so those of classes that become one are added.
        """
        kept = np.flatnonzero(column_of >= 0)
        cells = (np.ones(len(kept)), (column_of[kept], kept))
        to = sparse.csr_matrix(cells, (len(classes.nodes), len(column_of)))
        if hasattr(self, "_keyword_documents"):
            self._keyword_documents = to @ self._keyword_documents
        self._set_statistics(
            classes, sparse.csr_matrix(to @ self.word_counts_), to @ self.document_counts_
        )

    def _restore(self) -> None:
        """Derive the rest from what a file held, after checking it."""
        check_sigma(getattr(self, "sigma_", None))
        added = getattr(self, "_keyword_documents", np.zeros(len(self.nodes_)))
        if not 0 <= self._prior_documents < np.inf or added.shape != self.nodes_.shape:
            raise ValueError("the documents of the prior do not fit the classes")
        if not np.isfinite(added).all() or (added < 0).any():
            raise ValueError("the documents that stand for keywords are no counts")
        super()._restore()

    def _validate(self) -> None:
        super()._validate()
        if not (isinstance(self.sigma, str) and self.sigma == "auto"):
            check_sigma(self.sigma)
        if self.words not in ("counts", "roots", "set"):
            raise ValueError(f'words={self.words!r}: expected "counts", "roots" or "set".')
        check_positive("sample_size", self.sample_size)
        check_seed(self.random_state)


def read_as(X: sparse.csr_matrix, words: str) -> sparse.csr_matrix:
    """Return documents as their counts, the roots of these, or whether they have a word."""
    if words == "counts":
        return X
    data = np.sqrt(X.data, dtype=np.float64) if words == "roots" else (X.data > 0).astype(float)
    return sparse.csr_matrix((data, X.indices.copy(), X.indptr.copy()), X.shape)


def _logs(p: np.ndarray) -> np.ndarray:
    """Return the logs of probabilities, none below that of `_MOST_SURE`."""
    found = np.empty_like(p)

    def work(part: slice) -> None:
        np.log(np.maximum(p[part], _MOST_SURE), out=found[part])

    in_threads(work, [slice(i, i + _BLOCK) for i in range(0, len(p), _BLOCK)])
    return found


def _entries(indptr: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the numbers of the entries of some rows, one row after the other."""
    lengths = np.diff(indptr)[rows]
    starts = indptr[:-1][rows] - np.append(0, np.cumsum(lengths)[:-1])
    return np.repeat(starts, lengths) + np.arange(lengths.sum())


def check_sigma(sigma: Any) -> None:
    values = [sigma] if not np.iterable(sigma) or isinstance(sigma, str) else list(sigma)
    if not values or not all(isinstance(s, Real) and 0 < float(s) < np.inf for s in values):
        raise ValueError(
            f'sigma={sigma!r}: expected a number above 0, one for each level, or "auto".'
        )
