"""The tables of docs/scale.md that go beyond what was run: from the fitted growth, on paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scale_cores import K
from scale_work import EM, LABELS, MIXTURE, PRUNED

from leafwise.papers import markdown

if TYPE_CHECKING:
    from scale_page import Values

DOCUMENTS, NODES = 10**8, 10**6  # the largest of the tables
WORKERS = 16  # of the cluster on paper
PER_ENTRY = 12  # bytes: a number and where it stands
PER_DOCUMENT = 72  # bytes that HierarchicalDirichlet's EM keeps of each where it was started
COPIES = 3  # of the counts on disk: as they are, by their roots, and those that EM goes over
LEAVES = 20  # of HPLSA
WORK = {MIXTURE: f"counting and {MIXTURE}", EM: "EM of HierarchicalDirichlet"}

ADVICE = """\
- **10⁴ documents**: in memory, with any model. `TaxonomyClassifier` has all of its stages.
- **10⁶ documents**: in memory where there is room for them; else [streams](streams.md), with
  `--memory` on the command line and `leafwise.streams.fit` in Python. Models of counts, or
  `TaxonomyClassifier`, which then learns from a sample and classifies everything.
- **10⁸ documents**: streams on one machine, or [a cluster](cluster.md). Learn from labels and
  counts; EM goes over all documents again and again. The [exact neighbour graph](scale-graph.md)
  grows with the square of the documents, so it is out of reach; spread labels in a sample.
- **10² nodes**: any model, `GeneralShrinkage` too.
- **10⁴ nodes**: `NaiveBayes`, `HierarchicalMixture` and its kin, or `HierarchicalDirichlet`, which
  scores few nodes for each document (`candidates=200`).
- **10⁶ nodes**: `HierarchicalDirichlet` with labels, or with `candidates`. It has nothing as
  large as nodes × words. `HierarchicalMixture` and its kin have such a table when they predict, a
  block at a time.
