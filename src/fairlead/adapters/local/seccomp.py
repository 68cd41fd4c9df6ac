"""Seccomp filter of runs: denies the system calls that the default profiles of container runtimes deny.

Standard library only. The filter corresponds to Docker's default profile for a process without capabilities, except
that NUMA policies of the process's own memory are allowed, and sockets are limited to common address families.
"""

import ctypes
import errno
import platform
import struct
from collections.abc import Iterator

# Numbers of the denied system calls on x86_64 and arm64. None: the architecture does not have the call.
DENIED: dict[str, tuple[int | None, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
CLONE3 = 435
LAST = 469  # file_setattr of Linux 6.17; later calls do not exist for runs
# Numbers of the calls that are denied for some arguments, and of seccomp itself.
CLONE, PERSONALITY, SOCKET, IOCTL, SECCOMP = (56, 220), (135, 92), (41, 198), (16, 29), (317, 277)
NAMESPACE_FLAGS = 0x7E020000  # CLONE_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET
PERSONALITIES = (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)  # PER_LINUX, PER_LINUX32, UNAME26; and reading the current one
FAMILIES = (0, 1, 2, 10, 16)  # AF_UNSPEC, AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
TERMINAL_INJECTIONS = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # index in the tables, AUDIT_ARCH
LOAD, JUMP_EQUAL, JUMP_GREATER, JUMP_SET, RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
NUMBER_OFFSET, ARCHITECTURE_OFFSET, ARGUMENT_OFFSETS = 0, 4, (16, 24)  # in struct seccomp_data
KILL_PROCESS, RETURN_ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
SET_MODE_FILTER, GET_ACTION_AVAILABLE = 1, 2
SPEC_ALLOW = 4  # without this flag, kernels before 5.16 slow down filtered processes with a Spectre mitigation

DENY = RETURN_ERRNO | errno.EPERM

Instruction = tuple[int, int, str, str]  # code, value, label if true, label if false; empty: continue with the next

_libc = ctypes.CDLL(None, use_errno=True)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def is_supported() -> bool:
    """Whether this machine's architecture is known and its kernel has seccomp filters."""
    machine = platform.machine()
    action = ctypes.c_uint32(RETURN_ERRNO)
    return machine in ARCHITECTURES and _seccomp(machine, GET_ACTION_AVAILABLE, 0, ctypes.byref(action)) == 0


def install() -> None:
    """Filter the system calls of this process and its descendants, if possible. Needs NO_NEW_PRIVS."""
    if not is_supported():
        return
    machine = platform.machine()
    code = build_filter(machine)
    program = _Program(len(code) // 8, code)
    if _seccomp(machine, SET_MODE_FILTER, SPEC_ALLOW, ctypes.byref(program)) != 0:
        raise OSError(ctypes.get_errno(), "cannot install the seccomp filter")


def build_filter(machine: str) -> bytes:
    """Assemble the filter of an architecture as classic BPF."""
    lines: list[Instruction] = []
    labels: dict[str, int] = {}
    for label, instructions in _sections(machine):
        labels[label] = len(lines)
        lines += instructions
    return b"".join(
        struct.pack("=HBBI", code, *(labels[label] - index - 1 if label else 0 for label in targets), value)
        for index, (code, value, *targets) in enumerate(lines)
    )


def _sections(machine: str) -> Iterator[tuple[str, list[Instruction]]]:
    """Generate the parts of the filter, each with its label."""
    column, architecture = ARCHITECTURES[machine]
    conditional = {"clone": CLONE, "personality": PERSONALITY, "socket": SOCKET, "ioctl": IOCTL}
    yield (
        "start",
        [
            (LOAD, ARCHITECTURE_OFFSET, "", ""),
            (JUMP_EQUAL, architecture, "", "kill"),  # 32-bit programs have other numbers
            (LOAD, NUMBER_OFFSET, "", ""),
            (JUMP_GREATER, LAST, "missing", ""),  # also the calls of x32, which start at 1 << 30
            # The arguments of clone3 are in memory, where a filter cannot see them. C libraries fall back to clone.
            (JUMP_EQUAL, CLONE3, "missing", ""),
            *((JUMP_EQUAL, numbers[column], name, "") for name, numbers in conditional.items()),
            *((JUMP_EQUAL, number, "deny", "") for numbers in DENIED.values() if (number := numbers[column])),
        ],
    )
    yield "allow", [(RETURN, ALLOW, "", "")]
    yield "clone", [(LOAD, ARGUMENT_OFFSETS[0], "", ""), (JUMP_SET, NAMESPACE_FLAGS, "deny", "permit")]
    yield "personality", [(LOAD, ARGUMENT_OFFSETS[0], "", ""), *_permit(PERSONALITIES), (RETURN, DENY, "", "")]
    yield "socket", [(LOAD, ARGUMENT_OFFSETS[0], "", ""), *_permit(FAMILIES), (RETURN, DENY, "", "")]
    injections: list[Instruction] = [(JUMP_EQUAL, request, "deny", "") for request in TERMINAL_INJECTIONS]
    yield "ioctl", [(LOAD, ARGUMENT_OFFSETS[1], "", ""), *injections]
    yield "permit", [(RETURN, ALLOW, "", "")]
    yield "deny", [(RETURN, DENY, "", "")]
    yield "missing", [(RETURN, RETURN_ERRNO | errno.ENOSYS, "", "")]
    yield "kill", [(RETURN, KILL_PROCESS, "", "")]


def _permit(values: tuple[int, ...]) -> list[Instruction]:
    return [(JUMP_EQUAL, value, "permit", "") for value in values]


def _seccomp(machine: str, operation: int, flags: int, argument: object) -> int:
    number = SECCOMP[ARCHITECTURES[machine][0]]
    return int(_libc.syscall(ctypes.c_long(number), ctypes.c_long(operation), ctypes.c_long(flags), argument))
