"""Figures: what is drawn is looked at as matplotlib's objects, not as pixels."""

import dataclasses
import sys
from itertools import combinations, pairwise

import matplotlib
import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import leafwise as lw
from leafwise.datasets import NEWSGROUPS_15
from leafwise.evaluation import LearningCurve, learning_curve
from leafwise.exceptions import DependencyError
from leafwise.metrics import RejectCurve, reject_curve
from leafwise.plots import (
    COLORS,
    MARKERS,
    CategorySizeDisplay,
    LearningCurveDisplay,
    LevelWeightsDisplay,
    RejectCurveDisplay,
    TreeWordsDisplay,
)
from leafwise.synthetic import make_corpus

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def figures():
    """Every figure of a test can be drawn, and is closed after it."""
    yield
    for number in plt.get_fignums():
        plt.figure(number).draw_without_rendering()
    plt.close("all")


@pytest.fixture
def curve():
    """Two methods at two sizes that are not in order, three draws."""
    values = np.array([[[0.7, 0.8, 0.9], [0.4, 0.5, 0.6]], [[0.6, 0.6, 0.6], [0.3, 0.3, 0.3]]])
    nothing = np.zeros(values.shape)
    scores = {"accuracy": values, "macro_f1": values / 2}
    return LearningCurve(("NB", "HS"), (20, 7), scores, nothing, nothing, (60, 21), (40, 79))


def tick_labels(ax):
    return [label.get_text() for label in ax.get_xticklabels()]


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- Learning curves


def test_learning_curve(curve):
    display = LearningCurveDisplay.from_curve(curve)
    ax = display.ax_
    assert display.figure_ is ax.figure
    assert legend_texts(ax) == ["NB", "HS"]
    assert ax.get_xscale() == "log"
    assert tick_labels(ax) == ["7", "20"]
    assert ax.get_xlabel() == "training documents per class"
    assert ax.get_ylabel() == "accuracy"
    nb, hs = ax.get_lines()
    np.testing.assert_array_equal(nb.get_xdata(), [7, 20])
    np.testing.assert_allclose(nb.get_ydata(), [0.5, 0.8])
    np.testing.assert_allclose(hs.get_ydata(), [0.3, 0.6])
    assert nb.get_color() != hs.get_color()
    assert len(ax.collections) == 2


def test_bands_are_a_standard_deviation_to_each_side(curve):
    band = LearningCurveDisplay.from_curve(curve).ax_.collections[0]
    heights = band.get_paths()[0].vertices[:, 1]
    std = np.sqrt(2 / 3) / 10
    assert heights.min() == pytest.approx(0.5 - std)
    assert heights.max() == pytest.approx(0.8 + std)


def test_one_draw_has_no_bands(curve):
    values = {"accuracy": curve.scores["accuracy"][:, :, :1]}
    nothing = np.zeros((2, 2, 1))
    single = LearningCurve(curve.names, curve.sizes, values, nothing, nothing, (1, 1), (1, 1))
    ax = LearningCurveDisplay.from_curve(single).ax_
    assert len(ax.get_lines()) == 2
    assert not ax.collections


def test_another_metric(curve):
    ax = curve.plot(metric="macro_f1").ax_
    assert ax.get_ylabel() == "macro F1"
    np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), [0.25, 0.4])


def test_published_figures_are_dashed_and_have_the_colour_of_their_method(curve):
    published = {"NB": {67: 0.749, 7: 0.467}, "HM": {7: 0.585}}
    ax = curve.plot(published=published).ax_
    nb, hs, published_nb, published_hm = ax.get_lines()
    assert legend_texts(ax) == ["NB", "HS", "NB (published)", "HM (published)"]
    assert nb.get_linestyle() == "-"
    assert published_nb.get_linestyle() == published_hm.get_linestyle() == "--"
    np.testing.assert_array_equal(published_nb.get_xdata(), [7, 67])
    np.testing.assert_array_equal(published_nb.get_ydata(), [0.467, 0.749])
    assert published_nb.get_color() == nb.get_color()
    assert [line.get_color() for line in (nb, hs, published_hm)] == list(COLORS[:3])
    assert tick_labels(ax) == ["7", "20"]
    # Ours are drawn over them, and smaller: both are seen where they are the same.
    assert published_nb.get_zorder() < nb.get_zorder()
    assert published_nb.get_markersize() > nb.get_markersize()


