"""Python environments of the peers: installed once from PyPI, outside the repository, and reused."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path.home() / ".cache" / "fairlead-bench"
INSTALL_SECONDS = 1800


def provide(folder: Path, requirements: Sequence[str]) -> Path:
    """Install the requirements into an environment if needed; return its interpreter."""
    python, stamp = folder / "bin" / "python", folder / "installed.txt"
    content = "\n".join((sys.version, *requirements))
    if not stamp.exists() or stamp.read_text("utf-8") != content:
        print(f"installing {', '.join(requirements)} into {folder} (a minute or more)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
        subprocess.run([*pip, "install", *requirements], check=True, timeout=INSTALL_SECONDS)
        stamp.write_text(content, "utf-8")
    return python
