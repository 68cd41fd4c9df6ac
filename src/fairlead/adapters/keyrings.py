"""Encrypts values with AES-256-GCM. The keys are in a file that only its owner can read."""

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

VERSION = 1  # the first byte of each encrypted value
NONCE_BYTES = 12  # random, which is safe for about four billion values per key (NIST SP 800-38D)
TAG_BYTES = 16
KEY_BYTES = 32
MAX_FILE_BYTES = 64 * 1024  # so that a path to another kind of file, such as a database, does not fill memory
MAKE_KEY = "create a key with `openssl rand -base64 32`"


@dataclass(frozen=True)
class SealingKey:
    """A key and its ID, which is a hash of the key."""

    secret: bytes = field(repr=False)

    @property
    def id(self) -> str:
        """The first 16 hexadecimal digits of the key's SHA-256."""
        # This is safe to show and store: keys are random, so part of a key's hash does not make it easier to guess.
        return hashlib.sha256(self.secret).hexdigest()[:16]


@dataclass(frozen=True)
class _LoadedKeys:
    """The keys by ID, the current one first, and the state of the file they were read from."""

    keys: dict[str, SealingKey]
    file_state: tuple[int, ...] = ()


class AesKeyring:
    """Encrypts with its first key and decrypts with any of them. Keys from a file are reread when the file changes."""

    def __init__(self, keys: Sequence[SealingKey]) -> None:
        self._path: Path | None = None
        self._loaded = _LoadedKeys(_by_id(keys))  # replaced as a whole, so that threads need no lock

    @classmethod
    def from_file(cls, path: Path) -> "AesKeyring":
        """Create a keyring with the keys in a file."""
        keyring = cls(load_key_file(path))
        keyring._path = path  # the file's state is not known yet, so the first use reads the file again
        return keyring

    def __repr__(self) -> str:
        return f"AesKeyring(key_ids={list(self._loaded.keys)})"

    @property
    def key_id(self) -> str:
        """The ID of the key that encrypts new values."""
        return self._current_key().id

    def seal(self, value: bytes, purpose: str) -> Sealed:
        """Encrypt a value for a purpose. Raises `Unavailable` if the key file changed and cannot be read."""
        key = self._current_key()
        nonce = secrets.token_bytes(NONCE_BYTES)
        ciphertext = AESGCM(key.secret).encrypt(nonce, value, _associated_data(key, purpose))
        return Sealed(content=bytes([VERSION]) + nonce + ciphertext, key_id=key.id)

    def open(self, sealed: Sealed, purpose: str) -> bytes:
        """Decrypt a value. Raises `Unavailable` if that fails."""
        key = self._loaded.keys.get(sealed.key_id) or self._find_key(sealed.key_id)
        content, start = sealed.content, 1 + NONCE_BYTES
        if len(content) < start + TAG_BYTES or content[0] != VERSION:
            message = f"a value encrypted with key {key.id} has a format that this version of Fairlead does not support"
            raise Unavailable(message, "use the version that encrypted it, or set the value again")
        try:
            return AESGCM(key.secret).decrypt(content[1:start], content[start:], _associated_data(key, purpose))
        except InvalidTag as error:
            message = f"a value encrypted with key {key.id} was changed, or was encrypted for another purpose"
            raise Unavailable(message, "restore it from a backup, or set the value again") from error

    def _current_key(self) -> SealingKey:
        # A value encrypted with a key that another process has deleted would be lost. This is why the file is checked
        # each time (about 2 us), and nothing is encrypted while it cannot be read.
        loaded = self._loaded
        if self._path is not None and _file_state(self._path) != loaded.file_state:
            loaded = self._reload(self._path)
        return next(iter(loaded.keys.values()))

    def _find_key(self, key_id: str) -> SealingKey:
        # Another process may have added the key since the file was read.
        loaded = self._loaded if self._path is None else self._reload(self._path)
        if key_id not in loaded.keys:
            message = f"a value was encrypted with key {key_id}, which is missing; available: {', '.join(loaded.keys)}"
            raise Unavailable(message, "restore this key, or set the value again")
        return loaded.keys[key_id]

    def _reload(self, path: Path) -> _LoadedKeys:
        state = _file_state(path)  # before reading, so that a change while reading is noticed next time
        try:
            self._loaded = loaded = _LoadedKeys(_by_id(load_key_file(path)), state)
        except FairleadError as error:
            raise Unavailable(f"the key file has changed and cannot be read: {error}", error.hint) from error
        return loaded


