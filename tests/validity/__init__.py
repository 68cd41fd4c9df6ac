"""Checks whether a cluster would accept manifests: Kubernetes' schemas, and API server rules without a schema.

The checks share no code with the product: names, quantities and labels are implemented again from the Kubernetes rules.
"""

import base64
import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain

import jsonschema_rs

from tests.validity.parts import (
    SUBDOMAIN,
    check_claim_spec,
    check_dns_label,
    check_key,
    check_label_value,
    check_labels,
    check_name,
    check_qualified,
    check_unique,
)
from tests.validity.pods import Manifest, Pod, check_pod, pod_of

SCHEMAS = files("kubernetes_validate") / "kubernetes-json-schema"
MAX_DATA_BYTES = 2**20
PULL_TYPE, PULL_KEY = "kubernetes.io/dockerconfigjson", ".dockerconfigjson"
MAX_OBJECT_BYTES = 3 * 2**19  # etcd's limit


def check_manifests(
    manifests: Sequence[Manifest], *, claims: Sequence[str] = (), config_maps: Sequence[str] = ()
) -> list[str]:
    """All errors for which an API server would reject the manifests, or their pods would not start.

    `claims` and `config_maps` are names of existing objects that the manifests use but do not contain.
    """
    errors: list[str] = []
    has_schema_errors = False
    for manifest in manifests:
        where = f"{manifest.get('kind')}/{(manifest.get('metadata') or {}).get('name')}"
        schema_errors = list(check_schema(manifest))
        # Stop at invalid structure: later checks would fail.
        manifest_errors = schema_errors or chain.from_iterable(check(manifest) for check in CHECKS)
        errors += [f"{where}: {line}" for line in manifest_errors]
        has_schema_errors = has_schema_errors or bool(schema_errors)
    return (
        errors
        if has_schema_errors
        else [*errors, *_check_set(manifests), *_check_references(manifests, claims, config_maps)]
    )


def check_schema(manifest: Manifest) -> Iterator[str]:
    """Check the strict schema of the newest known Kubernetes version: types, enums, required and unknown fields."""
    if not isinstance(manifest.get("apiVersion"), str) or not isinstance(manifest.get("kind"), str):
        yield "apiVersion and kind are missing"
        return
    try:
        # Compare with the parsed JSON text, to find Python objects that JSON cannot represent.
        plain = json.loads(json.dumps(manifest, allow_nan=False))
    except (TypeError, ValueError) as error:
        yield f"is not JSON: {error}"
        return
    if (size := len(json.dumps(plain, ensure_ascii=False).encode("utf-8", "replace"))) > MAX_OBJECT_BYTES:
        yield f"{size} bytes are more than a cluster can store"
    if plain != manifest:
        yield "is not plain JSON: a key or a value changes when it is serialized"
    for violation in _schema(manifest["apiVersion"], manifest["kind"]).iter_errors(plain):
        yield f"{'.'.join(map(str, violation.instance_path))}: {violation.message[:300]}"


def _check_metadata(manifest: Manifest) -> Iterator[str]:
    metadata = manifest["metadata"]
    yield from check_dns_label("metadata.namespace", metadata.get("namespace", ""))
    max_length = 63 if manifest["kind"] in ("Job", "Service") else 253
    yield from check_name("metadata.name", metadata.get("name", ""), SUBDOMAIN, max_length)
    if manifest["kind"] == "Service":
        yield from check_name("metadata.name", metadata["name"], r"[a-z]([-a-z0-9]*[a-z0-9])?", 63)
    yield from check_labels("metadata", metadata)


def _check_data(manifest: Manifest) -> Iterator[str]:
    """Check the data of Secrets and ConfigMaps."""
    if manifest["kind"] not in ("Secret", "ConfigMap"):
        return
    if manifest.get("type") == PULL_TYPE and PULL_KEY not in manifest.get("data", {}):
        yield f"data: a Secret of type {PULL_TYPE} has {PULL_KEY}"
    plain, binary = manifest.get("data", {}), manifest.get("binaryData", {})
    encoded = plain if manifest["kind"] == "Secret" else binary
    for key in (*plain, *binary):
        yield from check_key(f"data.{key}", key)
    if plain.keys() & binary.keys():
        yield f"data: {sorted(plain.keys() & binary.keys())} are in both data and binaryData"
    size = 0
    for key, value in (*plain.items(), *binary.items()):
        size += len(value.encode("utf-8", "replace"))
        if key in encoded:
            try:
                size += len(base64.b64decode(value, validate=True)) - len(value)
            except ValueError:
                yield f"data.{key}: is not valid base64"
    if size > MAX_DATA_BYTES:
        yield f"data: {size} bytes are over {MAX_DATA_BYTES}"


def _check_claim(manifest: Manifest) -> Iterator[str]:
    if manifest["kind"] == "PersistentVolumeClaim":
        yield from check_claim_spec("spec", manifest["spec"])


