"""`fairlead policy`: policies of scopes, and effective policies."""

from collections.abc import Iterator
from typing import Any

from fairlead.cli.object_commands import (
    Force,
    Json,
    WithListOptions,
    connect,
    forced,
    gather,
    print_item,
    print_items,
    print_list,
)
from fairlead.cli.printing import print_done
from fairlead.cli.tables import Columns
from fairlead.errors import RequestRejected
from fairlead.model.parsing import collect_mistakes
from fairlead.model.plans import Layer, Source, Violation, format_value
from fairlead.model.scopes import PLATFORM, parse_scope

COLUMNS: Columns = {"SCOPE": "scope", "SAYS": lambda policy: list(policy["content"]), "AGE": "created_at"}
PARTS = {"PART": "part", "VALUE": "value", "FROM": "source"}

Row = dict[str, Any]


def ls(*, list_options: WithListOptions = None, as_json: Json = False) -> int:
    """List the scopes that have a policy."""
    return print_list("/policies", COLUMNS, "policies", list_options, as_json)


def show(scope: str, /, *, as_json: Json = False) -> int:
    """Show the policy of a scope."""
    return print_item(connect().get(_at(scope)), as_json)


def effective(scope: str, /, *, as_json: Json = False) -> int:
    """Show the effective policy of a scope, with the source of each part."""
    answer = connect().get(f"{_at(scope)}/effective")
    if as_json:
        return print_item(answer, as_json)
    return print_items(list_parts(answer), PARTS, "rules", as_json)


def rm(scope: str, /, *, force: Force = False, as_json: Json = False) -> int:
    """Delete the policy of a scope. Policies of parent scopes still apply."""
    connect().delete(_at(scope), **forced(force))
    return print_done(f"deleted policy of {scope}", None, as_json)


def list_parts(effective: Row) -> Iterator[Row]:
    """Table rows of an effective policy."""
    for path, rule in effective["rules"].items():
        for bound, part_values in rule.items():
            yield from (
                _row(f"rules.{path}.{bound}", item)
                for item in (part_values if isinstance(part_values, list) else [part_values])
            )
    for group in ("switches", "limit_factor"):
        yield from (_row(f"{group}.{name}", part_values) for name, part_values in effective[group].items())
    for part_values in effective["defaults"]:
        source = f"{part_values['scope']} policy"
        leaves = _leaves("defaults", part_values["requirements"])
        yield from ({"part": part, "value": value, "source": source} for part, value in leaves)
    for part_values in effective["quotas"]:
        for name in [name for name in part_values if name in part_values["used"]]:
            value = f"{part_values[name]}, {part_values['used'][name]} used"
            yield {"part": f"quotas.{name}", "value": value, "source": f"{part_values['scope']} policy"}


def _row(part: str, part_values: Row) -> Row:
    source = Source(**part_values["source"] | {"layer": Layer(part_values["source"]["layer"])})
    value = format_value(part_values["value"]) if isinstance(part_values["value"], bool) else part_values["value"]
    return {"part": part, "value": value, "source": str(source)}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """All leaf values with their paths."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}", inner)
    else:
        yield path, value


def _at(scope: str) -> str:
    """The URL path of the policy of a scope."""
    mistakes = [Violation(*mistake) for mistake in collect_mistakes("scope", parse_scope, scope)]
    if mistakes:
        raise RequestRejected(mistakes)
    return f"/policies/{PLATFORM}/{PLATFORM}" if scope == PLATFORM else f"/policies/{scope}"


policy = gather("policy", ls, show, effective, rm)