def test_at_one_size_methods_stand_beside_each_other(curve):
    values = curve.scores["accuracy"][:, :1]
    nothing = np.zeros(values.shape)
    one = LearningCurve(("NB", "HS"), (20,), {"accuracy": values}, nothing, nothing, (9,), (9,))
    ax = one.plot(published={"HS": {20: 0.6}}).ax_
    nb, nb_bar, hs, hs_bar, published = ax.get_lines()
    (low, high), (left,), (right,) = ax.get_xlim(), nb.get_xdata(), hs.get_xdata()
    assert 20 / 2 < low < left < 20 < right < high < 20 * 2
    assert published.get_xdata() == right
    np.testing.assert_allclose(nb_bar.get_xdata(), [left, left])
    std = np.sqrt(2 / 3) / 10
    np.testing.assert_allclose(nb_bar.get_ydata(), [0.8 - std, 0.8 + std])
    np.testing.assert_allclose(hs_bar.get_ydata(), [0.6, 0.6])
    assert tick_labels(ax) == ["20"]
    # Beside a published figure of another size they stay where they are.
    lines = one.plot(published={"HS": {20: 0.6, 67: 0.9}}).ax_.get_lines()
    assert [line.get_xdata().tolist() for line in lines] == [[20], [20], [20, 67]]


def test_axes_given_are_used(curve):
    figure, (left, right) = plt.subplots(1, 2)
    display = curve.plot(ax=right)
    assert display.ax_ is right
    assert display.figure_ is figure
    assert not left.get_lines()
    assert len(plt.get_fignums()) == 1


def test_a_display_can_be_drawn_again(curve):
    display = LearningCurveDisplay(curve)
    assert not hasattr(display, "ax_")
    first = display.plot().ax_
    assert display.plot().ax_ is not first


def test_names_are_not_formulas(curve):
    names = ("$\\frac$", "HS")
    ax = dataclasses.replace(curve, names=names).plot().ax_
    assert legend_texts(ax) == list(names)
    assert not any(text.get_parse_math() for text in ax.get_legend().get_texts())


def test_many_methods_are_told_apart():
    n = len(COLORS) + 3
    nothing = np.zeros((n, 1, 1))
    names = tuple(f"method {i}" for i in range(n))
    curve = LearningCurve(names, (7,), {"accuracy": nothing}, nothing, nothing, (7,), (7,))
    lines = curve.plot().ax_.get_lines()
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == n
    assert np.gcd(len(COLORS), len(MARKERS)) == 1


def test_an_unknown_metric(curve):
    with pytest.raises(ValueError, match="No metric of this curve is 'x'"):
        curve.plot(metric="x")


def test_a_real_curve():
    corpus = make_corpus(n_documents=200, n_words=100, random_state=0)
    real = learning_curve({"NB": lw.NaiveBayes()}, corpus.X, corpus.y, [2, 5], 2)
    line = real.plot().ax_.get_lines()[0]
    np.testing.assert_array_equal(line.get_ydata(), real.mean()[0])


# --- Weights of levels


