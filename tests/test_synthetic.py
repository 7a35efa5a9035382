import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from leafwise.exceptions import CorpusError
from leafwise.synthetic import make_corpus
from leafwise.taxonomy import Taxonomy

RAGGED = Taxonomy.from_paths(["a/x/deep", "a/y", "b"])


@pytest.mark.parametrize("model", ["mixture", "dirichlet"])
def test_same_seed_same_bits(model):
    one = make_corpus(RAGGED, model=model, random_state=7)
    same = make_corpus(RAGGED, model=model, random_state=np.random.default_rng(7))
    other = make_corpus(RAGGED, model=model, random_state=8)
    for name in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(one.X, name), getattr(same.X, name))
    for name in ("y", "p_w_given_node", "level_weights", "class_prior"):
        assert np.array_equal(getattr(one, name), getattr(same, name))
    assert not np.array_equal(one.y, other.y)
    assert not np.array_equal(one.p_w_given_node, other.p_w_given_node)


@pytest.mark.parametrize("model", ["mixture", "dirichlet"])
def test_words_are_drawn_with_the_class_probabilities(model):
    prior = np.array([0.1, 0.1, 0.1, 0.3, 0.2, 0.2])  # inner nodes and the root hold documents
    corpus = make_corpus(
        RAGGED, 5000, 60, 80, model=model, concentration=30, class_prior=prior, random_state=1
    )
    assert np.array_equal(corpus.class_prior, prior)
    n = np.bincount(corpus.y, minlength=len(RAGGED))
    assert (abs(n - 5000 * prior) < 5 * np.sqrt(5000 * prior * (1 - prior))).all()
    for i, p in enumerate(corpus.p_w_given_class):
        counts = np.asarray(corpus.X[corpus.y == i].sum(axis=0)).ravel()
        total = counts.sum()
        assert total == 80 * n[i]
        # A count is Poisson-like where p is tiny: hence the 1 under the root.
        assert (abs(counts - total * p) < 5 * np.sqrt(total * p * (1 - p) + 1)).all()
        likely = total * p > 5
        chi2 = ((counts - total * p)[likely] ** 2 / (total * p)[likely]).sum()
        assert abs(chi2 - likely.sum()) < 5 * np.sqrt(2 * likely.sum())


def test_documents_of_a_class_are_independent():
    # Variance over documents of a word's count is the binomial's, n p (1 - p).
    corpus = make_corpus(Taxonomy.from_paths(["a"]), 4000, 5, 40, random_state=2)
    p = corpus.p_w_given_class[1]
    variance = corpus.X.toarray().var(axis=0)
    assert variance == pytest.approx(40 * p * (1 - p), rel=0.12)


def test_default_prior_is_over_the_leaves():
    corpus = make_corpus(RAGGED, 300, random_state=0)
    assert set(corpus.y) == set(RAGGED.leaves)
    assert corpus.class_prior.tolist() == [0, 0, 0, 1 / 3, 1 / 3, 1 / 3]
    assert corpus.labels == [RAGGED.paths[i] for i in corpus.y]


def test_level_weights_along_a_path_that_ends_early():
    corpus = make_corpus(RAGGED, 1, 7, level_weights=[1, 2, 3, 4], random_state=0)
    assert corpus.level_weights == pytest.approx(
        np.array(
            [
                [1, 0, 0, 0],  # the root
                [1 / 3, 2 / 3, 0, 0],  # a
                [1 / 6, 2 / 6, 3 / 6, 0],  # a/x
                [0.1, 0.2, 0.3, 0.4],  # a/x/deep
                [1 / 6, 2 / 6, 3 / 6, 0],  # a/y
                [1 / 3, 2 / 3, 0, 0],  # b
            ]
        )
    )
    node = corpus.p_w_given_node
    expected = 0.1 * node[0] + 0.2 * node[1] + 0.3 * node[2] + 0.4 * node[3]  # T eq. 1
    assert corpus.p_w_given_class[3] == pytest.approx(expected)
    assert node.sum(axis=1) == pytest.approx(np.ones(6))


def test_dirichlet_documents_come_from_their_own_node():
    corpus = make_corpus(RAGGED, 1, 7, model="dirichlet", random_state=0)
    assert np.array_equal(corpus.p_w_given_class, corpus.p_w_given_node)


