"""Splits with few labels, and learning curves, against loops written by hand."""

import dataclasses
import re
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import leafwise as lw
from leafwise.evaluation import FewLabelSplit, LearningCurve, few_labels, learning_curve
from leafwise.exceptions import LabelError
from leafwise.metrics import hierarchical_scores, paired_t_test, scores
from leafwise.synthetic import make_corpus


@pytest.fixture(scope="module")
def corpus():
    return make_corpus(n_documents=300, n_words=200, doc_length=20, random_state=0)


@pytest.fixture(scope="module")
def curve(corpus):
    models = {"NB": lw.NaiveBayes(), "smooth": lw.NaiveBayes(alpha=20.0)}
    return learning_curve(
        models, corpus.X, corpus.labels, [9, 3], 4, metric=["accuracy", "macro_f1"], random_state=5
    )


def made_up(scores, n_train=(90,), n_test=(10,)):
    """A curve of given scores, an array of methods × sizes × draws."""
    values = np.asarray(scores, dtype=float)
    nothing = np.zeros(values.shape)
    sizes = tuple(range(1, values.shape[1] + 1))
    names = tuple("abcdefg"[: len(values)])
    return LearningCurve(names, sizes, {"accuracy": values}, nothing, nothing, n_train, n_test)


# --- Splits


@pytest.mark.parametrize("kind", ["strings", "integers", "objects"])
def test_draws_have_the_right_sizes_and_nothing_in_common(kind):
    y = np.repeat(["b", "a", "c"], [20, 8, 11])
    if kind == "integers":
        y = np.array([{"a": 4, "b": 0, "c": 7}[label] for label in y])
    elif kind == "objects":
        y = y.astype(object)
    splits = list(FewLabelSplit(5, n_draws=6).split(np.zeros((39, 2)), y))
    assert len(splits) == 6
    for train, test in splits:
        assert np.unique(y[train], return_counts=True)[1].tolist() == [5, 5, 5]
        np.testing.assert_array_equal(np.sort(np.append(train, test)), np.arange(39))
    assert len({tuple(train) for train, _ in splits}) == 6


def test_documents_are_drawn_evenly():
    """Each of ten documents is drawn in about 3 of 10 draws."""
    y = ["a"] * 10 + ["b"] * 10
    drawn = np.concatenate([train for train, _ in FewLabelSplit(3, 2000).split(None, y)])
    share = np.bincount(drawn) / 2000
    np.testing.assert_allclose(share, 0.3, atol=4 * np.sqrt(0.3 * 0.7 / 2000))


def test_draws_are_nested_over_sizes():
    y = np.repeat(list("abcd"), 30)
    small, large = (list(FewLabelSplit(n, random_state=3).split(None, y)) for n in (7, 20))
    for (few, _), (many, _) in zip(small, large):
        assert set(few) < set(many)


def test_a_draw_depends_on_its_number_and_the_seed_alone():
    y = np.repeat(list("abcd"), 30)
    first, again, longer, other = (
        list(FewLabelSplit(7, n, random_state=seed).split(None, y))
        for n, seed in ((5, 3), (5, 3), (8, 3), (5, 4))
    )
    for k in range(5):
        for same in (again, longer):
            np.testing.assert_array_equal(first[k][0], same[k][0])
            np.testing.assert_array_equal(first[k][1], same[k][1])
        assert not np.array_equal(first[k][0], other[k][0])


def test_a_test_of_given_size_is_the_same_for_every_training_size():
    y = np.repeat(["a", "b"], [30, 25])
    small, large = (list(FewLabelSplit(n, test_size=4).split(None, y)) for n in (2, 21))
    for (few, test), (many, same) in zip(small, large):
        np.testing.assert_array_equal(test, same)
        assert np.unique(y[test], return_counts=True)[1].tolist() == [4, 4]
        assert not set(test) & (set(few) | set(many))


def test_a_share_of_each_class_is_tested_on():
    y = np.repeat(["a", "b", "c"], [30, 10, 2])
    small, large = (list(FewLabelSplit(n, 5, test_size=0.2).split(None, y)) for n in (0, 1))
    for (few, test), (many, same) in zip(small, large):
        np.testing.assert_array_equal(test, same)
        assert np.unique(y[test], return_counts=True)[1].tolist() == [6, 2, 1]
        assert (len(few), len(many)) == (0, 3)
    message = r"Class 'c' has 2 documents, expected at least 3: 2 to draw and 1 to test on\."
    with pytest.raises(LabelError, match=message):
        next(FewLabelSplit(2, test_size=0.2).split(None, y))
    message = "Class 'b' has 10 documents, expected at least 11: 9 to draw and 2 to test on"
    with pytest.raises(LabelError, match=message):
        next(FewLabelSplit(9, test_size=0.2).split(None, y[:40]))


