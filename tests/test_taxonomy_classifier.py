import copy
import pickle

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import leafwise as lw
from leafwise.exceptions import LabelError, ModelFileError
from leafwise.keywords import read_keywords
from leafwise.labels import Classes, read_labels
from leafwise.models import _base, _belief, _choosing, _scored, _staged, taxonomy_classifier
from leafwise.threads import limited


def match(model, texts, known):
    """What the keywords alone say, weighed by the documents that are known."""
    count = model.counter_.transform
    keywords = read_keywords(model.taxonomy_, model.counter_, count(known))
    return keywords.scores(count(texts), model.taxonomy_.parent)[:, model.nodes_]


def test_without_a_label(pets, pet_texts, pet_labels):
    model = lw.TaxonomyClassifier(pets).fit(pet_texts)
    assert np.mean(model.transduction_ == np.array(pet_labels)) >= 14 / 16
    assert model.predict(["the kitten slept on the sofa"]).tolist() == ["animals/cats"]
    assert "With a label: 0." in " ".join(model.report_)


def test_learns_words_that_are_no_keywords(pets, pet_texts):
    model = lw.TaxonomyClassifier(pets).fit(pet_texts)
    assert match(model, ["whiskers"], pet_texts).max() == 0
    assert model.predict(["whiskers"]).tolist() == ["animals/cats"]


def test_labels_overrule_keywords(pets, pet_texts):
    labels = ["vehicles/boats" if "cat" in text else None for text in pet_texts]
    model = lw.TaxonomyClassifier(pets).fit(pet_texts, labels)
    given = np.array([label is not None for label in labels])
    assert (model.transduction_[given] == "vehicles/boats").all()


def test_with_all_labels(pets, pet_texts, pet_labels):
    model = lw.TaxonomyClassifier(pets).fit(pet_texts, pet_labels)
    assert model.score(pet_texts, pet_labels) == 1.0
    assert model.transduction_.tolist() == pet_labels


def test_the_first_label_of_a_node_does_not_drive_documents_away(pets, pet_texts):
    labels = [None] * 16
    labels[0] = "animals/cats"
    before = lw.TaxonomyClassifier(pets).fit(pet_texts).predict_proba([pet_texts[1]])
    model = lw.TaxonomyClassifier(pets).fit(pet_texts, labels)
    assert model.predict([pet_texts[1]]).tolist() == ["animals/cats"]
    assert model.predict_proba([pet_texts[1]])[0, 0] > 0.8 * before[0, 0]


def test_inner_nodes_are_predicted_where_they_have_labels(pets, pet_texts, pet_labels):
    leaves = lw.TaxonomyClassifier(pets).fit(pet_texts)
    assert leaves.classes_.tolist() == [pets.paths[i] for i in pets.leaves]
    labels = ["animals" if "animals" in label else label for label in pet_labels]
    inner = lw.TaxonomyClassifier(pets).fit(pet_texts, labels)
    assert "animals" in inner.classes_
    assert inner.predict(["whiskers and a puppy"]).tolist() == ["animals"]
    every = lw.TaxonomyClassifier(pets, nodes="all").fit(pet_texts)
    assert every.classes_.tolist() == list(pets.paths)


def test_several_labels_per_document(pets, pet_texts, pet_labels):
    labels = [[label] for label in pet_labels]
    labels[0] = ["animals/cats", "animals/dogs"]
    labels[1] = []
    model = lw.TaxonomyClassifier(pets).fit(pet_texts, labels)
    assert model.transduction_[:2] == [("animals/cats", "animals/dogs"), ("animals/cats",)]


def test_without_a_tree(pet_texts, pet_labels):
    names = ["pet" if label.startswith("animals") else "thing" for label in pet_labels]
    names[3] = names[12] = None
    model = lw.TaxonomyClassifier().fit(pet_texts, names)
    assert model.classes_.tolist() == ["pet", "thing"]
    assert model.transduction_[[3, 12]].tolist() == ["pet", "thing"]


def test_probabilities(pets, pet_texts):
    model = lw.TaxonomyClassifier(pets).fit(pet_texts)
    proba = model.predict_proba([*pet_texts, "", "words nobody knows"])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    shares = (model.model_.document_counts_ + 1) / (len(pet_texts) + 4)  # nothing else to go by
    np.testing.assert_allclose(proba[-2], shares ** (1 / model.temperature_), atol=1e-4)
    np.testing.assert_allclose(proba[-1], proba[-2])
    branch = model.predict_branch_proba(pet_texts)
    np.testing.assert_allclose(branch[:, 0], 1)
    assert branch[0, pets.index("animals")] > 0.5


