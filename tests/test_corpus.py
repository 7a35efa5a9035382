"""Documents in and out: every format, every bad row in both modes, every error a sentence."""

from __future__ import annotations

import csv
import gc
import gzip
import io
import json
import os
import re
import sys
import threading
import tracemalloc
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from leafwise import corpus as corpus_module
from leafwise import corpus_text
from leafwise.corpus import BadRow, Batch, Corpus, open_writer
from leafwise.corpus_writer import csv_bytes
from leafwise.exceptions import CorpusError, OutputError
from leafwise.taxonomy import Taxonomy

ROWS = [
    ("a1", "red apples", "fruit"),
    ("b2", 'a "big", dog\nbarks', "animals"),
    ("c3", "né 雪", ""),
]
TEXTS = [text for _, text, _ in ROWS]
LABELS = [("fruit",), ("animals",), ()]


def put(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def table(rows, delimiter=",", header=("id", "text", "label")) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows([header, *rows])
    return out.getvalue()


def jsonl(rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def objects(rows):
    return [dict(zip(("id", "text", "label"), row)) for row in rows]


def write_rows(path: Path, rows) -> Path:
    """The rows in the format of the name."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(objects(rows)), path)
        return path
    if name.endswith((".csv", ".tsv")):
        return put(path, table(rows, "\t" if name.endswith(".tsv") else ","))
    return put(path, jsonl(objects(rows)))


def plain(batch: Batch) -> Batch:
    """With lists in place of Arrow arrays."""
    columns = {
        name: values.to_pylist() if hasattr(values, "to_pylist") else values
        for name, values in batch.columns.items()
    }
    return batch._replace(columns=columns)


# ---- the formats --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["d.csv", "d.tsv", "d.tab", "d.jsonl", "d.ndjson", "d.parquet", "d.csv.gz", "D.JSONL.GZ"],
)
def test_columnar_formats_give_the_same_documents(tmp_path, name):
    path = tmp_path / name.lower()
    rows = [row if row[2] else (*row[:2], None) for row in ROWS]
    if name.endswith(".tab"):
        put(path, table(ROWS, "\t"))
    elif name.endswith(".ndjson"):
        put(path, jsonl(objects(rows)))
    else:
        write_rows(path, rows)
    path = path.rename(tmp_path / name)
    corpus = Corpus(path)
    batch = corpus.read()
    assert batch.texts == TEXTS
    assert batch.labels == LABELS
    assert batch.ids == ["a1", "b2", "c3"]
    assert list(batch.columns) == corpus.columns == ["id", "text", "label"]
    assert (corpus.text_column, corpus.label_column, corpus.id_column) == ("text", "label", "id")
    assert (corpus.n_documents, corpus.n_bad, corpus.taxonomy_) == (3, 0, None)
    multi_line = corpus.format in ("csv", "tsv")
    assert batch.lines == ([2, 3, 5] if multi_line else [1, 2, 3])


def test_rows_without_an_id_column_or_an_id_are_known_by_their_line(tmp_path):
    assert Corpus(put(tmp_path / "a.csv", "text\none\n\ntwo\n")).read().ids == ["2", "4"]
    assert Corpus(put(tmp_path / "b.csv", "id,text\n,one\n7,two\n")).read().ids == ["2", "7"]
    rows = [{"id": None, "text": "one"}, {"id": 0, "text": "two"}, {"text": "three"}]
    assert Corpus(put(tmp_path / "c.jsonl", jsonl(rows))).read().ids == ["1", "0", "3"]


def test_an_empty_id_is_a_bad_row_where_ids_are_needed(tmp_path):
    path = put(tmp_path / "b.csv", "id,text\n,one\n7,two\n \t,three\n")
    corpus = Corpus(path, need_ids=True, skip_bad=True)
    assert corpus.read().ids == ["7"]
    assert [(bad.line, bad.reason) for bad in corpus.bad] == [
        (2, "the id is empty"),
        (4, "the id is empty"),
    ]
    rows = [{"id": None, "text": "one"}, {"id": 0, "text": "two"}, {"text": "three"}]
    corpus = Corpus(put(tmp_path / "c.jsonl", jsonl(rows)), need_ids=True, skip_bad=True)
    assert (corpus.read().ids, corpus.n_bad) == (["0"], 2)
    assert Corpus(put(tmp_path / "a.csv", "text\none\n"), need_ids=True).read().ids == ["2"]


def test_fasttext_lines(tmp_path):
    path = put(
        tmp_path / "d.txt",
        "__label__fruit red apples\n\n__label__a/b\t__label__c  two  words\nno label\n"
        "says __label__x inside\n",
    )
    corpus = Corpus(path)
    batch = corpus.read()
    assert corpus.format == "fasttext"
    assert batch.texts == ["red apples", "two  words", "no label", "says __label__x inside"]
    assert batch.labels == [("fruit",), ("a/b", "c"), (), ()]
    assert batch.lines == [1, 3, 4, 5]
    assert batch.columns == {"id": ["1", "3", "4", "5"], "text": batch.texts}


LABELS_WITH_SPACES = ["cats/big cats", "snake_case, words", "big cats", "cats / big  cats"]


def test_labels_with_spaces_come_back_from_fasttext(tmp_path):
    tree = Taxonomy.from_paths(["cats/big cats", "snake_case, words", "a_b", "a b", r"or \/ and/x"])
    labels = [*LABELS_WITH_SPACES, "a_b", r"or \/ and", "or / and", r"or \/ and/x"]
    corpus = Corpus(put(tmp_path / "d.txt", "text\n" * len(labels)), taxonomy=tree)
    with open_writer(tmp_path / "out.ft", corpus, ["label"]) as writer:
        writer.write(corpus.read(), {"label": labels})
    again = Corpus(tmp_path / "out.ft", taxonomy=tree).read().labels
    assert [tree.index(*one) for one in again] == [tree.index(label) for label in labels]
    assert again[:2] == [("cats/big cats",), ("snake_case, words",)]
    assert "__label__cats/big_cats text" in (tmp_path / "out.ft").read_text().splitlines()


def test_labels_of_fasttext_that_fit_no_node_or_several(tmp_path):
    tree = Taxonomy.from_paths(["x/big cats", "y/big cats", "_z"])
    path = put(tmp_path / "d.ft", "__label__big_cats one\n__label__z two\n__label__x/big_cats 3\n")
    corpus = Corpus(path, taxonomy=tree, skip_bad=True)
    assert corpus.read().labels == [("x/big cats",)]
    assert [bad.reason for bad in corpus.bad] == [
        'No node is called "big_cats". Did you mean "x/big cats" or "y/big cats"?',
        'No node is called "z". Did you mean "_z"?',
    ]
    assert Corpus(path).read().labels[0] == ("big_cats",)  # without a tree, as it is written
    table = put(tmp_path / "d.csv", "text,label\none,x/big_cats\n")
    with pytest.raises(CorpusError, match='No node is called "x/big_cats"'):
        Corpus(table, taxonomy=tree).read()


def test_lines_of_text_are_documents_without_labels(tmp_path):
    corpus = Corpus(put(tmp_path / "d.txt.gz", "first, with a comma\r\n \r\n second\r\n"))
    batch = corpus.read()
    assert corpus.format == "text"
    assert batch.texts == ["first, with a comma", " second"]
    assert batch.labels == [(), ()]
    assert Corpus(put(tmp_path / "d.ft", "no label at all\n")).format == "fasttext"


def make_folder(root: Path) -> Path:
    for name, text in {
        "sports/golf/2.txt": "a hole in one",
        "sports/golf/10.txt": "the fairway",
        "sports/news.txt": "results\r\n",
        "art/1.txt": "\ufeffoil on canvas",
        "loose.txt": "who knows",
        ".hidden/x.txt": "secret",
        "art/.DS_Store": "secret",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8", newline="")
    (root / "empty class").mkdir()
    return root


def test_a_folder_per_class_is_a_tree(tmp_path):
    root = make_folder(tmp_path / "docs")
    corpus = Corpus(root)
    batch = corpus.read()
    assert corpus.format == "folder"
    assert dict(zip(batch.ids, zip(batch.texts, batch.labels))) == {
        "loose.txt": ("who knows", ()),
        "art/1.txt": ("oil on canvas", ("art",)),
        "sports/news.txt": ("results\r\n", ("sports",)),
        "sports/golf/10.txt": ("the fairway", ("sports/golf",)),
        "sports/golf/2.txt": ("a hole in one", ("sports/golf",)),
    }
    assert corpus.taxonomy_ == Taxonomy.from_paths(["art", "empty class", "sports/golf"])
    assert batch.columns == {"id": batch.ids, "text": batch.texts}
    assert batch.lines == [1, 2, 3, 4, 5]
    flat = tmp_path / "flat"
    flat.mkdir()
    put(flat / "1.txt", "alone")
    assert Corpus(flat).taxonomy_ is None


@pytest.mark.parametrize(
    ("content", "format"),
    [
        ('\ufeff {"text": "hello"}\n', "jsonl"),
        ("__label__a hello\n", "fasttext"),
        ("text;label\nhello;a\n", "csv"),
    ],
)
def test_standard_input_is_sniffed_and_can_be_read_twice(tmp_path, monkeypatch, content, format):
    calls = []
    with open(put(tmp_path / "in", content), encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        corpus = Corpus("-", on_progress=lambda *done: calls.append(done))
    assert corpus.format == format
    assert corpus.read().texts == corpus.read().texts == ["hello"]
    size = len(content.encode())
    assert calls[0] == (size, None)
    assert calls[-1] == (size, size)
    spooled = corpus._source.path
    assert os.path.exists(spooled)
    del corpus
    gc.collect()
    assert not os.path.exists(spooled)


def test_standard_input_may_be_gzip_or_parquet_or_of_a_named_format(tmp_path, monkeypatch):
    for name in ("d.csv.gz", "d.parquet"):
        with open(write_rows(tmp_path / name, ROWS), "rb") as raw:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw))
            assert Corpus("-").read().texts == TEXTS
    with open(put(tmp_path / "x", "a\tb, c\n")) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert Corpus("-", format="text").read().texts == ["a\tb, c"]


def test_a_pipe_is_read_like_standard_input(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    feeder = threading.Thread(target=lambda: pipe.write_text("text\nhello\n"))
    feeder.start()
    corpus = Corpus(pipe)
    feeder.join()
    assert corpus.read().texts == corpus.read().texts == ["hello"]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("text,label\r\nsnow né,a\r\n".encode("utf-8-sig"), {}),
        (b"text,label\rsnow n\xc3\xa9,a\r", {}),
        ("text,label\nsnow né,a\n".encode("latin-1"), {"encoding": "latin-1"}),
        ("text,label\nsnow né,a\n".encode("utf-16"), {"encoding": "utf-16"}),
        ("text;label\nsnow né;a".encode(), {}),
        ("text\tlabel\nsnow né\ta\n".encode(), {}),
        ('\n\n"text","label"\n\nsnow né,"a"'.encode(), {}),
        ("TEXT , Label\nsnow né, a \n".encode(), {}),
        ("Label,Body,other\na,snow né,1\n".encode(), {}),
        ("a,b\nx,snow né\n".encode(), {"text": "B", "label": "z", "id": None, "fails": "z"}),
    ],
)
def test_csv_as_people_write_it(tmp_path, content, options):
    path = put(tmp_path / "d.csv", content)
    fails = options.pop("fails", None)
    if fails:
        with pytest.raises(CorpusError, match=f'no column "{fails}". Its columns: "a", "b"'):
            Corpus(path, **options)
        return
    batch = Corpus(path, **options).read()
    assert batch.texts == ["snow né"]
    assert batch.labels == [("a",)]


def test_nul_characters_are_kept(tmp_path):
    assert Corpus(put(tmp_path / "d.csv", b"text\nab\0cd\n")).read().texts == ["ab\0cd"]


def test_a_nul_beside_a_byte_that_is_no_character_costs_no_more_than_that(tmp_path):
    for rows in (b"ab\0cd\n\xff\ngood\n", b"ab\0cd\n\xff\n" + 3000 * b"good\n" + 2 * b"ab\0cd\n"):
        path = put(tmp_path / "d.csv", b"text\n" + rows)
        with pytest.raises(CorpusError, match=r"line 3: byte 0xFF after .* is not utf-8"):
            Corpus(path).read()
        assert Corpus(path, skip_bad=True).read().texts[:2] == ["ab\0cd", "good"]


# ---- columns and labels -------------------------------------------------------------------------


def test_columns_are_found_in_a_fixed_order_and_can_be_named(tmp_path):
    path = put(tmp_path / "d.csv", "content,body,labels,label,ID\none,two,x;y,z,7\n")
    corpus = Corpus(path)
    assert (corpus.text_column, corpus.label_column, corpus.id_column) == ("body", "label", "ID")
    corpus = Corpus(path, text="content", label="labels", id="label")
    batch = corpus.read()
    assert (batch.texts, batch.labels, batch.ids) == (["one"], [("x", "y")], ["z"])


def test_several_text_columns_are_joined(tmp_path):
    rows = "title,description,a+b\nApples,red and round,x\n,no title,x\nPears,  ,x\n"
    path = put(tmp_path / "d.csv", rows)
    corpus = Corpus(path, text="Title+description")
    assert corpus.text_column == "title+description"
    assert corpus.read().texts == ["Apples\nred and round", "no title", "Pears"]
    assert Corpus(path, text="a+b").read().texts == ["x"] * 3
    with pytest.raises(CorpusError, match=r'no column "body". Its columns: "title", "desc'):
        Corpus(path, text="title+body")


def test_several_labels_in_a_cell(tmp_path):
    path = put(tmp_path / "d.csv", "text,labels\na,x; y ;x;\nb,\nc,z\n")
    assert Corpus(path).read().labels == [("x", "y"), (), ("z",)]
    path = put(tmp_path / "e.csv", "text,label\na,x; y\nb,x|z\n")
    assert Corpus(path).read().labels == [("x; y",), ("x|z",)]
    assert Corpus(path, label_separator="|").read().labels == [("x; y",), ("x", "z")]


def test_several_labels_are_a_bad_row_where_one_is_wanted(tmp_path):
    tree = Taxonomy.from_paths(["food/fruit", "food/bread"])
    path = put(tmp_path / "d.csv", "text,labels\na,fruit;bread\nb,fruit;food/fruit\nc,\n")
    corpus = Corpus(path, taxonomy=tree, one_label=True, skip_bad=True)
    assert corpus.read().labels == [("fruit", "food/fruit"), ()]
    reason = "it has 2 labels, and each document of this project has one"
    assert corpus.bad == [BadRow(str(path), 2, reason, "a,fruit;bread")]
    with pytest.raises(CorpusError, match=rf"line 2: {reason} \(skip_bad=True"):
        Corpus(path, one_label=True).read()


@pytest.mark.parametrize("late", [0, 3000], ids=["early", "late"])
def test_json_with_two_columns_of_labels_asks_for_one(tmp_path, late):
    rows = [{"text": "a", "labels": ["x"]}] * (late + 1) + [{"text": "b", "Label": "y"}]
    path = put(tmp_path / "d.jsonl", jsonl(rows))
    message = (
        r'd\.jsonl has labels in two columns, "Label", "labels"\. Name the one to read: --label'
    )
    with pytest.raises(CorpusError, match=message):
        Corpus(path, batch_size=500).read()
    assert Corpus(path, label="labels").read().labels[-2:] == [("x",), ()]


def test_labels_in_json_and_parquet_may_be_lists_or_numbers(tmp_path):
    rows = [{"text": "a", "labels": ["x", " y", None]}, {"text": "b", "labels": []}]
    path = put(tmp_path / "d.jsonl", jsonl([*rows, {"text": "c", "labels": 3}, {"text": "d"}]))
    assert Corpus(path).read().labels == [("x", "y"), (), ("3",), ()]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "d.parquet")
    assert Corpus(tmp_path / "d.parquet").read().labels == [("x", "y"), ()]
    numbers = pa.table({"text": ["a", "b"], "label": [7, None]})
    pq.write_table(numbers, tmp_path / "e.parquet")
    assert Corpus(tmp_path / "e.parquet").read().labels == [("7",), ()]
    kinds = pa.table({"text": ["a"], "label": pa.array(["x"]).dictionary_encode()})
    pq.write_table(kinds, tmp_path / "f.parquet")
    assert Corpus(tmp_path / "f.parquet").read().labels == [("x",)]


def test_a_key_that_comes_late_in_jsonl_counts(tmp_path):
    rows = [{"text": f"t{i}"} for i in range(3000)] + [{"text": "z", "label": "a", "n": 1}]
    corpus = Corpus(put(tmp_path / "d.jsonl", jsonl(rows)), batch_size=500)
    assert corpus.columns == ["text"]
    batch = corpus.read()
    assert batch.labels == [()] * 3000 + [("a",)]
    assert corpus.columns == ["text", "label", "n"]
    assert batch.columns["n"] == [None] * 3000 + [1]
    corpus = Corpus(put(tmp_path / "d.jsonl", jsonl(rows)), label="topic")
    with pytest.raises(CorpusError, match=r'no column "topic". Its columns: "text", "label", "n"'):
        corpus.read()


def test_labels_are_checked_against_the_tree(tmp_path):
    tree = Taxonomy.from_paths(["food/fruit", "food/bread"])
    path = put(tmp_path / "d.csv", "text,label\na,fruit\nb,food/bread\nc,\n")
    assert Corpus(path, taxonomy=tree).read().labels == [("fruit",), ("food/bread",), ()]


# ---- batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.jsonl", "d.parquet", "d.txt", "folder"])
@pytest.mark.parametrize("size", [1, 2, 7, 10, 11, 1000])
def test_batches_of_any_size_add_up(tmp_path, name, size):
    path = tmp_path / name
    rows = [(str(i), f"document\n{i}", "ab"[i % 2]) for i in range(30)]
    if name == "folder":
        for i in range(30):
            (path / f"{i % 3}").mkdir(parents=True, exist_ok=True)
            put(path / f"{i % 3}" / f"{i}.txt", f"text {i}")
    elif name == "d.txt":
        put(path, "".join(f"__label__{label} {id}\n" for id, _, label in rows))
    else:
        write_rows(path, rows)
    corpus = Corpus(path, batch_size=size)
    sizes = [len(batch.texts) for batch in corpus.batches()]
    assert sizes == [size] * (30 // size) + [30 % size] * (30 % size > 0)
    whole = plain(Corpus(path).read())
    assert len(whole.texts) == 30
    assert plain(corpus.read()) == whole
    batches = [plain(batch) for batch in corpus.batches()]
    for i, field in enumerate(whole[:4]):
        assert [value for batch in batches for value in batch[i]] == field
    for column, values in whole.columns.items():
        assert [value for batch in batches for value in batch.columns[column]] == values


@pytest.mark.parametrize("name", ["d.csv", "d.jsonl", "d.parquet"])
def test_batches_are_bounded_by_the_length_of_their_texts(tmp_path, monkeypatch, name):
    rows = [(str(i), f"{i} " + "word " * 2000, "a") for i in range(100)]
    path = write_rows(tmp_path / name, rows)
    monkeypatch.setattr(corpus_text, "BLOCK", 1 << 12)
    monkeypatch.setattr(corpus_module, "BATCH_CHARS", 1 << 16)
    batches = list(Corpus(path).batches())
    assert [text for b in batches for text in b.texts] == [text for _, text, _ in rows]
    assert max(sum(map(len, b.texts)) for b in batches) < 2 * (1 << 16)
    assert len(batches) > 10


LINES = st.lists(
    st.sampled_from(["a", "bc", "é", "雪", "\r", "\n", "\r\n", " ", "x" * 9]), max_size=40
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=LINES, block=st.integers(1, 9))
def test_line_ends_and_characters_may_fall_on_the_edge_of_a_block(
    tmp_path, monkeypatch, pieces, block
):
    content = "".join(["start\n", *pieces])
    path = put(tmp_path / "d.txt", content)
    monkeypatch.setattr(corpus_text, "BLOCK", block)
    batch = Corpus(path).read()
    lines = list(io.StringIO(content, newline=None))
    expected = [(i, line.rstrip("\n")) for i, line in enumerate(lines, 1) if line.strip()]
    assert list(zip(batch.lines, batch.texts)) == expected
    short = Corpus(path, max_line=6, skip_bad=True)
    batch = short.read()
    assert list(zip(batch.lines, batch.texts)) == [(i, x) for i, x in expected if len(x) <= 6]
    assert [bad.line for bad in short.bad] == [
        i for i, line in enumerate(lines, 1) if len(line.rstrip("\n")) > 6
    ]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.sampled_from(["a", "é", ",", '"', '""', "\n", "\r\n", "\r"]), max_size=60),
    block=st.integers(1, 9),
)
@example(pieces=list('"a,b\n"c",d\ne,f\n'), block=3)
@example(pieces=list('a",",x\n' * 9), block=4)
def test_broken_csv_gives_the_same_rows_whatever_the_blocks(tmp_path, monkeypatch, pieces, block):
    path = put(tmp_path / "d.csv", "text,n\nstart,0\n" + "".join(pieces) + "\nend,9\n")
    whole = Corpus(path, skip_bad=True)
    expected = whole.read()
    lines = sorted([*expected.lines, *(bad.line for bad in whole.bad)])
    assert lines == sorted(set(lines))
    assert expected.texts[0] == "start"
    with monkeypatch.context() as patch:
        patch.setattr(corpus_text, "BLOCK", block)
        corpus = Corpus(path, skip_bad=True)
        assert corpus.read() == expected
    assert corpus.bad == whole.bad
    try:
        rows = list(csv.reader(io.StringIO(path.read_bytes().decode(), newline=""), strict=True))
    except csv.Error:
        assert whole.bad
    else:
        good = [row[0] for row in rows[1:] if len(row) == 2 and row[0].strip()]
        assert expected.texts == good
        assert len(whole.bad) == sum(1 for row in rows[1:] if row) - len(good)


def test_progress_goes_to_the_end(tmp_path):
    for path in (
        write_rows(tmp_path / "d.csv", ROWS * 50),
        write_rows(tmp_path / "d.csv.gz", ROWS * 50),
        write_rows(tmp_path / "d.parquet", ROWS * 50),
        make_folder(tmp_path / "docs"),
    ):
        calls: list[tuple] = []
        corpus = Corpus(path, batch_size=10, on_progress=lambda *c, calls=calls: calls.append(c))
        calls.clear()
        corpus.read()
        assert calls[-1][0] == calls[-1][1] > 0
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_a_long_line_is_not_held(tmp_path):
    path = tmp_path / "d.csv"
    with open(path, "wb") as file:
        file.write(b"id,text\n1,one\n2,")
        for _ in range(60):
            file.write(b"word " * 200_000)
        file.write(b"\n3,three\n")
    corpus = Corpus(path, skip_bad=True, max_line=8 << 20)
    tracemalloc.start()
    batch = corpus.read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert batch.ids == ["1", "3"]
    assert corpus.bad[0][1:3] == (3, "the line is longer than 8,388,608 characters")
    assert len(corpus.bad[0].raw) == 200
    assert peak < 24 << 20


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(
        st.tuples(
            st.text(min_size=1),
            st.text(min_size=1).filter(lambda text: not text.isspace()),
            st.text(max_size=8).map(str.strip),
        ),
        min_size=1,
        max_size=8,
    )
)
@example(rows=[("\r", "a\rb\n", '"'), (" ", '"', ";"), ("\0", "\ufeff", "x\u2028y")])
def test_what_is_written_is_read_back(tmp_path, rows):
    expected = (
        [t for _, t, _ in rows],
        [(x,) if x else () for *_, x in rows],
        [i for i, *_ in rows],
    )
    for source in ("a.csv", "a.tsv", "a.jsonl", "a.parquet"):
        corpus = Corpus(write_rows(tmp_path / source, rows), batch_size=3)
        assert corpus.read()[:3] == expected
        for target in ("b.csv", "b.tsv", "b.jsonl.gz", "b.parquet"):
            with open_writer(tmp_path / target, corpus, ["score"]) as writer:
                for batch in corpus.batches():
                    writer.write(batch, {"score": [0.5] * len(batch.texts)})
            again = Corpus(tmp_path / target)
            assert again.read()[:3] == expected
            assert again.columns == ["id", "text", "label", "score"]


# ---- bad rows -----------------------------------------------------------------------------------

TREE = Taxonomy.from_paths(["food/fruit", "food/bread"])
BAD = {
    "undecodable": (
        "d.csv",
        b"text,label\ngood,\ncaf\xe9 au lait,\nlast,\n",
        {},
        (
            3,
            'byte 0xE9 after "caf" is not utf-8; for text in Latin-1 add --encoding',
            "caf\\xE9 au",
        ),
    ),
    "undecodable in another column": (
        "d.csv",
        b"text,n\ngood,\nx,\xff\nlast,\n",
        {},
        (3, 'byte 0xFF after "" is not utf-8', "x,\\xFF"),
    ),
    "undecodable json": (
        "d.jsonl",
        b'{"text": "good"}\n{"text": "x", "n": {"m": "\xe9"}}\n{"text": "last"}\n',
        {},
        (2, 'byte 0xE9 after "": "x", "n": {"m": "" is', '{"text": "x", "n": {"m": "\\xE9"}}'),
    ),
    "undecodable line": (
        "d.txt",
        b"good\nna\xefve\nlast\n",
        {},
        (2, 'byte 0xEF after "na" is not utf-8', "na\\xEFve"),
    ),
    "undecodable in utf-16": (
        "d.csv",
        "text\ngood\nx\n".encode("utf-16-le") + b"\x00\xd8" + "\nlast\n".encode("utf-16-le"),
        {"encoding": "utf-16-le"},
        (4, "byte 0x00 .* is not utf-16-le", ""),
    ),
    "undecodable in shift_jis": (
        "d.csv",
        "text\ngood\n雪".encode("shift_jis") + b"\xff\nlast\n",
        {"encoding": "shift_jis"},
        (3, 'byte 0xFF after "雪" is not shift_jis', "雪\\xFF"),
    ),
    "undecodable and ragged": (
        "d.csv",
        b"text,label\ngood,\ncaf\xe9,,,\nlast,\n",
        {},
        (3, 'byte 0xE9 after "caf"', "caf\\xE9,,,"),
    ),
    "no text": (
        "d.csv",
        "text,label\ngood,\n  ,fruit\nlast,\n",
        {},
        (3, 'there is no text in column "text"', "  ,fruit"),
    ),
    "null text": (
        "d.jsonl",
        '{"text": "good"}\n{"text": null, "n": 1}\n{"text": "last"}\n',
        {},
        (2, 'there is no text in column "text"', '{"text": null, "n": 1}'),
    ),
    "no text after the label": (
        "d.ft",
        "__label__fruit good\n__label__fruit\nlast\n",
        {},
        (2, "there is no text", ""),
    ),
    "no text in two columns": (
        "d.csv",
        "a,b\ngood,\n,\nlast,\n",
        {"text": "a+b"},
        (3, r'there is no text in column "a\+b"', ","),
    ),
    "text that is a number": (
        "d.jsonl",
        '{"text": "good"}\n{"text": 3}\n{"text": "last"}\n',
        {},
        (2, 'column "text" holds the number 3, not text', '{"text": 3}'),
    ),
    "one text of two that is a list": (
        "d.jsonl",
        '{"a": "good"}\n{"a": "x", "b": ["y"]}\n{"b": "last"}\n',
        {"text": "a+b"},
        (2, 'column "b" holds a list, not text', '{"a": "x", "b": ["y"]}'),
    ),
    "half a character": (
        "d.jsonl",
        '{"text": "good"}\n{"text": "\\ud83d"}\n{"text": "last \\ud83d\\ude00"}\n',
        {},
        (2, "half a surrogate pair", '{"text": "\\ud83d"}'),
    ),
    "unknown label": (
        "d.csv",
        "text,label\ngood,fruit\nx,fruits\nlast,\n",
        {"taxonomy": TREE},
        (3, 'No node is called "fruits". Did you mean "food/fruit"', "x,fruits"),
    ),
    "unknown label in a list": (
        "d.jsonl",
        '{"text": "good"}\n{"text": "x", "labels": ["fruit", "zzz"]}\n{"text": "last"}\n',
        {"taxonomy": TREE},
        (2, 'No node is called "zzz"', '{"text": "x", "labels": ["fruit", "zzz"]}'),
    ),
    "a label that is none": (
        "d.jsonl",
        '{"text": "good"}\n{"text": "x", "label": {"a": 1}}\n{"text": "last"}\n',
        {},
        (2, 'column "label" holds an object, not a label', '{"text": "x", "label": {"a": 1}}'),
    ),
    "a list of what is no label": (
        "d.jsonl",
        '{"text": "good", "label": "a"}\n{"text": "x", "label": [true]}\n{"text": "last"}\n',
        {},
        (2, 'column "label" holds true, not a label', '{"text": "x", "label": [true]}'),
    ),
    "too many cells": (
        "d.csv",
        "text,label\ngood,\na,b,c\nlast,\n",
        {},
        (3, "3 cells where the header has 2", "a,b,c"),
    ),
    "too few cells": (
        "d.tsv",
        "text\tlabel\ngood\t\na\nlast\t\n",
        {},
        (3, "1 cells where the header has 2", "a"),
    ),
    "a quote that is not closed": (
        "d.csv",
        'text,label\ngood,\n"a,\nlast,\n',
        {},
        (3, r'a quote \("\) that opens in this row is not closed', '"a,'),
    ),
    "a quote that is closed by the next row's": (
        "d.csv",
        'text,label\ngood,\n"a,\n"last",\n',
        {},
        (3, r'a quote \("\) is not closed, or a quote in a quoted cell is not doubled', '"a,'),
    ),
    "a quote that is not doubled": (
        "d.csv",
        'text,label\ngood,\n"a "big" dog",\nlast,\n',
        {},
        (3, r'a quote \("\) is not closed, or a quote in a quoted', '"a "big" dog",'),
    ),
    "malformed json": (
        "d.jsonl",
        '{"text": "good"}\n{"text": "x"\n{"text": "last"}\n',
        {},
        (2, "not JSON: Expecting ',' delimiter at character 13", '{"text": "x"'),
    ),
    "two objects on a line": (
        "d.jsonl",
        '{"text": "good"}\n{"text": "x"} {}\n{"text": "last"}\n',
        {},
        (2, "not JSON: more after the object at character 14", '{"text": "x"} {}'),
    ),
    "json without end": (
        "d.jsonl",
        '{"text": "good"}\n' + "[" * 100_000 + '\n{"text": "last"}\n',
        {},
        (2, "not JSON that can be read: .*recursion", "[" * 200),
    ),
    "json that is no object": (
        "d.jsonl",
        '{"text": "good"}\n["x"]\n{"text": "last"}\n',
        {},
        (2, r"a list, where an object \{...\} was expected", '["x"]'),
    ),
    "a long line": (
        "d.csv",
        "text,label\ngood,\n" + "x" * 101 + ",\nlast,\n",
        {"max_line": 100},
        (3, "the line is longer than 100 characters", "x" * 101),
    ),
    "a long line of json": (
        "d.jsonl",
        '{"text": "good"}\n{"text": "' + "x" * 100 + '"}\n{"text": "last"}\n',
        {"max_line": 100},
        (2, "the line is longer than 100 characters", '{"text": "' + "x" * 100 + '"}'),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_row_stops_the_reading_or_is_listed(tmp_path, case):
    name, content, options, (line, reason, raw) = BAD[case]
    path = put(tmp_path / name, content)
    where = f"{re.escape(str(path))}, line {line}: .*{reason}"
    with pytest.raises(CorpusError, match=rf"(?s)^{where}.*\(skip_bad=True goes on and lists such"):
        Corpus(path, **options).read()

    listing = tmp_path / "bad.csv"
    for size in (1, 2, 1000):
        corpus = Corpus(path, skip_bad=True, bad_rows=listing, batch_size=size, **options)
        texts = corpus.read().texts
        if case == "undecodable in utf-16":
            assert texts == ["good", "x", "last"]
        else:
            assert [texts[0], texts[-1].split()[0]] == ["good", "last"]
            assert len(texts) == 2
        assert (corpus.n_documents, corpus.n_bad) == (len(texts), 1)
        with open(listing, newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        assert rows[0] == ["source", "line", "reason", "raw"]
        assert rows[1:] == [[str(x) for x in corpus.bad[0]]]
        assert corpus.bad[0][:2] == (str(path), line)
        assert re.search(reason, corpus.bad[0].reason)
        assert corpus.bad[0].raw.startswith(raw)
    assert sorted(os.listdir(tmp_path)) == ["bad.csv", name]


def test_the_first_bad_row_is_the_one_reported(tmp_path):
    content = '{"text": "good"}\n{"text": ""}\nnot json\n{"text": 3}\n'
    path = put(tmp_path / "d.jsonl", content)
    with pytest.raises(CorpusError, match="line 2: there is no text"):
        Corpus(path).read()
    corpus = Corpus(path, skip_bad=True)
    corpus.read()
    assert [bad.line for bad in corpus.bad] == [2, 3, 4]
    path = put(tmp_path / "d.csv", 'text,n\n,1\na\ngood,1\n"b\n')
    corpus = Corpus(path, skip_bad=True)
    corpus.read()
    assert [bad.line for bad in corpus.bad] == [2, 3, 5]


def test_bad_rows_of_a_folder_are_files(tmp_path):
    root = make_folder(tmp_path / "docs")
    put(root / "art/2.txt", b"caf\xe9")
    put(root / "art/3.txt", b"  \n")
    put(root / "art/4.txt", b"x" * 200)
    (root / "art/5.txt").symlink_to(root / "nowhere")
    with pytest.raises(CorpusError, match=r'art/2.txt: byte 0xE9 after "caf" is not utf-8'):
        Corpus(root).read()
    corpus = Corpus(root, skip_bad=True, max_line=100)
    assert len(corpus.read().texts) == 5
    assert [(os.path.relpath(bad.source, root), bad.reason[:24]) for bad in corpus.bad] == [
        ("art/2.txt", 'byte 0xE9 after "caf" is'),
        ("art/3.txt", "there is no text"),
        ("art/4.txt", "the file has 200 bytes, "),
        ("art/5.txt", "the file cannot be read:"),
    ]
    other = Taxonomy.from_paths(["art", "music"])
    with pytest.raises(CorpusError, match=r'sports/news.txt: No node is called "sports"'):
        Corpus(make_folder(tmp_path / "more"), taxonomy=other, skip_bad=False).read()


def test_bad_rows_of_parquet(tmp_path):
    path = tmp_path / "d.parquet"
    texts = pa.array([b"good", b"caf\xe9", None, b"last"]).view(pa.string())
    labels = pa.array(["fruit", None, None, "zzz"])
    pq.write_table(pa.table({"text": texts, "label": labels, "n": [1, 2, 3, 4]}), path)
    with pytest.raises(CorpusError, match=r'd.parquet, row 2: byte 0xE9 after "caf" is not utf-8'):
        Corpus(path).read()
    corpus = Corpus(path, skip_bad=True, taxonomy=TREE)
    batch = corpus.read()
    assert (batch.texts, batch.labels, batch.lines) == (["good"], [("fruit",)], [1])
    assert batch.columns["n"].to_pylist() == [1]
    assert [bad.line for bad in corpus.bad] == [2, 3, 4]
    assert corpus.bad[0].reason.endswith("is not utf-8, which all text in Parquet should be")
    assert corpus.bad[1] == BadRow(
        str(path), 3, 'there is no text in column "text"', '{"text": null, "label": null}'
    )


def test_ids_of_parquet_are_texts_and_are_written_back_as_they_were(tmp_path):
    path = tmp_path / "d.parquet"
    for ids, texts in (
        (pa.array([7, None, 9]), ["7", "2", "9"]),
        (
            pa.array([1, 2, 3], pa.timestamp("ns")),
            [f"1970-01-01 00:00:00.00000000{i}" for i in "123"],
        ),
        (pa.array([b"a", b"\xff", b"c"]).view(pa.string()), ["a", "c"]),
    ):
        pq.write_table(pa.table({"id": ids, "text": ["x", "y", "z"]}), path)
        corpus = Corpus(path, skip_bad=True)
        batch = corpus.read()
        assert batch.ids == texts
        classify(corpus, tmp_path / "out.parquet")
        assert pq.read_table(tmp_path / "out.parquet").column("id").type == ids.type
    assert "byte 0xFF" in corpus.bad[0].reason


def test_a_quoted_cell_that_never_ends_does_not_swallow_the_file(tmp_path):
    lines = [f"{i},words and words\n" for i in range(5000)]
    content = "".join(["n,text\n", '0,"begins\n', *lines])
    corpus = Corpus(put(tmp_path / "d.csv", content), skip_bad=True)
    assert len(corpus.read().texts) == 5000
    assert [(b.line, b.raw) for b in corpus.bad] == [(2, '0,"begins')]
    corpus = Corpus(put(tmp_path / "d.csv", content), skip_bad=True, max_line=1000)
    assert len(corpus.read().texts) == 5000
    assert corpus.n_bad == 1


def test_a_quoted_cell_that_runs_into_a_long_line(tmp_path):
    content = 'n,text\n0,"begins\n1,good\n' + "x" * 200 + "\n2,good\n"
    corpus = Corpus(put(tmp_path / "d.csv", content), skip_bad=True, max_line=100)
    assert corpus.read().ids == ["3", "5"]
    assert [(b.line, b.reason) for b in corpus.bad] == [
        (2, 'a quote (") that opens in this row is not closed within 100 characters'),
        (4, "the line is longer than 100 characters"),
    ]


def test_quotes_that_open_in_every_row_end_the_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_text, "REREAD", 10_000)
    path = put(tmp_path / "d.csv", "text,a,b\n" + 'a",",x\n' * 500)
    with pytest.raises(CorpusError, match=r"line \d+: a quote .* The file is not quoted as CSV"):
        Corpus(path, skip_bad=True).read()


def test_only_bad_rows_is_an_error(tmp_path):
    path = put(tmp_path / "d.jsonl", "nothing\nof the kind\n")
    listing = tmp_path / "bad.csv"
    with pytest.raises(
        CorpusError, match=r"Every row of .*d.jsonl is bad \(2\). .*line 1: not JSON"
    ):
        Corpus(path, skip_bad=True, bad_rows=listing).read()
    assert len(listing.read_text().splitlines()) == 3
    path = put(tmp_path / "e.jsonl", 'nothing\n{}\n{"text": "good"}\n')
    corpus = Corpus(path, skip_bad=True)
    assert corpus.read().texts == ["good"]
    assert corpus.n_bad == 2


def test_json_whose_first_lines_are_all_bad(tmp_path):
    content = "nothing\n" * 1500 + '{"body": "good", "label": "a"}\n'
    batch = Corpus(put(tmp_path / "d.jsonl", content), skip_bad=True).read()
    assert (batch.texts, batch.labels) == (["good"], [("a",)])
    content = "nothing\n" * 1500 + '{"title": "good"}\n'
    with pytest.raises(CorpusError, match=r'no column called text .* Its columns: "title"'):
        Corpus(put(tmp_path / "d.jsonl", content), skip_bad=True).read()


def test_only_some_bad_rows_are_kept_in_memory_and_all_in_the_file(tmp_path):
    path = put(tmp_path / "d.csv", "text,n\ngood,1\n" + ",1\n" * 300)
    corpus = Corpus(path, skip_bad=True, bad_rows=tmp_path / "bad.csv", batch_size=7)
    corpus.read()
    assert (corpus.n_bad, len(corpus.bad)) == (300, 100)
    assert len((tmp_path / "bad.csv").read_text().splitlines()) == 301


def test_a_pass_that_is_broken_off_leaves_no_listing(tmp_path):
    path = put(tmp_path / "d.csv", "text,n\ngood,1\n,1\ngood,2\n")
    corpus = Corpus(path, skip_bad=True, bad_rows=tmp_path / "bad.csv", batch_size=1)
    batches = corpus.batches()
    next(batches)
    batches.close()
    assert os.listdir(tmp_path) == ["d.csv"]
    with pytest.raises(OutputError, match=r"Cannot write .*no/bad.csv: there is no folder"):
        Corpus(path, skip_bad=True, bad_rows=tmp_path / "no/bad.csv").read()


# ---- files that cannot be read ------------------------------------------------------------------


def parquet_bytes(**columns) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


GZIPPED = gzip.compress(b"text\n" + os.urandom(5000).hex().encode())
ERRORS = {
    "empty": ("d.csv", b"", {}, "d.csv is empty"),
    "blank": ("d.jsonl", "\ufeff\r\n \n", {}, "d.jsonl is empty"),
    "empty parquet": ("d.parquet", b"", {}, "d.parquet is empty"),
    "blank in utf-16": ("d.csv", "\n\n".encode("utf-16"), {"encoding": "utf-16"}, "but no rows"),
    "header only": ("d.csv", "text,label\n\n", {}, r'has columns \("text", "label"\) but no rows'),
    "no rows": ("d.parquet", parquet_bytes(text=pa.array([], pa.string())), {}, "but no rows"),
    "no text": (
        "d.csv",
        "title,description\na,b\n",
        {},
        r"no column called text \(or body, content, document\). Its columns: "
        r'"title", "description". Name the one to read: --text NAME, or several: --text title\+',
    ),
    "no text in json": ("d.jsonl", '{"a": 1}\n', {}, 'no column called text .* columns: "a"'),
    "no text in parquet": ("d.parquet", parquet_bytes(a=["x"]), {}, 'text .* columns: "a"'),
    "no header": (
        "d.csv",
        "It was a dark night,fiction\nmore,fact\n",
        {},
        'Its columns: "It was a dark night", "fiction". If its first row is a document, put a row',
    ),
    "a column that is not there": (
        "d.csv",
        "text,label\na,b\n",
        {"id": "key"},
        'no column "key". Its columns: "text", "label".$',
    ),
    "twice the same column": ("d.csv", "text,text\na,b\n", {}, 'has two columns called "text"'),
    "unclosed header": ("d.csv", 'text,"label\na,b\n', {}, r"line 1 \(the header\): a quote"),
    "undecodable header": (
        "d.csv",
        b"text,th\xe8me\na,b\n",
        {},
        r'line 1 \(the header\): byte 0xE8 after "text th',
    ),
    "unknown ending": (
        "d.doc",
        "hello",
        {},
        "d.doc has cannot be told .* Known endings: .csv, .tsv, .* name the format: --format csv.$",
    ),
    "json": ("d.json", "[]", {}, "one JSON object per line, say so: --format jsonl"),
    "unknown format": (
        "d.csv",
        "text\na\n",
        {"format": "xml"},
        'no format "xml". Formats: csv, tsv',
    ),
    "unknown encoding": ("d.csv", "text\na\n", {"encoding": "utf-9"}, 'no encoding "utf-9"'),
    "no text encoding": ("d.csv", "text\na\n", {"encoding": "hex"}, 'no encoding "hex"'),
    "batch size": ("d.csv", "text\na\n", {"batch_size": 0}, "batch_size must be 1 or more, not 0"),
    "utf-16": ("d.csv", "text\na\n".encode("utf-16"), {}, "is in UTF-16. Read it with --encoding"),
    "binary": ("d.csv", b"\x89PNG\0\0\xff\xfe\0\xd8", {}, "is not text: its bytes are binary"),
    "excel": ("d.csv", b"PK\x03\x04...", {}, "zip file or an Excel workbook. Save it as CSV first"),
    "parquet called csv": ("d.csv", parquet_bytes(text=["a"]), {}, "is a Parquet file. Name it"),
    "not gzip": ("d.csv", b"", {}, "not a whole gzip file"),
    "truncated gzip": (
        "d.csv",
        GZIPPED[:-2000],
        {},
        "not a whole gzip file: Compressed file ended",
    ),
    "damaged gzip": (
        "d.csv",
        GZIPPED[:30] + b"\xff" * 9 + GZIPPED[39:],
        {},
        "not a whole gzip file",
    ),
    "not parquet": ("d.parquet", b"hello, I am CSV", {}, "not a whole Parquet file: "),
    "truncated parquet": ("d.parquet", parquet_bytes(text=["a"])[:-9], {}, "not a whole Parquet"),
    "parquet of bytes": (
        "d.parquet",
        parquet_bytes(text=[b"a"]),
        {},
        'Column "text" of .*d.parquet holds binary, not text. Its columns: "text".',
    ),
    "parquet labels": (
        "d.parquet",
        parquet_bytes(text=["a"], label=[1.5]),
        {},
        'Column "label" of .* holds double, not labels',
    ),
    "fasttext has no columns": (
        "d.ft",
        "a\n",
        {"label": "x"},
        r"\(fasttext\) has no columns, so no",
    ),
    "a file is no folder": ("d.csv", "text\na\n", {"format": "folder"}, "is a file; it cannot be"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_file_that_cannot_be_read_says_why(tmp_path, case):
    name, content, options, message = ERRORS[case]
    path = put(tmp_path / name, content)
    if case.endswith("gzip"):
        path = path.rename(tmp_path / (name + ".gz"))
        path.write_bytes(content if content else b"text\na\n")
    with pytest.raises(CorpusError, match=message):
        Corpus(path, **options).read()


def test_damaged_pages_of_parquet(tmp_path):
    data = bytearray(parquet_bytes(text=[os.urandom(50).hex() for _ in range(100)]))
    data[100:4000] = os.urandom(3900)
    with pytest.raises(CorpusError, match="is not a whole Parquet file"):
        Corpus(put(tmp_path / "d.parquet", bytes(data))).read()


def test_a_missing_file_suggests_its_neighbours(tmp_path):
    put(tmp_path / "documents.csv", "text\na\n")
    with pytest.raises(
        CorpusError, match=r"no file .*document.csv. Did you mean \".*documents.csv"
    ):
        Corpus(tmp_path / "document.csv")
    with pytest.raises(CorpusError, match=r"There is no file .*zzz\.$"):
        Corpus(tmp_path / "zzz")
    with pytest.raises(CorpusError, match=r"there is no folder .*nowhere"):
        Corpus(tmp_path / "nowhere" / "d.csv")


def test_folders_that_cannot_be_read(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    put(tmp_path / "a" / ".hidden", "x")
    with pytest.raises(CorpusError, match=r"The folder .*a has no files in it"):
        Corpus(tmp_path / "a")
    put(tmp_path / "a" / "x.txt", "x")
    with pytest.raises(CorpusError, match='is a folder; it cannot be read as "csv"'):
        Corpus(tmp_path / "a", format="csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path):
    put(tmp_path / "d.csv", "text\na\n").chmod(0)
    with pytest.raises(CorpusError, match=r"Cannot read .*d.csv: Permission denied"):
        Corpus(tmp_path / "d.csv")
    (make_folder(tmp_path / "docs") / "art").chmod(0)
    with pytest.raises(CorpusError, match=r"Cannot read the folder .*art: Permission denied"):
        Corpus(tmp_path / "docs").read()


def test_a_file_that_goes_away(tmp_path):
    path = put(tmp_path / "d.csv", "text\na\n")
    corpus = Corpus(path)
    path.unlink()
    with pytest.raises(CorpusError, match=r"Cannot read .*d.csv: No such file"):
        corpus.read()


# ---- writing back -------------------------------------------------------------------------------


def classify(corpus: Corpus, target, **options) -> None:
    with open_writer(target, corpus, ["label", "probability"], **options) as writer:
        for batch in corpus.batches():
            n = len(batch.texts)
            writer.write(batch, {"label": ["new"] * n, "probability": [1e-7] * n})


MORE = "id,Label,text,note\n1,old,one,x\n2,,two,\n"


def test_the_output_has_the_format_and_the_columns_of_the_input(tmp_path):
    path = put(tmp_path / "in.csv", MORE.replace(",", ";"))
    classify(Corpus(path), tmp_path / "out")
    assert (tmp_path / "out").read_text() == (
        "id;Label;text;note;probability\n1;new;one;x;0.0000001\n2;new;two;;0.0000001\n"
    )
    classify(Corpus(path), tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text().startswith("id\tLabel\ttext\tnote\tprob")
    classify(Corpus(path), tmp_path / "out.jsonl.gz")
    first = gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).decode().splitlines()[0]
    assert first == (
        '{"id": "1", "Label": "new", "text": "one", "note": "x", "probability": 0.0000001}'
    )
    classify(Corpus(path), tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_text() == "__label__new one\n__label__new two\n"
    classify(Corpus(path), path)  # over the input itself
    assert path.read_text() == (tmp_path / "out").read_text()


def test_json_keeps_values_of_all_types(tmp_path):
    rows = [{"text": "a", "n": 1, "x": [1, {"y": None}], "é": True}, {"text": "b", "late": 1.5}]
    corpus = Corpus(put(tmp_path / "d.jsonl", jsonl(rows)), batch_size=1)
    classify(corpus, tmp_path / "out.jsonl")
    out = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert out == [
        {**rows[0], "late": None, "label": "new", "probability": 1e-7},
        {"text": "b", "n": None, "x": None, "é": None, "late": 1.5, "label": "new"}
        | {"probability": 1e-7},
    ]
    classify(corpus, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text("utf-8") == (
        "text,n,x,é,late,label,probability\n"
        'a,1,"[1, {""y"": null}]",true,,new,0.0000001\nb,,,,1.5,new,0.0000001\n'
    )


def test_a_key_that_comes_late_is_in_the_header(tmp_path):
    rows = [{"text": f"t{i}"} for i in range(1500)] + [{"text": "z", "late": "here"}]
    path = put(tmp_path / "d.jsonl", jsonl(rows))
    classify(Corpus(path), tmp_path / "out.csv")
    with open(tmp_path / "out.csv", newline="") as file:
        written = list(csv.reader(file))
    assert written[0] == ["text", "late", "label", "probability"]
    assert written[-1] == ["z", "here", "new", "0.0000001"]
    classify(Corpus(path, batch_size=1000), tmp_path / "out.jsonl")
    assert '"late": "here"' in (tmp_path / "out.jsonl").read_text().splitlines()[-1]


def test_parquet_keeps_the_types_of_columns(tmp_path):
    table = pa.table(
        {
            "text": pa.array(["a", "b", " "], pa.large_string()),
            "label": pa.array([1, None, 2], pa.int32()),
            "when": pa.array([1, None, 3], pa.timestamp("ns")),
            "vector": pa.array([[0.5], [1.5], []], pa.list_(pa.float32())),
        }
    )
    pq.write_table(table, tmp_path / "d.parquet")
    corpus = Corpus(tmp_path / "d.parquet", skip_bad=True, batch_size=1)
    classify(corpus, tmp_path / "out.parquet")
    out = pq.read_table(tmp_path / "out.parquet")
    assert out.column_names == ["text", "label", "when", "vector", "probability"]
    for name in ("text", "when", "vector"):
        assert out.column(name).combine_chunks() == table.column(name).combine_chunks()[:2]
    assert out.column("label").to_pylist() == ["new", "new"]
    assert out.schema.field("probability").type == pa.float64()
    assert corpus.read().columns["vector"].to_pylist() == [[0.5], [1.5]]


def test_probabilities_are_numbers_in_parquet_even_where_there_are_none(tmp_path):
    old = pa.table({"text": ["a", "b"], "Probability_2": pa.array([None, None], pa.string())})
    pq.write_table(old, tmp_path / "d.parquet")
    corpus = Corpus(tmp_path / "d.parquet", batch_size=1)
    added = ["label", "probability", "probability_2", "label_2", "probability_3", "probability_of"]
    with open_writer(tmp_path / "out.parquet", corpus, added) as writer:
        for values in (["x", 1.0, *[None] * 4], ["y", 1, 0.5, "x", None, None]):
            batch = Batch(["t"], [()], ["1"], [1], {"text": ["t"]})
            writer.write(batch, dict(zip(added, [[value] for value in values])))
    out = pq.read_table(tmp_path / "out.parquet")
    assert dict(zip(out.column_names, map(str, out.schema.types))) == {
        "text": "string",
        "Probability_2": "double",
        "label": "string",
        "probability": "double",
        "label_2": "string",
        "probability_3": "double",
        "probability_of": "string",
    }
    assert out["Probability_2"].to_pylist() == [None, 0.5]
    with open_writer(tmp_path / "words.parquet", corpus, ["probability"]) as writer:
        writer.write(corpus.read(), {"probability": ["high", "low"]})
    assert pq.read_table(tmp_path / "words.parquet")["probability"].to_pylist() == ["high", "low"]


@pytest.mark.parametrize("name", ["d.jsonl", "d.parquet"])
def test_a_cell_without_a_label_stays_where_none_is_added(tmp_path, name):
    rows = [{"text": text, "labels": one} for text, one in zip("abc", [[], None, ["x"]])]
    if name == "d.jsonl":
        put(tmp_path / name, jsonl(rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    corpus = Corpus(tmp_path / name)

    def written(labels: list) -> list:
        with open_writer(tmp_path / f"out-{name}", corpus, ["labels"]) as writer:
            writer.write(corpus.read(), {"labels": labels})
        return Corpus(tmp_path / f"out-{name}").read().columns["labels"]

    assert written([None, None, ["y"]]) == [[], None, ["y"]]
    assert written([None, None, None]) == [[], None, None]  # a label that is taken away
    strings = [None, "new", "z"] if name == "d.jsonl" else [None, ["new"], ["z"]]
    assert written([None, "new", "z"]) == strings


def test_json_of_several_types_does_not_fit_parquet(tmp_path):
    rows = [{"text": "a", "n": 1, "nothing": None}, {"text": "b", "n": "two"}]
    corpus = Corpus(put(tmp_path / "d.jsonl", jsonl(rows)), batch_size=1)
    with pytest.raises(
        CorpusError, match=r'Column "n" holds values of several types.*Write .jsonl'
    ):
        classify(corpus, tmp_path / "out.parquet")
    assert os.listdir(tmp_path) == ["d.jsonl"]
    del rows[1]["n"]
    corpus = Corpus(put(tmp_path / "d.jsonl", jsonl(rows)), batch_size=1)
    classify(corpus, tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column("n").to_pylist() == [1, None]


def test_a_folder_and_lines_are_written_as_csv_or_fasttext(tmp_path):
    classify(Corpus(make_folder(tmp_path / "docs")), tmp_path / "out")
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines[:2] == ["id,text,label,probability", "loose.txt,who knows,new,0.0000001"]
    path = put(tmp_path / "d.ft", "__label__a one\ntwo\n")
    classify(Corpus(path), tmp_path / "out")
    assert (tmp_path / "out").read_text().splitlines()[1] == "1,one,new,0.0000001"
    corpus = Corpus(path)
    with open_writer(tmp_path / "out.ft", corpus, ["label"]) as writer:
        for batch in corpus.batches():
            writer.write(batch, {"label": [["two words", "b"], None]})
    assert (tmp_path / "out.ft").read_text() == "__label__two_words __label__b one\ntwo\n"
    topics = Corpus(put(tmp_path / "d.csv", "text,topic\none,\n"), label="topic")
    with open_writer(tmp_path / "out.ft", topics, ["topic"]) as writer:
        writer.write(topics.read(), {"topic": ["a"]})
    assert (tmp_path / "out.ft").read_text() == "__label__a one\n"
    with (
        pytest.raises(CorpusError, match="fastText lines need a column called label"),
        open_writer(tmp_path / "out.ft", corpus, ["score"]),
    ):
        pass


def test_values_of_every_type_become_cells(tmp_path):
    values = [
        np.float32(0.1),
        np.float64(1e22),
        np.int64(3),
        float("nan"),
        None,
        ("a", "b"),
        {"k": "é"},
        datetime(2020, 1, 2),
        np.bool_(True),
        "lone \r end",
        "half \ud800",
    ]
    corpus = Corpus(put(tmp_path / "d.csv", "text\n" + "x\n" * len(values)))
    for name in ("out.csv", "out.jsonl"):
        with open_writer(tmp_path / name, corpus, ["v"]) as writer:
            writer.write(corpus.read(), {"v": values})
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        cells = [row[1] for row in csv.reader(file)][1:]
    assert cells == [
        "0.1",
        "10000000000000000000000",
        "3",
        "",
        "",
        "a;b",
        '{"k": "é"}',
        "2020-01-02 00:00:00",
        "true",
        "lone \r end",
        "half \\ud800",
    ]
    lines = (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
    assert json.loads(lines[1])["v"] == 1e22
    assert "e+" not in lines[1]
    assert json.loads(lines[3])["v"] is None
    assert json.loads(lines[10])["v"] == "half \ud800"


@given(
    st.integers(1, 3).flatmap(
        lambda n: st.lists(st.lists(st.text('a ,;"\t\r\n雪', max_size=5), min_size=n, max_size=n))
    ),
    st.sampled_from(",;\t"),
)
def test_csv_is_what_the_csv_module_reads(rows, delimiter):
    written = csv_bytes(rows, delimiter).decode()
    assert (
        list(csv.reader(io.StringIO(written, newline=""), delimiter=delimiter, strict=True)) == rows
    )


def test_standard_output(tmp_path, capfdbinary):
    classify(Corpus(put(tmp_path / "in.csv", MORE)), "-")
    assert capfdbinary.readouterr().out.startswith(b"id,Label,text,note,probability\n1,new,one,x,")
    classify(Corpus(write_rows(tmp_path / "in.parquet", ROWS)), "-")
    out = pq.read_table(io.BytesIO(capfdbinary.readouterr().out))
    assert out.column("label").to_pylist() == ["new"] * 3
    classify(Corpus(tmp_path / "in.csv"), "-", format="jsonl")
    assert capfdbinary.readouterr().out.startswith(b'{"id": "1"')


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz", "out.parquet", "out.jsonl"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_half_written_is_left(tmp_path, name, error):
    corpus = Corpus(put(tmp_path / "in.csv", MORE), batch_size=1)
    target = put(tmp_path / "old", "precious").rename(tmp_path / name)

    def interrupted():
        with open_writer(target, corpus, ["label"]) as writer:
            for batch in corpus.batches():
                writer.write(batch, {"label": ["x"]})
                raise error("stop")

    with pytest.raises(error, match="stop"):
        interrupted()
    assert target.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["in.csv", name]


def test_an_output_that_cannot_be_written_is_found_out_before_the_work(tmp_path):
    corpus = Corpus(put(tmp_path / "in.csv", MORE))
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    put(tmp_path / "read-only.csv", "precious").chmod(0o444)
    for target, message in {
        tmp_path / "no" / "out.csv": "Cannot write .*out.csv: there is no folder .*no. Make it",
        tmp_path / "read-only.csv": "Cannot write .*read-only.csv: the file is read-only. Choose",
        locked / "out.csv": "Cannot write .*out.csv: its folder is read-only",
        tmp_path: "it is a folder. Name a file in it",
    }.items():
        with pytest.raises(OutputError, match=message), open_writer(target, corpus, ["label"]):
            raise AssertionError("the work has begun")
    assert (tmp_path / "read-only.csv").read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "locked", "read-only.csv"]
    with (
        pytest.raises(CorpusError, match=r'Cannot write the format "xml". Formats: csv, tsv'),
        open_writer(tmp_path / "out", corpus, ["label"], format="xml"),
    ):
        pass
    with (
        pytest.raises(CorpusError, match="Parquet is compressed inside"),
        open_writer(tmp_path / "out.parquet.gz", corpus, ["label"]),
    ):
        pass


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("format", ["csv", "parquet", "jsonl"])
def test_a_full_disk(tmp_path, format):
    corpus = Corpus(put(tmp_path / "in.csv", "text\n" + "word " * 100_000 + "\n"))
    with pytest.raises(OutputError, match="Cannot write /dev/full: No space left on device"):
        classify(corpus, "/dev/full", format=format)
    classify(corpus, "/dev/null", format=format)
    assert not os.path.isfile("/dev/null")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_standard_output_on_a_full_disk(tmp_path, monkeypatch):
    corpus = Corpus(put(tmp_path / "in.csv", MORE))
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=full))
        with pytest.raises(OutputError, match="Cannot write standard output: No space left on"):
            classify(corpus, "-")


def test_bytes_that_are_no_text_cannot_go_into_csv(tmp_path):
    other = pa.array([b"caf\xe9"]).view(pa.string())
    pq.write_table(pa.table({"text": ["x"], "other": other}), tmp_path / "d.parquet")
    corpus = Corpus(tmp_path / "d.parquet")
    classify(corpus, tmp_path / "out.parquet")
    with pytest.raises(CorpusError, match=r"Cannot write .*out.csv: 'utf-8' codec can't decode"):
        classify(corpus, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_the_mode_of_a_file_and_links_stay(tmp_path):
    corpus = Corpus(put(tmp_path / "in.csv", MORE))
    put(tmp_path / "real.csv", "old").chmod(0o640)
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    classify(corpus, tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("id,Label")
    assert (tmp_path / "real.csv").stat().st_mode & 0o777 == 0o640
    umask = os.umask(0o022)
    classify(corpus, tmp_path / "new.csv")
    os.umask(umask)
    assert (tmp_path / "new.csv").stat().st_mode & 0o777 == 0o644


def test_the_values_must_fit_the_batch(tmp_path):
    corpus = Corpus(put(tmp_path / "in.csv", MORE))
    with open_writer(tmp_path / "out.csv", corpus, ["label"]) as writer:
        with pytest.raises(CorpusError, match="opened for the columns label; it was given score"):
            writer.write(corpus.read(), {"score": [1, 2]})
        with pytest.raises(CorpusError, match='Column "label" has 1 values for 2 documents'):
            writer.write(corpus.read(), {"label": ["x"]})


@pytest.mark.parametrize("late", [1, 1.5, "one", [1], {"n": 1}, True])
def test_a_key_of_json_that_comes_late_has_its_type_in_parquet(tmp_path, late):
    path, out = tmp_path / "docs.jsonl", tmp_path / "out.parquet"
    rows = [{"text": f"a cat {i}"} for i in range(2500)]
    rows[2400]["late"], rows[7]["number"], rows[2000]["number"] = late, 1, 0.5
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = Corpus(path, batch_size=1000)
    with open_writer(out, corpus, ["label"]) as writer:
        for batch in corpus.batches():
            writer.write(batch, {"label": ["cats"] * len(batch.texts)})
    found = pq.read_table(out).to_pylist()
    assert [row["late"] for row in found] == [None] * 2400 + [late] + [None] * 99
    assert (found[7]["number"], found[2000]["number"]) == (1.0, 0.5)


def test_a_key_of_json_of_several_types_is_refused_in_parquet(tmp_path):
    path = tmp_path / "docs.jsonl"
    rows = [{"text": f"a cat {i}", "odd": "one" if i > 1500 else i} for i in range(2500)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = Corpus(path, batch_size=1000)
    first, second, _ = corpus.batches()
    message = 'Column "odd" holds values of several types, and Parquet one type a column'
    with open_writer(tmp_path / "out.parquet", corpus, ["label"]) as writer:
        writer.write(first, {"label": ["cats"] * len(first.texts)})
        with pytest.raises(CorpusError, match=message):
            writer.write(second, {"label": ["cats"] * len(second.texts)})
