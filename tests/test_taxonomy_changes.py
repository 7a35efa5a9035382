"""Trees that change: each edit against what it promises, on random trees and by name."""

import time
from contextlib import contextmanager
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leafwise.exceptions import LabelError, TaxonomyError
from leafwise.taxonomy import Taxonomy, default_keywords, join_path, own_keywords, split_path
from leafwise.taxonomy_changes import (
    Change,
    add,
    merge,
    move,
    remove,
    rename,
    set_keywords,
)

NAMES = ["a", "b", "c", "d e", "f/g", "h\\"]
WORDS = ["a", "b", "x", "y", "two words"]
EDITS = ["add", "rename", "move", "merge", "remove", "keep", "keywords"]


@pytest.fixture
def tree():
    return Taxonomy.from_dict(
        {
            "sports": {"hockey": ["puck", "goalie"], "baseball": None},
            "games": {"hockey": {"indoor": ["puck", "hall"]}, "chess": None},
            "politics": ["government"],
        }
    )


@contextmanager
def refused(message, kind=TaxonomyError):
    """The code within must end in an error of exactly this message."""
    with pytest.raises(kind) as caught:
        yield
    assert str(caught.value) == message


def identity(tree):
    return list(range(tree.n_nodes))


# ---- random trees and edits ----


@st.composite
def trees(draw, max_nodes=14):
    """Trees of few names, so that branches have much in common; with keywords, or without."""
    n = draw(st.integers(1, max_nodes))
    parent, names, keywords = [-1], [draw(st.sampled_from(["", "top"]))], [None]
    taken = set()
    for i in range(1, n):
        parent.append(draw(st.integers(0, i - 1)))
        wanted = draw(st.sampled_from(NAMES))
        options = (f"{wanted}{k or ''}" for k in count())
        names.append(next(name for name in options if (parent[-1], name) not in taken))
        taken.add((parent[-1], names[-1]))
        keywords.append(draw(st.none() | st.lists(st.sampled_from(WORDS), max_size=3)))
    return Taxonomy(names, parent, keywords, notes=["how it was read"])


@st.composite
def edits(draw, tree):
    """A random edit of a tree; no change at all where it is one that cannot be made."""
    kind = draw(st.sampled_from(EDITS))
    one, other = (draw(st.sampled_from(tree.paths)) for _ in "12")
    name = draw(st.sampled_from(NAMES))
    try:
        if kind == "add":
            return add(tree, join_path([*split_path(one), name]), draw(st.sampled_from([None, []])))
        if kind == "rename":
            return rename(tree, one, name)
        if kind == "move":
            return move(tree, one, other)
        if kind == "merge":
            more = draw(st.lists(st.sampled_from(tree.paths), max_size=3))
            return merge(tree, [one, *more], other)
        if kind == "keywords":
            return set_keywords(tree, one, draw(st.none() | st.lists(st.sampled_from(WORDS))))
        return remove(tree, one, keep=kind == "keep")
    except TaxonomyError:
        return Change.between(tree, tree)


@settings(deadline=None)
@given(st.data())
def test_what_every_edit_keeps(data):
    old = data.draw(trees())
    change = data.draw(edits(old))
    new, node_of = change.new, change.node_of
    assert change.old is old
    assert new.notes == old.notes
    assert node_of[0] == 0
    reached = set(node_of.tolist()) - {-1}
    assert len(new) - len(reached) in (0, 1)  # at most one node is new, by `add`
    for i, j in enumerate(node_of.tolist()):
        if np.count_nonzero(node_of == j) == 1 and j >= 0:  # a node that was not merged
            kept = set(old.keywords[i]) <= set(new.keywords[j])
            same = old.names[i] == new.names[j]
            assert kept or (same and len(reached) == len(old) == len(new))  # by set_keywords
    assert not node_of.flags.writeable
    with pytest.raises(AttributeError):
        change.old = new


@settings(deadline=None)
@given(st.data())
def test_a_change_agrees_with_the_mapping_it_implies(data):
    change = data.draw(edits(data.draw(trees())))
    moved = {
        path: None if j < 0 else change.new.paths[j]
        for path, j in zip(change.old.paths, change.node_of.tolist())
    }
    again = Change.between(change.old, change.new, moved)
    np.testing.assert_array_equal(again.node_of, change.node_of)
    assert again.report() == change.report()


