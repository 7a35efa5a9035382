"""The tree itself: building, numbering, labels, drawings. Its file formats have their own tests."""

import copy
import pickle
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

import leafwise.taxonomy as taxonomy_module
from leafwise.exceptions import LabelError, LeafwiseError, TaxonomyError
from leafwise.taxonomy import (
    Taxonomy,
    default_keywords,
    join_path,
    split_path,
)
from leafwise.taxonomy_drawing import _drawn, _shown
from leafwise.taxonomy_names import parse_keywords

PATHS = ["computers/graphics", "computers/hardware", "sports/hockey", "sports/baseball", "politics"]


@pytest.fixture
def tree():
    return Taxonomy.from_paths(PATHS)


@st.composite
def parent_arrays(draw, max_nodes=25):
    """Parents of a random tree, the root first."""
    n = draw(st.integers(1, max_nodes))
    return [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]


def numbered(parent):
    return Taxonomy([f"n{i}" if i else "" for i in range(len(parent))], parent)


# ---- numbering ----


def test_nodes_are_in_preorder_with_siblings_in_the_order_given():
    tree = Taxonomy(["b2", "top", "a1", "b", "b1", "a"], [3, -1, 5, 1, 3, 1])
    assert tree.names == ("top", "b", "b2", "b1", "a", "a1")
    assert tree.parent.tolist() == [-1, 0, 1, 1, 0, 4]
    assert tree.depth.tolist() == [0, 1, 2, 2, 1, 2]
    assert tree.end.tolist() == [6, 4, 3, 4, 6, 6]
    assert tree.leaves.tolist() == [2, 3, 5]
    assert tree.paths == ("/", "b", "b/b2", "b/b1", "a", "a/a1")
    assert tree.n_nodes == len(tree) == 6
    assert list(tree) == list(tree.paths)


def test_a_lone_root_is_a_tree():
    tree = Taxonomy([""], [-1])
    assert tree.paths == ("/",)
    assert tree.leaves.tolist() == [0]
    assert tree.closure.shape == (1, 1)
    assert tree.closure.nnz == 0
    assert tree.subtree_sum([3.0]).tolist() == [3.0]
    assert str(tree) == "/"


@settings(deadline=None)
@given(parent_arrays())
def test_numbering_against_a_slow_reference(parent):
    tree = numbered(parent)
    n = len(tree)
    above = tree.parent.tolist()
    line = []  # each node and its ancestors, by following parents
    for i in range(n):
        chain = [i]
        while chain[-1]:
            chain.append(above[chain[-1]])
        line.append(chain)
        assert above[i] < i
        assert tree.depth[i] == len(chain) - 1
        assert tree.ancestors(i).tolist() == chain[1:]
        assert tree.children(i).tolist() == [j for j in range(n) if above[j] == i]
        assert tree.index(tree.paths[i]) == i
        assert tree.paths[i] == join_path(tree.names[k] for k in chain[::-1][1:])
    for i in range(n):
        assert tree.descendants(i).tolist() == [j for j in range(n) if i in line[j][1:]]
    assert tree.leaves.tolist() == [i for i in range(n) if i not in above]
    closure = np.zeros((n, n), dtype=int)
    for i in range(n):
        closure[i, [k for k in line[i] if k]] = 1
    np.testing.assert_array_equal(tree.closure.toarray(), closure)
    assert tree.closure.has_canonical_format


@settings(deadline=None)
@given(parent_arrays(), st.randoms())
def test_pairs_of_nodes_against_a_slow_reference(parent, random):
    tree = numbered(parent)
    n = len(tree)
    i, j = (a.ravel() for a in np.meshgrid(np.arange(n), np.arange(n)))
    lines = [[k, *tree.ancestors(k).tolist()] for k in range(n)]
    lca = [next(k for k in lines[a] if k in lines[b]) for a, b in zip(i, j)]
    distance = [
        lines[a].index(k) + lines[b].index(k) for a, b, k in zip(i.tolist(), j.tolist(), lca)
    ]
    np.testing.assert_array_equal(tree.lca(i, j), lca)
    np.testing.assert_array_equal(tree.distance(i, j), distance)
    k = random.randrange(n * n)
    assert tree.lca(int(i[k]), int(j[k])) == lca[k]
    assert tree.distance(int(i[k]), int(j[k])) == distance[k]
    assert isinstance(tree.lca(0, 0), int)
    assert isinstance(tree.distance(0, 0), int)


