"""Runs: fits of the model, what they found, and the queue of documents to look at.

All that belongs to a run is written in small transactions, so that nobody who labels has to wait.
It becomes the current one in a last small step. A run that ends before that changes nothing.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from leafwise import persistence
from leafwise.exceptions import MissingError, ProjectError
from leafwise.store.database import Database
from leafwise.store.records import Run, now
from leafwise.store.tree import State, Tree

_PART = 4 << 20  # bytes of a model in one row
_SILENT = timedelta(hours=6)  # a step of a fit does not take longer
_ROWS = 5_000  # rows in one transaction, about
_RUN = (
    "SELECT id, at, ended, state, step, share, n_documents, n_labels, last_answer, tree, report, "
    "facts FROM runs"
)


class Runs:
    """The runs of a project."""

    def __init__(self, db: Database, tree: Tree) -> None:
        self._db = db
        self._tree = tree
        self._states: dict[int, State] = {}  # trees of runs that were started here

    # ---- a run that is on its way ----

    def start(self) -> Run:
        """Begin a run. There is one at a time; one whose process is gone counts as stopped."""
        with self._db.writing() as db:
            if (other := self.running()) is not None:
                raise ProjectError(
                    f"Another program is fitting this project, since {other.at[11:16]} UTC. Wait "
                    "until it is done."
                )
            db.execute(
                "UPDATE runs SET state = 'stopped', ended = ? WHERE state = 'running'", (now(),)
            )
            state = self._tree.state
            run = db.execute(
                "INSERT INTO runs (at, told, pid, state, n_documents, n_labels, last_answer, tree) "
                "SELECT ?, ?, ?, 'running', (SELECT count(*) FROM documents), "
                "(SELECT count(DISTINCT document) FROM labels), "
                "(SELECT coalesce(max(id), 0) FROM answers), ?",
                (now(), now(), os.getpid(), state.version),
            ).lastrowid
            assert run is not None
        self._states = {run: state}
        self._clean()
        return self.get(run)

    def tell(self, run: int, step: str, share: float) -> None:
        """Say what a run is doing, and how much of it is done."""
        sql = "UPDATE runs SET step = ?, share = ?, told = ? WHERE id = ?"
        self._write(run, sql, (step, share, now(), run))

    def add_predictions(
        self,
        run: int,
        documents: Sequence[int],
        paths: Sequence[Sequence[str]],
        probabilities: Sequence[Sequence[float]],
    ) -> None:
        """Keep the best nodes of documents, best first, and their probabilities."""
        state = self._states[run]
        id_of = dict(zip(state.taxonomy.paths, state.ids.tolist()))
        for start in range(0, len(documents), _ROWS):
            end = start + _ROWS
            rows = []
            with self._db.writing() as db:
                self._check_running(run)
                edited = self._tree.version != state.version
                for document, best, sure in zip(
                    documents[start:end], paths[start:end], probabilities[start:end]
                ):
                    pairs = [(id_of[path], round(float(p), 6)) for path, p in zip(best, sure)]
                    if edited:  # meanwhile: of nodes that became one, the likeliest counts
                        kept: dict[int, float] = {}
                        for id, p in pairs:
                            for heir in self._tree.resolve([id]):
                                kept.setdefault(heir, p)
                        pairs = list(kept.items())
                    if pairs:
                        (node, p), *others = pairs
                        rows.append(
                            (run, int(document), node, p, json.dumps(others), int(document))
                        )
                db.executemany(
                    "INSERT INTO predictions (run, document, node, probability, others, labelled) "
                    "VALUES (?, ?, ?, ?, ?, EXISTS (SELECT 1 FROM labels WHERE document = ?))",
                    rows,
                )

    def set_queue(self, run: int, documents: Iterable[tuple[int, str]]) -> None:
        """Keep which documents to look at next, and why each."""
        with self._db.writing() as db:
            self._check_running(run)
            db.executemany(
                "INSERT INTO queue (run, position, document, why) VALUES (?, ?, ?, ?)",
                [(run, i, int(document), why) for i, (document, why) in enumerate(documents)],
            )

    def finish(self, run: int, model: Any, report: list[str], facts: dict[str, Any]) -> None:
        """Keep the model, and have the run be the current one."""
        with tempfile.TemporaryFile() as file:
            persistence.write(model, file)
            file.seek(0)
            for part, data in enumerate(iter(lambda: file.read(_PART), b"")):
                self._write(run, "INSERT INTO models VALUES (?, ?, ?)", (run, part, data))
        rows = self._db.rows(
            "SELECT document, node, probability FROM predictions WHERE run = ?", (run,)
        )
        self._write(
            run,
            "UPDATE runs SET state = 'done', ended = ?, step = '', share = 1, report = ?, "
            "facts = ?, found = ? WHERE id = ?",
            (now(), json.dumps(report), json.dumps(facts), _packed(rows), run),
        )
        self._clean()

    def fail(self, run: int, message: str) -> None:
        """Have a run be over without a result."""
        with self._db.writing() as db:
            db.execute(
                "UPDATE runs SET state = 'failed', ended = ?, report = ? "
                "WHERE id = ? AND state = 'running'",
                (now(), json.dumps([message]), run),
            )
        self._clean()

    def stop(self, run: int) -> None:
        """Have a run be over that was ended from outside."""
        with self._db.writing() as db:
            db.execute(
                "UPDATE runs SET state = 'stopped', ended = ? WHERE id = ? AND state = 'running'",
                (now(), run),
            )
        self._clean()

    # ---- what there is ----

    def get(self, run: int) -> Run:
        return self._runs("WHERE id = ?", (run,), f"There is no run {run}.")

    def current(self) -> Run | None:
        """Return the last run that came to its end."""
        return next(iter(self._all("WHERE state = 'done' ORDER BY id DESC LIMIT 1")), None)

    def running(self) -> Run | None:
        """Return the run that is under way, in whichever process."""
        row = self._db.one("SELECT id, pid, told FROM runs WHERE state = 'running'")
        return self.get(row[0]) if row is not None and _is_there(*row[1:]) else None

    def of_process(self, pid: int) -> Run | None:
        """Return the last run of a process."""
        return next(iter(self._all("WHERE pid = ? ORDER BY id DESC LIMIT 1", (pid,))), None)

    def last(self) -> Run | None:
        """Return the newest run, whatever became of it."""
        return next(iter(self._all("ORDER BY id DESC LIMIT 1")), None)

    def all(self) -> list[Run]:
        """Return all runs, the oldest first."""
        return self._all("ORDER BY id")

    def model(self) -> Any:
        """Return the model of the current run, or None."""
        with self._db.reading():
            run = self.current()
            if run is None:
                return None
            parts = self._db.rows("SELECT data FROM models WHERE run = ? ORDER BY part", (run.id,))
        data = io.BytesIO(b"".join(part for (part,) in parts))
        return persistence.read(data, f"The model of run {run.id}")

    def queue(self) -> list[tuple[int, str]]:
        """Return the documents to look at next that nobody has answered since, and why each."""
        return self._db.rows(
            "SELECT document, why FROM queue WHERE run = (SELECT max(id) FROM runs "
            "WHERE state = 'done') AND NOT EXISTS (SELECT 1 FROM labels "
            "WHERE labels.document = queue.document) AND NOT EXISTS (SELECT 1 FROM answers "
            "WHERE answers.document = queue.document AND NOT undone AND nodes IS NULL "
            "AND answers.id > (SELECT last_answer FROM runs WHERE id = queue.run)) "
            "ORDER BY position"
        )

    def found(self, run: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return a run's best guesses: documents, numbers of nodes in the file, probabilities."""
        data = self._db.value("SELECT found FROM runs WHERE id = ?", (run,))
        if data is None:
            raise MissingError(f"There is no run {run} that came to its end.")
        packed = zlib.decompress(data)
        n = len(packed) // 16
        documents = np.frombuffer(packed, "<i8", n)
        nodes = np.frombuffer(packed, "<i4", n, offset=8 * n)
        return documents, nodes, np.frombuffer(packed, "<f4", n, offset=12 * n)

    # ---- parts ----

    def _runs(self, where: str, values: Sequence[Any], missing: str) -> Run:
        found = self._all(where, values)
        if not found:
            raise MissingError(missing)
        return found[0]

    def _all(self, where: str, values: Sequence[Any] = ()) -> list[Run]:
        return [
            Run(*row)._replace(report=json.loads(row[10]), facts=json.loads(row[11]))
            for row in self._db.rows(f"{_RUN} {where}", values)
        ]

    def _write(self, run: int, sql: str, values: Sequence[Any]) -> None:
        with self._db.writing() as db:
            self._check_running(run)
            db.execute(sql, values)

    def _check_running(self, run: int) -> None:
        if self._db.value("SELECT state FROM runs WHERE id = ?", (run,)) != "running":
            raise ProjectError(f"Run {run} was stopped, or another took its place.")

    def _clean(self) -> None:
        """Remove what belongs to runs that are over and not the current one, a little at a time."""
        over = (
            "run NOT IN (SELECT id FROM runs WHERE state = 'running' UNION "
            "SELECT coalesce(max(id), 0) FROM runs WHERE state = 'done')"
        )
        runs = self._db.rows(
            "SELECT id FROM runs WHERE state != 'running' ORDER BY id DESC LIMIT 20"
        )
        for (run,) in runs:
            for table, column in (
                ("predictions", "document"),
                ("models", "part"),
                ("queue", "position"),
                ("tallies", "node"),
            ):
                n_left = 1
                while n_left:
                    with self._db.writing() as db:
                        n_left = db.execute(
                            f"DELETE FROM {table} WHERE run = ? AND {over} AND {column} IN "
                            f"(SELECT {column} FROM {table} WHERE run = ? LIMIT ?)",
                            (run, run, _ROWS if table != "models" else 16),
                        ).rowcount


def _is_there(pid: int, told: str) -> bool:
    """Whether a process is there, and has said something in the last hours."""
    if datetime.now(UTC) - datetime.fromisoformat(told) > _SILENT:
        return False  # its number may be another's by now
    try:
        os.kill(pid, 0)  # which asks, and does nothing
    except ProcessLookupError:
        return False
    except OSError:  # of someone else
        return True
    return True


def _packed(rows: list[tuple]) -> bytes:
    documents, nodes, probabilities = zip(*rows) if rows else ((), (), ())
    parts = (
        np.array(documents, "<i8").tobytes(),
        np.array(nodes, "<i4").tobytes(),
        np.array(probabilities, "<f4").tobytes(),
    )
    return zlib.compress(b"".join(parts), 1)
