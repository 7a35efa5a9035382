"""The pachinko machine: against slow descents, and against its estimator on a flat tree."""

import copy

import numpy as np
import pytest
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import leafwise
from leafwise.exceptions import ModelFileError
from leafwise.models.naive_bayes import NaiveBayes
from leafwise.models.pachinko import PachinkoMachine
from leafwise.selection import InformationGain
from leafwise.synthetic import make_corpus
from leafwise.taxonomy import Taxonomy

TREE = Taxonomy.from_dict(
    {
        "a": {"x": None, "y": {"deep": None, "deeper": None}, "never": {"at": None, "all": None}},
        "b": {"only": {"u": None, "v": None}},
        "c": None,
        "none": None,
    }
)
HOLDS = ["a", "a/x", "a/y/deep", "a/y/deeper", "b/only/u", "b/only/v", "c"]


@pytest.fixture(scope="module")
def corpus():
    """Short documents that are easily confused; one inner node holds some."""
    prior = np.isin(TREE.paths, HOLDS) / len(HOLDS)
    return make_corpus(
        TREE, 700, 200, 12, concentration=30.0, class_prior=prior, random_state=0
    )  # fmt: skip


def split(corpus):
    half = len(corpus) // 2
    return corpus.X[:half], corpus.labels[:half], corpus.X[half:], corpus.labels[half:]


def slow_decisions(X, labels, node="/"):
    """The classifier at each inner node, by path: NaiveBayes among the names of the ways."""
    inside = [i for i, label in enumerate(labels) if node == "/" or _below(label, node)]
    ways = []
    for i in inside:
        rest = labels[i] if node == "/" else labels[i][len(node) + 1 :]
        ways.append(rest.split("/")[0] or "(stay)")
    decisions = {node: NaiveBayes().fit(X[inside], ways)}
    for way in sorted(set(ways) - {"(stay)"}):
        child = way if node == "/" else f"{node}/{way}"
        if any(_below(label, child) and label != child for label in labels):
            decisions |= slow_decisions(X, labels, child)
    return decisions


def _below(label, node):
    return label == node or label.startswith(f"{node}/")


def slow_steps(decisions, document, node="/"):
    """Yield (way, node that it leads to, probability)."""
    model = decisions[node]
    for way, p in zip(model.classes_, model.predict_proba(document)[0]):
        above = "" if node == "/" else f"{node}/"
        yield way, node if way == "(stay)" else above + str(way), p


def slow_product(decisions, document, node="/", p_node=1.0):
    """P(node | document) of each node that can be reached."""
    if node not in decisions:
        return {node: p_node}
    found = {}
    for way, child, p in slow_steps(decisions, document, node):
        if way == "(stay)":
            found[node] = p_node * p
        else:
            found |= slow_product(decisions, document, child, p_node * p)
    return found


def slow_walk(decisions, document):
    node = "/"
    while node in decisions:
        way, child, _ = max(slow_steps(decisions, document, node), key=lambda step: step[2])
        if way == "(stay)":
            return node
        node = child
    return node


@pytest.mark.parametrize("flat", [None, Taxonomy.from_paths(["p", "q", "r", "empty"])])
@pytest.mark.parametrize("greedy", [True, False])
def test_on_a_flat_tree_it_is_its_estimator(flat, greedy):
    rng = np.random.default_rng(0)
    X = sparse.csr_matrix(rng.poisson(0.4, (90, 30)))
    y = [["pqr"[k] for k in rng.choice(3, rng.integers(0, 3), replace=False)] for _ in range(90)]
    weight = rng.integers(1, 4, 90)
    machine = PachinkoMachine(flat, greedy=greedy).fit(X, y, sample_weight=weight)
    bayes = NaiveBayes(flat).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(machine.classes_, bayes.classes_)
    np.testing.assert_allclose(machine.predict_proba(X), bayes.predict_proba(X), rtol=1e-6)
    np.testing.assert_array_equal(machine.predict(X), bayes.predict(X))
    if not greedy:
        np.testing.assert_allclose(machine.predict_proba(X), bayes.predict_proba(X), rtol=1e-12)


def test_ties_are_broken_as_the_flat_estimator_breaks_them():
    """Labels in the order of numbers, not of their text: 9 stands before 10."""
    X, y = np.eye(3, dtype=int), [10, 9, 11]
    unknown = np.zeros((1, 3), int)
    for greedy in (True, False):
        assert PachinkoMachine(greedy=greedy).fit(X, y).predict(unknown).tolist() == [9]
    assert NaiveBayes().fit(X, y).predict(unknown).tolist() == [9]


