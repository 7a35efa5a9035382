"""The project file: documents, labels with their history, the tree, runs; and what must hold."""

import os
import sqlite3
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import leafwise.store.database as database
from leafwise import TaxonomyClassifier
from leafwise.corpus import Batch
from leafwise.exceptions import (
    ConflictError,
    CorpusError,
    LabelError,
    MissingError,
    OutputError,
    ProjectError,
)
from leafwise.store import Project
from leafwise.store.schema import APPLICATION_ID, MIGRATIONS
from leafwise.taxonomy import Taxonomy
from leafwise.taxonomy_changes import add, merge, move, remove, rename, set_keywords


def batch(texts, labels=None, ids=None):
    ids = [f"d{i}" for i in range(len(texts))] if ids is None else ids
    labels = [()] * len(texts) if labels is None else labels
    return Batch(list(texts), labels, ids, list(range(1, len(texts) + 1)), {})


@pytest.fixture
def project(tmp_path, pets, pet_texts):
    with Project.create(tmp_path / "pets.leafwise", pets) as project:
        project.documents.add([batch(pet_texts)])
        yield project
        assert project.check() == []


@pytest.fixture(scope="module")
def model(pets, pet_texts):
    return TaxonomyClassifier(pets).fit(pet_texts)


def label(project, key, *labels, by="ada", **more):
    return project.labels.answer(project.documents.find(key).id, labels, by=by, **more)


def labels_of(project, key):
    return project.documents.find(key).labels


def run(project, model, best="animals/cats"):
    started = project.runs.start()
    ids = [id for rows in project.documents.each() for id, *_ in rows]
    n = len(ids)
    sure = [[0.5 + i / 100, 0.1] for i in range(n)]
    project.runs.add_predictions(started.id, ids, [[best, "vehicles/boats"]] * n, sure)
    project.runs.set_queue(started.id, [(ids[3], "queue"), (ids[1], "check"), (ids[0], "queue")])
    project.runs.finish(started.id, model, ["It went well."], {"belief": 0.6})
    return project.runs.get(started.id)


# ---- the file ----


def test_a_project_opens_as_it_was_left(project, pets):
    label(project, "d0", "cats")
    path, info = project.path, project.info()
    project.close()
    with Project(path) as again:
        assert again.tree.taxonomy == pets
        assert again.info()._replace(bytes=0) == info._replace(bytes=0)
        assert (again.name, again.several, again.language) == ("pets", False, "english")
        assert labels_of(again, "d0") == ("animals/cats",)
        project.__init__(path)  # for what the fixture checks


def test_one_file_is_left_when_it_is_closed(tmp_path, pets):
    Project.create(tmp_path / "a.leafwise", pets).close()
    assert [path.name for path in tmp_path.iterdir()] == ["a.leafwise"]


def test_a_file_is_never_overwritten(tmp_path, pets):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(ProjectError, match=r"There is a file .*notes\.txt already"):
        Project.create(path, pets)
    assert path.read_text() == "mine"


def test_a_project_that_cannot_be_made_leaves_no_file(tmp_path):
    with pytest.raises(AttributeError):
        Project.create(tmp_path / "a.leafwise", taxonomy="no tree")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a leafwise project"),
        (b"id,text\n1,a\n", "is not a leafwise project"),
        (
            b"SQLite format 3\x00" + b"\x01" * 500,
            r"cannot be opened: .*\. Go back to a backup, if there is one\.$",
        ),
    ],
)
def test_a_foreign_file_is_told(tmp_path, content, message):
    path = tmp_path / "a.leafwise"
    path.write_bytes(content)
    with pytest.raises(ProjectError, match=message):
        Project(path)
    assert path.read_bytes() == content


def test_a_missing_file_and_another_database_are_told(tmp_path):
    with pytest.raises(ProjectError, match=r"There is no file .*leafwise project new makes one"):
        Project(tmp_path / "a.leafwise")
    sqlite3.connect(tmp_path / "b.db").execute("CREATE TABLE t (a)").connection.close()
    with pytest.raises(ProjectError, match="is a database, but not a leafwise project"):
        Project(tmp_path / "b.db")


