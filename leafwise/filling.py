"""What `classify` and `grow` write beside each document: its node, how sure, and the next two."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from leafwise.corpus import Batch, Corpus
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier
    from leafwise.streams import Portion

ADDED = ["probability", "label_2", "probability_2", "label_3", "probability_3", "labelled_by"]


def columns_of(corpus: Corpus, label: str | None, several: bool) -> list[str]:
    """Name the columns that are filled in; `several` says that documents get several labels."""
    # A column called labels is read as several, with ; between them.
    return [corpus.label_column or label or ("labels" if several else "label"), *ADDED]


def by_model(model: TaxonomyClassifier, corpus: Corpus, batch: Batch) -> list[list]:
    """Return the columns that are filled in: labels and those of `ADDED`. What was given is kept.

    The label is what `predict` says: several where the model finds several, none where it is not
    sure enough. The candidates are the likeliest other nodes.
    """
    from leafwise.models._base import top_of

    tree = model.taxonomy_
    lists = holds_lists(corpus, batch)
    decided, proba = model._decided_with_proba(batch.texts)  # which counts the words once
    said = _said(model, decided, proba)
    most = max(max(map(len, batch.labels)), max(len(labels) for labels, _ in said))
    classes, probabilities = top_of(proba, model.classes_.astype(object), most + 2)
    columns: list[list] = []
    for nodes, sure in zip(classes.T[:3].tolist(), probabilities.T[:3].tolist()):
        columns += [nodes, list(map(_rounded, sure))]
    while len(columns) < len(ADDED):  # of fewer than three classes
        columns.append([None] * len(batch.texts))
    columns.append(["model"] * len(batch.texts))
    likeliest = zip(columns[0], probabilities[:, 0].tolist())
    for i, (given, (found, p), (node, q)) in enumerate(zip(batch.labels, said, likeliest)):
        if found == (node,) and p == q and not (given or lists):
            continue  # as nearly always
        nodes, sure = classes[i].tolist(), probabilities[i].tolist()
        # Given by a path or a name; the candidates are other nodes.
        paths = {tree.paths[i] for i in tree.indices(given)} if given else set(found)
        others = [(node, None if given else q) for node, q in zip(nodes, sure) if node not in paths]
        label = _cell(given or found, lists) if given or found else None
        row = [*_three([(label, 1.0 if given else p), *others]), "given" if given else "model"]
        for column, cell in zip(columns, row):
            column[i] = cell
    return columns


def in_portions(
    model: TaxonomyClassifier, corpus: Corpus, batch: Batch, portion: Portion | None
) -> list[list]:
    """Return the same, some documents at a time where there is a bound of memory."""
    if portion is None:
        return by_model(model, corpus, batch)
    parts = [by_model(model, corpus, part) for part in portion.cut(batch)]
    return [[cell for column in own for cell in column] for own in zip(*parts)]


def _said(
    model: TaxonomyClassifier, found: list, proba: np.ndarray
) -> list[tuple[tuple, float | None]]:
    """Return the labels that a model gives to each text, and the probability of the likeliest."""
    if model.several_:
        column = {name: i for i, name in enumerate(model.classes_.tolist())}
        return [
            (labels, max((float(row[column[one]]) for one in labels), default=None))
            for labels, row in zip(found, proba)
        ]
    if model.stop is None:
        best = proba.max(axis=1)
        return [((), None) if one is None else ((one,), p) for one, p in zip(found, best.tolist())]
    index = model.taxonomy_.index
    return [
        ((), None) if one is None else ((one,), float(row[index(one)]))
        for one, row in zip(found, model._branches(proba))
    ]


def as_given(corpus: Corpus, batch: Batch) -> list[list]:
    """Return rows of labels that were given, without candidates, and of nothing where none was."""
    lists = holds_lists(corpus, batch)
    return [
        [*_three([(_cell(given, lists), 1.0)]), "given"] if given else nothing()
        for given in batch.labels
    ]


def nothing() -> list:
    return [None] * (1 + len(ADDED))


def by_leaves(
    rows: list[list],
    batch: Batch,
    leaves: Sequence[Sequence[tuple[str, float]]],
    here: Collection[str],
    lists: bool,
) -> None:
    """Put documents on new leaves below the node that they are on, or that is all there is.

    Parameters
    ----------
    rows : what is known of them so far; it is changed
    leaves : the best of each document, with P(leaf given the node); none where it stays
    here : the labels given that stand for the node
    lists : whether labels are lists
    """
    for row, given, best in zip(rows, batch.labels, leaves):
        if best:
            at_node = 1.0 if row[1] is None else row[1]
            (path, p), *others = [(leaf, p * at_node) for leaf, p in best]
            others += [(row[i], row[i + 1]) for i in (2, 4) if row[i + 1] is not None]
            others.sort(key=lambda other: -other[1])
            moved = [path if one in here else one for one in given] if here else [path]
            row[:] = [*_three([(_cell(moved, lists), p), *others]), "model"]


def holds_lists(corpus: Corpus, batch: Batch) -> bool:
    """Whether the label column holds lists, as it can in JSONL and Parquet."""
    if corpus.label_column is None:
        return False
    if corpus.schema is not None:
        return "list" in str(corpus.schema.field(corpus.label_column).type)
    return any(isinstance(cell, list) for cell in batch.columns.get(corpus.label_column, ()))


def _cell(labels: Sequence[str], lists: bool) -> Any:
    return list(labels) if lists or len(labels) > 1 else labels[0]


def _three(best: Sequence[tuple]) -> list:
    best = [*best, (None, None), (None, None)][:3]
    return [cell for node, p in best for cell in (node, _rounded(p))]


def _rounded(p: float | None) -> float | None:
    # In a large tree even the best can be below 0.0001; only what is 0 is shown as 0.
    return p and (round(p, 4) or float(f"{p:.1g}"))
