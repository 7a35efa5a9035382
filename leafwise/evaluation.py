"""Measuring with few labels: splits that draw a few documents per class, and learning curves."""

from __future__ import annotations

import difflib
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Integral
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_consistent_length

from leafwise.exceptions import LabelError
from leafwise.labels import Occurrences, read_labels
from leafwise.metrics import PairedTTest, paired_t_test
from leafwise.metrics import scores as flat_scores

if TYPE_CHECKING:
    from leafwise.plots import LearningCurveDisplay

__all__ = ["FewLabelSplit", "LearningCurve", "few_labels", "learning_curve"]

Metric = str | Callable[[Any, Any], float]

_MAX_TEST_FRACTION = 0.5  # see `LearningCurve.paired`


class FewLabelSplit(BaseCrossValidator):
    """Draw a few training documents of each class, several times; the rest is for testing.

    Draws are nested: with one `random_state`, draw k of a smaller `n_per_class` is part of draw k
    of a larger one, so that a learning curve compares like with like. Documents without a label
    (None, or -1 among integers) are neither drawn nor tested on.

    Every class needs a document to test on besides those drawn. A class without one would count
    in no score, and scores of different sizes would be over different classes.

    Parameters
    ----------
    n_per_class : int
        Training documents of each class; 0 is for what learns without labels.
    n_draws : int
        How often they are drawn.
    test_size : int, float or None
        Test documents of each class, the same ones for every `n_per_class`: how many, or which
        share of the class, but at least one. None takes all the rest.
    short : {"raise", "take"}
        Of a class with too few documents, "take" draws all but those to test on. One of a single
        document is learned from and not tested on.
    random_state : int
        Draw k is the same whatever `n_draws`. None is not taken, as draws would not be nested.
    """

    def __init__(
        self,
        n_per_class: int,
        n_draws: int = 10,
        *,
        test_size: float | None = None,
        short: str = "raise",
        random_state: int = 0,
    ):
        self.n_per_class = n_per_class
        self.n_draws = n_draws
        self.test_size = test_size
        self.short = short
        self.random_state = random_state

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the numbers of the training and of the test documents, both ascending.

        `y` has one label per document; `X` is only asked for its length, and `groups` for nothing.
        """
        self._validate()
        labels = _single_labels(y)
        if X is not None:
            check_consistent_length(X, range(labels.n_documents))
        members = self._members(labels)
        sizes = [self._sizes(len(documents)) for documents in members]
        for seed in np.random.SeedSequence(self.random_state).spawn(self.n_draws):
            rng = np.random.default_rng(seed)
            orders = [rng.permutation(documents) for documents in members]
            train = [order[:n] for order, (n, _) in zip(orders, sizes)]
            # From the other end, so that the test documents are the same for every n.
            test = [order[len(order) - n :] for order, (_, n) in zip(orders, sizes)]
            yield np.sort(np.concatenate(train)), np.sort(np.concatenate(test))

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of draws."""
        return self.n_draws

    def _members(self, labels: Occurrences) -> list[np.ndarray]:
        """Return the documents of each class, after checking that there are enough."""
        classes, code, n_documents = np.unique(
            labels.labels, return_inverse=True, return_counts=True
        )
        if not len(classes):
            raise LabelError("No document has a label, so there is none to draw.")
        n_needed = np.array([sum(self._sizes(n, least=True)) for n in n_documents.tolist()])
        short = n_documents < n_needed
        if short.any():
            smallest = np.where(short, n_documents, n_documents.max() + 1).argmin()
            others = f" ({short.sum()} classes have too few)" if short.sum() > 1 else ""
            n_test = n_needed[smallest] - self.n_per_class
            raise LabelError(
                f"Class {classes[smallest].item()!r} has {n_documents[smallest]} documents, "
                f"expected at least {n_needed[smallest]}: {self.n_per_class} to draw and {n_test} "
                f"to test on{others}. Draw fewer per class, or leave the class out."
            )
        if self.short == "take" and (n_documents < 2).all():
            raise LabelError(
                "No class has two documents, one to learn from and one to test on. Label more."
            )
        by_class = labels.documents[np.argsort(code, kind="stable")]
        return np.split(by_class, np.cumsum(n_documents)[:-1])

    def _sizes(self, n_documents: int, least: bool = False) -> tuple[int, int]:
        """Return how many documents of a class are drawn, and how many are (at least) tested on."""
        size, n = self.test_size, self.n_per_class
        if size is None:
            n_test = 1
        else:
            n_test = int(size) if isinstance(size, Integral) else max(1, round(size * n_documents))
        if self.short == "take":
            n_test = min(n_test, n_documents - 1)
            n = min(n, n_documents - n_test)
        return n, n_documents - n if size is None and n_test and not least else n_test

    def _validate(self) -> None:
        for name, least in (("n_per_class", 0), ("n_draws", 1), ("random_state", 0)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < least:
                why = ": draws of several sizes are nested by their seed" * (name == "random_state")
                raise ValueError(f"{name}={value!r}: expected a whole number from {least} on{why}.")
        size = self.test_size
        whole = isinstance(size, Integral) and size >= 1
        if not (size is None or whole or (isinstance(size, float) and 0 < size < 1)):
            raise ValueError(
                f"test_size={size!r}: expected a number of documents per class from 1 on, a share "
                "between 0 and 1, or None for all the rest."
            )
        if self.short not in ("raise", "take"):
            raise ValueError(f'short={self.short!r}: expected "raise" or "take".')


def few_labels(y: Any, train: Any) -> list[Any]:
    """Return the labels of the documents in `train`, and None for all others.

    For models that learn from unlabelled documents too: the others are their pool. `train` has
    the documents' numbers, or is a mask. Where documents have several labels, there are lists.
    """
    labels = read_labels(y)
    several = len(np.unique(labels.documents)) < len(labels.documents)
    kept = np.zeros(labels.n_documents, bool)
    kept[list(train)] = True
    few: list[Any] = [None] * labels.n_documents
    for i, label in zip(labels.documents.tolist(), labels.labels.tolist()):
        if kept[i]:
            few[i] = [*(few[i] or ()), label] if several else label
    return few


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LearningCurve:
    """Scores of some methods over numbers of training documents, made by `learning_curve`.

    A greater score is taken to be the better one. Where a method has a `metric` parameter, None
    stands for the first.

    Attributes
    ----------
    names : the methods
    sizes : training documents per class
    scores : for each metric, an array of methods × sizes × draws
        NaN at size 0 for methods without the pool, which have nothing to learn from there.
    fit_seconds, predict_seconds : arrays of methods × sizes × draws
    n_train, n_test : for each size, all the documents trained and tested on in one draw
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    scores: dict[str, np.ndarray]
    fit_seconds: np.ndarray
    predict_seconds: np.ndarray
    n_train: tuple[int, ...]
    n_test: tuple[int, ...]

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics."""
        return tuple(self.scores)

    @property
    def n_draws(self) -> int:
        """Number of draws for each size."""
        return self.fit_seconds.shape[2]

    def mean(self, metric: str | None = None) -> np.ndarray:
        """Return the mean over draws, methods × sizes."""
        return self._scores(metric).mean(axis=2)

    def std(self, metric: str | None = None) -> np.ndarray:
        """Return the standard deviation over draws (divided by their number: numpy's ddof=0)."""
        return self._scores(metric).std(axis=2)

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per metric, method and size: a table for pandas or a CSV file.

        ``setting`` is the size, ``draws`` the number of draws, ``std`` that of `std`.
        """
        return [
            {
                "method": name,
                "setting": size,
                "metric": metric,
                "mean": float(values.mean()),
                "std": float(values.std()),
                "draws": self.n_draws,
            }
            for metric, scores in self.scores.items()
            for name, by_size in zip(self.names, scores)
            for size, values in zip(self.sizes, by_size)
            if not np.isnan(values).any()
        ]

    def doubling(self, method: str, metric: str | None = None) -> tuple[float, float]:
        """Estimate what twice as many training documents would add: mean and std over draws.

        It is the slope between the two largest sizes, over the logarithm of the number of
        documents that were drawn. Curves flatten in the end, so it is rather too high than too low.
        """
        order = np.argsort(self.sizes)
        low, high = int(order[-2:][0]), int(order[-1])
        n_low, n_high = self.n_train[low], self.n_train[high]
        if not 0 < n_low < n_high:
            raise ValueError(
                f"The two largest sizes have {n_low} and {n_high} training documents: expected "
                "some, and then more."
            )
        scores = self._scores(metric)[_index(self.names, method, "method")]
        gains = (scores[high] - scores[low]) / np.log2(n_high / n_low)
        return float(gains.mean()), float(gains.std())

    def paired(
        self,
        a: str,
        b: str,
        size: int,
        metric: str | None = None,
        test_fraction: float | None = None,
    ) -> PairedTTest:
        """Test whether methods `a` and `b` differ at a size, draw by draw.

        Draws share documents, so their scores are not independent, and the variance of the mean
        difference is corrected (Nadeau and Bengio 2003). Their rule takes the share f of documents
        tested on, and was made for test sets smaller than training sets: with 7 documents of 1,000
        in each of ten draws it multiplies the variance by more than a thousand, and finds nothing.
        So f is taken as one half at most, unless given as `test_fraction`: a difference must then
        stand out from the spread of single draws. It is a guard against false alarms, not an exact
        level.
        """
        k = _index(self.sizes, size, "size")
        x, y = (self._scores(metric)[_index(self.names, name, "method")][k] for name in (a, b))
        if test_fraction is None:
            share = self.n_test[k] / (self.n_train[k] + self.n_test[k])
            test_fraction = min(share, _MAX_TEST_FRACTION)
        return paired_t_test(x, y, test_fraction=test_fraction)

    def table(self, format: str = "markdown", metric: str | None = None) -> str:
        """Return mean ± standard deviation, a row per method and a column per size.

        The best of a column is bold (in "text": has a star), and ≈ marks those that `paired`
        cannot tell from it.

        Parameters
        ----------
        format : {"markdown", "text"}
        metric : str or None
        """
        if format not in ("markdown", "text"):
            raise ValueError(f'format={format!r}: expected "markdown" or "text".')
        metric = self.metrics[0] if metric is None else metric
        bold = "**{}**" if format == "markdown" else "{} *"
        rows = [[metric_label(metric), *map(str, self.sizes)]]
        for i, name in enumerate(self.names):
            shown = name.replace("|", r"\|") if format == "markdown" else name
            rows.append([shown, *self._cells(i, metric, bold)])
        caption = self._caption(metric, "Bold" if format == "markdown" else "*")
        if format == "markdown":
            rows.insert(1, ["---"] * len(rows[0]))
            lines = [f"| {' | '.join(row)} |" for row in rows]
            return "\n".join([*lines, "", caption])
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, caption])

    def plot(
        self, ax: Any = None, metric: str | None = None, published: Any = None
    ) -> LearningCurveDisplay:
        """Draw the curves; see `leafwise.plots.LearningCurveDisplay`."""
        from leafwise.plots import LearningCurveDisplay

        return LearningCurveDisplay.from_curve(self, metric=metric, published=published, ax=ax)

    def __str__(self) -> str:
        return "\n\n".join(self.table("text", metric) for metric in self.metrics)

    def __repr__(self) -> str:
        return (
            f"<LearningCurve: {', '.join(self.names)}; {', '.join(self.metrics)} at "
            f"{', '.join(map(str, self.sizes))} documents per class, {self.n_draws} draws>"
        )

    def _scores(self, metric: str | None) -> np.ndarray:
        k = 0 if metric is None else _index(self.metrics, metric, "metric")
        return self.scores[self.metrics[k]]

    def _cells(self, method: int, metric: str, bold: str) -> Iterator[str]:
        means, stds = self.mean(metric), self.std(metric)
        for k, size in enumerate(self.sizes):
            cell = f"{means[method, k]:.3f}"
            if self.n_draws > 1:
                cell += f" ± {stds[method, k]:.3f}"
            best = int(np.nanargmax(means[:, k]))
            if np.isnan(means[method, k]):
                cell = "–"
            elif method == best and len(self.names) > 1:
                cell = bold.format(cell)
            elif method != best and self.n_draws > 1:
                test = self.paired(self.names[method], self.names[best], size, metric)
                cell += " ≈" * (test.symbol == "≈")
            yield cell

    def _caption(self, metric: str, best: str) -> str:
        several = f"mean ± standard deviation over {self.n_draws} draws"
        said = [f"{metric_label(metric)}, {several if self.n_draws > 1 else 'one draw'}, "]
        said.append("by training documents per class.")
        if len(self.names) > 1:
            said.append(f" {best}: the best.")
            if self.n_draws > 1:
                said.append(" ≈: not distinguishable from it (corrected paired t-test, p ≥ 0.05).")
        return "".join(said)


def metric_label(metric: str) -> str:
    """Return a metric's name as tables and figures have it: "micro F1" for "micro_f1"."""
    return re.sub(r"\bf1\b", "F1", metric.replace("_", " "))


def learning_curve(
    estimators: Mapping[str, Any],
    X: Any,
    y: Any,
    sizes: Sequence[int],
    n_draws: int = 10,
    *,
    metric: Metric | Sequence[Metric] = "accuracy",
    pool: bool | Collection[str] = False,
    test_size: float | None = None,
    short: str = "raise",
    random_state: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> LearningCurve:
    """Score classifiers trained on a few documents of each class, for several numbers of them.

    All are trained and tested on the same documents, those of `FewLabelSplit`.

    Parameters
    ----------
    estimators : dict of name to classifier
        Each is cloned for each fit, so none of them is changed.
    X : sparse matrix, array, or list of texts
    y : one label per document, or lists of labels
        As the classifiers predict them: for those with a taxonomy, paths. Documents without a
        label are not scored; only with `pool` are they used. A document of several labels is
        drawn by its first, and is right where the one best prediction is any of them; all of them
        are for the methods with the pool, the first for the others.
    sizes : training documents per class, in any order
        0, where no document has a label, is for methods with the pool alone.
    metric : str, callable, or list of them
        A key of `leafwise.metrics.scores`, or a function of (y_true, y_pred); greater is better.
        With several labels per document, "accuracy" or a function that gets lists of them.
    pool : bool, or names of methods
        Fit these methods on all documents, with the labels of those drawn and None elsewhere, and
        score on the rest. Without it, fit on those drawn alone.
    test_size, short, random_state : as in `FewLabelSplit`
    on_progress : callable or None
        Called with the number of fits done and of all there will be, after each.
    """
    if not isinstance(estimators, Mapping) or not estimators:
        raise ValueError(
            f"estimators={estimators!r}: expected a dict of at least one name and classifier, "
            'such as {"NB": NaiveBayes()}.'
        )
    names = tuple(map(str, estimators))
    pooled = _pooled(names, pool)
    metrics = _metrics(metric)
    n_documents = read_labels(y).n_documents
    rows = few_labels(y, range(n_documents))
    several = any(isinstance(row, list) for row in rows)
    by_class = [row and row[0] for row in rows] if several else y
    if several:
        metrics = {name: one or _hits_for(name) for name, one in metrics.items()}
    labels = _single_labels(by_class)
    splits = _splits(sizes, n_draws, test_size, short, random_state)
    if 0 in splits and not pooled:
        raise ValueError(
            "sizes has a 0, but no method is given the pool: there is nothing to learn from."
        )
    for split in splits.values():
        next(split.split(X, by_class))  # every size is checked before the first fit
    X = X.tocsr() if hasattr(X, "tocsr") else X  # once, rather than at each split
    shape = (len(names), len(splits), n_draws)
    scores = {name: np.full(shape, np.nan) for name in metrics}
    fit_seconds, predict_seconds = np.full(shape, np.nan), np.full(shape, np.nan)
    n_train, n_test = [], []
    n_fits, n_all = 0, n_draws * sum(len(names) if size else len(pooled) for size in splits)
    for k, (size, split) in enumerate(splits.items()):
        for draw, (train, test) in enumerate(split.split(X, by_class)):
            alone = take_rows(X, train), _labels_of(labels, train)
            whole = (X, few_labels(y, train)) if pooled else alone
            X_test, y_test = take_rows(X, test), _labels_of(labels, test)
            truth = [rows[i] for i in test.tolist()] if several else y_test
            for i, estimator in enumerate(estimators.values()):
                if not size and names[i] not in pooled:
                    continue
                model, at = clone(estimator), (i, k, draw)
                started = perf_counter()
                try:
                    with _few_are_wanted():
                        model.fit(*(whole if names[i] in pooled else alone))
                except Exception as error:
                    error.add_note(f"This was {names[i]!r}, draw {draw} of size {size}.")
                    raise
                fit_seconds[at] = perf_counter() - started
                if size:  # without labels, not every node that has some need be a class
                    check_classes(model, names[i], y_test)
                started = perf_counter()
                one = several and hasattr(model, "top_k")  # it may predict several, or none
                y_pred = model.top_k(X_test, 1)[0][:, 0] if one else model.predict(X_test)
                predict_seconds[at] = perf_counter() - started
                for name, value in _evaluate(metrics, truth, y_pred).items():
                    scores[name][at] = value
                n_fits += 1
                if on_progress is not None:
                    on_progress(n_fits, n_all)
        n_train.append(len(train))
        n_test.append(len(test))
    return LearningCurve(
        names=names,
        sizes=tuple(splits),
        scores=scores,
        fit_seconds=fit_seconds,
        predict_seconds=predict_seconds,
        n_train=tuple(n_train),
        n_test=tuple(n_test),
    )


@contextmanager
def _few_are_wanted() -> Iterator[None]:
    """Keep scikit-learn from warning that there are few documents of each class: there are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than")
        yield


def _index(among: Sequence[Any], wanted: Any, what: str) -> int:
    if wanted not in among:
        raise ValueError(
            f"No {what} of this curve is {wanted!r}. There are {', '.join(map(repr, among))}."
        )
    return among.index(wanted)


def _pooled(names: tuple[str, ...], pool: Any) -> set[str]:
    """Return the methods that are given all documents."""
    if isinstance(pool, bool):
        return set(names) if pool else set()
    for name in pool:
        _index(names, name, "method")
    return set(pool)


def _splits(sizes: Any, n_draws: int, *settings: Any) -> dict[int, FewLabelSplit]:
    listed = list(sizes) if np.ndim(sizes) == 1 else []
    if not listed or len(set(listed)) < len(listed):
        raise ValueError(
            f"sizes={sizes!r}: expected a list of numbers of documents per class, each once."
        )
    test_size, short, seed = settings
    return {
        size: FewLabelSplit(size, n_draws, test_size=test_size, short=short, random_state=seed)
        for size in (s.item() if isinstance(s, np.generic) else s for s in listed)
    }


def _metrics(metric: Any) -> dict[str, Callable[[Any, Any], float] | None]:
    """Return each metric's function under its name; None for those of `leafwise.metrics.scores`."""
    metrics: dict[str, Callable[[Any, Any], float] | None] = {}
    known = list(flat_scores(["a"], ["a"]))
    for one in [metric] if isinstance(metric, str) or callable(metric) else metric:
        name = getattr(one, "__name__", type(one).__name__) if callable(one) else one
        if not callable(one) and one not in known:
            near = difflib.get_close_matches(str(one), known, n=1)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            raise ValueError(
                f"metric={one!r}: expected a function of (y_true, y_pred), or one of "
                f"{', '.join(known)}.{hint}"
            )
        if name in metrics:
            raise ValueError(f'Two metrics are called "{name}". Give each a name of its own.')
        metrics[name] = one if callable(one) else None
    if not metrics:
        raise ValueError("metric is empty: expected a metric or a list of them.")
    return metrics


def _evaluate(
    metrics: Mapping[str, Callable[[Any, Any], float] | None], y_true: Any, y_pred: Any
) -> dict[str, float]:
    values = {}
    flat: dict[str, float] = {}
    if None in metrics.values():
        if -1 in y_true.tolist():  # a class here, as -1 and 1 are all there is; not a refusal
            flat = flat_scores(y_true.astype(str), np.asarray(y_pred).astype(str))
        else:
            flat = flat_scores(y_true, y_pred)
    for name, function in metrics.items():
        value = flat[name] if function is None else function(y_true, y_pred)
        if not np.ndim(value) == 0 or not np.isfinite(value):
            raise ValueError(f'Metric "{name}" returned {value!r}, expected a finite number.')
        values[name] = float(value)
    return values


def check_classes(model: Any, name: str, y: np.ndarray) -> None:
    """Refuse labels in a form that the model never predicts: all scores would be 0."""
    classes = getattr(model, "classes_", None)
    if classes is None:
        return
    known = set(np.asarray(classes).tolist())
    for label in np.unique(y).tolist():
        if label not in known:
            raise LabelError(
                f"{name!r} never predicts {label!r}; its classes are such as "
                f"{np.asarray(classes)[0].item()!r}. Give labels as it predicts them: with a "
                "taxonomy, paths (tree.paths[tree.index(label)])."
            )


def _single_labels(y: Any) -> Occurrences:
    labels = read_labels(y)
    n_labels = np.bincount(labels.documents, minlength=labels.n_documents)
    if (n_labels > 1).any():
        i = int((n_labels > 1).argmax())
        raise LabelError(
            f"Document {i} has {n_labels[i]} labels, expected one at most: documents are drawn "
            "class by class. Keep one label of each."
        )
    return labels


def _hits_for(name: str) -> Callable[[Any, Any], float]:
    """Return the accuracy of one prediction for several labels, which is no flat score."""
    if name != "accuracy":
        raise ValueError(
            f'metric="{name}": some documents have several labels, so expected "accuracy", or a '
            "function of lists of labels and predictions."
        )
    return lambda y_true, y_pred: float(np.mean([p in row for row, p in zip(y_true, y_pred)]))


def _labels_of(labels: Occurrences, documents: np.ndarray) -> np.ndarray:
    return labels.labels[np.searchsorted(labels.documents, documents)]


def take_rows(X: Any, rows: np.ndarray) -> Any:
    """Return some documents of a matrix, a data frame or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "tocsr"):
        return X.tocsr()[rows]
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows.tolist()]
