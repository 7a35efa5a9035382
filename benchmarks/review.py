"""Which documents to label next: accuracy as a reviewer who knows the truth answers the queue.

`TaxonomyClassifier` sorts a part of a corpus; the reviewer labels the documents that a strategy
asks for; it is fitted again after every batch. Accuracy is that of all documents, the labelled ones
included, since that is what a reviewer ends up with. --quick takes fewer documents and draws.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from leafwise import TaxonomyClassifier
from leafwise.datasets import Dataset, load_20newsgroups, load_directory
from leafwise.models._query import STRATEGIES

BATCHES = (50, 100, 150, 200)  # answers after which the model is fitted again
SHOWN = (0, 50, 100, 200)


class Review(NamedTuple):
    """What is reviewed, and what it starts from.

    Attributes
    ----------
    name : of the corpus
    load : returns it
    size : how many documents, or which share of them, are drawn
    keywords : whether they are used; else there is one label for each class at first
    """

    name: str
    load: Callable[[], Dataset]
    size: float
    keywords: bool = True


def simulate(corpus: Dataset, keywords: bool, strategies: list[str], seed: int) -> np.ndarray:
    """Return accuracies, strategies × numbers of answers."""
    rng = np.random.default_rng(seed)
    truth = np.array(corpus.labels)
    given = np.zeros(len(corpus), bool)
    if not keywords:
        given[[rng.choice(np.flatnonzero(truth == label)) for label in np.unique(truth)]] = True

    def fit(labelled: np.ndarray) -> TaxonomyClassifier:
        model = TaxonomyClassifier(corpus.taxonomy, keywords=keywords)
        return model.fit(corpus.texts, np.where(labelled, truth.astype(object), None).tolist())

    first = fit(given)
    accuracy = np.zeros((len(strategies), 1 + len(BATCHES)))
    for s, strategy in enumerate(strategies):
        model, labelled = first, given.copy()
        accuracy[s, 0] = (model.transduction_ == truth).mean()
        for b, (done, answers) in enumerate(zip((0, *BATCHES), BATCHES)):
            asked = model.query(answers - done, strategy)
            labelled[asked] = True
            model = fit(labelled)
            accuracy[s, b + 1] = (model.transduction_ == truth).mean()
    return accuracy


def table(review: Review, strategies: list[str], n_draws: int) -> str:
    """Return a table of what each strategy comes to, as Markdown."""
    found, size, n_classes = [], 0, 0
    for seed in range(n_draws):
        corpus = review.load()
        size = int(review.size * len(corpus)) if review.size <= 1 else int(review.size)
        rows = np.random.default_rng(seed).permutation(len(corpus))[:size]
        corpus = corpus.subset(np.sort(rows))
        n_classes = len(np.unique(corpus.labels))
        found.append(simulate(corpus, review.keywords, strategies, seed))
    start = "keywords" if review.keywords else "one label per class"
    lines = [
        f"## {review.name}, from {start}",
        "",
        f"{size:,} documents, {n_classes} classes, {n_draws} draws (seeds 0 to {n_draws - 1}); "
        f"fitted again after {', '.join(map(str, BATCHES))} answers.",
        "",
        f"| strategy | {' | '.join(f'{n} answers' for n in SHOWN)} |",
        f"| --- | {' | '.join('---:' for _ in SHOWN)} |",
    ]
    columns = [(0, *BATCHES).index(n) for n in SHOWN]
    mean, spread = np.mean(found, axis=0), np.std(found, axis=0)
    for s, strategy in enumerate(strategies):
        cells = [f"{100 * mean[s, c]:.1f} ± {100 * spread[s, c]:.1f}" for c in columns]
        lines.append(f"| {strategy} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("LEAFWISE_DATA"), help="the corpora")
    parser.add_argument("--quick", action="store_true", help="fewer documents, two strategies")
    parser.add_argument("--draws", type=int, default=3, help="how many parts of each corpus")
    parser.add_argument("--only", help="the corpora whose name has this")
    parser.add_argument("--size", type=int, default=5000, help="how many newsgroup messages")
    args = parser.parse_args()

    def news() -> Dataset:
        return load_20newsgroups(data=args.data)

    size = 1000 if args.quick else args.size
    reviews = [
        Review("15 newsgroups", news, size),
        Review("15 newsgroups", news, size, keywords=False),
        Review("osint", lambda: load_directory("osint", data=args.data), 0.8),
        Review("python", lambda: load_directory("python", data=args.data), 0.8),
    ]
    strategies = ["random", "mix"]
    if not args.quick:
        strategies += [name for name in STRATEGIES if name not in strategies]
    print("# Review\n\nAccuracy in percent, mean and standard deviation over draws.\n")
    for review in reviews:
        if not args.only or args.only in review.name:
            print(table(review, strategies, 1 if args.quick else args.draws), flush=True)


if __name__ == "__main__":
    main()