def test_level_weights():
    weights = {40: [[0.2, 0.8], [0.4, 0.6]], 5: [[0.9, 0.1], [0.7, 0.3]]}
    display = LevelWeightsDisplay.from_weights(weights)
    ax = display.ax_
    assert legend_texts(ax) == ["own class", "uniform"]
    assert tick_labels(ax) == ["5", "40"]
    assert ax.get_xscale() == "log"
    own, uniform = ax.containers
    np.testing.assert_array_equal(own.lines[0].get_xdata(), [5, 40])
    np.testing.assert_allclose(own.lines[0].get_ydata(), [0.8, 0.3])
    np.testing.assert_allclose(uniform.lines[0].get_ydata(), [0.2, 0.7])
    bars = own.lines[2][0].get_segments()
    np.testing.assert_allclose([bar[:, 1] for bar in bars], [[0.7, 0.9], [0.2, 0.4]])


def test_a_class_without_a_level_does_not_count_for_it():
    weights = [[[0.5, 0.5], [1.0, np.nan]]]
    ax = LevelWeightsDisplay([7], weights, ["all", "self"]).plot().ax_
    assert legend_texts(ax) == ["all", "self"]
    assert ax.containers[0].lines[0].get_ydata() == [0.75]
    assert ax.containers[1].lines[0].get_ydata() == [0.5]


def test_default_names_of_levels():
    def names(*rows):
        return LevelWeightsDisplay.from_weights({5: rows, 7: rows}).level_names

    assert names([1.0]) == ["own class"]
    assert names([0.5, 0.3, 0.2]) == ["own class", "root", "uniform"]
    assert names([0.5, 0.2, 0.2, 0.1]) == ["own class", "1 above", "root", "uniform"]
    # The second path ends a level below.
    ragged = [0.5, 0.2, 0.2, 0.1], [0.6, 0.3, 0.0, 0.1]
    assert names(*ragged) == ["own class", "1 above", "2 above", "uniform"]


RAGGED = lw.Taxonomy.from_paths(["a/x/p", "a/x/q", "a/y", "b"])


def fitted(model, labels):
    """Three documents of each label, with words of their own and common ones."""
    y = [label for label in labels for _ in range(3)]
    X = np.random.default_rng(0).poisson(2.0, (len(y), 8))
    return model.fit(X, y)


def test_level_weights_of_models():
    small = fitted(lw.HierarchicalShrinkage(RAGGED), ["a/x/p", "a", "a/y", "b"])
    large = fitted(lw.HierarchicalMixture(RAGGED), ["a/x/p", "a/x/q", "a/y", "b"])
    display = LevelWeightsDisplay.from_models({50: large, 3: small})
    names = ["own class", "1 above", "2 above", "root", "uniform"]
    assert display.level_names == legend_texts(display.ax_) == names
    assert display.sizes == [3, 50]
    # "a" has its documents, itself and the root; "b" its documents and the root.
    of = dict(zip(small.classes_.tolist(), small.level_weights_))
    (p, y, b, a), nan = (of[label] for label in ("a/x/p", "a/y", "b", "a")), np.nan
    expected = {
        "a": [a[0], a[1], nan, a[2], a[4]],
        "a/x/p": p,
        "a/y": [y[0], y[1], nan, y[2], y[4]],
        "b": [b[0], nan, nan, b[1], b[4]],
    }
    np.testing.assert_array_equal(display.weights[0], list(expected.values()))
    assert display.weights[1].shape == (4, 5)
    for weights in display.weights:
        np.testing.assert_allclose(np.nansum(weights, axis=1), 1)
    root = display.ax_.containers[3].lines[0].get_ydata()
    assert root[0] == pytest.approx(np.mean([a[2], p[3], y[2], b[1]]))


def test_level_weights_without_some_levels():
    labels = ["a/x/p", "a/y", "b"]
    for model, names in [
        (lw.HPLC(RAGGED), ["own class", "1 above", "2 above", "root"]),
        (lw.PLC(RAGGED), ["own class"]),
        (lw.HierarchicalShrinkage(), ["own class", "root", "uniform"]),
    ]:
        assert LevelWeightsDisplay.from_models({3: fitted(model, labels)}).level_names == names


