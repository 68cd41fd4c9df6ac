"""Strict pydantic models for user input, and translation of their errors into violations."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import isclass
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, NamedTuple, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.alias_generators import to_camel, to_snake
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError

from fairlead.model.plans import Violation

MAX_SHOWN_LENGTH = 80
# ECMA-48 sequences, and the remaining control characters except tab, newline and carriage return (progress bars).
# A control string ends where another one begins. Otherwise the search would take quadratic time.
CONTROL_SEQUENCE = re.compile(
    r"""
    (?: \x1b\[ | \x9b ) [0-?]* [ -/]* [@-~]  # CSI, for example colors and cursor movement
    | (?: \x1b[\]PX^_] | [\x90\x98\x9d-\x9f] ) [^\x07\x1b\x90\x98\x9c-\x9f]* (?: \x07 | \x1b\\ | \x9c )  # OSC, DCS, SOS
    | \x1b [ -/]* [0-~]
    | [\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]
    | [\u202a-\u202e\u2066-\u2069]  # change the direction of the text that follows
    """,
    re.VERBOSE,
)
MAX_MISTAKES = 100  # a 1 MiB file can contain many thousands
MAX_SUGGESTED_NAMES = 30
FIELD_ERROR = "field_error"  # the pydantic type for errors that carry mistakes
# If a field is unknown, these sections are searched in case it was written one level too high.
NESTED_SECTIONS = ("resources", "function", "requirements")


class Mistake(NamedTuple):
    """A mistake in user input: the path inside the field, a rule code, a message and a hint."""

    path: str
    rule: str
    message: str
    hint: str | None

    def under(self, prefix: str) -> "Mistake":
        """The mistake with a prefix added to its path."""
        return self._replace(path=".".join(filter(None, (prefix, self.path))))


class StrictModel(BaseModel):
    """Base class of all models for user input: frozen, rejects unknown fields, accepts camelCase and aliases."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    FIELD_ALIASES: ClassVar[Mapping[str, str]] = {}  # other accepted names for a field, besides camelCase
    ALLOWS_NULL: ClassVar[bool] = True  # True: null means the same as a missing field; False: null is a mistake
    SHORT_FORM: ClassVar[Any] = None  # JSON schema of the value that is accepted instead of a mapping
    EXAMPLE: ClassVar[Any] = None

    @classmethod
    def known_fields(cls) -> list[str]:
        """The field names as users write them."""
        return [field.alias or name for name, field in cls.model_fields.items()]

    @classmethod
    def canonical_name(cls, key: Any) -> Any:
        """The field name for a key, which may be written in any accepted form. Unknown keys are returned unchanged."""
        if not isinstance(key, str) or key in cls.model_fields:
            return key
        name = cls.FIELD_ALIASES.get(key) or to_snake(key)
        return name if name in cls.model_fields else key

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        """The JSON schema, with the short form and an example."""
        # The definition is shared by all references to the model, so it is changed in place.
        schema = handler.resolve_ref_schema(super().__get_pydantic_json_schema__(core, handler))
        if cls.EXAMPLE is not None:
            schema["examples"] = [cls.EXAMPLE]
        if cls.SHORT_FORM is not None and "anyOf" not in schema:
            full_form = dict(schema)
            schema.clear()
            schema |= {"title": full_form["title"], "anyOf": [cls.SHORT_FORM, full_form]}
        return schema

    @model_validator(mode="before")
    @classmethod
    def _read_mapping(cls, data: Any) -> Any:
        # An instance passed by Python code has already been validated.
        if isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            required = (name for name, field in cls.model_fields.items() if field.is_required())
            hint = f"use fields and values, for example {next(required, cls.known_fields()[0])}: ..."
            raise field_error("mapping", f"must be a mapping, found {short_repr(data)}", hint)
        known = cls.known_fields()
        fields: dict[Any, Any] = {}
        mistakes: list[Mistake] = []
        spellings: dict[Any, Any] = {}
        for key, value in data.items():
            name = cls.canonical_name(key)
            first = spellings.setdefault(name, key)
            if first is not key:
                # It is unclear which of the two values was meant, so other mistakes are not reported yet.
                raise field_error("duplicate", f"set twice, as {first} and as {key}", "remove one of them", path=name)
            # Keep unknown fields even if they are null, so that pydantic rejects them.
            if value is not None or name not in known:
                fields[name] = value
            elif not cls.ALLOWS_NULL:
                mistakes.append(Mistake(name, "required", "has no value", "set a value or remove the field"))
        raise_mistakes(mistakes)
        return fields


