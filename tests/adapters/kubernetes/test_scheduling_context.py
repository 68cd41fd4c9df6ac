"""Claims, volumes, classes and namespaces of a cluster, to the extent they have been listed."""

from fairlead.adapters.kubernetes.views import SchedulingContextWatcher
from fairlead.model.runs import JSON
from tests.adapters.kubernetes.apis import ScriptedApi


def make(name: str, uid: str, version: int, **fields: JSON) -> JSON:
    """An object in a namespace."""
    meta = {"name": name, "namespace": "lab", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta, **fields}


def mark_listed(context: SchedulingContextWatcher) -> None:
    """Mark all kinds as listed."""
    for reflector in context.reflectors:
        reflector.ready.set()


def test_claims_are_known_after_all_storage_was_listed() -> None:
    context = SchedulingContextWatcher(ScriptedApi().api)
    claims, *_ = context.reflectors
    claims.put(make("data", "u1", 1, spec={"volumeName": "pv-1"}))
    assert context.current().claims is None
    mark_listed(context)
    assert [claim.volume for claim in (context.current().claims or {}).values()] == ["pv-1"]


def test_recreated_claim_survives_the_late_delete_event_of_the_old_one() -> None:
    context = SchedulingContextWatcher(ScriptedApi().api)
    mark_listed(context)
    claims, *_ = context.reflectors
    for uid, version, volume in (("u1", 1, "pv-1"), ("u2", 2, "pv-2")):
        claims.put(make("data", uid, version, spec={"volumeName": volume}))
    old = claims._objects["u1"]
    claims.on_change(old, None)
    assert [claim.volume for claim in (context.current().claims or {}).values()] == ["pv-2"]
    claims.on_change(claims._objects["u2"], None)
    assert context.current().claims == {}
