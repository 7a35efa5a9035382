"""Co-occurrences of words and documents under a tree: the EM of G section 4, and how classes split.

A class α is a leaf, a topic ν any node on its path. Word j occurs in document i with

    P(i, j) = Σ_α P(α) P(i | α) Σ_ν P(ν | α) P(j | ν)      (G eq. 1).

What depends on topics is summed over them before documents are gone through, so an EM step costs
occurrences × classes, however deep the tree is.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numba
import numpy as np
from scipy import sparse

from leafwise.models._blocks import Blocks, PerDocument
from leafwise.models._em import Rows, Sharing, e_step, parts_of, run_em
from leafwise.models._path_mixture import to_shares
from leafwise.threads import in_threads

_TINY = 1e-300
HELD_OUT = 0.1  # of the occurrences, to decide on the number of leaves
_WORDS = 1 << 13  # words at a time, where topics are gone through
_NEGLIGIBLE = 1e-6  # share of an occurrence that is left out when a class is looked at alone
_POWER_STEPS = 50  # to find the direction in which a class comes apart
_START = 0.3  # how far copies are moved along it, in standard deviations of log P(j | ν)
_FARTHEST = 3.0  # standard deviations; a rare word may be many more from the mean


class Tree(NamedTuple):
    """Nodes in the order in which they came; the first is the root."""

    parent: tuple[int, ...]
    leaves: tuple[int, ...]

    def path(self, leaf: int) -> list[int]:
        """Return the leaf and the nodes above it, the root last."""
        line = [leaf]
        while self.parent[line[-1]] >= 0:
            line.append(self.parent[line[-1]])
        return line


class Parameters(NamedTuple):
    """What G eq. 1 is made of.

    Attributes
    ----------
    joint : documents × leaves, P(α) P(i | α)
    levels : for each leaf, P(ν | α) along its path, its own first
    topics : nodes × words, P(j | ν)
    """

    joint: np.ndarray
    levels: tuple[np.ndarray, ...]
    topics: np.ndarray


class _Lines(NamedTuple):
    """The paths of all classes, one after the other.

    Attributes
    ----------
    starts : where each class's begins, and where the last one ends
    path, level : the topics on them, and P(ν | α)
    """

    starts: np.ndarray
    path: np.ndarray
    level: np.ndarray

    @classmethod
    def of(cls, paths: list[list[int]], p: Parameters) -> _Lines:
        starts = np.append(0, np.cumsum([len(path) for path in paths]))
        return cls(starts, np.concatenate(paths), np.concatenate(p.levels))


class Statistics(NamedTuple):
    """Expected counts by document and leaf, and by word and leaf; and how they were shared."""

    by_document: np.ndarray
    by_word: np.ndarray
    sharing: Sharing


class Split(NamedTuple):
    """Two copies of a class that came apart, or did not.

    Attributes
    ----------
    share : of each document's part in the class, what the first copy has
    topics : 2 × words
    apart : from 0, copies alike, to 1: no document is in both
    n_documents : how many documents the smaller has, soft
    """

    share: np.ndarray
    topics: np.ndarray
    apart: float
    n_documents: float

    @property
    def worth(self) -> float:
        """How much is gained by keeping it: larger copies, further apart, come first."""
        return self.apart * self.n_documents


class Cooccurrences:
    """Documents, and the EM steps of a tree of classes over them.

    Parameters
    ----------
    blocks : the documents: each block is a CSR matrix of counts, documents × words
    paths : whether a class draws words from all topics on its path, or from its own alone (PLSA)
    whole : whether all words of a document are of one class (HACM)
    both : whether topics are tempered as classes are (G eq. 5-6), or classes alone
    """

    def __init__(self, blocks: Blocks, paths: bool, whole: bool, both: bool):
        self.blocks = blocks
        self.paths, self.whole, self.both = paths, whole, both
        self.lengths, self.word_totals = blocks.total(_totals)
        self.total = self.lengths.sum()

    def one_class(self) -> tuple[Tree, Parameters]:
        """Return where growth begins: one class, which is the root."""
        p_word = self.word_totals[None] / self.total
        joint = self.lengths[:, None] / self.total
        return Tree((-1,), (0,)), Parameters(joint, (np.ones(1),), p_word)

    def settle(
        self,
        tree: Tree,
        parameters: Parameters,
        beta: float,
        *,
        max_iter: int,
        tol: float,
        variant: str = "em",
        seed: int = 0,
    ) -> tuple[Parameters, list[float]]:
        """Run EM; return the parameters and the bound before each step."""
        paths = self.lines(tree)
        fitted = run_em(
            lambda p, sharing: self.expect(p, paths, sharing),
            lambda statistics, p: self.maximise(statistics, p, paths),
            parameters,
            max_iter=max_iter,
            tol=tol,
            beta=beta,
            variant=variant,
            seed=seed,
        )
        return fitted.parameters, fitted.bounds

    def lines(self, tree: Tree) -> list[list[int]]:
        """Return the topics that each leaf draws from, its own first."""
        return [tree.path(leaf) if self.paths else [leaf] for leaf in tree.leaves]

    def expect(
        self, p: Parameters, paths: list[list[int]], sharing: Sharing
    ) -> tuple[Statistics, float]:
        """Share every occurrence among the classes (G eq. 5), after summing over topics."""
        beta = sharing.beta
        drawn = self._all_drawn(p, paths, sharing)
        if self.whole:
            u = np.random.default_rng(sharing.seed).random(self.blocks.n_documents)  # of "sem"
            by_document, by_word, bound = self.blocks.total(
                _share_documents, drawn, p.joint.sum(axis=0), sharing, rows=[u]
            )
            by_document = by_document * self.lengths[:, None]
        else:
            one = Sharing(1.0, sharing.variant, sharing.seed)  # both factors have the power already
            by_document, by_word, bound = self.blocks.total(
                _share_words, drawn, one, rows=[p.joint**beta]
            )
        return Statistics(by_document, by_word, sharing), bound / beta

    def maximise(self, s: Statistics, p: Parameters, paths: list[list[int]]) -> Parameters:
        """Take shares of the expected counts (G eq. 7-8)."""
        topics = np.zeros_like(p.topics)
        lines, raised = self._raised(p, paths, s.sharing.beta)
        if s.sharing.variant == "sem":
            levels = _deal_levels(s, lines, raised, topics)
        else:

            def work(words: tuple[int, int]) -> np.ndarray:
                found, whole = np.zeros(len(lines.path)), s.sharing.variant == "cem"
                _share_topics(*words, *lines, raised, s.by_word, whole, topics, found)
                return found

            levels = np.sum(in_threads(work, self._slices()), axis=0)
        mass = topics.sum(axis=1, keepdims=True)
        unused = ~(mass > 0).ravel()
        topics /= np.where(mass > 0, mass, 1.0)
        topics[unused] = p.topics[unused]
        shares = [to_shares(one[None])[0] for one in np.split(levels, lines.starts[1:-1])]
        return Parameters(s.by_document / self.total, tuple(shares), topics)

    def _all_drawn(self, p: Parameters, paths: list[list[int]], sharing: Sharing) -> np.ndarray:
        """Return P(j | α), words × classes, to the power β."""
        drawn = np.empty((len(self.word_totals), len(paths)))
        lines, raised = self._raised(p, paths, sharing.beta)

        def work(words: tuple[int, int]) -> None:
            _draw_words(*words, *lines, raised, sharing.variant == "cem", drawn)
            if not self.both:
                drawn[slice(*words)] **= sharing.beta

        in_threads(work, self._slices())
        return drawn

    def _raised(
        self, p: Parameters, paths: list[list[int]], beta: float
    ) -> tuple[_Lines, np.ndarray]:
        """Return P(ν | α) and P(j | ν), to the power β where topics have it too."""
        lines = _Lines.of(paths, p)
        if not self.both or beta == 1.0:
            return lines, p.topics
        raised = np.empty_like(p.topics)

        def work(words: tuple[int, int]) -> None:
            np.power(p.topics[:, slice(*words)], beta, out=raised[:, slice(*words)])

        in_threads(work, self._slices())
        return lines._replace(level=lines.level**beta), raised

    def _slices(self) -> list[tuple[int, int]]:
        n = len(self.word_totals)
        return list(pairwise([*range(0, n, _WORDS), n]))

    # ---- classes that come apart ----

    def critical_beta(self) -> float:
        """Return the β above which the copies of the only class come apart; see `split`."""
        return 0.0 if self.whole else 1 / (1 + leading_direction(self.blocks)[1])

    def part(self, tree: Tree, p: Parameters, leaf: int, beta: float) -> Blocks:
        """Return what of the counts is in a class."""
        sharing, k = Sharing(beta), tree.leaves.index(leaf)
        drawn = self._all_drawn(p, self.lines(tree), sharing)
        if self.whole:
            return self.blocks.derive(_part_of_documents, drawn, p.joint.sum(axis=0), sharing, k)
        return self.blocks.derive(_part_of_words, drawn, k, rows=[p.joint**beta])

    def split(self, part: Blocks, beta: float, max_iter: int) -> Split:
        """Duplicate a class, move the copies apart a little, and run EM over its part.

        They are moved along the direction in which they part fastest. With a_i and b_j for the
        logarithms of P(i | α) and P(j | ν) of one copy over the other's, an EM step near a = b = 0
        gives a' = β (a + E[b | i]) and b' = β (b + E[a | j]): what grows is the first pair of
        directions of correspondence analysis, with correlation σ, by β (1 + σ) each step. So
        copies come apart where β > 1 / (1 + σ), and not below.
        """
        lengths, n_entries = part.total(_entries)
        share, topics = np.full(len(lengths), 0.5), np.zeros((2, len(n_entries)))
        documents, words = np.flatnonzero(lengths), np.flatnonzero(n_entries)
        part = part.derive(_only, words, rows=[lengths > 0]).sized(part.count(lengths > 0))
        if n_entries.sum() <= part.few:
            part = part.together()
        direction, sigma = leading_direction(part)
        if sigma == 0 or (not self.whole and beta * (1 + sigma) <= 1):
            return Split(share, topics, 0.0, 0.0)
        alone = Cooccurrences(part, False, self.whole, True)
        moved = _START * np.clip(direction, -_FARTHEST, _FARTHEST)
        near = to_shares(alone.word_totals * np.exp([moved, -moved]))
        joint = np.repeat(alone.lengths[:, None] / alone.total / 2, 2, axis=1)
        start = Parameters(joint, (np.ones(1), np.ones(1)), near)
        found, _ = alone.settle(Tree((-1, -1), (0, 1)), start, beta, max_iter=max_iter, tol=0.0)
        topics[:, words] = found.topics
        first, both = found.joint[:, 0], found.joint.sum(axis=1)
        share[documents] = np.divide(first, both, out=np.full(len(both), 0.5), where=both > 0)
        apart = np.abs(2 * first - both).sum() / max(both.sum(), _TINY)
        of_class = both * alone.total / self.lengths[documents]
        first_of_class = share[documents] * of_class
        n = float(min(first_of_class.sum(), (of_class - first_of_class).sum()))
        return Split(share, topics, float(apart), n)


def put_in(
    tree: Tree, p: Parameters, leaf: int, split: Split, up: float
) -> tuple[Tree, Parameters]:
    """Put two classes in the place of one, whose topic stays above them with `up` of its weight.

    With `up` 0 they draw from their own topics alone.
    """
    k, n = tree.leaves.index(leaf), len(tree.parent)
    grown = Tree((*tree.parent, leaf, leaf), (*tree.leaves[:k], n, n + 1, *tree.leaves[k + 1 :]))
    column = p.joint[:, k]
    joint = np.column_stack(
        [p.joint[:, :k], column * split.share, column * (1 - split.share), p.joint[:, k + 1 :]]
    )
    own, *above = p.levels[k].tolist()
    line = np.array([own * (1 - up), own * up, *above]) if up else np.ones(1)
    levels = (*p.levels[:k], line, line, *p.levels[k + 1 :])
    return grown, Parameters(joint, levels, np.vstack([p.topics, split.topics]))


def tree_of_merges(merged: np.ndarray) -> tuple[Tree, list[int]]:
    """Return the tree of classes put together two by two, and the class that each leaf is.

    `merged` is as SciPy's `linkage` has it. The larger child of a node comes first.
    """
    n_classes = len(merged) + 1
    size = np.append(np.ones(n_classes), merged[:, 3])
    parent, leaves, classes = [-1], [], []
    todo = [(2 * n_classes - 2, 0)]
    for one, number in todo:
        if one < n_classes:
            leaves.append(number)
            classes.append(one)
            continue
        pair = merged[one - n_classes, :2].astype(int).tolist()
        for child in sorted(pair, key=lambda child: (-size[child], child)):
            todo.append((child, len(parent)))
            parent.append(number)
    return Tree(tuple(parent), tuple(leaves)), classes


def hang(tree: Tree, classes: Any, joint: np.ndarray, words: np.ndarray) -> Parameters:
    """Return parameters to begin with on a tree of classes that are there already.

    A node's topic is what the classes below it have in common, the mean of their words, and each
    topic on a path has the same weight.
    """
    topics = np.zeros((len(tree.parent), words.shape[1]))
    mass = joint.sum(axis=0)
    for leaf, k in zip(tree.leaves, classes):
        topics[tree.path(leaf)] += mass[k] * words[k]
    lines = [tree.path(leaf) for leaf in tree.leaves]
    levels = tuple(np.full(len(line), 1 / len(line)) for line in lines)
    return Parameters(joint[:, classes], levels, to_shares(topics))


def hold_out(X: sparse.csr_matrix, seed: int) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Take a tenth of the occurrences away: each is drawn on its own."""
    rng = np.random.default_rng(seed)
    whole = np.floor(X.data).astype(np.int64)
    taken = rng.binomial(whole, HELD_OUT).astype(np.float64)
    kept, rest = X.copy(), X.copy()
    kept.data, rest.data = X.data - taken, taken
    for part in (kept, rest):
        part.eliminate_zeros()
    return kept, rest


