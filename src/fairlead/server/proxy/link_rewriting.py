"""Takes off again what a proxy on the way puts before the links of a page, while the page streams."""


class PrefixRemover:
    """Removes a prefix wherever it stands in what it is fed, also where that is cut in the middle of one."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix, self._left = prefix, b""

    def feed(self, piece: bytes) -> bytes:
        """A piece without the prefix, as far as that can be told; nothing is held back that cannot be part of one."""
        text = (self._left + piece).replace(self._prefix, b"")
        longest = min(len(self._prefix) - 1, len(text))
        held = next((size for size in range(longest, 0, -1) if text.endswith(self._prefix[:size])), 0)
        self._left = text[len(text) - held :]
        return text[: len(text) - held]

    def finish(self) -> bytes:
        """What was held back."""
        left, self._left = self._left, b""
        return left
