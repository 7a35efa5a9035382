"""docs/performance.md, from what peers.py measured: tables, figures, and who is ahead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, NamedTuple

from peers_methods import OURS, PARTS

Line = dict[str, Any]

PAGE = """\
# Performance

Written by `make bench` (`python benchmarks/peers.py --data DIR --out FILE`) on {cores} cores of
{machine} with Python {python}, numpy {numpy} and scikit-learn {scikit-learn}. Every piece of work
is done in a process of its own, after what it needs is loaded and compiled; all who do it take
turns, and medians are shown. Only ratios within one run mean something; they vary by about a fifth
from run to run. Memory is the peak of the process above what it had when the work began. What is
of leafwise is in bold. Accuracy over many draws, and with keywords alone, is in
[accuracy](accuracy.md).

"""
_FAMILY = "the growth of the family"
TITLES = {
    "count": "Words to counts",
    "classify": "Counts to labels",
    "sort": "Raw text to labels",
    "unlabelled": "Without labels",
    "near": "Neighbours",
    "grown": "Trees grown",
    "speedup": "From one core to all",
}
TEXTS = {
    "count": """\
All with default settings, but for the last, which is how `TaxonomyClassifier` counts.
`HashingVectorizer` keeps no words.""",
    "classify": """\
All learn from the same matrix of half the documents (words of two or more occurrences, without
stop words), and sort the other half; documents of one label. BERTopic's class-based tf-idf is
loaded from its own file, without the package, which needs many others; a document goes to the class
of the nearest words.""",
    "sort": """\
Labels of some documents of each class are given. `TaxonomyClassifier` and `LabelSpreading` also
learn from the documents whose labels are hidden; all are then asked for the labels of these, from
their raw text (`LabelSpreading` of 2,000). The tree's keywords have no part in it. hiclass has a
`LinearSVC` at each inner node. Labels are drawn several times, the same for all; what is right is
the mean of the draws, and speed that of the better of two calls. A call for the 1,430 lines of the
directory of macos is over in some milliseconds; so there is also the speed at which the same models
sort all texts of the whole directory.""",
    "unlabelled": """\
`TaxonomyClassifier` is given the texts and a tree with keywords, and no label. Memory is the most
that the process had while it learned, with the texts themselves and all libraries.""",
    "near": """\
The 30 nearest of each document by the cosine of tf-idf. The bare product is given the weighed
matrices; the others make them. Found is the share of the exact neighbours.""",
    "grown": """\
Messages without their labels; NMI is the normalised mutual information of leaves and newsgroups.
More in [scale-growth](scale-growth.md).""",
    "speedup": """\
The same work in one thread and in as many as there are cores, taking turns in one process. Most of
it is over in a third of a second, of which what is done once has a large part; [scale](scale.md)
has more work, and what the cores can do at all.""",
}


class Column(NamedTuple):
    """What a table shows of each line: a number, its ratio to the first line's, which is better."""

    head: str
    of: Callable[[Line], float]
    shown: Callable[[float], str]
    more_is_better: bool = False
    ratio: bool = True
    middle: Callable[[list[float]], float] = median


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms"


def _mebibytes(value: float) -> str:
    return f"{value:,.0f} MiB"


def _number(value: float) -> str:
    return f"{value:,.0f}"


