"""Charts as SVG within a page. Their colours are those of the style sheet."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from leafwise.review.progress import Point

__all__ = ["curve"]

_WIDTH, _HEIGHT = 560, 290
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 14, 42


def curve(points: Sequence[Point], target: float) -> Markup:
    """Accuracy by number of labels, with its interval and the accuracy to reach.

    Nothing in it comes from a document or a name: only numbers.
    """
    if not points:
        return Markup("")
    low = min(0.5, *(point.low for point in points))
    bottom = max(0.0, int(low * 10) / 10)
    most = max(point.n_labels for point in points)
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(n: float) -> str:
        return f"{_LEFT + width * n / max(most, 1):.1f}"

    def y(share: float) -> str:
        return f"{_TOP + height * (1 - (share - bottom) / (1 - bottom)):.1f}"

    last = points[-1]
    told = (
        f"Learning curve: {last.estimate:.0%} right after {last.n_labels:,} labels, "
        f"between {int(100 * last.low + 1e-9)}% and {last.high:.0%}."
    )
    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{told}">']
    step = 0.1 if bottom >= 0.3 else 0.2
    n_ticks = round((1 - bottom) / step)
    for share in (1 - k * step for k in range(n_ticks + 1)):
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(share)}" '
            f'y2="{y(share)}"/><text x="{_LEFT - 8}" y="{y(share)}" dy="4" text-anchor="end">'
            f"{share:.0%}</text>"
        )
    for n in _ticks(most):
        anchor = "end" if n == most and n else "middle"
        parts.append(f'<text x="{x(n)}" y="{_HEIGHT - 22}" text-anchor="{anchor}">{n:,}</text>')
    parts.append(
        f'<text x="{_LEFT + width / 2:.0f}" y="{_HEIGHT - 4}" text-anchor="middle">labels</text>'
    )
    if bottom <= target <= 1:
        parts.append(
            f'<line class="target" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(target)}" '
            f'y2="{y(target)}"/><text class="target-text" x="{_LEFT + 6}" y="{y(target)}" dy="-6">'
            f"aim {target:.0%}</text>"
        )
    there = [f"{x(point.n_labels)},{y(point.high)}" for point in points]
    back = [f"{x(point.n_labels)},{y(point.low)}" for point in reversed(points)]
    parts.append(f'<polygon class="band" points="{" ".join(there + back)}"/>')
    line = " ".join(f"{x(point.n_labels)},{y(point.estimate)}" for point in points)
    parts.append(f'<polyline class="curve" points="{line}"/>')
    for point in points:
        if len(points) == 1:  # a band of no width: its ends
            parts.append(
                f'<line class="curve" x1="{x(point.n_labels)}" x2="{x(point.n_labels)}" '
                f'y1="{y(point.low)}" y2="{y(point.high)}"/>'
            )
        parts.append(
            f'<circle class="dot" cx="{x(point.n_labels)}" cy="{y(point.estimate)}" r="3.5">'
            f"<title>{point.n_labels:,} labels: {point.estimate:.0%}</title></circle>"
        )
    return Markup("".join(parts) + "</svg>")


def _ticks(most: int) -> list[int]:
    """Round numbers from 0 to the last."""
    step = 1
    while most / step > 6:
        step = step * 5 // 2 if str(step)[0] == "2" else step * 2
    return list(range(0, most + 1, step))
