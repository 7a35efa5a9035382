"""The page docs/scale.md and its plots, from what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from measuring import Growth, fit_growth
from scale_paper import beyond, duration, size_of, what_to_use
from scale_work import (
    COUNTER,
    EM,
    ESTIMATES,
    GENERAL,
    LABELS,
    LENGTH,
    MODELS,
    REPLACED,
    SAMPLE,
    SIGMA,
)

from leafwise.papers import markdown
from leafwise.plots import COLORS, MARKERS

AIM = 1.05  # the exponent that additive models are to stay below
LEAST = {"fit": 1e-3, "predict": 1e-3, "added": 2**-10}
HEADINGS = {
    "fit": "Fitting, seconds",
    "added": "What fitting adds to memory, MiB",
    "predict": f"Predicting one document in {SAMPLE}, seconds",
    "pairs": "Pairs of a node and a word, thousands",
}
UNITS = {"added": (1024.0, 0), "pairs": (1e-3, 0)}
PAIRS_OF = (LABELS, EM)  # those of all others are as many as with labels
_OTHERS = {"documents": ("nodes", "words"), "nodes": ("documents", "words")}
_OTHERS["words"] = ("documents", "nodes")

INTRODUCTION = """\
# Scale

What to use for how many documents and nodes, what it costs, and how that grows. Written by `make
docs` (`python benchmarks/scale.py --large --data DIR --results FILE --out docs/scale.md`)
{machine}. Each measurement has a process of its own; imports, documents and compiled code are
there before the clock starts, and free memory was used once before, since a virtual machine may
have to ask for it at first use. For the same reason, work in memory that takes less than a minute
is done once before it is timed. Times are medians of three, or of fewer where they take more than
ten seconds together, and vary with what else the machine does.

Other pages go into parts of it: [HierarchicalDirichlet, exact and pruned](scale-dirichlet.md), the
[neighbour graph](scale-graph.md), [trees that grow](scale-growth.md), [project
files](scale-projects.md) and the [service under load](scale-service.md).
"""
GROWTH = f"""\
Documents are drawn (`draw` of `benchmarks/dirichlet.py`, seed 0): about {LENGTH} words each, at the
leaves of a tree in which a node has ten children; a node has two keywords and eight other words of
its own, and somewhat less than half of a document are words of all. One dimension grows and the
others stay. So with more nodes there are fewer documents for each, and with more words each word is
rarer. `HierarchicalDirichlet` has σ = {SIGMA:.0f}; "EM" is without labels, from keywords, with
{ESTIMATES} estimates and words by their roots, scored at all nodes, and at 200 where nodes grow.
`HPLSA` is given the tree and no labels, for as many steps of EM. All others have their default
settings. What is added to memory is the most that the process had at once, less what it had before.
`{COUNTER}` counts the same documents as texts.

A model has a number for each pair of a node and a word that its documents have. There are more of
these with each document, until every node has all common words: the tables of pairs say how many.
The time of counting grows with documents, that of what follows with pairs, and that of EM with
both, since a word of a document says something at every node that has the word; and so it is with
prediction by `HierarchicalDirichlet`, which goes over the pairs of a document's words: with more
documents it grows faster than they do, as far as pairs are still added. Up to 2²⁷ words × classes,
all but `HierarchicalDirichlet` keep a dense table to predict by (`NaiveBayes` up to 2²⁵,
`HPLSA` whatever the size).

What else the machine does would look like growth if sizes were measured one after the other. So
one process has all sizes of a model and goes through them in turn, several times if that takes less
than a minute, after a first time that is not counted. The least time of each size is shown, since
whatever disturbs only adds.

