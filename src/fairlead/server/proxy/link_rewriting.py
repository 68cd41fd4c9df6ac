"""Removes the path prefix that the Kubernetes API server adds to links in proxied HTML pages."""


class PrefixRemover:
    """Removes all occurrences of a prefix from a stream of chunks, even if one is split between two chunks."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix, self._pending = prefix, b""

    def feed(self, chunk: bytes) -> bytes:
        """The chunk without the prefix. Buffers the end of a chunk if it may be the start of a prefix."""
        text = (self._pending + chunk).replace(self._prefix, b"")
        longest = min(len(self._prefix) - 1, len(text))
        size = next((length for length in range(longest, 0, -1) if text.endswith(self._prefix[:length])), 0)
        self._pending = text[len(text) - size :]
        return text[: len(text) - size]

    def finish(self) -> bytes:
        """Return the buffered rest at the end of the stream."""
        rest, self._pending = self._pending, b""
        return rest
