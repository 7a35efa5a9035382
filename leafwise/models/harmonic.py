"""Harmonic functions: labels spread from document to document over a graph of neighbours."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted

from leafwise.exceptions import LabelError
from leafwise.labels import Classes, of_no_class
from leafwise.models._blocks import Blocks
from leafwise.models._harmonic import (
    BranchMasses,
    ClassMasses,
    Harmonic,
    estimated_proportions,
    harmonic,
    raised,
)
from leafwise.models._similar import SimilarityClassifier
from leafwise.models.graph import symmetrize
from leafwise.taxonomy import Taxonomy

_HIGHEST = 100  # power
_NEARLY = 1e-6  # what a sum of probabilities may be off by


class HarmonicClassifier(SimilarityClassifier):
    """Harmonic functions: semi-supervised nearest neighbours (E 4.3, Zhu et al. 2003).

    Documents are neighbours if one is among the `k` most similar to the other. Labelled documents,
    the seeds, keep their labels; y of every other is the mean of its neighbours', weighted by
    similarity: y_c(d) is the probability that a random walk from d ends at a seed of class c.
    Class mass normalisation (E eq. 17) then decides,

        z_c(d) = r_c y_c(d) / Σ_U y_c - (1 - r_c) (1 - y_c(d)) / Σ_U (1 - y_c),

    with the proportion r_c of class c, and sums over the documents that are not seeds. The class
    of the largest z is predicted; of several labels, every one with z >= 0.

    All documents are given to `fit`, and those without a label are classified there:
    `transduction_` has the result. `predict` is for documents that come later. Their y is the mean
    of their nearest neighbours' in the pool.

    Probabilities are what z has above the largest z that a class with y = 0 can have, scaled to
    sum to 1, so they have the order of z. With few labels they are nearly the same for all classes,
    however often the largest is right: take them for a ranking.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    k : int
        Neighbours of each document.
    similarity : {"cosine", "kl", "lm", "embedding", "precomputed"}
        What `X` is and how documents are compared; see `NeighborIndex`. All but the last two take
        word counts.
    mu : float
        Of "kl" and "lm": the weight of the whole corpus in each document's words.
    power : float
        Similarities are raised to this power, up to 100: above 1, near neighbours count for more.
    proportions : {"estimated", "labels", "uniform"}, array or None
        The proportion of each class: its share of the labels ("labels", E); the same for all that
        have seeds; or given in the order of `classes_`. The shares of a few labels drawn at random
        are mostly chance, and decide much: "estimated" draws them towards equal shares, as far as
        the labels look like drawn from such (where documents have several labels, it is "labels").
        None decides by y alone, for several labels at 1/2.
    tree : bool
        Whether masses are normalised down the tree: at each node among its branches, and itself
        where it is a class. A label on a node that is no class (with ``nodes="leaves"``, any inner
        one) then says that the document is somewhere below: the document is first taken to have no
        label, and the part of its y that is in the branch is its seed from then on.
    nodes : {"all", "leaves"} or list of labels
        The nodes that can be predicted.
    tol : float
        Where to stop solving for y: the size of the residual, relative to the right-hand side.
    max_iter : int
        The most steps of conjugate gradients.
    approximate : bool or int
        For speed, look at so many documents for each word (True: 200); see `NeighborIndex`.
    verbose : bool
        Whether to show progress while neighbours are looked for.

    Attributes
    ----------
    label_distributions_ : array, pool × classes
        y. Rows sum to 1, unless documents have several labels.
    seed_weight_ : array
        For each document of the pool how far it is held to its seed: 1, 0 for those without a
        seed, or between.
    proportions_ : array
        r. A class without a seed has 0 and is never predicted.
    unreached_ : array of int
        Documents of the pool that no seed is connected to. Their y is `proportions_`.
    index_ : NeighborIndex
        Finds neighbours in the pool.
    n_iter_ : int
        Steps of conjugate gradients that were needed, at least 1.
    """

    _learned = (
        *SimilarityClassifier._learned,
        "label_distributions_",
        "seed_weight_",
        "proportions_",
        "unreached_",
        "n_iter_",
    )
    label_distributions_: np.ndarray
    seed_weight_: np.ndarray
    proportions_: np.ndarray
    unreached_: np.ndarray
    n_iter_: int

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        k: int = 30,
        similarity: str = "cosine",
        mu: float = 1000.0,
        power: float = 1.0,
        proportions: Any = "estimated",
        tree: bool = False,
        nodes: Any = "all",
        tol: float = 1e-6,
        max_iter: int = 1000,
        approximate: bool | int = False,
        verbose: bool = False,
    ):
        self.taxonomy = taxonomy
        self.k = k
        self.similarity = similarity
        self.mu = mu
        self.power = power
        self.proportions = proportions
        self.tree = tree
        self.nodes = nodes
        self.tol = tol
        self.max_iter = max_iter
        self.approximate = approximate
        self.verbose = verbose

    # ---- fitting ----

    def fit(self, X: Any, y: Any = None, *, seeds: Any = None, seed_weight: Any = None) -> Self:
        """Spread labels over all documents.

        Parameters
        ----------
        X : word counts, vectors or similarities, as `similarity` says
        y : labels, None (-1 among integers) for documents without one; or lists of labels, of
            which an empty one is a document of no class
        seeds : array or sparse matrix, documents × classes
            What is known of documents that have no label in `y`, which may be left out: rows are
            distributions over the classes, in the order of `classes_`. An empty row is a document
            without a seed, and one that sums to w < 1 is held to it only so far.
        seed_weight : array, numbers from 0 to 1
            How far each document is held to its seed: y is w times the seed and 1 - w times the
            mean of its neighbours. By default 1, wherever there is a seed. This is no
            `sample_weight`: a seed of half the weight is not half a document.
        """
        return self._fit(X, y, seeds, seed_weight, None)

    def _fit(self, X: Any, y: Any, seeds: Any, seed_weight: Any, blocks: Blocks | None) -> Self:
        """Spread labels; `blocks` are where neighbours are found and y is, if not here."""
        self._validate()
        X = self._counts(X, reset=True)
        classes, given, branches = self._read(y, seeds, X.shape[0])
        # A row of seeds may sum to less than 1: the weight has that, and a seed is a distribution.
        total = given.sum(axis=1)
        given /= np.where((total > 0) & (total < 1 + _NEARLY), total, 1.0)[:, None]
        weight = np.where(total < 1 - _NEARLY, total, 1.0)
        weight[(np.diff(branches.indptr) > 0) | of_no_class(y, X.shape[0])] = 1.0
        if seed_weight is not None:
            weight *= _check_weights(seed_weight, len(weight))
        if not weight.any():
            raise ValueError(
                "No document has a label or seed with a weight above 0: there is nothing to spread."
            )
        self._set_classes(classes)
        self.index_ = self._index().fit(X)
        graph = symmetrize(self.index_._graph(self.k, blocks)).astype(np.float64, copy=False)
        graph.data = raised(graph.data, self.power)
        graph.eliminate_zeros()  # what is too small for a float
        self._spread(graph, given, branches, weight, blocks)
        self._derive()
        return self

    def _read(
        self, y: Any, seeds: Any, n_documents: int
    ) -> tuple[Classes, np.ndarray, sparse.csr_matrix]:
        """Read labels and seeds.

        Returns
        -------
        classes
        given : documents × classes, 1 for each label, or the row of `seeds`
        branches : CSR matrix, documents × nodes, 1 for each label that is no class
        """
        numbers = None
        if seeds is not None:
            seeds = _check_seeds(seeds, n_documents)
            if y is None:
                y, numbers = [None] * n_documents, np.arange(seeds.shape[1])
        labels, classes = self._labels(y, numbers, reset=True)
        check_consistent_length(range(n_documents), range(labels.n_documents))
        tree = classes.taxonomy
        if self.tree and classes.plain:
            raise ValueError("tree=True, but there is no tree: give one as taxonomy.")
        every = classes if classes.plain else Classes.of_taxonomy(tree)
        there = every.membership(labels).tocoo()
        node = every.nodes[there.col]
        column = np.full(len(tree), -1)
        column[classes.nodes] = np.arange(len(classes.nodes))
        is_class = column[node] >= 0
        if not (self.tree or is_class.all()):
            raise LabelError(
                f"Label {tree.paths[node[~is_class][0]]!r} is not among the {len(classes.nodes)} "
                "classes. With tree=True, one on an inner node says that a document is below it."
            )
        given = np.zeros((n_documents, len(classes.nodes)))
        # Whole labels, not fractions of them: each class against all the others (E 5.2).
        given[there.row[is_class], column[node[is_class]]] = 1.0
        with_class = np.isin(there.row, there.row[is_class])
        open_ = ~is_class & ~with_class
        for v in np.unique(node[open_]):
            if not ((classes.nodes > v) & (classes.nodes < tree.end[v])).any():
                raise LabelError(f"Label {tree.paths[v]!r} is no class, and none is below it.")
        branches = sparse.csr_matrix(
            (np.ones(open_.sum()), (there.row[open_], node[open_])), (n_documents, len(tree))
        )
        if seeds is not None:
            if seeds.shape[1] != given.shape[1]:
                raise ValueError(
                    f"seeds has {seeds.shape[1]} columns, expected one for each of the "
                    f"{given.shape[1]} classes, in the order of classes_."
                )
            without = ~given.any(axis=1) & (np.diff(branches.indptr) == 0)
            given[without] = seeds[without].toarray()
        return classes, given, branches

    def _spread(
        self,
        graph: sparse.csr_matrix,
        seeds: np.ndarray,
        branches: sparse.csr_matrix,
        weight: np.ndarray,
        blocks: Blocks | None,
    ) -> None:
        """Solve for y, and keep it."""
        self.n_iter_ = 1  # or more
        shares = self._shares(seeds, branches, weight)
        in_branch = np.diff(branches.indptr) > 0
        if in_branch.any():
            y = self._solve(graph, seeds, np.where(in_branch, 0.0, weight), shares, blocks).y
            seeds[in_branch] = self._parts(y[in_branch], branches[in_branch], shares)
        self.proportions_ = self._proportions(shares, weight.sum(), _several(seeds, weight))
        found = self._solve(graph, seeds, weight, self.proportions_, blocks)
        self.label_distributions_, self.seed_weight_ = found.y, weight
        self.unreached_ = np.flatnonzero(~found.reached)
        if len(self.unreached_):
            warnings.warn(
                f"No label reaches {len(self.unreached_):,} of {len(weight):,} documents: no chain "
                "of neighbours leads from them to a labelled one. They are given the proportions "
                "of the classes. A larger k may help; but a document has no neighbour if it shares "
                "nothing with any other, or only words that all have.",
                UserWarning,
                stacklevel=4,
            )

    def _solve(
        self,
        graph: sparse.csr_matrix,
        seeds: np.ndarray,
        weight: np.ndarray,
        prior: np.ndarray,
        blocks: Blocks | None,
    ) -> Harmonic:
        live = np.flatnonzero((prior > 0) | seeds[weight > 0].any(axis=0))
        limits = self.tol, self.max_iter
        found = harmonic(graph, seeds[:, live], weight, prior[live], *limits, blocks)
        self.n_iter_ = max(self.n_iter_, found.n_iter)
        if found.residual > self.tol:
            warnings.warn(
                f"The labels are not settled after max_iter={self.max_iter} steps: the residual is "
                f"{found.residual:.1e}, expected tol={self.tol:g}. Raise one of the two.",
                ConvergenceWarning,
                stacklevel=5,
            )
        y = np.zeros(seeds.shape)
        y[:, live] = np.clip(found.y, 0.0, 1.0)
        if not _several(seeds, weight):
            y[~y.any(axis=1)] = prior  # too few steps for any label to come so far
            y /= y.sum(axis=1, keepdims=True)
        return found._replace(y=y)

    def _shares(
        self, seeds: np.ndarray, branches: sparse.csr_matrix, weight: np.ndarray
    ) -> np.ndarray:
        """Return the share of each class among the labels.

        A label that is no class is shared among those below it as the labels there are; equally,
        where there are none. Shares of seeds that were made from y would have classes as large as
        y has them, which is what mass normalisation is to put right.
        """
        counts = weight @ np.where(weight[:, None] > 0, seeds, 0.0)
        labelled = branches.T.tocsr()
        for v in np.flatnonzero(np.diff(labelled.indptr))[::-1].tolist():  # children first
            below = self._below(v)
            among = counts[below] if counts[below].any() else np.ones(len(below))
            counts[below] += labelled[v].dot(weight)[0] * among / among.sum()
        return counts / weight.sum()

    def _parts(self, y: np.ndarray, branches: sparse.csr_matrix, shares: np.ndarray) -> np.ndarray:
        """Return what of y is in the branch of each label, scaled to sum to 1."""
        seeds = np.zeros(y.shape)
        labelled = branches.T.tocsr()
        for v in np.flatnonzero(np.diff(labelled.indptr)).tolist():
            rows, below = labelled[v].indices[:, None], self._below(v)
            part = y[rows, below]
            part = np.where(part.any(axis=1, keepdims=True), part, shares[below])
            seeds[rows, below] += part / part.sum(axis=1, keepdims=True)
        return seeds

    def _below(self, node: int) -> np.ndarray:
        return np.flatnonzero((self.nodes_ > node) & (self.nodes_ < self.taxonomy_.end[node]))

    def _proportions(self, shares: np.ndarray, n_seeds: float, several: bool) -> np.ndarray:
        seeded = shares > 0
        if self.proportions is None or isinstance(self.proportions, str):
            if self.proportions == "uniform":
                return seeded / seeded.sum()
            if self.proportions != "estimated" or several:
                return shares
            found = np.zeros(len(shares))
            found[seeded] = estimated_proportions(n_seeds * shares[seeded])
            return found
        r = np.asarray(self.proportions, dtype=float)
        if r.shape != shares.shape:
            raise ValueError(
                f"proportions has shape {r.shape}, expected one number for each of the "
                f"{len(shares)} classes."
            )
        if not ((r >= 0) & (r <= 1)).all():
            raise ValueError("proportions has numbers below 0 or above 1: expected shares.")
        if not several and not np.isclose(r.sum(), 1):
            raise ValueError(f"proportions is no distribution: it sums to {r.sum()}.")
        if not (r * seeded).any():
            raise ValueError("proportions gives 0 to every class that has a label or a seed.")
        return r * seeded if several else r * seeded / (r * seeded).sum()

    def _derive(self) -> None:
        self._live = np.flatnonzero(self.proportions_ > 0)
        r = self.proportions_[self._live]
        self._reached = np.ones(len(self.seed_weight_), bool)
        self._reached[self.unreached_] = False
        self._y = np.where(self._reached[:, None], self.label_distributions_[:, self._live], 0.0)
        u = self._reached & (self.seed_weight_ < 1)
        y_u = self._y[u if u.any() else self._reached]
        branches = None
        if self.tree:
            branches = BranchMasses(self.taxonomy_, self.nodes_[self._live], r, y_u)
        self._masses = ClassMasses(r, y_u, branches, normalise=self.proportions is not None)

    # ---- deciding ----

    def _mean_of_neighbors(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return y of documents outside the pool (E eq. 13), and whether they have neighbours."""
        near = sparse.csr_matrix(self.index_.query(X, self.k), dtype=np.float64)
        near.data = raised(near.data, self.power)
        total = near @ self._reached.astype(np.float64)
        known = total > 0
        return (near @ self._y) / np.where(known, total, 1.0)[:, None], known

    def _log_joint(self, X: Any) -> np.ndarray:
        y, known = self._mean_of_neighbors(X)
        with np.errstate(divide="ignore"):
            return self._on_all_columns(np.log(self._masses.p(y, known)))

    def _on_all_columns(self, scores: np.ndarray) -> np.ndarray:
        every = np.full((len(scores), len(self.nodes_)), -np.inf)
        every[:, self._live] = scores
        return every

    def class_scores(self, X: Any) -> np.ndarray:
        """Return z of documents outside the pool (E eq. 17), documents × `classes_`.

        A class without a seed has -inf.
        """
        y, known = self._mean_of_neighbors(self._counts(X))
        return self._on_all_columns(self._masses.z(y, known))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return z in scikit-learn's form.

        It is that of `class_scores`; of two classes, one number per document: half the difference
        of their z, which is the second's where every document has one label.
        """
        z = self.class_scores(X)
        return (z[:, 1] - z[:, 0]) / 2 if z.shape[1] == 2 else z

    def predict_indicator(self, X: Any) -> sparse.csr_matrix:
        """Return the classes with z >= 0 as a 0/1 matrix, documents × `classes_`."""
        return sparse.csr_matrix(self.class_scores(X) >= 0, dtype=np.int32)

    @property
    def decision_(self) -> np.ndarray:
        """z of the pool (E eq. 17), documents × `classes_`; -inf for a class without a seed."""
        check_is_fitted(self)
        return self._on_all_columns(self._masses.z(self._y, self._reached))

    @property
    def transduction_(self) -> np.ndarray:
        """The class of each document in the pool. Those that have a label keep it.

        A document held to several classes has the most probable of them.
        """
        check_is_fitted(self)
        p = self._masses.p(self._y, self._reached)
        best = np.where(self._possible[:, self._live], p, -1.0).argmax(axis=1)
        return self.classes_[self._live[best]]

    @property
    def transduction_indicator_(self) -> sparse.csr_matrix:
        """The classes of each document in the pool, 0/1: its labels, or those with z >= 0."""
        held = (self.seed_weight_ == 1)[:, None] & (self.label_distributions_ == 1)
        return sparse.csr_matrix(held | (self._possible & (self.decision_ >= 0)), dtype=np.int32)

    @property
    def _possible(self) -> np.ndarray:
        """Whether a document may be of a class: one with a seed, of those in it."""
        return (self.seed_weight_ < 1)[:, None] | (self.label_distributions_ > 0)

    # ---- files and settings ----

    def _restore(self) -> None:
        """Check what a file held, and derive the rest."""
        super()._restore()
        y, weight, r, lost = (
            np.asarray(getattr(self, name))
            for name in ("label_distributions_", "seed_weight_", "proportions_", "unreached_")
        )
        n_documents, n_classes = len(weight), len(self.nodes_)
        if y.shape != (n_documents, n_classes) or r.shape != (n_classes,) or weight.ndim != 1:
            raise ValueError("labels do not fit the documents and classes")
        if not all(((part >= 0) & (part <= 1)).all() for part in (y, weight, r)):
            raise ValueError("labels or their weights are no shares")
        if not (y * r).any() or not weight.any():
            raise ValueError("no document has a label")
        lost_fit = lost.dtype.kind == "i" and ((lost >= 0) & (lost < n_documents)).all()
        if not lost_fit or len(lost) >= n_documents:
            raise ValueError("documents that no label reaches are not there")
        if self.index_.documents_.shape[0] != n_documents:
            raise ValueError("the index of neighbours does not fit the documents")
        self._derive()

    def _validate(self) -> None:
        super()._validate()
        if not isinstance(self.max_iter, Integral) or self.max_iter < 1:
            raise ValueError(f"max_iter={self.max_iter!r}: expected a number of at least 1.")
        for name in ("power", "tol"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0 < float(value) <= _HIGHEST):
                raise ValueError(
                    f"{name}={value!r}: expected a number above 0, {_HIGHEST} at most."
                )
        named = ("estimated", "labels", "uniform")
        if isinstance(self.proportions, str) and self.proportions not in named:
            raise ValueError(
                f"proportions={self.proportions!r}: expected one of {named}, an array of one "
                "number for each class, or None."
            )


def _several(seeds: np.ndarray, weight: np.ndarray) -> bool:
    """Whether a document has more than one label, or is known to have none."""
    n_labels = seeds[weight > 0].sum(axis=1)
    return bool((np.abs(n_labels - 1) > _NEARLY).any())


def _check_seeds(seeds: Any, n_documents: int) -> sparse.csr_matrix:
    matrix = sparse.csr_matrix(seeds, dtype=np.float64)
    check_consistent_length(range(n_documents), range(matrix.shape[0]))
    if not (np.isfinite(matrix.data) & (matrix.data >= 0)).all():
        raise ValueError("seeds has negative values or NaN: expected distributions in its rows.")
    total = np.asarray(matrix.sum(axis=1)).ravel()
    if (total > 1 + _NEARLY).any():
        row = int(np.argmax(total > 1 + _NEARLY))
        raise ValueError(
            f"Row {row} of seeds sums to {total[row]:g}, expected at most 1: a distribution over "
            "the classes, or part of one. Several labels per document are given as y."
        )
    return matrix


def _check_weights(seed_weight: Any, n_documents: int) -> np.ndarray:
    if isinstance(seed_weight, Real):
        weight = np.full(n_documents, float(seed_weight))
    else:
        weight = column_or_1d(seed_weight, dtype=np.float64)
    check_consistent_length(range(n_documents), weight)
    if not ((weight >= 0) & (weight <= 1)).all():
        raise ValueError("seed_weight has numbers below 0 or above 1: expected shares.")
    return weight