def test_pairs_of_no_nodes(tree):
    assert tree.lca([], []).shape == (0,)
    assert tree.distance([], 0).shape == (0,)


def test_lca_broadcasts(tree):
    hockey = tree.index("hockey")
    assert tree.lca(hockey, [[0], [tree.index("baseball")]]).tolist() == [
        [0],
        [tree.index("sports")],
    ]


@settings(deadline=None)
@given(parent_arrays(), st.integers(0, 2**32 - 1))
def test_subtree_sum_against_a_slow_reference(parent, seed):
    tree = numbered(parent)
    values = np.random.default_rng(seed).random((2, 3, len(tree))) ** 8
    sums = tree.subtree_sum(values)
    for i in range(len(tree)):
        slow = sum(values[..., k] for k in [i, *tree.descendants(i)])
        np.testing.assert_allclose(sums[..., i], slow, rtol=1e-12)
    # Exactly, not nearly: what a parent must be for "at least each of its children".
    assert (sums[..., tree.parent[1:]] >= sums[..., 1:]).all()


def test_subtree_sum_keeps_the_kind_of_number_and_its_input(tree):
    hits = np.zeros(len(tree), dtype=bool)
    hits[[tree.index("hockey"), tree.index("baseball")]] = True
    assert tree.subtree_sum(hits)[tree.index("sports")] == 2
    assert hits.sum() == 2
    assert tree.subtree_sum(np.ones(len(tree), dtype=np.float32)).dtype == np.float32


def test_subtree_sum_wants_one_value_per_node(tree):
    with pytest.raises(ValueError, match=r"shape \(3,\); its last axis .* each of the 8 nodes"):
        tree.subtree_sum([1, 2, 3])


@settings(deadline=None)
@given(parent_arrays(), st.randoms())
def test_the_order_in_which_families_are_given_does_not_matter(parent, random):
    tree = numbered(parent)
    # Shuffle the nodes, but keep siblings in order.
    families = {}
    for i, above in enumerate(tree.parent.tolist()):
        families.setdefault(above, []).append(i)
    order = []
    waiting = list(families.values())
    while waiting:
        family = random.choice(waiting)
        order.append(family.pop(0))
        waiting = [f for f in waiting if f]
    new = {old: k for k, old in enumerate(order)}
    parents = [new.get(int(tree.parent[old]), -1) for old in order]
    assert Taxonomy([tree.names[old] for old in order], parents) == tree


@pytest.mark.parametrize("bad", [8, -1, 1.0, "sports", [0, 99]])
def test_a_number_that_is_no_node(tree, bad):
    with pytest.raises(LabelError, match=r"Nodes are numbers from 0 to 7, not"):
        tree.lca(bad, 0)


def test_children_of_a_number_that_is_no_node(tree):
    with pytest.raises(LabelError, match=r'from 0 to 7, not "99". tree.index\(label\) gives'):
        tree.children(99)


# ---- what cannot be a tree ----


