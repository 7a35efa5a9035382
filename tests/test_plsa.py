"""PLC, HPLC, the HACM and PLSA, against loops over G's and T's equations."""

import numpy as np
import pytest

import leafwise as lw
from leafwise.models import _em
from leafwise.synthetic import make_corpus

TREE = lw.Taxonomy.from_paths(["a/1", "a/2", "b/1", "b/2"])


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(0)
    y = np.array(["a/1", "a/2", "b/1", "b/2"] * 10)
    X = rng.poisson(0.5, (40, 12))
    for i in range(40):
        X[i, 3 * (i % 4) : 3 * (i % 4) + 3] += rng.poisson(2, 3)
    return X, y


def test_plc_is_equations_10_12_and_13(documents):
    X, y = documents
    new = np.random.default_rng(1).poisson(0.8, (6, 12))
    model = lw.PLC(TREE, nodes="leaves", fold_steps=7).fit(X, y)
    n = np.array([X[y == c].sum(axis=0) for c in model.classes_])
    size = n.sum(axis=1)
    p_class, p_w = size / size.sum(), n / size[:, None]  # G eq. 10
    np.testing.assert_allclose(np.exp(model.log_p_w_given_node_), p_w)
    for row, found in zip(new, model.predict_proba(new)):
        p_d = np.full(4, 1 / (1 + size.sum()))
        for _ in range(7):
            expected = np.zeros(4)
            for w in np.flatnonzero(row):
                joint = p_class * p_d * p_w[:, w]
                expected += row[w] * joint / joint.sum()  # G eq. 12
            p_d = expected / (size + expected)  # G eq. 13
        np.testing.assert_allclose(found, p_class * p_d / (p_class @ p_d), rtol=1e-9)


def test_hplc_on_a_flat_tree_is_plc(documents):
    X, y = documents
    flat = lw.Taxonomy.from_paths(["1", "2", "3", "4"])
    names = dict(zip(np.unique(y), flat.paths[1:]))
    labels = [names[label] for label in y]
    for weights in ("training", "uniform", "heldout"):
        hplc = lw.HPLC(flat, nodes="leaves", weights=weights).fit(X, labels)
        plc = lw.PLC(flat, nodes="leaves").fit(X, labels)
        np.testing.assert_allclose(hplc.predict_proba(X), plc.predict_proba(X))
        np.testing.assert_allclose(hplc.level_weights_, 1)
    np.testing.assert_allclose(lw.HPLC().fit(X, y).predict_proba(X), plc.predict_proba(X))


def test_hplc_has_the_topics_of_the_tree(documents):
    X, y = documents
    model = lw.HPLC(TREE, nodes="leaves", weights="uniform").fit(X, y)
    np.testing.assert_allclose(model.level_weights_, 1 / 3)  # class, parent, root
    p = np.exp(model.log_p_w_given_node_)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    plc = lw.PLC(TREE, nodes="leaves").fit(X, y)
    assert np.abs(p - np.exp(plc.log_p_w_given_node_)).max() > 0.01


def test_hplc_trains_by_exact_em(documents):
    bounds = lw.HPLC(TREE, nodes="leaves", steps=30).fit(*documents).bounds_
    assert len(bounds) == 30
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[:-1])).all()


def test_the_hacm_classifies_without_em(documents):
    X, y = documents
    model = lw.HPLC(TREE, nodes="leaves", prediction="direct", weights="uniform").fit(X, y)
    p = np.exp(model.log_p_w_given_node_)
    prior = np.array([(y == c).mean() for c in model.classes_])
    known = (p > 1e-200).all(axis=0)
    new = np.random.default_rng(2).poisson(0.8, (5, 12)) * known
    joint = np.log(prior) + new @ np.log(np.where(known, p, 1)).T
    expected = np.exp(joint - joint.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        model.predict_proba(new), expected / expected.sum(axis=1, keepdims=True)
    )


def test_classifying_in_blocks_changes_nothing(documents, monkeypatch):
    X, y = documents
    for kind in (lw.PLC, lw.HPLC, lw.PLSAClassifier):
        model = kind(TREE).fit(X, y)
        whole = model.predict_proba(X)
        monkeypatch.setattr(_em, "_FOLDED", 7)
        np.testing.assert_array_equal(model.predict_proba(X), whole)
        monkeypatch.undo()


