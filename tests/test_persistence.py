import json
import os
import stat
import struct
import zipfile

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

import leafwise as lw
from leafwise import persistence
from leafwise.exceptions import ModelFileError, OutputError


@pytest.fixture(scope="module")
def model(pets, pet_texts, pet_labels):
    labels = [label if i % 4 == 0 else None for i, label in enumerate(pet_labels)]
    return lw.TaxonomyClassifier(pets).fit(pet_texts, labels)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "pets.leafwise-model"
    model.save(path)
    return path


def rewritten(saved, path, change):
    """Write the file again, with the document and the arrays changed by `change`."""
    with zipfile.ZipFile(saved) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members["model.json"])
    document = change(document, members) or document
    members["model.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_a_model_comes_back_whole(model, saved, pet_texts):
    loaded = lw.load(saved)
    np.testing.assert_array_equal(loaded.predict_proba(pet_texts), model.predict_proba(pet_texts))
    assert loaded.taxonomy_ == model.taxonomy_
    assert loaded.report_ == model.report_
    assert loaded.explain(pet_texts[0]) == model.explain(pet_texts[0])
    assert repr(loaded.get_params()) == repr(model.get_params())


def test_a_counter_comes_back_whole(tmp_path):
    counter = lw.WordCounter(
        stemmer="porter", stop_words=["the"], ngram_range=(1, 2), min_count=2, token_pattern=r"\S+"
    )
    texts = ["the cats and the dogs ran", "cats ran and dogs \x00\x01 ran", "cats ran"]
    counter.fit(texts)
    counter.save(tmp_path / "counter")
    loaded = lw.load(tmp_path / "counter")
    assert loaded.vocabulary_ == counter.vocabulary_
    np.testing.assert_array_equal(
        loaded.transform(texts).toarray(), counter.transform(texts).toarray()
    )
    loaded.partial_fit(["cats ran far"])
    assert loaded.n_documents_ == 4


@pytest.mark.parametrize("y", [[3, 7, 3], ["x", "y", "x"], [True, False, True], [0.5, 1.5, 0.5]])
def test_classes_keep_their_type(y, tmp_path):
    y = np.array(y).astype(float) * 2 if isinstance(y[0], float) else np.array(y)
    model = lw.NaiveBayes().fit([[1, 0], [0, 1], [2, 0]], y)
    model.save(tmp_path / "model")
    loaded = lw.load(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.predict([[0, 5]]), model.predict([[0, 5]]))


def test_saving_replaces_whole_or_not_at_all(model, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"before")
    unsaveable = lw.WordCounter(stemmer=str.lower).fit(["some text"])
    with pytest.raises(ModelFileError, match="a model file holds data, no code"):
        unsaveable.save(path)
    assert path.read_bytes() == b"before"
    model.save(path)
    lw.load(path)
    assert os.listdir(tmp_path) == ["model"]


def test_places_that_cannot_be_written(model, tmp_path):
    with pytest.raises(OutputError, match="there is no folder"):
        model.save(tmp_path / "nowhere" / "model")
    with pytest.raises(OutputError, match="it is a folder"):
        model.save(tmp_path)
    kept = tmp_path / "kept"
    kept.write_text("precious")
    kept.chmod(stat.S_IRUSR)
    with pytest.raises(OutputError, match="the file is read-only"):
        model.save(kept)
    assert kept.read_text() == "precious"


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ModelFileError, match="This NaiveBayes is not fitted"):
        lw.NaiveBayes().save(tmp_path / "model")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a leafwise model, or only part of one"),
        (b"hello", "is not a leafwise model"),
        (b"PK\x03\x04" + b"\x00" * 100, "is not a leafwise model"),
    ],
)
def test_other_files(data, message, tmp_path):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(ModelFileError, match=message):
        lw.load(tmp_path / "file")


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(ModelFileError, match="There is no file"):
        lw.load(tmp_path / "file")
    with pytest.raises(ModelFileError, match="cannot be read: Is a directory"):
        lw.load(tmp_path)


def test_a_zip_of_something_else(tmp_path):
    with zipfile.ZipFile(tmp_path / "file", "w") as archive:
        archive.writestr("model.json", "[]")
    with pytest.raises(ModelFileError, match="is a zip file, but not a leafwise model"):
        lw.load(tmp_path / "file")
    with zipfile.ZipFile(tmp_path / "other", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ModelFileError, match="is damaged"):
        lw.load(tmp_path / "other")


