"""The pictures in docs/ that no other command makes."""

from __future__ import annotations

import argparse
from pathlib import Path

import leafwise as lw
from leafwise.datasets import load_20newsgroups
from leafwise.plots import TreeWordsDisplay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--data", help="folder of the corpora")
    args = parser.parse_args()
    news = load_20newsgroups(data=args.data)
    counter = lw.WordCounter(stop_words="english", min_count=3)
    X = counter.fit_transform(news.texts)
    model = lw.HierarchicalMixture(news.taxonomy, steps=3, nodes="leaves").fit(X, news.labels)
    words = counter.get_feature_names_out()
    display = TreeWordsDisplay.from_model(model, n_words=6, feature_names=words)
    display.figure_.savefig(args.out / "tree-words.png", dpi=80)


if __name__ == "__main__":
    main()
