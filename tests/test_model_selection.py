"""Choosing a model: the rule by hand, fair folds, and corpora where the answer is known."""

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

import leafwise as lw
from leafwise.exceptions import LabelError
from leafwise.metrics import log_loss
from leafwise.model_selection import embedded_family, select_model
from leafwise.synthetic import make_corpus

TREE = lw.Taxonomy.from_paths(f"{a}/{a}{i}" for a in "abcdef" for i in range(6))


class Says(ClassifierMixin, BaseEstimator):
    """Reads its answer, and its P(label), from columns of X; notes down what it is fitted to."""

    fitted: list = []  # noqa: RUF012

    def __init__(self, column=1, proba=None):
        self.column = column
        self.proba = proba

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        Says.fitted.append(X[:, 0])
        return self

    def predict(self, X):
        return self.classes_[X[:, self.column].astype(int)]

    def predict_proba(self, X):
        p = X[:, self.column] if self.proba is None else np.full(len(X), self.proba)
        return np.column_stack([1 - p, p])


class Rows(ClassifierMixin, BaseEstimator):
    """Keeps what it is fitted to."""

    fitted: list = []  # noqa: RUF012

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        Rows.fitted.append(X.toarray())
        return self

    def predict(self, X):
        return self.classes_[np.zeros(X.shape[0], int)]


def answers(*columns):
    """Ten documents of two classes, 0 and 1 in turn; column i of X is what model i says."""
    y = np.arange(10) % 2
    right = [np.array(list(c)) == "1" for c in columns]
    said = [np.where(r, y, 1 - y) for r in right]
    X = np.column_stack([np.arange(1, 11), *said])  # the first column makes documents different
    return X, y, {f"m{i}": Says(i) for i in range(1, len(columns) + 1)}


@pytest.fixture(scope="module")
def corpus():
    return make_corpus(n_documents=200, n_words=300, doc_length=30, random_state=0)


@pytest.fixture(scope="module")
def found(corpus):
    return select_model(corpus.X, corpus.labels, corpus.taxonomy)


# --- The rule


def test_the_standard_error_of_the_difference_by_hand():
    """m2 is right on 9 of 10, m1 on 6; of the five where they differ, m2 is right on four."""
    X, y, models = answers("1111110000", "1111101111")
    found = select_model(X, y, models=models, cv=2)
    assert found.evidence["accuracy"].mean(axis=1).tolist() == [0.6, 0.9]
    # Differences: four of 1, one of -1, five of 0. Their mean is .3 and the sum of squares 5.
    error = np.sqrt((5 - 10 * 0.3**2) / 9 / 10)
    behind, error_found = found.behind()
    np.testing.assert_allclose(behind, [0.3, 0], atol=1e-12)
    np.testing.assert_allclose(error_found, [error, 0])
    assert error < 0.3
    assert found.name == found.leader == "m2"
    assert found.why == (
        "m2 has the highest accuracy, and every simpler model is more than one standard error "
        "behind it: m1, the nearest, by 0.300 with a standard error of 0.213."
    )
    row = found.rows()[0]
    assert row["accuracy_standard_error"] == pytest.approx(np.sqrt(0.6 * 0.4 / 9))
    assert (row["model"], row["chosen"], row["behind"]) == ("m1", False, pytest.approx(0.3))


def test_the_simplest_of_those_within_the_margin_is_chosen():
    """m1 is too far behind, m2 and m3 are not; the order given is that of simplicity."""
    X, y, models = answers("1000000000", "1111111001", "1111111010", "1111111110")
    found = select_model(X, y, models=models, cv=2)
    assert (found.name, found.leader) == ("m2", "m4")
    # Two for m4, one for m2: mean .1, sum of squares 3.
    error = np.sqrt((3 - 10 * 0.1**2) / 9 / 10)
    assert found.why == (
        "m2 is the simplest model within one standard error of the best: m4 is ahead by 0.100 in "
        f"accuracy, with a standard error of {error:.3f}."
    )
    highest = select_model(X, y, models=models, cv=2, margin=0)
    assert highest.name == "m4"
    assert "and every simpler model is behind it: m2, the nearest" in highest.why
    assert select_model(X, y, models=models, cv=2, margin=9).name == "m1"


