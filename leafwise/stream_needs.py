"""What learning takes in memory, on the safe side of what was measured: see docs/streams.md."""

from __future__ import annotations

import sys

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from leafwise.labels import Classes, Occurrences, read_labels
from leafwise.models._base import BLOCK_SCORES
from leafwise.models._choosing import ENOUGH_LABELS, MANY_LABELS, SAMPLE, n_fifths
from leafwise.models._counts import CountClassifier, TableClassifier
from leafwise.models._dirichlet_tree import MOST_CLASSES
from leafwise.models._stages import MOST, MOST_WORK
from leafwise.models.dirichlet import HierarchicalDirichlet
from leafwise.models.growth import HPLSA
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.models.taxonomy_classifier import TaxonomyClassifier
from leafwise.stream_sample import Sample
from leafwise.text import WordCounter

# Bytes:
PER_WORD = 220  # for a word that is known, and for a form of it
_PER_DOCUMENT = 1500  # for a document of a sample beside its text
_PER_ENTRY = 130  # for each different word in it
_PER_SHARE = 64  # for each class that it is shared among, where it has no label
_PER_PAIR = 140  # for a pair of a node and a word in a HierarchicalDirichlet
_PER_SCORE = 96  # for a document and a class, where neighbours are compared
_PER_JUDGED = 80  # the same, where documents are only scored
_PER_WEIGHT = 26  # for a word and a class in linear scores
_PER_WEIGHT_MIXED = 42  # the same, where scores learned in two ways are put together
_PER_LEAF = 64, 176  # for each leaf of an HPLSA, a document and a word
_TO_CHOOSE_SIGMA = 26  # for a word of the documents that decide and a class, a thousand at most


def sample_needs(model: TaxonomyClassifier, found: Sample) -> float:
    """Reckon what learning from documents takes, on the safe side of what was measured.

    Texts and counts are there all the time. The model is as large as its pairs of a node and a
    word, and twice that while it is made; tables of words or documents × classes come beside it,
    one kind at a time, so the largest decides.
    """
    usual = WordCounter(stemmer="english", compounds=True)
    counter = usual if model.counter is None else clone(model.counter)
    of_tree = [] if model.taxonomy is None else [" ".join(w) for w in model.taxonomy.keywords]
    X = counter.fit_transform([*found.texts, *of_tree])
    X, of_tree = X[: len(found.texts)], X[len(found.texts) :]
    n_documents, n_words = X.shape
    occurrences = read_labels(found.labels)
    n_labels = np.bincount(occurrences.documents, minlength=n_documents)
    labelled = np.flatnonzero(n_labels)
    classes = model._choose_classes(occurrences)
    n_classes = len(classes.nodes)
    most = fewest = X.nnz
    if model.counter is None:  # English stop words are not counted, unless labels speak for them
        stop_words = counter.transform([" ".join(ENGLISH_STOP_WORDS)]).indices
        fewest -= int(np.count_nonzero(np.isin(X.indices, stop_words)))
        most = most if len(labelled) >= ENOUGH_LABELS else fewest
    dirichlet = HierarchicalDirichlet() if model.model is None else model.model
    is_open = _with_evidence(classes, occurrences, X, of_tree) | (dirichlet.init == "prototypes")
    # A short document is shared among as many classes as are kept, and where labels are spread
    # over neighbours, a long one too: then most nodes have most words.
    n_shares = min(int(is_open[classes.nodes].sum()), dirichlet._kept["most"])
    n_shares = np.where(n_labels > 0, 0, n_shares)
    # Its words are at the nodes above, too: of many classes these are no more than the classes.
    height = int(classes.taxonomy.depth.max())
    n_nodes = np.repeat(height * n_labels + min(height, 2) * n_shares, np.diff(X.indptr))
    pairs = np.minimum(1 + np.bincount(X.indices, n_nodes, n_words), is_open.sum()).sum()
    pairs *= _PER_PAIR
    tables = [
        pairs / 2,
        _TO_CHOOSE_SIGMA
        * _n_judging(dirichlet, np.diff(X.indptr)[labelled], n_words)
        * min(n_classes, MOST_CLASSES),
        _PER_JUDGED * _n_judged(n_documents, n_labels, n_classes) * n_classes,
    ]
    feasible = max(X.shape) * n_classes <= MOST and fewest * n_classes <= MOST_WORK
    if model.spread is not False and feasible:  # all stages
        some = len(labelled) < n_documents
        per_score = _PER_SCORE if some else _PER_JUDGED
        mixed = some and len(labelled) >= ENOUGH_LABELS
        per_weight = _PER_WEIGHT_MIXED if mixed else _PER_WEIGHT
        tables.append((per_score * n_documents + per_weight * n_words) * n_classes)
    made = pairs / 2 + max(tables)
    if model.counter is None and len(labelled) >= ENOUGH_LABELS:
        # Before there is a model, linear scores of some documents say how to count words.
        made = max(made, _PER_WEIGHT * n_words * n_classes)
    texts = sum(map(sys.getsizeof, found.texts)) + _PER_DOCUMENT * n_documents
    counts = _PER_ENTRY * most + 2 * PER_WORD * n_words
    return texts + counts + _PER_SHARE * int(n_shares.sum()) + made


