"""Word counts beside scikit-learn's CountVectorizer: the same matrix, how much sooner.

All run on this machine, taking turns, several times; the ratio of the medians is what counts. The
vocabulary and every count are compared too. Other engines are there to show what else was tried:
they find words by rules of their own, so theirs is not the same matrix.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from leafwise.datasets import load_20newsgroups
from leafwise.text import WordCounter


def timed(function: Callable, *arguments: object) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def count_with_arrow(texts: list[str]) -> None:
    """Split, number and count with Arrow's own functions, ASCII words only."""
    import pyarrow as pa
    import pyarrow.compute as pc

    words = pc.split_pattern_regex(pc.utf8_lower(pa.array(texts)), "[^0-9A-Za-z_]+")
    numbered = words.flatten().dictionary_encode()
    document = pc.list_parent_indices(words).to_numpy().astype(np.int64)
    np.unique(document * len(numbered.dictionary) + numbered.indices.to_numpy(), return_counts=True)


def count_with_polars(texts: list[str]) -> None:
    import polars as pl

    words = pl.Series("word", texts).str.to_lowercase().str.extract_all(r"\w\w+")
    frame = pl.DataFrame({"document": np.arange(len(texts)), "word": words})
    frame.explode("word").group_by("document", "word").len()


def compare(texts: list[str], name: str, repeat: int) -> None:
    size = sum(len(text.encode()) for text in texts) / 1e6
    ours, theirs, parts = WordCounter(), CountVectorizer(), WordCounter(compounds=True)
    X, Y = ours.fit_transform(texts), theirs.fit_transform(texts)
    same = "yes" if ours.vocabulary_ == theirs.vocabulary_ and (X != Y).nnz == 0 else "NO"
    engines: dict[str, tuple[Callable, str]] = {
        "CountVectorizer.fit_transform": (theirs.fit_transform, ""),
        "WordCounter.fit_transform": (ours.fit_transform, same),
        "WordCounter.fit_transform, one thread": (WordCounter(n_jobs=1).fit_transform, same),
        "WordCounter(compounds=True).fit_transform": (parts.fit_transform, "and more"),
        "CountVectorizer.transform": (theirs.transform, ""),
        "WordCounter.transform": (ours.transform, same),
        "Arrow": (count_with_arrow, "no"),
    }
    try:
        import polars  # noqa: F401

        engines["polars"] = (count_with_polars, "no")
    except ImportError:
        pass
    times: dict[str, list[float]] = {engine: [] for engine in engines}
    for _ in range(repeat):  # taking turns: what else the machine does hits all alike
        for engine, (function, _) in engines.items():
            times[engine].append(timed(function, texts))
    for engine, (_, equal) in engines.items():
        base = "transform" if engine.endswith(".transform") else "fit_transform"
        ratio = median(times[f"CountVectorizer.{base}"]) / median(times[engine])
        speed = size / median(times[engine])
        print(f"| {name}, {size:.0f} MB | {engine} | {speed:.1f} | {ratio:.1f} | {equal} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the corpora")
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    print("| corpus | engine | MB/s | times CountVectorizer's speed | same matrix |")
    print("|---|---|---|---|---|")
    for version in ("18828", "19997"):
        texts = load_20newsgroups(version, fields="all", groups=20, data=args.data).texts
        compare(texts, f"20 Newsgroups {version}", args.repeat)


if __name__ == "__main__":
    main()