def test_the_margin_is_in_standard_errors():
    X, y, models = answers("0111111111", "1111111111")
    found = select_model(X, y, models=models, cv=2)  # mean .1, standard error .1
    np.testing.assert_allclose(found.behind(), [[0.1, 0], [0.1, 0]])
    assert select_model(X, y, models=models, cv=2, margin=1 + 1e-9).name == "m1"
    assert select_model(X, y, models=models, cv=2, margin=1 - 1e-9).name == "m2"


def test_models_that_agree_leave_the_simplest():
    X, y, models = answers("1111110000", "1111110000")
    found = select_model(X, y, models=models, cv=2)
    assert found.why == "m1 has the highest accuracy and is the simplest model."
    alone = select_model(X, y, models={"one": Says()}, cv=2)
    assert alone.why == "one is the only model."


def test_the_metric_decides():
    """m1 is right more often, m2 is less sure of what is wrong."""
    X, y, models = answers("1111111100", "1111000000")
    models["m2"].proba = 0.5
    assert select_model(X, y, models=models, cv=2).name == "m1"
    found = select_model(X, y, models=models, cv=2, metric="log_proba")
    assert (found.name, found.metric) == ("m2", "log_proba")
    # Two labels of ten have probability 0, which counts as 2.2e-16.
    eps = np.log(np.finfo(float).eps)
    np.testing.assert_allclose(found.evidence["log_proba"].mean(1), [eps / 5, np.log(0.5)])
    assert "m2 has the highest log P(label)" in found.why


# --- Where the answer is known


@pytest.mark.parametrize("seed", [0, 1])
def test_few_documents_of_a_deep_model_speak_for_the_mixture(seed):
    """Eight documents per class, most words from above, levels of unlike weight: that is HM."""
    drawn = make_corpus(
        TREE, 1800, 3000, 60, concentration=100, level_weights=[6, 2, 1], random_state=seed
    )
    few, rest = slice(300), slice(300, None)
    found = select_model(drawn.X[few], drawn.labels[few], TREE)
    assert found.name == "HM"
    accuracy = {
        name: model.fit(drawn.X[few], drawn.labels[few]).score(drawn.X[rest], drawn.labels[rest])
        for name, model in embedded_family(TREE).items()
    }
    assert max(accuracy, key=accuracy.__getitem__) == "HM"
    assert found.best.score(drawn.X[rest], drawn.labels[rest]) == accuracy["HM"]


@pytest.mark.parametrize("seed", [0, 1])
def test_many_documents_of_classes_that_share_nothing_leave_naive_bayes(seed):
    drawn = make_corpus(
        n_documents=900, n_words=300, doc_length=30,
        concentration=300, level_weights=[1, 1, 30], random_state=seed,
    )  # fmt: skip
    found = select_model(drawn.X, drawn.labels, drawn.taxonomy)
    assert found.name == "NB"
    behind, _ = found.behind()
    assert behind.max() < 0.02  # none is bad: simplicity decides
    assert "simplest model" in found.why


# --- Folds


def folds_of(X, y, cv, **settings):
    """Run, and return what was held out in each fold, by the first column."""
    Says.fitted = []
    found = select_model(X, y, models={"m": Says()}, cv=cv, **settings)
    *parts, everything = Says.fitted
    return found, [sorted(set(everything) - set(part)) for part in parts]


def test_each_document_is_held_out_once_and_classes_alike():
    X, y, _ = answers("1" * 10)
    found, folds = folds_of(X, y, 5)
    assert sorted(np.concatenate(folds)) == X[:, 0].tolist()
    assert [len(fold) for fold in folds] == [2] * 5
    assert all({(d - 1) % 2 for d in fold} == {0, 1} for fold in folds)
    assert found.documents.tolist() == list(range(10))
    assert found.fit_seconds.shape == found.predict_seconds.shape == (1, 5)


def test_the_seed_chooses_the_folds():
    X = np.column_stack([np.arange(1, 41), np.arange(40) % 2])
    y = X[:, 1]
    _, one = folds_of(X, y, 4)
    _, same = folds_of(X, y, 4)
    _, other = folds_of(X, y, 4, random_state=1)
    assert one == same != other


