"""The stages of TaxonomyClassifier after a model's sorting."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn.svm import LinearSVC

from leafwise.models import _stages as stages
from leafwise.models._tfidf import LogTfIdf
from leafwise.models._thresholds import best_threshold, deal
from leafwise.models.graph import neighbor_graph
from leafwise.synthetic import make_corpus
from leafwise.taxonomy import Taxonomy


@pytest.fixture(scope="module")
def corpus():
    tree = Taxonomy.from_paths(["a/x", "a/y", "b/z"])
    return make_corpus(tree, 240, 200, 30, concentration=30, random_state=3)


@pytest.fixture(scope="module")
def truth(corpus):
    return np.unique(corpus.y, return_inverse=True)[1]


def indicator(column: np.ndarray, known: np.ndarray, n_classes: int = 3) -> sparse.csr_matrix:
    ones = np.ones(len(known))
    return sparse.csr_matrix((ones, (known, column[known])), (len(column), n_classes))


def test_neighbours_that_agree(corpus, truth):
    graph = neighbor_graph(corpus.X, 5, symmetric=True)
    dense, shares = graph.toarray(), []
    for i, row in enumerate(dense):
        if row.sum() > 0:
            shares.append(sum(row[truth == truth[i]]) / row.sum())
    assert stages.agreement(graph, truth) == pytest.approx(np.mean(shares))
    assert stages.agreement(graph, np.zeros_like(truth)) == pytest.approx(1.0)
    assert stages.agreement(graph, np.arange(len(truth))) == 0.0


def test_documents_without_neighbours_do_not_count():
    graph = sparse.csr_matrix([[0, 1.0, 0], [1.0, 0, 0], [0, 0, 0]])
    assert stages.agreement(graph, np.array([0, 0, 1])) == 1.0
    assert stages.agreement(sparse.csr_matrix((3, 3)), np.array([0, 0, 1])) == 0.0


def test_trust_rises_from_nothing_to_all():
    low, high = stages._AGREEMENT
    assert [stages.trust(a) for a in (0.0, low, (low + high) / 2, high, 1.0)] == pytest.approx(
        [0, 0, 0.5, 1, 1]
    )


def test_the_surest_documents_of_each_class():
    rng = np.random.default_rng(0)
    log_p = np.log(rng.dirichlet(np.ones(4), 120))
    membership = sparse.csr_matrix((np.ones(3), ([0, 1, 2], [3, 3, 0])), (120, 4))
    seeds = stages.surest(log_p, membership)
    n = int(stages._SUREST * 120 / 4)
    assert seeds[:3].tolist() == membership[:3].toarray().tolist()
    best = log_p.argmax(axis=1)
    for c in range(4):
        own = [i for i in range(3, 120) if best[i] == c]
        wanted = sorted(own, key=lambda i: -log_p[i, c])[:n]
        assert np.flatnonzero(seeds[3:, c]).tolist() == sorted(i - 3 for i in wanted)


def test_spreading_has_the_shares_asked_for():
    # Two groups of documents that have nothing in common, and one seed in each.
    block = np.ones((4, 4)) - np.eye(4)
    graph = sparse.csr_matrix(sparse.block_diag([block, block]))
    seeds = np.zeros((8, 3))
    seeds[0, 0] = seeds[4, 2] = 1.0
    p = np.exp(stages.spread(graph, seeds, np.array([0.5, 0.25, 0.25])))
    assert p.sum(axis=1) == pytest.approx(np.ones(8))
    assert p.argmax(axis=1).tolist() == [0] * 4 + [2] * 4
    assert (p[:, 1] < 1e-6).all()  # nothing was spread of it


def test_linear_scores_are_those_of_support_vector_machines(corpus, truth, monkeypatch):
    monkeypatch.setattr(stages, "_TOLERANCE", 1e-9)
    tfidf = LogTfIdf().fit(corpus.X)
    V, weight = tfidf.transform(corpus.X), np.linspace(0.1, 1, len(truth))
    every = np.arange(len(truth))
    machines = LinearSVC(random_state=0, tol=1e-9, max_iter=100_000)
    linear = stages.fit_linear(V, indicator(truth, every), weight, tfidf)
    margins = machines.fit(V, truth, sample_weight=weight).decision_function(V)
    assert linear.scores(corpus.X) == pytest.approx(margins, abs=1e-4)
    # A class that no document is of, among four; and two classes.
    column = np.where(truth == 2, 3, 0)
    two = stages.fit_linear(V, indicator(column, every, 4), weight, tfidf)
    margin = machines.fit(V, column, sample_weight=weight).decision_function(V)
    scores = two.scores(corpus.X)
    assert scores[:, [0, 3]] == pytest.approx(np.column_stack([-margin, margin]), abs=1e-4)
    assert (scores[:, [1, 2]] == stages._MARGIN).all()
    one = indicator(np.zeros_like(truth), every)
    assert stages.fit_linear(V, one, weight, tfidf) is None


def test_linear_scores_of_documents_with_several_labels(corpus, truth, monkeypatch):
    monkeypatch.setattr(stages, "_TOLERANCE", 1e-9)
    tfidf = LogTfIdf().fit(corpus.X)
    V, ones = tfidf.transform(corpus.X), np.ones(len(truth))
    also = np.column_stack([truth == 0, truth == 1, truth == 2, np.arange(len(truth)) % 3 == 0])
    linear = stages.fit_linear(V, sparse.csr_matrix(also.astype(float)), ones, tfidf)
    for c in range(4):
        machine = LinearSVC(random_state=0, tol=1e-9, max_iter=100_000).fit(V, also[:, c])
        margin = machine.decision_function(V)
        assert linear.scores(corpus.X)[:, c] == pytest.approx(margin, abs=1e-4)


def test_a_document_counts_more_for_its_own_classes(corpus, truth, monkeypatch):
    monkeypatch.setattr(stages, "_TOLERANCE", 1e-9)
    tfidf = LogTfIdf().fit(corpus.X)
    V, ones = tfidf.transform(corpus.X), np.ones(len(truth))
    every = indicator(truth, np.arange(len(truth)))
    scores = stages.fit_linear(V, every, ones, tfidf, own=4.0).scores(corpus.X)
    for c in range(3):
        machine = LinearSVC(random_state=0, tol=1e-9, max_iter=100_000, class_weight={1: 4.0})
        margin = machine.fit(V, (truth == c).astype(int)).decision_function(V)
        assert scores[:, c] == pytest.approx(margin, abs=1e-4)


def in_pairs(truth):
    """Every fifth document is of two classes."""
    also = np.column_stack([truth == c for c in range(3)]).astype(float)
    also[::5, 2] = 1.0
    return sparse.csr_matrix(also)


def test_cuts_are_those_of_parts_left_out(corpus, truth, monkeypatch):
    every = in_pairs(truth)
    monkeypatch.setattr(stages, "_N_DEALS", 1)
    one = stages.cuts_of_labels(corpus.X, every)
    there = every.toarray() > 0
    part = deal(there, 4, np.random.default_rng(0))
    scores = np.empty(there.shape)
    for i in range(4):
        rest = np.flatnonzero(part != i)
        tfidf = LogTfIdf().fit(corpus.X[rest])
        V = tfidf.transform(corpus.X[rest])
        linear = stages.fit_linear(V, every[rest], np.ones(len(rest)), tfidf, own=stages.OWN)
        scores[part == i] = linear.scores(corpus.X[part == i])
    expected = [best_threshold(scores[:, c], there[:, c]) for c in range(3)]
    assert one == pytest.approx(expected)
    monkeypatch.setattr(stages, "_N_DEALS", 3)
    assert not np.array_equal(stages.cuts_of_labels(corpus.X, every), one)


def test_other_documents_have_the_classes_above_their_cuts(corpus, truth):
    known = np.arange(0, 240, 4)
    every = in_pairs(truth)
    some = sparse.csr_matrix(sparse.diags_array((np.arange(240) % 4 == 0) * 1.0) @ every)
    cuts = np.array([0.1, -0.2, 0.0])
    found = stages.learn_several(corpus.X, some, cuts)
    # By the labels alone, then by everything.
    tfidf = LogTfIdf().fit(corpus.X[known])
    V, ones = tfidf.transform(corpus.X[known]), np.ones(len(known))
    first = stages.fit_linear(V, some[known], ones, tfidf, own=stages.OWN)
    classes = (first.scores(corpus.X) > cuts).astype(float)
    classes[known] = every[known].toarray()
    assert {0, 1, 2} <= set(classes.sum(axis=1))  # none, one, several
    weight = np.full(240, 0.1)
    weight[known] = 1.0
    tfidf = LogTfIdf().fit(corpus.X)
    expected = stages.fit_linear(
        tfidf.transform(corpus.X), sparse.csr_matrix(classes), weight, tfidf, own=stages.OWN
    )
    assert found.scores(corpus.X) == pytest.approx(expected.scores(corpus.X), abs=0.05)
    one = indicator(np.zeros_like(truth), known)
    assert stages.learn_several(corpus.X, one, cuts) is None


def test_training_goes_on_from_where_it_ended(corpus, truth):
    tfidf = LogTfIdf().fit(corpus.X)
    V, ones = tfidf.transform(corpus.X), np.ones(len(truth))
    share = np.zeros((3, len(truth)))
    every = indicator(truth, np.arange(len(truth)))
    first = stages.fit_linear(V, every, ones, tfidf, share)
    again = stages.fit_linear(V, every, ones, tfidf, share)
    assert share.any()
    assert again.coef == pytest.approx(first.coef)  # no pass was needed


def test_how_many_words_are_known(corpus):
    linear = stages.LinearScores(np.zeros((4, 2)), np.zeros(2), np.array([1.0, 0, 2.0, 0]))
    X = sparse.csr_matrix([[1, 3, 0, 0], [2, 0, 2, 0], [0, 0, 0, 5], [0, 0, 0, 0]])
    assert linear.known(X).tolist() == [[0.25], [1.0], [0.0], [0.0]]


def test_scores_in_one_pass_are_those_of_the_weighed_words(corpus):
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(corpus.X, dtype=float)
    X.data[::3] = 0.3  # less than one occurrence counts in proportion
    X.data[::7] = 0.0
    idf = rng.random(X.shape[1]) * (rng.random(X.shape[1]) < 0.8)
    linear = stages.LinearScores(rng.standard_normal((X.shape[1], 5)), rng.random(5), idf)
    expected = linear.weigh(X) @ linear.coef + linear.intercept
    np.testing.assert_allclose(linear.scores(X), expected, rtol=1e-12, atol=1e-12)
    nothing = linear.scores(sparse.csr_matrix(X[:2].shape))
    np.testing.assert_array_equal(nothing, [linear.intercept] * 2)


def test_words_that_all_documents_have_weigh_the_least(corpus, truth):
    every = indicator(truth, np.arange(len(truth)))
    nothing = np.zeros((len(truth), 3))
    linear = stages.learn_anew(corpus.X, every, nothing, None, least=0.7).linear
    tfidf = LogTfIdf(0.7).fit(corpus.X)
    alone = stages.fit_linear(tfidf.transform(corpus.X), every, np.ones(len(truth)), tfidf)
    np.testing.assert_array_equal(linear.coef, alone.coef)
    n_with_word = (corpus.X > 0).sum(axis=0)
    expected = np.where(n_with_word > 0, np.log(240 / np.maximum(n_with_word, 1)) + 0.7, 0.0)
    np.testing.assert_allclose(linear.idf, np.ravel(expected))
    assert linear.least == linear.gather(np.array([0, 0, 1]), 2).least == 0.7


def test_common_words_weigh_less_in_longer_documents():
    def of_lengths(*lengths):
        return sparse.csr_matrix(np.arange(100) < np.array(lengths)[:, None], dtype=float)

    assert stages.common_weight(of_lengths(3, 20, 40)) == 1.0
    assert stages.common_weight(of_lengths(0, 0, 40, 80, 90)) == 0.25
    assert stages.common_weight(of_lengths(0, 0)) == 1.0


def test_where_all_have_labels_nothing_is_spread(corpus, truth):
    every = indicator(truth, np.arange(len(truth)))
    linear, agreed, *_ = stages.learn_anew(corpus.X, every, np.zeros((len(truth), 3)), None)
    tfidf = LogTfIdf().fit(corpus.X)
    alone = stages.fit_linear(tfidf.transform(corpus.X), every, np.ones(len(truth)), tfidf)
    assert agreed is None
    np.testing.assert_array_equal(linear.coef, alone.coef)


def test_without_neighbours_linear_scores_learn_from_what_labels_sort(corpus, truth):
    known = np.sort([np.flatnonzero(truth == c)[:4] for c in range(3)], axis=None)
    labels = indicator(truth, known)
    rng = np.random.default_rng(0)
    log_p = np.log(rng.dirichlet(np.ones(3), len(truth)))
    linear, agreed, every, by_labels = stages.learn_anew(corpus.X, labels, log_p, None)

    tfidf = LogTfIdf().fit(corpus.X)
    V = tfidf.transform(corpus.X)
    first = stages.fit_linear(V[known], labels[known], np.ones(len(known)), tfidf)
    few, many, half = stages._LINEAR
    weight = few + (many - few) * 4 / (4 + half)
    p = softmax(stages._MODEL * log_p + weight * first.scores(corpus.X), axis=1)
    best = p.argmax(axis=1)
    best[known] = truth[known]
    counts = stages._GUESSED * p.max(axis=1)
    counts[known] = 1.0
    sorted_so = indicator(best, np.arange(len(truth)))
    alone = stages.fit_linear(V, sorted_so, counts, tfidf)
    assert agreed is None
    np.testing.assert_array_equal(by_labels, first.scores(corpus.X).argmax(axis=1))
    np.testing.assert_array_equal(every.toarray(), sorted_so.toarray())
    np.testing.assert_allclose(linear.coef, alone.coef, atol=1e-9)


def test_a_vague_sorting_is_made_clearer(corpus, truth):
    """Six in ten sorted well, and a label each: neighbours put most of the others right."""
    rng = np.random.default_rng(1)
    guess = np.where(rng.random(len(truth)) < 0.6, truth, rng.integers(0, 3, len(truth)))
    log_p = np.log(0.2 + 0.4 * np.eye(3)[guess])
    known = np.array([np.flatnonzero(truth == c)[0] for c in range(3)])
    graph = neighbor_graph(corpus.X, stages.SPREAD.k, symmetric=True)
    linear, agreed, *_ = stages.learn_anew(corpus.X, indicator(truth, known), log_p, graph)
    right = np.mean(linear.scores(corpus.X).argmax(axis=1) == truth)
    assert 0.38 < agreed < 0.75
    assert np.mean(guess == truth) < 0.8
    assert right > 0.95


def test_labels_spread_over_neighbours_are_a_first_sorting(corpus, truth):
    known = np.array([np.flatnonzero(truth == c)[:3] for c in range(3)]).ravel()
    graph = neighbor_graph(corpus.X, stages.SPREAD.k, symmetric=True)
    found = stages.first_sorting(graph, indicator(truth, known))
    assert found.sum(axis=1) == pytest.approx(np.ones((len(truth), 1)))
    assert np.mean(truth == found.argmax(axis=1).A1) > 0.9
    assert (found.data >= 0.03 * np.repeat(found.max(axis=1).data, np.diff(found.indptr))).all()


def test_scores_of_labels_leave_other_classes_their_share():
    """One class of three has no label: what the model gives it stays, the others are told apart."""
    p = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]])
    scores = np.array([[2.0, -1.0, -9.0], [-1.0, 2.0, -9.0]])
    both = np.array([0, 1])
    kept = np.exp(stages._put_beside(np.log(p), scores, both))
    apart = p.copy()
    apart[:, both] *= np.exp(scores[:, both])
    apart[:, both] *= (1 - p[:, 2:]) / apart[:, both].sum(axis=1, keepdims=True)
    plain = p * np.exp(scores)
    plain /= plain.sum(axis=1, keepdims=True)
    assert kept == pytest.approx(plain ** (2 / 3) * apart ** (1 / 3))
    every = np.exp(stages._put_beside(np.log(p), scores, np.arange(3)))
    assert every == pytest.approx(plain)


def test_keywords_that_match_count_beside_the_model(corpus, truth):
    """A model that knows nothing, and keywords that are right of four in five documents."""
    rng = np.random.default_rng(0)
    matched = np.zeros((len(truth), 3))
    guess = np.where(rng.random(len(truth)) < 0.8, truth, rng.integers(0, 3, len(truth)))
    matched[np.arange(len(truth)), guess] = 3.0
    graph = neighbor_graph(corpus.X, stages.SPREAD.k, symmetric=True)
    nothing = indicator(truth, np.array([], int))
    flat = np.full((len(truth), 3), -np.log(3))
    linear, *_ = stages.learn_anew(corpus.X, nothing, flat, graph, matched=matched)
    assert np.mean(linear.scores(corpus.X).argmax(axis=1) == truth) > 0.95
