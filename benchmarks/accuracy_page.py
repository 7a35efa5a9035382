"""The page docs/accuracy.md and its plots, from the lines of the file of results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy_calibration import Bins, together
from accuracy_corpora import CORPORA
from accuracy_methods import BOTH, ENCODED, LABELS, PEERS, SEVERAL_PEERS, methods_of
from accuracy_sections import INTRODUCTION, SECTIONS, Section, Values, size_name

from leafwise.papers import markdown
from leafwise.plots import COLORS, MARKERS, _log_sizes, _positions


def table(values: Values, section: Section, field: str, more_is_better: bool) -> str:
    """Return mean ± standard deviation, methods × sizes, as Markdown; "" where there is none."""
    sizes, methods = values.sizes(section.name), values.methods(section.name)
    found = {
        (method, size): values.get(section.name, method, size, field)
        for method in methods
        for size in sizes
    }
    n_draws = max(map(len, found.values()))
    if not n_draws:
        return ""
    best: Callable[..., float] = max if more_is_better else min
    bests = {}
    for size in sizes:
        means = [np.mean([*found[m, size].values()]) for m in methods if found[m, size]]
        bests[size] = best(means) if len(means) > 1 else None
    at_size = {size: max(len(found[method, size]) for method in methods) for size in sizes}
    rows = []
    for method in methods:
        cells = [
            _cell(list(found[method, size].values()), bests[size], at_size[size]) for size in sizes
        ]
        if any(cells):
            rows.append([method, *cells])
    if field == section.metrics[0][0]:
        for name, line in section.published.items():
            rows.append([name, *(f"{line[n]:.3f}" if n in line else "" for n in sizes)])
    return markdown([section.unit, *(size_name(n, section.unit) for n in sizes)], rows)


def _cell(numbers: Sequence[float], best: float | None, n_draws: int) -> str:
    if not numbers:
        return ""
    cell = f"{np.mean(numbers):.3f}"
    if len(numbers) > 1:
        cell += f" ± {np.std(numbers, ddof=1):.3f}"
    if best is not None and np.mean(numbers) == best:
        cell = f"**{cell}**"
    return cell + (f" ({len(numbers)})" if len(numbers) < n_draws else "")


def directory_table(values: Values) -> str:
    """Return the size of each directory, and accuracy with keywords and labels there."""
    rows = []
    sizes = values.sizes("directories")
    for corpus in (c for c in CORPORA if c.group == "directories"):
        about = values.about.get(corpus.name, {})
        cells = [
            _cell(list(values.get(corpus.name, BOTH, size, "accuracy").values()), None, 0)
            for size in sizes
        ]
        size = [f"{about[k]:,}" if k in about else "" for k in ("documents", "classes", "nodes")]
        rows.append([corpus.name.removeprefix("directory-"), *size, *cells])
    shown = [size_name(n, "share") for n in sizes]
    return markdown(["directory", "documents", "classes", "nodes", *shown], rows)


def beside_the_best(values: Values) -> str:
    """Return, for each directory and size, what the best single method has."""
    rows = []
    for corpus in (c for c in CORPORA if c.group == "directories"):
        for size in (n for n in corpus.sizes if n):
            of = {m: values.get(corpus.name, m, size, "accuracy") for m in methods_of(corpus)}
            own = [of.pop(BOTH), of.pop(LABELS)]
            del of[ENCODED]  # no other method
            means = {m: float(np.mean([*x.values()])) for m, x in of.items() if x}
            if not means:
                continue
            best = max(means, key=lambda m: means[m])
            cells = [_cell(list(x.values()), None, 0) for x in own]
            gains = [_signed_of([x[k] - of[best][k] for k in x if k in of[best]]) for x in own]
            named = f"{best} {means[best]:.3f}"
            shown = [corpus.name.removeprefix("directory-"), size_name(size, "share")]
            rows.append([*shown, cells[0], cells[1], named, *gains])
    head = ["directory", "labels", BOTH, LABELS, "best other", "both over it", "labels over it"]
    return markdown(head, rows) if rows else ""


# ---- calibration ---------------------------------------------------------------------------------

CALIBRATION = """\
The calibration error is the mean over documents of how far accuracy and mean confidence differ in
one of 15 bins of confidence. With few documents it is above 0 even where every probability is
right: *by chance* is what it would then be on average, of as many documents in each bin. *Together*
is the error where bins have the documents of all draws; of ten, chance has about a third."""


def calibration(values: Values) -> str:
    """Return the calibration error of each corpus and size, and what chance has of it."""
    rows = []
    for corpus in CORPORA:
        about = values.about.get(corpus.name, {})
        for part, where in (("", ""), ("_new", ", new documents")):
            for size in (n for n in corpus.sizes if n):
                draws = [values.bins(corpus.name, m, size, part) for m in (BOTH, LABELS)]
                if not any(draws):
                    continue
                each = size
                if corpus.sizes[-1] <= 1 and "documents" in about:  # a share of them
                    each = size * about["documents"] / about["classes"]
                cells = [cell for one in draws for cell in _calibration_cells(one)]
                rows.append([corpus.name + where, f"{each:.3g}", *cells])
    if not rows:
        return "Not measured.\n"
    parts = "error", "by chance", "together"
    head = ["corpus", "labels per class"]
    head += [f"{what}, {name}" for name in ("both", "labels alone") for what in parts]
    return f"{CALIBRATION}\n\n{markdown(head, rows)}"


def _calibration_cells(draws: Sequence[Bins]) -> list[str]:
    if not draws:
        return ["", "", ""]
    curves = [together([one]) for one in draws]
    error = np.mean([curve.error for curve in curves])
    chance = np.mean([curve.error_by_chance for curve in curves])
    return [f"{x:.3f}" for x in (error, chance, together(draws).error)]


# ---- keywords and labels against either alone ----------------------------------------------------


class Difference(NamedTuple):
    """What both together have over one alone, with its standard error (None: one draw)."""

    corpus: str
    size: str
    alone: str
    mean: float
    error: float | None


def differences(values: Values) -> list[Difference]:
    found = []
    for section in SECTIONS:
        field = section.metrics[0][0]
        for size in values.sizes(section.name):
            both = values.get(section.name, BOTH, size, field)
            if not size or not both:
                continue
            shown = size_name(size, section.unit)
            labels = values.get(section.name, LABELS, size, field)
            if paired := [both[k] - labels[k] for k in both if k in labels]:
                difference = float(np.mean(paired)), _error(paired)
                found.append(Difference(section.title, shown, "labels", *difference))
            if keywords := list(values.get(section.name, BOTH, 0, field).values()):
                gain = [x - float(np.mean(keywords)) for x in both.values()]
                errors = _error(gain), _error(keywords) or 0.0
                error = None if errors[0] is None else float(np.hypot(errors[0], errors[1]))
                found.append(
                    Difference(section.title, shown, "keywords", float(np.mean(gain)), error)
                )
    return found


def _error(numbers: Sequence[float]) -> float | None:
    n = len(numbers)
    return float(np.std(numbers, ddof=1) / n**0.5) if n > 1 else None


def either_alone(values: Values) -> str:
    """Say where keywords and labels together are worse than either alone."""
    found = differences(values)
    if not found:
        return "Not measured.\n"
    said = []
    for alone in ("labels", "keywords"):
        compared = [d for d in found if d.alone == alone]
        worse = [d for d in compared if d.mean < -(d.error or 0.0)]
        where = "".join(f"; {d.corpus} at {d.size} ({_signed(d)})" for d in worse)
        said.append(
            f"Below {alone} alone by more than a standard error: {len(worse)} of "
            f"{len(compared)} comparisons{where}."
        )
    cells = {(d.corpus, d.size, d.alone): _signed(d) for d in found}
    places = dict.fromkeys((d.corpus, d.size) for d in found)
    rows = [
        [corpus, size, *(cells.get((corpus, size, one), "") for one in ("labels", "keywords"))]
        for corpus, size in places
    ]
    head = ["corpus", "labels", "over labels alone", "over keywords alone"]
    return (
        "`TaxonomyClassifier` with both, less what it has with one of them: mean and standard "
        "error of the mean, draw by draw for labels alone; keywords alone is the same model at 0 "
        "labels. Of one draw there is no error, and any loss counts.\n\n"
        + "\n\n".join(said)
        + f"\n\n{markdown(head, rows)}"
    )


def _signed(d: Difference) -> str:
    return f"{d.mean:+.3f}" + ("" if d.error is None else f" ± {d.error:.3f}")


def _signed_of(gains: Sequence[float]) -> str:
    return _signed(Difference("", "", "", float(np.mean(gains)), _error(gains))) if gains else ""


# ---- the plots -----------------------------------------------------------------------------------

# Those that a plot has room for; the tables have all.
PLOTTED = (
    BOTH,
    LABELS,
    "HierarchicalMixture",
    "HierarchicalDirichlet (pool)",
    "HarmonicClassifier (pool)",
    "TransductiveSVM (pool)",
    "ComplementNB",
    "LinearSVC",
    "LabelSpreading (pool)",
    "SelfTrainingClassifier (pool)",
    "hiclass LocalClassifierPerParentNode",
    "MultiLabelClassifier (HM)",
    "MultiLabelClassifier (NB)",
    "MultiLabelClassifier (SVM)",
    "OneVsRestClassifier (LinearSVC)",
)


def plot(values: Values, section: Section, path: Path) -> bool:
    """Draw the first metric over sizes; return whether there is anything to draw."""
    import matplotlib.pyplot as plt

    field, heading, _ = section.metrics[0]
    sizes = np.array(values.sizes(section.name))
    lines = {}
    for method in (m for m in PLOTTED if m in values.methods(section.name)):
        points = {n: values.get(section.name, method, n, field).values() for n in sizes.tolist()}
        if measured := {n: np.mean([*x]) for n, x in points.items() if x}:
            lines[method] = measured
    if not lines or len(sizes) < 2:
        return False
    at = dict(zip(sizes.tolist(), _positions(sizes).tolist()))
    peers = {*PEERS, *SEVERAL_PEERS}
    figure, ax = plt.subplots(figsize=(8.6, 4.6), layout="constrained")
    colors = {True: iter(COLORS[2:] * 2), False: iter(COLORS[2:] * 2)}
    for i, (method, line) in enumerate(lines.items()):
        ours, peer = method in (BOTH, LABELS), method in peers
        ax.plot(
            [at[n] for n in line], list(line.values()), label=method,
            color=COLORS[i] if ours else next(colors[peer]), marker=MARKERS[i % len(MARKERS)],
            linestyle="--" if peer else "-", linewidth=2.8 if ours else 1.1,
            markersize=6 if ours else 4, zorder=3 if ours else 2,
        )  # fmt: skip
    for name, published in section.published.items():
        if name != "aim":
            ns = [n for n in sizes.tolist() if n in published]
            ax.plot(
                [at[n] for n in ns], [published[n] for n in ns], color="#888888", marker="x",
                linestyle=":", linewidth=1.1, label=name,
            )  # fmt: skip
    _log_sizes(ax, sizes, alone=False)
    ax.set_xticklabels([size_name(n, section.unit) for n in sizes.tolist()])
    ax.set_xlabel(section.unit)
    ax.set_ylabel(heading)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="#DDDDDD", linewidth=0.6)
    handles, names = ax.get_legend_handles_labels()
    # In the order in which lines end at the right.
    order = np.argsort([-handle.get_ydata()[-1] for handle in handles])
    figure.legend(
        [handles[i] for i in order], [names[i] for i in order], loc="outside right upper",
        frameon=False, fontsize=8,
    )  # fmt: skip
    with plt.rc_context({"svg.hashsalt": "leafwise"}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return True


# ---- the page ------------------------------------------------------------------------------------


def write_page(lines: Iterable[Mapping[str, Any]], out: Path) -> None:
    """Write the page, and its plots beside it."""
    values = Values(lines)
    parts = [INTRODUCTION.format(machine=_machine(values))]
    for section in SECTIONS:
        parts.append(f"## {section.title}\n")
        tables = [(h, table(values, section, field, up)) for field, h, up in section.metrics]
        if not any(text for _, text in tables):
            parts.append("Not measured.\n")
            continue
        parts.append(f"{_described(values, section)}\n")
        picture = out.with_name(f"{out.stem}-{section.name}.svg")
        if plot(values, section, picture):
            parts.append(f"![{section.metrics[0][1]}, {section.title}]({picture.name})\n")
        parts += [f"### {heading}\n\n{text}\n" for heading, text in tables if text]
        if section.name == "directories":
            parts.append(f"### {BOTH}, each directory\n\n{directory_table(values)}\n")
            if text := beside_the_best(values):
                parts.append(f"### Each directory beside the best other method\n\n{text}\n")
    parts.append(f"## Calibration\n\n{calibration(values)}\n")
    parts.append("## Keywords and labels together against either alone\n\n" + either_alone(values))
    out.write_text("\n".join(parts).rstrip() + "\n", encoding="utf-8")


def _machine(values: Values) -> str:
    about = values.about.get("machine")
    if about is None:
        return "on a machine that the file of results does not name"
    versions = ", ".join(f"{k} {about[k]}" for k in ("numpy", "scikit-learn", "leafwise"))
    return (
        f"on {about['cores']} cores of {about['machine']} with Python {about['python']}, {versions}"
    )


def _described(values: Values, section: Section) -> str:
    about = {k: f"{v:,}" for k, v in values.about.get(section.name, {}).items() if k != "about"}
    found = [
        len(values.get(section.name, method, size, section.metrics[0][0]))
        for method in values.methods(section.name)
        for size in values.sizes(section.name)
    ]
    said = {"draws": str(max(found)), **about}
    return section.text.format_map(defaultdict(lambda: "?", said)).replace(
        " 1 draws.", " One draw."
    )
