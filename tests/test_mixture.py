"""The Hierarchical Mixture: exact EM, special cases, and what it finds in data of its own kind."""

import numpy as np
import pytest

import leafwise as lw
from leafwise.exceptions import LabelError
from leafwise.models._path_mixture import Sources
from leafwise.synthetic import make_corpus

TREE = lw.Taxonomy.from_dict({"a": {"x": None, "y": {"deep": None}}, "b": {"z": None}, "c": None})
LABELS = ["a", "a/x", "a/y/deep", "b/z", "c"]


def corpus(seed=0, n=50, words=12):
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.6, (n, words))
    for i in range(n):
        X[i, 2 * (i % 5) : 2 * (i % 5) + 2] += rng.poisson(2, 2)
    return X, np.array([LABELS[i % 5] for i in range(n)])


def rises(bounds):
    assert len(bounds) > 5
    return (np.diff(bounds) >= -1e-9 * np.abs(bounds[:-1])).all() and bounds[-1] > bounds[0]


@pytest.mark.parametrize("beta", [1.0, 0.7])
@pytest.mark.parametrize("weights", ["training", "uniform", [5, 2, 2, 2, 1]])
def test_the_bound_never_falls_in_exact_em(weights, beta):
    model = lw.HierarchicalMixture(TREE, steps=25, weights=weights, levels="pooled", beta=beta)
    assert rises(model.fit(*corpus()).bounds_)


def test_the_classification_likelihood_never_falls():
    model = lw.HierarchicalMixture(
        TREE, steps=10, weights="training", levels="pooled", variant="cem"
    ).fit(*corpus())
    bounds = np.array(model.bounds_)
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[:-1])).all()
    # every word of a class is whole at one level
    assert set(np.unique(model._sources.share)) == {0.0, 1.0}


def test_bound_is_the_log_likelihood_of_the_training_words():
    X, y = corpus()
    model = lw.HierarchicalMixture(TREE, steps=3, weights="training", levels="pooled").fit(X, y)
    before = lw.HierarchicalMixture(TREE, steps=2, weights="training", levels="pooled").fit(X, y)
    columns = [list(before.classes_).index(label) for label in y]
    likelihood = (X * before.log_p_w_given_node_[columns]).sum()
    assert model.bounds_[-1] == pytest.approx(likelihood)


def test_beta_one_is_no_tempering():
    X, y = corpus()
    plain = lw.HierarchicalMixture(TREE, steps=3).fit(X, y)
    tempered = lw.HierarchicalMixture(TREE, steps=3, beta=1.0).fit(X, y)
    annealed = lw.HierarchicalMixture(TREE, steps=1, beta=[1.0, 1.0, 1.0]).fit(X, y)
    np.testing.assert_array_equal(plain.predict_proba(X), tempered.predict_proba(X))
    np.testing.assert_array_equal(plain.predict_proba(X), annealed.predict_proba(X))
    other = lw.HierarchicalMixture(TREE, steps=3, beta=0.5).fit(X, y)
    assert (other.predict_proba(X) != plain.predict_proba(X)).any()


def test_no_steps_is_shrinkage():
    X, y = corpus()
    mixture = lw.HierarchicalMixture(TREE, steps=0, weight_steps=20).fit(X, y)
    shrinkage = lw.HierarchicalShrinkage(TREE, levels="apart", max_iter=20).fit(X, y)
    np.testing.assert_allclose(mixture.level_weights_, shrinkage.level_weights_)
    np.testing.assert_allclose(mixture.predict_proba(X), shrinkage.predict_proba(X))


@pytest.mark.parametrize("steps", [0, 4])
def test_all_weight_on_the_leaf_is_naive_bayes(steps):
    # Lidstone smoothing mixes with the uniform distribution by λV / (n + λV): the same for all
    # classes where they have as many words.
    rng = np.random.default_rng(0)
    X = np.array([rng.multinomial(40, rng.dirichlet(np.ones(10))) for _ in range(20)])
    y = np.array(["a/x", "a/y/deep", "b/z", "c"] * 5)
    alpha, length, n_words = 0.3, 200, 10
    even = alpha * n_words / (length + alpha * n_words)
    mixture = lw.HierarchicalMixture(
        TREE, steps=steps, weights=[1 - even, 0, 0, 0, even], nodes="leaves"
    ).fit(X, y)
    bayes = lw.NaiveBayes(TREE, alpha=alpha, nodes="leaves").fit(X, y)
    if steps == 0:
        np.testing.assert_allclose(mixture.log_p_w_given_node_, bayes.log_p_w_given_node_)
        np.testing.assert_allclose(mixture.predict_proba(X), bayes.predict_proba(X))
    # EM then moves to the uniform node what it explains as well: the leaves sharpen
    np.testing.assert_array_equal(mixture.predict(X), bayes.predict(X))


