"""Metrics against scikit-learn and scipy, slow references, and cases worked by hand."""

from __future__ import annotations

import itertools
import math
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats
from sklearn import metrics as reference
from sklearn.preprocessing import MultiLabelBinarizer

from leafwise.exceptions import LabelError
from leafwise.metrics import (
    RejectCurve,
    ReliabilityCurve,
    break_even,
    brier_score,
    expected_calibration_error,
    gini_impurity,
    hierarchical_scores,
    log_loss,
    micro_break_even,
    paired_t_test,
    reject_curve,
    reliability_curve,
    scores,
)
from leafwise.taxonomy import Taxonomy

LABELS = ["a", "a/b", "a/c", "d", "d/e/f"]
examples = settings(max_examples=50, deadline=None)  # a slow machine is no failure
TREE = Taxonomy.from_paths(["a/b", "a/c", "d/e/f", "d/e/g", "d/h"])


def pairs(elements):
    return st.lists(st.tuples(elements, elements), min_size=1, max_size=30).map(
        lambda rows: tuple(map(list, zip(*rows)))
    )


def sklearn_scores(y_true, y_pred, **options):
    result = {}
    for average in "micro", "macro":
        values = reference.precision_recall_fscore_support(
            y_true, y_pred, average=average, zero_division=0, **options
        )
        result |= dict(zip([f"{average}_{n}" for n in ("precision", "recall", "f1")], values))
    return result


def assert_includes(result, expected):
    for name, value in expected.items():
        assert result[name] == pytest.approx(value, abs=1e-12), name


@contextmanager
def raises(kind, message):
    """Exactly this class: a LabelError is a ValueError too."""
    with pytest.raises(ValueError, match=message) as caught:
        yield
    assert caught.type is kind


# --- scores


def test_scores_by_hand():
    # cats: 2 true, 3 predicted, 2 right; dogs: 2 true, 1 predicted, 1 right; cows: 1, 1, 1.
    y_true = ["cat", "cat", "dog", "dog", "cow"]
    y_pred = ["cat", "cat", "cat", "dog", "cow"]
    result = scores(y_true, y_pred)
    assert result == pytest.approx(
        {
            "micro_precision": 4 / 5,
            "micro_recall": 4 / 5,
            "micro_f1": 4 / 5,
            "macro_precision": (2 / 3 + 1 + 1) / 3,
            "macro_recall": (1 + 1 / 2 + 1) / 3,
            "macro_f1": (4 / 5 + 2 / 3 + 1) / 3,
            "accuracy": 4 / 5,
            "binary_accuracy": 13 / 15,  # 5 × 3 decisions; dog lost one, cat gained one
        }
    )


def test_multilabel_scores_by_hand():
    y_true = [["cat", "dog"], ["cat"], []]
    y_pred = [["cat"], ["cat", "cow"], []]
    # cat: 2 true, 2 predicted, 2 right. dog: 1, 0, 0. cow: 0, 1, 0.
    assert scores(y_true, y_pred) == pytest.approx(
        {
            "micro_precision": 2 / 3,
            "micro_recall": 2 / 3,
            "micro_f1": 2 / 3,
            "macro_precision": 1 / 3,
            "macro_recall": 1 / 3,
            "macro_f1": 1 / 3,
            "accuracy": 1 / 3,
            "binary_accuracy": 7 / 9,
        }
    )


@examples
@given(pairs(st.sampled_from(LABELS)))
def test_single_label_scores_are_those_of_sklearn(y):
    result = scores(*y)
    assert_includes(result, sklearn_scores(*y))
    assert result["accuracy"] == pytest.approx(reference.accuracy_score(*y))
    assert result["micro_f1"] == pytest.approx(result["accuracy"])  # V 3.4: nothing rejected


@examples
@given(pairs(st.integers(0, 5)))
def test_integer_labels_in_any_container(y):
    expected = scores(*y)
    assert_includes(expected, sklearn_scores(*y))
    assert scores(*map(np.array, y)) == expected
    assert scores(*(np.array(v, dtype=object) for v in y)) == expected
    assert scores(*(np.array(v, dtype=float) for v in y)) == expected
    assert scores(*(np.array(v).astype(str) for v in y)) == expected


@examples
@given(pairs(st.sets(st.sampled_from(LABELS))))
def test_multilabel_scores_are_those_of_sklearn_in_every_form(y):
    y_true, y_pred = y
    binarizer = MultiLabelBinarizer(classes=LABELS)
    Y_true, Y_pred = binarizer.fit_transform(y_true), binarizer.transform(y_pred)
    expected = sklearn_scores(Y_true, Y_pred)
    expected["accuracy"] = reference.accuracy_score(Y_true, Y_pred)
    expected["binary_accuracy"] = (Y_true == Y_pred).mean()
    by_matrix = scores(Y_true, Y_pred)
    assert_includes(by_matrix, expected)
    assert scores(y_true, y_pred, labels=LABELS) == pytest.approx(by_matrix)
    assert scores(sparse.csc_matrix(Y_true), sparse.coo_array(Y_pred)) == by_matrix
    assert scores(Y_true.astype(bool), Y_pred.astype(float)) == by_matrix
    as_lists = [list(v) * 2 for v in y_true], [tuple(v) for v in y_pred]  # a repeat counts once
    assert scores(*as_lists, labels=LABELS) == pytest.approx(by_matrix)


@examples
@given(
    pairs(st.sampled_from(LABELS)),
    st.lists(st.sampled_from([*LABELS, "z"]), min_size=1, unique=True),
)
def test_labels_choose_the_classes_but_not_the_accuracy(y, labels):
    result = scores(*y, labels=labels)
    assert_includes(result, sklearn_scores(*y, labels=labels))
    assert result["accuracy"] == scores(*y)["accuracy"]


def test_labels_are_column_numbers_of_a_matrix():
    Y_true, Y_pred = np.array([[1, 0, 1], [0, 1, 0]]), np.array([[1, 1, 0], [0, 1, 0]])
    result = scores(Y_true, Y_pred, labels=[2, 0])
    assert_includes(result, sklearn_scores(Y_true, Y_pred, labels=[2, 0]))
    assert result["binary_accuracy"] == 3 / 4


