"""Functions that projects keep: written, or remembered as they were last run; and the code that they have."""

import io
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from fairlead.errors import NotFound, RequestRejected, Unreadable
from fairlead.inspecting import NoSuchName, check_code
from fairlead.model.names import NAME
from fairlead.model.parsing import short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.project_objects import DEFAULT_SOURCE, FunctionDefinition
from fairlead.model.queries import Condition, Page
from fairlead.model.records import JSON, BlobRecord, FunctionRecord
from fairlead.model.requests import Function, RunRequest
from fairlead.model.roles import Permission
from fairlead.packing import MAX_SOURCE_BYTES, ArchiveEntry, PackedCode, pack
from fairlead.services.calls import Call
from fairlead.services.pages import Listing, load_page
from fairlead.services.parsing import parse_field
from fairlead.services.stored_code import CodeStore, find_code
from fairlead.services.unit_of_work import UnitOfWork, UnitOfWorkFactory

LARGEST_SHOWN = 256 * 1024
MOST_FILES = 1000
GZIP = 31  # what zlib calls the format of one gzip file


@dataclass(frozen=True)
class CodeFile:
    """A file of a function's code; its text where it is one, and not too long to be shown."""

    path: str
    size: int
    text: str | None


@dataclass(frozen=True)
class CodeView:
    """The code of a function: under which digest it is kept, how large that is, and its files.

    `more`: there are more files than are told.
    """

    digest: str
    size: int
    files: list[CodeFile]
    more: bool = False


class Functions:
    """The use cases of functions."""

    def __init__(self, units: UnitOfWorkFactory, codes: CodeStore) -> None:
        self.units, self.codes = units, codes

    def page(self, call: Call, asked: Listing, scope: str | None = None) -> Page[FunctionRecord]:
        """The functions that the caller sees, of all projects or of one."""
        with self.units.reading(call) as unit:
            return load_page(unit.tx, FunctionRecord, asked, sort="name", within=unit.within(scope))

    def get(self, call: Call, scope: str, name: str) -> FunctionRecord:
        """One function."""
        with self.units.reading(call) as unit:
            return _find(unit, scope, name, Permission.VIEW)

    def put(self, call: Call, scope: str, name: str, written: FunctionDefinition) -> tuple[FunctionRecord, bool]:
        """Keep a function; whether it is new. Its text is packed as code is that somebody sends."""
        parse_field("name", NAME.parse, name)
        code = None
        if written.text is not None:
            packed = _pack(written.text.encode(), written)
            code = self.codes.put(call, scope, packed.digest, packed.archive).digest
        function = written.to_function(name, code)
        with self.units.recording(call, alone=True) as unit:
            unit.require(Permission.RUN, scope, scope)
            if function.code is not None and find_code(unit, scope, function.code) is None:
                message = f"there is no code {function.code} in {scope}"
                raise RequestRejected([Violation("code", "unknown_code", message, "send it first, or say text")])
            before = find_function(unit, scope, name)
            if before is not None:
                unit.check_revision(before, required=True)
            else:
                unit.check_absent(f"function {name}")
            return keep_function(unit, scope, function, before), before is None

    def delete(self, call: Call, scope: str, name: str) -> None:
        """Forget a function. Runs of it stay, and so does their code."""
        with self.units.recording(call) as unit:
            record = _find(unit, scope, name, Permission.RUN)
            unit.check_revision(record)
            unit.remove(record, "function", name, scope)

    def code(self, call: Call, scope: str, name: str) -> CodeView:
        """The files of a function's code."""
        with self.units.reading(call) as unit:
            record = _find(unit, scope, name, Permission.VIEW)
            kept = None if record.code is None else unit.tx.get(BlobRecord, id=record.code)
        if record.code is None or kept is None:
            raise NotFound(f"function {name} has no code of its own", "it is an image or a command: see its content")
        files = list(islice(_read_files(name, kept.content), MOST_FILES + 1))
        return CodeView(record.code, len(kept.content), files[:MOST_FILES], len(files) > MOST_FILES)


def find_function(unit: UnitOfWork, scope: str, name: str) -> FunctionRecord | None:
    """A function that a project keeps."""
    return unit.tx.get(FunctionRecord, scope=scope, name=name)


