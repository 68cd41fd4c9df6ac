"""Secrets never reach a log, however a run writes them; everything else does."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.adapters.logs import MASK, MIN_LENGTH, Masker

# Few letters, so that the text often contains a secret or its beginning; no characters from the mask.
LETTERS = st.sampled_from("abcé")
SECRETS = st.lists(st.text(LETTERS, min_size=MIN_LENGTH, max_size=8), min_size=1, max_size=3)


def feed(masker: Masker, chunks: list[bytes]) -> bytes:
    """The complete output."""
    return b"".join(map(masker.feed, chunks)) + masker.finish()


@st.composite
def chunked(draw: st.DrawFn, content: st.SearchStrategy[bytes]) -> list[bytes]:
    """Bytes, split at any position."""
    data = draw(content)
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


@st.composite
def secrets_and_chunks(draw: st.DrawFn) -> tuple[list[str], list[bytes]]:
    """Secrets, and a run's output that contains some of them, split at any position."""
    secrets = draw(SECRETS)
    fragments = st.sampled_from(secrets) | st.text(LETTERS, max_size=5)
    text = st.lists(fragments, max_size=6).map(lambda parts: "".join(parts).encode())
    return secrets, draw(chunked(text))


@given(secrets_and_chunks())
def test_secret_never_appears_for_any_chunk_boundaries(example: tuple[list[str], list[bytes]]) -> None:
    secrets, chunks = example
    output = feed(Masker(secrets), chunks)
    assert not [secret for secret in secrets if secret.encode() in output]


@given(secrets_and_chunks())
def test_chunk_boundaries_do_not_change_the_output(example: tuple[list[str], list[bytes]]) -> None:
    secrets, chunks = example
    assert feed(Masker(secrets), chunks) == feed(Masker(secrets), [b"".join(chunks)])


# Invalid UTF-8 inside secrets.
MIXED = st.lists(st.sampled_from([b"x", b"y", b"xyxy", b"\xff", b"\xc3", b"\n", b"*"]), max_size=30).map(b"".join)


@given(chunked(MIXED), st.lists(st.text("xy", min_size=MIN_LENGTH, max_size=6), max_size=2))
def test_only_secrets_are_removed(chunks: list[bytes], secrets: list[str]) -> None:
    data = b"".join(chunks)
    spans: list[list[int]] = []
    for start in range(len(data)):
        ends = [start + len(secret) for secret in map(str.encode, secrets) if data.startswith(secret, start)]
        if ends and spans and start < spans[-1][1]:
            spans[-1][1] = max(spans[-1][1], *ends)
        elif ends:
            spans.append([start, max(ends)])
    for start, end in reversed(spans):
        data = data[:start] + MASK + data[end:]
    assert feed(Masker(secrets), chunks) == data


@given(chunked(st.text(max_size=30).map(lambda text: text.encode("utf-8"))))
def test_no_character_is_split(chunks: list[bytes]) -> None:
    masker = Masker(["hunter22"])
    for chunk in chunks:
        masker.feed(chunk).decode("utf-8")
    masker.finish().decode("utf-8")


@pytest.mark.parametrize(
    ("secrets", "text", "expected"),
    [
        (["hunter2"], "it is hunter2!", "it is ***!"),
        (["hunter2"], "hunter2hunter2", "******"),
        (["abcdef", "abc"], "abcdef", "***"),
        (["abc"], "abc", "abc"),  # too short to distinguish from other text
        ([""], "anything", "anything"),
        ([], "anything", "anything"),
        (["a.c+d"], "a.c+d abcd", "*** abcd"),
        (["pässwörd"], "pässwörd", "***"),
        (["first line\nsecond line\n"], "second line first line", "*** ***"),
        (["first line\nsecond line"], "first line\nsecond line", "***"),
        (["  padded  "], "[padded]", "[***]"),
        (["aaaa"], "aaaaaaa", "***"),
        (["abcdefgh", "efghijkl"], "abcdefghijkl", "***"),  # the secrets overlap
        (["a'b\"c\\d"], str(["a'b\"c\\d"]), "['***']"),  # as a traceback shows it
        (["a'b\"c\\d"], json.dumps({"a": "a'b\"c\\d"}), '{"a": "***"}'),
        (["pässwörd"], json.dumps(["pässwörd"]), '["***"]'),
        (["pässwörd"], str("pässwörd".encode()), "b'***'"),
        (
            ['{"key":\n"-a\\nb-"}'],
            repr({"KEY": '{"key":\n"-a\\nb-"}'}),
            "{'KEY': '***'}",
        ),  # a multiline secret, shown on one line
        (["é\nabcd"], "\\xe9 \\xe9", "\\xe9 \\xe9"),  # a part that is too short is not masked in any notation
    ],
)
def test_masked_output_matches_the_examples(secrets: list[str], text: str, expected: str) -> None:
    assert feed(Masker(secrets), [text.encode()]).decode() == expected
    assert feed(Masker(secrets), [bytes([byte]) for byte in text.encode()]).decode() == expected
    assert Masker(secrets).mask(text) == expected


def test_bytes_that_cannot_be_part_of_a_secret_are_returned_immediately() -> None:
    masker = Masker(["hunter2"])
    assert masker.feed(b"password? hun") == b"password? "
    assert masker.feed(b"dred") == b"hundred"


def test_withheld_bytes_are_returned_at_the_end() -> None:
    masker = Masker(["hunter2"])
    assert masker.feed(b"hunt") == b""
    assert masker.finish() == b"hunt"
    assert masker.finish() == b""


@pytest.mark.parametrize("text", ["caf\udce9", "\0", "\U0001f98a", chr(0xD800)])
def test_any_text_can_be_masked(text: str) -> None:
    assert "hunter2" not in Masker(["hunter2"]).mask(f"{text}hunter2{text}")


def test_long_secret_does_not_slow_down_masking() -> None:
    masker = Masker(["x" * 100_000 + "y"])
    started = time.process_time()
    for _ in range(8):
        masker.feed(b"z" * (1 << 16))
    assert time.process_time() - started < 0.4  # half a megabyte; a log can be a thousand times as large


def test_self_overlapping_secret_does_not_withhold_everything() -> None:
    masker = Masker(["0000"])
    started, output = time.process_time(), 0
    for _ in range(8):
        output += len(masker.feed(b"0" * (1 << 16)))
    assert output > 0
    assert time.process_time() - started < 2
