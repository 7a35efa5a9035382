"""Figures, as display objects in scikit-learn's manner.

Each holds what is to be drawn; `plot` draws it, on `ax` or on a new figure, and leaves the axes
and the figure as ``ax_`` and ``figure_``. Nothing is shown or saved: ``display.figure_.savefig``
does that. matplotlib is needed only when something is drawn.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted

from leafwise.evaluation import metric_label
from leafwise.exceptions import DependencyError
from leafwise.labels import read_labels
from leafwise.metrics import reject_curve
from leafwise.taxonomy_drawing import _drawn, _shown

if TYPE_CHECKING:
    from leafwise.evaluation import LearningCurve
    from leafwise.metrics import RejectCurve
    from leafwise.taxonomy import Taxonomy

__all__ = [
    "CategorySizeDisplay",
    "LearningCurveDisplay",
    "LevelWeightsDisplay",
    "RejectCurveDisplay",
    "TreeWordsDisplay",
]

# Okabe and Ito's colours, which are told apart with any colour vision; without their yellow,
# which is too pale for a line on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "osD^vPX*"
_INK, _PALE, _FAINT = "#222222", "#888888", "#DDDDDD"


class _Display:
    """What all displays leave behind when they are drawn."""

    ax_: Any
    figure_: Any

    def _axes(self, ax: Any) -> Any:
        """Take the axes, or new ones, with as few lines around the data as there can be."""
        if ax is None:
            _, ax = _pyplot().subplots(figsize=(6.4, 4.2), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(_PALE)
        ax.tick_params(color=_PALE, labelcolor=_INK, labelsize=9)
        ax.grid(axis="y", color=_FAINT, linewidth=0.6)
        ax.set_axisbelow(True)
        return ax

    def _legend(self, artists: Sequence[Any], names: Sequence[str]) -> None:
        for text in self.ax_.legend(artists, names, frameon=False).get_texts():
            text.set_parse_math(False)  # a name with two dollar signs is not a formula


class LearningCurveDisplay(_Display):
    """Lines of scores over training sizes, with bands of a standard deviation.

    Where there is but one size, methods stand beside each other, with bars for bands. Size 0,
    for which a logarithmic axis has no place, stands to the left of the others.

    Parameters
    ----------
    curve : LearningCurve
    metric : str or None
        Which of the curve's metrics; None for the first.
    published : dict of name to dict of size to score
        Figures to compare with, drawn as dashed lines: ``{"NB": {7: 0.467, 20: 0.607}}``. One
        that has the name of a method has its colour too.
    """

    def __init__(
        self,
        curve: LearningCurve,
        *,
        metric: str | None = None,
        published: Mapping[str, Mapping[int, float]] | None = None,
    ):
        self.curve = curve
        self.metric = curve.metrics[0] if metric is None else metric
        self.published = dict(published or {})

    @classmethod
    def from_curve(
        cls,
        curve: LearningCurve,
        *,
        metric: str | None = None,
        published: Mapping[str, Mapping[int, float]] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw a curve made by `leafwise.evaluation.learning_curve`."""
        return cls(curve, metric=metric, published=published).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw."""
        curve = self.curve
        order = np.argsort(curve.sizes)
        sizes = np.array(curve.sizes)[order]
        means, stds = curve.mean(self.metric)[:, order], curve.std(self.metric)[:, order]
        ax = self._axes(ax)
        style = dict(zip(dict.fromkeys([*curve.names, *self.published]), _styles()))
        alone = len({*sizes.tolist(), *(n for line in self.published.values() for n in line)}) == 1
        # At a single size markers would hide each other: each has a place of its own around it.
        places = dict(zip(style, _around(len(style)) if alone else np.ones(len(style))))
        lines, names = [], []
        for name, mean, std in zip(curve.names, means, stds):
            at, color = _positions(sizes) * places[name], style[name]["color"]
            lines += ax.plot(at, mean, **style[name], linewidth=1.8, markersize=5)
            names.append(name)
            if curve.n_draws > 1 and alone:
                ends = [*(mean - std), *(mean + std)]
                ax.plot([*at, *at], ends, color=color, alpha=0.5, linewidth=1.5, zorder=1.8)
            elif curve.n_draws > 1:
                ax.fill_between(at, mean - std, mean + std, color=color, alpha=0.15, linewidth=0)
        for name, figures in self.published.items():
            at = np.array(sorted(figures)) * places[name]
            dashed = style[name] | {"linestyle": "--", "markerfacecolor": "white"}
            # Below ours and larger, so that both are seen where they agree.
            lines += ax.plot(
                at, [figures[n] for n in sorted(figures)], **dashed, linewidth=1.2, markersize=8,
                zorder=1.9,
            )  # fmt: skip
            names.append(f"{name} (published)")
        _log_sizes(ax, sizes, alone)
        ax.set_xlabel("training documents per class")
        ax.set_ylabel(metric_label(self.metric))
        self._legend(lines, names)
        return self


class LevelWeightsDisplay(_Display):
    """How much each level of the tree gives to the words of a class, over training sizes.

    Z figures 3 and 4: points are means over classes, bars a standard deviation to each side.

    Parameters
    ----------
    sizes : training documents per class
    weights : for each size, an array of classes × levels
        NaN where a class has no such level.
    level_names : name of each level
    """

    def __init__(
        self, sizes: Sequence[int], weights: Sequence[ArrayLike], level_names: Sequence[str]
    ):
        self.sizes = list(sizes)
        self.weights = [np.asarray(w, dtype=float) for w in weights]
        self.level_names = list(level_names)
        if len(self.sizes) != len(self.weights):
            raise ValueError(
                f"There are {len(self.sizes)} sizes and weights for {len(self.weights)} of them."
            )
        for size, w in zip(self.sizes, self.weights):
            if w.ndim != 2 or w.shape[1] != len(self.level_names):
                raise ValueError(
                    f"The weights of size {size} have shape {w.shape}, expected a row per class "
                    f"and a column for each of the {len(self.level_names)} levels."
                )
        if self.weights:
            nothing = np.isnan(np.concatenate(self.weights)).all(axis=0)
            if nothing.any():
                name = self.level_names[int(nothing.argmax())]
                raise ValueError(f'No class has a weight of the level "{name}". Leave it out.')

    @classmethod
    def from_weights(
        cls,
        weights: Mapping[int, ArrayLike],
        level_names: Sequence[str] | None = None,
        *,
        ax: Any = None,
    ) -> Self:
        """Draw weights given as ``{size: array of classes × levels}``.

        Without names levels are taken to be those of `HierarchicalShrinkage.level_weights_`: the
        class's own documents, each level above, and the uniform distribution. The last but one
        is called the root if every class has a weight there; else paths differ in length, and it
        is the root of the longest alone. `from_models` knows the root of every path.
        """
        if not weights:
            raise ValueError("weights is empty: expected {size: array of classes × levels}.")
        sizes = sorted(weights)
        if level_names is None:
            arrays = [np.atleast_2d(w) for w in weights.values()]
            n_levels = arrays[0].shape[1]
            level_names = ["own class", *_above(n_levels - 2), "uniform"][:n_levels]
            if n_levels > 2 and all((w[:, -2:-1] > 0).all() for w in arrays):
                level_names[-2] = "root"
        return cls(sizes, [weights[size] for size in sizes], level_names).plot(ax)

    @classmethod
    def from_models(cls, models: Mapping[int, Any], *, ax: Any = None) -> Self:
        """Draw the weights of ``{size: model}``, fitted to so many documents per class.

        For models with `level_weights_`, such as `HierarchicalShrinkage`. Levels are counted from
        the class's own documents upwards ("1 above" is the parent of a leaf; of a class that is an
        inner node it is the node with all that is below it), but the root is one level for all
        classes. Classes without documents are left out.
        """
        if not models:
            raise ValueError("models is empty: expected {size: fitted model}.")
        sizes = sorted(models)
        for size in sizes:
            check_is_fitted(models[size])
            if not hasattr(models[size], "level_weights_"):
                raise TypeError(
                    f"{type(models[size]).__name__} has no level_weights_, so there is nothing to "
                    "draw. Expected a model such as HierarchicalShrinkage."
                )
        n_levels = max(models[size].level_weights_.shape[1] for size in sizes)
        weights = [_aligned(models[size], n_levels) for size in sizes]
        there = ~np.isnan(np.concatenate(weights)).all(axis=0)
        names = np.array(["own class", *_above(n_levels), "root", "uniform"])
        return cls(sizes, [w[:, there] for w in weights], names[there].tolist()).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw."""
        ax = self._axes(ax)
        known = [np.ma.masked_invalid(w) for w in self.weights]
        means = np.array([w.mean(axis=0).filled(np.nan) for w in known])
        stds = np.array([w.std(axis=0).filled(np.nan) for w in known])
        lines = [
            ax.errorbar(
                self.sizes, mean, std, **style, linewidth=1.8, markersize=5, elinewidth=1, capsize=3
            )
            for mean, std, style in zip(means.T, stds.T, _styles())
        ]
        _log_sizes(ax, self.sizes, len(self.sizes) == 1)
        ax.set_xlabel("training documents per class")
        ax.set_ylabel("weight, mean over classes")
        self._legend(lines, self.level_names)
        return self


