"""Keyrings: sealing and opening values; key file permissions and rotation."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairlead.adapters import keyrings
from fairlead.adapters.keyrings import AesKeyring, SealingKey, parse_keys
from fairlead.errors import Conflict, FairleadError, Unavailable, Unreadable
from fairlead.ports import Keyring, Sealed

OLD, NEW, OTHER = (SealingKey(bytes([number]) * 32) for number in (1, 2, 3))
KEYRING: Keyring = AesKeyring([OLD])


def encode(key: SealingKey) -> str:
    """A base64-encoded key, as in a key file."""
    return base64.b64encode(key.secret).decode()


def check_hidden(error: BaseException, *keys: SealingKey) -> None:
    """Check that an error and its cause do not contain the keys."""
    message = f"{error!r} {error} {getattr(error, 'hint', '')} {error.__cause__!r}"
    for key in keys:
        assert encode(key)[:20] not in message
        assert key.secret.hex()[:20] not in message
        assert repr(key.secret)[2:20] not in message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A key file with one key."""
    path = tmp_path / "keys"
    keyrings.create_key_file(path)
    return path


@given(st.binary(), st.text())
def test_sealed_value_can_be_opened(value: bytes, purpose: str) -> None:
    sealed = KEYRING.seal(value, purpose)
    assert KEYRING.open(sealed, purpose) == value
    assert sealed.key_id == KEYRING.key_id == OLD.id
    assert len(sealed.content) == 1 + 12 + len(value) + 16


@given(st.binary(min_size=8), st.text())
def test_seal_reveals_nothing_and_is_never_repeated(value: bytes, purpose: str) -> None:
    first, second = KEYRING.seal(value, purpose), KEYRING.seal(value, purpose)
    assert value not in first.content
    assert first.content[1:13] != second.content[1:13]
    assert first.content[13:] != second.content[13:]


@given(st.binary(), st.text(), st.text())
def test_value_opens_only_for_the_context_it_was_sealed_for(value: bytes, purpose: str, other: str) -> None:
    assume(purpose != other)
    with pytest.raises(Unavailable, match="encrypted for another purpose"):
        KEYRING.open(KEYRING.seal(value, purpose), other)


def test_change_of_any_byte_is_detected() -> None:
    sealed = KEYRING.seal(b"a secret", "project/forest")
    for index in range(len(sealed.content)):
        for change in (1, 0x80, 0xFF):
            changed = bytearray(sealed.content)
            changed[index] ^= change
            with pytest.raises(Unavailable) as caught:
                KEYRING.open(Sealed(bytes(changed), sealed.key_id), "project/forest")
            check_hidden(caught.value, OLD)
            assert "a secret" not in str(caught.value)


@given(st.binary(max_size=60))
def test_random_bytes_are_never_a_value(noise: bytes) -> None:
    for content in (noise, b"\x01" + noise):
        with pytest.raises(Unavailable):
            KEYRING.open(Sealed(content, OLD.id), "")


def test_truncated_or_extended_value_is_detected() -> None:
    content = KEYRING.seal(b"a secret", "p").content
    for changed in [*(content[:length] for length in range(len(content))), content + b"\0"]:
        with pytest.raises(Unavailable):
            KEYRING.open(Sealed(changed, OLD.id), "p")


def test_first_key_seals_and_all_keys_open() -> None:
    before = KEYRING.seal(b"value", "p")
    rotated = AesKeyring([NEW, OLD])
    assert rotated.key_id == rotated.seal(b"value", "p").key_id == NEW.id
    assert rotated.open(before, "p") == b"value"


def test_missing_key_is_named_in_the_error() -> None:
    with pytest.raises(Unavailable, match=f"key {OLD.id}, which is missing; available: {NEW.id}, {OTHER.id}") as caught:
        AesKeyring([NEW, OTHER]).open(KEYRING.seal(b"value", "p"), "p")
    check_hidden(caught.value, NEW, OTHER)


def test_value_with_a_wrong_key_id_does_not_open() -> None:
    with pytest.raises(Unavailable, match="was changed"):
        AesKeyring([NEW, OLD]).open(Sealed(KEYRING.seal(b"value", "p").content, NEW.id), "p")


