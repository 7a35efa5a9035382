"""A project whose process is killed, at a hundred moments: nothing that was acknowledged is lost.

A worker says what it has done as soon as a call has returned, and is killed (SIGKILL) at a moment
that a seed draws. The workers are forked from a server that has imported everything, so that the
moments fall into the work and not into the imports.
"""

import multiprocessing
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import pytest

from leafwise.corpus import Batch
from leafwise.store import Project
from leafwise.taxonomy import Taxonomy

LEAVES = ["animals/cats", "animals/dogs", "vehicles/boats", "vehicles/cars"]
WORDS = {
    "animals/cats": "cat kitten purr whisker mouse milk sofa",
    "animals/dogs": "dog puppy bark stick gate postman bone",
    "vehicles/boats": "boat sail harbour wind quay crew mast",
    "vehicles/cars": "car driver lap tyre road engine brake",
}
N_LABELLING, N_IMPORTING, N_REFITTING = 40, 40, 20  # moments
AT_ONCE = 4  # projects
STEPS = ["Reading", "Learning", "Sorting", "Choosing what to ask", "Saving"]
N_DOCUMENTS, PER_BATCH = 1200, 20

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")


@pytest.fixture(scope="module")
def workers():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["leafwise.store", "leafwise.review.refitting", "sklearn.svm"])
    return context


def made_up(n: int) -> list[tuple[str, str]]:
    """Texts, and where each belongs."""
    draw = random.Random(n)
    found = []
    for i in range(n):
        leaf = LEAVES[i % len(LEAVES)]
        words = draw.choices(WORDS[leaf].split(), k=6) + draw.choices(["the", "and", "for"], k=3)
        found.append((f"{' '.join(words)} {i}", leaf))
    return found


def batches(n: int, labelled: int):
    """Documents in small batches, of which one in so many has a label; 0: none."""
    documents = made_up(n)
    for start in range(0, n, PER_BATCH):
        rows = range(start, min(n, start + PER_BATCH))
        texts = [documents[i][0] for i in rows]
        labels = [(documents[i][1],) if labelled and i % labelled == 0 else () for i in rows]
        yield Batch(texts, labels, [f"d{i}" for i in rows], [i + 1 for i in rows], {})


def new(path) -> Project:
    return Project.create(path, Taxonomy.from_paths(LEAVES))


# ---- what is killed -----------------------------------------------------------------------------


def begin(work, path, said: Connection, seed: int) -> None:
    said.send("begun")
    work(path, said, seed)
    time.sleep(60)  # it is killed all the same


def label(path, said: Connection, seed: int) -> None:
    """Say what is to be done now, and None when it is done."""
    draw = random.Random(seed)
    with Project(path) as project:
        n = project.documents.count()
        while True:
            document, leaf = draw.randint(1, n), draw.choice(LEAVES)
            if draw.random() < 0.1:
                said.send("undo")
                project.labels.undo("Ann")
            else:
                said.send((document, leaf))
                project.labels.answer(document, [leaf], by="Ann")
            said.send(None)


def bring_in(path, said: Connection, seed: int) -> None:
    with Project(path) as project:
        project.documents.add(batches(N_DOCUMENTS, 3), on_batch=said.send)


def fit(path, said: Connection, seed: int) -> None:
    from leafwise.review.refitting import refit

    with Project(path) as project:
        while True:
            refit(project, lambda step, share: said.send((step, share)))
            said.send(("done", 1.0))


def killed(workers, work, path, seed: int, delay: float, far=lambda heard: True) -> list:
    """Kill a worker so many seconds after what it said shows it is far enough; return all of it."""
    said, tells = workers.Pipe(duplex=False)
    process = workers.Process(target=begin, args=(work, path, tells, seed))
    process.start()
    tells.close()
    assert said.recv() == "begun"
    heard = []
    while not far(heard):
        heard.append(said.recv())
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    # 255 is what a fork server says that could not learn how a process has ended.
    assert process.exitcode in (-signal.SIGKILL, 255)
    try:
        while True:
            heard.append(said.recv())
    except EOFError:
        said.close()
    return heard


def after(n: int):
    return lambda heard: len(heard) >= n


def at(step: str):
    return lambda heard: heard and heard[-1][0] == step


