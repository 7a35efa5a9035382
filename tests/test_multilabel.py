import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import LinearSVC

import leafwise as lw
from leafwise import metrics
from leafwise.exceptions import LabelError, ModelFileError
from leafwise.models._thresholds import best_threshold, choose_thresholds, deal
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.models.taxonomy_classifier import TaxonomyClassifier
from leafwise.multilabel import MultiLabelClassifier
from leafwise.synthetic import make_corpus
from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter

SVM = OneVsRestClassifier(LinearSVC(C=0.01))


class Column(ClassifierMixin, BaseEstimator):
    """A classifier whose score of class c is the value of feature c; it keeps what it was fed."""

    log: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.log.append(("fit", np.asarray(X)[:, -1], np.asarray(y)))
        return self

    def decision_function(self, X):
        self.log.append(("score", np.asarray(X)[:, -1]))
        return np.asarray(X)[:, :-1]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


@pytest.fixture
def spy():
    Column.log.clear()
    return Column()


def with_numbers(scores):
    """Scores as features for `Column`, with the number of each document as the last."""
    return np.column_stack([scores, np.arange(len(scores))])


@pytest.fixture(scope="module")
def corpus():
    """Documents of one or two topics, each of which has words of its own; two topics are rare."""
    rng = np.random.default_rng(0)
    topics = np.array(["art", "food", "law", "music", "sea"])
    y = []
    X = rng.poisson(0.2, (240, 50))
    for i in range(240):
        several = rng.choice(
            5, size=rng.integers(1, 3), replace=False, p=[0.3, 0.3, 0.3, 0.06, 0.04]
        )
        for c in several:
            X[i, 10 * c : 10 * c + 10] += rng.poisson(1.5, 10)
        y.append(sorted(topics[several].tolist()))
    return sparse.csr_matrix(X), y


@pytest.fixture(scope="module")
def joined():
    """The corpus of docs/multilabel.md: every second document is two in one."""
    drawn = make_corpus(n_documents=2000, doc_length=60, concentration=20, random_state=0)
    two = np.arange(1000) % 2 == 1
    X = drawn.X[:1000] + drawn.X[1000:].multiply(two[:, None]).tocsr()
    y = [{a, b} if both else {a} for a, b, both in zip(drawn.labels, drawn.labels[1000:], two)]
    return X, y, drawn.taxonomy


def indicator(y, classes):
    return np.array([[c in row for c in classes] for row in y], dtype=int)


ESTIMATORS = {
    "NaiveBayes": NaiveBayes(),
    "LinearSVC": SVM,
    "neighbours": KNeighborsClassifier(metric="cosine"),
    "multinomial": MultiOutputClassifier(MultinomialNB()),
    "pipeline": make_pipeline(TfidfTransformer(), SVM),
    "pipeline of lists": make_pipeline(FunctionTransformer(), NaiveBayes()),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_learns(name, corpus):
    X, y = corpus
    model = MultiLabelClassifier(ESTIMATORS[name], min_documents=10).fit(X[:180], y[:180])
    found = metrics.scores(y[180:], model.predict(X[180:]), labels=model.classes_.tolist())
    assert found["micro_f1"] > 0.8
    assert model.classes_.tolist() == ["art", "food", "law", "music", "sea"]
    assert any(len(row) == 2 for row in model.predict(X[180:]))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_all_answers_are_one_answer(name, corpus):
    X, y = corpus
    model = MultiLabelClassifier(ESTIMATORS[name]).fit(X, y)
    margin = model.decision_function(X)
    assigned = model.predict_indicator(X)
    assert sparse.issparse(assigned)
    assert assigned.shape == margin.shape == (240, 5)
    np.testing.assert_array_equal(assigned.toarray(), margin > 0)
    assert model.predict(X) == [tuple(model.classes_[row > 0].tolist()) for row in margin]
    assert all(type(label) is str for row in model.predict(X) for label in row)


# --- The threshold


def every_cut(scores, truth):
    """Scan all cut points: F1 and gap of each."""
    for cut in sorted(set(scores)):
        chosen = scores >= cut
        lower = scores[scores < cut]
        gap = cut - lower.max() if len(lower) else 0.0
        yield 2 * (chosen & truth).sum() / (chosen.sum() + truth.sum()), gap, cut


def f1_above(scores, truth, threshold):
    chosen = scores > threshold
    return 2 * (chosen & truth).sum() / max(chosen.sum() + truth.sum(), 1)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-6, 6) | st.floats(-1e6, 1e6), st.booleans()), min_size=1, max_size=30
    )
)
@example([(5e-324, True), (0.0, False)])
def test_no_cut_is_better_than_the_best_threshold(pairs):
    scores = np.array([score for score, _ in pairs], float)
    truth = np.array([positive for _, positive in pairs])
    threshold = best_threshold(scores, truth)
    assert np.isfinite(threshold)
    cuts = list(every_cut(scores, truth))
    best = max(f1 for f1, _, _ in cuts)
    assert f1_above(scores, truth, threshold) == best
    if not best:
        assert not (scores > threshold).any()
        return
    widest = max(gap for f1, gap, _ in cuts if f1 == best)
    lower, upper = scores[scores <= threshold], scores[scores > threshold]
    assert (upper.min() - lower.max() if len(lower) else 0.0) == widest
    if len(lower) and np.nextafter(lower.max(), np.inf) < upper.min():
        np.testing.assert_allclose(threshold, (upper.min() + lower.max()) / 2, atol=1e-9)


