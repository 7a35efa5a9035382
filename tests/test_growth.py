"""HPLSA: tempered EM over co-occurrences, and the tree that grows as β rises."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import leafwise as lw
from leafwise.models._blocks import Blocks
from leafwise.models._em import Sharing
from leafwise.models._growth import (
    Cooccurrences,
    Parameters,
    Tree,
    hang,
    leading_direction,
    tree_of_merges,
)
from leafwise.models.growth import HPLSA
from leafwise.synthetic import make_corpus
from leafwise.threads import limited

TREE = Tree((-1, 0, 0, 1, 1), (2, 3, 4))  # one leaf below the root, two below another node
BLOCKS = np.kron(np.eye(2), np.ones((6, 5))) * 3
BLOCKS += np.random.default_rng(0).integers(0, 2, BLOCKS.shape)


def some(n=12, n_words=9, seed=0):
    X = np.random.default_rng(seed).integers(0, 4, (n, n_words)).astype(float)
    return sparse.csr_matrix(X)


def in_two(X):
    """The same documents in two blocks, which changes nothing but rounding."""
    return Blocks([X[:5], X[5:]], [5, X.shape[0] - 5])


def start(X, tree=TREE, paths=True, seed=1):
    rng = np.random.default_rng(seed)
    lines = [tree.path(leaf) if paths else [leaf] for leaf in tree.leaves]
    return Parameters(
        rng.dirichlet(np.ones(X.shape[0] * len(tree.leaves))).reshape(X.shape[0], -1),
        tuple(rng.dirichlet(np.ones(len(line))) for line in lines),
        rng.dirichlet(np.ones(X.shape[1]), len(tree.parent)),
    )


def slow_step(X, p, lines, beta, both):
    """One step of G eq. 5-8, an occurrence at a time; returns parameters and the bound."""
    X = X.toarray()
    joint, topics = np.zeros_like(p.joint), np.zeros_like(p.topics)
    levels = [np.zeros_like(level) for level in p.levels]
    bound = 0.0
    for i, j in zip(*np.nonzero(X)):
        shares = {}
        for k, line in enumerate(lines):
            parts = [p.levels[k][d] * p.topics[v, j] for d, v in enumerate(line)]
            for d in range(len(line)):
                if both:
                    shares[k, d] = (p.joint[i, k] * parts[d]) ** beta
                else:
                    shares[k, d] = (p.joint[i, k] * sum(parts)) ** beta * parts[d] / sum(parts)
        total = sum(shares.values())
        bound += X[i, j] * np.log(total) / beta
        for (k, d), share in shares.items():
            n = X[i, j] * share / total
            joint[i, k] += n
            levels[k][d] += n
            topics[lines[k][d], j] += n
    used = topics.any(axis=1)
    topics[used] /= topics[used].sum(axis=1, keepdims=True)
    topics[~used] = p.topics[~used]
    return Parameters(joint / X.sum(), tuple(lev / lev.sum() for lev in levels), topics), bound


def assert_alike(a, b):
    np.testing.assert_allclose(a.joint, b.joint, atol=1e-12)
    np.testing.assert_allclose(np.concatenate(a.levels), np.concatenate(b.levels), atol=1e-12)
    np.testing.assert_allclose(a.topics, b.topics, atol=1e-12)


@pytest.mark.parametrize("words", [1 << 13, 3])  # at a time: all, and few
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("beta", [0.4, 1.0])
@pytest.mark.parametrize("paths", [True, False])
def test_a_step_is_that_of_the_equations(paths, beta, both, words, monkeypatch):
    monkeypatch.setattr("leafwise.models._growth._WORDS", words)
    X = some()
    assert X.shape[1] > 3
    counts, p = Cooccurrences(in_two(X), paths, False, both), start(X, paths=paths)
    lines = counts.lines(TREE)
    statistics, bound = counts.expect(p, lines, Sharing(beta))
    slow, slow_bound = slow_step(X, p, lines, beta, both)
    assert_alike(counts.maximise(statistics, p, lines), slow)
    assert bound == pytest.approx(slow_bound)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("beta", [0.3, 0.7, 1.0])
def test_the_bound_never_falls(beta, both, whole):
    X = some(40, 25)
    counts = Cooccurrences(in_two(X), True, whole, both)
    _, bounds = counts.settle(TREE, start(X), beta, max_iter=60, tol=0.0)
    assert len(bounds) == 60
    assert np.diff(bounds).min() > -1e-9 * abs(bounds[0])
    assert bounds[-1] > bounds[0]


def test_at_beta_zero_all_is_uniform():
    X = some()
    for both, level in ((True, 1 / 8), (False, None)):
        counts, p = Cooccurrences(in_two(X), True, False, both), start(X)
        lines = counts.lines(TREE)
        statistics, _ = counts.expect(p, lines, Sharing(1e-12))
        of_class = statistics.by_document / statistics.by_document.sum(axis=1, keepdims=True)
        # Tempered both, a class has as many shares as topics: two, three and three of eight.
        expected = [2 / 8, 3 / 8, 3 / 8] if both else [1 / 3] * 3
        np.testing.assert_allclose(of_class, np.tile(expected, (12, 1)), atol=1e-9)
        if both:
            found = counts.maximise(statistics, p, lines)
            np.testing.assert_allclose(found.levels[1], np.full(3, 8 * level / 3), atol=1e-9)


def test_a_flat_tree_is_plsa():
    """Against PLSA as it is usually written, Σ P(j | z) P(z | i), from the same start."""
    X = some(20, 15)
    flat = lw.Taxonomy.from_paths(["a", "b", "c"])
    model = HPLSA(tree=flat, betas=[1.0], max_iter=30, tol=0.0).fit(X)
    counts = Cooccurrences(in_two(X), False, False, False)
    rng = np.random.default_rng(0)
    moved = np.exp(rng.standard_normal((4, 15)))
    shares = rng.dirichlet(np.ones(3))
    p_word = np.asarray(X.sum(axis=0)).ravel() * moved[1:]
    p_word /= p_word.sum(axis=1, keepdims=True)
    p_class = np.tile(shares, (20, 1))
    N = X.toarray()
    for _ in range(30):
        joint = p_class[:, :, None] * p_word  # documents × classes × words
        part = N[:, None] * joint / joint.sum(axis=1, keepdims=True)
        p_word = part.sum(axis=0) / part.sum(axis=(0, 2))[:, None]
        p_class = part.sum(axis=2) / N.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.p_word_given_node_[1:], p_word, atol=1e-8)
    np.testing.assert_array_equal(model.p_node_given_leaf_, np.eye(4)[1:])
    joint = p_class * counts.lengths[:, None]
    np.testing.assert_allclose(model.p_document_given_leaf_, joint / joint.sum(axis=0), atol=1e-8)


def test_documents_whole_are_shared_by_all_their_words():
    """HACM: P(α | i) is proportional to [P(α) Π_j P(j | α)^n]^β."""
    X = some()
    counts, p = Cooccurrences(in_two(X), True, True, False), start(X)
    lines = counts.lines(TREE)
    statistics, bound = counts.expect(p, lines, Sharing(0.5))
    p_word = np.array([level @ p.topics[line] for level, line in zip(p.levels, lines)])
    joint = (p.joint.sum(axis=0) * np.exp(X @ np.log(p_word).T)) ** 0.5
    shares = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(statistics.by_document, shares * counts.lengths[:, None])
    np.testing.assert_allclose(statistics.by_word, X.T @ shares)
    assert bound == pytest.approx(2 * np.log(joint.sum(axis=1)).sum())
    model = HPLSA(2, unit="document").fit(BLOCKS)
    assert len(set(model.labels_[:6])) == len(set(model.labels_[6:])) == 1


# ---- phase transitions ----


def test_the_leading_direction_is_that_of_correspondence_analysis():
    X = some(30, 20, seed=3)
    direction, sigma = leading_direction(in_two(X))
    P = X.toarray() / X.sum()
    r, c = P.sum(axis=1), P.sum(axis=0)
    S = (P - np.outer(r, c)) / np.sqrt(np.outer(r, c))
    _, values, rows = np.linalg.svd(S)
    assert sigma == pytest.approx(values[0], rel=1e-3)
    expected = rows[0] / np.sqrt(c)
    assert abs(np.corrcoef(direction, expected)[0, 1]) > 0.999
    assert (c * direction).sum() == pytest.approx(0, abs=1e-9)
    assert (c * direction**2).sum() == pytest.approx(1)


@pytest.mark.parametrize("noise", [0.2, 0.5])
def test_copies_come_apart_where_theory_has_it(noise):
    """Two clusters: copies moved a little, at random, part above 1 / (1 + σ) and not below."""
    shares = np.kron([[1 - noise, noise], [noise, 1 - noise]], np.ones((5, 4)))
    X = sparse.csr_matrix(100 * shares)
    sigma = leading_direction(in_two(X))[1]
    assert sigma == pytest.approx(1 - 2 * noise, abs=1e-6) or noise == 0.5
    counts = Cooccurrences(in_two(X), False, False, False)
    assert counts.critical_beta() == pytest.approx(1 / (1 + sigma))

    def apart(beta):
        rng = np.random.default_rng(0)
        near = counts.one_class()[1].topics * (1 + 1e-3 * rng.standard_normal((2, 8)))
        joint = np.repeat(counts.lengths[:, None] / counts.total / 2, 2, axis=1)
        p = Parameters(joint, (np.ones(1),) * 2, near / near.sum(axis=1, keepdims=True))
        found, _ = counts.settle(Tree((-1, -1), (0, 1)), p, beta, max_iter=2000, tol=0.0)
        return np.abs(found.topics[0] - found.topics[1]).sum()

    assert apart(0.97 / (1 + sigma)) < 1e-6
    if noise < 0.5:
        assert apart(1.03 / (1 + sigma)) > 0.1


def test_two_clear_sources_split_first():
    nested = np.zeros((16, 40))  # two groups, and in each two subgroups that share half their words
    for g in range(4):
        nested[4 * g : 4 * g + 4, 20 * (g // 2) : 20 * (g // 2) + 10] += 5
        nested[4 * g : 4 * g + 4, 20 * (g // 2) + 10 + 5 * (g % 2) :][:, :5] += 5
    for shape in ("alike", "splits"):
        model = HPLSA(4, shape=shape).fit(nested)
        leaf = model.p_leaf_given_document_.argmax(axis=1)
        assert [len(set(leaf[4 * g : 4 * g + 4])) for g in range(4)] == [1] * 4
        assert len(set(leaf)) == 4
        above = model.tree_.parent[model.leaves_[leaf]]
        assert above[0] == above[4] != above[8] == above[12]
    two = HPLSA(2).fit(nested).p_leaf_given_document_.argmax(axis=1)
    assert len(set(two[:8])) == len(set(two[8:])) == 1
    assert two[0] != two[8]


# ---- growth ----


@pytest.fixture(scope="module")
def drawn():
    tree = lw.Taxonomy.from_paths(["a/x", "a/y", "b/x", "b/y"])
    return make_corpus(tree, 160, 300, 60, concentration=20.0, random_state=3)


@pytest.fixture(scope="module")
def grown(drawn):
    words = [f"w{j}" for j in range(drawn.X.shape[1])]
    return HPLSA(4, vocabulary=words).fit(drawn.X)


def test_drawn_topics_are_found(drawn, grown):
    pairs = np.unique(list(zip(drawn.labels, grown.labels_)), axis=0, return_counts=True)[1]
    assert np.sort(pairs)[-4:].sum() > 0.95 * 160
    assert grown.tree_.leaves.tolist() == grown.leaves_.tolist()
    assert len(grown.tree_) == 7


@pytest.mark.parametrize(
    "settings", [{}, {"variant": "cem"}, {"variant": "sem"}, {"unit": "document"}]
)
def test_the_same_tree_whatever_the_order_of_documents(drawn, settings):
    order = np.random.default_rng(5).permutation(160)
    one = HPLSA(4, random_state=1, **settings).fit(drawn.X)
    same = HPLSA(4, random_state=1, **settings).fit(drawn.X)
    other = HPLSA(4, random_state=1, **settings).fit(drawn.X[order])
    for model, rows in ((same, slice(None)), (other, order)):
        np.testing.assert_array_equal(model.p_word_given_node_, one.p_word_given_node_)
        np.testing.assert_array_equal(model.labels_, one.labels_[rows])
        np.testing.assert_array_equal(
            model.p_leaf_given_document_, one.p_leaf_given_document_[rows]
        )
        assert model.tree_ == one.tree_


@pytest.mark.parametrize("variant", ["em", "cem", "sem"])
def test_words_in_slices_and_threads_grow_the_same_tree(drawn, variant, monkeypatch):
    with limited(1):
        one = HPLSA(4, variant=variant, random_state=1).fit(drawn.X)
    monkeypatch.setattr("leafwise.models._growth._WORDS", 11)
    with limited(3):
        model = HPLSA(4, variant=variant, random_state=1).fit(drawn.X)
    assert model.tree_ == one.tree_
    np.testing.assert_allclose(model.p_word_given_node_, one.p_word_given_node_, atol=1e-9)


def test_distributions_are(grown, drawn):
    assert grown.p_leaf_.sum() == pytest.approx(1)
    for table in (grown.p_node_given_leaf_, grown.p_word_given_node_, grown.p_leaf_given_document_):
        np.testing.assert_allclose(table.sum(axis=1), 1)
    np.testing.assert_allclose(grown.p_document_given_leaf_.sum(axis=0), 1)
    for k, leaf in enumerate(grown.leaves_):
        path = [leaf, *grown.tree_.ancestors(leaf)]
        assert set(np.flatnonzero(grown.p_node_given_leaf_[k])) <= set(path)
    np.testing.assert_allclose(grown.transform(drawn.X), grown.p_leaf_given_document_)
    np.testing.assert_array_equal(grown.predict(drawn.X), grown.labels_)
    of_node = grown.node_proba(drawn.X)
    np.testing.assert_allclose(of_node[:, 0], 1)
    first, second = grown.tree_.children(0)
    np.testing.assert_allclose(of_node[:, first] + of_node[:, second], 1)


def test_siblings_are_named_apart(grown):
    tree = grown.tree_
    for i in range(1, len(tree)):
        assert len(tree.keywords[i]) > 0
        mine = set(tree.names[i].split(", "))
        for j in range(1, len(tree)):
            if i != j and tree.parent[i] == tree.parent[j]:
                assert not mine & set(tree.names[j].split(", "))
        for above in tree.ancestors(i):
            assert not mine & set(tree.names[above].split(", "))


def test_without_words_nodes_have_numbers(drawn):
    tree = HPLSA(3).fit(drawn.X).tree_
    assert sorted(tree.names[i] for i in tree.children(0)) == ["1", "2"]


def test_typical_documents(grown, drawn):
    for leaf in grown.get_feature_names_out():
        found = grown.typical_documents(leaf, 5)
        assert len(found) == 5
        assert (grown.labels_[found] == leaf).all()
    with pytest.raises(ValueError, match=r"n=0: expected an integer of at least 1\."):
        grown.typical_documents(leaf, 0)


def test_the_result_goes_into_hplc(grown, drawn):
    model = lw.HPLC(grown.tree_, nodes="leaves").fit(drawn.X, grown.labels_)
    assert np.mean(model.predict(drawn.X) == grown.labels_) > 0.95


def test_documents_with_nothing_known(grown):
    empty = sparse.csr_matrix((2, grown.n_features_in_))
    np.testing.assert_allclose(grown.transform(empty), np.tile(grown.p_leaf_, (2, 1)))


def test_empty_documents_are_no_hindrance(drawn):
    X = sparse.vstack([drawn.X, sparse.csr_matrix((3, drawn.X.shape[1]))]).tocsr()
    model = HPLSA(4).fit(X)
    assert len(model.labels_) == 163
    assert np.isfinite(model.p_leaf_given_document_).all()


def test_held_out_words_decide_on_the_number_of_leaves(drawn):
    model = HPLSA("auto").fit(drawn.X)
    assert 3 <= len(model.leaves_) <= 6
    best = max(model.held_out_, key=model.held_out_.get)
    assert best == len(model.leaves_)
    assert 1 in model.held_out_
    alike = sparse.csr_matrix(np.random.default_rng(0).poisson(3.0, (60, 20)))
    assert len(HPLSA("auto").fit(alike).leaves_) == 1  # there is nothing to tell documents apart by


@pytest.mark.parametrize("shape", ["alike", "splits"])
def test_a_warm_start_grows_on(drawn, shape):
    model = HPLSA(2, warm_start=True, shape=shape).fit(drawn.X)
    two = model.p_leaf_given_document_.argmax(axis=1)
    model.set_params(n_leaves=4).fit(drawn.X)
    assert len(model.leaves_) == 4
    four = model.p_leaf_given_document_.argmax(axis=1)
    pairs = np.unique(np.column_stack([two, four]), axis=0, return_counts=True)[1]
    assert np.sort(pairs)[-4:].sum() > 0.9 * 160  # classes come apart; few documents change sides
    again = model.fit(drawn.X).p_leaf_given_document_.argmax(axis=1)
    pairs = np.unique(np.column_stack([four, again]), axis=0, return_counts=True)[1]
    assert np.sort(pairs)[-4:].sum() > 0.95 * 160


def test_a_given_tree_is_kept():
    tree = lw.Taxonomy.from_paths(["fruit/fig", "fruit/plum", "metal"])
    model = HPLSA(tree=tree, random_state=2).fit(BLOCKS)
    assert model.tree_ is tree
    assert model.p_node_given_leaf_.shape == (3, 5)
    np.testing.assert_array_equal(model.p_node_given_leaf_ > 0, model.p_node_given_leaf_ > 0)
    assert set(model.labels_) <= {"fruit/fig", "fruit/plum", "metal"}


def test_too_few_leaves_are_said():
    alike = np.tile([[3, 1, 2]], (10, 1))
    with pytest.warns(ConvergenceWarning, match="The tree has fewer leaves than n_leaves=4, 1: no"):
        model = HPLSA(4).fit(alike)
    assert len(model.tree_) == 1
    assert set(model.labels_) == {"/"}


def test_a_file_gives_back_the_same(grown, drawn, tmp_path):
    from leafwise.persistence import save

    save(grown, tmp_path / "grown.leafwise")
    back = lw.load(tmp_path / "grown.leafwise")
    np.testing.assert_array_equal(back.transform(drawn.X), grown.transform(drawn.X))
    np.testing.assert_array_equal(back.labels_, grown.labels_)
    assert back.tree_ == grown.tree_


def test_a_model_saves_itself(grown, drawn, tmp_path):
    grown.save(tmp_path / "m.leafwise-model")
    again = lw.load(tmp_path / "m.leafwise-model")
    np.testing.assert_array_equal(again.transform(drawn.X), grown.transform(drawn.X))


def test_words_are_kept_by_a_clone_and_a_counter_is_not():
    counter = lw.WordCounter()
    X = counter.fit_transform(["fig plum", "plum fig fig", "tin zinc", "zinc tin tin"])
    words = HPLSA(2, vocabulary=counter.get_feature_names_out())
    assert clone(words).fit(X).tree_ == HPLSA(2, vocabulary=counter).fit(X).tree_
    with pytest.raises(ValueError, match=r"a counter that is not fitted, as in a clone of this"):
        clone(HPLSA(2, vocabulary=counter)).fit(X)


def test_texts_are_refused_in_any_form():
    for texts in (["a b", "c"], np.array(["a b", "c"]), pd.Series(["a b", "c"])):
        with pytest.raises(ValueError, match="HPLSA takes word counts, got texts"):
            HPLSA(2).fit(texts)


def test_a_tree_of_merges():
    merged = np.array([[2, 3, 0.1, 2], [1, 4, 0.2, 3], [0, 5, 0.9, 4]])
    tree, classes = tree_of_merges(merged)
    assert tree.parent == (-1, 0, 0, 1, 1, 3, 3)
    assert dict(zip(tree.leaves, classes)) == {2: 0, 4: 1, 5: 2, 6: 3}
    words = np.eye(4)
    p = hang(tree, classes, np.full((1, 4), 0.25), words)
    np.testing.assert_allclose(p.topics[0], 0.25)
    np.testing.assert_allclose(p.topics[3], [0, 0, 0.5, 0.5])
    np.testing.assert_allclose(p.levels[classes.index(3)], np.full(4, 0.25))


def test_progress_is_shown(drawn, capsys):
    HPLSA(3, verbose=True).fit(drawn.X)
    assert "leaves" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_leaves": 0}, r'n_leaves=0: expected a number of at least 1, or "auto"\.'),
        ({"n_leaves": "many"}, r"n_leaves='many': expected a number"),
        ({"tree": "a/b"}, r"tree='a/b': expected a Taxonomy, or None to grow one\."),
        ({"topics": "all"}, r"topics='all': expected one of \('path', 'leaf'\)\."),
        ({"shape": "round"}, r"shape='round': expected one of \('alike', 'splits'\)\."),
        ({"unit": "line"}, r"unit='line': expected one of \('word', 'document'\)\."),
        ({"tempered": "none"}, r"tempered='none': expected one of"),
        ({"variant": "vem"}, r"variant='vem': expected one of \('em', 'cem', 'sem'\)\."),
        ({"betas": [0.5, 0.4]}, r"betas=\[0\.5, 0\.4\]: expected numbers above 0, each"),
        ({"betas": []}, r"betas=\[\]: expected numbers above 0"),
        ({"tol": -1}, r"tol=-1: expected a number of at least 0\."),
        ({"min_documents": None}, r"min_documents=None: expected a number of at least 0\."),
        ({"max_iter": 0}, r"max_iter=0: expected an integer of at least 1\."),
        ({"fold_steps": 0}, r"fold_steps=0: expected an integer of at least 1\."),
        ({"vocabulary": ["a"]}, r"vocabulary has 1 words, expected 10: one per column\."),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        HPLSA(**settings).fit(BLOCKS)


def test_bad_input():
    with pytest.raises(ValueError, match=r"X has no words: there is nothing to grow a tree from\."):
        HPLSA(2).fit(np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"HPLSA takes word counts, got texts"):
        HPLSA(2).fit(["a b", "c d"])
    with pytest.raises(ValueError, match=r"Negative values in data passed to HPLSA"):
        HPLSA(2).fit(-BLOCKS)


def test_clone_keeps_all_settings():
    model = HPLSA(5, topics="leaf", betas=(0.5, 1.0))
    assert clone(model).get_params() == model.get_params()
