"""Creates the objects of a run in an order that leaves no orphans, even if the server crashes at any point.

The Job or Deployment is created first, suspended. It owns the other objects, so that deleting it deletes them. Then it
is released. Objects have fixed names and are only created if missing, so starting a run is idempotent.
Also lists and removes the claims of shared volumes, which outlive runs, and finds the endpoint of a served run.
"""

import base64
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from fairlead.adapters.kubernetes.clients import ApiError, KubernetesClient, path_of
from fairlead.adapters.kubernetes.objects import (
    PLATFORM_LABEL,
    PROJECT_ID_LABEL,
    PROJECT_LABEL,
    QUEUE,
    QUEUE_LABEL,
    RELEASED,
    VOLUME_LABEL,
)
from fairlead.adapters.kubernetes.views import RunView
from fairlead.errors import FairleadError, NotFound, StartFailed, Unavailable
from fairlead.manifests.pods import RUN_TOKEN
from fairlead.manifests.rendering import available_bytes
from fairlead.model.names import RUN_LABEL, SECRET_NAME, label_value
from fairlead.model.runs import JSON, Endpoint, LaunchSpec
from fairlead.model.scopes import Cluster

PLURALS = {
    "Job": "jobs",
    "Deployment": "deployments",
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}
ABANDONED = timedelta(days=7)  # after this time, no server is expected to save a run's log
ARCHIVE = "code.tar.gz"
# Retrying cannot succeed after these. 403 is retried, because an exceeded ResourceQuota or a webhook can also cause it.
PERMANENT = (400, 405, 413, 415, 422)

CLAIMS = PLURALS["PersistentVolumeClaim"]