def test_a_sparse_matrix_with_stored_zeros_is_read_right_and_left_alone():
    dense = np.array([[1, 0], [0, 1]])
    stored = sparse.csr_array((np.array([1, 0, 0, 1]), [0, 1, 0, 1], [0, 2, 4]), shape=(2, 2))
    assert scores(stored, dense) == scores(dense, dense)
    np.testing.assert_array_equal(stored.data, [1, 0, 0, 1])


def test_macro_counts_a_class_absent_from_both_as_zero():
    assert scores(["a"], ["a"])["macro_f1"] == 1
    assert scores(["a"], ["a"], labels=["a", "b"])["macro_f1"] == 1 / 2
    assert scores(np.array([[1, 0]]), np.array([[1, 0]]))["macro_f1"] == 1 / 2


def test_a_refused_document_costs_recall_and_not_precision():
    result = scores(["a", "b", "b", "a"], ["a", None, "b", "b"])
    assert_includes(result, {"micro_precision": 2 / 3, "micro_recall": 1 / 2, "accuracy": 1 / 2})
    assert scores([0, 1, 1, 0], [0, -1, 1, 1]) == result
    assert scores([0.0, 1.0, 1.0, 0.0], [0, np.nan, 1, 1]) == result
    assert scores([["a"], ["b"], ["b"], ["a"]], [["a"], None, ["b"], ["b"]]) == result


def test_nothing_true_and_nothing_predicted():
    result = scores([[], []], [[], []])
    assert result["accuracy"] == 1
    assert all(value == 0 for name, value in result.items() if name != "accuracy")


def test_scores_take_pandas():
    pd = pytest.importorskip("pandas")
    y_true, y_pred = ["a", "b", "b"], ["a", "b", "a"]
    assert scores(pd.Series(y_true), pd.Series(y_pred, dtype="category")) == scores(y_true, y_pred)
    Y_true, Y_pred = np.array([[1, 0], [1, 1]]), np.array([[1, 1], [0, 1]])
    assert scores(pd.DataFrame(Y_true), pd.DataFrame(Y_pred)) == scores(Y_true, Y_pred)


@pytest.mark.parametrize(
    ("y_true", "y_pred", "message", "kind"),
    [
        (["a", "b"], ["a"], "y_true has 2 entries, but y_pred has 1", ValueError),
        (np.eye(2), np.eye(3), "y_true has 2 entries, but y_pred has 3", ValueError),
        (np.ones((2, 1)), np.ones((2, 2)), "y_true has 1 columns, but y_pred has 2", ValueError),
        ([], [], "There are no documents to score", ValueError),
        (np.ones((0, 3)), np.ones((0, 3)), "There are no documents to score", ValueError),
        (["a", None], ["a", "a"], r"Document 1 has no label in y_true \(None\)", LabelError),
        ([3, -1], [3, 3], r"Document 1 has no label in y_true \(-1\)", LabelError),
        ([["a"], ["b", "c"], None], [["a"]] * 3, "Document 2 has no label in y_true", LabelError),
        (["1"], [1], r"Some labels are strings \('1'\) and some are numbers \(1\)", LabelError),
        (
            ["a"],
            [["a"]],
            "y_true has one label per document, but y_pred has a list of labels",
            LabelError,
        ),
        (
            [["a"]],
            np.eye(1),
            "y_true has a list of labels per document, but y_pred has a 0/1",
            LabelError,
        ),
        ([["a"], "b"], [["a"], ["b"]], "Write a single label as a list of one", LabelError),
        (
            [[0, 1], [1, 0]],
            [[0, 1], [1, 1]],
            "looks like a 0/1 matrix written as lists",
            LabelError,
        ),
        (np.array([["a", "b"]]), np.array([["a", "c"]]), "more than one dimension", LabelError),
        (
            np.array([[2, 0]]),
            np.array([[1, 0]]),
            "y_true must hold only 0 and 1 .* holds 2",
            ValueError,
        ),
        ("ab", "ab", "y_true must hold one entry per document, but is 'ab'", LabelError),
        (None, ["a"], "y_true must hold one entry per document, but is None", LabelError),
        (np.array("a"), ["a"], "y_true must hold one entry per document", LabelError),
        ([{"a": 1}], ["a"], "A label must be a string or an integer: unhashable", LabelError),
    ],
)
def test_labels_that_cannot_be_scored(y_true, y_pred, message, kind):
    with raises(kind, message):
        scores(y_true, y_pred)


def test_labels_that_name_no_class():
    with raises(LabelError, "labels must name classes, but holds None or -1"):
        scores(["a"], ["a"], labels=["a", None])
    with raises(LabelError, r"column numbers from 0 to 1 .* are \[2\]"):
        scores(np.eye(2), np.eye(2), labels=[2])
    with raises(LabelError, r"column numbers from 0 to 1 .* are \['a'\]"):
        scores(np.eye(2), np.eye(2), labels=["a"])


# --- hierarchical scores


def slow_hierarchical_scores(y_true, y_pred):
    """Sets of ancestors without the root, document by document."""
    A, B = ([set().union(*map(path_to, row)) for row in y] for y in (y_true, y_pred))
    n_true, n_pred, n_right = (np.array([len(v) for v in sets]) for sets in zipped(A, B))
    result = {}
    for kind, n, m, r in (
        ("hierarchical", [n_true.sum()], [n_pred.sum()], [n_right.sum()]),
        ("document", n_true, n_pred, n_right),
    ):
        empty = 1 if kind == "document" else 0
        rows = [
            (k / j if j else 0, k / i if i else 0, 2 * k / (i + j)) if i or j else (empty,) * 3
            for i, j, k in zip(n, m, r)
        ]
        means = np.mean(rows, axis=0)
        result |= {f"{kind}_{n}": v for n, v in zip(("precision", "recall", "f1"), means)}
    return result


def path_to(label):
    parts = [] if label in (None, "/") else label.split("/")
    return {"/".join(parts[: i + 1]) for i in range(len(parts))}


