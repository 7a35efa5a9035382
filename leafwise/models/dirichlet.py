"""Hierarchical Dirichlet: each node's word distribution is drawn around its parent's."""

from __future__ import annotations

import sys
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import logsumexp
from sklearn.utils import check_consistent_length

from leafwise.keywords import Keywords, find_keywords
from leafwise.labels import Classes
from leafwise.models import _sigma
from leafwise.models._blocks import Blocks, Documents, one_block
from leafwise.models._counts import best_columns, document_weights
from leafwise.models._dirichlet_tree import DirichletTree
from leafwise.models._em import Sharing, run_em
from leafwise.models._evidence import (
    ByMatches,
    ByPrototypes,
    Evidence,
    First,
    Pool,
    count_labels,
    count_terms_of,
    match_scores,
    n_shares,
    n_words_of,
    pool_of,
    posteriors,
    prototype_scores,
    read_block_as,
    share,
    share_first,
    sizes_of,
    used_words,
)
from leafwise.models._path_mixture import check_positive
from leafwise.models._sums import scale_rows
from leafwise.models._tree_scores import TreeScores
from leafwise.taxonomy import Taxonomy

_LARGE = 1 << 31  # documents × nodes from which not all nodes are looked at
_CANDIDATES = 200
# Less than so much of the best node's share is dropped, and at most so many nodes are kept, so that
# all stays sparse. Where β is given shares are sharper, and dropping saves little.
_TEMPERED = {"least": 0.03, "most": 200}
_AS_GIVEN = {"least": 1e-6, "most": 5000}
_LONGEST = 5.0  # median lengths: what a longer document counts for when it is learned from
_FEW = 200  # documents: of fewer each fifth is held out in turn to choose σ
_FIRST = 0.5  # of a keyword's weight, when there is nothing else to go by


