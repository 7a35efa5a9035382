"""Learning from streams of documents, below a bound of memory.

What is about memory runs in processes of its own.
"""

import csv
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import leafwise as lw
from leafwise import stream_sample, streams
from leafwise.cli.ending import run
from leafwise.corpus import Corpus
from leafwise.exceptions import LeafwiseError
from leafwise.stream_memory import MIB, Room, bytes_of, resident
from leafwise.synthetic import make_corpus

ROOT = Path(__file__).parent.parent
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
ROOMY = "64GiB"  # more than this process holds by now


def write_csv(path, texts, labels) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["text", "label"])
        writer.writerows([text, label or ""] for text, label in zip(texts, labels))


@pytest.fixture
def some(tmp_path, many, monkeypatch):
    """Documents of which one in three has no label, as a file, in pieces of fifty."""
    tree, texts, labels, _ = many
    given = [label if i % 3 else None for i, label in enumerate(labels.tolist())]
    write_csv(tmp_path / "some.csv", texts, given)
    monkeypatch.setattr(streams, "_ROWS", 50)
    return tree, texts, given, Corpus(tmp_path / "some.csv", batch_size=70)


# ---- a bound ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1GiB", 1 << 30), ("500MB", 500_000_000), ("1.5 GiB", 3 << 29), ("2G", 2 << 30),
        ("64k", 65536), ("1000000", 10**6), (12345, 12345), ("3 b", 3), (" 1tb ", 10**12),
        (1e9, 10**9),
    ],
)  # fmt: skip
def test_sizes(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize(
    "text", ["", "much", "1 GiBi", "-1GB", "0", 0, -5, None, True, 1.5, float("inf"), "1e9"]
)
def test_sizes_that_are_none(text):
    with pytest.raises(
        LeafwiseError, match="expected a number of bytes above 0, or one with a unit, such as 1GiB"
    ):
        bytes_of(text)


def test_a_bound_that_cannot_be_kept(some):
    tree, *_, corpus = some
    for model in (
        make_pipeline(lw.WordCounter(), lw.NaiveBayes(tree)),
        lw.TaxonomyClassifier(tree),
    ):
        with pytest.raises(LeafwiseError, match=r"memory='10MB' is too little: .* at least .* MiB"):
            streams.fit(model, corpus, memory="10MB")
    assert corpus.n_documents is None  # nothing was read


def test_a_command_names_the_option(capsys):
    """Wherever the bound is read again: below the command, too."""
    assert run(lambda: Room.of("10MB")) == 1
    assert capsys.readouterr().err.startswith("Error: --memory '10MB' is too little: Python, its")


def test_equal_runs_have_equal_room():
    room = Room.of("64GiB")
    assert room.bound - room.left >= resident()
    assert (room.bound - room.left) % (128 * MIB) == 64 * MIB


# ---- models of counts ---------------------------------------------------------------------------


@pytest.mark.parametrize("tree", ["a tree", "no tree"])
@pytest.mark.parametrize(
    "model",
    [
        lw.NaiveBayes(),
        lw.NaiveBayes(alpha="heldout"),
        lw.HierarchicalShrinkage(),
        lw.HierarchicalShrinkage(holdout=0.3, random_state=1),
        lw.GeneralShrinkage(),
        lw.HierarchicalMixture(),
        lw.HPLC(),
        lw.PLC(),
        lw.HierarchicalDirichlet(),
        lw.HierarchicalDirichlet(sigma=30.0, words="set"),
    ],
    ids=repr,
)
def test_a_stream_is_learned_as_all_at_once(some, model, tree):
    taxonomy, texts, labels, corpus = some
    if tree == "a tree":
        model = model.set_params(taxonomy=taxonomy)
    counter = lw.WordCounter(min_count=2, stemmer="english")
    at_once = make_pipeline(counter, model).fit(texts, labels)
    expected = at_once.predict_log_proba(texts)
    found = streams.fit(
        make_pipeline(lw.WordCounter(min_count=2, stemmer="english"), model), corpus, memory=ROOMY
    )
    assert found[0].vocabulary_ == counter.vocabulary_
    np.testing.assert_array_equal(found.classes_, at_once.classes_)
    np.testing.assert_allclose(found.predict_log_proba(texts), expected, rtol=1e-9, atol=1e-9)
    model.set_params(taxonomy=None)


def test_keywords_and_documents_without_labels(some, pets, pet_texts, pet_labels, tmp_path):
    """EM goes over the counts again and again: they are on disk."""
    few = [label if i % 4 == 0 else None for i, label in enumerate(pet_labels)]
    write_csv(tmp_path / "pets.csv", pet_texts * 20, few * 20)
    counter = lw.WordCounter()
    at_once = make_pipeline(counter, lw.HierarchicalDirichlet(pets, vocabulary=counter))
    expected = at_once.fit(pet_texts * 20, few * 20).predict_proba(pet_texts)
    counter = lw.WordCounter()
    model = make_pipeline(counter, lw.HierarchicalDirichlet(pets, vocabulary=counter))
    found = streams.fit(model, Corpus(tmp_path / "pets.csv"), memory=ROOMY)
    assert found[-1].n_iter_ == at_once[-1].n_iter_ > 1
    np.testing.assert_allclose(found.predict_proba(pet_texts), expected, atol=1e-9)


@pytest.mark.parametrize("few", ["all", "none"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"shape": "splits"}, {"topics": "leaf"}, {"unit": "document"}, {"tree": "given"}],
    ids=repr,
)
def test_a_tree_grows_from_a_stream(some, settings, few, monkeypatch):
    """Whether classes are fetched to be split, or split where they are on disk."""
    tree, texts, _, corpus = some
    given = settings | ({"tree": tree} if "tree" in settings else {})
    if few == "none":
        monkeypatch.setattr(streams, "_FETCHED", 0.0)
    model = lw.HPLSA(4, max_iter=20, **given)
    at_once = make_pipeline(lw.WordCounter(min_count=2), model).fit(texts)
    expected = at_once.transform(texts)
    found = make_pipeline(lw.WordCounter(min_count=2), clone(model))
    assert streams.fit(found, corpus, memory=ROOMY) is found
    np.testing.assert_allclose(found.transform(texts), expected, atol=1e-5)
    np.testing.assert_allclose(found[-1].p_leaf_given_document_, expected, atol=1e-5)
    if not given.get("tree"):  # its nodes are named by words, at once or not
        words = at_once[0].get_feature_names_out()
        named = clone(model).set_params(vocabulary=words).fit(at_once[0].transform(texts))
        assert found[-1].tree_.paths == named.tree_.paths