def test_children_are_drawn_around_their_parent():
    # Moments of Dir(sigma * parent), V's footnote 3.
    flat = Taxonomy.from_paths(f"n{i}" for i in range(4000))
    corpus = make_corpus(flat, 0, 6, model="dirichlet", concentration=20, random_state=3)
    parent, children = corpus.p_w_given_node[0], corpus.p_w_given_node[1:]
    variance = parent * (1 - parent) / 21
    assert (abs(children.mean(axis=0) - parent) < 4 * np.sqrt(variance / 4000)).all()
    assert children.var(axis=0) == pytest.approx(variance, rel=0.1)


def test_nodes_of_a_mixture_are_drawn_around_the_uniform_distribution():
    flat = Taxonomy.from_paths(f"n{i}" for i in range(4000))
    node = make_corpus(flat, 0, 5, concentration=10, random_state=4).p_w_given_node
    assert node.mean(axis=0) == pytest.approx(np.full(5, 0.2), abs=0.01)
    assert node.var(axis=0) == pytest.approx(np.full(5, 0.2 * 0.8 / 11), rel=0.1)


def test_tiny_concentrations_leave_distributions():
    deep = Taxonomy.from_paths(["/".join("abcdefgh")])
    corpus = make_corpus(deep, 50, 500, model="dirichlet", concentration=0.01, random_state=5)
    assert np.isfinite(corpus.p_w_given_node).all()
    assert corpus.p_w_given_node.sum(axis=1) == pytest.approx(np.ones(9))
    # A word that a node never says is never said below it.
    words = np.unique(corpus.X.indices)
    assert (corpus.p_w_given_node[-1][words] > 0).all()


def test_lengths_are_kept_and_rows_are_sorted():
    lengths = np.arange(200) % 7
    corpus = make_corpus(RAGGED, 200, 11, lengths, random_state=6)
    assert np.array_equal(np.asarray(corpus.X.sum(axis=1)).ravel(), lengths)
    again = corpus.X.copy()
    again.has_sorted_indices = again.has_canonical_format = False
    again.sum_duplicates()
    assert again.nnz == corpus.X.nnz
    assert np.array_equal(again.indices, corpus.X.indices)


def test_blocks_of_documents_join_up():
    # 40 documents of 150,000 words are more than one block of tokens.
    corpus = make_corpus(RAGGED, 40, 50, 150_000, random_state=7)
    assert (corpus.X.sum(axis=1) == 150_000).all()
    observed = corpus.X.toarray() / 150_000
    assert observed == pytest.approx(corpus.p_w_given_class[corpus.y], abs=0.01)


def test_empty_corpora():
    assert make_corpus(n_documents=0, random_state=0).X.shape == (0, 1000)
    corpus = make_corpus(n_documents=3, doc_length=0, random_state=0)
    assert corpus.X.nnz == 0
    assert corpus.texts() == ["", "", ""]


@pytest.mark.parametrize("n_words", [30, 2000])
def test_texts_give_the_counts_back(n_words):
    corpus = make_corpus(RAGGED, 100, n_words, random_state=8)
    counter = CountVectorizer(vocabulary=corpus.words, stop_words="english")
    assert (counter.fit_transform(corpus.texts()) != corpus.X).nnz == 0


def test_made_up_words_are_distinct_and_no_stemmer_changes_them():
    import Stemmer

    words = make_corpus(n_documents=0, n_words=5000, random_state=0).words
    assert len(set(words)) == 5000
    for language in ("porter", "english"):
        assert Stemmer.Stemmer(language).stemWords(words) == words


def test_repr_of_a_synthetic_corpus():
    corpus = make_corpus(random_state=0)
    assert repr(corpus) == "<SyntheticCorpus: 1,000 documents, 1,000 words, 13 nodes>"
    assert len(corpus) == 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "lda"}, "model must be 'mixture' or 'dirichlet', not 'lda'"),
        ({"n_words": 0}, "n_words >= 1"),
        ({"n_documents": -1}, "n_documents >= 0"),
        ({"concentration": 0}, "a positive concentration"),
        ({"doc_length": -1}, "none of them negative"),
        ({"doc_length": 2.5}, "one whole number"),
        ({"doc_length": [1, 2]}, "one for each document"),
        ({"level_weights": [1, 1]}, "each of the tree's 4 levels"),
        ({"level_weights": [1, 1, 0, 1]}, "one positive number"),
        ({"level_weights": [1, 1, 1, 1], "model": "dirichlet"}, 'belong to model="mixture"'),
        ({"class_prior": [0.5, 0.5]}, "each of the tree's 6 nodes"),
        ({"class_prior": np.full(6, 0.5)}, "they sum to 1; got shape \\(6,\\) and sum 3"),
    ],
)
def test_make_corpus_errors(arguments, message):
    with pytest.raises(CorpusError, match=message):
        make_corpus(RAGGED, **arguments)
