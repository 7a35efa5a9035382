"""leafwise project, review and serve, used as their users use them."""

import csv
import gzip
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from leafwise.cli import main
from leafwise.corpus import Batch, Corpus
from leafwise.store import Project
from leafwise.taxonomy import Taxonomy

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "projects.md"
COMMAND = [sys.executable, "-m", "leafwise"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.fixture
def folder(tmp_path, monkeypatch, pets, pet_texts, pet_labels):
    """A tree, and documents of which every other has a label."""
    monkeypatch.chdir(tmp_path)
    pets.save("tree.yaml")
    write("docs.csv", [(f"d{i}", text, label if i % 2 == 0 else "")
                       for i, (text, label) in enumerate(zip(pet_texts, pet_labels))])  # fmt: skip
    return tmp_path


def write(name: str, rows, header=("id", "text", "label")) -> None:
    with open(name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


@pytest.fixture
def made(call, folder):
    done = call("project", "new", "pets.leafwise", "docs.csv", "--taxonomy", "tree.yaml")
    assert done.code == 0, done.err
    return folder


# ---- new and add --------------------------------------------------------------------------------


def test_new(call, folder, pets):
    done = call("project", "new", "pets.leafwise", "docs.csv", "--taxonomy", "tree.yaml",
                "--name", "My pets", "--language", "german")  # fmt: skip
    assert (done.code, done.out) == (0, b"")
    assert done.err.splitlines() == [
        "Made pets.leafwise, with a tree of 7 nodes.",
        "docs.csv: 16 documents added, 8 labels taken.",
    ]
    with Project("pets.leafwise") as project:
        assert (project.name, project.language, project.several) == ("My pets", "german", False)
        assert project.tree.taxonomy == pets
        assert project.documents.find("d2").labels == ("animals/cats",)
        assert project.documents.find("d1").labels == ()


def test_new_without_documents_or_tree(call, folder):
    done = call("project", "new", "empty.leafwise")
    assert done.err == "Made empty.leafwise, with no tree yet.\n"
    with Project("empty.leafwise") as project:
        assert project.name == "empty"
        assert len(project.tree.taxonomy) == 1


def test_labels_make_the_tree_where_there_is_none(call, folder):
    write("more.csv", [("m1", "A bird", "animals/birds")])
    done = call("project", "new", "a.leafwise", "docs.csv", "more.csv")
    assert "with a tree of 8 nodes" in done.err
    call("project", "new", "b.leafwise")
    done = call("project", "add", "b.leafwise", "docs.csv", "more.csv")
    assert done.err.splitlines()[0] == "The project had no tree: the labels make one of 8 nodes."
    with Project("a.leafwise") as a, Project("b.leafwise") as b:
        assert a.tree.taxonomy == b.tree.taxonomy
        assert a.labels.all() == b.labels.all()
        assert b.documents.find("m1").labels == ("animals/birds",)


def test_a_folder_makes_the_tree(call, folder):
    for place in ("animals/cats", "animals/dogs"):
        (folder / "files" / place).mkdir(parents=True)
        (folder / "files" / place / "one.txt").write_text(f"About {place}")
    done = call("project", "new", "f.leafwise", "files")
    assert done.code == 0, done.err
    with Project("f.leafwise") as project:
        assert project.documents.find("animals/cats/one.txt").labels == ("animals/cats",)


def test_several_labels(call, folder):
    write("several.csv", [("1", "both", "cats;dogs")], ("id", "text", "labels"))
    done = call("project", "new", "one.leafwise", "several.csv", "-t", "tree.yaml")
    assert done.code == 1
    reason = "it has 2 labels, and each document of this project has one"
    assert f"several.csv, line 2: {reason} (--skip-bad" in done.err
    write("some.csv", [("1", "both", "cats;dogs"), ("2", "one node", "cats;animals/cats")],
          ("id", "text", "labels"))  # fmt: skip
    done = call("project", "new", "one.leafwise", "some.csv", "-t", "tree.yaml", "--skip-bad")
    assert (done.code, done.err.splitlines()[1:]) == (0, [
        "Left out 1 bad row; bad-rows.csv says why.", "some.csv: 1 document added, 1 label taken.",
    ])  # fmt: skip
    with open("bad-rows.csv", newline="") as file:
        assert [(row["line"], row["reason"]) for row in csv.DictReader(file)] == [("2", reason)]
    done = call("project", "add", "one.leafwise", "several.csv")
    assert (done.code, reason in done.err) == (1, True)
    done = call("project", "new", "more.leafwise", "several.csv", "-t", "tree.yaml", "--several")
    assert done.code == 0
    with Project("more.leafwise") as project:
        assert project.documents.find("1").labels == ("animals/cats", "animals/dogs")


def test_a_tree_can_be_given_later(call, made, tmp_path):
    (tmp_path / "other.yaml").write_text("animals:\n  cats: [cat]\n  owls: [owl, hoot]\n")
    done = call("project", "add", "pets.leafwise", "--taxonomy", tmp_path / "other.yaml")
    assert '1 node added: "animals/owls".' in done.err
    assert done.err.endswith(
        "6 labels are taken away with nodes that are gone; the page's Tree can undo that.\n"
    )
    with Project("pets.leafwise") as project:
        assert "animals/owls" in project.tree.taxonomy
        assert project.info().n_labelled == 2
        assert project.tree.undo("me").what == "Took a tree of 3 nodes"
        assert project.info().n_labelled == 8
    done = call("project", "add", "pets.leafwise")
    assert done.code == 2
    assert "Name documents to add, or a tree with --taxonomy." in done.err


def test_nothing_is_added_twice(call, made, pet_texts):
    done = call("project", "add", "pets.leafwise", "docs.csv")
    assert done.err == "docs.csv: 0 documents added, 16 already there.\n"
    write("docs.csv", [("d0", "Another text", ""), ("d1", pet_texts[1], ""), ("new", "New", "")])
    done = call("project", "add", "pets.leafwise", "docs.csv")
    assert done.err.splitlines() == [
        "docs.csv: 1 document added, 1 already there.",
        "1 document has an id that is there already, with another text. The text that was there "
        "is kept; --replace takes the new one.",
    ]
    with Project("pets.leafwise") as project:
        assert project.documents.find("d0").text == pet_texts[0]
    done = call("project", "add", "pets.leafwise", "docs.csv", "--replace")
    assert done.err == "docs.csv: 0 documents added, 2 already there, 1 replaced by the new text.\n"
    with Project("pets.leafwise") as project:
        assert project.documents.find("d0").text == "Another text"
        assert project.documents.count() == 17


def test_documents_without_ids_are_known_by_file_and_line(call, made):
    write("plain.csv", [["A cat"], ["A dog"]], ["text"])
    Path("lines.txt").write_text("One line\nAnother\n")
    Path("labelled.ft").write_text("__label__cats A third\n")
    names = ["plain.csv", "lines.txt", "labelled.ft", "-"]
    done = call("project", "add", "pets.leafwise", *names, stdin=b'{"text": "From afar"}\n')
    assert done.code == 0, done.err
    with Project("pets.leafwise") as project:
        for key, text in (
            ("plain.csv:2", "A cat"), ("plain.csv:3", "A dog"), ("lines.txt:2", "Another"),
            ("labelled.ft:1", "A third"), ("stdin-a5a2871af5bb8c5a", "From afar"),
        ):  # fmt: skip
            assert project.documents.find(key).text == text


def test_standard_input_is_known_by_its_texts(call, made):
    for lines, said in (
        (b"A cat\nA dog\n", "2 documents added."),
        (b"An owl\nA cat\n", "1 document added, 1 already there."),
    ):
        done = call("project", "add", "pets.leafwise", "-", "--format", "text", stdin=lines)
        assert (done.code, done.err) == (0, f"standard input: {said}\n")
    done = call("project", "add", "pets.leafwise", "-", stdin=b'{"id": "own", "text": "A bee"}\n')
    with Project("pets.leafwise") as project:
        assert project.documents.count() == 16 + 4
        assert project.documents.find("own").text == "A bee"


def test_line_numbers_of_two_files_are_not_taken_for_each_other(call, made):
    write("noid.csv", [["A cat"], ["A dog"]], ["text"])
    call("project", "add", "pets.leafwise", "noid.csv")
    Path("sub").mkdir()
    write("sub/noid.csv", [["A cat"], ["A boat"], ["A third"]], ["text"])
    done = call("project", "add", "pets.leafwise", "sub/noid.csv")
    assert (done.code, done.err) == (1, (
        "Error: sub/noid.csv: 1 document has the id of another with another text, as ids are only "
        "the name of the file and line numbers here (noid.csv:2). Nothing of it is added. Name a "
        "column of ids with --id, or rename the file; if it is the same file with new texts, "
        "--replace takes them.\n"
    ))  # fmt: skip
    with Project("pets.leafwise") as project:
        assert project.documents.count() == 16 + 2
    write("noid.csv", [["A cat"], ["A dog"], ["A third"]], ["text"])  # it grew
    done = call("project", "add", "pets.leafwise", "noid.csv")
    assert (done.code, done.err) == (0, "noid.csv: 1 document added, 2 already there.\n")
    done = call("project", "add", "pets.leafwise", "sub/noid.csv", "--replace")
    assert (done.code, "1 replaced by the new text" in done.err) == (0, True)


def test_an_empty_id_takes_no_other_ones_place(call, folder):
    write("d.csv", [("1", "cat one", "cats"), ("", "no id here", "cars"), (" ", "nor here", ""),
                    ("3", "a third", "dogs")])  # fmt: skip
    done = call("project", "new", "p.leafwise", "d.csv")
    assert (done.code, done.err) == (
        1, "Error: d.csv, line 3: the id is empty (--skip-bad goes on and lists such rows)\n",
    )  # fmt: skip
    done = call("project", "new", "p.leafwise", "d.csv", "--skip-bad")
    assert done.err.splitlines()[1:] == [
        "Left out 2 bad rows; bad-rows.csv says why.",
        "d.csv: 2 documents added, 2 labels taken.",
    ]
    assert "d.csv,3,the id is empty," in Path("bad-rows.csv").read_text()
    with Project("p.leafwise") as project:
        assert project.documents.find("3").text == "a third"
    done = call("classify", "d.csv", "-t", "tree.yaml")
    assert (done.code, len(done.rows)) == (0, 4), done.err


def test_what_adds_no_document_leaves_nothing(call, folder):
    write("bad.csv", [("1", "", "cats"), ("2", "Fine", "dogs")])
    done = call("project", "new", "p.leafwise", "bad.csv", "-t", "tree.yaml")
    assert done.code == 1
    assert done.err.splitlines()[1] == "No document was added: p.leafwise is removed again."
    assert sorted(path.name for path in folder.iterdir()) == ["bad.csv", "docs.csv", "tree.yaml"]
    done = call("project", "new", "p.leafwise", "docs.csv", "bad.csv", "-t", "tree.yaml")
    assert (done.code, Path("p.leafwise").exists()) == (1, True)  # of which 16 are kept


def test_a_tree_of_labels_goes_if_no_document_comes(call, folder):
    call("project", "new", "p.leafwise")
    write("one.csv", [("1", "A cat", "cats")])
    with Project("p.leafwise") as project:
        project.documents.add([Batch(["Other"], [()], ["lines.txt:1"], [1], {})])
    Path("lines.txt").write_text("Another\n")
    done = call("project", "add", "p.leafwise", "lines.txt", "one.csv")
    assert (done.code, done.err.splitlines()[:2]) == (1, [
        "The project had no tree: the labels make one of 1 node.",
        "No document was added: the tree is taken back.",
    ])  # fmt: skip
    with Project("p.leafwise") as project:
        assert (len(project.tree.taxonomy), project.documents.count()) == (1, 1)
        assert project.check() == []


def test_columns_formats_and_encodings(call, made):
    rows = [("7", "Müll", "Ein Hündchen bellt", "dogs")]
    write("other.csv", rows, ("number", "title", "body text", "class"))
    Path("other.dat").write_bytes(Path("other.csv").read_text("utf-8").encode("latin-1"))
    columns = ("--text", "title+body text", "--label", "class", "--id", "number")
    options = ("--format", "csv", "--encoding", "latin-1", *columns)
    done = call("project", "add", "pets.leafwise", "other.dat", *options)
    assert done.err == "other.dat: 1 document added, 1 label taken.\n"
    with Project("pets.leafwise") as project:
        found = project.documents.find("7")
    assert (found.text, found.labels) == ("Müll\nEin Hündchen bellt", ("animals/dogs",))


def test_bad_rows(call, made):
    write("bad.csv", [("b1", "Fine", ""), ("b2", "", ""), ("b3", "A fish", "fish")])
    done = call("project", "add", "pets.leafwise", "bad.csv")
    assert done.code == 1
    assert 'bad.csv, line 3: there is no text in column "text" (--skip-bad goes on' in done.err
    done = call("project", "add", "pets.leafwise", "bad.csv", "--skip-bad")
    assert done.err.splitlines() == [
        "Left out 2 bad rows; bad-rows.csv says why.",
        "bad.csv: 1 document added.",
    ]
    done = call("project", "add", "pets.leafwise", "bad.csv", "--skip-bad", "--bad-rows", "b.csv")
    assert 'No node is called ""fish""' in Path("b.csv").read_text()
    done = call("project", "add", "pets.leafwise", "bad.csv", "docs.csv", "--skip-bad")
    assert (done.code, done.err) == (
        2, "Error: --skip-bad lists the bad rows of one file. Add the others one by one.\n",
    )  # fmt: skip


def test_interrupted_and_gone_on(folder, pets):
    """Ctrl-C in the middle keeps whole batches; the same command adds the rest."""
    n = 60_000
    write("many.csv", [(i, f"Document {i} " + "word " * 40, "cats") for i in range(n)])
    with Project.create("many.leafwise", pets):
        pass
    process = subprocess.Popen(
        [*COMMAND, "project", "add", "many.leafwise", "many.csv"], env=ENVIRONMENT,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with Project("many.leafwise") as project:
        while not project.documents.count():
            time.sleep(0.02)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        kept = project.documents.count()
    assert process.returncode == 130, said
    assert 0 < kept < n
    assert said == (
        f"Interrupted. {kept:,} new documents of many.csv are kept, with labels. Add the file "
        "again for the rest: nothing is added twice.\n"
    )
    again = subprocess.run(
        [*COMMAND, "project", "add", "many.leafwise", "many.csv"], env=ENVIRONMENT,
        capture_output=True, text=True,
    )  # fmt: skip
    assert f"{n - kept:,} documents added, {n - kept:,} labels taken, {kept:,} already there" in (
        again.stderr
    )
    with Project("many.leafwise") as project:
        assert (project.documents.count(), project.check()) == (n, [])


# ---- info, check, backup ------------------------------------------------------------------------


def test_info(call, made):
    done = call("project", "info", "pets.leafwise")
    lines = dict(re.split(r"  +", line, maxsplit=1) for line in done.text.splitlines())
    assert re.fullmatch(r"pets.leafwise, \d+ KB", lines.pop("file"))
    assert lines == {
        "project": "pets",
        "documents": "16",
        "with a confirmed label": "8 (50%)",
        "answers so far": "8",
        "nodes of the tree": "7",
        "labels per document": "one",
        "language": "english",
        "model": "none yet; leafwise project fit makes one",
    }


def test_info_for_a_program(call, made):
    facts = json.loads(call("project", "info", "pets.leafwise", "--json").out)
    assert facts["path"] == str(made / "pets.leafwise")
    assert (facts["n_documents"], facts["n_labelled"], facts["run"]) == (16, 8, None)


def test_check(call, made):
    done = call("project", "check", "pets.leafwise")
    assert (done.code, done.text) == (0, "pets.leafwise: fine. 16 documents.\n")
    with sqlite3.connect("pets.leafwise") as connection:
        connection.execute("DELETE FROM labels WHERE document = 1")
        connection.execute("UPDATE documents SET key = 'x' WHERE id = 2")
    connection.close()
    done = call("project", "check", "pets.leafwise")
    assert done.code == 1
    assert "labels: 1 documents without what their last answer says\n" in done.text
    assert done.err == ("pets.leafwise: 1 problem. Go back to a backup, if there is one.\n")


def test_backup(call, made):
    done = call("project", "backup", "pets.leafwise", "copy.leafwise")
    assert (done.code, done.err) == (0, "Copied pets.leafwise to copy.leafwise.\n")
    with Project("pets.leafwise") as project, Project("copy.leafwise") as copy:
        assert copy.labels.all() == project.labels.all()
        assert copy.check() == []
    before = Path("copy.leafwise").read_bytes()
    done = call("project", "backup", "pets.leafwise", "copy.leafwise")
    assert done.code == 3
    assert "copy.leafwise: there is such a file. Choose another name." in done.err
    assert Path("copy.leafwise").read_bytes() == before


# ---- fit and export -----------------------------------------------------------------------------


def test_fit_and_export(call, made, pets, pet_labels):
    done = call("project", "fit", "pets.leafwise")
    assert done.code == 0, done.err
    assert "Learning ...\n" in done.err
    assert done.err.endswith("Sorted 8 documents without a label.\n")
    info = call("project", "info", "pets.leafwise").text
    assert re.search(r"^model +of \d{4}-\d\d-\d\d \d\d:\d\d UTC, from 8 labelled doc", info, re.M)
    done = call("project", "export", "pets.leafwise", "-o", "sorted.csv")
    assert (done.code, done.out, done.err) == (0, b"", "Wrote 16 documents to sorted.csv.\n")
    with open("sorted.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["labelled_by"] for row in rows] == ["confirmed", "model"] * 8
    assert sum(row["label"] == label for row, label in zip(rows, pet_labels)) >= 15
    call("project", "export", "pets.leafwise", "-o", "guesses.jsonl", "--what", "predictions")
    assert len(Path("guesses.jsonl").read_text().splitlines()) == 8
    call("project", "export", "pets.leafwise", "-o", "labels.ft", "--what", "labels")
    assert Corpus("labels.ft", taxonomy=pets).read().labels == [(one,) for one in pet_labels[::2]]
    done = call("project", "export", "pets.leafwise", "-o", "-", "--what", "labels")
    assert [row["id"] for row in done.rows] == [f"d{i}" for i in range(0, 16, 2)]
    assert done.err == "Wrote 8 documents to standard output.\n"
    done = call("project", "export", "pets.leafwise", "-o", "-", "--what", "history")
    assert len(done.text.splitlines()) == 8
    assert done.err == "Wrote 8 answers to standard output.\n"
    done = call("project", "export", "pets.leafwise", "-o", "a.tsv.gz", "--format", "annif")
    with gzip.open("a.tsv.gz", "rt") as file:
        assert next(file).endswith("\t<urn:leafwise:node:animals/cats>\n")


@pytest.mark.filterwarnings("default:Folders hold no keywords")
@pytest.mark.parametrize("name", ["t.yaml", "t.json", "t.csv", "t.tsv", "t.ttl", "t.rdf", "folder"])
def test_the_tree_in_every_format(call, made, pets, name):
    pytest.importorskip("rdflib")
    done = call("project", "export", "pets.leafwise", "--tree", name)
    assert (done.code, done.err.splitlines()[-1]) == (0, f"Wrote 7 nodes to {name}.")
    assert Taxonomy.load(name).paths == pets.paths


def test_the_tree_beside_the_documents(call, made, pets):
    options = ("--tree", "wesh", "--format", "weshclass")
    assert call("project", "export", "pets.leafwise", *options).code == 0
    assert Taxonomy.load("wesh").paths == pets.paths
    options = ("--tree", "t.yaml", "-o", "docs.out", "--format", "csv")
    done = call("project", "export", "pets.leafwise", *options)
    assert done.err == "Wrote 7 nodes to t.yaml.\nWrote 16 documents to docs.out.\n"


def test_fit_says_why_it_cannot(call, folder):
    call("project", "new", "empty.leafwise", "-t", "tree.yaml")
    done = call("project", "fit", "empty.leafwise")
    assert (done.code, done.err.splitlines()[-1]) == (
        1, "Error: There are no documents yet: add some.",
    )  # fmt: skip


# ---- what cannot be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("new", "pets.leafwise"), 1, "There is a file {}pets.leafwise already. Choose another"),
        (("new", "no/p.leafwise"), 1, "There is no folder {}no. Make it first."),
        (("new", "x.leafwise", "no.csv"), 1, "There is no file no.csv."),
        (("new", "x.leafwise", "-t", "no.yaml"), 1, "There is no file or folder no.yaml."),
        (("new", "x.leafwise", "-l", "klingon"), 2, "--language klingon: expected one of"),
        (("new", "x.leafwise", "-l", "de"), 2, "--language de: did you mean german? Expected one"),
        (("new", "x.leafwise", "-l", "Frensh"), 2, "--language Frensh: did you mean french?"),
        (("export", "pets.leafwise", "--tree", "-"), 2, "--tree -: the tree goes to a file"),
        (("info", "no.leafwise"), 1, "There is no file {}no.leafwise. leafwise project new makes"),
        (("info", "docs.csv"), 1, "{}docs.csv is not a leafwise project."),
        (("add", "docs.csv", "docs.csv"), 2, "DOCS and --project are the same file"),
        (("add", "pets.leafwise", "docs.csv", "--bad-rows", "b.csv"), 2, "Give both, or neither."),
        (("export", "pets.leafwise"), 2, "Name a file: -o sorted.csv for documents, --tree"),
        (("export", "pets.leafwise", "-o", "x.doc"), 3, "cannot be told from its name. Name one"),
        (("export", "pets.leafwise", "-o", "x.csv", "--what", "x"), 1, 'There is no export of "x"'),
        (("export", "pets.leafwise", "-o", "pets.leafwise", "--format", "csv"), 2, "same file"),
        (("backup", "pets.leafwise", "pets.leafwise"), 2, "are the same file"),
        (("backup", "pets.leafwise", "no/copy"), 3, "there is no folder {}no. Make it first."),
    ],
)
def test_what_cannot_be(call, made, arguments, code, message):
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    done = call("project", *arguments)
    assert done.code == code, done.err
    assert message.replace("{}", f"{made}{os.sep}") in done.err
    assert {path.name: path.read_bytes() for path in made.iterdir()} == before


# ---- review and serve ---------------------------------------------------------------------------


# Whatever proxies the environment has: the one opener of urllib remembers those of its first use.
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


@pytest.mark.parametrize(
    "arguments",
    [
        ("review", "--no-open", "--port", "0", "--as", "Ann"),
        ("serve", "--port", "0", "--allow-host", "tree.example"),
    ],
    ids=["review", "serve"],
)
def test_the_page_is_served_and_ends_in_peace(made, arguments):
    pytest.importorskip("fastapi")
    command, *options = arguments
    process = subprocess.Popen(
        [*COMMAND, command, "pets.leafwise", *options], env=ENVIRONMENT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        said = process.stderr.readline()
        address = re.search(r'^Serving "pets" at (http://127\.0\.0\.1:\d+/)\. Ctrl-C', said)
        assert address is not None, said + process.stderr.read()
        with OPEN(f"{address[1]}v1/health", timeout=30) as answer:
            assert answer.status == 200
        asked = urllib.request.Request(f"{address[1]}v1/health", headers={"Host": "tree.example"})
        if command == "serve":
            with OPEN(asked, timeout=30) as answer:
                assert answer.status == 200
        else:
            with pytest.raises(urllib.error.HTTPError, match="403"):
                OPEN(asked, timeout=30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, ""), err
        assert err == "Stopped. Every label is saved.\n"
    finally:
        process.kill()
        process.communicate()


def test_others_need_a_token(call, made, monkeypatch):
    pytest.importorskip("fastapi")
    monkeypatch.delenv("LEAFWISE_TOKEN", raising=False)
    done = call("serve", "pets.leafwise", "--host", "0.0.0.0")
    assert done.code == 1
    assert "so the service needs a token there: give --token, or set LEAFWISE_TOKEN" in done.err
    done = call("serve", "pets.leafwise", "--token", "short")
    assert done.code == 1
    assert "The token must be 12 or more letters" in done.err
    done = call("review", "pets.leafwise", "--as", " ")
    assert (done.code, done.err) == (2, "Error: --as: expected a name.\n")


# ---- the page of the documentation --------------------------------------------------------------


def test_the_page_shows_what_happens(capsys, tmp_path, monkeypatch):
    """Its files are made, its commands are run, and what they print is what it says."""
    page = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name, kind in (("topics.yaml", "yaml"), ("notes.csv", "csv")):
        block = re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)
        Path(name).write_text(block[1], encoding="utf-8")
    blocks = "".join(re.findall(r"```console\n(.*?)```", page, re.DOTALL))
    commands = re.findall(r"^\$ leafwise (.*)\n((?:[^$].*\n)*)", blocks, re.MULTILINE)
    assert len(commands) == blocks.count("$ leafwise") > 8
    for command, shown in commands:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(command))
        said = capsys.readouterr()
        assert stop.value.code == 0, (command, said.err)
        # Times, sizes and figures may move; what they stand beside may not.
        figures = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d|\d+\.\d+|\d+ KB")
        found = said.out + said.err if "..." not in said.err else said.out
        assert figures.sub("#", found) == figures.sub("#", shown), command


def test_damage_that_is_met_late_is_told(call, made):
    with Project("pets.leafwise") as project:
        project._db._writer.execute("DROP TABLE labels")
    done = call("project", "export", "pets.leafwise", "-o", "out.csv")
    assert done.code == 1
    assert done.err == (
        "Error: the project is damaged: no such table: labels. Go back to a backup, if there is "
        "one.\n"
    )
    assert not Path("out.csv").exists()