def test_the_threshold_of_a_known_case():
    # Above 3.5: 2 right of 2, of 3 in all, F1 .8. Above 1.5: 3 of 4, F1 6/7.
    scores, truth = np.array([5.0, 4, 3, 2, 1]), np.array([1, 1, 0, 1, 0], bool)
    assert best_threshold(scores, truth) == 1.5
    assert f1_above(scores, truth, 1.5) == 6 / 7


def test_equal_f1_goes_to_the_widest_gap():
    # Above 3: 1 of 1, 2 positives, F1 2/3. Above 0: 2 of 4, F1 2/3.
    truth = np.array([1, 0, 0, 1], bool)
    assert best_threshold(np.array([5.0, 4, 3, 2]), truth) == 4.5
    truth = np.array([1, 0, 0, 1, 0], bool)
    assert best_threshold(np.array([5.0, 4, 3, 2, -8]), truth) == -3.0


def test_the_threshold_at_the_edges():
    every = np.ones(3, bool)
    assert best_threshold(np.array([1.0, 2, 3]), every) == np.nextafter(1, 0)
    assert best_threshold(np.array([1.0, 2, 3]), ~every) == 3.0
    assert best_threshold(np.array([np.inf, 2, 1]), np.array([1, 0, 0], bool)) == 2.0
    assert best_threshold(np.array([-np.inf, 2, 1]), np.array([1, 1, 0], bool)) == 1.5
    assert best_threshold(np.array([np.inf, np.inf]), np.ones(2, bool)) == 0.0
    assert best_threshold(np.array([-np.inf, -np.inf]), np.ones(2, bool)) == 0.0


def test_thresholds_are_those_of_the_held_out_scores(spy):
    """The scores of `Column` do not depend on what it learned: the best cut is known."""
    scores = np.random.default_rng(0).normal(size=(60, 2))
    Y = (scores + np.random.default_rng(1).normal(size=(60, 2)) > [0.3, -0.5]).astype(int)
    model = MultiLabelClassifier(spy).fit(with_numbers(scores), Y)
    expected = [best_threshold(scores[:, c], Y[:, c] > 0) for c in range(2)]
    np.testing.assert_array_equal(model.thresholds_, expected)
    assert not model.shared_.any()
    margin = model.decision_function(with_numbers(scores))
    np.testing.assert_array_equal(margin, scores - expected)


# --- Rare classes


def test_rare_classes_share_the_threshold_of_their_pooled_f1(spy):
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(100, 4))
    Y = np.zeros((100, 4), int)
    Y[:, 0] = scores[:, 0] > 0.2
    for c, n in ((1, 6), (2, 4), (3, 9)):
        rows = rng.choice(100, n, replace=False)
        Y[rows, c] = 1
        scores[rows, c] += 2 + c
    model = MultiLabelClassifier(spy, min_documents=9).fit(with_numbers(scores), Y)
    assert model.shared_.tolist() == [False, True, True, False]
    pooled = best_threshold(scores[:, 1:3].ravel(), Y[:, 1:3].ravel() > 0)
    assert model.thresholds_[1] == model.thresholds_[2] == pooled
    assert model.thresholds_[3] == best_threshold(scores[:, 3], Y[:, 3] > 0) != pooled
    own = MultiLabelClassifier(spy, min_documents=0).fit(with_numbers(scores), Y)
    assert not own.shared_.any()
    all_shared = MultiLabelClassifier(spy, min_documents=1000).fit(with_numbers(scores), Y)
    assert len(set(all_shared.thresholds_)) == 1


def test_a_class_without_documents_shares_and_is_not_assigned(corpus):
    X, y = corpus
    Y = np.column_stack([indicator(y, ["art", "food", "law", "sea"]), np.zeros(240, int)])
    for estimator in (NaiveBayes(), SVM, KNeighborsClassifier()):
        rare = MultiLabelClassifier(estimator, min_documents=30).fit(X, Y)
        assert rare.shared_.tolist() == [False, False, False, True, True]
        assert rare.thresholds_[3] == rare.thresholds_[4]
        model = MultiLabelClassifier(estimator).fit(X, Y)
        assert model.classes_.tolist() == [0, 1, 2, 3, 4]
        assert model.shared_.tolist() == [False, False, False, False, True]
        assert np.isfinite(model.thresholds_).all()
        assert (model.decision_function(X)[:, 4] == -np.inf).all()
        assert model.predict_indicator(X)[:, [4]].nnz == 0


