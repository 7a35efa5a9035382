import os
import pickle
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from leafwise import _forms, _texts
from leafwise import text as text_module
from leafwise._forms import Known, Spelling
from leafwise._texts import Block, joined, pooled, strings
from leafwise._words import Piece, Words, number_words, word_characters
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


@pytest.mark.parametrize("lowercase", [True, False])
def test_more_texts_than_are_looked_at_together(lowercase):
    strange = {3: "ΣΊΣΥΦΟΣ Ärger", 255: "\ud800 lone", 256: "Ünde", 511: "中文 x", 1022: "Ł"}
    texts = [strange.get(i, f"Word{i % 7} and") for i in range(1023)]
    given = list(texts)
    counter = WordCounter(lowercase=lowercase)
    X = counter.fit_transform(texts)
    assert texts == given
    theirs = CountVectorizer(lowercase=lowercase)
    np.testing.assert_array_equal(X.toarray(), theirs.fit_transform(texts).toarray())
    assert counter.vocabulary_ == theirs.vocabulary_


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
    monkeypatch.setattr(_texts, "_THREAD_CHARACTERS", 100)
    monkeypatch.setattr(_texts, "_BLOCK_CHARACTERS", 20_000)
    counter = WordCounter(n_jobs=3)
    assert_same(texts, counter)
    # One document at a time looks words up in another way.
    for text, row in zip(texts[:20], counter.transform(texts).toarray()):
        np.testing.assert_array_equal(counter.transform([text + " unknown"]).toarray()[0], row)


def test_words_that_differ_in_the_zeros_they_end_with_are_sorted():
    zeros = [word + "\0" * n for word in ("a", "b", "") for n in (1, 0, 9, 7, 8, 17)]
    texts = [" ".join(zeros), "a" + "\0" * 9 + "b"]
    assert_same(texts, token_pattern=r"\S+")


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


@pytest.mark.parametrize("settings", [{}, {"stemmer": "english", "stop_words": ["the"]}])
def test_merged_counters_are_one_fit(settings):
    whole = WordCounter(min_count=2, **settings).fit(TEXTS * 2)
    parts = [WordCounter(**settings).fit(texts) for texts in (TEXTS[:3], TEXTS[3:], TEXTS)]
    merged = WordCounter(min_count=2, **settings).merge(parts)
    assert merged.vocabulary_ == whole.vocabulary_
    assert merged.n_documents_ == whole.n_documents_
    np.testing.assert_array_equal(merged.document_counts_, whole.document_counts_)
    np.testing.assert_array_equal(
        merged.transform(TEXTS).toarray(), whole.transform(TEXTS).toarray()
    )


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


def stemmed(**settings):
    return WordCounter(stemmer="english", stop_words=["the"], **settings)


def test_forms_that_transform_met_are_counted_alike_again():
    counter = stemmed().fit(["the cats ran"])
    texts = ["cat cats catting the dogs", "dogs cat", ""]
    once, again = counter.transform(texts), counter.transform(texts)
    assert list(counter.vocabulary_) == ["cat", "ran"]
    np.testing.assert_array_equal(once.toarray(), [[3, 0], [1, 0], [0, 0]])
    np.testing.assert_array_equal(again.toarray(), once.toarray())


def test_a_form_that_had_no_column_gets_one_when_its_word_is_learned():
    counter = stemmed().fit(["the cats ran"])
    assert counter.transform(["dogs"]).sum() == 0
    counter.partial_fit(["a dog"])
    np.testing.assert_array_equal(counter.transform(["dogs ran"]).toarray(), [[0, 1, 1]])


def test_each_form_is_stemmed_once():
    asked = []

    def stem(word):
        asked.append(word)
        return word[:3]

    counter = WordCounter(stemmer=stem).fit(["walking walked", "walked talks"])
    counter.transform(["walked talking", "talking talks"] * 3)
    counter.transform(["talking walking"])
    assert sorted(asked) == ["talking", "talks", "walked", "walking"]


