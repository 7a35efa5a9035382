"""Labels in: whatever form they come in, to one row of weights per document.

A label is a path, a node's name where only one node has it, or an integer. Without a taxonomy the
labels themselves are the classes. Unlabelled documents are ``None`` (or "", NaN, or a column's own
missing value), and -1 among integers, which is scikit-learn's own convention; only where -1 and 1
are all there is, both are classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from leafwise.exceptions import LabelError
from leafwise.taxonomy import Taxonomy, join_path

SEVERAL = list | tuple | set | frozenset  # what holds a document's labels, where it has several


class Occurrences(NamedTuple):
    """All labels of all documents, one after the other, and whose each is."""

    labels: np.ndarray
    documents: np.ndarray
    n_documents: int
    are_paths: bool  # made from levels, so they speak of a tree


def read_labels(y: Any, classes: Classes | None = None) -> Occurrences:
    """Take `y` apart.

    Parameters
    ----------
    y : array-like
        One label per document; or a list of lists, several labels per document; or an array of
        two dimensions (an array, not a list) with a level of the tree in each column, as hiclass
        has it.
    classes : Classes or None
        What the labels will be looked up in, where that is known already.
    """
    if y is None:
        raise ValueError(
            "fit requires y to be passed, but the target y is None. "
            "Expected a label per document, None where it is unknown."
        )
    y = _as_lists(_of_one_column(list(y) if isinstance(y, Iterator) else y))
    if _is_nested(y):
        y = [() if is_missing(several) else several for several in y]
        labels = _as_array([label for several in y for label in several])
        documents = np.repeat(np.arange(len(y)), [len(several) for several in y])
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            raise LabelError(
                "A list of labels has NaN in it: expected labels, or an empty list for a document "
                "without a label."
            )
        return Occurrences(labels, documents, len(y), False)
    if isinstance(y, list | tuple) and _any_is(y, str):
        y = np.array(y, dtype=object)  # numpy would make strings of numbers among them
    y = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    if y.ndim == 2 and y.shape[1] > 1:
        if y.dtype.kind in "biuf" and np.isin(y, (0, 1)).all():
            raise LabelError(
                f"y is an array of 0 and 1 with {y.shape[1]} columns. Give a list of labels for "
                "each document; MultiLabelClassifier takes such an array as it is."
            )
        paths = [join_path(str(name) for name in row if not is_missing(name)) for row in y]
        documents = np.array([i for i, path in enumerate(paths) if path], np.int64)
        return Occurrences(_as_array([p for p in paths if p]), documents, len(y), True)
    y = column_or_1d(y, warn=True)
    documents = np.flatnonzero(~_missing(y))
    labels = y[documents]
    if y.dtype.kind in "OS":
        labels = _as_array(labels.tolist())
    if labels.dtype.kind == "f" and len(labels) < len(y) and _are_whole(labels):
        labels = labels.astype(np.int64)  # what they were, before some were missing
    if labels.dtype.kind == "i" and not _minus_one_is_a_class(labels, classes):
        documents, labels = documents[labels != -1], labels[labels != -1]
    if labels.dtype.kind == "f":
        check_classification_targets(labels)  # numbers to be predicted, rather than classes
    return Occurrences(labels, documents, len(y), False)


def _of_one_column(y: Any) -> Any:
    """Take the column of a data frame that has only one."""
    is_frame = hasattr(y, "columns") and hasattr(y, "to_numpy")
    return y[y.columns[0]] if is_frame and y.shape[1] == 1 else y


def _as_lists(y: Any) -> Any:
    """Make a list of a column or array whose cells hold several labels each."""
    if not (hasattr(y, "to_list") or (isinstance(y, np.ndarray) and y.dtype.kind == "O")):
        return y
    if getattr(y, "ndim", 1) != 1:
        return y
    rows = y.to_list() if hasattr(y, "to_list") else list(y)
    rows = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
    if _any_is(rows, SEVERAL):
        return rows
    # A column of integers, of which some are missing, would become one of floats.
    return np.array(rows, dtype=object) if any(map(is_missing, rows)) else y


def of_no_class(y: Any, n_documents: int) -> np.ndarray:
    """Say which documents are known to be of no class: among lists of labels, the empty ones."""
    if not _is_nested(y):
        return np.zeros(n_documents, bool)
    return np.array([isinstance(row, SEVERAL) and not len(row) for row in y], bool)


def _minus_one_is_a_class(y: np.ndarray, classes: Classes | None) -> bool:
    if classes is None:
        return bool(np.isin(y, (-1, 1)).all() and (y == 1).any())
    return classes.plain and -1 in classes.names


def _any_is(y: Any, types: Any) -> bool:
    # By the few types that there are: labels are many.
    return any(issubclass(one, types) for one in set(map(type, y)))


def _is_nested(y: Any) -> bool:
    if not isinstance(y, list | tuple) or not _any_is(y, SEVERAL):
        return False
    for i, row in enumerate(y):
        if not (isinstance(row, SEVERAL) or is_missing(row)):
            raise LabelError(
                f"Document {i} has the label {row!r}, others have lists: expected a list of labels "
                "for every document, or one label for every document."
            )
    return True


def is_missing(label: Any) -> bool:
    if label is None or type(label).__name__ == "NAType":  # pandas' own, which compares to nothing
        return True
    return isinstance(label, str | float) and (label == "" or label != label)


def _missing(y: np.ndarray) -> np.ndarray:
    if y.dtype.kind == "O":
        missing = np.array([label is None for label in y], bool)
        rest = np.flatnonzero(~missing)
        missing[rest] = [is_missing(label) for label in y[rest]]
        return missing
    if y.dtype.kind == "f":
        return np.isnan(y)
    return y == "" if y.dtype.kind == "U" else np.zeros(len(y), bool)


def _are_whole(numbers: np.ndarray) -> bool:
    return bool(((numbers == np.trunc(numbers)) & (np.abs(numbers) < 2**53)).all())


def _as_array(labels: list) -> np.ndarray:
    if any(label is None for label in labels):
        raise LabelError("A list of labels has None in it: expected labels, or an empty list.")
    if _any_is(labels, bytes):
        odd = next(label for label in labels if isinstance(label, bytes))
        raise LabelError(f"Label {odd!r} is bytes, expected a string: label.decode() makes one.")
    array = np.array(labels)
    if array.ndim != 1:
        raise LabelError(f"Expected a label or a list of labels per document, got {labels[0]!r}.")
    if array.dtype.kind == "U" and not all(isinstance(label, str) for label in labels):
        odd = next(label for label in labels if not isinstance(label, str))
        raise LabelError(f"Labels are strings or integers, not both: {odd!r} is among strings.")
    return array


class Classes(NamedTuple):
    """What a model's columns stand for: nodes of a tree, under the names that `predict` gives."""

    taxonomy: Taxonomy
    nodes: np.ndarray
    names: np.ndarray
    plain: bool  # the names are the labels themselves: a flat tree made from them

    @classmethod
    def of_labels(cls, labels: Occurrences) -> Classes:
        """Make a flat tree of the labels, or where they are levels the tree that they speak of."""
        names = np.unique(labels.labels)
        if labels.are_paths:
            return cls.of_taxonomy(Taxonomy.from_paths(names.tolist()))
        if not len(names):
            raise ValueError(
                "No document has a label, and there is no taxonomy to take nodes from."
            )
        parent = [-1] + [0] * len(names)
        tree = Taxonomy(["", *map(str, names.tolist())], parent)
        return cls(tree, np.arange(1, len(parent)), names, True)

    @classmethod
    def of_taxonomy(cls, taxonomy: Taxonomy, nodes: Any = "all") -> Classes:
        """Take all nodes of a tree, its leaves, or those that are listed."""
        if not isinstance(taxonomy, Taxonomy):
            raise TypeError(
                f"taxonomy is a {type(taxonomy).__name__}, expected a leafwise.Taxonomy. "
                "Taxonomy.load reads one from a file, Taxonomy.from_dict makes one of a dict."
            )
        return cls.of_nodes(taxonomy, _chosen_nodes(taxonomy, nodes))

    @classmethod
    def of_nodes(cls, taxonomy: Taxonomy, nodes: np.ndarray) -> Classes:
        """Take these nodes, sorted by path: scikit-learn's scorers count on sorted classes."""
        paths = np.array(taxonomy.paths)[nodes]
        order = np.argsort(paths)
        return cls(taxonomy, nodes[order], paths[order], False)

    def membership(self, labels: Occurrences, unseen: bool = False) -> sparse.csr_matrix:
        """Return documents × columns: the weights of each document's labels.

        A document with several labels belongs to each in equal fractions (T 3.2.1); one without
        a label has an empty row. See `columns` for `unseen`.
        """
        columns = self.columns(labels.labels, unseen)
        n_labels = np.bincount(labels.documents, minlength=labels.n_documents)
        share = 1.0 / n_labels[labels.documents]
        shape = (labels.n_documents, max(len(self.nodes), columns.max(initial=-1) + 1))
        return sparse.csr_matrix((share, (labels.documents, columns)), shape)

    def columns(self, labels: np.ndarray, unseen: bool = False) -> np.ndarray:
        """Return the column of each label.

        With `unseen`, labels and nodes that are no class have a column each after those of the
        classes; else they are refused. What is no node of a tree is refused always.
        """
        if not len(labels):
            return np.empty(0, np.int64)
        distinct, inverse = np.unique(labels, return_inverse=True)
        if self.plain:
            columns = np.searchsorted(self.names, distinct)
            columns[columns == len(self.names)] = 0
            missing = self.names[columns] != distinct
        else:
            if distinct.dtype.kind in "iu":
                nodes = distinct
                if nodes.min() < 0 or nodes.max() >= len(self.taxonomy):
                    raise LabelError(
                        f"Labels are node numbers from {nodes.min()} to {nodes.max()}, expected 0 "
                        f"to {len(self.taxonomy) - 1}, or -1 for a document without a label."
                    )
            else:
                nodes = np.array([self.taxonomy.index(label) for label in distinct.tolist()])
            column_of_node = np.full(len(self.taxonomy), -1)
            column_of_node[self.nodes] = np.arange(len(self.nodes))
            columns = column_of_node[nodes]
            missing = columns < 0
        if unseen:
            columns[missing] = len(self.nodes) + np.arange(np.count_nonzero(missing))
        elif missing.any():
            raise LabelError(
                f"Label {distinct[missing][0].item()!r} is not among the {len(self.names)} classes "
                "of this model. They are the taxonomy's nodes, or those given as `nodes`; without "
                "a taxonomy, those of the first call of fit or partial_fit."
            )
        return columns[inverse]


def _chosen_nodes(taxonomy: Taxonomy, nodes: str | Sequence[Any]) -> np.ndarray:
    if isinstance(nodes, str):
        if nodes == "all":
            return np.arange(len(taxonomy))
        if nodes == "leaves":
            return np.asarray(taxonomy.leaves, np.int64)
        raise ValueError(f'nodes={nodes!r}: expected "all", "leaves" or a list of paths.')
    if not len(nodes):
        raise ValueError("nodes is empty: expected the nodes that can be predicted.")
    return np.unique(taxonomy.indices(nodes))
