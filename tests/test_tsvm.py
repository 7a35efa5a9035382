"""The transductive SVM: against scikit-learn's, against every labelling, and its promises."""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from leafwise.models._machines import HINGE, Documents, train
from leafwise.models._tfidf import LogTfIdf
from leafwise.models.tsvm import (
    TransductiveSVM,
    _objective,
    _to_switch,
    transduce,
)
from leafwise.synthetic import make_corpus
from leafwise.taxonomy import Taxonomy
from leafwise.threads import limited

N_LABELLED = 3  # of each class


def drawn(seed=0, n_documents=300):
    """Short documents of three classes, the same words in all, a few of them labelled."""
    tree = Taxonomy.from_paths(["a", "b", "c"])
    corpus = make_corpus(
        tree, n_documents, n_words=400, doc_length=30, concentration=100.0, random_state=seed
    )
    truth = np.array(corpus.labels)
    labelled = np.concatenate([np.flatnonzero(truth == c)[:N_LABELLED] for c in "abc"])
    y = np.full(n_documents, None)
    y[labelled] = truth[labelled]
    return corpus.X, truth, y, labelled


@pytest.fixture(scope="module")
def corpus():
    return drawn()


@pytest.fixture(scope="module")
def fitted(corpus):
    X, _, y, _ = corpus
    return TransductiveSVM().fit(X, y)


def binary(corpus, label="a"):
    """One class against the rest, 0 where it is unknown."""
    X, truth, _, labelled = corpus
    y = np.zeros(len(truth))
    y[labelled] = np.where(truth[labelled] == label, 1.0, -1.0)
    return Documents.of(LogTfIdf().fit_transform(X)), y


# The vectors


def test_words_are_weighed_by_all_documents_of_the_fit():
    X = sparse.csr_matrix([[3, 1, 0, 2, 0], [0, 1, 1, 1, 0], [0, 0, 0, 5, 0]])
    model = TransductiveSVM().fit(X, ["a", "b", None])
    np.testing.assert_allclose(model.idf_, [np.log(3), np.log(3 / 2), np.log(3), 0, 0])
    row = np.array([(1 + np.log(2)) * np.log(3), 0, np.log(3), 0, 0])
    expected = model.coef_ @ (row / np.linalg.norm(row)) + model.intercept_
    np.testing.assert_allclose(model.class_scores([[2, 0, 1, 7, 4]])[0], expected)


def test_counts_in_parts_are_those_in_one_piece():
    X = sparse.csr_matrix([[0, 3, 1], [1, 0, 1], [2, 1, 0]])
    parts = ([1, 2, 1, 1, 1, 2, 0, 1], [2, 1, 1, 0, 2, 0, 1, 1], [0, 3, 5, 8])
    in_parts = sparse.csr_matrix(parts, (3, 3))
    model = TransductiveSVM().fit(X, ["a", "b", None])
    other = TransductiveSVM().fit(in_parts, ["a", "b", None])
    np.testing.assert_array_equal(other.idf_, model.idf_)
    np.testing.assert_array_equal(other.coef_, model.coef_)
    np.testing.assert_array_equal(model.class_scores(in_parts), model.class_scores(X))
    assert in_parts.nnz == 8  # what was given stays as it was


# Without unlabelled documents


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_without_a_pool_it_is_linear_svc(corpus, C):
    X, truth, _, _ = corpus
    model = TransductiveSVM(C=C, tol=1e-9, max_iter=10_000).fit(X[:60], truth[:60])
    vectors = model._vectors(X)
    reference = LinearSVC(loss="hinge", C=C, tol=1e-9, max_iter=1_000_000, random_state=0)
    reference.fit(vectors[:60], truth[:60])
    np.testing.assert_allclose(model.coef_, reference.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, atol=1e-4)
    np.testing.assert_allclose(
        model.decision_function(X), reference.decision_function(vectors), atol=1e-4
    )
    np.testing.assert_array_equal(model.predict(X), reference.predict(vectors))
    np.testing.assert_array_equal(model.n_positive_, 0)


def test_two_classes_have_one_number_as_in_linear_svc(corpus):
    X, truth, _, _ = corpus
    two = np.flatnonzero(truth != "c")[:60]
    model = TransductiveSVM(tol=1e-9, max_iter=10_000).fit(X[two], truth[two])
    vectors = model._vectors(X)
    reference = LinearSVC(loss="hinge", tol=1e-9, max_iter=1_000_000, random_state=0)
    reference.fit(vectors[two], truth[two])
    decision = model.decision_function(X)
    np.testing.assert_allclose(decision, reference.decision_function(vectors), atol=1e-4)
    np.testing.assert_allclose(model.class_scores(X), np.stack([-decision, decision], 1), atol=1e-4)
    np.testing.assert_array_equal(model.predict(X), np.where(decision > 0, "b", "a"))
    assert (np.diff(model.predict_proba(X)[np.argsort(decision), 1]) >= 0).all()


