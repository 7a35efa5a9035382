import numpy as np
import pytest
from sklearn.exceptions import DataConversionWarning

from leafwise.exceptions import LabelError
from leafwise.labels import Classes, of_no_class, read_labels
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.multilabel import MultiLabelClassifier
from leafwise.taxonomy import Taxonomy

TREE = Taxonomy.from_dict({"a": {"x": None, "y": None}, "b": {"z": None}})


def membership(y, classes=None):
    labels = read_labels(y, classes)
    classes = classes or Classes.of_labels(labels)
    return classes, classes.membership(labels).toarray()


def test_plain_labels_are_the_classes():
    classes, weights = membership(["dog", "cat", None, "dog"])
    assert classes.names.tolist() == ["cat", "dog"]
    assert weights.tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]
    assert classes.taxonomy.names[1:] == ("cat", "dog")


def test_labels_may_come_one_by_one():
    names = ["dog", "cat", None]
    assert membership(iter(names))[1].tolist() == membership(names)[1].tolist()


def test_integers_with_minus_one_for_unlabelled():
    classes, weights = membership(np.array([10, 2, -1, 10]))
    assert classes.names.tolist() == [2, 10]
    assert weights.tolist() == [[0, 1], [1, 0], [0, 0], [0, 1]]


def test_minus_one_and_one_alone_are_two_classes():
    classes, weights = membership(np.array([1, -1, -1]))
    assert classes.names.tolist() == [-1, 1]
    assert weights.tolist() == [[0, 1], [1, 0], [1, 0]]
    assert membership(np.array([-1]), classes)[1].tolist() == [[1, 0]]


def test_minus_one_is_unlabelled_in_a_tree():
    classes = Classes.of_taxonomy(TREE)
    assert membership(np.array([1, -1]), classes)[1].sum(axis=1).tolist() == [1, 0]


def test_paths_names_and_node_numbers():
    classes = Classes.of_taxonomy(TREE)
    for y in (["a/x", "b", "b/z"], ["x", "b", "z"], np.array([2, 4, 5])):
        assert membership(y, classes)[1].argmax(axis=1).tolist() == [2, 4, 5]
    assert classes.names.tolist() == ["/", "a", "a/x", "a/y", "b", "b/z"]


def test_several_labels_share_a_document():
    classes = Classes.of_taxonomy(TREE)
    weights = membership([["a/x", "b"], [], ("z",)], classes)[1]
    assert weights[:, [2, 4, 5]].tolist() == [[0.5, 0.5, 0], [0, 0, 0], [0, 0, 1]]


def test_several_labels_may_come_in_any_collection():
    for kind in (list, tuple, set, frozenset):
        y = [kind(["p", "q"]), None, kind(), kind(["q"])]
        classes, weights = membership(y)
        assert classes.names.tolist() == ["p", "q"]
        assert weights.tolist() == [[0.5, 0.5], [0, 0], [0, 0], [0, 1]]
        assert of_no_class(y, 4).tolist() == [False, False, True, False]


def test_a_missing_number_is_an_unknown_label():
    nan = float("nan")
    for y in ([0, 1, nan], np.array([0, 1, nan]), [0, 1, None], [0, 1, -1], [[0], [1], nan]):
        classes, weights = membership(y)
        assert weights.tolist() == [[1, 0], [0, 1], [0, 0]]
        assert classes.names.dtype.kind == "i"
    assert membership([0, 1, None, -1])[1].sum(axis=1).tolist() == [1, 1, 0, 0]
    with pytest.raises(LabelError, match="A list of labels has NaN in it: expected labels, or an"):
        read_labels([[0], [1], [nan]])


def test_missing_integers_of_a_column_are_unknown_labels():
    import pandas as pd
    import polars as pl

    large = 2**60 + 1  # which no float holds
    for column in (
        pd.Series([3, None, large], dtype="Int64"),
        pl.Series([3, None, large]),
        pd.Series([3, pd.NA, large], dtype=object),
    ):
        classes, weights = membership(column)
        assert classes.names.tolist() == [3, large]
        assert weights.tolist() == [[1, 0], [0, 0], [0, 1]]
    assert membership(pd.Series([3, None, 5]))[0].names.tolist() == [3, 5]
    nodes = membership(pd.Series([3, None, 5]), Classes.of_taxonomy(TREE))[1]
    assert nodes.sum(axis=1).tolist() == [1, 0, 1]


def test_a_column_of_missing_values_has_no_labels():
    import pandas as pd
    import polars as pl

    for column in (
        pd.Series([np.nan] * 3),
        pd.Series([pd.NA] * 3, dtype=object),
        pd.Series([None] * 3, dtype="Int64"),
        pd.Series([None] * 3, dtype="string"),
        pl.Series([None] * 3),
        pl.Series([None] * 3, dtype=pl.Int64),
        np.full(3, np.nan),
    ):
        labels = read_labels(column)
        assert (len(labels.labels), labels.n_documents) == (0, 3)


def test_missing_labels_in_many_forms():
    import pandas as pd

    classes = Classes.of_taxonomy(TREE)
    for missing in (None, "", float("nan"), pd.NA):
        assert membership(["x", missing], classes)[1].sum(axis=1).tolist() == [1, 0]
    assert membership([["x"], None, []], classes)[1].sum(axis=1).tolist() == [1, 0, 0]
    series = pd.Series(["x", None]).convert_dtypes()
    assert membership(series, classes)[1].sum(axis=1).tolist() == [1, 0]


