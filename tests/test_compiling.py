"""What is compiled ahead is what the first run needs."""

import os
import subprocess
import sys
from pathlib import Path


def test_the_first_run_compiles_nothing_after_compile(tmp_path):
    compiled = tmp_path / "compiled"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(compiled)}

    def leafwise(*arguments) -> str:
        command = [sys.executable, "-m", "leafwise", *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stderr

    def kept() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in compiled.rglob("*.nb?")}

    said = leafwise("compile").splitlines()
    assert said[0] == "Compiling what sorting by keywords needs: 1 of 4."
    assert len(said) == 4
    before = kept()
    assert len(before) > 40

    words = ["puck goalie ice", "pitcher inning base", "orbit launch moon"]
    rows = [(f"{words[i % 3]} {words[(i * 7) % 3]} word{i} œuvre", i % 3) for i in range(150)]
    names = "sports/hockey", "sports/baseball", "space"
    notes, tree = tmp_path / "notes.csv", tmp_path / "tree.yaml"
    tree.write_text("sports:\n  hockey: [puck]\n  baseball: [pitcher]\nspace: [orbit]\n")
    notes.write_text("text\n" + "".join(f"{text}\n" for text, _ in rows[:5]), encoding="utf-8")
    leafwise("classify", notes, "-t", tree, "-o", tmp_path / "few.csv")
    assert kept() == before

    labelled = (f"{text},{names[c] if i < 80 else ''}\n" for i, (text, c) in enumerate(rows))
    notes.write_text("text,label\n" + "".join(labelled), encoding="utf-8")
    leafwise("classify", notes, "-t", tree, "-o", tmp_path / "many.csv")
    leafwise("grow", notes, "--leaves", 3, "-o", tmp_path / "grown.yaml")
    assert kept() == before