def test_training_ends_within_the_tolerance_from_wherever_it_starts(corpus):
    documents, _ = binary(corpus)
    y = np.where(corpus[1] == "a", 1.0, -1.0)
    cost = np.random.default_rng(0).uniform(0.01, 2.0, len(y))
    w, score, _, done = train(*documents, y, cost, np.zeros(len(y)), HINGE, 1e-10, 10_000)
    assert done
    np.testing.assert_allclose(score, documents.score(w))
    least = _objective(w, score, y, cost)
    for share in (np.zeros(len(y)), np.ones(len(y)), np.random.default_rng(1).random(len(y))):
        w, score, n_passes, done = train(*documents, y, cost, share, HINGE, 1e-2, 10_000)
        assert done
        assert n_passes > 0
        assert least - 1e-6 <= _objective(w, score, y, cost) <= least / (1 - 1e-2)


# With unlabelled documents


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_structure_that_only_unlabelled_documents_show(seed):
    X, truth, y, labelled = drawn(seed)
    pool = np.setdiff1d(np.arange(len(truth)), labelled)
    alone = TransductiveSVM().fit(X[labelled], truth[labelled])
    with_pool = TransductiveSVM().fit(X, y)
    right_alone = np.mean(alone.predict(X)[pool] == truth[pool])
    right = np.mean(with_pool.predict(X)[pool] == truth[pool])
    assert right_alone < 0.85
    assert right > 0.95


def test_the_best_of_all_labellings():
    """Of a pool so small that every labelling can be tried."""
    corpus = drawn(seed=3, n_documents=60)
    documents, y = binary(corpus)
    rows = np.append(np.flatnonzero(y), np.flatnonzero(y == 0)[:10])
    documents, y = documents.take(rows), y[rows]
    pool = np.flatnonzero(y == 0)
    found = transduce(documents, y, 4, 1.0, 1e-8, 10_000)
    objectives = {}
    for inside in combinations(pool.tolist(), 4):
        signs = np.where(y == 0, -1.0, y)
        signs[list(inside)] = 1.0
        ones = np.ones(len(y))
        w, score, _, _ = train(*documents, signs, ones, np.zeros(len(y)), HINGE, 1e-8, 10_000)
        objectives[inside] = _objective(w, score, signs, ones)
    best = min(objectives, key=lambda inside: objectives[inside])
    assert tuple(np.flatnonzero((found.y > 0) & (y == 0))) == best
    assert found.trace[-1][-1] == pytest.approx(objectives[best], rel=1e-6)


@pytest.mark.parametrize("tol", [0.1, 1e-3])
@pytest.mark.parametrize("n_positive", [20, 98, 200])
def test_switching_never_raises_the_objective(corpus, n_positive, tol):
    documents, y = binary(corpus)
    found = transduce(documents, y, n_positive, 1.0, tol, 1000)
    assert sum(len(objectives) - 1 for objectives in found.trace) >= 3
    for objectives in found.trace:
        assert (np.diff(objectives) < 0).all()
    ones = np.ones(len(y))  # in the end all slack costs the same
    last = _objective(found.w, documents.score(found.w), found.y, ones)
    assert found.trace[-1][-1] == pytest.approx(last, rel=1e-12)
    assert not len(_to_switch(found.y, documents.score(found.w), np.flatnonzero(y == 0)))