@settings(deadline=None)
@given(st.data())
def test_labels_agree_with_node_of(data):
    change = data.draw(edits(data.draw(trees())))
    expected = [None if j < 0 else change.new.paths[j] for j in change.node_of]
    paths = list(change.old.paths)
    assert change.labels(paths) == expected
    assert change.labels(np.array(paths, dtype=object)) == expected
    several = data.draw(st.lists(st.sampled_from(paths), max_size=5))
    [left] = change.labels([several])
    wanted = [expected[paths.index(path)] for path in several]
    assert left == [path for path in dict.fromkeys(wanted) if path is not None]
    assert change.labels([tuple(several), set(several)]) == [tuple(left), set(left)]


@settings(deadline=None)
@given(st.data())
def test_changes_one_after_the_other(data):
    tree = data.draw(trees())
    whole = Change.between(tree, tree)
    steps = []
    for _ in range(3):
        steps.append(data.draw(edits(whole.new)))
        whole = whole.then(steps[-1])
    assert whole.old is tree
    assert whole.new is steps[-1].new
    for i in range(tree.n_nodes):
        j = i
        for step in steps:
            j = step.node_of[j] if j >= 0 else -1
        assert whole.node_of[i] == j
    grouped = steps[0].then(steps[1].then(steps[2]))
    np.testing.assert_array_equal(grouped.node_of, whole.node_of)


@settings(deadline=None)
@given(st.data())
def test_nothing_is_reported_only_where_nothing_changed(data):
    change = data.draw(edits(data.draw(trees())))
    assert (change.report() == []) == (change.old == change.new)


# ---- rename ----


@settings(deadline=None)
@given(st.data())
def test_rename_and_back(data):
    tree = data.draw(trees())
    i = data.draw(st.integers(0, len(tree) - 1))
    there = rename(tree, tree.paths[i], "another name")
    back = rename(there.new, there.new.paths[i], tree.names[i])
    for change in (there, back, there.then(back)):
        assert change.node_of.tolist() == identity(tree)
        np.testing.assert_array_equal(change.new.parent, tree.parent)
    assert there.new.names == (*tree.names[:i], "another name", *tree.names[i + 1 :])
    assert back.new.names == tree.names
    by_name = own_keywords(tree, i) is None
    words = (*tree.keywords[i], "another", "name") if by_name else tree.keywords[i]
    assert there.new.keywords == back.new.keywords
    assert there.new.keywords == (*tree.keywords[:i], words, *tree.keywords[i + 1 :])
    assert (back.new == tree) == (not by_name)


def test_rename_keeps_keywords_and_adds_the_words_of_a_name(tree):
    change = rename(tree, "sports/baseball", "Soft Ball")
    assert change.new.keywords[3] == ("baseball", "soft", "ball")
    change = rename(change.new, "Soft Ball", "softball")
    assert change.new.keywords[3] == ("baseball", "soft", "ball")
    assert rename(tree, "sports/hockey", "ice").new.keywords[2] == ("puck", "goalie")
    empty = set_keywords(tree, "politics", []).new
    assert rename(empty, "politics", "news").new.keywords[-1] == ()


def test_rename_takes_a_name_not_a_path(tree):
    change = rename(tree, "games/chess", " go / shogi ")
    assert change.new.paths[-2] == "games/go \\/ shogi"
    assert change.labels(["chess"]) == ["games/go \\/ shogi"]
    assert rename(tree, "politics", "politics").new == tree


def test_rename_the_root(tree):
    change = rename(tree, "/", "all topics")
    assert change.new.names[0] == "all topics"
    assert change.report()[0] == '1 node renamed: "/" to "all topics".'
    assert rename(change.new, "/", "").new.names[0] == ""


