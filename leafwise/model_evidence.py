"""What documents held out say of some models: the result of `leafwise.model_selection`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

METRICS = {"accuracy": "accuracy", "log_proba": "log P(label)"}  # and how it is written
_HEADER = ("model", "accuracy", "behind", "log P(label)", "fit", "predict")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ModelSelection:
    """The model chosen by `select_model`, and the evidence.

    Attributes
    ----------
    best : the model chosen, fitted to all labelled documents
    name : its name
    names : all models, simplest first
    metric, margin : what decided, as given to `select_model`
    evidence : for each metric, an array of models × documents held out: whether the label was
        predicted, and log P(label); NaN for models that give no probabilities
    documents : the number of each document held out
    fit_seconds, predict_seconds : arrays of models × folds
    notes : what was left out, in sentences
    """

    best: Any
    name: str
    names: tuple[str, ...]
    metric: str
    margin: float
    evidence: dict[str, np.ndarray]
    documents: np.ndarray
    fit_seconds: np.ndarray
    predict_seconds: np.ndarray
    notes: tuple[str, ...]

    @property
    def leader(self) -> str:
        """The model with the highest mean, whether or not it is the one chosen."""
        return self.names[int(self.evidence[self.metric].mean(axis=1).argmax())]

    @property
    def why(self) -> str:
        """Why this model was chosen, and what was left out, in words."""
        return " ".join([self._reason(), *self.notes])

    def behind(self) -> tuple[np.ndarray, np.ndarray]:
        """Return how far each model is behind the leader, and the standard error of that.

        It is that of the paired differences, document by document: much of what makes documents
        hard is common to all models, and falls out.
        """
        return behind_leader(self.evidence[self.metric])

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per model, simplest first: a table for pandas or a CSV file."""
        columns: dict[str, Any] = {"model": self.names}
        for metric, scores in self.evidence.items():
            columns[metric], columns[f"{metric}_standard_error"] = _mean_and_error(scores)
        columns["behind"], columns["behind_standard_error"] = self.behind()
        columns["fit_seconds"] = self.fit_seconds.mean(axis=1)
        columns["predict_seconds"] = self.predict_seconds.mean(axis=1)
        values = zip(*(np.asarray(column).tolist() for column in columns.values()))
        return [dict(zip(columns, row), chosen=row[0] == self.name) for row in values]

    def __str__(self) -> str:
        rows = [_HEADER, *self._cells()]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, self._caption(), self.why])

    def __repr__(self) -> str:
        what = f"{METRICS[self.metric]} on {len(self.documents):,} held-out documents"
        return f"<ModelSelection: {self.name} of {', '.join(self.names)}, by {what}>"

    def _repr_html_(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

        body = "".join(row(cells, "td") for cells in self._cells())
        said = "".join(f"<p>{escape(text)}</p>" for text in (self._caption(), self.why))
        return f"<table>{row(_HEADER, 'th')}{body}</table>{said}"

    def _cells(self) -> Iterator[list[str]]:
        for row in self.rows():
            cells = [
                f"{row[m]:.3f} ± {row[f'{m}_standard_error']:.3f}" for m in ("accuracy", "behind")
            ]
            cells[1] = "" if row["model"] == self.leader else cells[1]
            has_proba = row["log_proba"] == row["log_proba"]
            cells.append(f"{row['log_proba']:.3f}" if has_proba else "–")
            cells += [f"{row[part]:.3f} s" for part in ("fit_seconds", "predict_seconds")]
            yield [row["model"] + " *" * row["chosen"], *cells]

    def _caption(self) -> str:
        return (
            f"Means ± standard errors over {len(self.documents):,} documents, each held out once, "
            f"in {self.fit_seconds.shape[1]} folds; behind {self.leader} in "
            f"{METRICS[self.metric]}; seconds per fold. *: chosen."
        )

    def _reason(self) -> str:
        if len(self.names) == 1:
            return f"{self.name} is the only model."
        what, one = METRICS[self.metric], self.margin == 1
        margin = "one standard error" if one else f"{self.margin:g} standard errors"
        behind, error = self.behind()
        chosen, leader = self.names.index(self.name), self.names.index(self.leader)
        if chosen != leader:
            return (
                f"{self.name} is the simplest model within {margin} of the best: {self.leader} is "
                f"ahead by {behind[chosen]:.3f} in {what}, with a standard error of "
                f"{error[chosen]:.3f}."
            )
        said = f"{self.name} has the highest {what}"
        if leader == 0:
            return f"{said} and is the simplest model."
        near = int((behind[:leader] / np.maximum(error[:leader], 1e-300)).argmin())
        more = f"more than {margin} " * (self.margin > 0)
        return (
            f"{said}, and every simpler model is {more}behind it: {self.names[near]}, the nearest, "
            f"by {behind[near]:.3f} with a standard error of {error[near]:.3f}."
        )


def behind_leader(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how far each row's mean is behind the highest, and the standard error of that."""
    best = scores[scores.mean(axis=1).argmax()]
    # Models that differ by rounding alone do not differ.
    return _mean_and_error(np.where(np.isclose(scores, best, rtol=1e-9), 0.0, best - scores))


def _mean_and_error(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return scores.mean(axis=1), scores.std(axis=1, ddof=1) / np.sqrt(scores.shape[1])