def test_a_node_without_documents_can_be_assigned(corpus):
    """A model of leafwise has scores for it; the shared threshold decides."""
    X, y = corpus
    tree = Taxonomy.from_paths(["art", "food", "law", "music", "sea", "unused"])
    nb = NaiveBayes(tree, nodes="leaves", class_prior="uniform")
    model = MultiLabelClassifier(nb, min_documents=30, baseline="pooled").fit(X, y)
    assert model.classes_[model.shared_].tolist() == ["music", "sea", "unused"]
    margin = model.decision_function(X)[:, model.shared_]
    ratio = model.estimator_.likelihood_ratio(X)[:, model.shared_]
    scores = ratio / np.sqrt(np.asarray(X.sum(axis=1)).reshape(-1, 1))
    np.testing.assert_allclose(margin, scores - model.thresholds_[model.shared_][0])


def test_where_nothing_is_known_of_rare_classes_all_classes_decide():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60, 3))
    Y = np.zeros((60, 3), int)
    Y[:, :2] = scores[:, :2] > [0.5, -0.5]
    thresholds, shared = choose_thresholds(scores, Y > 0, 15)
    assert shared.tolist() == [False, False, True]
    assert thresholds[2] == best_threshold(scores.ravel(), Y.ravel() > 0)


def test_a_class_of_all_documents_is_assigned_to_all(corpus):
    X, y = corpus
    Y = np.column_stack([indicator(y, ["art", "food"]), np.ones(240, int)])
    for estimator in (NaiveBayes(), SVM, KNeighborsClassifier()):
        model = MultiLabelClassifier(estimator).fit(X, Y)
        assert model.predict_indicator(X)[:, [2]].sum() > 230
    alone = MultiLabelClassifier(KNeighborsClassifier()).fit(X, np.ones((240, 1), int))
    assert alone.predict(X[:2]) == [(0,), (0,)]


def test_a_class_of_one_document_that_no_part_can_tell(corpus):
    X, y = corpus
    y = [*y[:-1], ["once"]]
    for estimator in (NaiveBayes(), SVM):
        model = MultiLabelClassifier(estimator).fit(X, y)
        once = model.classes_.tolist().index("once")
        assert np.isfinite(model.decision_function(X)[:, once]).all()


# --- Labels in


@pytest.mark.parametrize("name", ["NaiveBayes", "LinearSVC", "neighbours"])
def test_lists_indicators_and_single_labels_are_the_same(name, corpus):
    X, y = corpus
    lists = MultiLabelClassifier(ESTIMATORS[name]).fit(X, y)
    matrix = MultiLabelClassifier(ESTIMATORS[name]).fit(X, indicator(y, lists.classes_))
    assert matrix.classes_.tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(matrix.thresholds_, lists.thresholds_)
    np.testing.assert_array_equal(matrix.decision_function(X), lists.decision_function(X))
    named = [tuple(lists.classes_[list(row)].tolist()) for row in matrix.predict(X)]
    assert named == lists.predict(X)
    single = [row[0] for row in y]
    lists = MultiLabelClassifier(ESTIMATORS[name]).fit(X, [[label] for label in single])
    one_each = MultiLabelClassifier(ESTIMATORS[name]).fit(X, single)
    np.testing.assert_array_equal(one_each.decision_function(X), lists.decision_function(X))


def test_labels_in_any_container(corpus):
    X, y = corpus
    single = [row[0] for row in y]
    Y = indicator(y, ["art", "food", "law", "music", "sea"])
    as_lists = [set(row) for row in y], [*map(frozenset, y)], tuple(map(tuple, y)), pd.Series(y)
    as_matrix = Y.astype(bool), sparse.csr_matrix(Y), sparse.csc_array(Y), pd.DataFrame(Y)
    alone = np.array(single), pd.Series(single), np.array(single, dtype=object)
    for first, others in ((y, as_lists), (Y, as_matrix), (single, alone)):
        expected = MultiLabelClassifier(NaiveBayes()).fit(X, first)
        for same in others:
            model = MultiLabelClassifier(NaiveBayes()).fit(X, same)
            np.testing.assert_array_equal(model.classes_, expected.classes_)
            np.testing.assert_array_equal(model.thresholds_, expected.thresholds_)


def test_two_single_labels_of_integers(corpus):
    X, y = corpus
    single = ["art" in row for row in y]
    for labels, classes in ((np.where(single, 7, 3), [3, 7]), (np.where(single, 1, -1), [-1, 1])):
        model = MultiLabelClassifier(SVM).fit(X, labels)
        assert model.classes_.tolist() == classes
        found = model.predict_indicator(X).toarray()[:, 1]
        assert np.mean(found == np.array(single)) > 0.95


def test_one_class_against_the_rest(corpus):
    X, y = corpus
    truth = np.array(["art" in row for row in y])
    estimators = SVM, KNeighborsClassifier(metric="cosine")
    for estimator in (
        *estimators,
        OneVsRestClassifier(SGDClassifier(loss="log_loss", random_state=0)),
    ):
        model = MultiLabelClassifier(estimator).fit(X, truth[:, None].astype(int))
        found = model.predict_indicator(X).toarray().ravel()
        assert np.mean(found == truth) > 0.95


