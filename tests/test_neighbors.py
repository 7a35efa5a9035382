import numpy as np
import pytest
from scipy import sparse

import leafwise as lw
from leafwise.models._thresholds import best_threshold

TREE = lw.Taxonomy.from_paths(["a/x", "a/y", "b"])


def drawn(n=120, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.poisson(0.3, (n, 30))
    for i in range(n):
        X[i, 10 * y[i] : 10 * y[i] + 10] += rng.poisson(0.5, 10)
    return sparse.csr_matrix(X), np.array(["a/x", "a/y", "b"])[y]


@pytest.mark.parametrize("vote", ["weighted", "majority"])
@pytest.mark.parametrize("similarity", ["cosine", "kl"])
def test_scores_are_sums_over_neighbours(vote, similarity):
    """E eq. 7-8, by the graph of documents that are all labelled."""
    X, y = drawn()
    model = lw.NeighborsClassifier(TREE, k=8, similarity=similarity, vote=vote, nodes="leaves")
    model.fit(X[:100], y[:100])
    near = lw.NeighborIndex(similarity).fit(X[:100]).query(X[100:], 8)
    scores = model.class_scores(X[100:])
    for i in range(20):
        for c, name in enumerate(model.classes_):
            mine = near.data[near.indptr[i] : near.indptr[i + 1]]
            mine = mine[y[near[i].indices] == name]
            total = mine.sum() if vote == "weighted" else len(mine)
            assert scores[i, c] == pytest.approx(total)
    assert list(model.predict(X[100:])) == list(model.classes_[scores.argmax(axis=1)])
    np.testing.assert_allclose(
        model.predict_proba(X[100:]), scores / scores.sum(axis=1, keepdims=True)
    )


def test_documents_without_a_label_count_for_words_alone():
    X, y = drawn()
    some = y.astype(object)
    some[60:] = None
    model = lw.NeighborsClassifier(k=5).fit(X, some)
    near = lw.NeighborIndex().fit(X, among=np.arange(60)).query(X[60:], 5)
    expected = near @ (some[:, None] == model.classes_[None]).astype(float)
    np.testing.assert_allclose(model.class_scores(X[60:]), expected)
    alone = lw.NeighborsClassifier(k=5).fit(X[:60], y[:60])
    assert not np.allclose(alone.class_scores(X[60:]), expected)


def test_scores_of_documents_left_out_are_those_of_models_without_them():
    """Under counts of words that stay as they are: only the neighbours change."""
    X, y = drawn()
    model = lw.NeighborsClassifier(k=6).fit(X, y)
    left_out = model.left_out_scores()
    for i in (0, 17, 80):
        without = y.astype(object)
        without[i] = None
        other = lw.NeighborsClassifier(k=6).fit(X, without)
        np.testing.assert_allclose(left_out[i], other.class_scores(X[i])[0])


def test_a_document_without_neighbours_gets_the_shares_of_the_classes():
    X, y = drawn()
    model = lw.NeighborsClassifier().fit(X, y)
    np.testing.assert_allclose(model.predict_proba(sparse.csr_matrix((1, 30))), [[1 / 3] * 3])
    assert not model.class_scores(sparse.csr_matrix((1, 30))).any()


def test_thresholds_by_leaving_each_document_out():
    """T 3.2.4: b_j is where the F1 of the scores of documents left out is highest."""
    X, y = drawn()
    several = [[label, "a/y"] if i % 10 == 0 else [label] for i, label in enumerate(y)]
    several = [sorted(set(row)) for row in several]
    model = lw.MultiLabelClassifier(
        lw.NeighborsClassifier(k=10), cv="leave-one-out", min_documents=0
    ).fit(X, several)
    alone = lw.NeighborsClassifier(k=10).fit(X, several)
    for c, name in enumerate(model.classes_):
        truth = np.array([name in row for row in several])
        threshold = best_threshold(alone.left_out_scores()[:, c], truth)
        assert model.thresholds_[c] == pytest.approx(threshold)
    np.testing.assert_allclose(
        model.decision_function(X[:5]), alone.class_scores(X[:5]) - model.thresholds_
    )
    assert model.score(X, several) > 0.7
    with pytest.raises(ValueError, match='cv="leave-one-out": NaiveBayes has no left_out_scores'):
        lw.MultiLabelClassifier(lw.NaiveBayes(), cv="leave-one-out").fit(X, y)


def test_vectors_and_given_similarities():
    X, y = drawn()
    vectors = X.toarray() - 0.5
    by_vectors = lw.NeighborsClassifier(k=5, similarity="embedding").fit(vectors, y)
    given = lw.NeighborsClassifier(k=5, similarity="precomputed").fit(
        lw.neighbor_graph(vectors, 119, "embedding"), y
    )
    np.testing.assert_allclose(by_vectors.left_out_scores(), given.left_out_scores())
    assert by_vectors.score(vectors, y) > 0.8


def test_bad_input():
    X, y = drawn()
    with pytest.raises(ValueError, match='vote=\'all\': expected "weighted" or "majority"'):
        lw.NeighborsClassifier(vote="all").fit(X, y)
    with pytest.raises(ValueError, match="k=0: expected a number of neighbours"):
        lw.NeighborsClassifier(k=0).fit(X, y)
    with pytest.raises(ValueError, match="No document has a label"):
        lw.NeighborsClassifier(TREE).fit(X, [None] * 120)


def test_a_file_that_does_not_fit_is_refused(tmp_path):
    X, y = drawn()
    model = lw.NeighborsClassifier().fit(X, y)
    model.membership_ = model.membership_[:50]
    model.save(tmp_path / "m.lw")
    with pytest.raises(lw.exceptions.ModelFileError, match="the labels do not fit the documents"):
        lw.load(tmp_path / "m.lw")


def test_documents_of_no_class_are_neighbours_without_a_vote():
    X, y = drawn()
    some = [[label] if i % 2 else [] for i, label in enumerate(y)]
    model = lw.NeighborsClassifier(k=8, vote="majority").fit(X, some)
    np.testing.assert_array_equal(model.index_.among_, np.arange(120))
    votes = model.left_out_scores().sum(axis=1)
    near = lw.NeighborIndex().fit(X).graph(8)
    expected = [np.sum(near[i].indices % 2 == 1) for i in range(120)]
    np.testing.assert_array_equal(votes, expected)