MEMORY = Column("memory", lambda line: line["MiB"], _mebibytes)
FIT = Column("fit", lambda line: line["fit"], _seconds)
PREDICT = Column("predict", lambda line: line["predict"], _seconds)
RIGHT = Column(
    "right", lambda line: line["score"], lambda x: f"{x:.3f}", True, ratio=False, middle=fmean
)
COLUMNS = {
    "count": (
        Column("fit_transform, MB/s", lambda x: x["megabytes"] / x["fit"], _number, True),
        Column("transform, MB/s", lambda x: x["megabytes"] / x["transform"], _number, True),
        MEMORY,
    ),
    "classify": (FIT, PREDICT, MEMORY, RIGHT),
    "sort": (
        RIGHT,
        Column("documents/s", lambda line: 1 / line["predict"], _number, True),
        FIT,
        MEMORY,
    ),
    "unlabelled": (
        RIGHT,
        Column("documents/s", lambda line: 1 / line["predict"], _number, True, ratio=False),
        FIT._replace(ratio=False),
        Column("peak of memory", lambda line: line["peak"], _mebibytes, ratio=False),
    ),
    "near": (FIT._replace(head="time"), MEMORY, RIGHT._replace(head="found")),
    "grown": (FIT._replace(head="time"), MEMORY, RIGHT._replace(head="NMI")),
    "speedup": (
        Column("one thread", lambda line: line["one"], _seconds, ratio=False),
        Column("all", lambda line: line["several"], _seconds, ratio=False),
        Column("times", lambda x: x["one"] / x["several"], lambda x: f"{x:.2f} ×", ratio=False),
    ),
}
# Of several that are of leafwise, the one that others are held against.
SHOWN_FOR_OURS = {"count": "WordCounter", "sort": "TaxonomyClassifier"}


class Table:
    """One part on one corpus: the medians of each who did it, and what each draw had right."""

    def __init__(self, lines: list[Line]):
        self.part, self.first = lines[0]["part"], lines[0]
        self.columns = COLUMNS[self.part]
        self.missing = {line["name"]: line["missing"] for line in lines if "missing" in line}
        self.values: dict[str, list[float]] = {}
        for name in PARTS[self.part].names:
            own = [line for line in lines if line["name"] == name and "missing" not in line]
            if own:
                self.values[name] = [c.middle(list(map(c.of, own))) for c in self.columns]
        self.right: dict[str, dict[int, float]] = {}
        for line in lines:
            if "score" in line:
                self.right.setdefault(line["name"], {})[line["draw"]] = line["score"]
        self.matrices = {line["name"]: line.get("same") for line in lines}

    @property
    def title(self) -> str:
        first = self.first
        about = f"{first['documents']:,} documents, {first['megabytes']:.1f} MB"
        if self.part != "count":
            about += f", {first['classes']} classes"
        given = f", {first['size']} labels per class" if self.part == "sort" else ""
        return f"{first['corpus'].capitalize()}{given} ({about})"

    def rows(self) -> list[str]:
        heads, cells = ["who"], []
        for column in self.columns:
            heads += [column.head, "×"] if column.ratio else [column.head]
        base = next(iter(self.values.values()), [])
        for name, values in self.values.items():
            row = [f"**{name}**" if name in OURS or self.part == "speedup" else name]
            for column, value, first in zip(self.columns, values, base):
                row += [column.shown(value), f"{value / first:.2f}"][: 1 + column.ratio]
            cells.append(row)
        return [_row(heads), _row(["---"] * len(heads)), *map(_row, cells)]

    def ahead(self) -> list[str]:
        """Say in what a peer is ahead of leafwise."""
        ours = {name: v for name, v in self.values.items() if name in OURS}
        peers = {name: v for name, v in self.values.items() if name not in OURS}
        if self.part in SHOWN_FOR_OURS:
            own = SHOWN_FOR_OURS[self.part]
            ours = {own: ours[own]} if own in ours else {}
        said = []
        for k, column in enumerate(self.columns):
            if not (ours and peers):
                break
            sign = 1 if column.more_is_better else -1
            best = max(ours, key=lambda name: sign * ours[name][k])
            own = column.shown(ours[best][k])
            better = [
                f"{name} {column.shown(values[k])}"
                for name, values in peers.items()
                if sign * values[k] > sign * ours[best][k] and column.shown(values[k]) != own
            ]
            if better:
                said.append(f"in {column.head} ({best} {own}): {'; '.join(better)}")
        return said

    def beside(self, peer: str) -> str:
        """Say in how many draws `TaxonomyClassifier` has more right than a peer, and how much."""
        own, others = self.right["TaxonomyClassifier"], self.right[peer]
        more = [100 * (own[draw] - others[draw]) for draw in own if draw in others]
        if len(more) < 2:
            return ""
        by = f"{fmean(more):.1f} ± {stdev(more) / len(more) ** 0.5:.1f} points"
        return f": {by} more, in {sum(x > 0 for x in more)} of {len(more)} draws"

    def same(self) -> str:
        if self.part != "count":
            return ""
        base, own = self.matrices.get("CountVectorizer"), self.matrices.get("WordCounter")
        said = "the same" if base == own else "NOT the same"
        return f"The matrices of `CountVectorizer` and `WordCounter` are {said}.\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def tables_of(lines: list[Line]) -> list[Table]:
    groups: dict[tuple, list[Line]] = {}
    for line in lines:
        if line["part"] in PARTS:
            groups.setdefault((line["part"], line["corpus"], line["size"]), []).append(line)
    return [Table(group) for group in groups.values()]


