"""A Dask cluster: how it is reached, and files that are classified on it.

Tasks are pure but for the files that they write, and those appear whole or not at all. So Dask may
run a task again when the worker that had it is gone, and the result is the same.
"""

from __future__ import annotations

import io
import logging
import os
import re
import secrets
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from leafwise import partitions as parts
from leafwise._version import __version__
from leafwise.atomic import replacing
from leafwise.exceptions import DependencyError, LeafwiseError

if TYPE_CHECKING:
    from distributed import Client

    from leafwise.models.taxonomy_classifier import TaxonomyClassifier
    from leafwise.streams import Room

TIMEOUT = 10  # seconds in which a scheduler must answer
FAILURES = 5  # workers that may be lost with a task before the task is to blame


# ---- reaching it --------------------------------------------------------------------------------


def local_workers(scheduler: str) -> int | None:
    """Return the N of "local:N", and None for an address; refuse whatever else it is."""
    local = re.fullmatch(r"local:([1-9][0-9]{0,3})", scheduler)
    if local:
        return int(local[1])
    if not re.fullmatch(r"(tcp|tls|ws|wss|ucx)://[^/\s]+:[0-9]+", scheduler):
        raise LeafwiseError(
            f'"{scheduler}" is no scheduler. Expected tcp://HOST:PORT, or local:N for N processes '
            "on this machine, such as local:2."
        )
    return None


@contextmanager
def connect(scheduler: str, *, timeout: float = TIMEOUT) -> Iterator[Client]:
    """Connect to the scheduler of a Dask cluster, or start one on this machine for the block.

    Parameters
    ----------
    scheduler : str
        The address of one that runs, as ``tcp://HOST:PORT`` (or tls://). Or ``local:N``, for N
        processes here, of one thread each, which end with the block; the memory of the machine is
        divided among them.
    timeout : float
        Seconds in which it must answer.

    Yields
    ------
    distributed.Client
        Where the scheduler is gone in the block, that is a `LeafwiseError`.
    """
    n_workers = local_workers(scheduler)
    try:
        import dask
        import distributed
        from distributed.system import MEMORY_LIMIT
    except ImportError:
        raise DependencyError('A cluster needs Dask: pip install "leafwise[dask]"') from None
    settings = {}
    if n_workers is not None:
        settings = {
            "distributed.scheduler.allowed-failures": FAILURES,
            # A worker that ended is started anew, however long that takes. By default one that is
            # away 15 seconds after it was lost, be it for a second time, is never started again.
            "distributed.deploy.lost-worker-timeout": "365 days",
        }
    with _quiet(), dask.config.set(settings):
        cluster: Any = None
        if n_workers is not None:
            cluster = distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=1,
                memory_limit=MEMORY_LIMIT // n_workers,
                dashboard_address="127.0.0.1:0",  # a port of its own: another may run
                silence_logs=logging.CRITICAL + 1,  # it would undo what `_quiet` does
                preload=__name__,
            )
        try:
            try:
                client = distributed.Client(cluster or scheduler, timeout=timeout)
            except Exception as error:  # no such host, nobody there, or no scheduler
                raise LeafwiseError(
                    f"No scheduler answers at {scheduler}: {_said(error)}. Start one with: dask "
                    "scheduler"
                ) from error
            try:
                with lost(client):
                    if cluster is None:
                        check_workers(client)
                    yield client
            finally:
                with suppress(Exception):  # of a scheduler that is gone
                    client.close(timeout=1)
        finally:
            if cluster is not None:
                with suppress(Exception):
                    cluster.close()


def check_client(client: Any) -> None:
    """Raise where something else was given in place of a client."""
    from distributed import Client

    if not isinstance(client, Client):
        raise TypeError(
            f"client is a {type(client).__name__}: expected a distributed.Client, as in: with "
            'leafwise.distributed.connect("local:2") as client.'
        )


def check_workers(client: Client) -> None:
    """Raise where a worker has another leafwise than this process, or none.

    Such workers would end when they are sent a task, one after the other, without a word.
    """
    # `eval`, since a function of leafwise could not be sent to those that have none.
    found = client.run(eval, "__import__('leafwise').__version__", on_error="return")
    for worker, version in found.items():
        if version != __version__:
            what = "no leafwise" if isinstance(version, ImportError) else f"leafwise {version}"
            raise LeafwiseError(
                f"The worker at {worker} has {what}, and this machine has {__version__}. Install "
                "the same version on both."
            )


def check_room(client: Client, memory: str | int | None) -> None:
    """Raise where a worker is larger than what it may hold: now, rather than after other work."""
    if memory is None:
        return
    for found in client.run(_room_of, memory, on_error="return").values():
        if isinstance(found, Exception):
            raise found


def _room_of(memory: str | int, model: Any = None) -> Room:
    """Return the room of a worker that has all loaded that it will need."""
    import pyarrow.parquet  # noqa: F401

    from leafwise.models.taxonomy_classifier import TaxonomyClassifier  # noqa: F401
    from leafwise.streams import Room

    return Room.of(memory)