def test_probabilities_are_the_product_of_the_decisions(corpus):
    X, y, unseen, _ = split(corpus)
    decisions = slow_decisions(X, y)
    machine = PachinkoMachine(TREE, greedy=False).fit(X, y)
    proba = machine.predict_proba(unseen[:40])
    for document, row in zip(unseen[:40], proba):
        expected = slow_product(decisions, document)
        expected = [expected.get(path, 0.0) for path in machine.classes_]
        np.testing.assert_allclose(row, expected, rtol=1e-9, atol=1e-15)
    reached = [path for path, p in zip(machine.classes_, proba.max(axis=0)) if p > 0]
    assert reached == sorted(HOLDS)
    best = machine.classes_[np.argmax(proba, axis=1)]
    np.testing.assert_array_equal(machine.predict(unseen[:40]), best)


def test_greedy_follows_the_best_way_at_each_node(corpus):
    X, y, unseen, _ = split(corpus)
    decisions = slow_decisions(X, y)
    machine = PachinkoMachine(TREE).fit(X, y)
    walked = [slow_walk(decisions, document) for document in unseen]
    predicted = machine.predict(unseen)
    assert predicted.tolist() == walked
    assert (predicted != PachinkoMachine(TREE, greedy=False).fit(X, y).predict(unseen)).any()


def test_greedy_probabilities_are_products_held_below_the_end(corpus):
    X, y, unseen, _ = split(corpus)
    greedy = PachinkoMachine(TREE).fit(X, y)
    product = PachinkoMachine(TREE, greedy=False).fit(X, y).predict_proba(unseen)
    proba = greedy.predict_proba(unseen)
    np.testing.assert_array_equal(greedy.predict(unseen), greedy.classes_[proba.argmax(axis=1)])
    np.testing.assert_array_equal(greedy.predict(unseen), greedy.top_k(unseen, 1)[0].ravel())
    n_held = 0
    for k, end in enumerate(np.searchsorted(greedy.classes_, greedy.predict(unseen))):
        expected = np.minimum(product[k], product[k, end])
        n_held += expected.sum() < 1 - 1e-6
        np.testing.assert_allclose(proba[k], expected / expected.sum(), rtol=1e-6, atol=1e-12)
    assert 0 < n_held < len(proba) / 2


def test_decisions_are_those_that_documents_took(corpus):
    machine = PachinkoMachine(TREE).fit(corpus.X, corpus.labels)
    ways = {
        TREE.paths[i]: [TREE.paths[j] for j in outcomes]
        for i, outcomes in zip(machine.inner_nodes_, machine.outcomes_)
    }
    assert ways == {
        "/": ["a", "b", "c"],  # none went to "none", none stayed
        "a": ["a", "a/x", "a/y"],  # some stayed, none went to a/never
        "a/y": ["a/y/deep", "a/y/deeper"],
        "b": ["b/only"],
        "b/only": ["b/only/u", "b/only/v"],
    }
    decided = dict(zip(ways, machine.estimators_))
    assert [path for path, estimator in decided.items() if estimator is None] == ["b"]
    assert all(isinstance(e, NaiveBayes) for e in decided.values() if e is not None)


def test_learns_about_as_well_as_naive_bayes(corpus):
    X, y, unseen, truth = split(corpus)
    flat = NaiveBayes(TREE).fit(X, y).score(unseen, truth)
    for machine in (PachinkoMachine(TREE), PachinkoMachine(TREE, greedy=False)):
        assert machine.fit(X, y).score(unseen, truth) > flat - 0.05 > 0.5


def test_each_decision_has_words_of_its_own():
    """Few words suffice at each node, and they are not the same ones (Koller and Sahami 1997)."""
    corpus = make_corpus(n_documents=2000, n_words=500, concentration=20.0, random_state=1)
    X, y, unseen, truth = split(corpus)
    machine = PachinkoMachine(corpus.taxonomy, n_words=60).fit(X, y)
    assert len(machine.words_) == 4
    assert len({tuple(words) for words in machine.words_}) == 4
    assert {len(words) for words in machine.words_} == {60}
    in_a = [i for i, label in enumerate(y) if label.startswith("a/")]
    at_a = machine.inner_nodes_.tolist().index(corpus.taxonomy.index("a"))
    selected = InformationGain(60).fit(X[in_a], [y[i] for i in in_a]).get_support(indices=True)
    np.testing.assert_array_equal(machine.words_[at_a], selected)
    all_words = PachinkoMachine(corpus.taxonomy).fit(X, y)
    assert all_words.words_ == [None] * 4
    assert machine.score(unseen, truth) > all_words.score(unseen, truth) - 0.05 > 0.8