@contextmanager
def without_rights():
    """Be nobody in particular: modes of files say nothing to root."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.name == "nt", reason="folders have no such mode there")
@pytest.mark.parametrize("mode", [0o444, 0o666], ids=["file", "folder"])
def test_a_project_that_cannot_be_written_says_what_to_do(pets, mode):
    with tempfile.TemporaryDirectory() as folder:  # the folders of pytest are for one user alone
        path = Path(folder, "a.leafwise")
        Project.create(path, pets).close()
        path.chmod(mode)
        os.chmod(folder, 0o555)
        message = (
            rf"{path} cannot be opened: the file and its folder must be writable, also to look at "
            r"it\. Change that, or copy the file to a folder of yours and open the copy\.$"
        )
        with without_rights(), pytest.raises(ProjectError, match=message):
            Project(path)
        os.chmod(folder, 0o755)


def test_a_newer_file_is_told(tmp_path, pets):
    path = tmp_path / "a.leafwise"
    Project.create(path, pets).close()
    with database.Database.alone(str(path)) as db:
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(
        ProjectError, match=r"has version 4; this leafwise .* reads up to 3\. Upgrade"
    ):
        Project(path)


def old_file(path, version):
    """Make a file as an older leafwise left it, with one document."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    for statement in (sql for step in MIGRATIONS[:version] for sql in step):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {version}")
    db.execute("INSERT INTO nodes (id, parent, position, name) VALUES (1, NULL, 0, '')")
    db.execute("INSERT INTO meta VALUES ('tree', '0')")
    db.execute("INSERT INTO documents VALUES (1, 'old', 'An owl from before.')")
    db.close()


def test_an_older_file_is_brought_up_to_date(tmp_path):
    old_file(tmp_path / "a.leafwise", 1)
    with Project(tmp_path / "a.leafwise") as project:
        assert [d.key for d in project.documents.page(search="owl").documents] == ["old"]
        assert project.check() == []