def zipped(A, B):
    return A, B, [a & b for a, b in zip(A, B)]


def test_hierarchical_scores_by_hand():
    y_true = ["d/e/f", "a/b", "d/h"]
    y_pred = ["d/e/g", "a/b", "a/c"]
    # {d, e, f} and {d, e, g} share 2; {a, b} is right; {d, h} and {a, c} share none.
    # Distances: f–e–g is 2; 0; h–d–root–a–c is 4.
    assert hierarchical_scores(y_true, y_pred, TREE) == pytest.approx(
        {
            "hierarchical_precision": 4 / 7,
            "hierarchical_recall": 4 / 7,
            "hierarchical_f1": 4 / 7,
            "document_precision": (2 / 3 + 1 + 0) / 3,
            "document_recall": (2 / 3 + 1 + 0) / 3,
            "document_f1": (2 / 3 + 1 + 0) / 3,
            "lca_distance": (2 + 0 + 4) / 3,
        }
    )


def test_stopping_early_costs_recall_and_going_too_deep_precision():
    early, deep = (hierarchical_scores(*y, TREE) for y in ((["d/e/f"], ["d"]), (["d"], ["d/e/f"])))
    assert (early["hierarchical_precision"], early["hierarchical_recall"]) == (1, 1 / 3)
    assert (deep["hierarchical_precision"], deep["hierarchical_recall"]) == (1 / 3, 1)
    assert early["lca_distance"] == deep["lca_distance"] == 2


@examples
@given(pairs(st.sampled_from(TREE.paths)))
def test_hierarchical_scores_of_one_label_each(y):
    y_true, y_pred = y
    result = hierarchical_scores(y_true, y_pred, TREE)
    expected = slow_hierarchical_scores([[v] for v in y_true], [[v] for v in y_pred])
    # Without the root, the edges between two nodes are the nodes above just one of them.
    edges = [len(path_to(a) ^ path_to(b)) for a, b in zip(y_true, y_pred)]
    assert result == pytest.approx(expected | {"lca_distance": np.mean(edges)})


@examples
@given(pairs(st.sets(st.sampled_from(TREE.paths))))
def test_hierarchical_scores_of_many_labels_each_in_every_form(y):
    expected = slow_hierarchical_scores(*y)
    assert hierarchical_scores(*y, TREE) == pytest.approx(expected)
    binarizer = MultiLabelBinarizer(classes=TREE.paths).fit(y[0])
    matrices = [binarizer.transform(v) for v in y]
    assert hierarchical_scores(*matrices, TREE) == pytest.approx(expected)
    assert hierarchical_scores(*map(sparse.csr_array, matrices), TREE) == pytest.approx(expected)


def test_a_unique_name_is_the_same_label_as_its_path():
    by_path = hierarchical_scores(["d/e/f", "d/h"], ["d/e", "a/b"], TREE)
    assert hierarchical_scores(["f", "h"], ["e", "b"], TREE) == by_path
    twice = hierarchical_scores([["d/e/f", "f"]], [["d/e"]], TREE)
    assert twice == hierarchical_scores([["f"]], [["e"]], TREE)


def test_a_refused_document_stands_at_the_root():
    result = hierarchical_scores(["d/e/f", "a/b"], [None, "a/b"], TREE)
    assert result["hierarchical_precision"] == 1
    assert result["hierarchical_recall"] == 2 / 5
    assert result["lca_distance"] == 3 / 2
    assert hierarchical_scores(["d/e/f", "a/b"], ["/", "a/b"], TREE) == result


def test_in_a_flat_tree_the_hierarchical_scores_are_the_flat_ones():
    y_true, y_pred = ["x", "y", "y", "z"], ["x", "y", "z", None]
    flat = scores(y_true, y_pred)
    result = hierarchical_scores(y_true, y_pred, Taxonomy.from_labels(y_true))
    for name in "precision", "recall", "f1":
        assert result[f"hierarchical_{name}"] == flat[f"micro_{name}"]


def test_256_labels_under_one_node_do_not_wrap_around():
    paths = [f"top/{i}" for i in range(256)]
    tree = Taxonomy.from_paths(paths)
    result = hierarchical_scores([paths], [paths[:1]], tree)
    assert result["hierarchical_recall"] == 2 / 257


def test_labels_outside_the_tree():
    with raises(LabelError, r'^No node is called "d/e/ff"'):
        hierarchical_scores(["a/b"], ["d/e/ff"], TREE)
    with raises(ValueError, f"matrices have 3 columns, .* {len(TREE)} nodes"):
        hierarchical_scores(np.eye(3), np.eye(3), TREE)
    with raises(ValueError, "y_true has 2 entries, but y_pred has 1"):
        hierarchical_scores(["a", "d"], ["a"], TREE)


# --- break-even


def slow_break_even(truth, score):
    """Mean over all orders of the documents that the scores allow."""
    values = []
    for order in itertools.permutations(range(len(truth))):
        ranked = [score[i] for i in order]
        if ranked == sorted(score, reverse=True):
            values.append(sum(truth[i] for i in order[: sum(truth)]) / sum(truth))
    return sum(values) / len(values)


def test_break_even_by_hand():
    # Three positives, so the cut is after the third: two of the three are right.
    assert break_even([1, 0, 1, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.5]) == 2 / 3
    assert break_even([1, 1, 0, 0], [4, 3, 2, 1]) == 1
    assert break_even([0, 0, 1, 1], [4, 3, 2, 1]) == 0
    # One place left for a tie of three with one positive: it gets a third of it.
    assert break_even([1, 1, 0, 0], [2, 1, 1, 1]) == pytest.approx((1 + 1 / 3) / 2)
    assert break_even([True, False], [-np.inf, -np.inf]) == 0.5


@examples
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=6).filter(
        lambda rows: any(t for t, _ in rows)
    )
)
def test_break_even_is_the_mean_over_the_orders_of_tied_documents(rows):
    truth, score = map(list, zip(*rows))
    assert break_even(truth, score) == pytest.approx(slow_break_even(truth, score))