def parse_keys(text: str) -> tuple[SealingKey, ...]:
    """Parse keys in base64, separated by commas or line breaks, with # comments. Errors do not show keys."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    entries = [entry.strip() for line in lines for entry in line.split(",")]
    keys = [_parse_key(entry, number) for number, entry in enumerate(filter(None, entries), start=1)]
    if not keys:
        raise Unreadable("no key found", MAKE_KEY)
    return tuple(dict.fromkeys(keys))


def load_key_file(path: Path) -> tuple[SealingKey, ...]:
    """Load the keys from a file. Raises an error if other users can read it."""
    return parse_keys(_read(path))


def create_key_file(path: Path) -> str:
    """Create a file with a new key and return its ID. Raises `Conflict` if the file exists: its keys may be in use."""
    key = SealingKey(secrets.token_bytes(KEY_BYTES))
    with _translate_errors(f"create the key file {path}"):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _temporary_file(path, _format(key)) as temporary:
            # Unlike with O_EXCL, the file appears with all of its content, so a process that starts at the same time
            # never reads half a key.
            try:
                os.link(temporary, path)
            except FileExistsError as error:
                raise Conflict(f"the key file {path} already exists", "use it, or rotate its keys") from error
    return key.id


def rotate_key_file(path: Path) -> str:
    """Add a new current key to a file and return its ID. The other keys still decrypt older values."""
    key = SealingKey(secrets.token_bytes(KEY_BYTES))
    with _locked(path):
        text = _read(path)
        parse_keys(text)  # only checked: the text is written back as it is, with its comments
        _replace(path, _format(key) + text)
    return key.id


def forget_old_keys(path: Path) -> tuple[str, ...]:
    """Delete all keys but the first and return their IDs. Values encrypted with them can no longer be decrypted."""
    with _locked(path):
        first, *old = load_key_file(path)
        _replace(path, _format(first))
    return tuple(key.id for key in old)


def _by_id(keys: Sequence[SealingKey]) -> dict[str, SealingKey]:
    if not keys or any(len(key.secret) != KEY_BYTES for key in keys):
        raise Unreadable(f"the keys in a keyring must be {KEY_BYTES} bytes long", MAKE_KEY)
    return {key.id: key for key in keys}


def _associated_data(key: SealingKey, purpose: str) -> bytes:
    """Return the data authenticated with a value. The ID's length is fixed, so that the data is unambiguous."""
    return bytes([VERSION]) + key.id.encode() + purpose.encode()


def _parse_key(entry: str, number: int) -> SealingKey:
    try:
        # Accept both base64 alphabets, with or without padding.
        padded = entry.rstrip("=").encode("ascii")
        secret = base64.b64decode(padded + b"=" * (-len(padded) % 4), altchars=b"-_", validate=True)
    except ValueError:
        # Not chained: the cause may contain the key.
        raise Unreadable(f"key {number} is not valid base64", MAKE_KEY) from None
    if len(secret) != KEY_BYTES:
        raise Unreadable(f"key {number} is {len(secret)} bytes long instead of {KEY_BYTES}", MAKE_KEY)
    return SealingKey(secret)


def _format(key: SealingKey) -> str:
    return f"{base64.b64encode(key.secret).decode()}  # {key.id}\n"


def _file_state(path: Path) -> tuple[int, ...]:
    """Return values that change when the file does; empty if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return ()
    # Use the change time: programs cannot set it, unlike the modification time, which some tools restore.
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def _read(path: Path) -> str:
    with _translate_errors(f"read the key file {path}"), path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)  # of the open file: the path may now point elsewhere
        if mode & 0o077:
            message = f"the key file {path} has mode {mode:04o}, so other users can access it"
            raise FairleadError(message, f"run chmod 600 {path}")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES or not content.isascii():
        raise Unreadable(f"{path} is not a key file", "use a file with one base64 key per line")
    return content.decode("ascii")


def _replace(path: Path, text: str) -> None:
    target = path.resolve()  # if the path is a symbolic link, keep the link
    with _translate_errors(f"change the key file {path}"), _temporary_file(target, text) as temporary:
        os.replace(temporary, target)


@contextlib.contextmanager
def _temporary_file(path: Path, text: str) -> Iterator[Path]:
    """Write a temporary file next to the path and sync it. Afterwards the file is removed and its folder synced."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
        # Without this, a power failure could undo the rename after new values were encrypted with the new key.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Allow one process at a time: if two added a key at once, the second would drop the first one's key."""
    # Lock a separate file, because a lock on the key file would be lost when the file is replaced.
    lock = f"{path.resolve()}.lock"
    with _translate_errors(f"lock the key file {path}"), open(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _translate_errors(operation: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        message = f"cannot {operation}: {error.strerror or error}"
        raise FairleadError(message, "check that the file exists and that you own it") from error