def test_temperature_makes_it_as_sure_as_the_keywords_agree(pets, pet_texts):
    model = lw.TaxonomyClassifier(pets).fit(pet_texts)
    scores = match(model, pet_texts, pet_texts)
    has = scores.any(axis=1)
    agreed = (model.classes_[scores.argmax(axis=1)] == model.predict(pet_texts))[has].mean()
    sure = model.predict_proba(pet_texts).max(axis=1).mean()
    assert sure == pytest.approx(agreed, abs=0.02) or model.temperature_ == pytest.approx(
        1.0, rel=0.01
    )


def test_held_out_labels_decide_about_the_pool(pets, monkeypatch):
    """Unlabelled documents full of misleading keywords: with enough labels they are left out."""
    monkeypatch.setattr(_choosing, "ENOUGH_LABELS", 20)
    rng = np.random.default_rng(0)
    words = {
        path: [f"{path[-3:]}{i}" for i in range(20)] for path in ("animals/cats", "animals/dogs")
    }
    labelled = [(path, " ".join(rng.choice(words[path], 8))) for path in words for _ in range(40)]
    wrong = {"animals/cats": "dog bark", "animals/dogs": "cat purr"}
    misleading = [wrong[path] + " " + text for path, text in labelled for _ in range(60)]
    texts = [text for _, text in labelled] + misleading
    labels = [path for path, _ in labelled] + [None] * len(misleading)
    model = lw.TaxonomyClassifier(pets, spread=False).fit(texts, labels)
    assert "did not help" in " ".join(model.report_)
    for one in (model, lw.TaxonomyClassifier(pets).fit(texts, labels)):  # neighbours know better
        assert one.score([text for _, text in labelled], [path for path, _ in labelled]) > 0.9


def test_held_out_labels_decide_about_neighbours():
    """Neighbours tell the same story and are of any class; the larger class has as many labels."""
    rng = np.random.default_rng(0)
    own = {c: [f"{c}{i}" for i in range(8)] for c in ("ham", "eggs")}
    stories = [[f"story{k}of{i}" for i in range(12)] for k in range(30)]
    truth = np.where(rng.random(600) < 0.85, "ham", "eggs")
    texts = [
        " ".join([*rng.choice(own[c], 2), *rng.choice(stories[rng.integers(30)], 12)])
        for c in truth
    ]
    known = np.concatenate([np.flatnonzero(truth == c)[:40] for c in own])
    labels = np.full(len(truth), None, dtype=object)
    labels[known] = truth[known]
    rest = np.setdiff1d(np.arange(len(truth)), known)
    right = {}
    for spread in ("auto", True):
        model = lw.TaxonomyClassifier(spread=spread).fit(texts, labels)
        right[spread] = np.mean(model.transduction_[rest] == truth[rest])
        said = "Neighbours did not help, and are left out" in " ".join(model.report_)
        assert said == (spread == "auto")
    assert right["auto"] > 0.9 > right[True]


@pytest.mark.parametrize("enough", [True, False])
def test_fit_says_how_far_it_is(many, enough):
    """A graph, four ways on each of four parts held out, and the fit; or a graph and the fit."""
    tree, texts, truth, few = many
    more = [label if i % 4 == 0 else None for i, label in enumerate(truth)]
    model = lw.TaxonomyClassifier(tree, keywords=False)
    told = []
    model.on_progress = lambda *what: told.append(what)
    model.fit(texts, more if enough else few)
    n_steps = 1 + 4 * 4 + 1 if enough else 2
    assert told == [("Learning", done, n_steps) for done in range(n_steps + 1)]
    assert clone(model).on_progress is None


def test_blocks_change_nothing(pets, pet_texts, monkeypatch):
    whole = lw.TaxonomyClassifier(pets).fit(pet_texts)
    monkeypatch.setattr(_base, "BLOCK_SCORES", 12)
    blocks = lw.TaxonomyClassifier(pets).fit(pet_texts)
    np.testing.assert_allclose(
        blocks.predict_proba(pet_texts), whole.predict_proba(pet_texts), atol=1e-9
    )