The exponent is b of cost = a · size^b, by least squares in logarithms over the larger half of the
sizes, ± its standard error: at smaller ones, costs that do not grow have too large a part. A dash
stands where the cost is less than a millisecond or a MiB.
"""
QUADRATIC = f"""\
`{GENERAL}` is not among them: it has a weight for each pair of classes, so its time grows with the
square of the nodes. It is for some hundreds of classes.
"""
SIZES = """\
Drawn as above, with the settings that users get by default (σ is chosen; EM ends when documents
have settled), but for the row of a million nodes, which has σ = {sigma:.0f}. Accuracy is on
documents that were learned from (in memory) or on others (streams). "Streams" is
`leafwise.streams.fit` from a CSV file: words are counted first, then the documents are read again;
EM has them on disk.
"""
STREAM = """\
`leafwise classify --model M --memory {memory}` put {rows:,} messages, a CSV file of
{gigabytes:.3g} GB, on the nodes of a tree in {time}: {rate:,.0f} documents a second, or
{megabytes:.1f} MB a second{beside}. The most memory that the process had at once was
{peak:.2f} GiB. All rows came out, in order, each with a label; {accuracy:.3f} of the labels are
right. The messages are those of the 20 newsgroups, drawn again and again (seed 0), each time with
one word in {replaced} replaced by another message's. The model is a `TaxonomyClassifier` that
learned from one message in {sample} of the corpus, with its label, and has {model:.1f} MB on disk.
"""
CORES = """\
The same work in one thread and in two (`leafwise.threads.limited`), in turn, medians of {repeat}:
the messages of the 20 newsgroups ({documents:,}), for counting three times over, and for the EM of
`HierarchicalDirichlet` twelve times: what its steps do once, however many documents there are, has
a larger part with fewer. The first row is a loop over a few numbers that touches no
memory: what these two cores can do at all. The last column is what two processes get that know
nothing of each other, each doing all of the work in one thread: no division of the work can be
expected to get more, where what both cores share, the memory and the cache, is the limit.
"""
WORKERS = """\
By Dask on this machine: a cluster of one process (`local:1`) and one of two (`local:2`), in turn,
medians of {repeat}. The scheduler and the process that asks need some of the two cores, too. Texts
are {files} CSV files of such messages, {megabytes:.0f} MB together; word counts are those of the 20
newsgroups, in 8 blocks; to send them to the workers is a part of the work.
"""


class Values:
    """Lines of results, found by what they are of. Of two with the same key the last counts."""

    def __init__(self, lines: Iterable[Mapping[str, Any]]):
        self.lines = list(lines)

    def find(self, **key: Any) -> list[Mapping[str, Any]]:
        return [one for one in self.lines if all(one.get(k) == v for k, v in key.items())]

    def one(self, **key: Any) -> Mapping[str, Any] | None:
        found = self.find(**key)
        return found[-1] if found else None

    def points(self, along: str, model: str, what: str) -> dict[int, float]:
        """Return sizes and costs."""
        found = self.find(part="growth", along=along, model=model)
        points = {one[along]: one[what] for one in found if one.get(what) is not None}
        return dict(sorted(points.items()))

    def growth(self, along: str, model: str, what: str) -> Growth | None:
        """Fit the larger half of sizes; None where there is too little to tell."""
        points = self.points(along, model, what)
        sizes = list(points)[len(points) // 2 if len(points) > 2 else 0 :]
        least = LEAST.get(what, 1.0)
        if len(sizes) < 2 or max(points[n] for n in sizes) <= least:
            return None
        return fit_growth(sizes, [points[n] for n in sizes], least)


class Above(NamedTuple):
    """An exponent that is above the aim."""

    along: str
    model: str
    what: str
    growth: Growth


def growth_tables(values: Values, along: str) -> list[str]:
    models = [m for m in (COUNTER, *MODELS) if values.points(along, m, "fit")]
    sizes = sorted({n for m in models for n in values.points(along, m, "fit")})
    parts = []
    for what, heading in HEADINGS.items():
        unit, digits = UNITS.get(what, (1.0, 3))
        rows = []
        for model in models if what != "pairs" else PAIRS_OF:
            points, growth = values.points(along, model, what), values.growth(along, model, what)
            cells = [f"{unit * points[n]:.{digits}f}" if n in points else "" for n in sizes]
            rows.append([model, *cells, "–" if growth is None else str(growth)])
        table = markdown([along, *(f"{n:,}" for n in sizes), "exponent"], rows)
        parts.append(f"#### {heading}\n\n{table}\n")
    return parts


def above_aim(values: Values) -> list[Above]:
    """Return the exponents of additive models that are not what they are to be."""
    found = []
    for along in _OTHERS:
        for model in (COUNTER, *MODELS):
            for what in LEAST:
                growth = values.growth(along, model, what)
                quadratic = model == GENERAL and along == "nodes"
                if growth is not None and round(growth.b, 2) > AIM and not quadratic:
                    found.append(Above(along, model, what, growth))
    return found


def _said_above(found: Sequence[Above]) -> str:
    if not found:
        return f"No exponent of an additive model is above {AIM}."
    names = {what: heading.partition(",")[0].lower() for what, heading in HEADINGS.items()}
    shown = "; ".join(
        f"{one.model}, {names[one.what]}, with {one.along}: {one.growth}" for one in found
    )
    return f"Exponents of additive models above {AIM}: {shown}."


def plot(values: Values, along: str, path: Path) -> None:
    """Draw time and memory of fitting over sizes, both in logarithms."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    for ax, what, name in zip(axes, ("fit", "added"), ("fit, seconds", "added memory, MiB")):
        for i, model in enumerate((COUNTER, *MODELS)):
            points = values.points(along, model, what)
            unit = 1024 if what == "added" else 1
            costs = [unit * max(cost, LEAST[what]) for cost in points.values()]
            ax.plot(
                list(points), costs, label=model if points else None, linewidth=1.2, markersize=4,
                color=COLORS[i % len(COLORS)], marker=MARKERS[i % len(MARKERS)],
                linestyle="-" if i < len(COLORS) else "--",
            )  # fmt: skip
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel(along)
        ax.set_ylabel(name)
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#DDDDDD", linewidth=0.6)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", frameon=False, fontsize=8)
    with plt.rc_context({"svg.hashsalt": "leafwise"}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def growth_section(values: Values, out: Path) -> list[str]:
    if not values.find(part="growth"):
        said = "Not measured in this run: what is on paper above grows in proportion to its size.\n"
        return ["## Growth\n", said]
    parts = ["## Growth\n", GROWTH, _said_above(above_aim(values)) + "\n", QUADRATIC]
    for along, others in _OTHERS.items():
        lines = values.find(part="growth", along=along)
        if not lines:
            continue
        fixed = ", ".join(f"{lines[0][other]:,} {other}" for other in others)
        picture = out.with_name(f"{out.stem}-{along}.svg")
        plot(values, along, picture)
        parts.append(f"### {along.capitalize()} ({fixed})\n")
        parts.append(f"![time and memory of fitting, by {along}]({picture.name})\n")
        parts += growth_tables(values, along)
    return parts


def sizes_section(values: Values) -> list[str]:
    rows = []
    for one in values.find(part="size"):
        cost = duration(one["fit"]), f"{one['peak']:.2f}"
        chosen = "" if one["sigma"] is None else f"{one['sigma']:.3g}"
        estimates = "" if one["n_iter"] is None else str(one["n_iter"])
        size = [f"{one[name]:,}" for name in ("documents", "nodes", "words")]
        way = one["way"] + (f", {one['memory']}" if "memory" in one else "")
        rows.append([*size, one["model"], way, *cost, chosen, estimates, f"{one['accuracy']:.3f}"])
    header = ["documents", "nodes", "words", "model", "way", "fit", "peak, GiB", "σ", "estimates"]
    table = markdown([*header, "accuracy"], rows) if rows else "Not measured."
    return ["## Sizes that were run\n", SIZES.format(sigma=SIGMA), table + "\n"]


def stream_section(values: Values) -> list[str]:
    one = values.one(part="stream")
    parts = ["## A file larger than memory\n"]
    if one is None:
        return [*parts, "Not measured.\n"]
    said = {
        **one,
        "time": duration(one["seconds"]),
        "rate": one["rows"] / one["seconds"],
        "megabytes": 1000 * one["gigabytes"] / one["seconds"],
        "replaced": REPLACED,
        "sample": SAMPLE,
        "model": one["learned"]["megabytes"],
    }
    said["beside"] = ", with other work on the machine" if said.get("busy") else ""
    return [*parts, STREAM.format_map(said)]


def cores_section(values: Values) -> list[str]:
    parts = ["## One core and two\n"]
    for kind, text in (("threads", CORES), ("workers", WORKERS)):
        found = values.find(part="cores", kind=kind)
        if not found:
            parts.append("Not measured.\n")
            continue
        head = ["work", "one, s", "two, s", "×"] + ["two processes, ×"] * ("twice" in found[-1])
        rows = [_speed_up(one) for one in found]
        parts += [text.format_map(found[-1]), markdown(head, rows) + "\n"]
    return parts


def _speed_up(one: Mapping[str, Any]) -> list[str]:
    times = [
        one["what"],
        f"{one['one']:.2f}",
        f"{one['two']:.2f}",
        f"{one['one'] / one['two']:.2f}",
    ]
    return times + ([f"{2 * one['one'] / one['twice']:.2f}"] if "twice" in one else [])


def write_page(lines: Iterable[Mapping[str, Any]], out: Path) -> None:
    """Write the page, and its plots beside it."""
    values = Values(lines)
    parts = [
        INTRODUCTION.format(machine=_machine(values)),
        *what_to_use(values),
        *growth_section(values, out),
        *sizes_section(values),
        *stream_section(values),
        *cores_section(values),
        *beyond(values),
    ]
    out.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")


def _machine(values: Values) -> str:
    about = values.one(part="machine")
    if about is None:
        return "on a machine that the results do not name"
    memory = size_of(about["memory"] * 2**30)
    return (
        f"on {about['cores']} cores of {about['machine']} with {memory}, Python {about['python']}"
    )
