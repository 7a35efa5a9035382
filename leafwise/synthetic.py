"""Documents drawn from a hierarchical model whose parameters are known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from leafwise.exceptions import CorpusError
from leafwise.taxonomy import Taxonomy

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SyntheticCorpus:
    """Documents drawn by `make_corpus`, with the parameters they were drawn from.

    Attributes
    ----------
    X : word counts, one row per document
    y : the node of each document
    labels : the same as paths
    taxonomy : the tree
    p_w_given_node : word distribution of each node, one row per node
    level_weights : for each node, how much each level of its path (the root is level 0) gives to
        the words of its documents
    class_prior : probability of each node
    """

    X: csr_matrix
    y: np.ndarray
    labels: list[str]
    taxonomy: Taxonomy
    p_w_given_node: np.ndarray
    level_weights: np.ndarray
    class_prior: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    @property
    def p_w_given_class(self) -> np.ndarray:
        """Word distribution of the documents at each node (T eq. 1), one row per node."""
        return _mix_levels(self.taxonomy, self.p_w_given_node, self.level_weights)

    @property
    def words(self) -> list[str]:
        """A made-up word for each column of `X`."""
        # Each ends in a vowel other than e and i, so stemmers leave it as it is.
        syllables = [c + v for c in "bdfgklmnprstvz" for v in "aou"]
        n_words = self.X.shape[1]
        length = 2
        while len(syllables) ** length < n_words:
            length += 1
        digits = np.unravel_index(np.arange(n_words), (len(syllables),) * length)
        return ["".join(syllables[d] for d in word) for word in zip(*digits)]

    def texts(self) -> list[str]:
        """The documents as made-up words; counting them gives `X` back."""
        words = np.array(self.words, dtype=object)
        tokens = np.repeat(words[self.X.indices], self.X.data)
        ends = np.concatenate([[0], np.cumsum(self.X.data)])[self.X.indptr]
        return [" ".join(tokens[a:b]) for a, b in pairwise(ends)]

    def __repr__(self) -> str:
        n_documents, n_words = self.X.shape
        return (
            f"<SyntheticCorpus: {n_documents:,} documents, {n_words:,} words, "
            f"{len(self.taxonomy):,} nodes>"
        )


def make_corpus(
    taxonomy: Taxonomy | None = None,
    n_documents: int = 1000,
    n_words: int = 1000,
    doc_length: int | ArrayLike = 50,
    *,
    model: str = "mixture",
    concentration: float = 100.0,
    level_weights: ArrayLike | None = None,
    class_prior: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = None,
) -> SyntheticCorpus:
    """Draw documents from a hierarchical model whose parameters are known.

    Parameters
    ----------
    taxonomy : the tree; None for three nodes with three leaves each
    n_documents, n_words : how many documents and how large a vocabulary
    doc_length : words per document, one number or one for each document
    model : "mixture" (T eq. 1): each node draws its own word distribution, and each word of a
        document comes from a node on the path from the root to the document's. "dirichlet" (V
        section 2): each node draws its word distribution around its parent's, and each word of a
        document comes from the document's own node.
    concentration : of the Dirichlet that nodes are drawn from (V's σ); a large one makes them
        more alike. Its mean is the uniform distribution ("mixture") or the parent's ("dirichlet").
    level_weights : for "mixture", the weight of each level from the root down; a path that ends
        early uses the first ones, scaled to sum to 1. None for equal weights.
    class_prior : probability of each node; None for equal ones over the leaves
    random_state : a seed or a generator; the same seed gives the same corpus to the last bit
    """
    from scipy.sparse import csr_matrix

    if model not in ("mixture", "dirichlet"):
        raise CorpusError(f"model must be 'mixture' or 'dirichlet', not {model!r}.")
    rng = np.random.default_rng(random_state)
    tree = taxonomy
    if tree is None:
        tree = Taxonomy.from_paths(f"{name}/{name}{i}" for name in "abc" for i in "123")
    if n_documents < 0 or n_words < 1 or not 0 < concentration < np.inf:
        raise CorpusError(
            "A corpus needs n_documents >= 0, n_words >= 1 and a positive concentration; got "
            f"{n_documents}, {n_words} and {concentration}."
        )
    lengths = np.asarray(doc_length)
    if lengths.ndim == 0:
        lengths = np.full(n_documents, lengths)
    if lengths.shape != (n_documents,) or lengths.dtype.kind not in "iu" or (lengths < 0).any():
        raise CorpusError(
            "doc_length is one whole number, or one for each document, none of them negative; "
            f"got shape {lengths.shape} and type {lengths.dtype} for {n_documents} documents."
        )
    weights = _level_weights(tree, model, level_weights)
    prior = _class_prior(tree, class_prior)

    p_w_given_node = np.empty((len(tree), n_words))
    for i, parent in enumerate(tree.parent):
        if model == "mixture":
            mean = np.full(n_words, 1 / n_words)
        elif parent < 0:
            p_w_given_node[i] = _dirichlet(rng, np.ones(n_words))  # V section 2: Dir(1, ..., 1)
            continue
        else:
            mean = p_w_given_node[parent]
        p_w_given_node[i] = _dirichlet(rng, concentration * mean)

    y = rng.choice(len(tree), size=n_documents, p=prior)
    cdf = np.cumsum(_mix_levels(tree, p_w_given_node, weights), axis=1)
    cdf /= cdf[:, -1:]
    blocks = list(_count_blocks(rng, cdf, y, lengths.astype(np.int64)))
    indptr = np.concatenate([[0], np.cumsum(_concat([b[0] for b in blocks], np.int64))])
    indices = _concat([b[1] for b in blocks], np.int32)
    counts = _concat([b[2] for b in blocks], np.int32)
    X = csr_matrix((counts, indices, indptr), shape=(n_documents, n_words))
    X.has_sorted_indices = X.has_canonical_format = True
    return SyntheticCorpus(
        X=X,
        y=y,
        labels=[tree.paths[i] for i in y],
        taxonomy=tree,
        p_w_given_node=p_w_given_node,
        level_weights=weights,
        class_prior=prior,
    )


def _count_blocks(
    rng: np.random.Generator, cdf: np.ndarray, y: np.ndarray, lengths: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Draw the words of some documents at a time: (distinct words per document, words, counts)."""
    tokens_per_block = 4_000_000
    n_words = cdf.shape[1]
    ends = np.cumsum(lengths)
    first = 0
    while first < len(y):
        done = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + tokens_per_block, side="right")))
        order = first + np.argsort(y[first:last], kind="stable")
        nodes, starts = np.unique(y[order], return_index=True)
        keys = []  # document * n_words + word, one per token
        for node, documents in zip(nodes, np.split(order, starts[1:])):
            n = lengths[documents]
            words = np.searchsorted(cdf[node], rng.random(int(n.sum())), side="right")
            keys.append(np.repeat((documents - first) * n_words, n) + words)
        key = np.sort(np.concatenate(keys))
        at = np.flatnonzero(np.diff(key, prepend=-1))  # where a new pair begins
        counts = np.diff(at, append=len(key))
        document, word = np.divmod(key[at], n_words)
        yield (
            np.bincount(document, minlength=last - first),
            word.astype(np.int32),
            counts.astype(np.int32),
        )
        first = last


