"""Keywords as evidence: how strongly the words of a document speak for each node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.utils.validation import check_is_fitted

from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter
from leafwise.threads import in_threads

INHERITED = 0.3  # what a parent's keyword is worth to its child, and so on down the tree
_DOCUMENTS = 1 << 12  # in which a thread looks for terms at a time


class Keywords(NamedTuple):
    """The keywords of a tree that documents have: terms of one word, or phrases of several.

    Attributes
    ----------
    terms : CSR matrix, terms × words, ones
    weights : CSR matrix, terms × nodes
        What a term says of the nodes that have it, those below them not included. More, the fewer
        documents have it (idf); less, the more nodes share it (by the root of their number).
    own : CSR matrix, nodes × words
        What terms are worth to a node beside each other, by their words: idf over the number of
        nodes that share it. Terms that no document has so far are included.
    found : array
        For each term, how many documents have it.
    known : array of bool
        For each node, whether documents have a keyword of it or of a node above.
    unknown : list of str
        The keywords that find no document: none has them, or they are not counted.
    """

    terms: sparse.csr_matrix
    weights: sparse.csr_matrix
    own: sparse.csr_matrix
    found: np.ndarray
    known: np.ndarray
    unknown: list[str]

    def matches(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        """Return documents × terms: 1 + log n for a term that is there n times, nothing else.

        A phrase is there where all its words are, as often as the rarest of them.
        """
        matches = match_terms(self.terms, X)
        matches.data = 1.0 + np.log(np.maximum(matches.data, 1.0))
        return matches

    def at_nodes(self, X: sparse.csr_matrix) -> sparse.csr_matrix:
        """Return documents × nodes: the weights of what matches, by how much of a node it is.

        The sum of the weights, times the root of what the matching terms make of all the node's
        terms, by idf: of a node of two words, a document that has but one says less.
        """
        found = self.matches(X)
        has = sparse.csr_matrix((np.ones(found.nnz), found.indices, found.indptr), found.shape)
        roots = sparse.diags_array(np.sqrt(np.diff(self.weights.indptr)))
        idf = sparse.csr_matrix(roots @ self.weights)
        every = np.asarray(idf.sum(axis=0)).ravel()
        scores, part = (sparse.csr_matrix(one) for one in (found @ self.weights, has @ idf))
        for one in (scores, part):
            one.sort_indices()
        scores.data *= np.sqrt(part.data / every[part.indices])
        return scores

    def scores(self, X: sparse.csr_matrix, parent: np.ndarray) -> np.ndarray:
        """Return documents × nodes, dense: `at_nodes`, and what is inherited."""
        scores = self.at_nodes(X).toarray()
        for i in range(1, len(parent)):
            scores[:, i] += INHERITED * scores[:, parent[i]]
        return scores

    def words(self, parent: np.ndarray, nodes: np.ndarray) -> sparse.csr_matrix:
        """Return nodes × words: what the words of the nodes' keywords are worth beside each other.

        A node has its own keywords and, with less weight, those of nodes above it that are not
        among the `nodes`, which have no other way to count. Those that documents have sum to one;
        those that none has so far come on top, for documents to come.
        """
        is_above = np.ones(len(parent), bool)
        is_above[nodes] = False
        every = _inherited(self.own, parent, is_above)
        occurs = np.zeros(self.own.shape[1])
        occurs[np.unique(self.terms[self.found > 0].indices)] = 1.0
        total = np.asarray(every.sum(axis=1)).ravel()
        found = every @ occurs
        total = np.where(found > 0, found, total)
        share = sparse.diags_array(1.0 / np.where(total > 0, total, 1.0))
        return sparse.csr_matrix((share @ every)[nodes])


def read_keywords(taxonomy: Taxonomy, vocabulary: Any, X: sparse.csr_matrix) -> Keywords:
    """Find the keywords of a tree in documents, and weigh them.

    Parameters
    ----------
    vocabulary : the words of X's columns, or the fitted WordCounter that counted them
    X : word counts of documents
    """
    return find_keywords(taxonomy, vocabulary, X.shape, lambda terms: count_terms(X, terms))


def count_terms(X: sparse.csr_matrix, terms: sparse.csr_matrix) -> np.ndarray:
    """Count the documents that have each term. Blocks of documents add up."""
    return np.diff(match_terms(terms, X).tocsc().indptr)


def find_keywords(
    taxonomy: Taxonomy,
    vocabulary: Any,
    shape: tuple[int, int],
    count: Callable[[sparse.csr_matrix], np.ndarray],
) -> Keywords:
    """Find and weigh keywords, wherever the documents are.

    Parameters
    ----------
    shape : how many documents and words there are
    count : terms × words -> how many documents have each term
    """
    of_node = [(i, keyword) for i in range(1, len(taxonomy)) for keyword in taxonomy.keywords[i]]
    spelled = list(dict.fromkeys(keyword for _, keyword in of_node))
    terms = _spell(spelled, vocabulary, shape[1])
    columns = sorted({term for term in terms if term})
    number = {term: k for k, term in enumerate(columns)}
    n_words = np.array([len(term) for term in columns], np.int64)
    table = sparse.csr_matrix(
        (
            np.ones(n_words.sum()),
            np.array([w for term in columns for w in term], np.int32),
            np.append(0, np.cumsum(n_words)),
        ),
        (len(columns), shape[1]),
    )
    n_documents = count(table)
    has_term = {word: number[term] for word, term in zip(spelled, terms) if term}
    unknown = sorted(
        word for word in spelled if word not in has_term or not n_documents[has_term[word]]
    )

    pairs = sorted({(has_term[word], i) for i, word in of_node if word in has_term})
    rows, nodes = np.array(pairs, np.int64).reshape(-1, 2).T
    n_nodes = np.bincount(rows, minlength=len(columns))
    idf = np.log1p(shape[0] / np.maximum(n_documents, 1)) / np.maximum(n_nodes, 1) ** 0.5
    weights = sparse.csr_matrix((idf[rows], (rows, nodes)), (len(columns), len(taxonomy)))
    # A phrase's words share what it is worth.
    each = sparse.diags_array(1.0 / (np.maximum(n_words, 1) * np.maximum(n_nodes, 1) ** 0.5))
    own = sparse.csr_matrix(weights.T @ (each @ table))
    occurs = (n_documents > 0).astype(float)
    weights = sparse.csr_matrix(sparse.diags_array(occurs) @ weights)
    weights.eliminate_zeros()
    known = np.asarray((weights > 0).sum(axis=0)).ravel() > 0
    for i in range(1, len(taxonomy)):
        known[i] |= known[taxonomy.parent[i]]
    return Keywords(table, weights, own, n_documents, known, unknown)


def _inherited(own: sparse.csr_matrix, parent: np.ndarray, is_above: np.ndarray) -> Any:
    """Sum over the path of each node, with less weight for those further up.

    A path ends at a node that is not `is_above`.
    """
    below = np.flatnonzero(parent >= 0)
    below = below[is_above[parent[below]]]
    shape = (len(parent), len(parent))
    up = sparse.csr_matrix((np.full(len(below), INHERITED), (below, parent[below])), shape)
    every = step = own
    while step.nnz:
        step = up @ step
        every = every + step
    return sparse.csr_matrix(every)


def _spell(keywords: list[str], vocabulary: Any, n_words: int) -> list[tuple[int, ...]]:
    """Return the columns of each keyword, sorted: none where a word of it has no column."""
    counter, column = _reader(vocabulary, n_words)
    if not keywords:
        return []
    if not isinstance(getattr(vocabulary, "estimator", vocabulary), WordCounter):
        exact = {keyword: (column[keyword],) for keyword in keywords if keyword in column}
        others = [keyword for keyword in keywords if keyword not in exact]
        read = dict(zip(others, _read(others, counter, column)))
        return [exact.get(keyword) or read[keyword] for keyword in keywords]
    return _read(keywords, counter, column)


def _read(
    keywords: list[str], counter: WordCounter, column: dict[str, int]
) -> list[tuple[int, ...]]:
    if not keywords:
        return []
    try:
        counts = counter.fit_transform(keywords)
    except ValueError:  # no keyword has a word that counts
        return [()] * len(keywords)
    names = counter.get_feature_names_out().tolist()
    spelled = []
    for row in np.split(counts.indices, counts.indptr[1:-1]):
        written = [names[w] for w in row]
        words = [w for w in written if " " not in w]
        runs = [w for w in written if " " in w and w in column]  # counted as one
        if runs:
            longest = max(runs, key=len)
            words = [longest, *(w for w in words if w not in longest.split())]
        found = [w for w in words if w in column]
        missing = [w for w in words if w not in column and w not in ENGLISH_STOP_WORDS]
        spelled.append(() if missing else tuple(sorted(column[w] for w in found)))
    return spelled


def _reader(vocabulary: Any, n_words: int) -> tuple[WordCounter, dict[str, int]]:
    """Return a counter that reads keywords as the documents were read, and the words' columns."""
    vocabulary = getattr(vocabulary, "estimator", vocabulary)  # of a FrozenEstimator
    if isinstance(vocabulary, WordCounter):
        try:
            check_is_fitted(vocabulary)
        except NotFittedError:
            raise ValueError(
                "vocabulary is a WordCounter that is not fitted: expected the one that counted X. "
                "(Where a model is cloned, its parts are cloned unfitted: give the words, "
                "counter.get_feature_names_out(), or FrozenEstimator(counter).)"
            ) from None
        reader = clone(vocabulary).set_params(min_count=1, max_df=1.0, compounds=False, n_jobs=1)
        column = dict(vocabulary.vocabulary_)
    else:
        names = _names(vocabulary)
        column = {name: k for k, name in enumerate(names)}
        if len(column) != len(names):
            raise ValueError("vocabulary has a word twice: expected one word for each column.")
        longest = max((name.count(" ") + 1 for name in names), default=1)
        reader = WordCounter(ngram_range=(1, longest), n_jobs=1)
    if len(column) != n_words:
        raise ValueError(
            f"vocabulary has {len(column)} words, X {n_words} columns: expected the words of the "
            "columns, as get_feature_names_out of the counter gives them."
        )
    return reader, column