def test_settings_changed_after_fit_are_followed():
    counter = stemmed().fit(["cats ran"])
    assert counter.transform(["cats ran"]).sum() == 2
    assert counter.set_params(stop_words=["the", "ran"]).transform(["cats ran"]).sum() == 1
    assert counter.set_params(stemmer=None).transform(["cats ran cat"]).sum() == 1


@pytest.mark.parametrize("most", [0, 3, 1000])
def test_no_more_forms_are_kept_than_there_is_room_for(most, monkeypatch):
    monkeypatch.setattr(_forms, "MOST_FORMS", most)
    counter = stemmed().fit(["cats ran"])
    for i in range(20):
        texts = [f"cats cat{i}s number{i}s {i} ran"]
        np.testing.assert_array_equal(counter.transform(texts).toarray(), [[1, 1]])
    kept = counter._columns.forms.n
    assert kept <= max(most, 4)
    assert most < 1000 or kept > 40


def test_what_only_makes_it_faster_is_not_sent_along():
    counter = stemmed().fit(["cats ran"])
    before = len(pickle.dumps(counter))
    counter.transform([f"word{i}" for i in range(2000)])
    again = pickle.loads(pickle.dumps(counter))
    assert len(pickle.dumps(counter)) == before
    np.testing.assert_array_equal(again.transform(["cat runs"]).toarray(), [[1, 0]])


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
        (
            {"compounds": True, "ngram_range": (1, 2)},
            r"compounds=True with ngram_range=\(1, 2\): the parts of a word stand in no order",
        ),
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
        (["fine", b"caf\xe9"], "Document 1 is bytes that are no UTF-8"),
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


def counts(texts, **settings):
    """Count each text's words, as dicts."""
    counter = WordCounter(**settings)
    X = counter.fit_transform(texts)
    assert (counter.transform(texts) != X).nnz == 0
    words = counter.get_feature_names_out()
    return [dict(zip(words[row.indices], row.data.tolist())) for row in X]


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("FastAPI", "fast api"),
        ("handle_starttag", "handle starttag"),
        ("HTMLParser", "html parser"),
        ("RxKotlin", "rx kotlin"),
        ("python3", "python"),
        ("x86_64", "86 64"),
        ("parseHTML5Document", "parse html document"),
        ("__init_subclass__", "init subclass"),
        ("camelCamel", "camel camel"),
        ("sha256sum", "sha 256 sum"),
        ("IOError", "io error"),
        ("ÜberGröße", "über größe"),
        ("ВКонтакте", "контакте"),
        ("ΛΟΓΟΣΦως", "λογος φως"),  # the sigma ends a part
        ("Windows95中文", "windows 95 中文"),
        ("word", ""),
        ("Word", ""),
        ("WORD", ""),
        ("__init__", ""),
        ("B2B", ""),
        ("中文", ""),
        ("____", ""),
    ],
)
def test_compounds_count_as_their_parts_too(word, parts):
    expected = dict(Counter([word.lower(), *parts.split()]))
    assert counts([word], compounds=True) == [expected]
    assert counts([f"<{word}> plain"], compounds=True) == [{**expected, "plain": 1}]
    assert counts([word]) == [{word.lower(): 1}]


def test_parts_keep_their_case_without_lowercase():
    found = counts(["HTMLParser ÜberGröße"], compounds=True, lowercase=False)
    assert set(found[0]) == {"HTMLParser", "HTML", "Parser", "ÜberGröße", "Über", "Größe"}


def test_parts_are_words_to_stop_stem_and_count():
    found = counts(
        ["TheConnections, in theory: connecting TheCONNECTION"],
        compounds=True,
        stop_words="english",
        stemmer="english",
    )
    assert found == [{"theconnect": 2, "connect": 3, "theori": 1}]
    assert counts(["aBigBig big"], compounds=True, binary=True) == [{"abigbig": 1, "big": 1}]
    assert counts(["bigBig big"], compounds=True, min_count=2) == [{"big": 3}]