def test_parts_in_threads_change_no_answer(many, monkeypatch):
    tree, texts, _, few = many
    model = lw.TaxonomyClassifier(tree).fit(texts, few)
    whole = model.predict(texts)
    monkeypatch.setattr(taxonomy_classifier, "_FEWEST", 3)
    monkeypatch.setattr(taxonomy_classifier, "_CACHED", 1)
    with limited(3):
        np.testing.assert_array_equal(model.predict(texts), whole)
    monkeypatch.setattr(taxonomy_classifier, "BLOCK_SCORES", 1)  # one text at a time
    np.testing.assert_array_equal(model.predict(texts[:20]), whole[:20])
    assert len(model.predict([])) == 0


def test_texts_and_labels_from_one_stream(pets, pet_texts, pet_labels):
    labels: list = []

    def stream():
        for text, label in zip(pet_texts, pet_labels):
            labels.append(label)
            yield text

    streamed = lw.TaxonomyClassifier(pets).fit(stream(), labels)
    listed = lw.TaxonomyClassifier(pets).fit(pet_texts, pet_labels)
    np.testing.assert_array_equal(
        streamed.predict_proba(pet_texts), listed.predict_proba(pet_texts)
    )


def test_own_counter(pets, pet_texts):
    model = lw.TaxonomyClassifier(pets, counter=lw.WordCounter()).fit(pet_texts)
    assert "the" in model.counter_.vocabulary_
    assert model.counter is not model.counter_


def test_explanation_adds_up(pets, pet_texts):
    """Two nodes' explanations differ by what the nodes' log probabilities differ by."""
    model = lw.TaxonomyClassifier(pets).fit(pet_texts)
    text = pet_texts[0]
    total = {}
    for path in ("animals/cats", "vehicles/boats"):
        why = model.explain(text, path)
        assert why.path == path
        total[path] = sum(weight for _, weight in why.words)
    log_proba = dict(zip(model.classes_, model.predict_log_proba([text])[0]))
    prior = dict(zip(model.classes_, model.predict_log_proba([""])[0]))
    length = np.sqrt(model.counter_.transform([text]).data).sum()
    assert total["animals/cats"] - total["vehicles/boats"] == pytest.approx(
        (log_proba["animals/cats"] - log_proba["vehicles/boats"])
        - (prior["animals/cats"] - prior["vehicles/boats"]) / np.sqrt(length)
    )


def test_explanation_shows_words_as_they_stand_in_the_text(pets, pet_texts):
    text = "It PURRED at the dog, the cats sat."
    why = lw.TaxonomyClassifier(pets).fit(pet_texts).explain(text)
    assert why.path == "animals/cats"
    assert {"purred", "cats"} <= {word for word, _ in why.words}
    weights = [abs(weight) for _, weight in why.words]
    assert weights == sorted(weights, reverse=True)
    assert str(why).startswith("animals/cats  (probability 0.")
    assert "  for: " in str(why)
    assert "  against: " in str(why)


def test_a_document_with_nothing_known_in_it_is_explained_by_nothing(pets, pet_texts):
    assert lw.TaxonomyClassifier(pets).fit(pet_texts).explain("zzz").words == ()


def test_keywords_that_are_in_no_document_are_named(pet_texts):
    tree = lw.Taxonomy.from_dict({"cats": ["cat", "lynx"], "dogs": ["dog", "guide dog"]})
    model = lw.TaxonomyClassifier(tree).fit(pet_texts)
    assert model.report_[-1].startswith("Keywords that find no document")
    assert model.report_[-1].endswith("(2): guide dog, lynx")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "x"}, "model='x': expected a HierarchicalDirichlet"),
        ({"model": lw.HierarchicalDirichlet(sigma=0)}, "sigma=0: expected a number above 0"),
        ({"model": lw.HierarchicalDirichlet(reject=0.5)}, "reject=0.5 is for HierarchicalDiri"),
        ({"nodes": "some"}, "nodes='some': expected"),
        ({"nodes": []}, "nodes is empty"),
        ({"counter": str}, "counter=.*: expected a WordCounter"),
        ({"spread": "yes"}, "spread='yes': expected one of"),
        ({"keywords": ["cat"]}, "keywords=.*: expected one of"),
        (
            {"linear": LogisticRegression},
            "linear=.*: expected True, False or a classifier, such as",
        ),
        ({"linear": SVC(kernel="linear")}, r"classifier with coef_ .* of each class, such as Lin"),
        ({"encoder": lambda texts: [[]] * len(texts)}, r"an array of shape \(16, 0\) for 16 texts"),
    ],
)
def test_wrong_settings(settings, message, pets, pet_texts):
    with pytest.raises(ValueError, match=message):
        lw.TaxonomyClassifier(pets, **settings).fit(pet_texts)


