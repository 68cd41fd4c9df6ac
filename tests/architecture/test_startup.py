"""Import time: packages that are not used are not loaded."""

import subprocess
import sys

import pytest

SERVER_PACKAGES = {
    "alembic", "cryptography", "fastapi", "httptools", "joserfc", "msgspec", "orjson", "platformdirs",
    "prometheus_client", "psutil", "psycopg", "psycopg_pool", "pydantic_settings", "sqlalchemy", "starlette",
    "structlog", "uuid_utils", "uvicorn", "uvloop", "watchfiles",
}  # fmt: skip
CLIENT_PACKAGES = {"cyclopts", "pydantic", "rich", "yaml"}

IMPORT = "import fairlead"
HELP = """
from fairlead.cli import app
try:
    app(["--help"])
except SystemExit as ended:
    assert not ended.code
"""
PREVIEW = """
from fairlead.cli import app
try:
    app(["preview", "no-such-file.yaml"])
except SystemExit as ended:
    assert ended.code == 1
"""


@pytest.mark.parametrize("program", [IMPORT, HELP, PREVIEW], ids=["import", "help", "preview"])
def test_server_packages_are_not_loaded(program: str) -> None:
    assert _packages(_loaded_by(program)) & SERVER_PACKAGES == set()


def test_importing_the_package_loads_nothing_else() -> None:
    loaded = _loaded_by(IMPORT)
    assert _packages(loaded) & CLIENT_PACKAGES == set()
    assert {name for name in loaded if name.startswith("fairlead.")} == set()


def test_help_loads_only_the_command_line() -> None:
    loaded = {name for name in _loaded_by(HELP) if name.startswith("fairlead.")}
    assert loaded == {"fairlead.cli"}


def test_help_loads_neither_pydantic_nor_yaml() -> None:
    assert _packages(_loaded_by(HELP)) & {"pydantic", "yaml"} == set()


def test_supervisor_of_a_run_loads_no_data_types() -> None:
    """It starts with each run, and importing the data types takes longer than the rest of its start."""
    loaded = _loaded_by("import fairlead.adapters.local.supervisor")
    assert {name for name in loaded if name.startswith(("fairlead.model", "fairlead.errors"))} == set()


def _loaded_by(program: str) -> set[str]:
    """The modules that a new Python process has loaded after running a program."""
    code = f"{program}\nimport sys\nprint('\\n--loaded--', *sys.modules)"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(process.stdout.rpartition("--loaded--")[2].split())


def _packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}