@pytest.mark.parametrize(
    ("test_size", "n", "n_train", "n_test"),
    [
        (None, 3, [3, 3, 1, 1], [27, 1, 1, 0]),
        (None, 0, [0, 0, 0, 0], [30, 4, 2, 0]),
        (2, 3, [3, 2, 1, 1], [2, 2, 1, 0]),
        (0.5, 9, [9, 2, 1, 1], [15, 2, 1, 0]),
        (0.9, 9, [3, 1, 1, 1], [27, 3, 1, 0]),
    ],
)
def test_short_classes_give_what_they_have(test_size, n, n_train, n_test):
    """Of 30, 4, 2 and 1 documents; each of two or more keeps one to test on."""
    y = np.repeat([0, 1, 2, 3], [30, 4, 2, 1])
    split = FewLabelSplit(n, 4, test_size=test_size, short="take")
    for train, test in split.split(None, y):
        assert np.bincount(y[train], minlength=4).tolist() == n_train
        assert np.bincount(y[test], minlength=4).tolist() == n_test
        assert not set(train) & set(test)


def test_taking_what_there_is_changes_nothing_where_there_is_enough():
    y = np.repeat(list("abc"), 9)
    both = (FewLabelSplit(4, 3, short=short).split(None, y) for short in ("raise", "take"))
    for strict, lenient in zip(*both):
        np.testing.assert_array_equal(strict[0], lenient[0])
        np.testing.assert_array_equal(strict[1], lenient[1])


def test_draws_of_short_classes_are_nested_too():
    y = np.repeat(list("abc"), [20, 5, 1])
    sizes = (
        list(FewLabelSplit(n, test_size=0.2, short="take").split(None, y)) for n in (0, 2, 8, 50)
    )
    for draws in zip(*sizes):
        for (few, test), (many, same) in pairwise(draws):
            assert set(few) < set(many)
            np.testing.assert_array_equal(test, same)


@pytest.mark.parametrize(
    "y",
    [
        ["a", None, "b", "a", "b", "", "a", "b"],
        np.array([0, -1, 1, 0, 1, -1, 0, 1]),
        [["a"], [], ["b"], ["a"], ["b"], [], ["a"], ["b"]],
    ],
    ids=["strings", "integers", "lists"],
)
def test_unlabelled_documents_are_left_alone(y):
    for train, test in FewLabelSplit(1, 20).split(np.zeros((8, 1)), y):
        assert len(train) == 2
        assert set(train) | set(test) == {0, 2, 3, 4, 6, 7}


def test_minus_one_and_one_are_two_classes():
    for train, test in FewLabelSplit(1, 3).split(None, [-1, 1, 1, -1, -1]):
        assert (len(train), len(test)) == (2, 3)


def test_works_in_cross_val_score(corpus):
    split = FewLabelSplit(5, 6)
    found = cross_val_score(MultinomialNB(), corpus.X, corpus.y, cv=split)
    y = corpus.y
    expected = [
        MultinomialNB().fit(corpus.X[train], y[train]).score(corpus.X[test], y[test])
        for train, test in split.split(corpus.X, y)
    ]
    np.testing.assert_array_equal(found, expected)
    assert split.get_n_splits() == 6


def test_split_is_shown_with_its_parameters():
    shown = " ".join(repr(FewLabelSplit(7)).split())
    assert shown == (
        "FewLabelSplit(n_draws=10, n_per_class=7, random_state=0, short='raise', test_size=None)"
    )


