"""Which model of the family to take: held-out documents decide, and doubt favours the simpler."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from numbers import Integral, Real
from time import perf_counter
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import check_consistent_length

from leafwise.evaluation import check_classes, take_rows
from leafwise.exceptions import LabelError
from leafwise.labels import Classes, Occurrences, read_labels
from leafwise.model_evidence import METRICS, ModelSelection, behind_leader
from leafwise.models._base import BLOCK_SCORES
from leafwise.models._heldout import uniform_of_rows
from leafwise.models.mixture import HierarchicalMixture
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.models.plsa import HPLC, PLC
from leafwise.models.shrinkage import HierarchicalShrinkage
from leafwise.taxonomy import Taxonomy

__all__ = ["ModelSelection", "embedded_family", "select_model"]


def embedded_family(taxonomy: Taxonomy | None = None) -> dict[str, Any]:
    """Return the models that G 7 speaks of, simplest first, by G's names for them.

    Flat ones first, then those that use the tree; among these, level weights that are fitted come
    after those that are all alike, and documents that mix classes last. Without a node between
    the root and the classes there are only the flat ones: NB and PLC.
    """
    family: dict[str, Any] = {"NB": NaiveBayes(taxonomy), "PLC": PLC(taxonomy)}
    if taxonomy is None or taxonomy.depth.max() < 2:
        return family
    return family | {
        "HS": HierarchicalShrinkage(taxonomy),
        "HiMi": HierarchicalMixture(taxonomy, weights="uniform"),
        "HM": HierarchicalMixture(taxonomy),
        "HPLC": HPLC(taxonomy),
    }


def select_model(
    X: Any,
    y: Any,
    taxonomy: Taxonomy | None = None,
    *,
    models: Mapping[str, Any] | None = None,
    cv: int = 5,
    metric: str = "accuracy",
    margin: float = 1.0,
    random_state: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> ModelSelection:
    """Compare models on documents held out, and fit the one that they speak for (G 7).

    Each labelled document is held out once, in one of `cv` folds, the same for all models. Of the
    models whose mean is within `margin` standard errors of the highest one, the simplest is taken:
    those of paired differences, document by document (the one-standard-error rule).

    Folds have like shares of each class, and depend on what documents say and not on their order;
    copies of a document are held out together. A class that has but one document, or copies
    of one, is always learned from and never held out.

    Parameters
    ----------
    X : sparse matrix or array of word counts; for models of texts, a list of texts
    y : one label per document; those without one are passed over
    taxonomy : Taxonomy or None
        The tree of the labels. Labels become paths by it.
    models : dict of name to classifier, simplest first
        Each is cloned for each fit. None takes `embedded_family`.
    cv : int
        Number of folds.
    metric : {"accuracy", "log_proba"}
        What decides: the share of documents whose label is predicted, or the mean of log P(label).
        P below 2.2e-16 counts as 2.2e-16, as in `leafwise.metrics.log_loss`: models of words
        that do not depend on each other are far too sure of themselves on long documents.
    margin : float
        In standard errors; 0 takes the highest mean.
    random_state : int
        Which folds are made.
    on_progress : callable or None
        Called with the number of fits done and of all there will be, after each.
    """
    _validate(cv, metric, margin, random_state)
    labels = _single_labels(y)
    check_consistent_length(X, range(labels.n_documents))
    classes = Classes.of_labels(labels) if taxonomy is None else Classes.of_taxonomy(taxonomy)
    tree = None if classes.plain else classes.taxonomy
    family = embedded_family(tree) if models is None else models
    _check_models(family, metric)
    names = tuple(map(str, family))
    y = classes.names[classes.columns(labels.labels)]
    X = take_rows(X, labels.documents)
    fold, single = _folds(_keys(X, random_state), y, cv)
    held = fold >= 0
    used = np.unique(fold[held])
    evidence = {name: np.empty((len(names), len(y))) for name in METRICS}
    fit_seconds, predict_seconds = np.empty((2, len(names), len(used)))
    n_fits, total = 0, len(names) * len(used) + 1
    for k, number in enumerate(used):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        X_train, X_test = take_rows(X, train), take_rows(X, test)
        for i, estimator in enumerate(family.values()):
            started = perf_counter()
            try:
                model = clone(estimator).fit(X_train, y[train])
            except Exception as error:
                error.add_note(f"This was {names[i]!r}, fold {k}.")
                raise
            fit_seconds[i, k] = perf_counter() - started
            check_classes(model, names[i], y[test])
            started = perf_counter()
            y_pred = np.asarray(model.predict(X_test)).tolist()
            predict_seconds[i, k] = perf_counter() - started
            evidence["accuracy"][i, test] = [a == b for a, b in zip(y_pred, y[test].tolist())]
            evidence["log_proba"][i, test] = _log_proba(model, names[i], X_test, y[test])
            n_fits += 1
            if on_progress is not None:
                on_progress(n_fits, total)
    evidence = {name: scores[:, held] for name, scores in evidence.items()}
    behind, error_of_that = behind_leader(evidence[metric])
    chosen = int((behind <= margin * error_of_that).argmax())  # of the leader, 0 <= 0
    best = clone(list(family.values())[chosen]).fit(X, y)
    if on_progress is not None:
        on_progress(total, total)
    return ModelSelection(
        best=best,
        name=names[chosen],
        names=names,
        metric=metric,
        margin=margin,
        evidence=evidence,
        documents=labels.documents[held],
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        notes=tuple(_notes(labels, single, models is None and len(family) == 2)),
    )


def _keys(X: Any, seed: int) -> np.ndarray:
    """Return a number for each document that depends on what it says alone."""
    if len(X.shape) == 1 if hasattr(X, "shape") else isinstance(X[0], str):
        digests = [blake2b(f"{seed} {text}".encode(), digest_size=8).digest() for text in X]
        return np.frombuffer(b"".join(digests), np.uint64)
    counts = sparse.csr_matrix(X)
    counts.sum_duplicates()
    return uniform_of_rows(counts, seed)


def _folds(key: np.ndarray, y: np.ndarray, cv: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the fold of each document, -1 for never, and the classes with but one document.

    Each class's documents are dealt to the folds in turn, in the order of their keys, so none
    has all of them.
    """
    classes, code = np.unique(y, return_inverse=True)
    order = np.lexsort((key, code))
    new = np.ones(len(y), bool)  # not a copy of the document before
    new[1:] = (np.diff(code[order]) != 0) | (np.diff(key[order]) != 0)
    n_different = np.bincount(code[order][new], minlength=len(classes))
    fold = np.empty(len(y), np.int64)
    fold[order] = (np.cumsum(new) - 1) % cv
    fold[n_different[code] == 1] = -1
    if len(classes) < 2 or (fold < 0).all():
        raise LabelError(
            f"There are {len(classes)} classes, {(n_different > 1).sum()} of them with two or more "
            "different documents: expected two classes, and one with a document to hold out."
        )
    return fold, classes[n_different == 1]


