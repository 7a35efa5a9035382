"""The command line. Errors leave here as sentences and exit codes, never as tracebacks."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from leafwise._version import __version__
from leafwise.atomic import OUTPUT_ERRORS, check_writable, replacing
from leafwise.exceptions import LeafwiseError, OutputError, TaxonomyError

if TYPE_CHECKING:
    from leafwise.corpus import Corpus
    from leafwise.growing import Growth
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier
    from leafwise.taxonomy import Taxonomy

OK, BAD_INPUT, USAGE, BAD_OUTPUT, BUG, INTERRUPTED, TERMINATED = 0, 1, 2, 3, 70, 130, 143


class _Interrupt(KeyboardInterrupt):
    """A KeyboardInterrupt of our own type.

    Where a plain one leaves an ``exec`` of source text (numba and dataclasses make functions that
    way), Python remembers it and kills the process with SIGINT at the end, whoever caught it.
    """


def _interrupt(*_: Any) -> NoReturn:
    raise _Interrupt


class _Group(TyperGroup):
    """Takes what typer would end without a word, or with another exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _say("Interrupted. No half-written file is left.")
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever read our output has had enough
            _silence(sys.stdout)
            raise typer.Exit(OK) from None


class _Reproduce(TyperCommand):
    """Lists the experiments below the options."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from leafwise.papers import EXPERIMENTS

        with formatter.section("Experiments"):
            formatter.write_dl([(name, one.summary) for name, one in EXPERIMENTS.items()])


app = typer.Typer(
    name="leafwise",
    cls=_Group,
    help="Put documents where they belong in a tree of topics: with no labels, a few, or many.",
    epilog="Exit codes: 0 done, 1 the input cannot be used, 2 wrong usage, 3 the output cannot be "
    "written, 70 a bug in leafwise, 130 interrupted, 143 ended from outside.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
taxonomy_app = typer.Typer(
    help="Look at a tree, check it, or convert it.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(taxonomy_app, name="taxonomy")

Docs = Annotated[
    str,
    typer.Argument(
        metavar="DOCS",
        help="CSV, TSV, JSONL, Parquet, fastText or text file (.gz too), a folder of one folder "
        "per node, or - for standard input.",
    ),
]
TreeFile = Annotated[
    Path | None,
    typer.Option(
        "--taxonomy", "-t",
        metavar="TREE",
        help="The tree: YAML, JSON, CSV, TSV, SKOS (.ttl, .rdf), a folder, or WeSHClass files.",
    ),
]  # fmt: skip
ModelFile = Annotated[
    Path | None, typer.Option("--model", "-m", metavar="FILE", help="Use this saved model.")
]
TextColumn = Annotated[
    str | None,
    typer.Option("--text", help="Column of the text; several joined by +: title+description."),
]
LabelColumn = Annotated[str | None, typer.Option("--label", help="Column of the label.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column of the id.")]
DocsFormat = Annotated[
    str | None,
    typer.Option(
        "--format", help="csv, tsv, jsonl, parquet, fasttext, text or folder; else by the name."
    ),
]
Encoding = Annotated[str, typer.Option("--encoding", help="Encoding of text files.")]
Language = Annotated[
    str,
    typer.Option(
        "--language", "-l",
        help="Of the texts, for stems (english, german, french, ...): else Tomate and Tomaten are "
        'two words. "none" takes words as they are.',
    ),
]  # fmt: skip
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Go on after bad rows, and list them in a file.")
]
BadRows = Annotated[
    Path | None,
    typer.Option("--bad-rows", metavar="FILE", help="Where --skip-bad lists them: bad-rows.csv."),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"leafwise {__version__}")
        raise typer.Exit


@app.callback()
def _leafwise(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.svg", help="Keep what is shown.")
    ] = None,
) -> None:
    """Sort Python's own documentation into the sections of its library reference.

    No label is used: only the words in the names of sections and modules.
    """
    from leafwise.demo import show

    show(picture)


@app.command()
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

    Example: leafwise classify --taxonomy tree.yaml docs.csv -o sorted.csv
    """
    from leafwise.corpus import open_writer
    from leafwise.filling import by_model

    if taxonomy is not None and model is not None:
        _usage("Give --taxonomy or --model, not both: a model brings its own tree.")
    if model is not None and save_model is not None:
        _usage("--save-model keeps a model that is made here; with --model there is none.")
    files = {"output": output, "save_model": save_model, "bad_rows": _listing(skip_bad, bad_rows)}
    _check_apart(docs=docs, taxonomy=taxonomy, model=model, **files)
    if save_model is not None:
        check_writable(save_model)  # now, rather than after the work
    ready = _load_model(model) if model else None
    tree = ready.taxonomy_ if ready else _load_taxonomy(taxonomy)
    _check_language(language)
    options = {"text": text, "label": label, "id": id, "format": format, "encoding": encoding}
    corpus = _open_corpus(docs, tree, skip_bad, bad_rows, **options)
    columns = _columns(corpus, label)
    with open_writer(output, corpus, columns) as writer:
        if ready is None:
            ready = _learn(corpus, tree, language)
            _say(*ready.report_)
            if save_model is not None:
                ready.save(save_model)
        with _progress("Classifying", corpus):
            for batch in corpus.batches():
                rows = by_model(ready, corpus, batch)
                writer.write(batch, dict(zip(columns, map(list, zip(*rows)))))
    _say_bad(corpus)
    where = "standard output" if output == "-" else output
    _say(f"Wrote {_count(corpus.n_documents or 0, 'document')} to {where}.")