def test_a_migration_that_fails_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a.leafwise"
    old_file(path, 1)
    broken = (MIGRATIONS[0], ("CREATE TABLE half (a)", "CREATE TABEL whole (a)"))
    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", broken)
        with pytest.raises(ProjectError, match='near "TABEL": syntax error'):
            Project(path)
    with database.Database.alone(str(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (1,)
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchone()
    Project(path).close()


def test_a_closed_project_says_so(tmp_path, pets):
    project = Project.create(tmp_path / "a.leafwise", pets)
    project.close()
    with pytest.raises(ProjectError, match="is closed"):
        project.documents.count()
    with pytest.raises(ProjectError, match="is closed"):
        project.set("target", 0.8)


def test_settings(project):
    assert project.get("target", 0.9) == 0.9
    project.set("target", 0.8)
    assert project.get("target", 0.9) == 0.8
    with pytest.raises(ProjectError, match="several is settled when a project is made"):
        project.set("several", True)


def test_backup_is_whole_and_overwrites_nothing(project, tmp_path):
    label(project, "d0", "cats")
    project.backup(tmp_path / "copy.leafwise")
    label(project, "d1", "cats")
    with Project(tmp_path / "copy.leafwise") as copy:
        assert copy.info().n_labelled == 1
        assert copy.check() == []
    with pytest.raises(OutputError, match="there is such a file"):
        project.backup(tmp_path / "copy.leafwise")
    with pytest.raises(OutputError, match="there is no folder"):
        project.backup(tmp_path / "none" / "copy.leafwise")


# ---- documents ----


def test_adding_twice_adds_once(project, pet_texts):
    assert project.documents.add([batch(pet_texts)]) == (0, len(pet_texts), 0, 0)
    assert project.documents.count() == len(pet_texts)


def test_a_changed_text_is_kept_unless_it_is_to_be_replaced(project):
    new = batch(["Another text about owls."], ids=["d0"])
    before = project.documents.find("d0").text
    assert project.documents.add([new]) == (0, 0, 1, 0)
    assert project.documents.find("d0").text == before
    assert project.documents.add([new], replace=True) == (0, 0, 1, 0)
    assert project.documents.find("d0").text == "Another text about owls."
    assert [d.key for d in project.documents.page(search="owls").documents] == ["d0"]
    assert project.documents.page(search=before.split()[2]).documents == [] or all(
        d.key != "d0" for d in project.documents.page(search=before.split()[2]).documents
    )


def test_labels_that_come_with_documents_do_not_overrule_a_person(project):
    label(project, "d0", "cats")
    given = batch(["x", "y"], [("dogs",), ("animals",)], ["d0", "new"])
    assert project.documents.add([given]).n_labels == 1
    assert labels_of(project, "d0") == ("animals/cats",)
    assert labels_of(project, "new") == ("animals",)
    (answer,) = project.labels.history(project.documents.find("new").id)
    assert (answer.source, answer.by, answer.labels) == ("import", "import", ("animals",))


def test_the_same_id_twice_in_a_batch_is_one_document(project):
    twice = batch(["one text", "one text", "another"], ids=["e", "e", "e"])
    assert project.documents.add([twice]) == (1, 1, 1, 0)
    assert project.documents.find("e").text == "one text"


def test_a_bad_document_keeps_the_batches_before_it(project):
    good, bad = batch(["fine"], ids=["a"]), batch(["fine", "  "], ids=["b", "c"])
    n = project.documents.count()
    with pytest.raises(CorpusError, match="Document 'c': expected an id and a text"):
        project.documents.add([good, bad])
    assert project.documents.count() == n + 1
    with pytest.raises(LabelError, match='Document x:e: No node is called "owls"'):
        project.documents.add([batch(["fine"], [("owls",)], ["e"])], prefix="x:")
    with pytest.raises(LabelError, match="Document e: Got 2 labels, and each document"):
        project.documents.add([batch(["fine"], [("cats", "dogs")], ["e"])])
    assert project.documents.count() == n + 1


@pytest.mark.parametrize(("labels", "ids"), [([()], ["a", "b"]), ([(), ()], ["a"])])
def test_a_batch_has_as_many_of_each(project, labels, ids):
    n = project.documents.count()
    message = f"2 texts, labels for {len(labels)} and {len(ids)} ids: expected as many of each"
    with pytest.raises(CorpusError, match=message):
        project.documents.add([batch(["one", "two"], labels, ids)])
    assert project.documents.count() == n


def test_documents_that_differ_are_counted_before_they_are_added(project):
    count = project.documents.n_differing
    project.documents.add([batch(["one", "two"], ids=["1", "2"])], prefix="a.csv:")
    assert count([batch(["one", "2", "3"], ids=["1", "2", "3"])], prefix="a.csv:") == 1
    assert count([batch(["x"], ids=["1"])], prefix="b.csv:") == 0


def test_missing_documents_are_told(project):
    with pytest.raises(MissingError, match='There is no document "nope"'):
        project.documents.find("nope")
    with pytest.raises(MissingError, match="There is no document number 999"):
        project.documents.get(999)
    with pytest.raises(MissingError, match="There is no document number 999"):
        project.labels.answer(999, ["cats"], by="ada")


@pytest.mark.parametrize(
    "text",
    ["null \x00 byte", "<script>alert(1)</script>", "=cmd()", 'a "quoted" NEAR( word*', "𝔘𝔫𝔦 é"],
)
def test_any_text_comes_back_as_it_was(project, text):
    project.documents.add([batch([text], ids=[text])])
    assert project.documents.find(text).text == text
    found = project.documents.page(search=text).documents
    assert text in [document.text for document in found]


@pytest.mark.parametrize(
    "search", ['"', "AND", "text:", "* OR *", "(", "{a b}", "^cat", "-cat", "\x00"]
)
def test_no_search_is_a_query_language(project, search):
    project.documents.page(search=search)  # and does not fail


def test_search_finds_words_however_they_are_written(project):
    keys = {d.key for d in project.documents.page(search="CAT sof").documents}
    assert keys == {"d0"}
    assert project.documents.page(search="d3").documents[0].key == "d3"


def pages(project, **how):
    found, after = [], None
    while True:
        page = project.documents.page(after=after, limit=3, **how)
        assert len(page.documents) <= 4
        found += [document.key for document in page.documents]
        after = page.after
        if after is None:
            return found


def test_pages_go_through_all_once(project, model, pet_texts):
    keys = [f"d{i}" for i in range(len(pet_texts))]
    run(project, model)
    label(project, "d4", "dogs")
    label(project, "d5", "cats")
    rest = [key for key in keys if key not in ("d4", "d5")]
    assert pages(project) == keys
    assert pages(project, state="labelled") == ["d4", "d5"]
    assert pages(project, state="unlabelled") == rest
    assert pages(project, order="unsure", state="unlabelled") == rest
    assert pages(project, order="sure", state="unlabelled") == rest[::-1]
    assert pages(project, node="animals", order="sure") == ["d4", "d5", *rest[::-1]]
    assert pages(project, node="animals") == ["d4", "d5", *rest]
    assert pages(project, node="animals", branch=False) == []
    assert pages(project, node="cats", state="labelled") == ["d5"]
    assert pages(project, node="dogs", search="the") == ["d4"]
    assert pages(project, node="vehicles") == []


def test_bad_pages_are_told(project):
    with pytest.raises(ProjectError, match="state='any': expected one of"):
        project.documents.page(state="any")
    for after in ("x", "[1, 2]", '["l", 0, 0]', "9" * 30, "[" * 5000, "null"):
        with pytest.raises(ProjectError, match="expected what the page before gave"):
            project.documents.page(after=after)


# ---- labels ----


def test_an_answer_is_kept_with_who_when_and_from_what(project, model):
    run(project, model)
    answer = label(
        project, "d4", "dogs", by="ada", suggested="cats", probability=0.54, asked="queue"
    )
    assert (answer.labels, answer.suggested) == (("animals/dogs",), "animals/cats")
    assert (answer.by, answer.probability, answer.asked) == ("ada", 0.54, "queue")
    assert answer.at.endswith("+00:00")
    label(project, "d4", "cats", by="bob")
    assert labels_of(project, "d4") == ("animals/cats",)
    history = project.labels.history(answer.document)
    assert [(a.by, a.labels) for a in history] == [
        ("ada", ("animals/dogs",)),
        ("bob", ("animals/cats",)),
    ]


def test_undo_gives_back_what_was_before(project, model):
    run(project, model)
    label(project, "d0", "cats")
    label(project, "d0", "dogs")
    assert project.labels.undo("ada").labels == ("animals/dogs",)
    assert labels_of(project, "d0") == ("animals/cats",)
    assert project.labels.undo("ada").undone
    assert labels_of(project, "d0") == ()
    assert project.labels.undo("ada") is None
    assert project.tree.counts().predicted.sum() == project.documents.count()


def test_undo_is_of_ones_own_answers(project):
    label(project, "d0", "cats", by="ada")
    label(project, "d1", "dogs", by="bob")
    project.labels.undo("ada")
    assert labels_of(project, "d0") == ()
    assert labels_of(project, "d1") == ("animals/dogs",)
    label(project, "d2", "cats", by="ada")
    label(project, "d2", "dogs", by="bob")
    with pytest.raises(ConflictError, match="bob has put this document on animals/dogs meanwhile"):
        project.labels.undo("ada")


def test_no_update_is_lost(project):
    shown = project.documents.find("d0")
    label(project, "d0", "cats", by="ada", seen=shown.version)
    with pytest.raises(ConflictError, match="ada has put this document on animals/cats meanwhile"):
        label(project, "d0", "dogs", by="bob", seen=shown.version)
    shown = project.documents.find("d0")
    project.labels.answer(shown.id, (), by="ada")
    for seen in (shown.version, 0):
        with pytest.raises(ConflictError, match="was taken away meanwhile"):
            label(project, "d0", "dogs", by="bob", seen=seen)


def test_labels_up_to_an_answer(project):
    first = label(project, "d0", "cats")
    label(project, "d1", "dogs")
    assert project.labels.all(first.id) == {first.document: ("animals/cats",)}
    assert len(project.labels.all()) == 2


def test_an_answer_that_comes_twice_is_one(project):
    first = label(project, "d0", "cats", token="t1")
    assert label(project, "d0", "dogs", token="t1") == first
    assert project.info().n_answers == 1


def test_skipping_is_no_label(project):
    id = project.documents.find("d0").id
    assert project.labels.answer(id, None, by="ada").labels is None
    assert project.labels.skipped() == {id}
    assert project.documents.get(id).labels == ()
    label(project, "d0", "cats")
    assert project.labels.skipped() == set()


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["owls"], 'No node is called "owls"'),
        (["/"], "The root is no label"),
        (["cats", "dogs"], "Got 2 labels, and each document of this project has one"),
        ("cats", "expected a list of paths, got one string"),
        ([None], "A label must be a path or a name"),
    ],
)
def test_bad_labels_are_told_and_nothing_is_kept(project, labels, message):
    id = project.documents.find("d0").id
    with pytest.raises(LabelError, match=message):
        project.labels.answer(id, labels, by="ada")
    assert project.labels.history(id) == []