def _names(vocabulary: Any) -> list[str]:
    if isinstance(vocabulary, str | bytes) or not isinstance(vocabulary, Sequence | np.ndarray):
        raise TypeError(
            f"vocabulary is a {type(vocabulary).__name__}, expected the words of the columns, as "
            "get_feature_names_out of the counter gives them, or the fitted WordCounter."
        )
    names = list(vocabulary)
    odd = next((name for name in names if not isinstance(name, str)), None)
    if odd is not None:
        raise TypeError(f"vocabulary holds {odd!r}, expected words.")
    return names


def match_terms(terms: sparse.csr_matrix, X: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return documents × terms: how often a document has all words of a term."""
    X = sparse.csr_matrix(X, copy=not X.has_sorted_indices)
    X.sum_duplicates()
    # Each term is looked for where its rarest word is.
    n_terms = terms.shape[0]
    first = terms.indices[terms.indptr[:-1]].astype(np.int64)
    several = np.flatnonzero(np.diff(terms.indptr) > 1)
    if len(several):
        n_documents = np.bincount(X.indices, minlength=X.shape[1])
        for k in several.tolist():
            words = terms.indices[terms.indptr[k] : terms.indptr[k + 1]]
            first[k] = words[np.argmin(n_documents[words])]
    by_word = np.argsort(first, kind="stable")
    begins = np.append(0, np.cumsum(np.bincount(first, minlength=X.shape[1])))
    rows = X.indptr, X.indices, X.data.astype(np.float64, copy=False)
    n_found = np.empty(X.shape[0], np.int64)

    def work(part: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        most = _n_looked_for(*part, *rows[:2], begins)
        found, counts = np.empty(most, np.int32), np.empty(most)
        n = _match(
            *part, *rows, terms.indptr, terms.indices, begins, by_word, n_found, found, counts
        )
        return found[:n].copy(), counts[:n].copy()

    edges = [*range(0, X.shape[0], _DOCUMENTS), X.shape[0]]
    parts = in_threads(work, pairwise(edges)) or [(np.empty(0, np.int32), np.empty(0))]
    found, counts = (np.concatenate(one) for one in zip(*parts))
    indptr = np.append(0, np.cumsum(n_found))
    return sparse.csr_matrix((counts, found, indptr), (X.shape[0], n_terms))


@numba.njit(nogil=True, cache=True)
def _n_looked_for(first, last, indptr, words, begins):  # pragma: no cover - compiled
    n = 0
    for p in range(indptr[first], indptr[last]):
        n += begins[words[p] + 1] - begins[words[p]]
    return n


@numba.njit(nogil=True, cache=True)
def _match(
    first, last, indptr, words, data, t_indptr, t_words, begins, by_word, n_found, found, counts
):  # pragma: no cover - compiled
    n = 0
    for d in range(first, last):
        before = n
        for p in range(indptr[d], indptr[d + 1]):
            w = words[p]
            if data[p] <= 0.0:
                continue
            for q in range(begins[w], begins[w + 1]):
                t = by_word[q]
                least = data[p]
                for r in range(t_indptr[t], t_indptr[t + 1]):
                    at, end = indptr[d], indptr[d + 1]
                    while at < end:  # numba's own search takes as long to compile as the rest
                        middle = (at + end) // 2
                        if words[middle] < t_words[r]:
                            at = middle + 1
                        else:
                            end = middle
                    if at == indptr[d + 1] or words[at] != t_words[r]:
                        least = 0.0
                        break
                    least = min(least, data[at])
                if least > 0.0:
                    found[n] = t
                    counts[n] = least
                    n += 1
        n_found[d] = n - before
    return n
