"""A corpus of many files: the partitions that several processes read at the same time.

A partition is one file. It lies in a folder here, or in any store that fsspec knows (s3://, gs://,
memory://, ...), from which it is copied to a temporary file while it is read. So every format is
read by the code that reads it elsewhere, and bad rows are known by the same lines.
"""

from __future__ import annotations

import difflib
import glob
import inspect
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from leafwise.corpus import BAD_KEPT, BadRow, Batch, Corpus
from leafwise.corpus_formats import SUFFIXES, format_of, locate, walk
from leafwise.corpus_text import BLOCK, Progress
from leafwise.exceptions import CorpusError, DependencyError, LeafwiseError, OutputError

FORMATS = ("csv", "tsv", "jsonl", "parquet")
ENDINGS = ", ".join(ending for ending, format in SUFFIXES.items() if format in FORMATS)
PART = ".leafwise-"  # what the names of files that are not whole begin with


class Partition(NamedTuple):
    """A file of documents, one of several."""

    source: str
    """Its path, or its URL in a store."""
    name: str
    """Its path below the folder that was named: what it is called in the output."""
    size: int = 0
    """In bytes; 0 where the store does not say."""


# ---- which there are ----------------------------------------------------------------------------


def find(source: str | os.PathLike[str], *, format: str | None = None) -> list[Partition]:
    """List the partitions of a folder, a glob or a file, here or in a store; sorted by name.

    Parameters
    ----------
    source : path-like
        A folder with files of one format, in folders below it too, a glob (``docs/*.csv``), a
        file, or a URL of one of these. Of a folder or a glob, empty files are left out, and those
        whose names begin with a dot or an underscore, which other programs leave behind.
    format : str, optional
        csv, tsv, jsonl or parquet, where the names do not say.
    """
    source = os.fspath(source)
    if format is not None and format not in FORMATS:
        raise CorpusError(
            f'Partitions cannot have the format "{format}". Formats: {", ".join(FORMATS)}.'
        )
    named = _in_store(source) if is_url(source) else _in_folder(local_path(source))
    if named.single:
        if format is None and format_of(named.files[0][1])[0] not in FORMATS:
            raise CorpusError(
                f"{source} is no partition: one ends in {ENDINGS}, and text may end in .gz after "
                "that. --format names a format that the ending does not."
            )
    else:
        _check(source, named, format)
    found = [Partition(path, name, size or 0) for path, name, size in named.files]
    return sorted(found, key=lambda one: one.name)


def is_url(source: str) -> bool:
    """Whether a source lies in a store rather than in a folder of this machine."""
    return "://" in local_path(source) or "::" in source


def local_path(source: str) -> str:
    return source.removeprefix("file://").removeprefix("local://")


class _Named(NamedTuple):
    """Files as (source, name, size or None), and whether the one there is was named itself."""

    files: list[tuple[str, str, int | None]]
    single: bool = False


def _in_folder(path: str) -> _Named:
    if path == "-":
        raise CorpusError("Standard input has no partitions. Name a folder, a glob or a file.")
    if os.path.isdir(path):
        names = ["/".join((*folder, file)) for folder, files in walk(path) for file in files]
        return _Named([_file(os.path.join(path, name), name) for name in names])
    if not os.path.exists(path) and glob.has_magic(path):
        root = _fixed(path)
        found = [one for one in glob.glob(path, recursive=True) if os.path.isfile(one)]
        return _Named([_file(one, os.path.relpath(one, root or ".")) for one in found])
    if os.path.exists(path) and not os.path.isfile(path):
        raise CorpusError(f"{path} is neither a file nor a folder, so it has no partitions.")
    return _Named([_file(locate(path, None, None), os.path.basename(path))], single=True)


def _file(path: str, name: str) -> tuple[str, str, int | None]:
    try:
        return path, name.replace(os.sep, "/"), os.path.getsize(path)
    except OSError as error:  # a link that leads nowhere
        raise CorpusError(f"Cannot read {path}: {error.strerror}.") from None


