"""Names in the pages exist: commands, options, variables, routes, fields, reasons, labels, and SDK names.

Links, files and module functions are checked in test_references.py.
"""

import ast
import inspect
import itertools
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from cyclopts import App

import fairlead
from fairlead.cli import app
from fairlead.model.runs import State
from fairlead.sdk.functions import Function, RunParameters, Schedule
from fairlead.sdk.projects import Project
from fairlead.sdk.runs import Run
from fairlead.settings import Settings
from tests.docs.pages import FENCE, PAGES, ROOT, list_blocks

ROUTES = ROOT / "docs" / "reference" / "routes.md"
# The changelog mentions names that were changed or removed.
CURRENT_PAGES = [page for page in PAGES if page.name != "CHANGELOG.md"]
SPANS = sorted(
    {
        (page, span)
        for page in CURRENT_PAGES
        for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", page.read_text("utf-8")))
    }
)
COMMANDS = [
    *((page, span) for page, span in SPANS if span.startswith("fairlead ")),
    *(
        (block.page, line)
        for block in list_blocks("sh")
        for line in block.text.splitlines()
        if line.startswith("fairlead ")
    ),
]
# Pages for contributors also mention names from tests and benchmarks, and other programs' options.
FOR_CONTRIBUTORS = ("ARCHITECTURE.md", "CONTRIBUTING.md", "docs/contributors/", "docs/decisions/")
# Plugins of the Kubernetes scheduler, and HTTP, Python and Linux terms that the code does not contain.
FOREIGN_NAMES = {
    *("DynamicResources", "InterPodAffinity", "NodePorts", "NodeResourcesFit", "NodeUnschedulable"),
    *("NodeVolumeLimits", "PodTopologySpread", "TaintToleration", "VolumeBinding", "VolumeRestrictions", "VolumeZone"),
    *("CreateContainerConfigError", "HttpOnly", "SameSite", "async", "ps"),
    "anyone",  # who may use a route
}
SNAKE = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
CAMEL = re.compile(r"[A-Z]+[a-z]+(?:[A-Z]+[a-z]*)+")
# The types of variables in SDK examples.
VARIABLES: dict[str, Any] = {
    "fl": fairlead,
    "project": Project,
    "nightly": Schedule,
    **dict.fromkeys(("run", "first", "second"), Run),
    **dict.fromkeys(("func", "hold", "square", "train"), Function),
}


def test_every_command_exists_with_its_options() -> None:
    assert len(COMMANDS) > 80
    problems = [
        f"{_path_of(page)}: {text}: {reason}" for page, text in COMMANDS for reason in _problems_of_command(text)
    ]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("fairlead rnu train.py", "no command rnu"),
        ("fairlead runs lst", "no command lst"),
        ("fairlead runs logs RUN --folow", "no option --folow"),
        ("fairlead run train.py --memory 1Gi -- --epochs 3", "no option --memory"),
    ],
)
def test_wrong_commands_are_detected(text: str, reason: str) -> None:
    assert list(_problems_of_command(text)) == [reason]


def test_every_option_exists() -> None:
    known = _options_of(app)
    options = [
        (page, span.partition(" ")[0])
        for page, span in SPANS
        if re.match(r"--?[a-z]", span) and not _path_of(page).startswith(FOR_CONTRIBUTORS)
    ]
    assert len(options) > 80
    missing = [f"{_path_of(page)}: {option}" for page, option in options if option not in known]
    assert not missing, "\n".join(missing)


def test_every_environment_variable_exists() -> None:
    settings = {f"FAIRLEAD_{name.upper()}" for name in Settings.model_fields}
    variables = {(page, name) for page in PAGES for name in re.findall(r"FAIRLEAD_[A-Z_]+", page.read_text("utf-8"))}
    assert len(variables) > 20
    missing = [f"{_path_of(page)}: {name}" for page, name in sorted(variables) if name not in settings | _words(page)]
    assert not missing, "\n".join(missing)


def test_every_route_exists() -> None:
    known = re.findall(r"^\| `([A-Z]+) (/[^`]*)` \|", ROUTES.read_text("utf-8"), re.MULTILINE)
    assert len(known) > 100
    routes = [(method, re.compile(re.sub(r"\{\w+\}", "[^/]+", path))) for method, path in known]
    first_segments = {path.split("/")[1] for _, path in known}
    missing = []
    for page, span in SPANS:
        match = re.fullmatch(r"(?:([A-Z]+) )?(/[\w{}/.-]*)(\?\S*)?", span)
        if match is None or match[2].split("/")[1] not in first_segments:
            continue
        if not any(match[1] in (None, method) and path.fullmatch(match[2]) for method, path in routes):
            missing.append(f"{_path_of(page)}: {span}")
    assert not missing, "\n".join(missing)


