"""The steps of README work one after another, even if a second cluster is registered in between."""

import sys

from tests.architecture.modules import ROOT
from tests.docs.pages import blocks_of
from tests.processes.machines import Machine

CLUSTER = "kind: Cluster\nname: second\n"


def test_readme_works_if_a_second_cluster_is_registered_in_between(machine: Machine) -> None:
    first = next(block for block in blocks_of(ROOT / "README.md") if block.language == "python")
    server = machine.up(variables={"FAIRLEAD_CAPACITY": "cpu=4,mem=8Gi"})
    variables = {"FAIRLEAD_URL": server.url, "FAIRLEAD_TOKEN": server.token}
    (machine.folder / "cluster.yaml").write_text(CLUSTER, "utf-8")
    script = machine.folder / "first.py"
    text = first.text.replace("examples/training", str(ROOT / "examples" / "training"))
    script.write_text(text.rstrip() + "\n", "utf-8")

    def run_first_snippet() -> None:
        ended = machine.start(sys.executable, str(script), variables=variables).wait()
        assert ended.code == 0, ended
        assert "completed" in ended.err

    run_first_snippet()
    for files in (str(machine.folder / "cluster.yaml"), str(ROOT / "examples" / "platform")):
        applied = machine.fairlead("apply", "-f", files, variables=variables)
        assert applied.code == 0, applied
        run_first_snippet()
    with server.client() as client:
        scopes = client.get("/scopes", params={"limit": 500}).json()["items"]
        runs = client.get("/runs", params={"limit": 500}).json()["items"]
        assert client.get("/settings").json()["default_cluster"] == "cluster/local"
    parents = {item["scope"]: item["parent"] for item in scopes}
    assert "platform" not in [parents[item["scope"]] for item in scopes if item["kind"] in ("department", "project")]
    assert [(run["state"], run["cluster"]) for run in runs] == [("completed", "cluster/local")] * 3