def dask_setup(worker: Any) -> None:
    """Let a local worker pay no heed to Ctrl-C, which is for the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def lost(client: Client) -> Iterator[None]:
    """Say it in a sentence where the cluster has failed, rather than the work on it."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    address = str(client.scheduler.address) if client.scheduler else ""
    try:
        yield
    except LeafwiseError:
        raise
    except KilledWorker as error:
        task = error.task[-1] if isinstance(error.task, tuple) else error.task
        raise LeafwiseError(
            f"{error.allowed_failures + 1} workers ended while they worked on {task}. Most often "
            "they have too little memory: take fewer workers on a machine, or smaller files."
        ) from error
    except (CancelledError, CommClosedError, TimeoutError, OSError) as error:
        # An OSError of a task comes from a scheduler that is there.
        of_client = isinstance(error, CancelledError | CommClosedError)
        if not of_client and client.status == "running" and _answers(address):
            raise
        raise LeafwiseError(
            f"The scheduler at {address} is gone, and what was not done yet is lost. "
            "Start it again, and its workers."
        ) from error


def _answers(address: str) -> bool:
    """Whether somebody listens at an address."""
    kind, _, place = address.partition("://")
    host, _, port = place.rpartition(":")
    if kind not in ("tcp", "tls"):  # within this process
        return True
    try:
        socket.create_connection((host.strip("[]"), int(port)), TIMEOUT).close()
    except OSError:
        return False
    return True


def result_of(client: Client, future: Any) -> Any:
    """Return the result of a task, or raise what it raised.

    Where the scheduler goes just as the task is done, `future.result()` may wait for ever.
    """
    while True:
        try:
            return future.result(timeout=1)
        except (TimeoutError, UnboundLocalError):
            # The second is what Dask has for a result whose worker ends while it is fetched.
            if future.status == "error":  # one of the task
                raise
            check_connected(client, future)


def check_connected(client: Client, future: Any) -> None:
    """Raise where no answer is to come, since the client has forgotten what it waits for."""
    from concurrent.futures import CancelledError

    if client.status != "running" or future.key not in client.futures:
        raise CancelledError("the connection to the scheduler is lost")


