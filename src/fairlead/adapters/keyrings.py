"""Seals values with AES-256-GCM, and keeps the keys for that in a file that only its owner reads."""

import base64
import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fairlead.errors import Conflict, FairleadError, Unavailable, Unreadable
from fairlead.ports import Sealed

VERSION = 1
NONCE_BYTES = 12
TAG_BYTES = 16
KEY_BYTES = 32
MOST_BYTES_OF_FILE = 64 * 1024
MAKE_KEY = "make a key with `openssl rand -base64 32`"


@dataclass(frozen=True)
class SealingKey:
    """A key and its name, which is made of the key and tells nothing of it."""

    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the key's SHA-256."""
        return hashlib.sha256(self.secret).hexdigest()[:16]


@dataclass(frozen=True)
class _LoadedKeys:
    """Keys by their ids, the one that seals first, and the state of the file that they were read from."""

    keys: dict[str, SealingKey]
    seen: tuple[int, ...] = ()


class AesKeyring:
    """Seals with its first key, opens with all. One from a file follows the file when other processes change it."""

    def __init__(self, keys: Sequence[SealingKey]) -> None:
        self._path: Path | None = None
        self._held = _LoadedKeys(_by_id(keys))  # replaced as a whole, so that threads need no lock

    @classmethod
    def from_file(cls, path: Path) -> "AesKeyring":
        """A safe with the keys of a file."""
        keyring = cls(load_key_file(path))
        keyring._path = path  # of which nothing was seen yet, so that the first seal reads it again
        return keyring

    def __repr__(self) -> str:
        return f"AesKeyring(key_ids={list(self._held.keys)})"

    @property
    def key_id(self) -> str:
        """The key with which values are sealed now."""
        return self._sealing_key().id

    def seal(self, value: bytes, purpose: str) -> Sealed:
        """The value, sealed for a purpose. Raise `Unavailable` where the key file changed and cannot be read."""
        key = self._sealing_key()
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = AESGCM(key.secret).encrypt(nonce, value, _bind(key, purpose))
        return Sealed(content=bytes([VERSION]) + nonce + sealed, key_id=key.id)

    def open(self, sealed: Sealed, purpose: str) -> bytes:
        """The value. Raise `Unavailable` where it cannot be opened."""
        key = self._held.keys.get(sealed.key_id) or self._find_anew(sealed.key_id)
        content, start = sealed.content, 1 + NONCE_BYTES
        if len(content) < start + TAG_BYTES or content[0] != VERSION:
            message = f"a value sealed with key {key.id} has a form that this version of Fairlead does not know"
            raise Unavailable(message, "use the version that sealed it, or set the value again")
        try:
            return AESGCM(key.secret).decrypt(content[1:start], content[start:], _bind(key, purpose))
        except InvalidTag as error:
            message = f"a value sealed with key {key.id} was changed, or was sealed for something else"
            raise Unavailable(message, "restore it from a backup, or set the value again") from error

    def _sealing_key(self) -> SealingKey:
        # What is sealed with a key that another process is about to forget is lost, so each time the file is looked
        # at (about 2 us), and nothing is sealed while it cannot be read.
        held = self._held
        if self._path is not None and _look_at(self._path) != held.seen:
            held = self._load_again(self._path)
        return next(iter(held.keys.values()))

    def _find_anew(self, key_id: str) -> SealingKey:
        held = self._held if self._path is None else self._load_again(self._path)
        if key_id not in held.keys:
            message = f"a value was sealed with key {key_id}, which is not among the keys: {', '.join(held.keys)}"
            raise Unavailable(message, "give this key back to the server, or set the value again")
        return held.keys[key_id]

    def _load_again(self, path: Path) -> _LoadedKeys:
        seen = _look_at(path)  # before reading: a change in between is found the next time
        try:
            self._held = held = _LoadedKeys(_by_id(load_key_file(path)), seen)
        except FairleadError as error:
            raise Unavailable(f"the keys changed and cannot be read: {error}", error.hint) from error
        return held


