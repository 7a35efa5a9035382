"""What is measured for docs/scale.md. Each function runs in a process of its own."""

from __future__ import annotations

import csv
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dirichlet import Corpus, draw
from measuring import REPEAT, forget_peak, least_of, peak, repeated
from scipy import sparse
from sklearn.pipeline import make_pipeline

import leafwise as lw
from leafwise.datasets import Dataset, load_20newsgroups
from leafwise.models._tree_scores import TreeScores
from leafwise.synthetic import make_corpus

LENGTH = 60  # words of a drawn document
PART = 50_000  # documents that are drawn at a time
SIGMA, ESTIMATES = 300.0, 3  # where neither is chosen
SAMPLE = 10  # one document in so many is predicted
WARM = 60.0  # seconds: what takes less is done once before it is timed
ENOUGH_ROUNDS = 60.0  # seconds, after which no other round over all sizes begins
REPLACED = 5  # one word in so many of a message is another's


class Size(NamedTuple):
    documents: int
    nodes: int
    words: int


# ---- models of drawn documents ------------------------------------------------------------------

_AT: dict[str, Any] = {"nodes": "leaves"}
_EM = _AT | {"words": "roots"}
LABELS, EM = "HierarchicalDirichlet, labels", "HierarchicalDirichlet, EM"
PRUNED = "HierarchicalDirichlet, EM, 200 nodes"
MIXTURE, GENERAL, COUNTER = "HierarchicalMixture", "GeneralShrinkage", "WordCounter"
GIVEN = "HPLSA, tree given"
_CLASSES: dict[str, Callable[..., Any]] = {
    "NaiveBayes": lw.NaiveBayes,
    "HierarchicalShrinkage": lw.HierarchicalShrinkage,
    MIXTURE: lw.HierarchicalMixture,
    "HPLC": lw.HPLC,
    "PLC": lw.PLC,
    GENERAL: lw.GeneralShrinkage,
}
MODELS = (
    "NaiveBayes",
    "HierarchicalShrinkage",
    MIXTURE,
    LABELS,
    EM,
    PRUNED,
    "HPLC",
    "PLC",
    GIVEN,
    GENERAL,
)


def model_of(name: str, tree: lw.Taxonomy, vocabulary: Any, auto: bool = False) -> Any:
    """Make a model; `auto` leaves it to choose σ, and when EM has gone far enough."""
    if name in _CLASSES:
        return _CLASSES[name](tree, **_AT)
    if name == GIVEN:
        return lw.HPLSA(tree=tree, betas=[1.0], max_iter=ESTIMATES, tol=0.0)
    fixed: dict[str, Any] = {} if auto else {"sigma": SIGMA}
    if name == LABELS:
        return lw.HierarchicalDirichlet(tree, **_AT, **fixed)
    if not auto:
        fixed |= {"max_iter": ESTIMATES, "tol": 0.0}  # as many for all sizes
    candidates = 200 if name == PRUNED else None
    return lw.HierarchicalDirichlet(
        tree, **_EM, **fixed, vocabulary=vocabulary, candidates=candidates
    )


def keep(path: Path, size: Size) -> None:
    """Draw a corpus and write it to a file, for other processes to open."""
    first, *others = ((part if i == 0 else part[::3]) for i, part in enumerate(drawn(size)))
    X = sparse.csr_matrix(sparse.vstack([first.X, *(X for X, _ in others)]))
    truth = np.concatenate([first.truth, *(truth for _, truth in others)])
    whole = first._replace(X=X, truth=truth)
    with path.open("wb") as file:
        pickle.dump(whole, file, protocol=5)


def drawn(size: Size) -> Iterator[Corpus]:
    """Draw a corpus in parts."""
    for i, start in enumerate(range(0, size.documents, PART)):
        n = min(PART, size.documents - start)
        yield draw(n, size.nodes, size.words, length=LENGTH, part=i)


class Work(NamedTuple):
    """What is done with a corpus.

    Attributes
    ----------
    fit : returns what was learned
    predict : from that, one document in ten
    about : facts of what was learned and predicted
    """

    fit: Callable[[], Any]
    predict: Callable[[Any], Any]
    about: Callable[[Any, Any], dict[str, Any]]


def fitted(path: Path, name: str, auto: bool = False) -> dict[str, Any]:
    """Fit a model to all documents and predict some, several times; see `repeated`."""
    (work,) = _works([path], name, auto)
    return _timed(work, REPEAT, WARM)


