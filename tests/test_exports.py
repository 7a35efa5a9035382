"""What a project gives to other programs, read back as they would read it."""

import csv
import gzip
import io
import json
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import leafwise
from leafwise.corpus import Batch, Corpus
from leafwise.exceptions import OutputError, ProjectError
from leafwise.store import Project
from leafwise.store.exports import export, export_tree, node_uri
from leafwise.taxonomy import Taxonomy

CANDIDATES = ["probability", "label_2", "probability_2", "label_3", "probability_3"]
SAVED = ["csv", "tsv", "jsonl", "parquet", "fasttext"]  # what Corpus reads, too


def batch(texts, labels=None, ids=None) -> Batch:
    n = len(texts)
    labels = labels or [()] * n
    ids = ids or [f"d{i}" for i in range(n)]
    return Batch(list(texts), list(labels), list(ids), list(range(1, n + 1)), {})


@pytest.fixture(scope="module")
def model(pets, pet_texts, pet_labels):
    return leafwise.TaxonomyClassifier(pets).fit(pet_texts, pet_labels)


@pytest.fixture
def project(tmp_path, pets, pet_texts, pet_labels, model):
    """Sixteen documents: every other with a label, the first twelve sorted by a run."""
    labels = [(label,) if i % 2 == 0 else () for i, label in enumerate(pet_labels)]
    with Project.create(tmp_path / "pets.leafwise", pets) as project:
        project.documents.add([batch(pet_texts, labels)])
        run = project.runs.start()
        best = ["animals/cats", "animals/dogs", "vehicles/boats"]
        ids = list(range(1, 13))
        project.runs.add_predictions(run.id, ids, [best] * 12, [[0.75, 0.123456, 0.1]] * 12)
        project.runs.finish(run.id, model, [], {})
        yield project


@pytest.fixture
def several(tmp_path):
    tree = Taxonomy.from_paths(["sports/ice hockey", "sports/baseball", "news/A & B"])
    with Project.create(tmp_path / "several.leafwise", tree, several=True) as project:
        labels = [("sports/ice hockey", "news/A & B"), ("sports/baseball",), ()]
        project.documents.add([batch(["The puck hit A", "An inning", "Neither"], labels)])
        yield project


def read(path, format=None) -> list[dict]:
    """Rows of a table, as another program would read them."""
    format = format or Path(path).suffix[1:]
    if format == "jsonl":
        return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]
    if format == "parquet":
        return pq.read_table(path).to_pylist()
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t" if format == "tsv" else ","))


# ---- what is exported ---------------------------------------------------------------------------


def test_labels_are_the_documents_with_a_confirmed_one(project, tmp_path, pet_texts, pet_labels):
    out = tmp_path / "out.jsonl"
    assert export(project, out, what="labels") == 8
    rows = read(out)
    assert list(rows[0]) == ["id", "text", "label"]
    expected = [(f"d{i}", pet_texts[i], pet_labels[i]) for i in range(0, 16, 2)]
    assert [tuple(row.values()) for row in rows] == expected


def test_predictions_are_those_of_documents_without_a_label(project, tmp_path):
    out = tmp_path / "out.jsonl"
    assert export(project, out, what="predictions") == 6
    rows = read(out)
    assert [row["id"] for row in rows] == ["d1", "d3", "d5", "d7", "d9", "d11"]
    assert list(rows[0]) == ["id", "text", "label", *CANDIDATES]
    assert [rows[0][name] for name in ("label", *CANDIDATES)] == [
        "animals/cats", 0.75, "animals/dogs", 0.1235, "vehicles/boats", 0.1,
    ]  # fmt: skip


def test_all_says_which_are_which(project, tmp_path, pet_labels):
    out = tmp_path / "out.jsonl"
    assert export(project, out) == 16
    rows = read(out)
    assert [row["id"] for row in rows] == [f"d{i}" for i in range(16)]
    assert list(rows[0]) == ["id", "text", "label", *CANDIDATES, "labelled_by"]
    given = rows[2]
    assert (given["label"], given["probability"], given["labelled_by"]) == (
        pet_labels[2], 1.0, "confirmed",
    )  # fmt: skip
    guessed = rows[3]
    assert (guessed["label"], guessed["labelled_by"]) == ("animals/cats", "model")
    unseen = rows[13]  # by any model
    assert [unseen[name] for name in ("label", *CANDIDATES, "labelled_by")] == [None] * 7