@pytest.mark.parametrize("error", [MemoryError(), NameError("bug")])
def test_a_fault_that_is_not_the_files_is_not_laid_on_it(saved, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(persistence, "_unpack", fail)
    with pytest.raises(type(error)):
        lw.load(saved)


def test_a_newer_format(saved, tmp_path):
    path = rewritten(saved, tmp_path / "new", lambda d, _: d.update(version=99))
    with pytest.raises(ModelFileError, match=r"format version 99; .* Upgrade leafwise"):
        lw.load(path)


def test_compressed_parts_are_refused(saved, tmp_path):
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(tmp_path / "f", "w") as bomb:
        for name in archive.namelist():
            bomb.writestr(name, archive.read(name))
        bomb.writestr("bomb.npy", b"\0" * 1_000_000, zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="it has compressed parts"):
        lw.load(tmp_path / "f")


def set_class(name):
    return lambda d, _: d["model"].update({"class": name})


def break_learned(name, value):
    return lambda d, _: d["model"]["learned"].update({name: value})


def header(dtype="<f8", shape="(1000000000000,)", fortran="False"):
    text = f"{{'descr': {dtype!r}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def first_array(data):
    def change(document, members):
        members["array0.npy"] = data

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_class("os.system"), "which is no model of leafwise"),
        (set_class("load"), "which is no model of leafwise"),
        (set_class("WordCounter"), "is damaged"),
        (lambda d, _: d["model"].pop("class"), "is damaged"),
        (lambda d, _: d["model"]["parameters"].update(surprise=1), "is damaged"),
        (break_learned("fit", 1), "learns no 'fit'"),
        (break_learned("temperature_", -1), "temperature is no positive number"),
        (break_learned("temperature_", "hot"), "is damaged"),
        (break_learned("new_temperature_", 0), "temperature is no positive number"),
        (break_learned("doubt_", 1), "doubt is no number from 0 to 1"),
        (break_learned("leaning_", -1), "doubt is no number from 0 to 1"),
        (break_learned("nodes_", {"list": [0]}), "is damaged"),
        (break_learned("classes_", {"strings": [1], "fixed": True}), "stands where a string must"),
        (lambda d, _: d.update(model=[1, 2]), "a list stands where there can be none"),
        (lambda d, _: d.update(model={"list": []}), "holds no model"),
        (first_array(header()), "an array is longer or shorter than it says"),
        (first_array(header(dtype="|O")), "has no place in a model"),
        (first_array(header(shape="(1, 1, 1)")), "has no place in a model"),
        (first_array(b"no array"), "is damaged"),
        (lambda d, m: m.pop("array0.npy"), "is damaged: 'array0'"),
    ],
)
def test_hostile_files(change, message, saved, tmp_path):
    def apply(document, members):
        change(document, members)

    with pytest.raises(ModelFileError, match=message):
        lw.load(rewritten(saved, tmp_path / "file", apply))


@pytest.mark.parametrize("text", ["[" * 100_000, '{"list":[' * 100_000, "{", "\xff", "NaN"])
def test_odd_json(text, tmp_path):
    with zipfile.ZipFile(tmp_path / "file", "w") as archive:
        archive.writestr("model.json", text.encode("latin-1"))
    with pytest.raises(ModelFileError, match=r"is damaged|not a leafwise model"):
        lw.load(tmp_path / "file")


def test_sparse_indices_out_of_range_are_refused(saved, tmp_path):
    def change(document, members):
        counts = document["model"]["learned"]["model_"]["learned"]["word_counts_"]
        name = counts["csr"][1]["array"] + ".npy"
        members[name] = members[name][:-4] + struct.pack("<i", 2**30)

    with pytest.raises(ModelFileError, match=r"is damaged: .*ind"):
        lw.load(rewritten(saved, tmp_path / "file", change))


@pytest.mark.parametrize("seed", range(4))
def test_fuzz(seed, model, saved, tmp_path, pet_texts):
    """Whatever the bytes, a load gives the same model or a ModelFileError."""
    raw = saved.read_bytes()
    expected = model.predict_proba(pet_texts)
    rng = np.random.default_rng(seed)
    path = tmp_path / "file"
    n_errors = 0
    for k in range(250):
        damaged = bytearray(raw)
        if k % 4 == 0:
            del damaged[rng.integers(len(raw)) :]
        elif k % 4 == 1:
            at = rng.integers(len(raw))
            damaged[at : at + rng.integers(1, 50)] = rng.bytes(rng.integers(0, 50))
        else:
            for at in rng.integers(len(raw), size=rng.integers(1, 8)):
                damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            loaded = lw.load(path)
        except ModelFileError:
            n_errors += 1
        else:
            np.testing.assert_array_equal(loaded.predict_proba(pet_texts), expected)
    assert n_errors > 200


def test_settings_of_a_part_and_frozen_counters_are_kept(tmp_path, pets, pet_texts):
    import leafwise as lw

    model = lw.TaxonomyClassifier(pets, model=lw.HierarchicalDirichlet(sigma=20.0)).fit(pet_texts)
    model.save(tmp_path / "m")
    loaded = lw.load(tmp_path / "m")
    assert loaded.model.sigma == 20.0
    np.testing.assert_array_equal(
        loaded.predict_log_proba(pet_texts), model.predict_log_proba(pet_texts)
    )
    counter = lw.WordCounter()
    X = counter.fit_transform(pet_texts)
    frozen = lw.HierarchicalDirichlet(pets, vocabulary=FrozenEstimator(counter)).fit(X)
    frozen.save(tmp_path / "f")
    assert lw.load(tmp_path / "f").vocabulary.vocabulary_ == counter.vocabulary_
    with pytest.raises(ModelFileError, match="This HierarchicalDirichlet is not fitted"):
        lw.HierarchicalDirichlet(pets).save(tmp_path / "u")