def test_wrong_calls(pets, pet_texts):
    with pytest.raises(LabelError, match=r'No node is called "animals/cat"\. Did you mean'):
        lw.TaxonomyClassifier(pets).fit(pet_texts, ["animals/cat"] * 16)
    with pytest.raises(ValueError, match="Got 16 texts and 2 labels"):
        lw.TaxonomyClassifier(pets).fit(pet_texts, [None, None])
    with pytest.raises(ValueError, match="There is nothing to learn from"):
        lw.TaxonomyClassifier(lw.Taxonomy.from_dict({"zz": None})).fit(pet_texts)
    with pytest.raises(ValueError, match="No document has a label, and there is no taxonomy"):
        lw.TaxonomyClassifier().fit(pet_texts)
    with pytest.raises(ValueError, match="not fitted yet"):
        lw.TaxonomyClassifier(pets).predict(pet_texts)
    with pytest.raises(ValueError, match=r"k=1\.5: expected a number of nodes of at least 1"):
        lw.TaxonomyClassifier(pets).fit(pet_texts).top_k(pet_texts, 1.5)
    with pytest.raises(ValueError, match="Expected a list of texts, got None"):
        lw.TaxonomyClassifier(pets).fit(pet_texts).predict(None)
    with pytest.raises(LabelError, match="is not among the 4 classes"):
        lw.TaxonomyClassifier(pets).fit(pet_texts).explain("cat", "animals")


@pytest.mark.parametrize("times", [4, 20])  # the second is enough for linear scores
def test_a_keyword_that_comes_later_is_known(pets, pet_texts, times):
    tree = lw.Taxonomy.from_dict({"cats": ["cat", "lynx"], "dogs": ["dog"], "tools": ["hammer"]})
    model = lw.TaxonomyClassifier(tree).fit(times * pet_texts)
    found = model.predict(["a lynx", "the hammer"])
    assert found.tolist() == ["cats", "tools"]


def test_what_fits_nowhere_does_not_fill_an_empty_node(pet_texts):
    tree = lw.Taxonomy.from_dict({"cats": ["cat"], "dogs": ["dog"], "tools": ["hammer"]})
    chatter = [f"zz{i} totally unrelated chatter" for i in range(10)]
    model = lw.TaxonomyClassifier(tree).fit(pet_texts + chatter)
    assert "tools" not in model.transduction_


def test_one_long_document_does_not_spoil_its_node(pets, pet_texts, pet_labels):
    model = lw.TaxonomyClassifier(pets).fit([*pet_texts, "sail " * 100_000])
    assert model.transduction_[-1] == "vehicles/boats"
    assert np.mean(model.transduction_[:-1] == np.array(pet_labels)) >= 14 / 16


def test_scikit_learn_scorers_find_their_columns(pets, pet_texts, pet_labels):
    from sklearn.model_selection import cross_val_score

    model = lw.TaxonomyClassifier(pets)
    assert sorted(model.fit(pet_texts).classes_) == list(model.classes_)
    loss = cross_val_score(model, pet_texts, pet_labels, scoring="neg_log_loss", cv=4)
    assert loss.mean() > -1.2  # chance is -1.39


def test_what_is_wrong_with_texts_and_labels_leaves_the_last_fit_as_it_was(pets, pet_texts):
    model = lw.TaxonomyClassifier(pets).fit(pet_texts)
    before, few = model.predict_proba(pet_texts), pet_texts[:8]
    for texts, labels, settings, message in (
        (few, ["nowhere"] * 8, {}, "No node is called"),
        (few, [None] * 7, {}, "Got 8 texts and 7 labels"),
        ([*few, None], None, {}, "Document 8 is of type NoneType, expected a string"),
        (None, None, {}, "Expected a list of texts, got None"),
        ([], None, {}, "There are no texts"),
        (few, None, {"keywords": False}, "there is nothing to learn from"),
        (few, None, {"several": True}, "several=True: expected some labels"),
        (few, None, {"model": lw.HierarchicalDirichlet(sigma=0)}, "sigma=0: expected a number"),
        (few, None, {"encoder": lambda texts: [[]] * 8}, r"an array of shape \(8, 0\) for 8 texts"),
    ):
        with pytest.raises(ValueError, match=message):
            model.set_params(**settings).fit(texts, labels)
        model.set_params(keywords=True, several="auto", model=None, encoder=None)
        np.testing.assert_array_equal(model.predict_proba(pet_texts), before)
        assert len(model.transduction_) == 16
        assert len(model.query(2)) == 2


