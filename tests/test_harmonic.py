import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from leafwise.exceptions import LabelError
from leafwise.models import _harmonic
from leafwise.models._harmonic import (
    BranchMasses,
    conjugate_gradients,
    estimated_proportions,
    harmonic,
)
from leafwise.models.graph import NeighborIndex
from leafwise.models.harmonic import HarmonicClassifier
from leafwise.synthetic import make_corpus
from leafwise.taxonomy import Taxonomy

TREE = Taxonomy.from_dict({"a": {"x": None, "y": None}, "b": {"z": None}})

# Two groups of three, joined by one weak edge (2-3), and a document alone (6).
CHAIN = np.zeros((7, 7))
for i, j, similarity in [(0, 1, 1), (0, 2, 0.5), (1, 2, 1), (2, 3, 0.1), (3, 4, 1), (4, 5, 0.5)]:
    CHAIN[i, j] = CHAIN[j, i] = similarity
REACHED = CHAIN[:6, :6]


def random_graph(n=40, degree=3, seed=0):
    """A symmetric graph; the last five documents are a component of their own."""
    rng = np.random.default_rng(seed)
    S = np.zeros((n, n))
    for i in range(n - 5):
        for j in rng.choice(n - 5, degree, replace=False):
            if i != j:
                S[i, j] = S[j, i] = rng.uniform(0.1, 1)
    for i in range(n - 5, n - 1):
        S[i, i + 1] = S[i + 1, i] = 0.5
    return S


def dense_harmonic(S, seeds, weight):
    """Solve y = w s + (1 - w) W y at once, where all are connected."""
    W = S / S.sum(axis=1, keepdims=True)
    rest = (1 - weight)[:, None]
    return np.linalg.solve(np.eye(len(S)) - rest * W, weight[:, None] * seeds)


def corpus(n=90, seed=0):
    """Documents of the three leaves of TREE."""
    made = make_corpus(TREE, n, 80, 40, concentration=20.0, random_state=seed)
    return made.X, [TREE.paths[i] for i in made.y]


def every_fourth(labels):
    return [label if i % 4 == 0 else None for i, label in enumerate(labels)]


def precomputed(proportions="labels", **settings):
    return HarmonicClassifier(similarity="precomputed", proportions=proportions, **settings)


# ---- the solver ----


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("part", [False, True])
def test_solver_is_the_dense_solution(seed, part):
    S = random_graph(seed=seed)
    rng = np.random.default_rng(seed)
    n = len(S)
    weight = np.zeros(n)
    weight[:8] = rng.uniform(0.05, 0.95, 8) if part else 1.0
    weight[3:5] = 1.0
    seeds = rng.dirichlet(np.ones(4), n)
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    found = harmonic(sparse.csr_matrix(S), seeds, weight, prior, 1e-12, 1000)
    inside = slice(0, n - 5)
    expected = dense_harmonic(S[inside, inside], seeds[inside], weight[inside])
    np.testing.assert_allclose(found.y[inside], expected, atol=1e-10)
    np.testing.assert_array_equal(found.y[n - 5 :], np.tile(prior, (5, 1)))
    np.testing.assert_array_equal(found.reached, np.arange(n) < n - 5)
    np.testing.assert_allclose(found.y.sum(axis=1), 1, atol=1e-10)
    assert found.residual <= 1e-12


def test_solver_is_where_a_random_walk_ends():
    """E 4.3: y is the probability to meet a seed of the class before any other."""
    S = random_graph()[:35, :35]
    seeds = np.zeros((35, 2))
    seeds[[0, 1], 0] = seeds[[2, 3, 4], 1] = 1
    step = S / S.sum(axis=1, keepdims=True)
    step[:5] = np.eye(35)[:5]  # the walk stays where it meets a seed
    end = np.linalg.matrix_power(step, 2**14)
    found = harmonic(
        sparse.csr_matrix(S), seeds, (np.arange(35) < 5) * 1.0, np.full(2, 0.5), 1e-12, 1000
    )
    np.testing.assert_allclose(found.y, end[:, :5] @ seeds[:5], atol=1e-9)


def test_solver_takes_columns_in_blocks(monkeypatch):
    S, rng = random_graph(), np.random.default_rng(0)
    seeds, weight = rng.dirichlet(np.ones(7), 40), (np.arange(40) < 10) * 0.8
    whole = harmonic(sparse.csr_matrix(S), seeds, weight, np.ones(7), 1e-12, 1000)
    monkeypatch.setattr(_harmonic, "_COLUMNS", 3)
    blocks = harmonic(sparse.csr_matrix(S), seeds, weight, np.ones(7), 1e-12, 1000)
    np.testing.assert_allclose(blocks.y, whole.y, atol=1e-11)


def test_a_seed_without_neighbours_leans_on_the_prior():
    weight = np.array([0.25, 1.0])
    found = harmonic(sparse.csr_matrix((2, 2)), np.eye(2), weight, np.array([0.4, 0.6]), 1e-6, 1000)
    np.testing.assert_allclose(found.y, [[0.25 + 0.75 * 0.4, 0.75 * 0.6], [0, 1]])
    assert found.reached.all()


