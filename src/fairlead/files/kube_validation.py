"""Objects of Kubernetes are checked before they are read: every mistake at once, with where it is."""

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
# What is wrong, by what pydantic calls it.
WORDS = {
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
WITHOUT = {PLAIN: "spaces and other than ASCII characters", PRINTABLE: "control characters"}


def check_objects(objects: Iterable[JSON], location: str, otherwise: str) -> list[Violation]:
    """Every mistake in objects of these kinds, up to a number that a reader can bear. `otherwise`: another suggestion."""
    found = dict.fromkeys(violation for raw in objects for violation in _check(raw, location, otherwise))
    told = list(islice(found, MAX_MISTAKES))
    if len(found) > MAX_MISTAKES:
        told.append(Violation("", "too_many", f"has {len(found)} mistakes", "mend these first", location=location))
    return told


def name_object(raw: JSON) -> str:
    """An object as a message names it: kind, namespace and name."""
    meta = raw["metadata"]
    parts = (raw["kind"], meta.get("namespace"), meta["name"])
    return "/".join(printable(part) if isinstance(part, str) else short_repr(part) for part in parts if part)


def _check(raw: JSON, location: str, otherwise: str) -> Iterator[Violation]:
    try:
        KINDS[raw["kind"]].model_validate(raw)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            for at, rule, message, hint in _translate(details):
                path = f"{name_object(raw)}: {at}"
                yield Violation(path, rule, message, f"{hint}, or {otherwise}", location=location)


def _translate(details: ErrorDetails) -> Iterator[tuple[str, str, str, str]]:
    at, kind, found = details["loc"], details["type"], short_repr(details["input"])
    context = details.get("ctx") or {}
    if kind == "field_error":
        for inner, rule, message, hint in context["mistakes"]:
            yield _show_path((*at, inner) if inner else at), rule, message, hint
        return
    said = WORDS.get(kind, "is not as Kubernetes writes it").format(
        **context, without=WITHOUT.get(context.get("pattern", ""))
    )
    message = said if kind == "missing" else f"{said}, found {found}"
    hint = "say it" if kind == "missing" else "mend it"
    if kind == "literal_error":
        known = [word for word in context["expected"].split("'")[1::2] if word]
        hint = suggest_names(str(details["input"]), known, "write one of {known}").removesuffix("?")
    yield _show_path(at), RULES.get(kind, "kind"), message, hint


def _show_path(parts: Iterable[str | int]) -> str:
    """As in spec.containers[0].ports."""
    shown = (f"[{part}]" if isinstance(part, int) else f".{printable(part)}" for part in parts if part != "[key]")
    return "".join(shown).removeprefix(".")
