"""State of served runs: starting, ready, degraded and restarted, from probes and a fake clock."""

import pytest

from fairlead.adapters.local.supervisor import BACKOFF_RESET_SECONDS, PROBE_SECONDS, ServeState


class ServedRun:
    """A served run with a fake clock. Tests set the address that the probe finds."""

    def __init__(self) -> None:
        self.now = 100.0
        self.address: str | None = None
        self.probes = 0
        self.state = ServeState(self._find, "port 9000", self.now)

    def _find(self) -> str | None:
        self.probes += 1
        return self.address

    def probe(self, seconds: float = 0.0) -> bool:
        """Advance the clock, and probe the run."""
        self.now += seconds
        return self.state.probe(self.now)

    def end(self, reason: str = "ExitCode", message: str = "exited with code 1") -> float:
        """Record an exit, and return the seconds until the restart."""
        self.state.record_exit(reason, message, self.now)
        assert self.state.restart_at is not None
        return self.state.restart_at - self.now

    def restart(self) -> None:
        """Restart the run at the scheduled time."""
        assert self.state.restart_at is not None
        self.now = self.state.restart_at
        assert self.state.is_restart_due(self.now)
        self.state.record_restart(self.now)

    @property
    def reported(self) -> tuple[str, str]:
        """The reported state."""
        return self.state.phase, self.state.reason


def test_run_is_starting_until_it_accepts_connections() -> None:
    run = ServedRun()
    assert not run.probe()
    assert (run.reported, run.state.address) == (("starting", ""), None)
    assert "port 9000" in run.state.message
    run.address = "127.0.0.1:9000"
    assert run.probe(1)
    assert (run.reported, run.state.address) == (("running", "Ready"), "127.0.0.1:9000")
    assert not run.probe(PROBE_SECONDS), "no change"


def test_slow_start_is_probed_less_often_with_a_maximum_interval() -> None:
    run = ServedRun()
    for _ in range(6000):  # ten minutes
        run.probe(0.1)
    assert 100 < run.probes < 400
    run.address = "serve.sock"
    assert any(run.probe(0.1) for _ in range(int(PROBE_SECONDS * 10) + 2))


def test_unresponsive_process_is_degraded_after_repeated_failures() -> None:
    run = ServedRun()
    run.address = "serve.sock"
    run.probe()
    run.address = None
    assert not run.probe(PROBE_SECONDS)
    assert run.reported == ("running", "Ready"), "one failure is tolerated"
    assert run.probe(PROBE_SECONDS)
    assert run.reported == ("degraded", "NotReady")
    assert run.state.address is None
    run.address = "serve.sock"
    assert run.probe(PROBE_SECONDS)
    assert run.reported == ("running", "Ready")


def test_address_is_cleared_after_the_first_failed_probe_of_a_port() -> None:
    run = ServedRun()
    run.address = "127.0.0.1:8080"
    run.probe()
    run.address = None
    assert run.probe(PROBE_SECONDS)
    assert (run.reported, run.state.address) == (("running", "Ready"), None)


def test_restart_backoff_grows_to_a_minute() -> None:
    run, pauses = ServedRun(), []
    for _ in range(9):
        pauses.append(run.end())
        run.restart()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize(
    ("ready_seconds", "pause"), [(BACKOFF_RESET_SECONDS, 1), (BACKOFF_RESET_SECONDS - PROBE_SECONDS, 8)]
)
def test_restart_backoff_resets_after_a_minute_of_readiness(ready_seconds: float, pause: int) -> None:
    run = ServedRun()
    for _ in range(3):
        run.end()
        run.restart()
    run.address = "serve.sock"
    run.probe()
    run.probe(ready_seconds)
    assert run.end() == pause


def test_exited_process_is_degraded_with_exit_code_and_restart_count() -> None:
    run = ServedRun()
    run.address = "serve.sock"
    run.probe()
    run.address = None
    run.end(message="exited with code 3: no weights")
    assert (run.reported, run.state.address) == (("degraded", "CrashLoopBackOff"), None)
    message = "exited with code 3: no weights; it has exited once and will restart in 1 s"
    assert run.state.message == message
    assert not run.probe(0.5), "an exited process is not probed"
    run.restart()
    assert run.reported == ("degraded", "CrashLoopBackOff")
    assert run.state.message.startswith("exited with code 3: no weights; it has exited once and was restarted")
    run.end(message="exited with code 4")
    assert run.state.message == "exited with code 4; it has exited twice and will restart in 2 s"
    run.restart()
    run.address = "serve.sock"
    assert run.probe()
    assert (run.reported, run.state.message) == (("running", "Ready"), "ready to serve requests")


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("OOMKilled", "OOMKilled"),
        ("Evicted", "Evicted"),
        ("ExitCode", "CrashLoopBackOff"),
        ("", "CrashLoopBackOff"),
        ("StartFailed", "CrashLoopBackOff"),
    ],
)
def test_degraded_reason_distinguishes_kills_from_exits(reason: str, expected: str) -> None:
    run = ServedRun()
    run.end(reason)
    assert run.reported == ("degraded", expected)
