"""The options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