def leading_direction(blocks: Blocks) -> tuple[np.ndarray, float]:
    """Return the first direction of correspondence analysis, by column, and its correlation.

    The direction has mean 0 and variance 1 under the columns' shares.
    """
    by_row, by_column = blocks.total(_totals)
    total = by_row.sum()
    if total <= 0:
        return np.zeros(len(by_column)), 0.0
    one_over_row, one_over_column = (
        np.divide(1, by, out=np.zeros(len(by)), where=by > 0) for by in (by_row, by_column)
    )
    share = by_column / total
    b = np.random.default_rng(0).standard_normal(len(share))  # any that is not in a corner
    sigma = 0.0
    for _ in range(_POWER_STEPS):
        b -= _mean(share, b)
        size = np.sqrt(_mean(share, b**2))
        if size < 1e-12:
            return np.zeros(len(share)), 0.0
        b = one_over_column * blocks.total(_there_and_back, b / size, rows=[one_over_row])
        sigma = np.sqrt(np.sqrt(_mean(share, b**2)))
    b -= _mean(share, b)
    size = np.sqrt(_mean(share, b**2))
    return (b / size if size > 1e-12 else np.zeros_like(b)), float(min(sigma, 1.0))


def _mean(share: np.ndarray, values: np.ndarray) -> float:
    """Return Σ share · value, not by BLAS (`threads.py`)."""
    return float((share * values).sum())


