"""How time and memory of HierarchicalDirichlet grow, exact and pruned: docs/scale-dirichlet.md.

Every run has a process of its own, so that its peak of memory is its own. Imports, data and
compiled code are there before the clock starts.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import pickle
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring import ENOUGH, REPEAT, alone, head, peak, row, slope
from scipy import sparse

import leafwise as lw
from leafwise.datasets import load_directory

FAN_OUT = 10
OWN_WORDS = 8  # of each node, besides its keywords
KEYWORD = 0.067  # of words, so that half of the documents of ten words have one
BACKGROUND = 0.45  # of words
UP = 1 / 3  # how often a word comes from the node above, and so on
FIXED = {"nodes": "leaves", "words": "roots", "sigma": 300.0, "max_iter": 3}
WAYS: dict[str, dict] = {"exact": {"candidates": None}, "pruned": {"candidates": 200}}
BASE = {"documents": 30_000, "nodes": 1_000, "words": 100_000}
SIZES = {
    "documents": (5_000, 15_000, 50_000, 150_000),
    "nodes": (300, 1_000, 3_000, 10_000, 30_000),
    "words": (5_000, 15_000, 50_000, 150_000),
}
LABELLED = (0.0, 0.01, 0.1, 0.5, 1.0)
SMALL = {"documents": 100_000, "nodes": 1_000, "words": 100_000}
LARGE = {"documents": 1_000_000, "nodes": 100_000, "words": 300_000}

PAGE = """\
# Scale of HierarchicalDirichlet

Printed by `make docs` (`python benchmarks/dirichlet.py --data DIR --out FILE`; with `--large` the
largest size, too) on {} cores of {}, Python {}. Each run has a process of its own; imports, data
and compiled code are there before the clock starts. Times are medians of three fits, or of fewer
where they take more than ten seconds together, and vary with what else the machine does. Memory is
the most that the process had at once, imports and data included.

