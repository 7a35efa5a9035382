"""leafwise reproduce and leafwise demo: what leafwise does, on documents that are at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from leafwise.cli.opening import check_ending, read_sizes
from leafwise.cli.talking import say, steps, usage
from leafwise.exceptions import LeafwiseError


def demo(
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE.svg", help="Keep what is shown.")
    ] = None,
) -> None:
    """Sort Python's own documentation into the sections of its library reference.

    No label is used: only the words in the names of sections and modules.
    """
    if picture is not None:
        check_ending(picture, ".svg")  # now, rather than after the work
    from leafwise.demo import show

    show(picture)


class Reproduce(TyperCommand):
    """Lists the experiments below the options."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        from leafwise.papers import EXPERIMENTS

        with formatter.section("Experiments"):
            formatter.write_dl([(name, one.summary) for name, one in EXPERIMENTS.items()])


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
        usage(str(error))
    wanted = read_sizes(sizes)
    if wanted is not None and not experiment.sized:
        usage(f"{name} is measured once, on all training documents: it has no --sizes.")
    if draws is not None and not experiment.drawn:
        say(f"{name} draws no documents at random: --draws changes nothing.")
    _check_corpora(data, experiment.files)
    papers.check_folder(out, name)  # now, rather than after the work
    with steps() as on_progress:
        result = experiment.run(data, 10 if draws is None else draws, wanted, on_progress)
    paths = result.write(out)
    say(f"Wrote {', '.join(path.name for path in paths)} to {out}.")


def _check_corpora(data: Path | None, files: tuple[str, ...]) -> None:
    if data is None:
        usage("Name the folder of the corpora: --data DIR, or LEAFWISE_DATA in the environment.")
    for file in files:
        if not (data / file).is_file():
            raise LeafwiseError(f"{file} is not in {data}. --data names the folder that has it.")