def test_rename_errors(tree):
    with refused(
        '"sports/baseball" cannot be called "hockey": a sibling has that name. '
        "Merge the two instead."
    ):
        rename(tree, "sports/baseball", "hockey ")
    with refused("The new name of \"politics\" must be text: ' '."):
        rename(tree, "politics", " ")
    with refused('The new name of "politics" must be text: 3.'):
        rename(tree, "politics", 3)
    with refused(r"The name 'a\x00' holds a control character."):
        rename(tree, "politics", "a\0")
    with refused('No node is called "Chess". Did you mean "games/chess"?'):
        rename(tree, "Chess", "go")
    with refused(
        '"hockey" is the name of 2 nodes: "sports/hockey" and "games/hockey". Use the path.'
    ):
        rename(tree, "hockey", "go")


# ---- add and set_keywords ----


def test_add_a_last_child(tree):
    change = add(tree, "sports/TCP\\/IP", "wire, net")
    assert change.new.paths[1:5] == (
        "sports", "sports/hockey", "sports/baseball", "sports/TCP\\/IP",
    )  # fmt: skip
    assert change.new.names[4] == "TCP/IP"
    assert change.new.keywords[4] == ("wire", "net")
    assert change.node_of.tolist() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    top = add(tree, "News Desk")
    assert top.new.paths[-1] == "News Desk"
    assert top.new.keywords[-1] == ("news", "desk")
    assert top.node_of.tolist() == identity(tree)
    assert add(tree, "/news/", []).new.keywords[-1] == ()


def test_add_errors(tree):
    with refused('There is a node "games/chess" already.'):
        add(tree, " games/ chess")
    with refused('No node is called "sport". Did you mean "sports"?'):
        add(tree, "sport/golf")
    # A name alone finds a node, but the new one would not have the path that was asked for.
    with refused('No node has the path "chess". Did you mean "games/chess"?'):
        add(tree, "chess/blitz")
    for path in ("", "/", "sports//", 3):
        with refused(f"The path of a new node must be text such as 'a/b', not {path!r}."):
            add(tree, path)
    with refused('The keywords of "golf": A keyword must be text, not 1.'):
        add(tree, "golf", [1])


@settings(deadline=None)
@given(st.data())
def test_set_keywords_changes_nothing_else(data):
    tree = data.draw(trees())
    i = data.draw(st.integers(0, len(tree) - 1))
    change = set_keywords(tree, tree.paths[i], ["new", "words", "new"])
    assert change.node_of.tolist() == identity(tree)
    assert change.new.keywords[i] == ("new", "words")
    assert set_keywords(change.new, tree.paths[i], tree.keywords[i]).new == tree
    by_name = set_keywords(tree, tree.paths[i], None).new
    assert by_name.keywords[i] == default_keywords(tree.names[i])


# ---- move ----


@settings(deadline=None)
@given(st.data())
def test_move_keeps_the_branch_and_the_order_of_the_rest(data):
    tree = data.draw(trees())
    node, parent = (data.draw(st.integers(0, len(tree) - 1)) for _ in "12")
    names_there = [tree.names[i] for i in tree.children(parent) if i != node]
    possible = node > 0 and not node <= parent < tree.end[node]
    if not possible or tree.names[node] in names_there:
        with pytest.raises(TaxonomyError, match="cannot be moved"):
            move(tree, tree.paths[node], tree.paths[parent])
        return
    change = move(tree, tree.paths[node], tree.paths[parent])
    new, to = change.new, change.node_of
    branch = np.arange(node, tree.end[node])
    np.testing.assert_array_equal(to[branch], to[node] + np.arange(len(branch)))
    assert sorted(to) == identity(tree)
    assert [new.names[j] for j in to] == list(tree.names)
    assert [new.keywords[j] for j in to] == list(tree.keywords)
    np.testing.assert_array_equal(np.diff(new.depth[to[branch]]), np.diff(tree.depth[branch]))
    rest = np.delete(np.arange(len(tree)), branch)
    assert (np.diff(to[rest]) > 0).all()
    assert new.children(to[parent])[-1] == to[node]
    for i in range(1, len(tree)):
        assert new.parent[to[i]] == to[parent if i == node else tree.parent[i]]


