"""What docs/accuracy.md says of each corpus, and the results of the file by corpus and method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from accuracy_calibration import Bins
from accuracy_corpora import CORPORA
from accuracy_methods import methods_of

from leafwise.papers.toutanova import TABLE_3, TABLE_4

T_BEST = {n: max(line[n] for line in TABLE_3.values()) for n in TABLE_3["HM"]}
# What was aimed at, with keywords alone at 0 and with labels alone from 1 on.
AIMS = dict(
    zip(
        (0, 1, 7, 14, 20, 34, 67, 133, 667),
        (0.74, 0.62, 0.76, 0.785, 0.80, 0.815, 0.835, 0.85, 0.89),
    )
)

INTRODUCTION = """\
# Accuracy

Written by `python benchmarks/accuracy.py --data DIR --results FILE --out docs/accuracy.md`
{machine}; FILE, with every draw, is `benchmarks/results/accuracy.jsonl`. Draws of labels per class
are those of `FewLabelSplit`, seed 0; shares of labels, and documents kept apart, are of seed k for
draw k; methods that choose at random have seed 0. All methods have the same splits. *Pool*: the
method is given the documents without a label, too. Cells are means over draws ± standard deviation;
(n) is of n draws where others have more; bold is the best of a column; an empty cell was not
measured. T is Toutanova et al. (CITATION.cff).

Methods of leafwise count words as `TaxonomyClassifier` does (English stop words left out, stems,
parts of compounds) and have their defaults. Peers have scikit-learn's `TfidfVectorizer` (English
stop words, sublinear), or `CountVectorizer` for `MultinomialNB`, over all documents that are given,
and their defaults, but for these: `LabelSpreading` has a graph of 30 neighbours by cosine, as
`HarmonicClassifier` has; `SelfTrainingClassifier` has scikit-learn's own setting for texts
(`SGDClassifier`, logistic loss, α = 10⁻⁵); hiclass has `LinearSVC` with balanced classes at each
inner node, and a leaf for the documents of an inner node. Both were chosen in single trials on
these corpora, over naive Bayes (better at few labels, worse at many) and no balancing. MiniLM is
all-MiniLM-L6-v2, a pretrained encoder of sentences, which reads the first 256 pieces of words of a
text; logistic regression on its vectors has C = 10. No other method here is pretrained.
[settings](settings.md) has other settings of single methods.