def test_a_small_class_is_always_learned_from():
    """Of two documents one is held out at a time; a single one never is."""
    y = np.array([0] * 8 + [1] * 2 + [2])
    X = np.column_stack([np.arange(1, 12), y])
    found, folds = folds_of(X, y, 5)
    held = np.concatenate(folds)
    assert sorted(held) == list(range(1, 11))
    assert not any({9, 10} <= set(fold) for fold in folds)
    assert found.documents.tolist() == list(range(10))
    assert found.evidence["accuracy"].shape == (1, 10)
    assert "Classes without two different documents, learned from and never held out: 1 (such as 2)" in found.why  # noqa: E501  # fmt: skip
    assert found.best.classes_.tolist() == [0, 1, 2]


def test_copies_are_held_out_together():
    """So they cannot tell on each other; a class of copies alone is as one of one document."""
    y = np.array([0] * 8 + [1] * 6 + [2] * 3)
    content = np.array([1, 1, 1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 10, 10, 11, 11, 11])
    X = np.column_stack([content, y])
    _, folds = folds_of(X, y, 5)  # by content: a copy left behind would not be missing
    assert sorted(np.concatenate(folds)) == list(range(1, 11))


def test_folds_without_a_document_are_not_run():
    X = np.column_stack([[1, 2, 3, 4], [0, 0, 1, 1]])
    found, folds = folds_of(X, X[:, 1], 20)
    assert [len(fold) for fold in folds] == [1] * 4
    assert "in 4 folds" in str(found)


def test_the_order_of_documents_changes_nothing(corpus, found):
    order = np.random.default_rng(0).permutation(len(corpus))
    shuffled = select_model(corpus.X[order], np.array(corpus.labels)[order], corpus.taxonomy)
    assert (shuffled.name, shuffled.why) == (found.name, found.why)
    back = np.argsort(order[shuffled.documents])
    for metric, scores in found.evidence.items():
        np.testing.assert_allclose(shuffled.evidence[metric][:, back], scores, rtol=1e-9)


def test_how_counts_are_stored_changes_nothing(corpus, found):
    dense = select_model(corpus.X.toarray(), corpus.labels, corpus.taxonomy)
    np.testing.assert_array_equal(dense.evidence["accuracy"], found.evidence["accuracy"])
    twice = sparse.csr_matrix(  # each count in two parts, and a zero
        (
            np.tile(corpus.X.data / 2, (2, 1)).T.ravel(),
            np.repeat(corpus.X.indices, 2),
            corpus.X.indptr * 2,
        ),
        corpus.X.shape,
    )
    assert twice.nnz == 2 * corpus.X.nnz
    parts = select_model(twice, corpus.labels, corpus.taxonomy)
    np.testing.assert_array_equal(parts.evidence["accuracy"], found.evidence["accuracy"])
    assert twice.nnz == 2 * corpus.X.nnz  # the caller's matrix is as it was


# --- What comes out


def test_the_model_is_fitted_to_all_documents(corpus, found):
    again = embedded_family(corpus.taxonomy)[found.name].fit(corpus.X, corpus.labels)
    np.testing.assert_array_equal(found.best.predict_proba(corpus.X), again.predict_proba(corpus.X))


def test_evidence_is_that_of_a_loop_by_hand(corpus):
    """Two folds and one model, against fit, predict and `log_loss`."""
    y = np.array(corpus.labels)
    found = select_model(corpus.X, y, models={"NB": lw.NaiveBayes(corpus.taxonomy)}, cv=2)
    Rows.fitted = []
    select_model(corpus.X, y, models={"rows": Rows()}, cv=2)
    hits, losses = [], []
    for train in Rows.fitted[:2]:
        known = {row.tobytes() for row in train}
        test = np.array([row.tobytes() not in known for row in corpus.X.toarray()])
        model = lw.NaiveBayes(corpus.taxonomy).fit(corpus.X[~test], y[~test])
        hits += (model.predict(corpus.X[test]) == y[test]).tolist()
        proba = model.predict_proba(corpus.X[test])
        losses.append(log_loss(y[test], proba, model.classes_) * test.sum())
    assert found.evidence["accuracy"].mean() == pytest.approx(np.mean(hits))
    assert found.evidence["log_proba"].mean() == pytest.approx(-sum(losses) / len(y))


