"""The permissions, checks, options and kubeconfig fields of Kubernetes clusters are in docs/admins."""

import re
from dataclasses import asdict, fields

import pytest

from fairlead.adapters.kubernetes.cluster_checks import DEFAULT_CLASS, MIN_VERSION, check_cluster
from fairlead.cli.clusters import ClusterOptions, print_checks
from fairlead.files.kubeconfigs import BASIC_AUTH, FILES, PLUGINS
from fairlead.manifests.kubernetes_rbac import RbacRule, list_permissions
from fairlead.model.scopes import Cluster
from tests.adapters.kubernetes.apis import OnePod, make_named, make_node, make_pod
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "admins" / "kubernetes.md").read_text("utf-8")
CLUSTERS = (ROOT / "docs" / "admins" / "clusters.md").read_text("utf-8")
ADAPTERS = ROOT / "src" / "fairlead" / "adapters"
PERMISSIONS = {
    (permission.group, permission.resource, permission.scope): permission
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


def test_every_permission_is_in_its_table_with_its_verbs() -> None:
    missing = [
        f"{permission.qualified_name} {permission.scope}: {verb}"
        for permission in PERMISSIONS.values()
        for verb in permission.verbs
        if verb not in _documented_verbs(permission)
    ]
    assert not missing, "\n".join(missing)


def test_the_tables_have_no_other_resources() -> None:
    tables = "".join(
        PAGE.partition(f"| {name} |")[2].partition("\n\n")[0] for name in ("cluster-wide", "in project namespaces")
    )
    documented = {
        name
        for line in tables.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`([^`]+)`", line.split("|")[1])
    }
    assert documented == {permission.qualified_name for permission in PERMISSIONS.values()}


def test_every_check_is_explained() -> None:
    assert {"connection", "permissions"} <= set(CHECKS)
    missing = [name for name in CHECKS if f"`{name}`" not in _section("Checks")]
    assert not missing, "\n".join(missing)


def test_every_option_of_a_cluster_is_in_the_table() -> None:
    options = [f"--{field.name.replace('_', '-')}" for field in fields(ClusterOptions)]
    missing = [option for option in options if f"`{option}`" not in CLUSTERS]
    assert not missing, "\n".join(missing)


def test_every_forbidden_field_of_a_kubeconfig_is_documented() -> None:
    forbidden = [*FILES, *PLUGINS, *BASIC_AUTH, "proxy-url", "as"]
    missing = [field for field in forbidden if f"`{field}`" not in _section("Kubeconfig")]
    assert not missing, "\n".join(missing)


def test_the_oldest_version_is_named() -> None:
    assert f"Kubernetes {'.'.join(map(str, MIN_VERSION))} or newer" in PAGE


def test_the_checks_on_the_page_equal_the_output(capsys: pytest.CaptureFixture[str]) -> None:
    url = "https://fairlead.example.org"
    gpu_nodes = [make_node(name, {"nvidia.com/gpu.product": "H100"}, nvidia_gpu="8") for name in "ab"]
    api = OnePod("fairlead-system", make_pod("Succeeded", terminated={"message": "reached"}))
    api.responses |= {
        "/apis": {"groups": []},
        "list /api/v1/nodes": [*gpu_nodes, *map(make_node, "cde")],
        "list /apis/storage.k8s.io/v1/storageclasses": [
            make_named("standard", **{DEFAULT_CLASS: "true"}),
            make_named("fast"),
        ],
    }
    print_checks([asdict(check) for check in check_cluster(api.api, Cluster(name="main", server_url=url), [])])
    shown = PAGE.partition("added cluster main in platform\n")[2].partition("```")[0]
    assert capsys.readouterr().out == shown


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _documented_verbs(permission: RbacRule) -> set[str]:
    heading = "| cluster-wide |" if permission.scope == "cluster" else "| in project namespaces |"
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    cells = [line.split("|") for line in table.splitlines() if line.startswith("| ")]
    rows = [row for row in cells if f"`{permission.qualified_name}`" in row[1]]
    return set(re.findall(r"`([a-z]+)`", rows[0][2])) if rows else set()
