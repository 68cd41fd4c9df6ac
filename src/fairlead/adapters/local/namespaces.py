"""Creates the Linux namespaces of a run: mounts for its volumes, its own processes and its own user ID.

Standard library only. The mounts and ID mappings exist only inside the namespaces and disappear with them.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

from fairlead.adapters.local.specs import NONE, TEMPORARY_FOLDERS, Mount, Spec, UserMapping

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
LOCKED_FLAGS = {os.ST_NOSUID: MS_NOSUID, os.ST_NODEV: MS_NODEV, os.ST_NOEXEC: MS_NOEXEC}
MNT_DETACH = 2
PR_CAPBSET_DROP, CAP_LAST_CAP = 24, 63  # the highest number a capability can have; kernels have fewer
OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
PREFIXES_OF_TEMPORARY_FILES = tuple(f"{folder}/" for folder in TEMPORARY_FOLDERS)
SHARED = 0o2770  # same as the volume itself: setgid, so that new files belong to the project's group
PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 38, 1, 36

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Call prctl."""
    _check(_libc.prctl(option, value, 0, 0, 0), "prctl")


def drop_capabilities() -> None:
    """Drop all capabilities from the bounding set, so that no program this process executes can get them."""
    for capability in range(CAP_LAST_CAP + 1):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for capabilities that the kernel does not have


def unshare(flags: int) -> None:
    """Move this process to new namespaces."""
    _check(_libc.unshare(flags), "unshare")


def enter_user_namespace(identity: UserMapping, flags: int = 0) -> None:
    """Move this process to a new user namespace in which the server's user has the IDs of the run."""
    uid, gid = os.getuid(), os.getgid()  # read first: in the new namespace they are 65534 until they are mapped
    unshare(CLONE_NEWUSER | flags)
    _write("/proc/self/setgroups", "deny")  # the kernel requires this if the process is not root
    _write("/proc/self/uid_map", f"{identity.uid} {uid} 1\n")
    _write("/proc/self/gid_map", f"{identity.gid} {gid} 1\n")


def map_ids(pid: int, identity: UserMapping) -> None:
    """As root, map the IDs of a run in its new user namespace to IDs of the host."""
    groups = dict(zip([identity.gid, *identity.groups], [identity.outer_gid, *identity.outer_groups], strict=True))
    _write(f"/proc/{pid}/uid_map", f"{identity.uid} {identity.outer_uid} 1\n")
    _write(f"/proc/{pid}/gid_map", "".join(f"{inner} {outer} 1\n" for inner, outer in groups.items()))


def enter_namespaces(spec: Spec, root: str, secrets: dict[str, str]) -> None:
    """Move this process to new namespaces: its own mounts and, if the run has no network, its own network."""
    unshare(CLONE_NEWNS | CLONE_NEWIPC)
    if spec.network == NONE:
        _enter_network_namespace()
    _enter_root(spec, root, secrets)


def _enter_network_namespace() -> None:
    """Move this process to a new network namespace, whose only interface is its own loopback."""
    unshare(CLONE_NEWNET)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def _enter_root(spec: Spec, root: str, secrets: dict[str, str]) -> None:
    """Replace the root of this process with one that contains the run's mounts and hides the data folder."""
    # systemd makes all mounts shared: without this, the run's mounts would also appear on the machine.
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    _RootBuilder(spec, root, secrets).build()
    # Use pivot_root, because the kernel refuses to create user namespaces after chroot. It stacks the old root on top.
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", MNT_DETACH), "umount")
    os.chdir("/")


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    """Call mount. Raises OSError with the target in its message."""
    arguments = [None if argument is None else os.fsencode(argument) for argument in (source, target, kind)]
    _check(_libc.mount(*arguments, flags, options.encode()), f"mount of {target}")


