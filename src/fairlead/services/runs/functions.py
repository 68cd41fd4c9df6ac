"""Functions and their code, stored in projects explicitly or when a run submits a new function."""

import hashlib
import io
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from fairlead.errors import NotFound, RequestRejected, Unreadable
from fairlead.model.columns import Condition, Page
from fairlead.model.names import NAME
from fairlead.model.parsing import short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.project_objects import DEFAULT_SOURCE, FunctionDefinition
from fairlead.model.records import JSON, BlobRecord, CodeRecord, FunctionRecord
from fairlead.model.requests import Function, RunRequest, parse_digest
from fairlead.model.scopes import Permission
from fairlead.services.transactions.pages import ListQuery, load_page, parse_field
from fairlead.services.transactions.unit_of_work import Call, UnitOfWork, UnitOfWorkFactory
from fairlead.source_code import MAX_SOURCE_BYTES, ArchiveEntry, NoSuchName, PackedCode, check_code, pack_entries

MAX_SHOWN_BYTES = 256 * 1024  # per file; larger files are not shown in the web UI
MAX_FILES = 1000
GZIP = 31  # zlib's wbits value for gzip


@dataclass(frozen=True)
class StoredCode:
    """The digest and size of stored code."""

    digest: str
    size: int


class CodeStore:
    """Stores and finds code."""

    def __init__(self, units: UnitOfWorkFactory) -> None:
        self.units = units

    def find(self, call: Call, scope: str, digest: str) -> StoredCode:
        """Return stored code. Raises `NotFound` if it must be uploaded first."""
        with self.units.reading(call) as unit:
            unit.require(Permission.RUN, scope, scope)
            record = find_code(unit, scope, digest)
        if record is None:
            raise NotFound(f"code {short_repr(digest)} does not exist", "upload it with PUT to this URL")
        return StoredCode(record.digest, record.size)

    def put(self, call: Call, scope: str, digest: str, content: bytes) -> StoredCode:
        """Store code. Does nothing if it is already stored."""
        parse_field("digest", parse_digest, digest)
        actual = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if actual != digest:
            message = f"the digest of the content is {actual}, not {digest}"
            raise RequestRejected([Violation("digest", "digest", message, "send the complete content with its digest")])
        # Exclusive, because otherwise two simultaneous uploads of the same code would conflict.
        with self.units.recording(call, exclusive=True) as unit:
            unit.require(Permission.RUN, scope, scope)
            if find_code(unit, scope, digest) is None:
                values = {"id": _id_of(unit, scope, digest), "digest": digest, "created_by": unit.principal.user}
                unit.tx.add(CodeRecord(**values, size=len(content), created_at=unit.now))
                # Another project may have uploaded the same code. Uses `count`, because `get` would load the content.
                if unit.tx.count(BlobRecord, Condition("id", "=", digest)) == 0:
                    unit.tx.add(BlobRecord(id=digest, content=content))
        return StoredCode(digest, len(content))


def find_code(unit: UnitOfWork, scope: str, digest: str) -> CodeRecord | None:
    """Return a project's stored code; None if it does not exist."""
    return unit.tx.get(CodeRecord, id=_id_of(unit, scope, digest))


def copy_code(unit: UnitOfWork, source: str, target: str, digest: str | None) -> None:
    """Copy code from one project to another, for a run that moves there."""
    record = None if digest is None or source == target else find_code(unit, source, digest)
    if record is not None and find_code(unit, target, record.digest) is None:
        # The content is shared, so only the reference is copied. Retention counts from its new creation time.
        new_id, by = _id_of(unit, target, record.digest), unit.principal.user
        unit.tx.add(replace(record, id=new_id, created_by=by, created_at=unit.now))


def _id_of(unit: UnitOfWork, scope: str, digest: str) -> str:
    # Includes the project, because knowing a digest must not give access to other projects' code.
    return f"{unit.organization.scopes[scope].id}/{digest}"


