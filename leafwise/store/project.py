"""A project: one file that holds a tree, documents, labels, runs and the model."""

from __future__ import annotations

import json
import os
import sqlite3
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from leafwise.atomic import appear, check_writable
from leafwise.exceptions import LeafwiseError, OutputError, ProjectError
from leafwise.store import tree as trees
from leafwise.store.checks import problems
from leafwise.store.database import Database
from leafwise.store.documents import Documents
from leafwise.store.drafts import Drafts
from leafwise.store.labels import Labels
from leafwise.store.records import Info
from leafwise.store.runs import Runs
from leafwise.store.schema import MIGRATIONS
from leafwise.taxonomy import Taxonomy


class Project:
    """A project file, opened. Any number of threads may use it, and other processes too.

    Attributes
    ----------
    path : str
    documents, labels, tree, runs, drafts : the parts
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self._open(Database(path))

    @classmethod
    def create(
        cls,
        path: str | PathLike[str],
        taxonomy: Taxonomy | None = None,
        *,
        name: str | None = None,
        several: bool = False,
        language: str = "english",
    ) -> Self:
        """Make a new file. One that is there already is never overwritten.

        Parameters
        ----------
        taxonomy : the tree; None for a project that has none yet
        name : by default that of the file
        several : whether a document can have several labels
        language : of the texts, for their stems; "none" takes words as they are
        """
        meta = {
            "name": Path(path).stem if name is None else name,
            "several": bool(several),
            "language": language,
            "tree": 0,
        }
        with Database.creating(path) as db, db.writing() as connection:
            trees.create(connection, taxonomy)
            connection.executemany(
                "INSERT INTO meta VALUES (?, ?)",
                [(key, json.dumps(value)) for key, value in meta.items()],
            )
        return cls(path)

    def _open(self, db: Database) -> None:
        self._db = db
        self.path = db.path
        try:
            self.tree = trees.Tree(db)
            self.labels = Labels(db, self.tree, self.several)
            self.documents = Documents(db, self.tree, self.labels)
            self.runs = Runs(db, self.tree)
            self.drafts = Drafts(db, self.tree)
            _ = self.tree.state
        except (sqlite3.Error, LeafwiseError, ValueError, TypeError, KeyError) as error:
            db.close()
            raise ProjectError(
                f"{self.path} is damaged: {error}. Go back to a backup, if there is one."
            ) from error

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- settings ----

    @property
    def name(self) -> str:
        return self.get("name", "")

    @property
    def several(self) -> bool:
        return bool(self.get("several", False))

    @property
    def language(self) -> str:
        return self.get("language", "english")

    def get(self, key: str, default: Any = None) -> Any:
        """Return a setting."""
        value = self._db.value("SELECT value FROM meta WHERE key = ?", (key,))
        return default if value is None else json.loads(value)

    def set(self, key: str, value: Any) -> None:
        """Keep a setting: anything that JSON can hold."""
        if key in ("several", "tree"):
            raise ProjectError(f"{key} is settled when a project is made.")
        with self._db.writing() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, json.dumps(value)))

    # ---- the whole ----

    def info(self) -> Info:
        """Return the project in numbers."""
        with self._db.reading():
            return Info(
                self.path,
                self.name,
                sum(os.path.getsize(p) for p in _files(self.path)),
                len(MIGRATIONS),
                self.documents.count(),
                self._db.value("SELECT count(DISTINCT document) FROM labels"),
                self._db.value("SELECT count(*) FROM answers WHERE NOT undone"),
                len(self.tree.taxonomy) - 1,
                self.several,
                self.language,
                self.runs.current(),
            )

    def check(self) -> list[str]:
        """Return what is wrong with the file, in words; nothing where all is well."""
        return problems(self._db, self.tree, self.runs, self.several)

    def backup(self, path: str | PathLike[str]) -> None:
        """Write a copy of the whole project, of one moment, while it is in use.

        A file that is there already is never overwritten.
        """
        target = os.path.abspath(os.fspath(path))
        check_writable(target)
        if os.path.exists(target):
            raise OutputError(f"Cannot write {target}: there is such a file. Choose another name.")
        part = f"{target}.part"
        try:
            with Database.alone(self.path) as connection:
                connection.execute("VACUUM INTO ?", (part,))
            with open(part, "rb+") as file:
                os.fsync(file.fileno())
            appear(part, target)
        except (sqlite3.Error, OSError) as error:
            raise OutputError(f"Cannot write {target}: {error}.") from error
        finally:
            if os.path.exists(part):
                os.unlink(part)


def _files(path: str) -> list[str]:
    """Return the file of a project and what SQLite keeps beside it while it is open."""
    return [p for p in (path, f"{path}-wal", f"{path}-shm") if os.path.exists(p)]
