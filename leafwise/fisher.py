"""Fisher kernels: documents are alike if they would change a model's parameters alike (G 7)."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import normalize
from sklearn.utils import check_array, gen_batches
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from leafwise.models._path_mixture import PathMixture, to_shares
from leafwise.models.growth import HPLSA
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.models.plsa import HPLC, PLSAClassifier

PARTS = ("classes", "words", "levels")
_ELEMENTS = 1 << 22  # of intermediate arrays, at a time


class FisherMap(TransformerMixin, BaseEstimator):
    """Word counts to vectors whose products are the Fisher kernel of a model (G 7, eq. 14-23).

    A part is the derivative of a document's log likelihood by one kind of parameter:

    - "classes", by P(α): how much of the document each class α has, rare classes counting for more
      (k1, G eq. 19);
    - "words", by P(j | ν): its words j, each split over the topics ν that it is drawn from in this
      document, rare words counting for more (k2, G eq. 20);
    - "levels", by P(ν | α): how much of the document each class has (k3, G eq. 21). Where a
      document is of one class, as in Naive Bayes, also how well each level of the class's path
      explains the words (G eq. 23).

    Parameters
    ----------
    model : estimator
        An HPLSA, `PLSAClassifier`, `HPLC` or `PLC`, in which a document mixes classes; or, for
        documents of one class, `HierarchicalMixture`, `HierarchicalShrinkage`, `NaiveBayes` or
        ``HPLC(prediction="direct")``. One that is fitted is used as it is; else a copy of it is
        fitted in `fit`. A copy of the map, as cross-validation makes, has an unfitted model, unless
        it is in a `sklearn.frozen.FrozenEstimator`.
    parts : names of parts, or one of them
        What to sum over: the kernel is the sum of the parts' kernels.
    exact : bool
        False takes G's eq. 19-23: in k1 and k3 the model's P(j | d) stands for the frequency of a
        word in the document, k1 takes no account of length where a document is of one class, and
        eq. 23 is of P(ν | α), not its root. True takes the derivatives by 2 √P of all parameters as
        they are.
    least : float
        In "words", P(ν | j, d) below this is taken for 0. Most topics have hardly any of a word,
        but none has nothing: 0.001 makes the vectors less than half as large, at .0001 of their
        squared length.

    Attributes
    ----------
    model_ : the fitted model
    """

    model_: Any

    def __init__(self, model: Any, parts: Any = PARTS, *, exact: bool = False, least: float = 0.0):
        self.model = model
        self.parts = parts
        self.exact = exact
        self.least = least

    def fit(self, X: Any, y: Any = None) -> Self:
        """Check the model, or fit a copy of it to word counts and, if it takes any, labels."""
        _check_parts(self.parts)
        if not (isinstance(self.least, Real) and 0 <= float(self.least) < 1):
            raise ValueError(f"least={self.least!r}: expected a number from 0 to below 1.")
        X = validate_data(self, X, accept_sparse="csr")
        try:
            self.model_ = _fitted(self.model)
        except NotFittedError:
            self.model_ = clone(self.model).fit(X, y)
        _check_counts(X, self.model_)
        return self

    def transform(self, X: Any) -> sparse.csr_matrix:
        """Return a sparse vector for each document; their products are the kernel.

        The columns are those of the parts, one part after the other: classes; pairs of a word and
        a topic that has it; then classes, or pairs of a class and a topic that it draws from.
        """
        check_is_fitted(self, "model_")
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        return _features(self.model_, X, _check_parts(self.parts), self.exact, self.least)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


def fisher_kernel(
    model: Any, X: Any, Y: Any = None, parts: Any = PARTS, *, exact: bool = False
) -> np.ndarray:
    """Return the Fisher kernel of documents, X × Y (by default X × X), dense.

    It is what `FisherMap` gives, multiplied: for ``SVC(kernel="precomputed")``, or
    ``similarity="precomputed"`` of the neighbour graph.
    """
    names = _check_parts(parts)
    A = _features(model, X, names, exact)
    B = A if Y is None else _features(model, Y, names, exact)
    kernel = np.empty((A.shape[0], B.shape[0]))
    for rows in gen_batches(A.shape[0], max(1, _ELEMENTS // B.shape[0])):
        kernel[rows] = (A[rows] @ B.T).toarray()
    return kernel


def fisher_scores(
    model: Any, X: Any, parts: Any = PARTS, *, exact: bool = True, root: bool = False
) -> dict[str, sparse.csr_matrix]:
    """Return the derivatives of each document's log likelihood, per word, by the parameters.

    Where a document mixes classes, that is G eq. 15, whose P(d | α) is left as it is; where it is
    of one class, log Σ_α P(α) Π_j P(j | α)^n_dj over the document's length.

    Parameters
    ----------
    model : a fitted model, as in `FisherMap`
    X : word counts. Words that the model has not seen are left out
    parts : which derivatives, as in `FisherMap`
    exact : False puts the model's P(j | d) for the frequency of a word in the document, which is
        the right-hand side of G eq. 16-17; for documents of one class it leaves out the
        division by length in the derivative by P(α)
    root : by 2 √P instead of P

    Returns
    -------
    scores : for each part, documents × parameters. "classes": P(α), the classes that can be
        predicted; "words": P(j | ν), all topics of the first word first; "levels": P(ν | α), all
        topics that the first class draws from first
    """
    found: dict[str, list] = {name: [] for name in _check_parts(parts)}
    for block in _blocks(model, X):
        for name, blocks in found.items():
            blocks.append(getattr(block, name)(exact, root))
    return {name: sparse.csr_matrix(sparse.vstack(blocks)) for name, blocks in found.items()}


class _Parameters(NamedTuple):
    """What a model says, whatever it is.

    Attributes
    ----------
    live : the classes whose P(α) is above 0, among those of the model; others are left out
    p_class : P(α)
    p_topic : CSR matrix, classes × topics, P(ν | α)
    p_word : words × topics, P(j | ν); 0 for a word that the model has not seen
    one_class : whether all words of a document are of one class
    """

    live: np.ndarray
    p_class: np.ndarray
    p_topic: sparse.csr_matrix
    p_word: np.ndarray
    one_class: bool


def _read(model: Any) -> _Parameters:
    """Read the parameters of a fitted model."""
    if isinstance(model, HPLSA):
        live = np.flatnonzero(model.p_leaf_)
        used = model.p_node_given_leaf_[live].any(axis=0)
        p_topic = sparse.csr_matrix(model.p_node_given_leaf_[live][:, used])
        p_word = np.ascontiguousarray(model.p_word_given_node_[used].T)
        return _Parameters(live, model.p_leaf_[live], p_topic, p_word, model.unit == "document")
    live = model._live
    alone = sparse.csr_matrix(sparse.eye_array(len(live)))
    if isinstance(model, PLSAClassifier):
        # It fits no P(α): the share of documents is what a label's class would have.
        p_class = to_shares(np.asarray(model.document_counts_[live], dtype=float))
        p_word = np.ascontiguousarray(model.p_w_given_class_[live].T)
        return _Parameters(live, p_class, alone, p_word, False)
    p_class = np.exp(model._log_prior[live])
    if isinstance(model, NaiveBayes):
        p_topic, p_word = alone, np.exp([model._log_p_w_given_class(c) for c in live]).T
    else:
        p_topic, p_word = _of_paths(model, live)
    p_word = np.ascontiguousarray(np.where(model._seen[:, None], p_word, 0.0))
    mixes = isinstance(model, HPLC) and model.prediction == "em"
    return _Parameters(live, p_class, p_topic, p_word, not mixes)


def _fitted(model: Any) -> Any:
    """Return the fitted model itself, or say what is wrong with it."""
    model = model.estimator if isinstance(model, FrozenEstimator) else model
    if not isinstance(model, HPLSA | PLSAClassifier | NaiveBayes | PathMixture):
        raise TypeError(
            f"{type(model).__name__} has no Fisher kernel here: expected HPLSA, PLSAClassifier, "
            "HPLC, PLC, HierarchicalMixture, HierarchicalShrinkage or NaiveBayes."
        )
    try:
        check_is_fitted(model)
    except NotFittedError:
        raise NotFittedError(
            f"This {type(model).__name__} is not fitted: fit it first, or have FisherMap fit it."
        ) from None
    return model


def _of_paths(model: PathMixture, live: np.ndarray) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Return P(ν | α) and P(j | ν) of a mixture along paths; the uniform node is a topic, too."""
    paths, sources = model._paths, model._sources
    path, weights = paths.path[live], model.level_weights_[live]
    below = np.full_like(path, -1)
    if sources.apart:  # a level is without the one below, so it is a topic for each of them
        below[:, 1:] = path[:, :-1]
    row, level = np.nonzero((path >= 0) & (weights[:, : paths.n_levels] > 0))
    there = np.stack([path[row, level], below[row, level]])
    pairs, topic = np.unique(there, axis=1, return_inverse=True)
    p_word = np.empty((paths.n_words, pairs.shape[1] + model._uniform))
    for t, (source, without) in enumerate(pairs.T.tolist()):
        mass = paths.of_source(source, sources.mass)
        if without >= 0:
            mass = np.maximum(mass - paths.of_source(without, sources.mass), 0.0)
        p_word[:, t] = to_shares(mass)
    p_topic = np.zeros((len(live), p_word.shape[1]))
    p_topic[row, topic.ravel()] = weights[row, level]
    if model._uniform:
        p_word[:, -1], p_topic[:, -1] = 1 / paths.n_words, weights[:, -1]
    return sparse.csr_matrix(p_topic), p_word