class CategorySizeDisplay(_Display):
    """F1 of methods by how many training documents a category has (T figure 2).

    Parameters
    ----------
    bins : largest number of training documents in each bin, ascending
        The last can be infinite.
    f1 : for each method, one value per bin; NaN where a bin has no category
    n_categories : categories in each bin, to be written below it
    """

    def __init__(
        self,
        bins: Sequence[float],
        f1: Mapping[str, ArrayLike],
        n_categories: Sequence[int] | None = None,
    ):
        self.bins = list(bins)
        self.f1 = {name: np.asarray(values, dtype=float) for name, values in f1.items()}
        self.n_categories = None if n_categories is None else list(n_categories)
        if not self.bins or sorted(set(self.bins)) != self.bins:
            raise ValueError(f"bins={bins!r}: expected ascending numbers of documents.")
        if not self.f1:
            raise ValueError("f1 is empty: expected the values of at least one method.")
        for name, values in self.f1.items():
            if values.shape != (len(self.bins),):
                raise ValueError(
                    f"{name!r} has values of shape {values.shape}, expected one for each of the "
                    f"{len(self.bins)} bins."
                )

    @classmethod
    def from_categories(
        cls,
        n_train: ArrayLike,
        f1: Mapping[str, ArrayLike],
        bins: Sequence[float] = (10, 20, 30, 40, 50),
        *,
        ax: Any = None,
    ) -> Self:
        """Average each method's F1 of single categories within bins, and draw the means.

        `n_train` has the number of training documents of each category, and each value of `f1` an
        F1 of each. Categories with more documents than the last bin have a bin of their own.
        """
        sizes = np.asarray(n_train)
        if len(bins) and (sizes > max(bins)).any():
            bins = [*bins, math.inf]
        at = np.searchsorted(bins, sizes)
        inside = [at == b for b in range(len(bins))]
        means = {}
        for name, values in f1.items():
            scores = np.asarray(values, dtype=float)
            if scores.shape != sizes.shape:
                raise ValueError(
                    f"{name!r} has {scores.size} values, expected one for each of the "
                    f"{sizes.size} categories."
                )
            means[name] = [scores[mask].mean() if mask.any() else np.nan for mask in inside]
        return cls(bins, means, [int(mask.sum()) for mask in inside]).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw."""
        ax = self._axes(ax)
        width = 0.8 / len(self.f1)
        middle = np.arange(len(self.bins))
        bars = []
        for i, (values, style) in enumerate(zip(self.f1.values(), _styles())):
            left = middle + (i - (len(self.f1) - 1) / 2) * width
            bars.append(ax.bar(left, values, width * 0.92, color=style["color"]))
        labels = [f"≤ {self.bins[0]}"]
        for a, b in pairwise(self.bins):
            labels.append(f"over {a}" if b == math.inf else f"{a + 1}–{b}")
        if self.n_categories is not None:
            labels = [f"{label}\nn = {n}" for label, n in zip(labels, self.n_categories)]
        ax.set_xticks(middle, labels)
        ax.set_xlim(-0.6, len(self.bins) - 0.4)  # empty bins at the ends have their room too
        ax.tick_params(axis="x", length=0)
        ax.set_xlabel("training documents of the category")
        ax.set_ylabel("macro F1")
        self._legend(bars, list(self.f1))
        return self


class RejectCurveDisplay(_Display):
    """Micro F1 and precision over the share of documents that are rejected (V 3.4).

    Curves drawn on the same axes have colours of their own; precision is dashed.

    Parameters
    ----------
    curve : RejectCurve
    name : str or None
        What to call the curve, where there are several.
    """

    def __init__(self, curve: RejectCurve, *, name: str | None = None):
        self.curve = curve
        self.name = name

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_pred: Any, confidence: Any, *, ax: Any = None, name: str | None = None
    ) -> Self:
        """Draw the curve that `leafwise.metrics.reject_curve` makes of predictions."""
        return cls(reject_curve(y_true, y_pred, confidence), name=name).plot(ax)

    @classmethod
    def from_estimator(
        cls, model: Any, X: Any, y: Any, *, ax: Any = None, name: str | None = None
    ) -> Self:
        """Draw the curve of a fitted classifier; documents without a label in `y` do not count.

        The least confident prediction is the one with the lowest probability. Without a name the
        curve has that of the model's class.
        """
        confidence = _log_odds(model, X)
        if hasattr(model, "_classes"):  # labels as it writes them: a name may stand for its path
            rows = model._classes.membership(read_labels(y, model._classes))
            several = np.split(model.classes_[rows.indices], rows.indptr[1:-1])
            y = [labels.tolist() or None for labels in several]
        return cls.from_predictions(
            y,
            model.predict(X),
            confidence,
            ax=ax,
            name=type(model).__name__ if name is None else name,
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw."""
        ax = self._axes(ax)
        drawn, _ = ax.get_legend_handles_labels()
        color = COLORS[len(drawn) // 2 % len(COLORS)]
        for metric, line in (("micro_f1", "-"), ("precision", "--")):
            label = metric_label(metric)
            ax.plot(
                100 * self.curve.reject_rate, getattr(self.curve, metric), line, color=color,
                label=label if self.name is None else f"{self.name}, {label}", linewidth=1.8,
                marker="o" if len(self.curve.threshold) == 1 else None,
            )  # fmt: skip
        ax.set_xlim(0, 100)
        ax.set_xlabel("documents rejected, percent")
        ax.set_ylabel("micro F1, precision")
        self._legend(*ax.get_legend_handles_labels())
        return self


class TreeWordsDisplay(_Display):
    """The tree, with the words of each node in its box (G figure 3).

    Parameters
    ----------
    taxonomy : Taxonomy
    words : for each node, its words, the most telling first
    max_nodes : int
        A larger tree is cut, level by level; a box says how many nodes below it are left out.

    Attributes
    ----------
    boxes_ : dict of node to the patch of its box
    texts_ : dict of node to its lines of text: the name, and the words where there are any
    """

    def __init__(self, taxonomy: Taxonomy, words: Sequence[Sequence[str]], *, max_nodes: int = 60):
        if len(words) != len(taxonomy):
            raise ValueError(
                f"There are words for {len(words)} nodes, but the tree has {len(taxonomy)}."
            )
        if max_nodes < 1:
            raise ValueError(f"max_nodes={max_nodes}: expected a number of nodes of at least 1.")
        self.taxonomy = taxonomy
        self.words = [[str(word) for word in own] for own in words]
        self.max_nodes = max_nodes

    @classmethod
    def from_model(
        cls,
        model: Any,
        *,
        n_words: int = 5,
        feature_names: Sequence[str] | None = None,
        max_nodes: int = 60,
        ax: Any = None,
    ) -> Self:
        """Draw the tree of a fitted model that has `node_words`.

        `feature_names` names the columns of the word counts that the model was fitted to.
        """
        if not hasattr(model, "node_words"):
            raise TypeError(
                f"{type(model).__name__} has no node_words, so there are no words to draw. "
                "Expected a generative model, such as a fitted NaiveBayes."
            )
        check_is_fitted(model)
        tree = model.taxonomy_
        # Without a taxonomy classes are known by their labels, which are not always paths.
        labels = dict(zip(getattr(model, "nodes_", ()), getattr(model, "classes_", ())))
        words: list[list[str]] = [[] for _ in range(len(tree))]
        for i in np.flatnonzero(_drawn(tree, max_nodes)):
            label = labels.get(i, tree.paths[i])
            pairs = model.node_words(label, n_words, feature_names=feature_names)
            words[i] = [str(word) for word, _ in pairs]
        return cls(tree, words, max_nodes=max_nodes).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw; on a new figure the texts have their full size, on given axes what fits them."""
        plt, tree = _pyplot(), self.taxonomy
        figure = plt.figure() if ax is None else ax.figure
        layout = _lay_out(tree, self.words, self.max_nodes, figure)
        if ax is None:
            figure.set_size_inches(layout.width / _INCH, layout.height / _INCH)
            ax = figure.add_axes((0, 0, 1, 1))
        self.ax_, self.figure_ = ax, figure
        size = np.array([layout.width, layout.height])
        room = ax.get_window_extent().size * _INCH / figure.dpi
        scale = min(1.0, *(room / size))
        # A unit of the axes is a point of the layout, so boxes keep pace with their texts.
        spare = (room / scale - size) / 2
        ax.set_xlim(-spare[0], size[0] + spare[0])
        ax.set_ylim(size[1] + spare[1], -spare[1])
        ax.axis("off")
        self.boxes_: dict[int, Any] = {}
        self.texts_: dict[int, list[Any]] = {}
        colors = dict(zip(tree.children(0).tolist(), cycle(COLORS)))
        for i, box in layout.boxes.items():
            branch = i if tree.depth[i] < 2 else int(tree.ancestors(i)[-2])
            self._draw_box(i, box, colors.get(branch, _INK), scale)
            if i:
                self._draw_edge(layout.boxes[int(tree.parent[i])], box, scale)
        self._fit_texts(layout)
        return self

    def _draw_box(self, i: int, box: _Box, color: str, scale: float) -> None:
        from matplotlib.colors import to_rgb
        from matplotlib.patches import FancyBboxPatch

        tint = 1 - 0.12 * (1 - np.array(to_rgb(color)))
        edge = 1 - 0.45 * (1 - np.array(to_rgb(color)))
        top = box.y - box.height / 2
        self.boxes_[i] = self.ax_.add_patch(
            FancyBboxPatch(
                (box.x, top), box.width, box.height, boxstyle="round,pad=0,rounding_size=4",
                facecolor=tint, edgecolor=edge, linewidth=0.8 * scale, zorder=2,
            )
        )  # fmt: skip
        self.texts_[i] = []
        y = top + _PADDING
        for lines, size, weight in ((box.title, _TITLE, "bold"), (box.body, _BODY, "normal")):
            for line in lines:
                text = self.ax_.text(
                    box.x + _PADDING, y + size, line, fontsize=size * scale, weight=weight,
                    color=_INK, parse_math=False, zorder=3,
                )  # fmt: skip
                self.texts_[i].append(text)
                y += size * _PITCH

    def _fit_texts(self, layout: _Layout) -> None:
        """Shrink all texts until each is within its box: very small letters are drawn too wide."""
        (left, _), (right, _) = self.ax_.transData.transform([(0, 0), (1, 0)])
        pairs = [
            (text, (layout.boxes[i].width - 1.5 * _PADDING) * (right - left))
            for i, texts in self.texts_.items()
            for text in texts
        ]
        for _ in range(5):
            excess = max(text.get_window_extent().width / room for text, room in pairs)
            if excess <= 1:
                break
            for text, _room in pairs:
                text.set_fontsize(text.get_fontsize() / excess)

    def _draw_edge(self, parent: _Box, child: _Box, scale: float) -> None:
        from matplotlib.patches import PathPatch
        from matplotlib.path import Path

        start, end = parent.x + parent.width, child.x
        middle = (start + end) / 2
        points = [(start, parent.y), (middle, parent.y), (middle, child.y), (end, child.y)]
        path = Path(points, [Path.MOVETO, *[Path.CURVE4] * 3])
        edge = PathPatch(path, fill=False, edgecolor="#BBBBBB", linewidth=scale, zorder=1)
        self.ax_.add_patch(edge)


class _Box(NamedTuple):
    """A node in the layout of a tree: `x` is its left side, `y` its middle, downwards."""

    title: list[str]
    body: list[str]
    x: float
    y: float
    width: float
    height: float


class _Layout(NamedTuple):
    boxes: dict[int, _Box]
    width: float
    height: float


# Measures of a drawn tree, in points.
_INCH = 72
_TITLE, _BODY = 10.0, 9.0
_PITCH = 1.25  # from line to line, in sizes of the font
_PADDING, _BETWEEN_ROWS, _BETWEEN_LEVELS, _MARGIN = 6.0, 8.0, 36.0, 12.0
_WRAP = 48  # characters
_SLACK = 1.05  # letters are rounded to pixels, differently at each resolution


def _lay_out(
    tree: Taxonomy, words: Sequence[Sequence[str]], max_nodes: int, figure: Any
) -> _Layout:
    """Place the root on the left, nodes without children below each other, parents amid theirs.

    The row of a childless node is as high as its own box and those of its ancestors but the root,
    which is alone on its level: so a parent's box stays within the rows below it, and no two boxes
    of a level meet.
    """
    drawn = _drawn(tree, max_nodes)
    nodes = np.flatnonzero(drawn).tolist()
    children, texts = {}, {}
    for i in nodes:
        children[i], more = _shown(tree, i, drawn)
        title = textwrap.wrap(tree.names[i] or "/", _WRAP)
        body = textwrap.wrap(", ".join(words[i]), _WRAP, break_on_hyphens=False)
        texts[i] = title, [*body, more] if more else body
    heights, widths = {}, np.zeros(tree.depth[nodes].max() + 1)
    for i, (title, body) in texts.items():
        heights[i] = (len(title) * _TITLE + len(body) * _BODY) * _PITCH + 2 * _PADDING
        text_widths = [_text_width(line, _TITLE, "bold", figure) for line in title]
        text_widths += [_text_width(line, _BODY, "normal", figure) for line in body]
        widths[tree.depth[i]] = max(widths[tree.depth[i]], max(text_widths) + 2 * _PADDING)
    lefts = _MARGIN + np.concatenate([[0], np.cumsum(widths + _BETWEEN_LEVELS)])
    tallest = dict(heights)  # of a node and its ancestors
    middles: dict[int, float] = {}
    bottom = 0.0
    for i in nodes:  # parents before their children
        if tree.depth[i] > 1:
            tallest[i] = max(tallest[i], tallest[int(tree.parent[i])])
        if not children[i]:
            middles[i] = bottom + tallest[i] / 2
            bottom += tallest[i] + _BETWEEN_ROWS
    for i in reversed(nodes):  # children before their parents
        if children[i]:
            middles[i] = (middles[children[i][0]] + middles[children[i][-1]]) / 2
    top = min(middles[i] - heights[i] / 2 for i in nodes) - _MARGIN
    bottom = max(middles[i] + heights[i] / 2 for i in nodes) + _MARGIN
    boxes = {
        i: _Box(*texts[i], lefts[level], middles[i] - top, widths[level], heights[i])
        for i, level in zip(nodes, tree.depth[nodes])
    }
    return _Layout(boxes, float(lefts[-1] - _BETWEEN_LEVELS + _MARGIN), bottom - top)


def _text_width(line: str, size: float, weight: str, figure: Any) -> float:
    from matplotlib.text import Text

    text = Text(text=line, fontsize=size, fontweight=weight, parse_math=False)
    text.set_figure(figure)
    return _SLACK * text.get_window_extent().width * _INCH / figure.dpi


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        message = 'To plot, matplotlib is needed: pip install "leafwise[plot]"'
        raise DependencyError(message) from None
    return plt


def _log_odds(model: Any, X: Any) -> np.ndarray:
    """Return log p/(1 − p) of each document's most probable class.

    Its order is that of p itself, which for long texts is 1 for most documents, as far as numbers
    can tell. It is rounded, so that equal p stay equal.
    """
    with np.errstate(divide="ignore"):
        if hasattr(model, "predict_log_proba"):
            log_p = np.array(model.predict_log_proba(X), dtype=float)
        elif hasattr(model, "predict_proba"):
            log_p = np.log(np.asarray(model.predict_proba(X), dtype=float))
        else:
            raise TypeError(
                f"{type(model).__name__} has neither predict_log_proba nor predict_proba, so its "
                "least confident predictions are not known. Give confidences of another kind to "
                "from_predictions."
            )
    best = np.arange(len(log_p)), log_p.argmax(axis=1)
    log_best = log_p[best]
    log_p[best] = -np.inf
    return (log_best - logsumexp(log_p, axis=1)).round(9)


def _styles() -> Iterator[dict[str, Any]]:
    """Colours and markers; their numbers have no common divisor, so pairs come back late."""
    return ({"color": c, "marker": m} for c, m in zip(cycle(COLORS), cycle(MARKERS)))


def _around(n: int) -> np.ndarray:
    """Return factors that spread `n` points evenly around a size, on a logarithmic axis."""
    return 2 ** (((np.arange(n) + 0.5) / n - 0.5) / 2)


def _above(n: int) -> list[str]:
    return [f"{k} above" for k in range(1, n + 1)]


def _aligned(model: Any, n_above: int) -> np.ndarray:
    """Return weights of classes × own documents, 1 to `n_above` levels above, root and uniform.

    The root is counted as such alone. NaN where a path has no such level; classes without
    documents are left out.
    """
    tree, nodes, weights = model.taxonomy_, model.nodes_, model.level_weights_
    # An inner node is a level above its own documents.
    length = tree.depth[nodes] + (tree.end[nodes] > nodes + 1)
    has_uniform = weights.shape[1] == 2 + length.max()
    length = np.minimum(length, weights.shape[1] - 1)  # PLC has no levels above
    aligned = np.full((len(nodes), n_above + 3), np.nan)
    aligned[:, 0] = weights[:, 0]
    for c, n in enumerate(length.tolist()):
        if n:
            aligned[c, 1:n] = weights[c, 1:n]
            aligned[c, -2] = weights[c, n]
    if has_uniform:
        aligned[:, -1] = weights[:, -1]
    return aligned[model.document_counts_ > 0]


def _positions(sizes: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return where sizes stand on a logarithmic axis, which has no place for 0."""
    at = np.array(sizes, dtype=float)
    at[at == 0] = min(at[at > 0], default=2.0) / 2
    return at


def _log_sizes(ax: Any, sizes: Sequence[int] | np.ndarray, alone: bool) -> None:
    ax.set_xscale("log")
    at = _positions(sizes)
    if alone:  # else matplotlib shows a whole decade
        ax.set_xlim(at[0] / 2**0.6, at[0] * 2**0.6)
    ax.set_xticks(at.tolist(), [str(size) for size in sizes])
    ax.minorticks_off()
