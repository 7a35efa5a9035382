import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import leafwise as lw
from leafwise.models import _top_k
from leafwise.models._top_k import nearly_top_k, top_k
from leafwise.persistence import save


def drawn(n=150, n_words=80, seed=0):
    """Word counts with words of all frequencies, empty documents, copies, and a lonely one."""
    rng = np.random.default_rng(seed)
    rate = 3.0 / (1 + np.arange(n_words))
    X = rng.poisson(rate, (n, n_words))
    X[:, -1] = 0
    X[[5, 6]] = 0  # empty
    X[10:14] = X[9]  # copies, so ties
    X[20] = 0
    X[20, -1] = 3  # shares no word with any other
    return sparse.csr_matrix(X)


def slow_similarity(X, similarity, mu=1000.0):
    """Similarities of all pairs of documents, one by one; -inf where they share no word.

    Those of "lm" are logarithms: they are too small for a float.
    """
    X = X.toarray().astype(float)
    n = len(X)
    idf = np.log(n / np.maximum((X > 0).sum(axis=0), 1))
    p_w = X.sum(axis=0) / X.sum()
    found = np.full((n, n), -np.inf)
    for i in range(n):
        for j in range(n):
            shared = (X[i] > 0) & (X[j] > 0)
            if i == j or not shared.any():
                continue
            if similarity == "cosine":
                a, b = (
                    np.where(x > 0, 1 + np.log(np.maximum(x, 1)), 0) * idf for x in (X[i], X[j])
                )
                if (a * b).any():
                    found[i, j] = a @ b / np.sqrt((a @ a) * (b @ b))
                continue
            p_d = (X[j] + mu * p_w) / (X[j].sum() + mu)  # E eq. 4
            w = X[i] > 0
            p_q = X[i, w] / X[i].sum()
            if similarity == "kl":
                found[i, j] = np.exp(p_q @ np.log(p_d[w] / p_q))  # E eq. 11
            else:
                found[i, j] = X[i, w] @ np.log(p_d[w])  # E eq. 9
    return found


def slow_neighbours(similarity, k):
    """The first k by similarity, up to rounding, and then by number."""
    order = np.lexsort((np.arange(len(similarity)), -np.round(similarity, 12)))
    return np.array([j for j in order[:k] if similarity[j] > -np.inf], int)


@pytest.mark.parametrize("similarity", ["cosine", "kl", "lm"])
@pytest.mark.parametrize("k", [1, 7, 500])
def test_neighbours_are_those_of_a_double_loop(similarity, k):
    X = drawn()
    slow = slow_similarity(X, similarity)
    graph = lw.neighbor_graph(X, k, similarity)
    assert graph.shape == (150, 150)
    for i in range(150):
        mine = slow_neighbours(slow[i], k)
        row = slice(graph.indptr[i], graph.indptr[i + 1])
        np.testing.assert_array_equal(graph.indices[row], np.sort(mine))
        expected = slow[i, np.sort(mine)]
        if similarity == "lm" and len(mine):
            expected = np.exp(expected - expected.max())
        np.testing.assert_allclose(graph.data[row], expected, rtol=1e-9, atol=1e-299)


def test_empty_and_lonely_documents_have_no_neighbour_and_are_none():
    graph = lw.neighbor_graph(drawn(), 30, "kl").toarray()
    for i in (5, 6, 20):
        assert not graph[i].any()
        assert not graph[:, i].any()


def test_equally_similar_documents_come_in_their_order():
    """Documents 9 to 13 are copies: all others see the first of them first."""
    graph = lw.neighbor_graph(drawn(), 3, "cosine")
    np.testing.assert_array_equal(graph[12].indices, [9, 10, 11])
    np.testing.assert_array_equal(graph[9].indices, [10, 11, 12])


def test_kl_and_lm_have_the_same_neighbours():
    """E 4.2: only the similarities differ."""
    X = drawn(seed=1)
    kl, lm = (lw.neighbor_graph(X, 10, name) for name in ("kl", "lm"))
    np.testing.assert_array_equal(kl.indices, lm.indices)
    long = [i for i in range(150) if kl[i].nnz > 1 and X[i].sum() > 1]
    nearest = np.array([[g[i].data.max() / g[i].data.sum() for g in (kl, lm)] for i in long])
    assert len(long) > 100
    assert (nearest[:, 0] <= nearest[:, 1]).all()
    assert nearest[:, 1].mean() > 1.1 * nearest[:, 0].mean()