@app.command()
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
        _usage("--under names a node of the tree that --taxonomy names. Give both, or neither.")
    files = {"out": out, "assign": assign, "picture": picture}
    _check_apart(docs=docs, taxonomy=taxonomy, **files, bad_rows=_listing(skip_bad, bad_rows))
    if out is not None:
        _check_tree_file(out)  # now, rather than after the work
    if picture is not None:
        _check_picture(picture)
    _check_language(language)
    tree = _load_taxonomy(taxonomy)
    node = 0 if tree is None else tree.index(under)
    options = {"text": text, "label": label, "id": id, "format": format, "encoding": encoding}
    corpus = _open_corpus(docs, tree, skip_bad, bad_rows, **options)
    columns = _columns(corpus, label)

    from leafwise import growing
    from leafwise.corpus import open_writer

    with nullcontext() if assign is None else open_writer(assign, corpus, columns) as writer:
        at = None if tree is None else _at_node(corpus, tree, node, language)
        with _progress("Reading", corpus):
            words = growing.count_words(_texts(corpus, at), language)
        n_words, n_documents = len(words.words), words.n_documents
        _say(
            f"Counted {_count(n_words, 'different word')} in {_count(n_documents, 'document')}, "
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
        _say(drawing)
    else:
        typer.echo(drawing)
    _say_bad(corpus)
    _say(*_said_of(grown, n_leaves))
    if out is not None:
        _say(f"Wrote {_count(len(whole) - 1, 'node')} to {out}.")
    else:
        _say("The tree is not kept: -o tree.yaml writes it.")
    if picture is not None:
        _say(f"Drew it to {picture}.")
    if assign is not None:
        where = "standard output" if assign == "-" else assign
        _say(f"Wrote {_count(corpus.n_documents or 0, 'document')} to {where}.")


@app.command()
def evaluate(
    docs: Docs,
    taxonomy: TreeFile = None,
    model: ModelFile = None,
    hide: Annotated[
        float, typer.Option("--hide", help="Share of the labels to hide and then predict.")
    ] = 0.2,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which labels are hidden.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    text: TextColumn = None,
    label: LabelColumn = None,
    id: IdColumn = None,
    format: DocsFormat = None,
    encoding: Encoding = "utf-8",
    language: Language = "english",
    skip_bad: SkipBad = False,
    bad_rows: BadRows = None,
) -> None:
    """Say how good the sorting is, on documents whose labels are known.

    With --model, that model is put to the test on all labels of DOCS. Without, a share of the
    labels is hidden, a model learns from the rest, and the hidden ones are predicted.

    Example: leafwise evaluate --taxonomy tree.yaml docs.csv
    """
    import numpy as np

    if taxonomy is not None and model is not None:
        _usage("Give --taxonomy or --model, not both: a model brings its own tree.")
    listing = _listing(skip_bad, bad_rows)
    _check_apart(docs=docs, taxonomy=taxonomy, model=model, bad_rows=listing)
    if not 0 < hide <= 1:
        _usage(f"--hide {hide}: expected a share above 0 and at most 1.")
    ready = _load_model(model) if model else None
    tree = ready.taxonomy_ if ready else _load_taxonomy(taxonomy)
    _check_language(language)
    options = {"text": text, "label": label, "id": id, "format": format, "encoding": encoding}
    corpus = _open_corpus(docs, tree, skip_bad, bad_rows, **options)
    with _progress("Reading", corpus):
        batch = corpus.read()
    labelled = np.array([i for i, labels in enumerate(batch.labels) if labels])
    if not len(labelled):
        raise LeafwiseError(f"No row of {corpus.name} has a label, so there is nothing to check.")
    if ready is None:
        chosen = np.random.default_rng(seed).permutation(labelled)
        tested = np.sort(chosen[: max(1, round(hide * len(labelled)))])
        known: list = list(batch.labels)
        for i in tested:
            known[i] = ()
        ready = _fit(tree or _tree_of_labels(corpus), batch.texts, known, language)
    else:
        tested = labelled
    figures = _figures(ready, [batch.texts[i] for i in tested], [batch.labels[i] for i in tested])
    _say_bad(corpus)
    if as_json:
        import json

        typer.echo(json.dumps(figures, indent=2))
        return
    width = max(map(len, figures))
    for name, value in figures.items():
        shown = f"{value:,}" if isinstance(value, int) else f"{value:.3f}"
        typer.echo(f"{name.replace('_', ' '):{width}}  {shown}")


@app.command(cls=_Reproduce)
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="One of those listed below.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the results go; made if need be.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", metavar="DIR", envvar="LEAFWISE_DATA", help="The folder of the corpora."
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option("--draws", min=1, help="How often training documents are drawn: 10."),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes",
            help="Documents per class, such as 7,20,67 (for V's tables, values of σ); else the "
            "paper's.",
        ),
    ] = None,
) -> None:
    """Measure a table or figure of the papers again, beside what was published.

    Writes NAME.json, NAME.md and, for what is a figure in the paper, NAME.png.

    Example: leafwise reproduce toutanova-table-3 --data corpora --out results --draws 3
    """
    from leafwise import papers

    try:
        experiment = papers.find(name)
    except ValueError as error:
        _usage(str(error))
    wanted = _sizes(sizes)
    if wanted is not None and not experiment.sized:
        _usage(f"{name} is measured once, on all training documents: it has no --sizes.")
    if draws is not None and not experiment.drawn:
        _say(f"{name} draws no documents at random: --draws changes nothing.")
    _check_corpora(data, experiment.files)
    papers.check_folder(out, name)  # now, rather than after the work
    with _steps() as on_progress:
        result = experiment.run(data, 10 if draws is None else draws, wanted, on_progress)
    paths = result.write(out)
    _say(f"Wrote {', '.join(path.name for path in paths)} to {out}.")