def test_every_field_exists() -> None:
    """A field is one word, or has an underscore. The code may contain Kubernetes fields in camelCase."""
    single = [(page, span) for page, span in SPANS if re.fullmatch(r"[a-z]{2,}", span) and span not in FOREIGN_NAMES]
    names = [*_names_matching(SNAKE), *single]
    assert len(names) > 200
    missing = [f"{_path_of(page)}: {name}" for page, name in names if not _spellings(name) & _words(page)]
    assert not missing, "\n".join(missing)


def test_every_reason_and_kind_exists() -> None:
    names = _names_matching(CAMEL)
    assert len(names) > 60
    missing = [f"{_path_of(page)}: {name}" for page, name in names if name not in _words(page)]
    assert not missing, "\n".join(missing)


def test_every_constant_on_pages_for_contributors_exists() -> None:
    constants = [(page, span) for page, span in SPANS if re.fullmatch(r"[A-Z][A-Z_]+", span)]
    checked = [(page, name) for page, name in constants if _path_of(page) in ("ARCHITECTURE.md", "CONTRIBUTING.md")]
    assert len(checked) > 15
    missing = [f"{_path_of(page)}: {name}" for page, name in checked if name not in _words(page)]
    assert not missing, "\n".join(missing)


def test_every_reason_in_a_table_of_states_is_one_of_the_code() -> None:
    files = sorted((ROOT / "src" / "fairlead").rglob("*.py"))
    known = FOREIGN_NAMES.union(*(re.findall(r"[\"'](\w+)[\"']", file.read_text("utf-8")) for file in files))
    rows = [
        (page, row)
        for page in PAGES
        for row in re.findall(r"^\| `(\w+)`[^|]*\|([^|]*)\|", page.read_text("utf-8"), re.MULTILINE)
        if row[0] in list(State)
    ]
    assert len(rows) > 40
    reasons = [(page, reason) for page, (_, cell) in rows for reason in re.findall(r"`([A-Z]\w+)`", cell)]
    missing = [f"{_path_of(page)}: {reason}" for page, reason in reasons if reason not in known]
    assert not missing, "\n".join(missing)


def test_every_label_on_the_page_of_the_web_ui_exists() -> None:
    """Labels are bold on that page. The run page's tabs are in a table."""
    page = (ROOT / "docs" / "users" / "web-ui.md").read_text("utf-8")
    tabs = page.partition("| tab | content |\n|---|---|\n")[2].partition("\n\n")[0]
    labels = {*re.findall(r"\*\*([^*.]+)\*\*", page), *re.findall(r"^\| ([A-Z]\w+) \|", tabs, re.MULTILINE)}
    assert len(labels) > 15
    files = sorted((ROOT / "ui" / "src").rglob("*.ts*"))
    sources = "\n".join(file.read_text("utf-8") for file in files)
    missing = [label for label in sorted(labels) if not re.search(rf"[\"'>`]\s*{re.escape(label)}\s*[\"'<`]", sources)]
    assert not missing, "\n".join(missing)


def test_every_name_of_the_sdk_exists() -> None:
    examples = [(page, tree) for page, span in SPANS if (tree := _parse(span)) is not None]
    assert len(examples) > 50
    missing = [
        f"{_path_of(page)}: {ast.unparse(tree)}: {reason}" for page, tree in examples for reason in _resolve(tree)
    ]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("fl.RunFail", "no RunFail"),
        ("run.log()", "no log"),
        ("run.logs(folow=True)", "no argument folow"),
        ("train.run(profil='small')", "no argument profil"),
        ("run.why().aply(1)", "no aply"),
    ],
)
def test_wrong_names_of_the_sdk_are_detected(code: str, reason: str) -> None:
    tree = _parse(code)
    assert tree is not None
    assert list(_resolve(tree)) == [reason]


def _path_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _problems_of_command(text: str) -> Iterator[str]:
    """The first word that is not a command, or all options that the command does not have."""
    words = list(itertools.takewhile(lambda word: word not in ("--", "|", ">"), shlex.split(text, comments=True)[1:]))
    command: App = app
    while words and command.default_command is None and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        if words[0] not in list(command):
            yield f"no command {words[0]}"
            return
        command = command[words.pop(0)]
    known = _options_of(command)
    for word in words:
        option = word.partition("=")[0]
        if re.match(r"--?[a-z]", option) and option not in known:
            yield f"no option {option}"


