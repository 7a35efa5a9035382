"""How long the generative family takes beside scikit-learn's MultinomialNB, and how that grows.

The first table is of the 20 Newsgroups (all documents, subject and body, English stop words left
out, words of fewer than three occurrences dropped); the others are of corpora drawn by
`make_corpus`. All models of a row are timed in turn in the same run, and times are medians; ratios
are to MultinomialNB on the same matrix. Compiling is not counted.
"""

from __future__ import annotations

import argparse
import platform
import resource
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.naive_bayes import MultinomialNB

import leafwise as lw
from leafwise.datasets import load_20newsgroups
from leafwise.synthetic import make_corpus


def seconds(function: Callable, repeat: int) -> float:
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def family(tree: lw.Taxonomy) -> dict:
    leaves = {"nodes": "leaves"}
    return {
        "MultinomialNB": MultinomialNB(),
        "NaiveBayes": lw.NaiveBayes(tree, **leaves),
        "HierarchicalShrinkage": lw.HierarchicalShrinkage(tree, **leaves),
        "GeneralShrinkage": lw.GeneralShrinkage(tree, **leaves),
        "HierarchicalMixture": lw.HierarchicalMixture(tree, **leaves),
        "HierarchicalMixture, auto": lw.HierarchicalMixture(tree, steps="auto", **leaves),
        "HierarchicalDirichlet": lw.HierarchicalDirichlet(tree, **leaves),
        "PLC": lw.PLC(tree, **leaves),
        "HPLC": lw.HPLC(tree, **leaves),
        "PLSAClassifier": lw.PLSAClassifier(tree, **leaves),
    }


def newsgroups(data: str | None, repeat: int) -> None:
    news = load_20newsgroups(groups=20, data=data)
    X = lw.WordCounter(stop_words="english", min_count=3).fit_transform(news.texts)
    y = np.array(news.labels)
    print(f"### 20 Newsgroups: {X.shape[0]:,} documents, {X.shape[1]:,} words, 20 classes\n")
    print("| model | fit, ms | × MultinomialNB | predict, ms | × MultinomialNB |")
    print("|---|---|---|---|---|")
    models = family(news.taxonomy)
    fits: dict[str, list] = {name: [] for name in models}
    predicts: dict[str, list] = {name: [] for name in models}
    for round_ in range(repeat + 1):  # in turns, so that a busy moment hits all alike
        for name, model in models.items():
            slow = model.__class__.__name__ in ("PLC", "HPLC", "PLSAClassifier")
            fitted = clone(model)
            times = seconds(partial(fitted.fit, X, y), 1)
            if slow and round_ > 1:
                continue
            took = seconds(partial(fitted.predict, X), 1)
            if round_:  # the first round compiles
                fits[name].append(times)
                predicts[name].append(took)
    base = np.median(fits["MultinomialNB"]), np.median(predicts["MultinomialNB"])
    for name in models:
        fit, predict = np.median(fits[name]), np.median(predicts[name])
        ratios = f"{fit / base[0]:.2f} | {1000 * predict:.0f} | {predict / base[1]:.2f}"
        print(f"| {name} | {1000 * fit:.0f} | {ratios} |")
    print()


def grow(title: str, first: str, cases: list, repeat: int, general: bool = True) -> None:
    print(f"### {title}\n")
    names = ["MultinomialNB", "HierarchicalShrinkage", "HierarchicalMixture"]
    names += ["GeneralShrinkage"] * general
    print(
        f"| {first} | distinct (class, word) pairs | " + " | ".join(f"{n}, s" for n in names),
        end="",
    )
    print(" | mixture × NB | predict × NB |")
    print("|---" * (len(names) + 4) + "|")
    for label, tree, n_words in cases:
        corpus = make_corpus(tree, 20_000, n_words, 100, concentration=n_words / 20, random_state=0)
        models = family(tree)
        y = np.array(corpus.labels)
        took = {}
        for name in names:
            if name == "GeneralShrinkage" and len(tree.leaves) > 500:
                continue
            took[name] = seconds(partial(models[name].fit, corpus.X, y), repeat)
        pairs = models["HierarchicalMixture"].word_counts_.nnz
        some = corpus.X[:2000]
        predict = [
            seconds(partial(models[name].predict, some), repeat)
            for name in ("HierarchicalMixture", "MultinomialNB")
        ]
        cells = [f"{took[n]:.2f}" if n in took else "not run" for n in names]
        ratio = took["HierarchicalMixture"] / took["MultinomialNB"]
        print(f"| {label} | {pairs:,} | " + " | ".join(cells), end="")
        print(f" | {ratio:.1f} | {predict[0] / predict[1]:.2f} |", flush=True)
    print()


def balanced(n_leaves: int, depth: int) -> lw.Taxonomy:
    """Make a tree of some depth whose levels branch alike."""
    branching = max(2, round(n_leaves ** (1 / depth)))
    paths = []
    for leaf in range(n_leaves):
        digits = []
        for _ in range(depth - 1):
            leaf, digit = divmod(leaf, branching)
            digits.append(f"n{digit}")
        paths.append("/".join([*digits, f"leaf{leaf}"]))
    return lw.Taxonomy.from_paths(paths)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args(arguments)
    newsgroups(args.data, args.repeat)
    repeat = max(1, args.repeat // 2)
    sizes = (20, 100, 500, 2000)
    grow(
        "Growth with the number of classes (20,000 documents of 100 words, 10,000 words)",
        "classes",
        [(f"{n:,}", balanced(n, 2), 10_000) for n in sizes],
        repeat,
    )
    grow(
        "Growth with the depth of the tree (256 classes, 10,000 words)",
        "depth",
        [(str(d), balanced(256, d), 10_000) for d in (1, 2, 4, 8)],
        repeat,
        general=False,
    )
    grow(
        "Growth with the vocabulary (100 classes)",
        "words",
        [(f"{n:,}", balanced(100, 2), n) for n in (2_000, 10_000, 50_000, 200_000)],
        repeat,
        general=False,
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"Peak memory of the whole run: {peak:.1f} GiB. Python {platform.python_version()}.")


if __name__ == "__main__":
    main()
