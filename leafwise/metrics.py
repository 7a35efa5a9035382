"""How good a prediction is: flat, hierarchical, ranked, clustered, calibrated, significant.

Labels come in any form that `indicators` reads: one per document, several, or a 0/1 matrix.
Everything is computed from two sparse indicator matrices over the same columns, the truth's and
the prediction's.

A prediction of ``None`` (``-1`` among integers) is a document that the classifier refused: it
counts against recall and accuracy, not against precision (V 3.4). A ratio 0/0 is 0.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leafwise.exceptions import LabelError
from leafwise.indicators import (
    as_bool,
    as_csr,
    as_dense,
    at_nodes,
    check_not_empty,
    check_same_length,
    hard_indicators,
    indicators,
    is_matrix,
    look_up,
    one_each,
    with_ones,
)
from leafwise.reject import RejectCurve, reject_curve

if TYPE_CHECKING:
    from leafwise.taxonomy import Taxonomy

__all__ = [
    "PairedTTest",
    "RejectCurve",
    "ReliabilityCurve",
    "break_even",
    "brier_score",
    "expected_calibration_error",
    "gini_impurity",
    "hierarchical_scores",
    "log_loss",
    "micro_break_even",
    "paired_t_test",
    "reject_curve",
    "reliability_curve",
    "scores",
]

# Rows of probabilities may be off by this much: enough for float32, too little to hide a mistake.
_SUM_TOLERANCE = 1e-4
_NAMES = "precision", "recall", "f1"


class ReliabilityCurve(NamedTuple):
    """One entry per confidence bin; an empty bin has 0 documents and NaN in the other two."""

    mean_confidence: np.ndarray
    accuracy: np.ndarray
    n_docs: np.ndarray

    @property
    def error(self) -> float:
        """Mean over documents of |accuracy − mean confidence| of their bin."""
        gap = np.abs(self.accuracy - self.mean_confidence)
        return float(np.nansum(gap * self.n_docs) / self.n_docs.sum())

    @property
    def error_by_chance(self) -> float:
        """The error to expect of so few documents where every probability is right.

        How many of a bin's n documents are right is then binomial, and off by 2 ν (1 − p) P(ν) on
        average, where ν is the first number above n p (de Moivre).
        """
        from scipy.stats import binom

        there = self.n_docs > 0
        n, p = self.n_docs[there], self.mean_confidence[there]
        first = np.floor(n * p) + 1
        return float((2 * first * (1 - p) * binom.pmf(first, n, p)).sum() / n.sum())


class PairedTTest(NamedTuple):
    """Outcome of `paired_t_test`; ``symbol`` is E table 3's ``<<``, ``>>`` or ``≈``."""

    statistic: float
    p_value: float
    df: int
    mean_difference: float
    symbol: str


# --- Classification


def scores(y_true: Any, y_pred: Any, labels: Sequence[Any] | None = None) -> dict[str, float]:
    """Micro and macro precision, recall and F1, and accuracy (T table 4).

    Parameters
    ----------
    y_true, y_pred : one label per document, a collection of labels per document, or 0/1 matrices
        Both of the same kind. ``None`` or ``-1`` in `y_pred`: no prediction for that document.
    labels : sequence, optional
        The classes that precision, recall, F1 and ``binary_accuracy`` are taken over; column
        numbers where the input is a matrix. Default: every class that occurs in `y_true` or
        `y_pred`, and every column of a matrix. ``accuracy`` always looks at all classes.

    Returns
    -------
    dict
        ``micro_*``: from the counts of all classes together. ``macro_*``: plain means over the
        classes of the per-class values, in which a class absent from both truth and prediction
        counts as 0 (it can only come in by `labels` or as a matrix column). ``accuracy``: the
        fraction of documents whose labels are all right, and no others given.
        ``binary_accuracy``: the fraction right of all document × class decisions, T's *acc*.
    """
    truth, prediction, classes, _ = indicators(y_true, y_pred, labels)
    common = truth.multiply(prediction).tocsr()
    matrices = truth, prediction, common
    per_class = [np.bincount(m.indices, minlength=m.shape[1]) for m in matrices]
    if labels is not None:
        columns = _columns(labels, truth.shape[1]) if classes is None else slice(len(set(labels)))
        per_class = [n[columns] for n in per_class]
    n_true, n_pred, n_right = per_class
    macro = [_ratio(v.sum(), v.size) for v in _precision_recall_f1(n_true, n_pred, n_right)]
    micro = _precision_recall_f1(n_true.sum(), n_pred.sum(), n_right.sum())
    n_decisions = truth.shape[0] * n_true.size
    n_errors = (n_true + n_pred - 2 * n_right).sum()
    sizes = [np.diff(m.indptr) for m in matrices]
    exact = (sizes[0] == sizes[2]) & (sizes[1] == sizes[2])
    return {
        **{f"micro_{name}": float(v) for name, v in zip(_NAMES, micro)},
        **{f"macro_{name}": float(v) for name, v in zip(_NAMES, macro)},
        "accuracy": float(exact.mean()),
        "binary_accuracy": float(_ratio(n_decisions - n_errors, n_decisions)),
    }


