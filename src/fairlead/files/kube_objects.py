"""The fields of Kubernetes objects that `scheduling` reads, with their types, and checks of objects against them."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from typing import Any

from pydantic import ValidationError
from pydantic_core import CoreSchema, ErrorDetails, SchemaValidator
from pydantic_core import core_schema as types

from fairlead.model.parsing import MAX_MISTAKES, field_error, printable, short_repr, suggest_names
from fairlead.model.plans import Violation
from fairlead.model.quantities import NANOS, Quantity

JSON = dict[str, Any]

# Preferred terms are ignored: they affect the choice among nodes, but not whether a pod fits.
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
INT32 = 2**31

# Messages by pydantic error type: pydantic's own messages describe Python types.
MESSAGES = {
    "missing": "is missing",
    "string_type": "must be text",
    "string_unicode": "must be text",
    "string_too_short": "must not be empty",
    "string_pattern_mismatch": "must be text without control characters",
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "too_short": "must not be empty",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
}
RULES = {"missing": "required", "literal_error": "options"}


@lru_cache(maxsize=4096)  # clusters repeat the same few amounts
def _parse(amount: str) -> int:
    return Quantity.parse(amount).nanos


def _check_amount(value: Any) -> Any:
    try:
        is_number = isinstance(value, str | int | float) and not isinstance(value, bool)
        why = "must not be negative" * (_parse(str(value)) < 0) if is_number else "must be an amount"
    except ValueError as error:
        why = f"invalid amount: {error}"
    if why:
        raise field_error("amount", f"{why}, found {short_repr(value)}", "use a number, for example 500m or 4Gi")
    return value


def _check_whole(amounts: JSON) -> JSON:
    """The API server accepts only integers for pods and extended resources."""
    for name, value in amounts.items():
        if (name == "pods" or ("/" in name and "kubernetes.io/" not in name)) and _parse(str(value)) % NANOS:
            message = f"must be a whole number, found {short_repr(value)}"
            raise field_error("amount", message, "use an integer", path=name)
    return amounts


def _check_values(requirement: JSON) -> JSON:
    """Check the number of values that an operator requires."""
    operator, values = requirement["operator"], requirement.get("values") or ()
    if operator in ("Exists", "DoesNotExist"):
        valid, wanted = not values, "no values"
    elif operator in ("Gt", "Lt"):
        valid, wanted = len(values) == 1, "one value"
    else:
        valid, wanted = bool(values), "values"
    if not valid:
        message = f"must have {wanted} with {operator}, found {len(values) or 'none'}"
        raise field_error("values", message, f"set {wanted}", path="values")
    return requirement


def _object(required: Mapping[str, CoreSchema], /, **optional: Any) -> CoreSchema:
    """A mapping. Optional fields may be null; other fields are ignored."""
    fields = {name: types.typed_dict_field(schema) for name, schema in required.items()}
    for name, schema in optional.items():
        is_field = schema["type"] == "typed-dict-field"
        fields[name] = schema if is_field else _not_null(types.nullable_schema(schema))
    return types.typed_dict_schema(fields)


def _list(items: CoreSchema, at_least: int = 0) -> CoreSchema:
    return types.list_schema(items, min_length=at_least)


def _options(*names: str) -> CoreSchema:
    return types.literal_schema(list(names))


def _not_null(schema: CoreSchema) -> types.TypedDictField:
    return types.typed_dict_field(schema, required=False)


# These texts appear in terminal messages, so control characters and line separators are rejected.
TEXT = types.str_schema(pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$")
NAME = types.str_schema(pattern=r"^[^\p{C}\p{Zl}\p{Zp}]*$", min_length=1)
FLAG = types.bool_schema()
TEXTS = _list(TEXT)
LABELS = types.dict_schema(TEXT, TEXT)
AMOUNTS = types.no_info_after_validator_function(
    _check_whole, types.dict_schema(TEXT, types.no_info_plain_validator_function(_check_amount))
)
PORT = types.int_schema(ge=0, le=65535)
POSITIVE = types.int_schema(ge=1, le=INT32)
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def _requirements(*operators: str) -> CoreSchema:
    schema = _object({"key": NAME, "operator": _options(*operators)}, values=TEXTS)
    return _list(types.no_info_after_validator_function(_check_values, schema))


NODE_REQUIREMENTS = _requirements(*LABEL_OPERATORS, "Gt", "Lt")
NODE_SELECTOR = _object(
    {}, nodeSelectorTerms=_list(_object({}, matchExpressions=NODE_REQUIREMENTS, matchFields=NODE_REQUIREMENTS))
)
LABEL_SELECTOR = _object({}, matchLabels=LABELS, matchExpressions=_requirements(*LABEL_OPERATORS))
POD_TERMS = _list(
    _object(
        {"topologyKey": NAME},
        labelSelector=LABEL_SELECTOR,
        namespaceSelector=LABEL_SELECTOR,
        namespaces=TEXTS,
        matchLabelKeys=TEXTS,
        mismatchLabelKeys=TEXTS,
    )
)
SPREAD_CONSTRAINTS = _list(
    _object(
        {"topologyKey": NAME, "maxSkew": POSITIVE},
        minDomains=POSITIVE,
        whenUnsatisfiable=_not_null(_options("DoNotSchedule", "ScheduleAnyway")),
        labelSelector=LABEL_SELECTOR,
        matchLabelKeys=TEXTS,
        nodeAffinityPolicy=_options("Honor", "Ignore"),
        nodeTaintsPolicy=_options("Honor", "Ignore"),
    )
)
RESOURCES = _object({}, requests=AMOUNTS, limits=AMOUNTS)
CONTAINER = _object(
    {},
    name=TEXT,
    resources=RESOURCES,
    ports=_list(_object({}, containerPort=PORT, hostPort=PORT, hostIP=TEXT, protocol=TEXT)),
    restartPolicy=TEXT,  # Always makes an init container a sidecar, whose requests count differently
)
CONTAINER_STATUSES = _list(_object({"name": TEXT}, resources=RESOURCES, allocatedResources=AMOUNTS))
POD_SPEC = _object(
    {"containers": _list(CONTAINER, at_least=1)},
    initContainers=_list(CONTAINER),
    resources=RESOURCES,
    overhead=AMOUNTS,
    nodeName=TEXT,
    nodeSelector=LABELS,
    affinity=_object(
        {},
        nodeAffinity=_object({}, **{REQUIRED: NODE_SELECTOR}),
        podAffinity=_object({}, **{REQUIRED: POD_TERMS}),
        podAntiAffinity=_object({}, **{REQUIRED: POD_TERMS}),
    ),
    tolerations=_list(
        _object(
            {},
            key=TEXT,
            operator=_options("Exists", "Equal", "Lt", "Gt", ""),
            value=TEXT,
            effect=_options(*EFFECTS, ""),
        )
    ),
    topologySpreadConstraints=SPREAD_CONSTRAINTS,
    volumes=_list(_object({"name": NAME}, persistentVolumeClaim=_object({"claimName": NAME}))),
    schedulerName=TEXT,
    schedulingGates=_list(_object({"name": TEXT})),  # a pod with gates is not scheduled, even if it fits
    priority=types.int_schema(ge=-INT32, le=INT32),  # pending pods are scheduled in this order
    hostNetwork=FLAG,
)
POD_STATUS = _object(
    {},
    phase=TEXT,
    conditions=_list(_object({"type": TEXT}, reason=TEXT)),
    containerStatuses=CONTAINER_STATUSES,
    initContainerStatuses=CONTAINER_STATUSES,
)
STORAGE = {"storageClassName": TEXT, "accessModes": TEXTS, "volumeMode": TEXT, "volumeAttributesClassName": TEXT}
STATUS = _object({}, phase=TEXT)
TOPOLOGIES = _list(_object({}, matchLabelExpressions=_list(_object({"key": NAME, "values": TEXTS}))))
METADATA = {
    "metadata": _object(
        {"name": NAME},
        namespace=TEXT,
        labels=LABELS,
        annotations=types.dict_schema(types.str_schema(), types.str_schema()),
        creationTimestamp=TEXT,
        deletionTimestamp=_not_null(TEXT),  # not null, because its presence means that the object is being deleted
        uid=TEXT,
    )
}
KINDS: Mapping[str, CoreSchema] = {
    "Node": _object(
        METADATA,
        spec=_object(
            {},
            taints=_list(_object({"key": NAME, "effect": _options(*EFFECTS)}, value=TEXT)),
            unschedulable=FLAG,
        ),
        status=_object({}, allocatable=AMOUNTS),
    ),
    "Pod": _object({**METADATA, "spec": POD_SPEC}, status=POD_STATUS),
    "PersistentVolumeClaim": _object(
        METADATA,
        spec=_object({}, **STORAGE, volumeName=TEXT, resources=RESOURCES, selector=LABEL_SELECTOR),
        status=STATUS,
    ),
    "PersistentVolume": _object(
        METADATA,
        spec=_object(
            {},
            **STORAGE,
            capacity=AMOUNTS,
            claimRef=_object({}, namespace=TEXT, name=TEXT, uid=TEXT),
            nodeAffinity=_object({}, required=NODE_SELECTOR),
        ),
        status=STATUS,
    ),
    "StorageClass": _object(METADATA, provisioner=TEXT, volumeBindingMode=TEXT, allowedTopologies=TOPOLOGIES),
    "Namespace": _object(METADATA),
}


@cache  # built on first use, because it takes milliseconds
def _validator(kind: str) -> SchemaValidator:
    return SchemaValidator(KINDS[kind])


def check_objects(objects: Iterable[JSON], location: str, alternative: str) -> list[Violation]:
    """All errors in these objects, up to MAX_MISTAKES. `alternative` is added to each hint."""
    # An object may be in several files, but its errors are reported only once.
    violations = dict.fromkeys(violation for raw in objects for violation in _check(raw, location, alternative))
    reported = list(islice(violations, MAX_MISTAKES))
    if len(violations) > MAX_MISTAKES:
        message = f"has {len(violations)} errors"
        reported.append(Violation("", "too_many", message, "fix these first", location=location))
    return reported


def name_object(raw: JSON) -> str:
    """The name of an object in messages: kind/namespace/name."""
    meta = raw["metadata"]
    parts = (raw["kind"], meta.get("namespace"), meta["name"])
    return "/".join(printable(part) if isinstance(part, str) else short_repr(part) for part in parts if part)


def _check(raw: JSON, location: str, alternative: str) -> Iterator[Violation]:
    try:
        # Strict, because `scheduling` reads the original JSON and relies on its types.
        _validator(raw["kind"]).validate_python(raw, strict=True)
    except ValidationError as error:
        for details in error.errors(include_url=False):
            for at, rule, message, hint in _translate(details):
                path = f"{name_object(raw)}: {at}"
                yield Violation(path, rule, message, f"{hint}, or {alternative}", location=location)


def _translate(details: ErrorDetails) -> Iterator[tuple[str, str, str, str]]:
    at, kind, found = details["loc"], details["type"], short_repr(details["input"])
    context = details.get("ctx") or {}
    if kind == "field_error":
        for inner, rule, message, hint in context["mistakes"]:
            yield _format_path((*at, inner) if inner else at), rule, message, hint
        return
    problem = MESSAGES.get(kind, "is not valid in Kubernetes").format(**context)
    message = problem if kind == "missing" else f"{problem}, found {found}"
    hint = "add it" if kind == "missing" else "fix it"
    if kind == "literal_error":
        # The context contains text such as "'a', 'b' or 'c'".
        known = [word for word in context["expected"].split("'")[1::2] if word]
        hint = suggest_names(str(details["input"]), known, "use one of {known}").removesuffix("?")
    yield _format_path(at), RULES.get(kind, "kind"), message, hint


def _format_path(parts: Iterable[str | int]) -> str:
    """Format a path as spec.containers[0].ports."""
    shown = (f"[{part}]" if isinstance(part, int) else f".{printable(part)}" for part in parts if part != "[key]")
    return "".join(shown).removeprefix(".")