@pytest.mark.parametrize(
    ("names", "parent", "message"),
    [
        ([], [], "There are no nodes; a tree has at least a root."),
        (["", "a"], [-1], "There are 2 names but 1 parents."),
        (["", "a"], [-1, 7], 'The parent of "a" is 7, which is no node: expected a number from 0'),
        (["", "a"], [-1, None], 'The parent of "a" is None, which is no node'),
        (["x", "y"], [-1, -1], '2 nodes have no parent: "x" and "y". A tree has one root'),
        (list("vwxyz"), [-1] * 5, '5 nodes have no parent: "v", "w", "x" and others.'),
        (["", "a", "b"], [-1, 2, 1], 'themselves, in a cycle: "a" → "b" → "a".'),
        (["a"], [0], 'in a cycle: "a" → "a".'),
        (["", "a", "a"], [-1, 0, 0], 'Two children of the root are called "a". Rename or remove'),
        (["", "a", "b", "b "], [-1, 0, 1, 1], 'Two children of "a" are called "b".'),
        (["", " "], [-1, 0], "A child of the root has an empty name."),
        (["", "a", ""], [-1, 0, 1], 'A child of "a" has an empty name.'),
        (["", 3], [-1, 0], "The name of node 1 must be text, not 3."),
        (["", "a\x00"], [-1, 0], r"The name 'a\x00' holds a control character."),
    ],
)
def test_what_cannot_be_a_tree(names, parent, message):
    with pytest.raises(TaxonomyError) as error:
        Taxonomy(names, parent)
    assert message in str(error.value)


def test_a_cycle_beside_the_tree_is_named_without_what_hangs_below_it():
    with pytest.raises(TaxonomyError, match=r'a cycle: "a" → "b" → "c" → "a"\.$'):
        Taxonomy(["", "x", "below", "a", "b", "c"], [-1, 0, 3, 5, 3, 4])


def test_places_are_named_where_they_are_known():
    with pytest.raises(TaxonomyError, match=r'called "a" \(line 2 and line 9\)'):
        Taxonomy(["", "a", "a"], [-1, 0, 0], where=["", "line 2", "line 9"])


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ([None], "There are 2 names but 1 keywords."),
        ([None, [3]], 'The keywords of "a": A keyword must be text, not 3.'),
        ([None, ["x\x01"]], r"""The keywords of "a": The keyword 'x\x01' holds a control"""),
    ],
)
def test_keywords_that_cannot_be(keywords, message):
    with pytest.raises(TaxonomyError) as error:
        Taxonomy(["", "a"], [-1, 0], keywords)
    assert message in str(error.value)


# ---- paths and keywords ----


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("a/b/c", ("a", "b", "c")),
        ("/a/b/", ("a", "b")),
        ("/", ()),
        (" a / b ", ("a", "b")),
        (r"Money\/Foreign Exchange/rates", ("Money/Foreign Exchange", "rates")),
        (r"a\\/b", ("a\\", "b")),
        (r"a\\\/b", ("a\\/b",)),
        (r"C:\temp/x", ("C:\\temp", "x")),
        (r"a\/", ("a/",)),
        ("a//b", ("a", "", "b")),
    ],
)
def test_split_path(path, names):
    assert split_path(path) == names


def test_join_path():
    assert join_path(["a/b", "c\\d", "e"]) == r"a\/b/c\\d/e"
    assert join_path([]) == "/"


@settings(deadline=None)
@given(st.lists(st.text(st.sampled_from("ab/\\ "), min_size=1).map(str.strip).filter(bool)))
def test_a_path_comes_apart_as_it_was_joined(names):
    names = tuple(" ".join(name.split()) for name in names)
    assert split_path(join_path(names)) == names


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("graphics", ("graphics",)),
        ("comp.os.ms-windows.misc", ("comp", "os", "ms", "windows", "misc")),
        ("stocks_and_bonds", ("stocks", "and", "bonds")),
        ("machineLearning", ("machine", "learning")),
        ("HTMLParser", ("html", "parser")),
        ("MacOS X11", ("mac", "os", "x11")),
        ("URLs and 3D APIs", ("urls", "and", "3d", "apis")),
        ("MP3Player", ("mp3", "player")),
        ("Größe ÜBER Über", ("größe", "über")),
        ("日本語 テキスト", ("日本語", "テキスト")),
        ("***", ()),
    ],
)
def test_default_keywords(name, words):
    assert default_keywords(name) == words
    assert Taxonomy(["", name], [-1, 0]).keywords == ((), words)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("mac apple  hardware", ("mac", "apple", "hardware")),
        ("car, motor  car", ("car", "motor car")),
        ("car; motor car", ("car", "motor car")),
        ("motor car;", ("motor car",)),
        ("a, b; c", ("a, b", "c")),
        ("x x y", ("x", "y")),
        (";", ()),
        ("", ()),
    ],
)
def test_parse_keywords(cell, words):
    assert parse_keywords(cell) == words


