"""How a run is started so that a crash at any line leaves nothing behind that does not go with it.

The main object comes first, and does nothing yet; what it needs belongs to it, and goes with it; then it is released.
Everything is made by name, and only if it is not there: whoever does all of it again changes nothing.
"""

import base64
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from fairlead.adapters.kubernetes.clients import ApiClient, ApiError, path_of
from fairlead.adapters.kubernetes.objects import (
    PLATFORM_LABEL,
    PROJECT_LABEL,
    QUEUE,
    QUEUE_LABEL,
    RELEASED,
    VOLUME_LABEL,
)
from fairlead.core.manifests.functions import RUN_TOKEN, find_room
from fairlead.core.manifests.names import RUN_LABEL, SECRET_NAME, label_value
from fairlead.errors import FairleadError, StartFailed, Unavailable
from fairlead.model.observations import JSON, LaunchSpec
from fairlead.model.scopes import Cluster

PLURALS = {
    "Job": "jobs",
    "Deployment": "deployments",
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "PersistentVolumeClaim": "persistentvolumeclaims",
}
FORSAKEN = timedelta(days=7)  # after which nobody is expected to save the log of a run any more
ARCHIVE = "code.tar.gz"
HOPELESS = (400, 405, 413, 415, 422)  # what the server will never take, however often it is asked


class Starter:
    """Makes the objects of runs on one cluster."""

    def __init__(self, api: ApiClient, cluster: Cluster, platform: str, keep: timedelta) -> None:
        self.api, self.cluster, self.platform = api, cluster, platform
        self.at_last = int((keep + FORSAKEN).total_seconds())
        self._namespaces: set[str] = set()

    def start(self, work: LaunchSpec) -> Iterator[JSON]:
        """Make everything, and release it; the main object each time that it is another one."""
        namespace = work.manifests[0]["metadata"]["namespace"]
        try:
            self._need_namespace(namespace, work.project)
            self._need_existing(work, namespace)
            main = self._make(_restrain(self._mark(work.manifests[0]), self.at_last), work.run_id)
            yield main
            if main["metadata"].get("annotations", {}).get(RELEASED) != "true":
                owner = {name: main[name] for name in ("apiVersion", "kind")}
                owner |= {name: main["metadata"][name] for name in ("name", "uid")}
                for manifest in work.manifests[1:]:
                    self._make(_own(_fill(manifest, work), owner), work.run_id, owner["uid"])
                yield self._release(main, work.manifests[0])
        except ApiError as refused:
            raise self._judge(refused, namespace) from refused

    def _mark(self, manifest: JSON) -> JSON:
        """The main object and its pods as those of this platform."""
        mark, template = {PLATFORM_LABEL: self.platform}, manifest["spec"]["template"]
        template = {**template, "metadata": _label(template["metadata"], mark)}
        spec = {**manifest["spec"], "template": template}
        return {**manifest, "metadata": _label(manifest["metadata"], mark), "spec": spec}

    def _make(self, manifest: JSON, run_id: str, owner: str | None = None) -> JSON:
        """An object, made now or by somebody who was interrupted."""
        meta = manifest["metadata"]
        path = path_of(manifest["apiVersion"], PLURALS[manifest["kind"]], meta["namespace"])
        try:
            return self.api.create(path, manifest)
        except ApiError as refused:
            if refused.status != 409 or refused.reason != "AlreadyExists":
                raise
        if manifest["kind"] in ("Secret", "Service"):
            return manifest  # ours by its name, which no other has; a Secret is never read
        found = self.api.get(f"{path}/{meta['name']}")
        owners = [said["uid"] for said in found["metadata"].get("ownerReferences", ())]
        if found["metadata"].get("labels", {}).get(RUN_LABEL) != meta["labels"][RUN_LABEL]:
            raise StartFailed(
                f"there is a {manifest['kind']} {meta['name']} in {meta['namespace']} that is not of run {run_id}"
            )
        if "deletionTimestamp" in found["metadata"] or (owner is not None and owner not in owners):
            raise Unavailable(f"an older {manifest['kind']} {meta['name']} is still being removed")
        return found

    def _release(self, main: JSON, manifest: JSON) -> JSON:
        meta = main["metadata"]
        patch: JSON = {"metadata": {"annotations": {RELEASED: "true"}, "uid": meta["uid"]}}
        queue = meta.get("annotations", {}).get(QUEUE)
        if queue is not None:  # from now on Kueue says when it is suspended
            patch["metadata"]["labels"] = {QUEUE_LABEL: queue}
        elif main["kind"] == "Job":
            patch["spec"] = {"suspend": False}
        else:
            patch["spec"] = {"replicas": manifest["spec"]["replicas"]}
        path = path_of(main["apiVersion"], PLURALS[main["kind"]], meta["namespace"], meta["name"])
        return self.api.patch(path, patch)

    def _need_namespace(self, namespace: str, project: str) -> None:
        if namespace in self._namespaces:
            return
        path = path_of("v1", "namespaces")
        label = {PROJECT_LABEL: label_value(project)}
        try:
            found = self.api.get(f"{path}/{namespace}")
            if found["metadata"].get("labels", {}).get(PROJECT_LABEL) != label[PROJECT_LABEL]:
                command = f"kubectl label namespace {namespace} {PROJECT_LABEL}={label[PROJECT_LABEL]}"
                message = f"namespace {namespace} is there, and not labeled for project {project}"
                raise Unavailable(f"{message}: label it with `{command}`, or choose another namespace rule")
        except ApiError as refused:
            if refused.status != 404:
                raise
            if not self.cluster.create_namespaces:
                message = f"there is no namespace {namespace}, and cluster/{self.cluster.name} makes none"
                raise Unavailable(
                    f"{message}: make it, with the label {PROJECT_LABEL}={label[PROJECT_LABEL]}"
                ) from None
            labels = {"app.kubernetes.io/managed-by": "fairlead", **label}
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
            self._create_once(path, body)
        self._namespaces.add(namespace)

    def _need_existing(self, work: LaunchSpec, namespace: str) -> None:
        """What the run uses and was there before it: labeled for its project, or it is none of its business."""
        made = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in work.manifests}
        for volume in work.manifests[0]["spec"]["template"]["spec"].get("volumes", ()):
            for kind, field, key in (
                ("PersistentVolumeClaim", "persistentVolumeClaim", "claimName"),
                ("ConfigMap", "configMap", "name"),
            ):
                name = volume.get(field, {}).get(key)
                if name is not None and (kind, name) not in made:
                    self._need_labelled(kind, name, namespace, work)

    def _need_labelled(self, kind: str, name: str, namespace: str, work: LaunchSpec) -> None:
        label = label_value(work.project)
        try:
            found = self.api.get(path_of("v1", PLURALS[kind], namespace, name))
        except ApiError as refused:
            if refused.status != 404:
                raise
            if kind != "PersistentVolumeClaim" or name not in work.volumes:
                raise StartFailed(
                    f"there is no {kind} {name} in namespace {namespace}: make it, and run again"
                ) from None
            claim = _render_shared(work, name, namespace, {PROJECT_LABEL: label, PLATFORM_LABEL: self.platform})
            self._create_once(path_of("v1", PLURALS[kind], namespace), claim)
            return
        labels, volume = found["metadata"].get("labels", {}), work.volumes.get(name)
        if volume is not None and labels.get(VOLUME_LABEL, volume.id) != volume.id:
            raise StartFailed(f"{kind} {name} in namespace {namespace} is another volume than that of {work.project}")
        if labels.get(PROJECT_LABEL) != label:
            command = f"kubectl --namespace {namespace} label {kind.lower()} {name} {PROJECT_LABEL}={label}"
            raise StartFailed(
                f"{kind} {name} is not labeled for project {work.project}: whoever owns it can say `{command}`"
            )

    def _create_once(self, path: str, body: JSON) -> None:
        try:
            self.api.create(path, body)
        except ApiError as refused:
            if refused.status != 409:
                raise

    def _judge(self, refused: ApiError, namespace: str) -> FairleadError:
        """Whether what the server refused can ever work. What an administrator can mend, waits for that."""
        if refused.status in HOPELESS:
            return StartFailed(f"the cluster refuses it: {refused}")
        self._namespaces.discard(namespace)
        hint = f": `fairlead clusters check {self.cluster.name}` tells more" if refused.status in (401, 403) else ""
        return Unavailable(f"the cluster says no: {refused}{hint}")


