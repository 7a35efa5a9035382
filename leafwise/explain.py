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
    """

    path: str
    probability: float
    words: tuple[tuple[str, float], ...]

    @classmethod
    def of(
        cls, path: str, probability: float, contributions: dict[str, float], forms: dict[str, str]
    ) -> Self:
        """Order the contributions of counted words, and show them as the text has them."""
        words = [(forms.get(word, word), float(c)) for word, c in contributions.items()]
        words.sort(key=lambda pair: (-abs(pair[1]), pair[0]))
        return cls(path, probability, tuple(words))

    def __str__(self) -> str:
        lines = [f"{self.path}  (probability {self.probability:.2f})"]
        for title, sign in (("for", 1), ("against", -1)):
            words = [f"{w} {c:+.2f}" for w, c in self.words if c * sign > 0][:8]
            lines.append(f"  {title}: {', '.join(words) or 'nothing'}")
        return "\n".join(lines)
