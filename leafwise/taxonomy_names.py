"""Names of nodes, paths made of them, and keywords."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from leafwise.exceptions import TaxonomyError

WORDS = re.compile(r"[^\W_]+")
_PATH_PARTS = re.compile(r"(?:^|/)((?:\\[\\/]|[^/])*)")
# What no text file or XML can hold. Line ends and tabs are not here: clean() makes them spaces.
UNWRITABLE = re.compile("[\x00-\x08\x0e-\x1b\x7f\ud800-\udfff\ufeff\ufffe\uffff]")


def clean(text: str) -> str:
    """Composed Unicode, no space around it, single spaces inside: equal text is equal to see."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def join_path(names: Iterable[str]) -> str:
    r"""Path of the node below these names; ``/`` in a name becomes ``\/``, ``\`` becomes ``\\``."""
    return "/".join(escape(name) for name in names) or "/"


def split_path(path: str) -> tuple[str, ...]:
    """Names on a path, from the top; one slash before or after it is ignored."""
    if "\\" in path:
        parts = [re.sub(r"\\([\\/])", r"\1", part) for part in _PATH_PARTS.findall(path)]
    else:
        parts = path.split("/")
    names = [clean(part) for part in parts]
    first = not names[0]
    last = len(names) - (len(names) > 1 and not names[-1])
    return tuple(names[first:last])


def escape(name: str) -> str:
    return name.replace("\\", "\\\\").replace("/", "\\/")


def default_keywords(name: str) -> tuple[str, ...]:
    """Words of a name, in lower case: ``"comp.os.MacOS"`` gives ``comp, os, mac``."""
    words = (part.lower() for word in WORDS.findall(name) for part in _humps(word))
    return tuple(dict.fromkeys(words))


def _humps(word: str) -> list[str]:
    """Split camelCase: HTMLParser is HTML + Parser, but URLs and 3D stay whole."""
    if word.isupper() or word[1:] == word[1:].lower():
        return [word]
    cuts = [0]
    for k in range(1, len(word)):
        if word[k].isupper():
            after_small = word[k - 1].islower() or word[k - 1].isdigit()
            starts_word = word[k + 1 : k + 3].islower() and len(word) > k + 2
            if after_small or starts_word:
                cuts.append(k)
    return [word[a:b] for a, b in zip(cuts, [*cuts[1:], len(word)])]


def parse_keywords(cell: str) -> tuple[str, ...]:
    """Keywords in one string: separated by ``;``, else by ``,``, else by spaces."""
    separator = next((mark for mark in ";," if mark in cell), None)
    return _keywords(cell.split(separator))


def _keywords(words: str | Iterable[str]) -> tuple[str, ...]:
    """Keywords as the tree keeps them: clean, each once. ``;`` always separates."""
    if isinstance(words, str):
        return parse_keywords(words)
    kept: dict[str, None] = {}
    for word in words:
        if not isinstance(word, str):
            raise TaxonomyError(f"A keyword must be text, not {word!r}.")
        if UNWRITABLE.search(word):
            raise TaxonomyError(f"The keyword {word!r} holds a control character.")
        kept.update(dict.fromkeys(clean(part) for part in word.split(";")))
    kept.pop("", None)
    return tuple(kept)


def node_keywords(name: str, words: str | Iterable[str] | None) -> tuple[str, ...]:
    try:
        return default_keywords(name) if words is None else _keywords(words)
    except TaxonomyError as error:
        raise TaxonomyError(f"The keywords of {shorten(name)}: {error}") from None


def shorten(text: str, limit: int = 80) -> str:
    """`text` for a message: in quotes, and cut where it is very long."""
    return f'"{text}"' if len(text) <= limit else f'"{text[:limit]}..."'


def listed(items: Sequence[str], word: str) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return f" {word} ".join(filter(None, [", ".join(items[:-1]), items[-1]]))


# ---- the tree -----------------------------------------------------------------------------------
