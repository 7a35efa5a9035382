"""The same models over a Dask cluster: documents in partitions, statistics that add up.

Here is no mathematics. A model says what it needs of a block of documents (`models/_blocks.py`);
here the blocks are on workers, and what is asked of them are tasks. Every task can be done again: a
worker that is lost costs time, and nothing else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline

from leafwise import partitions as files
from leafwise._cluster import classify_files, connect, lost
from leafwise._workers import (
    Counted,
    blocks_of,
    client_of,
    count_texts,
    pair,
    places,
    read_counts,
    read_texts,
    released,
    texts_of,
)
from leafwise.labels import Classes, read_labels
from leafwise.models._blocks import Blocks, Documents, PerDocument
from leafwise.models._counts import CountClassifier
from leafwise.models.graph import NeighborIndex, symmetrize
from leafwise.models.growth import HPLSA
from leafwise.models.harmonic import HarmonicClassifier
from leafwise.models.neighbors import NeighborsClassifier
from leafwise.text import WordCounter

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["classify_files", "connect", "fit", "neighbor_graph", "predict"]


# ---- what users call ----------------------------------------------------------------------------


def fit(
    model: Any,
    data: Any,
    *,
    client: Client | None = None,
    bad_rows: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Any:
    """Fit a model to documents on a cluster; it is then what it would be after `fit` here.

    Parameters
    ----------
    model : estimator
        A `Pipeline` of a `WordCounter` and a model, for texts; or a model alone, for word counts.
        The model is one that learns from counts per class (`NaiveBayes`, `HierarchicalShrinkage`,
        `GeneralShrinkage`, `HierarchicalMixture`, `HierarchicalDirichlet`, `HPLC`, `PLC`), `HPLSA`,
        `HarmonicClassifier` or `NeighborsClassifier`. Or a `WordCounter` alone, which learns the
        vocabulary.
    data : texts and labels, or word counts and labels
        A path, a glob or a URL of CSV, TSV, JSONL or Parquet files (see `partitions.find`). A Dask
        bag of texts, of (text, label) pairs, or of mappings; a Dask dataframe. For word counts, a
        list of (X, labels) pairs, one for each block.
    client : distributed.Client
        By default the one that is connected already.
    bad_rows : path-like, optional
        CSV file in which bad rows are listed, with ``skip_bad=True``.
    options
        Of `Corpus`, for files: text, label, format, skip_bad, ... For bags of mappings and for
        dataframes, the names `text` and `label`.
    """
    client = client_of(client)
    counter, last = _taken_apart(model)
    _check(counter, last)  # now, rather than after words are counted
    with lost(client), released():
        if counter is not None and last is None:
            count_texts(counter, read_texts(client, data, options, bad_rows))
        elif counter is not None:
            counted = count_texts(counter, read_texts(client, data, options, bad_rows))
            last.n_features_in_ = len(counter.vocabulary_)
            _fit_counted(last, counted, counter)
        else:
            _fit_counted(last, read_counts(client, last, data), None)
    return model


def predict(
    model: Any, data: Any, *, client: Client | None = None, method: str = "predict", **options: Any
) -> Any:
    """Classify documents on a cluster: what a method of a fitted model says of each, in order.

    Parameters
    ----------
    model : a fitted classifier of texts (`TaxonomyClassifier`, or a `Pipeline`) or of word counts
    data, client, options : see `fit`; labels have no part
    method : "predict", "predict_proba", "predict_log_proba", "top_k", ...
    """
    client = client_of(client)
    if not callable(getattr(model, method, None)):
        raise ValueError(f'{type(model).__name__} has no method "{method}".')
    with lost(client), released():
        if isinstance(data, list) and data and not isinstance(data[0], files.Partition):
            blocks: Blocks = blocks_of(client, [pair(block, i)[0] for i, block in enumerate(data)])
        else:
            blocks = read_texts(client, data, options, None).derive(texts_of)
        return blocks.total(_answers, model, method)


def neighbor_graph(
    X: Any,
    k: int = 30,
    similarity: str = "cosine",
    *,
    client: Client | None = None,
    symmetric: bool = False,
    **settings: Any,
) -> sparse.csr_matrix:
    """Return the k nearest other documents of each, as `leafwise.neighbor_graph` does.

    Each worker looks for the neighbours of some documents among all of them.
    """
    client = client_of(client)
    index = NeighborIndex(similarity, **settings).fit(X)
    with lost(client), released():
        graph = index._graph(k, places(client))
    return symmetrize(graph) if symmetric else graph


# ---- models -------------------------------------------------------------------------------------


def _taken_apart(model: Any) -> tuple[WordCounter | None, Any]:
    """Return the counter and the model, of which one may be missing."""
    known = CountClassifier | HPLSA | HarmonicClassifier | NeighborsClassifier
    if isinstance(model, WordCounter):
        return model, None
    if isinstance(model, known):
        return None, model
    if isinstance(model, Pipeline) and len(model.steps) == 2:
        counter, last = (step for _, step in model.steps)
        if isinstance(counter, WordCounter) and isinstance(last, known):
            return counter, last
    raise TypeError(
        f"{type(model).__name__} is not fitted on a cluster: expected make_pipeline(WordCounter(), "
        "model) with a model of counts, HPLSA, HarmonicClassifier or NeighborsClassifier. "
        "TaxonomyClassifier learns from a sample: leafwise.streams.fit."
    )


def _check(counter: WordCounter | None, model: Any) -> None:
    """Refuse settings that cannot be, or not on a cluster."""
    if counter is not None:
        counter._validate()
    if isinstance(model, HPLSA):
        model._validate_elsewhere(counter is not None)
    elif model is not None:
        model._validate()
    if isinstance(model, CountClassifier) and model.taxonomy is not None:
        Classes.of_taxonomy(model.taxonomy, model.nodes)


def _fit_counted(model: Any, blocks: Blocks, counter: WordCounter | None) -> None:
    """Fit to blocks of counted texts."""
    if isinstance(model, HPLSA):
        words = None if counter is None else counter.get_feature_names_out()
        model._fit_counted(blocks.derive(_counts_of), words)
        return
    if isinstance(model, CountClassifier):
        classes = _classes(model, blocks)
        model._fit_blocks(blocks.derive(_documents_of, classes), classes)
        return
    X, labels = blocks.total(_all_of)  # a model that keeps its documents keeps them here
    if isinstance(model, HarmonicClassifier):
        model._fit(X, list(labels), None, None, blocks)
    else:
        model.fit(X, list(labels))


def _classes(model: Any, blocks: Blocks) -> Classes:
    if model.taxonomy is not None:
        return Classes.of_taxonomy(model.taxonomy, model.nodes)
    labels = blocks.total(_distinct)
    if not labels:
        raise ValueError("No document has a label, so there is nothing to learn.")
    return Classes.of_labels(read_labels(sorted(labels)))


class _Distinct(set):
    """Labels, of which each counts once."""

    def __add__(self, other: _Distinct) -> _Distinct:
        return _Distinct(self | other)


def _distinct(block: Counted) -> _Distinct:
    return _Distinct(read_labels(block.labels).labels.tolist())


def _documents_of(block: Counted, classes: Classes) -> Documents:
    membership = classes.membership(read_labels(block.labels, classes))
    return Documents(block.X, membership, np.ones(block.X.shape[0]))


def _counts_of(block: Counted) -> sparse.csr_matrix:
    return sparse.csr_matrix(block.X, dtype=np.float64)


def _all_of(block: Counted) -> tuple[PerDocument, PerDocument]:
    labels = np.empty(len(block.labels), object)
    labels[:] = block.labels
    return PerDocument(block.X), PerDocument(labels)


def _answers(block: Any, model: Any, method: str) -> Any:
    found = getattr(model, method)(block)
    if isinstance(found, tuple):
        return tuple(map(PerDocument, found))
    if isinstance(found, list):
        every = np.empty(len(found), object)
        every[:] = found
        found = every
    return PerDocument(np.asarray(found) if not sparse.issparse(found) else found)
