"""When a run that serves is ready, degraded, and started again: told from what is seen, by a clock of the test."""

import pytest

from fairlead.adapters.local.serve_state import BACKOFF_RESET_SECONDS, PROBE_SECONDS, ServeState


class Trial:
    """A run that answers where the test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.address: str | None = None
        self.looks = 0
        self.served = ServeState(self._find, "port 9000", self.now)

    def _find(self) -> str | None:
        self.looks += 1
        return self.address

    def look(self, seconds: float = 0.0) -> bool:
        """Look after a while."""
        self.now += seconds
        return self.served.probe(self.now)

    def end(self, reason: str = "ExitCode", message: str = "exited with code 1") -> float:
        """End its process; the seconds until it is started again."""
        self.served.record_exit(reason, message, self.now)
        assert self.served.restart_at is not None
        return self.served.restart_at - self.now

    def begin(self) -> None:
        """Start it again when it is time."""
        assert self.served.restart_at is not None
        self.now = self.served.restart_at
        assert self.served.is_restart_due(self.now)
        self.served.record_restart(self.now)

    @property
    def told(self) -> tuple[str, str]:
        """The reported state."""
        return self.served.phase, self.served.reason


def test_run_is_starting_until_it_accepts_connections() -> None:
    trial = Trial()
    assert not trial.look()
    assert (trial.told, trial.served.address) == (("starting", ""), None)
    assert "port 9000" in trial.served.message
    trial.address = "127.0.0.1:9000"
    assert trial.look(1)
    assert (trial.told, trial.served.address) == (("running", "Ready"), "127.0.0.1:9000")
    assert not trial.look(PROBE_SECONDS), "nothing is new"


def test_slow_start_is_probed_less_often_with_a_maximum_interval() -> None:
    trial = Trial()
    for _ in range(6000):  # ten minutes
        trial.look(0.1)
    assert 100 < trial.looks < 400
    trial.address = "serve.sock"
    assert any(trial.look(0.1) for _ in range(int(PROBE_SECONDS * 10) + 2))


def test_unresponsive_process_is_degraded_after_repeated_failures() -> None:
    trial = Trial()
    trial.address = "serve.sock"
    trial.look()
    trial.address = None
    assert not trial.look(PROBE_SECONDS)
    assert trial.told == ("running", "Ready"), "once may be by chance"
    assert trial.look(PROBE_SECONDS)
    assert trial.told == ("degraded", "NotReady")
    assert trial.served.address is None
    trial.address = "serve.sock"
    assert trial.look(PROBE_SECONDS)
    assert trial.told == ("running", "Ready")


def test_address_is_cleared_after_the_first_failed_probe_of_a_port() -> None:
    trial = Trial()
    trial.address = "127.0.0.1:8080"
    trial.look()
    trial.address = None
    assert trial.look(PROBE_SECONDS)
    assert (trial.told, trial.served.address) == (("running", "Ready"), None)


def test_restart_backoff_grows_to_a_minute() -> None:
    trial, pauses = Trial(), []
    for _ in range(9):
        pauses.append(trial.end())
        trial.begin()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


@pytest.mark.parametrize(("steady", "pause"), [(BACKOFF_RESET_SECONDS, 1), (BACKOFF_RESET_SECONDS - PROBE_SECONDS, 8)])
def test_restart_backoff_resets_after_a_minute_of_readiness(steady: float, pause: int) -> None:
    trial = Trial()
    for _ in range(3):
        trial.end()
        trial.begin()
    trial.address = "serve.sock"
    trial.look()
    trial.look(steady)
    assert trial.end() == pause


def test_exited_process_is_degraded_with_exit_code_and_restart_count() -> None:
    trial = Trial()
    trial.address = "serve.sock"
    trial.look()
    trial.address = None
    trial.end(message="exited with code 3: no weights")
    assert (trial.told, trial.served.address) == (("degraded", "CrashLoopBackOff"), None)
    words = "exited with code 3: no weights; it has exited once and restarts in 1 s"
    assert trial.served.message == words
    assert not trial.look(0.5), "there is nothing to look at"
    trial.begin()
    assert trial.told == ("degraded", "CrashLoopBackOff")
    assert trial.served.message.startswith("exited with code 3: no weights; it has exited once and was restarted")
    trial.end(message="exited with code 4")
    assert trial.served.message == "exited with code 4; it has exited twice and restarts in 2 s"
    trial.begin()
    trial.address = "serve.sock"
    assert trial.look()
    assert (trial.told, trial.served.message) == (("running", "Ready"), "ready to serve requests")


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("OOMKilled", "OOMKilled"),
        ("Evicted", "Evicted"),
        ("ExitCode", "CrashLoopBackOff"),
        ("", "CrashLoopBackOff"),
        ("StartFailed", "CrashLoopBackOff"),
    ],
)
def test_degraded_reason_distinguishes_kills_from_exits(reason: str, told: str) -> None:
    trial = Trial()
    trial.end(reason)
    assert trial.told == ("degraded", told)
