"""Checks whether an API server accepts a pod and a node can start it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.validity.parts import (
    SUBDOMAIN,
    check_amounts,
    check_claim_spec,
    check_dns_label,
    check_key,
    check_label_value,
    check_labels,
    check_name,
    check_qualified,
    check_unique,
    parse_quantity,
)

Manifest = Mapping[str, Any]
Pod = Mapping[str, Any]

STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage")
VOLUME_SOURCES = ("persistentVolumeClaim", "emptyDir", "configMap", "secret", "ephemeral")


def pod_of(manifest: Manifest) -> Pod | None:
    """An object's pod template, if it has one."""
    template: Pod | None = (
        manifest.get("spec", {}).get("template") if isinstance(manifest.get("spec"), Mapping) else None
    )
    return template


def container_of(manifest: Manifest) -> Mapping[str, Any]:
    """The only container in an object's pod template."""
    template = pod_of(manifest)
    assert template is not None
    container: Mapping[str, Any] = template["spec"]["containers"][0]
    return container


def check_pod(manifest: Manifest) -> Iterator[str]:
    template = pod_of(manifest)
    if template is None:
        return
    spec = template["spec"]
    yield from check_labels("template", template["metadata"])
    for check in (_check_mounts, _check_containers, _check_security, _check_placement):
        yield from check(spec)
    for field in ("runtimeClassName", "priorityClassName", "schedulerName"):
        if field in spec:
            yield from check_name(field, spec[field], SUBDOMAIN, 253)


def _check_mounts(spec: Pod) -> Iterator[str]:
    volumes = [volume["name"] for volume in spec.get("volumes", ())]
    mounts = [mount for container in spec["containers"] for mount in container.get("volumeMounts", ())]
    yield from check_unique("volumes", volumes)
    yield from check_unique("volumeMounts", [mount["mountPath"] for mount in mounts])
    yield from (
        f"volumeMounts: volume {name} does not exist" for name in {mount["name"] for mount in mounts} - {*volumes}
    )
    yield from (f"volumes: {name} is mounted nowhere" for name in {*volumes} - {mount["name"] for mount in mounts})
    for volume in spec.get("volumes", ()):
        yield from _check_volume(volume)
    for mount in mounts:
        path, sub_path = mount["mountPath"], mount.get("subPath", "")
        if not path.startswith("/") or path == "/" or ":" in path or "\0" in path:
            yield f"volumeMounts: {path!r} is not a valid mount path"
        if sub_path.startswith("/") or ".." in sub_path.split("/") or "\0" in sub_path:
            yield f"volumeMounts: {sub_path!r} is not a valid sub path"


def _check_volume(volume: Mapping[str, Any]) -> Iterator[str]:
    where = f"volumes.{volume['name']}"
    yield from check_dns_label("volumes", volume["name"])
    sources = [name for name in volume if name != "name"]
    if len(sources) != 1 or sources[0] not in VOLUME_SOURCES:
        yield f"{where}: must have one known source, found {sources}"
    if "emptyDir" in volume and "sizeLimit" in volume["emptyDir"]:
        yield from check_amounts(where, {"sizeLimit": volume["emptyDir"]["sizeLimit"]})
    if "ephemeral" in volume:
        yield from check_claim_spec(where, volume["ephemeral"]["volumeClaimTemplate"]["spec"])
    for name, kind in (("persistentVolumeClaim", "claimName"), ("configMap", "name"), ("secret", "secretName")):
        if name in volume:
            yield from check_name(f"{where}.{name}", volume[name].get(kind, ""), SUBDOMAIN, 253)
    for item in volume.get("secret", {}).get("items", ()):
        yield from check_key(f"{where}.items", item["key"])
        if item["path"].startswith("/") or ".." in item["path"].split("/") or item["path"].startswith(".."):
            yield f"{where}.items: {item['path']!r} is not a valid relative path"


