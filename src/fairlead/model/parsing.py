"""How what people write becomes model objects: strict models, and their mistakes as violations."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from inspect import isclass
from typing import Any, ClassVar, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import ErrorDetails, PydanticCustomError

from fairlead.model.plans import Source, Violation

LONGEST_SHOWN = 80
BUILT_LATER = "built_later"


class Mistake(NamedTuple):
    """What is wrong at a part of a field, and the way out."""

    at: str
    rule: str
    message: str
    hint: str | None

    def below(self, path: str) -> "Mistake":
        """The same mistake, seen from further up."""
        return self._replace(at=".".join(filter(None, (path, self.at))))


class Strict(BaseModel):
    """What people write: frozen, unknown fields refused, spellings found in the wild understood."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    SPELLINGS: ClassVar[Mapping[str, str]] = {}
    NOT_BUILT: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def known_fields(cls) -> list[str]:
        """The names under which the fields are written."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def spell(cls, key: Any) -> Any:
        """The one spelling of a field's name; what is no field stays as it is."""
        if not isinstance(key, str) or key in cls.model_fields:
            return key
        spelled = cls.SPELLINGS.get(key) or to_snake(key)
        return spelled if spelled in cls.model_fields else key

    @model_validator(mode="before")
    @classmethod
    def _read_mapping(cls, data: Any) -> Any:
        if isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            raise wrong("mapping", f"must be a mapping, found {show(data)}", _list_fields(cls.known_fields()))
        fields: dict[Any, Any] = {}
        for key, value in data.items():
            if key in cls.NOT_BUILT:
                raise wrong(BUILT_LATER, f"{cls.NOT_BUILT[key]} is not built yet", "leave it out", at=key)
            spelled = cls.spell(key)
            if spelled in fields:
                raise wrong("duplicate", f"is written twice, as {spelled!r} and {key!r}", "keep one", at=spelled)
            fields[spelled] = value
        return fields


class Kubernetes(Strict):
    """What Kubernetes defines: its own camelCase names; snake_case is understood."""

    model_config = ConfigDict(alias_generator=to_camel)

    @classmethod
    def spell(cls, key: Any) -> Any:
        return to_camel(key) if isinstance(key, str) and key in cls.model_fields else key

    def to_kubernetes(self) -> dict[str, Any]:
        """As Kubernetes writes it; what is not said is left out."""
        return self.model_dump(by_alias=True, exclude_none=True)


def wrong(rule: str, message: str, hint: str | None = None, *, at: str = "") -> PydanticCustomError:
    """The error by which a validator says what is wrong, at which part of its field, and the way out."""
    return several_wrong([Mistake(at, rule, message, hint)])


def several_wrong(mistakes: Iterable[Mistake]) -> PydanticCustomError:
    """Several mistakes of one field at once."""
    return PydanticCustomError("wrong", "wrong", {"mistakes": list(mistakes)})


def mistakes_of(error: PydanticCustomError, below: str = "") -> list[Mistake]:
    """What a validator found, with its paths below another one."""
    return [mistake.below(below) for mistake in (error.context or {})["mistakes"]]


def nearest(word: str, known: Iterable[str], hint: str = "known: {known}") -> str:
    """A hint that names the most similar known words, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word[:LONGEST_SHOWN], names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if not names:
        return "there are none"
    return hint.format(known=", ".join(names[:20]) + (", ..." if len(names) > 20 else ""))


def show(value: Any) -> str:
    """A value as a message shows it: what kind of thing, and no longer than a reader wants."""
    match value:
        case None:
            return "nothing"
        case Mapping():
            return "a mapping"
        case str():
            text = repr(value)
        case Sequence() | set() | frozenset():
            return "a list"
        case bool():
            text = str(value).lower()
        case _:
            text = str(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text)} characters)"


def violations_of(
    error: ValidationError, model: type[BaseModel], source: Source | None = None
) -> tuple[Violation, ...]:
    """What pydantic found wrong, in our words, all of it."""
    return tuple(
        violation for details in error.errors(include_url=False) for violation in _translate(details, model, source)
    )


def _translate(details: ErrorDetails, model: type[BaseModel], source: Source | None) -> Iterator[Violation]:
    parts = [str(part) for part in details["loc"] if part != "[key]"]
    path, found = ".".join(parts), show(details["input"])
    match details["type"]:
        case "wrong":
            for mistake in details["ctx"]["mistakes"]:
                at, rule, message, hint = mistake.below(path)
                yield Violation(at, rule, message, hint, source)
        case "extra_forbidden":
            owner = _model_at(model, parts[:-1])
            hint = nearest(parts[-1], owner.known_fields(), "known fields: {known}") if owner else None
            yield Violation(path, "unknown_field", f"unknown field {show(parts[-1])}", hint, source)
        case "missing":
            yield Violation(path, "required", "is missing", f"say {parts[-1]}", source)
        case "string_type":
            hint = f'write "{found}" in quotes' if isinstance(details["input"], bool | int | float) else None
            yield Violation(path, "text", f"must be text, found {found}", hint, source)
        case "literal_error" | "enum":
            expected = details["ctx"]["expected"]
            yield Violation(path, "options", f"must be {expected}, found {found}", f"write {expected}", source)
        case "bool_type":
            yield Violation(path, "type", f"must be true or false, found {found}", "write true or false", source)
        case kind:
            said = details["msg"].removeprefix("Input ").removeprefix("should ")
            yield Violation(path, kind, f"must {said}, found {found}", None, source)


def _model_at(model: type[BaseModel], parts: Sequence[str]) -> type[Strict] | None:
    """The strict model that stands at a path below another one, through lists and mappings."""
    current: Any = model
    for part in parts:
        inner = _model_in(current)
        if inner is None:
            return None
        if get_origin(current) in (Mapping, tuple):
            current = inner  # the part is a key or an index of it
            continue
        fields = {field.alias or name: field.annotation for name, field in inner.model_fields.items()}
        current = fields.get(part)
    return _model_in(current)


def _model_in(annotation: Any) -> type[Strict] | None:
    if isclass(annotation):
        return annotation if issubclass(annotation, Strict) else None
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def _list_fields(fields: Sequence[str]) -> str:
    return f"its fields are {', '.join(fields)}"