def _concat(arrays: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


def _dirichlet(rng: np.random.Generator, alpha: np.ndarray) -> np.ndarray:
    """One draw, exact also where some of `alpha` are tiny or zero."""
    # Gamma(a) is Gamma(a + 1) * U^(1 / a); in logarithms nothing underflows before the scaling.
    with np.errstate(divide="ignore", over="ignore"):
        surplus = rng.standard_exponential(len(alpha)) / alpha
    log_gamma = np.log(rng.standard_gamma(alpha + 1)) - surplus
    p = np.exp(log_gamma - log_gamma.max())
    return p / p.sum()


def _level_weights(tree: Taxonomy, model: str, given: ArrayLike | None) -> np.ndarray:
    """P(level of the path | node), a row per node."""
    n_levels = int(tree.depth.max()) + 1
    levels = np.arange(n_levels)
    if model == "dirichlet":
        if given is not None:
            raise CorpusError('level_weights belong to model="mixture"; leave them out.')
        return (levels == tree.depth[:, None]).astype(float)
    weights = np.ones(n_levels) if given is None else np.asarray(given, dtype=float)
    if weights.shape != (n_levels,) or not (np.isfinite(weights) & (weights > 0)).all():
        raise CorpusError(
            f"level_weights has one positive number for each of the tree's {n_levels} levels, root "
            f"first; got {weights.tolist()}."
        )
    on_path = np.where(levels <= tree.depth[:, None], weights, 0.0)
    return on_path / on_path.sum(axis=1, keepdims=True)


def _class_prior(tree: Taxonomy, given: ArrayLike | None) -> np.ndarray:
    if given is None:
        prior = np.zeros(len(tree))
        prior[tree.leaves] = 1 / len(tree.leaves)
        return prior
    prior = np.asarray(given, dtype=float)
    if prior.shape != (len(tree),) or not (prior >= 0).all() or not np.isclose(prior.sum(), 1):
        raise CorpusError(
            f"class_prior has one probability for each of the tree's {len(tree)} nodes, in the "
            f"order of taxonomy.paths, and they sum to 1; got shape {prior.shape} and sum "
            f"{prior.sum():.6g}."
        )
    return prior


def _mix_levels(tree: Taxonomy, p_w_given_node: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """P(w | c) = sum over v on the path of c of P(v | c) P(w | v)."""  # T eq. 1
    mixed = np.empty_like(p_w_given_node)
    for i in range(len(tree)):
        path = [*tree.ancestors(i)[::-1], i]
        mixed[i] = weights[i, : len(path)] @ p_w_given_node[path]
    return mixed
