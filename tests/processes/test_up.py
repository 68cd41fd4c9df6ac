"""`fairlead up`: startup time, output, files, authentication and shutdown."""

import json
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.processes.machines import CLIENT_OPTIONS, FAIRLEAD, Machine, RunningServer, make_resource

MAX_SECONDS = 30.0  # on a busy machine; `make bench` measures the startup time on an idle one
CURL = shutil.which("curl")


def test_server_starts_quickly(machine: Machine) -> None:
    durations: list[float] = []
    while (
        len(durations) < 3 and min(durations, default=MAX_SECONDS) >= MAX_SECONDS
    ):  # retry, because the machine may be busy
        server = machine.up(program=(str(FAIRLEAD),), data=f"data-{len(durations)}")
        durations.append(server.seconds)
        server.stop()
    print(f"served {min(durations):.2f} s after the start of the process")
    assert min(durations) < MAX_SECONDS


@pytest.mark.smoke
def test_startup_message_shows_url_token_and_sign_in_link(server: RunningServer) -> None:
    message = server.process.output[0]
    assert f"is listening on {server.url}\n" in message
    assert f"token    {server.data / 'token'}\n" in message
    assert f"sign in  {server.url}/login?code=" in message
    assert f'curl -H "Authorization: Bearer $(cat {server.data / "token"})" {server.url}/api/v1/me' in message
    assert server.token not in message
    assert json.loads((server.data / "server.json").read_text("utf-8")) == {
        "url": server.url,
        "pid": server.process.pid,
    }


def test_data_folder_is_readable_only_by_its_owner(server: RunningServer) -> None:
    assert _mode(server.data) == 0o700
    files = [file for file in server.data.iterdir() if file.is_file()]
    assert {file.name for file in files} >= {"token", "secret.key", "server.json", "fairlead.db"}
    assert {file.name: oct(_mode(file)) for file in files if _mode(file) & 0o077} == {}


def test_files_in_an_existing_data_folder_are_private(machine: Machine) -> None:
    (machine.folder / "data").mkdir(mode=0o755)
    server = machine.up()
    # Runs that belong to other users need execute permission on folders, but not read permission.
    readable = [file.name for file in server.data.iterdir() if _mode(file) & (0o066 if file.is_dir() else 0o077)]
    assert readable == [] or _mode(server.data) == 0o700


def test_token_is_replaced_only_if_corrupt_revoked_or_missing(machine: Machine) -> None:
    server = machine.up()
    first = server.token
    server.stop()

    server = machine.up()
    assert server.token == first
    with server.client() as client:
        assert client.get("/me").status_code == 200
    server.stop()

    (server.data / "token").write_bytes(b"\xff\xfe")
    server = machine.up()
    second = server.token
    assert second != first
    with server.client(first) as client, server.client(second) as other:
        assert client.get("/me").status_code == 401
        assert other.get("/me").status_code == 200
        local_tokens = other.get("/tokens", params={"purpose": "local"}).json()["items"]
        assert [other.delete(f"/tokens/{token['id']}").status_code for token in local_tokens] == [204]
        assert other.get("/me").status_code == 401
    server.stop()

    server = machine.up()
    third = server.token
    assert third not in (first, second)
    server.stop()

    (server.data / "token").unlink()
    server = machine.up()
    assert server.token not in (first, second, third)
    assert _mode(server.data / "token") == 0o600
    with server.client() as client:
        assert client.get("/me").status_code == 200


def test_the_sign_in_link_works_once(server: RunningServer) -> None:
    with server.anonymous_client() as browser:
        followed = browser.get(server.link)
        assert (followed.status_code, followed.headers["location"]) == (303, "/")
        cookie = followed.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert browser.get("/").status_code == 200
        assert browser.get("/api/v1/me").json()["via"].startswith("session:")
        assert browser.delete("/api/v1/sessions", headers={"Origin": server.url}).status_code == 204
        assert browser.get("/api/v1/me").status_code == 401
    with server.anonymous_client() as other:
        assert other.get(server.link).status_code == 401
        assert other.get("/api/v1/me").status_code == 401


