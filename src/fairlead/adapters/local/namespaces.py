"""A run's own view of the machine: its volumes under their paths, its own processes, its own user id. Linux only.

Standard library only. Everything is made in a namespace and is gone with it: nothing of the machine is changed.
"""

import contextlib
import ctypes
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from fairlead.adapters.local.specs import Mount, Spec, UserMapping

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
KEPT = {os.ST_NOSUID: MS_NOSUID, os.ST_NODEV: MS_NODEV, os.ST_NOEXEC: MS_NOEXEC}
MNT_DETACH = 2
PR_CAPBSET_DROP, CAP_LAST_CAP = 24, 63
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
SHARED = 0o2770  # as the volume itself: the group, which folders pass on, is that of the project
PR_SET_NO_NEW_PRIVS, PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 38, 1, 36

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int) -> None:
    """Change something about this process."""
    _check(_libc.prctl(option, value, 0, 0, 0), "prctl")


def drop_capabilities() -> None:
    """See to it that no program that this process becomes has any power of root, also where it is root inside."""
    for capability in range(CAP_LAST_CAP + 1):
        _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # fails for those that the kernel does not know


def unshare(flags: int) -> None:
    """Leave namespaces of this process for new ones."""
    _check(_libc.unshare(flags), "unshare")


def map_ids(pid: int | str, identity: UserMapping) -> None:
    """Say which ids of this machine the ids in a process's new user namespace stand for."""
    outer_uid = os.getuid() if identity.outer_uid is None else identity.outer_uid
    outer_gid = os.getgid() if identity.outer_gid is None else identity.outer_gid
    groups = {identity.gid: outer_gid, **dict(zip(identity.groups, identity.outer_groups, strict=False))}
    if identity.outer_uid is None:
        _write(f"/proc/{pid}/setgroups", "deny")  # without it, nobody but root may map a group
    _write(f"/proc/{pid}/uid_map", f"{identity.uid} {outer_uid} 1\n")
    _write(f"/proc/{pid}/gid_map", "".join(f"{inner} {outer} 1\n" for inner, outer in groups.items()))