@dataclass(frozen=True)
class CodeFile:
    """A file of a function's code. `text` is null for binary and large files."""

    path: str
    size: int
    text: str | None


@dataclass(frozen=True)
class CodeView:
    """The code of a function: digest, size of the archive in bytes, and files.

    `more` means that some files are not included.
    """

    digest: str
    size: int
    files: list[CodeFile]
    more: bool = False


class Functions:
    """Manages the functions of projects."""

    def __init__(self, units: UnitOfWorkFactory, codes: CodeStore) -> None:
        self.units, self.codes = units, codes

    def page(self, call: Call, query: ListQuery, scope: str | None = None) -> Page[FunctionRecord]:
        """List the visible functions of one project or of all projects."""
        with self.units.reading(call) as unit:
            return load_page(unit.tx, FunctionRecord, query, sort="name", within=unit.scope_conditions(scope))

    def get(self, call: Call, scope: str, name: str) -> FunctionRecord:
        """Return one function."""
        with self.units.reading(call) as unit:
            return _find(unit, scope, name, Permission.VIEW)

    def put(self, call: Call, scope: str, name: str, definition: FunctionDefinition) -> tuple[FunctionRecord, bool]:
        """Create or replace a function, packing its text as code. Returns the record, and whether it is new."""
        parse_field("name", NAME.parse, name)
        code = None
        if definition.text is not None:
            # Stored in a separate transaction. If the function is rejected below, retention deletes the unused code.
            packed = _pack(definition.text.encode(), definition)
            code = self.codes.put(call, scope, packed.digest, packed.archive).digest
        function = definition.to_function(name, code)
        with self.units.recording(call, exclusive=True) as unit:
            unit.require(Permission.RUN, scope, scope)
            if function.code is not None and find_code(unit, scope, function.code) is None:
                message = f"code {function.code} does not exist in {scope}"
                raise RequestRejected([Violation("code", "unknown_code", message, "upload it first, or set text")])
            before = find_function(unit, scope, name)
            if before is not None:
                unit.check_revision(before, required=True)
            else:
                unit.check_absent(f"function {name}")
            return store_function(unit, scope, function, before), before is None

    def delete(self, call: Call, scope: str, name: str) -> None:
        """Delete a function. Its runs and their code remain."""
        with self.units.recording(call) as unit:
            record = _find(unit, scope, name, Permission.RUN)
            unit.check_revision(record)
            unit.remove(record, "function", name, scope)

    def code(self, call: Call, scope: str, name: str) -> CodeView:
        """Return the files of a function's code."""
        with self.units.reading(call) as unit:
            record = _find(unit, scope, name, Permission.VIEW)
            blob = None if record.code is None else unit.tx.get(BlobRecord, id=record.code)
        if record.code is None or blob is None:
            raise NotFound(f"function {name} has no code", "read the function itself: it runs an image or a command")
        files = list(islice(_read_files(name, blob.content), MAX_FILES + 1))
        return CodeView(record.code, len(blob.content), files[:MAX_FILES], len(files) > MAX_FILES)


def find_function(unit: UnitOfWork, scope: str, name: str) -> FunctionRecord | None:
    """Return a stored function of a project; None if it does not exist."""
    return unit.tx.get(FunctionRecord, scope=scope, name=name)


def resolve_function(unit: UnitOfWork, scope: str, request: RunRequest) -> RunRequest:
    """Return the request with the stored function's content, if the request only names a function."""
    function = request.function
    stored = find_function(unit, scope, function.name) if not function_content(function) else None
    if stored is None:
        return request
    resolved = Function.model_validate({"name": stored.name, **stored.content})
    return request.model_copy(update={"function": resolved})


def suggest_functions(unit: UnitOfWork, scope: str, name: str) -> str:
    """Return a hint for an unknown function name: similar names, or how to define a function."""
    known = [record.name for record in unit.tx.find(FunctionRecord, Condition("scope", "=", scope))]
    return suggest_names(name, known, "available: {known}") if known else "set function: {name: ..., source: train.py}"


