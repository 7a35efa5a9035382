"""What settings of single methods do on real corpora: the tables of docs/settings.md.

Newsgroups: T's 15 groups, subject and body, English stop words left out, words of fewer than three
occurrences in the collection dropped (T 3.1.1). Training documents are drawn at random, the same
number from each group; all others are the test set.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import kneighbors_graph
from sklearn.semi_supervised import LabelSpreading

from leafwise import (
    HPLC,
    PLC,
    GeneralShrinkage,
    HarmonicClassifier,
    HierarchicalDirichlet,
    HierarchicalMixture,
    HierarchicalShrinkage,
    NaiveBayes,
    NeighborsClassifier,
    PachinkoMachine,
    PLSAClassifier,
    WordCounter,
    metrics,
    neighbor_graph,
)
from leafwise.datasets import DIRECTORIES, load_20newsgroups, load_directory, load_reuters
from leafwise.evaluation import FewLabelSplit, few_labels, learning_curve
from leafwise.models._tfidf import LogTfIdf

SIZES = (7, 20, 67)
PUBLISHED = {7: 0.467, 20: 0.607, 67: 0.749}  # T table 3, NB


def newsgroup_counts(data: str | None) -> tuple:
    news = load_20newsgroups(data=data)
    X = WordCounter(stop_words="english", min_count=3).fit_transform(news.texts)
    return X, np.array(news.labels), {"taxonomy": news.taxonomy, "nodes": "leaves"}


def newsgroups_naive_bayes(data: str | None, n_draws: int) -> None:
    X, y, tree = newsgroup_counts(data)
    models = {
        "Lidstone, held out": NaiveBayes(**tree),
        "Lidstone, λ = .01": NaiveBayes(alpha=0.01, **tree),
        "Laplace": NaiveBayes(smoothing="laplace", **tree),
        "Dirichlet, μ = 1000": NaiveBayes(smoothing="dirichlet", **tree),
    }
    print(f"## Naive Bayes, 15 newsgroups ({X.shape[0]:,} documents, {X.shape[1]:,} words)\n")
    print(learning_curve(models, X, y, SIZES, n_draws).table() + "\n")
    print("T table 3 has " + ", ".join(f"{p:.3f} at {n}" for n, p in PUBLISHED.items()) + ".\n")


class Talkative(HierarchicalShrinkage):
    """Shrinkage to which words that no training document had say something, too."""

    def _table(self, columns: np.ndarray) -> np.ndarray:
        self._seen[:] = True
        return super()._table(columns)


def settings(data: str | None, n_draws: int) -> None:
    X, y, tree = newsgroup_counts(data)
    print("## Settings of shrinkage and mixture\n")
    print(
        "The defaults of `HierarchicalMixture` (one step of the word distributions, from levels\n"
        "taken apart, one of the weights) were found by accuracy on the newsgroups, so these\n"
        "figures flatter them. The directories only served to check that they hold elsewhere:\n"
        "there, half of the documents is learned from, drawn at random, and the mean is over the\n"
        "eight directories. How `HierarchicalDirichlet` chooses σ was settled on both.\n"
    )
    models = {
        "NaiveBayes": NaiveBayes(**tree),
        "HierarchicalShrinkage": HierarchicalShrinkage(**tree),
        "shrinkage, levels apart": HierarchicalShrinkage(levels="apart", **tree),
        "shrinkage, documents left out": HierarchicalShrinkage(holdout="document", **tree),
        "shrinkage, 30 % held out": HierarchicalShrinkage(holdout=0.3, **tree),
        "shrinkage, unseen words speak": Talkative(**tree),
        "GeneralShrinkage": GeneralShrinkage(**tree),
        "HierarchicalMixture": HierarchicalMixture(**tree),
        "mixture, two steps": HierarchicalMixture(steps=2, **tree),
        "mixture, steps by held-out evidence": HierarchicalMixture(steps="auto", **tree),
        "mixture, 20 steps of weights": HierarchicalMixture(weight_steps=20, **tree),
        "mixture, levels pooled": HierarchicalMixture(levels="pooled", **tree),
        "mixture, documents left out": HierarchicalMixture(holdout="document", **tree),
        "mixture, β = .7": HierarchicalMixture(beta=0.7, **tree),
        "mixture, CEM": HierarchicalMixture(variant="cem", **tree),
        "mixture, SEM": HierarchicalMixture(variant="sem", **tree),
        "mixture, uniform weights": HierarchicalMixture(weights="uniform", **tree),
        "HierarchicalDirichlet": HierarchicalDirichlet(**tree),
        "Dirichlet, roots of counts": HierarchicalDirichlet(words="roots", **tree),
        "Dirichlet, sets of words": HierarchicalDirichlet(words="set", **tree),
        "PLSAClassifier": PLSAClassifier(**tree),
        "PLC": PLC(**tree),
        "HPLC": HPLC(**tree),
        "PachinkoMachine": PachinkoMachine(**tree),
    }
    curve = learning_curve(models, X, y, SIZES, n_draws)
    directories = halves(models, data)
    print("| model | " + " | ".join(f"newsgroups, {n}" for n in SIZES) + " | directories |")
    print("|---|" + "---|" * (len(SIZES) + 1))
    for name, means, half in zip(models, curve.mean(), directories):
        print(f"| {name} | " + " | ".join(f"{m:.3f}" for m in [*means, half]) + " |")
    print()


def halves(models: dict, data: str | None) -> np.ndarray:
    """Return the mean accuracy over the directories, learned from half of each."""
    rows = []
    for name in DIRECTORIES:
        directory = load_directory(name, data=data)
        y = np.array(directory.labels)
        X = WordCounter().fit_transform(directory.texts)
        order = np.random.default_rng(0).permutation(len(y))
        train, test = np.array_split(order, 2)
        fitted = [
            clone(m).set_params(taxonomy=directory.taxonomy, nodes="all").fit(X[train], y[train])
            for m in models.values()
        ]
        rows.append([model.score(X[test], y[test]) for model in fitted])
    return np.mean(rows, axis=0)


def newsgroups_neighbors(data: str | None, n_draws: int) -> None:
    news = load_20newsgroups(data=data)
    y = np.array(news.labels)
    X = WordCounter(stop_words="english").fit_transform(news.texts)
    vectors = LogTfIdf().fit(X).transform(X)
    near = kneighbors_graph(vectors, 30, metric="cosine", include_self=True, n_jobs=2)
    graphs = {name: neighbor_graph(X, 30, name, symmetric=True) for name in ("cosine", "kl")}
    names = {"majority": "majority of 30 neighbours", "weighted": "30 neighbours, weighted"}
    rows: dict[str, list] = {}
    for n in SIZES:
        for known, rest in FewLabelSplit(n, n_draws).split(X, y):
            labels = few_labels(y, known)
            for likeness, graph in graphs.items():
                for vote, said in names.items():
                    model = NeighborsClassifier(similarity=likeness, vote=vote).fit(X, labels)
                    found = model.predict(X[rest])
                    rows.setdefault(f"{said}, {likeness}", []).append(np.mean(found == y[rest]))
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", message="No label reaches 1 of")
                    spread = HarmonicClassifier(similarity="precomputed", k=len(y))
                    spread.fit(graph, labels)
                right = np.mean(spread.transduction_[rest] == y[rest])
                rows.setdefault(f"`HarmonicClassifier`, {likeness}", []).append(right)
            numbers = np.unique(y, return_inverse=True)[1]
            hidden = np.full(len(y), -1)
            hidden[known] = numbers[known]
            peer = LabelSpreading(kernel=lambda *_: near).fit(vectors, hidden)
            right = np.mean(peer.transduction_[rest] == numbers[rest])
            rows.setdefault("`LabelSpreading` of scikit-learn, cosine", []).append(right)
    print("## Neighbours and harmonic functions, 15 newsgroups\n")
    print(
        "English stop words left out, k = 30. All documents are given, the labels of some;\n"
        f"accuracy on the others, {n_draws} draws. Neighbours are among the labelled documents;\n"
        "graphs are of all documents. `LabelSpreading` has the 30 nearest by the same weights.\n"
    )
    print("| method | " + " | ".join(str(n) for n in SIZES) + " |\n|---|" + "---|" * len(SIZES))
    for name, found in rows.items():
        cells = np.reshape(found, (len(SIZES), -1))
        means = " | ".join(f"{row.mean():.3f} ± {row.std(ddof=1):.3f}" for row in cells)
        print(f"| {name} | {means} |")
    print()


def newsgroups_unlabelled(data: str | None, n_draws: int) -> None:
    news = load_20newsgroups(data=data)
    y = np.array(news.labels)
    counter = WordCounter(stop_words="english", stemmer="english", compounds=True)
    X = counter.fit_transform(news.texts)
    tree = {"taxonomy": news.taxonomy, "nodes": "leaves"}
    rows = []
    for known, rest in FewLabelSplit(7, n_draws).split(X, y):
        models = [
            HierarchicalDirichlet(**tree).fit(X[known], y[known]),
            HierarchicalDirichlet(**tree).fit(X, few_labels(y, known)),
            HierarchicalDirichlet(vocabulary=counter, **tree).fit(X, few_labels(y, known)),
        ]
        rows.append([model.score(X[rest], y[rest]) for model in models])
    alone, pool, both = np.transpose(rows)
    print("## HierarchicalDirichlet, 15 newsgroups, 7 labels each and the other documents\n")
    print(
        "English stop words left out, stems, parts of compounds counted. All documents are given,\n"
        f"7 labels per group; accuracy on the others, {n_draws} draws. Gain: over labels alone,\n"
        "with the p of a paired t-test, corrected for overlapping draws as of equal parts.\n"
    )
    print("| learned from | accuracy | gain | p |\n|---|---|---|---|")
    print(f"| labels alone | {alone.mean():.3f} ± {alone.std(ddof=1):.3f} | | |")
    for name, found in (("labels and documents", pool), ("labels, documents, keywords", both)):
        test = metrics.paired_t_test(found, alone, test_fraction=0.5)
        gain = f"{(found - alone).mean():+.3f} | {test.p_value:.1e}"
        print(f"| {name} | {found.mean():.3f} ± {found.std(ddof=1):.3f} | {gain} |")
    print()


def reuters_naive_bayes(data: str | None) -> None:
    reuters = load_reuters(data=data)
    train, test = reuters.split == "train", reuters.split == "test"
    texts = np.array(reuters.texts, dtype=object)
    counter = WordCounter()
    X, Z = counter.fit_transform(texts[train]), counter.transform(texts[test])
    y = [labels for labels, kept in zip(reuters.labels, train) if kept]
    truth = [labels for labels, kept in zip(reuters.labels, test) if kept]
    categories = sorted({label for labels in y for label in labels})
    Y = np.array([[category in labels for category in categories] for labels in truth])
    largest = np.argsort(-Y.sum(axis=0))[:10]
    print(f"## Naive Bayes, Reuters-21578, ModApte split ({len(y):,} + {len(truth):,} documents)\n")
    print(
        "90 categories; a training document with several counts for each in equal fractions\n"
        "(T 3.2.1). Break-even points rank the test documents of a category by its posterior and\n"
        "are averaged by category size (E 5.3.1). Micro F1 is that of the best category alone,\n"
        "which cannot reach the second label of a document.\n"
    )
    print("| smoothing | break-even, 10 largest | break-even, 90 | micro F1, best only |")
    print("|---|---|---|---|")
    models = {
        "Lidstone, held out": NaiveBayes(reuters.taxonomy, nodes="leaves"),
        "Laplace": NaiveBayes(reuters.taxonomy, smoothing="laplace", nodes="leaves"),
        "Dirichlet, μ = 1000": NaiveBayes(reuters.taxonomy, smoothing="dirichlet", nodes="leaves"),
    }
    for name, model in models.items():
        model.fit(X, y)
        columns = [list(model.classes_).index(category) for category in categories]
        scores = model.predict_log_proba(Z)[:, columns]
        f1 = metrics.scores(truth, [(path,) for path in model.predict(Z)])["micro_f1"]
        ten = metrics.micro_break_even(Y[:, largest], scores[:, largest])
        every = metrics.micro_break_even(Y, scores)
        print(f"| {name} | {ten:.3f} | {every:.3f} | {f1:.3f} |")
    print("| E table 2, NB (stop words out, stems, μ = 1000) | .852 | .746 | |")
    print("| T table 4, NB (thresholds per class) | | | .765 |\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--out", type=Path, help="Markdown file to write, besides printing")
    args = parser.parse_args()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print("# Settings of single methods\n")
        print(
            f"Printed by `python benchmarks/settings.py --data DIR --draws {args.draws}`. Draws "
            "are those of `FewLabelSplit`, seed 0. T is Toutanova et al., E Erkan et al.\n"
            "(CITATION.cff). [accuracy](accuracy.md) has the methods beside each other, and beside "
            "others.\n"
        )
        newsgroups_naive_bayes(args.data, args.draws)
        settings(args.data, args.draws)
        reuters_naive_bayes(args.data)
        newsgroups_neighbors(args.data, args.draws)
        newsgroups_unlabelled(args.data, args.draws)
    print(printed.getvalue())
    if args.out:
        args.out.write_text(printed.getvalue().rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
