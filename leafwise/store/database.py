"""One SQLite file, many readers and one writer.

A reader is a connection of its own for each thread, so that reading never waits. All writing goes
through one connection, one transaction at a time; another process that writes is waited for. The
log of changes (WAL) is forced to the disk with every transaction: what was acknowledged is kept.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Self

from leafwise._version import __version__
from leafwise.atomic import appear
from leafwise.exceptions import ProjectError
from leafwise.store.schema import APPLICATION_ID, MIGRATIONS

_PATIENCE = 30.0  # seconds to wait for another writer
_MAGIC = b"SQLite format 3\x00"
MANY = 10_000  # numbers in one list of SQL, below the least limit of SQLite


class Database:
    """A project file, opened. Parts of the project read and write through it."""

    def __init__(self, path: str | os.PathLike[str], *, new: bool = False) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._local = threading.local()
        self._lock = threading.RLock()
        self._every: list[sqlite3.Connection] = []
        self._closed = False
        if not new:
            self._look_at_file()
        try:
            self._writer = self._connect()
            if new:
                self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self._check_application()
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._migrate()
        except sqlite3.Error as error:
            self.close()
            raise self._refused("opened", error) from error
        except ProjectError:
            self.close()
            raise

    def close(self) -> None:
        self._closed = True
        for connection in self._every:
            with suppress(sqlite3.Error):
                connection.close()
        self._every = []

    # ---- reading ----

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple]:
        """Return what a statement finds."""
        return self._reader().execute(sql, values).fetchall()

    def one(self, sql: str, values: Sequence[Any] = ()) -> tuple | None:
        return self._reader().execute(sql, values).fetchone()

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Return the first column of the first row, or None."""
        row = self.one(sql, values)
        return None if row is None else row[0]

    def rows_of(self, sql: str, numbers: Iterable[int]) -> list[tuple]:
        """Return what a statement with ``IN ({})`` finds for whole numbers, however many."""
        wanted = [int(number) for number in numbers]
        found = []
        for start in range(0, len(wanted), MANY):
            part = ",".join(map(str, wanted[start : start + MANY]))
            found += self.rows(sql.format(part))
        return found

    @contextmanager
    def reading(self) -> Iterator[None]:
        """See one state of the file throughout, whatever is written meanwhile."""
        connection = self._reader()
        if connection.in_transaction:  # of a caller
            yield
            return
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("COMMIT")

    # ---- writing ----

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Write in one transaction: all of it is there afterwards, or nothing is.

        Within it, this thread reads what it wrote.
        """
        with self._lock:
            if self._closed:
                raise ProjectError(f"{self.path} is closed.")
            if self._writer.in_transaction:
                yield self._writer
                return
            try:
                self._writer.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                raise self._refused("written", error) from error
            self._local.writing = True
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    self._writer.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):  # a full disk, say
                    raise self._refused("written", error) from error
                raise
            finally:
                self._local.writing = False

    @staticmethod
    @contextmanager
    def alone(path: str) -> Iterator[sqlite3.Connection]:
        """Have a connection that nobody else uses, for what takes long."""
        connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()

    # ---- connections ----

    def _reader(self) -> sqlite3.Connection:
        if getattr(self._local, "writing", False):
            return self._writer
        if self._closed:
            raise ProjectError(f"{self.path} is closed.")
        connection = getattr(self._local, "reader", None)
        if connection is None:
            connection = self._local.reader = self._connect()
            connection.execute("PRAGMA query_only = ON")
        return connection

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        self._every.append(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cache_size = -65536")  # KiB
        return connection

    # ---- opening ----

    @classmethod
    @contextmanager
    def creating(cls, path: str | os.PathLike[str]) -> Iterator[Self]:
        """Make a file that appears when all is written, and takes the place of no other."""
        target = os.path.abspath(os.fspath(path))
        folder = os.path.dirname(target)
        if not os.path.isdir(folder):
            raise ProjectError(f"There is no folder {folder}. Make it first.")
        if os.path.lexists(target):
            raise _there_already(target)
        try:
            with tempfile.TemporaryDirectory(dir=folder, prefix=".leafwise-") as hidden:
                part = os.path.join(hidden, "new")
                db = cls(part, new=True)
                try:
                    yield db
                finally:
                    db.close()
                appear(part, target)
        except FileExistsError:
            raise _there_already(target) from None
        except OSError as error:
            raise ProjectError(f"{target} cannot be made: {error.strerror}.") from None

    def _look_at_file(self) -> None:
        try:
            with open(self.path, "rb") as file:
                start = file.read(len(_MAGIC))
        except FileNotFoundError:
            raise ProjectError(
                f"There is no file {self.path}. leafwise project new makes one."
            ) from None
        except OSError as error:
            raise ProjectError(f"{self.path} cannot be read: {error.strerror}.") from None
        if start != _MAGIC:
            raise ProjectError(f"{self.path} is not a leafwise project.")

    def _refused(self, what: str, error: sqlite3.Error) -> ProjectError:
        """Say why SQLite did not do it, and what helps."""
        name = getattr(error, "sqlite_errorname", "")  # errors of Python's own have none
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            return ProjectError(
                f"{self.path} cannot be {what}: the file and its folder must be writable, also to "
                "look at it. Change that, or copy the file to a folder of yours and open the copy."
            )
        hint = ""
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            hint = " Go back to a backup, if there is one."
        return ProjectError(f"{self.path} cannot be {what}: {error}.{hint}")

    def _check_application(self) -> None:
        (found,) = self._writer.execute("PRAGMA application_id").fetchone()
        if found != APPLICATION_ID:
            raise ProjectError(f"{self.path} is a database, but not a leafwise project.")

    def _migrate(self) -> None:
        """Bring the file to the newest version, a transaction for each step."""
        while (version := self._version()) < len(MIGRATIONS):
            with self.writing() as db:
                if self._version() == version:  # no other process was faster
                    for statement in MIGRATIONS[version]:
                        db.execute(statement)
                    db.execute(f"PRAGMA user_version = {version + 1}")
        if version > len(MIGRATIONS):
            raise ProjectError(
                f"{self.path} has version {version}; this leafwise ({__version__}) reads up to "
                f"{len(MIGRATIONS)}. Upgrade leafwise to open it."
            )

    def _version(self) -> int:
        return self._writer.execute("PRAGMA user_version").fetchone()[0]


def _there_already(path: str) -> ProjectError:
    return ProjectError(f"There is a file {path} already. Choose another name, or remove it.")
