"""leafwise compile: what the first run would compile is compiled ahead of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leafwise.cli.learning import classifier
from leafwise.cli.talking import say

_TREE = {"fruit": ["apple", "pear"], "travel/rail": ["train"], "travel/sea": ["ship", "harbour"]}
_WORDS = {  # made up, for documents to be drawn from
    "fruit": "apple pear orchard ripe basket juice peel core sweet tree",
    "travel/rail": "train track signal guard ticket platform steam late seat whistle",
    "travel/sea": "ship harbour captain wave anchor deck port gull rope tide",
}
_EACH = 40  # documents per node: so many that neighbours and linear scores have a part
_LABELLED = 20  # of them: so many in all that some are held out


def compile_ahead() -> None:
    """Compile what learning and sorting need, which the first run would do otherwise.

    It is kept beside the package, for all later runs; a second time there is little to do.
    """
    for i, (what, work) in enumerate(_STEPS.items(), start=1):
        say(f"Compiling what {what} needs: {i} of {len(_STEPS)}.")
        work()


def _drawn() -> tuple[list[str], list[str]]:
    import numpy as np

    rng = np.random.default_rng(0)
    labels = [label for label in _WORDS for _ in range(_EACH)]
    return [" ".join(["été", *rng.choice(_WORDS[one].split(), 12)]) for one in labels], labels


def _model() -> Any:
    from leafwise.taxonomy import Taxonomy

    return classifier(Taxonomy.from_paths(list(_TREE), keywords=_TREE), "english")


def _sort_by_keywords() -> None:
    texts, _ = _drawn()
    model = _model().fit(texts)
    model.top_k(texts[:5], 2)
    model.explain(texts[0])


def _sort_by_labels() -> None:
    texts, labels = _drawn()
    known = [label if i % _EACH < _LABELLED else None for i, label in enumerate(labels)]
    model = _model().fit(texts, known)
    model.partial_fit(texts[:1], labels[:1])
    model.query(2)
    _model().fit(texts, labels).predict(texts)


def _sort_by_several() -> None:
    texts, labels = _drawn()
    known = [[label] if i % _EACH < _LABELLED else None for i, label in enumerate(labels)]
    known[0] = ["fruit", "travel/sea"]
    _model().fit(texts, known).predict(texts)


def _grow() -> None:
    from leafwise.models.growth import HPLSA
    from leafwise.text import WordCounter

    HPLSA(3).fit(WordCounter().fit_transform(_drawn()[0]))


_STEPS: dict[str, Callable[[], None]] = {
    "sorting by keywords": _sort_by_keywords,
    "sorting by labels": _sort_by_labels,
    "several labels per document": _sort_by_several,
    "growing a tree": _grow,
}