def _said(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep off the terminal what Dask logs when workers and connections come and go."""
    handlers = [
        handler
        for name in ("distributed", "distributed.client", "bokeh", "tornado", "tornado.application")
        for handler in logging.getLogger(name).handlers
    ]
    levels = [handler.level for handler in handlers]
    for handler in handlers:
        handler.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for handler, level in zip(handlers, levels):
            handler.setLevel(level)


# ---- files --------------------------------------------------------------------------------------


class Written(NamedTuple):
    """What `classify_files` did."""

    n_partitions: int
    n_documents: int
    n_bad: int


class _Done(NamedTuple):
    n_documents: int
    n_bad: int
    listing: bytes  # of the bad rows, as CSV


def classify_files(
    model: TaxonomyClassifier,
    partitions: str | os.PathLike[str] | Sequence[parts.Partition],
    out: str | os.PathLike[str],
    *,
    client: Client,
    corpus_options: Mapping[str, Any] | None = None,
    memory: str | int | None = None,
    bad_rows: str | os.PathLike[str] | None = None,
    on_progress: Callable[[Written], None] | None = None,
) -> Written:
    """Classify files on a cluster, and write each, with its new columns, into a folder.

    What a file becomes is what ``leafwise classify --model`` makes of it.

    Parameters
    ----------
    model : TaxonomyClassifier
        A fitted one.
    partitions : path-like or list of Partition
        What `partitions.find` takes, or what it found. Workers must be able to read it.
    out : path-like
        A new or empty folder, or a URL, that all workers can write to.
    client : distributed.Client
    corpus_options : dict, optional
        Options of `Corpus`: text, label, id, format, encoding, skip_bad, ...
    memory : str or int, optional
        The most that each worker may hold, such as "1GiB": see `streams`.
    bad_rows : path-like, optional
        CSV file (source, line, reason, raw) in which ``skip_bad`` lists bad rows, in the order of
        partitions.
    on_progress : callable, optional
        Called with what is written so far, after each partition.
    """
    check_client(client)
    options = dict(corpus_options or {})
    parts.check_options(options)
    if isinstance(partitions, str | os.PathLike):
        name = os.fspath(partitions)
        parts.check_outside(name, os.fspath(out))
        partitions = parts.find(name, format=options.get("format"))
    else:
        name = f"{len(partitions):,} partitions"
    out = os.fspath(out)
    parts.check_shared(out)
    if not parts.is_url(out):
        out = os.path.abspath(parts.local_path(out))
    with lost(client), listing(bad_rows) as listed:
        check_workers(client)
        check_room(client, memory)
        parts.new_folder(out)
        written = Written(0, 0, 0)
        tasks = _submitted(client, model, partitions, out, options, memory)
        for at, done in _results(client, tasks):
            listed(at, done.listing)
            n, documents, bad = written
            written = Written(n + 1, documents + done.n_documents, bad + done.n_bad)
            if on_progress is not None:
                on_progress(written)
        parts.clear(out)
        if not written.n_documents:
            raise parts.no_documents(name, written.n_bad)
    return written


@contextmanager
def listing(path: str | os.PathLike[str] | None) -> Iterator[Callable[[int, bytes], None]]:
    """Take the bad rows of partitions, numbered from 0, and write them in their order."""
    from leafwise.corpus import BadRow
    from leafwise.corpus_writer import csv_bytes

    if path is None:
        yield lambda at, rows: None
        return
    header = csv_bytes([BadRow._fields])
    early: dict[int, bytes] = {}
    n_listed = 0
    with replacing(path) as file:
        file.write(header)

        def listed(at: int, rows: bytes) -> None:
            nonlocal n_listed
            early[at] = rows.removeprefix(header)
            while n_listed in early:
                file.write(early.pop(n_listed))
                n_listed += 1

        yield listed


def _results(client: Client, futures: Sequence[Any]) -> Iterator[tuple[int, _Done]]:
    """Yield the numbers and results of tasks as they are done; an error ends all of them.

    Of several errors it is that of the first task, as on one machine: tasks begin in their order,
    so all before one that failed are done soon.
    """
    running = {future.key: (i, future) for i, future in enumerate(futures)}
    ended: SimpleQueue[Any] = SimpleQueue()
    for future in futures:
        future.add_done_callback(ended.put)
    try:
        while running:
            try:
                future = ended.get(timeout=1)
            except Empty:
                check_connected(client, next(iter(running.values()))[1])
                continue
            if future.status == "error":
                for _, earlier in running.values():
                    result_of(client, earlier)
            yield running[future.key][0], result_of(client, future)
            # Else Dask would do it again if the worker that keeps the result were lost.
            running.pop(future.key)[1].release()
    except BaseException:
        with suppress(Exception):
            if client.status == "running":
                client.cancel([future for _, future in running.values()], force=True)
        raise


def _submitted(
    client: Client,
    model: TaxonomyClassifier,
    partitions: Sequence[parts.Partition],
    out: str,
    options: dict[str, Any],
    memory: str | int | None,
) -> list[Any]:
    """Submit a task for each partition, and one for the model, on which all others depend.

    The model is a task of its own, not data that are scattered: those would be lost with the
    worker that has them, and a task is done again.
    """
    import dask

    from leafwise import persistence

    file = io.BytesIO()
    persistence.write(model, file)
    run = f"leafwise-{secrets.token_hex(6)}"  # a second run must write its files, too
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}):
        loaded = client.submit(_load, file.getvalue(), key=(f"{run}-model", "the model"))
        room = None
        if memory is not None:
            # Once, before any file: what a worker compiles at the first would count twice later.
            room = result_of(client, client.submit(_room_of, memory, loaded, pure=False))
        # At once, so that Dask sees a group of many alike, and hands them out as workers are free.
        return client.map(
            _classify,
            partitions,
            key=[(run, one.source) for one in partitions],
            model=loaded,
            out=out,
            below=os.getcwd(),
            options=options,
            room=room,
        )


def _load(data: bytes) -> TaxonomyClassifier:
    from leafwise import persistence

    return persistence.read(io.BytesIO(data), "the model")


def _classify(
    partition: parts.Partition,
    *,
    model: TaxonomyClassifier,
    out: str,
    below: str,
    options: dict[str, Any],
    room: Room | None,
) -> _Done:
    """Classify a partition on a worker. The other cores are those of other workers."""
    from leafwise.corpus import open_writer
    from leafwise.filling import columns_of, in_portions
    from leafwise.streams import Portion
    from leafwise.threads import limited

    portion = None if room is None else Portion.of(len(model.taxonomy_), room)

    with limited(1), tempfile.TemporaryDirectory(prefix="leafwise-") as folder:
        listing = os.path.join(folder, "bad-rows.csv")
        options = {**options, "taxonomy": model.taxonomy_, "bad_rows": listing}
        with (
            parts.opened(partition, below=below, **options) as corpus,
            parts.placed(out, partition.name) as path,
        ):
            columns = columns_of(corpus, options.get("label"), model.several_)
            with open_writer(path, corpus, columns, format=corpus.format) as writer:
                for batch in parts.documents(corpus):
                    found = in_portions(model, corpus, batch, portion)
                    writer.write(batch, dict(zip(columns, found)))
        bad = b""
        if corpus.n_bad:
            with open(listing, "rb") as file:
                bad = file.read()
        return _Done(corpus.n_documents or 0, corpus.n_bad or 0, bad)