def test_plsa_is_equation_14(documents):
    X, y = documents
    model = lw.PLSAClassifier(alpha=0.1, trust=0.8, steps=3, fold_steps=5).fit(X, y)
    classes = np.unique(y)
    p_w = np.array([X[y == c].sum(axis=0) for c in classes]) + 0.1
    p_w = p_w / p_w.sum(axis=1, keepdims=True)
    p_c = 0.8 * (y[:, None] == classes) + 0.2 / 4
    for _ in range(3):
        joint = p_c[:, :, None] * p_w[None]  # document, class, word
        share = X[:, None, :] * joint / joint.sum(axis=1, keepdims=True)
        p_w = share.sum(axis=0) + 0.1
        p_w = p_w / p_w.sum(axis=1, keepdims=True)
        p_c = share.sum(axis=2) / share.sum(axis=(1, 2))[:, None]
    np.testing.assert_allclose(model.p_w_given_class_, p_w)
    new = np.random.default_rng(1).poisson(0.8, (6, 12))
    found = np.full((6, 4), 0.25)
    for _ in range(5):
        joint = found[:, :, None] * p_w[None]
        share = new[:, None, :] * joint / joint.sum(axis=1, keepdims=True)
        found = share.sum(axis=2) / share.sum(axis=(1, 2))[:, None]
    np.testing.assert_allclose(model.predict_proba(new), found)


def test_plsa_trains_by_exact_em_but_for_its_smoothing(documents):
    model = lw.PLSAClassifier(alpha=1e-9, steps=20).fit(*documents)
    assert (np.diff(model.bounds_) >= -1e-6).all()
    assert model.bounds_[-1] > model.bounds_[0]
    sharp = lw.PLSAClassifier(variant="cem", steps=3).fit(*documents)
    np.testing.assert_allclose(sharp.p_w_given_class_.sum(axis=1), 1)


def test_a_document_of_two_classes_shows_both():
    corpus = make_corpus(TREE, 400, 200, 60, concentration=5, random_state=0)
    both = corpus.X[corpus.y == TREE.index("a/1")][:1] + corpus.X[corpus.y == TREE.index("b/2")][:1]
    for model in (lw.PLC(TREE), lw.PLSAClassifier(TREE)):
        model.fit(corpus.X, corpus.labels)
        proba = dict(zip(model.classes_, model.predict_proba(both)[0]))
        assert 0.25 < proba["a/1"] < 0.75
        assert 0.25 < proba["b/2"] < 0.75


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lw.HPLC(prediction="vote"), r"prediction='vote': expected \"em\" or \"direct\"\."),
        (lw.PLC(fold_steps=0), r"fold_steps=0: expected an integer of at least 1\."),
        (lw.PLSAClassifier(trust=0), r"trust=0: expected a number above 0, and at most 1\."),
        (
            lw.PLSAClassifier(alpha="auto"),
            r"alpha='auto': expected a number above 0, or \"heldout\"",
        ),
        (lw.PLSAClassifier(steps=-1), r"steps=-1: expected an integer of at least 0\."),
        (lw.PLSAClassifier(beta=0), r"beta=0: expected a number above 0"),
    ],
    ids=repr,
)
def test_parameters_are_checked(model, message, documents):
    with pytest.raises(ValueError, match=message):
        model.fit(*documents)


def test_plsa_without_a_label():
    with pytest.raises(ValueError, match=r"No document has a label, and there is no taxonomy"):
        lw.PLSAClassifier().fit([[1, 0]], [None])
    for kind in (lw.PLSAClassifier, lw.PLC, lw.NaiveBayes, lw.HierarchicalMixture):
        with pytest.raises(ValueError, match=r"No document has a label, so there is nothing to l"):
            kind(TREE).fit([[1, 0]], [None])


def test_only_direct_prediction_has_a_likelihood_ratio(documents):
    X, y = documents
    assert not hasattr(lw.PLC(), "likelihood_ratio")
    model = lw.HPLC(TREE, prediction="direct").fit(X, y)
    assert model.likelihood_ratio(X).shape == (40, 7)
