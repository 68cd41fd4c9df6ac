"""The seccomp filter: denied and allowed system calls on both architectures, and its effect on a process."""

import errno
import struct
import subprocess
import sys

import pytest

from fairlead.adapters.local import seccomp
from fairlead.adapters.local.seccomp import ALLOW, ARCHITECTURES, DENY, KILL_PROCESS, RETURN_ERRNO

MISSING = RETURN_ERRNO | errno.ENOSYS
MACHINES = sorted(ARCHITECTURES)
CLONE_VM, CLONE_NEWUSER, CLONE_NEWNET, SIGCHLD = 0x100, 0x10000000, 0x40000000, 17
AF_INET, AF_PACKET, AF_ALG, AF_VSOCK = 2, 17, 38, 40
TIOCSTI, TIOCGWINSZ = 0x5412, 0x5413
FILTERS = {machine: list(struct.iter_unpack("=HBBI", seccomp.build_filter(machine))) for machine in MACHINES}

INSTALL = (
    "from fairlead.adapters.local import namespaces, seccomp; namespaces.prctl(namespaces.PR_SET_NO_NEW_PRIVS, 1);"
    "seccomp.install();"
)


def evaluate(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Interpret the filter for one system call, as the kernel does."""
    own = ARCHITECTURES[machine][1] if architecture is None else architecture
    data = struct.pack("=IIQ6Q", number, own, 0, *arguments, *[0] * (6 - len(arguments)))
    code = FILTERS[machine]
    position = accumulator = 0
    while True:
        operation, if_true, if_false, value = code[position]
        position += 1
        match operation:
            case seccomp.LOAD:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case seccomp.RETURN:
                return int(value)
            case seccomp.JUMP_EQUAL:
                position += if_true if accumulator == value else if_false
            case seccomp.JUMP_GREATER:
                position += if_true if accumulator > value else if_false
            case seccomp.JUMP_SET:
                position += if_true if accumulator & value else if_false


@pytest.mark.parametrize("machine", MACHINES)
def test_every_listed_call_is_denied(machine: str) -> None:
    column = ARCHITECTURES[machine][0]
    for name, numbers in seccomp.DENIED.items():
        number = numbers[column]
        assert number is None or evaluate(machine, number) == DENY, name


@pytest.mark.parametrize("machine", MACHINES)
def test_other_calls_are_allowed(machine: str) -> None:
    column = ARCHITECTURES[machine][0]
    filtered = {numbers[column] for numbers in (*seccomp.DENIED.values(), seccomp.PERSONALITY, seccomp.SOCKET)}
    allowed = [number for number in range(seccomp.LAST + 1) if number not in {*filtered, seccomp.CLONE3}]
    assert [number for number in allowed if evaluate(machine, number, 0) != ALLOW] == []


@pytest.mark.parametrize("machine", MACHINES)
def test_arguments_decide_about_some_calls(machine: str) -> None:
    column = ARCHITECTURES[machine][0]
    clone, personality, socket, ioctl = (
        numbers[column] for numbers in (seccomp.CLONE, seccomp.PERSONALITY, seccomp.SOCKET, seccomp.IOCTL)
    )
    assert evaluate(machine, clone, CLONE_VM | SIGCHLD) == ALLOW
    assert evaluate(machine, clone, CLONE_NEWUSER | SIGCHLD) == evaluate(machine, clone, CLONE_NEWNET) == DENY
    assert evaluate(machine, personality, 0xFFFFFFFF) == ALLOW
    assert evaluate(machine, personality, 0x0040000) == DENY  # ADDR_NO_RANDOMIZE
    assert evaluate(machine, socket, AF_INET) == ALLOW
    assert [evaluate(machine, socket, family) for family in (AF_PACKET, AF_ALG, AF_VSOCK)] == [DENY] * 3
    assert (evaluate(machine, ioctl, 0, TIOCGWINSZ), evaluate(machine, ioctl, 0, TIOCSTI)) == (ALLOW, DENY)


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_cannot_be_checked_are_missing(machine: str) -> None:
    x32_unshare = (1 << 30) + 272
    for number in (seccomp.CLONE3, seccomp.LAST + 1, x32_unshare):
        assert evaluate(machine, number) == MISSING


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_kill_the_process(machine: str) -> None:
    assert evaluate(machine, 1, architecture=0x40000003) == KILL_PROCESS


@pytest.mark.skipif(not seccomp.is_supported(), reason="no seccomp filters here")
def test_filter_denies_calls_of_a_process_and_its_children() -> None:
    program = INSTALL + (
        "import ctypes, os, socket, subprocess, threading;"
        "threading.Thread(target=print, args=('thread',)).start();"
        "print(subprocess.run(['unshare', '-U', 'true'], capture_output=True).stderr.decode());"
        "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert completed.stdout.startswith("thread\nunshare: unshare failed: Operation not permitted")
    assert completed.stderr.strip().endswith("PermissionError: [Errno 1] Operation not permitted")
