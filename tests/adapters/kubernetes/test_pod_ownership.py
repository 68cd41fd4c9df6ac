"""Pod uploads and termination messages: only those from the right pod count."""

from fairlead.adapters.kubernetes.objects import ObservedPod, read_main, read_pod
from fairlead.adapters.kubernetes.observing import ObservationContext, observe, read_termination_message
from fairlead.adapters.kubernetes.views import ClusterView, RunView
from fairlead.run_events import RunEvents
from tests.adapters.kubernetes.making import OWNER, PLATFORM, RUN, condition, make_main, make_pod, terminated

RESULT = '{"result": {"kind": "json", "value": %d}}'


def read(raw: dict[str, object]) -> ObservedPod:
    """A parsed pod."""
    pod = read_pod(PLATFORM, raw)
    assert pod is not None
    return pod


def test_result_comes_from_the_last_replacement_pod() -> None:
    first = make_pod("a", phase="Failed", terminated=terminated(143, message=RESULT % 1))
    second = make_pod("b", phase="Succeeded", terminated=terminated(0, message=RESULT % 2))
    second["metadata"]["creationTimestamp"] = "2026-11-15T08:40:00Z"
    pods = [read(second), read(first)]
    assert read_termination_message(pods)["result"]["value"] == 2
    main = read_main(PLATFORM, make_main("Job", condition("Complete")))
    observation = observe(RunView(main, {pod.uid: pod for pod in pods}), ObservationContext())
    assert observation is not None
    assert observation.result == {"kind": "json", "value": 2}


def test_pod_with_forged_run_labels_is_ignored() -> None:
    view = ClusterView(RunEvents())
    view.on_main_change(None, read_main(PLATFORM, make_main()))
    own, forged, elsewhere = make_pod("a"), make_pod("b"), make_pod("c")
    forged["metadata"]["ownerReferences"] = [{**OWNER, "uid": "another"}]
    elsewhere["metadata"]["namespace"] = "meadow"
    for raw in (own, forged, elsewhere):
        view.on_pod_change(None, read(raw))
    run_view = view.find_run(RUN)
    assert run_view is not None
    assert [pod.name for pod in run_view.pods.values()] == ["a"]


def test_second_job_with_forged_run_labels_is_ignored() -> None:
    view = ClusterView(RunEvents())
    main, forged = make_main(), make_main()
    forged["metadata"] |= {"uid": "another", "namespace": "meadow"}
    view.on_main_change(None, read_main(PLATFORM, main))
    view.on_main_change(None, read_main(PLATFORM, forged))
    run_view = view.find_run(RUN)
    assert run_view is not None
    assert run_view.main is not None
    assert run_view.main.namespace == "forest"
