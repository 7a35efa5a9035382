"""Hierarchical and general shrinkage, against loops that do as the papers say."""

import numpy as np
import pytest
from scipy import sparse

import leafwise as lw
from leafwise.models import _counts, naive_bayes
from leafwise.models._heldout import uniform_of_rows
from leafwise.synthetic import make_corpus

TREE = lw.Taxonomy.from_dict({"a": {"x": None, "y": {"deep": None}}, "b": {"z": None}, "c": None})
LABELS = ["a", "a/x", "a/y/deep", "b/z", "c"]  # an inner node among them


def small_corpus(seed=0, n=12, words=8):
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.7, (n, words))
    X[:, -1] = 0  # a word that no document has
    return X, np.array([LABELS[i % 5] for i in range(n)])


def slow_levels(X, y, tree, node, apart):
    """Return P(w | v) for each level of a node's path, from documents, by going up the tree."""
    own = X[[i for i, label in enumerate(y) if tree.index(label) == node]].sum(axis=0)
    lists, last = [own], own
    for v in [node, *tree.ancestors(node)]:
        if not len(tree.children(v)):
            continue
        below = [i for i, label in enumerate(y) if v <= tree.index(label) < tree.end[v]]
        pooled = X[below].sum(axis=0)
        lists.append(pooled - last if apart else pooled)
        last = pooled
    return np.array([n / n.sum() if n.sum() else np.zeros(len(n)) for n in lists])


@pytest.mark.parametrize("levels", ["apart", "pooled"])
def test_occurrence_form_really_leaves_each_occurrence_out(levels):
    X, y = small_corpus()
    model = lw.HierarchicalShrinkage(TREE, levels=levels).fit(X, y)
    paths = model._paths
    q = model._q(model._sources, model._held_out(model.word_counts_))
    for pair in range(len(paths.n)):
        c, w = paths.row[pair], paths.words[pair]
        node = model.nodes_[c]
        # take one occurrence of the word out of the first document of the class that has it
        d = next(i for i in range(len(y)) if TREE.index(y[i]) == node and X[i, w])
        without = X.copy()
        without[d, w] -= 1
        expected = slow_levels(without, y, TREE, node, levels == "apart")[:, w]
        np.testing.assert_allclose(q[pair, : len(expected)], expected, atol=1e-12)
        np.testing.assert_allclose(q[pair, len(expected) : -1], 0)
        assert q[pair, -1] == 1 / X.shape[1]


def test_document_form_leaves_each_document_out():
    # Where documents are of one length and have each word once or not, the averages are exact.
    rng = np.random.default_rng(0)
    X = np.array([np.bincount(rng.permutation(10)[:5], minlength=10) for _ in range(15)])
    y = np.array([LABELS[i % 5] for i in range(15)])
    model = lw.HierarchicalShrinkage(TREE, levels="pooled", holdout="document").fit(X, y)
    paths = model._paths
    q = model._q(model._sources, model._held_out(model.word_counts_))
    for pair in range(len(paths.n)):
        node, w = model.nodes_[paths.row[pair]], paths.words[pair]
        for d in (i for i in range(15) if TREE.index(y[i]) == node and X[i, w]):
            kept = np.arange(15) != d
            expected = slow_levels(X[kept], y[kept], TREE, node, False)[:, w]
            np.testing.assert_allclose(q[pair, : len(expected)], expected, atol=1e-12)


@pytest.mark.parametrize("levels", ["apart", "pooled"])
def test_weights_and_probabilities_are_those_of_a_slow_em(levels):
    X, y = small_corpus(n=40)
    model = lw.HierarchicalShrinkage(TREE, levels=levels, max_iter=5).fit(X, y)
    for column, node in enumerate(model.nodes_.tolist()):
        mine = [i for i in range(len(y)) if TREE.index(y[i]) == node]
        if not mine:
            continue
        full = slow_levels(X, y, TREE, node, levels == "apart")
        full = np.vstack([full, np.full(X.shape[1], 1 / X.shape[1])])
        alive = full.sum(axis=1) > 0
        weights = alive / alive.sum()
        for _ in range(5):
            counts = np.eye(len(full))[0]  # one more word for the class itself
            for d in mine:
                for w in np.flatnonzero(X[d]):
                    without = X.copy()
                    without[d, w] -= 1
                    q = slow_levels(without, y, TREE, node, levels == "apart")[:, w]
                    joint = weights * np.append(q, 1 / X.shape[1])
                    counts += X[d, w] * joint / joint.sum()
            weights = counts / counts.sum()
        found = model.level_weights_[column]
        found = np.append(found[: len(full) - 1], found[-1])
        np.testing.assert_allclose(found, weights, atol=1e-6)
        p = np.exp(model.log_p_w_given_node_[column])
        np.testing.assert_allclose(p, weights @ full, atol=1e-6)
        np.testing.assert_allclose(p.sum(), 1)


