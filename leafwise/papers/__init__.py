"""The tables and figures of the papers, measured again: `leafwise reproduce`.

T is Toutanova et al., V Veeramachaneni et al., E Erkan et al., Z Zhu, G Gaussier et al. A module
per paper has the published figures and a function per experiment; what they share is here. Nothing
heavy is imported until an experiment runs.
"""

from __future__ import annotations

import difflib
import io
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from leafwise._version import __version__
from leafwise.atomic import check_writable, replacing
from leafwise.exceptions import OutputError

if TYPE_CHECKING:
    import numpy as np
    from scipy.sparse import csr_matrix

    from leafwise.evaluation import LearningCurve
    from leafwise.taxonomy import Taxonomy
    from leafwise.text import WordCounter

__all__ = ["EXPERIMENTS", "Experiment", "Result", "find"]

Data = str | os.PathLike[str] | None
OnProgress = Callable[[str, int, int], None]  # what is being done, steps done, steps in all
Published = Mapping[str, Mapping[int, float]]  # method -> size -> figure

SEED = 0
_TITLES = {
    "toutanova": "T: Toutanova, Chen, Popat, Hofmann: Text Classification in a Hierarchical "
    "Mixture Model for Small Training Sets (CIKM 2001).",
    "veeramachaneni": "V: Veeramachaneni, Sona, Avesani: Hierarchical Dirichlet Model for Document "
    "Classification (ICML 2005).",
    "erkan": "E: Erkan, Hassan, Diao, Radev: Improved Nearest Neighbor Methods For Text "
    "Classification With Language Modeling and Harmonic Functions.",
    "zhu": "Z: Zhu: Hierarchical Bayesian Models for Text Classification (10-701 project report).",
    "gaussier": "G: Gaussier, Goutte, Popat, Chen: A hierarchical model for clustering and "
    "categorising documents (ECIR 2002).",
}


class Experiment(NamedTuple):
    """Where an experiment is, and what it is in a line.

    `files` are those it reads; `drawn` says whether training documents are drawn, `sized` whether
    it is done for several sizes.
    """

    module: str
    function: str
    summary: str
    files: tuple[str, ...] = ("20news_19997.parquet",)
    drawn: bool = True
    sized: bool = True

    @property
    def run(self) -> Callable[[Data, int, Sequence[int] | None, OnProgress | None], Result]:
        """The function of (data, draws, sizes, on_progress); sizes None are those of the paper."""
        return getattr(import_module(f"leafwise.papers.{self.module}"), self.function)


