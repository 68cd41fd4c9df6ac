"""Log buffers: reading continues after a crash without lost or repeated lines."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.adapters.kubernetes.log_buffers import SECOND, LogBuffer
from fairlead.adapters.log_files import MAX_RECORD_BYTES, read_records

NOW = 1_700_000_000 * SECOND


Open = Callable[..., LogBuffer]


@pytest.fixture
def open_spool(tmp_path: Path) -> Iterator[Open]:
    """Opens the log of one run, again and again."""
    with contextlib.ExitStack() as opened:

        def open_it(*secrets: str, many: bool = False) -> LogBuffer:
            spool = LogBuffer(tmp_path / "r1.log", secrets, many=many)
            opened.callback(spool.close)
            return spool

        yield open_it


def read(folder: Path) -> str:
    """The log as it is shown; what the platform says stands in brackets."""
    pieces = read_records(folder / "r1.log", 0, 1 << 40)
    return "".join(f"[{it.data.decode()}]" if it.stream == "platform" else it.data.decode() for it in pieces)


def test_position_is_the_last_second_and_its_number_of_lines(open_spool: Open) -> None:
    spool = open_spool()
    assert spool.read_position("a") == (0, 0)
    for moment in (NOW, NOW + 1, NOW + SECOND, NOW + SECOND + 1, NOW + SECOND + 2):
        spool.add("a", moment, b"line\n")
    assert spool.read_position("a") == (1_700_000_001, 3)
    spool.add("a", NOW, b"late\n")  # two streams may be out of step by a little
    assert spool.read_position("a") == (1_700_000_001, 3)


@pytest.mark.parametrize("many", [False, True])
def test_second_buffer_on_the_same_file_reads_the_same_positions(open_spool: Open, many: bool) -> None:
    first = open_spool(many=many)
    for pod, moment in (("a", NOW), ("b", NOW), ("a", NOW + 1), ("b", NOW + SECOND)):
        first.add(pod, moment, b"line\n")
    second = open_spool(many=many)
    for pod in ("a", "b", "c"):
        assert second.read_position(pod) == first.read_position(pod)
    assert (second.read_position("a"), second.read_position("c")) == ((NOW // SECOND, 2), (0, 0))


def test_pod_is_named_only_if_there_are_several_pods(open_spool: Open, tmp_path: Path) -> None:
    spool = open_spool()
    for pod in "aabba":
        spool.add(pod, NOW, pod.encode() + b"\n")
    assert read(tmp_path) == "a\na\n[pod b:\n]b\nb\n[pod a:\n]a\n"


def test_first_of_many_pods_is_named(open_spool: Open, tmp_path: Path) -> None:
    spool = open_spool(many=True)
    for pod in "ab":
        spool.add(pod, NOW, pod.encode() + b"\n")
    assert read(tmp_path) == "[pod a:\n]a\n[pod b:\n]b\n"


def test_single_pod_continues_after_a_restart(open_spool: Open, tmp_path: Path) -> None:
    open_spool().add("a", NOW, b"before\n")
    open_spool().add("a", NOW, b"after\n")
    assert read(tmp_path) == "before\nafter\n"


def test_replacement_pod_is_read_from_its_start_after_a_restart(open_spool: Open, tmp_path: Path) -> None:
    open_spool().add("old", NOW, b"before\n")
    again = open_spool()
    assert (again.read_position("old"), again.read_position("new")) == ((NOW // SECOND, 1), (0, 0))
    again.add("new", NOW, b"after\n")
    assert read(tmp_path) == "before\n[pod new:\n]after\n"


def test_truncated_record_is_replaced(open_spool: Open, tmp_path: Path) -> None:
    open_spool().add("a", NOW, b"whole\n")
    file = tmp_path / "r1.log"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:-2])
    again = open_spool()
    assert again.read_position("a") == (NOW // SECOND, 1)
    again.add("a", NOW, b"next\n")
    assert read(tmp_path) == "whole\nnext\n"


def test_split_line_counts_as_one_line(open_spool: Open) -> None:
    spool = open_spool()
    spool.add("a", NOW, b"x" * 2 * MAX_RECORD_BYTES + b"yz\n")
    spool.add("a", NOW, b"short\n")
    assert spool.read_position("a") == open_spool().read_position("a") == (NOW // SECOND, 2)


def test_closed_buffer_stores_nothing(open_spool: Open, tmp_path: Path) -> None:
    spool = open_spool()
    spool.add("a", NOW, b"before\n")
    spool.close()
    spool.add("a", NOW, b"after\n")
    assert read(tmp_path) == "before\n"
    assert open_spool().read_position("a") == (NOW // SECOND, 1)


def test_secrets_are_masked(open_spool: Open, tmp_path: Path) -> None:
    spool = open_spool("hunter22", "two\nlines")
    for line in (b"it is hunter22!\n", b"two\n", b"lines\n", b"plain\n"):
        spool.add("a", NOW, line)
    assert read(tmp_path) == "it is ***!\ntwo\n***\nplain\n"  # values shorter than four characters are not masked
