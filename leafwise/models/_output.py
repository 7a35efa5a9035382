"""Results as data frames, and a model as a notebook shows it."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import Any, Self

import numpy as np

_CONTAINERS = ("default", "pandas", "polars")


class Framed:
    """Gives results as arrays, or as `set_output` says; shows what was learned in a notebook."""

    report_: list[str]
    taxonomy_: Any
    classes_: np.ndarray
    several_: bool

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what results are: arrays ("default"), or series and frames of pandas or polars.

        With pandas they have the index of the texts, where these have one. None changes nothing.
        """
        if transform is None:
            return self
        if transform not in _CONTAINERS:
            raise ValueError(f"transform={transform!r}: expected one of {_CONTAINERS}.")
        if transform != "default":
            _library(transform)  # now, rather than at the first result
        self._sklearn_output_config = {"transform": transform}  # scikit-learn's clone keeps it
        return self

    @property
    def _repr_html_(self) -> Any:
        shown = super()._repr_html_  # type: ignore[misc]
        return lambda: self._with_report(shown())

    def _repr_mimebundle_(self, **settings: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**settings)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._with_report(bundle["text/html"])
        return bundle

    def _with_report(self, diagram: str) -> str:
        """Put what `fit` did, and the tree, below scikit-learn's diagram."""
        if not hasattr(self, "report_"):
            return diagram
        lines = "".join(f"<li>{escape(line)}</li>" for line in self.report_)
        tree = self.taxonomy_._repr_html_()
        return (
            f"{diagram}<details open><summary>What fit did</summary><ul>{lines}</ul></details>"
            f"<details><summary>The tree</summary>{tree}</details>"
        )

    def _framed(self, X: Any, found: Any, columns: Any = None, name: str | None = None) -> Any:
        """Return a table with these columns, or one column of this name, as was asked for."""
        kind = getattr(self, "_sklearn_output_config", {}).get("transform", "default")
        if kind == "default":
            return found
        library = _library(kind)
        if columns is None:
            values = [None if one is None else _plain(one) for one in found]
            if kind == "polars":  # of the type of the classes, also where there is none
                dtype = library.Series(self.classes_.tolist()).dtype
                dtype = library.List(dtype) if self.several_ else dtype
                return library.Series(name, values, dtype=dtype)
            return library.Series(values, index=_index(X), name=name, dtype=object)
        names = [str(column) for column in columns]
        if kind == "polars":
            return library.DataFrame(dict(zip(names, np.asarray(found).T)))
        return library.DataFrame(found, columns=names, index=_index(X))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value.item() if isinstance(value, np.generic) else value


def _index(X: Any) -> Any:
    index = getattr(X, "index", None)
    return None if callable(index) else index  # a list has a method of this name


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'transform="{name}" needs {name}: pip install {name}') from error