def test_the_cost_of_slack_doubles_until_it_is_that_of_labelled_documents(corpus):
    documents, y = binary(corpus)
    n = int((y == 0).sum())
    for n_positive, doublings in (
        (n // 2, np.log2(1e5)),
        (10, np.log2(1e5 * (n - 10) / 10)),  # C*₊ starts lower where few are in the class
        (n, np.log2(1e5)),
        (0, np.log2(1e5)),
    ):
        found = transduce(documents, y, n_positive, 2.0, 1e-2, 1000)
        assert len(found.trace) == 1 + int(np.ceil(doublings))


def test_pairs_that_change_sides():
    pool = np.array([1, 2, 3, 4, 5])
    y = np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    score = np.array([-9.0, 0.5, -0.5, 0.0, 0.9, -2.0])
    # Slacks of 1 and 2: 0.5, 1.5; of 3, 4 and 5: 1, 1.9, none. 2 and 4 make 3.4; 1 and 3 only 1.5.
    np.testing.assert_array_equal(_to_switch(y, score, pool), [2, 4])
    # A document beyond the margin stays, however high one of the other side scores.
    score = np.array([-9.0, 1.1, 1.2, 5.0, -3.0, -4.0])
    assert not len(_to_switch(y, score, pool))


def test_every_pair_that_changes_sides_costs_less_afterwards():
    rng = np.random.default_rng(0)
    pool = np.arange(40)
    n_pairs = 0
    for _ in range(50):
        y = np.where(rng.random(40) < 0.4, 1.0, -1.0)
        score = rng.normal(0, 1.5, 40)
        cost_of = dict(zip((1.0, -1.0), rng.random(2)))
        moved = _to_switch(y, score, pool)
        for inside, outside in zip(*np.split(moved, 2)):
            assert (y[inside], y[outside]) == (1.0, -1.0)

            def cost(signs, pair=(inside, outside), score=score, cost_of=cost_of):
                return sum(
                    cost_of[sign] * max(0.0, 1 - sign * score[i]) for sign, i in zip(signs, pair)
                )

            assert cost((-1.0, 1.0)) < cost((1.0, -1.0))
            n_pairs += 1
    assert n_pairs > 100


@pytest.mark.parametrize("n_positive", [0, 1, 50, 290, 291])
def test_as_many_are_in_the_class_as_was_said(corpus, n_positive):
    documents, y = binary(corpus)
    found = transduce(documents, y, n_positive, 1.0, 1e-3, 1000)
    assert (found.y[y == 0] > 0).sum() == n_positive
    np.testing.assert_array_equal(found.y[y != 0], y[y != 0])


def test_shares_of_the_pool(corpus):
    X, truth, y, _ = corpus
    y = y.copy()
    more = np.flatnonzero(truth == "a")[N_LABELLED : N_LABELLED + 3]
    y[more] = "a"  # 6 of 12 labelled documents, 288 left
    assert TransductiveSVM().fit(X, y).n_positive_.tolist() == [144, 72, 72]
    assert TransductiveSVM(positive="uniform").fit(X, y).n_positive_.tolist() == [96, 96, 96]
    given = TransductiveSVM(positive=[0.25, 0.0, 1.0]).fit(X, y)
    assert given.n_positive_.tolist() == [72, 0, 288]


def test_transduction_keeps_labels(corpus):
    X, truth, _, labelled = corpus
    wrong = np.roll(truth[labelled], 1)
    y = np.full(len(truth), None)
    y[labelled] = wrong
    model = TransductiveSVM(C=0.01).fit(X, y)
    assert (model.predict(X)[labelled] != wrong).any()
    np.testing.assert_array_equal(model.transduction_[labelled], wrong)
    pool = np.setdiff1d(np.arange(len(truth)), labelled)
    np.testing.assert_array_equal(model.transduction_[pool], model.predict(X)[pool])


def test_probabilities_are_the_softmax_of_margins(corpus, fitted):
    X = corpus[0]
    margins = fitted.class_scores(X)
    np.testing.assert_array_equal(fitted.decision_function(X), margins)
    odds = np.exp(margins)
    np.testing.assert_allclose(fitted.predict_proba(X), odds / odds.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(fitted.predict(X), fitted.classes_[margins.argmax(axis=1)])


def test_document_order_changes_no_bit(corpus, fitted):
    X, _, y, _ = corpus
    order = np.random.default_rng(0).permutation(len(y))
    shuffled = TransductiveSVM().fit(X[order], y[order])
    np.testing.assert_array_equal(shuffled.coef_, fitted.coef_)
    np.testing.assert_array_equal(shuffled.intercept_, fitted.intercept_)
    np.testing.assert_array_equal(shuffled.transduction_, fitted.transduction_[order])


def test_threads_change_no_bit(corpus, fitted):
    X, _, y, _ = corpus
    for n in (1, 3):
        with limited(n):
            np.testing.assert_array_equal(TransductiveSVM().fit(X, y).coef_, fitted.coef_)


def test_integers_and_nodes_of_a_tree_are_labels_too(corpus, fitted):
    X, _, y, _ = corpus
    numbers = np.array([-1 if label is None else "abc".index(label) for label in y])
    np.testing.assert_array_equal(TransductiveSVM().fit(X, numbers).coef_, fitted.coef_)
    tree = Taxonomy.from_paths(["c", "b", "a"])
    on_tree = TransductiveSVM(tree, nodes="leaves").fit(X, y)
    np.testing.assert_array_equal(on_tree.coef_, fitted.coef_)
    np.testing.assert_array_equal(on_tree.predict(X), fitted.predict(X))


# Several labels


def test_a_document_with_several_labels_is_in_each_class(corpus):
    X, _, y, labelled = corpus
    lists = [None if label is None else [label] for label in y]
    both = labelled[0]
    lists[both] = ["a", "c"]
    model = TransductiveSVM().fit(X, lists)
    assert model.n_positive_.tolist() == [97, 97, 129]  # 3, 3 and 4 of 9, of 291
    # Each class is a problem of its own: what the other labels are makes no difference to it.
    for label, column in (("b", 1), ("c", 2)):
        alone = [(label if label in own else "no") if own else None for own in lists]
        other = TransductiveSVM().fit(X, alone)
        one = list(other.classes_).index(label)
        np.testing.assert_array_equal(
            other.class_scores(X)[:, one], model.class_scores(X)[:, column]
        )
    assert model.transduction_[both] in ("a", "c")


def test_a_document_of_no_class_is_an_example_against_each(corpus):
    X, _, y, labelled = corpus
    none = labelled[-N_LABELLED:]  # those of c
    lists = [None if label is None else [label] for label in y]
    for i in none:
        lists[i] = []
    model = TransductiveSVM().fit(X, lists)
    assert model.classes_.tolist() == ["a", "b"]
    assert model.n_positive_.tolist() == [97, 97]  # a third each of 291
    with_c = TransductiveSVM().fit(X, y)
    np.testing.assert_array_equal(model.class_scores(X), with_c.class_scores(X)[:, :2])
    assert (model.class_scores(X)[none] < 0).all()
    # One class has what it is not.
    only = [own if own in (["a"], []) else None for own in lists]
    margins = TransductiveSVM().fit(X, only).class_scores(X)[:, 0]
    assert (margins[none] < 0).all()
    assert (margins[labelled[:N_LABELLED]] > 0).all()


def test_order_changes_no_bit_where_copies_are_of_no_class_and_unknown(corpus):
    X, _, y, labelled = corpus
    lists = [None if label is None else [label] for label in y]
    X = sparse.vstack([X, X[labelled[0]], X[labelled[0]]], format="csr")
    one, other = (TransductiveSVM().fit(X, [*lists, *two]) for two in ([[], None], [None, []]))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)


def test_several_labels_without_a_pool_are_linear_svcs(corpus):
    X, truth, _, _ = corpus
    X = X[:60]
    lists = [[label, "even"] if i % 2 == 0 else [label] for i, label in enumerate(truth[:60])]
    model = TransductiveSVM(tol=1e-9, max_iter=10_000).fit(X, lists)
    vectors = LogTfIdf().fit_transform(X)
    assert model.classes_.tolist() == ["a", "b", "c", "even"]
    for column, label in enumerate(model.classes_):
        reference = LinearSVC(loss="hinge", tol=1e-9, max_iter=1_000_000, random_state=0)
        reference.fit(vectors, [label in own for own in lists])
        np.testing.assert_allclose(
            model.class_scores(X)[:, column], reference.decision_function(vectors), atol=1e-4
        )


# Edges


def test_a_class_without_a_labelled_document_has_no_machine(corpus, fitted):
    X, _, y, _ = corpus
    model = TransductiveSVM(Taxonomy.from_paths(["a", "b", "c", "none"])).fit(X, y)
    assert model.classes_.tolist() == ["/", "a", "b", "c", "none"]
    margins = model.class_scores(X)
    assert (margins[:, [0, 4]] == -np.inf).all()
    np.testing.assert_array_equal(margins[:, 1:4], fitted.class_scores(X))
    proba = model.predict_proba(X)
    np.testing.assert_array_equal(proba[:, [0, 4]], 0)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(model.n_positive_, [0, 97, 97, 97, 0])
    uniform = TransductiveSVM(model.taxonomy, positive="uniform").fit(X, y)
    assert uniform.n_positive_[[1, 2, 3]].tolist() == [97, 97, 97]


@pytest.mark.parametrize("n_labelled", [1, 4, 6])
def test_one_class_only(n_labelled):
    X = sparse.csr_matrix(np.eye(6, 4, dtype=int) + 1)
    y = ["a"] * n_labelled + [None] * (6 - n_labelled)
    model = TransductiveSVM().fit(X, y)
    assert model.predict(X).tolist() == ["a"] * 6
    assert model.transduction_.tolist() == ["a"] * 6
    assert model.n_positive_.tolist() == [6 - n_labelled]
    np.testing.assert_allclose(model.predict_proba(X), 1)
    assert (model.class_scores(X) > 0).all()


def test_documents_without_a_word_have_the_intercept(corpus):
    X, _, y, _ = corpus
    X = sparse.vstack([X, sparse.csr_matrix((4, X.shape[1]), dtype=X.dtype)], format="csr")
    y = [*y, "b", None, None, None]
    model = TransductiveSVM().fit(X, y)
    np.testing.assert_array_equal(model.class_scores(X)[-4:], np.tile(model.intercept_, (4, 1)))
    assert model.transduction_[-4] == "b"
    assert np.isfinite(model.coef_).all()


def test_documents_without_any_word_that_tells_classes_apart():
    X = sparse.csr_matrix([[1, 2], [1, 2], [1, 2], [1, 2]])
    model = TransductiveSVM().fit(X, ["a", "b", "b", None])
    np.testing.assert_array_equal(model.coef_, 0)
    assert model.predict(X).tolist() == ["b"] * 4


def test_what_cannot_be_learned_from(corpus):
    X, _, y, _ = corpus
    tree = Taxonomy.from_paths(["a", "b", "c"])
    with pytest.raises(ValueError, match="No document has a label, so there is nothing to learn"):
        TransductiveSVM(tree).fit(X, [None] * X.shape[0])
    with pytest.raises(ValueError, match="No document has a label, so there is nothing to learn"):
        TransductiveSVM(tree).fit(X, [[]] * X.shape[0])
    with pytest.raises(ValueError, match="Found input variables with inconsistent numbers"):
        TransductiveSVM().fit(X, y[:5])
    with pytest.raises(ValueError, match="Negative values in data passed to TransductiveSVM"):
        TransductiveSVM().fit(-X, y)
    with pytest.raises(ValueError, match="TransductiveSVM takes word counts, got texts"):
        TransductiveSVM().fit(["a text", "another"], ["a", "b"])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"C": 0}, "C=0: expected a number above 0"),
        ({"C": "1"}, "C='1': expected a number above 0"),
        ({"C": np.inf}, "C=inf: expected a number above 0"),
        ({"tol": -1e-3}, r"tol=-0\.001: expected a number above 0"),
        ({"max_iter": 0}, "max_iter=0: expected a number of passes, 1 or more"),
        ({"max_iter": 2.5}, r"max_iter=2\.5: expected a number of passes, 1 or more"),
        ({"positive": "half"}, 'positive=\'half\': expected "labels", "uniform" or a share'),
        ({"positive": [0.5, 0.5]}, r"positive has shape \(2,\), expected one number for each of"),
        ({"positive": [0.5, 0.6, 1.1]}, "positive has numbers below 0 or above 1: expected a"),
        ({"positive": [0.5, -0.1, 0.1]}, "positive has numbers below 0 or above 1: expected a"),
        ({"positive": [0.5, np.nan, 0.1]}, "positive has numbers below 0 or above 1: expected a"),
    ],
)
def test_settings_without_a_meaning(corpus, setting, message):
    X, _, y, _ = corpus
    with pytest.raises(ValueError, match=message):
        TransductiveSVM(**setting).fit(X, y)


def test_too_few_passes_are_told(corpus):
    X, _, y, _ = corpus
    with pytest.warns(ConvergenceWarning, match="max_iter=1 passes were not enough to come within"):
        TransductiveSVM(max_iter=1, tol=1e-6).fit(X, y)


def test_restored_from_what_is_learned(corpus, fitted):
    X = corpus[0]
    other = TransductiveSVM()
    for name in TransductiveSVM._learned:
        if hasattr(fitted, name):
            setattr(other, name, getattr(fitted, name))
    other._restore()
    np.testing.assert_array_equal(other.predict_proba(X), fitted.predict_proba(X))
    damaged = {
        "coef_": (fitted.coef_[:, 1:], "weights do not fit the classes and words"),
        "intercept_": (np.full(3, -np.inf), "weights are no numbers"),
        "idf_": (fitted.idf_ * np.nan, "weights are no numbers"),
        "transduction_": (np.array(["d"]), "a document is in no class"),
    }
    for name, (value, message) in damaged.items():
        setattr(other, name, value)
        with pytest.raises(ValueError, match=message):
            other._restore()
        setattr(other, name, getattr(fitted, name))
