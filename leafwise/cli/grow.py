"""leafwise grow."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from leafwise.atomic import check_writable, replacing
from leafwise.cli.learning import learn
from leafwise.cli.opening import (
    added_columns,
    bad_rows_file,
    check_apart,
    check_language,
    check_picture,
    load_taxonomy,
    open_corpus,
)
from leafwise.cli.options import (
    BadRows,
    Docs,
    DocsFormat,
    Encoding,
    IdColumn,
    LabelColumn,
    Language,
    SkipBad,
    TextColumn,
    TreeFile,
)
from leafwise.cli.talking import count, progress, say, say_bad, usage
from leafwise.exceptions import LeafwiseError, OutputError

if TYPE_CHECKING:
    from leafwise.corpus import Corpus
    from leafwise.growing import Growth
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier
    from leafwise.taxonomy import Taxonomy


def grow(
    docs: Docs,
    leaves: Annotated[
        str,
        typer.Option(
            "--leaves",
            metavar="N|auto",
            help="How many leaves to grow; auto: as many as words held out call for, which takes "
            "many times as long.",
        ),
    ] = "8",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="TREE", help="Keep the tree: tree.yaml.")
    ] = None,
    assign: Annotated[
        str | None,
        typer.Option("--assign", metavar="FILE", help="Write the documents with their leaves."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="Draw the tree: tree.png, .svg or .pdf."),
    ] = None,
    taxonomy: TreeFile = None,
    under: Annotated[
        str | None,
        typer.Option("--under", metavar="PATH", help="Split this node of --taxonomy, no other."),
    ] = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    id: IdColumn = None,
    format: DocsFormat = None,
    encoding: Encoding = "utf-8",
    language: Language = "english",
    skip_bad: SkipBad = False,
    bad_rows: BadRows = None,
) -> None:
    """Grow a tree of topics from documents, and draw it.

    Each node is shown with the words that set it apart, and each leaf with a few documents. The
    tree that -o keeps is one that classify takes; rename its nodes as you like.

    Example: leafwise grow docs.csv --leaves 16 -o tree.yaml
    """
    n_leaves = _leaves(leaves)
    if (taxonomy is None) != (under is None):
        usage("--under names a node of the tree that --taxonomy names. Give both, or neither.")
    files = {"out": out, "assign": assign, "picture": picture}
    check_apart(docs=docs, taxonomy=taxonomy, **files, bad_rows=bad_rows_file(skip_bad, bad_rows))
    if out is not None:
        _check_tree_file(out)  # now, rather than after the work
    if picture is not None:
        check_picture(picture)
    check_language(language)
    tree = load_taxonomy(taxonomy)
    node = 0 if tree is None else tree.index(under)
    options = {"text": text, "label": label, "id": id, "format": format, "encoding": encoding}
    corpus = open_corpus(docs, tree, skip_bad, bad_rows, **options)
    columns = added_columns(corpus, label)

    from leafwise import growing
    from leafwise.corpus import open_writer

    with nullcontext() if assign is None else open_writer(assign, corpus, columns) as writer:
        at = None if tree is None else _at_node(corpus, tree, node, language)
        with progress("Reading", corpus):
            words = growing.count_words(_texts(corpus, at), language)
        n_words, n_documents = len(words.words), words.n_documents
        say(
            f"Counted {count(n_words, 'different word')} in {count(n_documents, 'document')}, "
            "without those that only one of them has."
        )
        grown = growing.grow(words, n_leaves, verbose=sys.stderr.isatty())
        whole, paths = grown.below(tree, node)
        title = corpus.name if tree is None else tree.paths[node]
        drawing = growing.draw(grown, title)
        if writer is not None:
            _assign(writer, columns, corpus, at, grown.best(paths, 3))
        # What takes long is done: the files appear together, or none does.
        with nullcontext() if picture is None else replacing(picture) as file:
            if picture is not None:
                growing.picture(grown, title).savefig(file, format=picture.suffix[1:].lower())
            if out is not None:
                whole.save(out, all_keywords=True)
    if assign == "-":
        say(drawing)
    else:
        typer.echo(drawing)
    say_bad(corpus)
    say(*_said_of(grown, n_leaves))
    if out is not None:
        say(f"Wrote {count(len(whole) - 1, 'node')} to {out}.")
    else:
        say("The tree is not kept: -o tree.yaml writes it.")
    if picture is not None:
        say(f"Drew it to {picture}.")
    if assign is not None:
        where = "standard output" if assign == "-" else assign
        say(f"Wrote {count(corpus.n_documents or 0, 'document')} to {where}.")


def _leaves(text: str) -> int | str:
    if text == "auto":
        return text
    if not (text.isascii() and text.isdigit() and int(text) >= 2):
        usage(f"--leaves {text}: expected a whole number from 2 on, or auto.")
    return int(text)


def _check_tree_file(path: Path) -> None:
    from leafwise.taxonomy_formats import EXTENSIONS

    known = [ending for endings in EXTENSIONS.values() for ending in endings]
    check_writable(path)
    if path.suffix.lower() not in known:  # a folder would not keep the keywords
        raise OutputError(
            f"Cannot write {path}: a tree with keywords is kept in a file whose name ends in "
            f"{', '.join(known)}."
        )


class _AtNode(NamedTuple):
    """The documents of a node, how their labels name it, and the model that put them there."""

    documents: list[int]
    labels: set[str]
    model: TaxonomyClassifier | None


def _at_node(corpus: Corpus, tree: Taxonomy, node: int, language: str) -> _AtNode:
    """Find the documents of a node: by their labels or, where no row has one, by a model."""
    with progress("Reading", corpus):
        given = [labels for batch in corpus.batches() for labels in batch.labels]
    path = tree.paths[node]
    if distinct := set[str]().union(*given):
        own = {label for label in distinct if tree.index(label) == node}
        found = _AtNode(
            [i for i, labels in enumerate(given) if own.intersection(labels)], own, None
        )
        missing = f'No row of {corpus.name} has the label "{path}" itself'
    else:
        nodes = [tree.paths[i] for i in sorted({node, *tree.leaves.tolist()})]
        model = learn(corpus, tree, language, nodes)
        say(*model.report_)
        found = _AtNode((model.transduction_ == path).nonzero()[0].tolist(), set(), model)
        missing = f'No document of {corpus.name} seems to belong to "{path}"'
    if not found.documents:
        raise LeafwiseError(f"{missing}, so there is nothing to split.")
    return found


def _texts(corpus: Corpus, at: _AtNode | None) -> Iterator[str]:
    texts = (text for batch in corpus.batches() for text in batch.texts)
    if at is None:
        return texts
    wanted = set(at.documents)
    return (text for i, text in enumerate(texts) if i in wanted)


def _assign(
    writer: Any,
    columns: list[str],
    corpus: Corpus,
    at: _AtNode | None,
    best: dict[int, list[tuple[str, float]]],
) -> None:
    """Write documents with their best leaves; those that were not at the node, as they were."""
    from leafwise import filling

    if at is not None:
        best = {at.documents[i]: leaves for i, leaves in best.items()}
    done = 0
    with progress("Writing", corpus):
        for batch in corpus.batches():
            n = len(batch.texts)
            if at is None:
                rows = [filling.nothing() for _ in range(n)]
            elif at.model is None:
                rows = filling.as_given(corpus, batch)
            else:
                rows = list(map(list, zip(*filling.by_model(at.model, corpus, batch))))
            lists = at is not None and filling.holds_lists(corpus, batch)
            leaves = [best.get(i, []) for i in range(done, done + n)]
            filling.by_leaves(rows, batch, leaves, set() if at is None else at.labels, lists)
            writer.write(batch, dict(zip(columns, map(list, zip(*rows)))))
            done += n


def _said_of(grown: Growth, n_leaves: int | str) -> list[str]:
    said = []
    n_found = len(grown.tree.leaves)
    if n_leaves != "auto" and n_found < int(n_leaves):
        said.append(
            f"{n_found} leaves were found, not {n_leaves}: no other topic of these documents comes "
            "apart. More documents may give more."
        )
    if n_without := grown.words.n_documents - len(grown.words.documents):
        said.append(
            f"{count(n_without, 'document')} without a word that others have too: no leaf there."
        )
    return said
