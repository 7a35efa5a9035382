import re
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from leafwise import text as text_module
from leafwise.text import WordCounter

TEXTS = [
    "The cat sat on the mat.",
    "the CAT ate; the dog sat!",
    "",
    "a b c",
    "naïve café Ärger ΣΊΣΥΦΟΣ İstanbul ǅ straße",
    "中文 分词 测试 中文",
    "x86_64 snake_case 3.14 42 don't e-mail",
    "Съешь же ещё этих мягких французских булок",
]


def assert_same(texts, counter=None, **settings):
    """Compare vocabulary and counts with CountVectorizer's."""
    counter = counter or WordCounter(**settings)
    theirs = CountVectorizer(**settings)
    X, Y = counter.fit_transform(texts), theirs.fit_transform(texts)
    assert counter.vocabulary_ == theirs.vocabulary_
    assert list(counter.get_feature_names_out()) == list(theirs.get_feature_names_out())
    assert X.dtype == Y.dtype
    assert X.shape == Y.shape
    assert X.has_canonical_format
    np.testing.assert_array_equal(X.toarray(), Y.toarray())
    np.testing.assert_array_equal(counter.transform(texts).toarray(), Y.toarray())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lowercase": False},
        {"binary": True},
        {"stop_words": "english"},
        {"stop_words": ["the", "sat"]},
        {"ngram_range": (1, 2)},
        {"ngram_range": (2, 3), "stop_words": ["on"]},
        {"token_pattern": r"(?u)\b\w+\b"},
        {"token_pattern": r"[^\W\d_]{2,}"},
        {"token_pattern": r"\S+"},
        {"token_pattern": r"\S+", "ngram_range": (1, 2)},
        {"token_pattern": r"(\w)\w+"},
        {"max_df": 1},
        {"max_df": 0.2},
    ],
)
def test_same_as_count_vectorizer(settings):
    assert_same(TEXTS, **settings)


word_like = st.text(
    st.sampled_from("aAbBzZ019_ .-éÉßΣσςİıǅΐ中文日本ا𝔘😀\u00a0\u2028\n\x00\x01\x7f")
)
anything = st.text(st.characters(exclude_categories=["Cs"]))


@settings(max_examples=150, deadline=None)
@given(st.lists(word_like | anything, min_size=1, max_size=6))
def test_same_as_count_vectorizer_on_any_script(texts):
    texts = [*texts, "two words"]
    assert_same(texts)
    assert_same(texts, token_pattern=r"\w+", lowercase=False)
    assert_same(texts, token_pattern=r"\S+", ngram_range=(1, 2))


def test_same_as_count_vectorizer_on_every_character():
    every = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i <= 0xDFFF]
    texts = ["".join(f"x{c}y " for c in every[i : i + 5000]) for i in range(0, len(every), 5000)]
    assert_same(texts)


def test_lone_surrogates_are_no_words():
    assert_same(["half \ud83d pair\udcff ok", "ok \udcff"])
    assert_same(["half \ud83d pair ok"], token_pattern=r"\w\w+|!")


def test_same_with_threads_and_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" * rng.integers(1, 6) for i in range(5000)])
    texts = [" ".join(rng.choice(words, rng.integers(0, 60))) for _ in range(400)]
    monkeypatch.setattr(text_module, "_THREAD_CHARACTERS", 100)
    monkeypatch.setattr(text_module, "_BLOCK_CHARACTERS", 20_000)
    counter = WordCounter(n_jobs=3)
    assert_same(texts, counter)
    # One document at a time looks words up in another way.
    for text, row in zip(texts[:20], counter.transform(texts).toarray()):
        np.testing.assert_array_equal(counter.transform([text + " unknown"]).toarray()[0], row)


def test_many_words_with_a_long_common_beginning_are_sorted():
    words = [f"{'prefix' * 5}{i:x}" for i in range(3000)] + ["prefix" * k for k in range(1, 8)]
    assert_same([" ".join(words)])


def test_partial_fit_in_pieces_is_fit():
    rng = np.random.default_rng(1)
    texts = [" ".join(f"w{i}" for i in rng.zipf(1.5, 30) % 500) for _ in range(200)]
    whole = WordCounter(min_count=2, max_df=0.9).fit(texts)
    for cuts in ([50, 120], [1, 2, 199]):
        pieces = WordCounter(min_count=2, max_df=0.9)
        for part in np.split(np.array(texts, dtype=object), cuts):
            pieces.partial_fit(part)
        assert pieces.vocabulary_ == whole.vocabulary_
        assert pieces.n_documents_ == whole.n_documents_
        np.testing.assert_array_equal(pieces.document_counts_, whole.document_counts_)


def test_fit_forgets_what_was_learned_before():
    counter = WordCounter().fit(["old words"])
    counter.fit(["new words"])
    assert list(counter.vocabulary_) == ["new", "words"]
    assert counter.n_documents_ == 1


def test_min_count_counts_occurrences():
    counter = WordCounter(min_count=3).fit(["aa aa bb", "aa bb cc"])
    assert list(counter.vocabulary_) == ["aa"]


def test_document_counts():
    counter = WordCounter().fit(["aa aa bb", "aa cc"])
    assert dict(zip(counter.vocabulary_, counter.document_counts_)) == {"aa": 2, "bb": 1, "cc": 1}