def grown(
    along: str, paths: Mapping[int, Path], name: str, rounds: int, enough: float
) -> list[dict[str, Any]]:
    """Do the same with corpora of several sizes, in turn: a line for each of the sizes.

    Measured one after the other, a change of what else the machine does would look like growth.
    """
    works = _works(paths.values(), name)
    lines = [{along: n, **_timed(work)} for n, work in zip(paths, works)]
    started = time.perf_counter()
    for i in range(rounds):
        if time.perf_counter() - started > ENOUGH_ROUNDS:
            break
        for line, work in zip(lines, works):
            best = (line["fit"], line["predict"]) if i else (np.inf, np.inf)
            line["fit"], model = least_of(work.fit, best[0], enough)
            line["predict"], _ = least_of(partial(work.predict, model), best[1], enough)
            del model
    return lines


def _works(paths: Iterable[Path], name: str, auto: bool = False) -> list[Work]:
    """Open corpora; what is to be done with them has its compiled code loaded."""
    make = _counting if name == COUNTER else partial(_fitting, name=name, auto=auto)
    small = make(draw(600, 20, 200))
    small.predict(small.fit())
    works = []
    for path in paths:
        with path.open("rb") as file:
            works.append(make(pickle.load(file)))
    return works


def _timed(work: Work, repeat: int = 1, warm: float = 0.0) -> dict[str, Any]:
    forget_peak()
    before = peak()
    fit, added, model = repeated(work.fit, repeat, warm)
    predict, added_predict, found = repeated(partial(work.predict, model), repeat, warm)
    return {
        "fit": fit,
        "added": added,
        "peak": before + added,
        "predict": predict,
        "added_predict": added_predict,
        **work.about(model, found),
    }


