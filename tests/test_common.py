"""What holds for every estimator: scikit-learn's checks, and one behaviour suite."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import has_fit_parameter

import leafwise as lw
from leafwise.taxonomy import Taxonomy

COUNT_MODELS = [
    lw.NaiveBayes(),
    lw.NaiveBayes(smoothing="dirichlet", mu=100.0),
    lw.NaiveBayes(smoothing="laplace", class_prior="uniform"),
    lw.HierarchicalShrinkage(),
    lw.HierarchicalShrinkage(levels="pooled", holdout="document"),
    lw.HierarchicalShrinkage(holdout=0.3, random_state=0),
    lw.GeneralShrinkage(),
    lw.GeneralShrinkage(holdout=0.3, alpha=0.1),
    lw.HierarchicalMixture(),
    lw.HierarchicalMixture(steps="auto", holdout="document", beta=0.8),
    lw.HierarchicalMixture(steps=2, holdout=0.5, weights="uniform", variant="cem"),
    lw.HierarchicalDirichlet(),
    lw.HierarchicalDirichlet(sigma=20.0, class_prior="uniform"),
    lw.PLSAClassifier(),
    lw.PLC(),
    lw.HPLC(),
    lw.HPLC(prediction="direct", weights="heldout"),
    lw.PachinkoMachine(),
    lw.PachinkoMachine(greedy=False, n_words=40),
    lw.NeighborsClassifier(),
    lw.NeighborsClassifier(k=5, similarity="kl", vote="majority"),
    lw.HarmonicClassifier(k=10),
    lw.HarmonicClassifier(k=10, similarity="kl", power=2.0, proportions="uniform"),
    lw.TransductiveSVM(),
]


def not_for_counts(estimator):
    """The checks that give negative numbers to models which say that they take none."""
    if not hasattr(estimator, "decision_function"):
        return {}
    return {"check_decision_proba_consistency": "gives negative numbers for counts"}


GROWN = [lw.HPLSA(2), lw.HPLSA(3, topics="leaf", unit="document", shape="splits")]


@pytest.mark.filterwarnings("ignore:The tree has:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    GROWN,
    expected_failed_checks=lambda _: {
        "check_clustering": "gives negative numbers for counts, and has labels as integers",
        **dict.fromkeys(
            [
                "check_estimators_pickle",
                "check_methods_sample_order_invariance",
                "check_methods_subset_invariance",
                "check_fit_idempotent",
            ],
            "takes the difference of labels, which are paths",
        ),
    },
)
def test_scikit_learn_checks_of_growth(estimator, check):
    check(estimator)


@parametrize_with_checks(COUNT_MODELS, expected_failed_checks=not_for_counts)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_scikit_learn_checks_of_text_estimators():
    """scikit-learn has no data for estimators of texts: what it can say about them, it says."""
    for estimator in (lw.WordCounter(), lw.TaxonomyClassifier()):
        assert clone(estimator).get_params() == estimator.get_params()
        assert estimator.__sklearn_tags__().input_tags.string


TREE = Taxonomy.from_dict(
    {"a": {"x": None, "y": {"deep": None}}, "b": {"z": None}, "c": None, "empty": None}
)
NODES = ["a", "a/x", "a/y/deep", "b/z", "c"]


@pytest.fixture(scope="module")
def counts():
    """Documents whose right answer is known: each node has words of its own."""
    rng = np.random.default_rng(0)
    y = np.array([NODES[i % 5] for i in range(100)])
    X = rng.poisson(0.3, (100, 60))
    for i, label in enumerate(y):
        start = 12 * NODES.index(label)
        X[i, start : start + 12] += rng.poisson(2, 12)
    return sparse.csr_matrix(X), y


@pytest.fixture(params=COUNT_MODELS, ids=repr)
def model(request):
    return clone(request.param).set_params(taxonomy=TREE)


def test_learns(model, counts):
    X, y = counts
    assert model.fit(X, y).score(X, y) > 0.95


def test_probabilities_sum_to_one(model, counts):
    X, y = counts
    proba = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert proba.shape == (100, len(TREE))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba)


def test_a_branch_is_at_least_each_of_its_children(model, counts):
    X, y = counts
    branch = model.fit(X, y).predict_branch_proba(X)
    assert branch.shape == (100, len(TREE))
    np.testing.assert_allclose(branch[:, 0], 1)
    for i in range(1, len(TREE)):
        assert (branch[:, TREE.parent[i]] >= branch[:, i] - 1e-12).all()
    for i in TREE.leaves:
        column = list(model.classes_).index(TREE.paths[i])
        np.testing.assert_allclose(branch[:, i], model.predict_proba(X)[:, column], atol=1e-12)


def test_top_k_are_the_most_probable(model, counts):
    X, y = counts
    model.fit(X, y)
    proba = model.predict_proba(X)
    for k in (1, 3, 100):
        nodes, sure = model.top_k(X, k)
        best = np.sort(proba, axis=1)[:, ::-1][:, :k]
        np.testing.assert_array_equal(sure, best)
        np.testing.assert_array_equal(nodes[:, 0], model.predict(X))
        assert all(len(set(row)) == len(row) for row in nodes)


def test_document_order_changes_nothing(model, counts):
    X, y = counts
    order = np.random.default_rng(1).permutation(100)
    shuffled = clone(model).fit(X[order], y[order])
    np.testing.assert_allclose(
        shuffled.predict_proba(X), model.fit(X, y).predict_proba(X), atol=1e-12
    )


def test_sibling_order_changes_nothing(model, counts):
    X, y = counts
    turned = Taxonomy.from_paths(["empty", "c", "b/z", "a/y/deep", "a/x"])
    other = clone(model).set_params(taxonomy=turned).fit(X, y)
    model.fit(X, y)
    columns = [list(other.classes_).index(path) for path in model.classes_]
    np.testing.assert_allclose(
        other.predict_proba(X)[:, columns], model.predict_proba(X), atol=1e-12
    )


def test_a_doubled_document_is_weight_two(model, counts):
    if not has_fit_parameter(model, "sample_weight"):
        return  # documents that are compared one by one have no weight
    X, y = counts
    doubled = clone(model).fit(sparse.vstack([X, X[:30]]), np.append(y, y[:30]))
    weight = np.ones(100)
    weight[:30] = 2
    weighted = clone(model).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(doubled.predict_proba(X), weighted.predict_proba(X), atol=1e-12)


def test_saved_and_loaded_predicts_the_same_bits(model, counts, tmp_path):
    X, y = counts
    model.fit(X, y).save(tmp_path / "model")
    loaded = lw.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.get_params().keys() == model.get_params().keys()


def test_same_data_same_bits(model, counts):
    X, y = counts
    first = clone(model).fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(first, clone(model).fit(X, y).predict_proba(X))


def test_sparse_and_dense_are_the_same(model, counts):
    X, y = counts
    dense = clone(model).fit(X.toarray(), y).predict_proba(X.toarray())
    np.testing.assert_array_equal(dense, clone(model).fit(X, y).predict_proba(X))
    array = clone(model).fit(sparse.csr_array(X), y).predict_proba(sparse.csr_array(X))
    np.testing.assert_array_equal(dense, array)


def test_score_counts_only_labelled_documents_and_any_of_their_labels(model, counts):
    X, y = counts
    model.fit(X, y)
    predicted = model.predict(X)
    truth = [[label, "empty"] for label in predicted[:50]] + [[] for _ in range(50)]
    assert model.score(X, truth) == 1.0
    assert model.score(X, ["empty" if i < 25 else p for i, p in enumerate(predicted)]) == 0.75


def test_wrong_calls(model, counts):
    X, y = counts
    model.fit(X, y)
    with pytest.raises(ValueError, match="k=0: expected a number of nodes of at least 1"):
        model.top_k(X, 0)
    with pytest.raises(ValueError, match="there is nothing to score"):
        model.score(X, [None] * 100)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(X, y[:3])