def _in_store(url: str) -> _Named:
    store, path = open_store(url)
    with _store_errors(url):
        if store.isfile(path):
            return _Named([(url, os.path.basename(path), store.info(path)["size"])], single=True)
        if store.isdir(path):
            root, found = path.rstrip("/"), store.find(path, detail=True)
        elif glob.has_magic(path):
            root, found = _fixed(path), store.glob(path, detail=True)
        else:
            raise CorpusError(f"There is no file {url}.")
    return _Named(
        [
            (_url(url, one), one.removeprefix(root).lstrip("/"), info.get("size"))
            for one, info in found.items()
            if info["type"] == "file"
        ]
    )


def _fixed(pattern: str) -> str:
    """The folder of a glob below which its names differ."""
    parts = pattern.split("/")[:-1]
    end = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return "/".join(parts[:end]) or ("/" if pattern.startswith("/") else "")


def _url(asked: str, path: str) -> str:
    """URL of a path in the store of another URL, which may be several: zip://a.csv::s3://b/c."""
    if "://" in path:
        return path
    links = asked.split("::")
    at = next(i for i, link in enumerate(links) if "://" in link)
    links[at] = links[at].split("://")[0] + "://" + path
    return "::".join(links)


def _check(source: str, named: _Named, format: str | None) -> None:
    """Take out what is left out, and refuse what is not a set of files of one format."""
    files = named.files
    if not files:
        what = "No file matches" if glob.has_magic(source) else "There is no file in"
        raise CorpusError(f"{what} {source}.")
    files[:] = [file for file in files if not _hidden(file[1]) and file[2] != 0]
    if not files:
        raise CorpusError(f"All files of {source} are hidden or empty.")
    if format is not None:
        return
    kinds: dict[str | None, str] = {}
    for _, name, _ in sorted(files):
        kinds.setdefault(format_of(name)[0], name)
    readable = [kind for kind in kinds if kind in FORMATS]
    if not readable and "text" in kinds:
        raise CorpusError(
            f"{source} holds texts ({kinds['text']}), one to a file, and no partitions, which end "
            f"in {ENDINGS}. A folder of texts is one corpus: classify it without --scheduler."
        )
    if not readable:
        raise CorpusError(
            f"{source} holds no partitions, which end in {ENDINGS}, but files such as "
            f"{min(kinds.values())}. If these are partitions, name their format: --format csv."
        )
    if len(kinds) > 1:
        mix = ", ".join(f"{name} ({kind or 'unknown'})" for kind, name in kinds.items())
        raise CorpusError(
            f"{source} holds files of several formats: {mix}. Name those of one format with a "
            f"glob, such as '*{os.path.splitext(kinds[readable[0]])[1]}'."
        )


def _hidden(name: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.split("/"))


# ---- stores -------------------------------------------------------------------------------------


def open_store(url: str) -> tuple[Any, str]:
    """Return the file system of a URL (fsspec's), and the path in it."""
    try:
        import fsspec.core
    except ImportError:
        raise DependencyError(
            f'Cannot open {url}: stores need fsspec. pip install "leafwise[dask]"'
        ) from None
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:  # the package of this protocol
        raise DependencyError(f"Cannot open {url}: {_said(error)}.") from None
    except ValueError as error:
        known = ", ".join(["s3", "gs", "abfs", "hdfs", "sftp", "https", "file"])
        raise CorpusError(
            f"Cannot open {url}: {_said(error)}. Protocols are {known}, and others of fsspec."
        ) from None
    except Exception as error:
        raise CorpusError(f"Cannot open {url}: {_said(error)}.") from error