@examples
@given(st.permutations(range(8)))
def test_the_order_of_tied_documents_changes_nothing(order):
    truth, score = np.array([1, 0, 1, 0, 0, 1, 1, 0]), np.array([2, 2, 1, 1, 1, 1, 0, 0])
    assert break_even(truth[order], score[order]) == break_even(truth, score)


@examples
@given(st.lists(st.tuples(st.booleans(), st.integers(-9, 9)), min_size=1, max_size=40))
def test_precision_equals_recall_at_the_break_even_of_distinct_scores(rows):
    truth, score = (np.array(v) for v in zip(*rows))
    score = score + np.linspace(0, 0.5, len(score))
    cut = np.sort(score)[::-1][: truth.sum()]
    if not truth.any():
        assert math.isnan(break_even(truth, score))
        return
    called = score >= cut.min()
    value = break_even(truth, score)
    assert value == pytest.approx(reference.precision_score(truth, called, zero_division=0))
    assert value == pytest.approx(reference.recall_score(truth, called))


# E table 2: the ten largest categories of ModApte with their test sizes (each printed percentage
# is a whole number of documents of these), and three of its nine systems.
SIZES = [719, 56, 189, 1087, 149, 131, 179, 89, 117, 71]
TABLE_2 = {
    "v-kNN (cos)": ([88.87, 71.43, 83.07, 93.65, 83.22, 71.76, 70.39, 79.78, 74.36, 67.61], 86.26),
    "Harm. (KL)": ([94.99, 66.07, 88.36, 97.88, 83.22, 79.39, 78.77, 80.90, 74.36, 69.01], 90.71),
    "SVM": ([97.50, 87.50, 89.42, 98.80, 92.62, 81.68, 79.89, 88.76, 76.92, 85.92], 93.68),
}


@pytest.mark.parametrize("system", TABLE_2)
def test_micro_break_even_is_that_of_the_published_table(system):
    points, published = TABLE_2[system]
    n_docs = 3000
    truth, score = np.zeros((2, n_docs, len(SIZES)))
    for column, (point, size) in enumerate(zip(points, SIZES)):
        n_right = round(point * size / 100)
        truth[:size, column] = 1
        score[:n_right, column] = 2
        score[size : 2 * size - n_right, column] = 1  # wrong ones fill the list up to the cut
        assert 100 * break_even(truth[:, column], score[:, column]) == pytest.approx(
            point, abs=0.005
        )
    assert 100 * micro_break_even(truth, score) == pytest.approx(published, abs=0.005)
    assert micro_break_even(sparse.csr_array(truth), score) == micro_break_even(truth, score)


def test_a_class_without_positives_has_no_break_even():
    assert math.isnan(break_even([0, 0], [1, 2]))
    truth, score = np.array([[1, 0, 0], [0, 0, 1]]), np.array([[3, 1, 2], [1, 2, 1]])
    assert micro_break_even(truth, score) == 1 / 2  # (1 × 1 + 1 × 0) / 2, the second left out
    assert math.isnan(micro_break_even(np.zeros((2, 3)), score))


@pytest.mark.parametrize(
    ("truth", "score", "message"),
    [
        ([1, 0], [1], "y_true_binary has 2 entries, but score has 1"),
        ([], [], "There are no documents"),
        ([1, 0], [1, np.nan], "score of document 1 for class 0 is NaN, which has no rank"),
        ([1, 2], [1, 0], "The truth must hold only 0 and 1 in a matrix, but holds 2"),
        ([[1, 0]], [[1, 0]], "use micro_break_even"),
        (["a", "b"], [1, 0], "y_true_binary must hold numbers"),
    ],
)
def test_rankings_that_have_no_break_even(truth, score, message):
    with raises(ValueError, message):
        break_even(truth, score)


def test_micro_break_even_needs_equal_shapes():
    with raises(ValueError, r"truth has shape \(2, 2\) and the scores \(2, 3\)"):
        micro_break_even(np.eye(2), np.ones((2, 3)))


# --- reject curves


def slow_reject_curve(y_true, y_pred, confidence):
    """Reject below each confidence in turn, and count one document after the other."""
    rows = [row for row in zip(y_true, y_pred, confidence) if row[0] is not None]
    n_true = sum(len(truth) for truth, _, _ in rows)
    points = []
    for t in sorted({c for _, label, c in rows if label is not None}):
        accepted = [(truth, label) for truth, label, c in rows if label is not None and c >= t]
        n_right = sum(label in truth for truth, label in accepted)
        precision = n_right / len(accepted)
        recall = n_right / n_true if n_true else 0
        f1 = 2 * precision * recall / (precision + recall) if n_right else 0
        points.append((t, 1 - len(accepted) / len(rows), precision, recall, f1))
    return RejectCurve(*np.array(points).reshape(-1, 5).T)


def assert_same_curve(curve, expected):
    for name, values in curve._asdict().items():
        np.testing.assert_allclose(values, getattr(expected, name), atol=1e-12, err_msg=name)


def documents(truths):
    row = st.tuples(truths, st.sampled_from([*LABELS, None]), st.integers(-2, 4))
    return st.lists(row, min_size=1, max_size=25).map(lambda rows: tuple(map(list, zip(*rows))))


def test_reject_curve_by_hand():
    y_true = ["a", "a", "b", "b", "c"]
    y_pred = ["a", "b", "b", "c", "c"]
    # Rejected: none; the fourth, which is wrong; the first and the second too; all but the third.
    curve = reject_curve(y_true, y_pred, [0.5, 0.5, 0.9, 0.2, 0.8])
    expected = RejectCurve(
        threshold=[0.2, 0.5, 0.8, 0.9],
        reject_rate=[0, 1 / 5, 3 / 5, 4 / 5],
        precision=[3 / 5, 3 / 4, 1, 1],
        recall=[3 / 5, 3 / 5, 2 / 5, 1 / 5],
        micro_f1=[3 / 5, 2 / 3, 4 / 7, 1 / 3],
    )
    assert_same_curve(curve, expected)