The documents are drawn: about ten words each, at the leaves of a tree in which a node has ten
children. A node has two keywords of its own and eight other words, which other nodes may have too;
half of the documents have a keyword. σ is 300, EM makes three estimates, words count by their
roots and leaves are predicted, if nothing else is said. "Exact" scores documents at all nodes,
"pruned" at 200 of those at which one of their words adds most.
"""
GROWTH = """\
Without labels, from keywords and EM. The exponent is b of cost = a · size^b, by least squares in
logarithms; that of memory is of what fitting adds to what was there before.
"""
LABELS = """\
The labels of some documents are given, drawn at random; accuracy is that on the others.
"""
STATED = """\
Without labels. Where σ is chosen ("auto"), EM goes on for at most ten estimates.
"""
APPROXIMATION = """\
The whole web directory: {:,} documents, at nodes of any depth, of which leaves are predicted, from
the words of the nodes' names alone.
"""


class Corpus(NamedTuple):
    """Word counts, the tree, what finds its keywords, and the node that each document is at."""

    X: sparse.csr_matrix
    taxonomy: lw.Taxonomy
    vocabulary: Any
    truth: np.ndarray


class Run(NamedTuple):
    """What a fit took and gave.

    Attributes
    ----------
    fit, predict : seconds
    peak, before : the most memory in use until the end of the fit and until its start, GiB
    sigma : the σ in use
    accuracy : on the documents whose labels were not given
    found : the node of each document
    """

    fit: float
    predict: float
    peak: float
    before: float
    sigma: float
    accuracy: float
    found: np.ndarray


def draw(
    documents: int, nodes: int, words: int, seed: int = 0, length: int = 10, part: int = 0
) -> Corpus:
    """Draw documents of about ten words, each at a leaf, from the words of its path and others.

    A node has two keywords of its own and some other words, which other nodes may have too. The
    rest of a document are background words, the k-th of them as often as 1 / k. Parts of a large
    corpus differ in their documents alone.
    """
    rng = np.random.default_rng(seed)
    n_others = words - 2 * nodes
    if n_others < 1:
        raise ValueError(f"{nodes} nodes have {2 * nodes} keywords: expected more words.")
    parent = (np.arange(nodes) - 1) // FAN_OUT
    own = 2 * nodes + rng.integers(n_others, size=(nodes, OWN_WORDS))
    if part:
        rng = np.random.default_rng((seed, part))
    is_leaf = np.bincount(parent[1:], minlength=nodes) == 0
    truth = rng.choice(np.flatnonzero(is_leaf), documents)
    n_tokens = 1 + rng.poisson(length - 1, documents)
    at = np.repeat(truth, n_tokens)
    n = len(at)
    climbing = np.arange(n)
    while len(climbing):
        climbing = climbing[(rng.random(len(climbing)) < UP) & (at[climbing] > 0)]
        at[climbing] = parent[at[climbing]]
    rank = np.exp(rng.random(n) * np.log(n_others + 1)).astype(np.int64) - 1
    word = 2 * nodes + np.minimum(rank, n_others - 1)
    kind = rng.random(n)
    from_path = np.flatnonzero(kind >= BACKGROUND)
    word[from_path] = own[at[from_path], rng.integers(OWN_WORDS, size=len(from_path))]
    from_keywords = np.flatnonzero(kind >= 1 - KEYWORD)
    word[from_keywords] = 2 * at[from_keywords] + rng.integers(2, size=len(from_keywords))
    indptr = np.append(0, np.cumsum(n_tokens))
    X = sparse.csr_matrix((np.ones(n, np.int64), word, indptr), (documents, words))
    X.sum_duplicates()
    tree = lw.Taxonomy(
        [f"n{i}" for i in range(nodes)],
        parent,
        [[f"w{2 * i}", f"w{2 * i + 1}"] for i in range(nodes)],
    )
    number = np.empty(nodes, np.int64)
    number[[int(name[1:]) for name in tree.names]] = np.arange(nodes)
    return Corpus(X, tree, [f"w{w}" for w in range(words)], number[truth])


def read_directory(data: str | None) -> Corpus:
    directory = load_directory("all", data=data)
    counter = lw.WordCounter(stop_words="english", stemmer="english", compounds=True)
    X = counter.fit_transform(directory.texts)
    return Corpus(X, directory.taxonomy, counter, directory.taxonomy.indices(directory.labels))


def keep(path: Path, make: Callable[..., Corpus], *args: Any) -> None:
    """Make a corpus and write it to a file, for other processes to open."""
    path.write_bytes(pickle.dumps(make(*args), protocol=5))


def measure(path: Path, settings: dict, labelled: float, predicts: bool) -> Run:
    """Fit a model to a corpus; `labelled` is the share of its documents whose labels are given."""
    _model(draw(600, 20, 200), settings, np.arange(600) < 600 * labelled)  # loads compiled code
    with path.open("rb") as file:
        corpus = pickle.load(file)
    known = np.random.default_rng(1).random(len(corpus.truth)) < labelled
    before = peak()
    times: list[float] = []
    while len(times) < REPEAT and sum(times) < ENOUGH:
        started = time.perf_counter()
        model = _model(corpus, settings, known)
        times.append(time.perf_counter() - started)
        if len(times) == 1:
            most = peak()
    fit = float(np.median(times))
    found, predict, accuracy = np.empty(0, np.int64), 0.0, np.nan
    if predicts:
        started = time.perf_counter()
        labels = model.predict(corpus.X)
        predict = time.perf_counter() - started
        found = corpus.taxonomy.indices(labels)
        if not known.all():
            accuracy = float(np.mean((found == corpus.truth)[~known]))
    return Run(fit, predict, most, before, model.sigma_, accuracy, found)


def _model(corpus: Corpus, settings: dict, known: np.ndarray) -> lw.HierarchicalDirichlet:
    paths = corpus.taxonomy.paths
    y = [paths[i] if k else None for i, k in zip(corpus.truth, known)] if known.any() else None
    model = lw.HierarchicalDirichlet(corpus.taxonomy, vocabulary=corpus.vocabulary, **settings)
    return model.fit(corpus.X, y)


def runs(
    make: Callable[..., Corpus],
    args: Iterable,
    settings: Iterable[dict],
    labelled: float = 0.0,
    predicts: bool = False,
) -> list[Run]:
    """Fit models of several settings to one corpus, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus")
        alone(keep, path, make, *args)
        found = []
        for setting in settings:
            found.append(alone(measure, path, setting, labelled, predicts))
            said = f"{make.__name__}{tuple(args)} {setting}: {found[-1].fit:.1f} s"
            print(f"{said}, {found[-1].peak:.2f} GiB", file=sys.stderr, flush=True)
    return found