@contextmanager
def _store_errors(url: str, to: str = "read") -> Iterator[None]:
    """Name the URL in whatever a store raises: each has exceptions of its own."""
    try:
        yield
    except LeafwiseError:
        raise
    except Exception as error:
        if to == "write":
            raise OutputError(f"Cannot write {url}: {_said(error)}.") from error
        if isinstance(error, FileNotFoundError):
            raise CorpusError(f"There is no file {url}.") from None
        raise CorpusError(f"Cannot read {url}: {_said(error)}.") from error


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")


# ---- reading ------------------------------------------------------------------------------------


def check_options(names: Iterable[str]) -> None:
    """Refuse what is no option of `Corpus`, or none that goes to the processes that read."""
    of_this_process = {"source", "bad_rows", "on_progress"}
    known = [name for name in inspect.signature(Corpus).parameters if name not in of_this_process]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            raise TypeError(
                f'There is no option "{name}" to read documents.{hint} Options: {", ".join(known)}.'
            )


@contextmanager
def opened(partition: Partition, *, below: str = "", **options: Any) -> Iterator[Corpus]:
    """Open a partition as a `Corpus` with these options.

    A file of a store is read from a temporary copy, which is gone when the block ends. A path that
    is not absolute is taken below a folder, for a process that works elsewhere. In both cases
    messages and bad rows name the file as it was named.
    """
    if not is_url(partition.source):
        path = os.path.join(below, partition.source)
        yield _Elsewhere(path, partition.source, **options)
        return
    with tempfile.TemporaryDirectory(prefix="leafwise-") as folder:
        copy = os.path.join(folder, "copy")
        _fetch(partition.source, copy)
        # A URL need not end as the file does: zip://a.csv::file:///docs.zip.
        options["format"] = options.get("format") or format_of(partition.name)[0]
        yield _Elsewhere(copy, partition.source, **options)


def _fetch(url: str, path: str) -> None:
    store, inside = open_store(url)
    with _store_errors(url), store.open(inside, "rb") as source:
        try:
            with open(path, "wb") as copy:
                shutil.copyfileobj(source, copy, BLOCK)
        except OSError as error:
            raise CorpusError(
                f"Cannot copy {url} to {tempfile.gettempdir()}: {error.strerror or error}. TMPDIR "
                "in the environment names another folder."
            ) from error


class _Elsewhere(Corpus):
    """A corpus that goes by another name than that of the file which is read."""

    def __init__(self, path: str, name: str, **options: Any):
        self._name = name
        super().__init__(path, **options)

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, value: str) -> None:
        """Leave it: `Corpus` would take that of the file."""


def documents(corpus: Corpus) -> Iterator[Batch]:
    """Yield the batches of a partition; one of no document has none, which is no error here."""
    try:
        yield from corpus.batches()
    except CorpusError:
        if corpus.n_documents != 0:
            raise


class Joined:
    """Partitions as one corpus, read one after the other: what learning needs of a `Corpus`.

    Parameters
    ----------
    partitions : list of Partition
    name : str
        For messages about all of them.
    options : see `Corpus`
    """

    taxonomy_ = None

    def __init__(self, partitions: Sequence[Partition], name: str, **options: Any):
        self.partitions = list(partitions)
        self.name = self.source = name
        self.options = options
        self.on_progress: Progress | None = None
        self.n_documents: int | None = None
        self.n_bad: int | None = None
        self.bad: list[BadRow] = []

    def batches(self) -> Iterator[Batch]:
        """Read the documents; each call reads them anew."""
        self.bad, n_documents, n_bad, before = [], 0, 0, 0
        total = sum(one.size for one in self.partitions)
        for partition in self.partitions:
            with opened(partition, **self.options) as corpus:
                if self.on_progress:
                    corpus.on_progress = self._after(before, total)
                yield from documents(corpus)
                n_documents += corpus.n_documents or 0
                n_bad += corpus.n_bad or 0
                self.bad += corpus.bad[: BAD_KEPT - len(self.bad)]
            before += partition.size
        self.n_documents, self.n_bad = n_documents, n_bad
        if not n_documents:
            raise no_documents(self.name, n_bad)

    def _after(self, before: int, total: int) -> Progress:
        def tell(done: int, _: int | None) -> None:
            if self.on_progress:
                self.on_progress(before + done, total)

        return tell


