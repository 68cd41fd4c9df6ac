"""Logs on a real server: complete, ordered, readable during and after the run, with masked secrets."""

import signal
import threading
from dataclasses import replace

import httpx2

from fairlead.sdk.runs import Run
from tests.processes import execution
from tests.processes.execution import Platform, read_files, read_peak_memory, until, wait_for_end
from tests.processes.machines import Machine

MIB = 1 << 20
EVERY_BYTE = """
import os
for stream in (1, 2):
    for _ in range(300):
        os.write(stream, bytes(range(256)) * 7)
"""
SECRET_IN_PIECES = """
import os, time
secret = os.environ["PASSWORD"].encode()
for at in range(len(secret)):
    os.write(1, b"[" + secret[:at])
    time.sleep(0.15 if at in (3, 8) else 0)
    os.write(1, secret[at:] + b"]\\n")
os.write(2, secret + secret)
for byte in secret:
    os.write(1, bytes([byte]))
os.write(1, b"\\nsuper-se")
raise ValueError("with " + os.environ["PASSWORD"])
"""


def test_line_of_ten_megabytes_is_stored_completely(platform: Platform) -> None:
    run = platform.shell("head -c 10M /dev/zero | tr '\\0' x; echo; echo done")
    assert wait_for_end(run)["state"] == "completed"
    assert read_raw(platform, run) == b"x" * 10 * MIB + b"\ndone\n"
    assert "".join(line.text for line in run.read_logs()) == "x" * 10 * MIB + "\ndone\n"


def test_every_byte_is_stored_with_its_stream(platform: Platform) -> None:
    run = platform.python(EVERY_BYTE)
    assert wait_for_end(run)["state"] == "completed"
    written = bytes(range(256)) * 7 * 300
    for stream in ("stdout", "stderr"):
        assert b"".join(line.data for line in run.read_logs() if line.stream == stream) == written
        assert read_raw(platform, run, stream=stream) == written
    assert len(read_raw(platform, run)) == 2 * len(written)


def test_two_hundred_megabytes_of_output_use_little_memory(platform: Platform) -> None:
    run = platform.shell(f"head -c 200M /dev/zero; until [ -e {platform.shared}/enough ]; do sleep 0.05; done")
    log = platform.folder_of(run) / "log"
    until(lambda: log.exists() and log.stat().st_size > 200 * MIB)
    assert read_peak_memory(platform.supervisor_of(run)) < 60 * MIB
    size = 0
    with platform.project.api.stream(f"/runs/{run.id}/logs", format="raw") as response:
        for chunk in response.iter_bytes():
            size += len(chunk)
    assert size == 200 * MIB
    assert read_peak_memory(platform.server.process.pid) < 300 * MIB
    (platform.shared / "enough").touch()
    assert wait_for_end(run)["state"] == "completed"


def test_secrets_written_in_pieces_are_masked(platform: Platform) -> None:
    secret = "super-secret-Ünicode"
    platform.project.set_secret("PASSWORD", secret)
    run = platform.python(SECRET_IN_PIECES, secrets=["PASSWORD"])
    ended = wait_for_end(run)
    assert ended["message"] == "ValueError: with ***"
    written = read_raw(platform, run)
    assert secret.encode() not in written
    assert read_raw(platform, run, stream="stdout") == b"[***]\n" * len(secret.encode()) + b"***\nsuper-se"
    assert read_raw(platform, run, stream="stderr").startswith(b"******")
    assert secret not in str(platform.project.api.get(f"/runs/{run.id}/result"))
    for file, content in read_files(platform.folder_of(run)):
        assert secret.encode() not in content, file


def test_log_is_followed_line_by_line(platform: Platform) -> None:
    run = platform.shell(
        f"for i in 1 2 3; do echo $i; until [ -e {platform.shared}/read$i ]; do sleep 0.02; done; done"
    )
    lines = []
    for line in run.read_logs(follow=True):
        lines.append(line.text)
        (platform.shared / f"read{len(lines)}").touch()
    assert lines == ["1\n", "2\n", "3\n"]
    assert wait_for_end(run)["state"] == "completed"


def test_cursor_returns_the_rest_and_invalid_cursor_is_rejected(platform: Platform) -> None:
    run = platform.shell("for i in 1 2 3 4; do echo $i; sleep 0.02; done")
    wait_for_end(run)
    with platform.server.client() as client:
        page = client.get(f"/runs/{run.id}/logs").json()
        assert page["complete"]
        rest = client.get(f"/runs/{run.id}/logs", params={"cursor": page["entries"][1]["cursor"]}).json()
        assert rest["entries"] == page["entries"][2:]
        for cursor in (1, 10**9):
            response = client.get(f"/runs/{run.id}/logs", params={"cursor": cursor})
            assert (response.status_code, response.json()["violations"][0]["path"]) == (422, "cursor")


def test_following_resumes_after_a_server_restart(machine: Machine) -> None:
    with execution.open_platform(machine) as platform:
        go = platform.shared / "go"
        run = platform.shell(f"seq 3; until [ -e {go} ]; do sleep 0.02; done; seq 4 6")
        received: list[bytes] = []
        following = threading.Thread(target=lambda: received.extend(line.data for line in run.read_logs(follow=True)))
        following.start()
        until(lambda: b"".join(received) == b"1\n2\n3\n")
        port = platform.server.url.rpartition(":")[2]
        platform.server.stop(signal.SIGKILL)
        go.touch()
        platform = replace(platform, server=machine.up("--port", port))
        following.join(30)
        assert b"".join(received) == b"1\n2\n3\n4\n5\n6\n"


def test_event_stream_resumes_after_last_event_id(platform: Platform) -> None:
    run = platform.shell("for i in 1 2 3; do echo $i; sleep 0.05; done")
    wait_for_end(run)
    with platform.server.client() as client:
        events = client.get(f"/runs/{run.id}/logs", params={"follow": True}).text.strip().split("\n\n")
        assert [event.split("\n")[1] for event in events] == ["event: log"] * 3 + ["event: end"]
        headers = {"Last-Event-ID": events[0].split("\n")[0].removeprefix("id: ")}
        rest = client.get(f"/runs/{run.id}/logs", params={"follow": True}, headers=headers).text.strip().split("\n\n")
        assert rest == events[1:]


def test_unfinished_line_is_shown(platform: Platform) -> None:
    run = platform.shell("printf 'Password: '; sleep 30")
    until(lambda: run.logs() == "Password: ", 10)
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"


def test_log_of_a_queued_run_can_be_read(platform: Platform) -> None:
    with platform.server.client() as client:
        run = platform.shell("echo hello")
        response: httpx2.Response = client.get(f"/runs/{run.id}/logs")
        assert response.status_code == 200
        assert [line.text for line in run.read_logs(follow=True)] == ["hello\n"]


def read_raw(platform: Platform, run: Run, **parameters: str) -> bytes:
    """The raw log of a run."""
    with platform.project.api.stream(f"/runs/{run.id}/logs", format="raw", **parameters) as response:
        return response.read()
