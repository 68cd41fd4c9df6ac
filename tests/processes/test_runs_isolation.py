"""Runs on a server with root permissions cannot reach its secrets or each other."""

import os

import pytest

from fairlead.errors import NotFound
from tests.processes import execution
from tests.processes.execution import Platform, find_processes, wait_for_end, wait_for_output

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can run each run as a separate user")

# Tries every way to read a file without permission, and prints what it could read.
TRY_TO_READ = """
path={path}
cat $path
for pid in 1 $PPID $$; do
  cat /proc/$pid/root$path
  # Without a pipe, whose ends the shell may still have open.
  for fd in /proc/$pid/fd/*; do case ${{fd##*/}} in "*"|0|1|2|3|255) ;; *) echo $fd ;; esac; done
done
unshare --user --map-root-user --mount sh -c "umount -l {data}; umount {data}; mount -t tmpfs x /mnt; cat $path"
ln -s $path $FAIRLEAD_OUTPUT/link; ln $path $FAIRLEAD_OUTPUT/hard
mkdir $FAIRLEAD_OUTPUT/down; ln -s {data} $FAIRLEAD_OUTPUT/down/data
cat {data}/runs/*/home/* {data}/runs/*/log; ls -A {data} {data}/runs
true
"""


@pytest.mark.parametrize("name", ["token", "secret.key", "fairlead.db", "server.json", "listener/key"])
def test_run_cannot_read_files_of_the_server(platform: Platform, name: str) -> None:
    file = platform.server.data / name
    run = platform.shell(TRY_TO_READ.format(path=file, data=platform.server.data))
    assert wait_for_end(run)["state"] == "completed"
    output = "".join(line.text for line in run.read_logs() if line.stream == "stdout").split()
    assert output in ([], listing_of_hidden_folder(platform))
    assert run.files() == []
    for path in ("link", "hard", f"down/data/{name}", f"../../../../{name}", f"down/../../../../../{name}"):
        with pytest.raises(NotFound):
            run.read(path)


def listing_of_hidden_folder(platform: Platform) -> list[str]:
    """The output of `ls` for the server's data folder, which is empty inside a run."""
    return [f"{platform.server.data}:", f"{platform.server.data}/runs:"]


def test_run_sees_only_its_own_processes_and_environment(platform: Platform) -> None:
    other = platform.shell("sleep 60", envs={"NAME": "other-run"})
    execution.wait_for_state(other, "running")
    run = platform.shell(
        "env; cat /proc/[0-9]*/environ | tr '\\0' '\\n'; ls /proc | grep -cE '^[0-9]+$'; ls -l /proc/self/fd"
    )
    assert wait_for_end(run)["state"] == "completed"
    log = run.logs()
    assert "other-run" not in log
    assert "the-servers-own" not in log
    assert f"FAIRLEAD_RUN={run.id}" in log
    assert "FAIRLEAD_TOKEN" not in log
    assert int(log.split("FAIRLEAD_RUN")[-1].split("total")[0].split()[-1]) < 8
    other.stop()
    wait_for_end(other)


def test_run_cannot_kill_its_supervisor_or_another_run(platform: Platform) -> None:
    other = platform.shell(f"until [ -e {platform.shared}/go ]; do sleep 0.05; done")
    execution.wait_for_state(other, "running")
    targets = [*find_processes(other.id), platform.server.process.pid]
    kill = "    try:\n        os.kill(pid, 9)\n    except OSError as error:\n        print(error)\n"
    run = platform.python(f"import os\nfor pid in [1, -1, os.getppid(), *{targets}]:\n{kill}print('tried')")
    ended = wait_for_end(run)
    assert ended["state"] == "completed", ended
    assert run.logs().endswith("tried\n")
    assert str(other.state) == "running"
    (platform.shared / "go").touch()
    assert wait_for_end(other)["state"] == "completed"


