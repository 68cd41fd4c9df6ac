"""Malicious archives, built header by header."""

import gzip
import hashlib
import tarfile
from collections.abc import Iterator, Mapping

MAIN = b"def main():\n    return 'first'\n"
BLOCK = 512


def make_entry(
    name: str, content: bytes = b"", *, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = -1
) -> bytes:
    """One entry: a header and the content. The header may contain a wrong size."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.mode, entry.size = kind, link, 0o6755, len(content) if size < 0 else size
    return entry.tobuf(tarfile.GNU_FORMAT) + content.ljust(-(-len(content) // BLOCK) * BLOCK, b"\0")


def zip_entries(*entries: bytes) -> bytes:
    """The entries as a compressed archive."""
    return gzip.compress(b"".join(entries) + bytes(2 * BLOCK), compresslevel=1)


def digest_of(archive: bytes) -> str:
    """The digest of an archive."""
    return f"sha256:{hashlib.sha256(archive).hexdigest()}"


def make_escapes(folder: str) -> Mapping[str, bytes]:
    """Archives with a valid main.py that try to write a file `escaped` into a folder outside."""
    main, content, up = make_entry("main.py", MAIN), b"escaped", "../" * 30 + folder.lstrip("/")
    link, hard = tarfile.SYMTYPE, tarfile.LNKTYPE
    return {
        "absolute": zip_entries(main, make_entry(f"{folder}/escaped", content)),
        "absolute twice": zip_entries(main, make_entry(f"/{folder}/escaped", content)),
        "up": zip_entries(main, make_entry(f"{up}/escaped", content)),
        "down and up": zip_entries(main, make_entry(f"a/b/{up}/escaped", content)),
        "through a link": zip_entries(
            main, make_entry("link", kind=link, link=folder), make_entry("link/escaped", content)
        ),
        "through a relative link": zip_entries(
            main, make_entry("link", kind=link, link=up), make_entry("link/escaped", content)
        ),
        "over a link": zip_entries(
            main, make_entry("escaped", kind=link, link=f"{folder}/escaped"), make_entry("escaped", content)
        ),
        "over a hard link": zip_entries(
            main, make_entry("link", kind=hard, link=f"{folder}/kept"), make_entry("link", content)
        ),
        "a long name": zip_entries(
            main,
            make_entry("././@LongLink", f"{up}/escaped\0".encode(), kind=tarfile.GNUTYPE_LONGNAME),
            make_entry("x", content),
        ),
    }


def make_malformed() -> Mapping[str, bytes]:
    """Archives that are large, deep, endless or invalid."""
    return dict(_list_malformed())


def _list_malformed() -> Iterator[tuple[str, bytes]]:
    main, character, long_name = make_entry("main.py", MAIN), tarfile.CHRTYPE, tarfile.GNUTYPE_LONGNAME
    yield (
        "devices",
        zip_entries(
            main,
            make_entry("null", kind=character),
            make_entry("sda", kind=tarfile.BLKTYPE),
            make_entry("p", kind=tarfile.FIFOTYPE),
        ),
    )
    yield "the same file twice", zip_entries(main, make_entry("main.py", b"def main():\n    return 'second'\n"))
    yield "a folder and a file", zip_entries(make_entry("main.py", kind=tarfile.DIRTYPE), main)
    yield "header with a huge size", zip_entries(make_entry("main.py", MAIN, size=8**11 - 1))
    yield "header with a small size", zip_entries(make_entry("main.py", MAIN, size=3))
    yield "zip bomb", zip_entries(main, make_entry("zeros", bytes(32 << 20)))
    yield "zip bomb without entries", gzip.compress(bytes(32 << 20), compresslevel=1)
    yield "many long-name entries", zip_entries(*[make_entry("x", bytes(BLOCK), kind=long_name)] * 5000, main)
    yield "many extended headers", zip_entries(*[make_entry("x", b"12 path=abc\n", kind=tarfile.XHDTYPE)] * 5000, main)
    yield (
        "links to themselves",
        zip_entries(
            main, make_entry("a", kind=tarfile.LNKTYPE, link="a"), make_entry("b", kind=tarfile.SYMTYPE, link="b")
        ),
    )
    yield (
        "unusual names",
        zip_entries(
            main,
            *(
                make_entry(name, b"x")
                for name in ("", ".", "..", "a\nb", "\x1b[31m", "\udcff", "C:\\x", "~root/x", "a//b")
            ),
        ),
    )
    yield "many folders", zip_entries(*[make_entry("d", kind=tarfile.DIRTYPE)] * 20_000, main)
    yield "many files", zip_entries(*[make_entry("f", b"")] * 20_000, main)
    yield "empty", zip_entries()
    yield "truncated", zip_entries(main)[:-9]
    yield "two archives in one", zip_entries(main) + zip_entries(make_entry("second.py", MAIN))
    yield "not compressed", main + bytes(2 * BLOCK)
    yield "invalid gzip", b"\x1f\x8b" + bytes(100)
