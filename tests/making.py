"""Short constructors for model objects and plans, from plain data."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import pytest
from pydantic import ValidationError

from fairlead.model.assets import ComputeResource, Policy, Template
from fairlead.model.explanations import to_json
from fairlead.model.parsing import StrictModel, violations_of
from fairlead.model.plans import Plan, Setting, Violation
from fairlead.model.requests import RunRequest
from fairlead.model.resources import Requirements
from fairlead.model.scopes import Cluster
from fairlead.planning.plan import plan_run
from fairlead.resolution.drafts import Code, Snapshot

Data = Mapping[str, Any]
StrictT = TypeVar("StrictT", bound=StrictModel)

CONTAINER: Data = {"name": "train", "kind": "container", "image": "registry.example/lab/train:1"}
SERVED: Data = {**CONTAINER, "port": 8000}
PYTHON: Data = {"name": "train", "kind": "python", "source": "train.py", "handler": "main"}
CODE = Code("print('bootstrap')\n", b"an archive", "sha256:1234")
RUN_ID = "r7"


def make_request(**fields: Any) -> RunRequest:
    """A request, for a container by default."""
    return RunRequest.model_validate({"function": CONTAINER, **fields})


def make_requirements(**fields: Any) -> Requirements:
    """Requirements of any layer."""
    return Requirements.model_validate(fields)


def make_compute_resource(name: str = "big", **fields: Any) -> ComputeResource:
    """A compute resource at the platform scope. Any other fields become its requirements."""
    return ComputeResource.model_validate({"name": name, **_split_fields(fields, ComputeResource)})


def make_template(name: str = "start", **fields: Any) -> Template:
    """A template. Any other fields become its requirements."""
    return Template.model_validate({"name": name, **_split_fields(fields, Template)})


def make_policy(scope: str = "platform", **fields: Any) -> Policy:
    """A policy at a scope."""
    return Policy.model_validate({"scope": scope, **fields})


def make_cluster(**fields: Any) -> Cluster:
    """A cluster, with whole GPUs by default."""
    return Cluster.model_validate({"name": "main", **fields})


def make_snapshot(
    *objects: ComputeResource | Template | Policy | Cluster,
    platform: Data | None = None,
    secrets: Collection[str] | None = None,
    volumes: Collection[str] | None = None,
    sharing_clusters: Sequence[str] = (),
    code: Code | None = CODE,
    project: str = "forest",
) -> Snapshot:
    """A snapshot: the objects visible to the project, and policies from the platform down."""
    return Snapshot(
        project=project,
        cluster=next((item for item in objects if isinstance(item, Cluster)), make_cluster()),
        platform=make_requirements(**(platform or {})),
        policies=tuple(item for item in objects if isinstance(item, Policy)),
        compute_resources={item.name: item for item in objects if isinstance(item, ComputeResource)},
        templates={item.name: item for item in objects if isinstance(item, Template)},
        secrets=None if secrets is None else frozenset(secrets),
        volumes=None if volumes is None else frozenset(volumes),
        sharing_clusters=tuple(sharing_clusters),
        code=code,
    )


def plan(
    requested: Data | None = None,
    *objects: ComputeResource | Template | Policy | Cluster,
    run_id: str = RUN_ID,
    **more: Any,
) -> Plan:
    """The plan for a request, in a project that can use these objects."""
    return plan_run(make_request(**(requested or {})), make_snapshot(*objects, **more), run_id)


def find_violations(model: type[StrictModel], data: Any) -> tuple[Violation, ...]:
    """The violations in invalid data, which the model must reject."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    return violations_of(caught.value, model)


def setting(planned: Plan, path: str) -> Setting:
    """The setting at a path."""
    settings_at_path = [item for item in planned.settings if item.path == path]
    assert len(settings_at_path) == 1, (
        f"{len(settings_at_path)} settings at {path}; known paths: {[item.path for item in planned.settings]}"
    )
    return settings_at_path[0]


def value(planned: Plan, path: str) -> Any:
    """The resolved value at a path as JSON; `absent` if the setting does not exist."""
    return to_json(setting(planned, path).value) if path in {item.path for item in planned.settings} else "absent"


def values(planned: Plan) -> dict[str, Any]:
    """Every resolved value by path, as JSON."""
    return {item.path: to_json(item.value) for item in planned.settings}


def violated_rules(planned: Plan | Sequence[Violation]) -> list[tuple[str, str]]:
    """The paths and rules of violations."""
    violations = planned.violations if isinstance(planned, Plan) else planned
    return [(violation.path, violation.rule) for violation in violations]


def warning_rules(planned: Plan) -> list[tuple[str, str]]:
    """The paths and rules of warnings."""
    return [(warning.path, warning.rule) for warning in planned.warnings]


def overridden_values(planned: Plan, path: str) -> list[tuple[Any, str]]:
    """The values and sources that a setting overrides, highest precedence first."""
    return [(to_json(overridden.value), str(overridden.source)) for overridden in setting(planned, path).overridden]


def pod(planned: Plan) -> Any:
    """The specification of the rendered pods, as JSON."""
    assert not planned.violations, "; ".join(map(str, planned.violations))
    return json.loads(json.dumps(planned.manifests[0]["spec"]["template"]["spec"]))


def container(planned: Plan) -> Any:
    """The rendered container."""
    return pod(planned)["containers"][0]


def _split_fields(fields: Data, model: type[StrictModel]) -> dict[str, Any]:
    own_fields = {name: field for name, field in fields.items() if name in model.model_fields}
    return {"requirements": {name: field for name, field in fields.items() if name not in own_fields}, **own_fields}
