"""The same work on one core and on two, for docs/scale.md: in threads, and by Dask's workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numba
import numpy as np
from measuring import in_turn
from scale_work import EM, MIXTURE, messages, model_of
from scipy import sparse
from sklearn.pipeline import make_pipeline

import leafwise as lw
from leafwise.datasets import Dataset
from leafwise.models._em import Rows, Sharing, e_step
from leafwise.threads import in_threads as run_in_threads
from leafwise.threads import limited

K = 30  # neighbours
CLASSES = 20  # that PLSA shares documents among
STEPS = 10  # of EM
COPIES = 12  # of the messages that HierarchicalDirichlet learns from
SMALL = 5000  # documents: fewer are a trial

Work = Callable[[], Any]


def _words(news: Dataset) -> tuple[lw.WordCounter, sparse.csr_matrix]:
    counter = lw.WordCounter(stop_words="english", stemmer="english", min_count=3)
    return counter, counter.fit_transform(news.texts)


# ---- threads ------------------------------------------------------------------------------------


@numba.njit(nogil=True)
def _arithmetic(n, seed):  # pragma: no cover - compiled
    """Add and mix numbers that fit into registers, several at a time."""
    a = b = c = d = np.uint64(seed)
    for i in range(np.uint64(n)):
        a += b ^ i
        b += c ^ i
        c += d ^ i
        d += a ^ i
    return a ^ b ^ c ^ d


def _nothing_shared(news: Dataset) -> Work:
    """Do what touches no memory: what two cores can do that have nothing in common but power."""
    n = 5_000_000 if len(news) < SMALL else 200_000_000
    return lambda: run_in_threads(lambda seed: _arithmetic(n, seed), range(4))


def _counting(news: Dataset) -> Work:
    texts = news.texts * 3
    return lambda: lw.WordCounter().fit_transform(texts)


def _counting_again(news: Dataset) -> Work:
    texts, counter = news.texts * 3, lw.WordCounter().fit(news.texts)
    return lambda: counter.transform(texts)


def _graph(news: Dataset) -> Work:
    _, X = _words(news)
    return lambda: lw.neighbor_graph(X, K)


def _step(news: Dataset) -> Work:
    """Share the words of all documents among classes, as PLSA does, several times."""
    _, X = _words(news)
    rng = np.random.default_rng(0)
    rows = Rows(X.indptr.astype(np.int64), X.indices, X.data.astype(np.float64))
    q = rng.random((X.shape[1], CLASSES))
    weights = rng.dirichlet(np.ones(CLASSES), X.shape[0])

    def work() -> None:
        for _ in range(STEPS):
            e_step(rows, q, weights, Sharing(), items="shared")

    return work


def _dirichlet(news: Dataset, copies: int = COPIES) -> Work:
    """Learn from keywords, in as many steps as by default. Matching keywords is a part of it."""
    counter, X = _words(news)
    X = sparse.csr_matrix(sparse.vstack([X] * copies))
    model = model_of(EM, news.taxonomy, counter).set_params(max_iter=STEPS)
    return lambda: model.fit(X)


def _given(news: Dataset) -> Work:
    """Fit a tree that is given."""
    _, X = _words(news)
    model = lw.HPLSA(tree=news.taxonomy, betas=[1.0], max_iter=STEPS, tol=0.0)
    return lambda: model.fit(X)


def _growing(news: Dataset) -> Work:
    """Grow four leaves: of EM, how classes come apart, and what the tree is then built of."""
    _, X = _words(news)
    model = lw.HPLSA(4, betas=[0.7, 1.0], max_iter=STEPS)
    return lambda: model.fit(X)


THREADED: dict[str, Callable[[Dataset], Work]] = {
    "arithmetic alone, for comparison": _nothing_shared,
    "counting, which learns words": _counting,
    "counting known words": _counting_again,
    "graph": _graph,
    "E step of PLSA": _step,
    "EM of HierarchicalDirichlet": _dirichlet,
    "the same, each message once": partial(_dirichlet, copies=1),
    "EM of HPLSA": _given,
    "growth by HPLSA": _growing,
}


def in_threads(what: str, data: str | None, small: bool, repeat: int) -> dict[str, Any]:
    """Do the same work in one thread, in two, and by two processes that each do all, in turn."""
    news = messages(data, small)
    work = THREADED[what](news)

    def within(n: int) -> None:
        with limited(n):
            work()

    def twice() -> None:
        other = get_context("fork").Process(target=within, args=(1,))
        other.start()
        within(1)
        other.join()

    within(2)  # loads compiled code
    ways = {"one": partial(within, 1), "two": partial(within, 2), "twice": twice}
    return {**in_turn(ways, repeat), "documents": len(news), "repeat": repeat}


# ---- workers ------------------------------------------------------------------------------------


def _pipeline(tree: lw.Taxonomy) -> Any:
    return make_pipeline(lw.WordCounter(min_count=3), lw.HierarchicalMixture(tree, nodes="leaves"))


def _blocks(X: sparse.csr_matrix, n: int = 8) -> list[tuple[sparse.csr_matrix, None]]:
    return [(X[rows], None) for rows in np.array_split(np.arange(X.shape[0]), n)]


def _fit_files(news: Dataset, folder: Path) -> Callable[[Any], Any]:
    from leafwise import distributed

    options = {"text": "text", "label": "truth"}
    return lambda client: distributed.fit(
        _pipeline(news.taxonomy), str(folder), client=client, **options
    )


def _fit_blocks(news: Dataset, folder: Path) -> Callable[[Any], Any]:
    from leafwise import distributed

    counter, X = _words(news)
    blocks = _blocks(X)
    return lambda client: distributed.fit(
        model_of(EM, news.taxonomy, counter), blocks, client=client
    )


def _find(news: Dataset, folder: Path) -> Callable[[Any], Any]:
    from leafwise import distributed

    _, X = _words(news)
    return lambda client: distributed.neighbor_graph(X, K, client=client)


def _predict(news: Dataset, folder: Path) -> Callable[[Any], Any]:
    from leafwise import distributed

    model = _pipeline(news.taxonomy).fit(news.texts, list(news.labels))
    return lambda client: distributed.predict(model, str(folder), client=client, text="text")


ON_WORKERS: dict[str, Callable[[Dataset, Path], Callable[[Any], Any]]] = {
    f"counting and {MIXTURE}": _fit_files,
    "EM of HierarchicalDirichlet": _fit_blocks,
    "graph": _find,
    f"prediction by {MIXTURE}": _predict,
}


def on_workers(
    whats: Sequence[str], folder: Path, data: str | None, small: bool, repeat: int
) -> list[dict[str, Any]]:
    """Do the same work on a cluster of one process and on one of two, in turn."""
    from leafwise.distributed import connect

    news = messages(data, small)
    files = list(folder.iterdir())
    megabytes = sum(file.stat().st_size for file in files) / 1e6
    about = {"documents": len(news), "files": len(files), "megabytes": megabytes, "repeat": repeat}
    found = []
    with connect("local:1") as one, connect("local:2") as two:
        for what in whats:
            work = ON_WORKERS[what](news, folder)
            for client in (one, two):
                work(client)  # loads compiled code
            took = in_turn({"one": partial(work, one), "two": partial(work, two)}, repeat)
            found.append({"what": what, **took, **about})
    return found