def test_move_and_its_errors(tree):
    change = move(tree, "games/hockey/indoor", "/")
    assert change.new.paths[-2:] == ("politics", "indoor")
    assert change.report() == ['1 node moved: "games/hockey/indoor" to "indoor".']
    with refused("The root cannot be moved."):
        move(tree, "/", "sports")
    with refused('"games" cannot be moved below itself, to "games/hockey/indoor".'):
        move(tree, "games", "indoor")
    with refused(
        '"games/hockey" cannot be moved below "sports", which has a child of that name. '
        "Merge the two, or rename one first."
    ):
        move(tree, "games/hockey", "sports")


def test_move_to_where_it_is_puts_it_last(tree):
    change = move(tree, "sports", "/")
    assert change.new.names[1:] == (
        "games", "hockey", "indoor", "chess", "politics", "sports", "hockey", "baseball",
    )  # fmt: skip
    assert change.report() == ["The order of nodes changed."]
    assert move(tree, "politics", "/").report() == []


# ---- merge ----


def rows(tree):
    return [split_path(path) if i else () for i, path in enumerate(tree.paths)]


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_merge_against_paths_that_are_written_anew(data):
    """A path that begins with a merged one begins with `into` instead: the longest such counts."""
    tree = data.draw(trees())
    target = data.draw(st.integers(0, len(tree) - 1))
    merged = data.draw(st.lists(st.integers(0, len(tree) - 1), max_size=4))
    if any(node == 0 or node <= target < tree.end[node] for node in merged):
        with pytest.raises(TaxonomyError, match="cannot be merged into"):
            merge(tree, [tree.paths[i] for i in merged], tree.paths[target])
        return
    change = merge(tree, [tree.paths[i] for i in merged], tree.paths[target])
    old = rows(tree)
    place = []
    for row in old:
        heads = [old[i] for i in merged if row[: len(old[i])] == old[i]]
        longest = max(map(len, heads), default=None)
        place.append(row if longest is None else old[target] + row[longest:])
    new = rows(change.new)
    assert set(new) == set(place)
    assert [new[j] for j in change.node_of] == place
    for j, row in enumerate(new):
        sources = [i for i in range(len(tree)) if place[i] == row]
        words = change.new.keywords[j]
        assert set(words) == {word for i in sources for word in tree.keywords[i]}
        assert len(words) == len(set(words))
        stays = [i for i in sources if old[i] == row]
        if stays:  # the keywords that it had come first
            first = tree.keywords[stays[0]]
            assert words[: len(first)] == first
    # What was not merged stays in order, and comes before what is put beside it.
    stay = [i for i, row in enumerate(old) if place[i] == row]
    assert (np.diff(change.node_of[stay]) > 0).all()
    stayed = np.isin(np.arange(len(new)), change.node_of[stay])
    for j in range(len(new)):
        if stayed[j]:
            assert (np.diff(stayed[change.new.children(j)].astype(int)) <= 0).all()


def test_merge_in_turn(tree):
    change = merge(tree, ["games", "politics"], "sports")
    assert change.new.paths == (
        "/", "sports", "sports/hockey", "sports/hockey/indoor", "sports/baseball", "sports/chess",
    )  # fmt: skip
    assert change.new.keywords[1] == ("sports", "games", "government")
    assert change.new.keywords[2] == ("puck", "goalie", "hockey")
    assert change.labels(["games/hockey", "politics", "chess", ["games", "sports"]]) == [
        "sports/hockey", "sports", "sports/chess", ["sports"],
    ]  # fmt: skip
    assert change.report() == [
        '3 nodes merged: "games" into "sports", "games/hockey" into "sports/hockey", '
        '"politics" into "sports".',
        'Keywords of 2 nodes changed: "sports", "sports/hockey".',
    ]


def test_the_node_that_others_are_merged_into_keeps_its_path_in_the_report(tree):
    change = merge(tree, ["sports/hockey"], "games/hockey")
    assert change.report() == [
        '1 node merged: "sports/hockey" into "games/hockey".',
        'Keywords of 1 node changed: "games/hockey".',
    ]