def test_a_tree_that_does_not_fit(some):
    *_, corpus = some
    bound = Room.of("64GiB").bound - Room.of("64GiB").left + 128 * MIB
    model = make_pipeline(lw.WordCounter(), lw.HPLSA(100_000))
    message = r"HPLSA needs about .* to grow a tree from 240 documents and .* words, and memory=.* "
    with pytest.raises(LeafwiseError, match=message + "leaves .* have fewer leaves or words"):
        streams.fit(model, corpus, memory=bound)


def test_trees_that_no_stream_can_grow(some):
    *_, corpus = some
    with pytest.raises(ValueError, match='n_leaves="auto" needs all documents in memory: expected'):
        streams.fit(make_pipeline(lw.WordCounter(), lw.HPLSA("auto")), corpus, memory=ROOMY)
    again = make_pipeline(lw.WordCounter(), lw.HPLSA(3, max_iter=5, warm_start=True))
    streams.fit(again, corpus, memory=ROOMY)
    with pytest.raises(ValueError, match="warm_start=True goes on with the words of the last fit"):
        streams.fit(again, corpus, memory=ROOMY)


def test_several_labels(tmp_path, pets, pet_texts, pet_labels):
    labels = [(one, "animals/dogs") if i % 5 == 0 else (one,) for i, one in enumerate(pet_labels)]
    rows = [{"text": t, "labels": list(dict.fromkeys(one))} for t, one in zip(pet_texts, labels)]
    (tmp_path / "pets.jsonl").write_text("\n".join(map(json.dumps, rows)))
    expected = make_pipeline(lw.WordCounter(), lw.HierarchicalMixture(pets))
    expected = expected.fit(pet_texts, [row["labels"] for row in rows]).predict_proba(pet_texts)
    model = make_pipeline(lw.WordCounter(), lw.HierarchicalMixture(pets))
    streams.fit(model, Corpus(tmp_path / "pets.jsonl", batch_size=3), memory=ROOMY)
    np.testing.assert_allclose(model.predict_proba(pet_texts), expected, atol=1e-12)


