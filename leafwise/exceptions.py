"""Every error that leafwise raises on purpose.

Each also derives from the built-in class that scikit-learn would raise in its place, so code
that catches ``ValueError`` goes on working. The command line and the REST service translate
them to exit codes and status codes, each in one place.
"""


class LeafwiseError(Exception):
    """Base of all errors with a message meant for the user."""


class TaxonomyError(LeafwiseError, ValueError):
    """A tree that cannot be built, read or written."""


class LabelError(LeafwiseError, ValueError):
    """A label that names no node of the tree, or more than one."""


class CorpusError(LeafwiseError, ValueError):
    """A document, or a file of documents, that cannot be read or written."""


class OutputError(LeafwiseError, OSError):
    """A file that cannot be written."""


class ModelFileError(LeafwiseError, ValueError):
    """A saved model that is damaged, foreign, or from a newer leafwise."""


class DependencyError(LeafwiseError, ImportError):
    """An optional library that is not installed."""


class ProjectError(LeafwiseError, ValueError):
    """A project file that is damaged, foreign or newer, or a request that it cannot meet."""


class ConflictError(ProjectError):
    """Something that another person changed meanwhile."""


class MissingError(LeafwiseError, LookupError):
    """A document, a run or a draft that is not there."""