def test_several_labels(tmp_path, pets, pet_texts):
    with Project.create(tmp_path / "a.leafwise", pets, several=True) as project:
        project.documents.add([batch(pet_texts[:1], [("dogs", "cats")])])
        assert labels_of(project, "d0") == ("animals/cats", "animals/dogs")
        label(project, "d0", "dogs", "boats", "animals/dogs")
        assert labels_of(project, "d0") == ("animals/dogs", "vehicles/boats")
        assert project.tree.edit(
            merge(project.tree.taxonomy, "dogs", into="boats"), "merge", by="ada"
        )
        assert labels_of(project, "d0") == ("vehicles/boats",)
        project.tree.undo("ada")
        assert labels_of(project, "d0") == ("animals/dogs", "vehicles/boats")
        assert project.check() == []


def test_a_document_with_several_labels_is_one_document_of_a_branch(tmp_path, pets):
    labels = [("cats", "dogs"), ("cats",), ("dogs", "boats"), ("animals", "cats"), ()]
    with Project.create(tmp_path / "a.leafwise", pets, several=True) as project:
        project.documents.add([batch(["text"] * 5, labels)])
        below, tree = project.tree.counts_below(), project.tree.taxonomy
        found = {path: int(n) for path, n in zip(tree.paths, below.confirmed)}
        assert found == {
            "/": 4,
            "animals": 4,
            "animals/cats": 3,
            "animals/dogs": 2,
            "vehicles": 1,
            "vehicles/boats": 1,
            "vehicles/cars": 0,
            "vehicles/cars/racing": 0,
        }


