"""leafwise taxonomy: a tree is shown, checked, converted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from leafwise.cli.opening import load_taxonomy
from leafwise.cli.talking import count, say

app = typer.Typer(
    help="Look at a tree, check it, or convert it.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("show")
def taxonomy_show(
    tree: Annotated[Path, typer.Argument(metavar="TREE")],
    whole: Annotated[bool, typer.Option("--all", help="Draw every node of a large tree.")] = False,
    language: Annotated[str, typer.Option(help="Language of SKOS labels.")] = "en",
) -> None:
    """Draw a tree."""
    loaded = load_taxonomy(tree, language)
    assert loaded is not None
    from leafwise.taxonomy_drawing import draw

    typer.echo(draw(loaded, limit=None) if whole else str(loaded))


@app.command("check")
def taxonomy_check(
    tree: Annotated[Path, typer.Argument(metavar="TREE")],
    language: Annotated[str, typer.Option(help="Language of SKOS labels.")] = "en",
) -> None:
    """Read a tree and say what is in it, or what is wrong with it."""
    from leafwise.taxonomy import own_keywords

    loaded = load_taxonomy(tree, language)
    assert loaded is not None
    n_own = sum(own_keywords(loaded, i) is not None for i in range(1, len(loaded)))
    typer.echo(
        f"{tree}: fine. {count(len(loaded) - 1, 'node')} below the root, on "
        f"{count(int(loaded.depth.max()), 'level')}; {count(len(loaded.leaves), 'leaf node')}; "
        f"{count(n_own, 'node')} with keywords of their own."
    )


@app.command("convert")
def taxonomy_convert(
    tree: Annotated[Path, typer.Argument(metavar="TREE")],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Its name gives the format.")],
    format: Annotated[
        str | None, typer.Option("--format", help="Format of OUT, where its name does not say.")
    ] = None,
    language: Annotated[str, typer.Option(help="Language of SKOS labels.")] = "en",
) -> None:
    """Write a tree in another format."""
    loaded = load_taxonomy(tree, language)
    assert loaded is not None
    loaded.save(output, format=format)
    say(f"Wrote {count(len(loaded) - 1, 'node')} to {output}.")