def test_keywords_are_tidied_and_a_semicolon_always_separates():
    tree = Taxonomy(["", "a"], [-1, 0], ["x", [" b\tc ", "d;e", "", "d"]])
    assert tree.keywords == (("x",), ("b c", "d", "e"))


def test_no_keywords_are_not_the_default_keywords():
    assert Taxonomy(["", "a"], [-1, 0], [None, []]).keywords == ((), ())


def test_names_are_tidied_and_composed():
    tree = Taxonomy(["", " cafe\u0301 \n noir "], [-1, 0])
    assert tree.names[1] == "café noir"
    assert tree.index("cafe\u0301  noir") == 1


# ---- ways to make a tree ----


def test_from_paths_adds_parents_and_merges_repeats():
    tree = Taxonomy.from_paths(["b/x", "a", "/b/", "b/y", "b/x", "/"])
    assert tree.paths == ("/", "b", "b/x", "b/y", "a")


def test_from_paths_with_keywords():
    tree = Taxonomy.from_paths(PATHS, {"hockey": "puck, ice", "computers/graphics": ["image"]})
    assert tree.keywords[tree.index("hockey")] == ("puck", "ice")
    assert tree.keywords[tree.index("graphics")] == ("image",)
    assert tree.keywords[tree.index("baseball")] == ("baseball",)


def test_from_paths_with_keywords_for_no_node():
    with pytest.raises(LabelError, match='called "hokey"'):
        Taxonomy.from_paths(PATHS, {"hokey": ["puck"]})


@pytest.mark.parametrize("bad", ["", "  ", None, 3])
def test_from_paths_wants_text(bad):
    with pytest.raises(TaxonomyError, match=r"A path must be text such as 'a/b', not"):
        Taxonomy.from_paths(["a", bad])


def test_from_paths_with_an_empty_name():
    with pytest.raises(TaxonomyError, match='A child of "a" has an empty name'):
        Taxonomy.from_paths(["a//b"])


def test_from_edges_keeps_the_name_of_the_root():
    edges = [("sports", "hockey"), ("news", "sports"), ("news", "politics"), ("sports", 42)]
    tree = Taxonomy.from_edges(edges, {"hockey": ["puck"], "news": ["daily"]})
    assert tree.names == ("news", "sports", "hockey", "42", "politics")
    assert tree.paths == ("/", "sports", "sports/hockey", "sports/42", "politics")
    assert tree.index("news") == 0
    assert tree.keywords == (("daily",), ("sports",), ("puck",), ("42",), ("politics",))


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([], "There are no edges"),
        ([("a", "b"), ("b", "c"), ("c", "a")], 'in a cycle: "a" → "b" → "c" → "a".'),
        ([("r", "x"), ("a", "b"), ("b", "a")], 'in a cycle: "a" → "b" → "a".'),
        ([("r", "r")], 'in a cycle: "r" → "r".'),
        ([("r", "x"), ("s", "y")], '2 nodes have no parent: "r" and "s".'),
        ([("r", "x"), ("r", "y"), ("y", "x")], '"x" has two parents, "r" and "y".'),
        ([("r", "x"), ("r", " x")], 'Two children of "r" are called "x".'),
        ([("r", "")], "A child of the root has an empty name."),
    ],
)
def test_edges_that_are_no_tree(edges, message):
    with pytest.raises(TaxonomyError) as error:
        Taxonomy.from_edges(edges)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("y", "paths"),
    [
        (["b", "a", None, "b"], ("/", "a", "b")),
        (np.array([10, 9, 10, 2]), ("/", "2", "9", "10")),
        (np.array([1.0, np.nan, 0.5]), ("/", "0.5", "1.0")),
        (np.array([-1, 1]), ("/", "-1", "1")),
        ([True, False], ("/", "False", "True")),
        (["b", 3, "a"], ("/", "3", "a", "b")),
        (np.array(["a/b", "c"]), ("/", r"a\/b", "c")),
        ([], ("/",)),
        ([["b", "x"], ["a", ""], ["b", None], [None, None]], ("/", "a", "b", "b/x")),
        (np.array([["b", "x"], ["a", "y"], ["a", ""]]), ("/", "a", "a/y", "b", "b/x")),
        (np.array([[1, 12], [1, 2]]), ("/", "1", "1/2", "1/12")),
        ([["a"], ["a", "b", "c"]], ("/", "a", "a/b", "a/b/c")),
    ],
)
def test_from_labels(y, paths):
    assert Taxonomy.from_labels(y).paths == paths