def test_every_class_needs_a_document_to_test_on():
    y = ["a"] * 9 + ["b"] * 5 + ["c"] * 6
    assert len(next(FewLabelSplit(4).split(None, y))[0]) == 12
    message = (
        r"Class 'b' has 5 documents, expected at least 6: 5 to draw and 1 to test on\. "
        r"Draw fewer per class, or leave the class out\."
    )
    with pytest.raises(LabelError, match=message):
        next(FewLabelSplit(5).split(None, y))
    message = (
        r"Class 'b' has 5 documents, expected at least 8: 5 to draw and 3 to test on "
        r"\(2 classes have too few\)"
    )
    with pytest.raises(LabelError, match=message):
        next(FewLabelSplit(5, test_size=3).split(None, y))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_per_class": -1}, "n_per_class=-1: expected a whole number from 0 on"),
        ({"n_per_class": 2.5}, r"n_per_class=2\.5: expected a whole number from 0 on"),
        ({"n_draws": 0}, "n_draws=0: expected a whole number from 1 on"),
        (
            {"random_state": None},
            "random_state=None: expected a whole number from 0 on: draws of several sizes are "
            "nested by their seed",
        ),
        ({"test_size": 0}, "test_size=0: expected a number of documents per class from 1 on"),
        ({"test_size": 1.0}, r"test_size=1\.0: expected a number .*, a share between 0 and 1"),
        ({"test_size": 0.0}, r"test_size=0\.0: expected a number of documents per class"),
        ({"short": "leave"}, 'short=\'leave\': expected "raise" or "take"'),
    ],
)
def test_wrong_parameters_of_a_split(parameters, message):
    with pytest.raises(ValueError, match=message):
        next(FewLabelSplit(**{"n_per_class": 1, **parameters}).split(None, ["a", "a"]))


def test_labels_that_cannot_be_split():
    with pytest.raises(LabelError, match="No document has a label, so there is none to draw"):
        next(FewLabelSplit(1).split(None, [None, None]))
    with pytest.raises(LabelError, match="No class has two documents, one to learn from and one"):
        next(FewLabelSplit(1, short="take").split(None, ["a", "b"]))
    with pytest.raises(LabelError, match="Document 1 has 2 labels, expected one at most"):
        next(FewLabelSplit(1).split(None, [["a"], ["a", "b"], ["b"]]))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        next(FewLabelSplit(1).split(np.zeros((3, 1)), ["a", "a"]))


def test_few_labels_keeps_those_drawn():
    assert few_labels(["a", "b", "c", None], [2, 0, 3]) == ["a", None, "c", None]
    assert few_labels(np.array([5, -1, 7, 5]), np.array([1, 3])) == [None, None, None, 5]
    assert few_labels(["a", "b"], np.array([False, True])) == [None, "b"]
    assert few_labels(["a", "b"], np.array([], dtype=int)) == [None, None]


def test_few_labels_keeps_all_labels_of_those_drawn():
    y = [["a", "b"], ["b"], [], ["c"]]
    assert few_labels(y, [0, 2, 3]) == [["a", "b"], None, None, ["c"]]
    assert few_labels([["a"], ["b"]], [1]) == [None, "b"]


# --- Learning curves


def test_learning_curve_is_the_loop_by_hand(corpus, curve):
    y = np.array(corpus.labels)
    assert curve.names == ("NB", "smooth")
    assert curve.sizes == (9, 3)
    assert curve.metrics == ("accuracy", "macro_f1")
    assert curve.n_draws == 4
    assert curve.n_train == (81, 27)
    assert curve.n_test == (219, 273)
    for i, model in enumerate([lw.NaiveBayes(), lw.NaiveBayes(alpha=20.0)]):
        for k, size in enumerate((9, 3)):
            split = FewLabelSplit(size, 4, random_state=5)
            for draw, (train, test) in enumerate(split.split(corpus.X, y)):
                predicted = model.fit(corpus.X[train], y[train]).predict(corpus.X[test])
                expected = scores(y[test], predicted)
                for metric in curve.metrics:
                    assert curve.scores[metric][i, k, draw] == expected[metric]


def test_mean_and_population_standard_deviation():
    curve = made_up([[[1.0, 2.0, 6.0]]])
    assert curve.mean().item() == 3
    assert curve.std().item() == pytest.approx(np.sqrt((4 + 1 + 9) / 3))


def test_each_metric_has_its_own_mean(curve):
    for metric in curve.metrics:
        np.testing.assert_array_equal(curve.mean(metric), curve.scores[metric].mean(axis=2))
    np.testing.assert_array_equal(curve.mean(), curve.mean("accuracy"))
    assert not np.array_equal(curve.mean(), curve.mean("macro_f1"))


def test_rows(curve):
    rows = curve.rows()
    assert len(rows) == 2 * 2 * 2
    assert rows[0] == {
        "method": "NB",
        "setting": 9,
        "metric": "accuracy",
        "mean": pytest.approx(curve.mean()[0, 0]),
        "std": pytest.approx(curve.std()[0, 0]),
        "draws": 4,
    }
    assert [(r["metric"], r["method"], r["setting"]) for r in rows] == [
        (metric, name, size)
        for metric in ("accuracy", "macro_f1")
        for name in ("NB", "smooth")
        for size in (9, 3)
    ]


