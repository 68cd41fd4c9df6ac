"""User and group IDs of runs: none is given twice, and a project's groups depend only on its ID."""

import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fairlead.adapters.local import id_table
from fairlead.adapters.local.id_table import BLOCK, CONTAINER_IDS, COUNTER, IDS, IdTable, find_ids
from fairlead.adapters.local.specs import Spec
from fairlead.errors import FairleadError, StartFailed, Unavailable
from tests.adapters.local.making import make_launch_spec, this_machine
from tests.contracts.executors import ENDED, LocalBench, read_all

only_root = pytest.mark.skipif(os.getuid() != 0, reason="NOT TESTED: only root runs each run as a separate user")
TAKE = (
    "import sys; from pathlib import Path; from fairlead.adapters.local.id_table import IdTable\n"
    "table = IdTable(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    "print(*(table.take_user() for _ in range(250)))"
)
WRITE = "def main():\n    import os\n    os.umask(0o007)\n    open('/v/file', 'w').write('mine')\n"
READ = "def main():\n    print(open('/v/file').read(), end='')\n"


@pytest.fixture
def open_table(tmp_path: Path) -> Callable[..., IdTable]:
    """Opens a machine's table for a server's data folder."""

    def open_for(data: str = "data", file: str = "ids/ids.db") -> IdTable:
        (tmp_path / data).mkdir(exist_ok=True)
        return IdTable(tmp_path / file, tmp_path / data)

    return open_for


@pytest.fixture
def open_bench(tmp_path: Path) -> Iterator[Callable[[str], LocalBench]]:
    """Opens executors with data folders of their own, with this machine's table."""
    opened: list[LocalBench] = []

    def open_for(data: str) -> LocalBench:
        opened.append(LocalBench(tmp_path / data, this_machine()))
        return opened[-1]

    yield open_for
    for bench in opened:
        bench.close()


def uid_of(bench: LocalBench, run_id: str) -> int:
    """The user ID of a run on the host."""
    bench.start(run_id, "def main():\n    pass\n")
    uid = Spec.load(bench.data / "runs" / run_id).identity.outer_uid
    assert uid is not None
    return uid


def test_user_ids_are_never_given_twice(open_table: Callable[..., IdTable]) -> None:
    taken = []
    for data in ("a", "b", "a"):  # a restart opens the table again
        table = open_table(data)
        taken += [table.take_user() for _ in range(BLOCK + 1)]
    assert len(set(taken)) == len(taken)
    assert {min(taken), max(taken)} <= set(IDS[: len(taken) * BLOCK])