def test_parts_are_as_long_as_words_must_be():
    assert counts(["python3"], compounds=True, token_pattern=r"\w+") == [
        {"python3": 1, "python": 1, "3": 1}
    ]
    assert counts(["#aBcd Efg #x"], compounds=True, token_pattern=r"#(\w+)") == [
        {"abcd": 1, "bcd": 1, "x": 1}
    ]


def test_words_of_maps_parts_to_their_form():
    counter = WordCounter(compounds=True, stemmer="porter", stop_words="english")
    assert counter.words_of("HTMLParsers, TheConnection connects") == {
        "htmlparser": "htmlparsers",
        "theconnect": "theconnection",
        "connect": "connects",  # a word comes before a part
        "html": "html",
        "parser": "parsers",
    }


def reference_parts(word):
    """Cut a word by the rule, from left to right."""

    def upper(c):
        return c.isalpha() and c.isupper()

    def lower(c):
        return c.isalpha() and c.islower()

    parts = []
    for name in filter(None, word.split("_")):
        parts.append(name[0])
        for before, c, after in zip(name, name[1:], [*name[2:], ""]):
            if (
                (lower(before) and upper(c))
                or (before.isalpha() and c.isdigit())
                or (before.isdigit() and c.isalpha())
                or (upper(before) and upper(c) and lower(after))
            ):
                parts.append("")
            parts[-1] += c
    return parts if len(parts) > 1 else []


def reference_counts(text, token_pattern, lowercase):
    least = text_module._COMPILED_PATTERNS.get(token_pattern, 2)
    found = Counter()
    if lowercase:
        text = text.replace("İ", "I\u0307")  # as long as its lower case, which is the same
    for match in re.finditer(token_pattern, text.lower() if lowercase else text):
        found[match[0]] += 1
        for part in reference_parts(text[slice(*match.span())]):
            if len(part) >= least:
                found[part.lower() if lowercase else part] += 1
    return dict(found)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(word_like | anything | st.text("aAbB12_ -"), min_size=1, max_size=6),
    st.sampled_from([r"(?u)\b\w\w+\b", r"\w+", r"\S+", r"[a-z_]{2,}"]),
    st.booleans(),
)
def test_compounds_as_the_slow_reference_cuts_them(texts, token_pattern, lowercase):
    texts = [*texts, "two words"]
    found = counts(texts, compounds=True, token_pattern=token_pattern, lowercase=lowercase)
    assert found == [reference_counts(text, token_pattern, lowercase) for text in texts]
    forms = WordCounter(compounds=True, token_pattern=token_pattern, lowercase=lowercase)
    assert [set(forms.words_of(text)) for text in texts] == [set(row) for row in found]


def test_every_character_is_cut_as_the_slow_reference_cuts_it():
    every = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i <= 0xDFFF]
    texts = [
        " ".join(f"xx{c}yy XX{c}YY 11{c}22" for c in every[i : i + 10_000] if c.isalnum())
        for i in range(0, len(every), 10_000)
    ]
    pattern = WordCounter().token_pattern
    assert counts(texts, compounds=True) == [reference_counts(t, pattern, True) for t in texts]


def test_compounds_with_threads_blocks_and_pieces(monkeypatch):
    rng = np.random.default_rng(2)
    names = np.array(["readCsv", "Größe2", "x_yz", "plain", "HTTPServer", "ok"])
    texts = [" ".join(rng.choice(names, rng.integers(0, 40))) for _ in range(300)]
    whole = counts(texts, compounds=True)
    monkeypatch.setattr(_texts, "_THREAD_CHARACTERS", 100)
    monkeypatch.setattr(_texts, "_BLOCK_CHARACTERS", 5_000)
    assert counts(texts, compounds=True, n_jobs=3) == whole
    pieces = WordCounter(compounds=True).partial_fit(texts[:100]).partial_fit(texts[100:])
    assert list(pieces.vocabulary_) == sorted(set().union(*whole))