def test_confusions(project):
    for key, given in (("d0", "cats"), ("d1", "dogs"), ("d2", "dogs"), ("d3", "boats")):
        label(project, key, given, suggested="cats", probability=0.5)
    label(project, "d4", "cats", suggested="racing", probability=0.5)
    assert project.labels.confusions("cats") == [
        ("animals/cats", "animals/dogs", 2),
        ("animals/cats", "vehicles/boats", 1),
        ("vehicles/cars/racing", "animals/cats", 1),
    ]
    assert project.labels.confusions("boats") == [("animals/cats", "vehicles/boats", 1)]


def test_many_threads_and_no_answer_is_lost(project, pet_texts):
    errors = []

    def work(name):
        try:
            for i in range(len(pet_texts)):
                label(project, f"d{i}", "cats", by=name)
                project.documents.page(state="labelled")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert project.info().n_answers == 4 * len(pet_texts)


# ---- the tree ----


def edit(project, change, *arguments, **more):
    return project.tree.edit(
        change(project.tree.taxonomy, *arguments, **more), change.__name__, by="ada"
    )


def test_labels_follow_renamed_and_moved_nodes(project):
    label(project, "d0", "cats")
    edit(project, rename, "cats", "felines")
    edit(project, move, "animals/felines", "vehicles")
    assert labels_of(project, "d0") == ("vehicles/felines",)
    edit(project, add, "animals/owls", keywords="owl hoot")
    edit(project, set_keywords, "animals/dogs", ["dog"])
    assert project.tree.taxonomy.keywords[project.tree.taxonomy.index("owls")] == ("owl", "hoot")
    while project.tree.undo("ada"):
        pass
    assert labels_of(project, "d0") == ("animals/cats",)