class HierarchicalDirichlet(DirichletTree):
    """θ_i ~ Dir(σ θ_parent(i)): evidence flows up and down the tree (V eq. 1-17).

    Each node's estimate is a weighted mean of its own counts, its parent's estimate and its
    children's (V eq. 13): for all nodes at once, and exactly. `fit` learns from labels, from the
    keywords of the nodes and unlabelled documents (EM), or from all of them: documents without a
    label (None) are shared among the nodes, softly, and their words learned from.

    Parameters
    ----------
    taxonomy : Taxonomy or None
        The tree whose nodes are the classes; None makes the distinct labels the classes.
    words : {"counts", "roots", "set"}
        How often a document has each word (a multinomial, V eq. 1); the square root of that, since
        a word that is said again says less; or whether it has it at all (Bernoulli, V 3.2).
    sigma : "auto", float, or a float for each level below the root
        How tightly a node is bound to its parent, in words (in documents for sets): near 0 nodes
        share nothing, towards infinity all have one distribution. "auto" takes the value under
        which most labelled documents are put where they are, each by all others; where most have
        no label, the one that makes documents held out most likely. `partial_fit` chooses at its
        first call.
    class_prior : {"learned", "uniform"} or array
        P(node), as in `NaiveBayes`.
    nodes : {"all", "leaves"} or list of labels
        The nodes that can be predicted.
    vocabulary : array of str, WordCounter or None
        The word of each column, usually ``counter.get_feature_names_out()``, to find the nodes'
        keywords by. Where words are stemmed, the fitted counter itself, which stems keywords too.
        None: keywords have no part.
    keyword_weight : float
        A node's keywords count for so many documents of the usual length with no other word: so
        nodes stay with their keywords, whatever else EM makes of them.
    label_weight : float
        A labelled document weighs this share of all unlabelled documents of its class, and never
        less than one of them: with .02, fifty labels weigh as much as all the others.
    init : {"matches", "prototypes"}
        What documents are shared by at first: the keywords they have, weighed by how few
        documents have and nodes share them; or V's prototypes (V eq. 14).
    prototype : (float, float)
        A prototype's probability of the node's keywords, and of any other word.
    beta : "auto" or float
        Documents are shared by P(node, d)^β. "auto": 1 / √length, since words of a document do not
        speak independently, and without it all belong to one node at once. 1 is V's EM.
    max_iter, tol : int, float
        EM ends after so many estimates, or when a smaller share of documents changes its node.
    candidates : "auto", int or None
        How many nodes a document is scored at in full, by EM and `predict`: of those at which one
        of its words says most. None scores all; "auto" does so up to two thousand million
        documents × nodes. Probabilities are always of all nodes.
    reject : None, "ties" or float
        Documents for which `predict` gives None: with "ties" those that have more than one best
        node (V 3.4), with a number also those whose best node has a smaller probability.
    sample_size : int
        At most so many documents decide on "auto".
    random_state : int or None
        Which they are.
    verbose : bool
        Whether to write what EM is doing to the standard error stream.

    Attributes
    ----------
    sigma_ : float or list of floats
        The σ in use.
    unknown_keywords_ : list of str
        The keywords that find no document: none has them, or they are not counted (stop words).
    n_iter_ : int
        How often parameters were estimated: once without unlabelled documents.
    """

    _learned = (*DirichletTree._learned, "unknown_keywords_", "n_iter_")
    unknown_keywords_: list[str]
    n_iter_: int

    def __init__(
        self,
        taxonomy: Taxonomy | None = None,
        *,
        words: str = "counts",
        sigma: Any = "auto",
        class_prior: Any = "learned",
        nodes: Any = "all",
        vocabulary: Any = None,
        keyword_weight: float = 5.0,
        label_weight: float = 0.02,
        init: str = "matches",
        prototype: tuple[float, float] = (0.9, 0.1),
        beta: Any = "auto",
        max_iter: int = 10,
        tol: float = 0.01,
        candidates: Any = "auto",
        reject: Any = None,
        sample_size: int = 1000,
        random_state: int | None = 0,
        verbose: bool = False,
    ):
        self.taxonomy = taxonomy
        self.words = words
        self.sigma = sigma
        self.class_prior = class_prior
        self.nodes = nodes
        self.vocabulary = vocabulary
        self.keyword_weight = keyword_weight
        self.label_weight = label_weight
        self.init = init
        self.prototype = prototype
        self.beta = beta
        self.max_iter = max_iter
        self.tol = tol
        self.candidates = candidates
        self.reject = reject
        self.sample_size = sample_size
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from word counts, of which all, some or none have a label (None where unknown)."""
        self._validate()
        X = self._counts(X, reset=True)
        if y is None and self.taxonomy is not None:
            y = [None] * X.shape[0]
        labels, classes = self._labels(y, None, reset=True)
        check_consistent_length(X, range(labels.n_documents))
        weight = np.ones(X.shape[0])
        if sample_weight is not None:
            weight = document_weights(sample_weight, X.shape[0])
        documents = Documents(X, classes.membership(labels), weight)
        return self._fit_blocks(one_block(documents, X.shape[0]), classes)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more labelled documents; those without a label, and keywords, have no part.

        After `fit` they add to what it counted, each as one document.
        """
        if not hasattr(self, "word_counts_"):
            self.unknown_keywords_, self.n_iter_ = [], 1
        return super().partial_fit(X, y, classes, sample_weight)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable node of each document; None where it is rejected."""
        found = super().predict(X)
        if self.reject is None:
            return found
        log_p = np.sort(self.predict_log_proba(X), axis=1)
        unsure = np.zeros(len(log_p), bool)
        if log_p.shape[1] > 1:
            unsure = log_p[:, -1] - log_p[:, -2] < 1e-9
        if not isinstance(self.reject, str):
            unsure |= log_p[:, -1] < np.log(self.reject)
        found = found.astype(object)
        found[unsure] = None
        return found

    def _fit_blocks(self, blocks: Blocks, classes: Classes) -> Self:
        """Learn from blocks of `Documents`, and from the tree's keywords where they have a part."""
        self._validate()
        keywords = None
        if self.vocabulary is not None:
            if self.taxonomy is None:
                raise ValueError("vocabulary is for a tree's keywords, and there is no taxonomy.")
            shape = blocks.n_documents, int(blocks.total(n_words_of) / len(blocks.sizes))
            keywords = find_keywords(
                self.taxonomy,
                self.vocabulary,
                shape,
                lambda terms: blocks.total(count_terms_of, terms),
            )
        return self._fit_all(blocks, classes, keywords)

    def _fit(
        self,
        X: sparse.csr_matrix,
        classes: Classes,
        membership: sparse.csr_matrix,
        weight: np.ndarray,
        keywords: Keywords | None,
        first: First | None = None,
    ) -> Self:
        """Learn from documents, the weights of their labels, and keywords that were found.

        `first` says how documents are shared at first, where more is known than keywords.
        """
        blocks = one_block(Documents(X, membership, weight), X.shape[0])
        return self._fit_all(blocks, classes, keywords, first)

    def _fit_all(
        self,
        blocks: Blocks,
        classes: Classes,
        keywords: Keywords | None,
        first: First | None = None,
    ) -> Self:
        for name in ("sigma_", "word_counts_"):
            self.__dict__.pop(name, None)
        if self.words != "counts":
            blocks = blocks.derive(read_block_as, self.words)
        n_labels, n_words, length, weight = blocks.total(sizes_of)
        evidence = self._collect(blocks, classes, n_labels, length, weight, keywords, first)
        self.unknown_keywords_ = [] if keywords is None else keywords.unknown
        if not n_labels.any() and not evidence.n_first:
            raise ValueError(_nothing(keywords))
        self._prior_documents = float(evidence.n_pool > 0 or keywords is not None)
        auto = isinstance(self.sigma, str)
        self.sigma_ = self.sigma
        if auto and evidence.n_pool > np.count_nonzero(n_labels):
            n_pool_words = float(length[(n_labels == 0) & (weight > 0)].sum())
            self.sigma_ = self._likeliest_of_documents(evidence, n_pool_words)
        elif auto:
            self.sigma_ = 1.0
            self._learn_shared(evidence, None)
            judges = self._judges(n_labels, n_words, weight)
            self.sigma_ = self._likeliest(*blocks.gather(judges))
        self.n_iter_ = self._em(evidence)
        return self

    def _likeliest_of_documents(self, evidence: Evidence, n_words: float) -> float:
        """Choose σ by unlabelled documents: some are held out, the others learned from."""
        rng = np.random.default_rng(self.random_state)
        drawn = rng.permutation(evidence.n_pool)[: 5 * self.sample_size]
        sample = evidence.only(np.sort(drawn))
        drawn = np.argsort(np.argsort(drawn))  # their places in the sample
        fifths = np.array_split(drawn, min(5, len(drawn)))
        if len(drawn) > _FEW:  # so many that a fifth tells enough
            fifths = fifths[:1]
        return _sigma.likeliest(
            lambda s: np.concatenate(
                [self._held_out(sample, fifth, np.setdiff1d(drawn, fifth), s) for fifth in fifths]
            ),
            n_words,
        )

    def _collect(
        self,
        blocks: Blocks,
        classes: Classes,
        n_labels: np.ndarray,
        length: np.ndarray,
        weight: np.ndarray,
        keywords: Keywords | None,
        given: First | None,
    ) -> Evidence:
        usual = float(np.median(length[length > 0])) if length.any() else 1.0
        in_pool = (n_labels == 0) & (weight > 0) & (length > 0)
        n_pool = int(np.count_nonzero(in_pool))
        counted = np.ones(len(length))  # how much of a document: not all of a very long one
        if self.words != "set" and n_pool:
            counted = np.minimum(1.0, _LONGEST * usual / np.maximum(length, 1.0))
        found, n_labelled = blocks.total(count_labels, rows=[counted])
        n_classes = len(classes.nodes)
        counts, documents = sparse.csr_matrix(found.shape), np.zeros(n_classes)
        possible = n_labelled > 0
        first: Any = None
        if keywords is not None:
            counts = keywords.words(classes.taxonomy.parent, classes.nodes)
            documents = self.keyword_weight * (np.diff(counts.indptr) > 0)
            most = counts.max(axis=1).toarray().ravel()
            each = 1.0 / np.where(most > 0, most, 1.0) if self.words == "set" else usual
            counts = scale_rows(counts, documents * each)
            counts.sort_indices()  # or every sum with it would have to be sorted
            # V's prototypes have every node take part, whether it has a keyword or not.
            possible |= keywords.known[classes.nodes] | (self.init == "prototypes")
            if n_pool:
                first = self._first(blocks, in_pool, classes, keywords)
        beta = (
            np.maximum(length, 1.0) ** -0.5
            if isinstance(self.beta, str)
            else np.full(len(length), float(self.beta))
        )
        rows = [in_pool, weight * counted, beta]
        if given is not None:
            rows.append(given.membership)
        pool = blocks.derive(
            pool_of, n_classes, first, given.weight if given else 0.0, rows=rows
        ).sized(blocks.count(in_pool))
        n_first = pool.total(n_shares) if n_pool else 0
        return Evidence(classes, found, n_labelled, counts, documents, possible, pool, int(n_first))

    def _first(
        self, blocks: Blocks, in_pool: np.ndarray, classes: Classes, keywords: Keywords
    ) -> ByMatches | ByPrototypes:
        """Say how documents are shared by keywords alone: what EM begins with."""
        candidates = self._n_candidates(int(in_pool.sum()), len(classes.taxonomy))
        settings = {"candidates": candidates, **self._kept}
        if self.init == "matches":
            return ByMatches(match_scores(classes, _FIRST), keywords, settings)
        used = blocks.total(used_words, rows=[in_pool]) > 0
        is_set = self.words == "set"
        scores = prototype_scores(classes, keywords, used, self.prototype, is_set)
        return ByPrototypes(scores, settings)

    def _em(self, evidence: Evidence, max_iter: int | None = None) -> int:
        """Share the unlabelled documents and learn from the result, in turn; return how often."""
        self._learn_shared(evidence, evidence.pool.total(share_first) if evidence.n_first else None)
        if not evidence.n_pool:
            return 1
        last = np.full(evidence.n_pool, -1)
        n_changed = evidence.n_pool

        def expect(_: None, __: Sharing) -> tuple[tuple, float]:
            nonlocal n_changed
            settings = self._sharing(evidence.n_pool, evidence.possible)
            *shared, bound, best = evidence.pool.total(share, *settings)
            n_changed = int(np.count_nonzero(best != last))
            last[:] = best
            self._say(f"σ = {self.sigma_}: {n_changed:,} of {len(last):,} documents moved")
            return tuple(shared), bound

        def learn(shared: tuple, _: None) -> None:
            self._learn_shared(evidence, shared)

        fitted = run_em(
            expect,
            learn,
            None,
            max_iter=(self.max_iter if max_iter is None else max_iter) - 1,
            settled=lambda: n_changed < self.tol * evidence.n_pool,
        )
        return fitted.n_steps + 1

    def _learn_shared(self, evidence: Evidence, shared: tuple | None) -> None:
        """Become the model of labels, keywords and what unlabelled documents add."""
        self._keyword_documents = evidence.keyword_documents
        counts, documents = evidence.count(shared, self.label_weight, self.words == "set")
        self._set_statistics(evidence.classes, counts, documents)

    def _held_out(
        self, evidence: Evidence, judged: np.ndarray, others: np.ndarray, sigma: float
    ) -> np.ndarray:
        """Return how likely some documents are under what the others teach (V 3.3)."""
        self.sigma_ = sigma
        self._em(evidence.only(others), max_iter=min(4, self.max_iter))
        documents = Pool(*evidence.pool.gather(judged))
        blocks = self._blocks(documents.X)
        log_p = np.concatenate([logsumexp(log_joint, axis=1) for _, log_joint in blocks])
        return documents.weight * log_p

    def _sharing(self, n_documents: int, possible: np.ndarray | None = None) -> tuple:
        """Return what documents are shared by among the classes, or those that are possible.

        A class that nothing is known of says every word as often as its parent does, and would
        collect whatever fits nowhere.
        """
        scores, log_prior = self._scores, self._log_prior
        if possible is not None:
            log_prior = np.where(possible, log_prior, -np.inf)
        if isinstance(scores, TreeScores):
            prior = np.zeros(len(self.taxonomy_))
            prior[self.nodes_] = log_prior
            scores = scores._replace(prior=prior)
        else:
            scores = scores._replace(prior=scores.prior + log_prior[self._live])
        kept = {"candidates": self._n_candidates(n_documents), **self._kept}
        return scores, self._live, len(self.nodes_), kept

    @property
    def _kept(self) -> dict[str, Any]:
        return _TEMPERED if isinstance(self.beta, str) else _AS_GIVEN

    def _n_candidates(self, n_documents: int, n_nodes: int | None = None) -> int | None:
        if isinstance(self.candidates, str):
            n_nodes = len(self.taxonomy_) if n_nodes is None else n_nodes
            large = n_documents * n_nodes > _LARGE and self.words != "set"
            return _CANDIDATES if large else None
        return self.candidates

    def _best(self, X: Any) -> np.ndarray:
        X = self._counts(X)
        if self._n_candidates(X.shape[0]) is None:
            return super()._best(X)
        found = posteriors(X, np.ones(X.shape[0]), *self._sharing(X.shape[0]))
        best = best_columns(found.membership)
        return np.where(best < 0, self._log_prior.argmax(), best)

    def _say(self, what: str) -> None:
        if self.verbose:
            print(f"HierarchicalDirichlet: {what}", file=sys.stderr, flush=True)

    def _validate(self) -> None:
        super()._validate()
        if self.init not in ("matches", "prototypes"):
            raise ValueError(f'init={self.init!r}: expected "matches" or "prototypes".')
        for name in ("keyword_weight", "label_weight", "tol"):
            value = getattr(self, name)
            if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
                raise ValueError(f"{name}={value!r}: expected a number of 0 or more.")
        high_low = self.prototype
        if not (
            isinstance(high_low, tuple | list)
            and len(high_low) == 2
            and all(isinstance(p, Real) and 0 < float(p) < 1 for p in high_low)
        ):
            raise ValueError(f"prototype={high_low!r}: expected two numbers between 0 and 1.")
        if not (isinstance(self.beta, str) and self.beta == "auto") and not (
            isinstance(self.beta, Real) and 0 < float(self.beta) < np.inf
        ):
            raise ValueError(f'beta={self.beta!r}: expected a number above 0, or "auto".')
        check_positive("max_iter", self.max_iter)
        n = self.candidates
        if not (n is None or (isinstance(n, str) and n == "auto") or (_is_count(n) and n > 0)):
            raise ValueError(f'candidates={n!r}: expected an integer of 1 or more, None or "auto".')
        if self.words == "set" and _is_count(n):
            raise ValueError("candidates: sets of words need all nodes, expected None.")
        if not (
            self.reject is None
            or (isinstance(self.reject, str) and self.reject == "ties")
            or (isinstance(self.reject, Real) and 0 < float(self.reject) <= 1)
        ):
            raise ValueError(
                f'reject={self.reject!r}: expected None, "ties" or a probability above 0.'
            )


def _nothing(keywords: Keywords | None) -> str:
    if keywords is None:
        return (
            "No document has a label, so there is nothing to learn: give some labels, or "
            "vocabulary=, to learn from the keywords of the tree."
        )
    return (
        "There is nothing to learn from: no document has a label, and no keyword of the tree is in "
        "any document. Give some labels, or keywords that the texts use. (Stop words and single "
        "letters are not counted. Words are what stands between spaces and marks: for a script "
        "without spaces, count them by another token_pattern.)"
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)