class Starter:
    """Creates the objects of runs on one cluster."""

    def __init__(self, api: KubernetesClient, cluster: Cluster, platform: str, keep: timedelta) -> None:
        self.api, self.cluster, self.platform = api, cluster, platform
        self.ttl_seconds = int((keep + ABANDONED).total_seconds())
        self._namespaces: set[str] = set()

    def start(self, launch: LaunchSpec) -> Iterator[JSON]:
        """Create all objects of a run and release it. Yields the main object each time it changes."""
        namespace = launch.manifests[0]["metadata"]["namespace"]
        try:
            self._ensure_namespace(namespace, launch.project)
            self._check_existing(launch, namespace)
            main = self._create(_suspend(self._label_main(launch), self.ttl_seconds), launch.execution_id)
            yield main
            if main["metadata"].get("annotations", {}).get(RELEASED) != "true":
                owner = {name: main[name] for name in ("apiVersion", "kind")}
                owner |= {name: main["metadata"][name] for name in ("name", "uid")}
                for manifest in launch.manifests[1:]:
                    self._create(_set_owner(_fill(manifest, launch), owner), launch.execution_id, owner["uid"])
                yield self._release(main, launch.manifests[0])
        except ApiError as error:
            raise self._translate_error(error, namespace) from error

    def _label_main(self, launch: LaunchSpec) -> JSON:
        """Add the labels of the platform and the project to the main object and its pods."""
        manifest = launch.manifests[0]
        labels = {PLATFORM_LABEL: self.platform, PROJECT_ID_LABEL: launch.project_id}
        template = manifest["spec"]["template"]
        template = {**template, "metadata": _label(template["metadata"], labels)}
        spec = {**manifest["spec"], "template": template}
        return {**manifest, "metadata": _label(manifest["metadata"], labels), "spec": spec}

    def _create(self, manifest: JSON, run_id: str, owner: str | None = None) -> JSON:
        """Create an object, or get it if an interrupted start has already created it."""
        meta = manifest["metadata"]
        path = path_of(manifest["apiVersion"], PLURALS[manifest["kind"]], meta["namespace"])
        try:
            return self.api.create(path, manifest)
        except ApiError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
        if manifest["kind"] in ("Secret", "Service"):
            return manifest  # its unique name shows that it is ours; Fairlead is not allowed to read Secrets
        existing = self.api.get(f"{path}/{meta['name']}")
        owners = [reference["uid"] for reference in existing["metadata"].get("ownerReferences", ())]
        if existing["metadata"].get("labels", {}).get(RUN_LABEL) != meta["labels"][RUN_LABEL]:
            raise StartFailed(
                f"{manifest['kind']} {meta['name']} already exists in {meta['namespace']} "
                f"and does not belong to run {run_id}"
            )
        # The garbage collector deletes the objects of an earlier Job with the same name after a delay.
        if "deletionTimestamp" in existing["metadata"] or (owner is not None and owner not in owners):
            raise Unavailable(f"an older {manifest['kind']} {meta['name']} is still being deleted")
        return existing

    def _release(self, main: JSON, manifest: JSON) -> JSON:
        meta = main["metadata"]
        # Because of the UID, the API server rejects the patch if the object was deleted and created again.
        patch: JSON = {"metadata": {"annotations": {RELEASED: "true"}, "uid": meta["uid"]}}
        queue = meta.get("annotations", {}).get(QUEUE)
        # With this label, Kueue decides when the Job starts. It is added only now, because Kueue could otherwise
        # start the Job before its other objects exist.
        if queue is not None:
            patch["metadata"]["labels"] = {QUEUE_LABEL: queue}
        elif main["kind"] == "Job":
            patch["spec"] = {"suspend": False}
        else:
            patch["spec"] = {"replicas": manifest["spec"]["replicas"]}
        path = path_of(main["apiVersion"], PLURALS[main["kind"]], meta["namespace"], meta["name"])
        return self.api.patch(path, patch)

    def _ensure_namespace(self, namespace: str, project: str) -> None:
        if namespace in self._namespaces:
            return
        path = path_of("v1", "namespaces")
        label = {PROJECT_LABEL: label_value(project)}
        try:
            existing = self.api.get(f"{path}/{namespace}")
            # A namespace with the same name may belong to someone else. The label confirms that it is the project's.
            if existing["metadata"].get("labels", {}).get(PROJECT_LABEL) != label[PROJECT_LABEL]:
                command = f"kubectl label namespace {namespace} {PROJECT_LABEL}={label[PROJECT_LABEL]}"
                message = f"namespace {namespace} exists but is not labeled for project {project}"
                raise Unavailable(f"{message}: label it with `{command}`, or choose another namespace rule")
        except ApiError as error:
            if error.status != 404:
                raise
            if not self.cluster.create_namespaces:
                message = (
                    f"namespace {namespace} does not exist, and cluster/{self.cluster.name} does not create namespaces"
                )
                raise Unavailable(
                    f"{message}: create it with the label {PROJECT_LABEL}={label[PROJECT_LABEL]}"
                ) from None
            labels = {"app.kubernetes.io/managed-by": "fairlead", **label}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
            self._create_once(path, body)
        self._namespaces.add(namespace)

    def _check_existing(self, launch: LaunchSpec, namespace: str) -> None:
        """Check that the existing claims and ConfigMaps that a run mounts are labeled for its project."""
        created = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in launch.manifests}
        for volume in launch.manifests[0]["spec"]["template"]["spec"].get("volumes", ()):
            for kind, field, key in (
                ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
                ("ConfigMap", "configMap", "name"),
            ):
                name = volume.get(field, {}).get(key)
                if name is not None and (kind, name) not in created:
                    self._check_label(kind, name, namespace, launch)

    def _check_label(self, kind: str, name: str, namespace: str, launch: LaunchSpec) -> None:
        label = label_value(launch.project)
        try:
            existing = self.api.get(path_of("v1", PLURALS[kind], namespace, name))
        except ApiError as error:
            if error.status != 404:
                raise
            if kind != "PersistentVolumeClaim" or name not in launch.volumes:
                raise StartFailed(
                    f"{kind} {name} does not exist in namespace {namespace}: create it and submit the run again"
                ) from None
            claim = _render_shared(launch, name, namespace, {PROJECT_LABEL: label, PLATFORM_LABEL: self.platform})
            self._create_once(path_of("v1", PLURALS[kind], namespace), claim)
            return
        labels, volume = existing["metadata"].get("labels", {}), launch.volumes.get(name)
        # The claim of a deleted volume with the same name may still exist, with its data.
        if volume is not None and labels.get(VOLUME_LABEL, volume.id) != volume.id:
            raise StartFailed(
                f"{kind} {name} in namespace {namespace} does not belong to volume {name} of {launch.project}"
            )
        if labels.get(PROJECT_LABEL) != label:
            command = f"kubectl --namespace {namespace} label {kind.lower()} {name} {PROJECT_LABEL}={label}"
            raise StartFailed(
                f"{kind} {name} is not labeled for project {launch.project}: its owner can run `{command}`"
            )

    def _create_once(self, path: str, body: JSON) -> None:
        try:
            self.api.create(path, body)
        except ApiError as error:
            if error.status != 409:
                raise

    def _translate_error(self, error: ApiError, namespace: str) -> FairleadError:
        """`StartFailed` if the start can never succeed, `Unavailable` if an administrator can fix the cause."""
        if error.status in PERMANENT:
            return StartFailed(f"the cluster rejected the run: {error}")
        self._namespaces.discard(namespace)  # it may have been deleted or relabeled
        hint = f": run `fairlead clusters check {self.cluster.name}`" if error.status in (401, 403) else ""
        return Unavailable(f"the cluster rejected the request: {error}{hint}")


