"""leafwise classify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leafwise.atomic import check_writable
from leafwise.cli.learning import learn
from leafwise.cli.opening import (
    added_columns,
    bad_rows_file,
    check_apart,
    check_language,
    load_model,
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
    ModelFile,
    SkipBad,
    TextColumn,
    TreeFile,
)
from leafwise.cli.talking import count, progress, say, say_bad, usage


def classify(
    docs: Docs,
    taxonomy: TreeFile = None,
    model: ModelFile = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="- for standard output.")
    ] = "-",
    save_model: Annotated[
        Path | None, typer.Option("--save-model", metavar="FILE", help="Keep the model.")
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            "--min-confidence", metavar="P", help="Leave a label empty where P is not reached."
        ),
    ] = None,
    stop: Annotated[
        bool,
        typer.Option(
            "--stop", help="Stop at an inner node where its children are less sure than P, or .5."
        ),
    ] = False,
    text: TextColumn = None,
    label: LabelColumn = None,
    id: IdColumn = None,
    format: DocsFormat = None,
    encoding: Encoding = "utf-8",
    language: Language = "english",
    skip_bad: SkipBad = False,
    bad_rows: BadRows = None,
) -> None:
    """Put every document on a node of a tree.

    Learns from the rows that have a label and from the nodes' keywords, then fills in the others:
    the node, its probability, and the next two candidates. The output has the input's format and
    all its columns. Without a tree, the labels in DOCS are the tree.

    Several labels per document (a column `labels`, or lists) make several in the output, too.

    Example: leafwise classify --taxonomy tree.yaml docs.csv -o sorted.csv
    """
    from leafwise.corpus import open_writer
    from leafwise.filling import by_model

    if taxonomy is not None and model is not None:
        usage("Give --taxonomy or --model, not both: a model brings its own tree.")
    if model is not None and save_model is not None:
        usage("--save-model keeps a model that is made here; with --model there is none.")
    if min_confidence is not None and not 0 <= min_confidence <= 1:
        usage(f"--min-confidence {min_confidence}: expected a number from 0 to 1.")
    files = {
        "output": output,
        "save_model": save_model,
        "bad_rows": bad_rows_file(skip_bad, bad_rows),
    }
    check_apart(docs=docs, taxonomy=taxonomy, model=model, **files)
    if save_model is not None:
        check_writable(save_model)  # now, rather than after the work
    ready = load_model(model) if model else None
    tree = ready.taxonomy_ if ready else load_taxonomy(taxonomy)
    check_language(language)
    options = {"text": text, "label": label, "id": id, "format": format, "encoding": encoding}
    corpus = open_corpus(docs, tree, skip_bad, bad_rows, **options)
    columns = added_columns(corpus, label, ready is not None and ready.several_)
    with open_writer(output, corpus, columns) as writer:
        if ready is None:
            ready = learn(corpus, tree, language)
            say(*ready.report_)
            if save_model is not None:
                ready.save(save_model)
        if ready.several_ and stop:
            usage("--stop is for one label per document; these have several.")
        if min_confidence is not None or stop:
            ready.set_params(min_confidence=min_confidence, stop="confident" if stop else None)
        with progress("Classifying", corpus):
            for batch in corpus.batches():
                rows = by_model(ready, corpus, batch)
                writer.write(batch, dict(zip(columns, map(list, zip(*rows)))))
    say_bad(corpus)
    where = "standard output" if output == "-" else output
    say(f"Wrote {count(corpus.n_documents or 0, 'document')} to {where}.")