def test_left_out_occurrences_take_their_share_of_every_level_with_them():
    X, y = corpus()
    model = lw.HierarchicalMixture(TREE, steps=2).fit(X, y)
    paths, sources = model._paths, model._sources
    q = model._q(sources, model._held_out(model.word_counts_))
    share, n = sources.share, paths.n
    for pair in range(0, len(n), 3):
        without = n.copy()
        without[pair] -= 1
        mass, length = paths.pool(without[:, None] * share)
        left = Sources(mass, length, share, False)
        slow = model._q(left)[pair]
        slow[:-1][paths.path[paths.row[pair]] < 0] = 0
        np.testing.assert_allclose(q[pair], slow, atol=1e-9)


def test_m_step_is_equation_6():
    X, y = corpus()
    start = lw.HierarchicalMixture(TREE, steps=0, levels="pooled", weights="uniform").fit(X, y)
    moved = lw.HierarchicalMixture(TREE, steps=1, levels="pooled", weights="uniform").fit(X, y)
    n_words = X.shape[1]
    expected = {}  # node -> counts, the class's own under -1 - column
    for column, node in enumerate(start.nodes_.tolist()):
        rows = [i for i in range(len(y)) if TREE.index(y[i]) == node]
        if not rows:
            continue
        n = X[rows].sum(axis=0)
        _, posterior = start.word_levels(column, np.arange(n_words))
        keys = [-1 - column] + [v for v in [node, *TREE.ancestors(node)] if len(TREE.children(v))]
        for key, p in zip(keys, posterior.T):
            expected[key] = expected.get(key, 0) + n * p
    for path in ("/", "a", "b"):
        counts = expected[TREE.index(path)]
        np.testing.assert_allclose(
            moved._p_w_given_node(TREE.index(path)), counts / counts.sum(), atol=1e-12
        )
    column = list(moved.classes_).index("a/x")
    counts = expected[-1 - column]
    found = moved._p_w_given_node(TREE.index("a/x"))
    np.testing.assert_allclose(found, counts / counts.sum(), atol=1e-12)


def test_held_out_evidence_says_when_to_stop():
    X, y = corpus()
    auto = lw.HierarchicalMixture(TREE, steps="auto").fit(X, y)
    assert 0 <= auto.n_steps_ <= 10
    same = lw.HierarchicalMixture(TREE, steps=auto.n_steps_).fit(X, y)
    np.testing.assert_array_equal(auto.predict_proba(X), same.predict_proba(X))

    def worth(steps):
        model = lw.HierarchicalMixture(TREE, steps=steps).fit(X, y)
        q = model._q(model._sources, model._held_out(model.word_counts_))
        p = (q * model.level_weights_[model._paths.row]).sum(axis=1)
        return model._paths.n @ np.log(p)

    values = [worth(steps) for steps in range(auto.n_steps_ + 2)]
    assert values[: auto.n_steps_ + 1] == sorted(values[: auto.n_steps_ + 1])
    assert auto.n_steps_ == 10 or values[-1] < values[-2]


@pytest.fixture(scope="module")
def drawn():
    tree = lw.Taxonomy.from_paths(f"{a}/{i}" for a in "abc" for i in "123")
    return make_corpus(
        tree, 3000, 300, 100, concentration=15, level_weights=[0.3, 0.3, 0.4], random_state=0
    )


def distance(p, other):
    return np.abs(p - other).sum(axis=-1) / 2


def test_class_distributions_of_a_corpus_are_recovered(drawn):
    for weights in ("heldout", "training"):
        model = lw.HierarchicalMixture(drawn.taxonomy, steps=20, weights=weights, nodes="leaves")
        model.fit(drawn.X, drawn.labels)
        p = np.exp(model.log_p_w_given_node_)
        assert distance(p, drawn.p_w_given_class[model.nodes_]).max() < 0.05


def test_node_distributions_of_a_corpus_are_recovered_given_its_weights(drawn):
    # The weights must be known: a leaf could say all that its parent says as well by itself.
    model = lw.HierarchicalMixture(
        drawn.taxonomy, steps=100, weights=[0.4, 0.3, 0.3, 0.0], nodes="leaves"
    ).fit(drawn.X, drawn.labels)
    for node, p in enumerate(drawn.p_w_given_node):
        assert distance(model._p_w_given_node(node), p) < 0.1


def test_weights_of_a_corpus_are_recovered_given_its_distributions(drawn):
    model = lw.HierarchicalShrinkage(drawn.taxonomy, nodes="leaves").fit(drawn.X, drawn.labels)
    paths = model._paths
    q = np.full((len(paths.n), 4), 1 / 300)
    for level in range(3):
        nodes = paths.source_node[paths.path[paths.row, level]]
        q[:, level] = drawn.p_w_given_node[nodes, paths.words]
    fitted = model._fit_weights(q, paths.n, np.full((9, 4), 0.25), 1000)
    assert fitted.converged
    np.testing.assert_allclose(fitted.parameters, [[0.4, 0.3, 0.3, 0.0]] * 9, atol=0.02)


