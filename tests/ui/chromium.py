"""Finds Chromium for the browser tests. As a program: installs the Debian package if it is missing, as root."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

# The headless shell renders no windows, which makes the tests a quarter faster.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = ["chromium-headless-shell", "fonts-dejavu-core"]
INSTALL = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *PACKAGES]
UPDATE = ["apt-get", "update", "--quiet"]
HOW_TO_INSTALL = (
    f"Chromium was not found. Install it (on Debian: apt install {' '.join(PACKAGES)}), "
    "or set its path: make test CHROMIUM=/path/to/chromium"
)


class Missing(Exception):
    """Chromium was not found."""


def find(variables: Mapping[str, str] = os.environ) -> str:
    """The path of Chromium, from the `CHROMIUM` environment variable or the installed programs."""
    configured = variables.get("CHROMIUM")
    if configured:
        program = shutil.which(configured)
        if program is None:
            raise Missing(f"CHROMIUM={configured} is not an executable. Set it to another path or unset it.")
        return program
    installed = (shutil.which(name, path=variables.get("PATH")) for name in NAMES)
    path = next((path for path in installed if path is not None), None)
    if path is None:
        raise Missing(HOW_TO_INSTALL)
    return path


def main() -> int:
    """Find or install Chromium, or explain how to install it."""
    may_install = not os.environ.get("CHROMIUM") and os.geteuid() == 0 and shutil.which("apt-get")
    try:
        find()
    except Missing as missing:
        output = _install() if may_install else ""
        if output is None:
            return 0
        print(f"{output}error: {missing}", file=sys.stderr)
        return 1
    return 0


def _install() -> str | None:
    """Install the packages. Returns apt-get's output if it fails. Outdated package lists are updated first."""
    print("installing Chromium for the browser tests (takes about 30 s)", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    output = ""
    for command in (INSTALL, UPDATE, INSTALL):
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if process.returncode == 0 and command is INSTALL:
            return None
        output = process.stdout + process.stderr
    return output


if __name__ == "__main__":
    sys.exit(main())