def test_documents_without_words_have_the_shares_of_documents(corpus):
    """Decision by decision the shares multiply to that of the documents at each node."""
    machine = PachinkoMachine(TREE, greedy=False, n_words=50).fit(corpus.X, corpus.labels)
    share = [np.mean(np.array(corpus.labels) == path) for path in machine.classes_]
    silent = np.zeros((1, corpus.X.shape[1]))
    np.testing.assert_allclose(machine.predict_proba(silent)[0], share, rtol=1e-9)


def test_a_word_new_to_a_decision_speaks_for_the_way_with_fewer_words():
    X = np.array([[2, 1, 0], [2, 9, 0]])
    machine = PachinkoMachine().fit(X, ["few", "many"])
    few, many = machine.predict_proba([[0, 0, 1]])[0]
    assert few > many


def test_documents_without_known_words_follow_the_priors():
    X = np.array([[2, 0, 0, 0], [0, 2, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0]])
    y = ["a/x", "b/only/u", "b/only/u", "b/only/v"]
    machine = PachinkoMachine(TREE, greedy=False).fit(X, y)
    proba = dict(zip(machine.classes_, machine.predict_proba(np.zeros((1, 4)))[0]))
    assert {path: p for path, p in proba.items() if p} == pytest.approx(
        {"a/x": 1 / 4, "b/only/u": 3 / 4 * 2 / 3, "b/only/v": 3 / 4 * 1 / 3}
    )
    assert machine.set_params(greedy=True).predict(np.zeros((1, 4))) == ["b/only/u"]


def test_all_documents_at_one_node():
    machine = PachinkoMachine(TREE).fit(np.eye(2), ["b/only/u"] * 2)
    assert machine.estimators_ == [None] * 3
    assert machine.predict(np.eye(2)).tolist() == ["b/only/u"] * 2
    assert machine.predict_proba(np.eye(2)).max(axis=1).tolist() == [1, 1]
    root = PachinkoMachine(Taxonomy([""], [-1])).fit(np.eye(2), ["/", "/"])
    assert root.predict(np.eye(2)).tolist() == ["/", "/"]


@pytest.mark.parametrize("greedy", [True, False])
def test_several_labels_are_fractions_of_a_document(corpus, greedy):
    """A document with m labels is m documents of weight 1/m; without labels it is nothing."""
    X, y = corpus.X[:200], [[label] for label in corpus.labels[:200]]
    for i in range(40):
        y[i] = [HOLDS[i % 7], HOLDS[(i + 1) % 7], HOLDS[(i + 3) % 7]][: i % 4]
    rows = np.repeat(np.arange(200), [len(several) for several in y])
    weight = np.array([1 / len(y[i]) for i in rows])
    # λ is given: a held-out one leaves out occurrences, and those of half documents weigh half.
    settings = {"estimator": NaiveBayes(alpha=0.1), "greedy": greedy, "n_words": 150}
    apart = PachinkoMachine(TREE, **settings).fit(
        X[rows], [label for several in y for label in several], sample_weight=weight
    )
    machine = PachinkoMachine(TREE, **settings).fit(X, y)
    unseen = corpus.X[200:300]
    np.testing.assert_allclose(machine.predict_proba(unseen), apart.predict_proba(unseen))
    # At the root, labels of one branch are one way: the fractions add up there.
    at_root = machine.estimators_[0].document_counts_
    assert at_root.sum() == pytest.approx(sum(bool(several) for several in y))


def test_an_estimator_that_takes_no_weights_learns_each_way(corpus):
    X, y = corpus.X[:100], [[label] for label in corpus.labels[:100]]
    y[0] = ["a/x", "a/y/deep", "c"]
    knn = KNeighborsClassifier(1, metric="cosine")
    machine = PachinkoMachine(TREE, estimator=knn).fit(X, y)
    assert machine.estimators_[0].n_samples_fit_ == 101  # to a, and to c
    assert machine.estimators_[1].n_samples_fit_ == 1 + sum("a" in label[0] for label in y)
    assert set(machine.predict_proba(X).ravel()) == {0, 1}
    assert machine.score(X, y) > 0.9
    with pytest.raises(ValueError, match=r"KNeighborsClassifier.* takes no sample_weight; leave"):
        machine.fit(X, y, sample_weight=np.ones(100))


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), RandomForestClassifier(10, random_state=0), NaiveBayes(mu=10.0)],
)
def test_any_classifier_can_decide(corpus, estimator):
    X, y, unseen, truth = split(corpus)
    machine = PachinkoMachine(TREE, estimator=estimator, greedy=False).fit(X, y)
    assert {type(e) for e in machine.estimators_} == {type(estimator), type(None)}
    np.testing.assert_allclose(machine.predict_proba(unseen).sum(axis=1), 1)
    assert machine.score(unseen, truth) > 0.3
    assert not hasattr(estimator, "classes_")  # what decides is a clone