def parse_keys(text: str) -> tuple[SealingKey, ...]:
    """Keys in base64, by commas or lines; after # stands a comment. Raise `Unreadable`, which shows no key."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    entries = [entry.strip() for line in lines for entry in line.split(",")]
    keys = [_parse_key(entry, number) for number, entry in enumerate(filter(None, entries), start=1)]
    if not keys:
        raise Unreadable("there is no key", MAKE_KEY)
    return tuple(dict.fromkeys(keys))


def load_key_file(path: Path) -> tuple[SealingKey, ...]:
    """The keys of a file that nobody but its owner may read."""
    return parse_keys(_read(path))


def create_key_file(path: Path) -> str:
    """Make a file with one new key; its id. Raise `Conflict` where there is a file: its keys may be in use."""
    key = SealingKey(secrets.token_bytes(KEY_BYTES))
    with _translate_errors(f"making the key file {path}"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _written_aside(path, _format(key)) as aside:
            # Unlike O_EXCL on the file itself, a link is there at once with all of its content, so that a process
            # that starts at the same moment never reads half a key.
            try:
                os.link(aside, path)
            except FileExistsError as error:
                raise Conflict(f"there is a key file {path} already", "use it, or rotate its keys") from error
    return key.id


def rotate_key_file(path: Path) -> str:
    """Put a new key before those of a file, which still open what they sealed; its id."""
    key = SealingKey(secrets.token_bytes(KEY_BYTES))
    with _alone(path):
        text = _read(path)
        parse_keys(text)
        _replace(path, _format(key) + text)
    return key.id


def forget_old_keys(path: Path) -> tuple[str, ...]:
    """Keep only the first key of a file; the ids of those forgotten. What they sealed can never be opened again."""
    with _alone(path):
        first, *old = load_key_file(path)
        _replace(path, _format(first))
    return tuple(key.id for key in old)


def _by_id(keys: Sequence[SealingKey]) -> dict[str, SealingKey]:
    if not keys or any(len(key.secret) != KEY_BYTES for key in keys):
        raise Unreadable(f"a safe needs keys of {KEY_BYTES} bytes", MAKE_KEY)
    return {key.id: key for key in keys}


def _bind(key: SealingKey, purpose: str) -> bytes:
    """What a value is bound to besides its key. The id has a fixed length, so that no two pairs look the same."""
    return bytes([VERSION]) + key.id.encode() + purpose.encode()


def _parse_key(entry: str, number: int) -> SealingKey:
    try:
        padded = entry.rstrip("=").encode("ascii")
        secret = base64.b64decode(padded + b"=" * (-len(padded) % 4), altchars=b"-_", validate=True)
    except ValueError:
        # Not chained: the cause may carry the key.
        raise Unreadable(f"key {number} is not base64", MAKE_KEY) from None
    if len(secret) != KEY_BYTES:
        raise Unreadable(f"key {number} has {len(secret)} bytes; {KEY_BYTES} are needed", MAKE_KEY)
    return SealingKey(secret)


def _format(key: SealingKey) -> str:
    return f"{base64.b64encode(key.secret).decode()}  # {key.id}\n"


def _look_at(path: Path) -> tuple[int, ...]:
    """What changes when the file does; nothing where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _read(path: Path) -> str:
    with _translate_errors(f"reading the key file {path}"), path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)  # of what was opened, not of what is there by now
        if mode & 0o077:
            raise FairleadError(f"the key file {path} has mode {mode:04o}: others may use it", f"chmod 600 {path}")
        content = file.read(MOST_BYTES_OF_FILE + 1)
    if len(content) > MOST_BYTES_OF_FILE or not content.isascii():
        raise Unreadable(f"{path} is no key file", "name a file with one key in base64 per line")
    return content.decode("ascii")


def _replace(path: Path, text: str) -> None:
    target = path.resolve()  # a link stays one
    with _translate_errors(f"changing the key file {path}"), _written_aside(target, text) as aside:
        os.replace(aside, target)


@contextlib.contextmanager
def _written_aside(path: Path, text: str) -> Iterator[Path]:
    """A file next to the path, on the disk before it takes its place. Afterwards it is gone, and its folder synced."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield aside
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        aside.unlink(missing_ok=True)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time: of two that add a key to the same text, the later would drop the other's key."""
    lock = f"{path.resolve()}.lock"
    with _translate_errors(f"locking the key file {path}"), open(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _translate_errors(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FairleadError(f"{doing}: {error.strerror or error}", "check that it is there and is yours") from error