@pytest.mark.parametrize(
    "model",
    [
        lw.HierarchicalShrinkage(TREE),
        lw.HierarchicalShrinkage(TREE, levels="pooled"),
        lw.HierarchicalShrinkage(TREE, holdout="document"),
        lw.HierarchicalShrinkage(TREE, holdout=0.4),
        lw.HierarchicalMixture(TREE, steps=3),
        lw.HierarchicalMixture(TREE, holdout=0.4, variant="sem", random_state=1),
        lw.GeneralShrinkage(TREE),
        lw.GeneralShrinkage(TREE, holdout="document", alpha=0.5),
        lw.GeneralShrinkage(TREE, holdout=0.4),
    ],
    ids=repr,
)
def test_weights_and_distributions_are_normalised_and_blocks_add_up(model):
    X, y = small_corpus(n=60)
    model.fit(X, y)
    weights = model.weights_ if hasattr(model, "weights_") else model.level_weights_
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(model.log_p_w_given_node_).sum(axis=1), 1)
    pieces = type(model)(**model.get_params())
    for cut in np.array_split(np.random.default_rng(5).permutation(60), [1, 20, 45]):
        pieces.partial_fit(X[cut], y[cut])
    np.testing.assert_allclose(pieces.predict_log_proba(X), model.predict_log_proba(X), atol=1e-9)


@pytest.mark.parametrize("whole", [True, False], ids=["whole table", "a class at a time"])
@pytest.mark.parametrize(
    "kind", [lw.NaiveBayes, lw.HierarchicalShrinkage, lw.GeneralShrinkage, lw.HierarchicalMixture]
)
def test_the_best_node_is_that_of_the_highest_score_however_many_are_scored_at_once(
    kind, whole, monkeypatch
):
    X, y = small_corpus(n=200)
    few = y != "a/x"  # a node that no document is at cannot be the best
    monkeypatch.setattr(_counts, "_IN_CACHE", 12)
    monkeypatch.setattr(_counts, "BLOCK_SCORES", 7)
    monkeypatch.setattr(naive_bayes, "DENSE_WEIGHTS", 1000 * whole)
    monkeypatch.setattr(_counts, "_TABLE", 1000 * whole)
    monkeypatch.setattr(_counts, "_BLOCK", X.shape[1])
    model = kind(TREE).fit(X[few], y[few])
    assert len(model._live) < len(model.nodes_)
    X[7] = X[8] = 0  # only the prior has a say, and the first of some is the best
    best = model._log_joint(sparse.csr_matrix(X)).argmax(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[best])
    assert len(np.unique(best)) == 4


@pytest.mark.parametrize(
    "kind", [lw.HierarchicalShrinkage, lw.GeneralShrinkage, lw.HierarchicalMixture]
)
def test_fitting_sees_counts_alone(kind):
    X, y = small_corpus(n=40)
    documents = kind(TREE, class_prior="uniform").fit(X, y)
    classes = np.unique(y)
    sums = np.array([X[y == c].sum(axis=0) for c in classes])  # one long document per class
    summed = kind(TREE, class_prior="uniform").fit(sums, classes)
    np.testing.assert_allclose(summed.predict_log_proba(X), documents.predict_log_proba(X))


def test_fractions_hold_out_by_the_words_of_a_document():
    X, y = small_corpus(n=2000)
    held = uniform_of_rows(sparse.csr_matrix(X), 0)
    assert 0.45 < (held < 0.5).mean() < 0.55
    copies = uniform_of_rows(sparse.csr_matrix(np.vstack([X[5], X[3], X[5]])), 0)
    np.testing.assert_array_equal(copies, held[[5, 3, 5]])
    assert (uniform_of_rows(sparse.csr_matrix(X), 1) != held).any()
    model = lw.HierarchicalShrinkage(TREE, holdout=0.25).fit(X, y)
    assert 0.2 < model.evidence_counts_.sum() / X.sum() < 0.3


