"""The tree of a project: edited, with its labels, and undone."""

from __future__ import annotations

import json
import sqlite3
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from leafwise.exceptions import ConflictError, LabelError, ProjectError
from leafwise.store.database import Database
from leafwise.store.records import Counts, Edit, now
from leafwise.store.schema import LIVE
from leafwise.taxonomy import Taxonomy, own_keywords
from leafwise.taxonomy_changes import Change
from leafwise.taxonomy_names import join_path

# The predictions of a node, found by the index.
_OF_NODE = f"run IN {LIVE} AND labelled IN (0, 1) AND node = ?"
_COLUMNS = ("parent", "position", "name", "keywords", "gone", "heir")


class State(NamedTuple):
    """The tree at one moment.

    Attributes
    ----------
    version : counts edits and what was undone
    taxonomy : Taxonomy
    ids : the number in the file of each node
    number : node by its number in the file
    """

    version: int
    taxonomy: Taxonomy
    ids: np.ndarray
    number: dict[int, int]

    def path(self, id: int) -> str | None:
        """Return the path of a node, None where it is gone."""
        number = self.number.get(id)
        return None if number is None else self.taxonomy.paths[number]

    def id(self, label: str) -> int:
        """Return the number in the file of a node that can be a label."""
        node = self.taxonomy.index(label)
        if not node:
            raise LabelError("The root is no label: name a node below it.")
        return int(self.ids[node])