"""
MARKED = """\
What was run is in plain type (see [sizes that were run](#sizes-that-were-run)). *What is in italics
is on paper*: from the largest size that was run, by the fitted growth (but times at least in
proportion to documents), for a vocabulary that does not grow. Memory is the most at once.
"""
CLUSTER = """\
On paper a cluster has {workers} workers of one core each. They are taken to be as efficient as two
workers were [on this machine](#one-core-and-two) beside one. The client is where `fit` is called.
"""
TRAVELS = """\
What travels over the network, on paper, with {nodes:,} nodes and {words:,} words, {distinct:.0f}
distinct words in a document, and {workers} workers. An entry of a sparse matrix has {entry} bytes.

- `HierarchicalDirichlet` sends the scores of its tree ({entries:,} entries with {documents:,}
  documents), and gets back counts ({pairs:,} pairs of a node and a word) and 4 bytes for each
  document, its best node. Other models of counts send nothing, and get such counts back, once.
- `HPLSA`, here with {leaves} leaves, sends and gets 8 bytes for each document and leaf, and for
  each word and leaf.
- The graph needs all counts at every worker (in parts, if there are many documents), and returns
  {k} neighbours of each document.
- The harmonic solution needs the graph at every worker, and returns 8 bytes for each document and
  class.
"""


def duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def size_of(n_bytes: float) -> str:
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes / 2**10:.3g} KiB"


def _paper(text: str) -> str:
    return f"*{text}*" if text else ""


# ---- the two tables of what to use --------------------------------------------------------------


def what_to_use(values: Values) -> list[str]:
    """Say what there is for each number of documents and of nodes, and what it takes."""
    parts = ["## What to use\n", ADVICE, MARKED]
    base = _base(values)
    if base is None:
        return [*parts, "Not measured.\n"]
    header = ["documents", "way", "model", "fit", "memory", "disk"]
    fixed = f"{base['nodes']:,} nodes, {base['words']:,} words"
    parts.append(f"### Documents ({fixed})\n")
    parts.append(markdown(header, _documents(values, base)) + "\n")
    parts.append(CLUSTER.format(workers=WORKERS))
    if rows := _nodes(values, base):
        header = ["nodes", "documents", "words", "model", "fit", "memory", "a document, ms"]
        parts += ["### Nodes\n", markdown(header, rows) + "\n"]
    return parts


def _base(values: Values) -> Mapping[str, Any] | None:
    """Return the line of the most documents: nodes and words are as there."""
    lines = [one for one in values.find(part="size") if one["nodes"] <= one["documents"] / 10]
    return max(lines, key=lambda one: one["documents"], default=None)


def _alike(values: Values, base: Mapping[str, Any], **key: Any) -> list[Mapping[str, Any]]:
    lines = values.find(part="size", nodes=base["nodes"], words=base["words"], **key)
    return sorted(lines, key=lambda one: one["documents"])


def _documents(values: Values, base: Mapping[str, Any]) -> list[list[str]]:
    rows = [
        [
            f"{one['documents']:,}",
            one["way"] + (f", {one['memory']}" if "memory" in one else ""),
            one["model"],
            duration(one["fit"]),
            size_of(one["peak"] * 2**30),
            _on_disk(one, values) if one["way"] == "streams" else "",
        ]
        for one in _alike(values, base)
    ]
    for model in (MIXTURE, EM):
        found = _alike(values, base, way="streams", model=model)
        if found and found[-1]["documents"] < DOCUMENTS:
            rows += _on_paper(values, found[-1])
    return rows


def _on_disk(one: Mapping[str, Any], values: Values) -> str:
    n_bytes = one["gigabytes"] * 1e9
    if one["model"] == EM:
        n_bytes += COPIES * PER_ENTRY * _distinct(values) * one["documents"]
    return size_of(n_bytes)


def _distinct(values: Values) -> float:
    """Return how many distinct words a document has."""
    line = values.find(part="size", way="in memory")[-1]
    return line["nnz"] / line["documents"]


def _times(values: Values, along: str, model: str, what: str, ratio: float) -> float:
    """Return by how much a cost grows, where a size grows by a ratio."""
    growth = values.growth(along, model, what)
    return ratio ** (1.0 if growth is None else growth.b)


def _on_paper(values: Values, base: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of the most documents: on one machine, and on a cluster."""
    model, ratio = base["model"], DOCUMENTS / base["documents"]
    time = base["fit"] * max(ratio, _times(values, "documents", model, "fit", ratio))
    pairs = _pairs(values, base, DOCUMENTS)
    memory = base["peak"] * 2**30 * pairs / base["pairs"]
    distinct = _distinct(values)
    disk = base["gigabytes"] * 1e9 * ratio
    blocks = PER_ENTRY * distinct * DOCUMENTS
    is_em = model == EM
    if is_em:
        memory += PER_DOCUMENT * DOCUMENTS
    here = ["streams", model, duration(time), size_of(memory)]
    rows = [[f"{DOCUMENTS:,}", *here, size_of(disk + is_em * COPIES * blocks)]]
    about, work = values.one(part="machine"), values.one(part="cores", what=WORK[model])
    if about and work:
        efficiency = min(1.0, work["one"] / work["two"] / 2)
        time *= about["cores"] / WORKERS / efficiency
        worker = (1 + is_em) * blocks / WORKERS + (1 + is_em) * PER_ENTRY * pairs
        shown = f"client {size_of(memory)}, worker {size_of(worker)}"
        rows.append(
            [f"{DOCUMENTS:,}", f"cluster of {WORKERS}", model, duration(time), shown, size_of(disk)]
        )
    return [[_paper(cell) for cell in row] for row in rows]


def _pairs(values: Values, base: Mapping[str, Any], documents: int) -> float:
    """Return how many pairs of a node and a word there are with more documents."""
    grown = base["pairs"] * _times(
        values, "documents", base["model"], "pairs", documents / base["documents"]
    )
    return min(grown, float(base["nodes"]) * base["words"])


def _nodes(values: Values, base: Mapping[str, Any]) -> list[list[str]]:
    lines = [one for one in values.find(part="size", way="in memory") if not _same(one, base)]
    lines.sort(key=lambda one: one["nodes"])
    rows = [
        [
            *(f"{one[name]:,}" for name in ("nodes", "documents", "words")),
            one["model"],
            duration(one["fit"]),
            size_of(one["peak"] * 2**30),
            f"{1000 * one['predict'] / one['predicted']:.3g}",
        ]
        for one in lines
    ]
    for model in (MIXTURE, LABELS, PRUNED):
        found = [one for one in lines if one["model"] == model]
        if found and found[-1]["nodes"] < NODES:
            one, ratio = found[-1], NODES / found[-1]["nodes"]
            by = {
                what: _times(values, "nodes", model, what, ratio)
                for what in ("fit", "added", "predict")
            }
            memory = (one["peak"] + one["added"] * (by["added"] - 1)) * 2**30
            cells = [f"{NODES:,}", f"{one['documents']:,}", f"{one['words']:,}", model]
            each = 1000 * one["predict"] * by["predict"] / one["predicted"]
            cells += [duration(one["fit"] * by["fit"]), size_of(memory), f"{each:.3g}"]
            rows.append([_paper(cell) for cell in cells])
    return rows


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(one[name] == other[name] for name in ("nodes", "words"))


# ---- what travels -------------------------------------------------------------------------------


def beyond(values: Values) -> list[str]:
    """Say what a cluster sends and gets back, for what was run and beyond it."""
    parts = ["## Over the network\n"]
    base = _base(values)
    found = [] if base is None else _alike(values, base, way="in memory", model=EM)
    if not found:
        return [*parts, "Not measured.\n"]
    one = found[-1]
    distinct = _distinct(values)
    parts.append(
        TRAVELS.format(
            nodes=one["nodes"], words=one["words"], documents=one["documents"], distinct=distinct,
            workers=WORKERS, entry=PER_ENTRY, entries=one["entries"], pairs=one["pairs"],
            leaves=LEAVES, k=K,
        )
    )  # fmt: skip
    rows = []
    for documents in dict.fromkeys((one["documents"], DOCUMENTS)):
        pairs = _pairs(values, one, documents)
        entries = one["entries"] * pairs / one["pairs"]
        each = documents / WORKERS
        counts = PER_ENTRY * distinct * documents
        for what, sent, returned in (
            (
                "HierarchicalDirichlet, each estimate",
                PER_ENTRY * entries,
                PER_ENTRY * pairs + 4 * each,
            ),
            ("other models of counts, once", 0.0, PER_ENTRY * pairs),
            (
                "HPLSA, each step",
                8 * LEAVES * (each + one["words"]),
                8 * LEAVES * (each + one["words"]),
            ),
            ("graph, once", counts, PER_ENTRY * K * each),
            ("harmonic solution, once", 2 * PER_ENTRY * K * documents, 8 * one["nodes"] * each),
        ):
            in_all = size_of(WORKERS * (sent + returned))
            cells = [
                f"{documents:,}",
                what,
                size_of(sent) if sent else "",
                size_of(returned),
                in_all,
            ]
            rows.append(list(map(_paper, cells)))
    header = ["documents", "what", "to each worker", "back from each", "in all"]
    return [*parts, markdown(header, rows) + "\n"]
