import numpy as np
import pytest
from scipy import sparse
from sklearn.frozen import FrozenEstimator

import leafwise as lw
from leafwise import keywords
from leafwise.keywords import INHERITED, match_terms, read_keywords

TEXTS = ["shared own", "shared", "other words"]


def read(tree, texts, vocabulary=None, **settings):
    counter = lw.WordCounter(**settings)
    X = counter.fit_transform(texts)
    names = counter.get_feature_names_out().tolist()
    return read_keywords(tree, counter if vocabulary is None else names, X), X, names


def test_weights_by_hand():
    tree = lw.Taxonomy.from_dict(
        {"p": {"keywords": ["shared", "own"], "children": {"q": ["shared"]}}}
    )
    keywords, X, names = read(tree, TEXTS)
    idf = {"shared": np.log(1 + 3 / 2), "own": np.log(1 + 3 / 1)}
    term = {names[keywords.terms[k].indices[0]]: k for k in range(2)}
    weights = keywords.weights.toarray()
    assert weights[term["own"], 1] == pytest.approx(idf["own"])
    root = np.sqrt(2)  # two nodes share it
    np.testing.assert_allclose(weights[term["shared"], 1:], idf["shared"] / root)
    scores = keywords.scores(X, tree.parent)
    p = idf["shared"] / root + idf["own"]
    np.testing.assert_allclose(scores[0], [0, p, idf["shared"] / root + INHERITED * p])
    part = idf["shared"] / (idf["shared"] + idf["own"])  # of what p is
    some = keywords.at_nodes(sparse.csr_matrix([[float(n == "shared") for n in names]])).toarray()
    np.testing.assert_allclose(some[0, 1], idf["shared"] / root * np.sqrt(part))
    np.testing.assert_allclose(scores[2], 0)
    p = idf["shared"] / 2 + idf["own"]
    words = keywords.words(tree.parent, np.arange(3)).toarray()
    np.testing.assert_allclose(words.sum(axis=1), [0, 1, 1])
    assert words[1, names.index("own")] == pytest.approx(idf["own"] / p)
    assert words[2, names.index("own")] == 0  # it is the parent's
    words = keywords.words(tree.parent, np.array([2])).toarray()  # the parent has no class
    expected = INHERITED * idf["own"] / (idf["shared"] / 2 + INHERITED * p)
    assert words[0, names.index("own")] == pytest.approx(expected)
    assert keywords.unknown == []


def test_repetition_is_damped():
    tree = lw.Taxonomy.from_dict({"a": ["own"]})
    keywords, _, _ = read(tree, ["own own own own", "else"])
    X = sparse.csr_matrix([[0, 4], [0, 1]])
    found = keywords.scores(X, tree.parent)[:, 1]
    assert found[0] == pytest.approx(found[1] * (1 + np.log(4)))


@pytest.mark.parametrize("vocabulary", [None, "names"])
def test_phrases_need_all_their_words(vocabulary):
    tree = lw.Taxonomy.from_dict(
        {"ml": ["machine learning"], "shop": ["machine", "theory of sets"]}
    )
    texts = ["machine learning machine", "a machine", "learning", "theory about sets of theory"]
    keywords, X, names = read(tree, texts, vocabulary, stop_words="english")
    scores = keywords.scores(X, tree.parent)
    assert (scores[:, 1] > 0).tolist() == [True, False, False, False]
    assert (scores[:, 2] > 0).tolist() == [True, True, False, True]
    assert keywords.unknown == []
    words = keywords.words(tree.parent, np.array([1])).toarray()[0]
    assert words[names.index("machine")] == words[names.index("learning")] == pytest.approx(0.5)


def test_a_phrase_that_is_counted_as_one_is_looked_for_as_one():
    tree = lw.Taxonomy.from_dict({"ml": ["machine learning"]})
    texts = ["machine learning", "learning machine"]
    for vocabulary in (None, "names"):
        keywords, X, names = read(tree, texts, vocabulary, ngram_range=(1, 2))
        assert keywords.terms.toarray().tolist() == [[n == "machine learning" for n in names]]
        assert (keywords.scores(X, tree.parent)[:, 1] > 0).tolist() == [True, False]