def test_a_level_that_only_one_size_has():
    models = {n: lw.HierarchicalShrinkage(RAGGED, nodes="leaves") for n in (3, 9)}
    fitted(models[3], ["a/y", "b"])
    fitted(models[9], ["a/x/p", "a/y", "b"])
    ax = LevelWeightsDisplay.from_models(models).ax_
    assert legend_texts(ax) == ["own class", "1 above", "2 above", "root", "uniform"]
    above = ax.containers[2].lines[0].get_ydata()
    assert np.isnan(above).tolist() == [True, False]


def test_level_weights_of_wrong_models():
    with pytest.raises(ValueError, match=r"models is empty: expected \{size: fitted model\}"):
        LevelWeightsDisplay.from_models({})
    with pytest.raises(NotFittedError, match="This HierarchicalShrinkage instance is not fitted"):
        LevelWeightsDisplay.from_models({5: lw.HierarchicalShrinkage()})
    with pytest.raises(TypeError, match=r"NaiveBayes has no level_weights_.* HierarchicalShrinka"):
        LevelWeightsDisplay.from_models({5: fitted(lw.NaiveBayes(), ["a", "b"])})


def test_wrong_level_weights():
    with pytest.raises(ValueError, match=r"weights is empty: expected \{size: array"):
        LevelWeightsDisplay.from_weights({})
    with pytest.raises(ValueError, match="There are 2 sizes and weights for 1 of them"):
        LevelWeightsDisplay([5, 7], [[[1.0]]], ["root"])
    message = r"The weights of size 5 have shape \(1, 2\), expected .* for each of the 3 levels"
    with pytest.raises(ValueError, match=message):
        LevelWeightsDisplay.from_weights({5: [[0.5, 0.5]]}, ["a", "b", "c"])
    with pytest.raises(ValueError, match=r"have shape \(2,\), expected a row per class"):
        LevelWeightsDisplay.from_weights({5: [0.5, 0.5]})
    with pytest.raises(ValueError, match='No class has a weight of the level "uniform"'):
        LevelWeightsDisplay.from_weights({5: [[0.5, np.nan]]})


# --- Sizes of categories


def test_category_sizes():
    f1 = {"HS": [0.2, 0.4], "HM": [0.3, 0.5]}
    ax = CategorySizeDisplay([10, 20], f1).plot().ax_
    assert tick_labels(ax) == ["≤ 10", "11–20"]
    assert legend_texts(ax) == ["HS", "HM"]
    hs, hm = ax.containers
    assert [bar.get_height() for bar in hs] == [0.2, 0.4]
    assert [bar.get_height() for bar in hm] == [0.3, 0.5]
    sides = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in (*hs, *hm)]
    sides.sort()
    assert all(right <= left for (_, right), (left, _) in pairwise(sides))


def test_categories_are_averaged_in_bins():
    n_train = [1, 10, 11, 45, 51]
    f1 = {"HS": [0.1, 0.3, 0.5, 0.7, 0.9]}
    display = CategorySizeDisplay.from_categories(n_train, f1, [10, 20, 30, 50])
    np.testing.assert_allclose(display.f1["HS"], [0.2, 0.5, np.nan, 0.7, 0.9])
    assert display.n_categories == [2, 1, 0, 1, 1]
    assert tick_labels(display.ax_) == [
        "≤ 10\nn = 2",
        "11–20\nn = 1",
        "21–30\nn = 0",
        "31–50\nn = 1",
        "over 50\nn = 1",
    ]


def test_no_open_bin_without_need():
    display = CategorySizeDisplay.from_categories([5, 50], {"HS": [0.1, 0.3]})
    assert display.n_categories == [1, 0, 0, 0, 1]
    assert tick_labels(display.ax_)[-1] == "41–50\nn = 1"


def test_the_labels_of_empty_bins_are_within_the_picture():
    display = CategorySizeDisplay.from_categories([15], {"HS": [0.1]}, [10, 20, 1000])
    display.figure_.draw_without_rendering()
    inside = display.ax_.get_window_extent()
    for label in display.ax_.get_xticklabels():
        extent = label.get_window_extent()
        assert inside.x0 < extent.x0 < extent.x1 < inside.x1