@pytest.mark.parametrize("share", [1.0, 0.5, 0.2, 0.05, 0.0])
def test_which_words_are_left_for_last_changes_nothing(share):
    rng = np.random.default_rng(2)
    A = sparse.random(120, 60, 0.3, "csr", random_state=rng)
    B = sparse.random(700, 60, 0.3, "csr", random_state=rng)
    offset = rng.normal(size=700)
    slow = (A @ B.T).toarray() + np.where((A @ B.T).toarray() > 0, offset, -np.inf)
    indices, values = top_k(A, B, offset, 9, share=share)
    np.testing.assert_array_equal(indices, np.argsort(-slow, axis=1)[:, :9])
    np.testing.assert_allclose(values, -np.sort(-slow, axis=1)[:, :9])


def test_common_words_are_left_for_last_where_that_saves_steps():
    """The trial must not always end at its first number."""
    rng = np.random.default_rng(3)
    rare = sparse.random(2000, 4000, 0.01, "csr", random_state=rng)
    common = sparse.csr_matrix(0.01 * rng.random((2000, 5)))
    B = sparse.csr_matrix(sparse.hstack([rare, common]))
    share = _top_k._fastest(B, B, _top_k.Documents.of(B, np.zeros(2000)), 10)
    assert share < 1
    every, some = (top_k(B, B, np.zeros(2000), 10, share=s)[0] for s in (1.0, share))
    np.testing.assert_array_equal(every, some)


def test_cutting_into_blocks_and_threads_changes_nothing(monkeypatch):
    X = drawn()
    whole = lw.neighbor_graph(X, 8)
    monkeypatch.setattr(_top_k, "BLOCK", 7)
    cut = lw.neighbor_graph(X, 8)
    np.testing.assert_array_equal(whole.indices, cut.indices)
    np.testing.assert_array_equal(whole.data, cut.data)


def test_new_documents_find_old_ones_as_these_find_each_other():
    """A document that is asked for again finds itself, and else what it found in the graph."""
    X = drawn()
    for similarity in ("cosine", "kl", "lm"):
        index = lw.NeighborIndex(similarity).fit(X)
        graph, found = index.graph(6), index.query(X, 150)
        if similarity == "lm":
            continue
        for i in (0, 50, 120):
            again = found[i].toarray().ravel()
            assert again[i] == again.max()
            np.testing.assert_allclose(again[graph[i].indices], graph[i].data)


def test_words_that_no_document_has_are_passed_over():
    X = drawn()
    index = lw.NeighborIndex("kl").fit(sparse.csr_matrix(X[:20]))
    query = X[30].toarray()
    more = query.copy()
    more[0, -1] += 5  # a word of document 20 alone, which was not there
    a, b = (index.query(sparse.csr_matrix(q), 5) for q in (query, more))
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_allclose(a.data, b.data)


def test_neighbours_among_some_documents_with_the_words_of_all():
    X = drawn()
    some = np.arange(0, 150, 3)
    slow = slow_similarity(X, "cosine")
    slow[:, np.setdiff1d(np.arange(150), some)] = -np.inf
    graph = lw.NeighborIndex().fit(X, among=some).graph(5)
    for i in range(150):
        np.testing.assert_array_equal(graph[i].indices, np.sort(slow_neighbours(slow[i], 5)))


def test_both_directions_at_the_higher_similarity():
    graph = lw.neighbor_graph(drawn(), 5, "kl")
    both = lw.neighbor_graph(drawn(), 5, "kl", symmetric=True)
    dense = graph.toarray()
    np.testing.assert_array_equal(both.toarray(), np.maximum(dense, dense.T))
    np.testing.assert_array_equal(lw.symmetrize(graph).toarray(), both.toarray())


def test_vectors_of_an_encoder():
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(50, 8))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -np.inf)
    for X in (vectors, sparse.csr_matrix(vectors)):
        graph = lw.neighbor_graph(X, 4, "embedding")
        for i in range(50):
            best = np.sort(np.argsort(-cosine[i])[:4])
            np.testing.assert_array_equal(graph[i].indices, best)
            np.testing.assert_allclose(graph[i].data, cosine[i, best])
    apart = lw.neighbor_graph(np.array([[1.0, 0], [-1, 0], [0, 0]]), 2, "embedding")
    assert apart.nnz == 0


def test_similarities_that_are_given():
    S = np.array([[9, 2, 0, 2], [2, 9, 5, 1], [0, 5, 9, 0], [2, 1, 0, 9.0]])
    for X in (S, sparse.csr_matrix(S)):
        graph = lw.neighbor_graph(X, 2, "precomputed").toarray()
        expected = [[0, 2, 0, 2], [2, 0, 5, 0], [0, 5, 0, 0], [2, 1, 0, 0]]
        np.testing.assert_array_equal(graph, expected)
    index = lw.NeighborIndex("precomputed").fit(S)
    np.testing.assert_array_equal(index.query(S[:1], 2).toarray(), [[9, 2, 0, 0]])
    with pytest.raises(ValueError, match="X has 2 rows and 4 columns: expected a similarity for"):
        lw.neighbor_graph(S[:2], 2, "precomputed")