def test_texts_and_pipelines(corpus):
    y = corpus.labels
    model = make_pipeline(lw.WordCounter(), lw.NaiveBayes(corpus.taxonomy))
    by_text = learning_curve({"NB": model}, corpus.texts(), y, [4], 3)
    for draw, (train, test) in enumerate(FewLabelSplit(4, 3).split(None, y)):
        texts = corpus.texts()
        fitted = clone(model).fit([texts[i] for i in train], [y[i] for i in train])
        hits = fitted.predict([texts[i] for i in test]) == np.array(y)[test]
        assert by_text.scores["accuracy"][0, 0, draw] == hits.mean()


def test_the_form_of_X_changes_nothing(corpus):
    pd = pytest.importorskip("pandas")
    y = corpus.labels
    forms = [corpus.X, corpus.X.toarray(), corpus.X.tocoo(), sparse.csc_array(corpus.X)]
    forms.append(pd.DataFrame(corpus.X.toarray()))
    found = [learning_curve({"NB": MultinomialNB()}, X, y, [4], 2).scores for X in forms]
    for other in found[1:]:
        np.testing.assert_array_equal(other["accuracy"], found[0]["accuracy"])


class Recorder(ClassifierMixin, BaseEstimator):
    """Predicts the first label, and keeps what it was given outside of its clones."""

    def __init__(self, seen=None):
        self.seen = seen

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y):
        self.seen.append((X, y))
        self.guess_ = next(label for label in y if label is not None)
        return self

    def predict(self, X):
        self.seen[-1] += (X,)
        return np.array([self.guess_] * len(X))


def test_pool_gives_all_documents_and_the_labels_of_few():
    texts = [f"document {i}" for i in range(12)]
    y = ["a"] * 5 + [None] + ["b"] * 6
    seen = []
    learning_curve({"r": Recorder(seen)}, texts, y, [2], 3, pool=True, random_state=1)
    draws = list(FewLabelSplit(2, 3, random_state=1).split(texts, y))
    assert len(seen) == 3
    for (fitted, labels, predicted), (train, test) in zip(seen, draws):
        assert fitted == texts
        assert labels == [y[i] if i in train else None for i in range(12)]
        assert predicted == [texts[i] for i in test]
        assert "document 5" not in predicted


def test_without_a_pool_only_those_drawn_are_given():
    texts = [f"document {i}" for i in range(12)]
    y = ["a"] * 5 + [None] + ["b"] * 6
    seen = []
    learning_curve({"r": Recorder(seen)}, texts, y, [2], 1)
    train, _ = next(FewLabelSplit(2).split(texts, y))
    assert seen[0][0] == [texts[i] for i in train]
    assert seen[0][1].tolist() == [y[i] for i in train]


def test_a_pool_changes_nothing_for_a_model_that_has_no_use_for_it(corpus):
    given = {"NB": lw.NaiveBayes(corpus.taxonomy)}, corpus.X, corpus.labels, [3, 6], 3
    alone, pooled = (learning_curve(*given, pool=pool).scores["accuracy"] for pool in (False, True))
    np.testing.assert_array_equal(alone, pooled)


def test_only_those_named_are_given_the_pool():
    texts = [f"document {i}" for i in range(12)]
    y = ["a"] * 5 + [None] + ["b"] * 6
    few, whole = [], []
    models = {"few": Recorder(few), "whole": Recorder(whole)}
    told = []
    curve = learning_curve(
        models, texts, y, [2], 3, pool=["whole"], on_progress=lambda *said: told.append(said)
    )
    assert [len(fitted) for fitted, *_ in few] == [4, 4, 4]
    assert [len(fitted) for fitted, *_ in whole] == [12, 12, 12]
    np.testing.assert_array_equal(*curve.scores["accuracy"])  # both guess the same label
    assert told[-1] == (6, 6)
    with pytest.raises(ValueError, match="No method of this curve is 'x'"):
        learning_curve(models, texts, y, [2], 3, pool=["x"])