def test_every_edit_can_be_undone(project, pets):
    for key, given in (("d0", "cats"), ("d4", "dogs"), ("d8", "boats"), ("d12", "racing")):
        label(project, key, given)
    before = project.labels.all()
    edits = [
        (rename, ("vehicles", "things"), {}),
        (merge, ("animals/cats", "animals/dogs"), {}),
        (remove, ("cars",), {}),
        (remove, ("animals",), {"keep": True}),
        (add, ("plants",), {}),
        (move, ("boats", "/"), {}),
    ]
    for change, arguments, more in edits:
        assert edit(project, change, *arguments, **more)
    assert [e.what for e in project.tree.edits()] == [c.__name__ for c, *_ in edits[::-1]]
    for change, *_ in edits[::-1]:
        assert project.tree.undo("ada").what == change.__name__
        assert project.check() == []
    assert project.tree.taxonomy == pets
    assert project.labels.all() == before
    assert project.tree.undo("ada") is None


def test_labels_given_since_an_edit_survive_its_undoing(project):
    label(project, "d0", "cats")
    label(project, "d1", "cats")
    edit(project, merge, "cats", into="dogs")
    label(project, "d1", "boats")
    project.tree.undo("ada")
    assert labels_of(project, "d0") == ("animals/cats",)
    assert labels_of(project, "d1") == ("vehicles/boats",)


def test_undoing_a_new_node_takes_its_labels_away(project, model):
    run(project, model)
    edit(project, add, "animals/owls")
    label(project, "d0", "owls")
    project.tree.undo("ada")
    assert labels_of(project, "d0") == ()
    assert project.tree.counts().predicted.sum() == project.documents.count()


def test_an_answer_can_be_undone_after_its_node_is_merged(project):
    label(project, "d0", "cats")
    label(project, "d0", "boats")
    edit(project, merge, "cats", into="dogs")
    project.labels.undo("ada")
    assert labels_of(project, "d0") == ("animals/dogs",)
    assert [a.source for a in project.labels.history(project.documents.find("d0").id)] == [
        "review",
        "review",
    ]


def test_history_tells_of_edits(project):
    label(project, "d0", "cats")
    edit(project, merge, "cats", into="dogs")
    edit(project, remove, "dogs")
    history = project.labels.history(project.documents.find("d0").id)
    assert [(a.source, a.labels) for a in history] == [
        ("review", ("animals/cats",)),
        ("tree", ("animals/dogs",)),
        ("tree", ()),
    ]


def test_edits_of_an_older_tree_are_refused(project):
    version, tree = project.tree.version, project.tree.taxonomy
    edit(project, rename, "cats", "felines")
    with pytest.raises(ConflictError, match="The tree was changed meanwhile"):
        project.tree.edit(add(tree, "owls"), "add", by="bob")
    with pytest.raises(ConflictError, match="The tree was changed meanwhile"):
        project.tree.edit(add(project.tree.taxonomy, "owls"), "add", by="bob", seen=version)
    assert project.tree.edit(add(project.tree.taxonomy, "cats"), "x", by="b", seen=version + 1)


def test_another_tree_keeps_what_has_the_same_path(project):
    label(project, "d0", "cats")
    label(project, "d4", "dogs")
    project.tree.replace(Taxonomy.from_paths(["animals/cats", "plants"]), by="ada")
    assert project.labels.all() == {project.documents.find("d0").id: ("animals/cats",)}


def test_counts_are_those_of_the_documents(project, model):
    assert project.tree.counts().predicted.sum() == 0
    run(project, model, best="dogs" if False else "animals/dogs")
    label(project, "d0", "cats")
    label(project, "d1", "animals")
    counts, tree = project.tree.counts(), project.tree.taxonomy
    n = project.documents.count()
    assert counts.confirmed[tree.index("cats")] == counts.confirmed[tree.index("animals")] == 1
    assert counts.predicted[tree.index("dogs")] == counts.predicted.sum() == n - 2
    assert counts.probability[tree.index("dogs")] == pytest.approx(
        sum(0.5 + i / 100 for i in range(2, n))
    )
    assert tree.subtree_sum(counts.confirmed)[tree.index("animals")] == 2


