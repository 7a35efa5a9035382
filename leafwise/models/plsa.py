"""Latent categories: a document is a mixture of classes, fitted when it is classified."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_consistent_length
from sklearn.utils.metaestimators import available_if

from leafwise.labels import Classes
from leafwise.models._base import NodeClassifier
from leafwise.models._counts import CountClassifier, document_weights, statistics
from leafwise.models._em import Expected, Rows, Sharing, check_sharing, e_step, fold, run_em
from leafwise.models._heldout import Holdout, evidence_statistics, held_out
from leafwise.models._path_mixture import check_positive, to_shares
from leafwise.models._sums import scale_rows
from leafwise.models.mixture import HierarchicalMixture
from leafwise.models.naive_bayes import heldout_alpha
from leafwise.taxonomy import Taxonomy

_TINY = 1e-300


def fold_in(
    X: sparse.csr_matrix, p_w_given_class: np.ndarray, start: np.ndarray, steps: int
) -> np.ndarray:
    """Fit P(c | d) of each document by EM, with the word distributions as they are (T eq. 14).

    Parameters
    ----------
    p_w_given_class : words × classes
    start : the shares to begin from, of all documents alike
    steps : how many there are: no test for convergence, so that a document's shares do not
        depend on those it is classified with
    """
    # A step takes shares of the expected counts; since their ratios alone matter, once is enough.
    one = np.ones(len(start))
    return to_shares(fold(Rows.of(X), p_w_given_class, start, one, one, 0.0, steps))


class HPLC(HierarchicalMixture):
    """Hierarchical Probabilistic Latent Categoriser (G section 5, eq. 9-13).

    Trained as `HierarchicalMixture` is, though without a uniform node and by default to the
    likelihood of the training counts. To classify, each word of a document is taken to come from
    some class, and EM finds how much of the document each class has (G eq. 12-13). Where no node
    stands between the root and the classes there is no hierarchy, and the model is `PLC`.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    prediction : {"em", "direct"}
        "direct" takes documents to be independent of the class that their words come from, which
        is the HACM: log P(c) + Σ_w n_dw log P(w | c).
    fold_steps : int
        EM steps to classify a document.
    steps, weights, holdout, levels, beta, variant, class_prior, nodes, weight_steps, random_state
        As in `HierarchicalMixture`.

    Attributes
    ----------
    level_weights_ : array, nodes × levels
        P(ν | α): the class's own topic first, the root's last.
    """

    _uniform = False

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        prediction: str = "em",
        fold_steps: int = 20,
        steps: int | str = 20,
        weights: Any = "training",
        holdout: Holdout = "occurrence",
        levels: str = "pooled",
        beta: Any = 1.0,
        variant: str = "em",
        class_prior: Any = "learned",
        nodes: Any = "all",
        weight_steps: int = 1,
        random_state: int | None = None,
    ):
        super().__init__(
            taxonomy,
            steps=steps,
            weights=weights,
            holdout=holdout,
            levels=levels,
            beta=beta,
            variant=variant,
            class_prior=class_prior,
            nodes=nodes,
            weight_steps=weight_steps,
            random_state=random_state,
        )
        self.prediction = prediction
        self.fold_steps = fold_steps

    @property
    def _above(self) -> bool:  # type: ignore[override]
        return bool((self.taxonomy_.parent[self.nodes_] > 0).any())

    def _set_parameters(self) -> None:
        super()._set_parameters()
        length = np.asarray(self.word_counts_.sum(axis=1)).ravel()
        self._length = np.maximum(length[self._live], 1e-9)  # G: #α, of co-occurrences

    def _derive(self) -> None:
        if self.prediction == "direct":
            super()._derive()
            return
        CountClassifier._derive(self)  # a table of logarithms would only take its room
        self._weights = None
        self._p_w = np.empty((self.n_features_in_, len(self._live)))
        for part in self._some_classes():
            self._p_w[:, part] = self._p_w_given_classes(self._live[part]).T

    def _learned_prior(self) -> np.ndarray:
        """Return P(α): by default the share of all words, not documents, that it has (G eq. 10)."""
        length = np.asarray(self.word_counts_.sum(axis=1)).ravel()
        if self.prediction == "direct" or self.class_prior != "learned" or not length.any():
            return super()._learned_prior()
        with np.errstate(divide="ignore"):
            return np.log(length / length.sum())

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return log P(α) P(d | α) (G eq. 13)."""
        if self.prediction == "direct":
            return super()._log_joint(X)
        p_class = np.exp(self._log_prior[self._live])
        start = p_class / (1 + self._length.sum())
        weights = fold(
            Rows.of(X), self._p_w, start, p_class, self._length, 1.0, self.fold_steps
        )  # G eq. 12
        return self._on_all_columns(np.log(np.maximum(weights, _TINY)))

    @available_if(lambda self: self.prediction == "direct")
    def likelihood_ratio(self, X: Any) -> np.ndarray:
        """Return log P(d | c) - log P(d), where documents are classified so."""
        return super().likelihood_ratio(X)

    def _validate(self) -> None:
        super()._validate()
        if self.prediction not in ("em", "direct"):
            raise ValueError(f'prediction={self.prediction!r}: expected "em" or "direct".')
        check_positive("fold_steps", self.fold_steps)