class Tree:
    """The tree. It is read once for each version, whoever changed it."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._state: State | None = None

    @property
    def taxonomy(self) -> Taxonomy:
        return self.state.taxonomy

    @property
    def version(self) -> int:
        return int(self._db.value("SELECT value FROM meta WHERE key = 'tree'"))

    @property
    def state(self) -> State:
        with self._db.reading():
            version, state = self.version, self._state
            if state is None or state.version != version:
                state = self._state = self._read(version)
        return state

    def _read(self, version: int) -> State:
        rows = self._db.rows(
            "SELECT id, parent, name, keywords FROM nodes WHERE NOT gone ORDER BY position, id"
        )
        place = {row[0]: i for i, row in enumerate(rows)}
        if lost := [row[2] for row in rows if row[1] is not None and row[1] not in place]:
            raise ProjectError(f'nodes: "{lost[0]}" is below a node that is gone')
        parent = [-1 if row[1] is None else place[row[1]] for row in rows]
        names = [row[2] for row in rows]
        words = [None if row[3] is None else json.loads(row[3]) for row in rows]
        taxonomy = Taxonomy(names, parent, words)
        # Siblings stay in order, so the nodes of the tree are these rows in preorder.
        below: dict[int, list[int]] = {}
        for i, above in enumerate(parent):
            below.setdefault(above, []).append(i)
        order, todo = [], list(below[-1])
        while todo:
            order.append(i := todo.pop())
            todo += reversed(below.get(i, ()))
        ids = np.array([rows[i][0] for i in order], np.int64)
        return State(version, taxonomy, ids, dict(zip(ids.tolist(), range(len(ids)))))

    # ---- edits ----

    def edit(self, change: Change, what: str, *, by: str, seen: int | None = None) -> list[str]:
        """Take a change of the tree; labels and predictions follow. Say what changed.

        Parameters
        ----------
        change : see `leafwise.taxonomy_changes`
        what : the change in words, for the list of edits
        seen : the version of the tree that the person saw
        """
        with self._db.writing() as db:
            state = self.state
            if (seen is not None and seen != state.version) or change.old != state.taxonomy:
                raise ConflictError(
                    "The tree was changed meanwhile: look at it again, then change it."
                )
            report = change.report()
            if (
                change.new == state.taxonomy
                and (change.node_of == np.arange(len(change.node_of))).all()
            ):
                return report
            last = db.execute("SELECT coalesce(max(id), 0) FROM answers").fetchone()[0]
            edit = db.execute(
                "INSERT INTO edits (at, by, what, before, made, last_answer) "
                "VALUES (?, ?, ?, '', '', ?)",
                (now(), by, what, last),
            ).lastrowid
            assert edit is not None
            before, made, heirs = _write_nodes(db, state, change)
            for node, heir in heirs.items():
                _hand_over(db, edit, node, heir)
            db.execute(
                "UPDATE edits SET before = ?, made = ? WHERE id = ?",
                (json.dumps(before), json.dumps(made), edit),
            )
            _count_version(db)
        return report

    def replace(self, taxonomy: Taxonomy, *, by: str) -> list[str]:
        """Take another tree; nodes with the same path are the same."""
        change = Change.between(self.taxonomy, taxonomy)
        return self.edit(change, f"Took a tree of {len(taxonomy) - 1:,} nodes", by=by)

    def undo(self, by: str) -> Edit | None:
        """Take back the last edit that is not undone, and the labels that it moved.

        Labels of documents that were answered since stay as they are. Returns what was undone.
        """
        with self._db.writing() as db:
            row = db.execute(
                "SELECT id, at, by, what, before, made, last_answer FROM edits WHERE NOT undone "
                "ORDER BY id DESC LIMIT 1"
            ).fetchone()
            if row is None:
                return None
            edit, at, who, what, before, made, last_answer = row
            made = set(json.loads(made))
            for node in made:  # documents may have got its label since: they lose it
                _hand_over(db, edit, node, None)
                db.execute("UPDATE nodes SET gone = 1 WHERE id = ?", (node,))
            columns = ", ".join(f"{name} = ?" for name in _COLUMNS)
            for node, *values in json.loads(before):
                db.execute(f"UPDATE nodes SET {columns} WHERE id = ?", (*values, node))
            _take_back(db, edit, last_answer, made)
            db.execute("UPDATE edits SET undone = 1 WHERE id = ?", (edit,))
            _count_version(db)
        return Edit(edit, at, who, what, True)

    def edits(self, n: int = 50) -> list[Edit]:
        """Return the last edits, the newest first."""
        rows = self._db.rows(
            "SELECT id, at, by, what, undone FROM edits ORDER BY id DESC LIMIT ?", (n,)
        )
        return [Edit(id, at, who, what, bool(undone)) for id, at, who, what, undone in rows]

    # ---- nodes ----

    def counts(self) -> Counts:
        """Count the documents of every node."""
        with self._db.reading():
            state = self.state
            n = len(state.taxonomy)
            confirmed, predicted = np.zeros(n, np.int64), np.zeros(n, np.int64)
            probability = np.zeros(n)
            for node, count in self._db.rows("SELECT node, count(*) FROM labels GROUP BY node"):
                confirmed[state.number[node]] = count
            for node, count, total in self._db.rows(
                "SELECT node, n, total FROM tallies WHERE n > 0 AND "
                "run = (SELECT max(id) FROM runs WHERE state = 'done')"
            ):
                if (number := state.number.get(node)) is not None:
                    predicted[number], probability[number] = count, total
        return Counts(confirmed, predicted, probability)

    def counts_below(self) -> Counts:
        """Count the documents of every branch: a node with all below it."""
        with self._db.reading():
            state, counts = self.state, self.counts()
            several = "SELECT document FROM labels GROUP BY document HAVING count(*) > 1"
            twice = self._db.rows(
                f"SELECT document, node FROM labels WHERE document IN ({several}) ORDER BY document"
            )
        tree = state.taxonomy
        below = Counts(*map(tree.subtree_sum, counts))
        # A document with several labels counts once for each node that is above them.
        for _, rows in groupby(twice, key=lambda row: row[0]):
            nodes = [state.number[node] for _, node in rows]
            above = np.concatenate([[node, *tree.ancestors(node)] for node in nodes])
            known, n = np.unique(above, return_counts=True)
            below.confirmed[known] -= n - 1
        return below

    def resolve(self, ids: list[int]) -> list[int]:
        """Return what nodes have become: themselves, those they were merged into, or nothing."""
        state = self.state
        found: dict[int, None] = {}
        for id in ids:
            at: int | None = id
            while at is not None and at not in state.number:
                at = self._db.value("SELECT heir FROM nodes WHERE id = ?", (at,))
            if at is not None:
                found[at] = None
        return list(found)

    def path_ever(self, id: int) -> str:
        """Return the path of a node; of one that is gone, that which it had."""
        path = self.state.path(id)
        if path is not None:
            return path
        names: list[str] = []
        at: int | None = id
        while at is not None:
            row = self._db.one("SELECT parent, name FROM nodes WHERE id = ?", (at,))
            assert row is not None
            if row[0] is not None:
                names.append(row[1])
            at = row[0]
        return join_path(names[::-1])


def create(db: sqlite3.Connection, taxonomy: Taxonomy | None) -> None:
    """Write the first tree."""
    tree = taxonomy or Taxonomy([""], [-1])
    position = _positions(tree)
    db.executemany(
        "INSERT INTO nodes (id, parent, position, name, keywords) VALUES (?, ?, ?, ?, ?)",
        [
            (i + 1, None if i == 0 else int(tree.parent[i]) + 1, position[i], tree.names[i], words)
            for i, words in enumerate(_keywords(tree))
        ],
    )


def _keywords(tree: Taxonomy) -> list[str | None]:
    """Return each node's own keywords as JSON; None for the words of its name."""
    own = (own_keywords(tree, i) for i in range(len(tree)))
    return [None if words is None else json.dumps(list(words)) for words in own]


def _positions(tree: Taxonomy) -> list[int]:
    """Return the place of each node among its siblings."""
    seen: dict[int, int] = {}
    found = []
    for above in tree.parent.tolist():
        found.append(seen.get(above, 0))
        seen[above] = found[-1] + 1
    return found


