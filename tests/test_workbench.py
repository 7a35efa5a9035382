"""The live model of a project: real files, real processes beside this one."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import leafwise as lw
from leafwise import taxonomy_changes as changes
from leafwise.corpus import Batch
from leafwise.exceptions import ConflictError, LabelError, MissingError, ProjectError
from leafwise.explain import Explanation
from leafwise.review import refitting
from leafwise.review.live_model import marks
from leafwise.review.refitting import as_ranges, from_ranges, grow_draft, refit
from leafwise.review.workbench import Workbench
from leafwise.store import Project

PATIENCE = 120  # seconds for a process, on a machine that is busy


def fill(project, texts, labels=None, start=0):
    """Add documents, of which some have labels; their keys are numbers."""
    given = [()] * len(texts) if labels is None else labels
    rows = [() if own is None else (own,) if isinstance(own, str) else tuple(own) for own in given]
    keys = [str(start + i) for i in range(len(texts))]
    return project.documents.add([Batch(texts, rows, keys, list(range(len(texts))), {})])


def wait_for(what, message="it takes too long"):
    end = time.monotonic() + PATIENCE
    while not (found := what()):
        assert time.monotonic() < end, message
        time.sleep(0.05)
    return found


def is_idle(bench):
    return bench.status().state != "running"


@pytest.fixture
def project(tmp_path, many):
    """240 documents, every tenth with a label; the number of a document is its place plus 1."""
    tree, texts, _, few = many
    with Project.create(tmp_path / "p.leafwise", tree) as project:
        fill(project, texts, few)
        yield project


@pytest.fixture(scope="session")
def fitted_file(tmp_path_factory, many):
    path = tmp_path_factory.mktemp("fitted") / "p.leafwise"
    with Project.create(path, many[0]) as project:
        fill(project, many[1], many[3])
        assert refit(project).state == "done"
    return path


@pytest.fixture
def fitted(tmp_path, fitted_file):
    """The same, after a run."""
    shutil.copy(fitted_file, tmp_path / "p.leafwise")
    with Project(tmp_path / "p.leafwise") as project:
        yield project


@pytest.fixture
def bench(fitted):
    with Workbench(fitted, background=False) as bench:
        yield bench


def truth(many, document):
    return many[2][document - 1].item()


# ---- refit --------------------------------------------------------------------------------------


def test_a_run_sorts_what_has_no_label(project, many):
    said = []
    run = refit(project, lambda step, share: said.append((step, share)))
    assert (run.state, run.n_documents, run.n_labels, run.last_answer) == ("done", 240, 24, 24)
    assert [step for step, _ in dict.fromkeys(said)][-1] == "Saving"
    assert [share for _, share in said] == sorted(share for _, share in said)
    documents = project.documents.some(range(1, 241))
    assert all((one.prediction is None) == bool(one.labels) for one in documents)
    sorted_ones = [one for one in documents if one.prediction is not None]
    assert np.mean([one.prediction.path == truth(many, one.id) for one in sorted_ones]) > 0.85
    assert all(len(one.prediction.others) == 3 for one in sorted_ones)
    sure = np.mean([one.prediction.probability for one in sorted_ones])
    assert run.facts["belief"] == pytest.approx(sure, abs=1e-5)
    assert "moved" not in run.facts
    assert project.runs.model().report_ == run.report
    assert project.check() == []


def test_the_queue_has_a_check_for_every_four_others(fitted, many):
    queue = fitted.runs.queue()
    ids = [id for id, _ in queue]
    assert len(queue) == len(set(ids)) == 100
    assert [why for _, why in queue[:10]] == (["queue"] * 4 + ["check"]) * 2
    assert not any(many[3][id - 1] for id in ids)
    assert sum(why == "check" for _, why in queue) == 20


def test_checks_are_drawn_from_all_alike(fitted):
    """Over many runs, each document without a label is a check about as often as any other."""
    model = fitted.runs.model()
    state = fitted.labels.all()
    ids, texts = zip(*((id, text) for rows in fitted.documents.each() for id, _, text in rows))
    pool = refitting._Pool(np.array(ids), list(texts), [state.get(id, ()) for id in ids])
    model = lw.TaxonomyClassifier(fitted.tree.taxonomy).fit(
        texts, [next(iter(own), None) for own in pool.labels]
    )
    run, drawn = fitted.runs.current(), []
    left = pool.unlabelled
    for number in range(60):
        queue = refitting._queue(fitted, run._replace(id=number), model, pool, left)
        drawn += [id for id, why in queue if why == "check"]
    assert refitting._queue(fitted, run._replace(id=59), model, pool, left) == queue
    times = np.bincount(drawn, minlength=241)[pool.ids[left]]
    expected = 60 * 20 / 216
    assert ((times - expected) ** 2 / expected).sum() < 270  # chi² of 215, 99 %
    # Those that the queue wants most are no less often checks than others.
    wanted = model.query(80)
    assert np.bincount(drawn, minlength=241)[pool.ids[wanted]].mean() > 0.75 * expected


def test_a_large_pool_is_sampled(fitted, monkeypatch):
    monkeypatch.setattr(refitting, "_LARGE_POOL", 100)
    monkeypatch.setattr(refitting, "_SAMPLE", 90)
    assert refit(fitted).state == "done"
    queue = fitted.runs.queue()
    assert len(queue) == len({id for id, _ in queue}) == 100
    assert not fitted.labels.of([id for id, _ in queue])


def test_a_second_run_says_what_moved(fitted, many):
    assert refit(fitted).facts["moved"] == 0.0
    for id in range(2, 60):
        fitted.labels.answer(id, [truth(many, id)], by="ann")
    assert 0 < refit(fitted).facts["moved"] < 0.3


def test_skipped_documents_are_not_asked_again(fitted):
    (first, _), *_ = fitted.runs.queue()
    fitted.labels.answer(first, None, by="ann")
    refit(fitted)
    assert first not in [id for id, _ in fitted.runs.queue()]


def test_what_cannot_be_fitted_fails_with_a_sentence(tmp_path, many):
    tree, texts, _, _ = many
    with Project.create(tmp_path / "a.leafwise") as project:
        run = refit(project)
        assert run.state == "failed"
        assert run.report == [
            "There is no tree yet: add nodes, read a tree from a file, or grow one."
        ]
    with Project.create(tmp_path / "b.leafwise", tree) as project:
        assert refit(project).report == ["There are no documents yet: add some."]
        fill(project, texts)
        (said,) = refit(project).report
        assert said.startswith("There is nothing to learn from: no document has a label")
        assert project.runs.current() is None
        fill(project, ["more"], ["a/x"], start=1000)
        assert refit(project).state == "done"
        assert project.check() == []


def test_a_project_that_is_all_labelled(tmp_path, many):
    tree, texts, y, _ = many
    with Project.create(tmp_path / "p.leafwise", tree) as project:
        fill(project, texts, y.tolist())
        run = refit(project)
        assert run.state == "done"
        assert "belief" not in run.facts
        assert project.runs.queue() == []
        with Workbench(project, background=False) as bench:
            assert bench.next("ann") is None
            assert bench.progress().answer == "Yes: every document has a label."


def test_another_language(tmp_path, pets):
    texts = ["Der Hund bellt im Garten", "Die Katze schläft", "Das Boot segelt", "Ein Rennwagen"]
    with Project.create(tmp_path / "p.leafwise", pets, language="german") as project:
        fill(project, texts, ["dogs", "cats", "boats", "racing"])
        assert refit(project).state == "done"
        assert project.runs.model().counter_.stemmer == "german"


def test_a_tree_that_changes_while_a_run_reads_it(project, monkeypatch):
    read = refitting._read

    def meddle(*given):
        found = read(*given)
        project.tree.edit(changes.rename(project.tree.taxonomy, "a/x", "new"), "", by="ann")
        return found

    monkeypatch.setattr(refitting, "_read", meddle)
    run = refit(project)
    assert run.state == "failed"
    assert run.report == ["The tree was changed while its documents were read. Fit anew."]


def test_numbers_as_ranges():
    for ids in ([], [5], [1, 2, 3, 4], [1, 2, 9, 4, 5, 6]):
        packed = as_ranges(np.array(ids, np.int64))
        assert from_ranges(packed).tolist() == ids
    assert as_ranges(np.array([1, 2, 9, 4, 5, 6])) == [[1, 2], [9, 1], [4, 3]]


def call(*arguments):
    command = [sys.executable, "-m", "leafwise.review.refitting", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def test_the_command(project, tmp_path, capsys):
    assert call(project.path).returncode == 0
    assert project.runs.current().state == "done"
    assert refitting.main([str(tmp_path / "nothing")]) == 2
    assert "There is no file" in capsys.readouterr().err
    assert refitting.main([project.path, "--grow", "99"]) == 2
    assert capsys.readouterr().err == "There is no draft 99.\n"
    with Project.create(tmp_path / "empty.leafwise") as empty:
        assert refitting.main([empty.path]) == 1
        assert empty.runs.last().state == "failed"


def test_a_child_without_a_parent_ends(project):
    """The parent that it is told of is not the one it has: as after that has died."""
    ended = call(project.path, "--parent", 1 if os.getppid() != 1 else 2)
    assert ended.returncode == refitting._ORPHANED
    assert project.runs.current() is None
    assert project.check() == []
    assert refit(project).state == "done"


# ---- growing ------------------------------------------------------------------------------------


def test_a_tree_for_a_project_that_has_none(tmp_path, many):
    _, texts, _, _ = many
    with Project.create(tmp_path / "p.leafwise") as project:
        fill(project, texts)
        with Workbench(project, background=False) as bench:
            assert bench.status().state == "empty"
            draft = bench.grow(None, 3, "ann")
            assert draft.state == "ready"
            assert draft.path == "/"
            leaves = [draft.taxonomy.paths[i] for i in draft.taxonomy.leaves]
            assert len(leaves) == 3
            assert sorted(draft.examples) == sorted(leaves)
            assert all(1 <= len(shown) <= 3 for shown in draft.examples.values())
            project.drafts.accept(draft.id, by="ann")
            assert refit(project).state == "done"
        with Workbench(project, background=False) as bench:
            assert bench.next("ann").suggestions[0].path in leaves


def test_a_crowded_node_is_split_with_what_is_there(fitted):
    draft = fitted.drafts.start("a/x", 2, by="ann")
    assert grow_draft(fitted, draft.id).state == "ready"
    at_node = {one.text[:60].rstrip() for one in fitted.documents.page(node="a/x", limit=500)[0]}
    shown = [line for lines in fitted.drafts.get(draft.id).examples.values() for line in lines]
    assert all(line.removesuffix(" ...") in at_node for line in shown)


def test_growing_that_fails_says_why(fitted):
    fitted.tree.edit(changes.add(fitted.tree.taxonomy, "b/bare"), "", by="ann")
    draft = grow_draft(fitted, fitted.drafts.start("b/bare", 2, by="ann").id)
    assert draft.state == "failed"
    assert draft.message == (
        'No document is at "b/bare" itself, by its label or by the last sorting: there is nothing '
        "to split."
    )
    gone = fitted.drafts.start("b/bare", 2, by="ann").id
    fitted.tree.undo("ann")
    assert grow_draft(fitted, gone).message == (
        "The node that this draft was to be grown for is gone."
    )


# ---- suggestions --------------------------------------------------------------------------------


def test_suggestions(bench, many):
    texts = many[1]
    found = bench.suggest(texts[:50], limit=2)
    paths, scores = bench.model.top_k(texts[:50], 2)
    assert [[one.path for one in own] for own in found] == paths.tolist()
    np.testing.assert_allclose([[one.score for one in own] for own in found], scores)
    assert found[0][0].label == found[0][0].path.split("/")[-1]
    assert bench.suggest(texts[:1], threshold=0.999999) == [[]]
    assert bench.suggest([]) == []
    assert len(bench.suggest([""])[0]) == 4
    many_texts = texts * 2
    assert len(bench.suggest(many_texts)) == 480
    with pytest.raises(ProjectError, match="limit=0: expected a number from 1 on"):
        bench.suggest(texts[:1], limit=0)
    with pytest.raises(ProjectError, match="texts: expected a list of strings"):
        bench.suggest("text")


def test_many_threads_ask_at_once(bench, many):
    texts = many[1]
    expected = bench.suggest(texts, limit=4)
    limits = [1 + i % 4 for i in range(240)]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda i: bench.suggest([texts[i]], limits[i])[0], range(240)))
    for own, usual, limit in zip(found, expected, limits):
        assert [one.path for one in own] == [one.path for one in usual[:limit]]


def test_without_a_model_there_is_nothing_to_suggest(project):
    with Workbench(project, background=False) as bench:
        assert bench.model is None
        with pytest.raises(ProjectError, match="This project has no model yet: it takes a tree"):
            bench.suggest(["text"])
        with pytest.raises(ProjectError, match="no model yet that could explain"):
            bench.explain("text")


# ---- explanations -------------------------------------------------------------------------------


def test_words_that_speak_for_a_node_are_marked(bench, many):
    text = many[1][0].upper()
    found = bench.explain(text)
    assert found.path == bench.suggest([text], 1)[0][0].path
    assert found.levels == [found.path, found.path.split("/")[0], ""]
    assert found.marks
    ends = [(mark.start, mark.end) for mark in found.marks]
    assert ends == sorted(ends)
    assert all(a.end <= b.start for a, b in zip(found.marks, found.marks[1:]))
    explained = bench.model.explain(text)
    weights = dict(explained.words)
    for mark in found.marks:
        assert mark.weight == weights[text[mark.start : mark.end].lower()] > 0
        assert 0 <= mark.level < 3
    strongest = explained.words[0][0]
    places = [i for i, word in enumerate(text.lower().split()) if word == strongest]
    marked = [m for m in found.marks if text[m.start : m.end].lower() == strongest]
    assert len(marked) == len(places)
    other = bench.explain(text, "b/z")
    assert other.path == "b/z"
    with pytest.raises(LabelError, match="Label 'a' is not among"):
        bench.explain(text, "a")


def explanation(**weights):
    ordered = sorted(weights.items(), key=lambda said: -abs(said[1]))
    levels = tuple((0.2, 0.8) for _ in ordered)
    return Explanation("a/b", 0.9, tuple(ordered), ("a/b", ""), levels)


def test_the_words_of_a_node_are_spelled_as_its_documents_do(tmp_path, pets, pet_texts):
    with Project.create(tmp_path / "p.leafwise", pets) as project:
        fill(project, pet_texts)
        with Workbench(project, background=False) as bench:
            assert bench.node_words("cats") == []
            bench.refit()
            stems = [word for word, _ in bench.model.node_words("animals/dogs", 5)]
            words = [word for word, _ in bench.node_words("animals/dogs", 5)]
            assert "puppi" in stems
            assert "puppy" in words
            assert len(words) == len(stems)
            bench.edit(changes.add(project.tree.taxonomy, "animals/owls"), "", by="ann")
            assert bench.node_words("animals/owls") == []


def test_marks_are_whole_words_in_any_case():
    text = "Cat, cats; CAT! concatenate the cat_flap <cat>"
    found = marks(text, explanation(cat=1.0, the=-2.0))
    assert [(mark.start, mark.end) for mark in found] == [(0, 3), (11, 14), (42, 45)]
    assert {(mark.weight, mark.level) for mark in found} == {(1.0, 1)}


def test_parts_of_words_are_found_within_them():
    text = "HTMLParser and read_csv, parsers"
    found = marks(text, explanation(parser=1.0, csv=0.5, htmlparser=0.2))
    assert [text[m.start : m.end] for m in found] == ["HTMLParser", "csv"]
    found = marks(text, explanation(parser=1.0, csv=0.5))
    assert [text[m.start : m.end] for m in found] == ["Parser", "csv"]


def test_marks_of_odd_texts():
    assert marks("", explanation(cat=1.0)) == []
    assert marks("nothing here", explanation()) == []
    text = "Ünïcode ΟΔΟΣ straße (a+b)* " * 2
    found = marks(text, explanation(**{"ünïcode": 1.0, "οδος": 1.0, "straße": 1.0, "(a+b)*": 1}))
    assert len(found) >= 6
    assert len(marks("cat " * 5000, explanation(cat=1.0))) == 2000


# ---- review -------------------------------------------------------------------------------------


def test_the_queue_comes_first_then_the_least_sure(bench, many):
    queue = bench.project.runs.queue()
    for id, why in queue:
        task = bench.next("ann")
        assert (task.document.id, task.asked) == (id, why)
        bench.answer(id, [truth(many, id)], by="ann", seen=task.document.version)
    task = bench.next("ann")
    page = bench.project.documents.page(state="unlabelled", order="unsure", limit=1)
    assert (task.document.id, task.asked) == (page.documents[0].id, "left")
    assert task.left == 240 - 24 - 100
    checks = [one for one in bench.project.labels.answers(source="review") if one.asked == "check"]
    assert len(checks) == 20
    found = bench.progress()
    assert found.n_checks == 20
    assert 0.8 < found.estimate <= 1
    assert len(found.curve) == 1


def test_a_task_has_what_a_person_needs(bench):
    task = bench.next("ann")
    scores = [one.score for one in task.suggestions]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert task.chosen == (task.suggestions[0].path,) == (task.explained.path,)
    assert task.left == 216
    answer = bench.answer(task.document.id, task.chosen, by="ann")
    assert (answer.suggested, answer.asked) == (task.chosen[0], "queue")
    assert answer.probability == pytest.approx(scores[0])


def test_the_same_person_gets_the_same_document_until_it_is_answered(bench):
    first = bench.next("ann")
    assert bench.next("ann").document.id == first.document.id
    second = bench.next("ann", also=[first.document.id])
    assert second.document.id != first.document.id
    assert bench.next("bob").document.id not in (first.document.id, second.document.id)
    bench.answer(first.document.id, ["a/x"], by="ann")
    assert bench.next("ann").document.id == second.document.id


def test_a_lease_ends(bench, monkeypatch):
    first = bench.next("ann")
    monkeypatch.setattr("leafwise.review.workbench.LEASE", 0.0)
    bench.next("ann")
    assert bench.next("bob").document.id == first.document.id


def test_threads_never_get_the_same_document(bench, many):
    """Eight reviewers, until nothing is left: each document is answered once."""
    answered = []

    def work(name):
        while (task := bench.next(name)) is not None:
            id = task.document.id
            bench.answer(id, [truth(many, id)], by=name, seen=task.document.version)
            answered.append(id)

    threads = [threading.Thread(target=work, args=(f"r{i}",)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answered) == [i + 1 for i in range(240) if many[3][i] is None]
    assert len(bench.project.labels.answers(source="review")) == 216
    assert bench.project.info().n_labelled == 240
    assert bench.project.check() == []


def test_two_persons_with_the_same_document(bench):
    ann, bob = bench.task(7, "ann"), bench.task(7, "bob")
    assert ann.asked == "chosen"
    bench.answer(7, ["a/x"], by="ann", seen=ann.document.version)
    with pytest.raises(ConflictError, match="ann has put this document on a/x meanwhile"):
        bench.answer(7, ["b/z"], by="bob", seen=bob.document.version)
    assert bench.project.documents.get(7).labels == ("a/x",)


def test_a_request_that_comes_twice_is_one_answer(bench):
    id = bench.next("ann").document.id
    first = bench.answer(id, ["a/x"], by="ann", token="t1")
    assert bench.answer(id, ["a/x"], by="ann", token="t1") == first
    assert len(bench.project.labels.history(id)) == 1


def test_wrong_answers(bench):
    id = bench.next("ann").document.id
    with pytest.raises(LabelError, match="No node is called"):
        bench.answer(id, ["nowhere"], by="ann")
    with pytest.raises(LabelError, match="each document of this project has one"):
        bench.answer(id, ["a/x", "b/z"], by="ann")
    with pytest.raises(MissingError, match="There is no document number 9999"):
        bench.answer(9999, ["a/x"], by="ann")
    with pytest.raises(MissingError, match="There is no document number 9999"):
        bench.task(9999, "ann")
    assert bench.project.labels.history(id) == []
    assert bench.next("ann").document.id == id


def test_an_answer_is_learned_at_once(bench, many):
    wrong = [
        one
        for one in bench.project.documents.some(range(1, 241))
        if one.prediction is not None and one.prediction.path != truth(many, one.id)
    ]
    assert wrong
    for one in wrong:
        bench.answer(one.id, [truth(many, one.id)], by="ann")
    found = bench.suggest([one.text for one in wrong], 1)
    assert np.mean([own[0].path == truth(many, one.id) for own, one in zip(found, wrong)]) > 0.9
    assert bench.model.label_counts_.sum() == 24 + len(wrong)


def test_a_label_is_kept_though_learning_fails(bench, monkeypatch):
    def fail(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(bench.model, "partial_fit", fail, raising=False)
    id = bench.next("ann").document.id
    assert bench.answer(id, ["a/x"], by="ann").labels == ("a/x",)
    assert bench.project.documents.get(id).labels == ("a/x",)
    assert bench._background.soon


def test_what_was_undone_or_corrected_is_forgotten(bench, many):
    task = bench.next("ann")
    text, before = task.document.text, task.suggestions
    wrong = before[-1].path
    bench.answer(task.document.id, [wrong], by="ann")
    assert bench.suggest([text])[0][0].path == wrong
    bench.undo("ann")
    assert bench.suggest([text])[0][: len(before)] == before
    assert bench.next("ann").suggestions == before
    for path in (wrong, before[1].path):
        bench.answer(task.document.id, [path], by="ann")
    fresh = bench.suggest([text])[0]
    assert fresh[0].path == before[1].path
    bench.undo("ann")
    bench.undo("ann")
    bench.answer(task.document.id, [before[1].path], by="ann")
    assert bench.suggest([text])[0] == fresh


def test_undo(bench):
    task = bench.next("ann")
    id = task.document.id
    bench.next("bob")
    bench.answer(id, ["b/w"], by="ann")
    ahead = bench.next("ann").document.id
    assert ahead != id
    undone = bench.undo("ann")
    assert (undone.document, undone.undone) == (id, True)
    assert bench.project.documents.get(id).labels == ()
    again = bench.next("ann")
    assert (again.document.id, again.asked) == (id, task.asked)
    assert again.left == task.left
    assert bench.undo("ann") is None
    assert bench.undo("bob") is None


def test_skipped_documents_come_last(tmp_path, pets, pet_texts, pet_labels):
    with Project.create(tmp_path / "p.leafwise", pets) as project:
        fill(project, pet_texts)
        with Workbench(project, background=False) as bench:
            order = []
            for _ in range(16):
                order.append(bench.next("ann").document.id)
                bench.answer(order[-1], None, by="ann")
            assert order == list(range(1, 17))  # without a model, as they came
            assert bench.next("ann").document.id == 1
            bench.answer(1, ["cats"], by="ann")
            assert bench.next("ann").document.id == 2
            bench.undo("ann")
            assert bench.next("ann").document.id == 1
        with Workbench(project, background=False) as bench:
            assert bench.next("ann").document.id == 1
            for id, label in zip(range(1, 17), pet_labels):
                bench.answer(id, [label], by="ann")
            assert bench.next("ann") is None


def test_without_a_model_documents_come_without_suggestions(project):
    with Workbench(project, background=False) as bench:
        task = bench.next("ann")
        assert task.document.id == 2  # the first has a label
        assert (task.suggestions, task.chosen, task.explained) == ([], (), None)
        assert task.asked == "left"
        answer = bench.answer(2, ["a/x"], by="ann")
        assert (answer.suggested, answer.probability) == (None, None)
        assert bench.progress().answer == "Not yet: nothing has been sorted so far."


def test_an_empty_project(tmp_path):
    with (
        Project.create(tmp_path / "p.leafwise") as project,
        Workbench(project) as bench,
    ):
        assert bench.next("ann") is None
        assert bench.undo("ann") is None
        assert bench.undo_edit("ann") is None
        assert bench.model is None
        status = bench.status()
        assert (status.state, status.message, status.new_labels) == ("empty", "", 0)
        assert bench.progress().answer == "There are no documents yet."
        time.sleep(1)  # nothing starts by itself
        assert bench.status().state == "empty"
        assert project.runs.all() == []


# ---- documents from outside ---------------------------------------------------------------------


def test_documents_that_are_sent_are_learned(bench, many):
    _, texts, y, _ = many
    before = bench.project.documents.count()
    items = [("n1", texts[1], [y[1].item()]), (None, texts[2], ["b/z"]), (None, "bare words", [])]
    assert bench.learn(items, "api") == 2
    assert bench.project.documents.count() == before + 3
    assert bench.project.documents.find("n1").labels == (y[1].item(),)
    assert bench.model.label_counts_.sum() == 26
    # Again: nothing new. With another label: that is an answer.
    assert bench.learn(items, "api") == 2
    assert bench.project.documents.count() == before + 3
    assert bench.model.label_counts_.sum() == 26
    other = "b/w" if y[1] != "b/w" else "a/x"
    assert bench.learn([("n1", "another text", [other])], "api") == 1
    changed = bench.project.documents.find("n1")
    assert (changed.text, changed.labels) == ("another text", (other,))


def test_a_bad_label_among_documents_keeps_all_out(bench):
    before = bench.project.documents.count()
    with pytest.raises(LabelError, match=r'Document number 1 \(from 0\): No node is called "q"'):
        bench.learn([("n1", "good", ["a/x"]), ("n2", "bad", ["q"])], "api")
    assert bench.project.documents.count() == before


# ---- the tree -----------------------------------------------------------------------------------


def test_the_model_follows_the_tree(bench, many):
    tree, texts, _, _ = many
    before = bench.model.predict(texts)
    report = bench.edit(changes.rename(tree, "a/x", "new"), "Renamed a/x", "ann", 0)
    assert any("renamed" in line for line in report)
    guess = bench.model.predict(texts)
    assert guess.tolist() == [path.replace("a/x", "a/new") for path in before]
    assert bench.next("ann").suggestions[0].path in bench.project.tree.taxonomy.paths
    bench.undo_edit("ann")
    assert bench.model.predict(texts).tolist() == before.tolist()
    with pytest.raises(ConflictError, match="The tree was changed meanwhile"):
        bench.edit(changes.rename(tree, "a/x", "new"), "", "ann", 0)


def test_merged_and_removed_nodes(bench, many):
    tree, texts, _, _ = many
    task = bench.next("ann")
    bench.edit(changes.merge(tree, ["a/x"], "a/y"), "", "ann")
    assert set(bench.model.classes_) == {"a/y", "b/w", "b/z"}
    bench.edit(changes.remove(bench.project.tree.taxonomy, "b/z"), "", "ann")
    assert set(bench.model.predict(texts)) <= {"a/y", "b/w"}
    # What was shown then may be gone: the answer counts all the same.
    for one in (task.document.id, *[id for id, _ in bench.project.runs.queue()[1:6]]):
        bench.answer(one, ["b/w"], by="ann", seen=0)
    assert bench.next("ann").suggestions
    assert bench.progress().estimate is not None
    assert bench.refit()
    assert set(bench.model.classes_) == {"a/y", "b/w"}
    assert bench.project.check() == []


def test_a_new_node_can_be_answered_with(bench, many):
    tree, texts, _, _ = many
    bench.edit(changes.add(tree, "b/new"), "", "ann")
    bench.answer(2, ["b/new"], by="ann")
    assert bench.suggest([texts[1]], 1)[0][0].path == "b/new"
    bench.answer(3, ["b"], by="ann")
    assert "b" in bench.model.classes_


def test_a_tree_that_was_changed_by_others_before_this_was_opened(fitted, many):
    tree, texts, _, _ = many
    before = fitted.runs.model().predict(texts)
    fitted.tree.edit(changes.rename(tree, "a", "top"), "", by="ann")
    fitted.tree.edit(changes.merge(fitted.tree.taxonomy, ["b/z"], "b/w"), "", by="ann")
    with Workbench(fitted, background=False) as bench:
        moved = {"a/x": "top/x", "a/y": "top/y", "b/z": "b/w", "b/w": "b/w"}
        agreed = bench.model.predict(texts) == np.array([moved[path] for path in before])
        assert agreed.mean() > 0.9


def test_a_tree_of_which_nothing_is_left(bench, many):
    bench.project.tree.replace(lw.Taxonomy.from_paths(["p", "q"]), by="ann")
    task = bench.next("ann")
    assert task.suggestions == [] or task.suggestions[0].path in ("p", "q")
    bench.answer(task.document.id, ["p"], by="ann")
    assert bench.refit()
    assert set(bench.model.classes_) == {"p", "q"}


# ---- several labels -----------------------------------------------------------------------------


def test_several_labels(tmp_path, many):
    tree, texts, y, _ = many
    labels = [sorted({one, "b/z"} if i % 3 == 0 else {one}) for i, one in enumerate(y.tolist())]
    with Project.create(tmp_path / "p.leafwise", tree, several=True) as project:
        fill(project, texts, [own if i < 120 else None for i, own in enumerate(labels)])
        refit(project)
        with Workbench(project, background=False) as bench:
            assert bench.model.several_
            n_several = 0
            for _ in range(40):
                task = bench.next("ann")
                assert task.chosen == tuple(
                    one.path for one in task.suggestions[: len(task.chosen)]
                )
                assert set(task.chosen) == set(bench.model.predict([task.document.text])[0])
                n_several += len(task.chosen) > 1
                bench.answer(task.document.id, labels[task.document.id - 1], by="ann")
            assert n_several
            assert bench.project.documents.get(task.document.id).labels == tuple(
                labels[task.document.id - 1]
            )
            assert bench.progress().n_checks == 8
        assert refit(project).state == "done"
        assert project.check() == []


def test_the_first_labels_of_a_project_of_several(tmp_path, pets, pet_texts):
    """Without labels the model gives one node each; the first two labels ask for a run."""
    with Project.create(tmp_path / "p.leafwise", pets, several=True) as project:
        fill(project, pet_texts)
        refit(project)
        with Workbench(project, background=False) as bench:
            assert not bench.model.several_
            bench.answer(1, ["cats", "dogs"], by="ann")
            assert bench._background.soon
            assert bench.refit()
            assert bench.model.several_
            assert not bench._background.soon


# ---- in the background --------------------------------------------------------------------------


def test_a_project_is_fitted_when_it_is_opened(project):
    with Workbench(project) as bench:
        wait_for(lambda: bench.model is not None)
        wait_for(lambda: is_idle(bench))
        status = bench.status()
        assert (status.state, status.model_labels, status.new_labels) == ("idle", 24, 0)
        time.sleep(1)
        assert len(project.runs.all()) == 1  # nothing new, so no other run


def test_answers_that_come_during_a_run_are_kept_and_learned(fitted, many):
    with Workbench(fitted, refit_after=5) as bench:
        n_answers, during = 0, 0
        first = fitted.runs.current().id
        while fitted.runs.current().id == first or during < 5:
            task = bench.next("ann")
            bench.answer(task.document.id, [truth(many, task.document.id)], by="ann")
            n_answers += 1
            during += bench.status().state == "running"
            time.sleep(0.02 if n_answers < 100 else 0.3)
            assert n_answers < 200
        kept = fitted.labels.answers(source="review")
        assert [one.labels[0] for one in kept] == [truth(many, one.document) for one in kept]
        assert len(kept) == n_answers
        wait_for(lambda: bench._live.run > first)
        # The new model knows them all: those of the run, and those that came after it began.
        assert bench.model.label_counts_.sum() == 24 + n_answers
        wait_for(lambda: is_idle(bench) and fitted.runs.current().last_answer >= 24 + n_answers - 4)
        assert bench.model.label_counts_.sum() == 24 + n_answers
        assert fitted.check() == []


def test_a_run_says_how_far_it_is_and_only_one_runs(fitted):
    with Workbench(fitted) as bench:
        assert bench.refit()
        assert not bench.refit()
        status = bench.status()
        assert (status.state, status.kind) == ("running", "refit")
        assert status.seconds >= 0
        wait_for(lambda: bench.status().share > 0 or is_idle(bench))
        wait_for(lambda: is_idle(bench))
        assert fitted.runs.last().state == "done"
        assert len(fitted.runs.all()) == 2


def test_the_run_of_another_program_is_waited_for_and_taken(fitted, many):
    with Workbench(fitted) as bench, Project(fitted.path) as other:
        wait_for(lambda: is_idle(bench))
        begun = other.runs.start()
        before = bench._live.run
        assert bench.status()[:2] == ("running", "refit")
        bench.edit(changes.rename(fitted.tree.taxonomy, "a/x", "new"), "", by="ann")
        time.sleep(1.5)  # an edit would bring a run, if there were none
        assert fitted.runs.running() == begun
        other.runs.stop(begun.id)
        assert refit(other).state == "done"
        wait_for(lambda: bench._live.run > before)
        assert "a/new" in bench.model.classes_
        wait_for(lambda: is_idle(bench))
        assert bench.status().message == ""


def test_a_fit_beside_another_is_refused(fitted):
    begun = fitted.runs.start()
    with pytest.raises(ProjectError, match="Another program is fitting this project, since"):
        refit(fitted)
    assert fitted.runs.running() == begun


def test_a_killed_child_changes_nothing(fitted):
    before = fitted.runs.current()
    with Workbench(fitted) as bench:
        assert bench.refit()
        wait_for(lambda: fitted.runs.running() is not None)
        os.kill(bench._background._job.process.pid, signal.SIGKILL)
        wait_for(lambda: is_idle(bench))
        status = bench.status()
        assert status.state == "failed"
        assert status.message == "The fit was interrupted: it ended with signal 9."
        assert fitted.runs.last().state == "stopped"
        assert fitted.runs.current() == before
        assert bench.next("ann").suggestions
        assert bench.refit()
        wait_for(lambda: is_idle(bench))
        assert bench.status().state == "idle"
        assert fitted.runs.current().id > before.id
        assert fitted.check() == []


def test_closing_ends_a_run(fitted):
    bench = Workbench(fitted)
    assert bench.refit()
    wait_for(lambda: fitted.runs.running() is not None)
    process = bench._background._job.process
    bench.close()
    assert process.poll() is not None
    assert fitted.runs.running() is None
    assert not bench.refit()
    assert fitted.check() == []


def test_what_a_process_left_that_is_gone(fitted):
    fitted.runs.start()
    with fitted._db.writing() as db:
        db.execute("UPDATE runs SET pid = 2147483647 WHERE state = 'running'")
    draft = fitted.drafts.start(None, 3, by="ann")
    with Workbench(fitted, background=False) as bench:
        assert bench.status().state == "idle"
        assert fitted.runs.last().state == "stopped"
        assert fitted.drafts.get(draft.id).message == "Growing was interrupted: start it again."


def test_edits_and_documents_bring_a_run(fitted, many):
    with Workbench(fitted) as bench:
        bench.edit(changes.add(many[0], "b/new", "zeppelin"), "", "ann")
        run = wait_for(lambda: (r := fitted.runs.current()) is not None and r.tree == 1 and r)
        wait_for(lambda: is_idle(bench))
        assert fitted.runs.all()[-1].id == run.id
        fill(fitted, ["A zeppelin above the zeppelin hangar"], start=500)
        wait_for(lambda: fitted.runs.current().n_documents == 241)
        wait_for(lambda: is_idle(bench))
        assert fitted.documents.find("500").prediction is not None


def test_the_first_answer_is_enough_where_nothing_was_learned(tmp_path, many):
    tree, texts, y, _ = many
    with Project.create(tmp_path / "p.leafwise", tree) as project:
        fill(project, texts)
        with Workbench(project) as bench:
            wait_for(lambda: bench.status().state == "failed")
            assert bench.status().message.startswith("There is nothing to learn from")
            time.sleep(1)
            assert len(project.runs.all()) == 1  # it is not tried again and again
            bench.answer(1, [y[0].item()], by="ann")
            wait_for(lambda: bench.model is not None)
            wait_for(lambda: is_idle(bench))
            assert bench.status().message == ""


def test_growing_in_the_background(fitted):
    with Workbench(fitted) as bench:
        draft = bench.grow("a", 2, "ann")
        assert draft.state == "running"
        wait_for(lambda: fitted.drafts.get(draft.id).state != "running")
        assert fitted.drafts.get(draft.id).state == "failed"  # no document is at "a" itself
        draft = bench.grow(None, 2, "ann")
        wait_for(lambda: bench.status().kind == "grow" or is_idle(bench))
        wait_for(lambda: fitted.drafts.get(draft.id).state == "ready")


def test_a_model_that_cannot_be_read_is_made_anew(fitted):
    with fitted._db.writing() as db:
        db.execute("UPDATE models SET data = x'00'")
    with Workbench(fitted, background=False) as bench:
        assert bench.model is None
        assert bench.next("ann").suggestions == []
        assert bench.refit()
        assert bench.model is not None
