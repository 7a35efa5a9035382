"""G: Gaussier, Goutte, Popat and Chen's experiment on newsgroups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from leafwise.evaluation import FewLabelSplit, LearningCurve, learning_curve
from leafwise.exceptions import LabelError
from leafwise.models.mixture import HierarchicalMixture
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.models.plsa import HPLC, PLC
from leafwise.papers import (
    SEED,
    Counted,
    Data,
    OnProgress,
    Result,
    Steps,
    curve_rows,
    newsgroups,
    panels,
)
from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter

# G 6.2 names the smallest and the largest; G figure 5 has no numbers.
SIZES = (10, 20, 30, 50, 70, 100, 200)
METRICS = ("micro_f1", "macro_f1")
# Tokens with an alphabetic character in them, the only preprocessing in G 6.2.
TOKEN_PATTERN = r"\b\w*[^\W\d_]\w*\b"


def figure_5(
    data: Data, draws: int, sizes: Sequence[int] | None, on_progress: OnProgress | None
) -> Result:
    """G figure 5; `sizes` are documents per class, to train and to test on together."""
    sizes = SIZES if sizes is None else sizes
    if min(sizes) < 3:
        raise LabelError(
            f"{min(sizes)} documents per class cannot be parted into two thirds to train and one "
            "third to test on. Give sizes from 3 on."
        )
    steps = Steps(len(sizes) * draws, on_progress)
    steps.begin("Reading newsgroups")
    counter = WordCounter(token_pattern=TOKEN_PATTERN, lowercase=False)
    news = newsgroups(counter, data, "subject+body")
    curve = _measure(news, sizes, draws, steps)

    def figure() -> Any:
        both, axes = panels()
        for ax, metric in zip(axes, METRICS):
            curve.plot(ax, metric)
            ax.set_xlabel("documents per class, to train and to test on")
        return both

    return Result(
        name="gaussier-figure-5",
        corpus=news.corpus,
        protocol=f"{'One sample' if draws == 1 else f'{draws} samples'} for each size, as many "
        f"documents from each group, by FewLabelSplit with seed {SEED}; the k-th is parted with "
        "seed k. A setting is the size of a sample per group: two thirds of it, rounded up, are "
        "learned from, and the rest is tested on (7 and 3 of 10, 134 and 66 of 200). Words are "
        "runs of letters and digits with a letter in them, with their capitals (G 6.2 names no "
        "other preprocessing), and none is left out. G does not say which headers are read. NB "
        "adds 0.5 to every count; HiMi is the hierarchical mixture with uniform weights of its "
        "levels. G has a figure without numbers, with sizes from 10 to 200.",
        rows=curve_rows(curve),
        figure=figure,
    )


def n_train(size: int) -> int:
    """Return how many of a sample are learned from: 7 of 10, 134 of 200 (G 6.2)."""
    return math.ceil(2 * size / 3)


def _methods(tree: Taxonomy | None) -> dict[str, Any]:
    return {
        "NB": NaiveBayes(tree, nodes="leaves", alpha=0.5),
        "PLC": PLC(tree, nodes="leaves"),
        "HiMi": HierarchicalMixture(tree, nodes="leaves", weights="uniform"),
        "HPLC": HPLC(tree, nodes="leaves"),
    }


def _measure(news: Counted, sizes: Sequence[int], draws: int, steps: Steps) -> LearningCurve:
    """Score on the rest of each sample, not on all other documents as `learning_curve` does."""
    splits = {n: FewLabelSplit(n, draws, random_state=SEED) for n in sizes}
    samples = {n: [s for s, _ in split.split(news.X, news.y)] for n, split in splits.items()}
    methods = _methods(news.taxonomy)
    shape = len(methods), len(sizes), draws
    scores = {metric: np.empty(shape) for metric in METRICS}
    fit_seconds, predict_seconds = np.empty(shape), np.empty(shape)
    for i, (n, of_size) in enumerate(samples.items()):
        for k, sample in enumerate(of_size):
            X, y = news.X[sample], news.y[sample]
            one = learning_curve(methods, X, y, [n_train(n)], 1, metric=METRICS, random_state=k)
            for metric in METRICS:
                scores[metric][:, i, k] = one.scores[metric][:, 0, 0]
            fit_seconds[:, i, k] = one.fit_seconds[:, 0, 0]
            predict_seconds[:, i, k] = one.predict_seconds[:, 0, 0]
            steps.end(f"{n} documents per class")
    n_groups = len(np.unique(news.y))
    return LearningCurve(
        names=tuple(methods),
        sizes=tuple(sizes),
        scores=scores,
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        n_train=tuple(n_groups * n_train(n) for n in sizes),
        n_test=tuple(n_groups * (n - n_train(n)) for n in sizes),
    )
