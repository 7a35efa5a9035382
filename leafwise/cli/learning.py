"""Learning from documents, with the tree that there is or that their labels make."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from leafwise.cli.talking import progress, say, showing, usage
from leafwise.exceptions import LeafwiseError, TaxonomyError

if TYPE_CHECKING:
    from leafwise.corpus import Corpus
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier
    from leafwise.taxonomy import Taxonomy


def tree_of_labels(corpus: Corpus) -> Taxonomy:
    from leafwise.taxonomy import Taxonomy

    if corpus.taxonomy_ is not None:
        return corpus.taxonomy_
    labels = {label for batch in corpus.batches() for several in batch.labels for label in several}
    if not labels:
        raise LeafwiseError(
            f"There is no tree: {corpus.name} has no labels to take one from. "
            "Give one with --taxonomy."
        )
    try:
        return Taxonomy.from_paths(sorted(labels))
    except TaxonomyError as error:
        raise LeafwiseError(
            f"The labels of {corpus.name} make no tree: {error} In a label, / stands between a "
            "node and its child; a / that belongs to a name is written \\/."
        ) from error


def learn(
    corpus: Corpus,
    tree: Taxonomy | None,
    language: str,
    nodes: Any = "auto",
    memory: str | None = None,
    one_label: bool = False,
) -> TaxonomyClassifier:
    """Learn from documents. With `one_label`, end where one has several, before the work.

    Below a bound of memory, that is seen after it.
    """
    if tree is None:
        tree = tree_of_labels(corpus)
    if memory is not None:
        from leafwise import streams

        with showing() as show, data_errors():
            model = classifier(tree, language, nodes)
            return streams.fit(model, corpus, memory=memory, on_progress=show)
    from leafwise.corpus_columns import several_labels

    labels: list[tuple[str, ...]] = []

    def texts() -> Iterator[str]:
        for batch in corpus.batches():
            if one_label and any(several_labels(given, tree) for given in batch.labels):
                refuse_several()
            labels.extend(batch.labels)
            yield from batch.texts

    with progress("Reading", corpus) as show:
        return fit(tree, texts(), labels, language, nodes, show)


def refuse_several() -> NoReturn:
    usage("--stop is for one label per document; these have several.")


def fit(
    tree: Taxonomy,
    texts: Any,
    labels: Any,
    language: str,
    nodes: Any = "auto",
    show: Callable[[str, int, int], None] | None = None,
) -> TaxonomyClassifier:
    say_if_first()
    model = classifier(tree, language, nodes)
    model.on_progress = show
    with data_errors():
        model.fit(texts, labels)
    model.on_progress = None
    return model


def say_if_first() -> None:
    """Tell who waits at a terminal why the first run of all takes longer."""
    if not sys.stderr.isatty():
        return
    from leafwise._words import is_compiled

    if not is_compiled():
        say("Compiling, at the first run only: about ten seconds more.")


def classifier(tree: Taxonomy, language: str, nodes: Any = "auto") -> TaxonomyClassifier:
    """Return a classifier that has learned nothing yet."""
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier, counter_of

    return TaxonomyClassifier(tree, counter=counter_of(language), nodes=nodes)


@contextmanager
def data_errors() -> Iterator[None]:
    """Take what learning refuses as said of the user's data: there is nothing to learn from."""
    try:
        yield
    except LeafwiseError:
        raise
    except ValueError as error:
        raise LeafwiseError(str(error)) from error