# ---- what is asked of blocks, which are documents × words ----


def _totals(X: sparse.csr_matrix) -> tuple[PerDocument, np.ndarray]:
    by_document, by_word = (np.asarray(X.sum(axis=axis), np.float64).ravel() for axis in (1, 0))
    return PerDocument(by_document), by_word


def _entries(X: sparse.csr_matrix) -> tuple[PerDocument, np.ndarray]:
    return PerDocument(np.diff(X.indptr)), np.bincount(X.indices, minlength=X.shape[1])


def _only(X: sparse.csr_matrix, words: np.ndarray, there: np.ndarray) -> sparse.csr_matrix:
    return X[np.flatnonzero(there)][:, words]


def _there_and_back(X: sparse.csr_matrix, b: np.ndarray, one_over_row: np.ndarray) -> np.ndarray:
    """Return Xᵀ (X b / rows), in one pass over the counts."""
    rows = Rows.of(X)

    def work(part: tuple[int, int]) -> np.ndarray:
        back = np.zeros(X.shape[1])
        _add_there_and_back(*part, *rows, b, one_over_row, back)
        return back

    found = in_threads(work, parts_of(rows.indptr))
    return sum(found[1:], start=found[0]) if found else np.zeros(X.shape[1])


def _share_words(
    X: sparse.csr_matrix, drawn: np.ndarray, sharing: Sharing, joint: np.ndarray
) -> tuple[PerDocument, np.ndarray, float]:
    """Share every occurrence among the classes."""
    expected, bound = e_step(Rows.of(X), drawn, joint, sharing, items="shared")
    assert expected.by_item is not None
    return PerDocument(expected.by_row), expected.by_item, bound