def test_a_fraction_fits_weights_to_the_documents_held_out():
    X, y = small_corpus(n=400)
    held = uniform_of_rows(sparse.csr_matrix(X), 0) < 0.3
    model = lw.HierarchicalShrinkage(TREE, levels="pooled", holdout=0.3, max_iter=3).fit(X, y)
    for column, node in enumerate(model.nodes_.tolist()):
        rows = [i for i in np.flatnonzero(held) if TREE.index(y[i]) == node]
        if not rows:
            continue
        q = np.vstack(
            [
                slow_levels(X[~held], y[~held], TREE, node, False),
                np.full(X.shape[1], 1 / X.shape[1]),
            ]
        )
        weights = np.full(len(q), 1 / len(q))
        for _ in range(3):
            joint = weights[:, None] * q
            share = joint / np.maximum(joint.sum(axis=0), 1e-300)
            counts = share @ X[rows].sum(axis=0) + np.eye(len(q))[0]
            weights = counts / counts.sum()
        found = model.level_weights_[column]
        found = np.append(found[: len(q) - 1], found[-1])
        np.testing.assert_allclose(found, weights, atol=1e-9)
        full = slow_levels(X, y, TREE, node, False)  # of all documents in the end
        expected = weights[:-1] @ full + weights[-1] / X.shape[1]
        np.testing.assert_allclose(np.exp(model.log_p_w_given_node_[column]), expected)


def test_more_documents_more_weight_on_the_class_itself():
    tree = lw.Taxonomy.from_paths(["a/1", "a/2", "b/1", "b/2"])
    own = {}
    for n in (8, 80, 800):
        corpus = make_corpus(tree, n, 200, 30, concentration=50, random_state=0)
        for model in (lw.HierarchicalShrinkage(tree, nodes="leaves"), lw.GeneralShrinkage(tree)):
            model.fit(corpus.X, corpus.labels)
            if isinstance(model, lw.GeneralShrinkage):  # Z figure 3
                leaves = np.isin(model.nodes_, tree.leaves)
                weight = np.diag(model.weights_[:, :-1])[leaves].mean()
            else:  # Z figure 4
                weight = model.level_weights_[:, 0].mean()
            own.setdefault(type(model).__name__, []).append(weight)
    for weights in own.values():
        assert weights == sorted(weights)
        assert weights[-1] > 2 * weights[0]


def test_words_never_seen_say_nothing():
    X, y = small_corpus(n=40)
    for model in (
        lw.HierarchicalShrinkage(TREE),
        lw.HierarchicalMixture(TREE),
        lw.GeneralShrinkage(TREE),
    ):
        model.fit(X, y)
        more = X.copy()
        more[:, -1] = 5
        np.testing.assert_allclose(model.predict_proba(more), model.predict_proba(X))
        np.testing.assert_allclose(model.likelihood_ratio(more), model.likelihood_ratio(X))


def several_labels(n, k):
    """Documents of one topic each, with their label and k - 1 others that go round."""
    drawn = make_corpus(n_documents=n + 300, doc_length=60, concentration=20, random_state=0)
    paths = sorted(set(drawn.labels))
    y = [
        [label, *(paths[(paths.index(label) + 1 + (i + j) % 8) % 9] for j in range(k - 1))]
        for i, label in enumerate(drawn.labels[:n])
    ]
    return drawn, y


@pytest.mark.parametrize(
    "kind", [lw.NaiveBayes, lw.HierarchicalShrinkage, lw.GeneralShrinkage, lw.HierarchicalMixture]
)
def test_documents_of_several_labels_weigh_less_but_are_whole(kind):
    drawn, y = several_labels(300, 3)
    model = kind(drawn.taxonomy, nodes="leaves").fit(drawn.X[:300], y)
    # General shrinkage trusts the other classes too much: they have the same documents.
    least = 0.8 if kind is lw.GeneralShrinkage else 0.95
    assert model.score(drawn.X[300:], drawn.labels[300:]) > least
    # what is left out is a third of an occurrence
    same = [[label] for label in drawn.labels[:300]]
    single = kind(drawn.taxonomy, nodes="leaves").fit(drawn.X[:300], same)
    assert not single.evidence_counts_.nnz
    np.testing.assert_allclose(
        (model.word_counts_ + model.evidence_counts_[:, :-1]).toarray(),
        3 * model.word_counts_.toarray(),
    )