def test_words_move_to_the_level_they_belong_to():
    # word 0 everywhere, words 1-2 of the branches, words 3-6 of the leaves
    tree = lw.Taxonomy.from_paths(["a/1", "a/2", "b/1", "b/2"])
    labels = ["a/1", "a/2", "b/1", "b/2"]
    X = np.array(
        [
            [5, 4, 0, 6, 0, 0, 0],
            [5, 4, 0, 0, 6, 0, 0],
            [5, 0, 4, 0, 0, 6, 0],
            [5, 0, 4, 0, 0, 0, 6],
        ]
    )
    names = ["the", "sea", "land", "fish", "boat", "cow", "road"]
    for levels in ("apart", "pooled"):
        model = lw.HierarchicalMixture(
            tree, steps=10, levels=levels, weights="uniform", nodes="leaves"
        ).fit(X, labels)
        assert [word for word, _ in model.node_words("/", 1, names)] == ["the"]
        assert [word for word, _ in model.node_words("a", 1, names)] == ["sea"]
        assert [word for word, _ in model.node_words("b/1", 1, names)] == ["cow"]
        column = list(model.classes_).index("a/1")
        found, p = model.word_levels(column, np.array([0, 1, 3]))
        assert found == ["a/1", "a", "/", ""]
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert [found[i] for i in p.argmax(axis=1)] == ["/", "a", "a/1"]
    said = model.explain(X[:1], feature_names=names)
    assert said.path == "a/1"
    assert [word for word, c in said.words if c > 0] == ["fish", "sea"]
    assert str(said).splitlines()[3:] == [
        "  from a/1: fish",
        "  from a: sea",
        "  from /: the",
    ]


def test_explanations_without_names_and_of_a_given_node():
    X, y = corpus()
    model = lw.HierarchicalMixture(TREE).fit(X, y)
    said = model.explain(X[:1], node="b/z")
    assert said.path == "b/z"
    assert {word for word, _ in said.words} == {str(w) for w in np.flatnonzero(X[0])}
    column = list(model.classes_).index("b/z")
    total = sum(c for _, c in said.words)
    assert total == pytest.approx(model.likelihood_ratio(X[:1])[0, column])
    assert lw.NaiveBayes(TREE).fit(X, y).explain(X[:1]).levels == ()
    with pytest.raises(ValueError, match=r"explain takes one document, got 50\."):
        model.explain(X)
    with pytest.raises(ValueError, match=r"feature_names has 2 words, the model 12: expected"):
        model.explain(X[:1], feature_names=["a", "b"])


def test_node_words_of_any_model_and_node():
    X, y = corpus()
    for kind in (lw.NaiveBayes, lw.HierarchicalShrinkage, lw.GeneralShrinkage, lw.HPLC):
        model = kind(TREE).fit(X, y)
        assert {word for word, _ in model.node_words("c", 2)} == {"8", "9"}
        assert len(model.node_words("/", 3)) == 3
    assert lw.NaiveBayes(TREE).fit(X[:1], y[:1]).node_words("b") == []
    plain = lw.NaiveBayes().fit(X, y)
    assert plain.node_words("c", 2) == lw.NaiveBayes(TREE).fit(X, y).node_words("c", 2)
    with pytest.raises(LabelError, match=r'No node is called "zebra"'):
        model.node_words("zebra")


def test_stochastic_em_and_annealing_are_reproducible():
    X, y = corpus()
    settings = {"variant": "sem", "steps": 3, "beta": (0.6, 0.8, 1.0)}
    first, second, other = (
        lw.HierarchicalMixture(TREE, **settings, random_state=seed).fit(X, y).predict_proba(X)
        for seed in (4, 4, 5)
    )
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_likelihood_ratio_is_that_of_the_definition():
    X, y = corpus()
    X[:, -1] = 0
    model = lw.HierarchicalMixture(TREE).fit(X, y)
    pooled = X.sum(axis=0) / X.sum()
    seen = pooled > 0
    Z = X + np.eye(12, dtype=int)[-1]  # one word that no document had
    expected = Z[:, seen] @ (model.log_p_w_given_node_[:, seen] - np.log(pooled[seen])).T
    empty = ~np.isin(model.classes_, y)
    found = model.likelihood_ratio(Z)
    np.testing.assert_allclose(found[:, ~empty], expected[:, ~empty])
    assert (found[:, empty] == -np.inf).all()  # classes that cannot be predicted


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"steps": -1}, r"steps=-1: expected \"auto\" or an integer of at least 0\."),
        ({"steps": "all"}, r"steps='all': expected \"auto\""),
        (
            {"weights": "equal"},
            r"weights='equal': expected \"heldout\", \"training\", \"uniform\" or",
        ),
        ({"weights": [1, 2]}, r"weights has shape \(2,\), expected 5 numbers: one for each level"),
        (
            {"weights": [1, 2, -3, 1, 1]},
            r"weights=\[1, 2, -3, 1, 1\]: expected numbers of at least 0, not all",
        ),
        ({"weights": [0, 0, 0, 0, 0]}, r"weights=\[0, .*: expected numbers of at least 0, not all"),
        ({"weight_steps": 0}, r"weight_steps=0: expected an integer of at least 1\."),
        ({"beta": 0}, r"beta=0: expected a number above 0"),
        ({"variant": "hard"}, r"variant='hard': expected \"em\", \"cem\" or \"sem\"\."),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(ValueError, match=message):
        lw.HierarchicalMixture(TREE, **parameters).fit(*corpus())
