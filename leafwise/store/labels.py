"""What people said of documents: every answer is kept, and the labels follow from them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from leafwise.exceptions import ConflictError, LabelError, MissingError
from leafwise.store.database import Database
from leafwise.store.records import Answer, now
from leafwise.store.tree import State, Tree, mark

_ANSWER = (
    "SELECT answers.id, document, key, at, by, source, nodes, suggested, probability, asked, "
    "undone FROM answers JOIN documents ON documents.id = document"
)


class Labels:
    """The labels of documents, and the answers they come from."""

    def __init__(self, db: Database, tree: Tree, several: bool) -> None:
        self._db = db
        self._tree = tree
        self._several = several

    # ---- answers ----

    def answer(
        self,
        document: int,
        labels: Sequence[str] | None,
        *,
        by: str,
        source: str = "review",
        seen: int | None = None,
        suggested: str | None = None,
        probability: float | None = None,
        asked: str = "",
        token: str | None = None,
    ) -> Answer:
        """Keep an answer; it is on the disk when this returns.

        Parameters
        ----------
        document : its number
        labels : paths, or names that one node alone has; () takes labels away, None skips
        by, source, asked : see `Answer`
        seen : the version of the document that the person saw
        suggested, probability : what the model had said
        token : made by the client; an answer that comes twice with the same is one
        """
        with self._db.writing() as db:
            if token is not None and (found := self._by_token(token)) is not None:
                return found
            if db.execute("SELECT 1 FROM documents WHERE id = ?", (document,)).fetchone() is None:
                raise MissingError(f"There is no document number {document}.")
            state = self._tree.state
            nodes = None if labels is None else self.read(labels, state)
            if seen is not None and self.version(document) != seen:
                raise ConflictError(self._said_meanwhile(document))
            guess = None if suggested is None else state.id(suggested)
            answer = db.execute(
                "INSERT INTO answers (document, at, by, source, nodes, suggested, probability, "
                "asked, token) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    document,
                    now(),
                    by,
                    source,
                    None if nodes is None else json.dumps(nodes),
                    guess,
                    probability,
                    asked,
                    token,
                ),
            ).lastrowid
            assert answer is not None
            if nodes is not None:
                _set(db, document, nodes, answer)
            return self._answers("WHERE answers.id = ?", (answer,))[0]

    def undo(self, by: str) -> Answer | None:
        """Take back a person's last answer in review; the labels are what they were before it.

        Raises a ConflictError where someone has answered after that.
        """
        with self._db.writing() as db:
            last = db.execute(
                "SELECT id, document, nodes FROM answers WHERE by = ? AND source = 'review' "
                "AND NOT undone ORDER BY id DESC LIMIT 1",
                (by,),
            ).fetchone()
            if last is None:
                return None
            answer, document, nodes = last
            if nodes is not None and self.version(document) > answer:
                raise ConflictError(self._said_meanwhile(document))
            db.execute("UPDATE answers SET undone = 1 WHERE id = ?", (answer,))
            if nodes is not None:
                self._restore(db, document)
            return self._answers("WHERE answers.id = ?", (answer,))[0]

    def history(self, document: int) -> list[Answer]:
        """Return all that was said of a document, and edits of the tree that moved it, in order."""
        with self._db.reading():
            found = self._answers("WHERE document = ? ORDER BY answers.id", (document,))
            moved = self._db.rows(
                "SELECT edits.id, document, key, edits.at, edits.by, heir, undone FROM edit_labels "
                "JOIN edits ON edits.id = edit JOIN documents ON documents.id = document "
                "WHERE document = ?",
                (document,),
            )
            for id, number, key, at, by, heir, undone in moved:
                labels = () if heir is None else (self._tree.path_ever(heir),)
                found.append(
                    Answer(id, number, key, at, by, "tree", labels, None, None, "", bool(undone))
                )
        return sorted(found, key=lambda answer: answer.at)

    def answers(
        self, *, after: int = 0, limit: int | None = None, source: str | None = None
    ) -> list[Answer]:
        """Return answers that were not undone, in order."""
        where = "WHERE NOT undone AND answers.id > ?"
        values: list[Any] = [after]
        if source is not None:
            where, values = f"{where} AND source = ?", [*values, source]
        values.append(-1 if limit is None else limit)
        return self._answers(f"{where} ORDER BY answers.id LIMIT ?", values)

    def checks(self) -> list[Answer]:
        """Return the answers about documents that were drawn at random, in order."""
        where = "WHERE asked = 'check' AND NOT undone AND nodes IS NOT NULL ORDER BY answers.id"
        return self._answers(where)

    def last(self) -> int:
        """Return the number of the newest answer, 0 where there is none."""
        return self._db.value("SELECT coalesce(max(id), 0) FROM answers")

    def skipped(self) -> set[int]:
        """Return documents whose last answer is that they were skipped."""
        rows = self._db.rows(
            "SELECT document, max(id), nodes IS NULL FROM answers WHERE NOT undone AND document IN "
            "(SELECT document FROM answers WHERE nodes IS NULL) GROUP BY document"
        )
        return {document for document, _, skipped in rows if skipped}

    def confusions(self, path: str, n: int = 10) -> list[tuple[str, str, int]]:
        """Return what was suggested, what was given, and how often, where a node was mistaken."""
        state = self._tree.state
        own = state.id(path)
        counts: dict[tuple[str, str], int] = {}
        for suggested, nodes in self._db.rows(
            "SELECT suggested, nodes FROM answers WHERE NOT undone AND suggested IS NOT NULL "
            "AND nodes IS NOT NULL AND source = 'review'"
        ):
            given = self._tree.resolve(json.loads(nodes))
            for guess in self._tree.resolve([suggested]):
                if not given or guess in given or own not in (guess, *given):
                    continue
                for one in given if guess == own else [own]:
                    pair = (str(state.path(guess)), str(state.path(one)))
                    counts[pair] = counts.get(pair, 0) + 1
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return [(*pair, count) for pair, count in ordered[:n]]

    # ---- labels ----

    def of(self, documents: Iterable[int]) -> dict[int, tuple[str, ...]]:
        """Return the labels of documents that have some."""
        rows = self._db.rows_of(
            "SELECT document, node FROM labels WHERE document IN ({}) ORDER BY document, node",
            documents,
        )
        return self._named(rows)

    def all(self, upto: int | None = None) -> dict[int, tuple[str, ...]]:
        """Return the labels of all documents that have some, by the answers up to one of them."""
        last = self.last() if upto is None else upto
        rows = self._db.rows("SELECT document, node FROM labels WHERE answer <= ?", (last,))
        return self._named(rows)

    def version(self, document: int) -> int:
        """Return the last answer that holds, which gave or took its labels; 0 without one."""
        return self._db.value(
            "SELECT coalesce(max(id), 0) FROM answers WHERE document = ? AND NOT undone "
            "AND nodes IS NOT NULL",
            (document,),
        )

    def read(self, labels: Iterable[Any], state: State) -> list[int]:
        """Return the nodes that labels stand for, each once."""
        if isinstance(labels, str):
            raise LabelError(f"labels: expected a list of paths, got one string: [{labels!r}].")
        nodes = list(dict.fromkeys(state.id(label) for label in labels))
        if len(nodes) > 1 and not self._several:
            raise LabelError(
                f"Got {len(nodes)} labels, and each document of this project has one. That is "
                "settled when a project is made."
            )
        return nodes

    def _named(self, rows: list[tuple]) -> dict[int, tuple[str, ...]]:
        path = self._tree.state.path
        return {
            document: tuple(sorted(p for _, node in group if (p := path(node)) is not None))
            for document, group in groupby(rows, key=lambda row: row[0])
        }

    def _restore(self, db: sqlite3.Connection, document: int) -> None:
        """Give a document the labels of its last answer that holds."""
        row = db.execute(
            "SELECT id, nodes FROM answers WHERE document = ? AND NOT undone "
            "AND nodes IS NOT NULL ORDER BY id DESC LIMIT 1",
            (document,),
        ).fetchone()
        answer, nodes = (0, []) if row is None else (row[0], json.loads(row[1]))
        _set(db, document, self._tree.resolve(nodes), answer)

    def _by_token(self, token: str) -> Answer | None:
        return next(iter(self._answers("WHERE token = ?", (token,))), None)

    def _answers(self, where: str, values: Sequence[Any] = ()) -> list[Answer]:
        path = self._tree.path_ever
        found = []
        for row in self._db.rows(f"{_ANSWER} {where}", values):
            id, document, key, at, by, source, nodes, suggested, p, asked, undone = row
            labels = None if nodes is None else tuple(map(path, json.loads(nodes)))
            guess = None if suggested is None else path(suggested)
            found.append(
                Answer(id, document, key, at, by, source, labels, guess, p, asked, bool(undone))
            )
        return found

    def _said_meanwhile(self, document: int) -> str:
        labels = self.of([document]).get(document)
        if labels is None:
            return "The label of this document was taken away meanwhile."
        made = self._answers("WHERE answers.id = ?", (self.version(document),))
        by = made[0].by if made else "Someone"
        return f"{by} has put this document on {', '.join(labels)} meanwhile."


def _set(db: sqlite3.Connection, document: int, nodes: list[int], answer: int) -> None:
    db.execute("DELETE FROM labels WHERE document = ?", (document,))
    db.executemany(
        "INSERT INTO labels (document, node, answer) VALUES (?, ?, ?)",
        [(document, node, answer) for node in nodes],
    )
    mark(db, document, bool(nodes))