def _check_containers(spec: Pod) -> Iterator[str]:
    for container in spec["containers"]:
        image = container.get("image", "")
        if not image or image != image.strip():
            yield f"image: {image!r} is not a valid image"
        yield from check_dns_label("containers.name", container["name"])
        if container.get("imagePullPolicy", "Always") not in ("Always", "IfNotPresent", "Never"):
            yield f"imagePullPolicy: {container['imagePullPolicy']!r} is not a valid policy"
        if container.get("terminationMessagePolicy", "File") not in ("File", "FallbackToLogsOnError"):
            yield f"terminationMessagePolicy: {container['terminationMessagePolicy']!r} is not a valid policy"
        yield from check_unique("env", [env["name"] for env in container.get("env", ())])
        for env in container.get("env", ()):
            yield from _check_env(env)
        yield from _check_resources(container.get("resources", {}))
        for port in container.get("ports", ()):
            if not 1 <= port["containerPort"] <= 65535:
                yield f"ports: {port['containerPort']} is not a valid port"


def _check_env(env: Mapping[str, Any]) -> Iterator[str]:
    name = env["name"]
    if not re.fullmatch(r"[-._a-zA-Z][-._a-zA-Z0-9]*", name, re.ASCII) or name == "." or name.startswith(".."):
        yield f"env: {name!r} is not a valid variable name"
    if ("value" in env) == ("valueFrom" in env):
        yield f"env.{name}: must have a value or a source, and not both"
    if "\0" in env.get("value", ""):
        yield f"env.{name}: a value must not contain a null character"


def _check_resources(resources: Mapping[str, Any]) -> Iterator[str]:
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    errors = [*check_amounts("requests", requests), *check_amounts("limits", limits)]
    yield from errors
    for name in {*requests, *limits}:
        yield from _check_resource_name(name)
    if errors:
        return
    for name in requests.keys() & limits.keys():
        if parse_quantity(limits[name]) < parse_quantity(requests[name]):
            yield f"limits.{name}: {limits[name]} is under the request {requests[name]}"
    for name in ({*requests} | {*limits}) - {*STANDARD_RESOURCES}:
        if requests.get(name) != limits.get(name):
            yield f"requests.{name}: an extended resource cannot be overcommitted"
        if parse_quantity(limits.get(name, "0")).denominator != 1:
            yield f"limits.{name}: {limits.get(name)} is not a valid whole number"


def _check_resource_name(name: str) -> Iterator[str]:
    if name in STANDARD_RESOURCES:
        return
    yield from check_qualified("resources", name)
    # The quota of an extended resource is called requests.<name>, which must also be a valid name.
    yield from check_qualified("resources", f"requests.{name}")
    if "/" not in name or name.startswith("requests."):
        yield f"resources: {name!r} is not a valid name of an extended resource"


def _check_security(spec: Pod) -> Iterator[str]:
    security = spec.get("securityContext", {})
    for field in ("runAsUser", "runAsGroup", "fsGroup"):
        if not 0 <= security.get(field, -1) <= 2**31 - 1:
            yield f"securityContext.{field}: {security.get(field)} is not a valid id"
    if security.get("runAsNonRoot") is not (security.get("runAsUser") != 0):
        yield f"securityContext.runAsNonRoot: is {security.get('runAsNonRoot')} for user {security.get('runAsUser')}"
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "securityContext.seccompProfile: must be RuntimeDefault"
    if spec.get("automountServiceAccountToken") is not False:
        yield "automountServiceAccountToken: must be false"
    for container in spec["containers"]:
        container_security = container.get("securityContext", {})
        if container_security.get("allowPrivilegeEscalation") is not False:
            yield "securityContext.allowPrivilegeEscalation: must be false"
        if (
            container_security.get("capabilities", {}).get("drop") != ["ALL"]
            or "add" in container_security["capabilities"]
        ):
            yield "securityContext.capabilities: all must be dropped"
        if container_security.get("privileged"):
            yield "securityContext.privileged: must not be set"