def test_graphs_are_averaged_row_by_row():
    a = np.array([[0, 1, 3], [2, 0, 0], [0, 0, 0.0]])
    b = np.array([[0, 5, 0], [0, 0, 7], [4, 4, 0.0]])
    mean = lw.average_graphs([a, sparse.csr_matrix(b)]).toarray()
    np.testing.assert_allclose(mean, [[0, 0.625, 0.375], [0.5, 0, 0.5], [0.5, 0.5, 0]])
    most = lw.average_graphs([a, b], weights=[3, 1]).toarray()
    np.testing.assert_allclose(most[0], [0, 0.4375, 0.5625])
    with pytest.raises(ValueError, match="graphs is empty"):
        lw.average_graphs([])
    with pytest.raises(ValueError, match=r"weights=.* expected 2 numbers of 0 or more, not all 0"):
        lw.average_graphs([a, b], weights=[0, 0])
    with pytest.raises(ValueError, match=r"different shapes: \(2, 2\) and \(3, 3\)"):
        lw.average_graphs([a, np.ones((2, 2))])


@pytest.mark.parametrize("similarity", ["cosine", "kl"])
def test_approximate_neighbours_are_real_ones_and_most_of_them(similarity):
    X = drawn(n=2000, n_words=400)
    exact = lw.neighbor_graph(X, 10, similarity)
    near = lw.neighbor_graph(X, 10, similarity, approximate=300)
    shared = exact.multiply(near > 0)
    assert shared.nnz / exact.nnz > 0.8
    both = near.multiply(exact > 0)
    np.testing.assert_allclose(both.data, shared.data)  # where found, as similar as they are
    every = lw.neighbor_graph(X, 10, similarity, approximate=2000)
    np.testing.assert_array_equal(every.indices, exact.indices)


@pytest.mark.parametrize("similarity", ["cosine", "kl", "lm"])
def test_the_more_documents_are_looked_at_the_more_neighbours_are_found(similarity):
    X = drawn(n=2000, n_words=400)
    index = lw.NeighborIndex(similarity).fit(X)
    exact = index.query(X[::10], 10)
    looked_at = (2, 5, 15, 2000, 10**12)
    found = [
        lw.NeighborIndex(similarity, approximate=m).fit(X).query(X[::10], 10) for m in looked_at
    ]
    recall = [exact.multiply(near > 0).nnz / exact.nnz for near in found]
    assert recall[0] < 0.6
    assert (np.diff(recall[:3]) > 0.05).all()
    assert recall[3:] == [1.0, 1.0]
    default = [lw.neighbor_graph(X, 10, similarity, approximate=m) for m in (True, np.True_, 200)]
    for graph in default[1:]:
        np.testing.assert_array_equal(graph.indices, default[0].indices)
    assert lw.neighbor_graph(X, 10, similarity, approximate=1).nnz < default[0].nnz


@pytest.mark.parametrize("approximate", [False, True, 7, np.int64(7)])
def test_how_many_documents_are_looked_at_is_kept(approximate, tmp_path):
    X = drawn()
    y = np.arange(150) % 2
    for model in (
        lw.NeighborIndex(approximate=approximate),
        lw.NeighborsClassifier(approximate=approximate),
        lw.HarmonicClassifier(approximate=approximate),
    ):
        again = clone(model)
        assert again.approximate is approximate
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "No label reaches")
            again.fit(X, y)
        save(again, tmp_path / "m.lw")
        loaded = lw.load(tmp_path / "m.lw")
        assert loaded.approximate == approximate
        assert isinstance(loaded.approximate, bool) == isinstance(approximate, bool)
        index, same = (getattr(m, "index_", m) for m in (again, loaded))
        assert same.approximate == approximate
        np.testing.assert_array_equal(same.graph(4).toarray(), index.graph(4).toarray())


def test_approximate_lists_hold_the_documents_that_are_richest_in_a_word():
    B = sparse.csr_matrix(np.array([[0.1, 0], [0.9, 1], [0.9, 0], [0.5, 0.2], [0.9, 0]]))
    A = sparse.csr_matrix(np.array([[1.0, 0]]))
    indices, values = nearly_top_k(A, B, np.zeros(5), 5, most=2)
    np.testing.assert_array_equal(indices, [[1, 2, -1, -1, -1]])
    np.testing.assert_allclose(values[0, :2], 0.9)


def test_progress_is_shown_when_asked_for(capsys):
    lw.neighbor_graph(drawn(), 3)
    assert capsys.readouterr().err == ""
    lw.neighbor_graph(drawn(), 3, verbose=True)
    assert "neighbours" in capsys.readouterr().err


