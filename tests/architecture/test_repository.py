"""The repository contains dependency hashes and no package registry URLs."""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.architecture.modules import ROOT

LOCK = ROOT / "requirements.lock"
# Split in two, so that this file does not match itself.
PACKAGE_HOSTS = [
    f"{name}.{ending}"
    for name, ending in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("anaconda", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("jfrog", "io"),
        ("crates", "io"),
    )
]
TOOLS = [".ci", "Makefile", "pyproject.toml", "hatch_build.py", "ui/.npmrc", "ui/package.json"]
INDEX = re.compile(r"https?://\S+|--(?:extra-)?index-url[= ]\S+|--find-links[= ]\S+")


def test_no_package_registry_is_named() -> None:
    pattern = re.compile("|".join(map(re.escape, PACKAGE_HOSTS)).encode())
    assert [str(file) for file in _repository_files() if pattern.search(file.read_bytes())] == []


def test_no_tool_names_a_package_index() -> None:
    files = [file for tool in TOOLS for file in ([ROOT / tool] if (ROOT / tool).is_file() else (ROOT / tool).iterdir())]
    assert len(files) >= len(TOOLS)
    offenders = [f"{file.relative_to(ROOT)}: {url}" for file in files for url in INDEX.findall(file.read_text("utf-8"))]
    assert not offenders, "\n".join(offenders)


def test_the_lock_has_hashes_and_no_urls() -> None:
    text = LOCK.read_text("utf-8")
    pinned = re.findall(r"^[a-z0-9].*==.*$", text, re.MULTILINE)
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
    assert len(pinned) == len(entries) > 30
    assert [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text
    assert [line for line in text.splitlines() if line.startswith("-")] == []


def test_the_lock_of_the_web_ui_has_digests_and_no_urls() -> None:
    lock = (ROOT / "ui" / "package-lock.json").read_text("utf-8")
    assert "://" not in lock, "npm run lock writes it without addresses"
    packages = json.loads(lock)["packages"]
    installed = {name: package for name, package in packages.items() if name}
    assert len(installed) > 30
    assert [name for name, package in installed.items() if "integrity" not in package or "resolved" in package] == []


def test_the_lock_contains_all_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    requirements = [
        *project["project"]["dependencies"],
        *(name for names in project["project"]["optional-dependencies"].values() for name in names),
        *(name for names in project["dependency-groups"].values() for name in names),
    ]
    locked = set(re.findall(r"^([a-z0-9._-]+?)(?:\[.*?\])?==", LOCK.read_text("utf-8"), re.MULTILINE))
    assert {re.split(r"[\[><=~!; ]", name)[0].lower().replace("_", "-") for name in requirements} - locked == set()


def _repository_files() -> list[Path]:
    """Files that are in the repository, or would be added by the next commit."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    process = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    if process.returncode != 0:
        pytest.skip("not a git checkout")
    files = [ROOT / name for name in process.stdout.decode().split("\0") if name]
    return [file for file in files if file.is_file()]
