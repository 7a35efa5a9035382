"""leafwise classify."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leafwise.atomic import check_writable
from leafwise.cli.codes import INTERRUPTED
from leafwise.cli.ending import Terminated
from leafwise.cli.learning import learn, refuse_several
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
from leafwise.cli.scheduling import Scheduler, classify_on_cluster
from leafwise.cli.talking import count, progress, say, say_bad, usage
from leafwise.exceptions import CorpusError

if TYPE_CHECKING:
    from leafwise.corpus import Batch, Corpus
    from leafwise.corpus_resuming import Unfinished
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier
    from leafwise.streams import Portion, Room
    from leafwise.taxonomy import Taxonomy

LARGE = "4GiB"  # to learn from the files of a cluster, where nothing else is asked for


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
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Hold no more than this at once, such as 1GiB: learn from as many documents as "
            "fit, those with a label first.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on where the same command was interrupted; keeps what is done in a folder "
            "beside the output.",
        ),
    ] = False,
    scheduler: Scheduler = None,
) -> None:
    """Put every document on a node of a tree.

    Learns from the rows that have a label and from the nodes' keywords, then fills in the others:
    the node, its probability, and the next two candidates. The output has the input's format and
    all its columns. Without a tree, the labels in DOCS are the tree.

    Several labels per document (a column `labels`, or lists) make several in the output, too.

    Files larger than memory: --memory 1GiB. Runs that take hours: --resume. Folders of many files,
    by several processes or machines: --scheduler local:4 -o FOLDER.

    Example: leafwise classify --taxonomy tree.yaml docs.csv -o sorted.csv
    """
    if taxonomy is not None and model is not None:
        usage("Give --taxonomy or --model, not both: a model brings its own tree.")
    if model is not None and save_model is not None:
        usage("--save-model keeps a model that is made here; with --model there is none.")
    if min_confidence is not None and not 0 <= min_confidence <= 1:
        usage(f"--min-confidence {min_confidence}: expected a number from 0 to 1.")
    if resume and scheduler is not None:
        usage("--resume is for one file. With --scheduler, name the files that are left by a glob.")
    if resume:
        _check_resumable(docs, output)
    files = {
        "output": output,
        "save_model": save_model,
        "bad_rows": bad_rows_file(skip_bad, bad_rows),
    }
    check_apart(docs=docs, taxonomy=taxonomy, model=model, **files)
    if save_model is not None:
        check_writable(save_model)  # now, rather than after the work
    given = load_model(model) if model else None
    if given is not None and given.several_ and stop:
        refuse_several()
    tree = given.taxonomy_ if given else load_taxonomy(taxonomy)
    check_language(language)
    room = _room(memory)
    options = {"text": text, "label": label, "id": id, "format": format, "encoding": encoding}
    settle = partial(_settled, save_model=save_model, min_confidence=min_confidence, stop=stop)
    if scheduler is not None:
        classify_on_cluster(
            scheduler,
            docs,
            output,
            prepare=lambda every: settle(
                given or _learned(every, tree, language, memory or LARGE, stop)
            ),
            tree=tree,
            skip_bad=skip_bad,
            bad_rows=bad_rows,
            memory=memory,
            **options,
        )
        return
    corpus = open_corpus(docs, tree, skip_bad, bad_rows, **options)
    columns = added_columns(corpus, label, given is not None and given.several_)
    settings = {
        **options,
        "language": language,
        "min-confidence": min_confidence,
        "stop": stop,
        "skip-bad": skip_bad,
        "memory": memory,
    }
    job = {f"--{name}": value for name, value in settings.items()}
    unfinished = _unfinished(docs, output, taxonomy, tree, model, job) if resume else None
    with _opened(unfinished, output, corpus, columns) as writer:
        if writer is None:
            return
        ready = given
        if ready is None and unfinished is not None and unfinished.begun:
            ready = load_model(Path(unfinished.learned()))
        elif ready is None:
            ready = _learned(corpus, tree, language, memory, stop)
            if unfinished is not None:
                ready.save(unfinished.model)
        settle(ready)
        portion = _portion(ready, room)
        from leafwise.filling import in_portions

        # Closed by name: the list of bad rows of a run that is interrupted is not to wait for it.
        with closing(corpus.batches()) as every, progress("Classifying", corpus) as show:
            batches: Iterator[Batch] = every
            if unfinished is not None:
                writer.begin()
                batches = writer.rest(every)
            for batch in batches:
                writer.write(batch, dict(zip(columns, in_portions(ready, corpus, batch, portion))))
                show.documents += len(batch.texts)
    say_bad(corpus)
    where = "standard output" if output == "-" else output
    say(f"Wrote {count(corpus.n_documents or 0, 'document')} to {where}.")


def _learned(
    corpus: Any, tree: Taxonomy | None, language: str, memory: str | None, one_label: bool
) -> TaxonomyClassifier:
    ready = learn(corpus, tree, language, memory=memory, one_label=one_label)
    say(*ready.report_)
    return ready


def _settled(
    ready: TaxonomyClassifier, save_model: Path | None, min_confidence: float | None, stop: bool
) -> TaxonomyClassifier:
    """Keep the model, and have it be as sure as it is asked to be."""
    if save_model is not None:
        ready.save(save_model)
    if ready.several_ and stop:
        refuse_several()
    if min_confidence is not None or stop:
        ready.set_params(min_confidence=min_confidence, stop="confident" if stop else None)
    return ready


def _room(memory: str | None) -> Room | None:
    if memory is None:
        return None
    from leafwise.exceptions import LeafwiseError
    from leafwise.streams import Room

    try:
        return Room.of(memory)
    except LeafwiseError as error:
        usage(str(error).replace("memory=", "--memory ", 1))


def _portion(model: TaxonomyClassifier, room: Room | None) -> Portion | None:
    if room is None:
        return None
    from leafwise.streams import Portion

    return Portion.of(len(model.taxonomy_), room)


# ---- a run that goes on where another was interrupted -------------------------------------------


def _check_resumable(docs: str, output: str) -> None:
    if output == "-" or (os.path.exists(output) and not os.path.isfile(output)):
        usage("--resume goes on with a file. Name it: -o sorted.csv")
    if docs == "-" or (os.path.exists(docs) and not (os.path.isfile(docs) or os.path.isdir(docs))):
        usage("--resume reads the documents again, which a pipe cannot give twice. Name a file.")
    if os.path.realpath(docs) == os.path.realpath(output):
        usage("--resume cannot write over DOCS: what is left to do is read from it. Name another.")


def _unfinished(
    docs: str,
    output: str,
    taxonomy: Path | None,
    tree: Taxonomy | None,
    model: Path | None,
    job: dict[str, Any],
) -> Unfinished:
    from hashlib import sha256

    from leafwise.corpus_resuming import Unfinished, describe

    if taxonomy is not None and tree is not None:
        job["--taxonomy"] = f"the tree {sha256(repr(tree.to_dict()).encode()).hexdigest()[:16]}"
    if model is not None:
        with open(model, "rb") as file:
            from hashlib import file_digest

            job["--model"] = f"the model {file_digest(file, 'sha256').hexdigest()[:16]}"
    return Unfinished(output, describe(docs, **job), later=["--skip-bad"])


@contextmanager
def _opened(
    unfinished: Unfinished | None, output: str, corpus: Corpus, columns: list[str]
) -> Iterator[Any]:
    """Open what is written to; None where all was written before."""
    from leafwise.corpus import open_writer
    from leafwise.corpus_resuming import SUFFIX

    if unfinished is None:
        with open_writer(output, corpus, columns) as writer:
            yield writer
        return
    with unfinished.opened():
        if unfinished.whole:
            unfinished.clear()
            say(f"{output} is whole already.")
            yield None
            return
        if unfinished.n_documents:
            say(f"Going on after {count(unfinished.n_documents, 'document')}.")
        try:
            with unfinished.writer(corpus, columns) as writer:
                yield writer
        except (KeyboardInterrupt, Terminated) as end:
            if not unfinished.begun:  # nothing is kept
                raise
            done = count(unfinished.n_documents, "document")
            if isinstance(end, Terminated):
                say(f"Ended from outside after {done}. The same command goes on from there.")
                end.said = True
                raise
            say(f"Interrupted after {done}. The same command goes on from there.")
            raise typer.Exit(INTERRUPTED) from None
        except CorpusError:
            if unfinished.n_documents:
                done = count(unfinished.n_documents, "document")
                say(
                    f"Done, and kept in {output}{SUFFIX}: {done}. The same command with --skip-bad "
                    "goes on from there."
                )
            raise
