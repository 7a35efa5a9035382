"""The tables of a project file, and how older files become newer ones.

Each migration is a list of statements that is carried out in one transaction; the file's
``user_version`` is the number of migrations it has had. Those that are released never change: a
file of any age must come to the same tables.
"""

from __future__ import annotations

APPLICATION_ID = 0x6C656166  # "leaf", so that `file` and others know a project from any database

# The runs that have predictions: the current one, and one that is on its way.
LIVE = (
    "(SELECT id FROM runs WHERE state = 'running' "
    "UNION SELECT max(id) FROM runs WHERE state = 'done')"
)

_PROJECT = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # Nodes keep their numbers for ever: labels follow where they are renamed or moved. One that is
    # gone stays as a row, and `heir` is the node that it was merged into.
    """CREATE TABLE nodes (
        id INTEGER PRIMARY KEY,
        parent INTEGER REFERENCES nodes,
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        keywords TEXT,
        gone INTEGER NOT NULL DEFAULT 0,
        heir INTEGER REFERENCES nodes
    )""",
    # What each edit of the tree changed: rows of nodes as they were, and nodes that were made.
    """CREATE TABLE edits (
        id INTEGER PRIMARY KEY,
        at TEXT NOT NULL,
        by TEXT NOT NULL,
        what TEXT NOT NULL,
        before TEXT NOT NULL,
        made TEXT NOT NULL,
        last_answer INTEGER NOT NULL,
        undone INTEGER NOT NULL DEFAULT 0
    )""",
    # Labels that an edit moved or took away. `had`: the document had the heir's label already.
    """CREATE TABLE edit_labels (
        edit INTEGER NOT NULL REFERENCES edits,
        document INTEGER NOT NULL REFERENCES documents,
        node INTEGER NOT NULL REFERENCES nodes,
        heir INTEGER REFERENCES nodes,
        had INTEGER NOT NULL,
        answer INTEGER NOT NULL,
        PRIMARY KEY (edit, document, node)
    ) WITHOUT ROWID""",
    "CREATE INDEX edit_labels_document ON edit_labels (document)",
    """CREATE TABLE documents (
        id INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        text TEXT NOT NULL
    )""",
    # Every answer ever given, in order. `nodes`: a list of numbers; null where it was skipped.
    """CREATE TABLE answers (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        document INTEGER NOT NULL REFERENCES documents,
        at TEXT NOT NULL,
        by TEXT NOT NULL,
        source TEXT NOT NULL,
        nodes TEXT,
        suggested INTEGER REFERENCES nodes,
        probability REAL,
        asked TEXT NOT NULL DEFAULT '',
        token TEXT UNIQUE,
        undone INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX answers_document ON answers (document)",
    "CREATE INDEX answers_asked ON answers (asked, id)",
    # What holds now: it follows from the answers and the edits.
    """CREATE TABLE labels (
        document INTEGER NOT NULL REFERENCES documents,
        node INTEGER NOT NULL REFERENCES nodes,
        answer INTEGER NOT NULL REFERENCES answers,
        PRIMARY KEY (document, node)
    ) WITHOUT ROWID""",
    "CREATE INDEX labels_node ON labels (node, document)",
    # A run becomes the current one in one step, when all that belongs to it is written.
    """CREATE TABLE runs (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at TEXT NOT NULL,
        ended TEXT,
        state TEXT NOT NULL,
        pid INTEGER NOT NULL,
        told TEXT NOT NULL,
        step TEXT NOT NULL DEFAULT '',
        share REAL NOT NULL DEFAULT 0,
        n_documents INTEGER NOT NULL,
        n_labels INTEGER NOT NULL,
        last_answer INTEGER NOT NULL,
        tree INTEGER NOT NULL,
        report TEXT NOT NULL DEFAULT '[]',
        facts TEXT NOT NULL DEFAULT '{}',
        found BLOB
    )""",
    """CREATE TABLE predictions (
        run INTEGER NOT NULL REFERENCES runs,
        document INTEGER NOT NULL REFERENCES documents,
        node INTEGER NOT NULL REFERENCES nodes,
        probability REAL NOT NULL,
        others TEXT NOT NULL,
        labelled INTEGER NOT NULL,
        PRIMARY KEY (run, document)
    ) WITHOUT ROWID""",
    "CREATE INDEX predictions_node ON predictions (run, labelled, node, probability)",
    "CREATE INDEX predictions_sure ON predictions (run, labelled, probability)",
    """CREATE TABLE models (
        run INTEGER NOT NULL REFERENCES runs,
        part INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (run, part)
    )""",
    """CREATE TABLE queue (
        run INTEGER NOT NULL REFERENCES runs,
        position INTEGER NOT NULL,
        document INTEGER NOT NULL REFERENCES documents,
        why TEXT NOT NULL,
        PRIMARY KEY (run, position)
    ) WITHOUT ROWID""",
    """CREATE TABLE drafts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        at TEXT NOT NULL,
        by TEXT NOT NULL,
        node INTEGER REFERENCES nodes,
        n_leaves INTEGER NOT NULL,
        state TEXT NOT NULL,
        tree TEXT,
        examples TEXT NOT NULL DEFAULT '{}',
        message TEXT NOT NULL DEFAULT ''
    )""",
)

# The words of documents, to search in. The texts themselves stay in `documents`; whoever writes
# there writes here too, since triggers that do are not for files that may come from anyone.
_SEARCH = (
    """CREATE VIRTUAL TABLE words USING fts5(
        text, content='documents', content_rowid='id', tokenize="unicode61 remove_diacritics 2"
    )""",
    "INSERT INTO words (words) VALUES ('rebuild')",
)

# How many documents each node is the best guess of, and the sum of the probabilities: counting a
# million predictions anew takes a second.
_ONE_MORE = "ON CONFLICT (run, node) DO UPDATE SET n = n + 1, total = total + excluded.total"
_ONE_LESS = "UPDATE tallies SET n = n - 1, total = total - old.probability"
_TALLIES = (
    """CREATE TABLE tallies (
        run INTEGER NOT NULL REFERENCES runs,
        node INTEGER NOT NULL REFERENCES nodes,
        n INTEGER NOT NULL,
        total REAL NOT NULL,
        PRIMARY KEY (run, node)
    ) WITHOUT ROWID""",
    "INSERT INTO tallies SELECT run, node, count(*), sum(probability) FROM predictions "
    "WHERE NOT labelled GROUP BY run, node",
    f"""CREATE TRIGGER predictions_added AFTER INSERT ON predictions WHEN NOT new.labelled BEGIN
        INSERT INTO tallies VALUES (new.run, new.node, 1, new.probability) {_ONE_MORE};
    END""",
    f"""CREATE TRIGGER predictions_removed AFTER DELETE ON predictions WHEN NOT old.labelled BEGIN
        {_ONE_LESS} WHERE run = old.run AND node = old.node;
    END""",
    f"""CREATE TRIGGER predictions_changed AFTER UPDATE OF node, labelled ON predictions BEGIN
        {_ONE_LESS} WHERE run = old.run AND node = old.node AND NOT old.labelled;
        INSERT INTO tallies SELECT new.run, new.node, 1, new.probability WHERE NOT new.labelled
            {_ONE_MORE};
    END""",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_PROJECT, _SEARCH, _TALLIES)
