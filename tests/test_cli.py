"""The command line, used as its users use it.

What depends on the process (pipes, signals, memory, what is imported) runs in one of its own. The
rest calls `main` here, which saves the seconds that each new process takes to start.
"""

import csv
import gzip
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.main
from conftest import Ended

import leafwise
from leafwise import _words, metrics
from leafwise.cli import app, curve
from leafwise.cli.ending import run
from leafwise.datasets import NEWSGROUPS_15
from leafwise.evaluation import FewLabelSplit, LearningCurve, few_labels
from leafwise.papers import EXPERIMENTS
from leafwise.taxonomy import Taxonomy

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "cli.md"
ADDED = ["probability", "label_2", "probability_2", "label_3", "probability_3", "labelled_by"]
COMMAND = [sys.executable, "-m", "leafwise"]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "100"}


def in_a_process(*arguments, stdin=b"", environment=None) -> Ended:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=ENVIRONMENT | (environment or {}),
        timeout=120,
    )
    return Ended(done.returncode, done.stdout, done.stderr.decode())


@pytest.fixture
def folder(tmp_path, monkeypatch, tree, docs):
    """The folder where the commands run."""
    (tmp_path / "tree.yaml").write_bytes(tree.read_bytes())
    (tmp_path / "docs.csv").write_bytes(docs.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def tree(tmp_path_factory, pets) -> Path:
    path = tmp_path_factory.mktemp("tree") / "tree.yaml"
    pets.save(path)
    return path


@pytest.fixture(scope="module")
def docs(tmp_path_factory, pet_texts, pet_labels) -> Path:
    """The texts, every other with a label: a path, or a name of one node."""
    path = tmp_path_factory.mktemp("docs") / "docs.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "text", "label", "note"])
        for i, (text, label) in enumerate(zip(pet_texts, pet_labels)):
            given = [label, "", label.split("/")[-1], ""][i % 4]
            writer.writerow([f"d{i}", text, given, f"note, {i}"])
    return path


@pytest.fixture(scope="module")
def model_file(tmp_path_factory, pets, pet_texts, pet_labels) -> Path:
    path = tmp_path_factory.mktemp("model") / "pets.leafwise-model"
    leafwise.TaxonomyClassifier(pets).fit(pet_texts, pet_labels).save(path)
    return path


def table(path: str | Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, hidden files too."""
    found = {}
    for path in sorted(folder.rglob("*")):
        data = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = data
    return found


@contextmanager
def nothing_changes(folder: Path):
    before = contents(folder)
    yield
    assert contents(folder) == before


# ---- classify: what comes out -------------------------------------------------------------------


def test_labels_are_kept_and_the_rest_is_filled_in(call, folder, pets, pet_labels):
    done = call("classify", "--taxonomy", "tree.yaml", "docs.csv", "-o", "sorted.csv")
    assert (done.code, done.out) == (0, b"")
    assert "With a label: 8." in done.err
    assert done.err.endswith("Wrote 16 documents to sorted.csv.\n")
    given, rows = table("docs.csv"), table("sorted.csv")
    assert list(rows[0]) == ["id", "text", "label", "note", *ADDED]
    paths = {pets.paths[i] for i in range(1, len(pets))}
    right = 0
    for before, after, truth in zip(given, rows, pet_labels, strict=True):
        assert [after[name] for name in ("id", "text", "note")] == [
            before[name] for name in ("id", "text", "note")
        ]
        p, p_2, p_3 = (float(after[name] or "nan") for name in ADDED[:5:2])
        if before["label"]:
            assert after["label"] == before["label"]
            assert (p, after["labelled_by"]) == (1.0, "given")
            assert (after["probability_2"], after["probability_3"]) == ("", "")
        else:
            assert 1 > p_2 >= p_3 > 0
            assert after["label"] in paths
            assert after["labelled_by"] == "model"
            assert 1 >= p >= p_2
            right += after["label"] == truth
        # A given label can be a name; it is not among its own candidates under its path.
        own = pets.paths[pets.index(after["label"])]
        assert len({own, after["label_2"], after["label_3"]}) == 3
        assert {after["label_2"], after["label_3"]} <= paths
    assert right >= 6  # of 8


def test_no_label_at_all(call, folder, pet_texts, pet_labels):
    Path("plain.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in pet_texts))
    done = call("classify", "-t", "tree.yaml", "plain.csv")
    assert done.code == 0
    assert "With a label: 0." in done.err
    assert list(done.rows[0]) == ["text", "label", *ADDED]
    assert all(row["labelled_by"] == "model" for row in done.rows)
    right = sum(row["label"] == label for row, label in zip(done.rows, pet_labels, strict=True))
    assert right >= 12  # of 16


def test_labels_alone_are_the_tree(call, folder):
    done = call("classify", "docs.csv")
    assert done.code == 0
    # dogs is a name below animals in tree.yaml; without that, it is a node of its own.
    assert {row["label"] for row in done.rows} <= {
        "animals/cats", "cats", "animals/dogs", "dogs",
        "vehicles/boats", "boats", "vehicles/cars/racing", "racing",
    }  # fmt: skip


def test_no_label_and_no_tree(call, folder):
    Path("plain.csv").write_text("text\na cat\n")
    with nothing_changes(folder):
        done = call("classify", "plain.csv", "-o", "sorted.csv")
    assert done.code == 1
    assert done.err == (
        "Error: There is no tree: plain.csv has no labels to take one from. "
        "Give one with --taxonomy.\n"
    )


def test_labels_that_make_no_tree(call, folder):
    Path("odd.csv").write_text("text,label\na cat,pets//cats\n")
    done = call("classify", "odd.csv", "-o", "sorted.csv")
    assert done.code == 1
    assert 'The labels of odd.csv make no tree: A child of "pets" has an empty name' in done.err
    assert r"a / that belongs to a name is written \/" in done.err


def test_a_folder_for_each_node(call, folder, pet_texts, pet_labels):
    for i, (text, label) in enumerate(zip(pet_texts, pet_labels)):
        where = Path("library", label if i % 4 else "")  # one of each four is not sorted yet
        where.mkdir(parents=True, exist_ok=True)
        (where / f"{i:02}.txt").write_text(text)
    done = call("classify", "library")
    assert done.code == 0
    assert list(done.rows[0]) == ["id", "text", "label", *ADDED]
    assert {row["text"] for row in done.rows} == set(pet_texts)
    by_id = {row["id"]: row for row in done.rows}
    assert len(by_id) == 16
    assert by_id["animals/cats/01.txt"]["label"] == "animals/cats"
    assert by_id["animals/cats/01.txt"]["labelled_by"] == "given"
    unsorted = [by_id[f"{i:02}.txt"] for i in range(0, 16, 4)]
    assert {row["labelled_by"] for row in unsorted} == {"model"}
    assert sum(row["label"] == pet_labels[4 * i] for i, row in enumerate(unsorted)) >= 3


def test_what_is_made_of_a_folder_can_be_read_again(call, folder, pet_texts):
    Path("pile").mkdir()
    for i, text in enumerate(pet_texts):
        Path("pile", f"{i:02}.txt").write_text(text + "\r\nSecond line\n", newline="")
    assert call("grow", "pile", "--leaves", 2, "-o", "new.yaml", "--assign", "new.csv").code == 0
    assert call("classify", "-t", "tree.yaml", "pile", "-o", "sorted.parquet").code == 0
    for name, tree in (("new.csv", "new.yaml"), ("sorted.parquet", "tree.yaml")):
        again = call("classify", "-t", tree, name, "-o", "again.csv")
        assert (again.code, len(_read(Path("again.csv"))[1])) == (0, 16)
        first = _read(Path(name))[1][0]
        assert (first["id"], first["text"]) == ("00.txt", pet_texts[0] + "\r\nSecond line\n")


def test_several_labels(call, folder):
    rows = "text,labels\nThe cat and the boat,cats;vehicles/boats\nThe dog barked,dogs\nA sail,\n"
    Path("several.csv").write_text(rows)
    done = call("classify", "-t", "tree.yaml", "several.csv")
    assert done.code == 0
    first, second, third = done.rows
    assert [row["labels"] for row in done.rows] == ["cats;vehicles/boats", "dogs", "vehicles/boats"]
    assert {first["label_2"], first["label_3"]} == {"animals/dogs", "vehicles/cars/racing"}
    assert "animals/dogs" not in (second["label_2"], second["label_3"])
    assert third["labelled_by"] == "model"


def test_lists_of_labels_stay_lists(call, folder):
    texts = ["The cat and the boat", "The dog barked", "A sail"]
    labels = [["cats", "boats"], ["dogs"], None]
    pq.write_table(pa.table({"text": texts, "labels": labels}), "in.parquet")
    assert call("classify", "-t", "tree.yaml", "in.parquet", "-o", "out.parquet").code == 0
    expected = [["cats", "boats"], ["dogs"], ["vehicles/boats"]]
    assert pq.read_table("out.parquet")["labels"].to_pylist() == expected

    lines = [{"text": text, "labels": label} for text, label in zip(texts, labels)]
    Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert call("classify", "-t", "tree.yaml", "in.jsonl", "-o", "out.jsonl").code == 0
    written = Path("out.jsonl").read_text().splitlines()
    assert [json.loads(line)["labels"] for line in written] == expected


@pytest.mark.parametrize(
    "name", ["d.csv", "d.tsv", "d.jsonl", "d.parquet", "d.csv.gz", "d.jsonl.gz"]
)
def test_the_format_of_the_input_is_that_of_the_output(call, folder, name):
    rows = [
        {"n": 7, "text": "The cat, purring", "label": "cats", "after": "1"},
        {"n": 8, "text": "A dog\tbarks", "label": None, "after": 'say "x"'},
        {"n": 9, "text": "Boats\nsail", "label": None, "after": ""},
    ]
    written = _write(rows, name)
    output = Path("out" + name[1:])
    done = call("classify", "-t", "tree.yaml", name, "-o", output)
    assert done.code == 0
    names, got = _read(output)
    assert names == ["n", "text", "label", "after", *ADDED]
    for before, after in zip(written, got, strict=True):
        assert {k: after[k] for k in ("n", "text", "after")} == {
            k: before[k] for k in ("n", "text", "after")
        }
    assert [row["label"] for row in got] == ["cats", "animals/dogs", "vehicles/boats"]


def _write(rows: list[dict], name: str) -> list[dict]:
    """Write rows to a file; returns them as the format holds them."""
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), name)
        return rows
    opened = gzip.open if name.endswith(".gz") else open
    with opened(name, "wt", newline="", encoding="utf-8") as file:
        if "jsonl" in name:
            file.writelines(json.dumps(row) + "\n" for row in rows)
            return rows
        cells = [{k: "" if v is None else str(v) for k, v in row.items()} for row in rows]
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if "tsv" in name else ",")
        writer.writeheader()
        writer.writerows(cells)
        return cells


def _read(path: Path) -> tuple[list[str], list[dict]]:
    if path.suffix == ".parquet":
        rows = pq.read_table(path).to_pylist()
    else:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", newline="", encoding="utf-8") as file:
            if "jsonl" in path.name:
                rows = [json.loads(line) for line in file]
            else:
                rows = list(csv.DictReader(file, delimiter="\t" if "tsv" in path.name else ","))
    return list(rows[0]), rows


def test_fasttext_and_lines_of_text(call, folder):
    Path("d.txt").write_text("__label__cats The cat purred\nThe dog barked\n")
    assert call("classify", "-t", "tree.yaml", "d.txt", "-o", "out.txt").code == 0
    lines = Path("out.txt").read_text()
    assert lines == "__label__cats The cat purred\n__label__animals/dogs The dog barked\n"
    Path("plain.txt").write_text("The cat purred\nThe dog barked\n")
    done = call("classify", "-t", "tree.yaml", "plain.txt")  # nowhere else to put a probability
    assert list(done.rows[0]) == ["id", "text", "label", *ADDED]
    assert [row["label"] for row in done.rows] == ["animals/cats", "animals/dogs"]


def test_fasttext_that_is_written_can_be_read(call, folder):
    Path("spaced.yaml").write_text("big cats: [cat, purr]\nsnake_case, dogs: [dog, bark]\n")
    Path("d.txt").write_text("The cat purred\nThe dog barked\n")
    assert call("classify", "-t", "spaced.yaml", "d.txt", "-o", "out.ft").code == 0
    lines = "__label__big_cats The cat purred\n__label__snake_case,_dogs The dog barked\n"
    assert Path("out.ft").read_text() == lines
    done = call("classify", "-t", "spaced.yaml", "out.ft", "-o", "-")
    assert [row["label"] for row in done.rows] == ["big cats", "snake_case, dogs"]
    assert {row["labelled_by"] for row in done.rows} == {"given"}
    assert call("classify", "-t", "spaced.yaml", "out.ft", "-o", "again.ft").code == 0
    assert Path("again.ft").read_text() == lines


def test_probabilities_are_numbers_in_parquet(call, folder):
    Path("two.yaml").write_text("cats: [cat]\ndogs: [dog]\n")
    Path("two.csv").write_text("text\na cat\na dog\n")
    assert call("classify", "-t", "two.yaml", "two.csv", "-o", "out.parquet").code == 0
    schema = pq.read_schema("out.parquet")
    assert [str(schema.field(name).type) for name in ADDED] == [
        "double", "string", "double", "string", "double", "string",
    ]  # fmt: skip


def test_leaves_in_a_column_of_lists_are_lists_of_one(call, folder, pet_texts):
    pq.write_table(pa.table({"text": pet_texts, "labels": [["cats", "boats"]] * 16}), "in.parquet")
    options = ("--leaves", 2, "-o", "new.yaml", "--assign", "out.parquet")
    assert call("grow", "in.parquet", *options).code == 0
    leaves = pq.read_table("out.parquet")["labels"].to_pylist()
    known = Taxonomy.load("new.yaml").paths
    assert {path for one in leaves if one for path in one} <= set(known)
    assert {len(one) for one in leaves if one} == {1}


def test_a_row_without_labels_stays_as_it_is(call, folder, pet_texts):
    lines = [{"text": text, "labels": ["animals"]} for text in pet_texts[:8]]
    lines.append({"text": "The boat left", "labels": []})
    Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = ("-t", "tree.yaml", "--under", "animals", "--leaves", 2, "--assign", "out.jsonl")
    assert call("grow", "in.jsonl", *options).code == 0
    last = json.loads(Path("out.jsonl").read_text().splitlines()[-1])
    assert last == lines[-1] | dict.fromkeys(ADDED)


def test_the_output_can_be_the_input(call, folder):
    assert call("classify", "-t", "tree.yaml", "docs.csv", "-o", "elsewhere.csv").code == 0
    assert call("classify", "-t", "tree.yaml", "docs.csv", "-o", "docs.csv").code == 0
    assert Path("docs.csv").read_bytes() == Path("elsewhere.csv").read_bytes()


def test_one_document(call, folder):
    done = call("classify", "-t", "tree.yaml", "-", stdin=b"text\nA cat\n")
    assert (done.code, done.rows[0]["label"]) == (0, "animals/cats")


def test_a_small_probability_is_not_nothing(call, folder):
    Path("large.csv").write_text("path\n" + "".join(f"node{i}\n" for i in range(30_000)))
    done = call("classify", "-t", "large.csv", "-", stdin=b"text\nnode7 is here\nnothing is\n")
    assert done.rows[0]["label"] == "node7"
    assert 0 < float(done.rows[1]["probability_3"]) < 1e-4
    assert float(done.rows[1]["probability_3"]) <= float(done.rows[1]["probability"])


def test_a_label_column_that_comes_late(call, folder):
    lines = ['{"text": "The cat"}'] * 1500 + ['{"text": "A dog", "topic": "dogs"}']
    Path("late.jsonl").write_text("\n".join(lines))
    done = call("classify", "-t", "tree.yaml", "late.jsonl", "--label", "topic")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert (rows[0]["topic"], rows[-1]["topic"]) == ("animals/cats", "dogs")
    assert "label" not in rows[0]


def test_columns_of_other_names(call, folder):
    Path("d.csv").write_text("Titel,Text2,Thema\nThe cat,purred,cats\nA dog,,\n")
    options = ("--text", "Titel+Text2", "--label", "Thema", "--id", "Titel")
    done = call("classify", "-t", "tree.yaml", "d.csv", *options)
    assert done.code == 0
    assert [row["Thema"] for row in done.rows] == ["cats", "animals/dogs"]
    assert "label" not in done.rows[0]


# ---- classify: what goes wrong ------------------------------------------------------------------

BAD_DOCUMENTS = {
    "empty": (b"", "bad.csv is empty"),
    "no rows": (b"text,label\n", r'bad.csv has columns \("text", "label"\) but no rows'),
    "no text column": (b"a,b\n1,2\n", "Name the one to read: --text NAME"),
    "latin-1": (
        b"text,label\nThe cat,\nA caf\xe9 with a dog,\n",
        'bad.csv, line 3: byte 0xE9 after "A caf" is not utf-8; .* --encoding latin-1',
    ),
    "ragged": (
        b"text,label\nThe cat,,,\n",
        r"bad.csv, line 2: 4 cells where the header has 2 \(--skip-bad goes on",
    ),
    "unknown label": (
        b"text,label\nThe cat,\nThe cat,kats\n",
        'bad.csv, line 3: No node is called "kats". Did you mean "animals/cats"',
    ),
    "missing text": (b"text,label\n,cats\n", 'bad.csv, line 2: there is no text in column "text"'),
    "open quote": (b'text,label\n"The cat,\n', "bad.csv, line 2: a quote .* is not closed"),
    "not text": (b"text,label\n\x00\xff\x00\x01,\n", "bad.csv is not text"),
    "nothing to learn from": (
        b"text,label\nqqq,\nxxx,\n",
        "no keyword of the tree is in any document. Give some labels, or keywords that the texts",
    ),
}


@pytest.mark.parametrize("case", BAD_DOCUMENTS)
def test_documents_that_cannot_be_used(call, folder, case):
    data, message = BAD_DOCUMENTS[case]
    Path("bad.csv").write_bytes(data)
    Path("kept.csv").write_text("it was here before")
    for output in ("new.csv", "kept.csv"):
        with nothing_changes(folder):
            done = call("classify", "-t", "tree.yaml", "bad.csv", "-o", output)
        assert (done.code, done.out) == (1, b"")
        assert done.err.startswith("Error: ")
        assert re.search(message, done.err)
        assert done.err.count("\n") == 1


def test_a_missing_file_in_a_process(folder):
    with nothing_changes(folder):
        done = in_a_process("classify", "-t", folder / "tree.yaml", "dosc.csv", "-o", "new.csv")
    assert (done.code, done.out) == (1, b"")
    assert done.err == 'Error: There is no file dosc.csv. Did you mean "docs.csv"?\n'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--text", "nope"], 'docs.csv has no column "nope". Its columns: "id", "text"'),
        (["--format", "xls"], 'There is no format "xls". Formats: csv, tsv'),
        (["--encoding", "klingon"], 'There is no encoding "klingon". Common ones: utf-8'),
        (["-t", "gone.yaml"], "There is no file or folder gone.yaml."),
    ],
)
def test_options_that_do_not_fit_the_files(call, folder, options, message):
    with nothing_changes(folder):
        done = call("classify", "-t", "tree.yaml", "docs.csv", "-o", "new.csv", *options)
    assert done.code == 1
    assert message in done.err


def test_a_line_of_200_megabytes(folder, tmp_path_factory):
    piece = (b"the cat on the sofa " * 52429)[: 1 << 20]
    long = tmp_path_factory.mktemp("long") / "long.csv"
    try:
        with open(long, "wb") as file:
            file.write(b"text,label\nThe dog barked,\n")
            file.writelines(piece for _ in range(200))
            file.write(b",\nThe cat purred,\n")
        with nothing_changes(folder), open(tmp_path_factory.mktemp("err") / "err", "w+b") as err:
            arguments = ["classify", "-t", "tree.yaml", str(long), "-o", "new.csv"]
            process = subprocess.Popen([*COMMAND, *arguments], stderr=err, env=ENVIRONMENT)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            err.seek(0)
            said = err.read().decode()
    finally:
        long.unlink()
    assert process.returncode == 1
    assert said.startswith(f"Error: {long}, line 3: the line is longer than 67,108,864 characters")
    assert said.count("\n") == 1
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    assert peak < 1.5 * 2**30


@pytest.fixture
def closed(folder):
    """Outputs that cannot be written, and what is to be said of each."""
    Path("kept.csv").write_text("it was here before")
    Path("kept.csv").chmod(0o444)
    Path("open").mkdir()
    Path("closed").mkdir()
    Path("closed").chmod(0o555)
    yield {
        "kept.csv": r"Cannot write kept.csv: .* is read-only\. \w+ another output",
        "closed/new.csv": r"Cannot write closed/new.csv: .* is read-only\. \w+ another output",
        "open": "Cannot write open: it is a folder. Name a file in it.",
        "gone/new.csv": "Cannot write gone/new.csv: there is no folder .*gone. Make it first.",
    }
    Path("closed").chmod(0o755)


CLASSIFY = ("classify", "-t", "tree.yaml", "docs.csv")


@pytest.mark.parametrize(
    "arguments",
    [
        (*CLASSIFY, "-o"),
        (*CLASSIFY, "--skip-bad", "-o", "new.csv", "--bad-rows"),
        (*CLASSIFY, "-o", "new.csv", "--save-model"),
        ("evaluate", "-t", "tree.yaml", "docs.csv", "--skip-bad", "--bad-rows"),
        ("demo", "--picture"),
        ("taxonomy", "convert", "--format", "csv", "tree.yaml"),
    ],
)
def test_an_output_that_cannot_be_written(call, folder, closed, arguments):
    for output, message in closed.items():
        with nothing_changes(folder):
            done = call(*arguments, output)
        assert (done.code, done.out) == (3, b"")
        assert re.search(message, done.err.splitlines()[-1])


def test_a_read_only_output_in_a_process(folder, closed):
    with nothing_changes(folder):
        done = in_a_process(*CLASSIFY, "-o", "kept.csv")
    assert (done.code, done.out) == (3, b"")
    assert re.fullmatch(rf"Error: {closed['kept.csv']}.*\n", done.err)


def test_the_error_is_about_the_file_that_cannot_be_written(call, folder, closed):
    done = call(*CLASSIFY, "-o", "new.csv", "--save-model", "gone/new.csv")
    assert done.err.splitlines()[-1].startswith("Error: Cannot write gone/new.csv")


def test_nothing_is_printed_before_an_error(call, folder):
    Path("bad.csv").write_bytes(b"text,label\nThe cat,kats\n")
    assert call("classify", "-t", "tree.yaml", "bad.csv").out == b""


def test_trees_that_are_none(call, folder):
    Path("twice.yaml").write_text("pets:\n  cats:\n  cats:\n")
    Path("loop").mkdir()
    Path("loop/label_hier.txt").write_text("ROOT\ta\nb\tc\nc\tb\n")
    Path("latin.yaml").write_bytes(b"caf\xe9s:\n")
    Path("broken.json").write_text('{"a": [}')
    Path("empty.yaml").write_text("")
    Path("tree.xlsx").write_text("a")
    cases = {
        "twice.yaml": 'Two children of "pets" (line 1) are called "cats" (line 2 and line 3)',
        "loop": "These nodes are below themselves, in a cycle",
        "latin.yaml": "latin.yaml: line 1: byte 0xe9",
        "broken.json": "broken.json: line 1: not valid JSON",
        "empty.yaml": "empty.yaml: It is empty.",
        "tree.xlsx": 'the ending ".xlsx" is that of no known format. Known are yaml (.yaml, .yml)',
        "gone.yaml": "There is no file or folder gone.yaml.",
    }
    for tree, message in cases.items():
        for arguments in (
            ("classify", "--taxonomy", tree, "docs.csv", "-o", "new.csv"),
            ("evaluate", "--taxonomy", tree, "docs.csv"),
            ("taxonomy", "check", tree),
            ("taxonomy", "show", tree),
            ("taxonomy", "convert", tree, "new.csv"),
        ):
            with nothing_changes(folder):
                done = call(*arguments)
            assert (done.code, done.out) == (1, b"")
            assert message in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["classify", "docs.csv", "-t", "t", "-m", "m"], "Give --taxonomy or --model, not both"),
        (["evaluate", "docs.csv", "-t", "t", "-m", "m"], "Give --taxonomy or --model, not both"),
        (["classify", "docs.csv", "-m", "m", "--save-model", "s"], "with --model there is none"),
        (["classify", "docs.csv", "--bad-rows", "b"], "--bad-rows lists what --skip-bad leaves"),
        (["evaluate", "docs.csv", "--hide", "2"], "expected a share above 0 and at most 1"),
        (["evaluate", "docs.csv", "--hide", "some"], "Invalid value for '--hide'"),
        (
            ["evaluate", "docs.csv", "--sizes", "1,2"],
            "--sizes is for the learning curve. Give --cu",
        ),
        (
            ["evaluate", "docs.csv", "--draws", "2"],
            "--draws is for the learning curve. Give --curv",
        ),
        (["evaluate", "docs.csv", "--picture", "a.png"], "--picture is for the learning curve."),
        (["evaluate", "docs.csv", "--curve", "-m", "m"], "a --model has learned already"),
        (
            ["evaluate", "docs.csv", "--curve", "--hide", "1"],
            "--hide 1 leaves no label to learn fr",
        ),
        (["evaluate", "docs.csv", "--curve", "--draws", "0"], "Invalid value for '--draws'"),
        (
            ["evaluate", "docs.csv", "--curve", "--sizes", "1,-2"],
            "expected whole numbers from 0 on",
        ),
        (["evaluate", "docs.csv", "--curve", "--sizes", ""], "expected whole numbers from 0 on"),
        (
            ["evaluate", "docs.csv", "--curve", "--sizes", "2,2"],
            "from 0 on, each once, with commas",
        ),
        (
            ["evaluate", "docs.csv", "--curve", "--sizes", "0,2"],
            "that takes a tree. Give one with --",
        ),
        (
            ["evaluate", "docs.csv", "--curve", "--picture", "docs.csv"],
            "DOCS and --picture are the",
        ),
        (["classify", "docs.csv", "--taxnomy", "t"], "No such option: --taxnomy"),
        (["classify"], "Missing argument 'DOCS'"),
        (["taxonomy", "convert", "tree.yaml"], "Missing argument 'OUT'"),
        (["clasify", "docs.csv"], "No such command 'clasify'"),
    ],
)
def test_wrong_usage(call, folder, arguments, message):
    with nothing_changes(folder):
        done = call(*arguments)
    assert (done.code, done.out) == (2, b"")
    assert message in done.err
    assert done.err.startswith(("Usage: leafwise ", "Error: "))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "arguments",
    ["grow docs.csv --leaves 2", "taxonomy show tree.yaml", "classify -t tree.yaml docs.csv", "-h"],
)
def test_standard_output_without_room(folder, arguments, unbuffered):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, *arguments.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT | {"PYTHONUNBUFFERED": unbuffered},
            timeout=120,
        )
    last = done.stderr.decode().splitlines()[-1]
    assert last == "Error: Cannot write standard output: No space left on device."
    assert done.returncode == 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_no_room_for_messages(folder, model_file):
    command = [*COMMAND, "classify", "--model", str(model_file), "docs.csv", "-o", "new.csv"]
    with open("/dev/full", "wb") as full:
        assert subprocess.run(command, stderr=full, env=ENVIRONMENT, timeout=120).returncode == 0
    assert len(Path("new.csv").read_text().splitlines()) == 17


def test_no_room_for_a_copy_of_standard_input(folder):
    small = 'ulimit -f 1; exec "$@"'  # files of 512 or 1024 bytes, no more
    done = subprocess.run(
        ["sh", "-c", small, "sh", *COMMAND, "classify", "-t", "tree.yaml", "-"],
        input=b"text\n" + b"a cat\n" * 10_000,
        capture_output=True,
        env=ENVIRONMENT | {"TMPDIR": str(folder)},
        timeout=120,
    )
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"Error: Cannot copy the documents to {folder}, to read them more than once: File too "
        "large. TMPDIR in the environment names another folder.\n"
    )


def test_a_machine_without_room(call, folder, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "gone"))
    done = call("classify", "-t", "tree.yaml", "-", stdin=b"text\na cat\n")
    assert done.code == 1
    assert "No such file or directory" in done.err
    assert "bug" not in done.err


def test_a_bug_is_named_as_one(capsys, monkeypatch):
    monkeypatch.delenv("LEAFWISE_DEBUG", raising=False)
    assert run(lambda: 1 / 0) == 70
    assert capsys.readouterr().err == (
        "Error: ZeroDivisionError: division by zero\n"
        "This is a bug in leafwise. LEAFWISE_DEBUG=1 shows where it happened.\n"
    )
    monkeypatch.setenv("LEAFWISE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        run(lambda: 1 / 0)


# ---- bad rows -----------------------------------------------------------------------------------

MESSY = (
    b"id,text,label,note\n"
    b"1,The cat purred,cats,a\n"
    b"2,too few\n"
    b"3,,dogs,b\n"
    b"4,A caf\xe9 with a dog,,c\n"
    b"5,The boat,kats,d\n"
    b'6,"never closed,,e\n'
    b"7,The last lap of the race,,f\n"
    b"8,too,many,cells,here\n"
    b"9,The dog barked,,g\n"
)


def test_bad_rows_are_left_out_counted_and_listed(call, folder):
    Path("messy.csv").write_bytes(MESSY)
    for options, listing in ((["--bad-rows", "why.csv"], "why.csv"), ([], "bad-rows.csv")):
        before = set(os.listdir())
        done = call("classify", "-t", "tree.yaml", "messy.csv", "--skip-bad", *options)
        assert done.code == 0
        assert f"Left out 6 bad rows; {listing} says why.\n" in done.err
        assert "Wrote 3 documents to standard output.\n" in done.err
        labels = {row["id"]: row["label"] for row in done.rows}
        assert labels == {"1": "cats", "7": "vehicles/cars/racing", "9": "animals/dogs"}
        assert set(os.listdir()) - before == {listing}
        rows = table(listing)
        assert [(row["source"], row["line"]) for row in rows] == [
            ("messy.csv", line) for line in ("3", "4", "5", "6", "7", "9")
        ]
        reasons = " | ".join(row["reason"] for row in rows)
        assert re.fullmatch(
            r"2 cells where .* \| there is no text .* \| byte 0xE9 .* \| No node is called "
            r'"kats".* \| a quote .* not closed.* \| 5 cells where the header has 4',
            reasons,
        )
        assert rows[2]["raw"] == r"4,A caf\xE9 with a dog,,c"


def test_one_bad_row_is_one(call, folder):
    Path("d.csv").write_text("text\nThe cat\nThe dog\n\n,\nA boat\n")
    done = call("classify", "-t", "tree.yaml", "d.csv", "--skip-bad")
    assert "Left out 1 bad row; bad-rows.csv says why." in done.err


def test_evaluate_leaves_out_bad_rows_too(call, folder):
    Path("messy.csv").write_bytes(MESSY)
    assert call("evaluate", "-t", "tree.yaml", "messy.csv").code == 1
    done = call("evaluate", "-t", "tree.yaml", "messy.csv", "--skip-bad", "--json")
    assert json.loads(done.out)["documents"] == 1
    assert done.err == "Left out 6 bad rows; bad-rows.csv says why.\n"


# ---- pipes and interrupts -----------------------------------------------------------------------


def test_standard_input_to_standard_output(folder, docs):
    done = in_a_process("classify", "-t", "tree.yaml", "-", stdin=docs.read_bytes())
    assert done.code == 0
    assert len(done.rows) == 16
    assert [row["label"] for row in done.rows[:3:2]] == ["animals/cats", "cats"]
    assert done.err.endswith("Wrote 16 documents to standard output.\n")
    assert "Traceback" not in done.err


def test_the_format_of_standard_input_is_found(call, folder):
    done = call("classify", "-t", "tree.yaml", "-", stdin=b'{"text": "A cat"}\n{"text": "A dog"}\n')
    assert done.code == 0
    labels = [json.loads(line)["label"] for line in done.out.splitlines()]
    assert labels == ["animals/cats", "animals/dogs"]
    assert call("classify", "-t", "tree.yaml", "-", stdin=b"").err == (
        "Error: standard input is empty.\n"
    )


def test_a_reader_that_has_had_enough(folder, model_file):
    with open("many.csv", "w") as file:  # more than a pipe holds
        file.write("text\n" + "The cat purred on the warm sofa\n" * 5000)
    command = [*COMMAND, "classify", "--model", str(model_file), "many.csv"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    ) as process:
        first = process.stdout.readline()
        process.stdout.close()
        said = process.stderr.read()
    assert first.startswith(b"text,label,probability")
    assert (process.returncode, said) == (0, b"")


def test_nobody_reads_the_messages(folder, model_file):
    command = [*COMMAND, "classify", "--model", str(model_file), "docs.csv", "-o", "new.csv"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=ENVIRONMENT) as process:
        process.stderr.close()
    assert process.returncode == 0
    assert len(Path("new.csv").read_text().splitlines()) == 17


def test_interrupt(folder, tmp_path_factory):
    many = tmp_path_factory.mktemp("many") / "many.csv"
    subjects = ["The cat purred", "A dog barked", "The boat", "A race"]
    with open(many, "w") as file:
        file.write("text\n")
        file.writelines(f"{subjects[i % 4]} at {i % 997} word{i % 5003}\n" for i in range(300_000))
    Path("kept.csv").write_text("it was here before")
    command = [*COMMAND, "classify", "-t", "tree.yaml", str(many), "-o", "kept.csv"]
    with nothing_changes(folder):
        before = set(os.listdir())
        with subprocess.Popen(command, stderr=subprocess.PIPE, env=ENVIRONMENT) as process:
            until = time.monotonic() + 60
            while set(os.listdir()) == before:  # until the output is being written
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.02)
            time.sleep(1)
            assert process.poll() is None
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()
    assert process.returncode == 130
    assert said.endswith(b"Interrupted. No half-written file is left.\n")
    assert b"Traceback" not in said


def test_interrupt_inside_source_text(folder, tmp_path_factory):
    # As when numba compiles: a plain KeyboardInterrupt there ends `python -m` with -SIGINT.
    place = tmp_path_factory.mktemp("module")
    (place / "compiling.py").write_text("""
import leafwise.cli as cli
@cli.app.command()
def compiling():
    exec("import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(60)")
cli.main(["compiling"])
""")
    command = [sys.executable, "-m", "compiling"]
    done = subprocess.run(command, stderr=subprocess.PIPE, env=ENVIRONMENT, cwd=place)
    assert done.stderr == b"Interrupted. No half-written file is left.\n"
    assert done.returncode == 130


# ---- models -------------------------------------------------------------------------------------


def test_a_saved_model_gives_the_same_output(call, folder):
    made = call("classify", "-t", "tree.yaml", "docs.csv", "--save-model", "pets.model")
    used = call("classify", "--model", "pets.model", "docs.csv")
    assert (made.code, used.code) == (0, 0)
    assert made.out == used.out
    assert used.err == "Wrote 16 documents to standard output.\n"


def test_models_that_are_none(call, folder, model_file):
    whole = model_file.read_bytes()
    Path("part.model").write_bytes(whole[: len(whole) // 2])
    Path("odd.model").write_bytes(whole.replace(b"TaxonomyClassifier", b"TaxonomyClassifiex"))
    Path("empty.model").write_bytes(b"")
    leafwise.NaiveBayes().fit([[1, 0], [0, 1]], ["a", "b"]).save("bayes.model")
    cases = {
        "part.model": "part.model is not a leafwise model, or only part of one",
        "odd.model": "odd.model is not a leafwise model, or only part of one (Bad CRC-32",
        "empty.model": "empty.model is not a leafwise model, or only part of one",
        "tree.yaml": "tree.yaml is not a leafwise model, or only part of one",
        "gone.model": "There is no file gone.model.",
        "bayes.model": "bayes.model holds a NaiveBayes, which cannot classify texts by itself. "
        "Give a TaxonomyClassifier: classify --save-model keeps one.",
    }
    for model, message in cases.items():
        for command in (["classify", "-o", "new.csv"], ["evaluate"]):
            with nothing_changes(folder):
                done = call(*command, "--model", model, "docs.csv")
            assert (done.code, done.out) == (1, b"")
            assert message in done.err


def test_a_label_that_the_model_does_not_know(call, folder, model_file):
    Path("d.csv").write_text("text,label\nThe cat,horses\n")
    done = call("classify", "--model", model_file, "d.csv", "-o", "new.csv")
    assert done.code == 1
    assert 'd.csv, line 2: No node is called "horses"' in done.err


# ---- evaluate -----------------------------------------------------------------------------------


@pytest.fixture
def labelled(folder, pet_texts, pet_labels) -> Path:
    """Documents that are all labelled, two of them wrongly, so that the figures are not all 1."""
    labels = [*pet_labels[:14], "animals/cats", "vehicles"]
    with open("labelled.csv", "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(pet_texts, labels)])
    return Path("labelled.csv")


def expected_figures(model, texts: list[str], truth: list[str], tree: Taxonomy) -> dict:
    predicted = model.predict(texts)
    flat = metrics.scores(truth, predicted)
    inside = np.isin(truth, model.classes_)
    curve = metrics.reliability_curve(
        np.array(truth)[inside], model.predict_proba(texts)[inside], model.classes_
    )
    return {
        "documents": len(texts),
        "accuracy": flat["accuracy"],
        "macro_f1": flat["macro_f1"],
        **metrics.hierarchical_scores(truth, predicted, tree),
        "expected_calibration_error": curve.error,
        "calibration_error_by_chance": curve.error_by_chance,
    }


def test_evaluate_a_model(call, labelled, model_file, pets):
    done = call("evaluate", "--model", model_file, labelled, "--json")
    assert (done.code, done.err) == (0, "")
    figures = json.loads(done.out)
    rows = table(labelled)
    texts, truth = [row["text"] for row in rows], [row["label"] for row in rows]
    assert figures == pytest.approx(expected_figures(leafwise.load(model_file), texts, truth, pets))
    assert figures["accuracy"] == 14 / 16

    shown = call("evaluate", "--model", model_file, labelled)
    lines = dict(re.split(r"  +", line) for line in shown.out.decode().splitlines())
    assert lines["documents"] == "16"
    assert {name.replace(" ", "_") for name in lines} == set(figures)
    assert float(lines["hierarchical f1"]) == pytest.approx(figures["hierarchical_f1"], abs=5e-4)


def test_evaluate_hides_labels(call, labelled, pets):
    options = ("--hide", "0.25", "--seed", "3", "--json")
    done = call("evaluate", "--taxonomy", "tree.yaml", labelled, *options)
    assert done.code == 0
    rows = table(labelled)
    texts, truth = [row["text"] for row in rows], [row["label"] for row in rows]
    hidden = np.sort(np.random.default_rng(3).permutation(16)[:4])
    known = [None if i in hidden else label for i, label in enumerate(truth)]
    model = leafwise.TaxonomyClassifier(pets).fit(texts, known)
    expected = expected_figures(model, [texts[i] for i in hidden], [truth[i] for i in hidden], pets)
    assert json.loads(done.out) == pytest.approx(expected)


def test_evaluate_several_labels(call, folder, model_file):
    Path("d.csv").write_text(
        "text,labels\nThe cat purred,cats;boats\nThe dog barked,dogs\nThe race,cats\n"
    )
    done = call("evaluate", "--model", model_file, "d.csv", "--json")
    # cats, dogs and racing are predicted: of four labels two are found, one is wrong.
    assert json.loads(done.out) == pytest.approx(
        {
            "documents": 3,
            "accuracy": 2 / 3,
            "micro_f1": 2 * 2 / (3 + 4),
            "macro_f1": (2 / 3 + 0 + 1 + 0) / 4,
        }
    )


def test_evaluate_without_labels(call, folder):
    Path("plain.csv").write_text("text\nThe cat\nA dog\n")
    done = call("evaluate", "-t", "tree.yaml", "plain.csv")
    assert (done.code, done.out) == (1, b"")
    assert done.err == ("Error: No row of plain.csv has a label, so there is nothing to check.\n")


# ---- evaluate --curve ---------------------------------------------------------------------------

OTHERS = ["naive Bayes", "tf-idf + linear SVM", "nearest neighbour", "most frequent node"]


@pytest.fixture
def messy(folder, pet_texts, pet_labels) -> Path:
    """Six cats, four dogs, three boats, one race, and six documents without a label."""
    rows = list(zip(pet_texts, pet_labels))
    rows = [*rows[:4], ("A cat asleep", "cats"), ("The cat and the sofa", "cats"), *rows[4:8]]
    rows += [*zip(pet_texts[8:11], pet_labels[8:11]), (pet_texts[12], "racing")]
    rows += [(text, "") for text in (pet_texts[11], *pet_texts[13:], "A dog", "The wind, a quay")]
    with open("messy.csv", "w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    return Path("messy.csv")


def test_curve_of_messy_documents(call, messy, pets):
    done = call("evaluate", "-t", "tree.yaml", messy, "--curve", "--hide", "0.3")
    assert done.code == 0
    assert done.err == (
        "Nodes with one label, which is learned from and not tested: 1 of 4 "
        "(vehicles/cars/racing).\n"
        "Nodes with fewer labels to learn from than asked for, which give what they have: 1 at 2, "
        "2 at 3 (of 4).\n"
        "Learning and testing ...\n"
    )
    head, *rows, caption, _, without, some, more = done.text.splitlines()
    assert head.split() == ["accuracy", "0", "1", "2", "3"]
    cells = [re.split("  +", row) for row in rows]
    assert [row[0] for row in cells] == ["leafwise + keywords", *OTHERS]
    assert [len(row) for row in cells] == [5] * 5
    assert [row[1] for row in cells[1:]] == ["–"] * 4
    assert all(re.fullmatch(r"[01]\.\d{3} ± 0\.\d{3}( \*| ≈)?", c) for c in cells[0][1:])
    assert caption.startswith("accuracy, mean ± standard deviation over 3 draws")
    assert re.fullmatch(r"Without labels: leafwise \+ keywords [01]\.\d\d\.", without)
    assert re.fullmatch(
        r"With up to 3 labels per node \(9 in all\): leafwise \+ keywords [01]\.\d\d; the best of "
        rf"the others, ({'|'.join(OTHERS).replace('+', '[+]')}), [01]\.\d\d\.",
        some,
    )
    assert more.startswith(("To leafwise, twice as many", "From 2 to 3 labels per node leafwise"))


def test_curve_as_json_is_the_loop_by_hand(call, messy, pets):
    options = ("--curve", "--json", "--sizes", "2,0", "--draws", 2, "--seed", 4, "--hide", 0.3)
    done = call("evaluate", "-t", "tree.yaml", messy, *options)
    assert done.code == 0
    figures = json.loads(done.out)
    assert list(figures) == ["documents", "labelled", "nodes", "sizes", "rows", "conclusions"]
    assert [figures[name] for name in ("documents", "labelled", "nodes")] == [20, 14, 4]
    assert figures["sizes"] == [
        {"size": 0, "labels": 0, "tested": 4, "short_nodes": 0},
        {"size": 2, "labels": 7, "tested": 4, "short_nodes": 1},
    ]
    rows = table(messy)
    texts = [row["text"] for row in rows]
    y = [pets.paths[pets.index(row["label"])] if row["label"] else None for row in rows]
    found = {(row["method"], row["setting"]): row for row in figures["rows"]}
    assert set(found) == {
        ("leafwise + keywords", 0), *((name, 2) for name in ["leafwise + keywords", *OTHERS])
    }  # fmt: skip
    for size in (0, 2):
        hits = []
        split = FewLabelSplit(size, 2, test_size=0.3, short="take", random_state=4)
        for train, test in split.split(texts, y):
            model = leafwise.TaxonomyClassifier(pets).fit(texts, few_labels(y, train))
            predicted = model.predict([texts[i] for i in test])
            hits.append(np.mean([p == y[i] for p, i in zip(predicted, test)]))
        row = found["leafwise + keywords", size]
        assert (row["mean"], row["std"]) == pytest.approx((np.mean(hits), np.std(hits)))
    assert found["most frequent node", 2]["mean"] == 2 / 4  # of four tested two are cats
    assert figures["conclusions"][0].startswith("Without labels: leafwise + keywords ")


def test_curve_of_labels_alone(call, labelled):
    done = call("evaluate", labelled, "--curve", "--sizes", 1, "--draws", 1)
    assert done.code == 0
    lines = done.text.splitlines()
    assert lines[1].startswith("leafwise + node names  ")
    assert lines[6] == "accuracy, one draw, by training documents per class. *: the best."
    assert lines[-1].startswith("With 1 label per node (5 in all): leafwise + node names ")


def test_curve_without_any_label_given(call, messy):
    done = call("evaluate", "-t", "tree.yaml", messy, "--curve", "--sizes", 0)
    assert done.code == 0
    assert re.match(
        r"accuracy +0\nleafwise \+ keywords  [01]\.\d{3} ± 0\.\d{3}\naccuracy, mean ± [^\n]*\n\n"
        r"Without labels: leafwise \+ keywords [01]\.\d\d\.\n$",
        done.text,
    )


def test_curve_of_several_labels(call, folder, pet_texts, pet_labels):
    """Boats are labelled cats too: whoever says cats is right there."""
    lines = [
        {"text": text, "labels": [label, "cats"] if "boats" in label else [label]}
        for text, label in zip(pet_texts, pet_labels)
    ]
    lines += [{"text": "The cat", "labels": ["cats", "animals/cats"]}, {"text": "A dog"}]
    Path("in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = call("evaluate", "-t", "tree.yaml", "in.jsonl", "--curve", "--sizes", 2, "--json")
    assert done.code == 0
    figures = json.loads(done.out)
    assert (figures["documents"], figures["labelled"], figures["nodes"]) == (18, 17, 4)
    mean = {row["method"]: row["mean"] for row in figures["rows"]}
    assert mean["most frequent node"] == 2 / 4  # a cat and a boat
    assert mean["leafwise + keywords"] > 0.7


@pytest.mark.parametrize(
    ("ending", "start"), [("png", b"\x89PNG"), ("SVG", b"<?xml"), ("pdf", b"%P")]
)
def test_curve_is_drawn(call, messy, ending, start):
    picture = Path(f"curve.{ending}")
    options = ("--sizes", "0,1,2", "--draws", 2, "--picture", picture)
    done = call("evaluate", "-t", "tree.yaml", messy, "--curve", *options)
    assert done.code == 0
    assert done.err.endswith(f"Learning and testing ...\nDrew it to {picture}.\n")
    drawn = picture.read_bytes()
    assert drawn.startswith(start)
    assert len(drawn) > 5_000


def test_curve_that_cannot_be_drawn(call, messy, monkeypatch):
    command = ("evaluate", messy, "--curve", "--picture")
    with nothing_changes(Path()):
        odd = call(*command, "curve.bmp")
        assert (odd.code, odd.out) == (3, b"")
        assert "name a file that ends in .png, .svg or .pdf" in odd.err
        nowhere = call(*command, "gone/curve.png")
        assert (nowhere.code, nowhere.out) == (3, b"")
        monkeypatch.setattr("leafwise.cli.opening.find_spec", lambda name: None)
        without = call(*command, "curve.png")
        assert (without.code, without.out) == (3, b"")
        assert 'that needs matplotlib. pip install "leafwise[plot]"' in without.err


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a cat,\na dog,\n", "No row of d.csv has a label, so there is nothing to check."),
        (
            "a cat,cats\nthe cat,cats\nthe dog,\n",
            'All labels of d.csv are for one node, "cats": there is nothing to tell apart.',
        ),
        (
            "a cat,cats\na dog,dogs\nthe dog,\n",
            "No node of d.csv has two labels, one to learn from and one to hide. Label more.",
        ),
        (
            "a the,cats\nthe a,cats\na,dogs\nthe,dogs\n",
            "The documents that were drawn have no words but stop words, so the other methods "
            "have nothing to learn from. Try larger --sizes, or --language none.",
        ),
    ],
)
def test_curve_of_too_little(call, folder, rows, message):
    Path("d.csv").write_text(f"text,label\n{rows}")
    with nothing_changes(folder):
        done = call("evaluate", "d.csv", "--curve", "--picture", "curve.png")
    assert (done.code, done.out) == (1, b"")
    assert done.err.splitlines()[-1] == f"Error: {message}"


def test_curve_leaves_out_bad_rows(call, messy):
    with open(messy, "a") as file:
        file.write("too,many,cells\n")
    options = ("--sizes", 1, "--draws", 1, "--skip-bad")
    done = call("evaluate", messy, "--curve", *options)
    assert done.code == 0
    assert "Left out 1 bad row; bad-rows.csv says why." in done.err


@pytest.mark.parametrize("compiled", [True, False])
def test_the_first_run_says_why_it_takes_longer(call, messy, monkeypatch, compiled):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(_words, "is_compiled", lambda: compiled)
    done = call("evaluate", messy)
    assert done.code == 0
    assert ("Compiling, at the first run only" in done.err) != compiled


def test_curve_on_a_terminal(call, messy, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    done = call("evaluate", messy, "--curve", "--sizes", 1, "--draws", 1)
    assert done.code == 0
    assert "Learning and testing \x1b" in done.err  # with a bar after it


def made_up_curve(accuracy, sizes, n_train) -> LearningCurve:
    """A curve of two methods, whose accuracies at each size are those of two draws."""
    values = np.array([accuracy, np.full_like(accuracy, 0.3)])
    nothing = np.zeros(values.shape)
    names, n_test = ("ours", "NB"), (50,) * len(sizes)
    return LearningCurve(names, sizes, {"accuracy": values}, nothing, nothing, n_train, n_test)


@pytest.mark.parametrize(
    ("accuracy", "sizes", "n_train", "spare", "said"),
    [
        (
            [[0.5, 0.5], [0.70, 0.70], [0.76, 0.80]], (0, 5, 10), (0, 20, 40), 10,
            ["Without labels: ours 0.50.",
             "With 10 labels per node (40 in all): ours 0.78; the best of the others, NB, 0.30.",
             "To leafwise, another 10 per node would add about 0.08, if it goes on as from 5 to "
             "10."],
        ),
        (
            [[0.60, 0.60], [0.70, 0.80]], (5, 20), (20, 60), 15,
            ["With up to 20 labels per node (60 in all): ours 0.75; the best of the others, NB, "
             "0.30.",
             "To leafwise, twice as many labels would add about 0.09, if it goes on as from 5 to "
             "20."],
        ),
        (
            [[0.60, 0.60], [0.99, 0.99]], (1, 2), (4, 8), 9,
            ["With 2 labels per node (8 in all): ours 0.99; the best of the others, NB, 0.30.",
             "To leafwise, another 2 per node would add about 0.01, if it goes on as from 1 to 2."],
        ),
        (
            [[0.60, 0.70], [0.70, 0.64]], (1, 2), (4, 8), 9,
            ["With 2 labels per node (8 in all): ours 0.67; the best of the others, NB, 0.30.",
             "From 1 to 2 labels per node leafwise gains nothing beyond what varies from draw to "
             "draw. More labels may add little; more --draws tell more."],
        ),
        (
            [[0.60, 0.60], [0.70, 0.70]], (10, 20), (40, 44), 11,
            ["With up to 20 labels per node (44 in all): ours 0.70; the best of the others, NB, "
             "0.30.",
             "From 10 to 20 per node there are hardly more labels, as nodes have no more: so there "
             "is no telling what more would add."],
        ),
        (
            [[0.5, 0.5], [0.7, 0.7]], (0, 1), (0, 4), 9,
            ["Without labels: ours 0.50.",
             "With 1 label per node (4 in all): ours 0.70; the best of the others, NB, 0.30."],
        ),
    ],
)  # fmt: skip
def test_what_a_curve_is_said_to_mean(accuracy, sizes, n_train, spare, said):
    labels = curve._Labels([], Counter(dict.fromkeys("abcd", spare)), [])
    assert curve._conclusions(made_up_curve(accuracy, sizes, n_train), labels) == said


@pytest.mark.parametrize(
    ("spare", "sizes"),
    [
        ([1, 1], [1]),
        ([2, 2], [1, 2]),
        ([1, 3, 9], [1, 2, 3]),
        ([1, 4, 9], [1, 2, 4]),
        ([8, 8, 100], [1, 2, 5, 8]),
        ([40, 40], [1, 2, 5, 10, 20, 40]),
        ([900, 900], [1, 2, 5, 10, 20, 50]),
    ],
)
def test_a_curve_goes_as_far_as_half_of_the_nodes(spare, sizes):
    labels = curve._Labels([], Counter(dict(enumerate(spare))), [])
    assert curve._default_sizes(labels, False) == sizes
    assert curve._default_sizes(labels, True) == [0, *sizes]


# ---- taxonomy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.json", "t.csv", "t.tsv", "t.ttl", "t.rdf", "t.yml"])
def test_a_tree_in_other_formats(call, folder, pets, name):
    done = call("taxonomy", "convert", "tree.yaml", name)
    assert (done.code, done.err) == (0, f"Wrote 7 nodes to {name}.\n")
    assert Taxonomy.load(name) == pets
    assert call("taxonomy", "show", name).out.decode() == f"{pets}\n"
    assert call("taxonomy", "check", name).out.decode() == (
        f"{name}: fine. 7 nodes below the root, on 3 levels; 4 leaf nodes; "
        "4 nodes with keywords of their own.\n"
    )


def test_a_tree_in_a_named_format(call, folder, pets):
    assert call("taxonomy", "convert", "tree.yaml", "w", "--format", "weshclass").code == 0
    assert Taxonomy.load("w") == pets
    done = call("taxonomy", "convert", "tree.yaml", "t.out", "--format", "nope")
    assert done.code == 1
    assert 'Unknown format "nope". Known are yaml (.yaml, .yml), json' in done.err
    assert not Path("t.out").exists()


@pytest.mark.filterwarnings("default")  # they are for the user here
def test_a_warning_is_a_sentence(call, folder):
    done = call("taxonomy", "convert", "tree.yaml", "folders")
    assert done.code == 0
    assert done.err == (
        "Warning: Folders hold no keywords: those of 4 nodes are not in folders.\n"
        "Wrote 7 nodes to folders.\n"
    )


def test_a_large_tree_is_shown_in_part_or_whole(call, folder):
    names = [f"n{i}" for i in range(500)]
    Path("large.csv").write_text("path\n" + "\n".join(names) + "\n")
    part = call("taxonomy", "show", "large.csv")
    whole = call("taxonomy", "show", "large.csv", "--all")
    assert (part.code, whole.code) == (0, 0)
    assert len(part.out.splitlines()) < 300
    assert [line.split()[1] for line in whole.out.decode().splitlines()[1:]] == names


def test_the_language_of_a_vocabulary(call, folder):
    Path("t.ttl").write_text(
        "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
        '<urn:x:1> a skos:Concept ; skos:prefLabel "cats"@en, "Katzen"@de .\n'
    )
    assert b"cats" in call("taxonomy", "show", "t.ttl").out
    assert b"Katzen" in call("taxonomy", "show", "t.ttl", "--language", "de").out


# ---- the rest -----------------------------------------------------------------------------------


def test_demo(tmp_path):
    picture = tmp_path / "demo.svg"
    done = in_a_process("demo", "--picture", picture)
    assert (done.code, done.err) == (0, "")
    shown = done.out.decode()
    rows = re.findall(r"(keyword matching|leafwise) +│ +([\d.]+)% +│ +([\d.]+)%", shown)
    assert [name for name, _, _ in rows] == ["keyword matching", "leafwise"]
    keywords, ours = ([float(share) for share in row[1:]] for row in rows)
    assert ours[0] > keywords[0]
    assert ours[1] > keywords[1]
    assert "leafwise classify --taxonomy tree.yaml docs.csv -o sorted.csv" in shown
    assert "Text Processing Services" in shown

    svg = picture.read_text(encoding="utf-8")
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert set(re.findall(r"https?://[^\s\"'<>)]*", svg)) == {"http://www.w3.org/2000/svg"}
    words = " ".join(ElementTree.fromstring(svg).itertext()).replace("\xa0", " ")
    assert "keyword matching" in words
    assert os.listdir(tmp_path) == ["demo.svg"]


def test_the_demo_draws_svg_alone(call, folder):
    with nothing_changes(folder):
        done = call("demo", "--picture", "d.png")
    assert (done.code, done.out) == (3, b"")
    assert "Cannot draw d.png: name a file that ends in .svg." in done.err


def test_help_loads_nothing_heavy():
    heavy = {"numpy", "scipy", "sklearn", "numba", "pyarrow", "yaml", "pandas", "rdflib"}
    heavy |= {"fastapi", "uvicorn", "jinja2", "sqlite3"}
    code = (
        "import sys\n"
        "from leafwise.cli import main\n"
        "for arguments in (['--help'], ['classify', '-h'], ['--version'], ['classify'],\n"
        "                  ['project', 'new', '-h'], ['serve', '-h']):\n"
        "    try:\n"
        "        main(arguments)\n"
        "    except SystemExit:\n"
        "        pass\n"
        "print('loaded:', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert "Usage: leafwise [OPTIONS] COMMAND" in done.stdout
    loaded = set(done.stdout.split("loaded: ")[1].split())
    assert "leafwise.cli" in loaded
    assert not {name.split(".")[0] for name in loaded} & heavy
    assert not {name for name in loaded if name.startswith(("rich.", "leafwise.models"))}


def test_version():
    done = in_a_process("--version")
    assert (done.code, done.out.decode()) == (0, f"leafwise {leafwise.__version__}\n")


def test_completion():
    script = in_a_process(environment={"_LEAFWISE_COMPLETE": "source_bash"})
    assert "complete -o default -F _leafwise_completion leafwise" in script.out.decode()
    asked = {"_LEAFWISE_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    options = in_a_process(environment={**asked, "COMP_WORDS": "leafwise classify --s"})
    assert set(options.out.decode().split()) == {
        "--save-model",
        "--scheduler",
        "--skip-bad",
        "--stop",
    }
    commands = in_a_process(environment={**asked, "COMP_WORDS": "leafwise taxonomy c"})
    assert set(commands.out.decode().split()) == {"check", "convert"}


def test_every_command_option_and_exit_code_is_documented():
    page = PAGE.read_text(encoding="utf-8")
    group = typer.main.get_command(app)
    below = [group.commands[name].commands for name in ("taxonomy", "project")]
    for name, command in (item for named in (group.commands, *below) for item in named.items()):
        assert re.search(rf"\b{name}\b", page)
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    assert f"`{option}" in page or f" {option}" in page, f"{name} {option}"
    for code, meaning in re.findall(r"(\d+) ([^,.]+)", app.info.epilog):
        row = re.search(rf"^\| {code} \| (.*) \|$", page, re.MULTILINE)
        assert row is not None
        assert meaning.split()[-1] in row[1]


def test_the_page_shows_what_happens(call, tmp_path, monkeypatch):
    page = PAGE.read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name, kind in (("topics.yaml", "yaml"), ("notes.csv", "csv")):
        block = re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL)
        Path(name).write_text(block[1], encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    commands = re.findall(r"^\$ leafwise (.*)\n((?:[^$].*\n)*)", "".join(blocks), re.MULTILINE)
    assert len(commands) == "".join(blocks).count("$ leafwise") > 10
    for command, shown in commands:
        if command.startswith("demo"):  # has a test of its own
            continue
        done = call(*shlex.split(command))
        assert done.code == 0, (command, done.err)
        # The figures may move with the model; what they stand beside may not.
        figures = re.compile(r"\d+\.\d+")
        assert figures.sub("#", done.out.decode()) == figures.sub("#", shown), command


@pytest.mark.parametrize(
    ("options", "clash"),
    [
        (("-o", "x.csv", "--skip-bad", "--bad-rows", "docs.csv"), "DOCS and --bad-rows"),
        (("-o", "x.csv", "--save-model", "docs.csv"), "DOCS and --save-model"),
        (("-o", "x.csv", "--save-model", "./tree.yaml"), "--taxonomy and --save-model"),
        (("-o", "tree.yaml"), "--taxonomy and --output"),
        (("-o", "x.csv", "--save-model", "x.csv"), "--output and --save-model"),
        (("-o", "bad-rows.csv", "--skip-bad"), "--output and --bad-rows"),
    ],
)
def test_no_file_is_written_over_another(call, folder, options, clash):
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    done = call("classify", "-t", "tree.yaml", "docs.csv", *options)
    assert done.code == 2
    assert f"Error: {clash} are the same file" in done.err
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_the_output_may_take_the_place_of_the_documents(call, folder):
    n_rows = len(Path("docs.csv").read_text().splitlines())
    assert call("classify", "-t", "tree.yaml", "docs.csv", "-o", "docs.csv").code == 0
    assert len(Path("docs.csv").read_text().splitlines()) == n_rows


def test_the_language_of_the_texts(call, folder):
    Path("garten.yaml").write_text("gemüse: [tomate]\nblumen: [rose]\n", encoding="utf-8")
    texts = b"text\nViele Tomaten im Beet\nDie Rosen im Beet\n"
    german = call("classify", "-t", "garten.yaml", "-", "-l", "german", stdin=texts)
    assert [row["label"] for row in german.rows] == ["gemüse", "blumen"]
    odd = call("classify", "-t", "garten.yaml", "-", "-l", "klingon", stdin=texts)
    assert (odd.code, odd.out) == (2, b"")
    assert "--language klingon: expected one of arabic" in odd.err


def test_a_seed_is_not_negative(call, folder):
    done = call("evaluate", "-t", "tree.yaml", "docs.csv", "--seed", "-3")
    assert done.code == 2
    assert "--seed" in done.err


# ---- reproduce ----------------------------------------------------------------------------------

REPRODUCE = ("reproduce", "zhu-table-2", "--data", "corpora", "--out", "results", "--draws", 2)
RESULTS = ["zhu-table-2.json", "zhu-table-2.md", "zhu-table-2.png"]


@pytest.fixture
def corpora(tmp_path, monkeypatch):
    """A folder with ten messages of each newsgroup, in the form of the real file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LEAFWISE_DATA", raising=False)
    groups = [path.split("/")[1] for path in NEWSGROUPS_15 if "/" in path] * 10
    texts = [f"Subject: {group}\n\nPosting {i % 7} about {group}" for i, group in enumerate(groups)]
    Path("corpora").mkdir()
    rows = {"id": list(map(str, range(len(groups)))), "text": texts, "label": groups}
    pq.write_table(pa.table(rows), "corpora/20news_19997.parquet")
    return tmp_path


def test_reproduce(call, corpora, monkeypatch):
    done = call(*REPRODUCE, "--sizes", "5, 3")
    assert (done.code, done.out) == (0, b"")
    assert done.err == (
        "Reading newsgroups ...\n"
        "5 documents per class ...\n"
        "3 documents per class ...\n"
        "Wrote zhu-table-2.json, zhu-table-2.md, zhu-table-2.png to results.\n"
    )
    assert sorted(os.listdir("results")) == RESULTS
    rows = json.loads(Path("results/zhu-table-2.json").read_text(encoding="utf-8"))["rows"]
    assert [row["setting"] for row in rows[:2]] == ["5", "3"]
    assert {row["draws"] for row in rows} == {2}
    assert [row["paper"] for row in rows[:2]] == [0.310, None]
    assert "| NB, paper | 0.310 |" in Path("results/zhu-table-2.md").read_text(encoding="utf-8")
    assert Path("results/zhu-table-2.png").stat().st_size > 10_000
    assert str(corpora) not in Path("results/zhu-table-2.md").read_text(encoding="utf-8")

    before = Path("results/zhu-table-2.json").read_bytes()
    monkeypatch.setenv("LEAFWISE_DATA", "corpora")
    again = ("zhu-table-2", "--out", "results", "--draws", 2, "--sizes", "5,3")
    assert call("reproduce", *again).code == 0
    assert Path("results/zhu-table-2.json").read_bytes() == before


def test_reproduce_on_a_terminal(call, corpora, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    done = call(*REPRODUCE, "--sizes", "3")
    assert done.code == 0
    assert "3 documents per class \x1b" in done.err  # with a bar after it
    assert "Reading newsgroups ..." not in done.err  # in place of lines
    assert done.err.endswith("to results.\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["reproduce", "zhu-tabel-2", "--out", "x"], 'Did you mean "zhu-table-2"? There are touta'),
        (["reproduce", "nothing", "--out", "x"], "zhu-table-3, zhu-figure-3, gaussier-table-1"),
        (["reproduce", "zhu-table-2"], "Missing option '--out'"),
        (["reproduce", "zhu-table-2", "--out", "x"], "--data DIR, or LEAFWISE_DATA in the envir"),
        ([*REPRODUCE, "--draws", "0"], "Invalid value for '--draws'"),
        ([*REPRODUCE, "--sizes", "7,some"], "--sizes 7,some: expected whole numbers from 1 on"),
        ([*REPRODUCE, "--sizes", "7,-3"], "--sizes 7,-3: expected whole numbers from 1 on"),
        ([*REPRODUCE, "--sizes", "0,7"], "--sizes 0,7: expected whole numbers from 1 on"),
        ([*REPRODUCE, "--sizes", "7,7"], "--sizes 7,7: expected whole numbers from 1 on, each on"),
        ([*REPRODUCE, "--sizes", ""], "--sizes : expected whole numbers from 1 on"),
        (["reproduce", "toutanova-table-4", "--out", "x", "--sizes", "7"], "it has no --sizes"),
    ],
)
def test_reproduce_with_wrong_usage(call, corpora, options, message):
    with nothing_changes(corpora):
        done = call(*options)
    assert (done.code, done.out) == (2, b"")
    assert message in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["zhu-table-2", "--data", "gone"], "20news_19997.parquet is not in gone. --data names"),
        (["toutanova-table-4", "--data", "corpora"], "reuters21578.parquet is not in corpora."),
        (
            ["zhu-table-2", "--data", "corpora", "--sizes", "3,10"],
            "has 10 documents, expected at least 11: 10 to draw and 1 to test on",
        ),
    ],
)
def test_reproduce_what_the_corpora_do_not_have(call, corpora, options, message):
    with nothing_changes(corpora):
        done = call("reproduce", *options, "--out", "results")
    assert (done.code, done.out) == (1, b"")
    assert done.err.splitlines()[-1].startswith("Error: ")
    assert message in done.err