class _Block:
    """Some documents, and the derivatives of their likelihoods by each part of the parameters.

    `p_class` is P(α | d), and X has no words that the model has not seen; `p_word` is P(j | ν) of
    each entry of X, `p_word_in_class` P(j | α), and `r`, entries × classes, is
    P^(j | d) P(α | d) / P(j | d), or over P(j | α) for documents of one class.
    """

    def __init__(self, model: _Parameters, X: sparse.csr_matrix, p_class: np.ndarray):
        self.model, self.X, self.p_class = model, X, p_class
        self.p_word = model.p_word[X.indices]
        self.p_word_in_class = p = (model.p_topic @ self.p_word.T).T
        frequency = normalize(X, norm="l1").data[:, None]
        r = np.repeat(p_class, np.diff(X.indptr), axis=0)
        if not model.one_class:
            p = (r * p).sum(axis=1, keepdims=True)  # P(j | d)
        self.r = np.divide(frequency * r, p, out=np.zeros_like(r), where=p > 0)

    def classes(self, exact: bool, root: bool) -> sparse.csr_matrix:
        """By P(α) (G eq. 16)."""
        p = self.p_class
        if exact and self.model.one_class:
            length = np.asarray(self.X.sum(axis=1)).reshape(-1, 1)
            p = np.divide(p, length, out=np.zeros_like(p), where=length > 0)
        elif exact:
            p = self._summed(self.r * self.p_word_in_class)
        prior = self.model.p_class
        return sparse.csr_matrix(p / (np.sqrt(prior) if root else prior))

    def words(self, exact: bool, root: bool, least: float = 0.0) -> sparse.csr_matrix:
        """By P(j | ν), in which nothing is approximated.

        It is P^(j | d) P(ν | j, d) / P(j | ν): G eq. 18 has P(j | d) below the line, eq. 20 the
        right one. P(ν | j, d) / P(j | ν) is a sum over classes, also where P(j | ν) is 0.
        """
        values = (self.model.p_topic.T @ self.r.T).T
        if least:
            values = np.where(to_shares(values * self.p_word) >= least, values, 0.0)
        if root:
            values = values * np.sqrt(self.p_word)
        entry, topic = np.nonzero(values)
        n_words, n_topics = self.model.p_word.shape
        column = self.X.indices[entry].astype(np.int64) * n_topics + topic
        indptr = np.searchsorted(entry, self.X.indptr)
        shape = (self.X.shape[0], n_words * n_topics)
        return sparse.csr_matrix((values[entry, topic], column, indptr), shape)

    def levels(self, exact: bool, root: bool) -> sparse.csr_matrix:
        """By P(ν | α) (G eq. 17; eq. 22 for documents of one class, which is exact)."""
        row, topic = self.model.p_topic.nonzero()
        if exact or self.model.one_class:
            values = self._summed(self.r[:, row] * self.p_word[:, topic])
        else:
            values = self.p_class[:, row]
        return sparse.csr_matrix(values * np.sqrt(self.model.p_topic.data) if root else values)

    def features(self, part: str, exact: bool, least: float) -> sparse.csr_matrix:
        """Return vectors whose products are the part's kernel."""
        if part == "words":  # a word that a topic never has takes no column
            return self.words(exact, True, least)[:, np.flatnonzero(self.model.p_word)]
        if part == "levels" and not exact:
            # G eq. 23 has no roots. G eq. 21: P(α | d) √P(ν | α), squared, sums to P(α | d)².
            one_class = self.model.one_class
            return self.levels(exact, False) if one_class else sparse.csr_matrix(self.p_class)
        return getattr(self, part)(exact, True)

    def _summed(self, values: np.ndarray) -> np.ndarray:
        """Sum values of entries over each document."""
        n = len(values)
        there = (np.ones(n), np.arange(n), self.X.indptr)
        return sparse.csr_matrix(there, (self.X.shape[0], n)) @ values