def test_compounds_survive_a_file_and_a_clone(tmp_path):
    import leafwise as lw

    counter = WordCounter(compounds=True).fit(["HTMLParser"])
    counter.save(tmp_path / "counter")
    loaded = lw.load(tmp_path / "counter")
    assert loaded.get_params() == counter.get_params() == clone(counter).get_params()
    assert loaded.transform(["html ParserHTML"]).toarray().tolist() == [[2, 0, 1]]


def test_an_explanation_shows_parts_of_compounds():
    import leafwise as lw

    tree = lw.Taxonomy.from_dict({"web": ["html"], "numbers": ["matrix"]})
    counter = WordCounter(compounds=True, stemmer="english")
    model = lw.TaxonomyClassifier(tree, counter=counter).fit(["HTMLParsed", "MatrixSums"])
    assert list(model.predict(["newHTML", "the_matrix"])) == ["web", "numbers"]
    words = [word for word, _ in model.explain("MyHTMLParsing").words]
    assert {"html", "parsing"} <= set(words)


def test_it_is_known_whether_an_earlier_run_compiled(tmp_path):
    code = """
from leafwise import WordCounter
from leafwise._words import is_compiled
before = is_compiled()
WordCounter().fit(["a word or two"])
print(before, is_compiled())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("False True\n", "")


@pytest.mark.parametrize("n_known", [0, 1, 700])
def test_words_that_have_tags_are_numbered_as_their_bytes_would_be(n_known):
    """Short ones, long ones, those that share a beginning, and such beyond ASCII."""
    rng = np.random.default_rng(0)
    letters = np.array([*"abcé漢"])
    drawn = {"".join(rng.choice(letters, rng.integers(1, 14))) for _ in range(2000)}
    words = [*sorted(drawn), "a" * 30, "a" * 30 + "b", "a" * 29]
    order = rng.permutation(len(words))
    known = Words.none().numbers(pooled([words[i] for i in order[:n_known]]))[1]
    others = Words.none().numbers(pooled([words[i] for i in order[n_known // 2 :]]))[1]
    expected, new = known.numbers(others.pool)
    found, found_new = known.numbers_among(others)
    np.testing.assert_array_equal(found, expected)
    assert strings(found_new.pool) == strings(new.pool)
    np.testing.assert_array_equal(found_new.ends, new.ends)
    both = known.extended(found_new)
    np.testing.assert_array_equal(both.numbers(others.pool)[0], expected)
    # What is new can be looked up in itself, too.
    np.testing.assert_array_equal(found_new.numbers(new.pool)[0], np.arange(new.n))


def test_parts_that_share_new_words_have_them_once():
    parts = [["apple pear", "pear fig"], ["fig apple plum", "kiwi"], [], ["kiwi apple"]]
    known = Known.of(pooled(["pear"]), Spelling.of(None, None))
    tables = word_characters(True, True)
    found = []
    for part in parts:
        piece = Piece(*joined(Block.of(part), "strict"), *tables, 2)
        found.append(number_words([piece], known.forms, len(piece.text)))
    learned, numbers = known.learn([new for _, _, new in found])
    assert strings(learned.words.pool) == ["pear", "apple", "fig", "plum", "kiwi"]
    words = strings(learned.words.pool)
    for part, (ids, _, _), number in zip(parts, found, numbers):
        assert [words[i] for i in number[ids]] == " ".join(part).split()


def test_word_characters_are_those_of_re():
    _, is_word = word_characters(True, False)
    asked = [*range(0x3000), *range(0x3000, 0x110000, 37), 0xD7FF, 0xD800, 0xDFFF, 0x10FFFF]
    expected = [re.match(r"\w", chr(i)) is not None for i in asked]
    assert is_word[asked].tolist() == expected
    assert len(is_word) == 0x110000
