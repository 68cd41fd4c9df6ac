"""Log buffers: reading continues after a crash without lost or repeated lines."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fairlead.adapters.kubernetes.logs import SECOND, LogBuffer
from fairlead.adapters.logs import MAX_RECORD_BYTES, read_records

NOW = 1_700_000_000 * SECOND


Open = Callable[..., LogBuffer]


@pytest.fixture
def open_buffer(tmp_path: Path) -> Iterator[Open]:
    """Open the log of one run, any number of times."""
    with contextlib.ExitStack() as stack:

        def open_log(*secrets: str, many: bool = False) -> LogBuffer:
            buffer = LogBuffer(tmp_path / "r1.log", secrets, many=many)
            stack.callback(buffer.close)
            return buffer

        yield open_log


def read(folder: Path) -> str:
    """The log as text, with the platform's records in brackets."""
    records = read_records(folder / "r1.log", 0, 1 << 40)
    return "".join(
        f"[{record.data.decode()}]" if record.stream == "platform" else record.data.decode() for record in records
    )


def test_position_is_the_last_second_and_its_number_of_lines(open_buffer: Open) -> None:
    buffer = open_buffer()
    assert buffer.read_position("a") == (0, 0)
    for at in (NOW, NOW + 1, NOW + SECOND, NOW + SECOND + 1, NOW + SECOND + 2):
        buffer.add("a", at, b"line\n")
    assert buffer.read_position("a") == (1_700_000_001, 3)
    buffer.add("a", NOW, b"late\n")  # lines of two streams may be slightly out of order
    assert buffer.read_position("a") == (1_700_000_001, 3)


@pytest.mark.parametrize("many", [False, True])
def test_second_buffer_on_the_same_file_reads_the_same_positions(open_buffer: Open, many: bool) -> None:
    first = open_buffer(many=many)
    for pod, at in (("a", NOW), ("b", NOW), ("a", NOW + 1), ("b", NOW + SECOND)):
        first.add(pod, at, b"line\n")
    second = open_buffer(many=many)
    for pod in ("a", "b", "c"):
        assert second.read_position(pod) == first.read_position(pod)
    assert (second.read_position("a"), second.read_position("c")) == ((NOW // SECOND, 2), (0, 0))


def test_pod_is_named_only_if_there_are_several_pods(open_buffer: Open, tmp_path: Path) -> None:
    buffer = open_buffer()
    for pod in "aabba":
        buffer.add(pod, NOW, pod.encode() + b"\n")
    assert read(tmp_path) == "a\na\n[pod b:\n]b\nb\n[pod a:\n]a\n"


def test_first_of_many_pods_is_named(open_buffer: Open, tmp_path: Path) -> None:
    buffer = open_buffer(many=True)
    for pod in "ab":
        buffer.add(pod, NOW, pod.encode() + b"\n")
    assert read(tmp_path) == "[pod a:\n]a\n[pod b:\n]b\n"


def test_single_pod_continues_after_a_restart(open_buffer: Open, tmp_path: Path) -> None:
    open_buffer().add("a", NOW, b"before\n")
    open_buffer().add("a", NOW, b"after\n")
    assert read(tmp_path) == "before\nafter\n"


def test_replacement_pod_is_read_from_its_start_after_a_restart(open_buffer: Open, tmp_path: Path) -> None:
    open_buffer().add("old", NOW, b"before\n")
    reopened = open_buffer()
    assert (reopened.read_position("old"), reopened.read_position("new")) == ((NOW // SECOND, 1), (0, 0))
    reopened.add("new", NOW, b"after\n")
    assert read(tmp_path) == "before\n[pod new:\n]after\n"


def test_truncated_record_is_replaced(open_buffer: Open, tmp_path: Path) -> None:
    open_buffer().add("a", NOW, b"whole\n")
    file = tmp_path / "r1.log"
    content = file.read_bytes()
    file.write_bytes(content + content[:-2])
    reopened = open_buffer()
    assert reopened.read_position("a") == (NOW // SECOND, 1)
    reopened.add("a", NOW, b"next\n")
    assert read(tmp_path) == "whole\nnext\n"


def test_split_line_counts_as_one_line(open_buffer: Open) -> None:
    buffer = open_buffer()
    buffer.add("a", NOW, b"x" * 2 * MAX_RECORD_BYTES + b"yz\n")
    buffer.add("a", NOW, b"short\n")
    assert buffer.read_position("a") == open_buffer().read_position("a") == (NOW // SECOND, 2)


def test_closed_buffer_stores_nothing(open_buffer: Open, tmp_path: Path) -> None:
    buffer = open_buffer()
    buffer.add("a", NOW, b"before\n")
    buffer.close()
    buffer.add("a", NOW, b"after\n")
    assert read(tmp_path) == "before\n"
    assert open_buffer().read_position("a") == (NOW // SECOND, 1)


def test_secrets_are_masked(open_buffer: Open, tmp_path: Path) -> None:
    buffer = open_buffer("hunter22", "two\nlines")
    for line in (b"it is hunter22!\n", b"two\n", b"lines\n", b"plain\n"):
        buffer.add("a", NOW, line)
    assert read(tmp_path) == "it is ***!\ntwo\n***\nplain\n"  # values shorter than four characters are not masked