def test_the_labels_a_tree_was_made_of_are_labels_of_it():
    for y in ([3, 1, 2, 3], [0.5, 1.0], ["a/b", "b", " c "], [True, False]):
        for labels in (y, np.array(y)):
            tree = Taxonomy.from_labels(labels)
            names = [tree.names[i] for i in tree.indices(labels)]
            assert names == [str(v).strip() for v in y]


def test_from_labels_with_a_hole():
    with pytest.raises(TaxonomyError, match=r"The levels \['a', '', 'c'\] miss one above another"):
        Taxonomy.from_labels([["a", "b", "c"], ["a", "", "c"]])


def test_from_labels_with_an_empty_label():
    with pytest.raises(TaxonomyError, match="A child of the root has an empty name"):
        Taxonomy.from_labels(["a", ""])


# ---- labels ----


@pytest.mark.parametrize(
    "label",
    ["sports/hockey", "hockey", "/sports/hockey/", " sports / hockey ", np.str_("hockey")],
)
def test_index_of_a_path_or_a_name(tree, label):
    assert tree.paths[tree.index(label)] == "sports/hockey"
    assert label in tree


def test_index_of_the_root(tree):
    assert tree.index("/") == 0
    assert "/" in tree


def test_a_path_goes_before_a_name():
    tree = Taxonomy.from_paths(["a/misc", "misc", r"x\/y", "x/y"])
    assert tree.paths[tree.index("misc")] == "misc"
    assert tree.paths[tree.index("x/y")] == "x/y"


def test_a_name_with_a_slash_is_found_as_it_is():
    tree = Taxonomy.from_labels(["Money/Foreign Exchange", "ship"])
    assert tree.index("Money/Foreign Exchange") == 1


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("Hockey", 'No node is called "Hockey". Did you mean "sports/hockey"?'),
        ("SPORTS/HOCKEY", 'No node is called "SPORTS/HOCKEY". Did you mean "sports/hockey"?'),
        ("hokey", 'No node is called "hokey". Did you mean "sports/hockey"?'),
        ("sprots/hockey", 'No node is called "sprots/hockey". Did you mean "sports/hockey"?'),
        ("computer/graphics", 'Did you mean "computers/graphics"?'),
        ("ice hockey", 'Did you mean "sports/hockey"?'),
        (
            "zzz",
            'No node is called "zzz", and none is close to it. The tree begins with "computers", '
            '"sports", "politics".',
        ),
        ("", "A label must be a path or a name, not ''."),
        (None, "A label must be a path or a name, not None."),
        (["hockey"], "A label must be a path or a name, not ['hockey']."),
        (3, 'No node is called "3", and none is close to it.'),
        ("q" * 10**6, 'No node is called "' + "q" * 80 + '...", and none is close to it.'),
    ],
)
def test_a_label_that_is_no_node(tree, label, message):
    assert label not in tree
    with pytest.raises(LabelError) as error:
        tree.index(label)
    assert message in str(error.value)
    assert len(str(error.value)) < 250