def test_merge_a_node_into_the_one_above(tree):
    change = merge(tree, "games/hockey", "games")
    assert change.new.paths[4:7] == ("games", "games/chess", "games/indoor")
    # A child takes the name that its parent had.
    twice = Taxonomy.from_paths(["a/b/b/c"])
    change = merge(twice, ["a/b"], "a")
    assert change.new.paths == ("/", "a", "a/b", "a/b/c")
    assert change.node_of.tolist() == [0, 1, 1, 2, 3]
    assert merge(tree, [], "games").report() == []


def test_merge_errors(tree):
    with refused('The root cannot be merged into "sports".'):
        merge(tree, ["games", "/"], "sports")
    with refused('"games" cannot be merged into "games/hockey/indoor", which is below it.'):
        merge(tree, ["sports", "games"], "indoor")
    with refused('"games" cannot be merged into itself.'):
        merge(tree, ["games", "sports"], "games")
    with refused('No node is called "game". Did you mean "games"?'):
        merge(tree, ["game"], "sports")


# ---- remove ----


@settings(deadline=None)
@given(st.data(), st.booleans())
def test_remove_takes_the_branch_and_nothing_else(data, keep):
    tree = data.draw(trees())
    node = data.draw(st.integers(0, len(tree) - 1))
    if node == 0:
        with pytest.raises(TaxonomyError, match=r"^The root cannot be removed\.$"):
            remove(tree, "/", keep=keep)
        return
    change = remove(tree, tree.paths[node], keep=keep)
    gone = np.arange(node, tree.end[node])
    rest = np.delete(np.arange(len(tree)), gone)
    assert change.node_of[rest].tolist() == list(range(len(change.new)))
    assert set(change.node_of[gone]) == {change.node_of[tree.parent[node]] if keep else -1}
    assert change.new.paths == tuple(tree.paths[i] for i in rest)
    assert change.new.keywords == tuple(tree.keywords[i] for i in rest)


def test_remove_by_name(tree):
    change = remove(tree, "games")
    assert change.labels(["chess", ["politics", "games/hockey"]]) == [None, ["politics"]]
    assert change.report() == [
        '4 nodes removed: "games", "games/hockey", "games/hockey/indoor", "games/chess".'
    ]
    kept = remove(tree, "games/hockey", keep=True)
    assert kept.labels(["indoor", ["games", "games/hockey"]]) == ["games", ["games"]]
    assert kept.report() == [
        '2 nodes merged: "games/hockey" into "games", "games/hockey/indoor" into "games".'
    ]


# ---- between ----


@settings(deadline=None)
@given(trees(), trees(), st.data())
def test_between_against_the_longest_entry(old, new, data):
    entries = st.dictionaries(
        st.sampled_from(old.paths), st.none() | st.sampled_from(new.paths), max_size=4
    )
    moved = data.draw(entries)
    change = Change.between(old, new, moved)
    number = dict(zip(rows(new), range(len(new))))
    for row, j in zip(rows(old), change.node_of):
        entry = next(
            (k for k in range(len(row), -1, -1) if join_path(row[:k]) in moved), None
        )  # how many names of the row the longest entry has
        if entry is None:
            expected = number.get(row, -1)
        elif moved[join_path(row[:entry])] is None:
            expected = -1
        else:
            head = moved[join_path(row[:entry])]
            expected = number.get((split_path(head) if head != "/" else ()) + row[entry:], -1)
        assert j == expected


def test_between_a_tree_and_itself(tree):
    change = Change.between(tree, tree)
    assert change.node_of.tolist() == identity(tree)
    assert change.report() == []


def test_between_says_a_branch_once():
    old = Taxonomy.from_paths(["a/b/c", "a/d", "e"])
    new = Taxonomy.from_paths(["x/a/b/c", "x/d2"])
    change = Change.between(old, new, {"a": "x/a", "a/d": "x/d2"})
    assert change.node_of.tolist() == [0, 2, 3, 4, 5, -1]
    assert change.report() == [
        '1 node added: "x".',
        '2 nodes moved: "a" to "x/a", "a/d" to "x/d2".',
        '1 node removed: "e".',
        'Keywords of 1 node changed: "x/d2".',
    ]
    whole = Change.between(old, add(old, "x").new, {"/": "x"})
    assert whole.node_of.tolist() == [6, -1, -1, -1, -1, -1]


