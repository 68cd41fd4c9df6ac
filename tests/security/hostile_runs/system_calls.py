"""Attempts with system calls: networks, namespaces, devices and files of the kernel."""

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import stat
import struct
from typing import Any

from tests.security.hostile_runs.attempts import (
    CLONE_NEWNET,
    CLONE_NEWUSER,
    MACHINE,
    NUMBERS,
    SIOCSIFFLAGS,
    TIOCSCTTY,
    TIOCSTI,
    Known,
    check,
    connect,
    libc,
    system_call,
    targets,
)


@targets("addresses")
def listen_on_the_port_of_the_server(known: Known) -> Any:
    taken = []
    addresses = (
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0"),
        (socket.AF_INET6, "::1"),
        (socket.AF_INET6, "::"),
    )
    for family, host in addresses:
        for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
            with contextlib.suppress(OSError), socket.socket(family) as listener:
                listener.setsockopt(socket.SOL_SOCKET, option, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((host, known["port"]))
                listener.listen()
                taken.append(host)
    return taken


@targets("network")
def connect_to_an_abstract_socket(known: Known) -> Any:
    return connect(socket.AF_UNIX, f"\0{known['abstract_socket']}")


@targets("system_calls")
def read_packets(known: Known) -> Any:
    del known
    opened = []
    for family, kind, protocol in (
        (socket.AF_PACKET, socket.SOCK_RAW, 0),
        (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
    ):
        with contextlib.suppress(OSError):
            socket.socket(family, kind, protocol).close()
            opened.append((int(family), protocol))
    return opened


@targets("system_calls")
def change_the_network(known: Known) -> Any:
    del known
    with socket.socket() as client:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        fcntl.ioctl(client, SIOCSIFFLAGS, request)
    return "lo is down"


@targets("system_calls")
def create_a_user_namespace(known: Known) -> Any:
    del known
    check(libc.unshare(CLONE_NEWUSER))
    return "created"


@targets("system_calls")
def create_a_network_namespace(known: Known) -> Any:
    del known
    check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNET))
    return "created"


@targets("system_calls")
def clone_into_a_user_namespace(known: Known) -> Any:
    del known
    result = libc.syscall(
        ctypes.c_long(NUMBERS["clone"][MACHINE]), ctypes.c_long(CLONE_NEWUSER | signal.SIGCHLD), *[0] * 4
    )
    if result == 0:
        os._exit(0)
    check(result)
    return "cloned"


@targets("system_calls")
def clone3_into_a_user_namespace(known: Known) -> Any:
    del known
    arguments = (ctypes.c_uint64 * 11)(CLONE_NEWUSER, 0, 0, 0, signal.SIGCHLD)
    result = libc.syscall(ctypes.c_long(NUMBERS["clone3"][MACHINE]), arguments, ctypes.c_long(88))
    if result == 0:
        os._exit(0)
    check(result)
    return "cloned"


@targets("system_calls")
def join_the_namespaces_of_other_processes(known: Known) -> Any:
    joined = []
    for pid in {1, *known["pids"]}:
        for name in ("user", "mnt", "pid", "net", "ipc"):
            with contextlib.suppress(OSError):
                descriptor = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
                if libc.setns(descriptor, 0) == 0:
                    joined.append(f"{pid}/{name}")
    return joined


@targets("system_calls")
def mount_a_file_system(known: Known) -> Any:
    del known
    check(libc.mount(b"tmpfs", os.environ["FAIRLEAD_HOME"].encode(), b"tmpfs", 0, None))
    return "mounted"


@targets("system_calls")
def change_the_root_folder(known: Known) -> Any:
    del known
    os.chroot("/tmp")
    return "changed"


@targets("system_calls")
def set_the_host_name(known: Known) -> Any:
    del known
    check(libc.sethostname(b"hostile", 7))
    return "set"


@targets("system_calls")
def type_into_a_terminal(known: Known) -> Any:
    del known
    leader, follower = os.openpty()
    os.setsid()
    fcntl.ioctl(follower, TIOCSCTTY, 0)
    fcntl.ioctl(follower, TIOCSTI, b"x")
    return os.read(leader, 1).decode()


@targets("system_calls")
def make_dangerous_system_calls(known: Known) -> Any:
    """Make system calls with arguments that are invalid, so that only those that are not denied fail later."""
    del known
    zeros = ctypes.create_string_buffer(256)
    calls = {
        "kexec_load": (0, 0, 0, 0),
        "init_module": (zeros, 0, zeros),
        "delete_module": (zeros, 0),
        "add_key": (b"user\0", b"hostile\0", b"x", 1, -4),
        "keyctl": (0, -3, 0),
        "perf_event_open": (zeros, 0, -1, -1, 0),
        "bpf": (0, zeros, 64),
        "userfaultfd": (0,),
        "io_uring_setup": (1, zeros),
        "fsopen": (b"tmpfs\0", 0),
        "move_mount": (-1, zeros, -1, zeros, 0),
        "mount_setattr": (-1, zeros, 0, zeros, 32),
        "quotactl": (0, zeros, 0, zeros),
        "syslog": (3, zeros, 10),
        "reboot": (0, 0, 0, 0),
        "settimeofday": (zeros, 0),
        "swapon": (b"/nothing\0", 0),
        "acct": (b"/nothing\0",),
    }
    return [call for name, arguments in calls.items() if (call := system_call(name, *arguments)) is not None]


@targets("devices")
def create_a_device(known: Known) -> Any:
    del known
    path = os.path.join(os.environ["FAIRLEAD_HOME"], "device")
    os.mknod(path, 0o666 | stat.S_IFBLK, os.makedev(254, 0))
    os.close(os.open(path, os.O_RDONLY))
    return path


@targets("devices")
def open_devices_of_the_machine(known: Known) -> Any:
    """Open devices for which a run has no use. An ordinary user may open some of them outside a run, too."""
    opened = []
    harmless = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
    for folder in ("/dev", "/dev/block", "/dev/char", "/dev/mapper", "/dev/input", "/dev/dri", "/dev/net"):
        with contextlib.suppress(OSError):
            for entry in os.scandir(folder):
                with contextlib.suppress(OSError):
                    mode = entry.stat().st_mode
                    is_device = stat.S_ISBLK(mode) or stat.S_ISCHR(mode)
                    if is_device and os.path.basename(os.path.realpath(entry.path)) not in harmless:
                        os.close(os.open(entry.path, os.O_RDONLY | os.O_NONBLOCK))
                        opened.append(entry.path)
    return opened


@targets("devices")
def change_settings_of_the_kernel(known: Known) -> Any:
    del known
    opened = []
    paths = (
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/overcommit_memory",
        "/proc/sys/kernel/hostname",
    )
    for path in (*paths, "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/release_agent"):
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY))
            opened.append(path)
    return opened


@targets("devices")
def raise_own_limits(known: Known) -> Any:
    """Write to control groups: those of this process, and all that can be found."""
    del known
    opened = []
    for parent, _, names in os.walk("/sys/fs/cgroup"):
        for name in {"cgroup.procs", "memory.max", "memory.limit_in_bytes", "pids.max", "cpu.max"}.intersection(names):
            with contextlib.suppress(OSError):
                os.close(os.open(os.path.join(parent, name), os.O_WRONLY))
                opened.append(os.path.join(parent, name))
        with contextlib.suppress(OSError):
            os.mkdir(os.path.join(parent, "hostile"))
            os.rmdir(os.path.join(parent, "hostile"))
            opened.append(parent)
    return opened
