"""Corpora of many files, in folders and in stores."""

import gzip
import os
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leafwise import partitions as parts
from leafwise.corpus import Corpus
from leafwise.exceptions import CorpusError, OutputError

fsspec = pytest.importorskip("fsspec")

CSV = "id,text,label\n1,a cat,cats\n2,a dog,dogs\n"
BAD = "id,text,label\n1,a cat,cats\n2,,dogs\n3,a dog\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return folder


@pytest.fixture
def memory():
    """A store that is no folder, emptied afterwards."""
    store = fsspec.filesystem("memory")
    yield store
    store.rm("/", recursive=True)


@pytest.fixture
def scratch(tmp_path, monkeypatch) -> Path:
    """Where temporary copies go."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def names(source, **options) -> list[str]:
    return [one.name for one in parts.find(source, **options)]


# ---- which there are ----------------------------------------------------------------------------


def test_a_folder_and_those_below_it_sorted_by_name(tmp_path):
    write(tmp_path, {"b.csv": CSV, "a.csv.gz": CSV, "2024/c.csv": CSV, "2023/d.CSV": CSV})
    found = parts.find(tmp_path)
    assert [one.name for one in found] == ["2023/d.CSV", "2024/c.csv", "a.csv.gz", "b.csv"]
    assert [Path(one.source) for one in found] == [tmp_path / one.name for one in found]
    assert found[3].size == len(CSV)


def test_what_other_programs_leave_behind_is_left_out(tmp_path):
    left = dict.fromkeys(["_SUCCESS", "_metadata", ".part.csv.crc", "_temporary/x.csv"], CSV)
    write(tmp_path, {"a.csv": CSV, "b.csv": "", ".hidden/c.csv": CSV, **left})
    assert names(tmp_path) == ["a.csv"]


def test_a_glob_names_files_below_its_fixed_part(tmp_path, monkeypatch):
    write(tmp_path, {"x/a.csv": CSV, "y/b.csv": CSV, "y/c.jsonl": "{}", "y/deep/d.csv": CSV})
    assert names(f"{tmp_path}/*/*.csv") == ["x/a.csv", "y/b.csv"]
    assert names(f"{tmp_path}/y/**/*.csv") == ["b.csv", "deep/d.csv"]
    monkeypatch.chdir(tmp_path / "y")
    assert parts.find("*.csv") == [parts.Partition("b.csv", "b.csv", len(CSV))]


def test_a_name_with_brackets_is_a_file_if_there_is_one(tmp_path):
    write(tmp_path, {"notes [1].csv": CSV, "notes 1.csv": CSV})
    assert names(tmp_path / "notes [1].csv") == ["notes [1].csv"]


def test_one_file(tmp_path):
    write(tmp_path, {"a.csv": CSV, "b.csv": CSV})
    assert parts.find(tmp_path / "a.csv") == [
        parts.Partition(str(tmp_path / "a.csv"), "a.csv", len(CSV))
    ]
    assert parts.find(f"file://{tmp_path}/a.csv") == parts.find(tmp_path / "a.csv")


def test_a_format_that_is_named_needs_no_ending(tmp_path):
    write(tmp_path, {"part-00000": CSV, "part-00001": CSV, "_SUCCESS": ""})
    assert names(tmp_path, format="csv") == ["part-00000", "part-00001"]
    assert names(tmp_path / "part-00001", format="csv") == ["part-00001"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": CSV, "b.jsonl": "{}"}, "several formats: a.csv (csv), b.jsonl (jsonl). Name"),
        ({"a.csv": CSV, "notes.docx": "x"}, "a.csv (csv), notes.docx (unknown). Name those"),
        ({"a.csv": CSV, "notes.txt": "x"}, "several formats: a.csv (csv), notes.txt (text)"),
        ({"cats/1.txt": "a cat", "dogs/2.txt": "a dog"}, "holds texts (cats/1.txt), one to a file"),
        ({"cats/1.txt": "a cat"}, "A folder of texts is one corpus: classify it without --sched"),
        ({"a.docx": "x"}, "holds no partitions, which end in .csv, .tsv, .tab, .jsonl, .ndjson, "),
        ({"a.docx": "x"}, "but files such as a.docx. If these are partitions, name their format"),
        ({"_SUCCESS": "x", "a.csv": ""}, "are hidden or empty."),
        ({}, "There is no file in "),
    ],
)
def test_a_folder_that_is_no_set_of_partitions(tmp_path, files, message):
    write(tmp_path, files)
    with pytest.raises(CorpusError) as error:
        parts.find(tmp_path)
    assert message in str(error.value)
    assert str(tmp_path) in str(error.value)


def test_what_is_no_partition(tmp_path):
    write(tmp_path, {"notes.csv": CSV, "a.txt": "a cat"})
    for source, message in {
        f"{tmp_path}/*.parquet": r"No file matches .*/\*\.parquet\.",
        f"{tmp_path}/note.csv": r"There is no file .*/note\.csv\. Did you mean .*/notes\.csv",
        f"{tmp_path}/a.txt": r"a\.txt is no partition: one ends in \.csv, \.tsv, ",
        "-": r"Standard input has no partitions\. Name a folder, a glob or a file\.",
    }.items():
        with pytest.raises(CorpusError, match=message):
            parts.find(source)
    with pytest.raises(CorpusError, match=r'cannot have the format "folder"\. Formats: csv, '):
        parts.find(tmp_path, format="folder")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(CorpusError, match=r"pipe\.csv is neither a file nor a folder"):
        parts.find(tmp_path / "pipe.csv")


# ---- stores -------------------------------------------------------------------------------------


def test_a_store_is_listed_as_a_folder_is(memory):
    for name in ("b.csv", "a.csv.gz", "deep/c.csv", "_SUCCESS", ".hidden.csv"):
        memory.pipe(f"/docs/{name}", CSV.encode())
    memory.pipe("/docs/empty.csv", b"")
    assert names("memory://docs") == ["a.csv.gz", "b.csv", "deep/c.csv"]
    assert parts.find("memory://docs/*.csv") == [
        parts.Partition("memory:///docs/b.csv", "b.csv", len(CSV))
    ]
    assert parts.find("memory://docs/b.csv") == [
        parts.Partition("memory://docs/b.csv", "b.csv", len(CSV))
    ]


def test_stores_within_stores(tmp_path):
    with zipfile.ZipFile(tmp_path / "docs.zip", "w") as archive:
        archive.writestr("docs/a.csv", CSV)
        archive.writestr("docs/b.csv", CSV)
        archive.writestr("../outside.csv", CSV)
    url = f"zip://docs::file://{tmp_path}/docs.zip"
    found = parts.find(url)
    assert found[1].source == f"zip://docs/b.csv::file://{tmp_path}/docs.zip"
    with parts.opened(found[1]) as corpus:
        assert corpus.read().texts == ["a cat", "a dog"]
    assert names(f"zip://::file://{tmp_path}/docs.zip") == ["docs/a.csv", "docs/b.csv"]
    write(tmp_path, {"more/c.csv": CSV})
    found = parts.find(f"simplecache::file://{tmp_path}/more")
    assert found == [
        parts.Partition(f"simplecache::file://{tmp_path}/more/c.csv", "c.csv", len(CSV))
    ]


@pytest.mark.parametrize(
    ("url", "kind", "message"),
    [
        ("nowhere://docs", CorpusError, "Cannot open nowhere://docs: Protocol not known: nowhere."),
        ("memory://none/a.csv", CorpusError, "There is no file memory://none/a.csv."),
        ("memory://none/*.csv", CorpusError, "No file matches memory://none/*.csv."),
    ],
)
def test_urls_that_lead_nowhere(url, kind, message, memory):
    with pytest.raises(kind) as error:
        parts.find(url)
    assert str(error.value).startswith(message)


def without(module: str, code: str) -> str:
    """What a process says that cannot import a module."""
    code = f"import sys; sys.modules[{module!r}] = None\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr


def test_without_the_packages_it_says_which():
    code = "from leafwise.partitions import find; find('s3://bucket/docs')"
    said = without("fsspec", code)
    assert 'Cannot open s3://bucket/docs: stores need fsspec. pip install "leafwise[dask]"' in said
    assert "Cannot open s3://bucket/docs: Install s3fs to access S3." in without("s3fs", code)


def test_what_a_store_raises_names_the_url(tmp_path):
    (tmp_path / "docs.zip").write_bytes(b"this is no archive")
    with pytest.raises(CorpusError, match=r"Cannot open zip://a.*docs\.zip: File is not a zip fi"):
        parts.find(f"zip://a.csv::file://{tmp_path}/docs.zip")


# ---- reading ------------------------------------------------------------------------------------


def test_a_copy_is_read_as_the_file_is_and_then_gone(tmp_path, memory, scratch):
    write(tmp_path, {"a.csv": BAD, "b.csv.gz": BAD, "c.csv": CSV})
    pq.write_table(pa.table({"text": ["a cat", "a dog"]}), tmp_path / "d.parquet")
    memory.put(f"{tmp_path}/*.*", "/docs/")
    for name in ("a.csv", "b.csv.gz", "c.csv", "d.parquet"):
        here = Corpus(tmp_path / name, skip_bad=True)
        batch = here.read()
        with parts.opened(parts.Partition(f"memory://docs/{name}", name), skip_bad=True) as there:
            assert list(scratch.iterdir())
            assert there.read() == batch
            assert there.format == here.format
            assert there.name == f"memory://docs/{name}"
            assert [row._replace(source=here.name) for row in there.bad] == here.bad
            assert {row.source for row in there.bad} <= {f"memory://docs/{name}"}
        assert not list(scratch.iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (BAD, 'memory://a.csv, line 3: there is no text in column "text" (skip_bad=True goes on'),
        ("", "memory://a.csv is empty."),
        ("id,words\n1,a cat\n", "memory://a.csv has no"),
    ],
)
def test_messages_name_the_url_and_not_the_copy(memory, scratch, content, message):
    memory.pipe("/a.csv", content.encode())
    with (
        pytest.raises(CorpusError) as error,
        parts.opened(parts.Partition("memory://a.csv", "a.csv")) as corpus,
    ):
        corpus.read()
    assert message in str(error.value)
    assert str(scratch) not in str(error.value)
    assert not list(scratch.iterdir())


def test_a_file_that_is_gone_since_it_was_found(memory):
    gone = parts.Partition("memory://gone.csv", "gone.csv")
    with pytest.raises(CorpusError, match=r"There is no file memory://gone\.csv\."):  # noqa: SIM117
        with parts.opened(gone):
            pass


def test_a_path_that_is_relative_can_be_below_any_folder(tmp_path):
    write(tmp_path, {"docs/a.csv": BAD})
    partition = parts.Partition("docs/a.csv", "a.csv")
    with parts.opened(partition, below=str(tmp_path)) as corpus:  # noqa: SIM117
        with pytest.raises(CorpusError, match=r"^docs/a\.csv, line 3: there is no text"):
            corpus.read()


# ---- all of them as one corpus ------------------------------------------------------------------


def test_joined_partitions_are_read_one_after_the_other(tmp_path):
    write(tmp_path, {"a.csv": CSV, "b.csv": CSV.replace("a ", "the "), "c.csv": "id,text\n"})
    joined = parts.Joined(parts.find(tmp_path), "docs")
    done = []
    joined.on_progress = lambda *far: done.append(far)
    for _ in range(2):
        texts = [text for batch in joined.batches() for text in batch.texts]
        assert texts == ["a cat", "a dog", "the cat", "the dog"]
        assert (joined.n_documents, joined.n_bad) == (4, 0)
    total = sum(one.size for one in joined.partitions)
    assert done[-1] == (total, total)
    assert {far[1] for far in done} == {total}
    half = done[: len(done) // 2]
    assert half == sorted(half)


def test_joined_bad_rows(tmp_path):
    write(tmp_path, {"a.csv": BAD, "b.csv": "id,text\n1,\n", "c.csv": BAD})
    joined = parts.Joined(parts.find(tmp_path), "docs", skip_bad=True)
    assert [text for batch in joined.batches() for text in batch.texts] == ["a cat", "a cat"]
    assert (joined.n_documents, joined.n_bad) == (2, 5)
    where = [(Path(row.source).name, row.line) for row in joined.bad]
    assert where == [("a.csv", 3), ("a.csv", 4), ("b.csv", 2), ("c.csv", 3), ("c.csv", 4)]
    with pytest.raises(CorpusError, match=r"a\.csv, line 3: there is no text in column"):
        list(parts.Joined(parts.find(tmp_path), "docs").batches())


def test_joined_without_a_document(tmp_path):
    write(tmp_path, {"a.csv": "text\n", "b.csv": "text\n"})
    with pytest.raises(CorpusError, match=r"Nothing in docs can be used: there are no rows\."):
        list(parts.Joined(parts.find(tmp_path), "docs").batches())
    write(tmp_path, {"b.csv": 'text\n""\n'})
    joined = parts.Joined(parts.find(tmp_path), "docs", skip_bad=True)
    with pytest.raises(CorpusError, match=r"Nothing in docs can be used: every row is bad \(1\)\."):
        list(joined.batches())


# ---- writing ------------------------------------------------------------------------------------


def test_an_output_folder_is_made_and_must_be_empty(tmp_path, memory):
    for out in (str(tmp_path / "new" / "out"), f"file://{tmp_path}/other", "memory://out"):
        parts.new_folder(out)
        parts.new_folder(out)
        with parts.placed(out, "2024/a.csv") as path:
            Path(path).write_text(CSV)
        with parts.opened(parts.find(out)[0]) as corpus:
            assert corpus.read().texts == ["a cat", "a dog"]
        with pytest.raises(OutputError, match=f"^Cannot write {out}: the folder is not empty. E"):
            parts.new_folder(out)
    assert (tmp_path / "other" / "2024" / "a.csv").read_text() == CSV
    write(tmp_path, {"file": "x"})
    with pytest.raises(OutputError, match=r"file: it is a file\. Name a folder\."):
        parts.new_folder(str(tmp_path / "file"))
    with pytest.raises(OutputError, match=r"file/out: Not a directory\."):
        parts.new_folder(str(tmp_path / "file" / "out"))


def test_in_a_store_a_file_appears_when_it_is_whole(memory, scratch):
    with parts.placed("memory://out", "a.csv") as path:
        Path(path).write_text(CSV)
        assert not memory.exists("/out/a.csv")
    assert memory.find("/out") == ["/out/a.csv"]
    with suppress(ZeroDivisionError), parts.placed("memory://out", "b.csv") as path:
        Path(path).write_text(CSV)
        raise ZeroDivisionError
    assert memory.find("/out") == ["/out/a.csv"]
    assert not list(scratch.iterdir())


def test_parts_that_are_left_are_cleared(tmp_path, memory):
    write(tmp_path, {"x/.leafwise-0a.part": "half", "x/a.csv": CSV, ".leafwise-1b.part": "half"})
    parts.clear(str(tmp_path))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.csv"]
    memory.put(f"{tmp_path}/x/a.csv", "/out/a.csv")
    memory.pipe("/out/.leafwise-2c", b"half")
    parts.clear("memory://out")
    assert memory.find("/out") == ["/out/a.csv"]


def test_partitions_that_are_written_are_counted(memory, tmp_path):
    some = [parts.Partition(f"docs/{name}", name) for name in ("a.csv", "deep/b.csv", "c.csv")]
    (tmp_path / "store").mkdir()
    in_store = f"dir://out::file://{tmp_path}/store"
    for out in (f"file://{tmp_path}/out", "memory://out", "simplecache::memory://in", in_store):
        assert parts.count_whole(out, some) == 0
        for name in ("a.csv", "deep/b.csv", "other.csv"):
            with parts.placed(out, name) as path:
                Path(path).write_text(CSV)
        assert parts.count_whole(out, some) == 2
