"""Documents in pieces: what is asked of them adds up to what is asked of all."""

import numpy as np
import pytest
from scipy import sparse

import leafwise as lw
from leafwise.labels import Classes, read_labels
from leafwise.models._blocks import Blocks, Documents, PerDocument, one_block
from leafwise.models._sums import scale_rows, words_by_class
from leafwise.models.growth import HPLSA
from leafwise.stream_blocks import Stream
from leafwise.synthetic import make_corpus

TREE = lw.Taxonomy.from_paths(["a/x", "a/y", "b/x", "b/y", "c"])


@pytest.fixture(scope="module")
def drawn():
    return make_corpus(TREE, 300, 400, 30, concentration=20.0, random_state=1)


@pytest.fixture(params=["in memory", "on disk"])
def cut(request, tmp_path):
    """A function that cuts documents into three blocks, one of them empty."""

    def blocks(part):
        n = part.shape[0] if sparse.issparse(part) else part.X.shape[0]
        rows = np.split(np.arange(n), [n // 3, n // 3])
        take = (lambda r: part[r]) if sparse.issparse(part) else part.take
        parts, sizes = [take(r) for r in rows], [len(r) for r in rows]
        if request.param == "in memory":
            return Blocks(parts, sizes)
        return Stream(parts, sizes, str(tmp_path)).on_disk()

    return blocks


def documents_of(X, y, model):
    classes = Classes.of_taxonomy(model.taxonomy, model.nodes)
    membership = classes.membership(read_labels(y, classes))
    return Documents(sparse.csr_matrix(X), membership, np.ones(X.shape[0])), classes


def lengths(block, factor, more):
    return PerDocument(factor * np.asarray(block.X.sum(axis=1)).ravel() + more), float(
        block.X.sum()
    )


def test_numbers_add_up_and_those_of_documents_are_put_together(drawn, cut):
    X = sparse.csr_matrix(drawn.X)
    documents = Documents(X, sparse.csr_matrix(np.eye(300)), np.ones(300))
    each = np.arange(300.0)
    found, total = cut(documents).total(lengths, 2.0, rows=[each])
    np.testing.assert_array_equal(found, 2 * np.asarray(X.sum(axis=1)).ravel() + each)
    assert total == X.sum()


def test_documents_are_gathered_in_the_order_asked_for(drawn, cut):
    X = sparse.csr_matrix(drawn.X)
    documents = Documents(X, sparse.csr_matrix(np.eye(300)), np.arange(300.0))
    rows = np.array([250, 3, 100, 99, 0])
    words, membership, weight = cut(documents).gather(rows)
    assert (words != X[rows]).nnz == 0
    np.testing.assert_array_equal(membership.indices, rows)
    np.testing.assert_array_equal(weight, rows)


def test_files_of_blocks_are_gone_with_them(drawn, tmp_path):
    X = sparse.csr_matrix(drawn.X)
    documents = Documents(X, sparse.csr_matrix(np.eye(300)), np.ones(300))
    blocks = Stream([documents], [300], str(tmp_path)).on_disk()
    twice = blocks.derive(_doubled)
    assert twice.total(lengths, 1.0, 0.0)[1] == 2 * X.sum()
    assert len(list(tmp_path.iterdir())) == 2
    del blocks, twice
    assert not list(tmp_path.iterdir())


def _doubled(block):
    return block._replace(X=2 * block.X)


@pytest.mark.parametrize("n_classes", [1, 7, 300])
def test_words_are_added_up_by_class(n_classes, monkeypatch):
    monkeypatch.setattr("leafwise.models._sums._FEW", 0)
    monkeypatch.setattr("leafwise.models._sums._CELLS", 500)
    rng = np.random.default_rng(n_classes)
    X = sparse.csr_matrix(rng.integers(0, 3, (200, 130)) * (rng.random((200, 130)) < 0.1))
    X.data[::5] = 0  # entries of nothing
    M = sparse.csr_matrix(rng.random((200, n_classes)) * (rng.random((200, n_classes)) < 0.3))
    found = words_by_class(X, M)
    np.testing.assert_allclose(found.toarray(), (M.T @ X).toarray(), rtol=1e-12)
    assert found.has_canonical_format
    assert (found.data != 0).all()
    for row in np.split(found.indices, found.indptr[1:-1]):
        assert (np.diff(row) > 0).all()


@pytest.mark.parametrize(
    "model",
    [
        lw.NaiveBayes(TREE),
        lw.HierarchicalShrinkage(TREE),
        lw.GeneralShrinkage(TREE),
        lw.HierarchicalMixture(TREE),
        lw.HierarchicalMixture(TREE, holdout=0.2, weights="heldout"),
        lw.HierarchicalDirichlet(TREE),
        lw.HierarchicalDirichlet(TREE, words="set", sigma=3.0),
        lw.HPLC(TREE),
        lw.PLC(TREE),
    ],
    ids=lambda model: f"{type(model).__name__}-{getattr(model, 'holdout', '')}",
)
def test_models_learn_the_same_from_blocks(drawn, cut, model):
    documents, classes = documents_of(drawn.X, drawn.labels, model)
    whole = type(model)(**model.get_params(deep=False)).fit(drawn.X, drawn.labels)
    model = type(model)(**model.get_params(deep=False))
    model._fit_blocks(cut(documents), classes)
    np.testing.assert_allclose(
        model.predict_log_proba(drawn.X), whole.predict_log_proba(drawn.X), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("n_labels", [0, 40, 200])
@pytest.mark.parametrize(("words", "init"), [("counts", "matches"), ("roots", "prototypes")])
def test_em_learns_the_same_from_blocks(drawn, cut, n_labels, words, init):
    names = [f"w{j}" for j in range(400)]
    counts = np.zeros((len(TREE), 400))
    for x, label in zip(drawn.X.toarray(), drawn.labels):
        counts[TREE.index(label)] += x
    keywords = [()] * len(TREE)
    for leaf in TREE.leaves.tolist():
        share = counts[leaf] / counts.sum(axis=0).clip(1)
        keywords[leaf] = tuple(names[w] for w in np.argsort(-share * np.sqrt(counts[leaf]))[:3])
    tree = lw.Taxonomy(TREE.names, TREE.parent.tolist(), keywords)
    settings = {"words": words, "init": init, "nodes": "leaves", "vocabulary": names}
    y = [label if i < n_labels else None for i, label in enumerate(drawn.labels)]
    whole = lw.HierarchicalDirichlet(tree, **settings).fit(drawn.X, y)
    model = lw.HierarchicalDirichlet(tree, **settings)
    documents, classes = documents_of(drawn.X, y, model)
    model._fit_blocks(cut(documents), classes)
    assert model.sigma_ == whole.sigma_
    assert model.n_iter_ == whole.n_iter_
    np.testing.assert_allclose(
        model.predict_log_proba(drawn.X), whole.predict_log_proba(drawn.X), rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize(
    "settings", [{}, {"shape": "splits"}, {"unit": "document"}, {"tree": TREE}], ids=str
)
def test_trees_grow_the_same_from_blocks(drawn, settings, monkeypatch):
    monkeypatch.setattr(Blocks, "few", 2_000)  # large classes stay in blocks
    X = sparse.csr_matrix(drawn.X, dtype=float)
    whole = HPLSA(4, **settings)
    whole.n_features_in_ = 400
    whole._fit_blocks(one_block(X, 300), None)
    model = HPLSA(4, **settings)
    model.n_features_in_ = 400
    model._fit_blocks(Blocks([X[:80], X[80:80], X[80:]], [80, 0, 220]), None)
    assert model.tree_.paths == whole.tree_.paths
    np.testing.assert_allclose(
        model.p_leaf_given_document_, whole.p_leaf_given_document_, atol=1e-6
    )


def test_the_number_of_leaves_is_not_chosen_elsewhere():
    with pytest.raises(ValueError, match='n_leaves="auto" needs all documents in memory'):
        HPLSA("auto")._validate_elsewhere(counted=False)


def test_scaled_rows_are_a_product_with_a_diagonal():
    rng = np.random.default_rng(3)
    A = sparse.random(40, 30, 0.2, "csr", random_state=rng)
    factor = np.where(np.arange(40) % 5, rng.random(40), 0.0)
    scaled = scale_rows(A, factor)
    np.testing.assert_array_equal(scaled.toarray(), factor[:, None] * A.toarray())
    assert scaled.has_sorted_indices
    assert not np.diff(scaled.indptr)[factor == 0].any()  # entries of 0 are gone
    assert A.nnz > scaled.nnz
