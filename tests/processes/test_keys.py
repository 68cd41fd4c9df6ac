"""`fairlead keys rotate`: all secrets are encrypted with the new key, whether or not the server is running."""

import base64
import secrets
from pathlib import Path

import httpx2
import pytest
import sqlalchemy as sa

from fairlead.adapters import keyrings
from fairlead.errors import Unavailable
from fairlead.ports import Sealed
from tests.processes.machines import FAIRLEAD, Machine, RunningServer

VALUES = {f"SECRET_{number}": f"value of {number}: {'x' * number}" for number in range(5)}


def test_keys_are_rotated_while_the_server_runs(machine: Machine, database: tuple[str, ...]) -> None:
    server = machine.up(*database)
    with server.client() as client:
        _create_secrets(client)
        old = keyrings.load_key_file(server.data / "secret.key")
        message = "5 secrets encrypted with the new key; run `fairlead keys forget` to delete older keys\n"
        _run_keys_command(machine, server, "rotate", database, message)
        new, *old_keys = keyrings.load_key_file(server.data / "secret.key")
        assert tuple(old_keys) == old
        assert _decrypt_all(server, database, (new,)) == VALUES
        with pytest.raises(Unavailable):
            _decrypt_all(server, database, old)
        _run_keys_command(machine, server, "forget", database, "1 older key deleted\n")
        assert keyrings.load_key_file(server.data / "secret.key") == (new,)
        # The running server encrypts new values with the new key.
        assert client.put("/projects/default/secrets/LATER", json={"value": "later"}).status_code == 201
        assert client.put("/projects/default/secrets/SECRET_0", json={"value": "changed"}).status_code == 200
    assert _decrypt_all(server, database, (new,)) == VALUES | {"LATER": "later", "SECRET_0": "changed"}


def test_keys_are_rotated_while_the_server_is_stopped(machine: Machine) -> None:
    server = machine.up()
    with server.client() as client:
        _create_secrets(client)
    server.stop()
    variables = {"FAIRLEAD_DATA": str(server.data)}
    first = keyrings.load_key_file(server.data / "secret.key")
    for _ in range(2):
        ended = machine.app("rotate-keys", variables=variables)
        assert (ended.code, ended.err) == (0, "")
        assert _decrypt_all(server, (), keyrings.load_key_file(server.data / "secret.key")[:1]) == VALUES
    assert len(keyrings.load_key_file(server.data / "secret.key")) == 3
    assert machine.app("forget-keys", variables=variables).out == "2 older keys deleted\n"
    last = keyrings.load_key_file(server.data / "secret.key")
    assert len(last) == 1
    assert set(last).isdisjoint(first)
    assert _decrypt_all(server, (), last) == VALUES
    assert (server.data / "secret.key").stat().st_mode & 0o077 == 0
    server = machine.up()
    with server.client() as client:
        assert len(client.get("/projects/default/secrets").json()["items"]) == len(VALUES)
        entries = client.get("/audit", params={"action": "secret.reseal"}).json()["items"]
    assert len(entries) == 2 * len(VALUES)


def test_keys_in_the_environment_are_rotated_by_prepending_a_new_key(machine: Machine) -> None:
    old, new = (base64.b64encode(secrets.token_bytes(32)).decode() for _ in range(2))
    server = machine.up(variables={"FAIRLEAD_SECRET_KEYS": old})
    with server.client() as client:
        _create_secrets(client)
    server.stop()
    assert not (server.data / "secret.key").exists()

    both = {"FAIRLEAD_SECRET_KEYS": f"{new},{old}", "FAIRLEAD_DATA": str(server.data)}
    ended = machine.app("rotate-keys", variables=both)
    assert (ended.code, ended.err) == (0, "")
    assert not (server.data / "secret.key").exists()
    assert _decrypt_all(server, (), keyrings.parse_keys(new)) == VALUES
    repeated = machine.app("rotate-keys", variables=both | {"FAIRLEAD_SECRET_KEYS": new})
    assert (repeated.code, repeated.err) == (0, "")
    assert _decrypt_all(server, (), keyrings.parse_keys(new)) == VALUES
    assert old not in ended.out + ended.err + repeated.out + repeated.err


def test_rotation_without_the_old_key_fails_and_changes_nothing(machine: Machine) -> None:
    old, new = (base64.b64encode(secrets.token_bytes(32)).decode() for _ in range(2))
    server = machine.up(variables={"FAIRLEAD_SECRET_KEYS": old})
    with server.client() as client:
        _create_secrets(client)
    server.stop()
    new_key_only = {"FAIRLEAD_SECRET_KEYS": new, "FAIRLEAD_DATA": str(server.data)}
    ended = machine.app("rotate-keys", variables=new_key_only)
    assert ended.code == 1
    assert "Traceback" not in ended.err
    assert keyrings.parse_keys(old)[0].id in ended.err
    assert _decrypt_all(server, (), keyrings.parse_keys(old)) == VALUES


def test_rotation_without_a_data_folder_fails_and_creates_nothing(machine: Machine) -> None:
    ended = machine.app("rotate-keys", "--data", "nowhere")
    assert ended.code == 1
    assert "Traceback" not in ended.err
    assert "nowhere" in ended.err
    assert not (machine.folder / "nowhere").exists()


def test_key_in_use_is_not_removed(machine: Machine) -> None:
    server = machine.up()
    with server.client() as client:
        _create_secrets(client)
    server.stop()
    keyrings.rotate_key_file(server.data / "secret.key")
    ended = machine.app("forget-keys", "--data", str(server.data))
    assert ended.code == 1
    assert ended.err == "error: 5 secrets are encrypted with an older key\n  -> run `fairlead keys rotate` first\n"
    assert _decrypt_all(server, (), keyrings.load_key_file(server.data / "secret.key")) == VALUES


def _run_keys_command(
    machine: Machine, server: RunningServer, command: str, database: tuple[str, ...], expected: str
) -> None:
    ended = machine.start(str(FAIRLEAD), "keys", command, "--data", str(server.data), *database).wait()
    assert (ended.code, ended.out, ended.err) == (0, expected, "")


def _create_secrets(client: httpx2.Client) -> None:
    for name, value in VALUES.items():
        assert client.put(f"/projects/default/secrets/{name}", json={"value": value}).status_code == 201


def _decrypt_all(
    server: RunningServer, database: tuple[str, ...], keys: tuple[keyrings.SealingKey, ...]
) -> dict[str, str]:
    """Decrypt every secret in the database with the given keys."""
    engine = sa.create_engine(_database_url(server.data, database), poolclass=sa.NullPool)
    keyring = keyrings.AesKeyring(keys)
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT id, name, sealed, key_id FROM secrets ORDER BY name")).all()
    return {row.name: keyring.open(Sealed(bytes(row.sealed), row.key_id), row.id).decode() for row in rows}


def _database_url(data: Path, database: tuple[str, ...]) -> str:
    return database[1] if database else f"sqlite:///{data / 'fairlead.db'}"