def _write_nodes(
    db: sqlite3.Connection, state: State, change: Change
) -> tuple[list[list[Any]], list[int], dict[int, int | None]]:
    """Write the new tree; return rows as they were, new nodes, and where those gone went."""
    old, new, node_of = change.old, change.new, change.node_of.tolist()
    was: dict[int, int] = {}  # of several nodes that become one, that with its path stays
    for i, j in enumerate(node_of):
        if j >= 0 and (j not in was or old.paths[i] == new.paths[j]):
            was[j] = i
    next_id = db.execute("SELECT max(id) + 1 FROM nodes").fetchone()[0]
    ids, made = [], []
    for j in range(len(new)):
        if j in was:
            ids.append(int(state.ids[was[j]]))
        else:
            ids.append(next_id)
            made.append(next_id)
            next_id += 1
    listed = ", ".join(_COLUMNS)
    rows = {r[0]: list(r[1:]) for r in db.execute(f"SELECT id, {listed} FROM nodes WHERE NOT gone")}
    wanted: dict[int, list[Any]] = {
        ids[j]: [None if above < 0 else ids[above], position, name, words, 0, None]
        for j, (above, position, name, words) in enumerate(
            zip(new.parent.tolist(), _positions(new), new.names, _keywords(new))
        )
    }
    heirs: dict[int, int | None] = {}
    for i, j in enumerate(node_of):
        id = int(state.ids[i])
        if id not in wanted:
            heirs[id] = ids[j] if j > 0 else None  # the root is no label
            wanted[id] = [*rows[id][:4], 1, heirs[id]]
    before = []
    insert = f"INSERT INTO nodes (id, {listed}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    columns = ", ".join(f"{name} = ?" for name in _COLUMNS)
    for id, row in wanted.items():
        if id not in rows:
            db.execute(insert, (id, *row))
        elif rows[id] != row:
            before.append([id, *rows[id]])
            db.execute(f"UPDATE nodes SET {columns} WHERE id = ?", (*row, id))
    return before, made, heirs


def _hand_over(db: sqlite3.Connection, edit: int, node: int, heir: int | None) -> None:
    """Have the heir take the labels and predictions of a node; without one they are gone."""
    db.execute(
        "INSERT OR REPLACE INTO edit_labels (edit, document, node, heir, had, answer) "
        "SELECT ?, document, node, ?, EXISTS (SELECT 1 FROM labels AS other "
        "WHERE other.document = labels.document AND other.node = ?), answer "
        "FROM labels WHERE node = ?",
        (edit, heir, heir, node),
    )
    if heir is None:
        db.execute(f"DELETE FROM predictions WHERE {_OF_NODE}", (node,))
    else:
        db.execute(
            "INSERT OR IGNORE INTO labels (document, node, answer) "
            "SELECT document, ?, answer FROM labels WHERE node = ?",
            (heir, node),
        )
        db.execute(f"UPDATE predictions SET node = ? WHERE {_OF_NODE}", (heir, node))
    db.execute("DELETE FROM labels WHERE node = ?", (node,))
    if heir is None:
        _unmark(db, "SELECT document FROM edit_labels WHERE edit = ? AND node = ?", (edit, node))


def _take_back(db: sqlite3.Connection, edit: int, last_answer: int, made: set[int]) -> None:
    """Give documents the labels back that an edit moved, unless they were answered since."""
    for document, node, heir, had, answer in db.execute(
        "SELECT document, node, heir, had, answer FROM edit_labels WHERE edit = ?", (edit,)
    ).fetchall():
        since = db.execute(
            "SELECT 1 FROM answers WHERE document = ? AND id > ? AND NOT undone "
            "AND nodes IS NOT NULL",
            (document, last_answer),
        ).fetchone()
        if since is not None or node in made:
            continue
        if heir is not None and not had:
            db.execute("DELETE FROM labels WHERE document = ? AND node = ?", (document, heir))
        db.execute(
            "INSERT OR IGNORE INTO labels (document, node, answer) VALUES (?, ?, ?)",
            (document, node, answer),
        )
        mark(db, document, True)


def mark(db: sqlite3.Connection, document: int, labelled: bool) -> None:
    """Have the predictions of a document count among those of documents without a label, or not."""
    db.execute(
        f"UPDATE predictions SET labelled = ? WHERE run IN {LIVE} AND document = ?",
        (labelled, document),
    )


def _unmark(db: sqlite3.Connection, documents: str, values: tuple) -> None:
    """Have predictions count again for documents that lost their last label."""
    db.execute(
        f"UPDATE predictions SET labelled = 0 WHERE run IN {LIVE} AND document IN ({documents}) "
        "AND NOT EXISTS (SELECT 1 FROM labels WHERE labels.document = predictions.document)",
        values,
    )


def _count_version(db: sqlite3.Connection) -> None:
    db.execute("UPDATE meta SET value = value + 1 WHERE key = 'tree'")
