"""Validation of Kubernetes objects from files, which reports all errors at once."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fairlead.files.kube_objects import (
    JSON,
    PLAIN,
    PRINTABLE,
    KubeClaim,
    KubeModel,
    KubeNode,
    KubeObject,
    KubePod,
    KubeStorageClass,
    KubeVolume,
)
from fairlead.model.parsing import MAX_MISTAKES, printable, short_repr, suggest_names
from fairlead.model.plans import Violation

KINDS: Mapping[str, type[KubeModel]] = {
    "Node": KubeNode,
    "Pod": KubePod,
    "PersistentVolumeClaim": KubeClaim,
    "PersistentVolume": KubeVolume,
    "StorageClass": KubeStorageClass,
    "Namespace": KubeObject,
}
# Messages by pydantic error type.
MESSAGES = {
    "missing": "is missing",
    "string_type": "must be text",
    "string_unicode": "must be text",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must be text without {without}",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list",
    "too_short": "must not be empty",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
RULES = {"missing": "required", "literal_error": "options"}
WITHOUT = {PLAIN: "spaces and non-ASCII characters", PRINTABLE: "control characters"}


def check_objects(objects: Iterable[JSON], location: str, alternative: str) -> list[Violation]:
    """All errors in these objects, up to MAX_MISTAKES. `alternative` is added to each hint."""
    # An object may be in several files, but its errors are reported only once.
    violations = dict.fromkeys(violation for raw in objects for violation in _check(raw, location, alternative))
    reported = list(islice(violations, MAX_MISTAKES))
    if len(violations) > MAX_MISTAKES:
        message = f"has {len(violations)} errors"
        reported.append(Violation("", "too_many", message, "fix these first", location=location))
    return reported


def name_object(raw: JSON) -> str:
    """The name of an object in messages: kind/namespace/name."""
    meta = raw["metadata"]
    parts = (raw["kind"], meta.get("namespace"), meta["name"])
    return "/".join(printable(part) if isinstance(part, str) else short_repr(part) for part in parts if part)


def _check(raw: JSON, location: str, alternative: str) -> Iterator[Violation]:
    try:
        KINDS[raw["kind"]].model_validate(raw)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            for at, rule, message, hint in _translate(details):
                path = f"{name_object(raw)}: {at}"
                yield Violation(path, rule, message, f"{hint}, or {alternative}", location=location)


def _translate(details: ErrorDetails) -> Iterator[tuple[str, str, str, str]]:
    at, kind, found = details["loc"], details["type"], short_repr(details["input"])
    context = details.get("ctx") or {}
    if kind == "field_error":
        for inner, rule, message, hint in context["mistakes"]:
            yield _format_path((*at, inner) if inner else at), rule, message, hint
        return
    # Pydantic's own messages describe Python types.
    problem = MESSAGES.get(kind, "is not valid in Kubernetes").format(
        **context, without=WITHOUT.get(context.get("pattern", ""))
    )
    message = problem if kind == "missing" else f"{problem}, found {found}"
    hint = "add it" if kind == "missing" else "fix it"
    if kind == "literal_error":
        # The context contains text such as "'a', 'b' or 'c'".
        known = [word for word in context["expected"].split("'")[1::2] if word]
        hint = suggest_names(str(details["input"]), known, "use one of {known}").removesuffix("?")
    yield _format_path(at), RULES.get(kind, "kind"), message, hint


def _format_path(parts: Iterable[str | int]) -> str:
    """Format a path as spec.containers[0].ports."""
    shown = (f"[{part}]" if isinstance(part, int) else f".{printable(part)}" for part in parts if part != "[key]")
    return "".join(shown).removeprefix(".")