def test_nothing_to_find():
    assert lw.neighbor_graph(sparse.csr_matrix((3, 4)), 2, "kl").nnz == 0
    assert lw.neighbor_graph(np.array([[1, 2]]), 2).nnz == 0
    assert lw.NeighborIndex().fit(drawn()).query(sparse.csr_matrix((1, 80)), 2).nnz == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"similarity": "euclid"}, 'similarity=\'euclid\': expected one of "cosine", "kl"'),
        ({"mu": 0}, "mu=0: expected a number of words above 0"),
        ({"k": 0}, "k=0: expected a number of neighbours of at least 1"),
        ({"k": 2.5}, r"k=2\.5: expected a number of neighbours"),
        ({"approximate": -3}, "approximate=-3: expected False, True or a number of documents"),
        ({"approximate": 0}, "approximate=0: expected False, True or a number of documents for"),
        ({"approximate": 200.0}, r"approximate=200\.0: expected False, True or a number of"),
        ({"approximate": "200"}, "approximate='200': expected False, True or a number of"),
        ({"approximate": None}, "approximate=None: .* for each word of at least 1"),
        (
            {"similarity": "embedding", "approximate": True},
            'approximate: similarity="embedding" has no words, expected False',
        ),
    ],
)
def test_settings_without_a_meaning(settings, message):
    with pytest.raises(ValueError, match=message):
        lw.neighbor_graph(drawn(), **settings)


def test_an_index_is_kept_in_a_file(tmp_path):
    X = drawn()
    for similarity, documents in (("kl", X), ("embedding", X.toarray() - 1.0)):
        index = lw.NeighborIndex(similarity).fit(documents, among=np.arange(100))
        save(index, tmp_path / "index.lw")
        again = lw.load(tmp_path / "index.lw")
        a, b = index.query(documents[:9], 4), again.query(documents[:9], 4)
        np.testing.assert_array_equal(a.toarray(), b.toarray())


@pytest.mark.parametrize("scale", [1e-200, 1e-20, 1.0, 1e160])
def test_vectors_may_be_of_any_length(scale):
    vectors = np.random.default_rng(0).normal(size=(60, 5))
    expected = lw.neighbor_graph(vectors, 5, "embedding")
    for X in (scale * vectors, sparse.csr_matrix(scale * vectors)):
        graph = lw.neighbor_graph(X, 5, "embedding")
        np.testing.assert_array_equal(graph.indices, expected.indices)
        np.testing.assert_allclose(graph.data, expected.data)


def test_which_rows_can_be_neighbours():
    X = drawn()
    mask = np.arange(150) % 3 == 0
    by_mask = lw.NeighborIndex().fit(X, among=mask)
    by_number = lw.NeighborIndex().fit(X, among=np.flatnonzero(mask)[::-1].tolist() * 2)
    np.testing.assert_array_equal(by_mask.among_, np.flatnonzero(mask))
    np.testing.assert_array_equal(by_number.among_, by_mask.among_)
    with pytest.raises(ValueError, match="among has rows 1 to 999, expected 0 to 149"):
        lw.NeighborIndex().fit(X, among=[1, 999])
    for odd in ([], [True, False], [0.5]):
        with pytest.raises(ValueError, match="expected some numbers of rows, or 150 times whether"):
            lw.NeighborIndex().fit(X, among=odd)


def test_numbers_below_0_are_of_vectors():
    X = drawn().toarray() - 1.0
    message = (
        r"^Negative values in data passed to {} \(input X\)\. Word counts have none; "
        r'similarity="embedding" takes vectors, which may\.$'
    )
    with pytest.raises(ValueError, match=message.format("NeighborIndex")):
        lw.neighbor_graph(X, 2)
    for model in (lw.NeighborsClassifier(), lw.HarmonicClassifier(similarity="kl")):
        with pytest.raises(ValueError, match=message.format(type(model).__name__)):
            model.fit(X, np.arange(150) % 2)
    with pytest.raises(ValueError, match=r"NeighborIndex \(input X\)\.$"):  # nor are similarities
        lw.neighbor_graph(np.array([[0, -1.0], [-1, 0]]), 1, "precomputed")


def test_graphs_that_are_none():
    a = np.array([[0, 1.0], [1, 0]])
    with pytest.raises(ValueError, match=r"weights=.* expected 2 numbers"):
        lw.average_graphs([a, a], weights=[np.nan, 1])
    with pytest.raises(ValueError, match="similarities below 0 or NaN"):
        lw.average_graphs([a, -a])
    with pytest.raises(TypeError, match="graphs is one matrix: expected a list of graphs"):
        lw.average_graphs(a)
    with pytest.raises(ValueError, match=r"shape \(1, 2\) has no two directions"):
        lw.symmetrize(a[:1])
    np.testing.assert_array_equal(lw.symmetrize(np.triu(a)).toarray(), a)
    with pytest.raises(ValueError, match="found by word counts, got texts"):
        lw.neighbor_graph(["a b", "c"], 1)
