"""Attempts on files: of the server, of its user, of other runs, in temporary folders and in shared memory."""

import contextlib
import ctypes
import os
import socket
import struct
import tempfile
from pathlib import Path
from typing import Any

from tests.security.hostile_runs.attempts import (
    CLONE_NEWNS,
    CLONE_NEWUSER,
    MNT_DETACH,
    MS_BIND,
    Known,
    check,
    connect,
    contains,
    libc,
    system_call,
    targets,
    visible_pids,
)


@targets("files")
def read_files_of_the_server(known: Known) -> Any:
    return [path for path in known["server_files"] if os.path.exists(path) and Path(path).read_bytes()]


@targets("files")
def list_the_data_folder(known: Known) -> Any:
    return os.listdir(known["data"])


@targets("files")
def write_into_the_data_folder(known: Known) -> Any:
    path = Path(known["data"], f"planted-{known['mark']}")
    path.write_text("x")
    # Only the machine's own folder counts: the empty folder that covers it belongs to the run.
    return str(path) if os.stat(known["data"]).st_ino == known["data_inode"] else None


@targets("files")
def rename_the_data_folder(known: Known) -> Any:
    if os.stat(known["data"]).st_ino != known["data_inode"]:
        return None
    os.rename(known["data"], f"{known['data']}.moved")
    os.rename(f"{known['data']}.moved", known["data"])
    return "renamed"


@targets("files")
def link_to_files_of_the_server(known: Known) -> Any:
    for path in known["server_files"]:
        with contextlib.suppress(OSError):
            os.link(path, os.path.join(os.environ["FAIRLEAD_HOME"], "linked"))
            return path
    return None


@targets("files")
def read_files_of_other_runs(known: Known) -> Any:
    return [path for path in known["victim_files"] if contains(path, known["mark"])]


@targets("files")
def read_files_through_proc(known: Known) -> Any:
    found = []
    for pid in visible_pids(known):
        for view in ("root", "cwd", f"task/{pid}/root"):
            paths = [*known["server_files"], *known["victim_files"]]
            found += [f"{pid}/{view}{path}" for path in paths if os.path.exists(f"/proc/{pid}/{view}{path}")]
    own = os.stat("/").st_ino, os.stat("/").st_dev
    return [path for path in found if (os.stat(f"/proc/{path.split('/')[0]}/root").st_ino, own[1]) != own]


@targets("files")
def read_the_home_of_the_server_user(known: Known) -> Any:
    return [path for path in known["home_files"] if contains(path, known["mark"])]


@targets("files")
def write_into_the_home_of_the_server_user(known: Known) -> Any:
    folder = os.path.dirname(known["home_files"][0])
    with open(os.path.join(folder, ".profile"), "a", encoding="ascii") as file:
        file.write("# planted\n")
    return folder if os.stat(folder).st_ino == known["home_inode"] else None


@targets("files")
def write_into_system_folders(known: Known) -> Any:
    del known
    written = []
    for folder in (
        "/etc",
        "/usr/bin",
        "/usr/lib",
        "/usr/local/bin",
        "/etc/cron.d",
        "/root",
        "/boot",
        "/var/spool/cron",
    ):
        with contextlib.suppress(OSError):
            path = os.path.join(folder, "planted")
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
            os.unlink(path)
            written.append(folder)
    return written


@targets("files")
def open_a_file_by_its_handle(known: Known) -> Any:
    del known
    handle = ctypes.create_string_buffer(struct.pack("II", 8, 1) + bytes(128))
    return system_call("open_by_handle_at", os.open("/", os.O_RDONLY), handle, 0)


@targets("files")
def unmount_what_covers_the_data_folder(known: Known) -> Any:
    for flags in (0, MNT_DETACH):
        libc.umount2(known["data"].encode(), flags)
    return [path for path in known["server_files"] if contains(path, "")]


@targets("files")
def mount_the_parent_of_the_data_folder(known: Known) -> Any:
    target = tempfile.mkdtemp(dir=os.environ["FAIRLEAD_HOME"])
    check(libc.mount(os.path.dirname(known["data"]).encode(), target.encode(), None, MS_BIND, None))
    return os.listdir(os.path.join(target, os.path.basename(known["data"])))


@targets("files")
def uncover_the_data_folder_in_a_nested_namespace(known: Known) -> Any:
    check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS))
    libc.umount2(known["data"].encode(), MNT_DETACH)
    return [path for path in known["server_files"] if contains(path, "")] or "a nested namespace"


@targets("files")
def connect_to_a_socket_of_the_machine(known: Known) -> Any:
    return connect(socket.AF_UNIX, known["machine_socket"])


@targets("temporary_files")
def read_temporary_files_of_other_runs(known: Known) -> Any:
    return [path for path in known["victim_temporary_files"] if contains(path, known["mark"])]


@targets("temporary_files")
def leave_temporary_files(known: Known) -> Any:
    """Leave files. The test looks for them after the run."""
    for folder in ("/tmp", "/var/tmp"):
        with contextlib.suppress(OSError):
            Path(folder, f"left-{known['mark']}").write_text("x")


@targets("temporary_files")
def connect_to_a_socket_in_the_temporary_folder(known: Known) -> Any:
    return connect(socket.AF_UNIX, known["temporary_socket"])


@targets("shared_memory")
def read_shared_memory_of_other_runs(known: Known) -> Any:
    return [path for path in known["victim_shared_memory"] if contains(path, known["mark"])]


@targets("shared_memory")
def leave_shared_memory(known: Known) -> Any:
    """Leave a file. The test looks for it after the run."""
    with contextlib.suppress(OSError):
        Path("/dev/shm", f"left-{known['mark']}").write_text("x")


@targets("shared_memory")
def read_segments_of_other_runs(known: Known) -> Any:
    segment = libc.shmget(known["segment_key"], 0, 0)
    check(segment)
    address = libc.shmat(segment, None, 0o10000)
    return address not in (None, ctypes.c_void_p(-1).value) and known["mark"].encode() in ctypes.string_at(address, 64)
