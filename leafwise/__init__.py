"""Put documents where they belong in a tree of topics: with no labels, a few, or many."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from leafwise._version import __version__ as __version__

if TYPE_CHECKING:
    from leafwise import distributed as distributed
    from leafwise import streams as streams
    from leafwise.model_selection import select_model as select_model
    from leafwise.models.agglomeration import agglomerate as agglomerate
    from leafwise.models.dirichlet import HierarchicalDirichlet as HierarchicalDirichlet
    from leafwise.models.graph import NeighborIndex as NeighborIndex
    from leafwise.models.graph import average_graphs as average_graphs
    from leafwise.models.graph import neighbor_graph as neighbor_graph
    from leafwise.models.graph import symmetrize as symmetrize
    from leafwise.models.growth import HPLSA as HPLSA
    from leafwise.models.harmonic import HarmonicClassifier as HarmonicClassifier
    from leafwise.models.mixture import HierarchicalMixture as HierarchicalMixture
    from leafwise.models.naive_bayes import NaiveBayes as NaiveBayes
    from leafwise.models.neighbors import NeighborsClassifier as NeighborsClassifier
    from leafwise.models.pachinko import PachinkoMachine as PachinkoMachine
    from leafwise.models.plsa import HPLC as HPLC
    from leafwise.models.plsa import PLC as PLC
    from leafwise.models.plsa import PLSAClassifier as PLSAClassifier
    from leafwise.models.shrinkage import GeneralShrinkage as GeneralShrinkage
    from leafwise.models.shrinkage import HierarchicalShrinkage as HierarchicalShrinkage
    from leafwise.models.taxonomy_classifier import TaxonomyClassifier as TaxonomyClassifier
    from leafwise.models.tsvm import TransductiveSVM as TransductiveSVM
    from leafwise.multilabel import MultiLabelClassifier as MultiLabelClassifier
    from leafwise.persistence import load as load
    from leafwise.selection import InformationGain as InformationGain
    from leafwise.taxonomy import Taxonomy as Taxonomy
    from leafwise.text import WordCounter as WordCounter

# Loaded when first asked for, so that `leafwise --help` does not wait for scikit-learn.
_HOME = {
    "GeneralShrinkage": "leafwise.models.shrinkage",
    "HPLC": "leafwise.models.plsa",
    "HPLSA": "leafwise.models.growth",
    "HarmonicClassifier": "leafwise.models.harmonic",
    "HierarchicalDirichlet": "leafwise.models.dirichlet",
    "HierarchicalMixture": "leafwise.models.mixture",
    "HierarchicalShrinkage": "leafwise.models.shrinkage",
    "InformationGain": "leafwise.selection",
    "MultiLabelClassifier": "leafwise.multilabel",
    "NaiveBayes": "leafwise.models.naive_bayes",
    "NeighborIndex": "leafwise.models.graph",
    "NeighborsClassifier": "leafwise.models.neighbors",
    "PLC": "leafwise.models.plsa",
    "PLSAClassifier": "leafwise.models.plsa",
    "PachinkoMachine": "leafwise.models.pachinko",
    "Taxonomy": "leafwise.taxonomy",
    "TaxonomyClassifier": "leafwise.models.taxonomy_classifier",
    "TransductiveSVM": "leafwise.models.tsvm",
    "WordCounter": "leafwise.text",
    "agglomerate": "leafwise.models.agglomeration",
    "average_graphs": "leafwise.models.graph",
    "load": "leafwise.persistence",
    "neighbor_graph": "leafwise.models.graph",
    "select_model": "leafwise.model_selection",
    "symmetrize": "leafwise.models.graph",
}

_MODULES = ("distributed", "streams")

__all__ = ["__version__", *_HOME, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"leafwise.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'leafwise' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *_MODULES})
