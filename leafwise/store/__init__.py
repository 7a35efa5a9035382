"""The project file: one SQLite file with the tree, the documents, every label and the model.

`Project` opens it, and has a part for each: `documents`, `labels`, `tree`, `runs`, `drafts`.
"""

from leafwise.store.project import Project

__all__ = ["Project"]