@examples
@given(documents(st.sampled_from([*LABELS, None])).filter(lambda y: any(y[0])))
def test_reject_curve_of_one_label_each_is_a_loop(y):
    y_true, y_pred, confidence = y
    lists = [None if label is None else [label] for label in y_true]
    curve = reject_curve(*y)
    assert_same_curve(curve, slow_reject_curve(lists, y_pred, confidence))
    for same in reject_curve(lists, y_pred, confidence), reject_curve(*map(as_objects, y)):
        assert_same_curve(same, curve)
    code = {label: i for i, label in enumerate(LABELS)} | {None: -1}
    numbers = [np.array([code[label] for label in labels]) for labels in (y_true, y_pred)]
    assert_same_curve(reject_curve(*numbers, np.array(confidence, dtype=float)), curve)


@examples
@given(documents(st.none() | st.sets(st.sampled_from(LABELS))).filter(lambda y: any(y[0])))
def test_reject_curve_of_several_labels_each_is_a_loop(y):
    y_true, y_pred, confidence = y
    curve = reject_curve(*y)
    assert_same_curve(curve, slow_reject_curve(*y))
    predicted = [None if label is None else [label] for label in y_pred]
    assert_same_curve(reject_curve(y_true, predicted, confidence), curve)
    known = [i for i, labels in enumerate(y_true) if labels is not None]
    binarizer = MultiLabelBinarizer(classes=LABELS).fit([LABELS])
    Y_true = binarizer.transform([y_true[i] for i in known])
    Y_pred = binarizer.transform([predicted[i] or [] for i in known])
    confidence = [confidence[i] for i in known]
    assert_same_curve(reject_curve(Y_true, Y_pred, confidence), curve)
    as_sparse = sparse.csr_array(Y_true), sparse.coo_array(Y_pred)
    assert_same_curve(reject_curve(*as_sparse, confidence), curve)


def as_objects(values):
    return np.array(values, dtype=object) if None in values else np.array(values)


@examples
@given(pairs(st.sampled_from(LABELS)), st.data())
def test_with_nothing_rejected_it_is_the_accuracy(y, data):
    confidence = data.draw(st.lists(st.floats(0, 1), min_size=len(y[0]), max_size=len(y[0])))
    curve = reject_curve(*y, confidence)
    assert curve.reject_rate[0] == 0
    assert curve.micro_f1[0] == pytest.approx(scores(*y)["accuracy"])  # V 3.4
    assert curve.threshold[0] == min(confidence)
    assert (np.diff(curve.threshold) > 0).all()
    assert (np.diff(curve.reject_rate) > 0).all()
    assert (np.diff(curve.recall) <= 0).all()
    assert curve.reject_rate[-1] < 1


def test_each_point_has_the_scores_of_what_is_left():
    rng = np.random.default_rng(0)
    y_true = [rng.choice(LABELS, n, replace=False) for n in rng.integers(0, 4, 60)]
    y_pred, confidence = rng.choice(LABELS, 60), rng.integers(0, 9, 60)
    curve = reject_curve(y_true, y_pred, confidence)
    assert len(curve.threshold) == 9
    for i, threshold in enumerate(curve.threshold):
        left = [[y] if c >= threshold else None for y, c in zip(y_pred, confidence)]
        result = scores(y_true, left)
        point = curve.precision[i], curve.recall[i], curve.micro_f1[i]
        expected = [result[f"micro_{name}"] for name in ("precision", "recall", "f1")]
        assert point == pytest.approx(expected)


def test_equal_confidences_are_rejected_together():
    curve = reject_curve(["a", "b", "b"], ["a", "a", "b"], [0.0, -0.0, 0.0])
    assert_same_curve(curve, RejectCurve([0], [0], [2 / 3], [2 / 3], [2 / 3]))
    assert np.isnan(curve.at(0.5))


def test_a_document_without_prediction_is_rejected_at_every_threshold():
    y_true, y_pred = ["a", "b", "b", "a"], ["a", None, "b", "b"]
    # Its own confidence is not looked at.
    for ignored in 0.9, np.nan, -np.inf:
        curve = reject_curve(y_true, y_pred, [0.5, ignored, 0.6, 0.1])
        np.testing.assert_array_equal(curve.threshold, [0.1, 0.5, 0.6])
        np.testing.assert_array_equal(curve.reject_rate, [1 / 4, 1 / 2, 3 / 4])
        np.testing.assert_allclose(curve.recall, [1 / 2, 1 / 2, 1 / 4])
        assert curve.micro_f1[0] == scores(y_true, y_pred)["micro_f1"]
        assert curve.at(0) == curve.micro_f1[0]


def test_where_all_is_rejected_already_the_curve_has_no_point():
    curve = reject_curve(["a", "b"], [None, None], [1, 2])
    assert [len(values) for values in curve] == [0] * 5
    assert np.isnan(curve.at([0, 1])).all()


def test_nothing_is_right_or_nothing_is_true():
    for y_true in ["a", "b"], [[], []]:
        curve = reject_curve(y_true, ["c", "c"], [1, 2])
        for values in curve.precision, curve.recall, curve.micro_f1:
            np.testing.assert_array_equal(values, [0, 0])


def test_unlabelled_documents_do_not_count():
    curve = reject_curve(["a", None, "b"], ["a", "a", "a"], [3, 1, 2])
    assert_same_curve(curve, reject_curve(["a", "b"], ["a", "a"], [3, 2]))
    unranked = reject_curve([0, -1, 1], [0, 0, 0], [3, np.nan, 2])
    assert_same_curve(unranked, curve)


def test_infinite_confidences_have_a_rank():
    curve = reject_curve(["a", "b", "b"], ["a", "a", "b"], [np.inf, -np.inf, 0])
    np.testing.assert_array_equal(curve.threshold, [-np.inf, 0, np.inf])
    np.testing.assert_allclose(curve.precision, [2 / 3, 1, 1])


