"""`leafwise grow`: from documents to a tree, and on with `classify`."""

import csv
import io
import json
import random
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from leafwise import filling, growing
from leafwise.exceptions import LabelError, LeafwiseError
from leafwise.models.growth import HPLSA
from leafwise.taxonomy import Taxonomy

# Words of four clear topics, two of them of one kind.
TOPICS = {
    "breeds": ["cat", "persian", "siamese", "fur", "breeds", "pedigree", "coat"],
    "kittens": ["cat", "milk", "mouse", "sofa", "whiskers", "kittens", "basket"],
    "dogs": ["dog", "bark", "gate", "stick", "leash", "park", "kennel"],
    "boats": ["boat", "harbour", "quay", "wind", "crew", "mast", "anchor"],
}
PATHS = {
    "breeds": "animals/cats",
    "kittens": "animals/cats",
    "dogs": "animals/dogs",
    "boats": "vehicles/boats",
}
TREE = "animals:\n  cats: [cat]\n  dogs: [dog]\nvehicles:\n  boats: [boat, sail]\n"
ADDED = ["probability", "label_2", "probability_2", "label_3", "probability_3", "labelled_by"]


def made_up(n: int = 12) -> list[tuple[str, str]]:
    """Texts of five words of a topic, and the topic; copies are among them."""
    draw = random.Random(0)
    return [
        (" ".join([words[0], *draw.choices(words[1:], k=5)]), topic)
        for topic, words in TOPICS.items()
        for _ in range(n)
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder where the commands run: documents with and without labels, and a tree."""
    monkeypatch.chdir(tmp_path)
    write("docs.csv", ["id", "text"], [(i, text) for i, (text, _) in enumerate(made_up())])
    write("labelled.csv", ["text", "label"], [(text, PATHS[topic]) for text, topic in made_up()])
    Path("tree.yaml").write_text(TREE)
    return tmp_path


def write(name: str, header: list[str], rows: list) -> None:
    with open(name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def table(path: str) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@contextmanager
def nothing_changes(folder: Path):
    def contents() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    before = contents()
    yield
    assert contents() == before


# ---- a tree from documents ----------------------------------------------------------------------


def test_a_tree_is_drawn_and_kept(call, folder):
    done = call("grow", "docs.csv", "--leaves", 4, "-o", "new.yaml")
    assert done.code == 0
    assert done.err == (
        "Counted 27 different words in 48 documents, without those that only one of them has.\n"
        "Wrote 6 nodes to new.yaml.\n"
    )
    lines = done.text.splitlines()
    assert lines[0] == "docs.csv (48 documents)"
    assert max(map(len, lines)) <= growing.WIDTH
    tree = Taxonomy.load("new.yaml")
    assert len(tree.leaves) == 4
    for i in range(1, len(tree)):
        [line] = [line for line in lines if f"── {tree.names[i]} (" in line]
        assert f"({12 if i in tree.leaves else 24})" in line
        more = [word for word in tree.keywords[i] if word not in tree.names[i].split(", ")]
        assert line.endswith(f"): {', '.join(more)}" if more else ")")
    shown = [line.split("· ")[1] for line in lines if "· " in line]
    texts = {text for text, _ in made_up()}
    assert len(shown) == len(set(shown)) == 2 * 4
    assert set(shown) <= texts
    cats = tree.index(next(name for name in tree.names if name.startswith("cat")))
    assert len(tree.children(cats)) == 2  # the two topics of cats are together


def test_what_is_not_kept_is_said(call, folder):
    with nothing_changes(folder):
        done = call("grow", "docs.csv", "--leaves", 4)
    assert done.code == 0
    assert done.err.endswith("The tree is not kept: -o tree.yaml writes it.\n")


def test_every_document_gets_its_leaf(call, folder):
    done = call("grow", "docs.csv", "--leaves", 4, "-o", "new.json", "--assign", "out.csv")
    assert done.code == 0
    assert done.err.endswith("Wrote 6 nodes to new.json.\nWrote 48 documents to out.csv.\n")
    rows = table("out.csv")
    assert list(rows[0]) == ["id", "text", "label", *ADDED]
    assert [row["id"] for row in rows] == [str(i) for i in range(48)]
    tree = Taxonomy.load("new.json")
    leaf_of = {topic: row["label"] for (_, topic), row in zip(made_up(), rows)}
    assert {tree.index(path) for path in leaf_of.values()} == set(tree.leaves.tolist())
    for (_, topic), row in zip(made_up(), rows, strict=True):
        assert row["label"] == leaf_of[topic]
        assert float(row["probability"]) > 0.9
        assert float(row["probability"]) >= float(row["probability_2"])
        assert len({row["label"], row["label_2"], row["label_3"]}) == 3
        assert row["labelled_by"] == "model"


def test_classify_takes_the_tree_as_it_is(call, folder):
    """From a file such as people have: quotes, no words, copies, other scripts, line breaks."""
    rows = [[f'{text}, "so called"\n\t{text.upper()}'] for text, _ in made_up()]
    rows += [["123 456"], ["the and of"], ["λόγος"], ["Ünïcode 🙂 «»"], [rows[0][0]], [rows[0][0]]]
    write("messy.csv", ["Text"], rows)
    with open("messy.csv", "a") as file:
        file.write('""\n')
    bad = call("grow", "messy.csv", "-o", "new.yaml")
    assert bad.code == 1
    assert 'there is no text in column "Text" (--skip-bad goes on' in bad.err
    options = ("--skip-bad", "-o", "new.yaml", "--assign", "out.csv")
    grown = call("grow", "messy.csv", "--leaves", 4, *options)
    assert grown.code == 0
    assert "Left out 1 bad row; bad-rows.csv says why.\n" in grown.err
    assert "4 documents without a word that others have too: no leaf there.\n" in grown.err
    assert "\t" not in grown.text
    assert (
        call("classify", "messy.csv", "--skip-bad", "-t", "new.yaml", "-o", "sorted.csv").code == 0
    )
    ours, theirs = table("out.csv"), table("sorted.csv")
    assert [row["Text"] for row in ours] == [row["Text"] for row in theirs]
    assert [row["Text"] for row in ours] == [text for [text] in rows]
    wordless = [row for row in ours if not row["label"]]
    assert [row["Text"] for row in wordless] == ["123 456", "the and of", "λόγος", "Ünïcode 🙂 «»"]
    assert {row[name] for row in wordless for name in ADDED} == {""}
    same = [a["label"] == b["label"] for a, b in zip(ours, theirs) if a["label"]]
    assert sum(same) >= 0.9 * len(same)
    # Its own output is good input too: labels are paths of the tree.
    assert call("classify", "out.csv", "-t", "new.yaml", "-o", "again.csv").code == 0
    given = [row["labelled_by"] for row in table("again.csv")]
    assert given.count("given") == len(same)


@pytest.mark.parametrize("name", ["t.yaml", "t.yml", "t.json", "t.csv", "t.tsv", "t.ttl", "t.RDF"])
def test_the_name_gives_the_format(call, folder, name):
    assert call("grow", "docs.csv", "--leaves", 2, "-o", name).code == 0
    assert len(Taxonomy.load(name).leaves) == 2


@pytest.mark.parametrize(
    ("name", "begins"), [("t.png", b"\x89PNG"), ("t.svg", b"<?xml"), ("t.PDF", b"%PDF")]
)
def test_a_picture(call, folder, name, begins):
    done = call("grow", "docs.csv", "--leaves", 2, "--picture", name)
    assert done.code == 0
    assert f"Drew it to {name}." in done.err
    assert Path(name).read_bytes().startswith(begins)


def test_a_picture_has_the_words_of_each_node():
    texts = [text for text, _ in made_up()]
    grown = growing.grow(growing.count_words(texts), 3)
    figure = growing.picture(grown, "docs.csv")
    shown = " ".join(text.get_text() for text in figure.axes[0].texts)
    assert "docs.csv" in shown
    for name, words in zip(grown.tree.names[1:], grown.tree.keywords[1:]):
        assert all(word in shown for word in [*name.split(", "), *words[: growing.N_SHOWN]])


def test_as_many_leaves_as_held_out_words_call_for(call, folder):
    done = call("grow", "docs.csv", "--leaves", "auto", "-o", "new.yaml")
    assert done.code == 0
    assert 2 <= len(Taxonomy.load("new.yaml").leaves) <= 8
    assert "leaves were found" not in done.err


def test_fewer_leaves_than_asked_for(call, folder):
    rows = [["cat purrs sofa"], ["cat purrs sofa milk"], ["boat sails quay"], ["boat sails quay"]]
    write("few.csv", ["text"], rows)
    done = call("grow", "few.csv", "--leaves", 4, "-o", "new.yaml")
    assert done.code == 0
    assert "2 leaves were found, not 4: no other topic of these documents comes apart." in done.err
    assert "Warning" not in done.err
    assert done.text == (
        "few.csv (4 documents)\n"
        "├── cat, purrs, sofa (2)\n"
        "│   · cat purrs sofa\n"
        "│   · cat purrs sofa milk\n"
        "└── boat, quay, sails (2)\n"
        "    · boat sails quay\n"
    )


def test_the_rows_alone_go_to_standard_output(call, folder):
    texts = Path("docs.csv").read_bytes()
    done = call("grow", "-", "--leaves", 2, "--assign", "-", stdin=texts)
    assert done.code == 0
    rows = list(csv.DictReader(io.StringIO(done.text)))
    assert [row["labelled_by"] for row in rows] == ["model"] * 48
    assert "standard input (48 documents)\n├── " in done.err
    assert done.err.endswith("Wrote 48 documents to standard output.\n")


def test_documents_cannot_steer_the_terminal(call, folder):
    rows = [[f"\x1b[31m{text}\x07\r\n\x1b]0;title\x07 \u202e{text}"] for text, _ in made_up()]
    write("odd.csv", ["text"], rows)
    done = call("grow", "odd.csv", "--leaves", 2)
    assert done.code == 0
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(done.text)


def test_labels_of_another_tree_are_no_hindrance(call, folder):
    done = call("grow", "labelled.csv", "--leaves", 2, "-o", "new.yaml", "--assign", "labelled.csv")
    assert done.code == 0
    tree = Taxonomy.load("new.yaml")
    assert {row["label"] for row in table("labelled.csv")} == {tree.paths[i] for i in tree.leaves}


def test_on_a_terminal_there_is_a_bar(call, folder, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    done = call("grow", "docs.csv", "--leaves", 2)
    assert done.code == 0
    assert "Reading \x1b" in done.err
    assert "leaves \x1b" in done.err
    assert "\x1b" not in done.text


def test_the_language_of_the_texts(call, folder):
    rows = [
        ["die Tomate und die Gurke"],
        ["die Tomaten und die Gurken"],
        ["Tomaten, die reif sind"],
    ]
    rows += [["der Motor und das Rad"], ["die Motoren und das Rad"], ["das Rad, die Motoren"]]
    write("german.csv", ["text"], rows)
    done = call("grow", "german.csv", "--leaves", 2, "-l", "german")
    assert done.code == 0
    words = growing.count_words([text for [text] in rows], "german")
    assert set(words.words) == {"tomaten", "gurke", "motoren", "rad", "das"}
    odd = call("grow", "german.csv", "-l", "klingon")
    assert odd.code == 2
    assert "--language klingon: expected one of arabic" in odd.err


@pytest.mark.parametrize("name", ["t.yaml", "t.json", "t.csv"])
def test_keywords_stay_when_a_node_is_renamed(call, folder, name):
    """Also where they are no more than the words of its name."""
    write("few.csv", ["text"], [["cat sofa"], ["cat sofa"], ["dog gate"], ["dog gate"]])
    assert call("grow", "few.csv", "--leaves", 2, "-o", name).code == 0
    text = Path(name).read_text()
    for old, new in (("cat, sofa", "home"), ("dog, gate", "yard")):
        spelled = {"t.yaml": "{}:", "t.json": '"{}":', "t.csv": '"{}",'}[name]
        assert spelled.format(old) in text
        text = text.replace(spelled.format(old), spelled.format(new))
    Path(name).write_text(text)
    tree = Taxonomy.load(name)
    assert {tree.names[i]: tree.keywords[i] for i in tree.leaves} == {
        "home": ("cat", "sofa"), "yard": ("dog", "gate"),
    }  # fmt: skip
    assert call("classify", "few.csv", "-t", name, "-o", "sorted.csv").code == 0
    assert [row["label"] for row in table("sorted.csv")] == ["home", "home", "yard", "yard"]


# ---- what goes wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "bad.csv is empty."),
        ("text\n", 'bad.csv has columns ("text") but no rows.'),
        ("text\na lone cat\n", "There is one document: it takes two or more to grow a tree from."),
        ("text\nthe and\nof or\n", "The 2 documents share no words to grow a tree from: they hold"),
        ("text\ncat\ndog\nboat\n", "The 3 documents share no words to grow a tree from: they hold"),
        (
            "text\n1 2\n1 2\n",
            "The 2 documents share no words to grow a tree from: they hold only st",
        ),
        ("text\n" + "cat dog\n" * 9, "The 9 documents do not come apart into topics: their words"),
        ("text\ncat\ncat\n1\n", "too few documents for the 8 leaves asked for: 2 with words that"),
    ],
)
def test_documents_that_make_no_tree(call, folder, text, message):
    Path("bad.csv").write_text(text)
    with nothing_changes(folder):
        done = call("grow", "bad.csv", "-o", "new.yaml", "--assign", "out.csv")
    assert (done.code, done.text) == (1, "")
    assert f"Error: {message}" in done.err or f"Error: There are {message}" in done.err


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--leaves", "1"], 2, "--leaves 1: expected a whole number from 2 on, or auto."),
        (["--leaves", "many"], 2, "--leaves many: expected a whole number from 2 on, or auto."),
        (["--leaves", "-3"], 2, "--leaves -3: expected a whole number from 2 on, or auto."),
        (["--under", "cats"], 2, "--under names a node of the tree that --taxonomy names. Give"),
        (["-t", "tree.yaml"], 2, "--under names a node of the tree that --taxonomy names. Give"),
        (["-t", "tree.yaml", "--under", "kats"], 1, 'No node is called "kats". Did you mean "anim'),
        (["-t", "gone.yaml", "--under", "cats"], 1, "There is no file or folder gone.yaml."),
        (["-o", "new.xlsx"], 3, "Cannot write new.xlsx: a tree with keywords is kept in a file wh"),
        (
            ["-o", "new"],
            3,
            "Cannot write new: a tree with keywords is kept in a file whose name en",
        ),
        (["-o", "gone/new.yaml"], 3, "Cannot write gone/new.yaml: there is no folder"),
        (["--assign", "gone/out.csv"], 3, "Cannot write gone/out.csv: there is no folder"),
        (["--assign", "out.xlsx"], 3, 'Cannot write out.xlsx: the ending ".xlsx" is that of no kn'),
        (["-o", "docs.csv"], 2, "DOCS and --out are the same file, docs.csv. Name another."),
        (["-o", "x.csv", "--assign", "x.csv"], 2, "--out and --assign are the same file, x.csv."),
        (["--bad-rows", "b.csv"], 2, "--bad-rows lists what --skip-bad leaves out."),
        (
            ["--picture", "t.jpg"],
            3,
            "Cannot draw t.jpg: name a file that ends in .png, .svg or .pd",
        ),
        (["--picture", "gone/t.png"], 3, "Cannot write gone/t.png: there is no folder"),
        (["-o", "t.png", "--picture", "t.png"], 2, "--out and --picture are the same file, t.png."),
        (["--text", "nope"], 1, 'docs.csv has no column "nope".'),
    ],
)
def test_what_is_refused_before_the_work(call, folder, options, code, message):
    with nothing_changes(folder):
        done = call("grow", "docs.csv", *options)
    assert (done.code, done.text) == (code, "")
    assert f"Error: {message}" in done.err
    assert "Counted" not in done.err


@pytest.mark.parametrize("part", ["picture", "draw"])
def test_a_late_error_leaves_no_file_of_several(call, folder, monkeypatch, part):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(growing, part, fail)
    options = ("-o", "new.yaml", "--assign", "out.csv", "--picture", "t.png")
    with nothing_changes(folder):
        done = call("grow", "docs.csv", "--leaves", 2, *options)
    assert (done.code, done.text) != (0, "")


def test_an_interrupt_leaves_nothing(call, folder, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(HPLSA, "fit", interrupt)
    with nothing_changes(folder):
        done = call("grow", "docs.csv", "-o", "new.yaml", "--assign", "docs.csv")
    assert (done.code, done.text) == (130, "")
    assert "Interrupted. No half-written file is left." in done.err


# ---- a node of a tree ---------------------------------------------------------------------------

UNDER = ("-t", "tree.yaml", "--under", "cats", "--leaves", 2)


def test_a_crowded_node_is_split_by_labels(call, folder):
    done = call("grow", "labelled.csv", *UNDER, "-o", "new.yaml", "--assign", "out.csv")
    assert done.code == 0
    assert "Counted 13 different words in 24 documents" in done.err
    assert done.text.startswith("animals/cats (24 documents)\n├── ")
    tree = Taxonomy.load("new.yaml")
    cats = tree.index("animals/cats")
    assert [len(tree.keywords[i]) for i in tree.children(cats)] == [6, 6]
    without = [i for i in range(len(tree)) if tree.parent[i] != cats]
    old = Taxonomy.load("tree.yaml")
    assert [tree.paths[i] for i in without] == list(old.paths)
    assert [tree.keywords[i] for i in without] == list(old.keywords)
    new = {tree.paths[i] for i in tree.children(cats)}
    rows = table("out.csv")
    assert {row["label"] for row in rows} == {*new, "animals/dogs", "vehicles/boats"}
    for (_, topic), row in zip(made_up(), rows, strict=True):
        if PATHS[topic] == "animals/cats":
            assert {row["label"], row["label_2"]} == new
            assert (row["label_3"], row["labelled_by"]) == ("", "model")
            assert float(row["probability"]) > 0.9
        else:
            assert row["label"] == PATHS[topic]
            assert (row["probability"], row["label_2"], row["labelled_by"]) == ("1.0", "", "given")
    assert (
        len({row["label"] for row in rows[:12]}) == len({row["label"] for row in rows[12:24]}) == 1
    )


def test_a_crowded_node_is_split_without_labels(call, folder):
    before = Taxonomy.load("tree.yaml")
    done = call(
        "grow", "docs.csv", *UNDER, "-o", "tree.yaml", "--assign", "out.csv"
    )  # in its place
    assert done.code == 0
    assert "Sorted them over 3 nodes" in done.err
    assert done.text.startswith("animals/cats (24 documents)\n")
    tree = Taxonomy.load("tree.yaml")
    assert len(tree) == len(before) + 2
    rows = table("out.csv")
    assert {row["labelled_by"] for row in rows} == {"model"}
    for (_, topic), row in zip(made_up(), rows, strict=True):
        assert row["label"].startswith(PATHS[topic])
        assert row["label"].count("/") == (2 if topic in ("breeds", "kittens") else 1)
    assert call("classify", "docs.csv", "-t", "tree.yaml", "-o", "sorted.csv").code == 0
    same = [a["label"] == b["label"] for a, b in zip(rows, table("sorted.csv"))]
    assert sum(same) >= 44  # of 48


def test_the_next_candidates_are_of_the_whole_tree():
    batch = SimpleNamespace(labels=[(), ()])
    rows = [["a", 0.5, "b", 0.4, "c", 0.1, "model"], ["a", 0.9, "b", 0.1, "c", 0.0, "model"]]
    leaves = [[("a/x", 0.9), ("a/y", 0.1)], [("a/y", 0.6), ("a/x", 0.4)]]
    filling.by_leaves(rows, batch, leaves, set(), False)
    assert rows == [
        ["a/x", 0.45, "b", 0.4, "c", 0.1, "model"],
        ["a/y", 0.54, "a/x", 0.36, "b", 0.1, "model"],
    ]


def test_a_node_that_has_children_already(call, folder):
    """Only documents on the node itself count, and new nodes come beside its children."""
    rows = [(text, PATHS[topic].split("/")[0]) for text, topic in made_up()]
    rows.append(("a cat with words of its own", "cats"))
    write("above.csv", ["text", "label"], rows)
    options = ("-t", "tree.yaml", "--under", "animals", "--leaves", 2)
    done = call("grow", "above.csv", *options, "-o", "new.yaml", "--assign", "out.csv")
    assert done.code == 0
    assert "in 36 documents" in done.err
    tree = Taxonomy.load("new.yaml")
    children = [tree.names[i] for i in tree.children(tree.index("animals"))]
    assert children[:2] == ["cats", "dogs"]
    assert len(children) == 4
    assert table("out.csv")[-1]["label"] == "cats"


def test_other_labels_of_a_document_stay(call, folder):
    rows = [{"text": text, "labels": [PATHS[topic], "vehicles"]} for text, topic in made_up()]
    rows += [{"text": "A cat without a label", "labels": None}]
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call("grow", "d.jsonl", *UNDER, "--assign", "out.jsonl").code == 0
    got = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    for before, after in zip(rows, got, strict=True):
        if before["labels"] is None:
            assert [after[name] for name in ("labels", *ADDED)] == [None] * 7
        elif before["labels"][0] == "animals/cats":
            assert after["labels"][0].startswith("animals/cats/")
            assert after["labels"][1:] == ["vehicles"]
        else:
            assert after["labels"] == before["labels"]


@pytest.mark.parametrize(
    ("docs", "under", "message"),
    [
        ("labelled.csv", "animals", 'No row of labelled.csv has the label "animals" itself, so'),
        ("docs.csv", "vehicles", 'No document of docs.csv seems to belong to "vehicles", so'),
    ],
)
def test_a_node_without_documents(call, folder, docs, under, message):
    with nothing_changes(folder):
        done = call("grow", docs, "-t", "tree.yaml", "--under", under, "-o", "new.yaml")
    assert (done.code, done.text) == (1, "")
    assert f"Error: {message} there is nothing to split." in done.err


# ---- parts --------------------------------------------------------------------------------------


def test_words_are_whole_and_shared():
    texts = ["Boats and a boat: 42", "two boats, 42, 3d", "Boat 42 boats x2", "x2 once", "", "3d"]
    words = growing.count_words(texts)
    assert words.words.tolist() == ["boats", "x2"]  # in three documents "boats", in two "boat"
    assert words.X.toarray().tolist() == [[2, 0], [1, 0], [2, 1], [0, 1]]
    assert words.documents.tolist() == [0, 1, 2, 3]
    assert (words.beginnings[0], words.n_documents) == ("Boats and a boat: 42", 6)
    assert growing.count_words(texts, "none").words.tolist() == ["boat", "boats", "x2"]


def test_what_contractions_leave_is_no_word():
    texts = ["I don't know, we've won", "they don't say who won: we've lost"]
    assert growing.count_words(texts).words.tolist() == ["won"]


def test_errors_of_reading_pass_through():
    def texts():
        yield "a cat"
        raise LabelError("no such label")

    with pytest.raises(LabelError, match="no such label"):
        growing.count_words(texts())


def test_long_captions_are_cut_at_a_word():
    words = [f"{letter}{'o' * 15}" for letter in "abcdefghij"]
    texts = [" ".join(half) for half in (words[:5], words[5:]) for _ in range(3)]
    drawing = growing.draw(growing.grow(growing.count_words(texts), 2), "long")
    lines = drawing.splitlines()
    assert max(map(len, lines)) <= growing.WIDTH
    captions = [line for line in lines if "── " in line]
    assert len(captions) == 2
    assert all(line.endswith("o") and line.count("o" * 15) == 5 for line in captions)
    assert f"· {texts[0][: growing.BEGINNING]} ..." in drawing


def test_growth_needs_documents():
    words = growing.count_words(["a cat", "the cat"])
    with pytest.raises(LeafwiseError, match="too few documents for the 3 leaves asked for: 2 with"):
        growing.grow(words, 3)


def test_graft(pets):
    branch = Taxonomy.from_dict({"cats": {"lions": ["roar"]}, "cats 2": None, "birds": ["wing"]})
    whole = pets.graft("animals", branch)
    below = [whole.paths[i] for i in whole.descendants(whole.index("animals"))]
    assert below == [
        "animals/cats", "animals/dogs",
        "animals/cats 3", "animals/cats 3/lions", "animals/cats 2", "animals/birds",
    ]  # fmt: skip
    assert whole.keywords[whole.index("animals/cats 3")] == ("cats",)
    assert whole.keywords[whole.index("animals/cats")] == ("cat", "purr")
    assert whole.keywords[whole.index("lions")] == ("roar",)
    assert [path for path in whole if path not in below] == [
        path for path in pets if path not in below
    ]
    first = int(pets.end[pets.index("animals")])  # where new nodes are, in their order
    assert [path.split("/")[-1] for path in whole.paths[first : first + 4]] == [
        "cats 3", "lions", "cats 2", "birds",
    ]  # fmt: skip


def test_graft_at_the_root_and_of_nothing(pets):
    assert pets.graft("/", Taxonomy([""], [-1])) == pets
    assert [pets.graft("/", pets).names[i] for i in pets.graft("/", pets).children(0)] == [
        "animals", "vehicles", "animals 2", "vehicles 2",
    ]  # fmt: skip
    with pytest.raises(LabelError, match=r'No node is called "animal". Did you mean "animals"'):
        pets.graft("animal", pets)
