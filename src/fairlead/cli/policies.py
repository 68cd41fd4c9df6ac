"""`fairlead policy`: what is allowed at a scope, and what holds there."""

from collections.abc import Iterator
from typing import Any

from fairlead.cli.nouns import Asking, Force, Json, connect, forced, gather, print_item, print_items, print_list
from fairlead.cli.printing import print_done
from fairlead.cli.tables import Columns
from fairlead.errors import RequestRejected
from fairlead.model.parsing import collect
from fairlead.model.plans import Layer, Source, Violation, show_value
from fairlead.model.scopes import PLATFORM, parse_scope

SAID: Columns = {"SCOPE": "scope", "SAYS": lambda policy: list(policy["content"]), "AGE": "created_at"}
PARTS = {"PART": "part", "VALUE": "value", "FROM": "source"}

Row = dict[str, Any]


def ls(*, asked: Asking = None, as_json: Json = False) -> int:
    """List the scopes that have a policy of their own, and what it speaks of."""
    return print_list("/policies", SAID, "policies", asked, as_json)


def show(scope: str, /, *, as_json: Json = False) -> int:
    """Show what is said at a scope."""
    return print_item(connect().get(_at(scope)), as_json)


def effective(scope: str, /, *, as_json: Json = False) -> int:
    """Show what holds at a scope, and where each part comes from."""
    answer = connect().get(f"{_at(scope)}/effective")
    if as_json:
        return print_item(answer, as_json)
    return print_items(list_parts(answer), PARTS, "rules", as_json)


def rm(scope: str, /, *, force: Force = False, as_json: Json = False) -> int:
    """Say nothing more at a scope: what holds above it holds there."""
    connect().delete(_at(scope), **forced(force))
    return print_done(f"deleted policy of {scope}", None, as_json)


def list_parts(effective: Row) -> Iterator[Row]:
    """Each part of what holds at a scope, as a row of a table."""
    for path, rule in effective["rules"].items():
        for bound, said in rule.items():
            yield from (_row(f"rules.{path}.{bound}", item) for item in (said if isinstance(said, list) else [said]))
    for group in ("switches", "limit_factor"):
        yield from (_row(f"{group}.{name}", said) for name, said in effective[group].items())
    for said in effective["defaults"]:
        source = f"policy of {said['scope']}"
        leaves = _leaves("defaults", said["requirements"])
        yield from ({"part": part, "value": value, "source": source} for part, value in leaves)
    for said in effective["quotas"]:
        for name in [name for name in said if name in said["used"]]:
            value = f"{said[name]}, {said['used'][name]} used"
            yield {"part": f"quotas.{name}", "value": value, "source": f"policy of {said['scope']}"}


def _row(part: str, said: Row) -> Row:
    source = Source(**said["source"] | {"layer": Layer(said["source"]["layer"])})
    value = show_value(said["value"]) if isinstance(said["value"], bool) else said["value"]
    return {"part": part, "value": value, "source": str(source)}


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Every value within another, with its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}", inner)
    else:
        yield path, value


def _at(scope: str) -> str:
    """Where the policy of a scope is."""
    mistakes = [Violation(*mistake) for mistake in collect("scope", parse_scope, scope)]
    if mistakes:
        raise RequestRejected(mistakes)
    return f"/policies/{PLATFORM}/{PLATFORM}" if scope == PLATFORM else f"/policies/{scope}"


policy = gather("policy", ls, show, effective, rm)