def test_servers_that_start_runs_at_the_same_time_share_no_id(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", TAKE, str(tmp_path / "ids" / "ids.db")]
    for name in "abc":
        (tmp_path / name).mkdir()
    servers = [
        subprocess.Popen([*arguments, str(tmp_path / name)], stdout=subprocess.PIPE, text=True) for name in "abc"
    ]
    taken = [uid for server in servers for uid in server.communicate()[0].split()]
    assert len(taken) == len(set(taken)) == 750


def test_data_folder_on_another_machine_reuses_no_user_id(open_table: Callable[..., IdTable]) -> None:
    before = open_table(file="old/ids.db")
    taken = {before.take_user() for _ in range(BLOCK * 2 + 1)}
    after = open_table(file="new/ids.db")
    assert not taken & {after.take_user() for _ in range(BLOCK * 3)}


def test_table_without_free_ids_starts_no_run(open_table: Callable[..., IdTable], tmp_path: Path) -> None:
    table = open_table()
    (tmp_path / "data" / COUNTER).write_text(str(IDS[-1]))
    assert table.take_user() == IDS[-1]
    with pytest.raises(StartFailed, match="all user IDs"):
        table.take_user()


@pytest.mark.parametrize(
    ("mapped", "expected"),
    [
        ("0 0 4294967295\n", IDS),
        ("0 1000000 1000000000\n", CONTAINER_IDS),
        ("0 1000 1\n1 100000 999999\n1000000 2000000 999000000\n", CONTAINER_IDS),
        ("0 1000 1\n1 100000 65536\n", None),
    ],
)
def test_ids_for_runs_exist_in_the_container_of_the_server(tmp_path: Path, mapped: str, expected: range | None) -> None:
    users, groups = tmp_path / "uid_map", tmp_path / "gid_map"
    groups.write_text("0 0 4294967295\n")
    users.write_text(mapped)
    if expected is None:
        with pytest.raises(FairleadError, match="this container has no user IDs from 1000000 to 999999999 for runs"):
            find_ids((str(users), str(groups)))
    else:
        assert find_ids((str(users), str(groups))) == expected


def test_subordinate_ids_of_users_are_skipped(
    open_table: Callable[..., IdTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = [range(IDS[10], IDS[1000]), range(100_000, 165_536)]
    monkeypatch.setattr(id_table, "_read_subordinate", lambda _file: ranges)
    assert open_table().take_user() == IDS[1000]


def test_subordinate_id_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "subuid").write_text("ada:100000:65536\n# a comment\nbroken:x:y\n1001:165536:10\n")
    assert id_table._read_subordinate(str(tmp_path / "subuid")) == [range(100_000, 165_536), range(165_536, 165_546)]
    assert id_table._read_subordinate(str(tmp_path / "missing")) == []


def test_groups_of_projects_stay_and_never_collide(
    open_table: Callable[..., IdTable], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_table, "IDS", IDS[:200])  # so that most first choices are taken
    table = open_table()
    wanted = [(f"project-{number}", gid) for number in range(80) for gid in (0, 1000)]
    groups = {key: table.find_group(*key) for key in wanted}
    assert len(set(groups.values())) == len(wanted)
    assert set(groups.values()) <= set(IDS[:200])
    after = open_table("another")
    assert {key: after.find_group(*key) for key in reversed(wanted)} == groups


def test_first_project_gets_the_same_group_on_every_machine(open_table: Callable[..., IdTable]) -> None:
    assert open_table(file="a/ids.db").find_group("p", 1000) == open_table(file="b/ids.db").find_group("p", 1000)


def test_locked_table_delays_the_start_and_a_broken_one_stops_the_server(
    open_table: Callable[..., IdTable], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(id_table, "TIMEOUT_SECONDS", 0.05)
    table, other = open_table(), open_table("other")
    with other._changing(), pytest.raises(Unavailable, match="which contains the user IDs of runs: database is locked"):
        table.take_user()
    assert table.take_user() in IDS
    (tmp_path / "ids" / "ids.db").write_text("no table " * 100)
    with pytest.raises(FairleadError, match=r"cannot write .*ids\.db"):
        open_table()


def test_folder_that_others_can_write_to_is_refused(open_table: Callable[..., IdTable], tmp_path: Path) -> None:
    (tmp_path / "ids").mkdir()
    (tmp_path / "ids").chmod(0o777)
    with pytest.raises(FairleadError, match="can write to") as refused:
        open_table()
    assert refused.value.hint == "set id_table to a file in a folder that only root can write to"


@only_root
def test_runs_whose_ids_have_the_same_checksum_have_different_users(open_bench: Callable[[str], LocalBench]) -> None:
    assert zlib.crc32(b"plumless") == zlib.crc32(b"buckeroo")
    bench = open_bench("data")
    first = uid_of(bench, "plumless")
    bench.until("plumless", *ENDED)
    assert uid_of(bench, "buckeroo") != first


@only_root
def test_runs_of_servers_with_different_data_folders_have_different_users(
    open_bench: Callable[[str], LocalBench],
) -> None:
    assert uid_of(open_bench("a"), "r1") != uid_of(open_bench("b"), "r1")


@only_root
def test_renamed_project_keeps_its_files_and_a_new_project_with_its_name_gets_other_groups(
    open_bench: Callable[[str], LocalBench],
) -> None:
    bench = open_bench("data")
    volume = {"volume_type": "shared_volume", "name": "v", "mount_path": "/v", "spec": {"claim_name": "v"}}
    groups = []
    for run_id, program, project, project_id in (
        ("r1", WRITE, "p-one", "id-1"),
        ("r2", READ, "p-two", "id-1"),
        ("r3", READ, "p-one", "id-2"),
    ):
        launch = make_launch_spec(run_id, program, volumes=[volume], shared={"v": "v1"})
        bench.executor.start(replace(launch, project=project, project_id=project_id))
        bench.until(run_id, *ENDED)
        groups.append(Spec.load(bench.data / "runs" / run_id).identity.outer_gid)
    assert (groups[0] == groups[1], groups[0] == groups[2]) == (True, False)
    assert read_all(bench.executor, "r2")["stdout"] == b"mine"
    assert b"Permission denied" in read_all(bench.executor, "r3")["stderr"]


@only_root
def test_project_named_like_a_checksum_of_another_gets_a_group_of_its_own(
    open_bench: Callable[[str], LocalBench],
) -> None:
    names = ("p-beta", "a83")
    assert len({zlib.crc32(name.encode()) % 20_000 for name in names}) == 1
    bench = open_bench("data")
    for name in names:
        bench.executor.start(make_launch_spec(f"r-{name}", READ, project=name))
    assert len({Spec.load(bench.data / "runs" / f"r-{name}").identity.outer_gid for name in names}) == 2