def test_history_has_every_answer(project, tmp_path):
    first, second = project.documents.find("d1").id, project.documents.find("d3").id
    project.labels.answer(
        first, ["dogs"], by="Ann", suggested="animals/cats", probability=0.75, asked="queue"
    )
    project.labels.answer(first, ["animals/cats"], by="Ben", source="api")
    project.labels.answer(second, None, by="Ann")
    project.labels.undo("Ann")
    out = tmp_path / "history.jsonl"
    assert export(project, out, what="history") == 8 + 3
    answers = read(out)
    assert answers[0]["document"] == "d0"
    assert answers[0]["source"] == "import"
    of_first = [answer for answer in answers if answer["document"] == "d1"]
    at = [answer.pop("at") for answer in of_first]
    assert at == sorted(at)
    assert at[0].startswith("20")
    assert of_first == [
        {
            "document": "d1", "labels": ["animals/dogs"], "by": "Ann", "source": "review",
            "asked": "queue", "suggested": "animals/cats", "probability": 0.75, "undone": False,
        },
        {
            "document": "d1", "labels": ["animals/cats"], "by": "Ben", "source": "api",
            "asked": "", "suggested": None, "probability": None, "undone": False,
        },
    ]  # fmt: skip
    (skipped,) = (answer for answer in answers if answer["document"] == "d3")
    assert (skipped["labels"], skipped["undone"]) == (None, True)


def test_an_empty_project(tmp_path, pets):
    with Project.create(tmp_path / "empty.leafwise", pets) as project:
        for format in (*SAVED, "annif"):
            assert export(project, tmp_path / "out", format=format) == 0
        assert export(project, tmp_path / "out.csv") == 0
        assert export(project, tmp_path / "out.parquet", what="labels") == 0
        assert export(project, tmp_path / "out.jsonl", what="history") == 0
    header = ["id", "text", "label", *CANDIDATES, "labelled_by"]
    assert (tmp_path / "out.csv").read_text() == ",".join(header) + "\n"
    assert pq.read_table(tmp_path / "out.parquet").column_names == header[:3]


# ---- formats ------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", SAVED)
def test_labels_read_back_are_the_same(project, tmp_path, format, pet_texts):
    out = tmp_path / "out"
    export(project, out, what="labels", format=format)
    read = Corpus(out, format=format, taxonomy=project.tree.taxonomy).read()
    assert read.labels == [labels for _, labels in sorted(project.labels.all().items())]
    assert read.texts == pet_texts[::2]
    if format != "fasttext":  # which has no place for ids
        assert read.ids == [f"d{i}" for i in range(0, 16, 2)]


@pytest.mark.parametrize("format", SAVED)
def test_several_labels_read_back_are_the_same(several, tmp_path, format):
    out = tmp_path / "out"
    export(several, out, what="labels", format=format)
    read = Corpus(out, format=format, taxonomy=several.tree.taxonomy).read()
    assert list(map(set, read.labels)) == [
        {"sports/ice hockey", "news/A & B"},
        {"sports/baseball"},
    ]


def test_the_types_of_parquet(project, several, tmp_path):
    out = tmp_path / "out.parquet"
    export(project, out, what="predictions")
    schema = pq.read_schema(out)
    assert schema.field("probability").type == pa.float64()
    assert schema.field("label").type == pa.string()
    export(several, out, what="all")
    assert pq.read_schema(out).field("labels").type == pa.list_(pa.string())
    rows = pq.read_table(out).to_pylist()
    assert rows[2]["labels"] == []
    assert rows[2]["probability_3"] is None


