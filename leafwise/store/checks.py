"""Whether a project file is as it should be."""

from __future__ import annotations

import json
import sqlite3

from leafwise.exceptions import LeafwiseError
from leafwise.store.database import Database
from leafwise.store.runs import Runs
from leafwise.store.tree import Tree

_CURRENT = "(SELECT max(id) FROM runs WHERE state = 'done')"
# Where something must not be found, how to look for it, and what it means.
_NEVER = (
    (
        "labels",
        "SELECT count(*) FROM labels JOIN nodes ON nodes.id = node WHERE gone",
        "on nodes that are gone",
    ),
    (
        "labels",
        "SELECT count(*) FROM labels JOIN answers ON answers.id = answer WHERE undone",
        "from answers that were undone",
    ),
    (
        "labels",
        "SELECT count(*) FROM labels JOIN answers ON answers.id = answer "
        "WHERE answers.document != labels.document",
        "from answers about another document",
    ),
    (
        "predictions",
        f"SELECT count(*) FROM predictions WHERE run = {_CURRENT} AND labelled != EXISTS "
        "(SELECT 1 FROM labels WHERE labels.document = predictions.document)",
        "of which it is not known whether they have a label",
    ),
    (
        "tallies",
        f"SELECT count(*) FROM (SELECT node, n FROM tallies WHERE n != 0 AND run = {_CURRENT} "
        f"EXCEPT SELECT node, count(*) FROM predictions WHERE run = {_CURRENT} AND NOT labelled "
        "GROUP BY node)",
        "with another number of documents than there are",
    ),
    (
        "nodes",
        "SELECT count(*) FROM nodes AS child JOIN nodes ON nodes.id = child.parent "
        "WHERE nodes.gone AND NOT child.gone",
        "below nodes that are gone",
    ),
)


def problems(db: Database, tree: Tree, runs: Runs, several: bool) -> list[str]:
    """Return what is wrong, in words."""
    try:
        found = [str(row[0]) for row in db.rows("PRAGMA integrity_check") if row[0] != "ok"]
        found += [
            f"{table}, row {row}: it names a row of {parent} that is not there"
            for table, row, parent, _ in db.rows("PRAGMA foreign_key_check")
        ]
        if found:  # what follows would only stumble over it
            return found
        found += _search(db)
        for table, sql, means in _NEVER:
            if n := db.value(sql):
                found.append(f"{table}: {n:,} {means}")
        if not several and (
            n := db.value(
                "SELECT count(*) FROM (SELECT 1 FROM labels GROUP BY document HAVING count(*) > 1)"
            )
        ):
            found.append(f"labels: {n:,} documents with several, where each can have one")
    except sqlite3.DatabaseError as error:
        return [f"the file is damaged: {error}"]
    for read in (lambda: _answers(db, tree), lambda: runs.model() and None):
        try:
            found += read() or []
        except LeafwiseError as error:
            found.append(str(error))
    return found


def _search(db: Database) -> list[str]:
    """Compare the words to search in with the texts."""
    try:
        with db.writing() as connection:
            connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError:
        return ["words: what is searched in differs from the texts"]
    return []


def _answers(db: Database, tree: Tree) -> list[str]:
    """Compare labels with the last answers, for documents that no edit of the tree has touched."""
    last = db.rows(
        "SELECT document, max(id), nodes FROM answers WHERE NOT undone AND nodes IS NOT NULL "
        "AND document NOT IN (SELECT document FROM edit_labels) GROUP BY document"
    )
    labels: dict[int, set[int]] = {}
    for document, node in db.rows("SELECT document, node FROM labels"):
        labels.setdefault(document, set()).add(node)
    n_lost = sum(
        set(tree.resolve(json.loads(nodes))) != labels.get(document, set())
        for document, _, nodes in last
    )
    return [f"labels: {n_lost:,} documents without what their last answer says"] if n_lost else []