def write_page(lines: list[Line], out: Path, more: str = "", n_runs: int = 1) -> None:
    """Write the page, and its figures beside it; `more` goes at the end."""
    tables = tables_of(lines)
    text = PAGE.format(**lines[0])
    cold = any(line["part"] == "cold" for line in lines)
    missing = [name for name, there in (("Cold start", cold), (_FAMILY, more)) if not there]
    if missing:
        were = "was" if len(missing) == 1 else "were"
        said = " and ".join(missing)
        text += f"{said[0].upper()}{said[1:]} {were} not part of this run.\n\n"
    if n_runs > 1:
        text += f"The tables are of {n_runs} runs, each table of one.\n\n"
    text += _summary(tables, lines)
    for part, title in TITLES.items():
        own = [table for table in tables if table.part == part]
        if not own:
            continue
        text += f"## {title}\n\n{TEXTS[part]}\n\n"
        if figure := _figure(part, own, out):
            text += f"![{title.lower()}]({figure})\n\n"
        for table in own:
            text += f"### {table.title}\n\n" + "\n".join(table.rows()) + "\n\n"
            text += "".join(
                f"Not there: {name} ({why}).\n\n" for name, why in table.missing.items()
            )
            text += table.same() + "\n" * bool(table.same())
            if part not in ("speedup", "unlabelled"):  # which leafwise does alone
                said = table.ahead()
                text += "Peers ahead of leafwise" + (":\n\n" if said else ": none.\n\n")
                text += "".join(f"- {one}\n" for one in said) + "\n" * bool(said)
    for line in lines:
        if line["part"] == "cold":
            text += _cold(line)
    out.write_text((text + more).rstrip() + "\n", encoding="utf-8")


def _summary(tables: list[Table], lines: list[Line]) -> str:
    """Say what the aims of speed came to."""
    said = []
    for table in tables:
        own, base = (
            table.values.get(name) for name in ("TaxonomyClassifier", PARTS["sort"].names[0])
        )
        if table.part == "sort" and own and base:
            peers = {name: v[0] for name, v in table.values.items() if name not in OURS}
            best = max(peers, key=lambda name: peers[name])
            said.append(
                f"- {table.first['corpus'].capitalize()}, {table.first['size']} labels per class: "
                f"`TaxonomyClassifier` sorts raw text {own[1] / base[1]:.1f} times as fast as "
                f"`CountVectorizer` and `MultinomialNB`; {own[0]:.1%} are right, and "
                f"{peers[best]:.1%} by the best peer ({best}){table.beside(best)}."
            )
    for line in lines:
        if line["part"] == "cold":
            said.append(
                f"- The first `leafwise classify` takes {line['ahead']:.1f} s: its loops are "
                "compiled where leafwise is installed. Without that it would take "
                f"{line['first']:.1f} s."
            )
    return "\n".join(said) + "\n\n" if said else ""