def test_the_columns_of_a_matrix_are_the_nodes_of_a_taxonomy(corpus):
    X, y = corpus
    tree = Taxonomy.from_paths(["life/art", "life/food", "law", "life/music", "sea"])
    nodes = [tree.indices(row) for row in y]
    Y = np.zeros((240, len(tree)), int)
    for i, row in enumerate(nodes):
        Y[i, row] = 1
    matrix = MultiLabelClassifier(NaiveBayes(tree)).fit(X, Y)
    lists = MultiLabelClassifier(NaiveBayes(tree)).fit(X, y)
    assert matrix.classes_.tolist() == sorted(tree.paths)
    np.testing.assert_array_equal(matrix.decision_function(X), lists.decision_function(X))
    assert {label for row in lists.predict(X) for label in row} >= {"life/art", "law"}


def test_documents_of_no_class_count_and_unknown_ones_do_not(spy):
    scores = np.linspace(0, 1, 40)[:, None]
    y = [["c"] if i >= 20 else [] for i in range(40)]
    none = MultiLabelClassifier(spy).fit(with_numbers(scores), y)
    np.testing.assert_allclose(none.thresholds_, 0.5)
    unknown = MultiLabelClassifier(spy).fit(
        with_numbers(scores), [["c"] if i >= 20 else [] if i < 10 else None for i in range(40)]
    )
    np.testing.assert_allclose(unknown.thresholds_, (scores[9] + scores[20]) / 2)


def test_unknown_documents_are_given_to_leafwise_models_but_held_out_never():
    corpus = make_corpus(n_documents=150, doc_length=30, random_state=0)
    texts = corpus.texts()
    labels = [[label] if i % 3 else None for i, label in enumerate(corpus.labels)]
    seen = []

    class Spy(TaxonomyClassifier):
        def fit(self, texts, labels=None):
            seen.append((len(texts), sum(row is None for row in labels)))
            return super().fit(texts, labels)

    model = MultiLabelClassifier(Spy(corpus.taxonomy), cv=2).fit(texts, labels)
    assert seen == [(150, 50), (100, 50), (100, 50)]
    np.testing.assert_array_equal(model.classes_, model.estimator_.classes_)
    single = MultiLabelClassifier(Spy(corpus.taxonomy), cv=2)
    single.fit(texts, [row[0] if row else None for row in labels])
    np.testing.assert_array_equal(single.thresholds_, model.thresholds_)


def test_texts_in_a_pipeline():
    corpus = make_corpus(n_documents=300, doc_length=40, concentration=20, random_state=0)
    texts, y = corpus.texts(), [path.split("/") for path in corpus.labels]
    inner = MultiLabelClassifier(make_pipeline(WordCounter(), NaiveBayes()))
    outer = make_pipeline(WordCounter(), MultiLabelClassifier(NaiveBayes()))
    alone = make_pipeline(WordCounter(), MultiLabelClassifier(make_pipeline(NaiveBayes())))
    for model in (inner, outer, alone):
        found = model.fit(texts[:200], y[:200]).predict(texts[200:])
        assert metrics.scores(y[200:], found)["micro_f1"] > 0.9
    np.testing.assert_array_equal(
        outer.decision_function(texts[:5]), alone.decision_function(texts[:5])
    )


# --- The evidence


def test_scores_come_from_models_that_have_not_seen_the_document(spy):
    scores = np.random.default_rng(0).normal(size=(53, 3))
    Y = (scores > 0.5).astype(int)
    MultiLabelClassifier(spy, cv=4).fit(with_numbers(scores), Y)
    kinds = [entry[0] for entry in spy.log]
    assert kinds == ["fit", "score"] * 4 + ["fit"]
    held_out = []
    for fitted, scored in zip(spy.log[:8:2], spy.log[1:8:2]):
        assert not set(fitted[1]) & set(scored[1])
        assert len(fitted[1]) + len(scored[1]) == 53
        np.testing.assert_array_equal(fitted[2], Y[fitted[1].astype(int)])
        held_out += scored[1].tolist()
    assert sorted(held_out) == list(range(53))
    np.testing.assert_array_equal(spy.log[8][1], np.arange(53))


def test_prediction_changes_nothing(spy, corpus):
    X, y = corpus
    model = MultiLabelClassifier(NaiveBayes()).fit(X[:150], y[:150])
    before = model.thresholds_.copy()
    one_by_one = np.vstack([model.decision_function(X[i]) for i in range(150, 240)])
    np.testing.assert_allclose(one_by_one, model.decision_function(X[150:]))
    np.testing.assert_array_equal(model.thresholds_, before)


