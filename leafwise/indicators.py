"""Labels in any form, to sparse 0/1 matrices: one row per document, one column per class.

Labels are given per document: one label (``["a/b", "c"]``), several (``[["a/b", "c"], []]``), or
a 0/1 array or sparse matrix with one column per class. What is wrong with a label is a
`LabelError`; other input that cannot be used is a plain ``ValueError``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leafwise.exceptions import LabelError

if TYPE_CHECKING:
    from scipy.sparse import csr_array


class Indicators(NamedTuple):
    """Truth and prediction over the same columns."""

    truth: csr_array
    prediction: csr_array
    classes: list[Any] | None  # the label of each column; None where matrices were given
    single: bool  # one label per document


def indicators(y_true: Any, y_pred: Any, labels: Iterable[Any] | None = None) -> Indicators:
    """Documents × classes, for truth and prediction. `labels` are the first columns."""
    given = is_matrix(y_true), is_matrix(y_pred)
    if all(given):
        truth, prediction = _binary_matrix(y_true, "y_true"), _binary_matrix(y_pred, "y_pred")
        check_same_length(truth.shape[0], prediction.shape[0])
        if truth.shape[1] != prediction.shape[1]:
            raise ValueError(
                f"y_true has {truth.shape[1]} columns, but y_pred has {prediction.shape[1]}. "
                "Give one column per class in both, in the same order."
            )
        return Indicators(truth, prediction, None, False)
    flat_true, starts_true = _flatten(y_true, "y_true") if not given[0] else ([], None)
    flat_pred, starts_pred = _flatten(y_pred, "y_pred") if not given[1] else ([], None)
    if any(given) or (starts_true is None) != (starts_pred is None):
        kinds = [
            "a 0/1 matrix" if matrix else "one label" if starts is None else "a list of labels"
            for matrix, starts in zip(given, (starts_true, starts_pred))
        ]
        raise LabelError(
            f"y_true has {kinds[0]} per document, but y_pred has {kinds[1]}. "
            "Give both in the same form."
        )
    codes = _codes(chain(() if labels is None else labels, flat_true, flat_pred))
    classes = [label for label, code in codes.items() if code >= 0]
    if labels is not None and any(map(_is_missing, labels)):
        raise LabelError("labels must name classes, but holds None or -1, which mean no label.")
    if starts_true is not None and set(classes) <= {0, 1}:
        lengths = np.diff(starts_true)
        # Read as labels, [[0, 1], [1, 0]] would be two equal documents: surely not what was meant.
        if lengths[0] > 1 and (lengths == lengths[0]).all():
            raise LabelError(
                "y_true looks like a 0/1 matrix written as lists. Make it an array: "
                "np.array(y_true), and y_pred alike."
            )
    truth = _matrix(look_up(flat_true, codes, starts_true, "y_true"), starts_true, len(classes))
    prediction = _matrix(look_up(flat_pred, codes), starts_pred, len(classes))
    check_same_length(truth.shape[0], prediction.shape[0])
    return Indicators(truth, prediction, classes, starts_true is None)


def is_matrix(y: Any) -> bool:
    """Sparse, or a two-dimensional array of numbers."""
    if getattr(y, "ndim", 1) != 2:
        return False
    return hasattr(y, "tocsr") or np.asarray(y).dtype.kind in "biuf"


def _flatten(y: Any, name: str) -> tuple[list[Any], np.ndarray | None]:
    """The labels of all documents in a row, and where each document starts (None: one each)."""
    if isinstance(y, str) or not isinstance(y, Iterable) or getattr(y, "ndim", 1) == 0:
        raise LabelError(f"{name} must hold one entry per document, but is {y!r}.")
    if getattr(y, "ndim", 1) != 1:
        raise LabelError(
            f"{name} has more than one dimension but is not a 0/1 matrix. Give one path per "
            "document (leafwise.taxonomy.join_path makes one from levels), or a list of labels."
        )
    rows = y.tolist() if hasattr(y, "tolist") else list(y)
    check_not_empty(len(rows))
    kinds = set(map(type, rows))
    collections = {k for k in kinds if issubclass(k, (list, tuple, set, frozenset, np.ndarray))}
    if not collections:
        return rows, None
    if kinds - collections - {type(None)}:
        raise LabelError(
            f"{name} has lists of labels for some documents and single labels for others. "
            "Write a single label as a list of one."
        )
    rows = [(None,) if row is None else row for row in rows]
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    flat = list(chain.from_iterable(rows))
    return flat, np.concatenate([[0], np.cumsum(lengths)])


def _codes(labels: Iterable[Any]) -> dict[Any, int]:
    """A number for each distinct label, in order of appearance; -1 for "no label"."""
    try:
        distinct = dict.fromkeys(labels)
        missing = {label for label in distinct if _is_missing(label)}
    except TypeError as error:
        raise LabelError(f"A label must be a string or an integer: {error}.") from error
    known = [label for label in distinct if label not in missing]
    by_kind = {isinstance(label, str): label for label in known}
    if len(by_kind) == 2:
        raise LabelError(
            f"Some labels are strings ({by_kind[True]!r}) and some are numbers "
            f"({by_kind[False]!r}), which never match. Give all in one kind."
        )
    return {label: code for code, label in enumerate(known)} | dict.fromkeys(missing, -1)


def _is_missing(label: Any) -> bool:
    """None, a NaN that stands for it, or scikit-learn's -1."""
    return label is None or (not isinstance(label, str) and bool(label != label or label == -1))