def _check_placement(spec: Pod) -> Iterator[str]:
    for key, value in spec.get("nodeSelector", {}).items():
        yield from check_qualified("nodeSelector", key)
        yield from check_label_value(f"nodeSelector.{key}", value)
    for toleration in spec.get("tolerations", ()):
        yield from _check_toleration(toleration)
    affinity = spec.get("affinity", {})
    node_affinity = affinity.get("nodeAffinity", {})
    required = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None and not required["nodeSelectorTerms"]:
        yield "nodeSelectorTerms: must have at least one term"
    preferred_node_terms = node_affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
    yield from _check_weights(preferred_node_terms)
    for term in (
        *(required or {}).get("nodeSelectorTerms", ()),
        *(preferred_term["preference"] for preferred_term in preferred_node_terms),
    ):
        yield from _check_node_term(term)
    for kind in ("podAffinity", "podAntiAffinity"):
        preferred_terms = affinity.get(kind, {}).get("preferredDuringSchedulingIgnoredDuringExecution", ())
        yield from _check_weights(preferred_terms)
        required_terms = affinity.get(kind, {}).get("requiredDuringSchedulingIgnoredDuringExecution", ())
        for term in (*required_terms, *(preferred_term["podAffinityTerm"] for preferred_term in preferred_terms)):
            yield from _check_pod_term(term)


def _check_toleration(toleration: Mapping[str, Any]) -> Iterator[str]:
    key, operator = toleration.get("key", ""), toleration.get("operator", "Equal")
    if key:
        yield from check_qualified("tolerations", key)
    elif operator != "Exists":
        yield "tolerations: without a key the operator must be Exists"
    if operator not in ("Exists", "Equal") or (operator == "Exists" and toleration.get("value")):
        yield f"tolerations: operator {operator} does not go with value {toleration.get('value')!r}"
    yield from check_label_value("tolerations", toleration.get("value", ""))
    if toleration.get("effect", "") not in ("", "NoSchedule", "PreferNoSchedule", "NoExecute"):
        yield f"tolerations: {toleration['effect']!r} is not a valid effect"
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        yield "tolerations: tolerationSeconds is for effect NoExecute"


def _check_weights(preferred_terms: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield from (
        f"affinity: {preferred_term['weight']} is not a valid weight"
        for preferred_term in preferred_terms
        if not 1 <= preferred_term["weight"] <= 100
    )


def _check_node_term(term: Mapping[str, Any]) -> Iterator[str]:
    for condition in term.get("matchExpressions", ()):
        yield from check_qualified("nodeAffinity", condition["key"])
        values = condition.get("values", ())
        if condition["operator"] in ("Gt", "Lt"):
            if len(values) != 1 or not re.fullmatch(r"[0-9]{1,19}", values[0], re.ASCII):
                yield f"nodeAffinity: {condition['operator']} needs one whole number, found {values}"
        else:
            yield from _check_condition(condition)
    for condition in term.get("matchFields", ()):
        if condition["key"] != "metadata.name" or condition["operator"] not in ("In", "NotIn"):
            yield f"nodeAffinity: {condition} is not a valid condition on fields"
        if len(condition.get("values", ())) != 1:
            yield f"nodeAffinity: a condition on fields needs one value, found {condition.get('values')}"
        for value in condition.get("values", ()):
            yield from check_name("nodeAffinity.matchFields", value, SUBDOMAIN, 253)


def _check_pod_term(term: Mapping[str, Any]) -> Iterator[str]:
    yield from check_qualified("podAffinity.topologyKey", term.get("topologyKey", ""))
    for namespace in term.get("namespaces", ()):
        yield from check_dns_label("podAffinity.namespaces", namespace)
    for field in ("labelSelector", "namespaceSelector"):
        selector = term.get(field, {})
        for key, value in selector.get("matchLabels", {}).items():
            yield from check_qualified(field, key)
            yield from check_label_value(f"{field}.{key}", value)
        for condition in selector.get("matchExpressions", ()):
            yield from check_qualified(field, condition["key"])
            yield from _check_condition(condition)
    keys = [*term.get("matchLabelKeys", ()), *term.get("mismatchLabelKeys", ())]
    if keys and "labelSelector" not in term:
        yield "podAffinity: matchLabelKeys need a labelSelector"
    yield from check_unique("matchLabelKeys", keys)


def _check_condition(condition: Mapping[str, Any]) -> Iterator[str]:
    operator, values = condition["operator"], condition.get("values", ())
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        yield f"affinity: {operator!r} is not a valid operator"
    if (operator in ("In", "NotIn")) != bool(values):
        yield f"affinity: operator {operator} does not go with {len(values)} values"
    for value in values:
        yield from check_label_value("affinity", value)
