"""Learning on after fit: more labels, and trees that change."""

from copy import copy

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import leafwise as lw
from leafwise import taxonomy_changes as changes
from leafwise.exceptions import LabelError, TaxonomyError
from leafwise.models import _stages as stages


@pytest.fixture
def model(many):
    tree, texts, _, few = many
    return lw.TaxonomyClassifier(tree).fit(texts, few)


# ---- linear scores ------------------------------------------------------------------------------


def scores(n_words=30, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    coef = rng.normal(size=(n_words, n_classes)) / 5
    return stages.LinearScores(coef, np.full(n_classes, -0.5), np.ones(n_words))


def test_one_more_document_is_one_more_coordinate_of_the_dual():
    """The step is the least of ½ |w - w0|² + ξ², for each class: found here by a fine grid."""
    linear = scores()
    X = sparse.csr_matrix(np.random.default_rng(1).integers(0, 3, (1, 30)))
    x, before = linear.weigh(X).toarray()[0], linear.coef.copy()
    linear.learn(X, sparse.csr_matrix([[0, 1.0, 0]]))
    share = np.linspace(0, 4, 40_001)
    for c, y in enumerate((-1, 1, -1)):
        score = x @ before[:, c] + linear.intercept[c]
        slack = np.maximum(0, 1 - y * (score + y * share * (x @ x)))
        best = share[np.argmin(share**2 * (x @ x) / 2 + slack**2)]
        assert linear.coef[:, c] - before[:, c] == pytest.approx(best * y * x, abs=1e-3)


def test_words_of_all_documents_stay_as_they_are():
    """The step is as long as that of all words, along weights as they are without `least`."""
    idf = 1 + np.arange(30) / 10  # all documents have the first
    linear = scores()._replace(idf=idf, least=1.0)
    X = sparse.csr_matrix(np.random.default_rng(1).integers(0, 3, (1, 30)) + 1)
    x, before = linear.weigh(X).toarray()[0], linear.coef.copy()
    linear.learn(X, sparse.csr_matrix([[0, 1.0, 0]]))
    assert (linear.coef[0] == before[0]).all()
    every = scores()._replace(idf=idf)
    every.learn(X, sparse.csr_matrix([[0, 1.0, 0]]))
    change, of_all = linear.coef - before, every.coef - before
    np.testing.assert_allclose(x @ change, x @ of_all)
    alone = linear.weigh(X).toarray()[0] * ((idf - 1) / idf) ** 2
    np.testing.assert_allclose(change / change[-1], np.outer(alone / alone[-1], np.ones(3)))


def test_a_document_of_words_that_all_have_changes_nothing():
    linear = scores()._replace(idf=np.ones(30), least=1.0)
    before = linear.coef.copy()
    X = sparse.csr_matrix(np.ones((1, 30)))
    for soft in (0.5, 0.0):
        linear.learn(X, sparse.csr_matrix([[0, 1.0, 0]]), soft=soft)
        np.testing.assert_array_equal(linear.coef, before)


def test_what_is_right_by_far_is_left_alone():
    linear = stages.LinearScores(np.array([[3.0, -3.0], [-3.0, 3.0]]), np.zeros(2), np.ones(2))
    before = linear.coef.copy()
    linear.learn(sparse.csr_matrix([[1, 0]]), sparse.csr_matrix([[1.0, 0]]))
    np.testing.assert_array_equal(linear.coef, before)


def test_classes_that_become_one():
    linear = scores(n_classes=4)
    gathered = linear.gather(np.array([1, 0, 1, -1]), 3)
    np.testing.assert_array_equal(gathered.coef[:, 0], linear.coef[:, 1])
    np.testing.assert_allclose(gathered.coef[:, 1], linear.coef[:, 0] + linear.coef[:, 2])
    # A document of the first: 1 and -1 become 1. Of neither: -1 and -1 stay -1.
    assert gathered.intercept.tolist() == [-0.5, -0.5 - 0.5 + 1, stages._MARGIN]
    assert not gathered.coef[:, 2].any()


# ---- partial_fit --------------------------------------------------------------------------------


def test_a_corrected_label_is_learned_at_once(model, many):
    _, texts, y, few = many
    wrong = [i for i in range(240) if model.transduction_[i] != y[i] and few[i] is None]
    right = np.mean(model.predict(texts) == y)
    assert wrong
    model.partial_fit([texts[i] for i in wrong], y[wrong])
    assert np.mean(model.predict([texts[i] for i in wrong]) == y[wrong]) > 0.9
    assert np.mean(model.predict(texts) == y) > right
    assert (model.transduction_[wrong] == y[wrong]).all()
    assert model.label_counts_.sum() == 24 + len(wrong)
    assert not np.isin(wrong, model.query(300)).any()


def test_a_label_that_is_corrected_counts_in_its_new_place_alone(model, many):
    _, texts, _, few = many
    counts = dict(zip(model.classes_.tolist(), model.label_counts_.tolist()))
    known = next(i for i in range(240) if few[i] is not None)
    new = next(i for i in range(240) if few[i] is None)
    other = next(name for name in counts if name != few[known])
    model.partial_fit([texts[known], texts[new]], [other, other])
    after = dict(zip(model.classes_.tolist(), model.label_counts_.tolist()))
    assert after == counts | {few[known]: counts[few[known]] - 1, other: counts[other] + 2}
    model.partial_fit([texts[known]], [few[known]])
    model.partial_fit([texts[known]], [few[known]])  # again, and nothing changes
    after = dict(zip(model.classes_.tolist(), model.label_counts_.tolist()))
    assert after == counts | {other: counts[other] + 1}


def test_other_documents_stay_where_they_were(model, many):
    _, texts, y, _ = many
    before = model.predict_proba(texts)
    wrong = np.flatnonzero(model.transduction_ != y)[0]
    model.partial_fit([texts[wrong]], [y[wrong]])
    moved = np.abs(model.predict_proba(texts) - before).max(axis=1)
    assert moved.argmax() == wrong
    assert np.median(moved) < 0.05


def test_several_at_once_and_one_by_one_are_nearly_the_same(many):
    tree, texts, y, few = many
    at_once, one_by_one = (lw.TaxonomyClassifier(tree).fit(texts, few) for _ in range(2))
    at_once.partial_fit(texts[:20], y[:20])
    for i in range(20):
        one_by_one.partial_fit(texts[i : i + 1], y[i : i + 1])
    assert np.mean(at_once.predict(texts) == one_by_one.predict(texts)) > 0.97


def test_without_a_fit_it_is_one(many):
    tree, texts, y, _ = many
    model = lw.TaxonomyClassifier(tree).partial_fit(texts, y)
    assert np.mean(model.predict(texts) == y) > 0.95


def test_where_the_model_sorts_alone_its_counts_grow(pets, pet_texts):
    model = lw.TaxonomyClassifier(pets).fit(pet_texts)
    assert model.coef_ is None
    n_documents = model.model_.document_counts_.sum()
    model.partial_fit(["the zeppelin", "a zeppelin"], ["vehicles/boats"] * 2)
    assert model.model_.document_counts_.sum() == n_documents + 2
    model = lw.TaxonomyClassifier(pets).fit([*pet_texts, "zeppelin"])
    model.partial_fit(["zeppelin"] * 3, ["vehicles/boats"] * 3)
    assert model.predict(["zeppelin"]).tolist() == ["vehicles/boats"]


def test_an_inner_node_gets_its_first_label(model, many):
    _, texts, y, _ = many
    assert "a" not in model.classes_
    model.partial_fit(texts[:1], ["a"])
    assert model.classes_.tolist() == ["a", "a/x", "a/y", "b/w", "b/z"]
    assert model.predict(texts[:1]).tolist() == ["a"]
    assert model.transduction_[0] == "a"
    assert np.mean(model.predict(texts) == y) > 0.85
    assert model.predict_proba(texts).sum(axis=1) == pytest.approx(np.ones(240))


def test_a_new_label_where_there_is_no_tree(many):
    _, texts, y, _ = many
    model = lw.TaxonomyClassifier().fit(texts, y)
    model.partial_fit(texts[:1], ["something else"])
    assert "something else" in model.classes_
    assert model.predict(texts[:1]).tolist() == ["something else"]


def test_wrong_labels_change_nothing(model, many):
    _, texts, _, _ = many
    before = model.coef_.copy()
    with pytest.raises(LabelError, match='No node is called "c"'):
        model.partial_fit(texts[:2], ["a/x", "c"])
    with pytest.raises(ValueError, match="Got 2 texts and 1 labels"):
        model.partial_fit(texts[:2], ["a/x"])
    np.testing.assert_array_equal(model.coef_, before)
    model.partial_fit(texts[:2], [None, None])
    np.testing.assert_array_equal(model.coef_, before)


def test_a_model_from_a_file_learns_on(model, many, tmp_path):
    _, texts, y, _ = many
    model.save(tmp_path / "m")
    loaded = lw.load(tmp_path / "m")
    for one in (model, loaded):
        one.partial_fit(texts[1:3], y[1:3])
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert loaded.label_counts_.tolist() == model.label_counts_.tolist()


# ---- change_taxonomy ----------------------------------------------------------------------------


def test_renaming_changes_names_and_nothing_else(model, many):
    tree, texts, _, _ = many
    before, guess = model.predict_proba(texts), model.predict(texts)
    report = model.change_taxonomy(changes.rename(tree, "a/x", "zebra"))
    assert any("renamed" in line for line in report)
    assert model.classes_.tolist() == ["a/y", "a/zebra", "b/w", "b/z"]
    assert model.predict(texts).tolist() == [p.replace("a/x", "a/zebra") for p in guess]
    order = [1, 0, 2, 3]
    np.testing.assert_allclose(model.predict_proba(texts), before[:, order], atol=1e-9)
    assert "a/zebra" in model.transduction_
    assert model.taxonomy == model.taxonomy_


def test_moving_keeps_what_was_learned(model, many):
    tree, texts, y, _ = many
    before = np.mean(model.predict(texts) == y)
    report = model.change_taxonomy(changes.move(tree, "a/x", "b"))
    assert any("moved" in line for line in report)
    truth = np.where(y == "a/x", "b/x", y)
    assert np.mean(model.predict(texts) == truth) > before - 0.02


def test_merged_nodes_have_what_both_had(model, many):
    tree, texts, y, _ = many
    before = np.mean(model.predict(texts) == y)
    n_labels = model.label_counts_.sum()
    model.change_taxonomy(changes.merge(tree, ["a/x"], "b/z"))
    truth = np.where(y == "a/x", "b/z", y)
    assert "a/x" not in model.classes_
    assert np.mean(model.predict(texts) == truth) > before - 0.02
    assert model.label_counts_.sum() == n_labels
    assert model.model_.word_counts_.shape[0] == len(model.classes_)


def test_removed_nodes_are_gone_and_their_labels_are_counted(model, many):
    tree, texts, y, few = many
    lost = few.count("a/x")
    report = model.change_taxonomy(changes.remove(tree, "a/x"))
    assert f"Lost with nodes that are gone: {lost} labels." in report
    assert "a/x" not in model.classes_
    rest = y != "a/x"
    assert np.mean(model.predict([t for t, kept in zip(texts, rest) if kept]) == y[rest]) > 0.85
    assert model.transduction_[np.flatnonzero(~rest)[0]] is None


def test_an_added_node_is_said_to_know_nothing_and_can_learn(model, many):
    tree, texts, _, _ = many
    report = model.change_taxonomy(changes.add(tree, "b/new"))
    assert any(line == "Nothing is learned yet of 1 node: b/new" for line in report)
    assert "b/new" not in model.predict(texts)
    model.partial_fit(texts[:1], ["b/new"])
    assert model.predict(texts[:1]).tolist() == ["b/new"]


def test_a_tree_from_a_file_and_where_its_nodes_went(model, many):
    _, texts, _, _ = many
    new = lw.Taxonomy.from_paths(["a/x", "a/y", "c/z", "c/w"])
    guess = model.predict(texts)
    model.change_taxonomy(new, moved={"b": "c"})
    assert model.predict(texts).tolist() == [p.replace("b/", "c/") for p in guess]


def test_a_changed_model_is_saved_and_fitted_anew(model, many, tmp_path):
    tree, texts, _, few = many
    change = changes.rename(tree, "a/x", "zebra")
    model.change_taxonomy(change)
    model.save(tmp_path / "m")
    loaded = lw.load(tmp_path / "m")
    assert loaded.predict(texts).tolist() == model.predict(texts).tolist()
    model.fit(texts, change.labels(few))
    assert "a/zebra" in model.classes_


def test_several_labels_follow(many):
    tree, texts, y, _ = many
    labels = [[one] if i % 3 else [one, "b/z"] for i, one in enumerate(y)]
    model = lw.TaxonomyClassifier(tree).fit(texts, labels)
    model.change_taxonomy(changes.merge(tree, ["a/x"], "b/z"))
    assert model.thresholds_.shape == (3,)
    assert not any("a/x" in row for row in model.predict(texts))
    assert all(len(set(row)) == len(row) for row in model.transduction_)


def test_wrong_changes(model, many):
    tree, texts, y, _ = many
    other = lw.Taxonomy.from_paths(["q"])
    with pytest.raises(ValueError, match="begins with another tree"):
        model.change_taxonomy(changes.rename(other, "q", "r"))
    with pytest.raises(ValueError, match="a Change says itself"):
        model.change_taxonomy(changes.rename(tree, "a/x", "r"), moved={})
    with pytest.raises(TaxonomyError, match="new tree"):
        model.change_taxonomy(other, moved={"a": "nowhere"})
    with pytest.raises(ValueError, match="made of the labels"):
        lw.TaxonomyClassifier().fit(texts, y).change_taxonomy(other)
    with pytest.raises(ValueError, match="not fitted"):
        lw.TaxonomyClassifier(tree).change_taxonomy(other)
    assert model.predict(texts).shape == (240,)


def test_two_labels_for_a_model_of_one_are_refused(model, many):
    with pytest.raises(LabelError, match="this model gives one each"):
        model.partial_fit(many[1][:1], [["a/x", "b/z"]])


def test_a_label_is_learned_also_where_the_model_has_the_last_word(model, many):
    """As where nothing was spread: linear scores alone would be right, and the answer wrong."""
    _, texts, _, _ = many
    model.model_share_ = 1.0
    answers = model.predict(texts[:8])
    other = np.array([next(c for c in model.classes_ if c != answer) for answer in answers])
    for text, label in zip(texts[:8], other):
        again = copy(model)
        again.coef_ = model.coef_.copy()
        again.partial_fit([text], [label])
        assert again.predict([text]).tolist() == [label]


def test_a_failed_fit_is_not_gone_on_from(many, tmp_path):
    tree, texts, y, few = many
    model = lw.TaxonomyClassifier(tree).fit(texts, few)

    def interrupt(what, done, total):
        raise KeyboardInterrupt

    model.on_progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        model.fit(texts, few)
    model.on_progress = None
    with pytest.raises(NotFittedError, match="The last fit failed"):
        model.partial_fit(texts[:1], y[:1])
    with pytest.raises(NotFittedError, match="The last fit failed"):
        model.change_taxonomy(tree)
    for one in (model, lw.TaxonomyClassifier(tree)):
        with pytest.raises(lw.exceptions.ModelFileError, match="not fitted"):
            one.save(tmp_path / "m")
    assert not (tmp_path / "m").exists()
    assert model.fit(texts, few).partial_fit(texts[:1], y[:1]).classes_.shape == (4,)


@pytest.mark.parametrize("nodes", ["leaves", "all", "auto"])
def test_an_added_node_is_a_class_at_once(many, nodes):
    tree, texts, _, few = many
    model = lw.TaxonomyClassifier(tree, nodes=nodes).fit(texts, few)
    model.change_taxonomy(changes.add(tree, "b/new"))
    assert "b/new" in model.classes_
    model.partial_fit(texts[:1], ["b/new"])
    assert model.predict(texts[:1]).tolist() == ["b/new"]


def test_listed_nodes_follow_a_change(many):
    tree, texts, _, few = many
    model = lw.TaxonomyClassifier(tree, nodes=["a/x", "a/y", "b/z", "b/w"]).fit(texts, few)
    change = changes.rename(tree, "a/x", "zebra")
    model.change_taxonomy(change)
    assert model.nodes == ["a/y", "a/zebra", "b/w", "b/z"]
    assert "a/zebra" in model.fit(texts, change.labels(few)).classes_


def test_what_is_no_tree_is_refused(model):
    with pytest.raises(TypeError, match="taxonomy is a dict, expected a leafwise"):
        model.change_taxonomy({"a": None})
    with pytest.raises(TypeError, match="taxonomy is a dict, expected a leafwise"):
        lw.TaxonomyClassifier({"a": None}).fit(["a"])
