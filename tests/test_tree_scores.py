import numpy as np
import pytest
from scipy import sparse
from scipy.special import logsumexp, softmax

import leafwise as lw
from leafwise.models import _tree_scores
from leafwise.models._table_scores import TableScores
from leafwise.models._tree_scores import TreeScores, word_lists

TREE = lw.Taxonomy.from_paths([f"{a}/{b}/{c}" for a in "ab" for b in "xyz" for c in "12"])


def drawn(decay=1.0, seed=0, n=700, n_words=30, share=0.2):
    """Scores with lists drawn at random, and documents; and the scores by a slow sum."""
    rng = np.random.default_rng(seed)
    n_nodes = len(TREE)
    table = rng.normal(1, 1, (n_words, n_nodes)) * (rng.random((n_words, n_nodes)) < share)
    column = np.full(n_nodes, -1)
    classes = np.sort(rng.choice(n_nodes, 14, replace=False))
    column[classes] = rng.permutation(14)
    scores = TreeScores(
        *word_lists(sparse.csr_matrix(table), 1.0),
        rng.random(n_words) < 0.8,
        TREE.parent,
        TREE.end,
        rng.normal(size=n_nodes),
        rng.normal(size=n_nodes),
        column,
        decay,
    )
    X = sparse.csr_matrix(rng.poisson(0.2, (n, n_words)).astype(float))
    slow = np.zeros((n, 14))
    dense = X.toarray()
    for i in classes:
        total, worth, j = np.zeros(n), 1.0, i
        while j >= 0:
            total += worth * (dense @ table[:, j])
            worth *= decay
            j = TREE.parent[j]
        slow[:, column[i]] = total + dense @ scores.counted * scores.bias[i] + scores.prior[i]
    return scores, X, slow


@pytest.mark.parametrize("decay", [1.0, 0.3, 0.0])
def test_scores_are_sums_over_paths(decay):
    scores, X, slow = drawn(decay)
    np.testing.assert_allclose(scores.log_joint(X), slow)


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_rows_of_common_words_and_lists_of_all_words_say_the_same(share, monkeypatch):
    scores, X, _ = drawn(share=share)
    monkeypatch.setattr(_tree_scores, "_WORTH_ROWS", 5)
    row_of, rows = scores._whole(X.nnz)
    n_nodes = len(TREE)
    common = 4 * np.diff(scores.indptr) >= n_nodes
    assert 0 < common.sum() < len(common) or share > 0.5
    np.testing.assert_array_equal(row_of >= 0, common)
    table = sparse.csr_matrix((scores.values, scores.nodes, scores.indptr)).toarray()
    np.testing.assert_array_equal(rows, table[common])
    assert not len(scores._whole(1)[0])  # one occurrence is not worth them
    # Too few occurrences for rows, document by document: the same bits.
    alone = np.vstack([scores.log_joint(X[i]) for i in range(50)])
    np.testing.assert_array_equal(scores.log_joint(X)[:50], alone)


def test_posteriors_are_tempered_and_lose_what_is_negligible():
    scores, X, slow = drawn()
    beta = np.random.default_rng(1).uniform(0.2, 1, X.shape[0])
    p = softmax(beta[:, None] * slow, axis=1)
    found = scores.posteriors(X, beta, least=1e-300)
    np.testing.assert_allclose(found.membership.toarray(), p)
    np.testing.assert_allclose(
        found.log_norm, logsumexp(beta[:, None] * slow, axis=1) / beta, rtol=1e-9
    )
    kept = np.where(p >= 0.1 * p.max(axis=1, keepdims=True), p, 0)
    cut = scores.posteriors(X, beta, least=0.1).membership.toarray()
    np.testing.assert_allclose(cut, kept / kept.sum(axis=1, keepdims=True))


def test_a_document_is_shared_among_so_many_classes_at_most():
    scores, X, slow = drawn()
    found = scores.posteriors(X, np.ones(X.shape[0]), least=1e-300, most=3).membership
    assert (np.diff(found.indptr) == 3).all()
    np.testing.assert_allclose(found.sum(axis=1), 1)
    best = np.sort(np.argsort(slow, axis=1)[:, -3:], axis=1)
    found.sort_indices()
    np.testing.assert_array_equal(found.indices.reshape(-1, 3), best)


