"""Models as files: JSON and arrays in one zip, never code.

``model.json`` holds the version, the class, its parameters and what it learned; arrays stand
beside it as ``.npy``, so numpy's ``load`` opens them too. Nothing is compressed: a file cannot
unfold into more than its own size. Loading calls no constructor but those of the classes listed
here, and each checks what it is given.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from os import PathLike
from typing import IO, Any

import numpy as np
from scipy import sparse

import leafwise
from leafwise.atomic import replacing
from leafwise.exceptions import ModelFileError
from leafwise.taxonomy import Taxonomy

FORMAT = "leafwise-model"
_NOT_THE_FILE = MemoryError, NameError, ImportError  # of which no bytes in a file are the cause
VERSION = 1

# The closed set of what a file can hold, by the name that is written into it.
_CLASSES = (
    "GeneralShrinkage",
    "HPLC",
    "HPLSA",
    "HarmonicClassifier",
    "HierarchicalDirichlet",
    "HierarchicalMixture",
    "HierarchicalShrinkage",
    "MultiLabelClassifier",
    "NaiveBayes",
    "NeighborIndex",
    "NeighborsClassifier",
    "PLC",
    "PLSAClassifier",
    "PachinkoMachine",
    "TaxonomyClassifier",
    "TransductiveSVM",
    "WordCounter",
)


def save(model: Any, path: str | PathLike[str]) -> None:
    """Write a fitted model to a file. A file already there is replaced whole, or not at all."""
    with replacing(path) as file:
        write(model, file)


def write(model: Any, file: IO[bytes]) -> None:
    """Write a fitted model to a file that is open, of which `load` reads it too."""
    missing = getattr(model, "_essential", None)
    fitted = any(hasattr(model, name) for name in model._learned)
    if not fitted or (missing is not None and not hasattr(model, missing)):
        raise ModelFileError(f"This {type(model).__name__} is not fitted: nothing to save yet.")
    arrays: dict[str, np.ndarray] = {}
    document = {
        "format": FORMAT,
        "version": VERSION,
        "leafwise": leafwise.__version__,
        "model": _pack(model, arrays),
    }
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("model.json", json.dumps(document, allow_nan=False))
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            archive.writestr(f"{name}.npy", buffer.getbuffer())


def load(path: str | PathLike[str]) -> Any:
    """Read a model that `save` wrote. Whatever else the file holds gives a ModelFileError."""
    name = os.fspath(path)
    try:
        with open(path, "rb") as file:
            return read(file, name)
    except FileNotFoundError:
        raise ModelFileError(f"There is no file {name}.") from None
    except (PermissionError, IsADirectoryError) as error:
        raise ModelFileError(f"{name} cannot be read: {error.strerror}.") from None


def read(file: IO[bytes], name: str) -> Any:
    """Read a model from a file that is open; `name` is for what is said of it."""
    try:
        with zipfile.ZipFile(file) as archive:
            document, arrays = _read(archive, file.seek(0, os.SEEK_END))
    except zipfile.BadZipFile as error:
        raise ModelFileError(
            f"{name} is not a leafwise model, or only part of one ({error})."
        ) from error
    except _NOT_THE_FILE:
        raise
    except Exception as error:  # whatever the bytes were, the file is at fault
        raise ModelFileError(f"{name} is damaged: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ModelFileError(f"{name} is a zip file, but not a leafwise model.")
    version = document.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ModelFileError(
            f"{name} has format version {version!r}; this leafwise "
            f"({leafwise.__version__}) reads up to {VERSION}. Upgrade leafwise to open it."
        )
    try:
        model = _unpack(document["model"], arrays)
    except _NOT_THE_FILE:
        raise
    except Exception as error:
        raise ModelFileError(f"{name} is damaged: {error}") from error
    if not hasattr(model, "get_params") or not document["model"]["learned"]:
        raise ModelFileError(f"{name} holds no model.")
    return model


def _read(archive: zipfile.ZipFile, size: int) -> tuple[Any, dict[str, np.ndarray]]:
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("it has compressed parts, which leafwise never writes")
    if sum(member.file_size for member in members) > size:
        raise ValueError("its parts add up to more than the file")
    arrays = {}
    for member in members:
        if member.filename.endswith(".npy"):
            with archive.open(member) as file:
                arrays[member.filename[:-4]] = _read_array(file, member.file_size)
    return json.loads(archive.read("model.json")), arrays


def _read_array(file: Any, size: int) -> np.ndarray:
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"an array has npy version {version}")
    shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
    if dtype.kind not in "biuf" or fortran or len(shape) > 2:
        raise ValueError(f"an array of type {dtype} and shape {shape} has no place in a model")
    data = file.read()
    if len(data) != int(np.prod(shape, dtype=object)) * dtype.itemsize:
        raise ValueError("an array is longer or shorter than it says")
    return np.frombuffer(bytearray(data), dtype).reshape(shape)


def _pack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Turn a value into JSON, with arrays put aside."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_pack(item, arrays) for item in value]}
    if isinstance(value, set | frozenset):
        return {"set": sorted(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
        return {"strings": value.tolist(), "fixed": value.dtype.kind == "U"}
    if isinstance(value, np.ndarray):
        name = f"array{len(arrays)}"
        arrays[name] = np.ascontiguousarray(value)
        return {"array": name}
    if sparse.issparse(value):
        parts = (value.data, value.indices, value.indptr)
        return {"csr": [_pack(part, arrays) for part in parts], "shape": list(value.shape)}
    if isinstance(value, Taxonomy):
        keywords = [list(words) for words in value.keywords]
        return {"taxonomy": [list(value.names), value.parent.tolist(), keywords]}
    if type(value).__name__ == "FrozenEstimator":
        return _pack(value.estimator, arrays)
    if type(value).__name__ in _CLASSES:
        state = {name: getattr(value, name) for name in value._learned if hasattr(value, name)}
        parameters = value.get_params(deep=False)
        for name in getattr(value, "_unsaved", ()):  # what only `fit` needs, and may be code
            if not isinstance(parameters[name], bool):
                del parameters[name]
        return {
            "class": type(value).__name__,
            "parameters": {k: _pack(v, arrays) for k, v in parameters.items()},
            "learned": {name: _pack(part, arrays) for name, part in state.items()},
        }
    raise ModelFileError(
        f"{value!r} cannot be saved: a model file holds data, no code. Use a named setting, such "
        'as stemmer="porter", in place of a function or an object, and estimators of leafwise.'
    )


def _unpack(packed: Any, arrays: dict[str, np.ndarray]) -> Any:
    if not isinstance(packed, dict):
        if isinstance(packed, list):
            raise ValueError("a list stands where there can be none")
        return packed
    if "list" in packed:
        return [_unpack(item, arrays) for item in packed["list"]]
    if "tuple" in packed:
        return tuple(_unpack(item, arrays) for item in packed["tuple"])
    if "set" in packed:
        return frozenset(map(str, packed["set"]))
    if "strings" in packed:
        strings = [_string(item) for item in packed["strings"]]
        return np.array(strings, dtype=np.str_ if packed["fixed"] else object)
    if "array" in packed:
        return arrays[packed["array"]]
    if "csr" in packed:
        data, indices, indptr = (_unpack(part, arrays) for part in packed["csr"])
        n_rows, n_columns = (int(n) for n in packed["shape"])
        matrix = sparse.csr_matrix((data, indices, indptr), shape=(n_rows, n_columns))
        matrix.check_format(full_check=True)
        return matrix
    if "taxonomy" in packed:
        names, parent, keywords = packed["taxonomy"]
        return Taxonomy(
            [_string(name) for name in names],
            [int(i) for i in parent],
            [tuple(_string(word) for word in words) for words in keywords],
        )
    if packed["class"] not in _CLASSES:
        raise ValueError(f"it holds a {packed['class']!r}, which is no model of leafwise")
    kind = getattr(leafwise, packed["class"])
    model = kind(**{name: _unpack(part, arrays) for name, part in packed["parameters"].items()})
    learned = {name: _unpack(part, arrays) for name, part in packed["learned"].items()}
    if unknown := set(learned) - set(kind._learned):
        raise ValueError(f"{packed['class']} learns no {sorted(unknown)[0]!r}")
    for name, part in learned.items():
        setattr(model, name, part)
    if learned:  # else a parameter: a part that is to be fitted
        model._restore()
    return model


def _string(item: Any) -> str:
    if not isinstance(item, str):
        raise ValueError(f"{item!r} stands where a string must")
    return item
