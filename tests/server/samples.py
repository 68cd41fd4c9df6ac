"""A valid body for every operation that takes one. Each new operation must be added here."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tests.kubeconfigs import make_kubeconfig
from tests.server.machines import FILE
from tests.server.sites import Operation, Site
from tests.suites import examples

Data = dict[str, Any]

CONTAINER: Data = {"name": "train", "kind": "container", "image": "registry.example/train:1"}
# Any bytes will do for a server that executes nothing.
CODE = b"\x1f\x8b\x00 an archive"
DIGEST = f"sha256:{hashlib.sha256(CODE).hexdigest()}"
SCRIPT: Data = {"name": "train", "source": "train.py"}
KUBECONFIG = json.dumps(make_kubeconfig())  # JSON is also YAML
REQUIREMENTS: Data = {"resources": {"cpu": "1", "mem": {"requests": "2Gi", "limits": "4Gi"}, "gpu": 1}}
BODIES: Mapping[str, Data | bytes] = {
    "POST /clusters": {"name": "new-cluster", "gpu_sharing": "kai", "gpu_types": {"big": ["A100", "H100"]}},
    "PATCH /clusters/{name}": {"gpu_sharing": "kai"},
    "PUT /clusters/{name}/kubeconfig": {"kubeconfig": KUBECONFIG, "context": "main"},
    "POST /departments": {"name": "new-department", "parent": "platform"},
    "PATCH /departments/{name}": {"name": "other-department"},
    "POST /projects": {"name": "new-project", "parent": "platform"},
    "PATCH /projects/{name}": {"name": "other-project"},
    "POST /compute-resources": {
        "name": "new-resource",
        "description": "one GPU",
        "scope": "platform",
        "requirements": REQUIREMENTS,
        "workload_types": ["training"],
    },
    "POST /compute-resources/check": {"name": "new-resource", "requirements": REQUIREMENTS},
    "PATCH /compute-resources/{name}": {"description": "changed"},
    "POST /compute-resources/{name}/copy": {"name": "copied-resource"},
    "POST /compute-resources/{name}/archive": {},
    "POST /templates": {"name": "new-template", "scope": "platform", "requirements": {"resources": {"disk": "5Gi"}}},
    "POST /templates/check": {"name": "new-template", "requirements": {"resources": {"disk": "5Gi"}}},
    "PATCH /templates/{name}": {"description": "changed"},
    "POST /templates/{name}/copy": {"name": "copied-template"},
    "POST /templates/{name}/archive": {},
    "PUT /policies/{kind}/{name}": {
        "defaults": {"resources": {"cpu": "1"}},
        "limit_factor": {"mem": 1.5},
        "rules": {"resources.gpu": {"max": 2}},
        "switches": {"allow_root": False},
        "quota": {"gpu": 8},
        "queue": {"max_waiting_runs": 1000, "weight": 2},
    },
    "POST /policies/{kind}/{name}/validate": {"rules": {"resources.gpu": {"max": 2}}},
    "PUT /projects/{project}/functions/{name}": {"handler": "main", "text": "def main():\n    return 1\n"},
    "PUT /projects/{project}/secrets/{name}": {"value": "hush"},
    "POST /projects/{project}/volumes": {"name": "new-volume", "size": "10Gi"},
    "POST /projects/{project}/runs/preview": {"function": CONTAINER},
    "POST /fit": {"project": "alpha", "request": {"function": CONTAINER}, "without": []},
    "POST /projects/{project}/runs": {"function": CONTAINER, "envs": {"EPOCHS": "3"}},
    "POST /projects/{project}/schedules": {"function": CONTAINER, "schedule": "0 6 * * *"},
    "PATCH /projects/{project}/schedules/{name}": {"cron": "0 7 * * *", "timezone": "Europe/Rome"},
    "POST /runs/{run_id}/change": {"change": {"resources": {"cpu": "1"}}},
    "PUT /projects/{project}/code/{digest}": CODE,
    "PUT /runs/{run_id}/uploads/{path}": b"what a run left",
    "POST /roles": {"subject": "user:new", "role": "viewer", "scope": "platform"},
    "POST /tokens": {"name": "laptop", "expires_in": "30d"},
    "PUT /settings": {"defaults": {"resources": {"cpu": "1"}}},
    "POST /apply": {"documents": [{"kind": "Department", "name": "applied"}], "dry_run": True},
    "POST /sessions": {"token": "fl_nobody"},
    "POST /sessions/link": {"next": "/policies"},
}
# Invalid redirect targets: URLs that browsers resolve to other sites, and invalid paths.
INVALID_REDIRECTS = (
    "//evil.example",
    "///evil.example",
    "https://evil.example",
    "http:evil.example",
    "javascript:alert(1)",
    "/\\evil.example",
    "\\\\evil.example",
    "/a\\b",
    "/\t/evil.example",
    "/\n/evil.example",
    "/.//evil.example",
    "/a//b",
    " /a",
    "a",
    "evil.example/a",
    "?a=b",
    "/" + "x" * 2000,
    "/\u202e",
)


def body_of(operation: Operation) -> Any:
    """A valid body for an operation: data or bytes; None if it takes no body."""
    if not operation.bodies:
        return None
    assert operation.key in BODIES, f"add a valid body for {operation.key} to tests/server/samples.py"
    return BODIES[operation.key]


def fill(site: Site, name: str) -> dict[str, str]:
    """Create an object of every kind, with `name` in each of their names, and return the path parameter values."""
    cluster, department = f"{name}-cluster", f"{name}-department"
    resource, template, volume, secret = f"{name}-resource", f"{name}-template", f"{name}-volume", f"{name.upper()}_KEY"
    site.post("/clusters", {"name": cluster, "gpu_sharing": "kai"})
    site.put(f"/clusters/{cluster}/kubeconfig", {"kubeconfig": KUBECONFIG})
    site.post("/departments", {"name": department, "parent": f"cluster/{cluster}"})
    site.post("/projects", {"name": name, "parent": f"department/{department}"})
    scope = f"project/{name}"
    renamed = site.post("/compute-resources", {"name": f"{name}-former", "scope": scope, "requirements": REQUIREMENTS})
    response = site.request(
        "PATCH", f"/compute-resources/{name}-former", {"name": resource, "description": f"of {name}"}
    )
    assert response.status_code == 200, response.text
    created_template = site.post(
        "/templates", {"name": template, "scope": scope, "requirements": {"profile": resource}}
    )
    for kind, scope_name in (("cluster", cluster), ("department", department), ("project", name)):
        rules = {f"envs.{name.upper()}": {"options": [name]}}
        site.put(f"/policies/{kind}/{scope_name}", {"rules": rules, "switches": {"existing_volumes": "allow"}})
    site.put(f"/projects/{name}/secrets/{secret}", {"value": f"the secret of {name}"})
    site.post(f"/projects/{name}/volumes", {"name": volume, "size": "1Gi", "description": f"of {name}"})
    volume_mount = {
        "volume_type": "shared_volume",
        "name": "data",
        "mount_path": "/data",
        "spec": {"claim_name": volume},
    }
    run_request = {"function": CONTAINER | {"name": f"{name}-function"}, "template": template, "secrets": [secret]}
    site.put(f"/projects/{name}/functions/{name}-written", {"text": f"print('of {name}')"})
    site.put(f"/projects/{name}/code/{DIGEST}", CODE)
    ended_run = site.post(f"/projects/{name}/runs", {"function": SCRIPT | {"name": f"{name}-ended", "code": DIGEST}})
    site.post(f"/runs/{ended_run['id']}/stop", None)
    serve_request = {"function": CONTAINER | {"name": f"{name}-served", "port": 8000}, "action": "serve"}
    served_run = site.post(f"/projects/{name}/runs", serve_request)
    run = site.post(f"/projects/{name}/runs", {**run_request, "volumes": [volume_mount]})
    schedule_request = {"function": CONTAINER | {"name": f"{name}-daily"}, "schedule": "0 6 * * *"}
    schedule = site.post(f"/projects/{name}/schedules", schedule_request)
    role = site.post("/roles", {"subject": f"user:{name}-user", "role": "admin", "scope": scope})
    token = site.post("/tokens", {"name": f"{name} laptop", "user": f"{name}-user"})
    return {
        "cluster": cluster,
        "department": department,
        "project": name,
        "compute_resource": resource,
        "compute_resource_id": renamed["id"],
        "former": f"{name}-former",
        "template": template,
        "template_id": created_template["id"],
        "secret": secret,
        "volume": volume,
        "function": f"{name}-written",
        "schedule": schedule["name"],
        "run": run["id"],
        "ended": ended_run["id"],
        "served": served_run["id"],
        "role": role["id"],
        "token": token["id"],
        "token_text": token["token"],
    }


# Operations that need an ended run, or that stream while a run is active.
ENDED_RUN_PATHS = ("/result", "/code", "/logs")
SERVED_RUN_PATHS = ("/url", "/open")


def _run_of(operation: Operation) -> str:
    """The run that an operation needs."""
    if operation.path.endswith(SERVED_RUN_PATHS):
        return "served"
    return "ended" if operation.path.endswith(ENDED_RUN_PATHS) else "run"


def names_of(operation: Operation, objects: Mapping[str, str], kind: str = "project") -> dict[str, str]:
    """The path parameters of an operation for existing objects."""
    first = operation.path.split("/")[3]
    nouns = {"compute-resources": "compute_resource", "policies": kind}
    name = nouns.get(first, first.rstrip("s"))
    child = next(
        (noun for noun in ("secret", "volume", "function", "schedule") if f"/{noun}s/" in operation.path), None
    )
    name = child or name
    known = {
        "name": objects.get(name, ""),
        "kind": kind,
        "project": objects["project"],
        "run_id": objects[_run_of(operation)],
        "path": FILE,
        "digest": DIGEST,
        "role_id": objects["role"],
        "token_id": objects["token"],
    }
    names = [parameter["name"] for parameter in operation.parameters("path")]
    for parameter_name in names:
        assert known.get(parameter_name), f"add {parameter_name} of {operation.key} to tests/server/samples.py"
    return {parameter_name: known[parameter_name] for parameter_name in names}


def address_of(operation: Operation, objects: Mapping[str, str], kind: str = "project") -> str:
    """The path of an operation on one of the objects."""
    path = operation.path
    for parameter_name, name in names_of(operation, objects, kind).items():
        path = path.replace(f"{{{parameter_name}}}", quote(name))
    return path + ("?old=1&new=2" if path.endswith("/diff") else "")


def some(table: Sequence[Any], round_number: int, max_count: int) -> Sequence[Any]:
    """A few entries from a table, different in each round; twice as many in the complete suite."""
    count = min(examples(fast=max_count, all=2 * max_count), len(table))
    return [table[(round_number * count + index) % len(table)] for index in range(count)]
