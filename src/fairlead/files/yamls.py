"""Strict YAML: JSON types only, no duplicate keys, and limits on size and nesting."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fairlead.errors import Unreadable
from fairlead.model.plans import Manifest, Violation

# Far more than people write by hand, and small enough to be checked within seconds.
MAX_FILE_BYTES = 1024 * 1024
MAX_VALUES = 100_000  # aliases count each time they are used
MAX_DEPTH = 100
SAFE_SIZE = 4096  # a shorter text cannot nest deep enough to overflow the stack
MAX_DIGITS = 1000  # int() takes quadratic time and rejects more than 4,300 digits

# The C parser is several times faster, but PyYAML may be installed without it.
_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_file(path: Path) -> list[Any] | Violation:
    """The non-empty documents of a YAML file, or a violation."""
    try:
        with path.open("rb") as file:
            # One byte more than allowed is enough to detect a larger file without reading it all.
            text = file.read(MAX_FILE_BYTES + 1)
        return parse_documents(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "use the path of a file in this folder" if os.path.isdir(path) else "use the path of an existing file"
        return Violation("", "file", f"cannot be read: {reason}", hint, location=str(path))
    except Unreadable as error:
        return Violation("", "yaml", str(error), error.hint, location=str(path))


def parse_documents(text: bytes, *, max_bytes: int = MAX_FILE_BYTES, max_values: int = MAX_VALUES) -> list[Any]:
    """The non-empty documents of a YAML text. Raise `Unreadable` with the reason."""
    if len(text) > max_bytes:
        raise Unreadable(f"is larger than {max_bytes:,} bytes", "remove data from it")
    # A NUL byte is the simplest indication of a binary file.
    if b"\0" in text:
        raise Unreadable("is not a text file", "use the path of a YAML file")
    decoded = _decode(text)
    loader = _Loader(decoded)
    try:
        _check_depth(decoded)
        documents = []
        while loader.check_node():
            node = loader.get_node()
            _check_size(node, max_values)
            documents.append(loader.construct_document(node))
    except yaml.YAMLError as error:
        raise _explain(error, decoded) from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"has a value that cannot be read: {error}", "put it in quotes") from error
    finally:
        loader.dispose()
    # A file often begins with `---`, or has only comments between two `---` lines.
    return [document for document in documents if document is not None]


def format_documents(manifests: Sequence[Manifest]) -> str:
    """Format manifests or documents as readable YAML."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


def _explain(error: yaml.YAMLError, text: str) -> Unreadable:
    """Translate a PyYAML error into a message without parser terms."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    line = f"line {mark.line + 1}" if mark else "it"
    lines = text.splitlines()
    if mark and "\t" in "".join(lines[mark.line : mark.line + 1]):
        return Unreadable(f"{line}: found a tab; YAML is indented with spaces", "replace tabs with spaces")
    if isinstance(error, yaml.constructor.ConstructorError):
        if tag := re.search(r"the tag '([^']*)'", problem):
            return Unreadable(f"{line}: the tag {tag[1]} is not supported", "remove the tag")
        return Unreadable(f"{line}: a key must be text", "use text as the key")
    if alias := re.search(r"undefined alias(?: '(.*?)')?", problem):
        message = f"{line}: the alias *{alias[1] or 'name'} has no anchor"
        return Unreadable(message, "add an anchor (&) with this name to an earlier value")
    hint = f"check {line} and the lines before it for an open quote or bracket, a stray comma or wrong indentation"
    return Unreadable(f"is not valid YAML: {line}: {problem}", hint)


class _Loader(_Base):  # type: ignore[misc]
    """Loads only the scalar types that YAML 1.2 and JSON share: numbers, true, false, null and text."""

    # Replaces the inherited YAML 1.1 resolvers, because add_implicit_resolver would only add to them.
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        # Keys are checked before merging, so that a key may override a merged one. Several merge keys are allowed.
        scalars = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        for name, count in Counter(key.value for key in scalars).items():
            if count > 1:
                duplicate = [key for key in scalars if key.value == name][1]
                raise Unreadable(f"line {duplicate.start_mark.line + 1}: duplicate key {name!r}", "remove one of them")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _construct_int(_: _Loader, node: yaml.ScalarNode) -> int:
    if len(node.value) > MAX_DIGITS:
        raise Unreadable(f"line {node.start_mark.line + 1}: number with {len(node.value)} digits", "put it in quotes")
    return int(node.value)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)

_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    "float": (r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    "merge": (r"<<", ["<"]),
}
for _name, (_pattern, _first) in _SCALARS.items():
    # YAML 1.1 would read yes, off, 1:30, 010 and 2026-01-01 as booleans, numbers and dates.
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)


class _Dumper(yaml.SafeDumper):
    """Dumps multi-line texts as blocks, indents lists and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        # PyYAML does not indent lists in mappings, which people find hard to read.
        super().increase_indent(flow, False)


# Text that a YAML 1.1 or 1.2 parser would read as a number or boolean, so it is quoted.
_MISREAD = re.compile(
    r"[-+]?(0o?[0-7_]+|0x[0-9a-f_]+|0b[01_]+|([0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(e[-+]?[0-9]+)?|[0-9:]+|\.inf|\.nan)"
    r"|y|n|yes|no|on|off|true|false|null|~",
    re.IGNORECASE,
)


def _print_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # PyYAML quotes only text that it would misread itself under the YAML 1.1 rules.
    style = "|" if "\n" in text else "'" if _MISREAD.fullmatch(text.replace("_", "")) else None
    if not text.replace("\n", "").isprintable():
        # Only double-quoted text supports escapes.
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _print_text)


def _decode(text: bytes) -> str:
    try:
        # Editors on Windows write a byte order mark, which utf-8-sig removes.
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 text: byte {error.start} is {text[error.start]:#04x}"
        raise Unreadable(message, "save it as UTF-8") from error


def _check_depth(text: str) -> None:
    """Reject deep nesting before composing, because libyaml would overflow the C stack of the process."""
    # This is an additional pass over the text, so it is skipped for texts that cannot nest too deeply.
    if len(text) <= SAFE_SIZE:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise Unreadable(f"is nested more than {MAX_DEPTH} levels deep", "reduce the nesting")


def _check_size(node: yaml.Node | None, max_values: int) -> None:
    """Reject small files that expand to huge or infinite data through aliases."""
    # Keyed by identity: aliases share a node, so it is measured once. A node that contains itself ends at MAX_DEPTH.
    sizes: dict[int, int] = {}

    def measure(part: yaml.Node | None, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise Unreadable(f"is nested more than {MAX_DEPTH} levels deep", "reduce the nesting")
        if isinstance(part, yaml.ScalarNode) or part is None:
            return 1
        if id(part) not in sizes:
            inner = [child for pair in part.value for child in (pair if isinstance(pair, tuple) else (pair,))]
            sizes[id(part)] = 1 + sum(measure(child, depth + 1) for child in inner)
        if sizes[id(part)] > max_values:
            raise Unreadable(f"has more than {max_values:,} values", "remove data from it")
        return sizes[id(part)]

    measure(node, 0)