def test_without_labels_only_methods_with_the_pool_are_scored(pets, pet_texts, pet_labels):
    models = {
        "ours": lw.TaxonomyClassifier(pets),
        "NB": make_pipeline(CountVectorizer(), MultinomialNB()),
    }
    told = []
    curve = learning_curve(
        models, pet_texts, pet_labels, [0, 2], 2, pool=["ours"], test_size=0.5,
        on_progress=lambda *said: told.append(said),
    )  # fmt: skip
    assert told == [(done, 6) for done in range(1, 7)]
    assert curve.n_train == (0, 8)
    assert curve.n_test == (8, 8)
    accuracy = curve.scores["accuracy"]
    np.testing.assert_array_equal(np.isnan(accuracy), [[[0, 0], [0, 0]], [[1, 1], [0, 0]]])
    fitted = lw.TaxonomyClassifier(pets).fit(pet_texts)
    split = FewLabelSplit(0, 2, test_size=0.5)
    for draw, (_, test) in enumerate(split.split(None, pet_labels)):
        hits = fitted.predict([pet_texts[i] for i in test]) == np.array(pet_labels)[test]
        assert accuracy[0, 0, draw] == hits.mean()
    assert [(row["method"], row["setting"]) for row in curve.rows()] == [
        ("ours", 0), ("ours", 2), ("NB", 2),
    ]  # fmt: skip
    ours, bayes = curve.table("text").splitlines()[1:3]
    assert re.fullmatch(r"ours  +[01]\.\d{3} ± 0\.\d{3} \*  +[01]\..*", ours)
    assert re.fullmatch(r"NB    +–  +[01]\..*", bayes)


def test_a_node_without_labels_so_far_is_no_mistake(pets, pet_texts, pet_labels):
    """At size 0 leaves are predicted; that a document belongs to an inner node shows later."""
    labels = ["vehicles" if i > 13 else label for i, label in enumerate(pet_labels)]
    model = {"ours": lw.TaxonomyClassifier(pets)}
    curve = learning_curve(model, pet_texts, labels, [0, 1], 1, pool=True)
    assert curve.n_test == (16, 11)
    assert curve.scores["accuracy"][0, 0, 0] <= 14 / 16


def test_several_labels_are_drawn_by_the_first_and_any_counts():
    texts = [f"document {i}" for i in range(10)]
    y = [["a", "b"], ["a"], ["a", "c"], ["a"], [], ["b", "a"], ["b"], ["b"], ["b"], ["b"]]
    few, whole = [], []
    curve = learning_curve({"few": Recorder(few)}, texts, y, [2], 5)
    learning_curve({"r": Recorder(whole)}, texts, y, [2], 5, pool=True, metric=lambda y, p: 0.0)
    first = [row[0] if row else None for row in y]
    for draw, (train, test) in enumerate(FewLabelSplit(2, 5).split(None, first)):
        assert few[draw][1].tolist() == [first[i] for i in train]
        assert whole[draw][1] == [y[i] if i in train else None for i in range(10)]
        hits = ["a" in y[i] for i in test]  # it predicts the label of the first one
        assert curve.scores["accuracy"][0, 0, draw] == np.mean(hits)
    assert curve.n_train == (4,)
    assert curve.n_test == (5,)


def test_one_prediction_counts_where_there_can_be_several(pets, pet_texts, pet_labels):
    y = [[label, "animals/cats"] if "boats" in label else [label] for label in pet_labels]
    model = {"ours": lw.TaxonomyClassifier(pets)}
    curve = learning_curve(model, pet_texts, y, [2], 2, pool=True)
    for draw, (train, test) in enumerate(FewLabelSplit(2, 2).split(None, pet_labels)):
        fitted = lw.TaxonomyClassifier(pets).fit(pet_texts, few_labels(y, train))
        best = fitted.classes_[fitted.predict_proba([pet_texts[i] for i in test]).argmax(axis=1)]
        hits = [path in y[i] for path, i in zip(best, test)]
        assert curve.scores["accuracy"][0, 0, draw] == np.mean(hits) > 0.5


def test_several_labels_have_accuracy_or_a_function():
    X, y = np.ones((4, 1)), [["a", "b"], ["a"], ["b"], ["b"]]
    with pytest.raises(ValueError, match='metric="macro_f1": some documents have several labels'):
        learning_curve({"NB": MultinomialNB()}, X, y, [1], 1, metric=["accuracy", "macro_f1"])

    def n_labels(y_true, y_pred):
        return sum(map(len, y_true))

    found = learning_curve({"NB": MultinomialNB()}, X, y, [1], 3, metric=n_labels)
    tests = [test for _, test in FewLabelSplit(1, 3).split(None, ["a", "a", "b", "b"])]
    expected = [sum(len(y[i]) for i in test) for test in tests]
    assert found.scores["n_labels"][0, 0].tolist() == expected