def test_the_table_and_the_words_are_drawn(found):
    lines = str(found).splitlines()
    assert lines[0].split() == ["model", "accuracy", "behind", "log", "P(label)", "fit", "predict"]
    assert [line.split()[0] for line in lines[1:7]] == ["NB", "PLC", "HS", "HiMi", "HM", "HPLC"]
    assert [line.split()[0] for line in lines[1:7] if " * " in line] == [found.name]
    assert lines[7].startswith("Means ± standard errors over 200 documents, each held out once")
    assert lines[8] == found.why
    assert repr(found) == (
        f"<ModelSelection: {found.name} of NB, PLC, HS, HiMi, HM, HPLC, by accuracy on 200 "
        "held-out documents>"
    )


def test_html_is_escaped():
    X, y, models = answers("1111110000", "1111101111")
    found = select_model(X, y, models={"<b>": models["m1"], "m2": models["m2"]}, cv=2)
    html = found._repr_html_()
    assert "<b>" not in html
    assert html.count("<tr>") == 3
    assert "<td>&lt;b&gt;</td>" in html
    assert "<td>m2 *</td>" in html


def test_progress_is_told(corpus):
    told = []
    models = {"a": DummyClassifier(), "b": lw.NaiveBayes()}
    select_model(
        corpus.X, corpus.labels, models=models, cv=3, on_progress=lambda *n: told.append(n)
    )
    assert told == [(i, 7) for i in range(1, 8)]  # three folds of two, and the last fit


# --- What goes in


def test_without_a_tree_there_are_the_flat_models(corpus):
    found = select_model(corpus.X, corpus.labels)
    assert found.names == ("NB", "PLC")
    flat = "No node stands between the root and the classes, so there are flat models alone."
    assert found.notes == (flat,)
    flat_tree = lw.Taxonomy.from_paths(["x", "y"])
    again = select_model(corpus.X, np.where(corpus.y < 6, "x", "y"), flat_tree)
    assert (again.names, again.notes) == (found.names, found.notes)


def test_levels_in_columns_are_a_tree(corpus):
    levels = np.array([label.split("/") for label in corpus.labels])
    found = select_model(corpus.X, levels, cv=2)
    assert found.names == tuple(embedded_family(corpus.taxonomy))
    assert found.best.taxonomy_ == corpus.taxonomy


def test_labels_become_paths(corpus, found):
    for y in ([label.split("/")[1] for label in corpus.labels], corpus.y):
        other = select_model(corpus.X, y, corpus.taxonomy)
        np.testing.assert_array_equal(other.evidence["accuracy"], found.evidence["accuracy"])
        assert set(other.best.predict(corpus.X)) <= set(corpus.labels)


@pytest.mark.parametrize("kind", ["strings", "integers"])
def test_unlabelled_documents_are_passed_over(corpus, kind):
    y = corpus.y.copy() if kind == "integers" else np.array(corpus.labels, dtype=object)
    y[::4] = -1 if kind == "integers" else None
    found = select_model(corpus.X, y, corpus.taxonomy, cv=2)
    labelled = np.arange(200) % 4 > 0
    fewer = select_model(corpus.X[labelled], y[labelled], corpus.taxonomy, cv=2)
    np.testing.assert_array_equal(found.documents, np.flatnonzero(labelled))
    np.testing.assert_array_equal(found.evidence["accuracy"], fewer.evidence["accuracy"])
    assert "Documents without a label, passed over: 50." in found.why
    assert found.best.document_counts_.sum() == 150


def test_any_classifier_may_take_part(corpus):
    """One has no probabilities: they are missing from the table, not made up."""
    models = {"MNB": MultinomialNB(), "SVM": LinearSVC(random_state=0)}
    found = select_model(corpus.X, corpus.y, models=models, cv=3)
    assert np.isnan(found.rows()[1]["log_proba"])
    assert "–" in str(found).splitlines()[2]
    assert isinstance(found.best, type(models[found.name]))
    assert not hasattr(models[found.name], "classes_")  # the user's own stay as they were
    assert found.notes == ()


