"""YAML without surprises: no duplicate keys, no yes that means true, no file or document that exhausts the machine."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from fairlead.model.plans import Manifest, Violation

LARGEST_FILE = 1024 * 1024
MOST_VALUES = 100_000
DEEPEST = 100

_Base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Unreadable(Exception):
    """What is wrong with a text that should be YAML, and the way out."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def load_file(path: Path) -> list[Any] | Violation:
    """The documents of a YAML file that are not empty, or what is wrong with it."""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_FILE + 1)
        return parse_text(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return Violation("", "file", f"cannot be read: {reason}", "give the name of a YAML file", where=str(path))
    except Unreadable as error:
        return Violation("", "yaml", str(error), error.hint, where=str(path))


def parse_text(text: bytes) -> list[Any]:
    """The documents of a YAML text that are not empty. Raise `Unreadable` with the reason."""
    if len(text) > LARGEST_FILE:
        raise Unreadable(f"is larger than {LARGEST_FILE:,} bytes", "keep data out of it: what is asked for fits a page")
    loader = _Loader(_decode(text))
    try:
        documents = []
        while loader.check_node():
            node = loader.get_node()
            _check_size(node)
            documents.append(loader.construct_document(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}: " if mark else ""
        raise Unreadable(f"is no YAML: {place}{error.problem}", "mend that line") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unreadable(f"is no YAML: {str(error).splitlines()[0]}", "write it as YAML") from error
    finally:
        loader.dispose()
    return [document for document in documents if document is not None]


def print_documents(manifests: tuple[Manifest, ...]) -> str:
    """Manifests as a person would write them."""
    return yaml.dump_all(manifests, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Loader(_Base):  # type: ignore[misc]
    """Reads what YAML 1.2 and JSON agree on: numbers, true, false, null and text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        scalars = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        for name, count in Counter(key.value for key in scalars).items():
            if count > 1:
                again = [key for key in scalars if key.value == name][1]
                raise yaml.MarkedYAMLError(problem=f"{name!r} is there twice", problem_mark=again.start_mark)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


_SCALARS = {
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "int": (r"[-+]?(0|[1-9][0-9]*)", list("-+0123456789")),
    "float": (r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    "merge": (r"<<", ["<"]),
}
for _name, (_pattern, _first) in _SCALARS.items():
    # YAML 1.1 reads yes, off, 1:30, 010 and 2026-01-01 as something else than they say.
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_pattern})\Z"), _first)


class _Dumper(yaml.SafeDumper):
    """Long texts as blocks, lists indented, no references between equal parts."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


def _print_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _print_text)


def _decode(text: bytes) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"is not UTF-8 text: byte {error.start} is {text[error.start]:#04x}", "save it as UTF-8"
        ) from error


def _check_size(node: yaml.Node | None) -> None:
    """Refuse what is small as a file and huge or endless as data, through references to itself."""
    sizes: dict[int, int] = {}

    def measure(part: yaml.Node | None, depth: int) -> int:
        if depth > DEEPEST:
            raise Unreadable(f"is nested more than {DEEPEST} deep", "flatten it")
        if isinstance(part, yaml.ScalarNode) or part is None:
            return 1
        if id(part) not in sizes:
            inner = [child for pair in part.value for child in (pair if isinstance(pair, tuple) else (pair,))]
            sizes[id(part)] = 1 + sum(measure(child, depth + 1) for child in inner)
        if sizes[id(part)] > MOST_VALUES:
            raise Unreadable(f"has more than {MOST_VALUES:,} values", "keep data out of it")
        return sizes[id(part)]

    measure(node, 0)
