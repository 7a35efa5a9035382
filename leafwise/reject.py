"""How good the predictions are that a classifier is surest of, when it may reject the others."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from leafwise.exceptions import LabelError
from leafwise.indicators import (
    _flatten,
    _is_missing,
    as_dense,
    check_same_length,
    indicators,
    is_matrix,
)

# 0.1 + 0.2 is a little more than 3/10. Rates of fewer than 10⁹ documents differ by more than this.
_ROUNDING = 1e-9


class RejectCurve(NamedTuple):
    """One entry per distinct confidence, ascending; made by `reject_curve`.

    Documents whose confidence is below ``threshold`` are rejected. ``reject_rate`` is their share
    of all documents, together with those that had no prediction from the start.
    """

    threshold: np.ndarray
    reject_rate: np.ndarray
    precision: np.ndarray
    recall: np.ndarray
    micro_f1: np.ndarray

    def at(self, rates: ArrayLike) -> np.ndarray:
        """Micro F1 at each rate: of the first point that rejects at least so many documents.

        `rates` are between 0 and 1. NaN where only rejecting every document would be enough.
        """
        rates = np.asarray(rates, dtype=float)
        wrong = ~((rates >= 0) & (rates <= 1))
        if wrong.any():
            raise ValueError(
                f"A reject rate must be between 0 and 1 (0.1 rejects a tenth of the documents), "
                f"but one is {rates[wrong].flat[0]:g}."
            )
        first = np.searchsorted(self.reject_rate, rates - _ROUNDING)
        return np.append(self.micro_f1, np.nan)[first]


def reject_curve(y_true: Any, y_pred: Any, confidence: Any) -> RejectCurve:
    """Precision, recall and micro F1 when the least confident predictions are rejected (V 3.4).

    A rejected document costs recall, not precision. Documents of equal confidence are rejected
    together. At the first point only those without a prediction are rejected, so that ``micro_f1``
    is that of `scores`; where there are none, and one label per document, it is the accuracy.

    Parameters
    ----------
    y_true : one label per document, a collection of labels per document, or a 0/1 matrix
        A document with ``None`` (``-1`` among integers) does not count.
    y_pred : one label per document
        Or a 0/1 matrix with at most one 1 per row, where `y_true` is a matrix. ``None`` or ``-1``:
        the document is rejected at every threshold, and its confidence is not looked at.
    confidence : array, one per document
        Higher means surer. Infinite values are allowed.

    Returns
    -------
    RejectCurve
        Rejecting everything is not among its points: nothing is left to be precise about. Where no
        document has a prediction there is no point at all.
    """
    confidence = as_dense(confidence, "confidence")
    if confidence.ndim != 1:
        raise ValueError(
            f"confidence must hold one number per document, but has shape {confidence.shape}. "
            "Give the probability of the predicted class: proba.max(axis=1)."
        )
    if is_matrix(y_true) or is_matrix(y_pred):
        truth, prediction, _, _ = indicators(y_true, y_pred)
        counted = np.ones(truth.shape[0], dtype=bool)
    else:
        (true_rows, unlabelled), (rows, _) = _rows(y_true, "y_true"), _rows(y_pred, "y_pred")
        check_same_length(len(true_rows), len(rows))
        counted = ~unlabelled
        truth, prediction, _, _ = indicators(true_rows, rows)
    check_same_length(len(counted), len(confidence), "y_true", "confidence")
    if not counted.any():
        raise ValueError("No document has a label in y_true, so there is nothing to score.")
    n_pred = np.diff(prediction.indptr)
    if n_pred.max() > 1:
        document = int(np.argmax(n_pred > 1))
        raise LabelError(
            f"Document {document} has {n_pred[document]} labels in y_pred, but is accepted or "
            "rejected as a whole. Give one label per document, or None."
        )
    accepted = counted & (n_pred == 1)
    if np.isnan(confidence[accepted]).any():
        document = int(np.argmax(accepted & np.isnan(confidence)))
        raise ValueError(
            f"The confidence of document {document} is NaN, which has no rank. Give every "
            "prediction a number (-inf rejects it first)."
        )
    right = np.diff(truth.multiply(prediction).tocsr().indptr)[accepted]
    threshold, point = np.unique(confidence[accepted], return_inverse=True)
    # What is accepted at a point is all that is accepted only there or later.
    n_accepted, n_right = (
        np.bincount(point, weights=n, minlength=len(threshold))[::-1].cumsum()[::-1]
        for n in (np.ones(len(point)), right)
    )
    n_docs, n_true = counted.sum(), truth.nnz
    return RejectCurve(
        threshold,
        (n_docs - n_accepted) / n_docs,
        n_right / n_accepted,
        n_right / max(n_true, 1),
        2 * n_right / (n_true + n_accepted),
    )


def _rows(y: Any, name: str) -> tuple[list[list[Any]], np.ndarray]:
    """The labels of each document, and which documents have None in their place."""
    flat, starts = _flatten(y, name)
    ends = range(len(flat) + 1) if starts is None else starts.tolist()
    rows = [flat[a:b] for a, b in pairwise(ends)]
    missing = [len(row) == 1 and _is_missing(row[0]) for row in rows]
    return [[] if no else row for row, no in zip(rows, missing)], np.array(missing)