def grow(scale: float) -> None:
    settings = [FIXED | way for way in WAYS.values()]
    base = scaled(BASE, scale)
    print("## Growth\n")
    print(GROWTH)
    for name, sizes in SIZES.items():
        fixed = ", ".join(f"{n:,} {other}" for other, n in base.items() if other != name)
        print(f"### {name.capitalize()} ({fixed})\n")
        head(name, *(f"{way}, {what}" for way in WAYS for what in ("s", "GiB", "of it for fit")))
        used = [round(size * scale) for size in sizes]
        table = []
        for size in used:
            found = runs(draw, (base | {name: size}).values(), settings)
            table.append([n for run in found for n in (run.fit, run.peak, run.peak - run.before)])
            row([f"{size:,}", *(f"{n:.2f}" for n in table[-1])])
        growth = ["" if k % 3 == 1 else slope(used, cost) for k, cost in enumerate(zip(*table))]
        row(["exponent", *growth])
        print()


def labels(scale: float) -> None:
    size = scaled(BASE, scale).values()
    settings = [FIXED | way for way in WAYS.values()]
    print("## With labels ({:,} documents, {:,} nodes, {:,} words)\n".format(*size))
    print(LABELS)
    whats = ("s", "GiB", "accuracy")
    head("with a label", *(f"{way}, {what}" for way in WAYS for what in whats))
    for share in LABELLED:
        cells = []
        for run in runs(draw, size, settings, share, predicts=share < 1):
            right = f"{run.accuracy:.3f}" if share < 1 else ""
            cells += [f"{run.fit:.2f}", f"{run.peak:.2f}", right]
        row([f"{100 * share:.0f} %", *cells])
    print()


def stated(scale: float, large: bool) -> None:
    print("## Two sizes\n")
    print(STATED)
    head("documents", "nodes", "words", "scored at", "σ", "fit, s", "predict, s", "GiB", "accuracy")
    cases = [(SMALL, {"nodes": "leaves", "words": "roots", "candidates": None}, "all nodes")]
    if large:
        cases.append((LARGE, FIXED | WAYS["pruned"], "200 nodes"))
    for case, settings, where in cases:
        size = scaled(case, scale).values()
        try:
            (run,) = runs(draw, size, [settings], predicts=True)
        except (MemoryError, BrokenProcessPool):
            row([*(f"{n:,}" for n in size), where, "", "out of memory", "", "", ""])
            continue
        sigma = f"{run.sigma:.0f}" + " (auto)" * ("sigma" not in settings)
        times = f"{run.fit:.0f}", f"{run.predict:.0f}"
        cost = *times, f"{run.peak:.2f}", f"{run.accuracy:.3f}"
        row([*(f"{n:,}" for n in size), where, sigma, *cost])
    print()


def approximation(data: str | None) -> None:
    candidates = (None, 400, 200, 50)
    settings = [FIXED | {"candidates": n} for n in candidates]
    found = runs(read_directory, [data], settings, predicts=True)
    print("## What pruning costs\n")
    print(APPROXIMATION.format(len(found[0].found)))
    head("scored at", "fit, s", "predict, s", "GiB", "accuracy", "same as exact")
    for n, run in zip(candidates, found):
        same = f"{np.mean(run.found == found[0].found):.3f}"
        times = f"{run.fit:.1f}", f"{run.predict:.1f}"
        row([n or "all nodes", *times, f"{run.peak:.2f}", f"{run.accuracy:.3f}", same])
    print()


def scaled(sizes: dict[str, int], scale: float) -> dict[str, int]:
    return {name: round(size * scale) for name, size in sizes.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument(
        "--large", action="store_true", help="100,000 nodes and 1,000,000 documents"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="all drawn sizes times this")
    parser.add_argument("--out", type=Path, help="Markdown file to write, besides printing")
    args = parser.parse_args()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print(PAGE.format(os.cpu_count(), platform.machine(), platform.python_version()))
        stated(args.scale, args.large)
        grow(args.scale)
        labels(args.scale)
        approximation(args.data)
    print(printed.getvalue())
    if args.out:
        args.out.write_text(printed.getvalue().rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
