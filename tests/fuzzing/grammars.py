"""Almost valid requests: valid ones with a few random mutations."""

import copy
import json
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from tests.properties.strategies import GARBAGE, REQUESTS

Data = dict[str, Any]
Draw = st.DrawFn

# Valid parts of requests, and similar invalid ones.
LETTERS = [*"0123456789.+-eEmkKMGTPi%_:/,; \t\n\0\"'$(){}[]*~\\@#=", "Gi", "GB", "é", "٣", "０", "\u200b", "\u202e"]
TEXTS = [
    *("1", "0", "-1", "1.5", "1e3", "1E3", "0x10", "1_000", "500m", "0.1m", "1n", "1u", "9" * 30, "1e99", "1e-99"),
    *("1Gi", "1.5Gi", "1GB", "1gb", "1 Gi", "Gi", ".5Gi", "1.Gi", "1ki", "1Ki", "8Ei", "9E", "1e3Gi", "+1Gi", "١Gi"),
    *("50%", "100%", "101%", "0%", "-1%", "1e2%", "0.5", "half", "unlimited", "Unlimited", "none", "null", "true"),
    *("1g.5gb", "2g.10gb+me", "1g.5GB", "g.5gb", "A100", "a" * 64, "a" * 254, "a-", "-a", "A", "a.b", "a..b", "a/b"),
    *("/data", "/data/", "//data", "/../data", "/", "", "data", "/a:b", "/dev/shm", "/fairlead", "/proc/1", "./a"),
    *("60", "2h", "1d2h", "2h ", "1e9", "P1D", "0 6 * * *", "* * * *", "60 * * * *", "@daily", "Europe/Rome", "UTC+1"),
    *("sha256:" + "0" * 64, "train.py", "../train.py", "main:f", "registry.example/a:1", "a@sha256:1", "$(HOME)", "$$"),
]
MAX_POSITIONS = 300
NUMBERS = [0, -1, 1, 2**31, 2**63, 2**64, 10**30, 0.1, 1.5, -0.0, 1e308, 1e-308, 0.1 + 0.2, True, False]


@st.composite
def edited_texts(draw: Draw, text: str = "") -> str:
    """A text with a few changed characters."""
    letters = list(text or draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(letters)))
        letters[index : index + draw(st.integers(0, 2))] = draw(
            st.sampled_from([[letter] for letter in LETTERS] + [[]])
        )
    return "".join(letters)


def _garbage(draw: Draw, _: Any) -> Any:
    return draw(GARBAGE)


def _text(draw: Draw, value: Any) -> Any:
    return draw(edited_texts(str(value)[:300]) | st.sampled_from(TEXTS) | edited_texts())


def _number(draw: Draw, _: Any) -> Any:
    return draw(st.sampled_from(NUMBERS) | st.integers() | st.floats(allow_nan=False, allow_infinity=False))


def _null(_draw: Draw, _value: Any) -> Any:
    return None


def _wrapped(draw: Draw, value: Any) -> Any:
    names = ("requests", "limits", "value", "name", "devices", "memory", "0", "")
    return draw(st.sampled_from([[value], [[value]], (value,), *({name: value} for name in names)]))


def _repeated(draw: Draw, value: Any) -> Any:
    is_large = len(list(islice(_walk([value]), MAX_POSITIONS))) > 20  # limits the size
    count = 2 if is_large else draw(st.sampled_from([2, 3, 101, 1000]))
    if isinstance(value, str):
        return value * count
    if isinstance(value, dict) and value:
        key = next(iter(value))
        return {f"{key}{number}": copy.deepcopy(value[key]) for number in range(count)}
    return [copy.deepcopy(item) for _ in range(count) for item in (value if isinstance(value, list) else [value])]


def _nested(draw: Draw, value: Any) -> Any:
    for depth in range(draw(st.sampled_from([2, 30, 60, 200]))):
        value = {"a": value} if depth % 3 else [value]
    return value


MUTATIONS: tuple[Callable[[Draw, Any], Any], ...] = (
    _garbage,
    _text,
    _text,
    _number,
    _null,
    _wrapped,
    _repeated,
    _nested,
)


def _rename(draw: Draw, container: Data, key: Any) -> None:
    """Add a field under a second spelling, or replace it."""
    text = str(key)
    spellings = [
        to_camel(text),
        text.upper(),
        text[:-1],
        f"{text}s",
        f" {text}",
        "",
        text.replace("_", "-"),
        f"{text}.x",
    ]
    spelling = draw(st.sampled_from(spellings))
    container[spelling] = copy.deepcopy(container[key]) if draw(st.booleans()) else container.pop(key)


def _move(draw: Draw, request: Data, container: Data, key: Any) -> None:
    """Move a field to another position."""
    value = container.pop(key)
    others = [request, *(other for other, _ in _list_positions(request) if isinstance(other, dict))]
    draw(st.sampled_from(others))[key] = value


def _list_positions(data: Any) -> list[tuple[Any, Any]]:
    """All positions in a request, outer ones first: a mapping or list, and a key."""
    return list(islice(_walk(data), MAX_POSITIONS))


def _walk(data: Any) -> Iterator[tuple[Any, Any]]:
    remaining = [data]
    while remaining:
        container = remaining.pop(0)
        for key in list(container) if isinstance(container, dict) else range(len(container)):
            yield container, key
            if isinstance(container[key], dict | list):
                remaining.append(container[key])


@st.composite
def mutated_requests(draw: Draw) -> Data:
    """A request in which some fields, at any depth, are invalid; sometimes none are."""
    request: Data = copy.deepcopy(draw(REQUESTS))  # sampled objects must not be changed
    for _ in range(draw(st.integers(0, 4))):
        positions = _list_positions(request)
        if not positions:
            return request
        container, key = draw(st.sampled_from(positions))
        kind = draw(st.integers(0, 9))
        if kind == 0 and isinstance(container, dict):
            _rename(draw, container, key)
        elif kind == 1 and isinstance(container, dict):
            _move(draw, request, container, key)
        else:
            container[key] = draw(st.sampled_from(MUTATIONS))(draw, container[key])
    return request


def is_json(data: Any) -> bool:
    """Whether a request can be sent as JSON."""
    try:
        return bool(json.loads(json.dumps(data, allow_nan=False)) == data)
    except (TypeError, ValueError, RecursionError):
        return False