def hierarchical_scores(y_true: Any, y_pred: Any, taxonomy: Taxonomy) -> dict[str, float]:
    """Precision, recall and F1 that give credit for shared ancestors, and the tree distance.

    Each document's labels are extended by all their ancestors, without the root, before truth and
    prediction are compared. A document without prediction stands at the root.

    Parameters
    ----------
    y_true, y_pred : as for `scores`
        Labels are paths or unique names of nodes; a matrix has one column per node.
    taxonomy : Taxonomy

    Returns
    -------
    dict
        ``hierarchical_precision``, ``hierarchical_recall``, ``hierarchical_f1``: from the counts
        of all documents together. ``document_precision``, ``document_recall``, ``document_f1``:
        the same for each document, then averaged; where truth and prediction are both the root
        (or empty) a document has 1. ``lca_distance``: mean number of edges from truth to
        prediction through their lowest common ancestor; only for one label per document.
    """
    truth, prediction, classes, single = indicators(y_true, y_pred)
    if classes is None and truth.shape[1] != len(taxonomy):
        raise ValueError(
            f"The matrices have {truth.shape[1]} columns, but the taxonomy has {len(taxonomy)} "
            "nodes. Give one column per node, the root first, in the order of taxonomy.paths."
        )
    labels = range(len(taxonomy)) if classes is None else map(taxonomy.index, classes)
    nodes = np.fromiter(labels, dtype=np.intp)
    truth, prediction = (at_nodes(matrix, nodes, len(taxonomy)) for matrix in (truth, prediction))
    extended = [with_ones(matrix @ taxonomy.closure) for matrix in (truth, prediction)]
    common = extended[0].multiply(extended[1]).tocsr()
    n_true, n_pred, n_right = (np.diff(matrix.indptr) for matrix in (*extended, common))
    micro = _precision_recall_f1(n_true.sum(), n_pred.sum(), n_right.sum())
    nothing = (n_true == 0) & (n_pred == 0)
    document = [np.where(nothing, 1, v) for v in _precision_recall_f1(n_true, n_pred, n_right)]
    result = {f"hierarchical_{name}": float(v) for name, v in zip(_NAMES, micro)}
    result |= {f"document_{name}": float(v.mean()) for name, v in zip(_NAMES, document)}
    if single:
        at = np.zeros(prediction.shape[0], dtype=nodes.dtype)  # the root, where none is predicted
        at[np.diff(prediction.indptr) == 1] = prediction.indices
        result["lca_distance"] = float(np.mean(taxonomy.distance(truth.indices, at)))
    return result


# --- Ranking


