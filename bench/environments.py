"""Environments of peers: each in a folder of its own outside the repository, installed from PyPI once and re-used."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path.home() / ".cache" / "fairlead-bench"
INSTALL_SECONDS = 1800


def provide(folder: Path, requirements: Sequence[str]) -> Path:
    """The interpreter of an environment that has what is required, installed where it is not there yet."""
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    wanted = "\n".join((sys.version, *requirements))
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        print(f"installing {', '.join(requirements)} into {folder} (a minute or more)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
        subprocess.run([*pip, "install", *requirements], check=True, timeout=INSTALL_SECONDS)
        stamp.write_text(wanted, "utf-8")
    return python