def _check_workload(manifest: Manifest) -> Iterator[str]:
    spec = manifest.get("spec", {})
    if manifest["kind"] == "Deployment":
        selector, labels = spec["selector"].get("matchLabels", {}), spec["template"]["metadata"].get("labels", {})
        if not selector or not selector.items() <= labels.items():
            yield f"spec.selector: {selector} does not select the pods, which are labeled {labels}"
        if spec["template"]["spec"].get("restartPolicy", "Always") != "Always":
            yield "spec.template.spec.restartPolicy: a Deployment needs Always"
    if manifest["kind"] == "Job":
        if spec["template"]["spec"].get("restartPolicy") not in ("Never", "OnFailure"):
            yield "spec.template.spec.restartPolicy: a Job needs Never or OnFailure"
        if "podFailurePolicy" in spec and spec["template"]["spec"].get("restartPolicy") != "Never":
            yield "spec.podFailurePolicy: only for restartPolicy Never"
        for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
            if rule.get("action") not in ("Ignore", "FailJob", "Count", "FailIndex"):
                yield f"spec.podFailurePolicy: {rule.get('action')!r} is not a valid action"
            if ("onPodConditions" in rule) == ("onExitCodes" in rule):
                yield "spec.podFailurePolicy: a rule is about conditions or about exit codes"
        if spec.get("completionMode") == "Indexed":
            # The controller derives the host name of each pod, and the server rejects a Job if the name is invalid.
            last = f"{manifest['metadata']['name']}-{max(0, spec['completions'] - 1)}"
            yield from check_dns_label("metadata.name (with its last index)", last)
        if spec.get("activeDeadlineSeconds", 1) < 1:
            yield "spec.activeDeadlineSeconds: must be 1 or more"


def _check_service(manifest: Manifest) -> Iterator[str]:
    if manifest["kind"] == "Service":
        for port in manifest["spec"]["ports"]:
            if not 1 <= port["port"] <= 65535:
                yield f"spec.ports: {port['port']} is not a valid port"
        for key, value in manifest["spec"]["selector"].items():
            yield from check_qualified("spec.selector", key)
            yield from check_label_value(f"spec.selector.{key}", value)


def _check_references(
    manifests: Sequence[Manifest], claims: Sequence[str], config_maps: Sequence[str]
) -> Iterator[str]:
    """Check that every object that a pod references is rendered or already exists."""
    rendered = {(manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in manifests}
    known = {("PersistentVolumeClaim", name) for name in claims} | {("ConfigMap", name) for name in config_maps}
    used = [reference for item in manifests for reference in _list_references(pod_of(item))]
    for kind, name, key in used:
        if (kind, name) not in rendered:
            if (kind, name) not in known:
                yield f"{kind} {name} is neither rendered nor existing"
        elif key is not None and key not in rendered[kind, name].get("data", {}):
            yield f"{kind} {name} has no {key}"
    for kind, name in rendered.keys() - {(kind, name) for kind, name, _ in used}:
        if kind in ("PersistentVolumeClaim", "Secret", "ConfigMap"):
            yield f"{kind} {name} is rendered and not used"


def _list_references(template: Pod | None) -> Iterator[tuple[str, str, str | None]]:
    """The objects that a pod references: kind, name, and the key that the pod uses, or None."""
    if template is None:
        return
    for volume in template["spec"].get("volumes", ()):
        if "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"], None
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"], None
        if "secret" in volume:
            for item in volume["secret"].get("items", ({"key": None},)):
                yield "Secret", volume["secret"]["secretName"], item["key"]
    for reference in template["spec"].get("imagePullSecrets", ()):
        yield "Secret", reference["name"], PULL_KEY
    for container in template["spec"]["containers"]:
        for env in container.get("env", ()):
            if reference := env.get("valueFrom", {}).get("secretKeyRef"):
                yield "Secret", reference["name"], reference["key"]


def _check_set(manifests: Sequence[Manifest]) -> Iterator[str]:
    """Checks across all of a run's manifests."""
    yield from check_unique("objects", [f"{item['kind']}/{item['metadata']['name']}" for item in manifests])
    if len({item["metadata"].get("namespace") for item in manifests}) > 1:
        yield "objects: are in several namespaces"
    templates = [template for item in manifests if (template := pod_of(item)) is not None]
    for service in (item for item in manifests if item["kind"] == "Service"):
        selector = service["spec"]["selector"]
        selected = [pod for pod in templates if selector.items() <= pod["metadata"]["labels"].items()]
        ports = [port for pod in selected for container in pod["spec"]["containers"] for port in container["ports"]]
        for port in service["spec"]["ports"]:
            if port.get("targetPort") not in [value for named in ports for value in named.values()]:
                yield f"Service: nothing listens at {port.get('targetPort')}"


@cache
def _schema(api_version: str, kind: str) -> jsonschema_rs.Validator:
    newest = max(
        (folder for folder in SCHEMAS.iterdir() if folder.name.endswith("-strict")),
        key=lambda folder: [int(part) for part in re.findall(r"[0-9]+", folder.name)],
    )
    group, _, version = api_version.rpartition("/")
    name = "-".join(filter(None, (kind.lower(), group.partition(".")[0], version)))
    return jsonschema_rs.validator_for(
        json.loads((newest / f"{name}.json").read_text()),
        retriever=lambda uri: json.loads((newest / uri.rpartition("/")[2]).read_text()),
    )


CHECKS: tuple[Callable[[Manifest], Iterator[str]], ...] = (
    _check_metadata,
    _check_data,
    _check_claim,
    _check_workload,
    _check_service,
    check_pod,
)
