"""Startup errors: one or two lines without a traceback, and an exit status."""

import os
import socket
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.adapters.database.migrating import migrate
from fairlead.adapters.database.stores import DatabaseStore
from tests.processes.machines import Machine, ProcessResult

USAGE_ERROR, FAILURE = 2, 1
PASSWORD = "swordfish-4711"
Case = tuple[int, list[str], dict[str, str], str]

# Exit status, options, environment variables, and a text that the error must contain.
SETTINGS: dict[str, Case] = {
    "reachable by other machines": (
        USAGE_ERROR,
        ["--host", "0.0.0.0"],
        {},
        "host is 0.0.0.0, which other machines can reach, but auth is local",
    ),
    "reachable by other machines over IPv6": (USAGE_ERROR, ["--host", "::"], {}, "which other machines can reach"),
    "port too high": (USAGE_ERROR, ["--port", "99999"], {}, "99999"),
    "port not a number": (USAGE_ERROR, ["--port", "many"], {}, "many"),
    "port too low": (USAGE_ERROR, ["--port=-1"], {}, "-1"),
    "unknown authentication": (USAGE_ERROR, ["--auth", "open"], {}, "'local', 'tokens' or 'oidc'"),
    "unknown variable": (USAGE_ERROR, [], {"FAIRLEAD_PROT": "1"}, "FAIRLEAD_PROT: did you mean FAIRLEAD_PORT"),
    "unknown log level": (USAGE_ERROR, [], {"FAIRLEAD_LOG_LEVEL": "loud"}, "loud"),
    "administrator without user or group": (
        USAGE_ERROR,
        [],
        {"FAIRLEAD_ADMINS": "user:ada,bob"},
        "user:<name> or group:<name>",
    ),
    "served host with a star": (USAGE_ERROR, [], {"FAIRLEAD_SERVED_HOST": "*.apps.example.org"}, "invalid host name"),
    "served host with a scheme": (
        USAGE_ERROR,
        [],
        {"FAIRLEAD_SERVED_HOST": "https://a.example.org"},
        "without a scheme",
    ),
    "served host is an IP address": (
        USAGE_ERROR,
        [],
        {"FAIRLEAD_SERVED_HOST": "10.0.0.1"},
        "served_host: invalid host name '10.0.0.1'",
    ),
    "OIDC without issuer": (USAGE_ERROR, ["--auth", "oidc"], {}, "oidc_issuer"),
    "issuer without OIDC": (USAGE_ERROR, [], {"FAIRLEAD_OIDC_ISSUER": "https://a.example.org"}, "set auth to oidc"),
    "client without OIDC": (
        USAGE_ERROR,
        [],
        {"FAIRLEAD_OIDC_CLIENT_ID": "fairlead"},
        "oidc_client_id is set, but auth is local",
    ),
    "secret without client": (
        USAGE_ERROR,
        ["--auth", "oidc"],
        {
            "FAIRLEAD_OIDC_ISSUER": "https://a.example.org",
            "FAIRLEAD_OIDC_AUDIENCE": "fairlead",
            "FAIRLEAD_OIDC_CLIENT_SECRET": PASSWORD,
        },
        "oidc_client_secret is set, but oidc_client_id is not",
    ),
    "secret without OIDC": (
        USAGE_ERROR,
        [],
        {"FAIRLEAD_OIDC_CLIENT_SECRET": PASSWORD},
        "oidc_client_secret is set, but auth",
    ),
    "client without a public URL": (
        USAGE_ERROR,
        ["--auth", "oidc", "--host", "0.0.0.0"],
        {
            "FAIRLEAD_OIDC_ISSUER": "https://a.example.org",
            "FAIRLEAD_OIDC_AUDIENCE": "fairlead",
            "FAIRLEAD_OIDC_CLIENT_ID": "fairlead",
        },
        "set public_url",
    ),
    "issuer over plain HTTP": (
        FAILURE,
        ["--auth", "oidc"],
        {"FAIRLEAD_OIDC_ISSUER": "http://login.example.org", "FAIRLEAD_OIDC_AUDIENCE": "fairlead"},
        "invalid issuer URL",
    ),
    "invalid key": (FAILURE, [], {"FAIRLEAD_SECRET_KEYS": PASSWORD}, "key 1"),
    "unsupported database": (FAILURE, ["--database", f"mysql://root:{PASSWORD}@127.0.0.1/fairlead"], {}, "mysql"),
    "unsupported database driver": (FAILURE, ["--database", "postgresql+pg8000://db/fairlead"], {}, "not supported"),
    "port of the database": (
        FAILURE,
        ["--database", "postgresql://db:abc/fairlead"],
        {},
        "the database URL is invalid",
    ),
    "parameter of the database": (
        FAILURE,
        ["--database", f"postgresql://127.0.0.1:1/fairlead?{PASSWORD}=1"],
        {},
        "the database URL has an invalid parameter",
    ),
    "timeout of the database": (
        FAILURE,
        ["--database", f"postgresql://127.0.0.1:1/fairlead?connect_timeout={PASSWORD}"],
        {},
        "the database URL has an invalid parameter",
    ),
    "password in a parameter": (
        FAILURE,
        ["--database", f"postgresql://127.0.0.1:1/fairlead?user=fairlead&password={PASSWORD}"],
        {},
        "cannot open postgresql+psycopg://127.0.0.1:1/fairlead: ",
    ),
    "invalid database URL": (FAILURE, ["--database", "fairlead"], {}, "the database URL is invalid"),
    "unreachable database": (
        FAILURE,
        ["--database", f"postgresql://fairlead:{PASSWORD}@127.0.0.1:1/fairlead"],
        {},
        "127.0.0.1",
    ),
    "address without interface": (FAILURE, ["--host", "192.0.2.1", "--auth", "tokens"], {}, "192.0.2.1"),
}
FILES = {
    "unknown key": (b'prot = 1\ndata = "data"\n', "prot"),
    "invalid TOML": (b"port = \n", "fairlead.toml"),
    "invalid UTF-8": (b"\xff\xfe", "fairlead.toml"),
    "wrong type": (b"port = [1]\n", "port"),
    "wrong type of a secret": (f'oidc_client_secret = ["{PASSWORD}"]\n'.encode(), "oidc_client_secret"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_invalid_settings_are_reported(machine: Machine, case: str) -> None:
    code, options, variables, message = SETTINGS[case]
    ended = machine.app("up", "--port", "0", "--data", "data", *options, variables=variables)
    _check_error(ended, message, code)


@pytest.mark.parametrize("case", FILES)
def test_invalid_config_file_is_reported(machine: Machine, case: str) -> None:
    content, message = FILES[case]
    (machine.folder / "fairlead.toml").write_bytes(content)
    _check_error(machine.app("up", "--data", "data"), message, USAGE_ERROR)


@pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root has a table of user IDs")
def test_table_of_user_ids_in_a_folder_of_all_users_is_reported(machine: Machine) -> None:
    ended = machine.app("up", "--data", "data", variables={"FAIRLEAD_ID_TABLE": "/tmp/ids.db"})
    message = "users other than the server's can write to /tmp\n  -> set id_table to a file"
    _check_error(ended, message, FAILURE)


def test_all_invalid_settings_are_reported_together(machine: Machine) -> None:
    variables = {"FAIRLEAD_PROT": "1", "FAIRLEAD_LOG_LEVEL": "loud", "FAIRLEAD_AUTH": "open"}
    ended = machine.app("up", "--port", "many", variables=variables)
    for message in ("FAIRLEAD_PROT", "loud", "open", "many"):
        _check_error(ended, message, USAGE_ERROR, lines=8)


def test_unknown_options_are_reported_by_both_programs(machine: Machine) -> None:
    _check_error(machine.app("up", "--prot", "1"), "--prot", USAGE_ERROR, lines=8)
    ended = machine.fairlead("up", "--prot", "1")
    assert ended.code != 0
    assert "--prot" in ended.err + ended.out
    assert "Traceback" not in ended.err


@pytest.fixture
def taken_port() -> Iterator[int]:
    """A port that is in use."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_port_in_use_is_reported(machine: Machine, taken_port: int) -> None:
    ended = machine.app("up", "--port", str(taken_port), "--data", "data")
    _check_error(ended, f"127.0.0.1, port {taken_port}", FAILURE)
    assert not (machine.folder / "data" / "server.json").exists()


def _newer_database(folder: Path) -> str:
    store = DatabaseStore(f"sqlite:///{folder / 'fairlead.db'}")
    migrate(store.engine)
    store.close()
    with sqlite3.connect(folder / "fairlead.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    return "9999"


def _corrupt_database(folder: Path) -> str:
    (folder / "fairlead.db").write_bytes(b"this is a diary\n" * 1000)
    return "not a database"


def _folder_as_database(folder: Path) -> str:
    (folder / "fairlead.db").mkdir()
    return "fairlead.db"


def _readable_key(folder: Path) -> str:
    (folder / "secret.key").write_text("A" * 43 + "=\n")
    (folder / "secret.key").chmod(0o644)
    return "0644"


def _invalid_key(folder: Path) -> str:
    (folder / "secret.key").write_text(PASSWORD)
    (folder / "secret.key").chmod(0o600)
    return "key 1"


def _folder_as_token(folder: Path) -> str:
    (folder / "token").mkdir()
    return str(folder / "token")


@pytest.mark.parametrize(
    "corrupt", [_newer_database, _corrupt_database, _folder_as_database, _readable_key, _invalid_key, _folder_as_token]
)
def test_corrupt_data_folder_is_reported(machine: Machine, corrupt: Callable[[Path], str]) -> None:
    data = machine.folder / "data"
    data.mkdir(mode=0o700)
    message = corrupt(data)
    _check_error(machine.app("up", "--port", "0", "--data", str(data)), message, FAILURE)


def test_file_in_place_of_the_data_folder_is_reported(machine: Machine) -> None:
    (machine.folder / "data").write_text("")
    _check_error(machine.app("up", "--port", "0", "--data", "data"), "data", FAILURE)


def test_data_folder_that_cannot_be_created_is_reported(machine: Machine) -> None:
    _check_error(machine.app("up", "--port", "0", "--data", "/proc/fairlead/data"), "/proc/fairlead", FAILURE)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_data_folder_is_reported(machine: Machine) -> None:
    (machine.folder / "data").mkdir(mode=0)
    _check_error(machine.app("up", "--port", "0", "--data", "data"), "data", FAILURE)


def test_missing_watched_folder_is_reported(machine: Machine) -> None:
    ended = machine.app("up", "--port", "0", "--data", "data", "--folder", "nowhere", seconds=15)
    _check_error(ended, "nowhere", FAILURE)


def _check_error(ended: ProcessResult, message: str, code: int, *, lines: int = 3) -> None:
    assert "Traceback" not in ended.err, ended.err[-2000:]
    assert message in ended.err
    assert PASSWORD not in ended.out + ended.err
    assert ended.code == code, ended
    assert 1 <= len(ended.err.splitlines()) <= lines, ended.err
    assert "listening on" not in ended.out
