import csv
import heapq
import inspect
import json
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import Bunch

from leafwise import datasets, stdlib_tree
from leafwise.datasets import (
    Dataset,
    load_20newsgroups,
    load_directory,
    load_reuters,
    load_stdlib,
    split_message,
)
from leafwise.exceptions import CorpusError
from leafwise.taxonomy import Taxonomy

TREE = Taxonomy.from_paths(["a/x", "a/y", "b"])


@pytest.fixture(scope="session")
def newsgroups_19997(data_dir):
    return load_20newsgroups(data=data_dir)


@pytest.fixture(scope="session")
def newsgroups_18828(data_dir):
    return load_20newsgroups("18828", fields="all", groups=20, data=data_dir)


@pytest.fixture(scope="session")
def reuters(data_dir):
    return load_reuters(data=data_dir)


# ---- Dataset ------------------------------------------------------------------------------------


@pytest.fixture
def small():
    return Dataset(
        texts=["one", "two", "three"],
        labels=["a/x", "b", "a"],
        taxonomy=TREE,
        ids=["1", "2", "3"],
        split=np.array(["train", "test", "train"]),
        name="small",
        description="Three documents.",
    )


@pytest.mark.parametrize("rows", [[True, False, True], np.array([0, 2]), [0, -1], np.r_[0:3:2]])
def test_subset_takes_masks_and_indices(small, rows):
    part = small.subset(rows)
    assert (part.texts, part.labels, part.ids) == (["one", "three"], ["a/x", "a"], ["1", "3"])
    assert part.split.tolist() == ["train", "train"]
    assert part.taxonomy is small.taxonomy
    assert len(small) == 3


@pytest.mark.parametrize("rows", [[], np.array([]), np.zeros(3, bool)])
def test_subset_may_be_empty(small, rows):
    assert len(small.subset(rows)) == 0


def test_subset_without_split_and_with_several_labels():
    whole = Dataset(["one", "two"], [("a", "b"), ("b",)], TREE, ["1", "2"], None, "n", "d")
    part = whole.subset([1])
    assert part.labels == [("b",)]
    assert part.split is None


@pytest.mark.parametrize("rows", [[True, False], [3], [0.5]])
def test_subset_of_rows_that_are_not_there(small, rows):
    with pytest.raises(CorpusError, match="indices below 3 or a mask with one entry per document"):
        small.subset(rows)


def test_repr_says_what_is_in_it(small):
    assert repr(small) == "<Dataset small: 3 documents, 5 nodes, 3 leaves, 1 test, 2 train>"


# ---- the standard library -----------------------------------------------------------------------


@pytest.fixture(scope="session")
def stdlib():
    return load_stdlib()


@pytest.fixture(scope="session")
def bare_stdlib():
    return load_stdlib(names=False)


def test_stdlib_has_the_size_of_a_demo(stdlib):
    tree = stdlib.taxonomy
    assert 3500 < len(stdlib) < 6500
    assert 180 < len(tree.leaves) < 260
    assert 25 < len(tree.children(0)) <= len(stdlib_tree.SECTIONS)


def test_stdlib_labels_are_the_leaves(stdlib):
    tree = stdlib.taxonomy
    assert set(tree.indices(stdlib.labels)) == set(tree.leaves)
    assert set(tree.depth[tree.leaves]) == {2}
    assert stdlib.split is None


def test_stdlib_documents_are_unique(stdlib, bare_stdlib):
    assert len(set(stdlib.ids)) == len(stdlib)
    for found in stdlib, bare_stdlib:
        assert len(set(zip(found.labels, found.texts))) == len(found)


@pytest.mark.parametrize(
    ("name", "label", "value"),
    [
        ("textwrap:wrap", "Text Processing Services/textwrap", textwrap.wrap),
        ("heapq:", "Data Types/heapq", heapq),
        ("subprocess:Popen", "Concurrent Execution/subprocess", subprocess.Popen),
        ("inspect:Signature.bind", "Python Runtime Services/inspect", inspect.Signature.bind),
    ],
)
def test_stdlib_text_is_the_name_and_the_docstring(stdlib, bare_stdlib, name, label, value):
    row, docstring = stdlib.ids.index(name), inspect.getdoc(value).strip()
    assert bare_stdlib.texts[row] == docstring
    heading = "" if inspect.ismodule(value) else value.__qualname__ + "\n"
    assert stdlib.texts[row] == heading + docstring
    assert stdlib.labels[row] == label


