"""Mutants: copies of a source file with one small fault, such as `<=` in place of `<`."""

import ast
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.modules import SOURCES

# The code to mutate: decisions, use cases, control loops and the local executor.
PACKAGES = (
    "lifecycle", "manifests", "planning", "resolution", "scheduling", "services", "controllers", "adapters/local",
)  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "//",
    ast.FloorDiv: "*",
    ast.Div: "*",
    ast.Mod: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
}


@dataclass(frozen=True)
class Mutant:
    """One fault in one file. `place` and `number` find the same fault after unrelated lines have moved."""

    file: str  # under src
    place: str  # the function or class that contains it
    number: int  # among identical faults in that place
    line: int
    start: int  # bytes
    end: int
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """A key of the mutant that does not depend on its line number."""
        return self.file, self.place, self.before, self.after, self.number

    def apply(self, source: bytes) -> bytes:
        """The source with the fault in it."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.before!r} -> {self.after!r}"


def choose_mutants(count: int, seed: int, sources: Path = SOURCES) -> list[Mutant]:
    """A random sample of all possible mutants, the same for the same seed and source."""
    return random.Random(seed).sample(list_mutants(sources), count)


def list_mutants(sources: Path = SOURCES) -> list[Mutant]:
    """Every possible mutant, ordered by file and line."""
    files = [file for package in PACKAGES for file in sorted((sources / "fairlead" / package).rglob("*.py"))]
    return [mutant for file in files for mutant in _mutants_of(file, str(file.relative_to(sources)))]


def _mutants_of(file: Path, name: str) -> Iterator[Mutant]:
    source = file.read_bytes()
    lines = source.splitlines(keepends=True)
    line_starts = [0]
    for line in lines:
        line_starts.append(line_starts[-1] + len(line))
    counts: Counter[tuple[str, str, str]] = Counter()

    def make_mutant(first: ast.AST, last: ast.AST, after: str, place: str) -> Mutant:
        start = line_starts[first.lineno - 1] + first.col_offset  # type: ignore[attr-defined]
        end = line_starts[last.end_lineno - 1] + last.end_col_offset  # type: ignore[attr-defined]
        before = source[start:end].decode()
        number = counts[place, before, after]
        counts[place, before, after] += 1
        return Mutant(name, place, number, first.lineno, start, end, before, after)  # type: ignore[attr-defined]

    for node, place in _walk(ast.parse(source)):
        for first, last, after in _faults_of(node):
            yield make_mutant(first, last, after, place)


def _walk(tree: ast.AST, place: str = "") -> Iterator[tuple[ast.AST, str]]:
    """All nodes in which a fault changes behavior, each with the name of the function or class around it."""
    if isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        place = f"{place}.{tree.name}".lstrip(".")
        inner: list[ast.AST] = list(tree.body)  # not its annotations and decorators
    else:
        inner = list(ast.iter_child_nodes(tree))
    for node in inner:
        if not isinstance(node, ast.JoinedStr | ast.Raise | ast.AnnAssign):  # messages and annotations
            yield node, place
            yield from _walk(node, place)


def _faults_of(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST, str]]:
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield node, node, f"{ast.unparse(left)} {COMPARISONS[type(operator)]} {ast.unparse(right)}"
        case ast.BoolOp(op=operator, values=values):
            keyword = " or " if isinstance(operator, ast.And) else " and "
            yield node, node, f"({keyword.join(f'({ast.unparse(value)})' for value in values)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, node, f"({ast.unparse(operand)})"
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            yield node, node, f"({ast.unparse(left)}) {OPERATORS[type(operator)]} ({ast.unparse(right)})"
        case ast.Constant(value=bool(value)):
            yield node, node, str(not value)
        case ast.Constant(value=int(number)):
            yield node, node, str(number + 1)
        case ast.If(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield test, test, f"(not ({ast.unparse(test)}))"
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield value, value, "None"
        case ast.Expr(value=ast.Call() as call):
            yield call, call, "None"
        case ast.Continue():
            yield node, node, "break"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def find_again(mutants: Sequence[Mutant], sources: Path = SOURCES) -> list[Mutant]:
    """Find the mutants in another version of the source. Skips mutants whose code no longer exists."""
    by_key = {mutant.key: mutant for mutant in list_mutants(sources)}
    return [by_key[mutant.key] for mutant in mutants if mutant.key in by_key]