@pytest.mark.parametrize(
    "kind", [lw.NaiveBayes, lw.HierarchicalShrinkage, lw.GeneralShrinkage, lw.HierarchicalMixture]
)
def test_counts_need_not_be_whole_numbers(kind):
    drawn = make_corpus(n_documents=300, n_words=200, doc_length=20, random_state=0)
    X, y = drawn.X[:150], drawn.labels[:150]
    whole = kind(drawn.taxonomy).fit(X, y).score(drawn.X[150:], drawn.labels[150:])
    model = kind(drawn.taxonomy).fit(X * 0.3, y)
    assert model.score(drawn.X[150:], drawn.labels[150:]) > 0.85 * whole


def test_a_class_whose_words_occur_once_is_still_known_by_them():
    X, y = np.eye(12, dtype=int).reshape(4, 3, 12).sum(axis=1), ["a/1", "a/2", "b/1", "b/2"]
    tree = lw.Taxonomy.from_paths(y)
    for kind in (lw.HierarchicalShrinkage, lw.GeneralShrinkage, lw.HierarchicalMixture):
        for levels in ({"levels": "apart"}, {"levels": "pooled"}):
            settings = {} if kind is lw.GeneralShrinkage else levels
            model = kind(tree, nodes="leaves", **settings).fit(X, y)
            np.testing.assert_array_equal(model.predict(X), y)


# ---- general shrinkage ---------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_general_shrinkage_is_a_slow_em(alpha):
    X, y = small_corpus(n=30)
    model = lw.GeneralShrinkage(alpha=alpha, max_iter=4).fit(X, y)
    classes, n_words = np.unique(y), X.shape[1]
    n = np.array([X[y == c].sum(axis=0) for c in classes])
    p = (n + alpha) / (n.sum(axis=1, keepdims=True) + alpha * n_words)
    for j in range(len(classes)):
        weights = np.full(len(classes) + 1, 1 / (len(classes) + 1))
        for _ in range(4):
            counts = np.eye(len(weights))[j]
            for w in np.flatnonzero(n[j]):
                q = np.append(p[:, w], 1 / n_words)
                q[j] = (n[j, w] - 1 + alpha) / (n[j].sum() - 1 + alpha * n_words)
                counts += n[j, w] * weights * q / (weights @ q)  # Z eq. 7
            weights = counts / counts.sum()  # Z eq. 8
        np.testing.assert_allclose(model.weights_[j], weights, atol=1e-9)
        expected = weights[:-1] @ p + weights[-1] / n_words  # Z eq. 6
        np.testing.assert_allclose(np.exp(model.log_p_w_given_node_[j]), expected)


# ---- the odd cases -------------------------------------------------------------------------------

FAMILY = [
    lw.HierarchicalShrinkage,
    lw.GeneralShrinkage,
    lw.HierarchicalMixture,
    lw.PLC,
    lw.HPLC,
    lw.PLSAClassifier,
]


@pytest.mark.parametrize("kind", FAMILY)
def test_odd_corpora(kind):
    # one class only
    one = kind().fit([[1, 2, 0], [0, 1, 0]], ["a", "a"])
    np.testing.assert_array_equal(one.predict([[0, 0, 3], [0, 0, 0]]), ["a", "a"])
    # documents without a word in training, and one class whose documents are all empty
    X, y = [[0, 0, 0], [2, 1, 0], [0, 0, 0]], ["a", "b", "c"]
    model = kind().fit(X, y)
    proba = model.predict_proba([[1, 0, 0]])[0]
    assert proba[1] >= proba.max() - 1e-12  # where no other class has a word, all may be alike
    np.testing.assert_allclose(model.predict_proba(np.eye(3)).sum(axis=1), 1)
    # a tree of one node, and no document with a word at all
    root = lw.Taxonomy([""], [-1])
    assert kind(root).fit([[1, 0]], ["/"]).predict([[0, 1]])[0] == "/"
    empty = kind().fit([[0, 0], [0, 0]], ["a", "b"])
    np.testing.assert_allclose(empty.predict_proba([[1, 1]]), [[0.5, 0.5]])