def test_annif(several, tmp_path):
    turtle = tmp_path / "tree.ttl"
    several.tree.taxonomy.save(turtle)
    several.documents.add([batch(["two\nlines\tand a tab"], [("sports/baseball",)], ["t"])])
    out = tmp_path / "corpus.tsv"
    assert export(several, out, what="labels", format="annif") == 3
    lines = out.read_text("utf-8").splitlines()
    assert lines[0] == (
        "The puck hit A\t<urn:leafwise:node:news/A%20%26%20B> "
        "<urn:leafwise:node:sports/ice%20hockey>"
    )
    assert lines[2].split("\t")[0] == "two lines and a tab"
    for line in lines:  # the subjects are those of the vocabulary
        for uri in line.split("\t")[1].split():
            assert f"{uri} a skos:Concept" in turtle.read_text("utf-8")
    assert node_uri("sports/ice hockey") == "urn:leafwise:node:sports/ice%20hockey"


def test_a_text_cannot_label_itself_in_fasttext(tmp_path, pets):
    texts = ["__label__vehicles/boats a cat", "x __label__y\r\nz"]
    with Project.create(tmp_path / "p.leafwise", pets) as project:
        project.documents.add([batch(texts, [("animals/cats",), ()])])
        export(project, tmp_path / "out.ft")
        read = Corpus(tmp_path / "out.ft", taxonomy=pets).read()
    assert read.labels == [("animals/cats",), ()]
    assert read.texts == ["label_vehicles/boats a cat", "x label_y z"]


def test_nodes_that_fasttext_cannot_tell_apart(tmp_path):
    tree = Taxonomy.from_paths(["ice hockey", "ice_hockey"])
    with Project.create(tmp_path / "p.leafwise", tree) as project:
        project.documents.add([batch(["a puck"], [("ice hockey",)])])
        with pytest.raises(ProjectError, match=r'both are "ice_hockey". Rename one, or write'):
            export(project, tmp_path / "out.ft")
    assert not (tmp_path / "out.ft").exists()


def test_a_name_with_the_sign_between_labels(tmp_path):
    tree = Taxonomy.from_paths(["a;b", "c"])
    with Project.create(tmp_path / "p.leafwise", tree, several=True) as project:
        project.documents.add([batch(["text"], [("a;b", "c")])])
        with pytest.raises(ProjectError, match=r"; stands between two labels. Write .jsonl or"):
            export(project, tmp_path / "out.csv")
        export(project, tmp_path / "out.jsonl")
    assert read(tmp_path / "out.jsonl")[0]["labels"] == ["a;b", "c"]


# ---- formulas -----------------------------------------------------------------------------------

FORMULAS = ['=HYPERLINK("http://x.org","y")', "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "＝1+1"]


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_no_cell_is_a_formula(tmp_path, format):
    tree = Taxonomy.from_paths(["-misc", "other"])
    out = tmp_path / f"out.{format}"
    with Project.create(tmp_path / "p.leafwise", tree) as project:
        labels = [("-misc",)] * len(FORMULAS)
        project.documents.add([batch(FORMULAS, labels, [f"{one} id" for one in FORMULAS])])
        export(project, out)
        export(project, tmp_path / "out.jsonl")
    rows = read(out)
    assert [row["text"] for row in rows] == ["'" + formula for formula in FORMULAS]
    assert [row["id"] for row in rows] == ["'" + formula + " id" for formula in FORMULAS]
    assert {row["label"] for row in rows} == {"'-misc"}
    raw = read(tmp_path / "out.jsonl")
    assert [row["text"] for row in raw] == FORMULAS
    assert {row["label"] for row in raw} == {"-misc"}


def test_ordinary_cells_stay_as_they_are(tmp_path, pets):
    texts = ["a = b", "'quoted'", "1-2", 'über,\n"x"', "a\x00b"]
    with Project.create(tmp_path / "p.leafwise", pets) as project:
        project.documents.add([batch(texts)])
        export(project, tmp_path / "out.csv")
    assert Corpus(tmp_path / "out.csv").read().texts == texts


# ---- files --------------------------------------------------------------------------------------


def test_compressed_and_into_an_open_file(project, tmp_path):
    export(project, tmp_path / "out.csv")
    export(project, tmp_path / "out.csv.gz")
    buffer = io.BytesIO()
    export(project, buffer, format="csv")
    plain = (tmp_path / "out.csv").read_bytes()
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()) == plain
    assert buffer.getvalue() == plain


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("x.csv", {"what": "everything"}, ProjectError, 'no export of "everything". Known are all'),
        ("x.xls", {}, OutputError, "What format .*x.xls is to have cannot be told from its name"),
        ("x.csv", {"format": "xml"}, ProjectError, 'Cannot write the format "xml". Formats: csv,'),
        ("x.csv", {"what": "history"}, ProjectError, "history of labels is written as JSONL, not"),
        ("x.parquet.gz", {}, ProjectError, "Parquet is compressed inside. Leave out .gz."),
        ("no/x.csv", {}, OutputError, "there is no folder .*no. Make it first."),
    ],
)
def test_exports_that_cannot_be(project, tmp_path, name, options, error, message):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(error, match=message):
        export(project, tmp_path / name, **options)
    assert sorted(tmp_path.iterdir()) == before