class _RootBuilder:
    """Builds the root file system of a run in a folder."""

    def __init__(self, spec: Spec, root: str, secrets: dict[str, str]) -> None:
        self.spec, self.root, self.secrets = spec, root, secrets
        self.tmpfs_paths: dict[str, int] = {}  # folders that this class replaced with a tmpfs, and their device numbers
        self.mounted: list[str] = []  # targets of volume mounts

    def build(self) -> None:
        self._make_extensible("/")
        # Mount a new proc, because the machine's proc would show all processes.
        mount("proc", f"{self.root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        self._make_devices()
        # Sort the paths, because Python's folder may be inside a hidden folder, and may contain another one.
        for path in sorted({*self.spec.hidden, *self.spec.revealed}):
            if path.startswith(PREFIXES_OF_TEMPORARY_FILES):
                continue  # mounts replace these folders
            if path in self.spec.hidden:
                self._mount_tmpfs(path)
            else:
                self._expose(path)
        # Sort the mounts, so that each one comes before the mounts inside it. Otherwise it would hide them.
        for volume_mount in sorted(self.spec.mounts, key=lambda each: each.target):
            try:
                self._mount(volume_mount)
            except OSError as error:
                reason = os.strerror(error.errno or 0).lower()
                raise OSError(error.errno, f"cannot mount {volume_mount.target}: {reason}") from error
        for path in self.spec.revealed:
            if path.startswith(PREFIXES_OF_TEMPORARY_FILES) and not os.path.lexists(self.root + path):
                self._bind_read_only(path)
        for path, device in self.tmpfs_paths.items():
            with contextlib.suppress(FileNotFoundError):
                # If the server is not root, the run could write to this tmpfs. A volume may be mounted over it by now.
                if os.stat(self.root + path).st_dev == device:
                    _remount_read_only(self.root + path)

    def _make_devices(self) -> None:
        """Replace /dev with a folder that has only the devices of the run, and terminals of its own."""
        names = self.spec.list_devices()
        self._mount_tmpfs("/dev")
        for name in names:
            if name == "pts":
                os.mkdir(f"{self.root}/dev/pts")
                mount("devpts", f"{self.root}/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666")
            elif name == "ptmx":
                os.symlink("pts/ptmx", f"{self.root}/dev/ptmx")
            else:
                self._bind_entry(f"/dev/{name}", f"{self.root}/dev/{name}")
        for name, target in {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
            os.symlink(f"/proc/self/{target}", f"{self.root}/dev/{name}")

    def _make_extensible(self, path: str) -> None:
        """Replace a folder with a tmpfs that has the same entries as bind mounts, so that entries can be added."""
        with os.scandir(path) as scan:
            entries = sorted(scan, key=lambda entry: entry.name)
        self._mount_tmpfs(path)
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # deleted in the meantime
                self._bind_entry(entry.path, os.path.join(self.root + path.rstrip("/"), entry.name))

    def _bind_entry(self, path: str, target: str) -> None:
        if os.path.islink(path):
            os.symlink(os.readlink(path), target)
        elif os.path.isdir(path):
            os.mkdir(target)
            if path != "/proc":
                mount(path, target, flags=MS_BIND | MS_REC)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
            mount(path, target, flags=MS_BIND)

    def _mount_tmpfs(self, path: str) -> None:
        """Hide a folder with an empty tmpfs."""
        if path not in self.tmpfs_paths and os.path.isdir(self.root + path):
            # The tmpfs is small, because it contains only mount points and links.
            mount("tmpfs", self.root + path.rstrip("/"), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
            self.tmpfs_paths[path] = os.stat(self.root + path).st_dev

    def _expose(self, path: str) -> None:
        """Make a path readable for the run, even if it is in a hidden folder, or other users cannot access a parent."""
        parts = Path(path).parts
        for count in range(1, len(parts)):
            parent = os.path.join(*parts[:count])
            if parent in self.tmpfs_paths and parent != "/":
                break
            if not os.stat(parent).st_mode & stat.S_IXOTH:
                self._mount_tmpfs(parent)
                break
        else:
            return
        self._bind_read_only(path)

    def _bind_read_only(self, path: str) -> None:
        if os.path.isdir(path):
            mount(path, self._make_mount_point(path), flags=MS_BIND | MS_REC)
        else:
            self._make_mount_point(os.path.dirname(path))
            Path(self.root + path).touch()
            mount(path, self.root + path, flags=MS_BIND)
        _remount_read_only(self.root + path)

    def _mount(self, volume_mount: Mount) -> None:
        target = self._make_mount_point(volume_mount.target)
        self.mounted.append(volume_mount.target)
        if volume_mount.source is not None:
            with _open_folder(volume_mount.source) as folder, self._subfolder(folder, volume_mount.sub_path) as source:
                # Use a descriptor: another run that shares the volume could replace the path with a symbolic link.
                mount(f"/proc/self/fd/{source}", target, flags=MS_BIND | MS_REC)
        else:
            limits = [limit for limit in (volume_mount.size, self.spec.memory) if limit is not None]
            size = f",size={min(limits)}" if limits else ""
            mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777{size}")
            for name, secret in volume_mount.secrets.items():
                self._write_secret(Path(target, name), self.secrets[secret])
        if volume_mount.read_only or volume_mount.secrets:
            _remount_read_only(target)

    def _write_secret(self, file: Path, value: str) -> None:
        file.write_text(value, "utf-8")
        self._chown(os.open(file, os.O_RDONLY))
        file.chmod(0o400)

    def _make_mount_point(self, target: str) -> str:
        """Return a folder to mount on. If it is missing, it is created in this root only, or in its volume."""
        volume = next((path for path in reversed(self.mounted) if target.startswith(f"{path}/")), None)
        if volume is not None:
            with _open_folder(self.root + volume) as folder, self._subfolder(folder, target[len(volume) + 1 :]) as made:
                return f"/proc/self/fd/{os.dup(made)}"  # stays open until the run's program is executed
        target = os.path.realpath(target)  # the machine's symbolic links point to the same paths in this root
        self._make_folder(target)
        return self.root + target

    def _make_folder(self, target: str) -> None:
        if os.path.isdir(self.root + target):
            return
        parent = os.path.dirname(target)
        self._make_folder(parent)
        # A folder can be created only on a tmpfs in this root; elsewhere it would appear on the machine.
        if os.stat(self.root + parent).st_dev not in self.tmpfs_paths.values():
            self._make_extensible(parent)
        os.mkdir(self.root + target)

    @contextlib.contextmanager
    def _subfolder(self, folder: int, path: str) -> Iterator[int]:
        """Open a folder in a volume, creating it if needed. Runs write there, so symbolic links are not followed."""
        current = os.dup(folder)
        try:
            for part in Path(path).parts:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=current)
                    self._chown(os.open(part, OPEN_FOLDER, dir_fd=current), SHARED)
                child = os.open(part, OPEN_FOLDER, dir_fd=current)
                os.close(current)
                current = child
            yield current
        finally:
            os.close(current)

    def _chown(self, fd: int, mode: int | None = None) -> None:
        """Give a new file to the run's user. If a mode is given, share the file with the project's group."""
        identity = self.spec.identity
        if identity.outer_uid is not None and identity.outer_gid is not None:
            os.fchown(fd, identity.outer_uid, os.fstat(fd).st_gid if mode else identity.outer_gid)
        if mode is not None:
            os.fchmod(fd, mode)
        os.close(fd)


@contextlib.contextmanager
def _open_folder(path: str) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def _remount_read_only(target: str) -> None:
    """Make a mount read-only. The kernel refuses a remount that drops existing flags, so they are repeated."""
    current = os.statvfs(target).f_flag
    locked = sum(flag for known, flag in LOCKED_FLAGS.items() if current & known)
    mount(None, target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | locked)


def _check(result: int, operation: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{operation}: {os.strerror(number).lower()}")


def _write(file: str, text: str) -> None:
    with open(file, "w", encoding="ascii") as writer:
        writer.write(text)