def test_parts_share_every_class_evenly():
    rng = np.random.default_rng(0)
    Y = rng.random((1003, 30)) < rng.dirichlet(np.full(30, 0.3))
    part = deal(Y, 5, np.random.default_rng(1))
    assert set(part) == set(range(5))
    sizes = np.bincount(part)
    assert sizes.max() - sizes.min() <= 3
    per_part = np.array([Y[part == i].sum(axis=0) for i in range(5)])
    alone = Y.sum(axis=1) <= 1
    assert alone.sum() < 1003  # some documents have several classes, or this would be easy
    assert (per_part.max(axis=0) - per_part.min(axis=0)).max() <= 3
    np.testing.assert_array_equal(deal(Y, 5, np.random.default_rng(1)), part)
    # One class per document: to the document.
    one = np.eye(4, dtype=bool)[np.arange(90) % 4]
    part = deal(one, 5, np.random.default_rng(0))
    counts = np.array([np.bincount(part[one[:, c]], minlength=5) for c in range(4)])
    assert (counts.max(axis=1) - counts.min(axis=1)).max() <= 1


def test_the_seed_decides(corpus):
    X, y = corpus
    fits = [MultiLabelClassifier(NaiveBayes(), random_state=s).fit(X, y) for s in (0, 0, 1)]
    np.testing.assert_array_equal(fits[0].thresholds_, fits[1].thresholds_)
    assert (fits[0].thresholds_ != fits[2].thresholds_).any()


# --- Scores


def test_which_score_is_taken(corpus):
    X, y = corpus
    nb = NaiveBayes().fit(X, y)

    def scores(estimator, **settings):
        model = MultiLabelClassifier(estimator, **settings).fit(X, y)
        return model.decision_function(X) + model.thresholds_

    length = np.asarray(X.sum(axis=1)).reshape(-1, 1)
    ratio = nb.likelihood_ratio(X)
    pooled = {"baseline": "pooled"}
    np.testing.assert_allclose(scores(NaiveBayes(), **pooled), ratio / np.sqrt(length))
    np.testing.assert_allclose(scores(NaiveBayes(), **pooled, length_power=0), ratio)
    np.testing.assert_allclose(scores(NaiveBayes(), **pooled, length_power=1), ratio / length)
    proba = scores(NaiveBayes(), response_method="predict_proba")
    np.testing.assert_allclose(proba, nb.predict_proba(X), atol=1e-12)
    log_proba = scores(NaiveBayes(), response_method="predict_log_proba")
    np.testing.assert_allclose(log_proba, nb.predict_log_proba(X))
    Y = indicator(y, nb.classes_)
    logistic = OneVsRestClassifier(SGDClassifier(loss="log_loss", random_state=0))
    np.testing.assert_allclose(scores(logistic), clone(logistic).fit(X, Y).decision_function(X))
    proba = scores(logistic, response_method="predict_proba")
    np.testing.assert_allclose(proba, clone(logistic).fit(X, Y).predict_proba(X), atol=1e-12)
    neighbours = KNeighborsClassifier().fit(X, Y).predict_proba(X)
    expected = np.column_stack([proba[:, 1] for proba in neighbours])
    np.testing.assert_allclose(scores(KNeighborsClassifier()), expected, atol=1e-12)


@pytest.mark.parametrize("n_without_class", [0, 60])
def test_the_ratio_to_all_classes_is_bayes_rule(corpus, n_without_class):
    """Score + log P(c) is the log of a posterior, that of no class being what is left to 1."""
    X, y = corpus
    y = [[]] * n_without_class + y[n_without_class:]
    estimator = NaiveBayes(Taxonomy.from_paths(["art", "food", "law", "music", "none", "sea"]))
    model = MultiLabelClassifier(estimator, length_power=0).fit(X, y)
    assert model.n_without_class_ == n_without_class
    counts = model.document_counts_
    assert counts.tolist() == [sum(c in row for row in y) for c in model.classes_]
    share = counts / (counts.sum() + n_without_class)
    joint = share * np.exp(model.estimator_.likelihood_ratio(X))  # over P(d) of pooled words
    everything = joint.sum(axis=1, keepdims=True) + 1 - share.sum()
    posterior = share * np.exp(model.decision_function(X) + model.thresholds_)
    long = np.asarray(X.sum(axis=1)).ravel() >= model.median_length_
    assert long.sum() >= 120
    np.testing.assert_allclose(posterior[long], (joint / everything)[long])
    if not n_without_class:
        np.testing.assert_allclose(posterior[long].sum(axis=1), 1)


@pytest.mark.parametrize("power", [0, 0.5, 1, 2])
def test_in_short_documents_what_speaks_against_a_class_counts_as_in_usual_ones(corpus, power):
    X, y = corpus
    model = MultiLabelClassifier(NaiveBayes(), length_power=power).fit(X, y)
    length = np.asarray(X.sum(axis=1)).ravel()
    assert model.median_length_ == np.median(length)
    share = model.document_counts_ / model.document_counts_.sum()
    signs = set()
    for i in np.argsort(length)[[0, 40, 80, 160, 239]]:
        ratio = model.estimator_.likelihood_ratio(X[i])[0] / length[i] ** power
        score = ratio - np.log(np.sum(share * np.exp(ratio)))
        scale = max(1, model.median_length_ / length[i]) ** max(1 - power, 0)
        expected = [s if s > 0 else s * scale for s in score]
        found = model.decision_function(X[i])[0] + model.thresholds_
        np.testing.assert_allclose(found, expected)
        signs |= {(bool(s > 0), bool(scale > 1)) for s in score}
    assert len(signs) == (4 if power < 1 else 2)