@pytest.mark.parametrize("kind", FAMILY)
def test_documents_without_a_known_word_go_by_the_prior(kind):
    X, y = small_corpus(n=40)
    y[:20] = "c"
    model = kind(TREE).fit(X, y)
    for row in (np.zeros(8), np.eye(8)[-1]):
        proba = model.predict_proba([row])[0]
        prior = np.array([(y == path).mean() for path in model.classes_])
        if kind is lw.PLSAClassifier:  # it has no prior: all classes that it knows alike
            prior = (prior > 0) / (prior > 0).sum()
        if kind in (lw.PLC, lw.HPLC):  # by words: G eq. 10
            length = np.asarray(model.word_counts_.sum(axis=1)).ravel()
            prior = length / length.sum()
        np.testing.assert_allclose(proba, prior)


@pytest.mark.parametrize(
    "kind", [lw.HierarchicalShrinkage, lw.HierarchicalMixture, lw.GeneralShrinkage]
)
def test_a_class_without_a_document_leans_on_the_others(kind):
    tree = lw.Taxonomy.from_paths(["a/1", "a/2", "b/1", "b/new"])
    corpus = make_corpus(tree, 300, 100, 30, concentration=20, random_state=0)
    known = [i for i, label in enumerate(corpus.labels) if label != "b/new"]
    labels = [corpus.labels[i] for i in known]
    model = kind(tree, class_prior="uniform", nodes="leaves").fit(corpus.X[known], labels)
    new = [i for i, label in enumerate(corpus.labels) if label == "b/new"]
    column = list(model.classes_).index("b/new")
    np.testing.assert_allclose(np.exp(model.log_p_w_given_node_[column]).sum(), 1)
    if kind is not lw.GeneralShrinkage:  # which knows of no tree
        assert model.level_weights_[column, 0] == 0
        assert (model.predict(corpus.X[new]) == "b/new").mean() > 0.5
    learned = kind(tree, nodes="leaves").fit(corpus.X[known], labels)
    assert (learned.predict_proba(corpus.X)[:, column] == 0).all()


def test_a_flat_tree_and_an_inner_class():
    X, y = small_corpus(n=40)
    flat = lw.HierarchicalShrinkage().fit(X, y)
    assert flat.level_weights_.shape == (5, 3)  # the class, the root, the uniform one
    deep = lw.HierarchicalShrinkage(TREE).fit(X, y)
    a = list(deep.classes_).index("a")
    names, _ = deep.word_levels(a, np.arange(8))
    assert names == ["a (its own documents)", "a", "/", ""]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"levels": "flat"}, r"levels='flat': expected \"apart\" or \"pooled\"\."),
        (
            {"holdout": "half"},
            r"holdout='half': expected \"occurrence\", \"document\", or the frac",
        ),
        ({"holdout": 1.0}, r"holdout=1.0: expected .* between 0 and 1\."),
        ({"max_iter": 0}, r"max_iter=0: expected an integer of at least 1\."),
        ({"random_state": "x"}, r"random_state='x': expected an integer of at least 0, or None\."),
        (
            {"class_prior": "flat"},
            r"class_prior='flat': expected \"learned\", \"uniform\" or an array",
        ),
    ],
)
def test_parameters_are_checked(parameters, message):
    X, y = small_corpus()
    with pytest.raises(ValueError, match=message):
        lw.HierarchicalShrinkage(**parameters).fit(X, y)
    if "levels" not in parameters:
        with pytest.raises(ValueError, match=message):
            lw.GeneralShrinkage(**parameters).fit(X, y)


def test_alpha_is_checked():
    with pytest.raises(ValueError, match=r"alpha=-1: expected a number of at least 0\."):
        lw.GeneralShrinkage(alpha=-1).fit(*small_corpus())


def test_large_models_are_scored_in_blocks(monkeypatch):
    from leafwise.models import _counts

    X, y = small_corpus(n=40)
    whole = [kind(TREE).fit(X, y) for kind in (lw.HierarchicalMixture, lw.GeneralShrinkage)]
    monkeypatch.setattr(_counts, "_TABLE", 0)
    monkeypatch.setattr(_counts, "_BLOCK", 16)
    for model in whole:
        blocks = type(model)(TREE).fit(X, y)
        assert blocks._weights is None
        np.testing.assert_allclose(blocks.predict_log_proba(X), model.predict_log_proba(X))
        assert blocks.predict(X).tolist() == model.predict(X).tolist()
        monkeypatch.setattr(_counts, "BLOCK_SCORES", 3)
        assert blocks.predict(X).tolist() == model.predict(X).tolist()
