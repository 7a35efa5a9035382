"""What the documentation says is run, and what the commands are is documented."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)


def environment() -> dict[str, str]:
    """The commands of this Python first, so that `leafwise` is the one under test."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_python_blocks_run(page, tmp_path, request):
    code = "\n".join(blocks(page, "python"))
    variables = environment()
    if re.search("load_(20newsgroups|reuters|directory)", code):
        variables["LEAFWISE_DATA"] = str(request.getfixturevalue("data_dir"))
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_shell_blocks_run(page, tmp_path):
    for block in blocks(page, "bash"):
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=tmp_path, env=environment(), capture_output=True, text=True,
        )  # fmt: skip
        assert result.returncode == 0, block + result.stderr


def test_the_readme_examples_do_what_it_says(tmp_path):
    code = blocks(ROOT / "README.md", "python")[0]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "['sports/hockey']" in result.stdout
    assert "goalie +" in result.stdout
    shell = next(b for b in blocks(ROOT / "README.md", "bash") if "classify" in b)
    subprocess.run(
        ["bash", "-euc", shell], cwd=tmp_path, env=environment(), capture_output=True, check=True
    )
    rows = (tmp_path / "sorted.csv").read_text().splitlines()
    assert rows[0].startswith("text,label,probability,label_2")
    assert rows[1].startswith("The puck hit the goalie,sports/hockey,0.")
    assert rows[2].startswith("A long inning,sports/baseball,0.")
    assert rows[3].startswith("He skated,sports/hockey,1")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "ARCHITECTURE.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_command_is_documented():
    import typer

    from leafwise.cli import app

    page = (ROOT / "docs" / "cli.md").read_text()

    def names(group, prefix=""):
        for name, command in group.commands.items():
            if hasattr(command, "commands"):
                yield from names(command, f"{prefix}{name} ")
            else:
                yield prefix + name, command

    for name, command in names(typer.main.get_command(app)):
        assert f"leafwise {name}" in page, f"docs/cli.md does not show leafwise {name}"
        assert command.help, f"leafwise {name} has no help"


def test_the_citation_has_the_five_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert len(citation["references"]) == 5
    from leafwise import __version__

    assert citation["version"] == __version__


def test_no_long_file_without_an_answer():
    """A file past 500 lines is a question to answer: the answers are in ARCHITECTURE.md."""
    architecture = (ROOT / "ARCHITECTURE.md").read_text()
    for path in (ROOT / "leafwise").rglob("*.py"):
        if len(path.read_text().splitlines()) > 500:
            assert f"`{path.name}` is long" in architecture, f"{path.name} is past 500 lines"