def _options_of(command: App) -> set[str]:
    """The options of a command, or of all of its subcommands."""
    options = {"--help", "-h", "--version"}
    for name in command:
        if not name.startswith("-"):
            options |= _options_of(command[name])
    if command.default_command is not None:
        options |= {name for argument in command.assemble_argument_collection() for name in argument.names}
    return options


def _names_matching(pattern: re.Pattern[str]) -> list[tuple[Path, str]]:
    """Words in code spans that match a pattern."""
    words = {(page, word) for page, span in SPANS for word in re.findall(r"\w+", span) if pattern.fullmatch(word)}
    return sorted((page, word) for page, word in words if word not in FOREIGN_NAMES)


def _spellings(name: str) -> set[str]:
    """A name as the code may contain it: the client library adds a counter's suffix."""
    first, *rest = name.split("_")
    return {name, first + "".join(map(str.capitalize, rest)), name.removesuffix("_total")}


def _words(page: Path) -> set[str]:
    """The words in the code that a page is about."""
    product = _words_in(ROOT / "src" / "fairlead")
    if not _path_of(page).startswith(FOR_CONTRIBUTORS):
        return product
    return product | {"hatch_build"}.union(*(_words_in(ROOT / folder) for folder in ("bench", "tests")))


@cache
def _words_in(folder: Path) -> set[str]:
    """Identifiers, and words in texts. Comments and docstrings, and the names in older databases, do not count."""
    files = [file for file in sorted(folder.rglob("*.py")) if "migrations" not in file.parts]
    names = {name for file in files for name in (file.stem, file.parent.name)}
    return names.union(*(set(_words_of(ast.parse(file.read_text("utf-8")))) for file in files))


def _words_of(tree: ast.Module) -> Iterator[str]:
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str | bytes) and id(node) not in docstrings:
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                yield from re.findall(r"\w+", text)
            continue
        for field in ("id", "attr", "arg", "name", "asname"):
            if isinstance(name := getattr(node, field, None), str):
                yield from name.split(".")


def _parse(span: str) -> ast.expr | None:
    """A code span that uses the SDK; None if it is something else."""
    try:
        tree = ast.parse(span, mode="eval").body
    except SyntaxError:
        return None
    root: ast.expr = tree
    while isinstance(root, ast.Attribute | ast.Call):
        root = root.value if isinstance(root, ast.Attribute) else root.func
    is_used = isinstance(tree, ast.Attribute | ast.Call) and isinstance(root, ast.Name) and root.id in VARIABLES
    return tree if is_used and not span.endswith(".py") else None


def _resolve(tree: ast.expr) -> Iterator[str]:
    """The parts of an expression that cannot be resolved."""
    try:
        _find(tree)
    except LookupError as error:
        yield str(error.args[0])


def _find(tree: ast.expr) -> Any:
    """The object of an expression, or the class of its value; None if the class is not known."""
    match tree:
        case ast.Name(id=name):
            return VARIABLES[name]
        case ast.Attribute(value=value, attr=attr):
            owner = _find(value)
            if owner is None:
                return None
            if not hasattr(owner, attr):
                raise LookupError(f"no {attr}")
            parameter = getattr(owner, attr)
            return _returned(parameter.fget) if isinstance(parameter, property) else parameter
        case ast.Call(func=func, keywords=keywords):
            function = _find(func)
            if function is None:
                return None
            parameters = inspect.signature(function).parameters
            takes_request = "parameters" in parameters
            known = {*parameters, *(RunParameters.__annotations__ if takes_request else ())}
            is_open = not takes_request and any(
                parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
            )
            for keyword in keywords:
                if keyword.arg is not None and keyword.arg not in known and not is_open:
                    raise LookupError(f"no argument {keyword.arg}")
            return _returned(function)
        case _:
            return None


def _returned(function: Any) -> Any:
    if not inspect.isfunction(function):
        return None
    # The SDK loads these classes only when they are needed, so hints name them as text.
    returned = get_type_hints(function, localns={"Run": Run, "Function": Function, "Project": Project}).get("return")
    return returned if inspect.isclass(returned) and returned.__module__.startswith("fairlead.") else None
