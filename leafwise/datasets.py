"""Corpora with their trees: the demo's, those of the papers, and synthetic ones (`synthetic`).

The papers' corpora are never part of the package. Their loaders read them from the directory
given as `data`, or else named by the environment variable ``LEAFWISE_DATA``.
"""

from __future__ import annotations

import csv
import dataclasses
import difflib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from leafwise.exceptions import CorpusError
from leafwise.synthetic import SyntheticCorpus, make_corpus
from leafwise.taxonomy import Taxonomy, join_path

__all__ = [
    "Dataset",
    "SyntheticCorpus",
    "load_20newsgroups",
    "load_directory",
    "load_reuters",
    "load_stdlib",
    "make_corpus",
]

# T table 1 with two or three keywords per node. newsgroups15.csv holds the same.
NEWSGROUPS_15 = {
    "computers": "computer computers",
    "computers/comp.graphics": "graphics image images",
    "computers/comp.os.ms-windows.misc": "windows microsoft",
    "computers/comp.sys.ibm.pc.hardware": "ibm pc hardware",
    "computers/comp.sys.mac.hardware": "mac apple hardware",
    "computers/comp.windows.x": "motif x11 xterm",
    "motors": "motor motors",
    "motors/rec.autos": "autos cars car",
    "motors/rec.motorcycles": "motorcycles motorcycle bike",
    "politics": "politics",
    "politics/talk.politics.guns": "guns gun",
    "politics/talk.politics.mideast": "mideast israel",
    "politics/talk.politics.misc": "politics government",
    "religion": "religion",
    "religion/alt.atheism": "atheism atheist",
    "religion/soc.religion.christian": "christian church",
    "religion/talk.religion.misc": "religion",
    "sports": "sport sports",
    "sports/rec.sport.baseball": "baseball",
    "sports/rec.sport.hockey": "hockey",
}
# Ours: T leaves these five groups out.
NEWSGROUPS_OTHER_5 = {
    "miscellaneous": "miscellaneous",
    "miscellaneous/misc.forsale": "sale sell",
    "science": "science scientific",
    "science/sci.crypt": "encryption crypto",
    "science/sci.electronics": "electronics circuit",
    "science/sci.med": "medical medicine",
    "science/sci.space": "space nasa",
}
# Headers that name the newsgroup, and so the label.
LABEL_HEADERS = frozenset({"newsgroups", "path", "xref"})

# T table 2. The scan reads "dfr" for dlr and "pet-them" for pet-chem; with the two put right it
# lists all 90 categories: 44, 26, 12 and 8 per group, though T's text says 50, 24, 9 and 7.
REUTERS_GROUPS = {
    "commodities": """barley carcass castor-oil cocoa coconut coconut-oil coffee copra-cake corn
        cotton cotton-oil grain groundnut groundnut-oil hog l-cattle lin-oil livestock lumber
        meal-feed oat oilseed orange palm-oil palmkernel pet-chem potato rape-oil rapeseed rice
        rubber rye ship sorghum soy-meal soy-oil soybean sugar sun-meal sun-oil sunseed tea
        veg-oil wheat""",
    "financial": """acq bop cpi cpu dfl dlr dmk earn gnp housing income instal-debt interest ipi
        jobs lei money-fx money-supply nkr nzdlr rand reserves retail trade wpi yen""",
    "metals": """alum copper gold iron-steel lead nickel palladium platinum silver
        strategic-metal tin zinc""",
    "energy": "crude fuel gas heat jet naphtha nat-gas propane",
}

