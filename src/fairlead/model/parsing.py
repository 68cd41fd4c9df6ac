"""How what people write becomes model objects: strict models, and their mistakes as violations."""

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

LONGEST_SHOWN = 80
MOST_TOLD = 100
NESTED = ("resources", "function", "requirements")  # where a field that stands too far up may belong


class Mistake(NamedTuple):
    """What is wrong at a part of a field, and the suggestion."""

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
    MAY_BE_EMPTY: ClassVar[bool] = True  # whether null says nothing, or is a mistake
    SHORT_FORM: ClassVar[Any] = None  # the JSON schema of what may be written in place of a mapping
    EXAMPLE: ClassVar[Any] = None  # what somebody may write

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

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> Any:
        """The schema for programs, with the short form and an example."""
        schema = handler.resolve_ref_schema(super().__get_pydantic_json_schema__(core, handler))
        if cls.EXAMPLE is not None:
            schema["examples"] = [cls.EXAMPLE]
        if cls.SHORT_FORM is not None and "anyOf" not in schema:
            whole = dict(schema)
            schema.clear()
            schema |= {"title": whole["title"], "anyOf": [cls.SHORT_FORM, whole]}
        return schema

    @model_validator(mode="before")
    @classmethod
    def _read_mapping(cls, data: Any) -> Any:
        if isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            needed = (name for name, field in cls.model_fields.items() if field.is_required())
            hint = f"write fields and values, such as {next(needed, cls.known_fields()[0])}: ..."
            raise wrong("mapping", f"must be a mapping, found {show(data)}", hint)
        known = cls.known_fields()
        fields: dict[Any, Any] = {}
        empty: list[Mistake] = []
        written: dict[Any, Any] = {}
        for key, value in data.items():
            spelled = cls.spell(key)
            first = written.setdefault(spelled, key)
            if first is not key:
                raise wrong("duplicate", f"is written twice, as {first} and as {key}", "keep one", at=spelled)
            if value is not None or spelled not in known:
                fields[spelled] = value
            elif not cls.MAY_BE_EMPTY:
                empty.append(Mistake(spelled, "required", "is empty", "say a value, or leave it out"))
        refuse(empty)
        return fields


class Kubernetes(Strict):
    """What Kubernetes defines: its own camelCase names; snake_case is understood."""

    model_config = ConfigDict(alias_generator=to_camel)

    @classmethod
    def spell(cls, key: Any) -> Any:
        return to_camel(key) if isinstance(key, str) and key in cls.model_fields else key

    @property
    def manifest(self) -> dict[str, Any]:
        """As Kubernetes writes it; what is not said is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def wrong(rule: str, message: str, hint: str | None = None, *, at: str = "") -> PydanticCustomError:
    """The error by which a validator says what is wrong, at which part of its field, and the suggestion."""
    return several_wrong([Mistake(at, rule, message, hint)])


def several_wrong(mistakes: Iterable[Mistake]) -> PydanticCustomError:
    """Several mistakes of one field at once."""
    return PydanticCustomError("wrong", "wrong", {"mistakes": list(mistakes)})


def refuse(mistakes: Iterable[Mistake]) -> None:
    """Raise all mistakes at once, where there are any."""
    if found := list(mistakes):
        raise several_wrong(found)


def mistakes_of(error: PydanticCustomError, below: str = "") -> list[Mistake]:
    """What a validator found, with its paths below another one."""
    return [mistake.below(below) for mistake in (error.context or {})["mistakes"]]


def collect(at: str, parse: Callable[[Any], Any], value: Any) -> list[Mistake]:
    """What a parser finds wrong with a value; nothing where it is right."""
    try:
        parse(value)
    except PydanticCustomError as error:
        return mistakes_of(error, below=at)
    return []


def parse_text(value: Any) -> str:
    """Text as it is."""
    if not isinstance(value, str):
        quoted = isinstance(value, bool | int | float)
        hint = "write it in quotes" if quoted else 'write one text, or "" for an empty one'
        raise wrong("text", f"must be text, found {show(value)}", hint)
    return value


def parse_flag(value: Any) -> bool:
    """True or false, and nothing like them."""
    if not isinstance(value, bool):
        raise wrong("type", f"must be true or false, found {show(value)}", "write true or false")
    return value


def nearest(word: str, known: Iterable[str], hint: str = "known: {known}") -> str:
    """A hint that names the most similar known words, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(word[:LONGEST_SHOWN], names, n=3, cutoff=0.65)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if not names:
        return "there are none"
    return hint.format(known=", ".join(names[:30]) + (", ..." if len(names) > 30 else ""))