def _share_documents(
    X: sparse.csr_matrix, drawn: np.ndarray, p_class: np.ndarray, sharing: Sharing, u: np.ndarray
) -> tuple[PerDocument, np.ndarray, float]:
    """Share whole documents; `u` are random numbers, for "sem"."""
    shares, bound = _classes_of(X, drawn, p_class, sharing)
    if sharing.variant == "sem":
        drawn_class = (shares.cumsum(axis=1) < u[:, None]).sum(axis=1)
        shares = np.eye(shares.shape[1])[drawn_class.clip(max=shares.shape[1] - 1)]
    return PerDocument(shares), np.asarray(X.T @ shares, dtype=np.float64), bound


def _classes_of(
    X: sparse.csr_matrix, drawn: np.ndarray, p_class: np.ndarray, sharing: Sharing
) -> tuple[np.ndarray, float]:
    """Return P(α | i) of documents by all of their words, to the power β, and the bound."""
    scores = X @ np.log(np.maximum(drawn, _TINY))
    scores += sharing.beta * np.log(np.maximum(p_class, _TINY))
    best = scores.max(axis=1, keepdims=True)
    shares = np.exp(scores - best)
    total = shares.sum(axis=1, keepdims=True)
    shares /= total
    if sharing.variant != "cem":
        return shares, float((best + np.log(total)).sum())
    shares = (shares == shares.max(axis=1, keepdims=True)).astype(np.float64)
    return shares / shares.sum(axis=1, keepdims=True), float(best.sum())