def test_a_name_of_several_nodes():
    tree = Taxonomy.from_paths(["a/misc", "b/misc"])
    assert "misc" not in tree
    with pytest.raises(
        LabelError, match=r'"misc" is the name of 2 nodes: "a/misc" and "b/misc"\. Use the path\.'
    ):
        tree.index("misc")
    with pytest.raises(LabelError, match='"/misc/" is the name of 2 nodes: "a/misc" and "b/misc"'):
        tree.index("/misc/")
    many = Taxonomy.from_paths([f"{top}/misc" for top in "abcde"])
    with pytest.raises(LabelError, match='5 nodes: "a/misc", "b/misc", "c/misc" and 2 more'):
        many.index("misc")


def test_indices(tree):
    labels = ["hockey", "/computers/graphics", "politics", "hockey", "/"]
    expected = [tree.index(label) for label in labels]
    for form in (labels, tuple(labels), np.array(labels), np.array(labels, dtype=object)):
        assert tree.indices(form).tolist() == expected
    assert tree.indices([]).tolist() == []
    assert tree.indices(iter(labels)).tolist() == expected


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["hockey", "Hockey", "zzz"], 'Label number 1 (from 0): No node is called "Hockey". Did'),
        (["hockey", None], "Label number 1 (from 0): A label must be a path or a name, not None."),
        ([["hockey"]], "Label number 0 (from 0): A label must be a path or a name, not ['hockey']"),
    ],
)
def test_indices_names_the_first_bad_label(tree, labels, message):
    with pytest.raises(LabelError) as error:
        tree.indices(labels)
    assert message in str(error.value)


# ---- the protocols of Python ----


def test_equality_and_hash(tree):
    same = Taxonomy.from_paths(PATHS)
    assert tree == same
    assert hash(tree) == hash(same)
    assert len({tree, same}) == 1
    assert tree != Taxonomy.from_paths(PATHS[::-1])
    assert tree != Taxonomy.from_paths(PATHS, {"hockey": ["puck"]})
    assert tree != Taxonomy(["root", *tree.names[1:]], tree.parent)
    assert tree != Taxonomy.from_paths(["a"])
    assert tree != PATHS
    assert Taxonomy(tree.names, tree.parent, notes=["a remark"]) == tree


def test_copies(tree):
    assert copy.copy(tree) is tree
    assert copy.deepcopy(tree) is tree
    noted = Taxonomy(tree.names, tree.parent, [["x"]] * len(tree), notes=["a remark"])
    again = pickle.loads(pickle.dumps(noted))
    assert again == noted
    assert again.notes == ("a remark",)


def test_an_estimator_with_a_tree_can_be_cloned(tree):
    class Model(BaseEstimator):
        def __init__(self, taxonomy=None):
            self.taxonomy = taxonomy

    assert clone(Model(tree)).taxonomy is tree


def test_a_tree_does_not_change(tree):
    with pytest.raises(AttributeError, match="A Taxonomy cannot be changed"):
        tree.names = ("x",)
    with pytest.raises(AttributeError, match="A Taxonomy cannot be changed"):
        del tree.names
    for array in (tree.parent, tree.depth, tree.end, tree.leaves):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


def test_errors_are_value_errors(tree):
    for error in (LabelError, TaxonomyError):
        assert issubclass(error, ValueError)
        assert issubclass(error, LeafwiseError)


# ---- drawings ----