def test_two_nodes_that_change_places():
    old = Taxonomy.from_paths(["a/x", "b/y"])
    new = Taxonomy.from_paths(["a/y", "b/x"])
    change = Change.between(old, new, {"a": "b", "b": "a"})
    assert change.labels(["a", "a/x", "b", "b/y"]) == ["b", "b/x", "a", "a/y"]
    assert change.report()[0] == '2 nodes renamed: "a" to "b", "b" to "a".'


def test_between_errors(tree):
    new = rename(tree, "sports", "sport").new
    with refused('In the old tree: No node is called "sprots". Did you mean "sports"?'):
        Change.between(tree, new, {"sprots": "sport"})
    with refused('In the new tree: No node is called "sports". Did you mean "sport"?'):
        Change.between(tree, new, {"sports": "sports"})
    with refused('"sports" is moved twice. Give one new path.'):
        Change.between(tree, new, {"sports": "sport", "/sports": None})


# ---- Change itself ----


def test_then_wants_the_tree_between(tree):
    first = remove(tree, "games")
    with refused(
        "The second change does not begin with the tree that the first one ends with. "
        "Edit the `new` tree of the first."
    ):
        first.then(rename(tree, "sports", "sport"))
    again = Taxonomy(first.new.names, first.new.parent, first.new.keywords)  # equal, not the same
    assert first.then(rename(again, "sports", "sport")).labels(["sports"]) == ["sport"]


def test_labels_that_are_missing_or_wrong(tree):
    change = rename(tree, "games", "play")
    given = [None, "", float("nan"), [], [None, "games"], "chess", {"games"}]
    assert change.labels(given) == [None, None, None, [], ["play"], "play/chess", {"play"}]
    assert change.labels([]) == []
    with refused(
        'Label number 1 (from 0): No node is called "game". Did you mean "games"?', LabelError
    ):
        change.labels(["games", "game"])
    with refused(
        "Label number 0 (from 0): A label must be a path or a name, not ['sports'].", LabelError
    ):
        change.labels([["games", ["sports"]]])


def test_a_change_that_does_not_fit(tree):
    with refused("node_of has the shape (2,); it must have one entry for each of the 9 old nodes."):
        Change(tree, tree, np.array([0, 1]))
    with refused("node_of must be from -1 to 8."):
        Change(tree, tree, np.arange(1, 10))


def test_the_report_cuts_long_lists():
    tree = Taxonomy.from_paths([f"n{i}" for i in range(12)])
    root = Taxonomy([""], [-1])
    [line] = Change.between(root, tree).report()
    assert line.startswith('12 nodes added: "n0", "n1", ')
    assert line.endswith('"n8", "n9", ...')
    [line] = Change.between(Taxonomy.from_paths(tree.paths[1:11]), root).report()
    assert line.endswith('"n8", "n9".')


# ---- large trees ----


def test_large_trees_take_no_quadratic_time():
    n = 20_000
    parent = [-1, 0, *((i - 1) // 8 + 1 for i in range(1, n)), 0]
    parent += [n + 1 + (i - 1) // 8 for i in range(1, n)]
    names = ["", "left", *map(str, range(1, n)), "right", *map(str, range(1, n))]
    tree = Taxonomy(names, parent)
    flat = Taxonomy.from_paths(map(str, range(2 * n)))
    _ = tree.index("left"), flat.index("1")

    def swift(make):
        start = time.process_time()
        result = make()
        assert time.process_time() - start < 10  # below 1 s; quadratic work would take minutes
        return result

    twins = swift(lambda: merge(tree, ["right"], "left"))
    assert len(twins.new) == n + 1
    assert len(swift(lambda: merge(flat, flat.paths[2:], "0")).new) == 2
    change = swift(lambda: move(tree, "right", "left"))
    change = change.then(swift(lambda: rename(change.new, "left", "both")))
    assert len(swift(lambda: remove(change.new, "both/right")).new) == n + 1
    again = swift(lambda: Change.between(tree, change.new, {"left": "both", "right": "both/right"}))
    np.testing.assert_array_equal(again.node_of, change.node_of)
    assert swift(lambda: change.labels(tree.paths))[-1].startswith("both/right/")
    assert len(swift(change.report)) == 3