def test_wrong_category_sizes():
    with pytest.raises(ValueError, match=r"bins=\[20, 10\]: expected ascending numbers"):
        CategorySizeDisplay([20, 10], {"HS": [0.1, 0.2]})
    with pytest.raises(ValueError, match=r"'HS' has values of shape \(1,\), expected one for each"):
        CategorySizeDisplay([10, 20], {"HS": [0.1]})
    with pytest.raises(ValueError, match="f1 is empty: expected the values of at least one method"):
        CategorySizeDisplay([10, 20], {})
    with pytest.raises(ValueError, match="'HS' has 2 values, expected one for each of the 3 categ"):
        CategorySizeDisplay.from_categories([1, 2, 3], {"HS": [0.1, 0.2]})


# --- Reject curves


def test_reject_curve():
    predictions = ["a", "a", "b", "b"], ["a", "b", "b", "b"], [0.3, 0.2, 0.8, 0.9]
    display = RejectCurveDisplay.from_predictions(*predictions)
    ax = display.ax_
    assert display.figure_ is ax.figure
    assert legend_texts(ax) == ["micro F1", "precision"]
    assert ax.get_xlabel() == "documents rejected, percent"
    assert ax.get_ylabel() == "micro F1, precision"
    assert ax.get_xlim() == (0, 100)
    f1, precision = ax.get_lines()
    for line in f1, precision:
        np.testing.assert_allclose(line.get_xdata(), [0, 25, 50, 75])
    np.testing.assert_allclose(f1.get_ydata(), [3 / 4, 6 / 7, 4 / 6, 2 / 5])
    np.testing.assert_allclose(precision.get_ydata(), [3 / 4, 1, 1, 1])
    assert (f1.get_linestyle(), precision.get_linestyle()) == ("-", "--")
    np.testing.assert_array_equal(display.curve, reject_curve(*predictions))


def test_reject_curves_on_one_axes_are_told_apart():
    curve = reject_curve(["a", "a", "b"], ["a", "b", "b"], [0.3, 0.2, 0.8])
    _, (left, right) = plt.subplots(1, 2)
    for name in ("NB", "$HD$"):
        assert RejectCurveDisplay(curve, name=name).plot(right).ax_ is right
    assert not left.get_lines()
    assert legend_texts(right) == [
        "NB, micro F1", "NB, precision", "$HD$, micro F1", "$HD$, precision",
    ]  # fmt: skip
    assert not any(text.get_parse_math() for text in right.get_legend().get_texts())
    colors = [line.get_color() for line in right.get_lines()]
    assert colors == [COLORS[0], COLORS[0], COLORS[1], COLORS[1]]


def test_reject_curves_of_one_point_and_of_none():
    def markers(y_pred, confidence):
        display = RejectCurveDisplay.from_predictions(["a", "b"], y_pred, confidence)
        return [(len(line.get_xdata()), line.get_marker()) for line in display.ax_.get_lines()]

    assert markers(["a", "a"], [1, 1]) == [(1, "o")] * 2  # a line would not be seen
    assert markers(["a", "a"], [1, 2]) == [(2, "None")] * 2
    assert markers([None, None], [1, 2]) == [(0, "None")] * 2


def test_reject_curve_of_a_model():
    corpus = make_corpus(n_documents=300, n_words=80, doc_length=10, random_state=0)
    model = lw.NaiveBayes(corpus.taxonomy).fit(corpus.X[:150], corpus.labels[:150])
    X, y = corpus.X[150:], corpus.labels[150:]
    display = RejectCurveDisplay.from_estimator(model, X, y)
    expected = reject_curve(y, model.predict(X), model.predict_proba(X).max(axis=1))
    for name in ("reject_rate", "precision", "recall", "micro_f1"):
        np.testing.assert_allclose(getattr(display.curve, name), getattr(expected, name))
    assert display.curve.micro_f1[0] == pytest.approx(model.score(X, y))
    assert legend_texts(display.ax_) == ["NaiveBayes, micro F1", "NaiveBayes, precision"]
    # Unlabelled documents do not count.
    some = RejectCurveDisplay.from_estimator(model, X, [*y[:50], *[None] * 100], name="some")
    assert some.name == "some"
    assert some.curve.micro_f1[0] == pytest.approx(model.score(X[:50], y[:50]))