def _part_of_documents(
    X: sparse.csr_matrix, drawn: np.ndarray, p_class: np.ndarray, sharing: Sharing, k: int
) -> sparse.csr_matrix:
    shares = _classes_of(X, drawn, p_class, sharing)[0][:, k]
    return _with_data(X, np.repeat(shares, np.diff(X.indptr)) * X.data)


def _part_of_words(
    X: sparse.csr_matrix, drawn: np.ndarray, k: int, joint: np.ndarray
) -> sparse.csr_matrix:
    data = np.empty(X.nnz)
    _of_class(*Rows.of(X), drawn, joint, k, data)
    return _with_data(X, data)


def _with_data(X: sparse.csr_matrix, data: np.ndarray) -> sparse.csr_matrix:
    data[data < _NEGLIGIBLE * X.data] = 0.0
    part = sparse.csr_matrix((data, X.indices.copy(), X.indptr.copy()), X.shape)
    part.eliminate_zeros()
    return part


def _deal_levels(s: Statistics, lines: _Lines, topics: np.ndarray, dealt: np.ndarray) -> np.ndarray:
    """Deal what classes have of words among their topics at random, in proportion (G section 7).

    Adds to the topics' counts, and returns those of the levels.
    """
    levels = np.zeros(len(lines.path))
    for k, (start, end) in enumerate(pairwise(lines.starts.tolist())):
        path = lines.path[start:end]
        parts = lines.level[start:end, None] * topics[path]
        parts[0, ~parts.any(axis=0)] = 1.0
        n = np.ceil(s.by_word[:, k]).astype(np.int64)
        rng = np.random.default_rng([s.sharing.seed, k])
        drawn = rng.multinomial(n, (parts / parts.sum(axis=0)).T).T
        drawn = s.by_word[:, k] * (drawn / np.maximum(n, 1))
        dealt[path] += drawn
        levels[start:end] = drawn.sum(axis=1)
    return levels


@numba.njit(nogil=True, cache=True)
def _draw_words(
    first, last, starts, path, level, topics, best, drawn
):  # pragma: no cover - compiled
    """Sum over the topics of each class, or take the largest part."""
    for j in range(first, last):
        for k in range(drawn.shape[1]):
            total = 0.0
            for i in range(starts[k], starts[k + 1]):
                part = level[i] * topics[path[i], j]
                total = max(total, part) if best else total + part
            drawn[j, k] = total


@numba.njit(nogil=True, cache=True)
def _share_topics(
    first, last, starts, path, level, topics, by_word, whole, shared, levels
):  # pragma: no cover - compiled
    """Share what a class has of a word among its topics (G eq. 6), or give it to the likeliest."""
    parts = np.empty(len(level))
    for j in range(first, last):
        for k in range(by_word.shape[1]):
            total, best = 0.0, starts[k]
            for i in range(starts[k], starts[k + 1]):
                parts[i] = level[i] * topics[path[i], j]
                total += parts[i]
                if parts[i] > parts[best]:
                    best = i
            if whole:
                shared[path[best], j] += by_word[j, k]
                levels[best] += by_word[j, k]
            elif total > 0.0:
                scale = by_word[j, k] / total
                for i in range(starts[k], starts[k + 1]):
                    shared[path[i], j] += parts[i] * scale
                    levels[i] += parts[i] * scale


@numba.njit(nogil=True, cache=True)
def _add_there_and_back(
    first, last, indptr, item, mass, b, one_over_row, back
):  # pragma: no cover - compiled
    for r in range(first, last):
        there = 0.0
        for e in range(indptr[r], indptr[r + 1]):
            there += mass[e] * b[item[e]]
        there *= one_over_row[r]
        for e in range(indptr[r], indptr[r + 1]):
            back[item[e]] += there * mass[e]


@numba.njit(nogil=True, cache=True)
def _of_class(indptr, item, mass, drawn, weights, k, out):  # pragma: no cover - compiled
    for r in range(len(indptr) - 1):
        for e in range(indptr[r], indptr[r + 1]):
            total = 0.0
            for c in range(drawn.shape[1]):
                total += weights[r, c] * drawn[item[e], c]
            share = weights[r, k] * drawn[item[e], k]
            out[e] = mass[e] * share / total if total > 0.0 else 0.0