def test_f1_at_given_reject_rates():
    curve = reject_curve(["a"] * 10, ["b", "a"] * 5, [0, 1, 1, 1, 2, 3, 4, 5, 5, 5])
    np.testing.assert_allclose(curve.reject_rate, [0, 0.1, 0.4, 0.5, 0.6, 0.7])
    # The first point that rejects at least so many: for 0.2 it is the one at 0.4.
    f1 = curve.micro_f1
    np.testing.assert_array_equal(curve.at([0, 0.1, 0.2, 0.4, 0.41]), f1[[0, 1, 2, 2, 3]])
    assert curve.at(0.7) == f1[5]
    np.testing.assert_array_equal(curve.at([[0.71, 1]]), [[np.nan, np.nan]])
    assert curve.at([]).shape == (0,)
    # 7 × 0.1 is a little more than 0.7.
    assert 7 * 0.1 > 0.7
    assert curve.at(7 * 0.1) == f1[5]
    for wrong, said in (-0.1, "-0.1"), ([0, 50], "50"), (np.nan, "nan"):
        with raises(ValueError, rf"reject rate must be between 0 and 1 .* but one is {said}\."):
            curve.at(wrong)


@pytest.mark.parametrize(
    ("y_true", "y_pred", "confidence", "message", "kind"),
    [
        (["a", "b"], ["a"], [1, 2], "y_true has 2 entries, but y_pred has 1", ValueError),
        (["a"], ["a"], [1, 2], "y_true has 1 entries, but confidence has 2", ValueError),
        (np.eye(2), np.eye(2), [1], "y_true has 2 entries, but confidence has 1", ValueError),
        ([], [], [], "There are no documents to score", ValueError),
        ([None, -1], ["a", "a"], [1, 2], "No document has a label in y_true", ValueError),
        (
            [None, ["a"], ["b", None]],
            ["a"] * 3,
            [1, 2, 3],
            r"Document 2 has no label in y_true \(None\)",
            LabelError,
        ),
        (
            ["a", "b"],
            [["a"], ["a", "b"]],
            [1, 2],
            "Document 1 has 2 labels in y_pred, but is accepted or rejected as a whole",
            LabelError,
        ),
        (np.eye(2), np.ones((2, 2)), [1, 2], "Document 0 has 2 labels in y_pred", LabelError),
        (
            np.eye(2),
            ["a", "b"],
            [1, 2],
            "y_true has a 0/1 matrix per document, but y_pred has one label",
            LabelError,
        ),
        (["a", "b"], ["a", "b"], [1, np.nan], "confidence of document 1 is NaN", ValueError),
        (
            ["a", "b"],
            ["a", "b"],
            np.eye(2),
            r"one number per document, but has shape \(2, 2\)\. .* proba\.max\(axis=1\)",
            ValueError,
        ),
        (["a"], ["a"], ["high"], "confidence must hold numbers, but holds <U4", ValueError),
        (["1"], [1], [1], r"Some labels are strings \('1'\) and some are numbers", LabelError),
        (["a"], "a", [1], "y_pred must hold one entry per document, but is 'a'", LabelError),
    ],
)
def test_predictions_that_cannot_be_rejected(y_true, y_pred, confidence, message, kind):
    with raises(kind, message):
        reject_curve(y_true, y_pred, confidence)


# --- Gini


def slow_gini(labels, shares, weighted=False):
    """G 6.1 as printed, or each label and cluster by its documents."""
    labels, shares = np.asarray(labels), np.asarray(shares, dtype=float)
    kinds = np.unique(labels)
    mass = np.array([shares[labels == kind].sum(axis=0) for kind in kinds])
    mass = mass[:, mass.sum(axis=0) > 0]
    means = []
    for way in (mass, mass.T):
        total = 0.0
        for row in way:
            weight = row.sum() / way.sum() if weighted else 1 / len(way)
            p = row / row.sum()
            pairs = [(a, b) for a in range(len(p)) for b in range(len(p)) if a != b]
            total += weight * sum(p[a] * p[b] for a, b in pairs)
        means.append(total)
    return tuple(means)


def test_gini_by_hand():
    # Label x lies on clusters 1, 1, 2: 1 − (4/9 + 1/9) = 4/9; y wholly on 2: 0.
    # Cluster 1 is all x: 0; cluster 2 half x, half y: 1/2.
    labels, clusters = ["x", "x", "x", "y"], [1, 1, 2, 2]
    assert gini_impurity(labels, clusters) == pytest.approx((2 / 9, 1 / 4))
    # By documents, x counts three times; the clusters are of one size.
    assert gini_impurity(labels, clusters, weighted=True) == pytest.approx((1 / 3, 1 / 4))


def test_one_large_cluster_and_tiny_ones_is_no_good_clustering():
    # Ten labels of 100 documents; all in one cluster but one document of each of nine labels.
    labels = np.repeat(np.arange(10), 100)
    clusters = np.where(np.arange(1000) % 100 == 0, labels, 0)
    g_l, g_alpha = gini_impurity(labels, clusters)
    assert g_l < 0.02
    assert g_alpha < 0.1
    assert gini_impurity(labels, clusters, weighted=True)[1] > 0.89


def test_gini_is_zero_for_the_same_partition_and_near_one_for_a_scattered_one():
    assert gini_impurity([0, 0, 1, 2], ["r", "r", "p", "q"]) == (0, 0)
    assert gini_impurity(np.zeros(100), np.arange(100)) == pytest.approx((0.99, 0))


@examples
@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.lists(st.integers(0, 3), min_size=4, max_size=4)),
        min_size=1,
        max_size=12,
    )
)
def test_gini_of_soft_clusters_is_the_printed_formula(rows):
    labels = [label for label, _ in rows]
    shares = np.array([weights for _, weights in rows], dtype=float)
    shares[:, 0] += 1
    shares /= shares.sum(axis=1, keepdims=True)
    result = gini_impurity(labels, shares)
    assert result == pytest.approx(slow_gini(labels, shares))
    assert gini_impurity(labels, sparse.coo_matrix(shares)) == pytest.approx(result)
    by_size = gini_impurity(labels, shares, weighted=True)
    assert by_size == pytest.approx(slow_gini(labels, shares, weighted=True))