class KubernetesModel(StrictModel):
    """Base class of models for parts of the Kubernetes API: camelCase field names. snake_case is also accepted."""

    model_config = ConfigDict(alias_generator=to_camel)

    @classmethod
    def canonical_name(cls, key: Any) -> Any:
        return to_camel(key) if isinstance(key, str) and key in cls.model_fields else key

    @property
    def manifest(self) -> dict[str, Any]:
        """The model as it appears in a Kubernetes manifest, without unset fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def field_error(rule: str, message: str, hint: str | None = None, *, path: str = "") -> PydanticCustomError:
    """The error that a validator raises for one mistake. `path` is relative to the validated field."""
    return field_errors([Mistake(path, rule, message, hint)])


def field_errors(mistakes: Iterable[Mistake]) -> PydanticCustomError:
    """The error that a validator raises for several mistakes."""
    # A custom error carries the mistakes in its context. A ValueError would reduce them to a single message.
    return PydanticCustomError(FIELD_ERROR, FIELD_ERROR, {"mistakes": list(mistakes)})


def raise_mistakes(mistakes: Iterable[Mistake]) -> None:
    """Raise one error for all mistakes, if there are any."""
    if collected := list(mistakes):
        raise field_errors(collected)


def mistakes_of(error: PydanticCustomError, prefix: str = "") -> list[Mistake]:
    """The mistakes in an error from `field_error`, with a prefix added to their paths."""
    return [mistake.under(prefix) for mistake in (error.context or {})["mistakes"]]


def collect_mistakes(path: str, parse: Callable[[Any], Any], value: Any) -> list[Mistake]:
    """The mistakes that a parser finds in a value; empty if the value is valid."""
    try:
        parse(value)
    except PydanticCustomError as error:
        return mistakes_of(error, prefix=path)
    return []


def parse_text(value: Any) -> str:
    """Parse a string. Numbers and booleans are rejected, because YAML reads unquoted text as such."""
    if not isinstance(value, str):
        unquoted = isinstance(value, bool | int | float)
        hint = "put it in quotes" if unquoted else 'use a single string, or "" for an empty one'
        raise field_error("text", f"must be text, found {short_repr(value)}", hint)
    return value


def parse_flag(value: Any) -> bool:
    """Parse a boolean. Other types are not converted."""
    if not isinstance(value, bool):
        raise field_error("type", f"must be true or false, found {short_repr(value)}", "use true or false")
    return value


def suggest_names(word: str, known: Iterable[str], hint: str = "known: {known}") -> str:
    """A hint with the most similar known names, or with all of them."""
    names = sorted(known)
    # The name is shortened, because the comparison takes quadratic time.
    close = difflib.get_close_matches(word[:MAX_SHOWN_LENGTH], names, n=3, cutoff=0.65)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if not names:
        return "there are none"
    more = ", ..." if len(names) > MAX_SUGGESTED_NAMES else ""
    return hint.format(known=", ".join(names[:MAX_SUGGESTED_NAMES]) + more)


def short_repr(value: Any) -> str:
    """A short description of a value for messages."""
    match value:
        case None:
            return "nothing"
        case Mapping():
            return "a mapping"
        # Check text before sequences and bool before int, because str is a Sequence and bool is an int.
        case str() if len(value) > MAX_SHOWN_LENGTH:
            return f"{value[:MAX_SHOWN_LENGTH]!r}... ({len(value)} characters)"
        case str():
            return repr(value)
        case Sequence() | set() | frozenset():
            return "a list"
        case bool():
            text = str(value).lower()
        case int() if value.bit_length() > 1000:  # Python refuses to print very large integers
            return f"a {value.bit_length()}-bit number"
        case _:
            text = str(value)
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}... ({len(text)} digits)"


def violations_of(error: ValidationError, model: type[BaseModel]) -> tuple[Violation, ...]:
    """Translate a pydantic error into violations."""
    return tuple(Violation(*mistake) for mistake in mistakes_of_validation(error, model))


def mistakes_of_validation(error: ValidationError, model: type[BaseModel]) -> list[Mistake]:
    """Translate a pydantic error into mistakes, which an outer model's validator can raise again."""
    translated = (mistake for details in error.errors(include_url=False) for mistake in _translate(details, model))
    mistakes = list(islice(translated, MAX_MISTAKES))
    if next(translated, None) is not None:
        mistakes.append(Mistake("", "too_many", f"more than {MAX_MISTAKES} mistakes", "fix these first"))
    return mistakes