@taxonomy_app.command("show")
def taxonomy_show(
    tree: Annotated[Path, typer.Argument(metavar="TREE")],
    whole: Annotated[bool, typer.Option("--all", help="Draw every node of a large tree.")] = False,
    language: Annotated[str, typer.Option(help="Language of SKOS labels.")] = "en",
) -> None:
    """Draw a tree."""
    loaded = _load_taxonomy(tree, language)
    assert loaded is not None
    from leafwise.taxonomy_drawing import draw

    typer.echo(draw(loaded, limit=None) if whole else str(loaded))


@taxonomy_app.command("check")
def taxonomy_check(
    tree: Annotated[Path, typer.Argument(metavar="TREE")],
    language: Annotated[str, typer.Option(help="Language of SKOS labels.")] = "en",
) -> None:
    """Read a tree and say what is in it, or what is wrong with it."""
    from leafwise.taxonomy import own_keywords

    loaded = _load_taxonomy(tree, language)
    assert loaded is not None
    n_own = sum(own_keywords(loaded, i) is not None for i in range(1, len(loaded)))
    typer.echo(
        f"{tree}: fine. {_count(len(loaded) - 1, 'node')} below the root, on "
        f"{_count(int(loaded.depth.max()), 'level')}; {_count(len(loaded.leaves), 'leaf node')}; "
        f"{_count(n_own, 'node')} with keywords of their own."
    )