class PLC(HPLC):
    """Probabilistic Latent Categoriser: `HPLC` without a hierarchy (G section 5).

    P(w | c) is the share of the class's words, not smoothed: training is counting. To classify,
    EM finds how much of a document each class has (G eq. 12-13).

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    fold_steps : int
        EM steps to classify a document.
    class_prior, nodes
        As in `NaiveBayes`; "learned" goes by the number of words (G eq. 10).
    """

    _above = False

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        fold_steps: int = 20,
        class_prior: Any = "learned",
        nodes: Any = "all",
    ):
        super().__init__(taxonomy, fold_steps=fold_steps, class_prior=class_prior, nodes=nodes)
        self.steps = 0


class PLSAClassifier(NodeClassifier):
    """Probabilistic Latent Semantic Analysis with classes for topics (T 3.2.2, eq. 14).

    P(w | c) begins as Naive Bayes has it and P(c | d) at the label; EM then fits both to the
    training documents, so a document may turn out to have words of other classes too. To
    classify, EM finds P(c | d) of the new document.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    alpha : float or "heldout"
        Lidstone's λ, added to every count, as in `NaiveBayes`.
    trust : float
        P(c | d) of a document's label to begin with; its other labels share it, and the other
        classes what is left.
    steps : int
        EM steps in training.
    fold_steps : int
        EM steps to classify a document.
    beta : float or list of floats
        Tempering of the training steps, as in `HierarchicalMixture`.
    variant : {"em", "cem", "sem"}
        As in `HierarchicalMixture`.
    nodes : {"all", "leaves"} or list of labels
        The nodes that can be predicted. Those without a training document never are.
    random_state : int or None
        Of the draws of "sem".

    Attributes
    ----------
    p_w_given_class_ : array, nodes × words
    bounds_ : list of float
        The bound before each training step.
    """

    _learned = (*NodeClassifier._learned, "p_w_given_class_", "document_counts_")

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        alpha: float | str = "heldout",
        trust: float = 0.9,
        steps: int = 2,
        fold_steps: int = 20,
        beta: Any = 1.0,
        variant: str = "em",
        nodes: Any = "all",
        random_state: int | None = None,
    ):
        self.taxonomy = taxonomy
        self.alpha = alpha
        self.trust = trust
        self.steps = steps
        self.fold_steps = fold_steps
        self.beta = beta
        self.variant = variant
        self.nodes = nodes
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from word counts and labels."""
        self._validate()
        X = self._counts(X, reset=True)
        labels, known = self._labels(y, None, reset=True)
        check_consistent_length(X, range(labels.n_documents))
        membership = known.membership(labels)
        weight = np.ones(X.shape[0])
        if sample_weight is not None:
            weight = document_weights(sample_weight, X.shape[0])
        used = (np.diff(membership.indptr) > 0) & (weight > 0)
        if not used.any():
            raise ValueError("No document has a label, so there is nothing to learn.")
        return self._fit_documents(X[used], membership[used], weight[used], known)

    def _fit_documents(
        self,
        X: sparse.csr_matrix,
        membership: sparse.csr_matrix,
        weight: np.ndarray,
        known: Classes,
    ) -> Self:
        weighted = scale_rows(membership, weight)
        counts, documents = statistics(X, weighted)
        alpha = self.alpha
        if alpha == "heldout":
            counts.sum_duplicates()
            evidence = evidence_statistics(X, weighted, "occurrence", 0)
            alpha = heldout_alpha(counts, held_out(counts, evidence, "occurrence").removed)
        live = np.flatnonzero(documents)
        p_w = counts[live].T.toarray() + alpha
        p_w /= p_w.sum(axis=0)
        others = (1 - self.trust) / max(len(live), 1)
        p_c = membership[:, live].toarray() * self.trust + others
        rows = Rows(
            X.indptr.astype(np.int64),
            X.indices,
            np.repeat(weight, np.diff(X.indptr)) * X.data,
        )

        def expect(
            parameters: tuple[np.ndarray, np.ndarray], sharing: Sharing
        ) -> tuple[Expected, float]:
            return e_step(rows, *parameters, sharing, items="shared")

        def maximise(
            expected: Expected, before: tuple[np.ndarray, np.ndarray]
        ) -> tuple[np.ndarray, np.ndarray]:
            assert expected.by_item is not None
            p_w = expected.by_item + alpha
            known = expected.by_row.any(axis=1, keepdims=True)
            p_c = np.where(known, to_shares(expected.by_row), before[1])
            return p_w / p_w.sum(axis=0), p_c

        seed = 0 if self.random_state is None else int(self.random_state)
        fitted = run_em(
            expect,
            maximise,
            (p_w, p_c),
            max_iter=self.steps,
            beta=self.beta,
            variant=self.variant,
            seed=seed,
        )
        self._set_classes(known)
        self.bounds_ = fitted.bounds
        self.document_counts_ = documents
        self.p_w_given_class_ = np.full(counts.shape, 1 / counts.shape[1])
        self.p_w_given_class_[live] = fitted.parameters[0].T
        # A word that no document had says nothing, rather than which classes are small.
        self.p_w_given_class_[:, np.asarray(counts.sum(axis=0)).ravel() == 0] = 0.0
        self.p_w_given_class_ = to_shares(self.p_w_given_class_)
        self._derive()
        return self

    def _derive(self) -> None:
        self._live = np.flatnonzero(self.document_counts_)
        self._p_w = np.ascontiguousarray(self.p_w_given_class_[self._live].T)

    def _log_joint(self, X: sparse.csr_matrix) -> np.ndarray:
        """Return log P(c | d), fitted by EM."""
        log_joint = np.full((X.shape[0], len(self.nodes_)), -np.inf)
        start = np.full(len(self._live), 1 / len(self._live))
        p_c = fold_in(X, self._p_w, start, self.fold_steps)
        log_joint[:, self._live] = np.log(np.maximum(p_c, _TINY))
        return log_joint

    def _restore(self) -> None:
        """Derive the rest from what a file held, after checking it."""
        self._check_classes()
        if self.p_w_given_class_.shape != (len(self.nodes_), self.n_features_in_):
            raise ValueError("word distributions do not fit the classes and words")
        if not (self.p_w_given_class_ >= 0).all():
            raise ValueError("word distributions are none")
        counts = self.document_counts_
        if counts.shape != (len(self.nodes_),) or (counts < 0).any() or not counts.any():
            raise ValueError("document counts do not fit the classes")
        self._validate()
        self._derive()

    def _validate(self) -> None:
        check_sharing(self.beta, self.variant)
        number = isinstance(self.alpha, Real) and 0 < float(self.alpha) < np.inf
        if not (number or self.alpha == "heldout"):
            raise ValueError(f'alpha={self.alpha!r}: expected a number above 0, or "heldout".')
        if not (isinstance(self.trust, Real) and 0 < float(self.trust) <= 1):
            raise ValueError(f"trust={self.trust!r}: expected a number above 0, and at most 1.")
        if not isinstance(self.steps, int | np.integer) or self.steps < 0:
            raise ValueError(f"steps={self.steps!r}: expected an integer of at least 0.")
        check_positive("fold_steps", self.fold_steps)