def _restrain(manifest: JSON, at_last: int) -> JSON:
    """The main object as it does nothing yet; where no server is left to remove it, a Job goes at last by itself."""
    still: JSON = {"replicas": 0}
    if manifest["kind"] == "Job":
        still = {"suspend": True, "ttlSecondsAfterFinished": at_last}
    return {**manifest, "spec": {**manifest["spec"], **still}}


def _label(metadata: JSON, labels: JSON) -> JSON:
    return {**metadata, "labels": {**metadata["labels"], **labels}}


def _own(manifest: JSON, owner: JSON) -> JSON:
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def _fill(manifest: JSON, work: LaunchSpec) -> JSON:
    """A manifest with what is no part of a plan: the code of a function, and the values of secrets."""
    if manifest["kind"] == "Secret":
        of_one = manifest["metadata"].get("annotations", {}).get(SECRET_NAME)
        values = {RUN_TOKEN: work.run_token, **work.secrets}
        words = {key: values[of_one if of_one is not None else key] for key in manifest["data"]}
        return {**manifest, "data": {key: _encode(word.encode()) for key, word in words.items()}}
    if manifest["kind"] == "ConfigMap" and work.code:
        room = find_room(manifest)
        if len(work.code) <= room:
            return {**manifest, "binaryData": {ARCHIVE: _encode(work.code)}}
        if not _calls_back(work):
            message = f"its code has {len(work.code)} bytes, and {room} travel with a run"
            raise StartFailed(
                f"{message}: keep data out of it, or ask an administrator to set server_url of the cluster"
            )
    return manifest


def _calls_back(work: LaunchSpec) -> bool:
    container = work.manifests[0]["spec"]["template"]["spec"]["containers"][0]
    return any(env["name"] == "FAIRLEAD_SERVER" for env in container.get("env", ()))


def _render_shared(work: LaunchSpec, name: str, namespace: str, labels: JSON) -> JSON:
    """The claim of a volume that the runs of a project share. It stays when a run ends.

    On one node at a time, which every kind of storage can do; who has a better one makes the claim, and labels it.
    """
    volume = work.volumes[name]
    labels = {"app.kubernetes.io/managed-by": "fairlead", **labels, VOLUME_LABEL: volume.id}
    storage: dict[str, Any] = {} if volume.storage_class is None else {"storageClassName": volume.storage_class}
    spec = {"accessModes": ["ReadWriteOnce"], **storage, "resources": {"requests": {"storage": volume.size}}}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()