def test_stdlib_names_change_nothing_but_the_headings(stdlib, bare_stdlib):
    assert stdlib.ids == bare_stdlib.ids
    assert stdlib.labels == bare_stdlib.labels
    assert stdlib.taxonomy == bare_stdlib.taxonomy
    assert stdlib.description.startswith("Names and docstrings of the running Python's standard")
    assert bare_stdlib.description.startswith("Docstrings of the running Python's standard")
    headings = Counter()
    for name, text, bare in zip(stdlib.ids, stdlib.texts, bare_stdlib.texts):
        _, _, qualname = name.partition(":")
        assert text == (f"{qualname}\n{bare}" if qualname else bare)
        headings[bool(qualname)] += 1
    assert headings[False] > 100  # modules
    assert headings[True] > 3000


def test_stdlib_headings_do_not_make_documents(tmp_path, monkeypatch):
    long = "One two three four five six seven eight"
    (tmp_path / "json").mkdir()
    (tmp_path / "json" / "__init__.py").write_text(
        f"'{long} nine'\n"
        f"def f():\n    '{long}'\n"
        f"class A:\n    def other_name(self):\n        '{long}'\n"  # has been
        f"def a_name_of_many_long_words():\n    '{long[4:]}'\n"  # too short
        f"class B:\n    class C:\n        '{long} ten'\n"
    )
    docstrings = stdlib_tree.docstrings
    monkeypatch.setattr(stdlib_tree, "COMPILED", {})
    monkeypatch.setattr(stdlib_tree, "docstrings", lambda: docstrings(tmp_path))
    found, bare = load_stdlib(), load_stdlib(names=False)
    assert found.ids == bare.ids == ["json:", "json:f", "json:B.C"]
    assert found.labels == bare.labels == ["Internet Data Handling/json"] * 3
    assert found.texts == [f"{long} nine", f"f\n{long}", f"B.C\n{long} ten"]
    assert bare.texts == [f"{long} nine", long, f"{long} ten"]


@pytest.mark.parametrize(
    ("prefix", "label"),
    [
        ("json.decoder:", "Internet Data Handling/json"),
        ("email.message:", "Internet Data Handling/email.message"),
        ("email.mime.nonmultipart:", "Internet Data Handling/email.mime"),
        ("concurrent.futures.thread:", "Concurrent Execution/concurrent.futures"),
        ("xml.etree.ElementTree:", "Structured Markup Processing Tools/xml.etree.ElementTree"),
        ("posixpath:", "File and Directory Access/os.path"),
        ("_pydecimal:", "Numeric and Mathematical Modules/decimal"),
        ("itertools:", "Functional Programming Modules/itertools"),
        ("unittest.mock:", "Development Tools/unittest.mock"),
    ],
)
def test_stdlib_submodules_go_to_the_entry_that_the_reference_has(stdlib, prefix, label):
    labels = {la for name, la in zip(stdlib.ids, stdlib.labels) if name.startswith(prefix)}
    assert labels == {label}


def test_stdlib_leaves_out_private_names_and_test_packages(stdlib):
    for name in stdlib.ids:
        module, _, qualname = name.partition(":")
        assert not any(part.startswith("_") for part in qualname.split("."))
        assert not {"test", "tests", "idlelib", "lib2to3", "__main__"} & set(module.split("."))


def test_stdlib_keywords_are_words_of_titles_and_names(stdlib):
    tree = stdlib.taxonomy
    assert tree.keywords[tree.index("zipfile")] == ("zipfile", "zip", "file")
    assert tree.keywords[tree.index("urllib.request")] == ("urllib", "request")
    assert tree.keywords[tree.index("_thread")] == ("thread",)
    assert tree.keywords[tree.index("File and Directory Access")] == ("file", "directory", "access")
    assert all(tree.keywords[1:])