@pytest.mark.parametrize("at_a_time", [7, 60, 1000])
def test_matches_are_those_of_a_loop(monkeypatch, at_a_time):
    monkeypatch.setattr(keywords, "_DOCUMENTS", at_a_time)
    rng = np.random.default_rng(0)
    X = rng.poisson(0.5, (60, 12)) * rng.random((60, 12)).round(1)
    terms = np.zeros((20, 12))
    for term in terms:
        term[rng.choice(12, rng.integers(1, 4), replace=False)] = 1
    found = match_terms(sparse.csr_matrix(terms), sparse.csr_matrix(X)).toarray()
    for d in range(60):
        for t in range(20):
            assert found[d, t] == X[d, terms[t] > 0].min()


def test_unknown_keywords_are_named_and_wait_for_documents_to_come():
    tree = lw.Taxonomy.from_dict(
        {"a": {"keywords": ["own", "rare"], "children": {"b": ["nowhere"], "c": ["lost phrase"]}},
         "d": ["gone"]}
    )  # fmt: skip
    counter = lw.WordCounter()
    X = counter.fit_transform([*TEXTS, "rare nowhere gone"])[:-1]
    keywords = read_keywords(tree, counter, X)
    assert keywords.unknown == ["gone", "lost phrase", "nowhere", "rare"]
    assert keywords.known.tolist() == [False, True, True, True, False]
    column = counter.vocabulary_
    words = keywords.words(tree.parent, np.arange(5)).toarray()
    assert words[1, column["own"]] == pytest.approx(1)  # as if there were no other
    assert words[1, column["rare"]] > 0
    assert words[2, column["own"]] == 0  # its parent's
    assert keywords.words(tree.parent, np.array([2])).toarray()[0, column["own"]] == pytest.approx(
        1
    )
    assert words[4, column["gone"]] == pytest.approx(1)
    assert not keywords.scores(X, tree.parent)[:, 4].any()


def test_words_are_read_as_the_counter_reads_them():
    tree = lw.Taxonomy.from_dict({"a": ["Learning"], "b": ["FastAPI"]})
    texts = ["we learned it", "FastAPI and others", "fast"]
    keywords, X, _ = read(tree, texts, stemmer="english", compounds=True)
    assert keywords.unknown == []
    scores = keywords.scores(X, tree.parent)
    assert (scores > 0).tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    counter = lw.WordCounter(stemmer="english").fit(texts)
    frozen = read_keywords(tree, FrozenEstimator(counter), counter.transform(texts))
    assert frozen.unknown == []


def test_words_of_columns_are_looked_for_as_they_are_written():
    names = ["c++", "NASA", "well-known", "fire engine"]
    tree = lw.Taxonomy.from_dict({f"n{i}": [name] for i, name in enumerate(names)})
    keywords = read_keywords(tree, names, sparse.csr_matrix(np.eye(4)))
    assert keywords.unknown == []
    assert (keywords.scores(sparse.csr_matrix(np.eye(4)), tree.parent)[:, 1:] > 0).sum() == 4


def test_a_tree_without_keywords_and_one_of_stop_words():
    X = sparse.csr_matrix([[1.0]])
    bare = lw.Taxonomy(["", "a"], [-1, 0], [(), ()])
    assert read_keywords(bare, ["a"], X).scores(X, bare.parent).tolist() == [[0, 0]]
    tree = lw.Taxonomy.from_dict({"x": ["the"]})
    counter = lw.WordCounter(stop_words="english")
    X = counter.fit_transform(["words"])
    assert read_keywords(tree, counter, X).unknown == ["the"]


@pytest.mark.parametrize(
    ("vocabulary", "error", "message"),
    [
        (["a"], ValueError, r"vocabulary has 1 words, X 2 columns: expected the words of the col"),
        (["a", "a"], ValueError, r"vocabulary has a word twice"),
        ("ab", TypeError, r"vocabulary is a str, expected the words of the columns"),
        ({"a": 0, "b": 1}, TypeError, r"vocabulary is a dict, expected the words of the columns"),
        ([1, 2], TypeError, r"vocabulary holds 1, expected words\."),
        (lw.WordCounter(), ValueError, r"vocabulary is a WordCounter that is not fitted"),
    ],
)
def test_wrong_vocabularies(vocabulary, error, message):
    tree = lw.Taxonomy.from_dict({"x": ["a"]})
    with pytest.raises(error, match=message):
        read_keywords(tree, vocabulary, sparse.csr_matrix([[1.0, 2.0]]))