def show(value: Any) -> str:
    """A value as a message shows it: what kind of thing, and no longer than a reader wants."""
    match value:
        case None:
            return "nothing"
        case Mapping():
            return "a mapping"
        case str() if len(value) > LONGEST_SHOWN:
            return f"{value[:LONGEST_SHOWN]!r}... ({len(value)} characters)"
        case str():
            return repr(value)
        case Sequence() | set() | frozenset():
            return "a list"
        case bool():
            text = str(value).lower()
        case int() if value.bit_length() > 1000:
            return f"a number of {value.bit_length()} bits"
        case _:
            text = str(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}... ({len(text)} digits)"


def violations_of(error: ValidationError, model: type[BaseModel]) -> tuple[Violation, ...]:
    """What pydantic found wrong, in our words, all of it."""
    return tuple(Violation(*mistake) for mistake in mistakes_in(error, model))


def mistakes_in(error: ValidationError, model: type[BaseModel]) -> list[Mistake]:
    """The same, for the validator of a whole to pass on what is wrong with a part."""
    found = (mistake for details in error.errors(include_url=False) for mistake in _translate(details, model))
    told = list(islice(found, MOST_TOLD))
    if next(found, None) is not None:
        told.append(Mistake("", "too_many", f"has more than {MOST_TOLD} mistakes", "mend these first"))
    return told


def _translate(details: ErrorDetails, model: type[BaseModel]) -> Iterator[Mistake]:
    parts = [printable(part) for part in details["loc"] if part != "[key]"]
    path, found = ".".join(parts), show(details["input"])
    match details["type"]:
        case "wrong":
            yield from (mistake.below(path) for mistake in details["ctx"]["mistakes"])
        case "extra_forbidden":
            yield _refuse_field(_model_at(model, parts[:-1]), path, details["loc"][-1])
        case "invalid_key":
            key = details["loc"][-1]
            yield Mistake(path, "text", f"a name must be text, found {show(key)}", "write it in quotes")
        case "missing":
            yield Mistake(path, "required", "is missing", f"say {parts[-1]}")
        case "string_type":
            yield from collect(path, parse_text, details["input"])
        case "literal_error" | "enum":
            expected = details["ctx"]["expected"]
            hint = nearest(str(details["input"]), re.findall(r"'([^']*)'", expected), "write one of {known}")
            yield Mistake(path, "options", f"must be {expected}, found {found}", hint)
        case "dict_type" | "mapping_type":
            hint = "write names and values: {name: value}"
            yield Mistake(path, "mapping", f"must be a mapping, found {found}", hint)
        case "tuple_type":
            yield Mistake(path, "list", f"must be a list, found {found}", "put it in [ ]")
        case "string_too_long":
            most = details["ctx"]["max_length"]
            message = f"has {len(details['input'])} characters, at most {most} are allowed"
            yield Mistake(path, "too_long", message, "shorten it")
        case kind:
            said = details["msg"].removeprefix("Input ").removeprefix("should ")
            yield Mistake(path, kind, f"must {said}, found {found}", None)


def _refuse_field(owner: type[Strict] | None, path: str, key: Any) -> Mistake:
    hint = _suggest_field(owner, str(key)) if owner else None
    return Mistake(path, "unknown_field", f"unknown field {show(key)}", hint)


def _suggest_field(owner: type[Strict], key: str) -> str:
    """The field that was meant: one further down with that name, or the nearest one here."""
    for name in NESTED:
        field = owner.model_fields.get(name)
        inner = _model_in(field.annotation) if field else None
        if inner is not None and key in inner.model_fields:
            return f"did you mean {name}.{key}?"
    return nearest(key, owner.known_fields(), "known fields: {known}")


def _model_at(model: type[BaseModel], parts: Sequence[str]) -> type[Strict] | None:
    """The strict model that stands at a path below another one, through lists and mappings."""
    current: Any = model
    for part in parts:
        inner = _model_in(current)
        if inner is None:
            return None
        if get_origin(_without_none(current)) in (Mapping, tuple):
            current = inner  # the part is a key or an index of it
            continue
        fields = {field.alias or name: field.annotation for name, field in inner.model_fields.items()}
        current = fields.get(part)
    return _model_in(current)


def _without_none(annotation: Any) -> Any:
    """X of `X | None`."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    return next(option for option in get_args(annotation) if option is not NoneType)


def _model_in(annotation: Any) -> type[Strict] | None:
    if isclass(annotation):
        return annotation if issubclass(annotation, Strict) else None
    return next(filter(None, map(_model_in, get_args(annotation))), None)


def printable(part: object) -> str:
    """A part of a path as a message shows it."""
    text = str(part)
    return text if text and text.isprintable() and len(text) <= LONGEST_SHOWN else show(text)


Flag = Annotated[bool, PlainValidator(parse_flag), WithJsonSchema({"type": "boolean"})]
