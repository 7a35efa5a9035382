import csv
import io
import os
import signal
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from leafwise.cli import main
from leafwise.synthetic import make_corpus
from leafwise.taxonomy import Taxonomy

ROOT = Path(__file__).parent.parent


def pytest_configure(config):
    """A shell's jobs in the background ignore interrupts, and so would commands that they start."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class Ended(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def rows(self) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.out.decode())))

    @property
    def text(self) -> str:
        return self.out.decode()


@pytest.fixture
def call(capsysbinary, monkeypatch):
    """Run a command here, as `leafwise ARGUMENTS` would."""

    def run(*arguments, stdin: bytes | None = None) -> Ended:
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        assert b"Traceback" not in err
        return Ended(stop.value.code, out, err.decode())

    return run


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real corpora, where there is one."""
    folder = Path(os.environ.get("LEAFWISE_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip("needs the corpora: set LEAFWISE_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def pets() -> Taxonomy:
    """A small tree of uneven depth."""
    return Taxonomy.from_dict(
        {
            "animals": {"cats": ["cat", "purr"], "dogs": ["dog", "bark"]},
            "vehicles": {"boats": ["boat", "sail"], "cars": {"racing": ["race", "lap"]}},
        }
    )


@pytest.fixture(scope="session")
def pet_texts() -> list[str]:
    """Made-up texts, four to a leaf of `pets`, in the order cats, dogs, boats, racing."""
    return [
        "The cat purred on the warm sofa all morning.",
        "A cat with grey whiskers chased the mouse.",
        "Whiskers the kitten purred and slept on the sofa.",
        "My kitten likes milk; every cat does.",
        "The dog barked at the postman by the gate.",
        "A puppy fetched the stick, and the old dog watched.",
        "The puppy barked at the gate and fetched a ball.",
        "Every dog in the park chased the stick.",
        "We sailed the boat across the harbour in the wind.",
        "The harbour was full of boats with white sails.",
        "Wind filled the sail and the boat left the quay.",
        "They moored at the quay, and the crew went ashore.",
        "The race was won in the last lap by a red car.",
        "A fast lap put the driver first in the race.",
        "The driver changed tyres before the final lap.",
        "New tyres gave the racing team a better grip.",
    ]


@pytest.fixture(scope="session")
def pet_labels() -> list[str]:
    leaves = ["animals/cats", "animals/dogs", "vehicles/boats", "vehicles/cars/racing"]
    return [leaf for leaf in leaves for _ in range(4)]


@pytest.fixture(scope="session")
def many():
    """240 documents of four leaves, their tree, their labels, and every tenth of these."""
    tree = Taxonomy.from_paths(["a/x", "a/y", "b/z", "b/w"])
    drawn = make_corpus(tree, 240, 300, 25, concentration=30, random_state=5)
    few = [label if i % 10 == 0 else None for i, label in enumerate(drawn.labels)]
    return tree, drawn.texts(), np.array(drawn.labels), few
