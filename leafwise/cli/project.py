"""leafwise project: a project file is made, filled, looked at, fitted and exported."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from leafwise.atomic import check_writable
from leafwise.cli.codes import BAD_INPUT, INTERRUPTED
from leafwise.cli.learning import data_errors, tree_of_labels
from leafwise.cli.opening import (
    bad_rows_file,
    check_apart,
    check_language,
    load_taxonomy,
    open_corpus,
)
from leafwise.cli.options import (
    BadRows,
    DocsFormat,
    Encoding,
    IdColumn,
    LabelColumn,
    Language,
    SkipBad,
    TextColumn,
    TreeFile,
)
from leafwise.cli.talking import count, progress, say, say_bad, steps, usage
from leafwise.exceptions import CorpusError, LeafwiseError

if TYPE_CHECKING:
    from leafwise.corpus import Batch, Corpus
    from leafwise.store import Project
    from leafwise.store.records import Info
    from leafwise.taxonomy import Taxonomy

app = typer.Typer(
    help="Keep a tree, documents and labels in one file, to review them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

ProjectFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The project file: notes.leafwise.")
]
Documents = typer.Argument(
    metavar="DOCS...",
    help="CSV, TSV, JSONL, Parquet, fastText or text files (.gz too), folders of one folder per "
    "node, or - for standard input.",
)
STDIN = "stdin-"  # begins the ids of documents from standard input that have none


# ---- new and add --------------------------------------------------------------------------------


@app.command("new")
def project_new(
    file: ProjectFile,
    docs: Annotated[list[str] | None, Documents] = None,
    taxonomy: TreeFile = None,
    name: Annotated[
        str | None, typer.Option("--name", help="What the project is called; else as the file.")
    ] = None,
    several: Annotated[
        bool, typer.Option("--several", help="A document may have several labels.")
    ] = False,
    language: Language = "english",
    text: TextColumn = None,
    label: LabelColumn = None,
    id: IdColumn = None,
    format: DocsFormat = None,
    encoding: Encoding = "utf-8",
    skip_bad: SkipBad = False,
    bad_rows: BadRows = None,
) -> None:
    """Make a project file, and add documents to it.

    Without a tree, the labels in DOCS are the tree; without labels too, one can be grown later.

    Example: leafwise project new notes.leafwise notes.csv --taxonomy tree.yaml
    """
    from leafwise.store import Project

    docs = docs or []
    _check_bad_rows(file, docs, taxonomy, skip_bad, bad_rows)
    check_language(language)
    tree = load_taxonomy(taxonomy)
    options: dict[str, Any] = {"text": text, "label": label, "id": id}
    options |= {"format": format, "encoding": encoding, "need_ids": True, "one_label": not several}
    corpora = [open_corpus(one, tree, skip_bad, bad_rows, **options) for one in docs]
    if tree is None:
        tree = _tree_of(corpora)
    with Project.create(file, tree, name=name, several=several, language=language) as project:
        n_nodes = project.info().n_nodes
        say(f"Made {file}, with {_nodes_of(n_nodes)}.")
        try:
            _add_all(project, corpora, tree, replace=False)
        except LeafwiseError:
            if not project.documents.count():  # the same command shall work once the cause is gone
                project.close()
                os.remove(file)
                say(f"No document was added: {file} is removed again.")
            raise


@app.command("add")
def project_add(
    file: ProjectFile,
    docs: Annotated[list[str] | None, Documents] = None,
    taxonomy: TreeFile = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Take the new text of a document that is there already."),
    ] = False,
    text: TextColumn = None,
    label: LabelColumn = None,
    id: IdColumn = None,
    format: DocsFormat = None,
    encoding: Encoding = "utf-8",
    skip_bad: SkipBad = False,
    bad_rows: BadRows = None,
) -> None:
    """Add documents to a project, and the labels that they have.

    A document is known by its id, so that what is there already is not added twice: after an
    interruption, run the same command again. Without a column of ids, they are FILE:LINE; those
    of standard input are made of the text.

    --taxonomy gives the project a tree, or another one: labels stay with nodes of the same path.

    Example: leafwise project add notes.leafwise more.csv
    """
    docs = docs or []
    if not docs and taxonomy is None:
        usage("Name documents to add, or a tree with --taxonomy.")
    _check_bad_rows(file, docs, taxonomy, skip_bad, bad_rows)
    given = load_taxonomy(taxonomy)
    options: dict[str, Any] = {"text": text, "label": label, "id": id}
    options |= {"format": format, "encoding": encoding, "need_ids": True}
    with _opened(file) as project:
        options["one_label"] = not project.several
        if given is not None:
            say(*_replace_tree(project, given))
        tree: Taxonomy | None = project.tree.taxonomy
        if tree is not None and len(tree) == 1:
            tree = None
        corpora = [open_corpus(one, tree, skip_bad, bad_rows, **options) for one in docs]
        made = tree is None and (tree := _tree_of(corpora)) is not None
        if tree is not None and made:
            project.tree.replace(tree, by="import")
            say(f"The project had no tree: the labels make one of {count(len(tree) - 1, 'node')}.")
        before = project.documents.count()
        try:
            _add_all(project, corpora, tree, replace)
        except LeafwiseError:
            if made and project.documents.count() == before:
                project.tree.undo(by="import")
                say("No document was added: the tree is taken back.")
            raise


def _replace_tree(project: Project, tree: Taxonomy) -> list[str]:
    """Give a project another tree; say what changed, and what became of labels."""
    before = int(project.tree.counts().confirmed.sum())
    said = project.tree.replace(tree, by="import") or ["The tree is as it was."]
    if lost := before - int(project.tree.counts().confirmed.sum()):
        one = lost == 1
        what = f"{count(lost, 'label')} {'is' if one else 'are'} taken away"
        gone = "a node that is gone" if one else "nodes that are gone"
        said.append(f"{what} with {gone}; the page's Tree can undo that.")
    return said


def _check_bad_rows(
    file: Path, docs: Sequence[str], tree: Path | None, skip_bad: bool, bad_rows: Path | None
) -> None:
    listing = bad_rows_file(skip_bad, bad_rows)
    if listing is not None and len(docs) > 1:
        usage("--skip-bad lists the bad rows of one file. Add the others one by one.")
    for one in docs:
        check_apart(docs=one, taxonomy=tree, bad_rows=listing)
        check_apart(docs=one, project=file)
    check_apart(project=file, taxonomy=tree, bad_rows=listing)


def _tree_of(corpora: Sequence[Corpus]) -> Taxonomy | None:
    """Return the tree that the labels of all documents make together; None without a label."""
    from leafwise.taxonomy import Taxonomy

    paths: dict[str, None] = {}
    for corpus in corpora:
        if corpus.label_column is None and corpus.format not in ("jsonl", "folder"):
            continue
        try:
            with progress("Reading labels", corpus):
                paths.update(dict.fromkeys(tree_of_labels(corpus).paths[1:]))
        except LeafwiseError as error:
            if not str(error).startswith("There is no tree"):
                raise
    return Taxonomy.from_paths(paths) if paths else None


def _add_all(
    project: Project, corpora: Sequence[Corpus], tree: Taxonomy | None, replace: bool
) -> None:
    for corpus in corpora:
        corpus.taxonomy = tree
        before = project.documents.count()
        try:
            with progress("Adding", corpus), data_errors():
                prefix = _prefix(corpus)
                if prefix not in ("", STDIN) and not replace:
                    _check_lines(project, corpus, prefix)
                added = project.documents.add(_batches(corpus), prefix=prefix, replace=replace)
        except KeyboardInterrupt:
            kept = project.documents.count() - before
            say(
                f"Interrupted. {count(kept, 'new document')} of {corpus.name} "
                f"{'is' if kept == 1 else 'are'} kept, with labels. Add the file again for the "
                "rest: nothing is added twice."
            )
            raise typer.Exit(INTERRUPTED) from None
        say_bad(corpus)
        say(*_added(corpus, added, replace))


def _prefix(corpus: Corpus) -> str:
    """Return what makes ids of line numbers, which every file has, ids of documents."""
    if corpus.id_column is not None and corpus.format not in ("fasttext", "text"):
        return ""
    return STDIN if corpus.source == "-" else f"{os.path.basename(corpus.source)}:"


def _batches(corpus: Corpus) -> Iterator[Batch]:
    """Read documents; those of standard input, which has no name, are known by what they say."""
    for batch in corpus.batches():
        if _prefix(corpus) == STDIN:
            # 64 bits: with 32, two of 100,000 texts would likely be taken for one.
            ids = [hashlib.sha256(text.encode()).hexdigest()[:16] for text in batch.texts]
            batch = batch._replace(ids=ids)
        yield batch


def _check_lines(project: Project, corpus: Corpus, prefix: str) -> None:
    """Refuse a file whose lines are those of another file of that name, or of an older state."""
    n = project.documents.n_differing(corpus.batches(), prefix=prefix)
    if n:
        have = "has the id of another" if n == 1 else "have the ids of others"
        raise CorpusError(
            f"{corpus.name}: {count(n, 'document')} {have} with another text, as ids are only the "
            f"name of the file and line numbers here ({prefix}2). Nothing of it is added. Name a "
            "column of ids with --id, or rename the file; if it is the same file with new texts, "
            "--replace takes them."
        )


def _added(corpus: Corpus, added: Any, replace: bool) -> list[str]:
    parts = [f"{count(added.n_new, 'document')} added"]
    if added.n_labels:
        parts.append(f"{count(added.n_labels, 'label')} taken")
    if added.n_same:
        parts.append(f"{added.n_same:,} already there")
    if added.n_changed and replace:
        parts.append(f"{added.n_changed:,} replaced by the new text")
    lines = [f"{corpus.name}: {', '.join(parts)}."]
    if added.n_changed and not replace:
        n, there = added.n_changed, "has" if added.n_changed == 1 else "have"
        lines.append(
            f"{count(n, 'document')} {there} an id that is there already, with another text. "
            "The text that was there is kept; --replace takes the new one."
        )
    return lines


def _nodes_of(n_nodes: int) -> str:
    return f"a tree of {count(n_nodes, 'node')}" if n_nodes else "no tree yet"


def _opened(file: Path) -> Project:
    from leafwise.store import Project

    return Project(file)


# ---- info, check, backup ------------------------------------------------------------------------


@app.command("info")
def project_info(
    file: ProjectFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print it for a program.")] = False,
) -> None:
    """Say what is in a project.

    Example: leafwise project info notes.leafwise
    """
    with _opened(file) as project:
        info = project.info()
    if as_json:
        facts = info._asdict() | {"path": str(info.path)}
        facts["run"] = None if info.run is None else info.run._asdict()
        typer.echo(json.dumps(facts, ensure_ascii=False, default=str))
        return
    rows = _facts(file, info)
    width = max(len(name) for name, _ in rows)
    typer.echo("\n".join(f"{name:<{width}}  {value}" for name, value in rows))


def _facts(file: Path, info: Info) -> list[tuple[str, str]]:
    share = f" ({info.n_labelled / info.n_documents:.0%})" if info.n_documents else ""
    rows = [
        ("project", info.name),
        ("file", f"{file}, {_size(info.bytes)}"),
        ("documents", f"{info.n_documents:,}"),
        ("with a confirmed label", f"{info.n_labelled:,}{share}"),
        ("answers so far", f"{info.n_answers:,}"),
        ("nodes of the tree", f"{info.n_nodes:,}" if info.n_nodes else "none yet"),
        ("labels per document", "several" if info.several else "one"),
        ("language", info.language),
    ]
    if info.run is None:
        rows.append(("model", "none yet; leafwise project fit makes one"))
    else:
        run = info.run
        when = (run.ended or run.at)[:16].replace("T", " ")
        rows.append(("model", f"of {when} UTC, from {count(run.n_labels, 'labelled document')}"))
    return rows


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"


@app.command("check")
def project_check(file: ProjectFile) -> None:
    """Look for damage in a project file.

    Example: leafwise project check notes.leafwise
    """
    with _opened(file) as project:
        problems = project.check()
        n_documents = project.documents.count()
    if problems:
        typer.echo("\n".join(problems))
        say(f"{file}: {count(len(problems), 'problem')}. Go back to a backup, if there is one.")
        raise typer.Exit(BAD_INPUT)
    typer.echo(f"{file}: fine. {count(n_documents, 'document')}.")


@app.command("backup")
def project_backup(
    file: ProjectFile,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The copy.")],
) -> None:
    """Copy a project file, whole, also while it is in use.

    Example: leafwise project backup notes.leafwise notes-monday.leafwise
    """
    check_apart(project=file, out=output)
    check_writable(output)
    with _opened(file) as project:
        project.backup(output)
    say(f"Copied {file} to {output}.")


# ---- export and fit -----------------------------------------------------------------------------


@app.command("export")
def project_export(
    file: ProjectFile,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="OUT", help="- for standard output."),
    ] = None,
    what: Annotated[
        str,
        typer.Option(
            "--what",
            help="all, labels (confirmed ones), predictions (of the others), or history (every "
            "answer).",
        ),
    ] = "all",
    format: Annotated[
        str | None,
        typer.Option(
            "--format", help="csv, tsv, jsonl, parquet, fasttext or annif; else by the name."
        ),
    ] = None,
    tree: Annotated[
        Path | None,
        typer.Option("--tree", metavar="OUT", help="Write the tree: tree.yaml, .csv, .ttl, ..."),
    ] = None,
) -> None:
    """Write labels and predictions to a file, or the tree.

    Example: leafwise project export notes.leafwise -o sorted.csv --what all
    """
    from leafwise.store.exports import export, export_tree

    if output is None and tree is None:
        usage("Name a file: -o sorted.csv for documents, --tree tree.yaml for the tree.")
    if str(tree) == "-":
        usage("--tree -: the tree goes to a file, whose name says the format. Name one: tree.yaml.")
    check_apart(project=file, output=output, tree=tree)
    to: Any = output
    if output == "-":
        to, format = sys.stdout.buffer, format or ("jsonl" if what == "history" else "csv")
    with _opened(file) as project:
        if tree is not None:
            taxonomy = export_tree(project, tree, format if output is None else None)
            say(f"Wrote {count(len(taxonomy) - 1, 'node')} to {tree}.")
        if output is None:
            return
        n = export(project, to, what=what, format=format)
    where = "standard output" if output == "-" else output
    say(f"Wrote {count(n, 'answer' if what == 'history' else 'document')} to {where}.")


@app.command("fit")
def project_fit(file: ProjectFile) -> None:
    """Learn from all labels of a project now, and sort its documents again.

    The page does this by itself while you review.

    Example: leafwise project fit notes.leafwise
    """
    from leafwise.review.refitting import refit

    with _opened(file) as project, steps() as show:
        try:
            run = refit(project, lambda step, share: show(step, round(100 * share), 100))
        except KeyboardInterrupt:
            if (begun := project.runs.of_process(os.getpid())) is not None:
                project.runs.stop(begun.id)
            say("Interrupted. The model and all labels are as they were.")
            raise typer.Exit(INTERRUPTED) from None
    if run.state != "done":
        raise LeafwiseError(" ".join(run.report))
    say(*run.report)
    say(f"Sorted {count(run.n_documents - run.n_labels, 'document')} without a label.")