def test_only_machines_of_leafwise_estimators_are_saved(corpus, tmp_path):
    machine = PachinkoMachine(TREE).fit(corpus.X, corpus.labels)
    machine.save(tmp_path / "machine")
    loaded = leafwise.load(tmp_path / "machine")
    np.testing.assert_array_equal(loaded.predict_proba(corpus.X), machine.predict_proba(corpus.X))
    machine.set_params(estimator=KNeighborsClassifier()).fit(corpus.X, corpus.labels)
    with pytest.raises(ModelFileError, match=r"cannot be saved: .* and estimators of leafwise\."):
        machine.save(tmp_path / "other")


def test_an_estimator_without_probabilities_serves_a_greedy_machine_only(corpus):
    X, y, unseen, truth = split(corpus)
    machine = PachinkoMachine(TREE, estimator=LinearSVC()).fit(X, y)
    assert machine.score(unseen, truth) > 0.3
    proba = machine.predict_proba(unseen)
    assert set(proba.ravel()) == {0, 1}
    np.testing.assert_array_equal(machine.classes_[proba.argmax(axis=1)], machine.predict(unseen))
    message = r"LinearSVC\(\) has no predict_proba, so paths have no probability\. Use greedy=True"
    with pytest.raises(ValueError, match=message):
        machine.set_params(greedy=False).fit(X, y)


def test_only_leaves_where_only_leaves_are_asked_for():
    machine = PachinkoMachine(TREE, nodes="leaves").fit(np.eye(3), ["a/x", "b/only/u", "c"])
    assert machine.classes_.tolist() == sorted(TREE.paths[i] for i in TREE.leaves)
    assert machine.predict(np.eye(3)).tolist() == ["a/x", "b/only/u", "c"]
    with pytest.raises(ValueError, match="Label 'a' is not among the 9 classes"):
        machine.fit(np.eye(2), ["a", "c"])


def test_wrong_calls():
    with pytest.raises(ValueError, match="No document has a label and a weight, so there is"):
        PachinkoMachine(TREE).fit(np.eye(2), [None, None])
    with pytest.raises(ValueError, match="No document has a label and a weight, so there is"):
        PachinkoMachine(TREE).fit(np.eye(2), ["c", None], sample_weight=[0, 1])
    with pytest.raises(ValueError, match="n_words=0: expected a whole number of words"):
        PachinkoMachine(n_words=0).fit(np.eye(2), ["a", "b"])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        PachinkoMachine(TREE).fit(np.eye(2), ["c"])


@pytest.mark.parametrize(
    ("name", "k", "value", "message"),
    [
        ("inner_nodes_", 0, 1, "decisions do not fit the inner nodes"),
        ("inner_nodes_", 1, 2, "a decision is never met"),
        ("outcomes_", 0, np.array([1, 1, 10]), "has an outcome twice"),
        ("outcomes_", 0, np.array([1, 2, 10]), "leads elsewhere than to children"),
        ("outcomes_", 1, np.array([2]), "has no classifier, or one too many"),
        ("words_", 0, np.array([0, 1, 200]), "looks at words that are not there"),
        ("words_", 0, np.array([0, 1]), "does not fit its outcomes and words"),
        ("estimators_", 0, None, "has no classifier, or one too many"),
        ("estimators_", 0, LogisticRegression(), "does not fit its outcomes and words"),
    ],
)
def test_a_damaged_file_is_refused(corpus, name, k, value, message):
    machine = PachinkoMachine(TREE, n_words=50).fit(corpus.X, corpus.labels)
    machine._restore()
    broken = copy.deepcopy(machine)
    getattr(broken, name)[k] = value
    with pytest.raises(ValueError, match=message):
        broken._restore()


def test_a_file_whose_paths_end_at_no_class_is_refused(corpus):
    machine = PachinkoMachine(TREE).fit(corpus.X, corpus.labels)
    kept = machine.classes_ != "c"
    machine.nodes_, machine.classes_ = machine.nodes_[kept], machine.classes_[kept]
    with pytest.raises(ValueError, match="a path ends at a node that cannot be predicted"):
        machine._restore()