@examples
@given(pairs(st.integers(0, 4)))
def test_hard_clusters_are_soft_ones_with_all_the_mass_on_one(y):
    labels, clusters = y
    one_hot = np.eye(5)[clusters]
    assert gini_impurity(labels, clusters) == pytest.approx(gini_impurity(labels, one_hot))
    assert gini_impurity(clusters, labels) == gini_impurity(labels, clusters)[::-1]


def test_clusters_that_cannot_be_compared():
    with raises(ValueError, "labels has 2 entries, but clusters has 3"):
        gini_impurity([0, 1], [0, 1, 1])
    with raises(ValueError, r"document 1 in clusters sum to 0.5, not 1"):
        gini_impurity([0, 1], np.array([[1, 0], [0.5, 0]]))
    with raises(ValueError, r"clusters has -0.5 for document 1"):
        gini_impurity([0, 1], sparse.csr_array([[1, 0], [1.5, -0.5]]))
    with raises(LabelError, "Document 1 has no label in labels"):
        gini_impurity(["a", None], [0, 1])
    with raises(LabelError, "clusters must hold one label per document"):
        gini_impurity(["a", "b"], [["x"], ["y"]])
    with raises(ValueError, "There are no documents"):
        gini_impurity([], [])


# --- probabilities


def draw_probabilities(seed, n_docs=200, n_classes=5):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(n_classes, 0.7), size=n_docs)
    classes = np.array(LABELS[:n_classes])
    return rng.choice(classes, size=n_docs), proba, classes


@pytest.mark.parametrize("seed", range(3))
def test_log_loss_and_brier_are_those_of_sklearn(seed):
    y, proba, classes = draw_probabilities(seed)
    assert log_loss(y, proba, classes) == pytest.approx(
        reference.log_loss(y, proba, labels=classes), rel=1e-12
    )
    one_hot = (y[:, None] == classes).astype(float)
    assert brier_score(y, proba, classes) == pytest.approx(
        ((proba - one_hot) ** 2).sum(axis=1).mean(), rel=1e-12
    )
    y, proba, classes = draw_probabilities(seed, n_classes=2)
    one_column = reference.brier_score_loss(y, proba[:, 1], pos_label=classes[1])
    assert brier_score(y, proba, classes) == pytest.approx(2 * one_column, rel=1e-12)


def test_the_order_of_the_columns_is_that_of_classes():
    y, proba, classes = draw_probabilities(0)
    for metric in log_loss, brier_score, expected_calibration_error:
        assert metric(y, proba, classes) == pytest.approx(metric(y, proba[:, ::-1], classes[::-1]))


def test_probability_scores_by_hand():
    y, proba = ["x", "y"], [[0.5, 0.5, 0], [0.25, 0.25, 0.5]]
    assert log_loss(y, proba, ["x", "y", "z"]) == pytest.approx((math.log(2) + math.log(4)) / 2)
    # (.5² + .5²) and (.25² + .75² + .5²)
    assert brier_score(y, proba, ["x", "y", "z"]) == pytest.approx((0.5 + 0.875) / 2)
    assert str(log_loss(["x"], [[1, 0]], ["x", "y"])) == "0.0"
    assert log_loss(["y"], [[1.0, 0.0]], ["x", "y"]) == pytest.approx(52 * math.log(2))
    assert brier_score([7], np.array([[1.0, 0.0]]), [3, 7]) == 2


def test_reliability_by_hand():
    # Confidences .5 (right), .9 (right), .7 (wrong), .75 (right) in four bins of a quarter; a
    # confidence on an edge belongs below it.
    proba = [[0.5, 0.5], [0.1, 0.9], [0.7, 0.3], [0.25, 0.75]]
    y, classes = [0, 1, 1, 1], [0, 1]
    curve = reliability_curve(y, proba, classes, n_bins=4)
    np.testing.assert_array_equal(curve.n_docs, [0, 1, 2, 1])
    np.testing.assert_allclose(curve.mean_confidence, [np.nan, 0.5, 0.725, 0.9])
    np.testing.assert_allclose(curve.accuracy, [np.nan, 1, 0.5, 1])
    expected = (1 * 0.5 + 2 * 0.225 + 1 * 0.1) / 4
    assert expected_calibration_error(y, proba, classes, n_bins=4) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (7, 0.5), (40, 0.93), (300, 0.1), (5, 1.0)])
def test_what_chance_has_of_the_error_is_the_mean_over_all_outcomes(n, p):
    right = np.arange(n + 1)
    expected = stats.binom.pmf(right, n, p) @ np.abs(right / n - p)
    # Another bin, without documents, and one of three documents that are always right.
    curve = ReliabilityCurve(
        np.array([p, np.nan, 1.0]), np.array([0.0, np.nan, 1.0]), np.array([n, 0, 3])
    )
    assert curve.error_by_chance == pytest.approx(expected * n / (n + 3))


@pytest.mark.parametrize("n_bins", [1, 7, 15])
def test_calibration_error_is_a_loop_over_bins(n_bins):
    y, proba, classes = draw_probabilities(1, n_docs=500)
    confidence, right = proba.max(axis=1), classes[proba.argmax(axis=1)] == y
    error = 0.0
    for m in range(n_bins):
        inside = (confidence > m / n_bins) & (confidence <= (m + 1) / n_bins)
        if inside.any():
            error += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    assert expected_calibration_error(y, proba, classes, n_bins) == pytest.approx(error)
    assert reliability_curve(y, proba, classes, n_bins).n_docs.sum() == len(y)


def test_probabilities_that_are_true_are_calibrated():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(3), size=100_000)
    y = (proba.cumsum(axis=1) < rng.random((100_000, 1))).sum(axis=1)
    assert expected_calibration_error(y, proba, [0, 1, 2]) < 0.01
    sharpened = proba**3 / (proba**3).sum(axis=1, keepdims=True)
    assert expected_calibration_error(y, sharpened, [0, 1, 2]) > 0.1


def test_single_precision_probabilities_are_accepted():
    y, proba, classes = draw_probabilities(2, n_docs=2000)
    single = proba.astype(np.float32)
    assert log_loss(y, single, classes) == pytest.approx(log_loss(y, proba, classes), rel=1e-5)