class Given:
    """A classifier whose probabilities are the documents themselves."""

    def __init__(self, classes):
        self.classes_ = np.array(list(classes))

    def predict(self, X):
        return self.classes_[np.argmax(X, axis=1)]

    def predict_proba(self, X):
        return np.array(X)


class GivenLog(Given):
    def predict_log_proba(self, X):
        return np.array(X)


def test_documents_of_equal_probability_are_rejected_together():
    X = [[0.5, 0.3, 0.2], [0.1, 0.5, 0.4], [0.7, 0.1, 0.2], [0.2, 0.1, 0.7], [1, 0, 0]]
    curve = RejectCurveDisplay.from_estimator(Given("abc"), X, list("abbca")).curve
    np.testing.assert_allclose(curve.reject_rate, [0, 2 / 5, 4 / 5])
    np.testing.assert_allclose(curve.precision, [4 / 5, 2 / 3, 1])
    np.testing.assert_allclose(np.exp(curve.threshold[:2]), [0.5 / 0.5, 0.7 / 0.3])
    assert curve.threshold[2] == np.inf


def test_probabilities_that_round_to_one_still_have_an_order():
    log_p = [[0.0, -90.0], [-50.0, 0.0], [0.0, -70.0]]
    assert set(np.exp(log_p).max(axis=1)) == {1.0}
    curve = RejectCurveDisplay.from_estimator(GivenLog("ab"), log_p, list("aaa")).curve
    np.testing.assert_allclose(curve.threshold, [50, 70, 90])
    np.testing.assert_allclose(curve.precision, [2 / 3, 1, 1])


def test_a_model_of_one_class_has_one_point():
    curve = RejectCurveDisplay.from_estimator(Given(["a"]), [[1.0], [1.0]], ["a", "b"]).curve
    assert isinstance(curve, RejectCurve)
    np.testing.assert_array_equal(curve.threshold, [np.inf])
    assert curve.precision == [0.5]


def test_wrong_models_for_reject_curves():
    message = r"WordCounter has neither predict_log_proba nor predict_proba.* to from_predictions"
    with pytest.raises(TypeError, match=message):
        RejectCurveDisplay.from_estimator(lw.WordCounter(), ["a"], ["a"])
    with pytest.raises(NotFittedError, match="This NaiveBayes instance is not fitted yet"):
        RejectCurveDisplay.from_estimator(lw.NaiveBayes(), [[1]], ["a"])


# --- The tree with its words


class Words(BaseEstimator):
    """A model whose nodes have made-up words."""

    vocabulary = (
        "windows", "stephanopoulos", "mr", "christians", "file", "armenians", "government",
        "drive", "a",
    )  # fmt: skip

    def __init__(self, taxonomy):
        self.taxonomy_ = taxonomy
        self.asked = []

    def node_words(self, path, n=10, feature_names=None):
        self.asked.append((path, n))
        first = self.taxonomy_.index(path)
        columns = [(first + k) % len(self.vocabulary) for k in range(n)]
        names = range(len(self.vocabulary)) if feature_names is None else feature_names
        return [(names[column], 1.0) for column in columns]

    def fit(self, X, y=None):
        raise AssertionError("it is fitted")


NEWSGROUPS = lw.Taxonomy.from_paths(NEWSGROUPS_15)


