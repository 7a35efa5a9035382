"""Which documents to label next: known by construction, and true of every strategy."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

from leafwise.models import _query as query
from leafwise.models._query import STRATEGIES, choose


def unit(rows) -> sparse.csr_matrix:
    return normalize(sparse.csr_matrix(np.asarray(rows, float)))


def sure(p) -> np.ndarray:
    """Probabilities of two classes from that of the first."""
    p = np.asarray(p, float)
    return np.column_stack([p, 1 - p])


def drawn(n: int = 300, n_words: int = 400, n_classes: int = 5, length: int = 12, seed: int = 0):
    """Documents of random words, a tenth with labels, the last two without words."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n - 2), length)
    words = (n_words * rng.random(len(rows)) ** 2).astype(int)
    counts = sparse.csr_matrix((rng.random(len(rows)), (rows, words)), (n, n_words))
    labelled = rng.random(n) < 0.1
    labelled[-2:] = False
    proba = rng.dirichlet(np.full(n_classes, 0.5), n)
    evidence = np.bincount(proba[labelled].argmax(axis=1), minlength=n_classes)
    return proba, normalize(counts), labelled, evidence


def topics(sizes, width: int = 6, seed: int = 0) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Documents about some topics that share no word; cosines within one are about .5."""
    rng = np.random.default_rng(seed)
    topic = np.repeat(np.arange(len(sizes)), sizes)
    rows = rng.random((len(topic), 2 * width * len(sizes))) < 0.5
    columns = np.arange(rows.shape[1]) // (2 * width)
    rows &= columns == topic[:, None]
    rows[np.arange(len(topic)), 2 * width * topic] = True  # each has a word of its topic
    return unit(rows), topic


def test_uncertain_documents_have_two_nodes_that_are_nearly_as_likely():
    proba = np.array([[0.5, 0.1, 0.4], [0.4, 0.3, 0.3], [0.45, 0.1, 0.45], [0.9, 0.1, 0.0]])
    chosen = choose(3, "uncertainty", proba, unit(np.eye(4)), np.zeros(4, bool), np.zeros(3))
    assert chosen.tolist()[0] == 2
    assert sorted(chosen.tolist()[1:]) == [0, 1]  # margins of .1 each
    labelled = np.array([False, False, True, False])
    assert 2 not in choose(3, "uncertainty", proba, unit(np.eye(4)), labelled, np.zeros(3))


def test_a_single_class_is_no_doubt():
    chosen = choose(2, "mix", np.ones((3, 1)), unit(np.eye(3)), np.zeros(3, bool), np.zeros(1))
    assert len(set(chosen.tolist())) == 2


def test_diversity_takes_the_largest_topics_first_and_none_twice():
    V, topic = topics([40, 10, 20, 5])
    labelled = np.zeros(len(topic), bool)
    chosen = choose(4, "diversity", sure(np.full(75, 0.9)), V, labelled, np.zeros(2))
    assert topic[chosen].tolist() == [0, 2, 1, 3]


def test_diversity_leaves_out_what_is_already_labelled():
    V, topic = topics([40, 10, 20, 5])
    labelled = topic == 0
    labelled[:5] = False
    chosen = choose(3, "diversity", sure(np.full(75, 0.9)), V, labelled, np.zeros(2))
    assert topic[chosen].tolist() == [2, 1, 3]


def test_diversity_takes_the_middle_of_a_star():
    # The first document has a word of each other; these have nothing in common.
    rows = np.zeros((6, 10))
    rows[0, :5] = 1
    rows[np.arange(1, 6), np.arange(5)] = 1
    rows[np.arange(1, 6), np.arange(5, 10)] = 1
    chosen = choose(1, "diversity", sure(np.full(6, 0.5)), unit(rows), np.zeros(6, bool), [0, 0])
    assert chosen.tolist() == [0]


def test_mix_goes_where_many_may_be_wrong():
    V, topic = topics([40, 10, 20, 5])
    doubt = np.array([0.01, 0.4, 0.3, 0.1])  # times the size: .4, 4, 6, .5
    proba = sure(1 - doubt[topic])
    chosen = choose(4, "mix", proba, V, np.zeros(len(topic), bool), np.ones(2))
    assert topic[chosen[:2]].tolist() == [2, 1]


def test_mix_prefers_many_in_some_doubt_to_one_in_much():
    V, topic = topics([1, 10])
    proba = sure(np.where(topic == 0, 0.5, 0.7))
    none = np.zeros(11, bool)
    assert topic[choose(2, "mix", proba, V, none, np.ones(2))].tolist() == [1, 0]
    assert topic[choose(2, "uncertainty", proba, V, none, np.ones(2))].tolist() == [0, 1]


def test_mix_serves_nodes_without_evidence_first():
    proba, V, labelled, _ = drawn(n_classes=20)
    evidence = np.arange(20) % 2
    chosen = choose(15, "mix", proba, V, labelled, evidence)
    assert chosen[:10].tolist() == choose(10, "coverage", proba, V, labelled, evidence).tolist()
    # The rest is what would be chosen if these were labelled.
    labelled[chosen[:10]] = True
    rest = choose(5, "mix", proba, V, labelled, np.ones(20))
    assert chosen[10:].tolist() == rest.tolist()


@pytest.mark.parametrize("strategy", ["mix", "diversity"])
def test_greedy_choice_is_that_of_a_plain_loop(strategy):
    proba, V, labelled, evidence = drawn(120, n_words=60)
    doubt = 1 - proba.max(axis=1) if strategy == "mix" else np.ones(len(proba))
    doubt = np.where(labelled, 0.0, doubt)
    cosine = (V @ V.T).toarray()
    near = cosine[labelled].max(axis=0)
    expected: list[int] = []
    k = query._K
    for _ in range(15):
        gains = {}
        for i in np.flatnonzero(~labelled):
            others = np.where(labelled, 0.0, cosine[i])
            nearest = np.argsort(-others)[:k]
            gains[i] = (doubt * np.maximum(cosine[i] - near, 0))[nearest].sum()
        allowed = [i for i in gains if near[i] <= query._ALIKE and V[[i]].nnz]
        expected.append(max(allowed, key=gains.__getitem__))
        near = np.maximum(near, cosine[expected[-1]])
    assert choose(15, strategy, proba, V, labelled, evidence).tolist() == expected


def test_coverage_serves_nodes_without_labels_first_then_those_with_fewest():
    proba = np.array(
        [
            [0.9, 0.1, 0.0, 0.0],
            [0.8, 0.0, 0.2, 0.0],
            [0.6, 0.0, 0.1, 0.3],
            [0.7, 0.3, 0.0, 0.0],
            [0.1, 0.0, 0.0, 0.9],
        ]
    )
    V, labelled = unit(np.eye(5)), np.zeros(5, bool)
    # The classes 1 and 2 have no label: their likeliest documents are 3 and 1; of 3, then, 4.
    assert choose(3, "coverage", proba, V, labelled, [5, 0, 0, 1]).tolist() == [3, 1, 4]
    # What is chosen counts as a label: 1 and 2 then have one each, and .3 is surer than .2.
    assert choose(4, "coverage", proba, V, labelled, [5, 0, 0, 1]).tolist()[3] == 0
    labelled[3] = True
    assert choose(2, "coverage", proba, V, labelled, [5, 0, 0, 1]).tolist() == [1, 0]


def test_coverage_finds_each_empty_node():
    proba, V, labelled, _ = drawn(n_classes=20)
    evidence = np.arange(20) % 2 * 3  # every other class is empty
    chosen = choose(10, "coverage", proba, V, labelled, evidence)
    open_ = ~labelled & (np.diff(V.indptr) > 0)
    assert set(chosen) <= set(np.flatnonzero(open_))
    for column in range(0, 20, 2):  # its likeliest: no other class has the same here
        assert np.where(open_, proba[:, column], 0).argmax() in chosen


def test_random_is_seeded():
    data = drawn()
    one = choose(20, "random", *data, random_state=1)
    assert np.array_equal(one, choose(20, "random", *data, random_state=1))
    assert not np.array_equal(one, choose(20, "random", *data, random_state=2))


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestEveryStrategy:
    def test_never_a_labelled_document_and_none_twice(self, strategy):
        data = drawn()
        chosen = choose(60, strategy, *data)
        assert len(set(chosen.tolist())) == 60
        assert not data[2][chosen].any()

    @pytest.mark.parametrize("n", [1, 7, 250, 10_000])
    def test_sizes(self, strategy, n):
        data = drawn()
        assert len(choose(n, strategy, *data)) == min(n, (~data[2]).sum())

    def test_the_first_few_are_those_of_a_larger_batch(self, strategy):
        data = drawn()
        few, many = choose(8, strategy, *data), choose(40, strategy, *data)
        assert few.tolist() == many[:8].tolist()

    def test_documents_without_words_are_last(self, strategy):
        data = drawn()
        everyone = choose(300, strategy, *data)
        assert set(everyone[-2:].tolist()) == {298, 299}

    def test_order_of_documents_changes_nothing(self, strategy):
        proba, V, labelled, evidence = drawn()
        shuffled = np.random.default_rng(1).permutation(len(proba))
        again = choose(50, strategy, proba[shuffled], V[shuffled], labelled[shuffled], evidence)
        assert (
            choose(50, strategy, proba, V, labelled, evidence).tolist() == shuffled[again].tolist()
        )

    def test_identical_documents_change_places_only_with_each_other(self, strategy):
        proba, V, labelled, evidence = drawn()
        twice = np.arange(600) % 300
        proba, V, labelled = proba[twice], sparse.csr_matrix(V[twice]), labelled[twice]
        shuffled = np.random.default_rng(1).permutation(600)
        one = choose(50, strategy, proba, V, labelled, evidence)
        other = choose(50, strategy, proba[shuffled], V[shuffled], labelled[shuffled], evidence)
        assert twice[one].tolist() == twice[shuffled[other]].tolist()

    def test_nothing_is_changed(self, strategy):
        data = drawn()
        before = [part.copy() for part in data]
        choose(50, strategy, *data)
        assert abs(data[1] - before[1]).nnz == 0
        for now, then in zip((data[0], *data[2:]), (before[0], *before[2:])):
            assert np.array_equal(now, then)

    def test_no_document_is_left(self, strategy):
        proba, V, labelled, evidence = drawn()
        assert choose(5, strategy, proba, V, np.ones_like(labelled), evidence).tolist() == []

    def test_no_label_at_all_and_no_words_at_all(self, strategy):
        proba, V, labelled, evidence = drawn()
        none = np.zeros_like(labelled)
        assert len(choose(5, strategy, proba, V, none, 0 * evidence)) == 5
        assert len(choose(5, strategy, proba, sparse.csr_matrix(V.shape), none, evidence)) == 5


@pytest.mark.parametrize("strategy", ["mix", "diversity"])
class TestNearDuplicates:
    def test_none_in_a_batch_while_there_are_others(self, strategy):
        proba, V, labelled, evidence = drawn(100)
        rng = np.random.default_rng(2)
        copies = V[np.repeat(np.arange(100), 5)]
        copies.data = copies.data * (1 + 0.1 * rng.random(copies.nnz))
        V, many = normalize(copies), np.repeat(labelled, 5)
        chosen = choose(30, strategy, np.repeat(proba, 5, axis=0), V, many, evidence)
        cosine = (V[chosen] @ V[chosen].T).toarray() - np.eye(30)
        assert cosine.max() <= query._ALIKE
        assert (V[chosen] @ V[many].T).max() <= query._ALIKE

    def test_they_wait_until_nothing_else_is_left(self, strategy):
        V = unit([[1, 0], [1, 0.01], [1, 0.02], [0, 1]])
        chosen = choose(4, strategy, sure(np.full(4, 0.6)), V, np.zeros(4, bool), np.zeros(2))
        assert sorted(chosen.tolist()) == [0, 1, 2, 3]
        assert 3 in chosen[:2]

    def test_many_copies_do_not_fill_the_candidates(self, strategy, monkeypatch):
        monkeypatch.setattr(query, "_CANDIDATES", 20)
        copies = np.zeros((60, 10))
        copies[:50, 0] = 1  # the most wanted fifty are the same
        copies[np.arange(50, 60), np.arange(10)] = 1
        copies[np.arange(50, 60), (np.arange(10) + 1) % 10] = 0.5
        V = unit(copies)
        chosen = choose(8, strategy, sure(np.full(60, 0.6)), V, np.zeros(60, bool), np.zeros(2))
        assert (chosen < 50).sum() == 1


@pytest.mark.parametrize("n", [0, -1, 2.5, True, None])
def test_no_number_of_documents(n):
    with pytest.raises(ValueError, match=r"^n=.*: expected a number of documents of at least 1\.$"):
        choose(n, "mix", *drawn())


def test_unknown_strategy():
    with pytest.raises(
        ValueError, match=r"^strategy='x': expected one of \('mix', 'uncertainty', "
    ):
        choose(1, "x", *drawn())


@pytest.mark.parametrize("strategy", ["mix", "diversity"])
def test_blocks_change_nothing_and_candidates_little(strategy, monkeypatch):
    data = drawn(2000, n_words=1000)
    proba, V = data[:2]
    doubt = 1 - proba.max(axis=1) if strategy == "mix" else np.ones(len(proba))
    whole = choose(20, strategy, *data)
    monkeypatch.setattr(query, "_BLOCK", 64)
    assert np.array_equal(whole, choose(20, strategy, *data))
    monkeypatch.setattr(query, "_CANDIDATES", 500)
    some = choose(20, strategy, *data)
    best, good = (doubt @ (V @ V[rows].T).toarray().max(axis=1) for rows in (whole, some))
    assert good > 0.9 * best


def test_many_documents_need_no_square_matrix():
    data = drawn(20_000, n_words=5_000, n_classes=20, length=30)
    tracemalloc.start()
    for strategy in STRATEGIES:
        assert len(choose(100, strategy, *data)) == 100
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000**2 / 2