def at_once(n: int, work) -> list:
    """Share n moments among projects, a thread for each."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, range(AT_ONCE), [n // AT_ONCE] * AT_ONCE))


# ---- what is left -------------------------------------------------------------------------------


def carry_out(answers: list[tuple[int, str]], wish) -> list[tuple[int, str]]:
    return answers[:-1] if wish == "undo" else [*answers, wish]


def test_no_acknowledged_label_is_lost(workers, tmp_path):
    def suffer(which: int, moments: int) -> int:
        path = tmp_path / f"{which}.leafwise"
        draw = random.Random(which)
        with new(path) as project:
            project.documents.add(batches(50, 0))
        answers: list[tuple[int, str]] = []  # that hold, in order
        n_said = 0
        for moment in range(moments):
            seed = 1000 * which + moment
            heard = killed(workers, label, path, seed, draw.uniform(0, 0.4))
            for wish, done in zip(heard[::2], heard[1::2]):
                assert done is None
                answers = carry_out(answers, wish)
                n_said += 1
            with Project(path) as project:
                assert project.check() == []
                labels = {id: given[0] for id, given in project.labels.all().items()}
                n_kept = len(project.labels.answers())
            if n_kept != len(answers):
                # What it was at when it died may be done, though it could not say so any more.
                assert len(heard) % 2
                answers = carry_out(answers, heard[-1])
            assert n_kept == len(answers)
            assert labels == dict(answers)
        return n_said

    assert sum(at_once(N_LABELLING, suffer)) > N_LABELLING


def test_an_import_goes_on_where_it_was(workers, tmp_path):
    everything = {f"d{i}": text for i, (text, _) in enumerate(made_up(N_DOCUMENTS))}

    def suffer(which: int, moments: int) -> int:
        draw = random.Random(100 + which)
        n_interrupted = 0
        for moment in range(moments):
            path = tmp_path / f"{which}-{moment // 3}.leafwise"  # each is killed three times
            if not path.exists():
                new(path).close()
            with Project(path) as project:
                before = project.documents.count()
            far = after(draw.randrange(N_DOCUMENTS // PER_BATCH))
            heard = killed(workers, bring_in, path, moment, draw.uniform(0, 0.01), far)
            with Project(path) as project:
                assert project.check() == []
                there = project.documents.count()
                assert there % PER_BATCH == 0
                assert there >= max([before, *(added.n_new + added.n_same for added in heard)])
                assert len(project.labels.all()) == -(-there // 3)
                n_interrupted += there < N_DOCUMENTS
                if moment % 3 == 2:
                    added = project.documents.add(batches(N_DOCUMENTS, 3))
                    assert (added.n_new, added.n_same) == (N_DOCUMENTS - there, there)
                    kept = {key: text for rows in project.documents.each() for _, key, text in rows}
                    assert kept == everything
                    assert len(project.labels.all()) == N_DOCUMENTS // 3
                    assert project.check() == []
        return n_interrupted

    assert sum(at_once(N_IMPORTING, suffer)) > N_IMPORTING // 2


def test_a_refit_that_dies_changes_nothing(workers, tmp_path):
    def suffer(which: int, moments: int) -> None:
        path = tmp_path / f"{which}.leafwise"
        draw = random.Random(200 + which)
        with new(path) as project:
            project.documents.add(batches(200, 10))
        labels: dict[int, tuple[str, ...]] = {}
        for moment in range(moments):
            step = STEPS[(which + moment) % len(STEPS)]
            with Project(path) as project:
                labels = labels or project.labels.all()
                before = project.runs.current()
                with ThreadPoolExecutor(1) as pool:
                    delay = draw.uniform(0, 0.5 if step == "Learning" else 0.1)
                    dying = pool.submit(killed, workers, fit, path, moment, delay, at(step))
                    while not dying.done():  # people label meanwhile
                        document, leaf = draw.randint(1, 100), draw.choice(LEAVES)
                        project.labels.answer(document, [leaf], by="Ann")
                        labels[document] = (leaf,)
                        time.sleep(0.01)
                heard = dying.result()
            with Project(path) as project:
                assert project.check() == []
                assert project.labels.all() == labels
                now = project.runs.current()
                if before is not None or ("done", 1.0) in heard:
                    assert now is not None
                    assert now.id >= (before.id if before else 0)
                    guesses = project.runs.model().predict(["cat kitten purr whisker mouse"])
                    assert guesses[0] in LEAVES
                else:
                    assert now is None or heard[-1][0] == "Saving"
        with Project(path) as project:
            from leafwise.review.refitting import refit

            assert refit(project).state == "done"
            assert project.runs.running() is None
            assert project.check() == []
            assert sum(run.state == "stopped" for run in project.runs.all()) >= moments // 2

    at_once(N_REFITTING, suffer)