@pytest.mark.skipif(CURL is None, reason="curl is not installed")
def test_printed_curl_command_manages_a_compute_resource(server: RunningServer) -> None:
    command = server.process.output[0].split("try      ")[1].splitlines()[0]
    assert json.loads(_shell(command))["roles"] == [{"role": "admin", "scope": "platform"}]
    prefix = command.removesuffix("/api/v1/me")

    def curl(path: str, method: str = "GET", body: object = None) -> tuple[int, object]:
        command = f"{prefix}/api/v1{path} --silent --request {method} --write-out '\\n%{{http_code}}'"
        if body is not None:
            command += f" --header 'Content-Type: application/json' --data '{json.dumps(body)}'"
        text, _, status = _shell(command).rpartition("\n")
        return int(status), json.loads(text) if text else None

    def names() -> list[str]:
        status, page = curl("/compute-resources?search=curled")
        assert status == 200
        assert isinstance(page, dict)
        return [item["name"] for item in page["items"]]

    status, created = curl("/compute-resources", "POST", make_resource("curled"))
    assert status == 201
    assert isinstance(created, dict)
    assert created["requirements"]["resources"]["mem"] == {"requests": "4Gi"}
    assert names() == ["curled"]
    assert curl("/compute-resources/curled/copy", "POST", {"name": "curled-too"})[0] == 201
    assert names() == ["curled", "curled-too"]
    assert curl("/compute-resources/curled-too", "PATCH", {"name": "curled-renamed"})[0] == 200
    assert names() == ["curled", "curled-renamed"]
    assert curl("/compute-resources/curled", "DELETE") == (204, None)
    assert curl("/compute-resources/curled-renamed", "DELETE") == (204, None)
    assert names() == []
    assert curl("/compute-resources/curled")[0] == 404


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_server_shuts_down_cleanly_on_signals(machine: Machine, number: signal.Signals) -> None:
    server = machine.up()
    ended = server.stop(number)
    assert "Traceback" not in ended.err
    assert ended.code == 0
    assert not (server.data / "server.json").exists()
    # A closed SQLite database is a single file.
    assert [file.name for file in server.data.glob("fairlead.db*")] == ["fairlead.db"]


def test_options_override_variables_and_variables_override_the_file(machine: Machine) -> None:
    (machine.folder / "fairlead.toml").write_text(
        'data = "from-file"\nauth = "tokens"\npublic_url = "https://fairlead.example.org"\nadmins = "user:ada"\n'
    )
    server = machine.up(variables={"FAIRLEAD_DATA": "from-variable", "FAIRLEAD_AUTH": "local"})
    with server.client() as client:
        settings = client.get("/settings").json()["server"]
        assert (settings["auth"], settings["url"]) == ("local", "https://fairlead.example.org")
        subjects = {role["subject"] for role in client.get("/roles").json()["items"]}
    assert "user:ada" in subjects
    assert not (machine.folder / "from-file").exists()
    assert not (machine.folder / "from-variable").exists()


def test_empty_variables_are_ignored(machine: Machine) -> None:
    server = machine.up(variables={"FAIRLEAD_DATABASE": "", "FAIRLEAD_AUTH": "", "FAIRLEAD_FOLDER": ""})
    with server.client() as client:
        assert client.get("/settings").json()["server"]["database"] == "sqlite"


def test_server_on_all_interfaces_requires_a_token(machine: Machine) -> None:
    server = machine.up("--host", "0.0.0.0", "--auth", "tokens")
    address = server.url.replace("0.0.0.0", "127.0.0.1")
    assert httpx2.get(f"{address}/api/v1/me", **CLIENT_OPTIONS).status_code == 401
    headers = {"Authorization": f"Bearer {server.token}"}
    assert httpx2.get(f"{address}/api/v1/me", headers=headers, **CLIENT_OPTIONS).status_code == 200
    assert "sign in" not in server.process.output[0]


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _shell(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True, timeout=60).stdout
