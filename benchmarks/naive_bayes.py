"""Naive Bayes beside scikit-learn's MultinomialNB: the same model, in how much of its time."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from sklearn.naive_bayes import MultinomialNB

from leafwise.datasets import load_20newsgroups, load_reuters
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.text import WordCounter


def timed(function: Callable, *arguments: object) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--repeat", type=int, default=9)
    args = parser.parse_args(arguments)

    news = load_20newsgroups("18828", fields="all", groups=20, data=args.data)
    reuters = load_reuters(data=args.data)
    single = np.flatnonzero([len(labels) == 1 for labels in reuters.labels])
    corpora = {
        "20 Newsgroups": (news.texts, np.array(news.labels)),
        "Reuters, one label": (
            [reuters.texts[i] for i in single],
            np.array([reuters.labels[i][0] for i in single]),
        ),
    }
    print("| corpus | documents × words × classes | λ | fit | predict | log joint differs by |")
    print("|---|---|---|---|---|---|")
    for name, (texts, y) in corpora.items():
        X = WordCounter().fit_transform(texts)
        for setting in ({"alpha": 0.01}, {"alpha": "heldout"}):
            ours = NaiveBayes(**setting).fit(X, y)
            theirs = MultinomialNB(alpha=ours.alpha_).fit(X, y)
            difference = ours._log_joint(X) - theirs._joint_log_likelihood(X)
            size = np.abs(theirs._joint_log_likelihood(X)).max()
            ratios = {}
            for step, arguments in (("fit", (X, y)), ("predict", (X,))):
                slow, fast = [], []
                for _ in range(args.repeat):
                    slow.append(timed(getattr(theirs, step), *arguments))
                    fast.append(timed(getattr(ours, step), *arguments))
                ratios[step] = median(fast) / median(slow)
            alpha = f"{ours.alpha_:.3g}" + " (held out)" * (setting["alpha"] == "heldout")
            shape = f"{X.shape[0]:,} × {X.shape[1]:,} × {len(ours.classes_)}"
            print(
                f"| {name} | {shape} | {alpha} "
                f"| {ratios['fit']:.2f} × | {ratios['predict']:.2f} × "
                f"| {np.abs(difference).max() / size:.0e} |"
            )


if __name__ == "__main__":
    main()