def _features(
    model: Any, X: Any, parts: list[str], exact: bool, least: float = 0.0
) -> sparse.csr_matrix:
    rows = [
        sparse.hstack([block.features(part, exact, least) for part in parts], format="csr")
        for block in _blocks(model, X)
    ]
    return sparse.csr_matrix(sparse.vstack(rows, format="csr"))


def _blocks(model: Any, X: Any) -> Iterator[_Block]:
    """Go through documents some at a time."""
    model = _fitted(model)
    X = check_array(X, accept_sparse="csr", dtype=np.float64)
    _check_counts(X, model)
    parameters = _read(model)
    X = sparse.csr_matrix(X, copy=True)
    X.sum_duplicates()
    known = np.asarray(parameters.p_word.any(axis=1))
    X.data *= known[X.indices]
    X.eliminate_zeros()
    width = max(*parameters.p_topic.shape, parameters.p_topic.nnz)
    start = 0
    while start < X.shape[0]:
        most = X.indptr[start] + _ELEMENTS // width
        end = max(start + 1, int(np.searchsorted(X.indptr, most, side="right")) - 1)
        block = X[start:end]
        p_class = (model.transform if isinstance(model, HPLSA) else model.predict_proba)(block)
        yield _Block(parameters, block, p_class[:, parameters.live])
        start = end


def _check_parts(parts: Any) -> list[str]:
    names = [parts] if isinstance(parts, str) else list(parts)
    if not names or len(set(names)) < len(names) or not set(names) <= set(PARTS):
        raise ValueError(f"parts={parts!r}: expected some of {PARTS}, each once.")
    return names


def _check_counts(X: Any, model: Any) -> None:
    check_non_negative(X, "Fisher kernels (input X)")
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} words, but {type(model).__name__} was fitted to "
            f"{model.n_features_in_}: count both with the same WordCounter."
        )