def enter_root(spec: Spec, root: str, secrets: dict[str, str]) -> None:
    """Make this process see the machine with the run's mounts in it, and without what is hidden from runs."""
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    _View(spec, root, secrets).build()
    # Not chroot: in a changed root the kernel makes no user namespace. The old root ends up below the new one.
    os.chdir(root)
    _check(_libc.pivot_root(b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", MNT_DETACH), "umount")
    os.chdir("/")


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, options: str = "") -> None:
    """The system call, with its failure told."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    _check(_libc.mount(words[0], words[1], words[2], flags, options.encode()), f"mount of {target}")


class _View:
    """The machine as the run sees it, put together under a folder."""

    def __init__(self, spec: Spec, root: str, secrets: dict[str, str]) -> None:
        self.spec, self.root, self.secrets = spec, root, secrets
        self.own: set[str] = set()  # folders that exist in this view alone, and can be added to
        self.mounted: list[str] = []

    def build(self) -> None:
        self._open("/")
        mount("proc", f"{self.root}/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        for path in self.spec.hidden:
            self._cover(path)
        for path in self.spec.revealed:
            self._reveal(path)
        for wanted in sorted(self.spec.mounts, key=lambda wanted: wanted.target):
            try:
                self._mount(wanted)
            except OSError as error:
                told = os.strerror(error.errno or 0).lower()
                raise OSError(error.errno, f"cannot mount {wanted.target}: {told}") from error

    def _open(self, path: str) -> None:
        """Put a folder of our own in a folder's place, with the same things in it, so that more can be put there."""
        with os.scandir(path) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
        self._cover(path)
        for entry in inside:
            with contextlib.suppress(FileNotFoundError):  # it went away meanwhile
                self._show(entry, os.path.join(self.root + path.rstrip("/"), entry.name))

    def _show(self, entry: os.DirEntry[str], there: str) -> None:
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), there)
        elif entry.is_dir(follow_symlinks=False):
            os.mkdir(there)
            if entry.path != "/proc":
                mount(entry.path, there, flags=MS_BIND | MS_REC)
        else:
            Path(there).touch()
            mount(entry.path, there, flags=MS_BIND)

    def _cover(self, path: str) -> None:
        """An empty folder of our own in a folder's place."""
        if path not in self.own and os.path.isdir(self.root + path):
            mount("tmpfs", self.root + path.rstrip("/"), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
            self.own.add(path)

    def _reveal(self, path: str) -> None:
        """Make sure that the run can get to a path, through folders that are closed to others."""
        parts = Path(path).parts
        for count in range(1, len(parts)):
            above = os.path.join(*parts[:count])
            if above in self.own and above != "/":
                break
            if not os.stat(above).st_mode & stat.S_IXOTH:
                self._cover(above)
                break
        else:
            return
        if os.path.isdir(path):
            mount(path, self._make(path), flags=MS_BIND | MS_REC)
        else:
            self._make(os.path.dirname(path))
            Path(self.root + path).touch()
            mount(path, self.root + path, flags=MS_BIND)

    def _mount(self, wanted: Mount) -> None:
        there = self._make(wanted.target)
        self.mounted.append(wanted.target)
        if wanted.source is not None:
            with _opened(wanted.source) as folder, self._below(folder, wanted.sub_path) as source:
                mount(f"/proc/self/fd/{source}", there, flags=MS_BIND | MS_REC)
        else:
            most = [size for size in (wanted.size, self.spec.memory) if size is not None]
            size = f",size={min(most)}" if most else ""
            mount("tmpfs", there, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777{size}")
            for name, secret in wanted.secrets.items():
                self._write_secret(Path(there, name), self.secrets[secret])
        if wanted.read_only or wanted.secrets:
            _protect(there)

    def _write_secret(self, file: Path, value: str) -> None:
        file.write_text(value, "utf-8")
        self._give(os.open(file, os.O_RDONLY))
        file.chmod(0o400)

    def _make(self, target: str) -> str:
        """A folder to mount on. One that was not there comes to be in this view alone, or in the volume it is in."""
        around = next((path for path in reversed(self.mounted) if target.startswith(f"{path}/")), None)
        if around is not None:
            with _opened(self.root + around) as folder, self._below(folder, target[len(around) + 1 :]) as made:
                return f"/proc/self/fd/{os.dup(made)}"
        target = os.path.realpath(target)  # on the machine, whose links lead to the same in this view
        self._make_own(target)
        return self.root + target

    def _make_own(self, target: str) -> None:
        if os.path.isdir(self.root + target):
            return
        above = os.path.dirname(target)
        self._make_own(above)
        if os.stat(self.root + above).st_dev not in {os.stat(self.root + own).st_dev for own in self.own}:
            self._open(above)
        os.mkdir(self.root + target)

    @contextlib.contextmanager
    def _below(self, folder: int, path: str) -> Iterator[int]:
        """A folder in a volume, made where it is not there. What runs put there may be a link: none is followed."""
        here = os.dup(folder)
        try:
            for part in Path(path).parts:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
                    self._give(os.open(part, FOLDER, dir_fd=here), SHARED)
                below = os.open(part, FOLDER, dir_fd=here)
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)

    def _give(self, opened: int, mode: int | None = None) -> None:
        """Let the run own what was made for it, and others of its group too where a mode says so."""
        identity = self.spec.identity
        if identity.outer_uid is not None and identity.outer_gid is not None:
            os.fchown(opened, identity.outer_uid, os.fstat(opened).st_gid if mode else identity.outer_gid)
        if mode is not None:
            os.fchmod(opened, mode)
        os.close(opened)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int]:
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield opened
    finally:
        os.close(opened)


def _protect(target: str) -> None:
    """Make a mount read-only. What forbade more before must be said again, or the kernel refuses."""
    before = os.statvfs(target).f_flag
    kept = sum(flag for known, flag in KEPT.items() if before & known)
    mount(None, target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


def _check(result: int, doing: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number).lower()}")


def _write(file: str, text: str) -> None:
    with open(file, "w", encoding="ascii") as opened:
        opened.write(text)