def test_classes_are_sorted_by_path():
    tree = Taxonomy.from_paths(["b/z", "b/a", "a"])
    classes = Classes.of_taxonomy(tree)
    assert classes.names.tolist() == ["/", "a", "b", "b/a", "b/z"]
    weights = membership(["b/z", "a"], classes)[1]
    assert classes.names[weights.argmax(axis=1)].tolist() == ["b/z", "a"]
    assert [tree.paths[i] for i in classes.nodes] == classes.names.tolist()


def test_level_arrays_make_a_tree():
    levels = np.array([["a", "x"], ["a", "y"], ["b", ""]], dtype=object)
    classes, weights = membership(levels)
    assert classes.taxonomy == Taxonomy.from_paths(["a/x", "a/y", "b"])
    assert classes.names[weights.argmax(axis=1)].tolist() == ["a/x", "a/y", "b"]
    in_tree = membership(levels, Classes.of_taxonomy(TREE))[1]
    assert in_tree.argmax(axis=1).tolist() == [2, 3, 4]


def test_a_slash_within_a_level_stays_in_its_name():
    classes, _ = membership(np.array([["TCP/IP", "x"], ["b", "y"]], dtype=object))
    assert classes.taxonomy.names[1:3] == ("TCP/IP", "x")


def test_nodes_can_be_restricted():
    assert Classes.of_taxonomy(TREE, "leaves").names.tolist() == ["a/x", "a/y", "b/z"]
    assert Classes.of_taxonomy(TREE, ["b", "x"]).names.tolist() == ["a/x", "b"]


def test_a_frame_of_one_column_is_that_column():
    import pandas as pd
    import polars as pl

    for frame in (pd.DataFrame, pl.DataFrame):
        assert read_labels(frame({"label": ["x", None]})).documents.tolist() == [0]
        assert read_labels(frame({"label": [["x", "y"], ["x"]]})).documents.tolist() == [0, 0, 1]


def test_an_unseen_label_has_a_column_of_its_own():
    classes = Classes.of_labels(read_labels(["p", "q"]))
    labels = read_labels([["q", "r"], ["o"], ["r"]])
    columns = classes.membership(labels, unseen=True).toarray() > 0
    assert columns.astype(int).tolist() == [[0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]]
    leaves = Classes.of_taxonomy(TREE, "leaves")
    inner = leaves.membership(read_labels(["a", "x"]), unseen=True)
    assert inner.toarray().tolist() == [[0, 0, 0, 1], [1, 0, 0, 0]]
    with pytest.raises(LabelError, match='No node is called "a/w"'):
        leaves.membership(read_labels(["a/w"]), unseen=True)


def test_a_node_that_is_no_class_counts_as_wrong():
    X, y = np.array([[3, 0], [0, 3]] * 4), ["a/x", "b/z"] * 4
    model = NaiveBayes(taxonomy=TREE, nodes="leaves").fit(X, y)
    assert model.score(X, ["a", *y[1:]]) == 7 / 8
    several = MultiLabelClassifier(model, cv=2).fit(X, y)
    assert several.score(X, [[one, "a"] for one in y]) < several.score(X, y) == 1
    with pytest.raises(LabelError, match='No node is called "a/w"'):
        several.score(X, ["a/w", *y[1:]])


def test_a_column_vector_is_flattened_with_a_warning():
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        assert read_labels(np.array([[1], [2]])).labels.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a/x", "a/w"], '^No node is called "a/w"'),
        (np.array([0, 6]), "Labels are node numbers from 0 to 6, expected 0 to 5"),
        (np.array([-2, 1]), "Labels are node numbers from -2 to 1"),
        (["a/x", 3], "strings or integers, not both: 3 is among strings"),
        (["a/x", b"b"], r"Label b'b' is bytes, expected a string: label\.decode\(\) makes one"),
        (np.array([b"a/x"]), "Label b'a/x' is bytes, expected a string"),
        ([["a/x", ["b"]]], "inhomogeneous|a label or a list of labels"),
        ([["a/x"], "b"], "Document 1 has the label 'b', others have lists"),
    ],
)
def test_wrong_labels_in_a_tree(y, message):
    with pytest.raises(ValueError, match=message):
        membership(y, Classes.of_taxonomy(TREE))


def test_label_outside_the_chosen_nodes():
    with pytest.raises(LabelError, match="Label 'b' is not among the 3 classes"):
        membership(["b"], Classes.of_taxonomy(TREE, "leaves"))


def test_label_unknown_at_a_later_partial_fit():
    model = NaiveBayes().partial_fit([[1, 0], [0, 1]], ["p", "q"])
    with pytest.raises(LabelError, match="Label 'r' is not among the 2 classes"):
        model.partial_fit([[1, 1]], ["r"])


def test_wrong_calls():
    with pytest.raises(ValueError, match="the target y is None"):
        read_labels(None)
    with pytest.raises(ValueError, match="No document has a label, and there is no taxonomy"):
        membership([None, None])
    with pytest.raises(ValueError, match="nodes='roots': expected \"all\""):
        Classes.of_taxonomy(TREE, "roots")
    with pytest.raises(TypeError, match=r"taxonomy is a dict, expected a leafwise\.Taxonomy"):
        Classes.of_taxonomy({"a": None})  # type: ignore[arg-type]


def test_an_array_of_zeros_and_ones_is_no_tree():
    with pytest.raises(LabelError, match="y is an array of 0 and 1 with 3 columns"):
        read_labels(np.eye(3, dtype=int))