# ---- runs ----


def test_a_run_becomes_current_when_it_is_done(project, model, pet_texts):
    assert project.runs.current() is None
    assert project.runs.model() is None
    found = run(project, model)
    assert project.runs.current() == found
    assert (found.state, found.report, found.facts) == ("done", ["It went well."], {"belief": 0.6})
    loaded = project.runs.model()
    np.testing.assert_array_equal(loaded.predict_proba(pet_texts), model.predict_proba(pet_texts))
    document = project.documents.find("d2")
    assert document.prediction == ("animals/cats", 0.52, (("vehicles/boats", 0.1),))
    documents, _, probabilities = project.runs.found(found.id)
    assert documents.tolist() == list(range(1, len(pet_texts) + 1))
    np.testing.assert_allclose(probabilities, 0.5 + np.arange(len(pet_texts)) / 100, rtol=1e-6)


def test_a_run_that_is_under_way_changes_nothing(project, model):
    first = run(project, model)
    started = project.runs.start()
    project.runs.tell(started.id, "Sorting", 0.5)
    project.runs.add_predictions(started.id, [1], [["animals/dogs"]], [[0.9]])
    assert project.runs.running()[4:6] == ("Sorting", 0.5)
    assert project.runs.current() == first
    assert project.documents.get(1).prediction.path == "animals/cats"
    project.runs.fail(started.id, "No luck.")
    assert project.runs.get(started.id).report == ["No luck."]
    assert project.runs.running() is None
    assert project.documents.get(1).prediction.path == "animals/cats"


def test_there_is_one_run_at_a_time(project):
    started = project.runs.start()
    with pytest.raises(ProjectError, match="Another program is fitting this project, since"):
        project.runs.start()
    assert project.runs.running() == started
    assert project.runs.of_process(os.getpid()) == started
    project.runs.stop(started.id)
    assert project.runs.running() is None
    project.runs.start()


@pytest.mark.parametrize("gone", ["pid = 2147483647", "told = '2020-01-01T00:00:00.000+00:00'"])
def test_a_run_takes_the_place_of_one_whose_process_is_gone(project, model, gone):
    old = project.runs.start()
    with database.Database.alone(project.path) as db:
        db.execute(f"UPDATE runs SET {gone}")
    assert project.runs.running() is None
    new = project.runs.start()
    with pytest.raises(ProjectError, match="Run 1 was stopped, or another took its place"):
        project.runs.tell(old.id, "Sorting", 0.5)
    with pytest.raises(ProjectError, match="Run 1 was stopped"):
        project.runs.finish(old.id, model, [], {})
    project.runs.finish(new.id, model, [], {})
    assert project.runs.current().id == new.id


def test_the_rows_of_former_runs_are_removed_and_their_guesses_kept(project, model):
    first = run(project, model)
    second = run(project, model, best="animals/dogs")
    for table in ("predictions", "models", "queue"):
        runs = project._db.rows(f"SELECT DISTINCT run FROM {table}")
        assert runs == [(second.id,)]
    before, after = project.runs.found(first.id)[1], project.runs.found(second.id)[1]
    assert (before != after).all()
    with pytest.raises(MissingError, match="There is no run 9 that came to its end"):
        project.runs.found(9)


def test_answers_and_edits_during_a_run_count_when_it_is_done(project, model):
    started = project.runs.start()
    project.runs.add_predictions(started.id, [1, 2], [["animals/cats"]] * 2, [[0.9]] * 2)
    label(project, "d0", "dogs")
    edit(project, merge, "cats", into="dogs")
    label(project, "d2", "boats")
    best = ["animals/cats", "vehicles/boats", "animals/dogs"]
    project.runs.add_predictions(started.id, [3, 4], [best] * 2, [[0.6, 0.3, 0.1]] * 2)
    project.runs.finish(started.id, model, [], {})
    counts, tree = project.tree.counts(), project.tree.taxonomy
    assert counts.predicted[tree.index("dogs")] == counts.predicted.sum() == 2
    guess = ("animals/dogs", 0.6, (("vehicles/boats", 0.3),))
    assert project.documents.find("d3").prediction == guess


