"""Secrets are taken out of what a run writes, also where a secret comes in two pieces. Standard library only."""

import json
from collections.abc import Iterable, Iterator

MASK = b"***"
SHORTEST = 4  # a shorter one would take half of every log with it


class Masker:
    """Masks one stream. Holds back what may be the beginning of a secret, or of a character, until more comes."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._words = sorted({word for secret in secrets for word in _words_of(secret)})
        self._most_held = 2 * max(map(len, self._words), default=0)
        self._held = b""
        self._masked = 0  # how many of the bytes that are held belong to a secret that was told as masked already

    def feed(self, data: bytes) -> bytes:
        """What can be told of what was written so far."""
        data = self._held + data
        unfinished = max((_overlap(data, word) for word in self._words), default=0)
        cut = len(data) - max(unfinished, _unfinished_character(data))
        spans = self._find(data)
        for start, end in spans:
            # A secret is told whole, or held back whole; one without end is told by and by.
            told_in_part = self._masked > 0 and start == 0
            if start < cut < end and not told_in_part and len(data) - start <= self._most_held:
                cut = start
        told = self._hide(data[:cut], spans)
        begun = [end - cut for start, end in spans if end > cut and (start < cut or (self._masked and start == 0))]
        self._held, self._masked = data[cut:], max(begun, default=0)
        return told

    def finish(self) -> bytes:
        """What was held back, now that nothing more comes."""
        told = self._hide(self._held, self._find(self._held))
        self._held, self._masked = b"", 0
        return told

    def mask(self, text: str) -> str:
        """A whole text without secrets."""
        return self.mask_bytes(text.encode("utf-8", "replace")).decode("utf-8")

    def mask_bytes(self, data: bytes) -> bytes:
        """All of some bytes, without secrets."""
        return self._hide(data, self._find(data))

    def _hide(self, data: bytes, spans: list[tuple[int, int]]) -> bytes:
        shown, at = [], 0
        for start, end in spans:
            if start < len(data):
                shown += [data[at:start], b"" if self._masked and start == 0 else MASK]
                at = end
        return b"".join([*shown, data[at:]])

    def _find(self, data: bytes) -> list[tuple[int, int]]:
        """Where secrets stand, those that overlap as one."""
        found = [(0, self._masked)] if self._masked else []
        for start, end in sorted(span for word in self._words for span in _list_spans(data, word)):
            if found and start < found[-1][1]:
                found[-1] = found[-1][0], max(end, found[-1][1])
            else:
                found.append((start, end))
        return found


def _list_spans(data: bytes, word: bytes) -> Iterator[tuple[int, int]]:
    at = data.find(word)
    while at >= 0:
        yield at, at + len(word)
        at = data.find(word, at + 1)


def _overlap(data: bytes, word: bytes) -> int:
    """How much of the end of data is the beginning of a word, and not all of it."""
    at = data.find(word[:1], max(len(data) - len(word) + 1, 0))
    while at >= 0 and not word.startswith(data[at:]):
        # By the first few bytes at once: one by one would take seconds for a secret that is a file.
        ahead = data.find(word[:SHORTEST], at + 1)
        at = ahead if ahead >= 0 else data.find(word[:1], max(at + 1, len(data) - SHORTEST + 1))
    return len(data) - at if at >= 0 else 0


def _words_of(secret: str) -> list[bytes]:
    """A secret as a whole; one of several lines also line by line, as a log may show it."""
    parts = {secret, secret.strip(), *secret.splitlines()}
    spelled = {word for part in parts if len(part) >= SHORTEST for word in _spell(part)}
    return [word.encode("utf-8", "replace") for word in spelled]


def _spell(part: str) -> Iterator[str]:
    """A text as it is, and as Python and JSON show it in quotes: tracebacks and printed mappings do."""
    yield part
    yield from (
        shown[1:-1] for shown in (repr(part), ascii(part), json.dumps(part), json.dumps(part, ensure_ascii=False))
    )
    yield repr(part.encode("utf-8", "replace"))[2:-1]


def _unfinished_character(data: bytes) -> int:
    """How many bytes at the end begin a character of UTF-8 that is not complete."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0b1100_0000 != 0b1000_0000:  # the first byte of a character
            length = 2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 0b11110 else 1
            return back if length > back else 0
    return 0
