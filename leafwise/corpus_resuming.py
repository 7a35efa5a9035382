"""An output that an interrupted run has begun, and that the next one goes on with.

Beside the output stands a folder with what is done so far: the rows, the model that was learned,
and a state that says what the run was and how far it came. Rows are on the disk before the state
says so: whatever ends the run, the state never claims more than there is. What the state does not
speak of yet is cut off, and made again. The output takes its name when it is whole.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any

from leafwise._version import __version__
from leafwise.atomic import OUTPUT_ERRORS, check_writable, replacing
from leafwise.corpus_formats import walk
from leafwise.corpus_writer import Writer, find_columns, output_format
from leafwise.exceptions import LeafwiseError, OutputError

if TYPE_CHECKING:
    from leafwise.corpus import Batch, Corpus

SUFFIX = ".unfinished"


def describe(docs: str, **options: Any) -> dict[str, Any]:
    """Say what a run is, by the documents and all that decides on what is written."""
    if os.path.isdir(docs):
        files = [os.path.join(docs, *folder, one) for folder, names in walk(docs) for one in names]
    else:
        files = [docs]
    found = [(path, os.stat(path)) for path in files]
    changed, nanoseconds = divmod(max((one.st_mtime_ns for _, one in found), default=0), 10**9)
    date = datetime.fromtimestamp(changed, UTC).replace(tzinfo=None)
    return {
        "DOCS": os.path.abspath(docs),
        "the size of DOCS": sum(one.st_size for _, one in found),
        "the date of DOCS": f"{date}.{nanoseconds:09} UTC",  # the same in every time zone
        **({"the list of files in DOCS": _listed(docs, found)} if os.path.isdir(docs) else {}),
        **options,
        "the version of leafwise": __version__,
    }


def _listed(docs: str, found: Sequence[tuple[str, os.stat_result]]) -> str:
    """Sum up all files: one that is moved changes the order, and neither all sizes nor a date."""
    hashed = sha256()
    for path, one in found:
        name = os.fsencode(os.path.relpath(path, docs))
        hashed.update(b"%s\0%d\0%d\0" % (name, one.st_size, one.st_mtime_ns))
    return f"{len(found):,} with the hash {hashed.hexdigest()[:16]}"


class Unfinished:
    """What is done of an output, in a folder beside it.

    Parameters
    ----------
    output : the file that is to be written
    job : what the run is: see `describe`
    later : names of what may be True where it was not before: it changes nothing that is done
    """

    def __init__(self, output: str, job: Mapping[str, Any], later: Sequence[str] = ()):
        check_writable(output)
        self.output = output
        self.folder = os.path.realpath(output) + SUFFIX
        self.model = os.path.join(self.folder, "model.leafwise-model")
        self._job, self._later = dict(job), later
        self._state: dict[str, Any] = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Hold the folder, make it where there is none, and read how far the last run came."""
        try:
            os.makedirs(self.folder, exist_ok=True)
            lock = open(os.path.join(self.folder, "lock"), "wb")  # noqa: SIM115
        except OSError as error:
            raise OutputError(f"Cannot write {self.folder}: {error.strerror or error}.") from None
        with lock:
            _hold(lock, self.output)
            self._read()
            try:
                yield
            finally:
                if not self.begun or not (self.n_documents or os.path.exists(self.model)):
                    self.clear()  # there is nothing to go on with

    @property
    def n_documents(self) -> int:
        """How many documents are done."""
        return self._state.get("documents", 0)

    @property
    def begun(self) -> bool:
        """Whether a run came as far as having a model."""
        return bool(self._state)

    def learned(self) -> str:
        """Return where the model of the run that began is."""
        if not os.path.exists(self.model):
            raise OutputError(
                f"Cannot go on with {self.output}: {self.model} is gone. Delete {self.folder} to "
                "start anew."
            )
        return self.model

    @property
    def whole(self) -> bool:
        """Whether all is done, and the last run was ended just before it cleared away."""
        return self._state.get("whole", False) and not os.path.exists(self._part)

    @property
    def _part(self) -> str:
        return os.path.join(self.folder, "rows")

    def _read(self) -> None:
        path = os.path.join(self.folder, "state.json")
        anew = f'delete the folder to start anew: rm -r "{self.output}{SUFFIX}"'
        try:
            with open(path, encoding="utf-8") as file:
                state = json.load(file)
            job = state["job"]
        except FileNotFoundError:  # ended before it had a model
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OutputError(f"{path} cannot be read ({error}): {anew}") from None
        changed = [
            f"{name} was {_shown(job.get(name))}, and now it is {_shown(self._job.get(name))}"
            for name in {**job, **self._job}
            if job.get(name) != self._job.get(name)
            and not (name in self._later and self._job.get(name) is True)
        ]
        if changed:
            raise LeafwiseError(
                f"Cannot go on with {self.output}{SUFFIX}, which another command began, or this "
                f"one on other documents: {'; '.join(changed)}. Give the same command to go on, or "
                f"{anew}"
            )
        self._state = state

    def _write(self, **state: Any) -> None:
        """Say how far it is: on the disk, and at once or not at all."""
        self._state = {**self._state, **state, "job": self._job}
        path = os.path.join(self.folder, "state.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(self._state, file, indent=1)
            _to_disk(file)
        os.replace(path + ".new", path)
        _folder_to_disk(self.folder)

    @contextmanager
    def writer(self, corpus: Corpus, added: Sequence[str]) -> Iterator[ResumedWriter]:
        """Write on; like `open_writer`. The output takes its name at the end of the block."""
        writer = ResumedWriter(self, corpus, added)
        try:
            yield writer
            writer.finish()
        except OSError as error:
            of_folder = str(error.filename).startswith(self.folder)
            of_output = of_folder or error.errno in OUTPUT_ERRORS
            if isinstance(error, OutputError) or not of_output:
                raise
            kept = "What is done is kept: the same command goes on from there."
            if not os.path.isdir(self.folder):
                kept = f"{self.folder} is gone, and what was done with it."
            raise OutputError(
                f"Cannot write {self.output}: {error.strerror or error}. {kept}"
            ) from error
        finally:
            writer.close()

    def clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


class ResumedWriter:
    """Batches to an output in parts; made by `Unfinished.writer`.

    Text is one file, which is cut to what the state knows of and appended to; where it is packed,
    each batch is packed by itself. Of Parquet each batch is a file; at the end they are joined.
    """

    def __init__(self, unfinished: Unfinished, corpus: Corpus, added: Sequence[str]):
        self._home, self._corpus = unfinished, corpus
        name = unfinished.output
        self._format, self._zipped = output_format(name, corpus, added)
        find_columns(corpus, self._format)
        self._writer = Writer(name, None, corpus, added, self._format)
        self._rows: IO[bytes] | None = None

    def begin(self) -> None:
        """Begin to write, or go on: the model is known by now, and on the disk."""
        home, state = self._home, self._home._state
        if home.begun:
            # So that keys of JSON that come late are known, as they were to the run that began.
            if self._corpus.format == "jsonl":
                self._corpus._add_columns([dict.fromkeys(state["columns"])])
        else:
            if os.path.exists(home.model):
                with open(home.model, "rb") as file:
                    os.fsync(file.fileno())
            home._write(columns=self._corpus.columns, documents=0, parts=0, length=0)
            state = home._state
        if self._format == "parquet":
            if state["parts"]:
                self._writer.written = self._opened(0).schema_arrow
            return
        self._rows = open(home._part, "ab")  # noqa: SIM115
        if self._rows.tell() < state["length"]:
            raise OutputError(
                f"Cannot go on with {home.output}: {home._part} has {self._rows.tell():,} bytes, "
                f"and should have {state['length']:,}. Delete {home.folder} to start anew."
            )
        self._rows.truncate(state["length"])
        if state["documents"]:
            self._writer.no_header()

    def rest(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Leave out the batches that are done: they are read again, and come as they came."""
        skipped, done = 0, self._home.n_documents
        for batch in batches:
            if skipped < done:
                skipped += len(batch.texts)
            else:
                yield batch
        if skipped != done:
            raise OutputError(
                f"Cannot go on with {self._home.output}: {done:,} documents are done, which is no "
                f"whole number of batches. Delete {self._home.folder} to start anew."
            )

    def write(self, batch: Batch, values: Mapping[str, Sequence[Any]]) -> None:
        """Write a batch, and then that it is written."""
        state, sink = self._home._state, io.BytesIO()
        self._writer.go_on(sink)
        self._writer.write(batch, values)
        self._writer.go_on(None)  # which ends a part of Parquet
        data = sink.getbuffer()
        n_documents = state["documents"] + len(batch.texts)
        if self._rows is None:
            with open(self._part(state["parts"]), "wb") as file:
                file.write(data)
                _to_disk(file)
            self._home._write(documents=n_documents, parts=state["parts"] + 1)
            return
        packed = gzip.compress(data, 6, mtime=0) if self._zipped else data
        self._rows.write(packed)
        _to_disk(self._rows)
        self._home._write(documents=n_documents, length=state["length"] + len(packed))

    def finish(self) -> None:
        """Give the output its name."""
        home = self._home
        target = os.path.realpath(home.output)
        if self._rows is None:
            self._join()
        else:
            self._rows.close()
            home._write(whole=True)
            if os.path.exists(target):
                shutil.copymode(target, home._part)
            os.replace(home._part, target)
        _folder_to_disk(os.path.dirname(target))
        home.clear()

    def close(self) -> None:
        if self._rows is not None:
            with suppress(OSError):
                self._rows.close()

    def _part(self, number: int) -> str:
        return os.path.join(self._home.folder, f"rows-{number:06}.parquet")

    def _join(self) -> None:
        import pyarrow.parquet as pq

        with replacing(self._home.output) as file:
            schema = self._opened(0).schema_arrow
            with pq.ParquetWriter(file, schema, compression="zstd") as whole:
                for number in range(self._home._state["parts"]):
                    with self._opened(number) as part:
                        for group in range(part.num_row_groups):
                            whole.write_table(part.read_row_group(group))
            _to_disk(file)

    def _opened(self, number: int) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(self._part(number))
        except (pa.ArrowException, FileNotFoundError) as error:
            raise OutputError(
                f"Cannot go on with {self._home.output}: {self._part(number)} is damaged "
                f"({error}). Delete {self._home.folder} to start anew."
            ) from None


def _hold(lock: IO[bytes], output: str) -> None:
    """Refuse to work beside another process; the lock goes with the process that has it."""
    try:
        import fcntl
    except ImportError:  # Windows has none of this kind
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OutputError(f"Another process is writing {output}. Wait for it, or end it.") from None
    except OSError:  # a file system without locks
        return


def _to_disk(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _folder_to_disk(path: str) -> None:
    """Have the names in a folder on the disk, where a system can."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _shown(value: Any) -> str:
    if value is None or value is False:  # 0 is a value, such as a confidence
        return "not given"
    return "given" if value is True else str(value)