def _with_evidence(
    classes: Classes, labels: Occurrences, X: sparse.csr_matrix, of_tree: sparse.csr_matrix | list
) -> np.ndarray:
    """Return, for each node, whether it or one below can have words, by labels or by keywords."""
    parent = classes.taxonomy.parent
    is_open = np.zeros(len(parent), bool)
    if not isinstance(of_tree, list) and of_tree.shape[0]:
        used = np.bincount(X.indices, minlength=X.shape[1]) > 0
        is_open = of_tree @ used > 0
        for i in range(1, len(parent)):
            is_open[i] |= is_open[parent[i]]
    is_open[classes.nodes[np.unique(classes.columns(labels.labels))]] = True
    for i in range(len(parent) - 1, 0, -1):
        is_open[parent[i]] |= is_open[i]
    return is_open


def _n_judging(model: HierarchicalDirichlet, lengths: np.ndarray, n_words: int) -> int:
    """Return how many words the documents that decide on σ have at most, of such `lengths`."""
    if not isinstance(model.sigma, str):
        return 0
    if model.words == "set":  # the words that a document lacks speak too
        return n_words
    return min(n_words, int(np.sort(lengths)[-model.sample_size :].sum()))


def _n_judged(n_documents: int, n_labels: np.ndarray, n_classes: int) -> int:
    """Return how many documents are scored at once at all classes, to say how sure to be."""
    sorted_at_once = BLOCK_SCORES // n_classes
    drawn = min(SAMPLE, max(200, 8 * sorted_at_once))
    held_out = n_labelled = int(np.count_nonzero(n_labels))
    if n_labelled < ENOUGH_LABELS:
        held_out = 2 * drawn
    elif n_labelled >= MANY_LABELS and n_labels.max() == 1:
        n_parts = n_fifths(n_labelled, drawn)
        held_out = min(n_labelled // 5, drawn) if n_parts == 1 else -(-n_parts * n_labelled // 5)
    return min(n_documents, max(held_out, sorted_at_once))


def model_needs(
    model: CountClassifier, lengths: np.ndarray, n_pairs: int, n_classes: int, n_words: int
) -> float:
    """Estimate what parameters take that are derived from counts, and the counts themselves.

    `lengths` are of the documents with most words, where some documents decide on σ.
    """
    cells = n_classes * n_words
    if isinstance(model, NaiveBayes):
        return 80 * n_pairs + (8 * cells if cells <= 1 << 25 else 0)
    if isinstance(model, TableClassifier):
        return max(260 * n_pairs, (60 * n_pairs + 32 * cells) if cells <= 1 << 27 else 0)
    need = _PER_PAIR * n_pairs
    if isinstance(model, HierarchicalDirichlet):
        n_judging = _n_judging(model, lengths, n_words)
        need += _TO_CHOOSE_SIGMA * n_judging * min(n_classes, MOST_CLASSES)
    return need


def tree_needs(model: HPLSA, n_documents: int, n_words: int) -> float:
    """Estimate what tables of documents × leaves, words × leaves and words × nodes take."""
    n_leaves = model.n_leaves if model.tree is None else len(model.tree.leaves)
    assert isinstance(n_leaves, int)
    per_document, per_word = _PER_LEAF
    return n_leaves * (per_document * n_documents + per_word * n_words)
