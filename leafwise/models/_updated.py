"""Learning on after `fit`: a few more labels, and a tree that changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from leafwise.exceptions import LabelError
from leafwise.labels import Classes, Occurrences, read_labels
from leafwise.models._choosing import ChoosingClassifier, n_of
from leafwise.models._counts import best_columns, keys_of
from leafwise.models._stages import LinearScores
from leafwise.taxonomy import Taxonomy
from leafwise.taxonomy_changes import Change


class Pool(NamedTuple):
    """The documents that `fit` was given.

    Attributes
    ----------
    X : their words
    labelled : whether each has a label by now
    keys : the same number for the same words
    """

    X: sparse.csr_matrix
    labelled: np.ndarray
    keys: np.ndarray


class UpdatedClassifier(ChoosingClassifier):
    """What `TaxonomyClassifier` does with labels and trees that come later."""

    label_counts_: np.ndarray
    transduction_: Any
    _pool: Pool

    def partial_fit(self, texts: Iterable[str], labels: Any) -> Self:
        """Learn from a few more labels, in milliseconds and without a new fit.

        Linear scores are set right for these documents, as if they had been there from the start;
        words that no document had so far, and how sure to be, wait for the next `fit`. Where the
        model alone sorts texts, or knows no document of a node, they are counted among its own.
        Of documents that were given
        to `fit`, `transduction_` changes and `query` takes note. Without a `fit` before, it is one.
        """
        self._check_last_fit()
        if not hasattr(self, "model_"):
            return self.fit(texts, labels)
        X = self._counts(texts)
        occurrences = read_labels(labels, self._classes)
        if occurrences.n_documents != X.shape[0]:
            raise ValueError(f"Got {X.shape[0]} texts and {occurrences.n_documents} labels.")
        most = np.bincount(occurrences.documents, minlength=1).max(initial=0)
        if most > 1 and not self.several_:
            raise LabelError(
                "A text has several labels, and this model gives one each: fit anew, with several "
                "labels or several=True."
            )
        self._make_room(occurrences)
        membership = self._classes.membership(occurrences)
        rows = np.flatnonzero(np.diff(membership.indptr))
        if not len(rows):
            return self
        X, membership = X[rows], membership[rows]
        own = best_columns(membership)
        if (linear := self._linear) is not None:
            linear.learn(X, membership)
            rows = np.flatnonzero(self.model_.document_counts_[own] == 0)  # news to the model
        else:
            rows = np.arange(len(own))
        if len(rows):
            # What a label weighs among the documents that the model has sorted: see `label_weight`.
            usual = self.model_.label_weight * self.model_.document_counts_
            names = [self.classes_[membership[i].indices].tolist() for i in rows]
            self.model_.partial_fit(X[rows], names, sample_weight=np.maximum(1.0, usual)[own[rows]])
        if linear is not None and not self.several_:
            self._learn_again(linear, X, membership, own)
        self.label_counts_ = self.label_counts_ + np.bincount(
            membership.indices, minlength=len(self.nodes_)
        )
        self._note(X, membership)
        return self

    def _learn_again(
        self,
        linear: LinearScores,
        X: sparse.csr_matrix,
        membership: sparse.csr_matrix,
        own: np.ndarray,
    ) -> None:
        """Set linear scores right together with those of the model, where that has the last word.

        It has much of one where nothing was spread (see `MODEL_ALONE`).
        """
        scores = self._scores(X)
        by_words, known = linear.scores_and_known(X)
        possible = np.isfinite(scores[np.arange(len(own)), own]) & (known[:, 0] > 0)
        rows = np.flatnonzero((scores.argmax(axis=1) != own) & possible)
        if len(rows):
            beside = scores[rows] / known[rows] - by_words[rows]
            linear.learn(X[rows], membership[rows], beside, soft=0.0)

    def _check_last_fit(self) -> None:
        if getattr(self, "_failed", False):
            raise NotFittedError(
                "The last fit failed, so there is nothing to go on from: fit anew."
            )

    def _check_fitted(self) -> None:
        self._check_last_fit()
        check_is_fitted(self, "model_")

    def change_taxonomy(
        self, taxonomy: Taxonomy | Change, moved: Mapping[str, str | None] | None = None
    ) -> list[str]:
        """Take another tree, keeping what was learned where it still applies; say what changed.

        Parameters
        ----------
        taxonomy : the new tree, or a `Change` of the old one (see `leafwise.taxonomy_changes`)
        moved : where nodes of the old tree went, with all below them: old to new paths

        Nodes that are renamed or moved keep what was learned of them; merged ones have it together.
        A new node with nothing learned gets documents from the next `fit` on, or from labels that
        `partial_fit` is given.
        """
        self._check_fitted()
        if self._plain:
            raise ValueError("This model has no taxonomy: its tree is made of the labels.")
        change = taxonomy
        if not isinstance(change, Change | Taxonomy):
            raise TypeError(
                f"taxonomy is a {type(change).__name__}, expected a leafwise.Taxonomy or a Change."
            )
        if not isinstance(change, Change):
            change = Change.between(self.taxonomy_, change, moved)
        elif moved is not None:
            raise ValueError("moved is for a tree: a Change says itself where nodes went.")
        elif change.old != self.taxonomy_:
            raise ValueError("The change begins with another tree than this model's.")
        nodes = change.node_of[self.nodes_]
        kept = nodes[nodes >= 0]
        every = kept
        if isinstance(self.nodes, str):
            added = np.setdiff1d(np.arange(len(change.new)), change.node_of)
            leaves = change.new.leaves
            every = np.union1d(kept, added if self.nodes == "all" else leaves)
        if not len(every):
            raise ValueError("No node of this model is left in the new tree: fit anew.")
        classes = Classes.of_nodes(change.new, np.unique(every))
        column = np.full(len(change.new), -1)
        column[classes.nodes] = np.arange(len(classes.nodes))
        report = change.report()
        if lost := int(self.label_counts_[nodes < 0].sum()):
            report.append(f"Lost with nodes that are gone: {n_of(lost, 'label')}.")
        self._gather(classes, np.where(nodes < 0, -1, column[nodes]))
        fresh = [
            name
            for name, n in zip(self.classes_, self.model_.document_counts_ + self.label_counts_)
            if not n
        ]
        if fresh:
            shown = ", ".join(fresh[:10]) + (", ..." if len(fresh) > 10 else "")
            report.append(f"Nothing is learned yet of {n_of(len(fresh), 'node')}: {shown}")
        self.taxonomy = change.new
        if not isinstance(self.nodes, str):
            self.nodes = self.classes_.tolist()
        return report

    def _make_room(self, labels: Occurrences) -> None:
        """Have a class for each label: an inner node may get its first one."""
        if self._plain:
            names = np.unique(np.concatenate([self.classes_, labels.labels]))
            if len(names) > len(self.classes_):
                classes = Classes.of_labels(labels._replace(labels=names))
                self._gather(classes, np.searchsorted(names, self.classes_))
        elif isinstance(self.nodes, str) and self.nodes == "auto":
            every = Classes.of_taxonomy(self.taxonomy_)
            used = every.nodes[np.unique(every.columns(labels.labels))]
            nodes = np.union1d(self.nodes_, used)
            if len(nodes) > len(self.nodes_):
                classes = Classes.of_nodes(self.taxonomy_, nodes)
                self._gather(classes, np.searchsorted(classes.names, self.classes_))

    def _gather(self, classes: Classes, column_of: np.ndarray) -> None:
        """Have other classes: `column_of` says which each of the old ones is, or -1."""
        n_classes = len(classes.nodes)
        kept = np.flatnonzero(column_of >= 0)

        def add_up(values: np.ndarray) -> np.ndarray:
            return np.bincount(column_of[kept], values[kept], n_classes)

        if (linear := self._linear) is not None:
            self._linear = linear.gather(column_of, n_classes)
        if self.thresholds_ is not None:
            n_old = np.maximum(add_up(np.ones(len(column_of))), 1)
            self.thresholds_ = add_up(self.thresholds_) / n_old
        self.model_._gather(classes, column_of)
        self.label_counts_ = add_up(self.label_counts_).astype(np.int64)
        if hasattr(self, "transduction_"):
            self._rename_transduction(classes, column_of)
        self._set_classes(classes)

    def _rename_transduction(self, classes: Classes, column_of: np.ndarray) -> None:
        """Say where documents are now; those whose node is gone are nowhere (None)."""
        to = {
            old: classes.names[c].item() if c >= 0 else None
            for old, c in zip(self.classes_.tolist(), column_of.tolist())
        }
        if self.several_:
            self.transduction_ = [
                tuple(dict.fromkeys(to[one] for one in row if to[one] is not None))
                for row in self.transduction_
            ]
        else:
            moved = [None if one is None else to[one] for one in self.transduction_.tolist()]
            gone = any(one is None for one in moved)
            self.transduction_ = np.array(moved, dtype=object if gone else None)

    def _note(self, X: sparse.csr_matrix, membership: sparse.csr_matrix) -> None:
        """Take note of labels of documents that `fit` was given: known by their words.

        A label that had been another counts in its place.
        """
        if not hasattr(self, "_pool"):
            return
        _, labelled, keys = self._pool
        column_of = {name: column for column, name in enumerate(self.classes_.tolist())}
        if not self.several_ and self.transduction_.dtype.kind == "U":
            self.transduction_ = self.transduction_.astype(self.classes_.dtype)
        for key, row in zip(keys_of(X), membership):
            same = np.flatnonzero(keys == key)
            names = tuple(self.classes_[row.indices].tolist())
            corrected = same[labelled[same]]
            for i in corrected.tolist():
                was = self.transduction_[i] if self.several_ else (self.transduction_[i],)
                gone = [column_of[name] for name in was if name in column_of]
                np.subtract.at(self.label_counts_, gone, 1)
            self.label_counts_[row.indices] += max(len(corrected) - 1, 0)
            labelled[same] = True
            for i in same:
                self.transduction_[i] = names if self.several_ else names[0]