def look_up(
    flat: list[Any], codes: dict[Any, int], starts: np.ndarray | None = None, name: str = ""
) -> np.ndarray:
    """The code of each label; where a name is given, every label must be there."""
    column = np.fromiter(map(codes.__getitem__, flat), dtype=np.int64, count=len(flat))
    if name and (column < 0).any():
        place = int(np.argmax(column < 0))
        document = place if starts is None else np.searchsorted(starts, place, side="right") - 1
        raise LabelError(
            f"Document {document} has no label in {name} ({flat[place]!r}). "
            "Leave unlabelled documents out before scoring."
        )
    return column


def _matrix(column: np.ndarray, starts: np.ndarray | None, n_classes: int) -> csr_array:
    from scipy.sparse import csr_array

    if starts is None:
        starts = np.arange(len(column) + 1)
    known = column >= 0
    starts = np.concatenate([[0], np.cumsum(known)])[starts]
    shape = (len(starts) - 1, n_classes)
    matrix = csr_array((np.ones(known.sum(), dtype=np.int32), column[known], starts), shape=shape)
    matrix.sum_duplicates()
    return with_ones(matrix)


def _binary_matrix(y: Any, name: str) -> csr_array:
    matrix = as_csr(y)
    check_not_empty(matrix.shape[0])
    as_bool(matrix.data, name)
    return with_ones(matrix)


def as_csr(y: Any) -> csr_array:
    """A copy without repeated or zero entries."""
    from scipy.sparse import csr_array

    matrix = csr_array(y if hasattr(y, "tocsr") else np.asarray(y), copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix


def at_nodes(matrix: csr_array, nodes: np.ndarray, n_nodes: int) -> csr_array:
    """The same entries, with each class moved to the column of its node."""
    from scipy.sparse import csr_array

    entries = matrix.data, nodes[matrix.indices], matrix.indptr
    return csr_array(entries, shape=(matrix.shape[0], n_nodes))


def with_ones(matrix: csr_array) -> csr_array:
    """The matrix, with 1 for each entry."""
    # 32 bits: sums over the labels of one document must not wrap around to 0.
    matrix.data = np.ones(matrix.nnz, dtype=np.int32)
    return matrix


def one_each(y: Any, name: str) -> list[Any]:
    """The labels, where there is one per document."""
    flat, starts = _flatten(y, name)
    if starts is not None:
        raise LabelError(f"{name} must hold one label per document, but holds lists of labels.")
    return flat


def hard_indicators(y: Any, name: str) -> csr_array:
    """Indicators of exactly one label per document, over the labels that occur."""
    flat = one_each(y, name)
    codes = _codes(flat)
    return _matrix(look_up(flat, codes, name=name), None, len(codes))


# --- Checks


def as_dense(values: Any, name: str) -> np.ndarray:
    """An array of numbers."""
    array = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers, but holds {array.dtype}.")
    return array


def as_bool(values: np.ndarray, name: str) -> np.ndarray:
    """An array of 0 and 1 as booleans."""
    wrong = (values != 0) & (values != 1)
    if wrong.any():
        raise ValueError(
            f"{name} must hold only 0 and 1 in a matrix, but holds {values[wrong].flat[0]:g}."
        )
    return values.astype(bool)


def check_same_length(n: int, other: int, name: str = "y_true", other_name: str = "y_pred") -> None:
    if n != other:
        raise ValueError(
            f"{name} has {n:,} entries, but {other_name} has {other:,}. "
            "Give one for each document, in the same order."
        )


def check_not_empty(n_docs: int) -> None:
    if n_docs == 0:
        raise ValueError("There are no documents to score. Give at least one.")