def _log_proba(model: Any, name: str, X: Any, y: np.ndarray) -> np.ndarray:
    """Return log P(label) of each document, some at a time; NaN where the model has none."""
    p = np.full(len(y), np.nan)
    if not hasattr(model, "predict_proba"):
        return p
    column_of = {label: i for i, label in enumerate(np.asarray(model.classes_).tolist())}
    columns = np.array([column_of[label] for label in y.tolist()])
    step = max(1, BLOCK_SCORES // len(column_of))
    for start in range(0, len(y), step):
        rows = np.arange(start, min(start + step, len(y)))
        p[rows] = model.predict_proba(take_rows(X, rows))[np.arange(len(rows)), columns[rows]]
    if np.isnan(p).any():
        raise ValueError(f"{name!r} gives a label the probability NaN, expected a number.")
    return np.log(np.maximum(p, np.finfo(float).eps))


def _notes(labels: Occurrences, single: np.ndarray, flat: bool) -> Iterator[str]:
    if flat:
        yield "No node stands between the root and the classes, so there are flat models alone."
    if len(single):
        yield (
            "Classes without two different documents, learned from and never held out: "
            f"{len(single)} (such as {single[0].item()!r})."
        )
    n_unlabelled = labels.n_documents - len(labels.documents)
    if n_unlabelled:
        yield f"Documents without a label, passed over: {n_unlabelled:,}."


def _single_labels(y: Any) -> Occurrences:
    labels = read_labels(y)
    n_labels = np.bincount(labels.documents, minlength=labels.n_documents)
    if (n_labels > 1).any():
        i = int(n_labels.argmax())
        raise LabelError(
            f"Document {i} has {n_labels[i]} labels, expected one at most: models are compared by "
            "the one label that they predict. Keep one label of each, or compare "
            "MultiLabelClassifier of each model on a split of your own."
        )
    if not len(labels.documents):
        raise LabelError("No document has a label, so there is nothing to compare models by.")
    return labels


def _check_models(models: Any, metric: str) -> None:
    if not isinstance(models, Mapping) or not models:
        raise ValueError(
            f"models={models!r}: expected a dict of names and classifiers, simplest first, such as "
            '{"NB": NaiveBayes(), "PLC": PLC()}.'
        )
    for name, model in models.items():
        if isinstance(model, type) or not (hasattr(model, "fit") and hasattr(model, "predict")):
            raise TypeError(
                f"Model {name!r} is {model!r}, expected a classifier, such as NaiveBayes()."
            )
        if metric == "log_proba" and not hasattr(model, "predict_proba"):
            raise ValueError(
                f'Model {name!r} has no predict_proba, which metric="log_proba" needs. Leave it '
                'out, or take metric="accuracy".'
            )


def _validate(cv: Any, metric: Any, margin: Any, random_state: Any) -> None:
    for name, value, least in (("cv", cv, 2), ("random_state", random_state, 0)):
        if not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name}={value!r}: expected a whole number from {least} on.")
    if metric not in METRICS:
        near = difflib.get_close_matches(str(metric), METRICS, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise ValueError(f'metric={metric!r}: expected "accuracy" or "log_proba".{hint}')
    if not isinstance(margin, Real) or not 0 <= float(margin) < np.inf:
        raise ValueError(f"margin={margin!r}: expected a number of standard errors from 0 on.")