def break_even(y_true_binary: Any, score: Any) -> float:
    """Precision–recall break-even point of a ranking (E 5.3.1, eq. 18–19).

    Precision and recall have the same numerator, so they are equal where as many documents are
    called positive as are positive. Where that cut falls among tied scores, the value is the
    expectation over all orders of the tied documents: their order in the input changes nothing.

    Parameters
    ----------
    y_true_binary : array of 0 and 1, one per document
    score : array, one per document
        Higher means more likely positive. Infinite scores are allowed.

    Returns
    -------
    float
        NaN, without a warning, where no document is positive: precision and recall never meet.
    """
    truth, score = as_dense(y_true_binary, "y_true_binary"), as_dense(score, "score")
    if truth.ndim != 1 or score.ndim != 1:
        raise ValueError(
            f"break_even ranks one class, but y_true_binary has {truth.ndim} dimensions and score "
            f"{score.ndim}. For one column per class use micro_break_even."
        )
    check_same_length(len(truth), len(score), "y_true_binary", "score")
    return float(_break_even(truth[:, None], score[:, None])[0][0])


def micro_break_even(Y_true: Any, scores: Any) -> float:
    """Mean of the classes' break-even points, weighted by class size (E 5.3.1, E table 2).

    Parameters
    ----------
    Y_true : 0/1 array or sparse matrix, documents × classes
    scores : array, documents × classes

    Returns
    -------
    float
        Classes without a positive document are left out; NaN where there is no other.
    """
    points, n_positive = _break_even(as_dense(Y_true, "Y_true"), as_dense(scores, "scores"))
    if not n_positive.any():
        return float("nan")
    return float(np.nansum(points * n_positive) / n_positive.sum())