The settings of `TaxonomyClassifier` (β, label_weight, keyword_weight, roots of counts, parts of
compounds, the cap on long documents: some forty variants) were chosen by accuracy on the 15
newsgroups, on the standard library and on the eight directories, and so were how keywords are
weighed (some 150 variants), what spreading and linear scores count, and how sure it is to be
before labels say. What scores learned with and without neighbours count beside each other, and how
far probabilities are drawn towards what is usual, was chosen on the first draws of the directories
and of the newsgroups; so were what common words weigh, and what it does where labels leave whole
classes out. That it can learn without neighbours was found on Reuters. So its figures on these
corpora flatter it, as they do those single methods whose defaults were chosen there
([settings](settings.md)). The 20 newsgroups contain the 15.
"""

DRAWS = "{draws} draws."
GIVEN = (
    "As many documents of each class have their labels, drawn at random; the pool is all others, "
    "and accuracy is of what is said of these. "
)


class Section(NamedTuple):
    """A section of the page.

    Attributes
    ----------
    name : of the corpus, or of a group of them
    title, text : with the figures of the file of results in braces
    unit : what the sizes are
    metrics : (field, heading, whether more is better), the first one plotted
    published : rows besides, of the first metric
    """

    name: str
    title: str
    text: str
    unit: str = "labels per class"
    metrics: tuple[tuple[str, str, bool], ...] = (
        ("accuracy", "Accuracy", True),
        ("ece", "Calibration error", False),
    )
    published: Mapping[str, Mapping[float, float]] = {}


SECTIONS = [
    Section(
        "newsgroups",
        "15 newsgroups",
        "{documents} documents in {classes} classes, the leaves of T's tree of {nodes} nodes, with "
        "two or three keywords per node; 20 Newsgroups, the version of 19,997. Fields: subject and "
        f"body. {GIVEN}{DRAWS} T's best is of table 3: labels alone, no pool. The aims were set "
        "for keywords at 0 and for labels alone from 1 on.",
        published={"T's best": T_BEST, "aim": AIMS},
    ),
    Section(
        "newsgroups-new",
        "15 newsgroups, new documents",
        "The same documents, but a fifth of those without a label is kept apart: they come as new "
        f"ones. {DRAWS}",
        metrics=(
            ("accuracy", "Accuracy on the pool", True),
            ("new", "Accuracy on new documents", True),
            ("ece", "Calibration error on the pool", False),
            ("ece_new", "Calibration error on new documents", False),
        ),
    ),
    Section(
        "newsgroups-half",
        "15 newsgroups, labels for half of the classes",
        "The same documents, but only seven of the classes, drawn at random, have labels, as when "
        "a person has not come to the others yet. The pool is all other documents, and accuracy is "
        f"of what is said of these: about half are of classes without a label. {DRAWS}",
    ),
    Section(
        "newsgroups-20",
        "20 newsgroups",
        "{documents} documents in {classes} classes, the leaves of a tree of {nodes} nodes; 20 "
        "Newsgroups, the version of 18,828 without duplicates. Fields: subject and body. "
        f"{GIVEN}{DRAWS}",
    ),
    Section(
        "reuters",
        "Reuters-21578, ModApte split",
        "{given} training and {new} test documents in {classes} categories, the leaves of T's tree "
        "of {nodes} nodes; several labels per document. Fields: title and story. Labels are those "
        "of all training documents (100 %, once), or of a share of them drawn at random, the rest "
        f"being the pool; F1 is of the test documents, over all categories. {DRAWS} T's are of "
        "table 4.",
        unit="share of training labels",
        metrics=(("micro_f1", "Micro F1", True), ("macro_f1", "Macro F1", True)),
        published={f"{name} (T)": {1: TABLE_4[name]["miF1"]} for name in ("HM", "SVM")},
    ),
    Section(
        "directories",
        "Eight web directories",
        "Means over the eight. Fields: description and title of a link; documents are at inner "
        "nodes, too, which `TaxonomyClassifier` does not predict without a label there. Keywords "
        "are the words of the nodes' names. A share of the documents has labels, drawn at random; "
        f"the pool is all others, and accuracy is of what is said of these. {DRAWS}",
        unit="share of labels",
    ),
    Section(
        "stdlib",
        "Python's standard library",
        "{documents} names and docstrings in {classes} modules, the leaves of the library "
        "reference's tree of {nodes} nodes (`load_stdlib`). Fields: name and docstring. Keywords "
        f"are the words of modules and sections. {GIVEN}A module with fewer has all but one; one "
        f"of a single document is learned from and not tested on, but at 0. {DRAWS}",
    ),
    Section(
        "directory-all",
        "The whole web directory, no labels",
        "{documents} documents at {classes} of {nodes} nodes; fields and keywords as above. All "
        "documents are given without labels, and accuracy is of all. One run.",
        metrics=(("accuracy", "Accuracy", True),),
    ),
]


class Values:
    """Results by corpus, method and size: a number for each draw."""

    def __init__(self, lines: Iterable[Mapping[str, Any]]):
        self._of: dict[tuple, dict[int, Mapping[str, Any]]] = defaultdict(dict)
        self.about: dict[str, Mapping[str, Any]] = {}
        for line in lines:
            if "about" in line:
                self.about[line["about"]] = line
            else:
                self._of[line["corpus"], line["method"], line["size"]][line["draw"]] = line

    def get(self, name: str, method: str, size: float, field: str) -> dict[int, float]:
        """Return the number of each draw; of a group, means of the draws that all have."""
        members = [c.name for c in CORPORA if c.group == name] or [name]
        found = []
        for member in members:
            lines = self._of.get((member, method, size), {})
            found.append({k: x[field] for k, x in lines.items() if x[field] is not None})
        draws = set.intersection(*(set(one) for one in found))
        return {k: float(np.mean([one[k] for one in found])) for k in sorted(draws)}

    def bins(self, name: str, method: str, size: float, part: str = "") -> list[Bins]:
        """Return the bins of each draw of a corpus; those of other methods are not all kept."""
        lines = self._of.get((name, method, size), {})
        return [line[f"bins{part}"] for line in lines.values() if line.get(f"bins{part}")]

    def sizes(self, name: str) -> list[float]:
        return list(_corpus(name).sizes)

    def methods(self, name: str) -> list[str]:
        return list(methods_of(_corpus(name)))


def _corpus(name: str) -> Any:
    return next(corpus for corpus in CORPORA if name in (corpus.name, corpus.group))


def size_name(size: float, unit: str) -> str:
    return f"{100 * size:g} %" if unit.startswith("share") else f"{size:g}"
