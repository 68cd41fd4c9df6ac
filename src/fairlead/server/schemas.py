"""What only we know of answers: the parts that are plain JSON inside the program, described for those who read them."""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/{model}"
TEXT: Schema = {"type": "string"}


def refer(model: str) -> Schema:
    """A reference to a schema of the document."""
    return {"$ref": REFERENCE.format(model=model)}


def many(schema: Schema) -> Schema:
    """A list of things of one schema."""
    return {"type": "array", "items": schema}


def _object(about: str, always: Mapping[str, Schema], /, **sometimes: Schema) -> Schema:
    return {
        "description": about,
        "type": "object",
        "required": list(always),
        "properties": {**always, **sometimes},
    }


_SOURCE: Schema = {"anyOf": [refer("Source"), {"type": "null"}]}
_QUANTITY: Schema = {**TEXT, "description": "an amount in its canonical form, such as 64Gi"}
_COUNT: Schema = {"type": "integer", "minimum": 0}

COMPONENTS: Mapping[str, Schema] = {
    "Problem": _object(
        "What went wrong (RFC 9457). `code` never changes; `detail` is for people.",
        {
            "type": TEXT,
            "title": TEXT,
            "status": {"type": "integer"},
            "code": TEXT,
            "detail": TEXT,
            "request_id": TEXT,
        },
        hint={**TEXT, "description": "what to do about it"},
        violations=many(refer("Finding")),
        used_by=many(refer("UsedBy")),
        retry_after_seconds={"type": "integer"},
    ),
    "UsedBy": _object(
        "What is in the way: a run, a template, a policy, a place.",
        {"kind": TEXT, "name": TEXT, "scope": TEXT},
        state={**TEXT, "description": "of a run"},
    ),
    "Finding": _object(
        "A violation or a warning: where, which rule, what was found, what to do, and whose rule it is.",
        {"path": TEXT, "rule": TEXT, "message": TEXT, "hint": {"type": ["string", "null"]}, "source": _SOURCE},
        requested={**refer("EffectiveValue"), "description": "of a warning: what was asked for and lost"},
        location={**TEXT, "description": "the document in which it was found"},
    ),
    "Setting": _object(
        "One resolved value: who set it, whom it overrode, with whose values it was combined, and how it came about.",
        {"path": TEXT, "value": {}, "source": refer("Source"), "overridden": many(refer("EffectiveValue"))},
        combined=many(refer("EffectiveValue")),
        reason=TEXT,
    ),
    "EffectiveRule": _object(
        "What holds at a path: the bounds that are said, each with its source.",
        {},
        min=many(refer("EffectiveValue")),
        max=many(refer("EffectiveValue")),
        options=many(refer("EffectiveValue")),
        required=refer("EffectiveValue"),
        locked=refer("EffectiveValue"),
    ),
    "EffectiveQuota": _object(
        "The quota of one scope: the amounts that are said, and what of them is used.",
        {"scope": TEXT, "used": refer("Used")},
        gpu=_COUNT,
        cpu=_QUANTITY,
        mem=_QUANTITY,
        runs=_COUNT,
    ),
    "RoleAtScope": _object("What somebody is at a scope.", {"role": refer("Role"), "scope": TEXT}),
}
# The fields of answers that are plain JSON inside.
FIELDS: Mapping[str, Mapping[str, Schema]] = {
    "Findings": {"violations": many(refer("Finding")), "warnings": many(refer("Finding"))},
    "RejectedItem": {"violations": many(refer("Finding"))},
    "PlanView": {
        "settings": many(refer("Setting")),
        "warnings": many(refer("Finding")),
        "violations": many(refer("Finding")),
        "fit": refer("Fit"),
    },
    "FitReport": {"violations": many(refer("Finding"))},
    "Me": {"roles": many(refer("RoleAtScope"))},
    "EffectivePolicy": {
        "rules": {"type": "object", "additionalProperties": refer("EffectiveRule")},
        "quotas": many(refer("EffectiveQuota")),
    },
}
# What is left out where there is nothing to say. All other fields of answers are always there.
LEFT_OUT: Mapping[str, tuple[str, ...]] = {"PlanView": ("token",)}


def complete(schemas: dict[str, Schema]) -> None:
    """Say of the schemas of answers what the program's own types do not."""
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        properties |= FIELDS.get(name, {})
        if properties:
            schema["required"] = [field for field in properties if field not in LEFT_OUT.get(name, ())]
