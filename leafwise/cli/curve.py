"""leafwise evaluate --curve: how good with so many labels per node, beside simple methods."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from leafwise.atomic import replacing
from leafwise.cli.learning import classifier, data_errors, tree_of_labels
from leafwise.cli.talking import count, say, say_bad, steps
from leafwise.exceptions import LeafwiseError

if TYPE_CHECKING:
    from leafwise.corpus import Batch, Corpus
    from leafwise.evaluation import LearningCurve
    from leafwise.taxonomy import Taxonomy

SIZES = 1, 2, 5, 10, 20, 50
_MORE = 1.2  # times as many labels at the last size as before it, from which on a slope is one


class CurveSettings(NamedTuple):
    """What the options of the command ask for."""

    sizes: list[int] | None
    draws: int
    hide: float
    seed: int
    language: str
    as_json: bool
    picture: Path | None


class _Labels(NamedTuple):
    """The labels of each document, as paths, and how many of each node can be drawn."""

    paths: list[list[str]]
    spare: Counter[str]
    single: list[str]  # nodes with one labelled document

    def n_short(self, size: int) -> int:
        return sum(n < size for n in self.spare.values())


def show_curve(
    corpus: Corpus, batch: Batch, tree: Taxonomy | None, settings: CurveSettings
) -> None:
    """Measure, print the table or the figures, say what they mean, draw."""
    from leafwise.evaluation import learning_curve

    whole = tree or tree_of_labels(corpus)
    labels = _read_labels(batch, whole, settings.hide, corpus.name)
    sizes = sorted(settings.sizes or _default_sizes(labels, tree is not None))
    say_bad(corpus)
    say(*_said_of_short(labels, sizes))
    # Without a tree, the words in the labels are its keywords, as when documents are classified.
    ours = "leafwise + node names" if tree is None else "leafwise + keywords"
    methods = {ours: classifier(whole, settings.language)}
    if any(sizes):
        methods |= _baselines(labels, settings.language)
    with steps() as tell, data_errors(), _word_errors():
        tell("Learning and testing", 0, 1)
        curve = learning_curve(
            methods,
            batch.texts,
            labels.paths,
            sizes,
            settings.draws,
            pool=[ours],
            test_size=settings.hide,
            short="take",
            random_state=settings.seed,
            on_progress=lambda done, total: tell("Learning and testing", done, total),
        )
    conclusions = _conclusions(curve, labels)
    if settings.picture is not None:
        _draw(curve, settings.picture)
    if settings.as_json:
        typer.echo(json.dumps(_figures(curve, labels, conclusions), indent=2))
    else:
        typer.echo("\n".join([curve.table("text"), "", *conclusions]))
    if settings.picture is not None:
        say(f"Drew it to {settings.picture}.")


def _read_labels(batch: Batch, tree: Taxonomy, hide: float, name: str) -> _Labels:
    from leafwise.evaluation import FewLabelSplit

    node_of = {label: tree.index(label) for own in batch.labels for label in own}
    paths = [
        [tree.paths[i] for i in dict.fromkeys(node_of[x] for x in own)] for own in batch.labels
    ]
    first = [own[0] if own else None for own in paths]
    n_labels = Counter(path for path in first if path is not None)
    if len(n_labels) == 1:
        node = next(iter(n_labels))
        raise LeafwiseError(
            f'All labels of {name} are for one node, "{node}": there is nothing to tell apart.'
        )
    if max(n_labels.values()) == 1:
        raise LeafwiseError(
            f"No node of {name} has two labels, one to learn from and one to hide. Label more."
        )
    most = FewLabelSplit(len(first), 1, test_size=hide, short="take")
    drawn, _ = next(most.split(None, first))
    spare = Counter(path for i in drawn.tolist() if (path := first[i]) is not None)
    return _Labels(paths, spare, [path for path, n in n_labels.items() if n == 1])


def _default_sizes(labels: _Labels, keywords: bool) -> list[int]:
    """Go as far as half of the nodes can."""
    spare = sorted(labels.spare.values())
    reach = min(spare[len(spare) // 2], SIZES[-1])
    sizes = [size for size in SIZES if size <= reach]
    if reach >= 1.5 * sizes[-1]:
        sizes.append(reach)
    return [0, *sizes] if keywords else sizes


def _said_of_short(labels: _Labels, sizes: list[int]) -> list[str]:
    said = []
    n_nodes = len(labels.spare)
    if labels.single:
        some = ", ".join(sorted(labels.single)[:3]) + (", ..." if len(labels.single) > 3 else "")
        said.append(
            f"Nodes with one label, which is learned from and not tested: {len(labels.single):,} "
            f"of {n_nodes:,} ({some})."
        )
    short = [f"{n:,} at {size}" for size in sizes if (n := labels.n_short(size))]
    if short:
        said.append(
            "Nodes with fewer labels to learn from than asked for, which give what they have: "
            f"{', '.join(short)} (of {n_nodes:,})."
        )
    return said


def _baselines(labels: _Labels, language: str) -> dict[str, Any]:
    """What anyone would try first, from scikit-learn."""
    from sklearn.dummy import DummyClassifier
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    words = {"stop_words": "english" if language == "english" else None}
    # Those drawn are as many of each node, so which is the most frequent is told by all labels.
    most = Counter(own[0] for own in labels.paths if own).most_common(1)[0][0]
    return {
        "naive Bayes": make_pipeline(CountVectorizer(**words), MultinomialNB()),
        "tf-idf + linear SVM": make_pipeline(TfidfVectorizer(**words), LinearSVC()),
        "nearest neighbour": make_pipeline(
            TfidfVectorizer(**words), KNeighborsClassifier(1, metric="cosine")
        ),
        "most frequent node": DummyClassifier(strategy="constant", constant=most),
    }


@contextmanager
def _word_errors() -> Iterator[None]:
    """Say in our words what scikit-learn says of documents without any."""
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("empty vocabulary"):
            raise
        raise LeafwiseError(
            "The documents that were drawn have no words but stop words, so the other methods have "
            "nothing to learn from. Try larger --sizes, or --language none."
        ) from error


def _conclusions(curve: LearningCurve, labels: _Labels) -> list[str]:
    ours, *others = curve.names
    mean = dict(zip(curve.names, curve.mean()))
    last, n_labels = curve.sizes[-1], curve.n_train[-1]
    said = []
    if 0 in curve.sizes:
        said.append(f"Without labels: {ours} {mean[ours][0]:.2f}.")
    if last:
        best = max(others, key=lambda name: mean[name][-1])
        some = "up to " if labels.n_short(last) else ""
        said.append(
            f"With {some}{count(last, 'label')} per node ({n_labels:,} in all): {ours} "
            f"{mean[ours][-1]:.2f}; the best of the others, {best}, {mean[best][-1]:.2f}."
        )
    return [*said, *_said_of_more(curve, labels)]


def _said_of_more(curve: LearningCurve, labels: _Labels) -> list[str]:
    """Say what more labels would add, where the last two sizes tell."""
    if len(curve.sizes) < 2 or not curve.sizes[-2] or curve.n_draws < 2:
        return []
    (low, high), (n_low, n_high) = curve.sizes[-2:], curve.n_train[-2:]
    if n_high < _MORE * n_low:
        return [
            f"From {low} to {high} per node there are hardly more labels, as nodes have no more: "
            "so there is no telling what more would add."
        ]
    gain, spread = curve.doubling(curve.names[0])
    if gain <= spread:
        return [
            f"From {low} to {high} labels per node leafwise gains nothing beyond what varies from "
            "draw to draw. More labels may add little; more --draws tell more."
        ]
    gain = min(gain, 1 - float(curve.mean()[0, -1]))
    more = "twice as many labels" if labels.n_short(high) else f"another {high} per node"
    return [
        f"To leafwise, {more} would add about {gain:.2f}, if it goes on as from {low} to {high}."
    ]


def _figures(curve: LearningCurve, labels: _Labels, conclusions: list[str]) -> dict[str, Any]:
    sizes = zip(curve.sizes, curve.n_train, curve.n_test)
    return {
        "documents": len(labels.paths),
        "labelled": sum(map(bool, labels.paths)),
        "nodes": len(labels.spare),
        "sizes": [
            {"size": size, "labels": n, "tested": n_test, "short_nodes": labels.n_short(size)}
            for size, n, n_test in sizes
        ],
        "rows": curve.rows(),
        "conclusions": conclusions,
    }


def _draw(curve: LearningCurve, path: Path) -> None:
    display = curve.plot()
    display.ax_.set_xlabel("labels per node")
    with replacing(path) as file:
        display.figure_.savefig(file, format=path.suffix[1:].lower(), dpi=150)