def test_repr_shows_no_key(path: Path) -> None:
    key = keyrings.load_key_file(path)[0]
    for text in (repr(key), str(key), repr([key]), repr(AesKeyring.from_file(path)), f"{AesKeyring([key])}"):
        assert key.id in text or "SealingKey()" in text
        assert encode(key)[:10] not in text
        assert repr(key.secret)[2:12] not in text


@pytest.mark.parametrize("keys", [[], [SealingKey(b"short")], [OLD, SealingKey(b"1" * 16)]])
def test_keyring_requires_keys_of_full_length(keys: list[SealingKey]) -> None:
    with pytest.raises(Unreadable, match="must be 32 bytes long"):
        AesKeyring(keys)


@pytest.mark.parametrize(
    "text",
    [
        f"{encode(OLD)},{encode(NEW)}",
        f"{encode(OLD)}\n{encode(NEW)}\n",
        f"\n# first, second\n {encode(OLD)} , # seals, for now\r\n\n{encode(NEW)}",
        f"{encode(OLD).rstrip('=')},{base64.urlsafe_b64encode(NEW.secret).decode()}",
        f"{encode(OLD)},{encode(NEW)},{encode(OLD)}",
    ],
)
def test_keys_are_separated_by_commas_or_newlines(text: str) -> None:
    assert parse_keys(text) == (OLD, NEW)


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, unique=True), st.sampled_from([",", "\n", " ,\n"]))
def test_keys_are_read_in_order(secrets: list[bytes], separator: str) -> None:
    keys = tuple(map(SealingKey, secrets))
    assert parse_keys(separator.join(map(encode, keys))) == keys


@pytest.mark.parametrize(
    ("invalid", "message"),
    [
        (encode(NEW)[:-4], "key 2 is 30 bytes long instead of 32"),
        (encode(NEW)[:-3], "key 2 is not valid base64"),
        (encode(NEW) + "AAAA", "key 2 "),
        ("*" + encode(NEW), "key 2 is not valid base64"),
        ("é" + encode(NEW), "key 2 is not valid base64"),
        (NEW.secret.hex(), "key 2 is 48 bytes long"),
        (encode(NEW).replace("I", "I ", 1), "key 2 is not valid base64"),
    ],
)
def test_invalid_key_is_named_and_not_shown(invalid: str, message: str) -> None:
    with pytest.raises(Unreadable, match=message) as caught:
        parse_keys(f"# mine\n{encode(OLD)}\n{invalid}\n{encode(OTHER)}")
    check_hidden(caught.value, OLD, NEW, OTHER)
    assert "openssl" in caught.value.hint


@pytest.mark.parametrize("text", ["", " ", "\n,\n", "# nothing"])
def test_text_without_keys_is_rejected(text: str) -> None:
    with pytest.raises(Unreadable, match="no key found"):
        parse_keys(text)


def test_new_key_file_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "new" / "keys"
    before = os.umask(0)
    try:
        key_id = keyrings.create_key_file(path)
    finally:
        os.umask(before)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert AesKeyring.from_file(path).key_id == key_id
    assert os.listdir(path.parent) == ["keys"]


def test_existing_key_file_is_never_overwritten(path: Path) -> None:
    before = path.read_text()
    with pytest.raises(Conflict, match="already"):
        keyrings.create_key_file(path)
    assert path.read_text() == before
    assert os.listdir(path.parent) == ["keys"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o610])
def test_key_file_that_others_can_access_is_rejected(path: Path, mode: int) -> None:
    path.chmod(mode)
    for operation in (keyrings.load_key_file, AesKeyring.from_file, keyrings.rotate_key_file, keyrings.forget_old_keys):
        with pytest.raises(FairleadError, match=f"has mode {mode:04o}") as caught:
            operation(path)
        assert caught.value.hint == f"run chmod 600 {path}"
    path.chmod(0o400)
    keyrings.load_key_file(path)