def name_whole(unit: UnitOfWork, scope: str, request: RunRequest) -> RunRequest:
    """The request with the function that the project keeps under a name, where only that is said."""
    function = request.function
    kept = find_function(unit, scope, function.name) if not content_of(function) else None
    if kept is None:
        return request
    whole = Function.model_validate({"name": kept.name, **kept.content})
    return request.model_copy(update={"function": whole})


def suggest(unit: UnitOfWork, scope: str, name: str) -> str:
    """What to do where a project keeps no function of a name."""
    known = [record.name for record in unit.tx.find(FunctionRecord, Condition("scope", "=", scope))]
    return suggest_names(name, known, "it has {known}") if known else "say function: {name: ..., source: train.py}"


def is_news(unit: UnitOfWork, scope: str, function: Function) -> bool:
    """Whether a function is another than the one that a project keeps under its name."""
    content, kept = content_of(function), find_function(unit, scope, function.name)
    return bool(content) and (kept is None or kept.content != content)


def keep_function(unit: UnitOfWork, scope: str, function: Function, before: FunctionRecord | None) -> FunctionRecord:
    """Keep a function as it is now, in place of what was kept under its name."""
    said: dict[str, Any] = {"kind": function.kind, "content": content_of(function), "code": function.code}
    if before is None:
        record = FunctionRecord(**unit.stamps(), scope=scope, name=function.name, **said)
        return unit.add(record, "function", function.name, scope)
    if before.content == said["content"]:
        return before
    after = replace(before, **said, **unit.next(before))
    return unit.save(before, after, "function.edit", function.name, scope)


def content_of(function: Function) -> JSON:
    """All that is said of a function but its name; nothing where only its kind is."""
    said: JSON = function.model_dump(mode="json", exclude_unset=True, exclude_none=True, warnings=False)
    content = {name: value for name, value in said.items() if name != "name"}
    return content if set(content) - {"kind"} else {}


def _pack(content: bytes, written: FunctionDefinition) -> PackedCode:
    """The text of a function as code that can travel. Raise `RequestRejected` where it is no Python, or another."""
    source = written.source or DEFAULT_SOURCE
    module, _, name = (written.handler or "").rpartition(":")
    if module not in ("", source.removesuffix(".py").replace("/", ".")):
        violation = Violation("handler", "handler", f"there is no module {module!r} in {source}", f"write {name}")
        raise RequestRejected([violation])
    if name and not written.command and not source.endswith(".py"):
        message = f"is no Python file, and has a handler: {source}"
        raise RequestRejected([Violation("source", "path", message, "call it something such as main.py")])
    try:
        if source.endswith(".py") and not written.command:
            check_code(content, source, name)
    except Unreadable as error:
        path = "handler" if isinstance(error, NoSuchName) else "text"
        raise RequestRejected([Violation(path, "python", str(error), error.hint)]) from error
    return PackedCode(pack([ArchiveEntry(source, content)]), source)


def _find(unit: UnitOfWork, scope: str, name: str, permission: Permission) -> FunctionRecord:
    unit.require(permission, scope, scope)
    record = find_function(unit, scope, name)
    if record is None:
        raise NotFound(f"{scope} has no function {short_repr(name)}", suggest(unit, scope, name))
    return record


def _read_files(name: str, archive: bytes) -> Iterator[CodeFile]:
    """The files of packed code. What is in them is not to be trusted: no more is unpacked than code may have."""
    try:
        # Not by the gzip module: of an archive that is made of a million empty ones, it would read each.
        plain = zlib.decompressobj(wbits=GZIP).decompress(archive, 2 * MAX_SOURCE_BYTES)
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as opened:
            for entry in opened:
                file = opened.extractfile(entry) if entry.isfile() else None
                if file is not None:
                    path = entry.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
                    yield CodeFile(path, entry.size, _read_text(file.read(LARGEST_SHOWN + 1)))
    # Recursion: tarfile goes one call deeper for each header that is about another header.
    except (OSError, EOFError, tarfile.TarError, zlib.error, ValueError, LookupError, RecursionError) as error:
        raise NotFound(f"the code of function {name} cannot be read: it is no archive of ours") from error


def _read_text(content: bytes) -> str | None:
    try:
        return None if len(content) > LARGEST_SHOWN or b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None
