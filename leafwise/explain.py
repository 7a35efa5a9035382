"""Why a document is where it is: which words spoke for a node, and which against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Explanation:
    """The words of one document that matter for one node.

    Attributes
    ----------
    path : str
        The node.
    probability : float
    words : tuple of (str, float)
        Each word as it stands in the text and what it adds to the node's log probability (above
        0: for it, below: against it), the weightiest first.
    levels : tuple of str
        Where a model draws the words of a node from several levels of the tree: the node, those
        above it, and "" for a word that could be any.
    word_levels : tuple of tuples of float
        For each of `words`, the probability that it came from each of `levels` (T eq. 5).
    """

    path: str
    probability: float
    words: tuple[tuple[str, float], ...]
    levels: tuple[str, ...] = ()
    word_levels: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(
        cls,
        path: str,
        probability: float,
        contributions: dict[str, float],
        forms: dict[str, str] | None = None,
        levels: tuple[list[str], dict[str, list[float]]] | None = None,
    ) -> Self:
        """Order the contributions of counted words, and show them as the text has them."""
        shown = forms or {}
        words = [(shown.get(word, word), float(c), word) for word, c in contributions.items()]
        words.sort(key=lambda said: (-abs(said[1]), said[0]))
        names, of_word = levels or ([], {})
        return cls(
            path,
            probability,
            tuple((word, c) for word, c, _ in words),
            tuple(names),
            tuple(tuple(of_word[word]) for *_, word in words) if levels else (),
        )

    def __str__(self) -> str:
        lines = [f"{self.path}  (probability {self.probability:.2f})"]
        for title, sign in (("for", 1), ("against", -1)):
            words = [f"{w} {c:+.2f}" for w, c in self.words if c * sign > 0][:8]
            lines.append(f"  {title}: {', '.join(words) or 'nothing'}")
        for number, level in enumerate(self.levels):
            drawn = [
                word
                for (word, _), p in zip(self.words, self.word_levels)
                if p.index(max(p)) == number
            ]
            if drawn:
                lines.append(f"  from {level or 'anywhere'}: {', '.join(drawn[:8])}")
        return "\n".join(lines)