def _break_even(truth: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Break-even point and number of positives of each column."""
    if truth.shape != score.shape or truth.ndim != 2:
        raise ValueError(
            f"The truth has shape {truth.shape} and the scores {score.shape}. "
            "Give one row per document and one column per class in both."
        )
    check_not_empty(len(truth))
    if np.isnan(score).any():
        row, column = np.argwhere(np.isnan(score))[0]
        raise ValueError(
            f"The score of document {row} for class {column} is NaN, which has no rank. "
            "Give every document a number (-inf puts it last)."
        )
    truth = as_bool(truth, "The truth")
    n_positive = truth.sum(axis=0)
    # The score of the last document above the cut; its whole tie group shares the open places.
    cut = np.sort(score, axis=0)[len(score) - np.maximum(n_positive, 1), np.arange(score.shape[1])]
    above, tied = score > cut, score == cut
    places = n_positive - above.sum(axis=0)
    expected = (above & truth).sum(axis=0) + (tied & truth).sum(axis=0) * places / tied.sum(axis=0)
    return _ratio(expected, n_positive, np.nan), n_positive


# --- Clustering


def gini_impurity(labels: Any, clusters: Any, *, weighted: bool = False) -> tuple[float, float]:
    """Gini impurity between labels and clusters, both ways (G 6.1). 0 is best, 1 the bound.

    Parameters
    ----------
    labels : one label per document
    clusters : one cluster per document, or a matrix P(cluster | document)
        A matrix is documents × clusters, dense or sparse, with rows that sum to one.
    weighted : bool
        Whether a label or cluster counts by its documents. G counts all alike, so that clusters of
        a document or two, each of them pure, make up for one that has all others.

    Returns
    -------
    (G_l, G_alpha)
        How far each label is spread over clusters, and each cluster over labels; means over labels
        and over clusters. A cluster that no document has any share in is not counted.
    """
    by_label = hard_indicators(labels, "labels")
    if is_matrix(clusters):
        shares = as_csr(clusters)
        _check_probabilities(shares, "clusters")
    else:
        shares = hard_indicators(clusters, "clusters")
    check_same_length(by_label.shape[0], shares.shape[0], "labels", "clusters")
    mass = (by_label.T @ shares).toarray().astype(float)
    return _gini(mass, weighted), _gini(mass.T, weighted)


def _gini(mass: np.ndarray, weighted: bool) -> float:
    total = mass.sum(axis=1)
    p = mass[total > 0] / total[total > 0, None]
    # G 6.1: the sum of P(a)P(a') over a' != a is P(a)(1 - P(a)), summed over a.
    each = (p * (1 - p)).sum(axis=1)
    return float(np.average(each, weights=total[total > 0] if weighted else None))


# --- Probabilities


def log_loss(y_true: Any, proba: Any, classes: Sequence[Any] | np.ndarray) -> float:
    """Mean of −ln P(true class). A probability below 2.2e-16 counts as 2.2e-16, so it is finite.

    Parameters
    ----------
    y_true : one label per document
    proba : array, documents × classes; rows sum to one
    classes : the label of each column
    """
    column, proba = _probabilities(y_true, proba, classes)
    p_true = proba[np.arange(len(column)), column].astype(float)
    return float(0.0 - np.log(np.maximum(p_true, np.finfo(float).eps)).mean())


def brier_score(y_true: Any, proba: Any, classes: Sequence[Any] | np.ndarray) -> float:
    """Mean over documents of Σ_c (P(c) − [c is true])², from 0 to 2.

    With two classes it is twice the one-column form that some tools report. Parameters as for
    `log_loss`.
    """
    column, proba = _probabilities(y_true, proba, classes)
    p_true = proba[np.arange(len(column)), column].astype(float)
    squares = np.einsum("ij,ij->i", proba, proba, dtype=float)
    # Multiplied out, to need no copy; rounding must not make a perfect score negative.
    return max(0.0, float((squares - 2 * p_true + 1).mean()))


def reliability_curve(
    y_true: Any, proba: Any, classes: Sequence[Any] | np.ndarray, n_bins: int = 15
) -> ReliabilityCurve:
    """Accuracy of the most probable class against its probability, in bins of equal width.

    Bin m holds the confidences in ((m−1)/n_bins, m/n_bins]. Parameters as for `log_loss`.
    """
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, but is {n_bins}.")
    column, proba = _probabilities(y_true, proba, classes)
    confidence = proba.max(axis=1).astype(float)
    right = proba.argmax(axis=1) == column
    bins = np.searchsorted(np.arange(1, n_bins) / n_bins, confidence, side="left")
    n_docs = np.bincount(bins, minlength=n_bins)
    sums = [np.bincount(bins, weights=values, minlength=n_bins) for values in (confidence, right)]
    return ReliabilityCurve(
        _ratio(sums[0], n_docs, np.nan), _ratio(sums[1], n_docs, np.nan), n_docs
    )


def expected_calibration_error(
    y_true: Any, proba: Any, classes: Sequence[Any] | np.ndarray, n_bins: int = 15
) -> float:
    """Mean over documents of |accuracy − mean confidence| of their bin in `reliability_curve`.

    It is above 0 where documents are few: the curve's `error_by_chance` says how far.
    """
    return reliability_curve(y_true, proba, classes, n_bins).error


# --- Significance


def paired_t_test(
    x: Any, y: Any, *, test_fraction: float | None = None, alpha: float = 0.05
) -> PairedTTest:
    """Do two systems differ, over categories (E 5.3.4, eq. 20) or over folds?

    Parameters
    ----------
    x, y : scores of the two systems, in the same order of categories or folds
    test_fraction : float, optional
        Give it where the pairs are folds or repeated random splits: the part of the documents that
        was tested on, such as 0.1 for ten folds. Training sets then overlap, and the variance of
        the mean is corrected from s²/n to s²(1/n + f/(1−f)) (Nadeau and Bengio 2003).
    alpha : float
        Two-sided level for ``symbol``.

    Returns
    -------
    PairedTTest
        ``>>``: x is significantly greater; ``<<``: less; ``≈``: not distinguishable. Differences
        that are all 0 give statistic 0 and p-value 1; all equal but not 0, ±inf and 0. A pair
        that differs only by rounding (a relative 1e-12) differs by 0.
    """
    from scipy.special import stdtr

    x, y = as_dense(x, "x").astype(float), as_dense(y, "y").astype(float)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(
            f"x and y must be one-dimensional, but have shapes {x.shape} and {y.shape}. "
            "Give one score per category or fold."
        )
    check_same_length(len(x), len(y), "x", "y")
    if len(x) < 2:
        raise ValueError(f"A paired t-test needs at least 2 pairs of scores, but got {len(x)}.")
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.all():
        pair = int(np.argmin(finite))
        raise ValueError(
            f"Pair {pair} is ({x[pair]:g}, {y[pair]:g}), but every score must be a finite number. "
            "Leave out categories without a score, such as those without positive documents."
        )
    if test_fraction is not None and not 0 < test_fraction < 1:
        raise ValueError(
            f"test_fraction is the part of the documents tested on, between 0 and 1 (0.1 for ten "
            f"folds), but is {test_fraction}."
        )
    difference = np.where(np.isclose(x, y, rtol=1e-12, atol=0), 0.0, x - y)
    n, mean = len(difference), float(difference.mean())
    overlap = 0.0 if test_fraction is None else test_fraction / (1 - test_fraction)
    # Equal differences have no variance, though their mean may miss them by rounding.
    spread = 0.0 if np.all(difference == difference[0]) else difference.std(ddof=1)
    statistic = float(np.copysign(np.inf, mean)) if mean else 0.0
    if spread > 0:
        statistic = float(mean / (spread * np.sqrt(1 / n + overlap)))
    p_value = float(2 * stdtr(n - 1, -abs(statistic)))
    symbol = "≈" if p_value >= alpha else ">>" if mean > 0 else "<<"
    return PairedTTest(statistic, p_value, n - 1, mean, symbol)


# --- Arithmetic and probabilities


def _ratio(numerator: Any, denominator: Any, otherwise: float = 0.0) -> np.ndarray:
    """Quotient, and what to take where the denominator is 0."""
    out = np.full(np.shape(denominator), otherwise)
    return np.divide(numerator, denominator, out=out, where=np.asarray(denominator) != 0)


def _precision_recall_f1(n_true: Any, n_pred: Any, n_right: Any) -> list[np.ndarray]:
    """From counts of true, predicted and rightly predicted labels."""
    return [
        _ratio(n_right, n_pred),
        _ratio(n_right, n_true),
        _ratio(2 * n_right, n_true + n_pred),
    ]


def _columns(labels: Sequence[Any], n_classes: int) -> np.ndarray:
    columns = np.asarray(list(dict.fromkeys(labels)))
    if columns.dtype.kind not in "iu" or (columns < 0).any() or (columns >= n_classes).any():
        raise LabelError(
            f"labels must be column numbers from 0 to {n_classes - 1} where matrices are scored, "
            f"but are {list(labels)!r}."
        )
    return columns


def _probabilities(
    y_true: Any, proba: Any, classes: Sequence[Any] | np.ndarray
) -> tuple[np.ndarray, Any]:
    """The column of each document's true class, and the checked probabilities."""
    flat = one_each(y_true, "y_true")
    proba, columns = as_dense(proba, "proba"), {label: i for i, label in enumerate(classes)}
    if len(columns) != len(classes):
        raise LabelError("classes names the same class twice. Give one label per column.")
    if proba.ndim != 2 or proba.shape[1] != len(classes):
        raise ValueError(
            f"proba must have one column for each of the {len(classes)} classes, "
            f"but has shape {proba.shape}."
        )
    check_same_length(len(flat), len(proba), "y_true", "proba")
    _check_probabilities(proba, "proba")
    for label in dict.fromkeys(flat):
        if label not in columns:
            near = difflib.get_close_matches(str(label), map(str, classes), n=1)
            raise LabelError(
                f'The true label "{label}" of document {flat.index(label)} is not among the '
                f"{len(classes)} classes." + (f' Did you mean "{near[0]}"?' if near else "")
            )
    return look_up(flat, columns), proba


def _check_probabilities(p: Any, name: str) -> None:
    is_sparse = hasattr(p, "indptr")
    values = p.data if is_sparse else p.ravel()
    bad = ~(values >= 0)  # true for NaN as well
    if bad.any():
        k = int(np.argmax(bad))
        document = np.searchsorted(p.indptr, k, side="right") - 1 if is_sparse else k // p.shape[1]
        raise ValueError(
            f"{name} has {values[k]:g} for document {document}, which is no probability. "
            "Give numbers from 0 to 1."
        )
    total = np.asarray(p.sum(axis=1, dtype=float))
    off = np.abs(total - 1) > _SUM_TOLERANCE
    if off.any():
        document = int(np.argmax(off))
        raise ValueError(
            f"The probabilities of document {document} in {name} sum to {total[document]:g}, "
            "not 1. Divide each row by its sum."
        )