_DIRECTORY = ("directory.parquet",)
_NEWS_18828 = ("20news_18828.parquet",)
_REUTERS = ("reuters21578.parquet", "reuters21578_topics.json")
EXPERIMENTS = {
    "toutanova-table-3": Experiment(
        "toutanova", "table_3", "accuracy on newsgroups, 7 to 667 documents each"
    ),
    "toutanova-table-4": Experiment(
        "toutanova", "table_4", "precision, recall and F1 on Reuters", _REUTERS, False, False
    ),
    "toutanova-figure-2": Experiment(
        "toutanova", "figure_2", "F1 of Reuters categories by their size", _REUTERS, False
    ),
    "veeramachaneni-table-2": Experiment(
        "veeramachaneni", "table_2", "micro F1 on directories, keywords alone", _DIRECTORY, False
    ),
    "veeramachaneni-figure-4": Experiment(
        "veeramachaneni", "figure_4", "micro F1 on directories by σ", _DIRECTORY, False
    ),
    "erkan-table-1": Experiment(
        "erkan",
        "table_1",
        "how often one neighbour outweighs 29",
        (*_NEWS_18828, *_REUTERS),
        False,
        False,
    ),
    "erkan-table-2": Experiment(
        "erkan", "table_2", "break-even points on Reuters", _REUTERS, False, False
    ),
    "erkan-table-3": Experiment(
        "erkan", "table_3", "which methods differ, over Reuters categories", _REUTERS, False, False
    ),
    "erkan-figure-1": Experiment(
        "erkan", "figure_1", "newsgroups by labels, neighbours and graphs", _NEWS_18828
    ),
    "erkan-figure-2": Experiment(
        "erkan", "figure_2", "Reuters by labels, neighbours and graphs", _REUTERS
    ),
    "erkan-figure-3": Experiment(
        "erkan", "figure_3", "made-up documents by labels, neighbours and graphs", ()
    ),
    "erkan-figure-4": Experiment(
        "erkan", "figure_4", "newsgroups by labels, against NB and SVMs", _NEWS_18828
    ),
    "erkan-figure-5": Experiment(
        "erkan", "figure_5", "Reuters by labels, against NB and SVMs", _REUTERS
    ),
    "erkan-figure-6": Experiment(
        "erkan", "figure_6", "made-up documents by labels, against NB and SVM", ()
    ),
    "zhu-table-2": Experiment("zhu", "table_2", "accuracy on newsgroups, subject and text"),
    "zhu-table-3": Experiment("zhu", "table_3", "accuracy on newsgroups, all fields"),
    "zhu-figure-3": Experiment("zhu", "figure_3", "how much a class leans on others, by size"),
    "gaussier-table-1": Experiment(
        "gaussier", "table_1", "how pure the leaves of a grown tree are", _NEWS_18828
    ),
    "gaussier-figure-3": Experiment(
        "gaussier", "figure_3", "a tree grown from one newsgroup", _NEWS_18828, False, False
    ),
    "gaussier-figure-5": Experiment(
        "gaussier", "figure_5", "F1 on newsgroups, with all words, by size"
    ),
}


def find(name: str) -> Experiment:
    """Return an experiment by its name."""
    if name not in EXPERIMENTS:
        near = difflib.get_close_matches(name, EXPERIMENTS, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise ValueError(
            f'There is no experiment "{name}".{hint} There are {", ".join(EXPERIMENTS)}.'
        )
    return EXPERIMENTS[name]


# ---- what comes out ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What was measured, beside what was published.

    Attributes
    ----------
    name : the experiment's
    corpus, protocol : what was measured on, and how
    rows : dicts with "method", "setting", "metric", "mean", "std" and "draws" of ours, and
        "paper", the published figure or None
    figure : a function that draws the figure with matplotlib and returns it, or None
    """

    name: str
    corpus: str
    protocol: str
    rows: list[dict[str, Any]]
    figure: Callable[[], Any] | None = field(default=None, repr=False)

    def to_json(self) -> str:
        """Return all but the figure."""
        shown = {key: getattr(self, key) for key in ("name", "corpus", "protocol", "rows")}
        return json.dumps(shown, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def to_markdown(self, picture: str | None = None) -> str:
        """Return a page with a table of ours, the paper's and the difference.

        `picture` is the name of a file to show.
        """
        summary = EXPERIMENTS[self.name].summary
        parts = [
            f"# {self.name}",
            f"{summary[0].upper()}{summary[1:]}.",
            f"Corpus: {self.corpus}",
            f"Protocol: {self.protocol}",
            *([f"![{self.name}]({picture})"] if picture else []),
            *_tables(self.rows),
            _TITLES[EXPERIMENTS[self.name].module],
            f"Written by `leafwise reproduce {self.name}` of leafwise {__version__}.",
        ]
        return "\n\n".join(parts) + "\n"

    def write(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write NAME.json, NAME.md and, where there is a figure, NAME.png; return their paths.

        The folder is made if there is none, and those it is in. Without matplotlib the picture is
        left out, with a warning.
        """
        check_folder(folder, self.name)
        png = None
        if self.figure is not None and find_spec("matplotlib") is None:
            warnings.warn(
                f"{self.name}.png is left out: it needs matplotlib. pip install 'leafwise[plot]'",
                stacklevel=2,
            )
        elif self.figure is not None:
            png = _png(self.figure)
        page = self.to_markdown(None if png is None else f"{self.name}.png")
        files = {".json": self.to_json().encode(), ".md": page.encode(), ".png": png}
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"Cannot make {folder}: {error.strerror or error}.") from None
        written = []
        for suffix, content in files.items():
            if content is not None:
                written.append(Path(folder, self.name + suffix))
                with replacing(written[-1]) as file:
                    file.write(content)
        return written