@pytest.mark.parametrize("kind", [list, tuple, lambda t: np.array(t, dtype=object)])
def test_texts_are_for_models_of_texts(corpus, kind, found):
    """The same words, so the same counts, but folds of texts are other folds."""
    texts = kind(corpus.texts())
    pipeline = make_pipeline(CountVectorizer(token_pattern=r"\w+"), MultinomialNB())
    chosen = select_model(texts, corpus.labels, models={"MNB": pipeline}, cv=2)
    assert chosen.evidence["accuracy"].mean() > 0.5
    assert len(chosen.documents) == len(found.documents)


def test_minus_one_and_one_are_two_classes():
    X, y, models = answers("1111111111")
    found = select_model(X, 2 * y - 1, models=models, cv=2)
    assert found.evidence["accuracy"].mean() == 1


# --- Errors


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cv": 1}, "cv=1: expected a whole number from 2 on."),
        ({"cv": 2.5}, "cv=2.5: expected a whole number from 2 on."),
        ({"random_state": None}, "random_state=None: expected a whole number from 0 on."),
        ({"metric": "acuracy"}, 'expected "accuracy" or "log_proba". Did you mean "accuracy"?'),
        ({"metric": 3}, 'metric=3: expected "accuracy" or "log_proba".'),
        ({"margin": -1}, "margin=-1: expected a number of standard errors from 0 on."),
        ({"margin": "one"}, "margin='one': expected a number of standard errors from 0 on."),
        ({"models": {}}, "models={}: expected a dict of names and classifiers, simplest first"),
        ({"models": ["NB"]}, "models=['NB']: expected a dict of names and classifiers"),
        (
            {"models": {"SVM": LinearSVC()}, "metric": "log_proba"},
            "Model 'SVM' has no predict_proba, which metric=\"log_proba\" needs.",
        ),
    ],
)
def test_settings_that_are_refused(corpus, settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        select_model(corpus.X, corpus.labels, corpus.taxonomy, **settings)


@pytest.mark.parametrize("model", [lw.NaiveBayes, "NB", CountVectorizer()])
def test_what_is_no_classifier_is_refused(corpus, model):
    with pytest.raises(TypeError, match=r"Model 'NB' is .*, expected a classifier, such as"):
        select_model(corpus.X, corpus.labels, models={"NB": model})


def test_labels_that_are_refused(corpus):
    X, tree = corpus.X, corpus.taxonomy
    with pytest.raises(LabelError, match="Document 1 has 2 labels, expected one at most: models"):
        select_model(X, [["a/a1"], ["a/a1", "b/b1"]] + [["a/a2"]] * 198, tree)
    with pytest.raises(LabelError, match="No document has a label, so there is nothing to"):
        select_model(X, [None] * 200, tree)
    with pytest.raises(LabelError, match="There are 1 classes, 1 of them with two or more diff"):
        select_model(X, ["a/a1"] * 200, tree)
    with pytest.raises(LabelError, match="There are 2 classes, 0 of them with two or more diff"):
        select_model(X[:2], ["a/a1", "a/a2"], tree)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[200, 199\]"):
        select_model(X, corpus.labels[1:], tree)
    with pytest.raises(TypeError, match=r"taxonomy is a dict, expected a leafwise\.Taxonomy"):
        select_model(X, corpus.labels, {"a": {}})
    with pytest.raises(ValueError, match='No node is called "z"'):
        select_model(X, ["z"] * 200, tree)


def test_labels_that_a_model_never_predicts_are_refused(corpus):
    names = [label.split("/")[1] for label in corpus.labels]
    with pytest.raises(LabelError, match="'NB' never predicts 'a1'; its classes are such as '/'"):
        select_model(corpus.X, names, models={"NB": lw.NaiveBayes(corpus.taxonomy)})


def test_an_error_in_fitting_says_whose_it_was(corpus):
    with pytest.raises(ValueError, match="takes word counts, got texts") as caught:
        select_model(corpus.texts(), corpus.labels, corpus.taxonomy)
    assert caught.value.__notes__ == ["This was 'NB', fold 0."]


def test_a_probability_that_is_none_is_refused():
    X, y, models = answers("1111111111")
    models["m1"].proba = np.nan
    with pytest.raises(ValueError, match="'m1' gives a label the probability NaN"):
        select_model(X, y, models=models, cv=2)