def test_a_failed_fit_leaves_no_half_of_the_last_one(pets, pet_texts):
    def interrupt(*what):
        raise KeyboardInterrupt

    model = lw.TaxonomyClassifier(pets).fit(pet_texts)
    model.on_progress = interrupt
    with pytest.raises(KeyboardInterrupt):
        model.fit(pet_texts[:8])
    for ask in (
        model.predict,
        model.query,
        lambda texts: model.explain(texts[0]),
        lambda texts: model.node_words("animals/cats"),
    ):
        with pytest.raises(ValueError, match="The last fit failed, so there is nothing to go on"):
            ask(pet_texts)
    assert not hasattr(model, "transduction_")
    assert not hasattr(model, "report_")
    model.on_progress = None
    assert len(model.fit(pet_texts).predict(pet_texts)) == 16


def test_neither_a_copy_nor_a_pickle_keeps_what_is_called_on_the_way(pets, pet_texts):
    model = lw.TaxonomyClassifier(pets)
    model.on_progress = lambda *what: None
    model.fit(pet_texts)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert again.on_progress is None
        np.testing.assert_array_equal(
            again.predict_proba(pet_texts), model.predict_proba(pet_texts)
        )
    assert model.on_progress is not None


def test_a_label_that_was_not_learned_counts_as_wrong(pets, pet_texts, pet_labels):
    from sklearn.model_selection import KFold, cross_val_score
    from sklearn.pipeline import make_pipeline

    model = lw.TaxonomyClassifier(pets).fit(pet_texts, pet_labels)
    assert model.score(pet_texts, ["animals", *pet_labels[1:]]) == 15 / 16
    with pytest.raises(LabelError, match='No node is called "animals/cat"'):
        model.score(pet_texts, ["animals/cat", *pet_labels[1:]])
    rare = ["rare", *pet_labels[1:]]
    parts = KFold(4, shuffle=True, random_state=0)
    for one in (lw.TaxonomyClassifier(), make_pipeline(lw.WordCounter(), lw.NaiveBayes())):
        found = cross_val_score(one, pet_texts, rare, cv=parts, error_score="raise")
        assert 0 < found.min() < 1


def test_a_label_that_was_not_learned_is_missed_among_several(pets, pet_texts, pet_labels):
    labels = [[label] for label in pet_labels]
    labels[0] = ["animals/cats", "animals/dogs"]
    model = lw.TaxonomyClassifier(pets).fit(pet_texts, labels)
    n_found = sum(map(len, model.predict(pet_texts)))
    n_right = model.score(pet_texts, labels) * (n_found + 17) / 2
    more = [[*labels[0], "animals", "vehicles", "animals"], *labels[1:]]
    assert model.score(pet_texts, more) == pytest.approx(2 * n_right / (n_found + 19))


def test_bytes_are_texts(pets, pet_texts):
    model = lw.TaxonomyClassifier(pets).fit([text.encode() for text in pet_texts])
    assert model.predict([b"a dog"]).tolist() == model.predict(["a dog"]).tolist()
    assert model.explain(b"a dog") == model.explain("a dog")


@pytest.mark.parametrize("times", [4, 20])  # the second is enough for linear scores
def test_of_no_texts_none_is_to_be_labelled_next(pets, pet_texts, times):
    model = lw.TaxonomyClassifier(pets).fit(times * pet_texts)
    assert (model.coef_ is None) == (times == 4)
    assert model.query(3, texts=[]).tolist() == []