def test_metrics_can_be_functions(corpus):
    def hierarchical_f1(y_true, y_pred):
        return hierarchical_scores(y_true, y_pred, corpus.taxonomy)["hierarchical_f1"]

    found = learning_curve(
        {"NB": lw.NaiveBayes(corpus.taxonomy)},
        corpus.X,
        corpus.labels,
        [3],
        2,
        metric=[hierarchical_f1, "accuracy"],
    )
    assert found.metrics == ("hierarchical_f1", "accuracy")
    assert (found.mean("hierarchical_f1") > found.mean("accuracy")).all()
    train, test = next(FewLabelSplit(3).split(corpus.X, corpus.labels))
    y = np.array(corpus.labels)
    predicted = (
        lw.NaiveBayes(corpus.taxonomy).fit(corpus.X[train], y[train]).predict(corpus.X[test])
    )
    assert found.scores["hierarchical_f1"][0, 0, 0] == hierarchical_f1(y[test], predicted)


def test_minus_one_and_one_are_scored_as_classes(corpus):
    y = np.where(corpus.y < 6, -1, 1)
    found = learning_curve({"NB": MultinomialNB()}, corpus.X, y, [20], 2)
    for draw, (train, test) in enumerate(FewLabelSplit(20, 2).split(None, y)):
        hits = MultinomialNB().fit(corpus.X[train], y[train]).predict(corpus.X[test]) == y[test]
        assert found.scores["accuracy"][0, 0, draw] == hits.mean()


def test_progress_is_told_after_each_fit(corpus):
    told = []
    models = {"a": MultinomialNB(), "b": MultinomialNB()}
    learning_curve(
        models, corpus.X, corpus.y, [2, 3], 2, on_progress=lambda *said: told.append(said)
    )
    assert told == [(done, 8) for done in range(1, 9)]


def test_seconds_are_kept(monkeypatch, corpus):
    clock = iter(range(100))
    monkeypatch.setattr("leafwise.evaluation.perf_counter", lambda: next(clock) ** 2)
    found = learning_curve({"NB": MultinomialNB()}, corpus.X, corpus.y, [2, 3], 1)
    # The clock reads 0, 1, 4, 9, ...: the first fit takes 1 - 0, the first prediction 9 - 4.
    np.testing.assert_array_equal(found.fit_seconds, [[[1], [9]]])
    np.testing.assert_array_equal(found.predict_seconds, [[[5], [13]]])


def test_the_estimators_given_stay_unfitted(corpus):
    model = MultinomialNB()
    learning_curve({"NB": model}, corpus.X, corpus.y, [2], 1)
    assert not hasattr(model, "classes_")


def test_one_document_of_each_of_many_classes_is_no_reason_to_warn():
    X, y = np.tile(np.eye(30), (2, 1)), np.tile(np.arange(30), 2)
    found = learning_curve({"SVM": LinearSVC()}, X, y, [1], 1)  # warnings are errors here
    assert found.mean().item() == 1


def test_a_curve_cannot_be_changed(curve):
    with pytest.raises(dataclasses.FrozenInstanceError):
        curve.names = ()
    assert repr(curve) == (
        "<LearningCurve: NB, smooth; accuracy, macro_f1 at 9, 3 documents per class, 4 draws>"
    )


def test_what_twice_the_documents_would_add():
    values = [[[0.50, 0.60], [0.1, 0.2], [0.70, 0.90]]]
    curve = dataclasses.replace(
        made_up(values), sizes=(5, 1, 20), n_train=(10, 2, 40), n_test=(9, 9, 9)
    )
    mean, std = curve.doubling("a")  # two doublings from 10 to 40: gains of 0.2 and 0.3 in all
    assert mean == pytest.approx(0.125)
    assert std == pytest.approx(0.025)
    with pytest.raises(ValueError, match="two largest sizes have 40 and 40 training documents"):
        dataclasses.replace(curve, n_train=(40, 2, 40)).doubling("a")
    with pytest.raises(ValueError, match="have 0 and 40 training documents: expected some, and"):
        dataclasses.replace(curve, n_train=(0, 2, 40)).doubling("a")
    with pytest.raises(ValueError, match="have 9 and 9 training documents"):
        made_up([[[0.5]]], (9,)).doubling("a")


# --- Significance


def test_paired_is_the_t_test_of_the_raw_scores(curve):
    a, b = curve.scores["macro_f1"][:, 1]
    assert curve.paired("NB", "smooth", 3, "macro_f1") == paired_t_test(a, b, test_fraction=0.5)
    assert curve.paired("smooth", "NB", 3, "macro_f1") == paired_t_test(b, a, test_fraction=0.5)
    literal = curve.paired("NB", "smooth", 3, test_fraction=273 / 300)
    assert literal == paired_t_test(*curve.scores["accuracy"][:, 1], test_fraction=0.91)


