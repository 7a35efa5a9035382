"""Information gain: against eq. 10 word by word, and against what is known."""

from math import log

import numpy as np
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from leafwise.models.naive_bayes import NaiveBayes
from leafwise.selection import InformationGain, information_gain
from leafwise.synthetic import make_corpus


@parametrize_with_checks([InformationGain()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def slow_gain(X, labels):
    """T eq. 10 as it is printed, with every probability from the co-occurrence matrix."""
    classes = sorted({label for several in labels for label in several})
    n_words = X.shape[1]
    met = np.zeros((len(classes), n_words))
    documents = np.zeros(len(classes))
    for d, several in enumerate(labels):
        for label in several:
            documents[classes.index(label)] += 1 / len(several)
            for w in range(n_words):
                if X[d, w] > 0:
                    met[classes.index(label), w] += 1 / len(several)
    n = documents.sum()
    gains = []
    for w in range(n_words):
        p_in = met[:, w].sum() / n
        gain = -sum(p * log(p) for p in documents / n)
        for p_event, counts in ((1 - p_in, documents - met[:, w]), (p_in, met[:, w])):
            for count in counts:
                if count > 1e-12 and p_event > 1e-12:
                    p = count / counts.sum()
                    gain += p_event * p * log(p)
        gains.append(gain)
    return np.array(gains)


def test_is_equation_10():
    corpus = make_corpus(n_documents=80, n_words=60, doc_length=20, random_state=0)
    expected = slow_gain(corpus.X.toarray(), [[label] for label in corpus.labels])
    np.testing.assert_allclose(information_gain(corpus.X, corpus.labels), expected, atol=1e-12)


def test_several_labels_share_a_document_and_none_is_passed_over():
    rng = np.random.default_rng(3)
    X = rng.poisson(0.5, (60, 30))
    X[:, 0] = 1  # in every document: no gain, however the fractions add up
    labels = [
        [f"c{k}" for k in rng.choice(5, size=rng.integers(0, 4), replace=False)] for _ in range(60)
    ]
    known = [i for i, several in enumerate(labels) if several]
    gain = information_gain(sparse.csr_matrix(X), labels)
    np.testing.assert_allclose(gain, slow_gain(X[known], [labels[i] for i in known]), atol=1e-12)
    assert gain[0] == pytest.approx(0, abs=1e-12)
    assert len(known) < 60
    assert (gain >= 0).all()
    assert (gain <= log(5)).all()


def test_closed_forms():
    y = ["a"] * 4 + ["b"] * 4
    mark = [1, 3, 1, 9, 0, 0, 0, 0]  # in every document of one class: it tells the class
    independent = [1, 1, 0, 0, 5, 0, 0, 1]
    half = [1, 1, 0, 0, 0, 0, 0, 0]  # log 2 - 6/8 H(1/3)
    never, always = [0] * 8, [1] * 8
    X = np.array([mark, independent, half, never, always]).T
    h_third = -(log(1 / 3) + 2 * log(2 / 3)) / 3
    expected = [log(2), 0, log(2) - 0.75 * h_third, 0, 0]
    np.testing.assert_allclose(information_gain(X, y), expected, atol=1e-15)


def test_a_stored_zero_is_no_occurrence():
    X = sparse.csr_matrix(
        (np.array([1.0, 0.0, 2.0]), np.array([0, 0, 1]), np.array([0, 1, 2, 3])), (3, 2)
    )
    np.testing.assert_array_equal(
        information_gain(X, ["a", "b", "b"]), information_gain(X.toarray(), ["a", "b", "b"])
    )
    assert X.nnz == 3  # what was given is left as it was


def test_documents_in_another_order_or_twice_change_nothing():
    corpus = make_corpus(n_documents=100, n_words=50, random_state=1)
    y = np.array(corpus.labels)
    order = np.random.default_rng(0).permutation(100)
    gain = information_gain(corpus.X, y)
    np.testing.assert_allclose(information_gain(corpus.X[order], y[order]), gain, atol=1e-12)
    twice = information_gain(sparse.vstack([corpus.X] * 2), np.append(y, y))
    np.testing.assert_allclose(twice, gain, atol=1e-12)


def test_keeps_the_best_words_and_their_names():
    corpus = make_corpus(n_documents=200, n_words=100, concentration=5.0, random_state=2)
    selector = InformationGain(n_words=7)
    X = selector.fit_transform(corpus.X, corpus.labels)
    kept = selector.get_support(indices=True)
    assert sparse.issparse(X)
    assert X.shape == (200, 7)
    np.testing.assert_array_equal(X.toarray(), corpus.X[:, kept].toarray())
    assert selector.scores_[kept].min() >= np.delete(selector.scores_, kept).max()
    names = selector.get_feature_names_out(corpus.words)
    assert names.tolist() == [corpus.words[i] for i in kept]


def test_ties_go_to_the_earlier_column():
    X = np.array([[0, 1, 1, 0, 1], [0, 1, 1, 0, 1], [1, 0, 0, 0, 1], [1, 0, 0, 0, 0]])
    y = ["a", "a", "b", "b"]  # columns 0, 1 and 2 tell all
    assert InformationGain(2).fit(X, y).get_support(indices=True).tolist() == [0, 1]
    assert InformationGain(3).fit(X, y).get_support(indices=True).tolist() == [0, 1, 2]
    assert InformationGain(4).fit(X, y).get_support(indices=True).tolist() == [0, 1, 2, 4]


def test_more_words_than_there_are_keeps_all():
    corpus = make_corpus(n_documents=20, n_words=10, random_state=0)
    assert InformationGain().fit(corpus.X, corpus.labels).get_support().all()


def test_stands_in_a_pipeline_before_a_classifier():
    corpus = make_corpus(n_documents=500, n_words=300, concentration=5.0, random_state=0)
    pipeline = make_pipeline(InformationGain(n_words=100), NaiveBayes(corpus.taxonomy))
    assert pipeline.fit(corpus.X, corpus.labels).score(corpus.X, corpus.labels) > 0.9


@pytest.mark.parametrize("n_words", [0, -3, 2.5, "all"])
def test_n_words_must_be_a_count(n_words):
    message = rf"n_words={n_words!r}: expected a whole number of words, at least 1\."
    with pytest.raises(ValueError, match=message):
        InformationGain(n_words).fit(np.eye(3), ["a", "b", "b"])


def test_without_labels_there_is_nothing_to_measure():
    with pytest.raises(ValueError, match="No document has a label"):
        information_gain(np.eye(2), [None, None])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        information_gain(np.eye(2), ["a"])
