"""Which Chromium the tests of the web page use. As a program: installs Debian's, where there is none and it may."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

# The first has no windows, which even hidden ones are drawn for: with it, tests take three quarters of the time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = ["chromium-headless-shell", "fonts-dejavu-core"]
INSTALL = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *PACKAGES]
UPDATE = ["apt-get", "update", "--quiet"]
HOW_TO_GET_IT = (
    f"there is no Chromium for the tests of the web page: install it (on Debian: apt install {' '.join(PACKAGES)}), "
    "or name one: make test CHROMIUM=/path/to/chromium"
)


class Missing(Exception):
    """There is no Chromium. Says what to do about it."""


def find(variables: Mapping[str, str] = os.environ) -> str:
    """The path of Chromium: the one that is named in `CHROMIUM`, or the one that is installed."""
    named = variables.get("CHROMIUM")
    if named:
        found = shutil.which(named)
        if found is None:
            raise Missing(f"CHROMIUM is {named}, which is no program: name another one, or none")
        return found
    installed = (shutil.which(name, path=variables.get("PATH")) for name in NAMES)
    path = next((path for path in installed if path is not None), None)
    if path is None:
        raise Missing(HOW_TO_GET_IT)
    return path


def main() -> int:
    """Find it, or install it, or say how to get it."""
    may_install = not os.environ.get("CHROMIUM") and os.geteuid() == 0 and shutil.which("apt-get")
    try:
        find()
    except Missing as missing:
        said = _install() if may_install else ""
        if said is None:
            return 0
        print(f"{said}error: {missing}", file=sys.stderr)
        return 1
    return 0


def _install() -> str | None:
    """What apt-get said, where it failed. A machine that never asked what there is, or long ago, has to ask first."""
    print("installing Chromium for the tests of the web page (half a minute or so)", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    said = ""
    for command in (INSTALL, UPDATE, INSTALL):
        ended = subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)
        if ended.returncode == 0 and command is INSTALL:
            return None
        said = ended.stdout + ended.stderr
    return said


if __name__ == "__main__":
    sys.exit(main())