def test_drawing():
    tree = Taxonomy.from_dict(
        {
            "computers": {"keywords": ["pc", "unix box"], "children": {"graphics": None}},
            "politics": {"guns": {"laws": []}, "war": ["war"]},
        }
    )
    assert str(tree).splitlines() == [
        "/",
        "├── computers  [pc, unix box]",
        "│   └── graphics",
        "└── politics",
        "    ├── guns",
        "    │   └── laws  [no keywords]",
        "    └── war",
    ]
    assert repr(tree) == "Taxonomy(n_nodes=7, n_leaves=3, depth=3)"


def test_drawing_of_a_named_root():
    assert str(Taxonomy.from_edges([("news", "sports")])) == "news\n└── sports"


def test_a_large_drawing_shows_the_upper_levels_and_counts_the_rest():
    paths = [f"t{a}/u{b}/v{c}" for a in range(20) for b in range(12) for c in range(3)]
    tree = Taxonomy.from_paths(paths)
    lines = str(tree).splitlines()
    # 1 + 20 nodes leave room for 8 children each (181 nodes), and none below those.
    assert sum(line[4:].startswith(("├── u", "└── u")) for line in lines) == 20 * 8
    assert lines[1] == "├── t0"
    assert lines[2] == "│   ├── u0  ... and 3 more"
    assert lines[10] == "│   └── ... and 16 more"  # 4 nodes with 3 children each
    assert len(lines) == 1 + 20 * (1 + 8 + 1)


@settings(deadline=None)
@given(parent_arrays(max_nodes=60), st.integers(1, 30))
def test_a_drawing_stays_within_its_limit_and_accounts_for_every_node(parent, limit):
    tree = numbered(parent)
    drawn = _drawn(tree, limit)
    assert drawn.sum() <= max(limit, 1)
    assert drawn[tree.parent[drawn & (tree.parent >= 0)]].all()
    if len(tree) <= limit:
        assert drawn.all()
    else:
        hidden = sum(
            int(_shown(tree, int(i), drawn)[1].split()[2])
            for i in np.flatnonzero(drawn)
            if _shown(tree, int(i), drawn)[1]
        )
        assert hidden == len(tree) - drawn.sum()


def test_a_very_deep_tree():
    n = 3000
    tree = Taxonomy([f"n{i}" for i in range(n)], range(-1, n - 1))
    assert tree.depth[-1] == n - 1
    assert str(tree).endswith("... and 2,800 more")
    assert tree._repr_html_().count("<details") == 2000
    assert tree.lca(n - 1, 7) == 7
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_html_is_nested_and_escaped():
    tree = Taxonomy.from_dict({"<b>&": {"x": ["<script>"]}, "y": None})
    assert tree._repr_html_() == (
        '<ul class="leafwise-taxonomy"><li><details open><summary>/</summary><ul>'
        "<li><details><summary>&lt;b&gt;&amp;</summary><ul>"
        "<li>x <small>&lt;script&gt;</small></li></ul></details></li>"
        "<li>y</li></ul></details></li></ul>"
    )


def test_html_of_a_huge_tree_is_capped():
    html = Taxonomy.from_paths([f"n{i}" for i in range(5000)])._repr_html_()
    assert "<li>... and 3,001 more</li></ul>" in html
    assert html.count("<li>") == 1 + 1999 + 1


# ---- size ----


def test_a_hundred_thousand_nodes(monkeypatch):
    paths = [f"t{i % 40}/middle number {i % 900}/leafNode {i}" for i in range(100_000)]
    start = time.process_time()
    tree = Taxonomy.from_paths(paths)
    assert time.process_time() - start < 20  # about 1 s; quadratic work would take hours
    assert len(tree) == 1 + 40 + 1800 + 100_000
    assert (tree.indices(paths) == tree.indices(iter(paths))).all()

    compared = []
    likeness = taxonomy_module._likeness
    monkeypatch.setattr(
        taxonomy_module, "_likeness", lambda a, b: compared.append(b) or likeness(a, b)
    )
    with pytest.raises(LabelError, match='Did you mean "t17/middle number 377/leafNode 77777"'):
        tree.index("leafNode 777777")
    assert 0 < len(compared) < 2000
