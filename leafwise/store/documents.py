"""The documents of a project: added once, searched, and read a page at a time."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from leafwise.corpus import Batch
from leafwise.exceptions import CorpusError, LabelError, MissingError, ProjectError
from leafwise.store.database import MANY, Database
from leafwise.store.labels import Labels
from leafwise.store.records import Added, Document, Page, Prediction, now
from leafwise.store.tree import Tree, mark

STATES = ("all", "labelled", "unlabelled")
ORDERS = ("id", "sure", "unsure")
_CURRENT = "(SELECT max(id) FROM runs WHERE state = 'done')"
_HAS_LABEL = "EXISTS (SELECT 1 FROM labels WHERE labels.document = documents.id)"


class Documents:
    """The documents. Outside they are known by their keys, inside by numbers."""

    def __init__(self, db: Database, tree: Tree, labels: Labels) -> None:
        self._db = db
        self._tree = tree
        self._labels = labels

    # ---- adding ----

    def add(
        self,
        batches: Iterable[Batch],
        *,
        prefix: str = "",
        by: str = "import",
        replace: bool = False,
        on_batch: Callable[[Added], None] | None = None,
    ) -> Added:
        """Add documents, and the labels that they come with.

        Each batch is kept as a whole. A document whose key is there already is not added again, so
        that an import that was interrupted can simply be done again. Its text stays as it is,
        unless `replace`; its label stays too, and one without gets that of the file.

        Parameters
        ----------
        prefix : stands before the ids of the batches, to make keys of them
        by : who adds them
        replace : whether documents with another text get the new one
        on_batch : called with what was added so far
        """
        total = Added(0, 0, 0, 0)
        for batch in batches:
            _check_lengths(batch)
            with self._db.writing() as db:
                added = self._add(db, batch, prefix, by, replace)
            total = Added(*(a + b for a, b in zip(total, added)))
            if on_batch is not None:
                on_batch(total)
        return total

    def _add(
        self, db: sqlite3.Connection, batch: Batch, prefix: str, by: str, replace: bool
    ) -> Added:
        there = self._by_keys([prefix + id for id in batch.ids])
        new: list[tuple[int, str, str]] = []
        changed: list[tuple[int, str, str]] = []
        numbers, n_same = [], 0
        next_id = db.execute("SELECT coalesce(max(id), 0) + 1 FROM documents").fetchone()[0]
        for id, text in zip(batch.ids, batch.texts):
            key = prefix + id
            if not key or not text.strip():
                raise CorpusError(f"Document {key!r}: expected an id and a text that is not empty.")
            if key not in there:
                there[key] = (next_id, text)
                new.append((next_id, key, text))
                next_id += 1
            elif there[key][1] == text:
                n_same += 1
            else:
                changed.append((*there[key], text))
            numbers.append(there[key][0])
        db.executemany("INSERT INTO documents (id, key, text) VALUES (?, ?, ?)", new)
        index = "INSERT INTO words (rowid, text) VALUES (?, ?)"
        db.executemany(index, [(number, text) for number, _, text in new])
        for number, old, text in changed if replace else ():
            db.execute("UPDATE documents SET text = ? WHERE id = ?", (text, number))
            db.execute(
                "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (number, old)
            )
            db.execute(index, (number, text))
        n_labels = self._label(db, batch, numbers, prefix, by)
        return Added(len(new), n_same, len(changed), n_labels)

    def n_differing(self, batches: Iterable[Batch], *, prefix: str) -> int:
        """Count documents whose key is there already with another text, before they are added.

        Nothing is read where no key begins with the prefix.
        """
        mine = "SELECT 1 FROM documents WHERE key >= ? AND key < ? || char(0x10ffff) LIMIT 1"
        if self._db.value(mine, (prefix, prefix)) is None:
            return 0
        n = 0
        for batch in batches:
            there = self._by_keys([prefix + id for id in batch.ids])
            pairs = zip(batch.ids, batch.texts)
            n += sum(there.get(prefix + id, (0, text))[1] != text for id, text in pairs)
        return n

    def _by_keys(self, keys: list[str]) -> dict[str, tuple[int, str]]:
        found = {}
        for start in range(0, len(keys), MANY):
            part = keys[start : start + MANY]
            marks = ",".join("?" * len(part))
            for id, key, text in self._db.rows(
                f"SELECT id, key, text FROM documents WHERE key IN ({marks})", part
            ):
                found[key] = (id, text)
        return found

    def _label(
        self, db: sqlite3.Connection, batch: Batch, numbers: list[int], prefix: str, by: str
    ) -> int:
        """Keep labels of documents that have none so far."""
        if not any(batch.labels):
            return 0
        state = self._tree.state
        cache: dict[tuple[str, ...], list[int]] = {}
        given: dict[int, list[int]] = {}
        for id, number, labels in zip(batch.ids, numbers, batch.labels):
            if labels and labels not in cache:
                try:
                    cache[labels] = self._labels.read(labels, state)
                except LabelError as error:
                    raise LabelError(f"Document {prefix}{id}: {error}") from None
            if labels:
                given.setdefault(number, cache[labels])
        have = {
            row[0]
            for row in self._db.rows_of("SELECT document FROM labels WHERE document IN ({})", given)
        }
        given = {number: nodes for number, nodes in given.items() if number not in have}
        at, answer = now(), self._labels.last()
        answers, rows = [], []
        for number, nodes in given.items():
            answer += 1
            answers.append((answer, number, at, by, json.dumps(nodes)))
            rows += [(number, node, answer) for node in nodes]
        db.executemany(
            "INSERT INTO answers (id, document, at, by, source, nodes) "
            "VALUES (?, ?, ?, ?, 'import', ?)",
            answers,
        )
        db.executemany("INSERT INTO labels (document, node, answer) VALUES (?, ?, ?)", rows)
        for number in given:
            mark(db, number, True)
        return len(given)

    # ---- reading ----

    def count(self) -> int:
        return self._db.value("SELECT count(*) FROM documents")

    def get(self, id: int) -> Document:
        """Return a document by its number."""
        found = self.some([id])
        if not found:
            raise MissingError(f"There is no document number {id}.")
        return found[0]

    def find(self, key: str) -> Document:
        """Return a document by its key."""
        id = self._db.value("SELECT id FROM documents WHERE key = ?", (key,))
        if id is None:
            raise MissingError(f'There is no document "{key}".')
        return self.get(id)

    def some(self, ids: Iterable[int]) -> list[Document]:
        """Return documents by their numbers, in that order; those that are not there are left out.

        Their predictions are those of the current run.
        """
        ids = list(ids)
        with self._db.reading():
            state = self._tree.state
            texts = {
                row[0]: row
                for row in self._db.rows_of(
                    "SELECT id, key, text FROM documents WHERE id IN ({})", ids
                )
            }
            labels = self._labels.of(ids)
            versions = dict(
                self._db.rows_of(
                    "SELECT document, max(id) FROM answers WHERE document IN ({}) "
                    "AND NOT undone AND nodes IS NOT NULL GROUP BY document",
                    ids,
                )
            )
            guesses = {
                row[0]: row[1:]
                for row in self._db.rows_of(
                    "SELECT document, node, probability, others FROM predictions "
                    f"WHERE run = {_CURRENT} AND document IN ({{}})",
                    ids,
                )
            }
        found = []
        for id in ids:
            if id not in texts:
                continue
            guess = None
            if id in guesses and (path := state.path(guesses[id][0])) is not None:
                others = ((state.path(node), p) for node, p in json.loads(guesses[id][2]))
                kept = tuple((node, p) for node, p in others if node is not None)
                guess = Prediction(path, guesses[id][1], kept)
            _, key, text = texts[id]
            found.append(Document(id, key, text, labels.get(id, ()), versions.get(id, 0), guess))
        return found

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        return dict(self._db.rows_of("SELECT id, text FROM documents WHERE id IN ({})", ids))

    def each(self, batch: int = 10_000) -> Iterator[list[tuple[int, str, str]]]:
        """Go through number, key and text of all documents, in the order they were added."""
        last = 0
        while rows := self._db.rows(
            "SELECT id, key, text FROM documents WHERE id > ? ORDER BY id LIMIT ?", (last, batch)
        ):
            yield rows
            last = rows[-1][0]

    # ---- pages ----

    def page(
        self,
        *,
        search: str | None = None,
        node: str | None = None,
        branch: bool = True,
        state: str = "all",
        order: str = "id",
        after: str | None = None,
        limit: int = 50,
    ) -> Page:
        """Return some documents, and where the next ones begin.

        Parameters
        ----------
        search : words that the text must have, the last one perhaps begun only; or a key
        node : documents with its label or, of those without a label, whose best guess it is
        branch : whether the nodes below it count too
        state : {"all", "labelled", "unlabelled"}
        order : {"id", "sure", "unsure"}
            "sure" and "unsure" go by the probability of the best guess; documents that have a
            label come first. A search goes by id.
        after : `Page.after` of the page before
        """
        for name, value, known in (("state", state, STATES), ("order", order, ORDERS)):
            if value not in known:
                raise ProjectError(f"{name}={value!r}: expected one of {known}.")
        words = search.split() if search else []
        nodes = None if node is None else self._branch(node, branch)
        if (nodes is None and order == "id") or words:
            if words and after is None:
                return self._with_key(str(search), self._by_id(words, nodes, state, after, limit))
            return self._by_id(words, nodes, state, after, limit)
        return self._by_place(nodes, state, order, after, limit)

    def _with_key(self, key: str, page: Page) -> Page:
        """Put a document whose key was asked for before those that have the words."""
        id = self._db.value("SELECT id FROM documents WHERE key = ?", (key.strip(),))
        if id is None or any(document.id == id for document in page.documents):
            return page
        return Page([*self.some([id]), *page.documents], page.after)

    def _branch(self, label: str, branch: bool) -> list[int]:
        tree = self._tree.state
        node = tree.taxonomy.index(label)
        end = int(tree.taxonomy.end[node]) if branch else node + 1
        return tree.ids[node:end].tolist()

    def _by_id(
        self, words: list[str], nodes: list[int] | None, state: str, after: str | None, limit: int
    ) -> Page:
        start = int(_cursor(after, 1, [0])[0])
        source, where = "documents", ["documents.id > ?"]
        values: list[Any] = [start]
        if words:
            source = "words CROSS JOIN documents ON documents.id = words.rowid"
            where = ["words MATCH ?", "words.rowid > ?"]
            values = [_match(words), start]
        if state != "all":
            where.append(_HAS_LABEL if state == "labelled" else f"NOT {_HAS_LABEL}")
        if nodes is not None:
            listed = ",".join(map(str, nodes))
            where.append(
                "(EXISTS (SELECT 1 FROM labels WHERE labels.document = documents.id "
                f"AND node IN ({listed})) OR EXISTS (SELECT 1 FROM predictions "
                f"WHERE run = {_CURRENT} AND predictions.document = documents.id "
                f"AND NOT labelled AND node IN ({listed})))"
            )
        by = "words.rowid" if words else "documents.id"
        rows = self._db.rows(
            f"SELECT {by} FROM {source} WHERE {' AND '.join(where)} ORDER BY {by} LIMIT ?",
            [*values, limit + 1],
        )
        ids = [row[0] for row in rows[:limit]]
        return Page(self.some(ids), str(ids[-1]) if len(rows) > limit else None)

    def _by_place(
        self, nodes: list[int] | None, state: str, order: str, after: str | None, limit: int
    ) -> Page:
        """Those with a label by number, then those without by how sure the guess is."""
        kind, p, last = _cursor(after, 3, ["l", 0.0, 0])
        found: list[tuple[str, float, int]] = []
        where = "" if nodes is None else f"node IN ({','.join(map(str, nodes))}) AND"
        if state != "unlabelled" and kind == "l":
            rows = self._db.rows(
                f"SELECT DISTINCT document FROM labels WHERE {where} document > ? "
                "ORDER BY document LIMIT ?",
                (last, limit + 1),
            )
            found = [("l", 0.0, row[0]) for row in rows]
        if state != "labelled" and len(found) <= limit:
            along = "p.document > ?"
            values: list[Any] = [last if kind == "g" else 0]
            by = "document"
            if order != "id":
                sign, way = (">", "ASC") if order == "unsure" else ("<", "DESC")
                by = f"probability {way}, document {way}"
                along = f"(probability, document) {sign} (?, ?)" if kind == "g" else "1"
                values = [p, last] if kind == "g" else []
            rows = self._db.rows(
                f"SELECT probability, document FROM predictions AS p WHERE run = {_CURRENT} "
                f"AND labelled = 0 AND {where} {along} ORDER BY {by} LIMIT ?",
                [*values, limit + 1 - len(found)],
            )
            found += [("g", *row) for row in rows]
        page, more = found[:limit], len(found) > limit
        cursor = json.dumps(page[-1]) if more else None
        return Page(self.some(row[2] for row in page), cursor)


def _check_lengths(batch: Batch) -> None:
    n = [len(batch.texts), len(batch.labels), len(batch.ids)]
    if len(set(n)) > 1:
        raise CorpusError(
            f"A batch has {n[0]:,} texts, labels for {n[1]:,} and {n[2]:,} ids: expected as many "
            "of each. A document without a label has ()."
        )


def _match(words: list[str]) -> str:
    """Return a full-text query for all of the words, of which the last may be begun only.

    Quoted, so that nothing in them is taken for the language of queries.
    """
    quoted = ['"' + word.replace("\x00", " ").replace('"', '""') + '"' for word in words]
    return " ".join(quoted) + "*"


def _cursor(after: str | None, n: int, start: list[Any]) -> list[Any]:
    """Read where a page begins: what another page said."""
    if after is None:
        return start
    try:
        found = json.loads(after)
        parts = found if isinstance(found, list) else [found]
        if len(parts) != n or any(type(a) is not type(b) for a, b in zip(parts, start)):
            raise ValueError
        if any(isinstance(part, int) and abs(part) >= 2**63 for part in parts):
            raise ValueError
    except (ValueError, RecursionError):
        raise ProjectError(
            f"after={after[:50]!r}: expected what the page before gave as `after`."
        ) from None
    return parts
