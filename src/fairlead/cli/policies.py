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

COLUMNS: Columns = {"SCOPE": "scope", "CONTENTS": lambda policy: list(policy["content"]), "AGE": "created_at"}
PARTS = {"PART": "part", "VALUE": "value", "FROM": "source"}

Row = dict[str, Any]


def ls(*, list_options: WithListOptions = None, as_json: Json = False) -> int:
    """List the scopes that have a policy."""
    return print_list("/policies", COLUMNS, "policies", list_options, as_json)


def show(scope: str, /, *, as_json: Json = False) -> int:
    """Show a scope's policy."""
    return print_item(connect().get(_at(scope)), as_json)


def effective(scope: str, /, *, as_json: Json = False) -> int:
    """Show a scope's effective policy, with the source of each part."""
    answer = connect().get(f"{_at(scope)}/effective")
    if as_json:
        return print_item(answer, as_json)
    return print_items(list_parts(answer), PARTS, "rules", as_json)


def rm(scope: str, /, *, force: Force = False, as_json: Json = False) -> int:
    """Delete a scope's policy. Policies of parent scopes still apply."""
    connect().delete(_at(scope), **forced(force))
    return print_done(f"deleted policy of {scope}", None, as_json)


def list_parts(effective: Row) -> Iterator[Row]:
    """Table rows for an effective policy."""
    for path, rule in effective["rules"].items():
        for bound, entries in rule.items():
            # Options from several scopes apply together, so the server returns a list.
            for entry in entries if isinstance(entries, list) else [entries]:
                yield _row(f"rules.{path}.{bound}", entry)
    for group in ("switches", "limit_factor"):
        yield from (_row(f"{group}.{name}", entry) for name, entry in effective[group].items())
    for defaults in effective["defaults"]:
        source = f"{defaults['scope']} policy"
        leaves = _leaves("defaults", defaults["requirements"])
        yield from ({"part": part, "value": value, "source": source} for part, value in leaves)
    for quota in effective["quotas"]:
        # The other fields, such as the scope, are not limits.
        for name in [name for name in quota if name in quota["used"]]:
            value = f"{quota[name]}, {quota['used'][name]} used"
            yield {"part": f"quotas.{name}", "value": value, "source": f"{quota['scope']} policy"}


def _row(part: str, entry: Row) -> Row:
    source = Source(**entry["source"] | {"layer": Layer(entry["source"]["layer"])})
    # Shown as users write it: true, not True.
    value = format_value(entry["value"]) if isinstance(entry["value"], bool) else entry["value"]
    return {"part": part, "value": value, "source": str(source)}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """All leaf values with their paths."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}", inner)
    else:
        yield path, value


def _at(scope: str) -> str:
    """The URL path of a scope's policy."""
    mistakes = [Violation(*mistake) for mistake in collect_mistakes("scope", parse_scope, scope)]
    if mistakes:
        raise RequestRejected(mistakes)
    # URLs have the form kind/name. The platform has no name.
    return f"/policies/{PLATFORM}/{PLATFORM}" if scope == PLATFORM else f"/policies/{scope}"


policy = gather("policy", ls, show, effective, rm)