@dataclass(frozen=True, slots=True, eq=False)
class Page(Result):
    """A result whose page has tables of its own in place of those made from the rows."""

    tables: tuple[str, ...] = ()

    def to_markdown(self, picture: str | None = None) -> str:
        """Return a page with these tables, and after them the picture."""
        above = "\n\n".join([self.protocol, *self.tables])
        return Result(self.name, self.corpus, above, []).to_markdown(picture)


def check_folder(folder: str | os.PathLike[str], name: str) -> None:
    """Raise an OutputError where `Result.write` could not write, without touching anything."""
    path = Path(folder)
    if os.path.isdir(path):
        for suffix in (".json", ".md", ".png"):
            check_writable(path / (name + suffix))
        return
    upwards = [path, *path.parents]
    n_missing = next(i for i, p in enumerate(upwards) if os.path.exists(p))
    nearest = upwards[n_missing]
    if not nearest.is_dir():
        what = nearest if n_missing else "it"
        raise OutputError(f"Cannot write to {path}: {what} is a file. Name a folder.")
    check_writable(upwards[n_missing - 1])  # the first that is to be made


def _png(figure: Callable[[], Any]) -> bytes:
    import matplotlib.pyplot as plt

    made = figure()
    file = io.BytesIO()
    made.savefig(file, format="png", dpi=150)
    plt.close(made)
    return file.getvalue()


def _tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a Markdown table for each metric and kind of setting, or one with a column per metric.

    A setting such as "7, all fields" is a column "7" of the kind "all fields".
    """
    from leafwise.evaluation import metric_label

    by_metric = len({r["setting"] for r in rows}) == 1 < len({r["metric"] for r in rows})
    tables: dict[str, dict[str, dict[str, Mapping[str, Any]]]] = {}
    for r in rows:
        size, _, kind = r["setting"].partition(", ")
        title = (
            r["setting"]
            if by_metric
            else ", ".join(filter(None, (metric_label(r["metric"]), kind)))
        )
        column = metric_label(r["metric"]) if by_metric else size
        tables.setdefault(title, {}).setdefault(r["method"], {})[column] = r
    for title, methods in tables.items():
        columns = list(dict.fromkeys(column for cells in methods.values() for column in cells))
        lines: list[list[str]] = []
        digits = [_decimals([m[c]["paper"] for m in methods.values() if c in m]) for c in columns]
        for method, cells in methods.items():
            found = [(cells.get(column), n) for column, n in zip(columns, digits)]
            lines.append([method, *(_ours(cell, n) for cell, n in found)])
            if any(cell and cell["paper"] is not None for cell, _ in found):
                lines.append([f"{method}, paper", *(_paper(cell, n) for cell, n in found)])
                differences = (_paper(cell, n, difference=True) for cell, n in found)
                lines.append([f"{method}, difference", *differences])
        yield f"## {title}\n\n{markdown(['method', *columns], lines)}"
    if any(r["draws"] > 1 for r in rows):
        yield "Ours are means ± standard deviations over draws."


def markdown(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, ["---"] * len(header), *lines])


def _decimals(published: Sequence[float | None]) -> int:
    """Return as many as the paper has, three at least."""
    return max([3, *(len(str(figure).partition(".")[2]) for figure in published if figure)])


def _ours(cell: Mapping[str, Any] | None, n: int) -> str:
    if cell is None:
        return ""
    spread = f" ± {cell['std']:.{n}f}" if cell["draws"] > 1 else ""
    return f"{cell['mean']:.{n}f}{spread}"


def _paper(cell: Mapping[str, Any] | None, n: int, difference: bool = False) -> str:
    if cell is None or cell["paper"] is None:
        return ""
    return f"{cell['mean'] - cell['paper']:+.{n}f}" if difference else f"{cell['paper']:.{n}f}"


# ---- what goes in -----------------------------------------------------------------------------


class Counted(NamedTuple):
    """A corpus of one label per document, counted once for all draws."""

    X: csr_matrix
    y: np.ndarray
    taxonomy: Taxonomy
    corpus: str


def newsgroups(counter: WordCounter, data: Data, fields: str) -> Counted:
    """Read the 15 newsgroups of T table 1, and count their words."""
    import numpy as np

    from leafwise.datasets import load_20newsgroups

    news = load_20newsgroups(fields=fields, data=data)
    X = counter.fit_transform(news.texts)
    size = f"{X.shape[0]:,} documents, {X.shape[1]:,} words."
    return Counted(X, np.array(news.labels), news.taxonomy, f"{news.description} {size}")


@dataclass(slots=True)
class Steps:
    """Counts what is done, and tells whoever wants to show it."""

    total: int
    on_progress: OnProgress | None
    done: int = 0

    def begin(self, what: str) -> None:
        if self.on_progress is not None:
            self.on_progress(what, self.done, self.total)

    def end(self, what: str) -> None:
        self.done += 1
        self.begin(what)


def measure(
    estimators: Mapping[str, Any], corpus: Counted, sizes: Sequence[int], draws: int,
    steps: Steps, note: str = "",
) -> LearningCurve:  # fmt: skip
    """Draw training documents and score the classifiers' accuracy on the rest."""
    from leafwise.evaluation import learning_curve

    per_size = len(estimators) * draws

    def on_progress(done: int, total: int) -> None:
        steps.end(f"{sizes[(done - 1) // per_size]} documents per class{note}")

    return learning_curve(
        estimators, corpus.X, corpus.y, sizes, draws, random_state=SEED, on_progress=on_progress
    )  # fmt: skip