def test_paired_takes_the_true_share_where_the_test_set_is_the_smaller():
    found = made_up([[[1.0, 2.0, 4.0]], [[1.0, 1.0, 1.0]]]).paired("a", "b", 1)
    assert found == paired_t_test([1, 2, 4], [1, 1, 1], test_fraction=0.1)


def false_and_true_alarms(n_documents, n_per_class, n_more_words, n_corpora=40):
    """How often two classifiers that see texts of their own are told apart, by three rules.

    Both texts of a document have words from the same distribution; the second is longer by
    `n_more_words`, and without that the classifiers are equally good.
    """
    n_classes, n_words = 9, 200
    rng = np.random.default_rng(0)
    p = 0.4 * rng.dirichlet(np.full(n_words, 0.1), n_classes)
    p += 0.6 * rng.dirichlet(np.full(n_words, 0.5))
    y = np.repeat(np.arange(n_classes), n_documents)
    n_train = n_classes * n_per_class
    found = np.zeros(3)
    for _ in range(n_corpora):
        texts = [rng.multinomial(length, p[y]) * 1.0 for length in (30, 30 + n_more_words)]
        values = np.empty((2, 1, 10))
        for draw, (train, test) in enumerate(FewLabelSplit(n_per_class).split(None, y)):
            for i, X in enumerate(texts):
                counts = X[train].reshape(n_classes, n_per_class, -1).sum(axis=1) + 0.1
                log_p = np.log(counts / counts.sum(axis=1, keepdims=True))
                log_joint = np.einsum("dw,cw->dc", X[test], log_p)
                values[i, 0, draw] = np.mean(log_joint.argmax(axis=1) == y[test])
        n_test = len(y) - n_train
        curve = made_up(values, (n_train,), (n_test,))
        tests = (
            paired_t_test(*values[:, 0]),
            curve.paired("a", "b", 1, test_fraction=n_test / len(y)),
            curve.paired("a", "b", 1),
        )
        found += [test.symbol != "≈" for test in tests]
    return found / n_corpora


def test_the_correction_raises_few_false_alarms_and_still_finds_differences():
    """Uncorrected, far more than 5 % of equal pairs differ; uncapped, hardly any pair does."""
    plain, uncapped, capped = false_and_true_alarms(60, 7, 0)
    assert plain > 0.15
    assert capped <= 0.05
    plain, uncapped, capped = false_and_true_alarms(60, 7, 10)
    assert uncapped < 0.1
    assert capped > 0.5


# --- Tables


def test_markdown_table():
    values = [
        [[0.50, 0.52, 0.54], [0.70, 0.72, 0.74]],
        [[0.80, 0.82, 0.84], [0.71, 0.73, 0.72]],
    ]
    table = made_up(values, (90, 90), (10, 10)).table()
    assert table.splitlines() == [
        "| accuracy | 1 | 2 |",
        "| --- | --- | --- |",
        "| a | 0.520 ± 0.016 | **0.720 ± 0.016** |",
        "| b | **0.820 ± 0.016** | 0.720 ± 0.008 ≈ |",
        "",
        "accuracy, mean ± standard deviation over 3 draws, by training documents per class. Bold: "
        "the best. ≈: not distinguishable from it (corrected paired t-test, p ≥ 0.05).",
    ]


def test_text_table():
    curve = made_up([[[0.5, 0.7], [0.3, 0.3]], [[0.6, 0.5], [0.4, 0.4]]], (90, 90), (10, 10))
    assert str(curve).splitlines() == [
        "accuracy  1                2",
        "a         0.600 ± 0.100 *  0.300 ± 0.000",
        "b         0.550 ± 0.050 ≈  0.400 ± 0.000 *",
        "accuracy, mean ± standard deviation over 2 draws, by training documents per class. *: "
        "the best. ≈: not distinguishable from it (corrected paired t-test, p ≥ 0.05).",
    ]


def test_table_of_one_method_and_one_draw():
    assert made_up([[[0.5]]]).table().splitlines() == [
        "| accuracy | 1 |",
        "| --- | --- |",
        "| a | 0.500 |",
        "",
        "accuracy, one draw, by training documents per class.",
    ]


def test_table_of_another_metric_and_of_all(curve):
    assert curve.table(metric="macro_f1").startswith("| macro F1 | 9 | 3 |\n")
    assert "\nmacro F1, mean ± standard deviation" in curve.table(metric="macro_f1")
    assert str(curve).count(" * ") + str(curve).count(" *\n") == 4
    assert str(curve) == curve.table("text", "accuracy") + "\n\n" + curve.table("text", "macro_f1")


