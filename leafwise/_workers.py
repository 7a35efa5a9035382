"""Blocks of documents on the workers of a Dask cluster: texts read there, and counted."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np
from scipy import sparse
from sklearn.base import clone

from leafwise import partitions as files
from leafwise._cluster import check_client, check_workers, listing, lost, result_of
from leafwise.exceptions import DependencyError, LeafwiseError
from leafwise.labels import is_missing
from leafwise.models._blocks import Blocks, add, finished
from leafwise.text import WordCounter
from leafwise.threads import limited

if TYPE_CHECKING:
    from distributed import Client, Future

_TOGETHER = 8  # results that one task adds up
_PER_WORKER = 4  # pieces of work for each worker, where it is for us to cut


# ---- blocks on workers --------------------------------------------------------------------------


class OnWorkers(Blocks):
    """Blocks that are results of tasks, and stay on the workers."""

    parts: list[Future]

    def __init__(self, client: Client, parts: Sequence[Future], sizes: Sequence[int]):
        super().__init__(list(parts), sizes)
        self.client = client

    def total(self, function: Callable, *shared: Any, rows: Sequence[Any] = ()) -> Any:
        results = self._tasks(function, shared, rows)
        while len(results) > 1:
            groups = range(0, len(results), _TOGETHER)
            results = [self._submit(_sum, results[a : a + _TOGETHER]) for a in groups]
        return finished(result_of(self.client, results[0]))

    def derive(self, function: Callable, *shared: Any, rows: Sequence[Any] = ()) -> Blocks:
        return OnWorkers(self.client, self._tasks(function, shared, rows), self.sizes)

    def sized(self, sizes: Sequence[int]) -> Blocks:
        return OnWorkers(self.client, self.parts, sizes)

    def spread(self, parts: Sequence[Any]) -> Blocks:
        return blocks_of(self.client, parts, [1] * len(parts))

    def _tasks(self, function: Callable, shared: tuple, rows: Sequence[Any]) -> list[Future]:
        # What is shared is the result of a task on which the others depend: so it travels once to
        # each worker, and unlike scattered data it can be had again when the worker is lost.
        held = self._submit(_same, _Held(shared))
        return [
            self._submit(_work, function, part, held, _Held(own))
            for part, own in zip(self.parts, self._cut(rows))
        ]

    def _submit(self, function: Callable, *args: Any) -> Future:
        return _submit(self.client, function, *args)


class _Held:
    """Something that Dask is not to look into."""

    def __init__(self, value: Any):
        self.value = value


def _submit(client: Client, function: Callable, *args: Any) -> Future:
    import dask

    # Parameters of a model are large, and are sent with their task on purpose.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TiB"}):
        return _begun(client.submit(function, *args, pure=False))


_under_way: ContextVar[WeakSet[Future] | None] = ContextVar("_under_way", default=None)


def _begun(future: Future) -> Future:
    """Take note of a task, for `released`."""
    tasks = _under_way.get()
    if tasks is not None:
        tasks.add(future)
    return future


@contextmanager
def released() -> Iterator[None]:
    """Let go of all tasks that the block has begun, where it fails: they end, or do not begin.

    An exception keeps what was at hand where it was raised, and so would it keep them.
    """
    tasks: WeakSet[Future] = WeakSet()
    before = _under_way.set(tasks)
    try:
        yield
    except BaseException:
        # Not `Client.cancel`, which would end what others wait for, such as a bag that is kept.
        for task in tasks:
            with suppress(Exception):  # of a scheduler that is gone
                task.release()
        raise
    finally:
        _under_way.reset(before)


def _same(value: Any) -> Any:
    return value


def _work(function: Callable, part: Any, held: _Held, own: _Held) -> Any:
    if isinstance(part, _Held):
        part = part.value
    with limited(1):  # the other cores are those of other tasks
        return function(part, *held.value, *own.value)


def _sum(results: list) -> Any:
    return reduce(add, results)


def blocks_of(
    client: Client, parts: Sequence[Any], sizes: Sequence[int] | None = None
) -> OnWorkers:
    """Make blocks of parts that are here."""
    sizes = [part.shape[0] for part in parts] if sizes is None else sizes
    return OnWorkers(client, [_submit(client, _same, _Held(part)) for part in parts], sizes)


def places(client: Client) -> OnWorkers:
    """Blocks of no document: pieces of work to be dealt out."""
    n_threads = sum(worker["nthreads"] for worker in client.scheduler_info()["workers"].values())
    return OnWorkers(client, [], [0] * _PER_WORKER * max(1, n_threads))


def client_of(client: Client | None) -> Client:
    try:
        from distributed import default_client

        client = default_client() if client is None else client
    except ImportError:
        raise DependencyError('A cluster needs Dask: pip install "leafwise[dask]"') from None
    except ValueError:
        raise LeafwiseError(
            "There is no client: give client=distributed.Client(...), or connect with "
            'leafwise.distributed.connect("local:2").'
        ) from None
    check_client(client)
    if client.status in ("closed", "closing"):
        raise LeafwiseError("The client is closed: connect again, and stay inside the block.")
    with lost(client):
        check_workers(client)
    return client


# ---- texts --------------------------------------------------------------------------------------


class Texts(NamedTuple):
    """A block of texts, as they were read."""

    texts: list[str]
    labels: list
    bad: bytes  # the bad rows, as CSV
    n_bad: int


class Counted(NamedTuple):
    """A block of texts, counted by a vocabulary of its own."""

    counter: WordCounter
    X: sparse.csr_matrix
    labels: list


def read_texts(client: Client, data: Any, options: dict, bad_rows: Any) -> OnWorkers:
    files.check_options(options)
    if isinstance(data, str | os.PathLike):
        data = files.find(data, format=options.get("format"))
    if isinstance(data, list | tuple) and data and isinstance(data[0], files.Partition):
        if bad_rows is not None and not options.get("skip_bad"):
            raise ValueError("bad_rows lists what skip_bad=True leaves out: give both.")
        here = os.getcwd()
        parts = [_submit(client, _read_file, _Held(one), _Held(options), here) for one in data]
    elif hasattr(data, "to_delayed"):
        names = {key: options.pop(key, None) for key in ("text", "label")}
        if options:
            raise TypeError(f"{next(iter(options))} is an option for files alone.")
        read = _read_frame if hasattr(data, "columns") else _read_bag
        if hasattr(data, "columns"):
            names = _columns(list(data.columns), names)
        made = [_begun(one) for one in client.compute(_delayed(data))]
        parts = [_submit(client, read, one, _Held(names)) for one in made]
    else:
        raise TypeError(
            f"data is a {type(data).__name__}: expected the path of files, a Dask bag or dataframe "
            "of texts; or, for a model alone, a list of (word counts, labels) pairs."
        )
    sizes = [_submit(client, _size_of, part) for part in parts]
    found = [result_of(client, size) for size in sizes]
    blocks = OnWorkers(client, parts, [n for n, _, _ in found])
    n_bad = sum(n for _, n, _ in found)
    if not blocks.n_documents:
        raise files.no_documents("the data", n_bad)
    with listing(bad_rows) as listed:
        for i, (_, _, rows) in enumerate(found):
            listed(i, rows)
    if n_bad:
        where = f"; {os.fspath(bad_rows)} says why" if bad_rows else ""
        warnings.warn(f"Left out {n_bad:,} bad rows{where}.", UserWarning, stacklevel=3)
    return blocks


def _delayed(data: Any) -> list:
    return np.ravel(data.to_delayed()).tolist()


def _columns(columns: list[str], asked: dict) -> dict:
    from leafwise.corpus_columns import LABEL_NAMES, TEXT_NAMES, find_column

    found = {
        "text": find_column(columns, asked["text"], TEXT_NAMES),
        "label": find_column(columns, asked["label"], LABEL_NAMES),
    }
    for key, name in asked.items():
        if found[key] is None and (name is not None or key == "text"):
            raise LeafwiseError(
                f'There is no column "{name or key}" in the dataframe. Its columns: '
                f"{', '.join(map(str, columns))}. {key}= names another."
            )
    return found


def _read_file(partition: _Held, options: _Held, below: str) -> Texts:
    texts: list[str] = []
    labels: list = []
    with tempfile.TemporaryDirectory(prefix="leafwise-") as folder:
        bad = os.path.join(folder, "bad-rows.csv")
        with files.opened(partition.value, below=below, bad_rows=bad, **options.value) as corpus:
            for batch in files.documents(corpus):
                texts += batch.texts
                labels += batch.labels
        rows = b""
        if corpus.n_bad:
            with open(bad, "rb") as file:
                rows = file.read()
    return Texts(texts, labels, rows, corpus.n_bad or 0)


def _read_frame(frame: Any, names: _Held) -> Texts:
    texts = frame[names.value["text"]].tolist()
    label = names.value["label"]
    labels = [None] * len(texts) if label is None else frame[label].tolist()
    return _checked(texts, [None if is_missing(one) else one for one in labels])


def _read_bag(items: Any, names: _Held) -> Texts:
    text, label = (names.value[key] or key for key in ("text", "label"))
    texts, labels = [], []
    for item in items:
        if isinstance(item, str):
            item = item, None
        elif isinstance(item, dict):
            if text not in item:
                raise LeafwiseError(
                    f'The bag holds a mapping without a "{text}": it has '
                    f'{", ".join(map(str, item))}. Say which key holds the texts: text="body".'
                )
            item = item[text], item.get(label)
        if not (isinstance(item, tuple | list) and len(item) == 2):
            raise LeafwiseError(
                f"The bag holds {item!r:.100}: expected texts, (text, label) pairs, or mappings "
                f'with a "{text}".'
            )
        texts.append(item[0])
        labels.append(item[1])
    return _checked(texts, labels)


def _checked(texts: list, labels: list) -> Texts:
    odd = [one for one in texts if not isinstance(one, str)]
    if odd:
        raise LeafwiseError(
            f"A text is {odd[0]!r:.100} ({type(odd[0]).__name__}), expected a string."
        )
    return Texts(texts, labels, b"", 0)


def _size_of(block: Texts) -> tuple[int, int, bytes]:
    return len(block.texts), block.n_bad, block.bad


def texts_of(block: Texts) -> list[str]:
    return block.texts


# ---- counts -------------------------------------------------------------------------------------


class _Merged:
    """Counters that add up."""

    def __init__(self, *counters: WordCounter):
        self.counters = counters

    def __add__(self, other: _Merged) -> _Merged:
        return _Merged(clone(self.counters[0]).merge([*self.counters, *other.counters]))


def count_texts(counter: WordCounter, texts: Blocks) -> Blocks:
    """Learn the vocabulary of all texts; return blocks of what is counted by it."""
    every = clone(counter).set_params(min_count=1, max_df=1.0)
    counted = texts.derive(_count_words, every)
    merged = counted.total(_merged)
    counter._reset()
    counter.merge(merged.counters)
    counter._require_words()
    return counted.derive(_by_vocabulary, counter)


def _count_words(block: Texts, counter: WordCounter) -> Counted:
    counter = clone(counter)
    if not block.texts:
        counter.partial_fit([])
        return Counted(counter, sparse.csr_matrix((0, 0), dtype=np.int64), [])
    parts = list(counter._count_and_learn(block.texts))
    counter._set_columns()
    return Counted(counter, counter._matrix(parts, counter._column_of_word()), block.labels)


def _merged(block: Counted) -> _Merged:
    return _Merged(block.counter)


def _by_vocabulary(block: Counted, counter: WordCounter) -> Counted:
    """Have the columns of all texts."""
    column_of = counter.vocabulary_
    new = np.array([column_of.get(word, -1) for word in block.counter.vocabulary_], np.int64)
    X = block.X.tocoo()
    columns = new[X.col] if len(new) else np.empty(0, np.int64)
    kept = columns >= 0
    cells = (X.data[kept], (X.row[kept], columns[kept]))
    renamed = sparse.csr_matrix(cells, (len(block.labels), len(column_of)))
    renamed.sort_indices()
    return Counted(counter, renamed, block.labels)


def read_counts(client: Client, model: Any, data: Any) -> Blocks:
    if not isinstance(data, list | tuple) or not data:
        raise TypeError(
            f"{type(model).__name__} alone takes word counts: expected a list of (X, labels) "
            "pairs. For texts, put a WordCounter before it: make_pipeline(WordCounter(), model)."
        )
    blocks = []
    for i, one in enumerate(data):
        X, labels = pair(one, i)
        X = model._counts(X, reset=i == 0) if i == 0 else _as_wide(model, X, i)
        labels = [None] * X.shape[0] if labels is None else labels
        if len(labels) != X.shape[0]:
            raise ValueError(f"Block {i} has {X.shape[0]} documents and {len(labels)} labels.")
        blocks.append(Counted(None, X, labels))  # type: ignore[arg-type]
    return blocks_of(client, blocks, [block.X.shape[0] for block in blocks])


def _as_wide(model: Any, X: Any, i: int) -> Any:
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"Block {i} has {X.shape[1]} columns, the first {model.n_features_in_}: expected the "
            "same words."
        )
    return sparse.csr_matrix(X)


def pair(block: Any, i: int) -> tuple[Any, Any]:
    if sparse.issparse(block) or isinstance(block, np.ndarray):
        return block, None
    if isinstance(block, tuple | list) and len(block) == 2:
        return block[0], block[1]
    raise TypeError(
        f"Block {i} is a {type(block).__name__}: expected word counts, or (word counts, labels)."
    )
