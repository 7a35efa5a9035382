"""The main job, on data that every Python carries: `leafwise demo`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from rich.console import Console, Group
from rich.panel import Panel
from rich.progress import Progress
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from leafwise._version import __version__
from leafwise.atomic import replacing
from leafwise.datasets import Dataset, load_stdlib
from leafwise.explain import Explanation
from leafwise.keywords import read_keywords
from leafwise.models.taxonomy_classifier import TaxonomyClassifier
from leafwise.taxonomy import Taxonomy

WIDTH = 100  # of a picture


def show(picture: Path | None = None) -> None:
    """Sort the standard library's docstrings, show how it went, and keep a picture if asked to."""
    with nullcontext() if picture is None else replacing(picture) as file:
        console = Console(record=file is not None, width=WIDTH if file else None)
        _show(console)
        if file is not None:
            svg = console.export_svg(title="leafwise demo", code_format=_SVG)
            file.write(svg.encode())


def _show(console: Console) -> None:
    waiting = Console(stderr=True)  # not in the picture
    with Progress(console=waiting, transient=True, disable=not waiting.is_terminal) as bar:
        task = bar.add_task("Reading Python's own documentation", total=3)
        dataset = load_stdlib()
        bar.update(task, advance=1, description="Sorting it, without any label")
        model = TaxonomyClassifier(dataset.taxonomy).fit(dataset.texts)
        bar.update(task, advance=1, description="Comparing")
        by_keywords = _match_keywords(model, dataset)
        bar.update(task, advance=1)

    n_sections = len(dataset.taxonomy.children(0))
    console.print(
        f"[bold]leafwise {__version__}[/] sorts [bold]{len(dataset):,}[/] entries of Python "
        f"{platform.python_version()}'s documentation into [bold]{len(set(dataset.labels))}[/] "
        f"modules in [bold]{n_sections}[/] sections, by the words in the names of modules and "
        "sections alone. No label is used."
    )
    console.print(_draw(dataset.taxonomy))
    console.print("\nA few documents, with the [green]words that decided[/]:")
    for i in _examples(dataset, model):
        console.print(_card(dataset, model, i))
    console.print(_scores(dataset, model, by_keywords))
    command = "leafwise" if console.record else _command()
    console.print(
        "Now with your own files: a tree (tree.yaml) and documents (docs.csv with a column "
        f'"text"):\n  [bold]{command} classify --taxonomy tree.yaml docs.csv -o sorted.csv[/]'
    )


def _command() -> str:
    """What to type for leafwise here: it need not be on the PATH."""
    on_path = shutil.which("leafwise")
    if on_path or Path(sys.argv[0]).name != "leafwise":
        return "leafwise"
    return os.path.relpath(sys.argv[0])


def _match_keywords(model: TaxonomyClassifier, dataset: Dataset) -> np.ndarray:
    """Take for each document the node whose keywords it matches best."""
    X = model.counter_.transform(dataset.texts)
    keywords = read_keywords(dataset.taxonomy, model.counter_, X)
    scores = keywords.scores(X, dataset.taxonomy.parent)[:, model.nodes_]
    return np.where(scores.any(axis=1), model.classes_[scores.argmax(axis=1)], "")


def _draw(tree: Taxonomy, n_sections: int = 4, n_modules: int = 5) -> Tree:
    def more(children: np.ndarray, n: int) -> Text:
        return Text(f"... and {len(children) - n} more" if len(children) > n else "", "dim")

    sections = tree.children(0)
    drawn = Tree("[bold]Python library reference[/]")
    for i in sections[:n_sections]:
        modules = tree.children(i)
        names = "  ".join(tree.names[j] for j in modules[:n_modules])
        branch = drawn.add(Text(tree.names[i], style="cyan"))
        branch.add(Text(names + "  ").append_text(more(modules, n_modules)))
    drawn.add(more(sections, n_sections))
    return drawn


def _examples(dataset: Dataset, model: TaxonomyClassifier) -> list[int]:
    """Pick documents of a handy length that it is rather sure of: three right, and one wrong."""
    sure = model.predict_proba(dataset.texts).max(axis=1)
    right = model.transduction_ == np.array(dataset.labels)
    length = np.array([len(text) for text in dataset.texts])
    handy = (length > 60) & (length < 160) & (sure > 0.8)
    spread = [np.flatnonzero(handy & right), np.flatnonzero(handy & ~right)]
    return [int(group[k * len(group) // (n + 1)]) for group, n in zip(spread, (3, 1))
            for k in range(1, n + 1) if len(group)]  # fmt: skip


def _card(dataset: Dataset, model: TaxonomyClassifier, i: int) -> Panel:
    why = model.explain(dataset.texts[i])
    right = why.path == dataset.labels[i]
    verdict = "[green]right[/]" if right else f"[red]it is in {dataset.labels[i]}[/]"
    where = f"[bold]{why.path}[/]  {why.probability:.0%} sure, {verdict}"
    words = ", ".join(f"{word} {weight:+.1f}" for word, weight in why.words[:5])
    return Panel(
        Group(_marked(dataset.texts[i], why), Text.from_markup(f"→ {where}"), Text(words, "dim")),
        width=WIDTH,
    )


def _marked(text: str, why: Explanation) -> Text:
    marked = Text(" ".join(text.split()))
    for word, weight in why.words:
        if weight > 0.5:
            marked.highlight_regex(rf"(?i)\b{re.escape(word)}\b", "bold green")
    return marked


def _scores(dataset: Dataset, model: TaxonomyClassifier, by_keywords: np.ndarray) -> Table:
    table = Table(title="Put right, of all documents", title_justify="left")
    table.add_column("")
    table.add_column("module", justify="right")
    table.add_column("section", justify="right")
    truth = np.array(dataset.labels)
    for name, found in (("keyword matching", by_keywords), ("leafwise", model.transduction_)):
        sections = [a.split("/")[0] == b.split("/")[0] for a, b in zip(found, truth)]
        table.add_row(name, f"{np.mean(found == truth):.1%}", f"{np.mean(sections):.1%}")
    return table


# rich's own frame, without the web fonts that it would fetch.
_SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{
  font-family: "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