@taxonomy_app.command("convert")
def taxonomy_convert(
    tree: Annotated[Path, typer.Argument(metavar="TREE")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Its name gives the format.")],
    format: Annotated[
        str | None, typer.Option("--format", help="Format of OUT, where its name does not say.")
    ] = None,
    language: Annotated[str, typer.Option(help="Language of SKOS labels.")] = "en",
) -> None:
    """Write a tree in another format."""
    loaded = _load_taxonomy(tree, language)
    assert loaded is not None
    loaded.save(output, format=format)
    _say(f"Wrote {_count(len(loaded) - 1, 'node')} to {output}.")


# ---- the steps ------------------------------------------------------------------------------


def _load_taxonomy(path: Path | None, language: str = "en") -> Taxonomy | None:
    if path is None:
        return None
    from leafwise.taxonomy import Taxonomy

    tree = Taxonomy.load(path, language=language)
    _say(*tree.notes)
    return tree


def _load_model(path: Path) -> TaxonomyClassifier:
    import leafwise

    model = leafwise.load(path)
    if not isinstance(model, leafwise.TaxonomyClassifier):
        raise LeafwiseError(
            f"{path} holds a {type(model).__name__}, which cannot classify texts by itself. Give "
            "a TaxonomyClassifier: classify --save-model keeps one."
        )
    return model


def _open_corpus(
    docs: str, tree: Taxonomy | None, skip_bad: bool, bad_rows: Path | None, **options: Any
) -> Corpus:
    from leafwise.corpus import Corpus

    if bad_rows is not None and not skip_bad:
        _usage("--bad-rows lists what --skip-bad leaves out. Give both, or neither.")
    listing = _listing(skip_bad, bad_rows)
    return Corpus(docs, taxonomy=tree, skip_bad=skip_bad, bad_rows=listing, **options)


def _listing(skip_bad: bool, bad_rows: Path | None) -> Path | None:
    return (bad_rows or Path("bad-rows.csv")) if skip_bad else None


def _check_corpora(data: Path | None, files: tuple[str, ...]) -> None:
    if data is None:
        _usage("Name the folder of the corpora: --data DIR, or LEAFWISE_DATA in the environment.")
    for file in files:
        if not (data / file).is_file():
            raise LeafwiseError(f"{file} is not in {data}. --data names the folder that has it.")


def _sizes(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    sizes = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if len(sizes) < len(parts) or len(set(sizes)) < len(sizes) or 0 in sizes:
        _usage(
            f"--sizes {text}: expected whole numbers from 1 on, each once, with commas between "
            "them, such as 7,20,67."
        )
    return sizes


def _leaves(text: str) -> int | str:
    if text == "auto":
        return text
    if not (text.isascii() and text.isdigit() and int(text) >= 2):
        _usage(f"--leaves {text}: expected a whole number from 2 on, or auto.")
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


def _check_picture(path: Path) -> None:
    check_writable(path)
    if path.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise OutputError(f"Cannot draw {path}: name a file that ends in .png, .svg or .pdf.")
    if find_spec("matplotlib") is None:
        raise OutputError(
            f'Cannot draw {path}: that needs matplotlib. pip install "leafwise[plot]"'
        )


def _check_language(language: str) -> None:
    import Stemmer

    known = sorted({"none", *Stemmer.algorithms()})
    if language not in known:
        _usage(f"--language {language}: expected one of {', '.join(known)}.")


_IN_PLACE = {("DOCS", "--output"), ("DOCS", "--assign"), ("--taxonomy", "--out")}


def _check_apart(**files: Any) -> None:
    """Refuse to write one file over another that is read or written in the same run."""
    seen: dict[str, str] = {}
    for name, path in files.items():
        if path is None or str(path) == "-":
            continue
        option = f"--{name.replace('_', '-')}" if name != "docs" else "DOCS"
        other = seen.setdefault(os.path.realpath(path), option)
        # These may take the place of what is read: they are written whole, and after that.
        if other != option and (other, option) not in _IN_PLACE:
            _usage(f"{other} and {option} are the same file, {path}. Name another.")


def _tree_of_labels(corpus: Corpus) -> Taxonomy:
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


def _learn(
    corpus: Corpus, tree: Taxonomy | None, language: str, nodes: Any = "auto"
) -> TaxonomyClassifier:
    if tree is None:
        tree = _tree_of_labels(corpus)
    labels: list[tuple[str, ...]] = []

    def texts() -> Iterator[str]:
        for batch in corpus.batches():
            labels.extend(batch.labels)
            yield from batch.texts

    with _progress("Learning", corpus):
        return _fit(tree, texts(), labels, language, nodes)


def _fit(
    tree: Taxonomy, texts: Any, labels: Any, language: str, nodes: Any = "auto"
) -> TaxonomyClassifier:
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier
    from leafwise.text import WordCounter

    stop_words = "english" if language == "english" else None
    stemmer = None if language == "none" else language
    counter = WordCounter(stop_words=stop_words, stemmer=stemmer, compounds=True)
    try:
        return TaxonomyClassifier(tree, counter=counter, nodes=nodes).fit(texts, labels)
    except LeafwiseError:
        raise
    except ValueError as error:  # nothing to learn from: the user's data, not a bug
        raise LeafwiseError(str(error)) from error


class _AtNode(NamedTuple):
    """The documents of a node, how their labels name it, and the model that put them there."""

    documents: list[int]
    labels: set[str]
    model: TaxonomyClassifier | None


def _at_node(corpus: Corpus, tree: Taxonomy, node: int, language: str) -> _AtNode:
    """Find the documents of a node: by their labels or, where no row has one, by a model."""
    with _progress("Reading", corpus):
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
        model = _learn(corpus, tree, language, nodes)
        _say(*model.report_)
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
    with _progress("Writing", corpus):
        for batch in corpus.batches():
            n = len(batch.texts)
            if at is None:
                rows = [filling.nothing() for _ in range(n)]
            elif at.model is None:
                rows = filling.as_given(corpus, batch)
            else:
                rows = filling.by_model(at.model, corpus, batch)
            lists = at is not None and filling.holds_lists(corpus, batch)
            leaves = [best.get(i, []) for i in range(done, done + n)]
            filling.by_leaves(rows, batch, leaves, set() if at is None else at.labels, lists)
            writer.write(batch, dict(zip(columns, map(list, zip(*rows)))))
            done += n


def _columns(corpus: Corpus, label: str | None) -> list[str]:
    from leafwise.filling import ADDED

    return [corpus.label_column or label or "label", *ADDED]


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
            f"{_count(n_without, 'document')} without a word that others have too: no leaf there."
        )
    return said


def _figures(model: TaxonomyClassifier, texts: list[str], truth: list) -> dict[str, int | float]:
    import numpy as np

    from leafwise import metrics

    tree = model.taxonomy_
    proba = model.predict_proba(texts)
    predicted = model.classes_[proba.argmax(axis=1)]
    paths = [tuple(tree.paths[i] for i in tree.indices(labels)) for labels in truth]
    hits = [path in labels for path, labels in zip(predicted, paths)]
    figures: dict[str, int | float] = {"documents": len(texts), "accuracy": float(np.mean(hits))}
    if all(len(labels) == 1 for labels in paths):
        y = [labels[0] for labels in paths]
        flat = metrics.scores(y, predicted)
        figures["macro_f1"] = flat["macro_f1"]
        figures |= metrics.hierarchical_scores(y, predicted, tree)
        inside = np.isin(y, model.classes_)
        if inside.any():
            figures["expected_calibration_error"] = metrics.expected_calibration_error(
                np.array(y)[inside], proba[inside], model.classes_
            )
    else:
        flat = metrics.scores(paths, [(path,) for path in predicted])
        figures |= {name: flat[name] for name in ("micro_f1", "macro_f1")}
    return {name: v if isinstance(v, int) else float(v) for name, v in figures.items()}


# ---- talking to the user --------------------------------------------------------------------


def _say(*lines: str) -> None:
    for line in lines:
        try:
            typer.echo(line, err=True)
        except OSError:  # nobody listens, or a log is full; the work goes on
            _silence(sys.stderr)


def _silence(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _say_bad(corpus: Corpus) -> None:
    if corpus.n_bad:
        _say(f"Left out {_count(corpus.n_bad, 'bad row')}; {corpus.bad_rows} says why.")


def _usage(message: str) -> NoReturn:
    _say(f"Error: {message}")
    raise typer.Exit(USAGE)


@contextmanager
def _progress(what: str, corpus: Corpus) -> Iterator[None]:
    """Show how far reading has come, on a terminal, while the block runs."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        corpus.on_progress = lambda done, total: bar.update(task, completed=done, total=total)
        try:
            yield
        finally:
            corpus.on_progress = None


@contextmanager
def _steps() -> Iterator[Callable[[str, int, int], None]]:
    """Show how far an experiment has come: a bar on a terminal, else a line for each new step."""
    if not sys.stderr.isatty():
        said = ""

        def say(what: str, done: int, total: int) -> None:
            nonlocal said
            if what != said:
                _say(f"{what} ...")
            said = what

        yield say
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield show


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every exception ends as a sentence and an exit code."""
    # Ended from outside: as an exception, so that half-written files are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is to be ignored
        signal.signal(signal.SIGINT, _interrupt)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *where: _say(f"Warning: {message}")
        code = _run(lambda: app(args=arguments, prog_name="leafwise"))
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # known by now; else Python tries once more, and ends with a code of its own
        _silence(sys.stdout)
    sys.exit(code)


def _run(command: Callable[[], Any]) -> int:
    try:
        command()
    except SystemExit as stop:  # typer's own end: done, or wrong usage
        return stop.code if isinstance(stop.code, int) else OK
    except OutputError as error:
        _say(f"Error: {error}")
        return BAD_OUTPUT
    except LeafwiseError as error:
        _say(f"Error: {error}")
        return BAD_INPUT
    except MemoryError:
        _say("Error: there is not enough memory. Try fewer or shorter documents at a time.")
        return BAD_INPUT
    except OSError as error:  # of the machine: a full disk, a drive that is gone
        if error.filename is None and error.errno in OUTPUT_ERRORS:  # files say which they are
            _say(f"Error: Cannot write standard output: {error.strerror}.")
            return BAD_OUTPUT
        _say(f"Error: {error}.")
        return BAD_INPUT
    except Exception as error:
        if os.environ.get("LEAFWISE_DEBUG"):
            raise
        _say(
            f"Error: {type(error).__name__}: {error}",
            "This is a bug in leafwise. LEAFWISE_DEBUG=1 shows where it happened.",
        )
        return BUG
    return OK


if __name__ == "__main__":
    main()