def test_conjugate_gradients_says_what_is_left():
    T = sparse.csr_matrix(random_graph() / 8)
    b = np.random.default_rng(0).random((40, 3))
    b[:, 1] = 0
    x, steps, residual = conjugate_gradients(T, b, 1e-10, 1000)
    left = b - (x - T @ x)
    assert residual <= 1e-10
    assert (np.linalg.norm(left, axis=0) <= 1.1e-10 * np.linalg.norm(b, axis=0)).all()
    np.testing.assert_array_equal(x[:, 1], 0)
    _, few, more = conjugate_gradients(T, b, 1e-10, steps - 3)
    assert (few, more > 1e-10) == (steps - 3, True)


# ---- deciding ----


def test_mass_normalisation_is_equation_17_of_e():
    y = ["p", None, "p", None, "q", None]
    model = precomputed(k=5).fit(REACHED, y)
    u = model.label_distributions_
    W = REACHED / REACHED.sum(axis=1, keepdims=True)
    for d in (1, 3, 5):
        np.testing.assert_allclose(u[d], W[d] @ u, atol=1e-6)
    np.testing.assert_array_equal(u[[0, 2, 4]], [[1, 0], [1, 0], [0, 1]])
    unlabelled = [1, 3, 5]
    for c, r in ((0, 2 / 3), (1, 1 / 3)):
        mass = sum(u[d, c] for d in unlabelled)
        against = sum(1 - u[d, c] for d in unlabelled)
        z = [r * u[d, c] / mass - (1 - r) * (1 - u[d, c]) / against for d in range(6)]
        np.testing.assert_allclose(model.decision_[:, c], z, rtol=1e-12)
    assert model.transduction_.tolist() == ["p", "p", "p", "q", "q", "q"]


def test_estimated_proportions_are_the_likeliest():
    """Of the Dirichlet-multinomial distribution; its weight on a fine grid."""
    for counts in ([3.0, 9, 1, 1, 30], [4.0, 6, 5, 5], [2.5, 0.5]):
        counts = np.array(counts)
        n, c = counts.sum(), len(counts)
        weights = np.exp(np.linspace(np.log(1e-2), np.log(1e6), 20001))
        each = weights / c
        likelihood = gammaln(weights) - gammaln(n + weights) - c * gammaln(each)
        likelihood += gammaln(counts[:, None] + each).sum(axis=0)
        best = weights[likelihood.argmax()]
        expected = (counts + best / c) / (n + best)
        np.testing.assert_allclose(estimated_proportions(counts), expected, rtol=1e-3)


def test_estimated_proportions_see_through_chance():
    rng = np.random.default_rng(0)
    alike = rng.multinomial(100, np.full(20, 0.05), size=40).astype(float)
    spread = [np.ptp(estimated_proportions(n)) / np.ptp(n / 100) for n in alike]
    assert np.mean(spread) < 0.2
    skewed = np.array([1000.0, 300, 50, 5, 1])
    np.testing.assert_allclose(estimated_proportions(skewed), skewed / 1356, atol=1e-3)
    np.testing.assert_allclose(estimated_proportions(np.full(3, 7.0)), 1 / 3)
    np.testing.assert_allclose(estimated_proportions(np.ones(1)), 1)


def test_proportions_are_estimated_unless_documents_have_several_labels():
    y = [0, 1, 1, None, None, None]
    model = HarmonicClassifier(similarity="precomputed").fit(REACHED, y)
    np.testing.assert_allclose(model.proportions_, estimated_proportions(np.array([1.0, 2])))
    several = [[0], [1], [0, 1], None, None, None]
    model = HarmonicClassifier(similarity="precomputed").fit(REACHED, several)
    np.testing.assert_allclose(model.proportions_, [2 / 3, 2 / 3])


def test_given_uniform_and_no_proportions():
    y = ["p", None, "p", None, "q", None]
    by_labels = precomputed().fit(REACHED, y)
    np.testing.assert_allclose(by_labels.proportions_, [2 / 3, 1 / 3])
    given = precomputed(proportions=[2 / 3, 1 / 3]).fit(REACHED, y)
    np.testing.assert_allclose(given.decision_, by_labels.decision_)
    uniform = precomputed(proportions="uniform").fit(REACHED, y)
    halves = precomputed(proportions=[0.5, 0.5]).fit(REACHED, y)
    np.testing.assert_array_equal(uniform.decision_, halves.decision_)
    assert (uniform.decision_[:, 1] > by_labels.decision_[:, 1])[[1, 3, 5]].all()
    none = precomputed(proportions=None).fit(REACHED, y)
    np.testing.assert_allclose(none.decision_, by_labels.label_distributions_ - 0.5)
    near = np.array([[0.3, 0, 0, 0.1, 0, 0.2]])
    np.testing.assert_allclose(
        none.predict_proba(near), near @ none.label_distributions_ / near.sum()
    )


def test_all_ways_to_say_it_agree():
    X, labels = corpus()
    y = every_fourth(labels)
    for settings in ({}, {"tree": True}, {"proportions": None}, {"proportions": "uniform"}):
        model = HarmonicClassifier(TREE, k=8, **settings).fit(X, y)
        new = X[::-1]
        proba, predicted = model.predict_proba(new), model.predict(new)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        np.testing.assert_array_equal(predicted, model.classes_[proba.argmax(axis=1)])
        z = model.class_scores(new)
        np.testing.assert_array_equal(model.decision_function(new), z)
        np.testing.assert_array_equal(predicted, model.classes_[z.argmax(axis=1)])
        np.testing.assert_array_equal(model.predict_indicator(new).toarray(), z >= 0)
        pool = model.transduction_
        free = np.array([label is None for label in y])
        np.testing.assert_array_equal(
            pool[free], model.classes_[model.decision_[free].argmax(axis=1)]
        )
        np.testing.assert_array_equal(pool[~free], np.array(labels)[~free])