def test_invalid_key_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff" * 32)
    (tmp_path / "big").write_bytes(b"#" * 100_000)
    for name, message in [
        ("binary", "is not a key file"),
        ("big", "is not a key file"),
        ("none", "No such"),
        (".", "directory"),
    ]:
        if (tmp_path / name).is_file():
            (tmp_path / name).chmod(0o600)
        with pytest.raises(FairleadError, match=message) as caught:
            keyrings.load_key_file(tmp_path / name)
        assert caught.value.hint


def test_rotated_key_file_opens_old_values_and_seals_with_the_new_key(path: Path) -> None:
    keyring = AesKeyring.from_file(path)
    before, old = keyring.seal(b"value", "p"), keyring.key_id
    path.write_text("# kept by ada\n" + path.read_text())
    new = keyrings.rotate_key_file(path)
    assert [key.id for key in keyrings.load_key_file(path)] == [new, old]
    assert (path.stat().st_mode & 0o777, "# kept by ada" in path.read_text()) == (0o600, True)
    assert AesKeyring.from_file(path).open(before, "p") == b"value"
    assert keyrings.forget_old_keys(path) == (old,)
    assert [key.id for key in keyrings.load_key_file(path)] == [new]
    with pytest.raises(Unavailable, match=f"encrypted with key {old}"):
        AesKeyring.from_file(path).open(before, "p")


def test_keyring_follows_changes_of_its_file(path: Path) -> None:
    keyring, other = AesKeyring.from_file(path), AesKeyring.from_file(path)
    new = keyrings.rotate_key_file(path)
    assert keyring.open(other.seal(b"value", "p"), "p") == b"value"
    assert keyring.key_id == keyring.seal(b"value", "p").key_id == other.key_id == new
    keyrings.forget_old_keys(path)
    assert other.open(keyring.seal(b"value", "p"), "p") == b"value"


def test_old_key_in_memory_is_used_until_the_file_is_checked(path: Path) -> None:
    keyring = AesKeyring.from_file(path)
    sealed = keyring.seal(b"value", "p")
    path.unlink()
    assert keyring.open(sealed, "p") == b"value"
    for operation in (lambda: keyring.seal(b"value", "p"), lambda: keyring.open(Sealed(sealed.content, OTHER.id), "p")):
        with pytest.raises(Unavailable, match="the key file has changed and cannot be read: cannot read the key file"):
            operation()


def test_symlink_to_a_key_file_is_preserved(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    new = keyrings.rotate_key_file(link)
    assert link.is_symlink()
    assert AesKeyring.from_file(path).key_id == new


def test_key_file_that_cannot_be_replaced_is_unchanged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = path.read_text()
    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(FairleadError, match=r"cannot change the key file .*: No space left on device"):
        keyrings.rotate_key_file(path)
    assert path.read_text() == before
    assert sorted(os.listdir(path.parent)) == ["keys", "keys.lock"]


def test_concurrent_rotations_lose_no_key(path: Path) -> None:
    sealed = AesKeyring.from_file(path).seal(b"value", "p")
    code = "import sys, pathlib; from fairlead.adapters import keyrings\n"
    code += "for _ in range(10): print(keyrings.rotate_key_file(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", code, str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate(timeout=60)[0].split() for process in running]
    assert [process.returncode for process in running] == [0, 0]
    key_ids = [key.id for key in keyrings.load_key_file(path)]
    assert len(key_ids) == 21
    assert set(key_ids) == {sealed.key_id, *printed[0], *printed[1]}
    assert AesKeyring.from_file(path).open(sealed, "p") == b"value"


def test_only_one_of_many_processes_creates_the_key_file(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    code = (
        "import sys, pathlib; from fairlead.adapters import keyrings; from fairlead.errors import Conflict\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "try: keyrings.create_key_file(path)\n"
        "except Conflict: pass\n"
        "print(keyrings.AesKeyring.from_file(path).key_id)"
    )
    command = [sys.executable, "-c", code, str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    printed = {process.communicate(timeout=60)[0].strip() for process in running}
    assert printed == {AesKeyring.from_file(path).key_id}
