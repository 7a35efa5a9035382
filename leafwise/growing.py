"""From documents to a tree to look at: what `leafwise grow` does."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.cells import cell_len
from rich.console import Console, Group
from rich.text import Text
from rich.tree import Tree
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from leafwise.exceptions import LeafwiseError
from leafwise.models.growth import HPLSA
from leafwise.plots import TreeWordsDisplay
from leafwise.taxonomy import Taxonomy
from leafwise.text import WordCounter

WIDTH = 100  # of a drawing that goes to a file or a pipe
BEGINNING = 60  # characters of a document that are shown
N_TYPICAL = 2  # documents shown for each leaf
N_SHOWN = 5  # words of a node in a picture, besides its name
_READ = 500  # characters in which those are looked for
# What is left of "don't" and the like, and names nothing.
_FRAGMENTS = {
    "aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn", "ll", "mustn",
    "shouldn", "ve", "wasn", "weren", "wouldn",
}  # fmt: skip
_COMMON = 0.5  # without a list of stop words, those in more documents than this are left out


class Words(NamedTuple):
    """The words of documents, with what there is to show of each."""

    X: sparse.csr_matrix
    words: np.ndarray
    documents: np.ndarray
    """Number of the document that each row of X is: one without a word has no row."""
    beginnings: list[str]
    """How the document of each row begins, on one line."""
    n_documents: int


class Growth(NamedTuple):
    """A tree, and the model that it comes from."""

    model: HPLSA
    words: Words

    @property
    def tree(self) -> Taxonomy:
        return self.model.tree_

    def below(self, tree: Taxonomy | None, node: int) -> tuple[Taxonomy, Sequence[str]]:
        """Put what has grown below a node; returns the whole, and the path of each new node."""
        if tree is None:
            return self.tree, self.tree.paths
        whole = tree.graft(tree.paths[node], self.tree)
        first = int(tree.end[node])
        return whole, (tree.paths[node], *whole.paths[first : first + len(self.tree) - 1])

    def best(self, paths: Sequence[str], n: int) -> dict[int, list[tuple[str, float]]]:
        """Return the `n` best leaves of each document that has words, with P(leaf | document)."""
        proba = np.round(self.model.p_leaf_given_document_, 12)  # what is less is nothing
        order = np.argsort(-proba, axis=1, kind="stable")[:, :n]
        leaves = np.array([paths[leaf] for leaf in self.model.leaves_], dtype=object)[order]
        shares = np.take_along_axis(proba, order, axis=1)
        rows = zip(self.words.documents.tolist(), leaves.tolist(), shares.tolist())
        return {number: list(zip(own, p)) for number, own, p in rows}


def count_words(texts: Iterable[str], language: str = "english") -> Words:
    """Count the words that can name a topic: two documents or more have them.

    Forms of one stem are one word, spelled as most documents have it. Numbers, and what begins
    with one, are left out, and so are stop words of English.
    """
    beginnings: list[str] = []

    def reading() -> Iterator[str]:
        for text in texts:
            beginnings.append(_beginning(text))
            yield text

    english = language == "english"
    counter = WordCounter(stop_words="english" if english else None)
    try:
        X = counter.fit_transform(reading())
    except LeafwiseError:
        raise
    except ValueError:
        raise _no_words(len(beginnings)) from None
    forms = counter.get_feature_names_out()
    stemmer = WordCounter(stemmer=None if language == "none" else language)
    stems = stemmer.fit_transform(forms.tolist()).tocoo()
    commonest = np.argsort(-counter.document_counts_[stems.row], kind="stable")
    _, first = np.unique(stems.col[commonest], return_index=True)
    words = forms[stems.row[commonest[first]]]
    X = sparse.csr_matrix(X @ stems)
    n_documents = np.bincount(X.indices, minlength=X.shape[1])
    kept = (n_documents >= 2) & [word.strip("_")[:1].isalpha() for word in words]
    if english:
        kept &= [word not in _FRAGMENTS for word in words]
    else:
        kept &= n_documents <= max(2, _COMMON * X.shape[0])
    X = X[:, kept]
    documents = np.flatnonzero(np.diff(X.indptr))
    if not len(documents):
        raise _no_words(len(beginnings))
    shown = [beginnings[i] for i in documents]
    return Words(X[documents], words[kept], documents, shown, len(beginnings))


def grow(words: Words, n_leaves: int | str, verbose: bool = False) -> Growth:
    """Grow a tree of `n_leaves` leaves, or of as many as the documents come apart into."""
    n = len(words.documents)
    if n < (n_leaves if isinstance(n_leaves, int) else 2):
        asked = "two leaves" if n_leaves == "auto" else f"the {n_leaves} leaves asked for"
        raise LeafwiseError(
            f"There are too few documents for {asked}: {n:,} with words that others have too, of "
            f"{words.n_documents:,}. Give more documents, or fewer leaves."
        )
    model = HPLSA(n_leaves, vocabulary=words.words, verbose=verbose)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer leaves: that is said in words
        model.fit(words.X)
    if len(model.leaves_) < 2:
        raise LeafwiseError(
            f"The {n:,} documents do not come apart into topics: their words are too much alike, "
            "or too few are shared. Give more documents, or longer ones."
        )
    return Growth(model, words)


def draw(grown: Growth, title: str) -> str:
    """Draw a tree: for each node its documents and words, for each leaf how some documents begin.

    It is as wide as the terminal, and in its colours.
    """
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    tree = grown.tree
    leaf_of = grown.model.p_leaf_given_document_.argmax(axis=1)
    at_node = np.zeros(len(tree), np.int64)
    at_node[grown.model.leaves_] = np.bincount(leaf_of, minlength=len(tree.leaves))
    n_documents = tree.subtree_sum(at_node)
    drawn = {0: Tree(Text.assemble((title, "bold"), f" ({n_documents[0]:,} documents)"))}
    for i in range(1, len(tree)):
        caption = Text.assemble((tree.names[i], "bold"), f" ({n_documents[i]:,})")
        room = console.width - 4 * int(tree.depth[i]) - caption.cell_len
        caption.append(_fitting(tree, i, room), "cyan")
        lines = [Text(f"· {line}", "dim") for line in _typical(grown, i)]
        for line in (caption, *lines):
            line.no_wrap, line.overflow = True, "ellipsis"
        drawn[i] = drawn[int(tree.parent[i])].add(Group(caption, *lines))
    with console.capture() as capture:
        console.print(drawn[0])
    return capture.get().rstrip("\n")


def picture(grown: Growth, title: str) -> Any:
    """Draw the tree into a figure of matplotlib."""
    tree = grown.tree
    words = [
        [word for word in own if word not in name.split(", ")][:N_SHOWN]
        for own, name in zip(tree.keywords, tree.names)
    ]
    shown = Taxonomy([title, *tree.names[1:]], tree.parent)
    return TreeWordsDisplay(shown, words, max_nodes=len(tree)).plot().figure_


def _fitting(tree: Taxonomy, node: int, room: int) -> str:
    """The keywords of a node that are not in its name, as many as fit."""
    in_name = tree.names[node].split(", ")
    shown = ""
    for word in tree.keywords[node]:
        longer = f"{shown}, {word}" if shown else f": {word}"
        if word not in in_name and cell_len(longer) <= room:
            shown = longer
    return shown


def _typical(grown: Growth, node: int) -> list[str]:
    """How the most typical documents of a leaf begin, copies once."""
    leaves = grown.model.leaves_
    if node not in leaves:
        return []
    own = leaves[grown.model.p_leaf_given_document_.argmax(axis=1)] == node
    rows = grown.model.typical_documents(grown.tree.paths[node], len(own))
    shown = dict.fromkeys(grown.words.beginnings[i] for i in rows if own[i])
    return list(shown)[:N_TYPICAL]


def _beginning(text: str) -> str:
    """The first characters of a text on one line, without what would steer a terminal."""
    printable = "".join(c if c.isprintable() else " " for c in text[:_READ])
    line = " ".join(printable.split())
    return line if len(line) <= BEGINNING else f"{line[:BEGINNING].rstrip()} ..."


def _no_words(n: int) -> LeafwiseError:
    if n < 2:
        return LeafwiseError("There is one document: it takes two or more to grow a tree from.")
    return LeafwiseError(
        f"The {n:,} documents share no words to grow a tree from: they hold only stop words, "
        "numbers, or words that one of them alone has. --language says how to read them."
    )