def cut(X, n_words):
    """The first words of each document, in an order drawn at random."""
    rng = np.random.default_rng(0)
    rows = np.zeros(X.shape, int)
    for i, row in enumerate(np.asarray(X.toarray(), int)):
        words = rng.permutation(np.repeat(np.arange(X.shape[1]), row))[:n_words]
        np.add.at(rows[i], words, 1)
    return rows


def test_short_documents_do_not_get_most_classes(joined):
    """Scaled for their length they get fewer, and more of them are right."""
    X, y, tree = joined
    model = MultiLabelClassifier(NaiveBayes(tree, nodes="leaves")).fit(X[:700], y[:700])
    unscaled = clone(model).fit(X[:700], y[:700])
    unscaled.median_length_ = 0.0
    assert model.score(X[700:], y[700:]) > 0.98
    for n_words, at_most in ((1, 4), (5, 3), (10, 2.5)):
        short = cut(X[700:], n_words)
        assert model.predict_indicator(short).sum() < at_most * 300
        assert model.score(short, y[700:]) > unscaled.score(short, y[700:]) + 0.03


def test_a_document_without_a_known_word_gets_no_class(corpus):
    X, y = corpus
    X = sparse.hstack([X, sparse.csr_matrix((240, 2))]).tocsr()
    silent = np.zeros((3, 52))
    silent[1, 51], silent[2, 50:] = 1, 40
    for chosen in ({}, {"baseline": "pooled", "length_power": 0}):
        for estimator in (NaiveBayes(), make_pipeline(FunctionTransformer(), NaiveBayes())):
            model = MultiLabelClassifier(estimator, **chosen).fit(X, y)
            assert (model.decision_function(silent) == -np.inf).all()
            assert model.predict(silent) == [()] * 3
            most = max(model.classes_, key=lambda c: sum(c in row for row in y))
            assert most != model.classes_[0]  # where argmax would go by itself
            assert model.set_params(at_least_one=True).predict(silent) == [(most,)] * 3
            one = np.zeros((1, 52))
            one[0, 5] = 1
            assert np.isfinite(model.decision_function(one)).all()


def test_documents_without_words_can_be_learned_from(corpus):
    X, y = corpus
    X = sparse.vstack([X, sparse.csr_matrix((2, 50))]).tocsr()
    model = MultiLabelClassifier(NaiveBayes()).fit(X, [*y, [], ["art"]])
    assert np.isfinite(model.thresholds_).all()
    assert model.predict(X[-2:]) == [(), ()]
    assert model.score(X, [*y, [], ["art"]]) > 0.8


def test_models_that_classify_by_em_are_taken_by_their_probabilities(joined):
    X, y, tree = joined
    plc = MultiLabelClassifier(lw.PLC(tree, nodes="leaves")).fit(X[:700], y[:700])
    assert plc.median_length_ == 0
    assert plc.score(X[700:], y[700:]) > 0.95
    proba = plc.estimator_.predict_proba(X[700:])
    np.testing.assert_allclose(plc.decision_function(X[700:]), proba - plc.thresholds_)


# --- score


def test_score_is_micro_f1_in_every_form_of_labels(corpus):
    X, y = corpus
    rest, truth = X[150:], y[150:]
    lists = MultiLabelClassifier(NaiveBayes()).fit(X[:150], y[:150])
    expected = metrics.scores(truth, lists.predict(rest))["micro_f1"]
    assert 0.8 < expected < 1
    assert lists.score(rest, truth) == expected
    assert lists.score(rest, [set(row) for row in truth]) == expected
    assert lists.score(rest, [row * 2 for row in truth]) == expected
    Y = indicator(y, lists.classes_)
    matrix = MultiLabelClassifier(NaiveBayes()).fit(X[:150], Y[:150])
    assert matrix.score(rest, Y[150:]) == expected
    assert matrix.score(rest, sparse.csr_matrix(Y[150:])) == expected
    tree = Taxonomy.from_paths(["life/art", "life/food", "law", "life/music", "sea"])
    named = MultiLabelClassifier(NaiveBayes(tree)).fit(X[:150], y[:150])
    paths = [[tree.paths[tree.index(label)] for label in row] for row in truth]
    nodes = np.zeros((90, len(tree)), int)
    for i, row in enumerate(paths):
        nodes[i, tree.indices(row)] = 1
    expected = metrics.scores(paths, named.predict(rest))["micro_f1"]
    for same in (truth, paths, nodes):
        assert named.score(rest, same) == expected