def test_the_queue_leaves_out_what_was_answered(project, model):
    run(project, model)
    assert project.runs.queue() == [(4, "queue"), (2, "check"), (1, "queue")]
    label(project, "d1", "cats")
    project.labels.answer(1, None, by="ada")
    assert project.runs.queue() == [(4, "queue")]
    project.labels.undo("ada")
    assert project.runs.queue() == [(4, "queue"), (1, "queue")]


# ---- drafts ----


def test_a_draft_is_renamed_and_accepted(project):
    draft = project.drafts.start("cats", 2, by="ada")
    assert (draft.state, draft.path) == ("running", "animals/cats")
    grown = Taxonomy.from_paths(["wild", "tame"])
    project.drafts.ready(draft.id, grown, {"wild": ["A lynx ..."]})
    renamed = project.drafts.rename(draft.id, "wild", "lynx")
    assert renamed.examples == {"lynx": ["A lynx ..."]}
    assert project.drafts.open() == [renamed]
    assert project.drafts.accept(draft.id, by="ada")
    assert "animals/cats/lynx" in project.tree.taxonomy
    assert project.drafts.open() == []
    project.tree.undo("ada")
    assert "animals/cats/lynx" not in project.tree.taxonomy


def test_a_draft_that_is_not_ready_is_told(project):
    draft = project.drafts.start(None, 2, by="ada")
    with pytest.raises(ProjectError, match="Draft 1 is running: expected one that is ready"):
        project.drafts.accept(draft.id, by="ada")
    project.drafts.fail(draft.id, "Too few documents.")
    assert project.drafts.get(draft.id).message == "Too few documents."
    project.drafts.discard(draft.id)
    assert project.drafts.open() == []
    with pytest.raises(ProjectError, match="n_leaves=1: expected a number from 2 on"):
        project.drafts.start(None, 1, by="ada")
    with pytest.raises(MissingError, match="There is no draft 7"):
        project.drafts.get(7)


# ---- checks ----


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("DELETE FROM labels", "labels: 1 documents without what their last answer says"),
        ("UPDATE nodes SET gone = 1 WHERE name = 'cats'", "labels: 1 on nodes that are gone"),
        ("UPDATE nodes SET gone = 1 WHERE name = 'cars'", "nodes: 1 below nodes that are gone"),
        ("UPDATE answers SET undone = 1", "labels: 1 from answers that were undone"),
        ("UPDATE documents SET text = 'other' WHERE id = 1", "words: what is searched in differs"),
        ("DELETE FROM documents WHERE id = 1", "it names a row of documents that is not there"),
        ("UPDATE models SET data = x'00'", "The model of run 1 is not a leafwise model"),
        ("UPDATE predictions SET labelled = 1 WHERE document = 2", "predictions: 1 of which it is"),
        ("UPDATE tallies SET n = n + 1", "tallies: 1 with another number of documents"),
    ],
)
def test_check_finds_what_is_wrong(tmp_path, pets, pet_texts, model, damage, message):
    with Project.create(tmp_path / "a.leafwise", pets) as project:
        project.documents.add([batch(pet_texts)])
        run(project, model)
        label(project, "d0", "cats")
        assert project.check() == []
        with database.Database.alone(project.path) as db:
            db.execute(damage)
        project.tree._state = None
        assert any(message in problem for problem in project.check()), project.check()


def test_a_damaged_page_is_found(tmp_path, pets, pet_texts):
    path = tmp_path / "a.leafwise"
    with Project.create(path, pets) as project:
        project.documents.add([batch([text * 50 for text in pet_texts])])
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 2048] = b"\xff" * 2048
    path.write_bytes(data)
    with Project(path) as project:
        assert any("damaged" in problem or "Tree" in problem for problem in project.check())