# The eight taxonomies that stand in for those of V table 2.
DIRECTORIES = {
    "python": "Programming Languages/Python",
    "macos": "Platforms/macOS",
    "machine-learning": "Computer Science/Machine Learning",
    "self-hosted": "Miscellaneous/Self Hosted",
    "robotics": "Hardware/Robotic Tooling",
    "kotlin": "Programming Languages/Kotlin",
    "osint": "Theory/Osint",
    "bigdata": "Big Data/Bigdata",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset:
    """Documents with their true labels and the tree that the labels are in.

    Attributes
    ----------
    texts : the documents
    labels : one path per document, or a tuple of paths where documents have several
    taxonomy : the tree
    ids : one name per document, unique
    split : "train", "test" or "unused" per document, or None where the corpus has no split
    name, description : what it is, in a word and in a sentence or two
    """

    texts: list[str]
    labels: list[str] | list[tuple[str, ...]]
    taxonomy: Taxonomy
    ids: list[str]
    split: np.ndarray | None
    name: str
    description: str

    def __len__(self) -> int:
        return len(self.texts)

    def subset(self, rows: ArrayLike) -> Dataset:
        """The documents at some indices, or where a boolean mask is true; the same tree."""
        try:
            index = np.arange(len(self))[rows if np.size(rows) else []]  # type: ignore[index]
        except IndexError as error:
            raise CorpusError(
                f"Rows of this dataset are indices below {len(self)} or a mask with one entry "
                f"per document: {error}."
            ) from None
        labels: Any = [self.labels[i] for i in index]
        return dataclasses.replace(
            self,
            texts=[self.texts[i] for i in index],
            labels=labels,
            ids=[self.ids[i] for i in index],
            split=None if self.split is None else self.split[index],
        )

    def __repr__(self) -> str:
        tree = self.taxonomy
        parts = f"{len(self):,} documents, {len(tree):,} nodes, {len(tree.leaves):,} leaves"
        if self.split is not None:
            counts = zip(*np.unique(self.split, return_counts=True))
            parts += "".join(f", {n:,} {name}" for name, n in counts)
        return f"<Dataset {self.name}: {parts}>"


def load_stdlib(names: bool = True) -> Dataset:
    """The docstrings of the running Python's standard library, one document each.

    A label is "section/module" as in the table of contents of the library reference. Node
    keywords are the words of section titles and module names. Private names, very short
    docstrings and repetitions within a module are left out. How many documents there are
    depends on the Python version and the platform.

    Parameters
    ----------
    names : whether a docstring has a heading, as an entry of a reference manual has: the object's
        name within its module as it is written in code ("HTMLParser.handle_starttag"), on a line
        of its own. A module's own docstring has none, for its name is the label. Ids and labels
        are the same either way.
    """
    from leafwise import stdlib_tree

    contents = stdlib_tree.sections()
    paths = {
        module: join_path((section, module)) for section in contents for module in contents[section]
    }
    owners, ids, docstrings = zip(*stdlib_tree.docstrings())
    labels = [paths[module] for module in owners]
    present = set(labels)
    keywords: dict[str, Sequence[str]] = {}
    for section, modules in contents.items():
        used = {paths[name]: words for name, words in modules.items() if paths[name] in present}
        if used:
            keywords |= {join_path((section,)): stdlib_tree.section_words(section)} | used
    headings = [name.partition(":")[2] if names else "" for name in ids]
    return Dataset(
        texts=[f"{name}\n{text}" if name else text for name, text in zip(headings, docstrings)],
        labels=labels,
        taxonomy=Taxonomy.from_paths(keywords, keywords=keywords),
        ids=list(ids),
        split=None,
        name="stdlib",
        description=f"{'Names and docstrings' if names else 'Docstrings'} of the running Python's "
        "standard library under the sections and modules of the library reference.",
    )


def load_20newsgroups(
    version: str = "19997",
    fields: str = "subject+body",
    groups: int = 15,
    data: str | os.PathLike[str] | None = None,
    download: bool = False,
) -> Dataset:
    """20 Newsgroups (T, Z, G, E).

    Parameters
    ----------
    version : "19997", the original collection with all headers, or "18828", without duplicates
        and with only the headers From and Subject
    fields : the parts of a message to keep, joined by "+": names of headers in lower case (their
        values), "body", and "headers": every header line but Newsgroups, Path and Xref, which
        give the label away (Followup-To may do so too). Or "all": the raw message.
    groups : 15 for the tree of T table 1; 20 for all, with the parents "science" for the sci
        groups and "miscellaneous" for misc.forsale
    data : the directory with 20news_19997.parquet or 20news_18828.parquet
    download : where that file is not to be had, let scikit-learn download the 18,846 documents of
        the version "by date", which comes with a split and with fewer headers
    """
    _check("version", version, ("19997", "18828"))
    _check("groups", groups, (15, 20))
    extract = _message_reader(fields)
    keywords = {path: words.split() for path, words in NEWSGROUPS_15.items()}
    split: np.ndarray | None = None
    try:
        file = _data_file(f"20news_{version}.parquet", data)
    except CorpusError as error:
        if not download:
            raise CorpusError(
                f"{error} Or let scikit-learn download a similar version: download=True."
            ) from None
        ids, texts, labels, split = _from_bunch(_fetch_20newsgroups())
        version = "bydate"
        description = (
            '20 Newsgroups, the version "by date" that scikit-learn downloads: 18,846 documents '
            "without duplicates and without the headers that name the newsgroup, split by date. "
            "It is neither the 19,997 nor the 18,828 documents of the papers."
        )
    else:
        ids, texts, labels = _columns(file, "id", "text", "label")
        description = f"20 Newsgroups, the version of {version[:2]},{version[2:]} documents."
        keyword_file = file.with_name("newsgroups15.csv")
        if keyword_file.is_file():
            with keyword_file.open(encoding="utf-8", newline="") as stream:
                keywords |= {r["path"]: r["keywords"].split() for r in csv.DictReader(stream)}
    if groups == 20:
        keywords |= {path: words.split() for path, words in NEWSGROUPS_OTHER_5.items()}
        keywords = dict(sorted(keywords.items()))
    paths = {path.rpartition("/")[2]: path for path in keywords if "/" in path}
    rows = [i for i, label in enumerate(labels) if label in paths]
    return Dataset(
        texts=extract([texts[i] for i in rows]),
        labels=[paths[labels[i]] for i in rows],
        taxonomy=Taxonomy.from_paths(keywords, keywords=keywords),
        ids=[ids[i] for i in rows],
        split=None if split is None else split[rows],
        name=f"20newsgroups-{version}-{groups}",
        description=f"{description} {groups} groups; of each message: {fields}.",
    )


def load_reuters(split: str = "modapte", data: str | os.PathLike[str] | None = None) -> Dataset:
    """Reuters-21578: the documents with one or more of the 90 categories (T, E).

    The ModApte split: 7,770 training documents (as in E; T has 7,769) and 3,019 test documents.
    A label is a tuple of paths below the four groups of T table 2; a text is the title and the
    story. Keywords are the words of a category's short and long names.
    """
    _check("split", split, ("modapte",))
    file = _data_file("reuters21578.parquet", data)
    topics = json.loads(_data_file("reuters21578_topics.json", data).read_bytes())["topics"]
    paths = {
        topic: join_path((group, topic))
        for group, members in REUTERS_GROUPS.items()
        for topic in members.split()
    }
    keywords = {group: [group] for group in REUTERS_GROUPS} | {
        path: _name_words(f"{topic} {topics[topic]['name'] or ''}") for topic, path in paths.items()
    }
    rows = [
        row
        for row in zip(*_columns(file, "id", "title", "text", "aptemod90", "split"))
        if row[3] and row[4] in ("train", "test")
    ]
    return Dataset(
        # The story already begins with its title where it has one: once is enough.
        texts=[
            text if text.startswith(title or "") else f"{title}\n{text}"
            for _, title, text, _, _ in rows
        ],
        labels=[tuple(sorted(paths[topic] for topic in row[3])) for row in rows],
        taxonomy=Taxonomy.from_paths(keywords, keywords=keywords),
        ids=[str(row[0]) for row in rows],
        split=np.array([row[4] for row in rows]),
        name="reuters-modapte-90",
        description="Reuters-21578, ModApte split, the 90 categories with a training and a test "
        "document under four groups.",
    )


def load_directory(name: str, data: str | os.PathLike[str] | None = None) -> Dataset:
    """One-line descriptions of links below a node of a web directory (in place of V's).

    Parameters
    ----------
    name : "python", "macos", "machine-learning", "self-hosted", "robotics", "kotlin", "osint" or
        "bigdata"; or a path of the directory, such as "Platforms/Windows"; or "all"
    data : the directory with directory.parquet

    A text is the description and the title. The node called `name` is the root; documents are at
    nodes of any depth.
    """
    columns = _columns(_data_file("directory.parquet", data), "id", "title", "description", "path")
    top = () if name == "all" else tuple(DIRECTORIES.get(name, name).split("/"))
    rows = []
    for id_, title, description, path in zip(*columns):
        parts = tuple(path.split("/"))
        if parts[: len(top)] == top:
            text = "\n".join(part for part in (description, title) if part)
            rows.append((id_, text, join_path(parts[len(top) :])))
    if not rows:
        ancestors = {"/".join(p.split("/")[:d]) for p in set(columns[3]) for d in range(1, 8)}
        near = difflib.get_close_matches(name, sorted(ancestors | DIRECTORIES.keys()), n=3)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise CorpusError(
            f"The directory has no path {name!r}.{hint} Give one of its paths, 'all', or one of "
            f"{', '.join(DIRECTORIES)}."
        )
    labels = [label for _, _, label in rows]
    tree = Taxonomy.from_paths(sorted(set(labels)))
    return Dataset(
        texts=[text for _, text, _ in rows],
        labels=[tree.paths[i] for i in tree.indices(labels)],  # as the tree writes its names
        taxonomy=tree,
        ids=[id_ for id_, _, _ in rows],
        split=None,
        name=f"directory-{name}",
        description=f"Web directory, {'all of it' if not top else 'below ' + '/'.join(top)}: "
        "one-line descriptions and titles of links.",
    )


def _message_reader(fields: str) -> Callable[[Sequence[str]], list[str]]:
    """A function that takes the wanted fields out of messages."""
    wanted = fields.split("+")
    if wanted == ["all"]:
        return list
    if "all" in wanted or not all(wanted):
        raise CorpusError(
            f'fields={fields!r}: expected "all" alone, or names of headers, "headers" and "body" '
            'joined by "+", such as "subject+body".'
        )

    def extract(texts: Sequence[str]) -> list[str]:
        missing = set(wanted) - {"headers", "body"}
        extracted = []
        for text in texts:
            headers, body = split_message(text)
            parts = []
            for field in wanted:
                if field == "body":
                    parts.append(body)
                elif field == "headers":
                    parts += [f"{k}: {v}" for k, v in headers if k.lower() not in LABEL_HEADERS]
                else:
                    values = [value for name, value in headers if name.lower() == field]
                    parts += values
                    if values:
                        missing.discard(field)
            extracted.append("\n".join(parts))
        if missing and texts:
            raise CorpusError(
                f"No message has the header {sorted(missing)[0]!r}. Write headers as they are "
                'named in the messages, in lower case, such as "from" or "organization".'
            )
        return extracted

    return extract


def split_message(text: str) -> tuple[list[tuple[str, str]], str]:
    """The headers of a message, as (name, value) in their order, and its body.

    The body begins after the first empty line, or with the first line that is neither a header
    nor the continuation of one.
    """
    headers: list[tuple[str, str]] = []
    start = 0
    # Lines end with \n here, perhaps after \r. Not splitlines(): control bytes end no line.
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line = text[start:end].rstrip("\r")
        header = re.match(r"([!-9;-~]+):[ \t]*", line)
        if line[:1] in (" ", "\t") and headers:
            name, value = headers[-1]
            headers[-1] = (name, f"{value} {line.strip()}".strip())
        elif header:
            headers.append((header[1], line[header.end() :]))
        else:
            return headers, text[end + 1 if not line else start :]
        start = end + 1
    return headers, ""


def _fetch_20newsgroups() -> Mapping[str, Any]:
    from sklearn.datasets import fetch_20newsgroups

    try:
        return fetch_20newsgroups(subset="all", shuffle=False, n_retries=1, delay=0.1)
    except OSError as error:
        raise CorpusError(
            f"scikit-learn could not download 20 Newsgroups ({error}). Check the network, or give "
            "the directory that holds the data: data=... or LEAFWISE_DATA."
        ) from error


def _from_bunch(bunch: Mapping[str, Any]) -> tuple[list[str], list[str], list[str], np.ndarray]:
    """ids, texts, newsgroups and split of what scikit-learn downloads."""
    files = [Path(name).parts for name in bunch["filenames"]]  # .../20news-bydate-train/GROUP/N
    return (
        ["/".join(parts[-2:]) for parts in files],
        list(bunch["data"]),
        [bunch["target_names"][i] for i in bunch["target"]],
        np.array(["test" if parts[-3].endswith("test") else "train" for parts in files]),
    )


def _data_file(name: str, data: str | os.PathLike[str] | None) -> Path:
    directory = data if data is not None else os.environ.get("LEAFWISE_DATA")
    if not directory:
        raise CorpusError(
            f"{name} is needed, and no data directory is given. Name the directory that holds it: "
            "data=..., or the environment variable LEAFWISE_DATA."
        )
    file = Path(directory, name)
    if not file.is_file():
        raise CorpusError(
            f"{name} is not in the data directory {os.fspath(directory)!r}. Name the directory "
            "that holds it: data=..., or the environment variable LEAFWISE_DATA."
        )
    return file


def _columns(file: Path, *names: str) -> list[list[Any]]:
    """Columns of a Parquet file as lists."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(file).read(columns=list(names))
    except (OSError, pa.ArrowException) as error:
        raise CorpusError(f"{file} cannot be read as Parquet: {error}") from error
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise CorpusError(
            f"{file} has no column {missing[0]!r}; expected {', '.join(names)}. Is it another file?"
        )
    return [table.column(name).to_pylist() for name in names]


def _name_words(name: str) -> list[str]:
    """The distinct words of a category's names, in order."""
    words = re.findall(r"[^\W_]{2,}", name.lower())
    return list(dict.fromkeys(word for word in words if word not in ("and", "of")))


def _check(name: str, value: object, expected: Iterable[object]) -> None:
    if value not in expected:
        choices = " or ".join(repr(e) for e in expected)
        raise CorpusError(f"{name} must be {choices}, not {value!r}.")