def test_what_cannot_be_learned_from_a_stream(some):
    tree, _, _, corpus = some
    with pytest.raises(TypeError, match="PachinkoMachine does not learn from counts that add up"):
        streams.fit(make_pipeline(lw.WordCounter(), lw.PachinkoMachine(tree)), corpus, memory=ROOMY)
    with pytest.raises(TypeError, match="model is a NaiveBayes: expected make_pipeline"):
        streams.fit(lw.NaiveBayes(tree), corpus)
    with pytest.raises(TypeError, match=r"corpus is a list: expected a leafwise\.corpus\.Corpus"):
        streams.fit(lw.TaxonomyClassifier(tree), ["a text"])
    with pytest.raises(TypeError, match=r"corpus is a list: expected a leafwise\.corpus\.Corpus"):
        streams.sample(lw.TaxonomyClassifier(tree), ["a text"])
    message = "model is a NaiveBayes: expected a TaxonomyClassifier. Models of counts need no sampl"
    with pytest.raises(TypeError, match=message):
        streams.sample(lw.NaiveBayes(tree), corpus, memory=ROOMY)
    model, message = lw.TaxonomyClassifier(tree), "on_progress=5: expected a function that is calle"
    for learn in (streams.fit, streams.sample):
        with pytest.raises(TypeError, match=message):
            learn(model, corpus, memory=ROOMY, on_progress=5)
    assert corpus.n_documents is None  # nothing was read


def test_no_label_at_all(tmp_path, pets, pet_texts):
    write_csv(tmp_path / "pets.csv", pet_texts, [None] * len(pet_texts))
    corpus = Corpus(tmp_path / "pets.csv")
    with pytest.raises(ValueError, match="No document has a label, so there is nothing to learn"):
        streams.fit(make_pipeline(lw.WordCounter(), lw.NaiveBayes(pets)), corpus, memory=ROOMY)
    with pytest.raises(ValueError, match="No document has a label, and there is no taxonomy"):
        streams.fit(make_pipeline(lw.WordCounter(), lw.NaiveBayes()), corpus, memory=ROOMY)


def test_words_that_outgrow_their_room(tmp_path, monkeypatch):
    """Rare words go, the others stay with all their counts, and it is said."""
    draw = random.Random(0)
    usual = [f"usual{i}" for i in range(50)]
    texts = [" ".join([*draw.choices(usual, k=5), f"once{i}"]) for i in range(3000)]
    write_csv(tmp_path / "words.csv", texts, ["a", "b"] * 1500)
    monkeypatch.setattr(streams, "_ROWS", 100)
    monkeypatch.setattr(streams, "_WORDS", 1000 * 300 / Room.of("4GiB").left)
    model = make_pipeline(lw.WordCounter(), lw.NaiveBayes())
    with pytest.warns(UserWarning, match=r"more words than 4GiB has room for: .* come once when"):
        streams.fit(model, Corpus(tmp_path / "words.csv"), memory="4GiB")
    kept = model[0].vocabulary_
    assert set(usual) <= set(kept)
    assert len(kept) < 1500
    complete = make_pipeline(lw.WordCounter(), lw.NaiveBayes()).fit(texts, ["a", "b"] * 1500)
    for word in usual:
        counts = [
            m[-1].word_counts_[:, m[0].vocabulary_[word]].toarray() for m in (model, complete)
        ]
        np.testing.assert_array_equal(*counts)


def test_counts_that_outgrow_their_room(tmp_path, monkeypatch):
    texts = [" ".join(f"w{(i * 7 + j) % 4001}" for j in range(60)) for i in range(500)]
    write_csv(tmp_path / "many.csv", texts, [f"class {i % 50}" for i in range(500)])
    monkeypatch.setattr(streams, "model_needs", lambda *sizes: 1e12)
    model = make_pipeline(lw.WordCounter(), lw.NaiveBayes())
    with pytest.raises(LeafwiseError, match=r"NaiveBayes has .* pairs .* count fewer words"):
        streams.fit(model, Corpus(tmp_path / "many.csv"), memory=ROOMY)


