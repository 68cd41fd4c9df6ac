"""Masks secrets in run output, even if a secret arrives in several pieces. Standard library only."""

import json
from collections.abc import Iterable, Iterator

MASK = b"***"
MIN_LENGTH = 4  # masking shorter values would make logs unreadable


class Masker:
    """Masks one stream. Buffers output that may be the beginning of a secret or of a UTF-8 character."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._words = sorted({word for secret in secrets for word in _variants(secret)})
        # If a program repeats the beginning of a secret, its output must not be buffered forever.
        self._max_buffered = 2 * max(map(len, self._words), default=0)
        self._buffer = b""
        self._masked = 0  # bytes at the start of the buffer that belong to a secret whose mask was already written

    def feed(self, data: bytes) -> bytes:
        """Add output; return the output that can be shown."""
        data = self._buffer + data
        unfinished = max((_overlap(data, word) for word in self._words), default=0)
        cut = len(data) - max(unfinished, _unfinished_character(data))
        spans = self._find(data)
        for start, end in spans:
            # A secret is masked as a whole or buffered as a whole. If it seems never to end, it is masked in parts.
            already_masked = self._masked > 0 and start == 0
            if start < cut < end and not already_masked and len(data) - start <= self._max_buffered:
                cut = start
        shown = self._hide(data[:cut], spans)
        begun = [end - cut for start, end in spans if end > cut and (start < cut or (self._masked and start == 0))]
        self._buffer, self._masked = data[cut:], max(begun, default=0)
        return shown

    def finish(self) -> bytes:
        """Return the rest of the buffer at the end of the stream."""
        shown = self._hide(self._buffer, self._find(self._buffer))
        self._buffer, self._masked = b"", 0
        return shown

    def mask(self, text: str) -> str:
        """Mask a whole text."""
        return self.mask_bytes(text.encode("utf-8", "replace")).decode("utf-8")

    def mask_bytes(self, data: bytes) -> bytes:
        """Mask a whole byte string."""
        return self._hide(data, self._find(data))

    def _hide(self, data: bytes, spans: list[tuple[int, int]]) -> bytes:
        shown, at = [], 0
        for start, end in spans:
            if start < len(data):
                shown += [data[at:start], b"" if self._masked and start == 0 else MASK]
                at = end
        return b"".join([*shown, data[at:]])

    def _find(self, data: bytes) -> list[tuple[int, int]]:
        """Return the spans of secrets; overlapping spans are merged."""
        merged = [(0, self._masked)] if self._masked else []
        for start, end in sorted(span for word in self._words for span in _list_spans(data, word)):
            if merged and start < merged[-1][1]:
                merged[-1] = merged[-1][0], max(end, merged[-1][1])
            else:
                merged.append((start, end))
        return merged


def _list_spans(data: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(word)
    while at >= 0:
        yield at, at + len(word)
        at = data.find(word, at + 1)  # not after the word, because a secret such as "abab" can overlap itself


def _overlap(data: bytes, word: bytes) -> int:
    """Return how many bytes at the end of the data are the beginning, but not all, of a word."""
    at = data.find(word[:1], max(len(data) - len(word) + 1, 0))
    while at >= 0 and not word.startswith(data[at:]):
        # Search for the first few bytes at once: a search byte by byte would take seconds if a secret is a whole file.
        ahead = data.find(word[:MIN_LENGTH], at + 1)
        at = ahead if ahead >= 0 else data.find(word[:1], max(at + 1, len(data) - MIN_LENGTH + 1))
    return len(data) - at if at >= 0 else 0


def _variants(secret: str) -> list[bytes]:
    """Return a secret in the forms that logs may show: as a whole, and line by line if it has several lines."""
    parts = {secret, secret.strip(), *secret.splitlines()}
    spelled = {word for part in parts if len(part) >= MIN_LENGTH for word in _quote(part)}
    return [word.encode("utf-8", "replace") for word in spelled]


def _quote(part: str) -> Iterator[str]:
    """Yield a string unchanged, and as Python and JSON quote it in tracebacks and printed dictionaries."""
    yield part
    yield from (
        shown[1:-1] for shown in (repr(part), ascii(part), json.dumps(part), json.dumps(part, ensure_ascii=False))
    )
    yield repr(part.encode("utf-8", "replace"))[2:-1]


def _unfinished_character(data: bytes) -> int:
    """Return how many bytes at the end are an incomplete UTF-8 character."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0b1100_0000 != 0b1000_0000:  # the first byte of a character
            length = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 0b11110 else 1
            return back if length > back else 0
    return 0