def test_a_bar_in_a_name_does_not_break_the_table():
    curve = dataclasses.replace(made_up([[[0.5]]]), names=("p(w|c)",))
    assert r"| p(w\|c) | 0.500 |" in curve.table()


def test_size_0_is_drawn_to_the_left_of_the_others():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    values = [[[0.5, 0.6], [0.7, 0.9], [0.8, 0.8]], [[np.nan] * 2, [0.2, 0.2], [0.4, 0.4]]]
    curve = dataclasses.replace(made_up(values), sizes=(0, 6, 20))
    ax = curve.plot().ax_
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0", "6", "20"]
    assert ax.get_lines()[0].get_xdata().tolist() == [3, 6, 20]
    assert ax.get_xlim()[0] < 3
    alone = dataclasses.replace(made_up([[[0.5, 0.6]]]), sizes=(0,)).plot().ax_
    assert [label.get_text() for label in alone.get_xticklabels()] == ["0"]
    pyplot.close("all")


# --- What is refused


def test_wrong_estimators(corpus):
    for given in ({}, [MultinomialNB()], MultinomialNB()):
        with pytest.raises(ValueError, match="expected a dict of at least one name and classifier"):
            learning_curve(given, corpus.X, corpus.y, [2])


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("acuracy", r"metric='acuracy': expected a function .* Did you mean \"accuracy\"\?"),
        ("xyz", r"one of micro_precision, .*, binary_accuracy\.$"),
        ([3], "metric=3: expected a function"),
        (["accuracy", "accuracy"], 'Two metrics are called "accuracy"'),
        ([], "metric is empty: expected a metric or a list of them"),
        (lambda y, p: np.nan, 'Metric "<lambda>" returned nan, expected a finite number'),
        (lambda y, p: y, r'Metric "<lambda>" returned array\('),
    ],
)
def test_wrong_metrics(corpus, metric, message):
    with pytest.raises(ValueError, match=message):
        learning_curve({"NB": MultinomialNB()}, corpus.X, corpus.y, [2], 1, metric=metric)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([], r"sizes=\[\]: expected a list of numbers of documents per class, each once"),
        (7, "sizes=7: expected a list of numbers"),
        ([3, 7, 3], r"sizes=\[3, 7, 3\]: expected a list of numbers .* each once"),
        ([3, -1], "n_per_class=-1: expected a whole number from 0 on"),
        ([3, 0], "sizes has a 0, but no method is given the pool: there is nothing to learn from"),
    ],
)
def test_wrong_sizes(corpus, sizes, message):
    with pytest.raises(ValueError, match=message):
        learning_curve({"NB": MultinomialNB()}, corpus.X, corpus.y, sizes)


def test_a_size_too_large_is_refused_before_the_first_fit():
    seen = []
    with pytest.raises(LabelError, match="Class 'b' has 3 documents, expected at least 4"):
        learning_curve({"r": Recorder(seen)}, list("12345678"), list("aaaaabbb"), [1, 3])
    assert not seen


def test_labels_that_are_never_predicted_are_refused(corpus):
    names = [label.split("/")[1] for label in corpus.labels]
    with pytest.raises(LabelError, match="'NB' never predicts 'a1'; its classes are such as '/'"):
        learning_curve({"NB": lw.NaiveBayes(corpus.taxonomy)}, corpus.X, names, [2], 1)


def test_a_failing_fit_says_which_it_was(corpus):
    models = {"good": lw.NaiveBayes(), "bad": lw.NaiveBayes(smoothing="x")}
    with pytest.raises(ValueError, match=r"smoothing='x'") as caught:
        learning_curve(models, corpus.X, corpus.labels, [2], 1)
    assert caught.value.__notes__ == ["This was 'bad', draw 0 of size 2."]


def test_what_a_curve_does_not_have(curve):
    with pytest.raises(ValueError, match=r"No size of this curve is 4\. There are 9, 3\."):
        curve.paired("NB", "smooth", 4)
    with pytest.raises(ValueError, match=r"No method of this curve is 'x'\. There are 'NB', 'sm"):
        curve.paired("NB", "x", 3)
    with pytest.raises(ValueError, match=r"No metric of this curve is 'f1'\. There are 'accuracy'"):
        curve.mean("f1")
    with pytest.raises(ValueError, match='format=\'html\': expected "markdown" or "text"'):
        curve.table("html")
