"""Trees that were grown: looked at, renamed, then taken or not."""

from __future__ import annotations

import json
from typing import Any

from leafwise.exceptions import MissingError, ProjectError
from leafwise.store.database import Database
from leafwise.store.records import Draft, now
from leafwise.store.tree import Tree
from leafwise.taxonomy import Taxonomy
from leafwise.taxonomy_changes import Change, rename

_DRAFT = "SELECT id, at, by, node, n_leaves, state, tree, examples, message FROM drafts"


class Drafts:
    """The drafts of a project."""

    def __init__(self, db: Database, tree: Tree) -> None:
        self._db = db
        self._tree = tree

    def start(self, path: str | None, n_leaves: int, *, by: str) -> Draft:
        """Begin a draft: of a tree below a node, or of a whole one (None)."""
        if n_leaves < 2:
            raise ProjectError(f"n_leaves={n_leaves}: expected a number from 2 on.")
        state = self._tree.state
        node = int(state.ids[0 if path is None else state.taxonomy.index(path)])
        with self._db.writing() as db:
            draft = db.execute(
                "INSERT INTO drafts (at, by, node, n_leaves, state) VALUES (?, ?, ?, ?, 'running')",
                (now(), by, node, n_leaves),
            ).lastrowid
        assert draft is not None
        return self.get(draft)

    def ready(self, draft: int, taxonomy: Taxonomy, examples: dict[str, list[str]]) -> None:
        """Keep what has grown; `examples` are beginnings of documents, by path of the draft."""
        values = (_to_json(taxonomy), json.dumps(examples))
        self._end(draft, "ready", "tree = ?, examples = ?", values)

    def fail(self, draft: int, message: str) -> None:
        self._end(draft, "failed", "message = ?", (message,))

    def _end(self, draft: int, state: str, columns: str, values: tuple) -> None:
        with self._db.writing() as db:
            db.execute(
                f"UPDATE drafts SET state = ?, {columns} WHERE id = ? AND state = 'running'",
                (state, *values, draft),
            )

    def get(self, draft: int) -> Draft:
        row = self._db.one(f"{_DRAFT} WHERE id = ?", (draft,))
        if row is None:
            raise MissingError(f"There is no draft {draft}.")
        return self._record(row)

    def open(self) -> list[Draft]:
        """Return drafts that nobody has accepted or discarded, the newest first."""
        rows = self._db.rows(
            f"{_DRAFT} WHERE state IN ('running', 'ready', 'failed') ORDER BY id DESC"
        )
        return [self._record(row) for row in rows]

    def rename(self, draft: int, path: str, name: str) -> Draft:
        """Give a node of a draft another name."""
        with self._db.writing() as db:
            tree, found = self._tree_of(draft)
            change = rename(tree, path, name)
            to = dict(zip(tree.paths, (change.new.paths[i] for i in change.node_of)))
            examples = {to[old]: texts for old, texts in found.examples.items()}
            db.execute(
                "UPDATE drafts SET tree = ?, examples = ? WHERE id = ?",
                (_to_json(change.new), json.dumps(examples), draft),
            )
        return self.get(draft)

    def accept(self, draft: int, *, by: str) -> list[str]:
        """Put a draft into the tree, below its node; say what changed."""
        with self._db.writing() as db:
            grown, found = self._tree_of(draft)
            if found.path is None:
                raise ProjectError("The node that this draft was grown for is gone: discard it.")
            old = self._tree.taxonomy
            change = Change.between(old, old.graft(found.path, grown))
            what = f"Grew {len(grown) - 1} nodes below {found.path}"
            report = self._tree.edit(change, what, by=by)
            db.execute("UPDATE drafts SET state = 'accepted' WHERE id = ?", (draft,))
        return report

    def discard(self, draft: int) -> None:
        with self._db.writing() as db:
            self.get(draft)
            db.execute(
                "UPDATE drafts SET state = 'discarded' WHERE id = ? AND state != 'accepted'",
                (draft,),
            )

    def _tree_of(self, draft: int) -> tuple[Taxonomy, Draft]:
        found = self.get(draft)
        if found.taxonomy is None or found.state != "ready":
            raise ProjectError(f"Draft {draft} is {found.state}: expected one that is ready.")
        return found.taxonomy, found

    def _record(self, row: tuple[Any, ...]) -> Draft:
        id, at, by, node, n_leaves, state, tree, examples, message = row
        taxonomy = None if tree is None else Taxonomy(*json.loads(tree))
        path = self._tree.state.path(node)
        return Draft(id, at, by, path, n_leaves, state, taxonomy, json.loads(examples), message)


def _to_json(tree: Taxonomy) -> str:
    return json.dumps([tree.names, tree.parent.tolist(), tree.keywords])