def check_nothing_overlaps(display):
    """No box meets another, and every text stays in its own box and off the other lines."""
    boxes = {i: box.get_window_extent() for i, box in display.boxes_.items()}
    for a, b in combinations(boxes.values(), 2):
        assert not a.overlaps(b)
    room = display.ax_.get_window_extent()
    for i, texts in display.texts_.items():
        extents = [text.get_window_extent() for text in texts]
        for extent in extents:
            assert boxes[i].x0 < extent.x0 < extent.x1 < boxes[i].x1
            assert boxes[i].y0 < extent.y0 < extent.y1 < boxes[i].y1
        assert room.x0 <= boxes[i].x0 < boxes[i].x1 <= room.x1
        assert room.y0 <= boxes[i].y0 < boxes[i].y1 <= room.y1
        for a, b in combinations(extents, 2):
            assert not a.overlaps(b)


def texts_of(display, i):
    return [text.get_text() for text in display.texts_[i]]


def test_tree_of_newsgroups():
    display = TreeWordsDisplay.from_model(Words(NEWSGROUPS), feature_names=Words.vocabulary)
    assert set(display.boxes_) == set(range(21))
    check_nothing_overlaps(display)
    i = NEWSGROUPS.index("comp.graphics")
    assert texts_of(display, i)[0] == "comp.graphics"
    assert " ".join(texts_of(display, i)[1:]) == "mr, christians, file, armenians, government"
    assert texts_of(display, 0)[0] == "/"
    edges = [p for p in display.ax_.patches if p not in display.boxes_.values()]
    assert len(edges) == 20


def test_leaves_are_evenly_spaced_and_parents_amid_their_children():
    display = TreeWordsDisplay(NEWSGROUPS, [["word"]] * 21).plot()
    middle = {i: box.get_bbox().y0 + box.get_bbox().height / 2 for i, box in display.boxes_.items()}
    steps = np.diff([middle[i] for i in NEWSGROUPS.leaves])
    np.testing.assert_allclose(steps, steps[0])
    for i in [0, *NEWSGROUPS.children(0)]:
        children = NEWSGROUPS.children(i)
        assert middle[i] == pytest.approx((middle[children[0]] + middle[children[-1]]) / 2)


def test_levels_go_from_left_to_right_and_siblings_from_the_top_down():
    display = TreeWordsDisplay.from_model(Words(NEWSGROUPS))
    boxes = {i: box.get_window_extent() for i, box in display.boxes_.items()}
    for i in range(1, 21):
        assert boxes[NEWSGROUPS.parent[i]].x1 < boxes[i].x0
    leaves = [boxes[i].y0 for i in NEWSGROUPS.leaves]
    assert leaves == sorted(leaves, reverse=True)


@pytest.mark.parametrize("seed", range(4))
def test_no_overlap_whatever_the_tree(seed):
    rng = np.random.default_rng(seed)
    parent = [-1] + [int(rng.integers(max(0, i - 6), i)) for i in range(1, 15)]
    names = ["", *("name " * int(rng.integers(1, 12)) + str(i) for i in range(1, 15))]
    tree = lw.Taxonomy(names, parent)
    words = [["quixotically"] * int(rng.integers(0, 12)) for _ in range(15)]
    check_nothing_overlaps(TreeWordsDisplay(tree, words).plot())


def test_a_tall_parent_of_one_small_child_has_room():
    tree = lw.Taxonomy.from_paths(["a/x", "b/y", "c"])
    words = [["word"] * 60, *([["word"] * 40, []] * 2), []]
    check_nothing_overlaps(TreeWordsDisplay(tree, words).plot())


def test_a_tree_of_nothing_but_a_root():
    display = TreeWordsDisplay(lw.Taxonomy([""], [-1]), [["a", "b"]]).plot()
    assert texts_of(display, 0) == ["/", "a, b"]
    check_nothing_overlaps(display)