def test_stems_are_porters():
    counter = WordCounter(stemmer="porter")
    X = counter.fit_transform(["relational ponies caresses", "pony caress relate relation"])
    assert list(counter.vocabulary_) == ["caress", "poni", "relat"]
    np.testing.assert_array_equal(X.toarray(), [[1, 1, 1], [1, 1, 2]])


def test_a_stem_is_found_for_a_form_never_seen():
    counter = WordCounter(stemmer="porter").fit(["connection"])
    assert counter.transform(["connecting connected"]).toarray().tolist() == [[2]]


def test_stop_words_go_before_stemming_and_ngrams():
    counter = WordCounter(stemmer="porter", stop_words=["running"], ngram_range=(1, 2))
    counter.fit(["dogs running home run"])
    assert list(counter.vocabulary_) == ["dog", "dog home", "home", "home run", "run"]


def test_stemmer_may_be_a_function():
    counter = WordCounter(stemmer=lambda word: word[:3]).fit(["horses hornet cat"])
    assert list(counter.vocabulary_) == ["cat", "hor"]


def test_words_of_shows_the_form_in_the_text():
    counter = WordCounter(stemmer="porter", stop_words="english").fit(["x y connection"])
    assert counter.words_of("The Connections, connected") == {"connect": "connections"}


@pytest.mark.parametrize(
    "texts",
    [
        np.array(["one two", "two"]),
        np.array(["one two", "two"], dtype=object),
        (text for text in ["one two", "two"]),
        [b"one two", "two"],
        [np.str_("one two"), "two"],
    ],
)
def test_texts_in_many_containers(texts):
    counter = WordCounter()
    assert counter.fit_transform(texts).toarray().tolist() == [[1, 1], [0, 1]]


def test_texts_from_arrow_and_pandas():
    import pandas as pd
    import pyarrow as pa

    for texts in (pa.array(["one two", "two"]), pd.Series(["one two", "two"])):
        assert WordCounter().fit_transform(texts).toarray().tolist() == [[1, 1], [0, 1]]


def test_transform_ignores_new_words_and_keeps_empty_rows():
    counter = WordCounter().fit(["aa bb"])
    X = counter.transform(["cc", "", "bb cc bb"])
    assert X.toarray().tolist() == [[0, 0], [0, 0], [0, 2]]


def test_in_a_pipeline_and_cloned():
    from sklearn.naive_bayes import MultinomialNB

    model = make_pipeline(clone(WordCounter(binary=True)), MultinomialNB())
    model.fit(["good day", "bad night"], [1, 0])
    assert model.predict(["good good"]).tolist() == [1]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_count": 0}, "min_count=0: expected an integer of at least 1"),
        ({"min_count": 1.5}, "min_count=1.5: expected an integer"),
        ({"max_df": 1.5}, "max_df=1.5: a share is at most 1.0"),
        ({"max_df": -1}, "max_df=-1: expected a share"),
        ({"max_df": "all"}, "max_df='all': expected a share"),
        ({"ngram_range": (2, 1)}, r"ngram_range=\(2, 1\): expected \(shortest, longest\)"),
        ({"stop_words": "german"}, "stop_words='german': expected \"english\""),
        ({"stemmer": "potter"}, "stemmer='potter': expected a function, None, or one of"),
        ({"token_pattern": "(a)(b)"}, "has more than one group"),
        ({"token_pattern": "("}, r"token_pattern='\(': missing \)"),
        ({"ngram_range": 3}, "ngram_range=3: expected"),
        ({"token_pattern": "zzz"}, "No word is left to count in 1 documents"),
        ({"min_count": 9}, "leave out: .*min_count=9"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        WordCounter(**settings).fit(["some text here"])


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one text", "Expected a list of texts, got one string"),
        (["fine", None], "Document 1 is of type NoneType, expected a string"),
        ([3.5], "Document 0 is of type float"),
        ([], "No word is left to count in 0 documents"),
        (["", "."], "No word is left to count in 2 documents"),
    ],
)
def test_wrong_texts(texts, message):
    with pytest.raises(ValueError, match=message):
        WordCounter().fit_transform(texts)


def test_a_table_is_not_a_list_of_texts():
    import pandas as pd

    for table in (pd.DataFrame({"text": ["a b"]}), {"text": ["a b"]}, np.array([["aa", "bb"]])):
        with pytest.raises(ValueError, match=r'take its column of texts, such as table\["text"\]'):
            WordCounter().fit(table)


def test_before_fit():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError, match="not fitted yet"):
        WordCounter().transform(["text"])
    with pytest.raises(AttributeError, match="vocabulary_ is there after fit"):
        WordCounter().vocabulary_  # noqa: B018


def test_same_as_count_vectorizer_on_newsgroups(data_dir):
    import pyarrow.parquet as pq

    texts = pq.read_table(data_dir / "20news_18828.parquet")["text"].to_pylist()[::10]
    assert_same(texts)


def test_the_compiled_patterns_are_what_re_finds():
    text = "aa b ccc_1 é éé x"
    for pattern in text_module._COMPILED_PATTERNS:
        found = WordCounter(token_pattern=pattern).fit([text]).vocabulary_
        assert set(found) == set(re.findall(pattern, text))