def _suspend(manifest: JSON, ttl_seconds: int) -> JSON:
    """The main object, without any pods yet. The TTL deletes a Job if no server is left to do so."""
    changes: JSON = {"replicas": 0}  # Deployments have neither `suspend` nor a TTL
    if manifest["kind"] == "Job":
        changes = {"suspend": True, "ttlSecondsAfterFinished": ttl_seconds}
    return {**manifest, "spec": {**manifest["spec"], **changes}}


def _label(metadata: JSON, labels: JSON) -> JSON:
    return {**metadata, "labels": {**metadata["labels"], **labels}}


def _set_owner(manifest: JSON, owner: JSON) -> JSON:
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def _fill(manifest: JSON, launch: LaunchSpec) -> JSON:
    """Add the data that plans do not contain: the code of a function and the values of secrets."""
    if manifest["kind"] == "Secret":
        secret_name = manifest["metadata"].get("annotations", {}).get(SECRET_NAME)
        secrets = {RUN_TOKEN: launch.run_token, **launch.secrets}
        values = {key: secrets[secret_name if secret_name is not None else key] for key in manifest["data"]}
        return {**manifest, "data": {key: _encode(value.encode()) for key, value in values.items()}}
    if manifest["kind"] == "ConfigMap" and launch.code:
        room = available_bytes(manifest)
        if len(launch.code) <= room:
            return {**manifest, "binaryData": {ARCHIVE: _encode(launch.code)}}
        if not launch.demand.needs_token:  # if it does, the pod downloads the code from the server
            message = f"its code is {len(launch.code)} bytes long, but a run's ConfigMap holds at most {room}"
            hint = "move data from the code to a volume, or ask an administrator to set the cluster's server_url"
            raise StartFailed(f"{message}: {hint}")
    return manifest


def _render_shared(launch: LaunchSpec, name: str, namespace: str, labels: JSON) -> JSON:
    """The claim of a shared volume, which outlives the runs that use it.

    It is ReadWriteOnce, because every storage class supports that. For other modes, an administrator creates and labels
    the claim.
    """
    volume = launch.volumes[name]
    labels = {"app.kubernetes.io/managed-by": "fairlead", **labels, VOLUME_LABEL: volume.id}
    storage: dict[str, Any] = {} if volume.storage_class is None else {"storageClassName": volume.storage_class}
    spec = {"accessModes": ["ReadWriteOnce"], **storage, "resources": {"requests": {"storage": volume.size}}}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def list_volumes(api: KubernetesClient, platform: str) -> list[str]:
    """The IDs of a platform's shared volumes that have a claim."""
    metadata = [claim["metadata"] for claim in _list_claims(api, platform)]
    return sorted(meta["labels"][VOLUME_LABEL] for meta in metadata if "deletionTimestamp" not in meta)


def remove_volume(api: KubernetesClient, platform: str, volume_id: str) -> None:
    """Delete the claims of a shared volume."""
    for claim in _list_claims(api, platform, f"={volume_id}"):
        meta = claim["metadata"]
        api.delete(path_of("v1", CLAIMS, meta["namespace"], meta["name"]), uid=meta["uid"])


def _list_claims(api: KubernetesClient, platform: str, condition: str = "") -> list[JSON]:
    selector = f"{VOLUME_LABEL}{condition},{PLATFORM_LABEL}={platform}"
    claims: list[JSON] = api.list(path_of("v1", CLAIMS), labelSelector=selector)["items"]
    return claims


def find_endpoint(api: KubernetesClient, cluster: Cluster, run_id: str, view: RunView | None) -> Endpoint:
    """The endpoint of a run. Raises `NotFound` if the run is not served, `Unavailable` if no pod is ready."""
    main = None if view is None else view.main
    if view is None or main is None or main.deleting or main.port is None:
        raise NotFound(f"run {run_id} does not serve requests or no longer exists")
    if not any(pod.is_ready for pod in view.pods.values()):
        raise Unavailable(f"run {run_id} is not ready yet")
    if cluster.connection == "in_cluster":
        return Endpoint(f"http://{main.name}.{main.namespace}.svc:{main.port}")
    # Without "http:", the API server would interpret the name before the first colon as the scheme.
    return api.proxy_endpoint(f"/api/v1/namespaces/{main.namespace}/services/http:{main.name}:{main.port}/proxy")
