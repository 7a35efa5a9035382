"""What is compiled ahead, by a wheel or by `leafwise compile`, is what the first run needs."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILT_FROM = "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "building", "leafwise"


def build(folder: Path, **environment: str) -> tuple[Path, str]:
    """Build a wheel as pip does, of a copy; return it, and what pip said."""
    source = folder / "source"
    source.mkdir()
    for name in BUILT_FROM:
        one = ROOT / name
        if one.is_file():
            shutil.copy(one, source)
        else:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(one, source / name, ignore=ignored)
    # Without isolation, since that would need the network.
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps"]
    command += ["--no-index", "--verbose", "--wheel-dir", str(folder), str(source)]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel, done.stdout + done.stderr


def of_numba(wheel: Path) -> list[str]:
    return [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".nbi", ".nbc"))]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """What pip unpacks from a wheel."""
    folder = tmp_path_factory.mktemp("built")
    wheel, said = build(folder)
    assert "Compiling what growing a tree needs: 4 of 4." in said
    assert len(of_numba(wheel)) > 40
    assert not wheel.name.endswith("-any.whl")
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder / "installed")
    return folder / "installed"


@pytest.fixture
def leafwise(installed):
    """Run it as it was installed, whatever else is on the path."""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    environment.pop("NUMBA_CACHE_DIR", None)

    def run(*arguments) -> str:
        command = [sys.executable, "-m", "leafwise", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=installed, env=environment, capture_output=True, text=True, check=True
        )
        return done.stderr

    return run


def kept(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}


def test_the_first_run_after_an_install_compiles_nothing(installed, leafwise, tmp_path):
    before = kept(installed)
    words = ["puck goalie ice", "pitcher inning base", "orbit launch moon"]
    rows = [(f"{words[i % 3]} {words[(i * 7) % 3]} word{i} œuvre", i % 3) for i in range(150)]
    names = "sports/hockey", "sports/baseball", "space"
    notes, tree = tmp_path / "notes.csv", tmp_path / "tree.yaml"
    tree.write_text("sports:\n  hockey: [puck]\n  baseball: [pitcher]\nspace: [orbit]\n")
    notes.write_text("text\n" + "".join(f"{text}\n" for text, _ in rows[:5]), encoding="utf-8")
    leafwise("classify", notes, "-t", tree, "-o", tmp_path / "few.csv")
    assert kept(installed) == before

    labelled = (f"{text},{names[c] if i < 80 else ''}\n" for i, (text, c) in enumerate(rows))
    notes.write_text("text,label\n" + "".join(labelled), encoding="utf-8")
    leafwise("classify", notes, "-t", tree, "-o", tmp_path / "many.csv")
    leafwise("grow", notes, "--leaves", 3, "-o", tmp_path / "grown.yaml")
    assert kept(installed) == before


def test_compile_does_what_is_missing(installed, leafwise):
    before = kept(installed)
    said = leafwise("compile").splitlines()
    assert said[0] == "Compiling what sorting by keywords needs: 1 of 4."
    assert len(said) == 4
    assert kept(installed) == before
    missing = next(path for path in before if path.name.startswith("_words.count_rows"))
    missing.unlink()
    leafwise("compile")
    assert kept(installed).keys() == before.keys()


def test_a_wheel_is_built_also_where_nothing_can_be_compiled(tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "numba.py").write_text("raise ImportError('No module named numba')\n")
    wheel, said = build(tmp_path, PYTHONPATH=str(broken))
    assert "the first run of leafwise will do it" in said
    assert of_numba(wheel) == []
    assert "leafwise/text.py" in zipfile.ZipFile(wheel).namelist()