def test_score_of_single_labels_unknown_ones_and_new_classes(corpus):
    X, y = corpus
    model = MultiLabelClassifier(NaiveBayes()).fit(X, y)
    found = model.predict(X)
    single = [row[0] for row in y]
    expected = metrics.scores([[label] for label in single], found)["micro_f1"]
    assert model.score(X, single) == expected
    half = [row if i % 2 else None for i, row in enumerate(y)]
    assert model.score(X, half) == metrics.scores(y[1::2], found[1::2])["micro_f1"]
    new = [[*row, "new"] for row in y]
    assert model.score(X, new) == metrics.scores(new, found)["micro_f1"] < model.score(X, y)
    assert model.score(X, [[]] * 240) == 0
    numbers = MultiLabelClassifier(NaiveBayes()).fit(X, indicator(y, model.classes_))
    assert numbers.score(X, [[]] * 240) == 0
    assert numbers.score(X, [[0, 1]] * 240) > 0  # not taken for a 0/1 matrix
    with pytest.raises(LabelError, match=r"No document's labels are known, so there is nothing to"):
        model.score(X, [None] * 240)
    with pytest.raises(ValueError, match=r"X has 240 entries, but y has 3\."):
        model.score(X, y[:3])


def test_settings_are_chosen_by_score(corpus):
    X, y = corpus
    model = MultiLabelClassifier(NaiveBayes(), cv=2)
    search = GridSearchCV(model, {"estimator__alpha": [1e9, 0.1]}, cv=2).fit(X, y)
    assert search.best_params_ == {"estimator__alpha": 0.1}
    first = model.set_params(estimator__alpha=0.1).fit(X[120:], y[120:]).predict(X[:120])
    expected = metrics.scores(y[:120], first)["micro_f1"]
    assert search.cv_results_["split0_test_score"][1] == expected > 0.8


def test_at_least_one(spy):
    scores = np.array([[3.0, 0], [2, 0], [0, 4], [0, 5], [0, 0], [0.2, 0]] * 4)
    Y = (scores > 1).astype(int)
    Y[4::6], Y[5::6] = 0, 0
    X = with_numbers(scores)
    model = MultiLabelClassifier(spy, min_documents=3).fit(X, Y)
    np.testing.assert_allclose(model.thresholds_, [1.1, 2])
    assert model.predict(X[:6]) == [(0,), (0,), (1,), (1,), (), ()]
    model.at_least_one = True
    assert model.predict(X[:6]) == [(0,), (0,), (1,), (1,), (0,), (0,)]
    nothing = np.array([[-np.inf, -np.inf, 0]])
    assert model.predict(nothing) == [(0,)]  # as many documents as the other, and first
    model.document_counts_ = np.array([8, 9])
    assert model.predict(nothing) == [(1,)]


def test_data_frames_and_lists(corpus):
    X, y = corpus
    expected = MultiLabelClassifier(NaiveBayes()).fit(X.toarray(), y).thresholds_
    rows = MultiLabelClassifier(NaiveBayes()).fit(X.toarray().tolist(), y)
    np.testing.assert_array_equal(rows.thresholds_, expected)
    names = [f"w{i}" for i in range(50)]
    frame = pd.DataFrame(X.toarray(), columns=names, index=np.arange(240)[::-1])
    framed = MultiLabelClassifier(NaiveBayes()).fit(frame, y)
    np.testing.assert_array_equal(framed.thresholds_, expected)
    np.testing.assert_array_equal(framed.estimator_.feature_names_in_, names)


def test_follows_the_conventions_of_meta_estimators(corpus):
    X, y = corpus
    inner = NaiveBayes(alpha=0.5)
    model = MultiLabelClassifier(inner, cv=3)
    assert clone(model).get_params()["estimator__alpha"] == 0.5
    assert model.set_params(estimator__alpha=0.1).fit(X, y) is model
    assert not hasattr(inner, "classes_")
    assert model.estimator_.alpha_ == 0.1
    assert model.__sklearn_tags__().input_tags.sparse
    assert MultiLabelClassifier(TaxonomyClassifier()).__sklearn_tags__().input_tags.string
    refitted = model.fit(X[:100], y[:100])
    fresh = MultiLabelClassifier(NaiveBayes(alpha=0.1), cv=3).fit(X[:100], y[:100])
    np.testing.assert_array_equal(refitted.thresholds_, fresh.thresholds_)
    Y = indicator(y, ["art", "food", "law", "music", "sea"])
    for labels in (y, Y):
        assert cross_val_score(model, X, labels, cv=2).min() > 0.8


# --- Errors


class Mute(BaseEstimator):
    def fit(self, X, y):
        return self


class Confused(Column):
    def decision_function(self, X):
        return np.full((len(X), 2), np.nan)