def test_stdlib_table_names_modules_that_exist():
    modules = [m for section in stdlib_tree.sections().values() for m in section]
    assert len(modules) == len(set(modules))
    newer = {"annotationlib", "compression"}  # since 3.14
    assert {m.split(".")[0] for m in modules} - sys.stdlib_module_names <= newer
    assert set(stdlib_tree.COMPILED.values()) | set(stdlib_tree.SOURCES.values()) <= set(modules)


def test_stdlib_is_the_same_in_another_process_and_runs_no_module(stdlib):
    script = """
import json, sys
from leafwise.datasets import load_stdlib
found = load_stdlib()
modules = {"tkinter", "turtle", "antigravity", "this", "cgi", "sqlite3"} & set(sys.modules)
json.dump([found.ids, found.labels, found.texts, sorted(modules)], sys.stdout)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert json.loads(run.stdout) == [stdlib.ids, stdlib.labels, stdlib.texts, []]


def test_stdlib_without_source_files(tmp_path):
    with pytest.raises(CorpusError, match=r"no standard library source files in .* with its .py"):
        list(stdlib_tree.docstrings(tmp_path))


def test_short_and_repeated_docstrings_are_no_documents(tmp_path):
    long = "One two three four five six seven eight"
    (tmp_path / "json" / "tests").mkdir(parents=True)
    (tmp_path / "json" / "__init__.py").write_text(
        f"def f():\n    '{long}'\ndef g():\n    '{long[4:]}'\ndef f():\n    '{long} nine'\n"
    )
    (tmp_path / "json" / "decoder.py").write_text(f"def again():\n    '{long}'\n")
    (tmp_path / "json" / "tests" / "test_f.py").write_text(f"'{long} ten'\n")
    (tmp_path / "code.py").write_text(f"'{long}'\n")
    found = list(stdlib_tree.docstrings(tmp_path))
    compiled = {f"{name}:" for name in stdlib_tree.COMPILED}
    assert [row for row in found if row[1].partition(":")[0] + ":" not in compiled] == [
        ("code", "code:", long),
        ("json", "json:f", long),
    ]


def test_docstrings_of_a_source_file(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(
        '"""Module."""\n'
        "class A:\n"
        '    """Class."""\n'
        "    class B:\n"
        '        """Nested."""\n'
        "    def f(self):\n"
        '        """Method."""\n'
        "        def inner():\n"
        '            """Not public."""\n'
        "    def _g(self):\n"
        '        """Private."""\n'
        "    def undocumented(self): pass\n"
        "try:\n"
        "    async def h():\n"
        '        """Under a condition."""\n'
        "except ImportError:\n"
        "    def k():\n"
        '        """In the other branch."""\n'
    )
    assert list(stdlib_tree._source_docstrings(file)) == [
        ("", "Module."),
        ("A", "Class."),
        ("A.B", "Nested."),
        ("A.f", "Method."),
        ("h", "Under a condition."),
        ("k", "In the other branch."),
    ]


# ---- where the data is --------------------------------------------------------------------------

LOADERS = [
    (load_20newsgroups, "20news_19997.parquet"),
    (load_reuters, "reuters21578.parquet"),
    (lambda **kwargs: load_directory("python", **kwargs), "directory.parquet"),
]


@pytest.mark.parametrize(("load", "file"), LOADERS)
def test_no_data_directory(monkeypatch, load, file):
    monkeypatch.delenv("LEAFWISE_DATA", raising=False)
    with pytest.raises(CorpusError, match=f"{file} is needed.*data=.*LEAFWISE_DATA"):
        load()


@pytest.mark.parametrize(("load", "file"), LOADERS)
def test_file_is_not_in_the_directory(monkeypatch, tmp_path, load, file):
    with pytest.raises(CorpusError, match=f"{file} is not in the data directory"):
        load(data=tmp_path)
    monkeypatch.setenv("LEAFWISE_DATA", str(tmp_path))
    with pytest.raises(CorpusError, match=f"{file} is not in the data directory"):
        load()


def test_damaged_and_foreign_files(tmp_path):
    (tmp_path / "directory.parquet").write_bytes(b"PAR1 this is not Parquet")
    with pytest.raises(CorpusError, match=r"directory\.parquet cannot be read as Parquet"):
        load_directory("all", tmp_path)
    pq.write_table(pa.table({"id": ["1"], "path": ["a"]}), tmp_path / "directory.parquet")
    with pytest.raises(CorpusError, match="has no column 'title'; expected id, title"):
        load_directory("all", tmp_path)


# ---- 20 Newsgroups ------------------------------------------------------------------------------

MESSAGE = (
    "Path: a!b!c\n"
    "From: ann@example.org\n"
    "Newsgroups: rec.autos,\n"
    "\trec.motorcycles\n"
    "Subject: Engines\n"
    " \n"
    "Organization: A\x85 \x0cClub\r\n"
    "Lines: 3\n"
    "Lines: 4\n"
    "\n"
    "From: not a header\n\nLast line.\n"
)


def test_split_message():
    headers, body = split_message(MESSAGE)
    assert headers == [
        ("Path", "a!b!c"),
        ("From", "ann@example.org"),
        ("Newsgroups", "rec.autos, rec.motorcycles"),
        ("Subject", "Engines"),
        ("Organization", "A\x85 \x0cClub"),
        ("Lines", "3"),
        ("Lines", "4"),
    ]
    assert body == "From: not a header\n\nLast line.\n"


@pytest.mark.parametrize(
    ("text", "headers", "body"),
    [
        ("", [], ""),
        ("No header here: none\n", [], "No header here: none\n"),
        ("Subject: only", [("Subject", "only")], ""),
        ("Subject:\n\nbody", [("Subject", "")], "body"),
        ("Subject: a\r\n\r\nbody\r\n", [("Subject", "a")], "body\r\n"),
        ("Subject: a\nno blank line\nbody", [("Subject", "a")], "no blank line\nbody"),
        ("\n\nbody", [], "\nbody"),
    ],
)
def test_split_message_at_the_edges(text, headers, body):
    assert split_message(text) == (headers, body)


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"[A-Za-z][A-Za-z-]{0,10}", fullmatch=True),
            st.text(st.characters(max_codepoint=255, exclude_characters="\n\r \t"), max_size=10),
        )
    ),
    st.text(st.characters(max_codepoint=255)),
)
def test_split_message_undoes_writing_one(headers, body):
    text = "".join(f"{name}: {value}\n" for name, value in headers) + "\n" + body
    assert split_message(text) == (headers, body)


def newsgroups(tmp_path, messages, groups):
    ids = [f"{group}/{i}" for i, group in enumerate(groups)]
    table = pa.table({"id": ids, "text": messages, "label": groups})
    pq.write_table(table, tmp_path / "20news_19997.parquet")
    return tmp_path


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("subject+body", "Engines\nFrom: not a header\n\nLast line.\n"),
        ("body", "From: not a header\n\nLast line.\n"),
        ("lines+from", "3\n4\nann@example.org"),
        ("newsgroups", "rec.autos, rec.motorcycles"),
        ("all", MESSAGE),
        (
            "headers",
            "From: ann@example.org\nSubject: Engines\nOrganization: A\x85 \x0cClub\n"
            "Lines: 3\nLines: 4",
        ),
    ],
)
def test_newsgroup_fields(tmp_path, fields, expected):
    directory = newsgroups(tmp_path, [MESSAGE, "Subject: x\n\nSky"], ["rec.autos", "sci.space"])
    found = load_20newsgroups(fields=fields, data=directory)
    assert found.texts == [expected]
    assert found.labels == ["motors/rec.autos"]
    assert found.ids == ["rec.autos/0"]


def test_newsgroup_trees(tmp_path):
    directory = newsgroups(tmp_path, ["Subject: x\n\nSky"], ["sci.space"])
    assert len(load_20newsgroups(data=directory)) == 0
    found = load_20newsgroups(groups=20, data=directory)
    tree = found.taxonomy
    assert found.labels == ["science/sci.space"]
    assert [tree.names[i] for i in tree.children(0)] == [
        "computers",
        "miscellaneous",
        "motors",
        "politics",
        "religion",
        "science",
        "sports",
    ]
    assert tree.keywords[tree.index("comp.windows.x")] == ("motif", "x11", "xterm")
    assert len(tree.leaves) == 20


def test_newsgroup_keywords_come_from_the_file_where_there_is_one(tmp_path):
    directory = newsgroups(tmp_path, ["Subject: x\n\nSky"], ["rec.autos"])
    (directory / "newsgroups15.csv").write_text("path,keywords\nmotors/rec.autos,wheel road\n")
    tree = load_20newsgroups(data=directory).taxonomy
    assert tree.keywords[tree.index("rec.autos")] == ("wheel", "road")
    assert tree.keywords[tree.index("rec.sport.hockey")] == ("hockey",)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"version": "20000"}, "version must be '19997' or '18828', not '20000'"),
        ({"groups": 5}, "groups must be 15 or 20, not 5"),
        ({"fields": "all+body"}, 'expected "all" alone'),
        ({"fields": "subject+"}, "fields='subject\\+'"),
        ({"fields": "subjct+body"}, "No message has the header 'subjct'"),
        ({"fields": "Subject"}, "in lower case"),
    ],
)
def test_newsgroup_errors(tmp_path, arguments, message):
    directory = newsgroups(tmp_path, ["Subject: x\n\nSky"], ["rec.autos"])
    with pytest.raises(CorpusError, match=message):
        load_20newsgroups(data=directory, **arguments)


def test_newsgroups_say_that_scikit_learn_can_download(tmp_path):
    with pytest.raises(CorpusError, match=r"let scikit-learn download .* download=True"):
        load_20newsgroups(data=tmp_path)


@pytest.mark.filterwarnings("ignore:Retry downloading")
def test_download_that_fails(tmp_path, monkeypatch):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    for name in ("https_proxy", "http_proxy"):  # a port where nothing listens
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(CorpusError, match=r"could not download 20 Newsgroups .* Check the network"):
        load_20newsgroups(data=tmp_path, download=True)


def test_conversion_of_what_scikit_learn_downloads():
    root = Path("home", "20news_home")
    bunch = Bunch(
        data=["From: a\n\nx", "From: b\n\ny"],
        target=np.array([1, 0]),
        target_names=["alt.atheism", "sci.space"],
        filenames=np.array(
            [
                str(root / "20news-bydate-train" / "sci.space" / "61"),
                str(root / "20news-bydate-test" / "alt.atheism" / "53"),
            ]
        ),
    )
    ids, texts, labels, split = datasets._from_bunch(bunch)
    assert ids == ["sci.space/61", "alt.atheism/53"]
    assert texts == ["From: a\n\nx", "From: b\n\ny"]
    assert labels == ["sci.space", "alt.atheism"]
    assert split.tolist() == ["train", "test"]


def test_newsgroups_19997(newsgroups_19997):
    tree = newsgroups_19997.taxonomy
    assert len(newsgroups_19997) == len(set(newsgroups_19997.ids)) == 14_997
    assert set(tree.indices(newsgroups_19997.labels)) == set(tree.leaves)
    assert len(tree.leaves) == 15


def test_newsgroups_18828(newsgroups_18828):
    tree, labels = newsgroups_18828.taxonomy, newsgroups_18828.labels
    assert len(newsgroups_18828) == len(set(newsgroups_18828.ids)) == 18_828
    assert set(tree.indices(labels)) == set(tree.leaves)
    assert len(tree.leaves) == 20
    assert sum(not label.startswith(("science/", "misc")) for label in labels) == 13_907


def test_newsgroup_headers_that_give_the_label_away_are_left_out(data_dir):
    found = load_20newsgroups(fields="headers", data=data_dir)
    names = Counter(line.partition(":")[0] for text in found.texts for line in text.split("\n"))
    assert names["From"] == names["Subject"] == 14_997
    assert not {"newsgroups", "path", "xref"} & {name.lower() for name in names}


def test_newsgroups_18828_have_both_headers_in_either_order(newsgroups_18828):
    assert sum(text.startswith("Subject:") for text in newsgroups_18828.texts) == 529
    for text in newsgroups_18828.texts:
        headers, body = split_message(text)
        assert {name for name, _ in headers} == {"From", "Subject"}
        assert text.endswith("\n\n" + body)


def test_newsgroup_table_holds_what_the_file_holds(data_dir):
    with (data_dir / "newsgroups15.csv").open(newline="") as stream:
        rows = {row["path"]: row["keywords"] for row in csv.DictReader(stream)}
    assert rows == datasets.NEWSGROUPS_15


# ---- Reuters ------------------------------------------------------------------------------------


def test_reuters(reuters):
    found, tree = reuters, reuters.taxonomy
    assert Counter(found.split.tolist()) == {"train": 7_770, "test": 3_019}
    groups = {tree.names[i]: len(tree.children(i)) for i in tree.children(0)}
    assert groups == {"commodities": 44, "financial": 26, "metals": 12, "energy": 8}
    used = {label for labels in found.labels for label in labels}
    assert set(tree.indices(used)) == set(tree.leaves)
    assert found.labels[found.ids.index("1")] == ("commodities/cocoa",)
    assert found.texts[0].count("BAHIA COCOA REVIEW") == 1
    assert all(found.texts)
    # Each of the 90 has a document on both sides of the split.
    for side in ("train", "test"):
        part = found.subset(found.split == side)
        assert {label for labels in part.labels for label in labels} == used


def test_reuters_keywords_are_the_words_of_both_names(reuters):
    tree = reuters.taxonomy
    assert tree.keywords[tree.index("bop")] == ("bop", "balance", "payments")
    assert tree.keywords[tree.index("palm-oil")] == ("palm", "oil")
    assert tree.keywords[tree.index("energy")] == ("energy",)


def test_reuters_has_one_split():
    with pytest.raises(CorpusError, match="split must be 'modapte', not 'lewis'"):
        load_reuters("lewis")


# ---- the web directory --------------------------------------------------------------------------


def web_directory(tmp_path):
    rows = [
        ("Bruno", "Tests APIs.", "Platforms/Windows/API"),
        ("Zed", None, "Platforms/Windows"),
        (None, "An editor.", "Platforms/Windows/C\\"),
        ("Ed", "Edits.", "Platforms/Windows Phone"),
    ]
    title, description, path = zip(*rows)
    table = {"id": ["0", "1", "2", "3"], "title": title, "description": description, "path": path}
    pq.write_table(pa.table(table), tmp_path / "directory.parquet")
    return tmp_path


def test_directory_below_a_path(tmp_path):
    found = load_directory("Platforms/Windows", web_directory(tmp_path))
    assert found.texts == ["Tests APIs.\nBruno", "Zed", "An editor."]
    assert found.labels == ["API", "/", "C\\\\"]
    assert found.ids == ["0", "1", "2"]
    assert found.taxonomy.names == ("", "API", "C\\")


def test_whole_directory(tmp_path):
    found = load_directory("all", web_directory(tmp_path))
    assert len(found) == 4
    assert found.taxonomy.paths == (
        "/",
        "Platforms",
        "Platforms/Windows",
        "Platforms/Windows/API",
        "Platforms/Windows/C\\\\",
        "Platforms/Windows Phone",
    )


def test_directory_suggests_the_nearest_path(tmp_path):
    with pytest.raises(
        CorpusError, match=r"no path 'Platforms/Window'\. Did you mean 'Platforms/W"
    ):
        load_directory("Platforms/Window", web_directory(tmp_path))
    with pytest.raises(CorpusError, match=r"no path 'zzzz'\. Give one of its paths, 'all', or"):
        load_directory("zzzz", web_directory(tmp_path))


@pytest.mark.parametrize(
    ("name", "n_documents"),
    [
        ("python", 2165),
        ("macos", 2094),
        ("machine-learning", 1907),
        ("self-hosted", 1257),
        ("robotics", 938),
        ("kotlin", 727),
        ("osint", 672),
        ("bigdata", 642),
        ("all", 96_189),
    ],
)
def test_directories(data_dir, name, n_documents):
    found = load_directory(name, data_dir)
    assert len(found) == n_documents
    nodes = found.taxonomy.indices(found.labels)
    assert [found.taxonomy.paths[i] for i in nodes] == found.labels
    inner = np.setdiff1d(nodes, found.taxonomy.leaves)
    assert name != "all" or len(inner) > 100  # inner nodes hold documents too