def test_one_state_while_others_label(tmp_path, pets):
    """All documents change their label together; an export sees all before or all after."""
    n = 12_000  # more than are read at a time
    with Project.create(tmp_path / "p.leafwise", pets) as project:
        project.documents.add([batch(["text"] * n)])
        done = threading.Event()

        def flip() -> None:
            while not done.is_set():
                for label in ("animals/cats", "animals/dogs"):
                    with project._db.writing():
                        for id in (1, n):
                            project.labels.answer(id, [label], by="Ann")

        thread = threading.Thread(target=flip)
        thread.start()
        try:
            for _ in range(5):
                buffer = io.BytesIO()
                export(project, buffer, what="all", format="jsonl")
                rows = buffer.getvalue().splitlines()
                first, last = json.loads(rows[0]), json.loads(rows[-1])
                assert first["label"] == last["label"]
        finally:
            done.set()
            thread.join()


PEAK = """
import resource, sys
from leafwise.store import Project
from leafwise.store.exports import export
with Project(sys.argv[1]) as project:
    print(export(project, sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_does_not_grow_with_the_documents(tmp_path, pets):
    peaks = {}
    for n in (1_000, 40_000):  # the second are 200 MB
        path = tmp_path / f"{n}.leafwise"
        with Project.create(path, pets) as project:
            for start in range(0, n, 1_000):
                ids = [str(start + i) for i in range(1_000)]
                labels = [("animals/cats",)] * 1_000
                project.documents.add([batch([id + "." * 5_000 for id in ids], labels, ids)])
        for format in ("csv", "parquet"):
            done = subprocess.run(
                [sys.executable, "-c", PEAK, path, tmp_path / f"out.{format}"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            n_rows, peaks[format, n] = map(int, done.stdout.split())
            assert n_rows == n
    for format in ("csv", "parquet"):
        # SQLite keeps up to 64 MB of what it has read.
        assert peaks[format, 40_000] < peaks[format, 1_000] + 110_000, peaks


def test_a_tree_in_a_table_has_no_formulas(tmp_path):
    tree = Taxonomy.from_paths(["=cmd()/a", "plain, with a comma", "@b"])
    with Project.create(tmp_path / "p.leafwise", tree) as project:
        for name, format in (("tree.csv", None), ("tree.tsv", None), ("other", "csv")):
            assert export_tree(project, tmp_path / name, format) == tree
            lines = (tmp_path / name).read_text().splitlines()
            cells = [line.split("\t" if name.endswith("tsv") else ",")[0] for line in lines]
            assert not any(cell[:1] in "=@" for cell in cells if cell)
            assert "'=cmd()/a" in cells
        export_tree(project, tmp_path / "tree.yaml")
        assert Taxonomy.load(tmp_path / "tree.yaml") == tree
        assert "plain, with a comma" in Taxonomy.load(tmp_path / "tree.csv")
