"""What an administrator of a Kubernetes cluster can say, is told and has to allow is on its page."""

import re
from dataclasses import asdict, fields

import pytest

from fairlead.adapters.kubernetes.checking import OLDEST, check_cluster
from fairlead.adapters.kubernetes.offering import DEFAULT_CLASS
from fairlead.cli.clusters import Said, print_checks
from fairlead.core.access import Permission, list_permissions
from fairlead.core.connecting import BASIC, FILES, PLUGINS
from fairlead.model.scopes import Cluster
from tests.adapters.kubernetes.apis import OnePod, make_named, make_node, make_pod
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "kubernetes.md").read_text("utf-8")
ADAPTERS = ROOT / "src" / "fairlead" / "adapters"
EVERY = {
    (permission.group, permission.resource, permission.where): permission
    for cluster in (Cluster(name="main", queueing="kueue", gpu_sharing="kai"), Cluster(name="main", queueing="kai"))
    for permission in list_permissions(cluster)
}
CHECKS = sorted(
    {
        name
        for folder in ("kubernetes", "local")
        for file in (ADAPTERS / folder).glob("*.py")
        for name in re.findall(r'Check\(\s*"([a-z ]+)"', file.read_text("utf-8"))
    }
    | {"callbacks", "certificate", "gpu sharing", "queueing"}
)


@pytest.mark.parametrize("permission", EVERY.values(), ids=lambda permission: f"{permission.called} {permission.where}")
def test_a_permission_is_in_its_table_with_its_verbs(permission: Permission) -> None:
    heading = "| everywhere |" if permission.where == "everywhere" else "| in namespaces of projects |"
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    row = next(line for line in table.splitlines() if f"`{permission.called}`" in line.split("|")[1])
    assert set(permission.verbs) <= set(re.findall(r"`([a-z]+)`", row.split("|")[2]))


def test_the_tables_promise_no_more_than_is_asked_for() -> None:
    tables = "".join(
        PAGE.partition(f"| {name} |")[2].partition("\n\n")[0] for name in ("everywhere", "in namespaces of projects")
    )
    named = {
        name
        for line in tables.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
    assert named == {permission.called for permission in EVERY.values()}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE.partition("\n## Checks\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("field", [field.name for field in fields(Said)])
def test_an_option_of_a_cluster_is_in_the_table(field: str) -> None:
    assert (
        f"`--{field.replace('_', '-')}`" in PAGE.partition("\n## What is said of a cluster\n")[2].partition("\n## ")[0]
    )


@pytest.mark.parametrize("word", [*FILES, *PLUGINS, *BASIC, "proxy-url", "as"])
def test_what_no_kubeconfig_may_have_is_told(word: str) -> None:
    assert f"`{word}`" in PAGE.partition("\n## The kubeconfig\n")[2].partition("\n## ")[0]


def test_the_oldest_version_is_named() -> None:
    assert f"Kubernetes {'.'.join(map(str, OLDEST))} or newer" in PAGE


def test_the_check_on_the_page_is_what_one_prints(capsys: pytest.CaptureFixture[str]) -> None:
    address = "https://fairlead.example.org"
    devices = [make_node(name, {"nvidia.com/gpu.product": "H100"}, nvidia_gpu="8") for name in "ab"]
    api = OnePod("fairlead-system", make_pod("Succeeded", terminated={"message": "reached"}))
    api.said |= {
        "/apis": {"groups": []},
        "list /api/v1/nodes": [*devices, *map(make_node, "cde")],
        "list /apis/storage.k8s.io/v1/storageclasses": [
            make_named("standard", **{DEFAULT_CLASS: "true"}),
            make_named("fast"),
        ],
    }
    print_checks([asdict(check) for check in check_cluster(api.api, Cluster(name="main", server_url=address), [])])
    shown = PAGE.partition("added cluster main below platform\n")[2].partition("```")[0]
    assert capsys.readouterr().out == shown