def test_of_two_classes_the_decision_is_the_second_ones():
    model = precomputed().fit(REACHED, ["p", None, None, None, "q", None])
    z = model.decision_function(REACHED[[1, 5]])
    np.testing.assert_allclose(z, model.class_scores(REACHED[[1, 5]])[:, 1])
    np.testing.assert_array_equal(model.predict(REACHED[[1, 5]]), np.where(z > 0, "q", "p"))
    np.testing.assert_allclose(model.decision_[:, 0], -model.decision_[:, 1], atol=1e-12)


def test_probabilities_have_the_order_of_z_where_masses_are_far_off():
    S = random_graph(seed=3)[:35, :35]
    y = np.full(35, -1)
    y[[0, 1, 2, 3, 4, 5, 6]] = [0, 0, 0, 0, 0, 1, 2]
    model = precomputed(proportions=[0.02, 0.49, 0.49]).fit(S, y)
    z = model.decision_function(S)
    proba = model.predict_proba(S)
    np.testing.assert_array_equal(proba.argmax(axis=1), z.argmax(axis=1))
    for p, score in zip(proba, z):
        order = np.argsort(score)
        assert (np.diff(p[order]) >= 0).all()


# ---- what is not connected, and what is not there ----


def test_a_document_that_no_label_reaches_has_the_proportions():
    S = np.zeros((9, 9))
    S[:7, :7] = CHAIN
    S[7, 8] = S[8, 7] = 1  # a pair without a label
    y = ["p", "p", None, None, "q", None, None, None, None]
    with pytest.warns(UserWarning, match="No label reaches 3 of 9 documents") as caught:
        model = precomputed().fit(S, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.unreached_.tolist() == [6, 7, 8]
    np.testing.assert_allclose(model.label_distributions_[6:], [[2 / 3, 1 / 3]] * 3)
    assert model.transduction_[6:].tolist() == ["p"] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = precomputed().fit(S[:6, :6], y[:6])
    np.testing.assert_allclose(model.decision_[:6], alone.decision_)  # and they have no mass
    # As if y were r, and masses were what they should be: z = (2 r - 1) / n.
    np.testing.assert_allclose(model.decision_[6:], [[1 / 9, -1 / 9]] * 3)
    # Nor does a label reach documents without neighbours, or with only such neighbours.
    new = np.zeros((2, 9))
    new[1, 7] = 1
    np.testing.assert_allclose(model.predict_proba(new), [[2 / 3, 1 / 3]] * 2)
    assert model.predict(new).tolist() == ["p", "p"]


def test_a_document_without_words():
    X, labels = corpus()
    X = X.tolil()
    X[5] = 0
    y = every_fourth(labels)
    with pytest.warns(UserWarning, match="No label reaches 1 of 90 documents"):
        model = HarmonicClassifier(k=5).fit(X.tocsr(), y)
    assert model.unreached_.tolist() == [5]
    np.testing.assert_allclose(model.label_distributions_[5], model.proportions_)
    np.testing.assert_allclose(model.predict_proba(np.zeros((1, 80)))[0], model.proportions_)


def test_one_class():
    model = precomputed().fit(REACHED, ["only", None, None, None, None, None])
    np.testing.assert_array_equal(model.label_distributions_, np.ones((6, 1)))
    assert set(model.transduction_) == {"only"}
    assert model.predict_proba(REACHED).tolist() == [[1.0]] * 6
    assert (model.decision_ > 0).all()
    assert model.predict_indicator(REACHED).toarray().tolist() == [[1]] * 6


def test_a_class_without_a_seed_is_never_predicted():
    for settings in ({}, {"proportions": "uniform"}, {"proportions": [0.5, 0, 0, 0.5, 0, 0]}):
        model = precomputed(taxonomy=TREE, **settings)
        model.fit(REACHED, ["a/x", "/", None, None, "a/x", None])
        assert model.classes_.tolist() == ["/", "a", "a/x", "a/y", "b", "b/z"]
        if "proportions" in settings and settings["proportions"] != "uniform":
            live = ["/"]  # the other has a share of 0
        else:
            live = ["/", "a/x"]
        proba = model.predict_proba(REACHED)
        dead = ~np.isin(model.classes_, live)
        assert (proba[:, dead] == 0).all()
        assert (model.decision_[:, dead] == -np.inf).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_where_all_are_labelled():
    model = precomputed().fit(REACHED, ["p", "p", "p", "q", "q", "q"])
    assert model.transduction_.tolist() == ["p", "p", "p", "q", "q", "q"]
    assert model.predict(REACHED).tolist() == ["p", "p", "p", "q", "q", "q"]


def test_a_class_whose_seed_nobody_meets():
    """Its mass is 0: it is taken to have the mass that it should."""
    model = precomputed().fit(CHAIN, ["p", None, None, None, "p", None, "q"])
    assert np.isfinite(model.decision_).all()
    assert model.transduction_.tolist() == ["p"] * 6 + ["q"]
    assert model.predict([[0, 0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0, 0.1]]).tolist() == ["q", "p"]


# ---- forms of labels ----


def test_several_labels_are_one_problem_for_each_class():
    S = random_graph()[:35, :35]
    labels = [["p"], ["p", "q"], ["q", "r"], ["r"], ["s"], ["q"], ["p", "s"]]
    y = [*labels, *[None] * 28]
    model = precomputed().fit(S, y)
    assert model.transduction_indicator_.shape == (35, 4)
    for c, name in enumerate("pqrs"):
        binary = ["yes" if name in row else "no" for row in labels] + [None] * 28
        alone = precomputed().fit(S, binary)
        np.testing.assert_allclose(
            model.label_distributions_[:, c], alone.label_distributions_[:, 1], atol=1e-6
        )
        np.testing.assert_allclose(model.decision_[:, c], alone.decision_[:, 1], atol=1e-6)
        expected = np.isin(alone.transduction_, "yes")
        np.testing.assert_array_equal(model.transduction_indicator_.toarray()[:, c], expected)
        np.testing.assert_array_equal(
            model.predict_indicator(S).toarray()[:, c], alone.decision_function(S) >= 0
        )
    assert model.transduction_[1] in ("p", "q")
    np.testing.assert_allclose(model.predict_proba(S).sum(axis=1), 1)


def test_given_proportions_of_several_labels():
    y = [["a/x", "b/z"], ["a/x"], None, None, ["b/z"], None]
    r = [0, 0, 0.7, 0.1, 0, 0.6]  # a/y has no seed
    model = precomputed(taxonomy=TREE, proportions=r).fit(REACHED, y)
    np.testing.assert_array_equal(model.proportions_, [0, 0, 0.7, 0, 0, 0.6])
    assert (model.decision_[:, 3] == -np.inf).all()


def test_labels_in_other_forms():
    names = precomputed().fit(REACHED, ["p", None, None, None, "q", None])
    numbers = precomputed().fit(REACHED, np.array([0, -1, -1, -1, 5, -1]))
    np.testing.assert_array_equal(numbers.decision_, names.decision_)
    assert numbers.transduction_.tolist() == [0, 0, 0, 5, 5, 5]


def test_seeds_are_labels():
    labels = precomputed().fit(REACHED, [0, -1, 0, -1, 1, -1])
    seeds = np.zeros((6, 2))
    seeds[[0, 2], 0] = seeds[4, 1] = 1
    for given in (seeds, sparse.csr_matrix(seeds)):
        model = precomputed().fit(REACHED, seeds=given)
        assert model.classes_.tolist() == [0, 1]
        np.testing.assert_array_equal(model.decision_, labels.decision_)
    # They may stand for what y leaves out; a label goes before a seed.
    seeds[4] = 0
    seeds[0] = 0.5
    mixed = precomputed().fit(REACHED, ["p", None, None, None, "q", None], seeds=seeds)
    np.testing.assert_array_equal(mixed.decision_, labels.decision_)
    tree = precomputed(taxonomy=TREE, nodes="leaves")
    tree.fit(REACHED, seeds=[[1, 0, 0], *np.zeros((4, 3)), [0, 0, 1]])
    assert tree.transduction_.tolist() == ["a/x"] * 3 + ["b/z"] * 3


def test_soft_seeds():
    seeds = np.zeros((6, 3))
    seeds[0], seeds[4] = [0.7, 0.3, 0], [0, 0.2, 0.8]
    model = precomputed(tol=1e-12).fit(REACHED, seeds=seeds)
    expected = dense_harmonic(REACHED, seeds, np.array([1.0, 0, 0, 0, 1, 0]))
    np.testing.assert_allclose(model.label_distributions_, expected, atol=1e-10)
    np.testing.assert_allclose(model.proportions_, [0.35, 0.25, 0.4])
    assert model.transduction_[0] in (0, 1)
    # However large a class is said to be, a document with a seed is in one of those in its seed.
    large = precomputed(proportions=[0.01, 0.01, 0.98]).fit(REACHED, seeds=seeds)
    assert large.decision_[0].argmax() == 2
    assert large.transduction_[0] in (0, 1)
    # Probabilities that sum to 1 but for rounding are whole seeds.
    rounded = seeds * (1 - 1e-7 * np.array([1, 0, 0, 0, -1, 0]))[:, None]
    almost = precomputed(tol=1e-12).fit(REACHED, seeds=rounded.astype(np.float32))
    assert almost.seed_weight_.tolist() == [1, 0, 0, 0, 1, 0]
    np.testing.assert_allclose(almost.label_distributions_, expected, atol=1e-6)
    np.testing.assert_allclose(almost.label_distributions_.sum(axis=1), 1, rtol=1e-12)


def test_seed_weights():
    seeds = np.zeros((6, 2))
    seeds[[0, 1], 0] = seeds[[2, 4], 1] = 1
    w = np.array([1, 0.4, 0.2, 0.9, 1, 0])  # that of document 3, which has no seed, says nothing
    model = precomputed(tol=1e-12).fit(REACHED, [0, 0, 1, -1, 1, -1], seed_weight=w)
    np.testing.assert_array_equal(model.seed_weight_, w * [1, 1, 1, 0, 1, 1])
    expected = dense_harmonic(REACHED, seeds, w * [1, 1, 1, 0, 1, 1])
    np.testing.assert_allclose(model.label_distributions_, expected, atol=1e-10)
    np.testing.assert_allclose(model.proportions_, np.array([1.4, 1.2]) / 2.6)
    # A row of seeds that sums to w is the same.
    rows = precomputed(tol=1e-12).fit(REACHED, seeds=seeds * w[:, None])
    np.testing.assert_allclose(rows.label_distributions_, expected, atol=1e-10)
    # Weight 0 is no label, weight 1 a whole one.
    none = precomputed().fit(REACHED, [0, 0, 1, -1, 1, -1], seed_weight=[1, 0, 0, 0, 1, 0])
    same = precomputed().fit(REACHED, [0, -1, -1, -1, 1, -1])
    np.testing.assert_array_equal(none.decision_, same.decision_)
    whole = precomputed().fit(REACHED, [0, -1, -1, -1, 1, -1], seed_weight=1.0)
    np.testing.assert_array_equal(whole.decision_, same.decision_)


def test_a_document_may_be_held_to_its_seed_in_part_only():
    """Its neighbours can outvote it, which a label cannot be."""
    y = ["p", "p", "q", None, "q", None]
    assert precomputed().fit(REACHED, y).transduction_[2] == "q"
    outvoted = precomputed(proportions=None).fit(REACHED, y, seed_weight=[1, 1, 0.1, 1, 1, 1])
    assert outvoted.transduction_[2] == "p"


# ---- documents ----


def test_documents_that_come_later_are_the_mean_of_their_neighbours():
    X, labels = corpus(120)
    X, new = X[:90], X[90:]
    y = every_fourth(labels[:90])
    model = HarmonicClassifier(k=4, power=2.0).fit(X, y)
    near = NeighborIndex("cosine").fit(X).query(new, 4).toarray()
    for d, row in enumerate(near):
        weight = row**2
        mean = weight @ model.label_distributions_ / weight.sum()
        free = model.seed_weight_ == 0
        u, r = model.label_distributions_[free], model.proportions_
        z = r * mean / u.sum(axis=0) - (1 - r) * (1 - mean) / (1 - u).sum(axis=0)
        np.testing.assert_allclose(model.decision_function(new)[d], z, rtol=1e-9)
        assert model.predict(new)[d] == model.classes_[z.argmax()]


def test_documents_are_neighbours_if_either_is_among_the_nearest_of_the_other():
    """E 5.2: the larger of the similarities in both directions counts."""
    X, labels = corpus()
    model = HarmonicClassifier(k=3, similarity="kl", mu=50.0, power=2.0, tol=1e-12)
    model.fit(X, every_fourth(labels))
    one_way = NeighborIndex("kl", mu=50.0).fit(X).graph(3).toarray()
    S = np.maximum(one_way, one_way.T) ** 2
    assert (one_way**2 != S).any()
    weight = (np.arange(90) % 4 == 0) * 1.0
    seeds = model.label_distributions_.copy()
    np.testing.assert_array_equal(model.classes_[seeds[::4].argmax(axis=1)], labels[::4])
    np.testing.assert_allclose(
        model.label_distributions_, dense_harmonic(S, seeds, weight), atol=1e-9
    )


def test_the_order_of_documents_changes_nothing():
    X, labels = corpus()
    y = np.array(every_fourth(labels), object)
    order = np.random.default_rng(1).permutation(90)
    one = HarmonicClassifier(k=6, tol=1e-12).fit(X, y)
    other = HarmonicClassifier(k=6, tol=1e-12).fit(X[order], y[order])
    np.testing.assert_allclose(
        other.label_distributions_, one.label_distributions_[order], atol=1e-9
    )
    np.testing.assert_array_equal(other.transduction_, one.transduction_[order])
    np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("similarity", ["cosine", "kl"])
def test_precomputed_similarities_are_those_of_the_counts(similarity):
    X, labels = corpus()
    y = every_fourth(labels)
    index = NeighborIndex(similarity, mu=50.0).fit(X)
    counts = HarmonicClassifier(proportions="labels", k=7, similarity=similarity, mu=50.0).fit(X, y)
    given = precomputed(k=7).fit(index.graph(89), y)
    np.testing.assert_allclose(given.label_distributions_, counts.label_distributions_, atol=1e-12)
    new = X[:20] + X[20:40]
    np.testing.assert_allclose(
        given.predict_proba(index.query(new, 90)), counts.predict_proba(new), atol=1e-12
    )


def test_vectors_are_taken_as_they_are():
    rng = np.random.default_rng(0)
    centre = rng.normal(size=(3, 10))
    y = np.arange(60) % 3
    X = centre[y] + 0.3 * rng.normal(size=(60, 10))
    assert X.min() < 0
    few = np.where(np.arange(60) < 6, y, -1)
    model = HarmonicClassifier(similarity="embedding", k=10).fit(X, few)
    assert (model.transduction_ == y).all()
    assert model.score(centre, [0, 1, 2]) == 1.0


def test_a_similarity_too_small_for_a_float_is_none():
    S = REACHED.copy()
    S[2, 3] = S[3, 2] = 1e-200
    y = ["p", None, None, None, None, None]
    assert len(precomputed().fit(S, y).unreached_) == 0
    with pytest.warns(UserWarning, match="No label reaches 3 of 6 documents"):
        assert precomputed(power=2.0).fit(S, y).unreached_.tolist() == [3, 4, 5]


def test_power_sharpens():
    S = np.array([[0, 0, 0.9], [0, 0, 0.3], [0.9, 0.3, 0]])
    for power in (1.0, 3.0):
        model = precomputed(power=power).fit(S, ["p", "q", None])
        expected = np.array([0.9, 0.3]) ** power
        np.testing.assert_allclose(
            model.label_distributions_[2], expected / expected.sum(), rtol=1e-6
        )


# ---- trees ----


def slow_down(tree, nodes, r, y, u):
    """Class mass normalisation, document by document and node by node."""

    def branch(values, v):
        return sum(values[c] for c, node in enumerate(nodes) if v <= node < tree.end[v])

    mass = u.sum(axis=0)
    out = np.zeros(y.shape)
    for d in range(len(y)):
        p = {0: 1.0}
        for v in range(len(tree)):
            ways = {}
            for child in tree.children(v):
                m = branch(mass, child)
                ways[child] = branch(y[d], child) * (branch(r, child) / m if m else 1 / len(u))
            for c in np.flatnonzero(nodes == v):
                ways[-1] = y[d, c] * (r[c] / mass[c] if mass[c] else 1 / len(u))
            total = sum(ways.values()) or 1.0
            for way, weight in ways.items():
                if way < 0:
                    out[d, np.flatnonzero(nodes == v)[0]] = p[v] * weight / total
                else:
                    p[way] = p[v] * weight / total
    return out


def test_masses_are_normalised_down_the_tree():
    tree = Taxonomy.from_dict({"a": {"x": None, "y": {"deep": None}}, "b": {"z": None}, "c": None})
    rng = np.random.default_rng(0)
    nodes = np.array([tree.index(p) for p in ("a", "a/x", "a/y/deep", "b/z", "c")])
    r = rng.dirichlet(np.ones(5))
    u = rng.dirichlet(np.full(5, 0.5), 20)
    branches = BranchMasses(tree, nodes, r, u)
    expected = slow_down(tree, nodes, r, u, u)
    np.testing.assert_allclose(branches.normalise(u), expected, atol=1e-12)
    np.testing.assert_allclose(expected.sum(axis=1), 1)
    np.testing.assert_array_equal(branches.normalise(np.zeros((1, 5))), np.zeros((1, 5)))
    # Classes without any mass are taken to have what they should.
    v = u.copy()
    v[:, [0, 3]] = 0
    np.testing.assert_allclose(
        BranchMasses(tree, nodes, r, v).normalise(u), slow_down(tree, nodes, r, u, v), atol=1e-12
    )


def test_in_a_flat_tree_masses_are_those_of_the_classes():
    tree = Taxonomy.from_paths(["p", "q", "r"])
    rng = np.random.default_rng(0)
    r, u = np.array([0.5, 0.3, 0.2]), rng.dirichlet(np.ones(3), 10)
    p = u * r / u.sum(axis=0)
    np.testing.assert_allclose(
        BranchMasses(tree, np.array([1, 2, 3]), r, u).normalise(u),
        p / p.sum(axis=1, keepdims=True),
    )


def test_a_label_that_is_no_class_says_which_branch():
    S = random_graph()[:35, :35]
    y = ["a/x", "a/y", "b/z", "a", "a", *[None] * 30]
    message = "Label 'a' is not among the 3 classes. With tree=True, one on an inner node says that"
    for labels in (y, [["a/x", "a"], ["b/z"], *[None] * 33]):
        with pytest.raises(LabelError, match=message):
            precomputed(taxonomy=TREE, nodes="leaves").fit(S, labels)
    model = precomputed(taxonomy=TREE, nodes="leaves", tree=True, tol=1e-12).fit(S, y)
    weight = (np.arange(35) < 3) * 1.0
    first = dense_harmonic(S, np.eye(35, 3), weight)
    seeds = np.eye(35, 3)
    for d in (3, 4):  # the part of y that is in the branch
        seeds[d, :2] = first[d, :2] / first[d, :2].sum()
    second = dense_harmonic(S, seeds, (np.arange(35) < 5) * 1.0)
    np.testing.assert_allclose(model.label_distributions_, second, atol=1e-9)
    # Two of five labels are of the branch: among its classes as the labels there.
    np.testing.assert_allclose(model.proportions_, [0.4, 0.4, 0.2])
    assert set(model.transduction_[3:5]) <= {"a/x", "a/y"}
    # Where the node is a class, the label is its own.
    of_all = precomputed(taxonomy=TREE, tree=True).fit(S, y)
    assert of_all.transduction_[3:5].tolist() == ["a", "a"]


def test_only_labels_of_branches():
    S = random_graph()[:35, :35]
    model = precomputed(taxonomy=TREE, nodes="leaves", tree=True)
    model.fit(S, ["a", "b", *[None] * 33])
    np.testing.assert_allclose(model.proportions_, [0.25, 0.25, 0.5])
    np.testing.assert_allclose(model.label_distributions_[:2], [[0.5, 0.5, 0], [0, 0, 1]])
    np.testing.assert_allclose(*model.label_distributions_[:, :2].T)


def test_labels_of_branches_beside_others():
    S = random_graph()[:35, :35]
    y = [["a/x"], ["b", "a/y"], ["a", "b"], ["b/z"], *[None] * 31]
    model = precomputed(taxonomy=TREE, nodes="leaves", tree=True).fit(S, y)
    # A class goes before a branch; two branches are two labels.
    np.testing.assert_array_equal(model.label_distributions_[1], [0, 1, 0])
    np.testing.assert_allclose(model.label_distributions_[2, :2].sum(), 1)
    assert model.label_distributions_[2, 2] == 1
    # Each label is kept, though the two share what the tree has for one document.
    assert model.transduction_indicator_.toarray()[2, 2] == 1


def test_several_labels_are_kept_down_the_tree():
    y = [["a/x", "b/z"], ["a/x"], None, None, ["b/z"], None]
    model = precomputed(taxonomy=TREE, tree=True, proportions=[0, 0, 0.1, 0, 0, 0.1])
    model.fit(REACHED, y)
    kept = model.transduction_indicator_.toarray()
    assert kept[0].tolist() == [0, 0, 1, 0, 0, 1]
    assert kept[1].tolist() == [0, 0, 1, 0, 0, 0]


def test_labels_of_branches_within_branches_count_from_below():
    tree = Taxonomy.from_dict({"a": {"x": None, "y": {"u": None, "v": None}}, "b": None})
    S = random_graph()[:35, :35]
    y = ["a/x", "a/x", "a/y", "a/y", "a", "a", "a", "a", *[None] * 27]
    model = precomputed(taxonomy=tree, nodes="leaves", tree=True).fit(S, y)
    # a/y: one each for u and v. a: as they are then, 2 : 1 : 1.
    assert model.classes_.tolist() == ["a/x", "a/y/u", "a/y/v", "b"]
    np.testing.assert_allclose(model.proportions_, [0.5, 0.25, 0.25, 0])


def test_a_branch_label_that_no_class_below_reaches():
    S = np.zeros((5, 5))
    S[0, 1] = S[1, 0] = S[2, 3] = S[3, 2] = S[1, 4] = S[4, 1] = 1
    model = precomputed(taxonomy=TREE, nodes="leaves", tree=True)
    model.fit(S, ["b/z", "a", "a/x", None, None])
    np.testing.assert_allclose(model.label_distributions_[1], [1, 0, 0])  # by the labels


def test_equation_17_follows_the_masses_of_branches():
    X, labels = corpus()
    y = every_fourth(labels)
    flat = HarmonicClassifier(TREE, k=8).fit(X, y)
    model = HarmonicClassifier(TREE, k=8, tree=True).fit(X, y)
    np.testing.assert_array_equal(model.label_distributions_, flat.label_distributions_)
    live = np.flatnonzero(model.proportions_)
    r, found = model.proportions_[live], model.label_distributions_[:, live]
    free = model.seed_weight_ == 0
    p = slow_down(TREE, model.nodes_[live], r, found, found[free])
    z = r * p / p[free].sum(axis=0) - (1 - r) * (1 - p) / (1 - p[free]).sum(axis=0)
    np.testing.assert_allclose(model.decision_[:, live], z, atol=1e-12)


# ---- files and wrong input ----


def restored(model, **changes):
    """As `leafwise.load` does."""
    other = clone(model)
    for name in model._learned:
        if hasattr(model, name):
            setattr(other, name, changes.get(name, getattr(model, name)))
    other._restore()
    return other


def test_all_that_is_learned_is_restored():
    X, labels = corpus()
    y = every_fourth(labels)
    for settings in ({}, {"tree": True}, {"proportions": None}):
        model = HarmonicClassifier(TREE, k=8, **settings).fit(X, y)
        other = restored(model)
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(other.transduction_, model.transduction_)
        np.testing.assert_array_equal(other.decision_, model.decision_)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_distributions_": np.ones((5, 2))}, "labels do not fit the documents and classes"),
        ({"seed_weight_": np.ones((6, 1))}, "labels do not fit the documents and classes"),
        ({"proportions_": np.array([0.5, np.nan])}, "labels or their weights are no shares"),
        ({"seed_weight_": np.zeros(6)}, "no document has a label"),
        ({"unreached_": np.array([6])}, "documents that no label reaches are not there"),
        ({"unreached_": np.array([0.5])}, "documents that no label reaches are not there"),
        ({"index_": None}, "the index of neighbours does not fit the model"),
        (
            {"index_": NeighborIndex("precomputed").fit(CHAIN)},
            "the index of neighbours does not fit the documents",
        ),
        ({"nodes_": np.array([1, 1])}, "a class is there twice"),
    ],
)
def test_a_damaged_file(changes, message):
    model = precomputed().fit(REACHED, ["p", None, None, None, "q", None])
    with pytest.raises(ValueError, match=message):
        restored(model, **changes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"k": 0}, "k=0: expected a number of neighbours of at least 1"),
        ({"similarity": "near"}, "similarity='near': expected one of"),
        ({"max_iter": 0}, "max_iter=0: expected a number of at least 1"),
        ({"power": 0}, "power=0: expected a number above 0"),
        ({"tol": -1}, "tol=-1: expected a number above 0"),
        ({"proportions": "equal"}, r"proportions='equal': expected one of \('estimated', 'labels'"),
        ({"proportions": [1.0]}, r"proportions has shape \(1,\), expected one number for each"),
        ({"proportions": [2.0, -1.0]}, "proportions has numbers below 0 or above 1"),
        ({"proportions": [0.5, 0.6]}, "proportions is no distribution: it sums to 1.1"),
        ({"tree": True}, "tree=True, but there is no tree: give one as taxonomy"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        HarmonicClassifier(**{"similarity": "precomputed"} | settings).fit(
            REACHED, ["p", None, None, None, "q", None]
        )


def test_wrong_input():
    y = ["p", None, None, None, "q", None]
    with pytest.raises(ValueError, match="fit requires y to be passed"):
        precomputed().fit(REACHED)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        precomputed().fit(REACHED, y[:-1])
    with pytest.raises(ValueError, match="No document has a label, and there is no taxonomy"):
        precomputed().fit(REACHED, [None] * 6)
    with pytest.raises(ValueError, match="there is nothing to spread"):
        precomputed(taxonomy=TREE).fit(REACHED, [None] * 6)
    with pytest.raises(ValueError, match="there is nothing to spread"):
        precomputed().fit(REACHED, y, seed_weight=0)
    with pytest.raises(ValueError, match="seed_weight has numbers below 0 or above 1"):
        precomputed().fit(REACHED, y, seed_weight=[2, 1, 1, 1, 1, 1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        precomputed().fit(REACHED, y, seed_weight=[1, 1])
    with pytest.raises(ValueError, match="seeds has 3 columns, expected one for each of the 2"):
        precomputed().fit(REACHED, y, seeds=np.zeros((6, 3)))
    with pytest.raises(ValueError, match="seeds has negative values or NaN"):
        precomputed().fit(REACHED, y, seeds=-np.ones((6, 2)))
    with pytest.raises(ValueError, match="Row 2 of seeds sums to 2, expected at most 1"):
        precomputed().fit(REACHED, y, seeds=np.vstack([np.zeros((2, 2)), np.ones((4, 2))]))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        precomputed().fit(REACHED, y, seeds=np.zeros((5, 2)))
    with pytest.raises(ValueError, match="proportions gives 0 to every class that has a label"):
        precomputed(taxonomy=TREE, proportions=[1, 0, 0, 0, 0, 0]).fit(
            REACHED, ["a/x", *[None] * 5]
        )
    with pytest.raises(LabelError, match="Label 'b' is no class, and none is below it"):
        precomputed(taxonomy=TREE, tree=True, nodes=["a/x", "a/y"]).fit(
            REACHED, ["a/x", "b", *[None] * 4]
        )
    with pytest.raises(ValueError, match="HarmonicClassifier takes word counts, got texts"):
        HarmonicClassifier().fit(["one text", "another"], ["p", "q"])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        HarmonicClassifier().transduction_  # noqa: B018
    with pytest.raises(NotFittedError, match="not fitted yet"):
        HarmonicClassifier().class_scores(np.ones((1, 2)))


def test_too_few_steps():
    S = random_graph()[:35, :35]
    y = [0, 1, *[-1] * 33]
    with pytest.warns(ConvergenceWarning, match="not settled after max_iter=2 steps") as caught:
        model = precomputed(max_iter=2).fit(S, y)
    assert model.n_iter_ == 2
    assert caught[0].filename == __file__
    assert 2 < precomputed().fit(S, y).n_iter_ < 100


def test_accuracy_on_newsgroups(data_dir):
    """A small version of E figure 1: what unlabelled documents are for."""
    from leafwise.datasets import load_20newsgroups
    from leafwise.models.naive_bayes import NaiveBayes
    from leafwise.text import WordCounter

    news = load_20newsgroups(data=data_dir).subset(np.arange(0, 14997, 5))
    y = np.array(news.labels)
    X = WordCounter(stop_words="english", min_count=2).fit_transform(news.texts)
    rng = np.random.default_rng(0)
    train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:7] for c in np.unique(y)])
    few = np.full(len(y), None, object)
    few[train] = y[train]
    rest = np.setdiff1d(np.arange(len(y)), train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = HarmonicClassifier(news.taxonomy).fit(X, few)
    accuracy = np.mean(model.transduction_[rest] == y[rest])
    assert accuracy > 0.62
    assert accuracy > NaiveBayes(news.taxonomy).fit(X[train], y[train]).score(X[rest], y[rest])


def test_documents_known_to_be_of_no_class_hold_the_others_back():
    """A list without labels is a seed of 0 for every class; None is no seed."""
    several = [["a"], None, [], None, None, None]
    model = precomputed().fit(REACHED, several)
    np.testing.assert_array_equal(model.seed_weight_, [1, 0, 1, 0, 0, 0])
    np.testing.assert_allclose(model.proportions_, [0.5])
    weights = REACHED[1] / REACHED[1].sum()
    np.testing.assert_allclose(model.label_distributions_[1], weights[0], atol=1e-5)
    np.testing.assert_allclose(model.label_distributions_[2:], 0, atol=1e-5)
    assert model.transduction_indicator_.toarray()[2, 0] == 0


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_only_ratios_of_similarities_count(scale):
    y = [0, None, None, None, None, 1]
    one = precomputed(power=3).fit(REACHED, y)
    other = precomputed(power=3).fit(scale * REACHED, y)
    np.testing.assert_allclose(other.label_distributions_, one.label_distributions_)
    np.testing.assert_allclose(other.predict_proba(scale * REACHED), one.predict_proba(REACHED))
    with pytest.raises(ValueError, match="power=600: expected a number above 0, 100 at most"):
        precomputed(power=600).fit(REACHED, y)
