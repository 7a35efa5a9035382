"""Imports point one way, and importing leafwise loads nothing that is not asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import leafwise

PACKAGE = Path(leafwise.__file__).parent

# Lower layers first; a module may import only from its own layer and from those before it.
LAYERS = [
    {"_version", "exceptions"},
    {"atomic", "threads"},
    {
        "taxonomy",
        "taxonomy_building",
        "taxonomy_changes",
        "taxonomy_drawing",
        "taxonomy_formats",
        "taxonomy_names",
        "taxonomy_nested",
        "taxonomy_skos",
    },
    {
        "corpus",
        "corpus_columns",
        "corpus_formats",
        "corpus_resuming",
        "corpus_text",
        "corpus_writer",
    },
    {"partitions"},
    {"_words", "_texts", "_forms", "_compounds", "text", "labels", "explain"},
    {"keywords"},
    {"selection"},
    {"models"},
    {"metrics", "reject", "indicators", "datasets", "synthetic", "stdlib_tree"},
    {"multilabel", "evaluation", "plots", "fisher", "model_evidence", "model_selection"},
    {"persistence"},
    {"store"},
    {"papers"},
    {"streams", "stream_blocks", "stream_memory", "stream_needs", "stream_sample"},
    {"demo", "filling", "growing"},
    {"distributed", "_cluster", "_workers"},
    {"review"},
    {"web"},
    {"cli", "__main__"},
]
# `model.save(...)` is a convenience that reaches up, when it is called.
ALLOWED = {
    ("models", "persistence"),
    ("multilabel", "persistence"),
    ("text", "persistence"),
    ("persistence", "leafwise"),
}


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else "leafwise"


def imports(path: Path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "leafwise":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("leafwise."):
            yield room(str(node.module))
        elif isinstance(node, ast.Import):
            yield from (room(a.name) for a in node.names if a.name.startswith("leafwise"))


@pytest.mark.parametrize(
    "path",
    [p for p in sorted(PACKAGE.rglob("*.py")) if p.name != "__init__.py"],
    ids=lambda p: str(p.relative_to(PACKAGE)),
)
def test_imports_point_down(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    level = {name: i for i, names in enumerate(LAYERS) for name in names}
    assert own in level, f"{own} has no layer: give it one in this test"
    for other in imports(path):
        if other == "leafwise":
            assert (own, "leafwise") in ALLOWED or level[own] >= level["persistence"]
        elif (own, other) not in ALLOWED:
            assert level[other] <= level[own], f"{own} must not import {other}"


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{m.split('.')[0] for m in sys.modules}})"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


def test_importing_leafwise_is_light():
    heavy = {"numpy", "scipy", "sklearn", "numba", "pyarrow", "pandas", "rdflib", "matplotlib"}
    assert not heavy & loaded_by("import leafwise")
    assert not heavy & loaded_by("import leafwise.cli")


def test_no_extra_is_loaded_without_need():
    extras = {"rdflib", "matplotlib", "fastapi", "dask"}
    names = ", ".join(f"leafwise.{name}" for name in leafwise.__all__)
    assert not extras & loaded_by(f"import leafwise; {names}")


def test_every_public_name_is_there():
    for name in leafwise.__all__:
        assert getattr(leafwise, name) is not None
    assert set(leafwise.__all__) <= set(dir(leafwise))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = leafwise.Nothing