def printable(part: object) -> str:
    """A part of a path for messages: quoted and shortened if it is not plain text."""
    # Keys come from users, so they could contain terminal escape sequences.
    text = str(part)
    return text if text and text.isprintable() and len(text) <= MAX_SHOWN_LENGTH else short_repr(text)


def remove_control_sequences(text: str) -> str:
    """Remove the control sequences in a text, such as colors."""
    return CONTROL_SEQUENCE.sub("", text)


def _translate(details: ErrorDetails, model: type[BaseModel]) -> Iterator[Mistake]:
    # For an invalid key in a mapping, pydantic adds [key] to the path.
    parts = [printable(part) for part in details["loc"] if part != "[key]"]
    path, value = ".".join(parts), short_repr(details["input"])
    match details["type"]:
        case "field_error":
            yield from (mistake.under(path) for mistake in details["ctx"]["mistakes"])
        case "extra_forbidden":
            yield _unknown_field(_model_at(model, parts[:-1]), path, details["loc"][-1])
        case "invalid_key":
            key = details["loc"][-1]
            yield Mistake(path, "text", f"a name must be text, found {short_repr(key)}", "put it in quotes")
        case "missing":
            yield Mistake(path, "required", "is missing", f"set {parts[-1]}")
        case "string_type":
            # parse_text adds the hint to put numbers and booleans in quotes.
            yield from collect_mistakes(path, parse_text, details["input"])
        case "literal_error" | "enum":
            # `expected` is text such as "'a', 'b' or 'c'".
            expected = details["ctx"]["expected"]
            hint = suggest_names(str(details["input"]), re.findall(r"'([^']*)'", expected), "use one of {known}")
            yield Mistake(path, "options", f"must be {expected}, found {value}", hint)
        case "dict_type" | "mapping_type":
            hint = "use names and values: {name: value}"
            yield Mistake(path, "mapping", f"must be a mapping, found {value}", hint)
        case "tuple_type":
            yield Mistake(path, "list", f"must be a list, found {value}", "put it in [ ]")
        case "string_too_long":
            longest = details["ctx"]["max_length"]
            message = f"has {len(details['input'])} characters; at most {longest} are allowed"
            yield Mistake(path, "too_long", message, "shorten it")
        case kind:
            expectation = details["msg"].removeprefix("Input ").removeprefix("should ")
            yield Mistake(path, kind, f"must {expectation}, found {value}", None)


def _unknown_field(owner: type[StrictModel] | None, path: str, key: Any) -> Mistake:
    hint = _suggest_field(owner, str(key)) if owner else None
    return Mistake(path, "unknown_field", f"unknown field {short_repr(key)}", hint)


def _suggest_field(owner: type[StrictModel], key: str) -> str:
    """Suggest the field with that name in a nested section, or else the most similar fields."""
    for name in NESTED_SECTIONS:
        field = owner.model_fields.get(name)
        inner = _model_in(field.annotation) if field else None
        if inner is not None and key in inner.model_fields:
            return f"did you mean {name}.{key}?"
    return suggest_names(key, owner.known_fields(), "known fields: {known}")


def _model_at(model: type[BaseModel], parts: Sequence[str]) -> type[StrictModel] | None:
    """The strict model at a path inside another model. The path can lead through lists and mappings."""
    current: Any = model
    for part in parts:
        inner = _model_in(current)
        if inner is None:
            return None
        if get_origin(_without_none(current)) in (Mapping, tuple):
            current = inner  # the part is a key or an index, not a field
            continue
        fields = {field.alias or name: field.annotation for name, field in inner.model_fields.items()}
        current = fields.get(part)
    return _model_in(current)


def _without_none(annotation: Any) -> Any:
    """The X in `X | None`."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    return next(option for option in get_args(annotation) if option is not NoneType)


def _model_in(annotation: Any) -> type[StrictModel] | None:
    if isclass(annotation):
        return annotation if issubclass(annotation, StrictModel) else None
    return next(filter(None, map(_model_in, get_args(annotation))), None)


Flag = Annotated[bool, PlainValidator(parse_flag), WithJsonSchema({"type": "boolean"})]