def row(
    method: str, setting: object, metric: str, values: Any, paper: float | None = None
) -> dict[str, Any]:
    """Return a row of a `Result`; `values` has a number for each draw."""
    import numpy as np

    return {
        "method": method,
        "setting": str(setting),
        "metric": metric,
        "mean": float(np.mean(values)),
        "std": float(np.std(values)),
        "draws": int(np.size(values)),
        "paper": paper,
    }


def curve_rows(
    curve: LearningCurve, published: Published | None = None, note: str = ""
) -> list[dict[str, Any]]:
    """Return the rows of a curve, beside the published figures."""
    rows = curve.rows()
    for r in rows:
        r["paper"] = (published or {}).get(r["method"], {}).get(r["setting"])
        r["setting"] = f"{r['setting']}{note}"
    return rows


def curve_figure(curve: LearningCurve, published: Published) -> Callable[[], Any]:
    """Return a function that draws the methods which have published figures, with these dashed."""
    shown = [i for i, name in enumerate(curve.names) if name in published]
    names = tuple(curve.names[i] for i in shown)
    part = replace(
        curve,
        names=names,
        scores={metric: values[shown] for metric, values in curve.scores.items()},
        fit_seconds=curve.fit_seconds[shown],
        predict_seconds=curve.predict_seconds[shown],
    )
    lines = {
        name: {n: published[name][n] for n in curve.sizes if n in published[name]} for name in names
    }
    return lambda: part.plot(published={k: line for k, line in lines.items() if line}).figure_


def panels() -> tuple[Any, Any]:
    """Return a figure with two axes side by side, and the axes."""
    import matplotlib.pyplot as plt

    return plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, layout="constrained")


def drawn(draws: int) -> str:
    """Say how training documents are drawn."""
    times = "one draw" if draws == 1 else f"{draws} draws"
    return (
        f"{times} of training documents, as many from each group, by FewLabelSplit with seed {SEED}"
    )