def test_a_polars_column_has_the_type_of_the_classes(pets, pet_texts, pet_labels):
    pl = pytest.importorskip("polars")
    model = lw.TaxonomyClassifier(pets, min_confidence=1).fit(pet_texts)
    model.set_output(transform="polars")
    for texts in (["of the"], []):
        assert model.predict(texts).dtype == pl.String
    numbers = lw.TaxonomyClassifier().fit(pet_texts, [i // 8 for i in range(16)])
    assert numbers.set_output(transform="polars").predict([]).dtype == pl.Int64
    several = lw.TaxonomyClassifier(pets, several=True).fit(pet_texts, pet_labels)
    assert several.set_output(transform="polars").predict([]).dtype == pl.List(pl.String)


def test_stop_changes_nothing_where_there_are_several_nodes(pets, pet_texts, pet_labels):
    model = lw.TaxonomyClassifier(pets, several=True).fit(pet_texts, pet_labels)
    usual = model.predict(pet_texts)
    assert model.set_params(stop="confident").predict(pet_texts) == usual
    sure = model.set_params(min_confidence=1.0).predict(pet_texts)
    assert sure == [()] * 16


# ---- neighbours and linear scores ---------------------------------------------------------------


def test_stages_say_what_they_did(many):
    tree, texts, y, few = many
    model = lw.TaxonomyClassifier(tree).fit(texts, few)
    assert model.coef_.shape == (len(model.counter_.vocabulary_), 4)
    said = " ".join(model.report_)
    assert "what is sure is spread over them" in said
    assert "before and after spreading" in said
    assert np.mean(model.transduction_ == y) > 0.9
    alone = lw.TaxonomyClassifier(tree, spread=False).fit(texts, few)
    assert alone.coef_ is alone.intercept_ is alone.idf_ is None
    assert "spread" not in " ".join(alone.report_)


def test_enough_labels_decide_and_calibrate(many):
    tree, texts, y, _ = many
    some = [label if i % 2 else None for i, label in enumerate(y)]
    model = lw.TaxonomyClassifier(tree).fit(texts, some)
    said = " ".join(model.report_)
    assert "so say 120 labels held out" in said
    assert "Probabilities are set by 120 labels held out." in said
    assert 0 <= model.doubt_ < 0.5
    proba = model.predict_proba(texts)
    assert proba.sum(axis=1) == pytest.approx(np.ones(240))
    every = lw.TaxonomyClassifier(tree).fit(texts, y.tolist())
    assert every.coef_ is not None
    assert every.score(texts, y) > 0.95


@pytest.mark.parametrize("n_labels", [0, 24, 120])
def test_the_order_of_documents_changes_nothing(many, n_labels):
    tree, texts, y, _ = many
    named = tree
    labels = [label if i < n_labels else None for i, label in enumerate(y)]
    if not n_labels:
        texts = [f"{label[-1]}word {text}" if i % 4 == 0 else text
                 for i, (label, text) in enumerate(zip(y, texts))]  # fmt: skip
        named = lw.Taxonomy.from_paths(
            tree.paths[1:], keywords={path: [f"{path[-1]}word"] for path in set(y)}
        )
    order = np.random.default_rng(0).permutation(len(texts))
    one = lw.TaxonomyClassifier(named).fit(texts, labels)
    other = lw.TaxonomyClassifier(named).fit([texts[i] for i in order], [labels[i] for i in order])
    np.testing.assert_array_equal(one.transduction_[order], other.transduction_)
    np.testing.assert_array_equal(one.predict_proba(texts), other.predict_proba(texts))


def test_without_keywords(many):
    tree, texts, y, few = many
    with pytest.raises(ValueError, match="nothing to learn from"):
        lw.TaxonomyClassifier(tree, keywords=False).fit(texts)
    named = lw.Taxonomy.from_paths(
        tree.paths[1:], keywords={y[0]: [texts[5].split()[0]], y[1]: [texts[6].split()[0]]}
    )
    without = lw.TaxonomyClassifier(named, keywords=False).fit(texts, few)
    same = lw.TaxonomyClassifier(tree, keywords=False).fit(texts, few)
    np.testing.assert_allclose(without.predict_proba(texts), same.predict_proba(texts))
    assert "With a keyword: 0." in " ".join(without.report_)


def test_linear_scores_are_kept_in_a_file(many, tmp_path):
    tree, texts, _, few = many
    model = lw.TaxonomyClassifier(tree).fit(texts, few)
    model.save(tmp_path / "m")
    again = lw.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(texts), model.predict_proba(texts))
    for name in ("coef_", "intercept_", "idf_"):
        kept = getattr(model, name)
        setattr(model, name, kept[:-1])
        model.save(tmp_path / "bad")
        with pytest.raises(ModelFileError, match="linear scores do not fit the words and classes"):
            lw.load(tmp_path / "bad")
        setattr(model, name, kept)
    alone = lw.TaxonomyClassifier(tree, spread=False).fit(texts, few)
    alone.save(tmp_path / "a")
    np.testing.assert_array_equal(
        lw.load(tmp_path / "a").predict_proba(texts), alone.predict_proba(texts)
    )


def test_linear_scores_are_explained(many):
    """Two nodes' explanations differ as their log probabilities do, besides what has no word."""
    tree, texts, _, few = many
    model = lw.TaxonomyClassifier(tree).fit(texts, few)
    text, n_classes = texts[3], len(model.classes_)
    said = [sum(w for _, w in model.explain(text, path).words) for path in model.classes_]
    X = model.counter_.transform([text])
    linear = (model._linear.weigh(X) @ model.coef_)[0] / model.temperature_
    # Each is a class against the mean of the others.
    against = linear - (linear.sum() - linear) / (n_classes - 1)
    by_model = model.model_.word_evidence
    of_model = [
        (model._temper(X)[0] * model.model_._as_read(X).data * by_model(c, X.indices)).sum()
        for c in range(n_classes)
    ]
    weight = _scored.MODEL / model.temperature_
    assert said == pytest.approx(against + weight * np.array(of_model))


@pytest.mark.parametrize("limit", ["MOST", "MOST_WORK"])
def test_a_large_tree_has_the_model_alone(many, monkeypatch, limit):
    tree, texts, _, few = many
    monkeypatch.setattr(_choosing, limit, 1000)
    model = lw.TaxonomyClassifier(tree).fit(texts, few)
    assert model.coef_ is None


def test_of_many_documents_neighbours_are_approximate(many, monkeypatch):
    tree, texts, _, few = many
    exact = lw.TaxonomyClassifier(tree).fit(texts, few)
    monkeypatch.setattr(_staged, "EXACT", 100)
    asked = []

    def watched(*args, **settings):
        asked.append(settings["approximate"])
        return lw.neighbor_graph(*args, **settings)

    monkeypatch.setattr(_staged, "neighbor_graph", watched)
    model = lw.TaxonomyClassifier(tree).fit(texts, few)
    assert asked == [True]
    assert np.mean(model.transduction_ == exact.transduction_) > 0.95


def test_doubt_is_shared_among_all():
    log_joint = np.log([[0.7, 0.2, 0.1], [0.05, 0.9, 0.05]])
    p = np.exp(_belief.with_doubt(log_joint, 0.3))
    assert p == pytest.approx(0.1 + 0.7 * np.exp(log_joint))


def test_the_likeliest_temperature_and_doubt_are_found():
    """Labels drawn as sure as said, twice as unsure, and with a part drawn blindly."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(100_000, 4)) * 3  # enough to overcome what is usual
    for temperature, doubt in ((1.0, 0.0), (2.0, 0.0), (1.0, 0.2), (2.0, 0.2)):
        p = doubt / 4 + (1 - doubt) * softmax(z / temperature, axis=1)
        drawn = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)
        right = z.argmax(axis=1) == drawn
        learned = np.ones(len(z), bool)
        found = _belief.believe_one(right, z, learned, True)
        # A doubt that leans as scores do is none, so several say the same: it is compared.
        assert np.abs(np.exp(found.log_proba(z, learned)) - p).max() < 0.05


def test_membership_of_no_labels_is_empty(pets):
    classes = Classes.of_taxonomy(pets)
    assert classes.membership(read_labels([None] * 3)).nnz == 0


def test_newsgroups_without_labels(data_dir):
    """A small version of what docs/no-labels.md has on the 15 newsgroups."""
    from leafwise.datasets import load_20newsgroups

    news = load_20newsgroups(data=data_dir).subset(np.arange(0, 14997, 4))
    model = lw.TaxonomyClassifier(news.taxonomy).fit(news.texts)
    assert np.mean(model.transduction_ == np.array(news.labels)) > 0.6


def test_node_words(pets, pet_texts, pet_labels):
    model = lw.TaxonomyClassifier(pets).fit(pet_texts, pet_labels)
    words = model.node_words(str(model.classes_[0]), 3)
    counted = set(model.counter_.vocabulary_)
    assert 0 < len(words) <= 3
    assert {word for word, _ in words} <= counted
    assert [w for _, w in words] == sorted((w for _, w in words), reverse=True)
