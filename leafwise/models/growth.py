"""Grow a tree from documents: soft hierarchical clustering by deterministic annealing (G 4)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted, check_non_negative, validate_data

from leafwise.models._blocks import Blocks, PerDocument, one_block
from leafwise.models._counts import order_by_content
from leafwise.models._em import VARIANTS
from leafwise.models._growth import (
    Cooccurrences,
    Parameters,
    Split,
    Tree,
    hang,
    hold_out,
    put_in,
    tree_of_merges,
)
from leafwise.models._path_mixture import check_positive, check_seed, to_shares
from leafwise.models._progress import progress
from leafwise.models._tree_names import named
from leafwise.models.agglomeration import class_counts, merges_of_counts
from leafwise.models.plsa import fold_in
from leafwise.taxonomy import Taxonomy

SCHEDULE = tuple(float(b) for b in np.round(np.arange(0.3, 1.01, 0.05), 2))
G_SCHEDULE = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)  # G 4
_APART = 0.3  # copies of a class have come apart that share no more than seven tenths
_UP = 0.3  # what the topic above two new classes has of their words, to begin with
_STEPS = 20  # of EM after a split, and of a tree that is built from its classes
_COOL = 5  # for each β that is left when there are leaves enough: more would fit chance
_PATIENCE = 3  # splits that do not improve on what is held out, before growth ends
_MOST_LEAVES = 200
_UNSEEN = 1e-12  # P(word | class) of a word that the class does not have
_FLOOR = 0.05  # of P(word) for held-out words is that of all documents


class _Grown(NamedTuple):
    tree: Tree
    parameters: Parameters
    beta: float
    enough: bool


class HPLSA(ClusterMixin, TransformerMixin, BaseEstimator):
    """Hierarchical Probabilistic Latent Semantic Analysis (G section 4, eq. 1-8).

    Every occurrence of a word in a document comes from a class, a leaf of the tree, and within it
    from a topic: the leaf or a node above it. EM fits all four distributions, tempered by β; as β
    rises, classes come apart, and so the tree grows. It need not be balanced.

    Parameters
    ----------
    n_leaves : int or "auto"
        How many leaves to grow. "auto" holds out a tenth of the occurrences, and grows until their
        likelihood does not rise any more.
    tree : Taxonomy or None
        A tree that is there already: nothing is grown. Where no node stands between its root and
        its leaves there is no hierarchy, and the model is PLSA.
    topics : {"path", "leaf"}
        Whether words come from all nodes on a leaf's path, or from the leaf alone, which is PLSA
        with classes that a tree stands for.
    shape : {"alike", "splits"}
        What a grown tree is made of. "splits": a class stands under the one that it split from
        (G). But EM goes on to move documents from class to class, and what was next of kin may be
        so no more; so "alike" builds the tree from the classes at the end, those together that
        lose least when they are one, and fits the topics of its nodes then.
    unit : {"word", "document"}
        What is of one class: each occurrence; or a document whole, so that P(i | α) = P(i), which
        is Hofmann's HACM.
    betas : sequence of float
        The schedule of annealing.
    tempered : {"classes", "both"}
        Whether β is of the class of an occurrence alone, or also of its topic, as G has it
        (eq. 5-6). With "both", deeper classes are favoured while β is below 1: the sum of more
        topics' powers is larger.
    variant : {"em", "cem", "sem"}
        How EM shares occurrences; see `HierarchicalMixture`. Splits are always found by "em".
    max_iter : int
        Most EM steps to try a split, and when there are leaves enough.
    tol : float
        EM ends when its bound rises by less than this, relative to its size.
    min_documents : float
        The fewest documents that a new class may have.
    fold_steps : int
        EM steps to find the classes of a document.
    vocabulary : sequence of str, WordCounter or None
        The words of X's columns, to name nodes by. None: the columns of a DataFrame, or numbers. A
        clone keeps words, but not what a counter has counted.
    warm_start : bool
        Whether `fit` goes on from the leaves of the last one, as far as it has grown: no leaf is
        taken back, and what stands above them is built and named anew.
    random_state : int or None
        Of the draws of "sem", of what "auto" holds out, and of where a given tree begins.
    verbose : bool
        Whether to show progress on the standard error stream.

    Attributes
    ----------
    tree_ : Taxonomy
        The tree. Nodes are named by the words that set them apart from the node above.
    leaves_ : array of int
        The node of each leaf, in the order of columns below.
    labels_ : array of str
        The most probable leaf of each document, as a path.
    p_leaf_, p_node_given_leaf_, p_word_given_node_ : arrays
        P(α), P(ν | α) as leaves × nodes, and P(j | ν) as nodes × words.
    p_leaf_given_document_ : array, documents × leaves
        What `transform` gives for the documents fitted to.
    p_document_given_leaf_ : array, documents × leaves
        P(i | α): how typical documents are. A long one has a larger part.
    beta_ : float
        The β at which there were leaves enough.
    bounds_ : list of float
        The bound before each of the last EM steps.
    n_iter_ : int
        EM steps in all, besides those that tried splits.
    held_out_ : dict or None
        Number of leaves -> mean log likelihood of the words held out, for "auto".

    Examples
    --------
    >>> X = [[3, 2, 0, 0], [2, 3, 0, 0], [0, 0, 2, 3], [0, 0, 3, 2]]
    >>> model = HPLSA(2, vocabulary=["fig", "plum", "tin", "zinc"]).fit(X)
    >>> model.labels_[0] == model.labels_[1] != model.labels_[2] == model.labels_[3]
    np.True_
    """

    _learned = (
        "tree_",
        "p_leaf_",
        "p_node_given_leaf_",
        "p_word_given_node_",
        "p_leaf_given_document_",
        "p_document_given_leaf_",
        "beta_",
        "n_features_in_",
        "feature_names_in_",
    )

    p_leaf_given_document_: np.ndarray
    p_document_given_leaf_: np.ndarray

    def __init__(
        self,
        n_leaves: int | str = 8,
        *,
        tree: Taxonomy | None = None,
        topics: str = "path",
        shape: str = "alike",
        unit: str = "word",
        betas: Sequence[float] = SCHEDULE,
        tempered: str = "classes",
        variant: str = "em",
        max_iter: int = 60,
        tol: float = 1e-6,
        min_documents: float = 2.0,
        fold_steps: int = 20,
        vocabulary: Any = None,
        warm_start: bool = False,
        random_state: int | None = None,
        verbose: bool = False,
    ):
        self.n_leaves = n_leaves
        self.tree = tree
        self.topics = topics
        self.shape = shape
        self.unit = unit
        self.betas = betas
        self.tempered = tempered
        self.variant = variant
        self.max_iter = max_iter
        self.tol = tol
        self.min_documents = min_documents
        self.fold_steps = fold_steps
        self.vocabulary = vocabulary
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ---- growing ----

    def fit(self, X: Any, y: Any = None) -> Self:
        """Grow a tree from word counts, or fit the one that is given."""
        self._validate()
        before = self.n_features_in_ if self.warm_start and hasattr(self, "tree_") else None
        X = self._counts(X, reset=before is None)
        if not X.nnz:
            raise ValueError("X has no words: there is nothing to grow a tree from.")
        words = self._words(X.shape[1])
        order = order_by_content(X)  # so that the order of documents changes nothing
        self._fit_blocks(one_block(X[order], X.shape[0]), words)
        back = np.argsort(order)
        self.p_leaf_given_document_ = self.p_leaf_given_document_[back]
        self.p_document_given_leaf_ = self.p_document_given_leaf_[back]
        return self

    def _fit_blocks(self, blocks: Blocks, words: Any) -> Self:
        """Grow a tree from documents, each block of which is documents × words."""
        self.held_out_: dict[int, float] | None = None
        self.n_iter_ = 0
        n_leaves = self.n_leaves
        if self.tree is None and n_leaves == "auto":
            n_leaves = self._best_number(blocks)
        grown = self._grow(blocks, n_leaves)
        if not grown.enough:
            warnings.warn(
                f"The tree has fewer leaves than n_leaves={n_leaves}, {len(grown.tree.leaves)}: no "
                "other class came apart. Give more documents, fewer leaves, or a schedule of "
                "betas that ends higher.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._set_parameters(blocks, grown.tree, grown.parameters, grown.beta, words)
        return self

    def _grow(self, blocks: Blocks, n_leaves: Any, judge: Any = None) -> _Grown:
        """Anneal: raise β, and put two classes in the place of one where its copies come apart."""
        counts = self._cooccurrences(blocks)
        if self.tree is not None:
            return self._fit_given(counts)
        if self.shape == "alike":  # there is no tree to draw from before there are classes
            counts.paths = False
        tree, p = self._begin(counts)
        up = _UP if counts.paths else 0.0
        beta = float(self.betas[0])
        with progress("leaves", n_leaves, self.verbose) as done:
            if done:
                done(len(tree.leaves))
            for beta in map(float, self.betas):
                p = self._settle(counts, tree, p, beta, _STEPS)
                tried: dict[int, Split] = {}  # of classes that were there at this β already
                while len(tree.leaves) < n_leaves:
                    for leaf in tree.leaves:
                        if leaf not in tried:
                            part = counts.part(tree, p, leaf, beta)
                            tried[leaf] = counts.split(part, beta, self.max_iter)
                    leaf = max(tree.leaves, key=lambda leaf: self._worth(tried[leaf]))
                    if self._worth(tried[leaf]) <= 0:
                        break
                    tree, p = put_in(tree, p, leaf, tried.pop(leaf), up)
                    p = self._settle(counts, tree, p, beta, _STEPS)
                    if done:
                        done(1)
                    if judge is not None and judge(counts, tree, p):
                        return _Grown(tree, p, beta, True)
                if len(tree.leaves) >= n_leaves:
                    break
        enough = len(tree.leaves) >= n_leaves
        p = self._settle(counts, tree, p, beta, self.max_iter)
        for later in (float(b) for b in self.betas if b > beta):
            p = self._settle(counts, tree, p, later, _COOL)
        if self.shape == "alike":
            tree, p = self._hang(blocks, tree, p)
        return _Grown(tree, p, beta, enough)

    def _hang(self, blocks: Blocks, tree: Tree, p: Parameters) -> tuple[Tree, Parameters]:
        """Build the tree anew from what the classes have become."""
        words = p.topics[list(tree.leaves)]
        best = self._classes_of(blocks, words.T, p.joint.sum(axis=0)).argmax(axis=1)
        there, column = np.unique(best, return_inverse=True)
        membership = sparse.csr_matrix(np.eye(len(there))[column])
        if len(there) < 2:
            return tree, p
        counted = blocks.total(class_counts, rows=[membership])
        tree, classes = tree_of_merges(merges_of_counts(*counted))
        p = hang(tree, there[classes], p.joint, words)
        counts = self._cooccurrences(blocks)
        if not counts.paths:
            return tree, p._replace(levels=(np.ones(1),) * len(tree.leaves))
        return tree, self._settle(counts, tree, p, float(self.betas[-1]), _STEPS)

    def _worth(self, split: Split) -> float:
        kept = split.apart > _APART and split.n_documents >= self.min_documents
        return split.worth if kept else 0.0

    def _begin(self, counts: Cooccurrences) -> tuple[Tree, Parameters]:
        if not (self.warm_start and hasattr(self, "tree_")):
            return counts.one_class()
        tree = Tree(tuple(self.tree_.parent.tolist()), tuple(self.leaves_.tolist()))
        classes = self._classes_of(counts.blocks, self._p_word, self.p_leaf_)
        joint = classes * (counts.lengths / counts.total)[:, None]
        if not counts.paths:
            topics = np.zeros(self.p_word_given_node_.shape)
            topics[self.leaves_] = self._p_word.T
            return tree, Parameters(joint, (np.ones(1),) * len(tree.leaves), topics)
        lines = enumerate(counts.lines(tree))
        levels = tuple(self.p_node_given_leaf_[k, line] for k, line in lines)
        return tree, Parameters(joint, levels, self.p_word_given_node_)

    def _fit_given(self, counts: Cooccurrences) -> _Grown:
        """Fit a tree that is there, from a random start."""
        assert self.tree is not None
        tree = Tree(tuple(self.tree.parent.tolist()), tuple(self.tree.leaves.tolist()))
        if self.warm_start and hasattr(self, "tree_"):
            p = self._begin(counts)[1]
        else:
            rng = np.random.default_rng(self.random_state or 0)
            whole = counts.one_class()[1]
            moved = np.exp(rng.standard_normal((len(tree.parent), len(counts.word_totals))))
            shares = rng.dirichlet(np.ones(len(tree.leaves)))
            levels = tuple(np.full(len(line), 1 / len(line)) for line in counts.lines(tree))
            p = Parameters(whole.joint * shares, levels, to_shares(whole.topics * moved))
        beta = 1.0
        # Where β (1 + σ) is below 1 all classes would become alike, whatever they began as.
        critical = counts.critical_beta()
        for beta in [float(b) for b in self.betas if b > critical] or [float(self.betas[-1])]:
            p = self._settle(counts, tree, p, beta, self.max_iter)
        return _Grown(tree, p, beta, True)

    def _settle(
        self, counts: Cooccurrences, tree: Tree, p: Parameters, beta: float, max_iter: int
    ) -> Parameters:
        seed = (self.random_state or 0) + 1000 * len(tree.leaves)
        found, self.bounds_ = counts.settle(
            tree, p, beta, max_iter=max_iter, tol=self.tol, variant=self.variant, seed=seed
        )
        self.n_iter_ += len(self.bounds_)
        return found

    def _fit_counted(self, blocks: Blocks, words: Any = None) -> Self:
        """Grow a tree from documents that are not all here, counted by a counter of such words."""
        if words is not None:
            self.n_features_in_ = len(words)
        if words is None or self.vocabulary is not None:
            words = self._words(self.n_features_in_)
        return self._fit_blocks(blocks, words)

    def _validate_elsewhere(self, counted: bool) -> None:
        """Refuse settings for documents that are not all here, or `counted` where they are."""
        self._validate()
        if self.tree is None and self.n_leaves == "auto":
            raise ValueError(
                'n_leaves="auto" needs all documents in memory: expected a number of leaves.'
            )
        if counted and self.warm_start and hasattr(self, "tree_"):
            raise ValueError(
                "warm_start=True goes on with the words of the last fit, and a WordCounter learns "
                "them anew: expected word counts, or warm_start=False."
            )

    def _best_number(self, blocks: Blocks) -> int:
        """Grow on nine tenths of the occurrences until the rest is no likelier; return leaves."""
        X = sparse.vstack(blocks.parts, format="csr")
        kept, rest = hold_out(X, self.random_state or 0)
        found: dict[int, float] = {}
        p_word = np.asarray(kept.sum(axis=0), dtype=np.float64).ravel() + 1.0
        p_word /= p_word.sum()
        entries = rest.tocoo()

        def judge(counts: Cooccurrences, tree: Tree, p: Parameters) -> bool:
            # As it would be when growth ends: while β is low, classes overlap, and tell too little.
            p, _ = counts.settle(tree, p, float(self.betas[-1]), max_iter=_COOL, tol=0.0)
            lines = [tree.path(leaf)[: len(own)] for leaf, own in zip(tree.leaves, p.levels)]
            of_leaf = [own @ p.topics[line] for line, own in zip(lines, p.levels)]
            classes = to_shares(p.joint)
            drawn = np.einsum("ek,ke->e", classes[entries.row], np.array(of_leaf)[:, entries.col])
            likely = (1 - _FLOOR) * drawn + _FLOOR * p_word[entries.col]
            found[len(tree.leaves)] = float(entries.data @ np.log(likely) / entries.data.sum())
            best = max(found, key=lambda n: found[n])
            return len(tree.leaves) >= best + _PATIENCE

        flat = float(entries.data @ np.log(p_word[entries.col]) / max(entries.data.sum(), 1e-300))
        found[1] = flat
        if entries.nnz:
            self._grow(one_block(kept, kept.shape[0]), _MOST_LEAVES, judge)
        self.held_out_ = dict(found)
        return max(found, key=lambda n: (found[n], -n))

    def _cooccurrences(self, blocks: Blocks) -> Cooccurrences:
        flat = self.tree is not None and bool((self.tree.parent <= 0).all())
        paths = self.topics == "path" and not flat
        return Cooccurrences(blocks, paths, self.unit == "document", self.tempered == "both")

    # ---- what was found ----

    def _set_parameters(
        self, blocks: Blocks, tree: Tree, p: Parameters, beta: float, words: Any
    ) -> None:
        counts = self._cooccurrences(blocks)
        levels = np.zeros((len(tree.leaves), len(tree.parent)))
        for k, line in enumerate(counts.lines(tree)):
            levels[k, line] = p.levels[k]
        self.beta_ = beta
        self.p_leaf_ = to_shares(p.joint.sum(axis=0)[None])[0]
        topics = p.topics * (levels.sum(axis=0) > 0)[:, None]
        if self.tree is not None:
            self.tree_ = self.tree
            nodes = np.arange(len(tree.parent))
        else:
            shares = to_shares(p.joint)
            with_word = blocks.total(_with_word, rows=[shares])
            self.tree_, nodes = named(tree, with_word, shares.sum(axis=0), words)
        # Nodes are numbered as the tree has them, and leaves come in its order.
        order = np.argsort([nodes[leaf] for leaf in tree.leaves])
        back = np.argsort(nodes)
        self.p_leaf_ = self.p_leaf_[order]
        self.p_node_given_leaf_ = levels[order][:, back]
        self.p_word_given_node_ = topics[back]
        joint = p.joint[:, order]
        self.p_document_given_leaf_ = joint / np.maximum(joint.sum(axis=0), 1e-300)
        self._derive()
        self.p_leaf_given_document_ = self._classes_of(blocks, self._p_word, self.p_leaf_)

    def _derive(self) -> None:
        self.leaves_ = np.asarray(self.tree_.leaves)
        # A leaf draws from few nodes, and a sparse product is not by BLAS (`threads.py`).
        on_paths = sparse.csr_matrix(self.p_node_given_leaf_)
        self._p_word = np.ascontiguousarray((on_paths @ self.p_word_given_node_).T)

    def transform(self, X: Any) -> np.ndarray:
        """Return P(leaf | document), documents × leaves; words that were not there are passed over.

        A document without a known word has `p_leaf_`.
        """
        check_is_fitted(self, "tree_")
        X = self._counts(X)
        return self._classes_of(one_block(X, X.shape[0]), self._p_word, self.p_leaf_)

    def _classes_of(self, blocks: Blocks, p_word: np.ndarray, p_class: np.ndarray) -> np.ndarray:
        """Return P(class | document), from words × classes."""
        return blocks.total(
            _fold_in if self.unit == "word" else _by_document, p_word, p_class, self.fold_steps
        )

    @property
    def labels_(self) -> np.ndarray:
        """The most probable leaf of each document fitted to, as a path."""
        check_is_fitted(self, "tree_")
        return self._paths_of(self.p_leaf_given_document_)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable leaf of each document, as a path."""
        return self._paths_of(self.transform(X))

    def _paths_of(self, proba: np.ndarray) -> np.ndarray:
        paths = np.array([self.tree_.paths[leaf] for leaf in self.leaves_])
        return paths[proba.argmax(axis=1)]

    def node_proba(self, X: Any) -> np.ndarray:
        """Return P(node | document), documents × nodes: that of all leaves below it."""
        at_leaf = np.zeros((X.shape[0], len(self.tree_)))
        at_leaf[:, self.leaves_] = self.transform(X)
        return np.minimum(self.tree_.subtree_sum(at_leaf), 1.0)

    def typical_documents(self, label: Any, n: int = 3) -> np.ndarray:
        """Return the documents fitted to with the largest P(document | node), best first."""
        check_is_fitted(self, "tree_")
        check_positive("n", n)
        node = self.tree_.index(label)
        below = (self.leaves_ >= node) & (self.leaves_ < self.tree_.end[node])
        weight = self.p_document_given_leaf_[:, below] @ self.p_leaf_[below]
        return np.argsort(-np.round(weight, 12), kind="stable")[:n]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to one file that `leafwise.load` reads."""
        from leafwise.persistence import save

        save(self, path)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the paths of the leaves, the columns of `transform`."""
        check_is_fitted(self, "tree_")
        return np.array([self.tree_.paths[leaf] for leaf in self.leaves_], dtype=object)

    # ---- what goes in ----

    def _counts(self, X: Any, reset: bool = False) -> sparse.csr_matrix:
        in_line = isinstance(X, list | tuple) or getattr(X, "ndim", 2) == 1
        if in_line and len(X) and isinstance(next(iter(X)), str):
            raise ValueError(
                "HPLSA takes word counts, got texts: WordCounter().fit_transform counts their "
                "words."
            )
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        check_non_negative(X, "HPLSA (input X)")
        X = sparse.csr_matrix(X)
        if not X.has_canonical_format or (X.data == 0).any():
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        return X

    def _words(self, n: int) -> np.ndarray | None:
        words = self.vocabulary
        if words is None:
            return getattr(self, "feature_names_in_", None)
        if hasattr(words, "get_feature_names_out"):
            try:
                words = words.get_feature_names_out()
            except NotFittedError:
                raise ValueError(
                    "vocabulary is a counter that is not fitted, as in a clone of this estimator. "
                    "Give counter.get_feature_names_out(), which clones keep."
                ) from None
        if len(words) != n:
            raise ValueError(f"vocabulary has {len(words)} words, expected {n}: one per column.")
        return np.asarray(words, dtype=object)

    def _restore(self) -> None:
        """Check what a file held, and derive the rest."""
        self._validate()
        n_leaves, n_nodes = len(self.tree_.leaves), len(self.tree_)
        shapes = {
            "p_leaf_": (n_leaves,),
            "p_node_given_leaf_": (n_leaves, n_nodes),
            "p_word_given_node_": (n_nodes, self.n_features_in_),
            "p_leaf_given_document_": (len(self.p_leaf_given_document_), n_leaves),
            "p_document_given_leaf_": (len(self.p_leaf_given_document_), n_leaves),
        }
        for name, shape in shapes.items():
            value = getattr(self, name)
            if value.shape != shape or not ((value >= 0) & (value <= 1 + 1e-9)).all():
                raise ValueError(f"{name} does not fit the tree and words")
        self._derive()

    def _validate(self) -> None:
        number = isinstance(self.n_leaves, Integral) and self.n_leaves >= 1
        if self.tree is None and not number and self.n_leaves != "auto":
            raise ValueError(
                f'n_leaves={self.n_leaves!r}: expected a number of at least 1, or "auto".'
            )
        if self.tree is not None and not isinstance(self.tree, Taxonomy):
            raise ValueError(f"tree={self.tree!r}: expected a Taxonomy, or None to grow one.")
        for name, values in (
            ("topics", ("path", "leaf")),
            ("shape", ("alike", "splits")),
            ("unit", ("word", "document")),
            ("tempered", ("classes", "both")),
            ("variant", VARIANTS),
        ):
            if getattr(self, name) not in values:
                raise ValueError(f"{name}={getattr(self, name)!r}: expected one of {values}.")
        betas = list(self.betas) if np.iterable(self.betas) else []
        rising = all(isinstance(b, Real) and 0 < float(b) < np.inf for b in betas)
        if not betas or not rising or sorted(betas) != betas:
            raise ValueError(
                f"betas={self.betas!r}: expected numbers above 0, each no lower than the last."
            )
        for name in ("tol", "min_documents"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
                raise ValueError(f"{name}={value!r}: expected a number of at least 0.")
        check_positive("max_iter", self.max_iter)
        check_positive("fold_steps", self.fold_steps)
        check_seed(self.random_state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags


# ---- what is asked of blocks, which are documents × words ----


def _fold_in(X: sparse.csr_matrix, p_word: np.ndarray, p_class: np.ndarray, steps: int) -> Any:
    start = p_class / p_class.sum()
    return PerDocument(fold_in(X, np.ascontiguousarray(p_word), start, steps))


def _by_document(X: sparse.csr_matrix, p_word: np.ndarray, p_class: np.ndarray, _: int) -> Any:
    scores = X @ np.log(np.maximum(p_word, _UNSEEN)) + np.log(np.maximum(p_class, _UNSEEN))
    return PerDocument(to_shares(np.exp(scores - scores.max(axis=1, keepdims=True))))


def _with_word(X: sparse.csr_matrix, shares: np.ndarray) -> np.ndarray:
    """In how many documents of each class each word is."""
    occurs = sparse.csr_matrix((np.ones(X.nnz), X.indices, X.indptr), X.shape)
    return np.asarray(shares.T @ occurs)