def is_new_content(unit: UnitOfWork, scope: str, function: Function) -> bool:
    """Whether a function's content differs from that of the stored function with the same name."""
    content, stored = function_content(function), find_function(unit, scope, function.name)
    return bool(content) and (stored is None or stored.content != content)


def store_function(unit: UnitOfWork, scope: str, function: Function, before: FunctionRecord | None) -> FunctionRecord:
    """Store a function, replacing the record `before`. Returns `before` if nothing changed."""
    values: dict[str, Any] = {"kind": function.kind, "content": function_content(function), "code": function.code}
    if before is None:
        record = FunctionRecord(**unit.creation_fields(), scope=scope, name=function.name, **values)
        return unit.add(record, "function", function.name, scope)
    if before.content == values["content"]:
        return before
    after = replace(before, **values, **unit.update_fields(before))
    return unit.save(before, after, "function.edit", function.name, scope)


def function_content(function: Function) -> JSON:
    """Return a function's fields without its name; empty if only its kind is set."""
    data: JSON = function.model_dump(mode="json", exclude_unset=True, exclude_none=True, warnings=False)
    content = {name: value for name, value in data.items() if name != "name"}
    return content if set(content) - {"kind"} else {}


def _pack(content: bytes, definition: FunctionDefinition) -> PackedCode:
    """Pack a function's source text. Raises `RequestRejected` if it is not valid Python or lacks the handler."""
    source = definition.source or DEFAULT_SOURCE
    module, _, name = (definition.handler or "").rpartition(":")
    if module not in ("", source.removesuffix(".py").replace("/", ".")):
        violation = Violation("handler", "handler", f"module {module!r} is not in {source}", f"use {name}")
        raise RequestRejected([violation])
    if name and not definition.command and not source.endswith(".py"):
        message = f"must be a Python file if handler is set, found {source}"
        raise RequestRejected([Violation("source", "path", message, "use a name that ends in .py, such as main.py")])
    try:
        if source.endswith(".py") and not definition.command:
            check_code(content, source, name)
    except Unreadable as error:
        path = "handler" if isinstance(error, NoSuchName) else "text"
        raise RequestRejected([Violation(path, "python", str(error), error.hint)]) from error
    return PackedCode(pack_entries([ArchiveEntry(source, content)]), source)


def _find(unit: UnitOfWork, scope: str, name: str, permission: Permission) -> FunctionRecord:
    unit.require(permission, scope, scope)
    record = find_function(unit, scope, name)
    if record is None:
        message = f"function {short_repr(name)} does not exist in {scope}"
        raise NotFound(message, suggest_functions(unit, scope, name))
    return record


def _read_files(name: str, archive: bytes) -> Iterator[CodeFile]:
    """Yield the files in an untrusted archive. Unpacking stops at the maximum code size."""
    try:
        # The gzip module would read every member of an archive that consists of a million empty members.
        # The output may be twice the maximum code size, because tar adds a header and padding to each file.
        plain = zlib.decompressobj(wbits=GZIP).decompress(archive, 2 * MAX_SOURCE_BYTES)
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as opened:
            for entry in opened:
                file = opened.extractfile(entry) if entry.isfile() else None
                if file is not None:
                    # File names in an archive can contain any bytes, but JSON needs valid Unicode.
                    path = entry.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
                    yield CodeFile(path, entry.size, _read_text(file.read(MAX_SHOWN_BYTES + 1)))
    # RecursionError, because tarfile recurses for each header that describes another header.
    except (OSError, EOFError, tarfile.TarError, zlib.error, ValueError, LookupError, RecursionError) as error:
        raise NotFound(f"the code of function {name} cannot be read: invalid archive") from error


def _read_text(content: bytes) -> str | None:
    try:
        return None if len(content) > MAX_SHOWN_BYTES or b"\0" in content else content.decode("utf-8")
    except UnicodeDecodeError:
        return None
