"""Fit the model of a project anew, or grow a tree for it: work for a process of its own.

``python -m leafwise.review.refitting FILE`` does it beside the process that people work with. It
may be killed at any moment: a run, or a draft, becomes whole in one last step or not at all.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from leafwise.exceptions import LeafwiseError, ProjectError
from leafwise.models._base import BLOCK_SCORES
from leafwise.models.taxonomy_classifier import TaxonomyClassifier, counter_of
from leafwise.review.progress import share_moved

if TYPE_CHECKING:
    from leafwise.store import Project
    from leafwise.store.records import Draft, Run

Tell = Callable[[str, float], None]

N_QUEUE = 100  # documents to look at until the next run
CHECK_EVERY = 5  # of the queue, each so many is drawn at random
N_BEST = 5  # nodes kept for a document
_LARGE_POOL, _SAMPLE = 50_000, 20_000  # of more documents, so many are chosen from
_CHUNK = 2_000  # documents sorted at a time
_MOST_GROWN = 20_000  # documents that a tree is grown from: more of them hardly change it
_N_EXAMPLES = 3  # documents shown for each leaf
_PARENT_EVERY = 1.0  # seconds between looks at the parent
_ORPHANED = 3  # how a process ends whose parent is gone


class _Pool(NamedTuple):
    """The documents of a project at one moment.

    Attributes
    ----------
    ids, texts : of all documents
    labels : of each, () where it has none
    """

    ids: np.ndarray
    texts: list[str]
    labels: list[tuple[str, ...]]

    @property
    def unlabelled(self) -> np.ndarray:
        return np.flatnonzero([not labels for labels in self.labels])


# ---- a run --------------------------------------------------------------------------------------


def refit(project: Project, tell: Tell | None = None) -> Run:
    """Fit a model to all documents and labels, sort what has no label, and say what to ask next.

    Where nothing can be learned, the run has failed and its report says why. `tell` is called with
    what is being done, and how much of the whole is done.
    """
    run = project.runs.start()

    def say(step: str, share: float) -> None:
        project.runs.tell(run.id, step, share)
        if tell is not None:
            tell(step, share)

    try:
        _carry_out(project, run, say)
    except (LeafwiseError, ValueError, MemoryError) as error:
        text = "There is not enough memory." if isinstance(error, MemoryError) else str(error)
        project.runs.fail(run.id, text)
    except Exception as error:
        project.runs.fail(run.id, f"The fit ended with an error: {type(error).__name__}: {error}")
        raise
    return project.runs.get(run.id)


def _carry_out(project: Project, run: Run, say: Tell) -> None:
    say("Reading", 0.0)
    state = project.tree.state
    pool = _read(project, run, lambda done: say("Reading", 0.1 * done / max(run.n_documents, 1)))
    if project.tree.version != run.tree or state.version != run.tree:
        raise ProjectError("The tree was changed while its documents were read. Fit anew.")
    if len(state.taxonomy) < 2:
        raise ProjectError("There is no tree yet: add nodes, read a tree from a file, or grow one.")
    if not pool.texts:
        raise ProjectError("There are no documents yet: add some.")
    say("Learning", 0.1)
    known = any(pool.labels)
    counter = counter_of(project.language)
    model = TaxonomyClassifier(state.taxonomy, counter=counter, several=project.several and known)
    labels = pool.labels if project.several else [next(iter(own), None) for own in pool.labels]
    model.on_progress = lambda what, done, total: say(what, 0.1 + 0.6 * done / total)
    model.fit(pool.texts, labels)
    model.on_progress = None
    left = pool.unlabelled
    best, sure = _sort(project, run, model, pool, left, say)
    say("Choosing what to ask", 0.95)
    project.runs.set_queue(run.id, _queue(project, run, model, pool, left))
    say("Saving", 0.97)
    facts: dict[str, Any] = {"nodes": as_ranges(state.ids)}
    if len(left):
        facts["belief"] = float(sure.mean())
    before = project.runs.current()
    if before is not None:
        id_of = dict(zip(state.taxonomy.paths, state.ids.tolist()))
        nodes = np.array([id_of[path] for path in best], np.int64)
        facts["moved"] = share_moved(project.runs.found(before.id)[:2], (pool.ids[left], nodes))
    project.runs.finish(run.id, model, model.report_, facts)


def _read(project: Project, run: Run, done: Callable[[int], None]) -> _Pool:
    ids: list[int] = []
    texts: list[str] = []
    for rows in project.documents.each():
        for id, _, text in rows:
            ids.append(id)
            texts.append(text)
        done(len(ids))
    given = project.labels.all(run.last_answer)  # later ones are learned when the run is done
    return _Pool(np.array(ids, np.int64), texts, [given.get(id, ()) for id in ids])


def _sort(
    project: Project,
    run: Run,
    model: TaxonomyClassifier,
    pool: _Pool,
    left: np.ndarray,
    say: Tell,
) -> tuple[list[str], np.ndarray]:
    """Keep the nodes of documents without a label; return the best of each, and how sure it is."""
    best: list[str] = []
    sure: list[np.ndarray] = [np.empty(0)]
    step = max(1, min(_CHUNK, BLOCK_SCORES // len(model.classes_)))
    for start in range(0, len(left), step):
        say("Sorting", 0.7 + 0.25 * start / len(left))
        rows = left[start : start + step]
        nodes, probabilities = model.top_k([pool.texts[i] for i in rows], N_BEST)
        project.runs.add_predictions(
            run.id, pool.ids[rows].tolist(), nodes.tolist(), probabilities.tolist()
        )
        best += nodes[:, 0].tolist()
        sure.append(probabilities[:, 0])
    return best, np.concatenate(sure)


def as_ranges(ids: np.ndarray) -> list[list[int]]:
    """Return numbers as pairs of a first one and how many follow each other: a tree has few."""
    starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 2) != 1)
    lengths = np.diff(starts, append=len(ids))
    return [[int(ids[start]), int(n)] for start, n in zip(starts, lengths)]


def from_ranges(ranges: list[list[int]]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.int64), *(first + np.arange(n) for first, n in ranges)])


# ---- what to ask next ---------------------------------------------------------------------------


def _queue(
    project: Project, run: Run, model: TaxonomyClassifier, pool: _Pool, left: np.ndarray
) -> list[tuple[int, str]]:
    """Return documents to look at next, and why each: to learn from, or to check by."""
    skipped = np.array(sorted(project.labels.skipped()), np.int64)
    rows = left[~np.isin(pool.ids[left], skipped)]
    if not len(rows):
        return []
    rng = np.random.default_rng(run.id)
    n_checks = -(-N_QUEUE // CHECK_EVERY)
    checks = rng.permutation(rows)[:n_checks].tolist()
    wanted = N_QUEUE + len(skipped)
    if len(rows) > _LARGE_POOL:
        some = np.sort(rng.choice(rows, _SAMPLE, replace=False))
        found = some[model.query(wanted, texts=[pool.texts[i] for i in some])]
    else:
        found = model.query(wanted)
    # A check stays one where the queue wants it too: else checks would be the easier documents.
    kept = found[np.isin(found, rows) & ~np.isin(found, checks)].tolist()
    return [(int(pool.ids[i]), why) for i, why in _interleave(kept, checks)][:N_QUEUE]


def _interleave(wanted: list[int], checks: list[int]) -> Iterator[tuple[int, str]]:
    """Have a check after each four others, as long as there are both."""
    left = iter(checks)
    for place, row in enumerate(wanted, start=1):
        yield row, "queue"
        if place % (CHECK_EVERY - 1) == 0 and (check := next(left, None)) is not None:
            yield check, "check"
    for check in left:
        yield check, "check"


# ---- a tree that is grown -----------------------------------------------------------------------


def grow_draft(project: Project, draft: int) -> Draft:
    """Grow the tree of a draft from the documents of its node, or of the whole project.

    Where none grows, the draft has failed and says why.
    """
    from leafwise.growing import count_words, grow

    found = project.drafts.get(draft)
    try:
        grown = grow(count_words(_texts_at(project, found), project.language), found.n_leaves)
        project.drafts.ready(draft, grown.tree, _examples(grown))
    except (LeafwiseError, ValueError, MemoryError) as error:
        text = "There is not enough memory." if isinstance(error, MemoryError) else str(error)
        project.drafts.fail(draft, text)
    except Exception as error:
        project.drafts.fail(draft, f"Growing ended with an error: {type(error).__name__}: {error}")
        raise
    return project.drafts.get(draft)


def _texts_at(project: Project, draft: Draft) -> list[str]:
    if draft.path is None:
        raise ProjectError("The node that this draft was to be grown for is gone.")
    whole = project.tree.taxonomy.index(draft.path) == 0
    if whole:
        ids = [id for rows in project.documents.each() for id, _, _ in rows]
    else:
        ids = list(_ids_at(project, draft.path))
    if not ids and whole:
        raise ProjectError("There are no documents yet: add some.")
    if not ids:
        raise ProjectError(
            f'No document is at "{draft.path}" itself, by its label or by the last sorting: there '
            "is nothing to split."
        )
    if len(ids) > _MOST_GROWN:
        drawn = np.random.default_rng(draft.id).choice(ids, _MOST_GROWN, replace=False)
        ids = sorted(drawn.tolist())
    texts = project.documents.texts(ids)
    return [texts[id] for id in ids]


def _ids_at(project: Project, path: str) -> Iterator[int]:
    after = None
    while True:
        page = project.documents.page(node=path, branch=False, after=after, limit=1000)
        yield from (document.id for document in page.documents)
        if (after := page.after) is None:
            return


def _examples(grown: Any) -> dict[str, list[str]]:
    """Return, for each leaf, how its most typical documents begin, copies once."""
    leaf_of = grown.model.leaves_[grown.model.p_leaf_given_document_.argmax(axis=1)]
    found = {}
    for leaf in grown.model.leaves_.tolist():
        path = grown.tree.paths[leaf]
        rows = grown.model.typical_documents(path, len(leaf_of))
        own = [grown.words.beginnings[i] for i in rows if leaf_of[i] == leaf]
        found[path] = list(dict.fromkeys(own))[:_N_EXAMPLES]
    return found


# ---- the process --------------------------------------------------------------------------------


def main(arguments: list[str] | None = None) -> int:
    """Refit a project, or grow a tree for one of its drafts; returns the exit status."""
    from leafwise.store import Project

    parser = argparse.ArgumentParser(
        prog="python -m leafwise.review.refitting", description=main.__doc__
    )
    parser.add_argument("file", metavar="FILE", help="a project")
    parser.add_argument("--grow", metavar="DRAFT", type=int, help="the number of a draft")
    parser.add_argument(
        "--parent", metavar="PID", type=int, help="end when this process, which started it, does"
    )
    given = parser.parse_args(arguments)
    if given.parent is not None:
        threading.Thread(target=_follow, args=(given.parent,), daemon=True).start()
        with suppress(OSError, AttributeError):  # there is no such thing on Windows
            os.nice(10)  # people who work with the project come first
    try:
        with Project(given.file) as project:
            if given.grow is not None:
                return int(grow_draft(project, given.grow).state != "ready")
            return int(refit(project).state != "done")
    except LeafwiseError as error:
        print(error, file=sys.stderr)
        return 2


def _follow(parent: int) -> None:
    """End this process when its parent is gone: nobody waits for it any more."""
    while os.getppid() == parent:
        time.sleep(_PARENT_EVERY)
    os._exit(_ORPHANED)


if __name__ == "__main__":
    sys.exit(main())