@pytest.mark.parametrize("size", [(14, 7), (3, 9)])
def test_on_given_axes_the_texts_shrink(size):
    figure, axes = plt.subplots(1, 2, figsize=size)
    display = TreeWordsDisplay.from_model(
        Words(NEWSGROUPS), feature_names=Words.vocabulary, ax=axes[1]
    )
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    boxes = [box.get_window_extent() for box in display.boxes_.values()]
    for a, b in combinations(boxes, 2):
        assert not a.overlaps(b)
    for i, texts in display.texts_.items():
        box = display.boxes_[i].get_window_extent()
        assert all(text.get_window_extent().x1 <= box.x1 for text in texts)


def test_a_large_tree_is_cut_and_says_so():
    tree = lw.Taxonomy.from_paths(f"{a}/{b}/{c}" for a in "xyz" for b in "12" for c in "pqrs")
    model = Words(tree)
    display = TreeWordsDisplay.from_model(model, n_words=2, max_nodes=10)
    assert len(display.boxes_) == 10
    assert len(model.asked) == 10
    assert {n for _, n in model.asked} == {2}
    assert texts_of(display, tree.index("x/1"))[-1] == "... and 4 more"
    check_nothing_overlaps(display)


def test_words_that_are_numbers_and_names_that_look_like_formulas():
    tree = lw.Taxonomy.from_paths(["$a$", "b"])
    display = TreeWordsDisplay.from_model(Words(tree), n_words=3)
    assert texts_of(display, 1) == ["$a$", "1, 2, 3"]
    assert not display.texts_[1][0].get_parse_math()


@pytest.mark.parametrize("labels", ["paths", "names", "numbers"])
def test_a_real_model(labels):
    corpus = make_corpus(n_documents=100, n_words=50, random_state=0)
    y = corpus.y if labels == "numbers" else corpus.labels
    model = lw.NaiveBayes(corpus.taxonomy if labels == "paths" else None).fit(corpus.X, y)
    display = TreeWordsDisplay.from_model(model, n_words=4, feature_names=corpus.words)
    assert len(display.boxes_) == len(model.taxonomy_)
    check_nothing_overlaps(display)
    i = int(model.nodes_[-1])
    expected = [word for word, _ in model.node_words(model.classes_[-1], 4, corpus.words)]
    assert texts_of(display, i) == [model.taxonomy_.names[i], ", ".join(expected)]
    assert len(expected) == 4


def test_branches_have_colours_of_their_own():
    display = TreeWordsDisplay(NEWSGROUPS, [[]] * 21).plot()
    colors = {i: box.get_facecolor() for i, box in display.boxes_.items()}
    top = NEWSGROUPS.children(0)
    assert len({colors[i] for i in top}) == len(top)
    for i in top:
        assert {colors[j] for j in NEWSGROUPS.descendants(i)} == {colors[i]}


def test_wrong_trees():
    with pytest.raises(TypeError, match="WordCounter has no node_words, so there are no words"):
        TreeWordsDisplay.from_model(lw.WordCounter())
    with pytest.raises(NotFittedError, match="This NaiveBayes instance is not fitted yet"):
        TreeWordsDisplay.from_model(lw.NaiveBayes())
    with pytest.raises(ValueError, match="There are words for 2 nodes, but the tree has 21"):
        TreeWordsDisplay(NEWSGROUPS, [[], []])
    with pytest.raises(ValueError, match="max_nodes=0: expected a number of nodes of at least 1"):
        TreeWordsDisplay(NEWSGROUPS, [[]] * 21, max_nodes=0)


# --- matplotlib itself


def test_without_matplotlib_it_says_what_to_install(monkeypatch, curve):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    displays = [
        LearningCurveDisplay(curve),
        LevelWeightsDisplay([5], [[[1.0]]], ["root"]),
        CategorySizeDisplay([10], {"HS": [0.1]}),
        RejectCurveDisplay(reject_curve(["a"], ["a"], [1])),
        TreeWordsDisplay(NEWSGROUPS, [[]] * 21),
    ]
    for display in displays:
        with pytest.raises(DependencyError, match=r'pip install "leafwise\[plot\]"'):
            display.plot()