def test_reproduce_where_nothing_can_be_written(call, corpora):
    Path("file").write_text("")
    Path("closed").mkdir()
    Path("closed").chmod(0o555)
    Path("half").mkdir()
    Path("half/zhu-table-2.md").mkdir()
    outs = {
        "file": "Cannot write to file: it is a file. Name a folder.",
        "closed": "Cannot write closed/zhu-table-2.json: its folder is read-only.",
        "closed/new": "Cannot write closed/new: its folder is read-only.",
        "file/new": "Cannot write to file/new: file is a file. Name a folder.",
        "half": "Cannot write half/zhu-table-2.md: it is a folder.",
    }
    for out, message in outs.items():
        with nothing_changes(corpora):
            done = call(*REPRODUCE, "--out", out)
        assert (done.code, done.out) == (3, b"")
        assert done.err.startswith(f"Error: {message}")  # before any work is done
    Path("closed").chmod(0o755)


@pytest.mark.filterwarnings("default")  # they are for the user here
def test_reproduce_without_matplotlib(call, corpora, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    done = call(*REPRODUCE, "--sizes", "3")
    assert done.code == 0
    assert done.err.endswith(
        "Warning: zhu-table-2.png is left out: it needs matplotlib. pip install 'leafwise[plot]'\n"
        "Wrote zhu-table-2.json, zhu-table-2.md to results.\n"
    )
    assert sorted(os.listdir("results")) == RESULTS[:2]


def test_reproduce_lists_the_experiments():
    code = (
        "import sys\n"
        "from leafwise.cli import main\n"
        "try:\n"
        "    main(['reproduce', '--help'])\n"
        "except SystemExit:\n"
        "    print('loaded:', *sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENVIRONMENT
    )
    page, loaded = done.stdout.split("loaded: ")
    for name, experiment in EXPERIMENTS.items():
        assert re.search(rf"^  {name} +{re.escape(experiment.summary)}$", page, re.MULTILINE)
        assert f"`{name}`" in PAGE.read_text(encoding="utf-8")
    assert not {"numpy", "sklearn", "leafwise.papers.zhu"} & set(loaded.split())


# ---- as sure as is asked for --------------------------------------------------------------------

UNSURE = (
    b"text\nthe cat purred\nthe dog barked at the cat\na dog and its bone\nnothing known here\n"
)


@pytest.fixture
def two_animals(tmp_path):
    tree = tmp_path / "tree.yaml"
    tree.write_text("animals:\n  cats: [cat, purr]\n  dogs: [dog, bark]\nplants: [oak]\n")
    return tree


def test_classify_leaves_unsure_labels_empty(call, two_animals):
    usual = call("classify", "-", "--format", "csv", "-t", two_animals, stdin=UNSURE)
    least = sorted(float(row["probability"]) for row in usual.rows)[1]
    options = ("--format", "csv", "-t", two_animals, "--min-confidence", least)
    picky = call("classify", "-", *options, stdin=UNSURE)
    assert picky.code == 0
    for before, after in zip(usual.rows, picky.rows):
        if float(before["probability"]) >= least:
            assert after == before
        else:
            assert after["label"] == after["probability"] == ""
            assert after["label_2"] == before["label"]
            assert after["probability_2"] == before["probability"]
    assert sum(row["label"] == "" for row in picky.rows) == 1
    inner = call("classify", "-", *options, "--stop", stdin=UNSURE)
    assert [row["label"] for row in inner.rows if row not in usual.rows] == ["animals"]


def test_classify_refuses_a_confidence_that_is_none(call, two_animals):
    ended = call("classify", "-", "-t", two_animals, "--min-confidence", "8", stdin=UNSURE)
    assert ended.code == 2
    assert "expected a number from 0 to 1" in ended.err


def test_classify_writes_several_labels_where_it_learned_several(call, tmp_path):
    rng = np.random.default_rng(0)
    words = {"art": ["paint", "canvas", "sculptor"], "food": ["soup", "bread", "cheese"]}
    rows = []
    for i in range(160):
        labels = ["art", "food"] if i % 4 == 0 else [["art", "food"][i % 2]]
        text = " ".join(word for one in labels for word in rng.choice(words[one], 4))
        rows.append({"text": text, "labels": labels if i < 120 else []})
    docs = tmp_path / "docs.jsonl"
    docs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = call("classify", docs)
    assert ended.code == 0
    found = [json.loads(line)["labels"] for line in ended.text.splitlines()][120:]
    truth = [["art", "food"] if i % 4 == 0 else [["art", "food"][i % 2]] for i in range(120, 160)]
    assert np.mean([sorted(a) == b for a, b in zip(found, truth)]) > 0.9
    kept = tmp_path / "m.leafwise-model"
    assert call("classify", docs, "--save-model", kept).code == 0
    figures = json.loads(call("evaluate", docs, "--model", kept, "--json").text)
    assert figures["micro_f1"] > 0.95
    one = tmp_path / "one.csv"
    one.write_text("text,label\npaint canvas,art\nsoup bread,food\n")
    assert json.loads(call("evaluate", one, "--model", kept, "--json").text)["micro_f1"] > 0.5
    new = tmp_path / "new.csv"
    new.write_text("text\npaint canvas sculptor soup bread cheese\nsoup cheese\n")
    again = tmp_path / "again.csv"
    assert call("classify", new, "--model", kept, "-o", again).code == 0
    written = list(csv.DictReader(again.read_text().splitlines()))
    assert [row["labels"] for row in written] == ["art;food", "food"]
    assert call("evaluate", again, "--model", kept).code == 0
    for given in ((docs,), (new, "--model", kept)):
        refused = call("classify", *given, "--stop")
        assert refused.code == 2
        assert "one label per document" in refused.err
        assert "Counted" not in refused.err  # it was known before the work
    refused = call("classify", docs, "--stop", "--memory", "4GiB")
    assert refused.code == 2
    assert "one label per document" in refused.err