X4, Y4 = np.arange(12.0).reshape(4, 3), [["a"], ["b"], ["a", "b"], []]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"estimator": Mute()},
            "Mute has no likelihood_ratio or class_scores or decision_function or predict_proba or "
            "predict_log_proba, so it gives no scores. It has none that can be used",
        ),
        (
            {"response_method": "predict_proba", "estimator": SVM},
            r"OneVsRestClassifier has no predict_proba, .* It has decision_function\.",
        ),
        (
            {"response_method": "guess"},
            'response_method=\'guess\': expected "auto" or one of "likelihood_ratio", ',
        ),
        ({"cv": 1}, "cv=1: expected a number of parts of at least 2"),
        ({"cv": 2.5}, r"cv=2\.5: expected a number of parts of at least 2"),
        ({"cv": 5}, "cv=5: expected at most 4, the number of documents whose labels are known"),
        ({"min_documents": -1}, "min_documents=-1: expected a number of documents, 0 or more"),
        ({"baseline": "none"}, 'baseline=\'none\': expected "classes" or "pooled"'),
        ({"length_power": -0.5}, r"length_power=-0\.5: expected a number of at least 0"),
        ({"length_power": "word"}, "length_power='word': expected a number of at least 0"),
        (
            {"estimator": LinearSVC()},
            r"LinearSVC takes one class per document. .*OneVsRestClassifier\(LinearSVC\(\.\.\.\)",
        ),
        ({"random_state": "x"}, "random_state='x': expected a whole number of at least 0, a numpy"),
        ({"random_state": -1}, "random_state=-1: expected a whole number of at least 0, a numpy"),
        ({"estimator": make_pipeline(LinearSVC())}, "LinearSVC takes one class per document"),
        ({"estimator": Confused()}, "decision_function of Confused gives NaN, which is no score"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelClassifier(**{"estimator": NaiveBayes(), "cv": 2} | settings).fit(X4, Y4)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y4[:3], r"X has 4 entries, but y has 3\. Give one for each document"),
        (np.eye(5, dtype=int), r"X has 4 entries, but y has 5\. Give one for each document"),
        (np.eye(4) * 2, "y must hold only 0 and 1 in a matrix, but holds 2"),
        (np.zeros((4, 2), int), "No document has a label, so there is nothing to learn"),
        ([[], [], [], []], "No document has a label, so there is nothing to learn"),
        ([None] * 4, "No document has a label, so there is nothing to learn"),
        (np.array([["a", "b"]] * 4), "y has a level of a tree in each column. Give paths"),
        ([["a"], "b", [], []], "Document 1 has the label 'b', others have lists"),
        (None, "fit requires y to be passed"),
    ],
)
def test_wrong_labels(y, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelClassifier(NaiveBayes(), cv=2).fit(X4, y)


def test_labels_that_are_not_in_the_taxonomy(corpus):
    X, y = corpus
    tree = Taxonomy.from_paths(["art", "food"])
    with pytest.raises(LabelError, match="law"):
        MultiLabelClassifier(NaiveBayes(tree)).fit(X, y)


def test_nothing_is_predicted_before_fit():
    with pytest.raises(NotFittedError, match="This MultiLabelClassifier instance is not fitted"):
        MultiLabelClassifier(NaiveBayes()).predict(X4)


def test_rare_classes_raise_no_warnings(corpus):
    """scikit-learn warns of columns that are all alike: it is never given one."""
    X, y = corpus
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        MultiLabelClassifier(SVM).fit(X, [*y[:-1], ["once"]])


def test_saved_and_loaded_predicts_the_same(tmp_path):
    corpus = make_corpus(n_documents=200, doc_length=40, concentration=20, random_state=0)
    y = [[label] for label in corpus.labels]
    for estimator in (NaiveBayes(), lw.HierarchicalMixture(corpus.taxonomy, nodes="leaves")):
        model = MultiLabelClassifier(estimator, cv=2).fit(corpus.X, y)
        model.save(tmp_path / "model")
        loaded = lw.load(tmp_path / "model")
        np.testing.assert_array_equal(
            loaded.decision_function(corpus.X), model.decision_function(corpus.X)
        )
        assert loaded.predict(corpus.X) == model.predict(corpus.X)


def test_damaged_files_are_refused(tmp_path):
    corpus = make_corpus(n_documents=200, doc_length=40, concentration=20, random_state=0)
    model = MultiLabelClassifier(NaiveBayes(), cv=2).fit(corpus.X, [[p] for p in corpus.labels])
    whole = dict(model.__dict__)
    for name, value, message in (
        ("thresholds_", np.zeros(2), "thresholds_ do not fit the classes"),
        ("thresholds_", np.full(9, np.inf), "thresholds are no numbers"),
        ("document_counts_", np.full(9, -1), "document counts are no counts"),
        ("median_length_", -1.0, "the median length is no length"),
        ("estimator_", lw.NaiveBayes().fit([[1]], ["x"]), "the estimator does not fit the classes"),
    ):
        model.__dict__.update(whole)
        setattr(model, name, value)
        model.save(tmp_path / "model")
        with pytest.raises(ModelFileError, match=message):
            lw.load(tmp_path / "model")


def test_only_models_of_leafwise_are_saved(tmp_path):
    X = np.random.default_rng(0).poisson(1, (40, 6))
    y = [["a"] if row[0] else ["b"] for row in X]
    model = MultiLabelClassifier(KNeighborsClassifier(), cv=2).fit(X, y)
    with pytest.raises(ModelFileError, match=r"cannot be saved.* estimators of leaf"):
        model.save(tmp_path / "model")