@pytest.mark.parametrize("metric", [log_loss, brier_score, expected_calibration_error])
@pytest.mark.parametrize(
    ("y_true", "proba", "message", "kind"),
    [
        (["x"], [[0.5, 0.4]], "probabilities of document 0 in proba sum to 0.9, not 1", ValueError),
        (["x", "y"], [[1, 0], [1.5, -0.5]], "proba has -0.5 for document 1", ValueError),
        (["x", "y"], [[1, 0], [np.nan, 1]], "proba has nan for document 1", ValueError),
        (["x"], [[1, 0], [0, 1]], "y_true has 1 entries, but proba has 2", ValueError),
        (
            ["x"],
            [[1, 0, 0]],
            r"one column for each of the 2 classes, but has shape \(1, 3\)",
            ValueError,
        ),
        (["x"], [1, 0], r"one column for each of the 2 classes, but has shape \(2,\)", ValueError),
        (
            ["yy"],
            [[1, 0]],
            '"yy" of document 0 is not among the 2 classes. Did you mean "y"',
            LabelError,
        ),
        (
            ["x", None],
            [[1, 0], [1, 0]],
            '"None" of document 1 is not among the 2 classes',
            LabelError,
        ),
        ([["x"]], [[1, 0]], "y_true must hold one label per document", LabelError),
        ([], np.ones((0, 2)), "There are no documents", ValueError),
    ],
)
def test_probabilities_that_are_none(metric, y_true, proba, message, kind):
    with raises(kind, message):
        metric(y_true, proba, ["x", "y"])


def test_bins_and_classes_must_make_sense():
    with raises(ValueError, "n_bins must be at least 1, but is 0"):
        expected_calibration_error(["x"], [[1.0]], ["x"], n_bins=0)
    with raises(LabelError, "classes names the same class twice"):
        log_loss(["x"], [[0.5, 0.5]], ["x", "x"])


# --- paired t-test


def test_t_test_by_hand():
    # Differences 1, 2, 3: mean 2, standard deviation 1, T = 2√3 (E eq. 20).
    result = paired_t_test([2, 4, 6], [1, 2, 3])
    assert result.statistic == pytest.approx(2 * math.sqrt(3))
    assert (result.df, result.mean_difference) == (2, 2)
    assert result.p_value == pytest.approx(0.0742, abs=5e-5)
    assert result.symbol == "≈"
    assert paired_t_test([2, 4, 6], [1, 2, 3], alpha=0.1).symbol == ">>"
    assert paired_t_test([1, 2, 3], [2, 4, 6], alpha=0.1).symbol == "<<"


@examples
@given(
    st.lists(
        st.tuples(st.floats(0, 1), st.floats(0, 1)).map(lambda p: (round(p[0], 3), round(p[1], 3))),
        min_size=2,
        max_size=30,
    ).filter(lambda rows: np.ptp([a - b for a, b in rows]) > 1e-6)
)
def test_t_test_is_that_of_scipy(rows):
    x, y = zip(*rows)
    result, expected = paired_t_test(x, y), stats.ttest_rel(x, y)
    assert result.statistic == pytest.approx(expected.statistic, rel=1e-9, abs=1e-12)
    assert result.p_value == pytest.approx(expected.pvalue, rel=1e-9)
    assert result.df == expected.df
    mirrored = paired_t_test(y, x)
    assert mirrored.p_value == pytest.approx(result.p_value)
    assert mirrored.symbol == {"<<": ">>", ">>": "<<", "≈": "≈"}[result.symbol]


def test_t_test_over_folds_widens_the_variance():
    rng = np.random.default_rng(0)
    x, y = rng.normal(0.82, 0.02, 10), rng.normal(0.79, 0.02, 10)
    plain, corrected = paired_t_test(x, y), paired_t_test(x, y, test_fraction=0.1)
    # Ten folds: the variance of the mean is s²(1/10 + 1/9), not s²/10.
    assert corrected.statistic == pytest.approx(plain.statistic / math.sqrt(1 + 10 / 9))
    assert corrected.p_value == pytest.approx(2 * stats.t.sf(abs(corrected.statistic), 9))


def test_t_test_holds_its_level():
    rng = np.random.default_rng(1)
    rejected = [paired_t_test(*rng.normal(size=(2, 12))).symbol != "≈" for _ in range(2000)]
    assert 0.035 < np.mean(rejected) < 0.065


def test_t_test_without_variance():
    assert paired_t_test([0.3, 0.4], [0.3, 0.4]) == (0, 1, 1, 0, "≈")
    assert paired_t_test([2, 3, 4], [1, 2, 3]) == (math.inf, 0, 2, 1, ">>")
    assert paired_t_test([1, 2, 3], [2, 3, 4], test_fraction=0.2) == (-math.inf, 0, 2, -1, "<<")
    # 0.1 × 3 / 3 is not 0.1 in binary, but three times 0.1 has no variance.
    assert paired_t_test([0.1, 0.1, 0.1], [0, 0, 0]).statistic == math.inf
    x = np.linspace(0.1, 0.9, 50)
    assert paired_t_test(np.nextafter(x, 1), x).symbol == "≈"  # rounding is no difference


@pytest.mark.parametrize(
    ("x", "y", "options", "message"),
    [
        ([1, 2], [1, 2, 3], {}, "x has 2 entries, but y has 3"),
        ([1], [2], {}, "needs at least 2 pairs of scores, but got 1"),
        ([1, np.nan], [1, 2], {}, r"Pair 1 is \(nan, 2\), but every score must be a finite number"),
        ([[1, 2]], [[1, 2]], {}, r"must be one-dimensional, but have shapes \(1, 2\)"),
        (["a", "b"], [1, 2], {}, "x must hold numbers"),
        ([1, 2], [2, 4], {"test_fraction": 1.0}, "between 0 and 1 .* but is 1.0"),
    ],
)
def test_pairs_that_cannot_be_tested(x, y, options, message):
    with raises(ValueError, message):
        paired_t_test(x, y, **options)
