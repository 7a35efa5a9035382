"""Z: Zhu's experiments with General Hierarchical Shrinkage on newsgroups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from leafwise.evaluation import FewLabelSplit
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.models.shrinkage import GeneralShrinkage, HierarchicalShrinkage
from leafwise.papers import (
    SEED,
    Data,
    OnProgress,
    Published,
    Result,
    Steps,
    curve_figure,
    curve_rows,
    drawn,
    measure,
    newsgroups,
    panels,
    row,
)
from leafwise.text import WordCounter

SIZES = (5, 10, 20, 40, 80, 100, 200, 400, 600)
# Z table 2: accuracy by training documents per newsgroup, subject and text.
TABLE_2 = {
    method: dict(zip(SIZES, accuracies))
    for method, accuracies in {
        "NB": (0.310, 0.383, 0.489, 0.583, 0.680, 0.705, 0.758, 0.801, 0.816),
        "HS": (0.259, 0.364, 0.492, 0.593, 0.689, 0.712, 0.763, 0.801, 0.816),
        "GHS": (0.303, 0.430, 0.556, 0.641, 0.711, 0.730, 0.772, 0.805, 0.817),
    }.items()
}
# Z table 3: the same with all fields.
TABLE_3 = {
    method: dict(zip(SIZES, accuracies))
    for method, accuracies in {
        "NB": (0.528, 0.583, 0.671, 0.765, 0.819, 0.836, 0.858, 0.880, 0.882),
        "HS": (0.403, 0.589, 0.681, 0.771, 0.823, 0.836, 0.854, 0.877, 0.880),
        "GHS": (0.424, 0.624, 0.732, 0.790, 0.821, 0.841, 0.855, 0.877, 0.881),
    }.items()
}
_WORDS = "Letters are lowered, English stop words left out, and all other words kept (Z 4.1)."


def table_2(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """Z table 2 and figure 2."""
    return _table("zhu-table-2", "subject+body", TABLE_2, data, draws, sizes, on_progress)


def table_3(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """Z table 3 and figure 2."""
    return _table("zhu-table-3", "all", TABLE_3, data, draws, sizes, on_progress)


def _table(
    name: str,
    fields: str,
    published: Published,
    data: Data,
    draws: int,
    sizes: Sequence[int] | None,
    on_progress: OnProgress | None,
) -> Result:
    sizes = SIZES if sizes is None else sizes
    steps = Steps(len(_methods(None)) * len(sizes) * draws, on_progress)
    steps.begin("Reading newsgroups")
    news = newsgroups(WordCounter(stop_words="english"), data, fields)
    curve = measure(_methods(news.taxonomy), news, sizes, draws, steps)
    return Result(
        name=name,
        corpus=news.corpus,
        protocol=f"Accuracy over {drawn(draws)}; all documents that are not drawn are tested on. "
        f"{_WORDS} NB adds one to every count (Z eq. 2). GHS leaves all smoothing to the mixture; "
        "with Laplace inside it mixes distributions that are smoothed by adding one, as Z's are.",
        rows=curve_rows(curve, published),
        figure=curve_figure(curve, published),
    )


def _methods(tree: Any) -> dict[str, Any]:
    return {
        "NB": NaiveBayes(tree, nodes="leaves", smoothing="laplace"),
        "HS": HierarchicalShrinkage(tree, nodes="leaves"),
        "GHS": GeneralShrinkage(tree, nodes="leaves"),
        "NB, held-out Lidstone": NaiveBayes(tree, nodes="leaves"),
        "GHS, Laplace inside": GeneralShrinkage(tree, nodes="leaves", alpha=1.0),
    }


def figure_3(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """Z figures 3 and 4: the weights of each class's own documents and of the levels above."""
    sizes = SIZES if sizes is None else sizes
    steps = Steps(2 * len(sizes) * draws, on_progress)
    steps.begin("Reading newsgroups")
    news = newsgroups(WordCounter(stop_words="english"), data, "subject+body")
    levels = {
        "GHS": ("own class", "other classes", "uniform"),
        "HS": ("own class", "parent", "root", "uniform"),
    }
    weights: dict[str, dict[int, list[np.ndarray]]] = {name: {} for name in levels}
    splits = {size: FewLabelSplit(size, draws, random_state=SEED) for size in sizes}
    for split in splits.values():
        next(split.split(news.X, news.y))  # every size is checked before the first fit
    for size, split in splits.items():
        for train, _ in split.split(news.X, news.y):
            for name in levels:
                model = clone(_methods(news.taxonomy)[name]).fit(news.X[train], news.y[train])
                weights[name].setdefault(size, []).append(_level_weights(model))
                steps.end(f"{size} documents per class")
    rows = [
        row(name, size, f"weight of {level}", [w[:, i].mean() for w in weights[name][size]])
        for name in levels
        for i, level in enumerate(levels[name])
        for size in sizes
    ]

    def figure() -> Any:
        from leafwise.plots import LevelWeightsDisplay

        both, axes = panels()
        for ax, (name, of_sizes) in zip(axes, weights.items()):
            means = {size: np.mean(ws, axis=0) for size, ws in of_sizes.items()}
            LevelWeightsDisplay.from_weights(means, levels[name], ax=ax)
            ax.set_title(name)
        return both

    return Result(
        name="zhu-figure-3",
        corpus=news.corpus,
        protocol=f"Weights of the mixtures, means over the 15 classes, over {drawn(draws)}. "
        f"{_WORDS} The weight of a class itself is Z figure 3 for GHS and Z figure 4 for HS, both "
        "without numbers in Z. Bars in the figure are a standard deviation over the classes to "
        "each side, of weights that are means over draws; in the tables ± is over draws, of means "
        "over classes.",
        rows=rows,
        figure=figure,
    )


def _level_weights(model: Any) -> np.ndarray:
    """Return classes × levels: for GHS the class, the others together and the uniform one."""
    if isinstance(model, HierarchicalShrinkage):
        return model.level_weights_
    own, uniform = np.diag(model.weights_), model.weights_[:, -1]
    return np.column_stack([own, 1 - own - uniform, uniform])
