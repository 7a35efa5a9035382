"""leafwise classify --scheduler: files that are classified by the processes of a Dask cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leafwise.atomic import check_writable
from leafwise.cli.opening import bad_rows_file
from leafwise.cli.talking import count, say, usage
from leafwise.exceptions import LeafwiseError

if TYPE_CHECKING:
    from leafwise._cluster import Written
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier
    from leafwise.taxonomy import Taxonomy

Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="tcp://HOST:PORT or local:N",
        help="Let a Dask cluster, or N processes here, classify the files of a folder.",
    ),
]


def classify_on_cluster(
    scheduler: str,
    docs: str,
    output: str,
    *,
    prepare: Callable[[Any], TaxonomyClassifier],
    tree: Taxonomy | None,
    skip_bad: bool,
    bad_rows: Path | None,
    memory: str | None,
    **options: Any,
) -> None:
    """Classify the files of a folder, and write each into the output folder.

    Parameters
    ----------
    prepare : callable
        Takes a corpus of all files, and returns the model: one that is ready, or that it learns.
    tree : Taxonomy or None
        The one of the labels, if it is known before the model is.
    memory : str or None
        The most that each worker may hold.
    options : text, label, id, format and encoding: see `Corpus`
    """
    from leafwise import partitions as parts
    from leafwise._cluster import check_room, classify_files, connect, local_workers

    try:
        local_workers(scheduler)
    except LeafwiseError as error:
        usage(f"--scheduler: {error}")
    if output == "-":
        usage("--scheduler writes a file for each that it reads. Name a folder for them: -o sorted")
    listing = bad_rows_file(skip_bad, bad_rows)
    if listing is not None:
        check_writable(listing)
    parts.check_outside(docs, output)
    parts.check_shared(output)
    partitions = parts.find(docs, format=options.get("format"))
    made = parts.new_folder(output)  # now, rather than after learning
    options["skip_bad"] = skip_bad
    try:
        with connect(scheduler) as client:
            if not client.nthreads():
                say(f"{scheduler} has no workers yet. To start one: dask worker {scheduler}")
            try:
                check_room(client, memory)
            except LeafwiseError as error:
                usage(str(error).replace("memory=", "--memory, for each worker: ", 1))
            model = prepare(parts.Joined(partitions, docs, taxonomy=tree, **options))
            with _bar(len(partitions)) as show:
                written = classify_files(
                    model,
                    partitions,
                    output,
                    client=client,
                    corpus_options=options,
                    memory=memory,
                    bad_rows=listing,
                    on_progress=show,
                )
    except BaseException:
        parts.clear(output)  # what was being written when the workers were ended
        if made:
            with suppress(OSError):  # it holds files that were done
                os.rmdir(parts.local_path(output))
        # Those that nobody has heard of yet, too.
        if n_done := parts.count_whole(output, partitions):
            files = count(len(partitions), "file")
            say(
                f"Done, and whole in {output}: {n_done:,} of {files}. To go on, name the others by "
                "a glob, and another folder with -o."
            )
        raise
    if written.n_bad:
        say(f"Left out {count(written.n_bad, 'bad row')}; {listing} says why.")
    files = count(written.n_partitions, "file")
    say(f"Wrote {count(written.n_documents, 'document')} in {files} to {output}.")


@contextmanager
def _bar(n_partitions: int) -> Iterator[Callable[[Written], None] | None]:
    """Show on a terminal how many files and documents are done, and the time that is left."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Classifying", total=n_partitions)

        def show(written: Written) -> None:
            documents = count(written.n_documents, "document")
            what = f"{written.n_partitions:,} of {count(n_partitions, 'file')}, {documents}"
            bar.update(task, completed=written.n_partitions, description=what)

        yield show