def no_documents(name: str, n_bad: int) -> CorpusError:
    rows = f"every row is bad ({n_bad:,})" if n_bad else "there are no rows"
    return CorpusError(f"Nothing in {name} can be used: {rows}.")


# ---- writing ------------------------------------------------------------------------------------


def check_outside(docs: str, out: str) -> None:
    """Refuse to write into the folder that is read: the next run would read what this one wrote."""
    if is_url(docs) or is_url(out):
        below = f"{out.rstrip('/')}/".startswith(f"{docs.rstrip('/')}/")
    else:
        below = Path(docs).resolve() in Path(local_path(out)).resolve().parents
    if below:
        raise OutputError(
            f"Cannot write {out}: it is inside {docs}, which is read. Name a folder outside of it."
        )


def check_shared(out: str) -> None:
    """Refuse a store that each process has for itself: what workers write there would be gone."""
    if any(link.startswith("memory://") for link in out.split("::")):
        raise OutputError(
            f"Cannot write {out}: each worker has a memory:// of its own, which ends with it. Name "
            "a folder, or a store that all of them reach."
        )


def new_folder(out: str) -> bool:
    """Make the folder that partitions are written to; one that holds something is refused.

    Returns whether there was none.
    """
    made = False
    if is_url(out):
        store, path = open_store(out)
        with _store_errors(out, "write"):
            taken = store.exists(path) and bool(store.find(path))
            store.makedirs(path, exist_ok=True)
    else:
        path = local_path(out)
        try:
            made = not os.path.exists(path)
            os.makedirs(path, exist_ok=True)
            taken = bool(os.listdir(path))
        except FileExistsError:
            raise OutputError(f"Cannot write {out}: it is a file. Name a folder.") from None
        except OSError as error:
            raise OutputError(f"Cannot write {out}: {error.strerror}.") from None
    if taken:
        raise OutputError(
            f"Cannot write {out}: the folder is not empty. Empty it, or name a new one."
        )
    return made


@contextmanager
def placed(out: str, name: str) -> Iterator[str]:
    """Yield the path at which to write a partition; in a store it appears when the block ends."""
    if not is_url(out):
        path = os.path.join(local_path(out), *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="leafwise-") as folder:
        copy = os.path.join(folder, os.path.basename(name))
        yield copy
        store, root = open_store(out)
        with _store_errors(out, "write"):
            target = f"{root.rstrip('/')}/{name}"
            part = f"{os.path.dirname(target)}/{PART}{secrets.token_hex(6)}"
            store.makedirs(os.path.dirname(target), exist_ok=True)
            store.put_file(copy, part)
            store.mv(part, target)


def count_whole(out: str, partitions: Sequence[Partition]) -> int:
    """Count the partitions that are written."""
    if not is_url(out):
        root = local_path(out)
        return sum(os.path.isfile(os.path.join(root, one.name)) for one in partitions)
    store, root = open_store(out)
    root = root.rstrip("/")
    with _store_errors(out):
        store.invalidate_cache()  # of what was listed before others wrote
        found = {path.removeprefix(root).lstrip("/") for path in store.find(root)}
    return sum(one.name in found for one in partitions)


def clear(out: str) -> None:
    """Remove the parts of files that processes which were killed have left behind."""
    if is_url(out):
        store, root = open_store(out)
        with _store_errors(out, "write"):
            store.invalidate_cache()
            for path in store.find(root):
                if os.path.basename(path).startswith(PART):
                    store.rm_file(path)
        return
    for folder, _, files in os.walk(local_path(out)):
        for file in files:
            if file.startswith(PART):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, file))