def test_classes_that_are_impossible_and_nodes_that_nothing_matches():
    scores, X, _ = drawn()
    prior = np.where(np.arange(len(TREE)) % 2, -np.inf, 0.0)
    found = scores._replace(prior=prior).posteriors(X, np.ones(X.shape[0]), least=1e-300)
    possible = np.zeros(14, bool)
    possible[scores.column[(scores.column >= 0) & (prior == 0)]] = True
    assert (found.membership.toarray() > 0).any(axis=0).tolist() == possible.tolist()
    flat = np.zeros(len(TREE))
    matched = scores._replace(prior=flat, bias=flat)
    empty = sparse.csr_matrix((2, X.shape[1]))
    one = np.ones(2)
    assert matched.posteriors(empty, one, least=1e-3, only_matched=True).membership.nnz == 0
    assert matched.posteriors(empty, one, least=1e-3).membership.nnz == 28


def test_with_room_for_all_nodes_candidates_change_nothing_but_untouched_nodes():
    """Every node that some word of the document is listed at is a candidate."""
    scores, X, slow = drawn(share=1.0)
    some = np.flatnonzero(np.diff(X.indptr))
    found = scores.posteriors(X[some], np.ones(len(some)), least=1e-300, candidates=len(TREE))
    np.testing.assert_allclose(found.membership.toarray(), softmax(slow[some], axis=1))


def test_candidates_are_scored_by_all_words():
    scores, X, slow = drawn(share=0.4)
    some = np.flatnonzero(np.diff(X.indptr) > 2)[:50]
    found = scores.posteriors(X[some], np.ones(len(some)), least=1e-300, candidates=5).membership
    p = found.toarray()
    for r, d in enumerate(some):
        columns = np.flatnonzero(p[r])
        assert 0 < len(columns) <= 5
        np.testing.assert_allclose(p[r, columns], softmax(slow[d, columns]))


def test_a_word_points_to_the_nodes_where_it_adds_most():
    """Its sum over the path and what a word costs there, above the same at the root."""
    scores, X, _ = drawn(share=0.4)
    n_words = X.shape[1]
    one_each = sparse.csr_matrix(np.eye(n_words))
    everywhere = scores._replace(
        prior=np.zeros(len(TREE)), column=np.arange(len(TREE), dtype=np.int64)
    )
    slow = everywhere.log_joint(one_each)
    indptr, nodes, gains = scores._pointers(3)
    for w in range(n_words):
        listed = scores.nodes[scores.indptr[w] : scores.indptr[w + 1]]
        gain = slow[w, listed] - (slow[w, 0] if 0 in listed else 0.0)
        best = np.sort(listed[np.argsort(-gain)[:3]])
        at = slice(indptr[w], indptr[w + 1])
        np.testing.assert_array_equal(nodes[at], best)
        expected = np.maximum(gain[np.searchsorted(listed, best)], 0.0)
        np.testing.assert_allclose(gains[at], expected, atol=1e-12)


def test_candidates_hold_the_best_node_nearly_always():
    scores, X, slow = drawn(share=0.3)
    some = np.flatnonzero(np.diff(X.indptr) > 1)
    found = scores.posteriors(X[some], np.ones(len(some)), least=1e-9, candidates=8).membership
    best = np.asarray(found.argmax(axis=1)).ravel()
    assert np.mean(best == slow[some].argmax(axis=1)) > 0.9


def test_a_table_does_the_same():
    rng = np.random.default_rng(0)
    scores = TableScores(rng.normal(size=(8, 5)), rng.normal(size=5))
    X = sparse.csr_matrix(rng.poisson(1, (600, 8)).astype(float))
    slow = X.toarray() @ scores.weights + scores.prior
    np.testing.assert_allclose(scores.log_joint(X), slow)
    beta = rng.uniform(0.2, 1, 600)
    found = scores.posteriors(X, beta, least=1e-300)
    np.testing.assert_allclose(found.membership.toarray(), softmax(beta[:, None] * slow, axis=1))
    np.testing.assert_allclose(found.log_norm, logsumexp(beta[:, None] * slow, axis=1) / beta)
    assert scores.posteriors(X[:0], beta[:0], least=1e-3).membership.shape == (0, 5)
