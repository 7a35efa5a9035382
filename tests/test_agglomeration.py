"""The middle of a tree, grown from the words of its classes."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from leafwise.exceptions import LabelError
from leafwise.models.agglomeration import agglomerate
from leafwise.models.mixture import HierarchicalMixture
from leafwise.synthetic import make_corpus
from leafwise.taxonomy import Taxonomy, split_path

BRANCHES = Taxonomy.from_paths(f"{a}/{a}{i}" for a in ("north", "south", "east") for i in range(5))


@pytest.fixture(scope="module")
def corpus():
    return make_corpus(BRANCHES, n_documents=600, concentration=20.0, random_state=0)


def groups_of(tree):
    """The set of classes below each child of the root, by the last name of their labels."""
    last = [(split_path(name) or ("",))[-1] for name in tree.names]
    return {frozenset(last[i] for i in tree.children(g)) for g in tree.children(0)}


@pytest.mark.parametrize("linkage", ["ward", "average", "complete", "single", "weighted"])
def test_recovers_branches_that_are_apart(corpus, linkage):
    tree = agglomerate(corpus.X, corpus.labels, 3, linkage=linkage)
    assert groups_of(tree) == groups_of(BRANCHES)
    assert tree.depth.max() == 2
    assert len(tree) == 1 + 3 + 15


def test_recovers_branches_from_a_few_words_and_in_a_small_vocabulary(corpus):
    assert groups_of(agglomerate(corpus.X, corpus.labels, 3, n_words=200)) == groups_of(BRANCHES)
    small = make_corpus(BRANCHES, 2000, 60, 400, concentration=20.0, random_state=1)
    per_class = [small.X[small.y == i].sum(axis=0).min() for i in BRANCHES.leaves]
    assert min(per_class) > 0  # every class has every word, so none is rare
    assert groups_of(agglomerate(small.X, small.labels, 3)) == groups_of(BRANCHES)


def test_order_and_form_of_documents_change_nothing(corpus):
    expected = agglomerate(corpus.X, corpus.labels, 4, vocabulary=corpus.words)
    order = np.random.default_rng(0).permutation(len(corpus))
    labels = [corpus.labels[i] for i in order]
    assert agglomerate(corpus.X[order], labels, 4, vocabulary=corpus.words) == expected
    dense = agglomerate(corpus.X.toarray(), corpus.labels, 4, vocabulary=corpus.words)
    assert dense == expected


def test_unlabelled_documents_are_passed_over(corpus):
    y = [None if i % 3 == 0 else label for i, label in enumerate(corpus.labels)]
    known = [i for i, label in enumerate(y) if label]
    some = agglomerate(corpus.X[known], [y[i] for i in known], 3, vocabulary=corpus.words)
    assert agglomerate(corpus.X, y, 3, vocabulary=corpus.words) == some


def test_several_labels_add_to_each_of_their_classes():
    """c has documents only together with a; all else being equal it belongs with a, not b."""
    X = np.array([[4, 2, 0, 0], [4, 2, 0, 0], [0, 0, 3, 3], [0, 0, 3, 3]])
    tree = agglomerate(X, [["a"], ["a", "c"], ["b"], ["b", "d"]], 2)
    assert groups_of(tree) == {frozenset("ac"), frozenset("bd")}
    # The largest classes come first: a has one and a half documents, c half of one.
    assert [tree.names[g] for g in tree.children(0)] == ["a + c", "b + d"]


def test_levels_as_columns_are_read(corpus):
    levels = np.array([split_path(label) for label in corpus.labels])
    assert groups_of(agglomerate(corpus.X, levels, 3)) == groups_of(BRANCHES)


def test_groups_are_called_by_their_largest_classes_and_never_as_a_class():
    X = np.repeat(np.eye(5, dtype=int), [3, 2, 4, 1, 2], axis=0)
    X[:3, 1] = X[3:5, 0] = X[5:9, 3] = X[9:10, 2] = 1  # 0 with 1, 2 with 3, 4 alone
    y = np.repeat(["u", "v", "w", "x", "z"], [3, 2, 4, 1, 2])
    tree = agglomerate(X, y, 3)
    assert tree.paths[1:] == ("u + v", "u + v/u", "u + v/v", "w + x", "w + x/w", "w + x/x",
                              "z (group)", "z (group)/z")  # fmt: skip
    assert tree.keywords[tree.index("u + v")] == ()
    assert [tree.paths[tree.index(label)] for label in "uvwxz"] == [
        "u + v/u", "u + v/v", "w + x/w", "w + x/x", "z (group)/z",
    ]  # fmt: skip


def test_groups_are_called_by_telling_words_where_there_is_a_vocabulary(corpus):
    tree = agglomerate(corpus.X, corpus.labels, 3, vocabulary=corpus.words)
    assert groups_of(tree) == groups_of(BRANCHES)
    column = {word: i for i, word in enumerate(corpus.words)}
    for g in tree.children(0):
        own = BRANCHES.index(split_path(tree.names[tree.children(g)[0]])[0])
        words = [column[word] for word in tree.keywords[g]]
        assert tree.names[g] == ", ".join(tree.keywords[g][:3])
        assert len(words) == 10
        # The words of a group are those that its branch was given when the corpus was drawn.
        assert corpus.p_w_given_node[own, words].mean() > 10 / corpus.X.shape[1]


def test_a_class_is_found_by_its_whole_label():
    labels = ["a/x", "b/x", "b/y", "c", "x", "TCP\\/IP", "back\\slash", "7", "d/e/f", "d/e"]
    for n_groups in (1, 4, 10):
        tree = agglomerate(np.eye(10, dtype=int), labels, n_groups)
        assert [tree.names[tree.index(label)] for label in labels] == labels
        assert set(tree.indices(labels)) == set(tree.leaves)


def test_no_class_is_taken_for_one_of_a_group_with_the_name_of_its_branch():
    """Group "a" with class "b" would have the path a/b, which is another class."""
    labels = ["b", "b", "a/b", "a/b"]
    tree = agglomerate([[1, 0], [1, 0], [0, 1], [0, 1]], labels, 2, vocabulary=["a", "z"])
    assert tree.paths[1:] == ("z", "z/a\\/b", "a (group)", "a (group)/b")
    assert [tree.names[tree.index(label)] for label in labels] == labels


@pytest.mark.parametrize("form", ["names", "numbers as text", "paths", "levels", "lists"])
def test_the_same_labels_fit_a_model_with_the_tree(corpus, form):
    last = [split_path(label)[-1] for label in corpus.labels]
    number = {label: str(i) for i, label in enumerate(sorted(set(last)))}
    y = {
        "names": last,
        "numbers as text": [number[label] for label in last],
        "paths": corpus.labels,
        "levels": np.array([split_path(label) for label in corpus.labels]),
        "lists": [[label] for label in corpus.labels],
    }[form]
    tree = agglomerate(corpus.X, y, 3)
    model = HierarchicalMixture(tree).fit(corpus.X, y)
    assert model.score(corpus.X, y) > 0.95
    predicted = [split_path(path)[-1] for path in model.predict(corpus.X)]
    same = {"levels": corpus.labels, "lists": corpus.labels}.get(form, y)
    assert np.mean([a == b for a, b in zip(predicted, same)]) > 0.95


@pytest.mark.parametrize("y", [[5, 6, 6], np.array([0, 1, -1]), [[5], [6], []]])
def test_integers_would_be_node_numbers(y):
    with pytest.raises(
        LabelError,
        match=r"agglomerate names nodes by labels, but y has integers, .* text: y\.astype\(str\)",
    ):
        agglomerate(np.eye(3), y, 2)


def test_one_group_and_one_class():
    tree = agglomerate(np.eye(3), ["a", "b", "b"], 1, vocabulary=["x", "y", "z"])
    assert tree.paths == ("/", "b + a", "b + a/a", "b + a/b")
    assert agglomerate(np.eye(1), ["7"], 1).paths == ("/", "7 (group)", "7 (group)/7")


def test_a_class_without_words_finds_a_place():
    X = np.array([[3, 0, 0], [2, 1, 0], [0, 0, 2], [0, 0, 0]])
    tree = agglomerate(X, ["a", "b", "c", "silent"], 2)
    assert sorted(tree.names[i] for i in tree.leaves) == ["a", "b", "c", "silent"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_groups": 0}, r"n_groups=0: expected a whole number of groups, at least 1\."),
        ({"n_groups": 2.0}, r"n_groups=2\.0: expected a whole number"),
        ({"n_groups": 3}, r"y has 2 classes, fewer than n_groups=3: .* Ask for fewer groups\."),
        ({"y": [None, None, ""]}, "No document has a label, so there are no classes to group"),
        ({"linkage": "centroid"}, "linkage='centroid': expected one of ward, average, complete"),
        ({"n_words": 0}, "n_words=0: expected a whole number of words"),
        ({"vocabulary": ["x"]}, "vocabulary has 1 words, X has 3 columns: expected a word for"),
        ({"y": ["a"]}, "inconsistent numbers of samples"),
        ({"X": -np.eye(3)}, r"Negative values in data passed to agglomerate \(input X\)"),
    ],
)
def test_errors(changed, message):
    call = {"X": np.eye(3), "y": ["a", "b", "b"], "n_groups": 2} | changed
    with pytest.raises(ValueError, match=message):
        agglomerate(**call)


def test_reuters_has_the_groups_of_table_2(data_dir):
    """T table 2: commodities, financial, metals and energy; T counts 50, 24, 9 and 7 classes."""
    from leafwise.datasets import load_reuters
    from leafwise.text import WordCounter

    data = load_reuters(data=data_dir)
    train = np.flatnonzero(data.split == "train")
    X = WordCounter().fit_transform([data.texts[i] for i in train])
    tree = agglomerate(sparse.csr_array(X), [list(data.labels[i]) for i in train], 4)
    classes = [tree.names[i] for i in tree.leaves]
    table = [data.taxonomy.parent[data.taxonomy.index(name)] for name in classes]
    found = tree.parent[tree.leaves]
    assert len(classes) == 90
    assert np.unique(found, return_counts=True)[1].min() >= 5  # no group is a left-over
    assert adjusted_rand_score(table, found) > 0.8
