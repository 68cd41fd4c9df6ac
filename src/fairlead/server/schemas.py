"""OpenAPI schemas of response fields that are plain dictionaries in the code."""

from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/{model}"
TEXT: Schema = {"type": "string"}


def refer(model: str) -> Schema:
    return {"$ref": REFERENCE.format(model=model)}


def array_of(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _object(description: str, required: Mapping[str, Schema], /, **optional: Schema) -> Schema:
    return {
        "description": description,
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
    }


_SOURCE: Schema = {"anyOf": [refer("Source"), {"type": "null"}]}
_QUANTITY: Schema = {**TEXT, "description": "An amount in canonical form, such as 64Gi"}
_COUNT: Schema = {"type": "integer", "minimum": 0}

COMPONENTS: Mapping[str, Schema] = {
    "Problem": _object(
        "An error (RFC 9457). Programs use `code`, which never changes; `detail` is for people.",
        {
            "type": TEXT,
            "title": TEXT,
            "status": {"type": "integer"},
            "code": TEXT,
            "detail": TEXT,
            "request_id": TEXT,
        },
        hint={**TEXT, "description": "How to fix it"},
        violations=array_of(refer("Finding")),
        used_by=array_of(refer("UsedBy")),
        retry_after_seconds={"type": "integer"},
    ),
    "UsedBy": _object(
        "An object that prevents a deletion: a run, a template, a policy or a scope.",
        {"kind": TEXT, "name": TEXT, "scope": TEXT},
        state={**TEXT, "description": "State, if the object is a run"},
    ),
    "Finding": _object(
        "A violation or a warning: its path, rule, message, hint and the source of the rule.",
        {"path": TEXT, "rule": TEXT, "message": TEXT, "hint": {"type": ["string", "null"]}, "source": _SOURCE},
        requested={**refer("EffectiveValue"), "description": "For a warning: the requested value that was overridden"},
        location={**TEXT, "description": "The document that contains the problem"},
    ),
    "Setting": _object(
        "A resolved value: its source, the values that it overrode or was combined with, and the reason.",
        {"path": TEXT, "value": {}, "source": refer("Source"), "overridden": array_of(refer("EffectiveValue"))},
        combined=array_of(refer("EffectiveValue")),
        reason=TEXT,
    ),
    "EffectiveRule": _object(
        "The effective rule for a path: its limits, each with its source.",
        {},
        min=array_of(refer("EffectiveValue")),
        max=array_of(refer("EffectiveValue")),
        options=array_of(refer("EffectiveValue")),
        required=refer("EffectiveValue"),
        locked=refer("EffectiveValue"),
    ),
    "EffectiveQuota": _object(
        "The quota of a scope: its limits and their current usage.",
        {"scope": TEXT, "used": refer("ScopeUsage")},
        gpu=_COUNT,
        cpu=_QUANTITY,
        mem=_QUANTITY,
        runs=_COUNT,
    ),
    "RoleAtScope": _object("A role in a scope.", {"role": refer("Role"), "scope": TEXT}),
}
# Fields of responses that are plain dictionaries in the code.
FIELDS: Mapping[str, Mapping[str, Schema]] = {
    "Findings": {"violations": array_of(refer("Finding")), "warnings": array_of(refer("Finding"))},
    "RejectedItem": {"violations": array_of(refer("Finding"))},
    "PlanView": {
        "settings": array_of(refer("Setting")),
        "warnings": array_of(refer("Finding")),
        "violations": array_of(refer("Finding")),
        "fit": refer("Fit"),
    },
    "FitReport": {"violations": array_of(refer("Finding"))},
    "CurrentUser": {"roles": array_of(refer("RoleAtScope"))},
    "EffectivePolicy": {
        "rules": {"type": "object", "additionalProperties": refer("EffectiveRule")},
        "quotas": array_of(refer("EffectiveQuota")),
    },
}
# Fields that may be missing. All other fields of responses are always present.
OPTIONAL: Mapping[str, tuple[str, ...]] = {"PlanView": ("token",)}


def add_json_fields(schemas: dict[str, Schema]) -> None:
    """Add the fields in `FIELDS` to the response schemas, and mark which fields are required."""
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        properties |= FIELDS.get(name, {})
        if properties:
            schema["required"] = [field for field in properties if field not in OPTIONAL.get(name, ())]
