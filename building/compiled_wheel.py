"""Wheels that carry what numba compiles, so that the first run after `pip install` need not.

The loops are compiled beside the modules that go into the wheel. numba knows its files again by the
content of the module, by its own version and by the processor; where one of these is another, the
first run compiles as it would without them. An editable install has none: `make install` ends with
`leafwise compile` instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403 - the other hooks are as they are
from setuptools.command.build_py import build_py

_PROJECT = Path(__file__).parent.parent / "pyproject.toml"


class BuildCompiled(build_py):
    """Collect the modules, as ever, and compile their loops."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self._compile()

    def _compile(self) -> None:
        folder = Path(self.build_lib).resolve()
        environment = {key: one for key, one in os.environ.items() if key != "NUMBA_CACHE_DIR"}
        environment |= {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "leafwise", "compile"]
        if subprocess.run(command, cwd=folder, env=environment).returncode:
            self.warn("the loops are not compiled: the first run of leafwise will do it.")


def get_requires_for_build_wheel(config_settings: Mapping[str, Any] | None = None) -> list[str]:
    """Ask for what leafwise needs: it runs while its wheel is built."""
    project = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"]
    return [*build_meta.get_requires_for_build_wheel(config_settings), *project["dependencies"]]


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build a wheel for this Python on this kind of machine."""
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tags = ["--python-tag", version, "--plat-name", sysconfig.get_platform()]
    given = (config_settings or {}).get("--build-option", [])
    given = [given] if isinstance(given, str) else given
    settings = {**(config_settings or {}), "--build-option": [*tags, *given]}
    return build_meta.build_wheel(wheel_directory, settings, metadata_directory)