def test_each_pass_says_how_far_it_is(some):
    tree, *_, corpus = some
    heard = []
    model = make_pipeline(lw.WordCounter(), lw.NaiveBayes(tree))
    streams.fit(model, corpus, memory=ROOMY, on_progress=lambda *said: heard.append(said))
    assert [what for what, done, total in heard if done == total] == ["Counting"] * 2 + [
        "Learning"
    ] * 2
    assert corpus.on_progress is None


# ---- samples ------------------------------------------------------------------------------------


def documents(n: int) -> list[tuple[str, tuple[str, ...]]]:
    draw = random.Random(n)
    found = []
    for i in range(n):
        text = f"{i % (n - 50)} " + "x" * draw.randrange(1, 400)  # some are there twice
        found.append((text, ("a",) if i % 40 == 0 else ()))
    return found


def batches(rows, size):
    from leafwise.corpus import Batch

    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        yield Batch([t for t, _ in part], [given for _, given in part], [], [], {})


@pytest.mark.parametrize("share", [0.5, 0.2, 0.02])
def test_the_order_of_documents_and_batches_changes_nothing(share):
    rows = documents(1000)
    room = int(share * sum(map(stream_sample._size, (text for text, _ in rows))))
    first = stream_sample.draw(batches(rows, 1000), room)
    assert sum(map(stream_sample._size, first.texts)) <= room
    assert (first.n_documents, first.n_labelled) == (1000, 25)
    random.Random(1).shuffle(rows)
    assert stream_sample.draw(batches(rows, 37), room) == first
    n_labelled = len({row for row in rows if row[1]})
    assert (
        first.n_kept_labelled == n_labelled if share > 0.02 else first.n_kept_labelled < n_labelled
    )


def test_a_sample_has_the_lowest_hashes_that_fit():
    """Against all documents sorted by their hashes."""
    rows = [row for row in dict.fromkeys(documents(1000)) if not row[1]]
    found = stream_sample.draw(batches(rows, 100), 100_000)
    kept, size = [], 0
    for text, _ in sorted(rows, key=lambda row: stream_sample.key_of(*row)):
        size += stream_sample._size(text)
        if size > 100_000:
            break
        kept.append(text)
    assert found.texts == kept


def test_a_text_of_many_copies_leaves_room_for_others():
    rows = documents(500) + [("n/a", ())] * 100_000
    found = stream_sample.draw(batches(rows, 1000), 100_000)
    assert found.texts.count("n/a") <= 1
    assert len(found.texts) > 100


def test_what_fits_is_learned_whole(many, tmp_path):
    tree, texts, _, few = many
    write_csv(tmp_path / "many.csv", texts, few)
    expected = lw.TaxonomyClassifier(tree).fit(texts, few)
    found = streams.fit(lw.TaxonomyClassifier(tree), Corpus(tmp_path / "many.csv"), memory=ROOMY)
    np.testing.assert_array_equal(found.predict_proba(texts), expected.predict_proba(texts))
    assert found.report_ == expected.report_


def test_what_does_not_fit_is_reported(many, tmp_path, monkeypatch):
    tree, texts, _, few = many
    write_csv(tmp_path / "many.csv", texts, few)
    monkeypatch.setattr(streams, "sample_needs", lambda model, found: len(found.texts) * 4 * MIB)
    bound = Room.of("64GiB").bound - Room.of("64GiB").left + 444 * MIB  # room for 99
    model = streams.fit(lw.TaxonomyClassifier(tree), Corpus(tmp_path / "many.csv"), memory=bound)
    assert model.report_[0] == (
        f"Learned from 99 of 240 documents, for which {bound} is enough: 24 of 24 with a label, "
        "and 75 of the others, by a hash of their text."
    )
    assert (model.predict(texts) == model.classes_[0]).mean() < 0.5
    monkeypatch.setattr(streams, "sample_needs", lambda model, found: 1e12)
    with pytest.raises(LeafwiseError, match=r"is too little for even one document of .*many\.csv"):
        streams.fit(lw.TaxonomyClassifier(tree), Corpus(tmp_path / "many.csv"), memory=bound)


# ---- memory, in processes of their own ----------------------------------------------------------

