"""What TaxonomyClassifier answers: several nodes, sure or not at all, in frames, with levels."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import leafwise as lw
from leafwise.models import _belief, _stages
from leafwise.models._base import descend
from leafwise.models._thresholds import best_threshold


@pytest.fixture(scope="module")
def model(many):
    tree, texts, _, few = many
    return lw.TaxonomyClassifier(tree).fit(texts, few)


# ---- sure, or not at all ------------------------------------------------------------------------


def test_min_confidence_abstains(model, many):
    _, texts, _, _ = many
    best = model.predict_proba(texts).max(axis=1)
    least = float(np.median(best))
    picky = clone(model).set_params(min_confidence=least)
    picky.__dict__.update({k: v for k, v in vars(model).items() if k.endswith("_") or k[0] == "_"})
    found = picky.predict(texts)
    assert [one is None for one in found] == (best < least).tolist()
    sure = best >= least
    assert found[sure].tolist() == model.predict(texts)[sure].tolist()
    assert picky.score(texts, model.transduction_) == model.score(texts, model.transduction_)


def slow_descent(tree, own, branch, least):
    """One document, by the definition."""
    node = 0
    while len(children := tree.children(node)):
        best = max(children, key=lambda c: (branch[c], -c))
        if branch[best] < least or branch[best] < own[node] or branch[best] == 0:
            break
        node = best
    return node


@pytest.mark.parametrize("least", [0.0, 0.2, 0.5, 0.9, 1.0])
def test_descending_is_greedy_and_stops_where_it_is_not_sure(pets, least):
    rng = np.random.default_rng(0)
    own = rng.dirichlet(np.full(len(pets), 0.2), 50)
    branch = np.minimum(pets.subtree_sum(own), 1)
    found = descend(pets, own, branch, least)
    assert found.tolist() == [slow_descent(pets, a, b, least) for a, b in zip(own, branch)]
    if least >= 0.5:  # then at most one branch of a level can be sure: the deepest such is meant
        for i, node in enumerate(found):
            assert node == 0 or branch[i, node] >= least


def test_stop_confident_gives_inner_nodes(many):
    tree, texts, _, few = many
    model = lw.TaxonomyClassifier(tree, stop="confident", min_confidence=0.75).fit(texts, few)
    found, branch = model.predict(texts), model.predict_branch_proba(texts)
    kinds = {None if one is None else tree.depth[tree.index(one)] for one in found}
    assert {1, 2} <= kinds
    for one, row in zip(found, branch):
        if one is not None:
            node = tree.index(one)
            assert row[node] >= 0.75
            assert (row[tree.children(node)] < 0.75).all()
    usual = model.set_params(min_confidence=None).predict(texts)
    assert sum(one is None for one in usual) < sum(one is None for one in found)


def test_a_parent_is_the_sum_over_its_branch(model, many):
    tree, texts, _, _ = many
    branch, proba = model.predict_branch_proba(texts), model.predict_proba(texts)
    assert branch[:, 0] == pytest.approx(np.ones(len(texts)))
    for path in ("a", "b"):
        below = [name.startswith(path + "/") for name in model.classes_]
        assert branch[:, tree.index(path)] == pytest.approx(proba[:, below].sum(axis=1))


# ---- several nodes ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd(many):
    """Documents of which a third is a document of one leaf and one of another, put together."""
    tree, texts, y, _ = many
    pairs = [(i, (i * 7 + 3) % 240) for i in range(0, 240, 2)]
    joined = [f"{texts[i]} {texts[j]}" for i, j in pairs]
    labels = [sorted({y[i], y[j]}) for i, j in pairs]
    return tree, texts + joined, [[one] for one in y] + labels


def test_several_nodes_are_found(crowd):
    tree, texts, labels = crowd
    some, rest = texts[::2] + texts[241::4], texts[1:240:2]
    given = labels[::2] + labels[241::4]
    model = lw.TaxonomyClassifier(tree).fit(some, given)
    assert model.several_
    found = model.predict(rest + texts[243::4])
    truth = labels[1:240:2] + labels[243::4]
    right = sum(len({*a} & {*b}) for a, b in zip(found, truth))
    f1 = 2 * right / (sum(map(len, found)) + sum(map(len, truth)))
    assert f1 == pytest.approx(model.score(rest + texts[243::4], truth))
    assert f1 > 0.85
    assert {len(one) for one in found} >= {1, 2}
    assert all(found)  # at least one
    assert any("Thresholds and probabilities" in line for line in model.report_)


def test_each_of_several_nodes_has_its_own_odds(crowd):
    tree, texts, labels = crowd
    model = lw.TaxonomyClassifier(tree).fit(texts, labels)
    scores = model._scores(model.counter_.transform(texts))
    odds = (scores - model.thresholds_) / model.temperature_ + model.offset_
    proba = model.predict_proba(texts)
    assert proba == pytest.approx(expit(odds))
    branch = model.predict_branch_proba(texts)
    below = [name.startswith("a/") for name in model.classes_]
    assert branch[:, tree.index("a")] == pytest.approx(1 - (1 - proba[:, below]).prod(axis=1))
    above = scores > model.thresholds_
    found = model.predict(texts)
    for row, names in zip(above, found):
        if row.any():
            assert list(names) == model.classes_[row].tolist()
    picky = model.set_params(min_confidence=0.99).predict(texts)
    assert sum(map(len, picky)) < sum(map(len, found))
    for row, names in zip(proba, picky):
        assert all(row[model.classes_.tolist().index(name)] >= 0.99 for name in names)


def test_thresholds_and_odds_of_scores_held_out():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4000, 3)) * 2
    truth = rng.random(scores.shape) < expit(1.5 * (scores - [0.5, -0.5, 1.0]))
    belief = _belief.believe_several(truth.astype(float), scores)
    expected = [best_threshold(scores[:, c], truth[:, c]) for c in range(3)]
    assert belief.thresholds.tolist() == expected
    found = belief.log_proba(scores, np.zeros(len(scores), bool))
    error = np.exp(found) - expit(1.5 * (scores - [0.5, -0.5, 1.0]))
    assert np.abs(error).mean() < 0.05
    wrong = _belief.errors(truth.astype(float), scores, belief)
    assert 0 < wrong.mean() < 0.7


def test_one_label_each_where_several_is_off(crowd):
    tree, texts, labels = crowd
    model = lw.TaxonomyClassifier(tree, several=False).fit(texts, labels)
    assert model.predict(texts).shape == (len(texts),)
    assert model.thresholds_ is None
    asked = lw.TaxonomyClassifier(tree, several=True).fit(texts[:240], [x[0] for x in labels[:240]])
    assert asked.several_
    with pytest.raises(ValueError, match="several=True: expected some labels"):
        lw.TaxonomyClassifier(tree, several=True).fit(texts)


def test_few_labels_of_several_nodes(crowd):
    tree, texts, labels = crowd
    few = [one if i % 12 == 0 else None for i, one in enumerate(labels)]
    model = lw.TaxonomyClassifier(tree).fit(texts, few)
    assert any("the scores alone" in line for line in model.report_)
    right = np.mean([bool({*a} & {*b}) for a, b in zip(model.predict(texts), labels)])
    assert right > 0.85
    assert [model.transduction_[i] for i in (0, 240)] == [tuple(labels[0]), tuple(labels[240])]


def test_other_documents_get_several_nodes_too(crowd, tmp_path):
    tree, texts, labels = crowd
    given = [one if i % 3 == 0 else None for i, one in enumerate(labels)]
    model = lw.TaxonomyClassifier(tree, keywords=False).fit(texts, given)
    assert any("say which nodes other documents have" in line for line in model.report_)
    told = any("gets no node" in line for line in model.report_)
    assert told is not model.at_least_one_
    assert model.score(texts, labels) > 0.85
    # Linear scores alone have the say, and words explain all of it.
    X = model.counter_.transform(texts)
    linear = model._linear.scores(X)
    assert model._scores(X) == pytest.approx(linear)
    rest = np.delete(linear[-1], 2).mean() - np.delete(model.intercept_, 2).mean()
    said = model.explain(texts[-1], model.classes_[2])
    total = sum(weight for _, weight in said.words) * model.temperature_
    assert total == pytest.approx(linear[-1, 2] - model.intercept_[2] - rest, abs=1e-6)
    # A file keeps whether texts have at least one node, and corrections are learned.
    asked = [*texts[:9], "zzz"]
    for at_least_one in (True, False):
        model.at_least_one_ = at_least_one
        model.save(tmp_path / "m")
        assert lw.load(tmp_path / "m").predict(asked) == model.predict(asked)
        assert bool(model.predict(["zzz"])[0]) is at_least_one
    wrong = next(i for i, one in enumerate(model.predict(texts)) if {*one} != {*labels[i]})
    model.partial_fit([texts[wrong]] * 3, [labels[wrong]] * 3)
    assert {*labels[wrong]} <= {*model.predict([texts[wrong]])[0]}


def test_several_nodes_are_kept_in_a_file(crowd, tmp_path):
    tree, texts, labels = crowd
    model = lw.TaxonomyClassifier(tree).fit(texts, labels)
    model.save(tmp_path / "m")
    loaded = lw.load(tmp_path / "m")
    assert loaded.predict(texts[-9:]) == model.predict(texts[-9:])
    model.thresholds_ = model.thresholds_[:2]
    model.save(tmp_path / "m")
    with pytest.raises(lw.exceptions.ModelFileError, match="thresholds do not fit"):
        lw.load(tmp_path / "m")


def test_several_labels_in_columns(crowd):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    tree, texts, labels = crowd
    given = [*labels[:-1], None]
    expected = lw.TaxonomyClassifier(tree).fit(texts, given).coef_
    array = np.empty(len(given), object)
    array[:] = given
    for column in (pd.Series(given), pl.Series(given), array):
        model = lw.TaxonomyClassifier(tree).fit(texts, column)
        np.testing.assert_array_equal(model.coef_, expected)
        assert model.score(texts, column) == model.score(texts, given)


def test_settings_of_answers_are_checked_when_asked(model, many):
    wrong = clone(model).fit(many[1], many[3])
    for settings in ({"stop": "sure"}, {"stop": True}, {"min_confidence": float("nan")}):
        with pytest.raises(ValueError, match="expected"):
            wrong.set_params(**{"stop": None, "min_confidence": None, **settings}).predict(["a"])


def test_no_texts(model, many):
    assert model.predict([]).shape == (0,)
    assert model.predict_proba([]).shape == (0, 4)
    assert len(model.query(3, texts=[])) == 0
    with pytest.raises(ValueError, match="There are no texts"):
        lw.TaxonomyClassifier(many[0]).fit([])


# ---- frames and notebooks -----------------------------------------------------------------------


def test_results_as_frames_of_pandas(model, many):
    pd = pytest.importorskip("pandas")
    _, texts, _, few = many
    series = pd.Series(texts, index=[f"d{i}" for i in range(240)])
    framed = clone(model).set_output(transform="pandas").fit(series, pd.Series(few))
    found = framed.predict(series)
    assert isinstance(found, pd.Series)
    assert found.index.tolist() == series.index.tolist()
    assert found.tolist() == model.predict(texts).tolist()
    for name in ("predict_proba", "predict_log_proba"):
        table = getattr(framed, name)(series)
        assert table.columns.tolist() == framed.classes_.tolist()
        assert table.index.tolist() == series.index.tolist()
        np.testing.assert_array_equal(table.to_numpy(), getattr(model, name)(texts))
    branch = framed.predict_branch_proba(series)
    assert branch.columns.tolist() == list(framed.taxonomy_.paths)
    assert clone(framed)._sklearn_output_config == {"transform": "pandas"}
    assert isinstance(framed.set_output(transform="default").predict(series), np.ndarray)


def test_results_as_frames_of_polars(model, many):
    pl = pytest.importorskip("polars")
    _, texts, _, few = many
    framed = clone(model).set_output(transform="polars").fit(pl.Series(texts), pl.Series(few))
    found = framed.predict(pl.Series(texts))
    assert isinstance(found, pl.Series)
    assert found.to_list() == model.predict(texts).tolist()
    table = framed.predict_proba(pl.Series(texts))
    assert table.columns == framed.classes_.tolist()
    np.testing.assert_array_equal(table.to_numpy(), model.predict_proba(texts))


def test_several_nodes_and_none_as_frames(crowd):
    pd = pytest.importorskip("pandas")
    tree, texts, labels = crowd
    model = lw.TaxonomyClassifier(tree).set_output(transform="pandas").fit(texts, labels)
    assert model.predict(texts[-2:]).tolist() == [list(row) for row in model.transduction_[-2:]]
    sure = lw.TaxonomyClassifier(tree, min_confidence=1.0).fit(
        texts[:240], [x[0] for x in labels[:240]]
    )
    found = sure.set_output(transform="pandas").predict(pd.Series(texts[:3]))
    assert found.isna().all()


def test_wrong_output(model):
    with pytest.raises(ValueError, match="transform='numpy': expected one of"):
        model.set_output(transform="numpy")
    assert model.set_output() is model


def test_a_notebook_shows_what_was_done(many):
    tree, texts, _, few = many
    model = lw.TaxonomyClassifier(tree)
    assert "What fit did" not in model._repr_html_()
    model.fit(texts, few)
    model.report_.append("<script>alert(1)</script>")
    for html in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "What fit did" in html
        assert "With a label: 24." in html
        assert "<script>alert" not in html
        assert "TaxonomyClassifier" in html


# ---- parts that can be replaced -----------------------------------------------------------------


def hashed(texts):
    """Vectors of some kind: words and their neighbours, in few dimensions."""
    X = lw.WordCounter().fit_transform(texts)
    return TruncatedSVD(10, random_state=0).fit_transform(X.astype(float))


class Encoder:
    def encode(self, texts):
        return hashed(texts)


def test_an_encoder_changes_the_graph(many):
    tree, texts, y, few = many
    seen = []

    def encoder(some):
        seen.append(list(some))
        return hashed(some)

    alone = lw.TaxonomyClassifier(tree).fit(texts, few)
    model = lw.TaxonomyClassifier(tree, encoder=encoder).fit(iter(texts), few)
    assert seen == [texts]
    assert not np.array_equal(model.coef_, alone.coef_)
    assert np.mean(model.transduction_ == y) > 0.9
    assert ["the encoder" in " ".join(one.report_) for one in (model, alone)] == [True, False]
    same = lw.TaxonomyClassifier(tree, encoder=Encoder()).fit(texts, few)
    np.testing.assert_array_equal(same.coef_, model.coef_)


def test_a_classifier_that_is_not_linear_is_refused(many):
    tree, texts, _, few = many
    with pytest.raises(ValueError, match="expected a classifier with coef_ and intercept_"):
        lw.TaxonomyClassifier(tree, linear=DecisionTreeClassifier(max_depth=1)).fit(texts, few)
    with pytest.raises(ValueError, match="a classifier whose fit takes sample_weight"):
        lw.TaxonomyClassifier(tree, linear=KNeighborsClassifier(1)).fit(texts, few)


def test_an_encoder_is_not_saved(many, tmp_path):
    tree, texts, _, few = many
    model = lw.TaxonomyClassifier(tree, encoder=hashed, linear=LogisticRegression())
    model.fit(texts, few).save(tmp_path / "m")
    loaded = lw.load(tmp_path / "m")
    assert loaded.encoder is None
    assert loaded.linear is True
    assert loaded.predict(texts).tolist() == model.predict(texts).tolist()


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (lambda texts: np.zeros(len(texts)), r"shape \(240,\) for 240 texts"),
        (lambda texts: np.zeros((3, 2)), r"shape \(3, 2\) for 240 texts"),
        (lambda texts: np.full((len(texts), 2), np.nan), "expected a row of finite numbers"),
        ("minilm", "encoder='minilm': expected a function"),
    ],
)
def test_wrong_encoders(many, vectors, message):
    tree, texts, _, few = many
    with pytest.raises(ValueError, match=message):
        lw.TaxonomyClassifier(tree, encoder=vectors).fit(texts, few)


@pytest.mark.parametrize("linear", [False, LogisticRegression(C=10), RidgeClassifier()])
def test_linear_scores_replaced_or_switched_off(many, linear):
    tree, texts, y, few = many
    model = lw.TaxonomyClassifier(tree, linear=linear).fit(texts, few)
    assert (model.coef_ is None) == (linear is False)
    assert np.mean(model.transduction_ == y) > 0.85
    assert model.predict_proba(texts).sum(axis=1) == pytest.approx(np.ones(240))


def test_two_classes_by_another_linear_classifier(many):
    _, texts, y, _ = many
    two = np.array([label[0] for label in y])
    model = lw.TaxonomyClassifier(linear=LogisticRegression()).fit(texts, two)
    assert np.mean(model.predict(texts) == two) > 0.95


def test_spreading_replaced(many):
    tree, texts, y, few = many
    model = lw.TaxonomyClassifier(tree, spread=lw.HarmonicClassifier(k=5, similarity="kl"))
    assert np.mean(model.fit(texts, few).transduction_ == y) > 0.85
    usual = lw.TaxonomyClassifier(tree).fit(texts, few)
    assert not np.array_equal(model.coef_, usual.coef_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"linear": "svm"}, "linear='svm': expected True, False or a classifier"),
        ({"several": 2}, "several=2: expected one of"),
        ({"stop": "leaf"}, "stop='leaf': expected one of"),
        ({"min_confidence": 1.5}, "min_confidence=1.5: expected a number from 0 to 1"),
        ({"min_confidence": "high"}, "min_confidence='high': expected a number"),
    ],
)
def test_wrong_settings(settings, message, many):
    tree, texts, _, few = many
    with pytest.raises(ValueError, match=message):
        lw.TaxonomyClassifier(tree, **settings).fit(texts, few)


# ---- which words are counted --------------------------------------------------------------------


def questions(n=200):
    """Questions whose class is in their stop words alone."""
    rng = np.random.default_rng(0)
    names = [f"zorg{i}" for i in range(40)]
    kinds = {"person": "who was", "place": "where is", "time": "when did", "reason": "why does"}
    y = rng.choice(list(kinds), n)
    texts = [f"{kinds[k]} {rng.choice(names)} and {rng.choice(names)}" for k in y]
    return texts, y


def test_stop_words_are_counted_where_they_matter(many):
    texts, y = questions()
    model = lw.TaxonomyClassifier().fit(texts[:100], y[:100])
    assert model.counter_.stop_words is None
    assert "Stop words help: so say labels held out. They are counted." in model.report_
    assert np.mean(model.predict(texts[100:]) == y[100:]) > 0.95
    tree, others, labels, _ = many
    usual = lw.TaxonomyClassifier(tree).fit(others, labels)
    assert usual.counter_.stop_words is not None
    given = lw.TaxonomyClassifier(counter=lw.WordCounter(stop_words="english"))
    assert given.fit(texts, y).counter_.stop_words == "english"  # as asked


def test_which_counts_are_clearly_better(many, monkeypatch):
    _, texts, y, _ = many
    X = lw.WordCounter().fit_transform(texts)
    own = lw.labels.Classes.of_labels(lw.labels.read_labels(y))
    membership = own.membership(lw.labels.read_labels(y))
    shuffled = X[np.random.default_rng(0).permutation(240)]
    assert _stages.clearly_better(shuffled, X, membership)
    assert not _stages.clearly_better(X, shuffled, membership)
    assert not _stages.clearly_better(X, X, membership)
    # There is no table of words that no document has, nor one that is too large.
    wide = sparse.hstack([sparse.csr_matrix((240, 9)), X], format="csr")
    monkeypatch.setattr(_stages, "MOST", X.shape[1] * membership.shape[1])
    assert _stages.clearly_better(shuffled, wide, membership)
    monkeypatch.setattr(_stages, "MOST", X.shape[1] * membership.shape[1] - 1)
    assert not _stages.clearly_better(shuffled, wide, membership)


# ---- why ----------------------------------------------------------------------------------------


def test_words_speak_for_a_level(pets, pet_texts):
    model = lw.TaxonomyClassifier(pets).fit(pet_texts)
    why = model.explain("the cat purred with whiskers")
    assert why.levels == ("animals/cats", "animals", "")
    assert np.sum(why.word_levels, axis=1) == pytest.approx(np.ones(len(why.words)))
    assert "from animals/cats" in str(why)


def test_levels_are_where_a_word_is_likelier_than_above(pets, pet_texts):
    model = lw.TaxonomyClassifier(pets).fit(pet_texts).model_
    words = np.arange(model.n_features_in_)
    names, share = model.said_at_levels(0, words)
    path = [pets.index("animals/cats"), pets.index("animals"), 0]
    log_p = np.log([model._p_w_given_node(i) for i in path])
    gain = np.maximum(log_p[:2] - log_p[1:], 0)
    assert names == ["animals/cats", "animals", ""]
    for w in words[gain.sum(axis=0) > 0]:
        assert share[w] == pytest.approx([*(gain[:, w] / gain[:, w].sum()), 0])
    assert (share[gain.sum(axis=0) == 0] == [0, 0, 1]).all()


# ---- what to label next -------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["mix", "uncertainty", "diversity", "coverage", "random"])
def test_documents_to_label_next(model, many, strategy):
    _, texts, _, few = many
    asked = model.query(20, strategy)
    assert len(set(asked.tolist())) == 20
    assert all(few[i] is None for i in asked)
    among = model.query(5, strategy, texts=texts[:30])
    assert len(among) == 5
    assert among.max() < 30


def test_a_node_of_which_nothing_is_known_comes_first(many):
    tree, texts, y, _ = many
    labels = [one if one != "b/z" and i % 8 == 0 else None for i, one in enumerate(y)]
    model = lw.TaxonomyClassifier(tree, keywords=False).fit(texts, labels)
    assert model.label_counts_.tolist()[-1] == 0
    asked = model.query(1, "coverage")[0]
    proba = model.predict_proba(texts)[:, -1]
    rest = [i for i in range(240) if labels[i] is None]
    assert proba[asked] == pytest.approx(proba[rest].max())


def test_no_more_than_there_are(model, many):
    few = many[3]
    assert len(model.query(1000)) == few.count(None)


def test_wrong_queries(model, many, tmp_path):
    with pytest.raises(ValueError, match="n=0: expected a number of documents"):
        model.query(0)
    with pytest.raises(ValueError, match="strategy='best': expected one of"):
        model.query(5, "best")
    model.save(tmp_path / "m")
    loaded = lw.load(tmp_path / "m")
    with pytest.raises(ValueError, match="comes from a file, which keeps no documents"):
        loaded.query(5)
    assert len(loaded.query(5, texts=many[1])) == 5