def test_runs_have_the_requested_uid_inside_and_different_uids_on_the_host(platform: Platform) -> None:
    text = "id -u; id -g; touch $FAIRLEAD_OUTPUT/mine; stat -c '%u' $FAIRLEAD_OUTPUT/mine; echo up; sleep 60"
    runs = [platform.shell(text, run_as_user=2000 + index, run_as_group=3000) for index in range(2)]
    for run in runs:
        wait_for_output(run, "up")
    assert [run.logs().split() for run in runs] == [["2000", "3000", "2000", "up"], ["2001", "3000", "2001", "up"]]
    owners = {(platform.folder_of(run) / "home" / "output" / "mine").stat().st_uid for run in runs}
    assert len(owners) == 2
    assert min(owners) >= 700_000
    for run in runs:
        run.stop()
        wait_for_end(run)


def test_root_inside_a_run_is_an_unprivileged_user_on_the_host(platform: Platform) -> None:
    data = platform.server.data
    run = platform.shell(
        f"id -u; touch {platform.shared}/by-root; umount -l {data}; mount -t tmpfs x /mnt; cat {data}/secret.key; "
        "chown 5:5 $FAIRLEAD_OUTPUT; cat /etc/shadow; dmesg | head -1; true",
        run_as_user=0,
    )
    wait_for_end(run)
    assert "".join(line.text for line in run.read_logs() if line.stream == "stdout") == "0\n"
    assert (platform.shared / "by-root").stat().st_uid >= 700_000


def test_temporary_files_of_a_run_are_not_readable_by_later_runs(platform: Platform) -> None:
    first = platform.shell(
        "umask 077; echo private > /tmp/left-$FAIRLEAD_RUN; echo private > /dev/shm/left-$FAIRLEAD_RUN"
    )
    assert wait_for_end(first)["state"] == "completed"
    second = platform.shell(f"cat /tmp/left-{first.id} /dev/shm/left-{first.id}; true")
    try:
        assert wait_for_end(second)["state"] == "completed"
        assert "private" not in second.logs()
    finally:
        for folder in ("/tmp", "/dev/shm"):
            if os.path.exists(f"{folder}/left-{first.id}"):
                os.unlink(f"{folder}/left-{first.id}")


def test_folders_of_a_run_are_not_readable_by_other_users(platform: Platform) -> None:
    run = platform.shell("echo x > $FAIRLEAD_OUTPUT/mine; echo up; sleep 60")
    wait_for_output(run, "up")
    assert platform.server.data.stat().st_mode & 0o077 == 0
    for file in platform.folder_of(run).iterdir():
        if file.name in ("log", "usage.jsonl", "spec.json", "supervisor.err"):
            assert file.stat().st_mode & 0o077 == 0, file
    assert (platform.folder_of(run) / "home").stat().st_mode & 0o077 == 0
    run.stop()
    wait_for_end(run)


def test_secret_is_only_in_the_environment_of_its_run(platform: Platform) -> None:
    platform.project.set_secret("TOKEN", "only-for-this-run")
    run = platform.shell("sleep 60", secrets=["TOKEN"])
    execution.wait_for_state(run, "running")
    supervisor = platform.supervisor_of(run)
    for name in ("environ", "cmdline"):
        for pid in (supervisor, platform.server.process.pid):
            with open(f"/proc/{pid}/{name}", "rb") as file:
                assert b"only-for-this-run" not in file.read()
    # During exec, a process briefly has no environment.
    execution.until(lambda: any(has_in_environment(pid, b"only-for-this-run") for pid in find_processes(run.id)))
    run.stop()
    wait_for_end(run)


def has_in_environment(pid: int, text: bytes) -> bool:
    """Whether a process's environment contains a text."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        return text in file.read()


def test_run_with_many_processes_does_not_block_the_server(platform: Platform) -> None:
    run = platform.shell("for i in $(seq 300); do sleep 30 & done; echo up; wait")
    wait_for_output(run, "up")
    assert wait_for_end(platform.shell("true"))["state"] == "completed"
    run.stop()
    assert wait_for_end(run)["state"] == "stopped"
    assert find_processes(run.id) == []