def _cold(line: Line) -> str:
    compiling = 1 - line["again"] / line["first"]
    return (
        "## Cold start\n\n"
        "`make install`, with which `make demo` begins, ends with `leafwise compile`, which took "
        f"{line['compile']:.0f} s, and `pip install` builds a wheel in the same way. The first "
        f"`leafwise classify` after it, of five lines, takes {line['ahead']:.1f} s, and compiles "
        "nothing. Where nothing was compiled ahead (a wheel that another processor or another "
        f"numba compiled), it takes {line['first']:.1f} s, and {line['again']:.1f} s after that: "
        f"{compiling:.0%} of such a first run is compiling. What is compiled is kept on disk, for "
        "the user if the package's own folder cannot be written to.\n\n"
    )


def _figure(part: str, tables: list[Table], out: Path) -> str | None:
    """Draw a part; return the name of the file, or None where there is nothing to draw."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    draw = {"count": _draw_counts, "sort": _draw_sorting}.get(part)
    if draw is None:
        return None
    name = f"{out.stem}-{part}.svg"
    with plt.rc_context({"svg.hashsalt": "leafwise"}):
        figure = draw(plt, tables)
        figure.savefig(out.parent / name, metadata={"Date": None})
    plt.close(figure)
    return name


def _draw_counts(plt: Any, tables: list[Table]) -> Any:
    """Draw how fast words are counted."""
    figure, axes = plt.subplots(figsize=(8, 1 + 0.8 * len(tables)), layout="constrained")
    names = [name for name in PARTS["count"].names if name in tables[0].values]
    for k, name in enumerate(names):
        places = [i + k / (len(names) + 1) for i in range(len(tables))]
        speeds = [table.values[name][1] for table in tables]
        axes.barh(places, speeds, height=1 / (len(names) + 2), label=name)
    axes.set_yticks(range(len(tables)), [table.first["corpus"] for table in tables])
    axes.invert_yaxis()
    axes.set_xlabel("MB/s, transform")
    axes.legend(fontsize=7, frameon=False)
    return figure


def _draw_sorting(plt: Any, tables: list[Table]) -> Any:
    """Draw how many are right over labels per class, and against speed."""
    groups: dict[str, list[Table]] = {}
    for table in tables:
        groups.setdefault(table.first["corpus"], []).append(table)
    first = tables[0].first["corpus"]
    curves = [corpus for corpus, own in groups.items() if len(own) > 1] or [first]
    n = len(curves) + 1
    figure, (*left, right) = plt.subplots(1, n, figsize=(5 * n, 4), layout="constrained")
    middle = groups[first][len(groups[first]) // 2]
    for k, name in enumerate(PARTS["sort"].names):
        style = {"color": f"C{k}", "linewidth": 2.5 if name in OURS else 1, "marker": "o"}
        for axes, corpus in zip(left, curves):
            there = [table for table in groups[corpus] if name in table.values]
            sizes = [table.first["size"] for table in there]
            axes.plot(sizes, [t.values[name][0] for t in there], label=name, markersize=4, **style)
        if name in middle.values:
            values = middle.values[name]
            right.scatter(values[1], values[0], color=f"C{k}", s=80 if name in OURS else 30)
            right.annotate(name, (values[1], values[0]), fontsize=7, xytext=(4, 4),
                           textcoords="offset points")  # fmt: skip
    for axes, corpus in zip(left, curves):
        axes.set(xscale="log", xlabel="labels per class", ylabel="right", title=corpus)
        axes.set_xticks(ticks := [t.first["size"] for t in groups[corpus]], list(map(str, ticks)))
        axes.minorticks_off()
    left[0].legend(fontsize=7, frameon=False)
    right.set(xscale="log", xlabel="documents a second", ylabel="right")
    right.set_title(f"{first}, {middle.first['size']} labels per class")
    return figure
