"""What is opened and checked before the work begins."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leafwise.atomic import check_writable
from leafwise.cli.talking import say, usage
from leafwise.exceptions import LeafwiseError, OutputError

if TYPE_CHECKING:
    from leafwise.corpus import Corpus
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier
    from leafwise.taxonomy import Taxonomy


def load_taxonomy(path: Path | None, language: str = "en") -> Taxonomy | None:
    if path is None:
        return None
    from leafwise.taxonomy import Taxonomy

    tree = Taxonomy.load(path, language=language)
    say(*tree.notes)
    return tree


def load_model(path: Path) -> TaxonomyClassifier:
    import leafwise

    model = leafwise.load(path)
    if not isinstance(model, leafwise.TaxonomyClassifier):
        raise LeafwiseError(
            f"{path} holds a {type(model).__name__}, which cannot classify texts by itself. Give "
            "a TaxonomyClassifier: classify --save-model keeps one."
        )
    return model


def open_corpus(
    docs: str, tree: Taxonomy | None, skip_bad: bool, bad_rows: Path | None, **options: Any
) -> Corpus:
    from leafwise.corpus import Corpus

    listing = bad_rows_file(skip_bad, bad_rows)
    return Corpus(docs, taxonomy=tree, skip_bad=skip_bad, bad_rows=listing, **options)


def bad_rows_file(skip_bad: bool, bad_rows: Path | None) -> Path | None:
    if bad_rows is not None and not skip_bad:
        usage("--bad-rows lists what --skip-bad leaves out. Give both, or neither.")
    return (bad_rows or Path("bad-rows.csv")) if skip_bad else None


def added_columns(corpus: Corpus, label: str | None, several: bool = False) -> list[str]:
    """Name the columns that are filled in; `several` says that documents get several labels."""
    from leafwise.filling import columns_of

    return columns_of(corpus, label, several)


def read_sizes(text: str | None, least: int = 1) -> list[int] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    sizes = [int(part) for part in parts if part.isascii() and part.isdigit()]
    if len(sizes) < len(parts) or len(set(sizes)) < len(sizes) or min(sizes) < least:
        usage(
            f"--sizes {text}: expected whole numbers from {least} on, each once, with commas "
            "between them, such as 7,20,67."
        )
    return sizes


def check_picture(path: Path) -> None:
    check_ending(path, ".png", ".svg", ".pdf")
    if find_spec("matplotlib") is None:
        raise OutputError(
            f'Cannot draw {path}: that needs matplotlib. pip install "leafwise[plot]"'
        )


def check_ending(path: Path, *endings: str) -> None:
    """Refuse a picture that cannot be written, or of another kind than those that can be drawn."""
    check_writable(path)
    if path.suffix.lower() not in endings:
        known = " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))
        raise OutputError(f"Cannot draw {path}: name a file that ends in {known}.")


_CODES = {
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "nl": "dutch",
    "pt": "portuguese",
    "ru": "russian",
    "sv": "swedish",
}


def check_language(language: str) -> None:
    from difflib import get_close_matches

    import Stemmer

    known = sorted({"none", *Stemmer.algorithms()})
    if language not in known:
        asked = language.strip().lower()
        near = get_close_matches(_CODES.get(asked, asked), known, 1)
        hint = f"did you mean {near[0]}? Expected" if near else "expected"
        usage(f"--language {language}: {hint} one of {', '.join(known)}.")


_IN_PLACE = {("DOCS", "--output"), ("DOCS", "--assign"), ("--taxonomy", "--out")}


def check_apart(**files: Any) -> None:
    """Refuse to write one file over another that is read or written in the same run."""
    seen: dict[str, str] = {}
    for name, path in files.items():
        if path is None or str(path) == "-":
            continue
        option = f"--{name.replace('_', '-')}" if name != "docs" else "DOCS"
        other = seen.setdefault(os.path.realpath(path), option)
        # These may take the place of what is read: they are written whole, and after that.
        if other != option and (other, option) not in _IN_PLACE:
            usage(f"{other} and {option} are the same file, {path}. Name another.")