LEARN = """
import re, resource, sys
from sklearn.pipeline import make_pipeline
import leafwise as lw
from leafwise import streams
from leafwise.corpus import Corpus
kind, path, memory = sys.argv[1:]
model = lw.TaxonomyClassifier(spread=False)
if kind != "TaxonomyClassifier":
    growing = {"n_leaves": 4, "max_iter": 5, "betas": [1.0]}
    settings = {"HierarchicalDirichlet": {"max_iter": 3}, "HPLSA": growing}.get(kind, {})
    model = make_pipeline(lw.WordCounter(), getattr(lw, kind)(**settings))
streams.fit(model, Corpus(path), memory=memory)
assert kind != "HPLSA" or len(model[-1].leaves_) == 4
# Not ru_maxrss, which begins with what the process had that started this one.
status = open("/proc/self/status").read() if sys.platform == "linux" else ""
found = re.search(r"VmHWM:\\s*(\\d+) kB", status)
peak = int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(peak * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """50 MB of texts: their counts and neighbours would take above 1 GiB at once."""
    path = tmp_path_factory.mktemp("large") / "large.csv"
    rng = np.random.default_rng(0)
    p = 1 / np.arange(1, 200_001)
    words = np.array([f"{i:x}word" for i in range(len(p))])
    with open(path, "w", encoding="ascii") as file:
        file.write("text,label\n")
        for _ in range(30):
            drawn = words[rng.choice(len(p), (4000, 50), p=p / p.sum())]
            file.writelines(
                f"{f'topic{j % 4} ' * 8}{' '.join(row)},{f'class {j % 4}' if j % 50 < 4 else ''}\n"
                for j, row in enumerate(drawn)
            )
        assert file.tell() > 45e6
    yield path, 30 * 4000
    path.unlink()


@pytest.mark.parametrize(
    ("kind", "memory"),
    [("HierarchicalMixture", "700MiB"), ("HierarchicalDirichlet", "700MiB"), ("HPLSA", "900MiB")],
)
def test_models_stay_below_the_bound(large, kind, memory):
    path, _ = large
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LEARN, kind, str(path), memory],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < bytes_of(memory)


@pytest.mark.parametrize(("memory", "least"), [("700MiB", 1000), ("900MiB", 9000)])
def test_a_sample_stays_below_the_bound(large, memory, least):
    path, n = large
    code = LEARN + "print(model.report_[0])"
    done = subprocess.run(
        [sys.executable, "-c", code, "TaxonomyClassifier", str(path), memory],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    peak, report = done.stdout.splitlines()
    assert int(peak) < bytes_of(memory)
    found = re.match(rf"Learned from ([\d,]+) of 120,000 documents, for which {memory} is", report)
    assert least < int(found[1].replace(",", "")) < n / 2


LEARN_AT_MANY_NODES = """
import re, sys
import leafwise as lw
from leafwise import streams
from leafwise.corpus import Corpus
path, memory = sys.argv[1:]
tree = lw.Taxonomy.from_paths([f"c{i // 10}/d{i}" for i in range(1000)])
model = lw.TaxonomyClassifier(tree)
streams.fit(model, Corpus(path), memory=memory)
status = open("/proc/self/status").read()
print(1024 * int(re.search(r"VmHWM:\\s*(\\d+) kB", status)[1]))
print(model.report_[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_short_documents_in_a_large_tree_stay_below_the_bound(tmp_path):
    """Each is shared among many classes, so what is made of them is far larger than they are."""
    tree = lw.Taxonomy.from_paths([f"c{i // 10}/d{i}" for i in range(1000)])
    drawn = make_corpus(tree, 20_000, 5000, 10, random_state=0)
    labels = [label if i % 20 == 0 else None for i, label in enumerate(drawn.labels)]
    write_csv(tmp_path / "short.csv", drawn.texts(), labels)
    done = subprocess.run(
        [sys.executable, "-c", LEARN_AT_MANY_NODES, str(tmp_path / "short.csv"), "900MiB"],
        env=ENVIRONMENT, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    peak, report = done.stdout.splitlines()
    assert int(peak) < 900 * MIB
    found = re.match(r"Learned from ([\d,]+) of 20,000 documents, for which 900MiB is", report)
    assert 500 < int(found[1].replace(",", "")) < 20_000