def _fitting(corpus: Corpus, name: str, auto: bool) -> Work:
    paths = corpus.taxonomy.paths
    some = slice(0, max(1, len(corpus.truth) // SAMPLE))
    X = corpus.X[some]

    def about(model: Any, found: np.ndarray) -> dict[str, Any]:
        truth = [paths[i] for i in corpus.truth[some]]
        scores = getattr(model, "_scores", None)
        return {
            "predicted": X.shape[0],
            "accuracy": float(np.mean(found == np.array(truth, object))),
            "sigma": getattr(model, "sigma_", None),
            "n_iter": getattr(model, "n_iter_", None),
            "pairs": int(model.word_counts_.nnz) if name != GIVEN else None,
            "entries": len(scores.values) if isinstance(scores, TreeScores) else None,
            "nnz": int(corpus.X.nnz),
        }

    return Work(lambda: _fit(name, corpus, paths, auto), lambda model: model.predict(X), about)


def _fit(name: str, corpus: Corpus, paths: tuple[str, ...] | list[str], auto: bool) -> Any:
    model = model_of(name, corpus.taxonomy, corpus.vocabulary, auto)
    is_em = name in (EM, PRUNED, GIVEN)
    return model.fit(corpus.X, None if is_em else [paths[i] for i in corpus.truth])


def _counting(corpus: Corpus) -> Work:
    """Count the words of drawn texts."""
    texts = list(texts_of(corpus))
    some = texts[: max(1, len(texts) // SAMPLE)]

    def about(counter: lw.WordCounter, _: Any) -> dict[str, Any]:
        return {"predicted": len(some), "megabytes": sum(map(len, texts)) / 1e6}

    def fit() -> lw.WordCounter:
        counter = lw.WordCounter()
        counter.fit_transform(texts)
        return counter

    return Work(fit, lambda counter: counter.transform(some), about)


def texts_of(corpus: Corpus) -> Iterator[str]:
    """Yield the documents as texts, of which `vocabulary` says the words."""
    X, words = corpus.X, np.array(corpus.vocabulary, object)
    for a, b in pairwise(X.indptr.tolist()):
        yield " ".join(np.repeat(words[X.indices[a:b]], X.data[a:b]))


# ---- files larger than memory -------------------------------------------------------------------


def write_drawn(path: Path, size: Size) -> float:
    """Write drawn documents to a CSV file, with their nodes; return its gigabytes."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "truth"])
        for part in drawn(size):
            paths = part.taxonomy.paths
            writer.writerows(zip(texts_of(part), [paths[i] for i in part.truth]))
    return path.stat().st_size / 1e9


def streamed(path: Path, size: Size, name: str, memory: str) -> dict[str, Any]:
    """Fit a model to the texts of a file, within a bound, and see how it does on some."""
    from leafwise import streams
    from leafwise.corpus import Corpus as Documents

    drawn_part = draw(2_000, size.nodes, size.words, length=LENGTH)
    counter = lw.WordCounter()
    model = make_pipeline(counter, model_of(name, drawn_part.taxonomy, counter, auto=True))
    corpus = Documents(path, text="text", label=None if name == EM else "truth")
    started = time.perf_counter()
    streams.fit(model, corpus, memory=memory)
    took = time.perf_counter() - started
    most = peak()
    paths = drawn_part.taxonomy.paths
    found = model.predict(list(texts_of(drawn_part)))
    right = np.array([paths[i] for i in drawn_part.truth], object)
    return {
        "memory": memory,
        "gigabytes": path.stat().st_size / 1e9,
        "fit": took,
        "peak": most,
        "accuracy": float(np.mean(found == right)),
        "sigma": getattr(model[-1], "sigma_", None),
        "n_iter": getattr(model[-1], "n_iter_", None),
        "pairs": int(model[-1].word_counts_.nnz),
    }


def messages(data: str | None, small: bool) -> Dataset:
    """Read the 20 newsgroups; small: some documents of made-up words, which need no file."""
    if not small:
        return load_20newsgroups("18828", groups=20, data=data)
    made = make_corpus(n_documents=300, concentration=20.0, random_state=0)
    ids = [str(i) for i in range(len(made))]
    keywords = [()] + [(word,) for word in made.words[: len(made.taxonomy) - 1]]
    tree = lw.Taxonomy(made.taxonomy.names, made.taxonomy.parent.tolist(), keywords)
    return Dataset(made.texts(), made.labels, tree, ids, None, "drawn", "")


def learned(path: Path, data: str | None, small: bool) -> dict[str, Any]:
    """Keep a classifier of messages, learned from every tenth of them."""
    news = messages(data, small)
    some = news.subset(np.arange(0, len(news), SAMPLE))
    model = lw.TaxonomyClassifier(news.taxonomy)
    fit, added, _ = repeated(lambda: model.fit(some.texts, list(some.labels)), 1)
    model.save(path)
    return {"fit": fit, "added": added, "megabytes": path.stat().st_size / 1e6}


def write_messages(path: Path, n_bytes: float, data: str | None, small: bool, seed: int) -> int:
    """Write messages to a CSV file until it is as large as that; return how many.

    A message comes again and again, each time with a fifth of its words in favour of others.
    """
    news = messages(data, small)
    rng = np.random.default_rng(seed)
    split = [text.split(" ") for text in news.texts]
    pool = [word for words in split for word in words if word.strip()]
    some = [i for i, text in enumerate(news.texts) if text.strip()]
    n = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "truth"])
        while n % 100 or file.tell() < n_bytes:
            i = some[int(rng.integers(len(some)))]
            words = split[i].copy()
            n_replaced = -(-len(words) // REPLACED)
            at = rng.integers(len(words), size=n_replaced).tolist()
            for place, word in zip(at, rng.integers(len(pool), size=n_replaced).tolist()):
                words[place] = pool[word]
            writer.writerow([n, " ".join(words), news.labels[i]])
            n += 1
    return n


def command(model: Path, docs: Path, out: Path, memory: str) -> list[str]:
    options = ["--model", str(model), "--memory", memory, "--text", "text", "-o", str(out)]
    return [sys.executable, "-m", "leafwise", "classify", str(docs), *options]


def checked(docs: Path, out: Path) -> dict[str, Any]:
    """See that every message has an answer, in order; return how many, and how many are right."""
    csv.field_size_limit(1 << 30)
    n = right = 0
    as_it_is: dict[str, Any] = {"encoding": "utf-8", "newline": ""}
    with docs.open(**as_it_is) as given, out.open(**as_it_is) as made:
        for one, other in zip(csv.DictReader(given), csv.DictReader(made), strict=True):
            if one["id"] != other["id"] or one["text"] != other["text"] or not other["label"]:
                raise RuntimeError(f"Row {n + 1} of {out} is not that of {docs} with a label.")
            right += other["label"] == one["truth"]
            n += 1
    return {"rows": n, "accuracy": right / n}
