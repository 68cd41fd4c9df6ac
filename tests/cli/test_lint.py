"""`fairlead compute lint`: compute resources are checked before they are used."""

from pathlib import Path

import pytest

from tests.cli.terminal import CommandResult, run, write

VALID = "kind: ComputeResource\nname: {}\nrequirements: {{resources: {{gpu: 1, mem: 64Gi}}}}\n"
NOT_ZONE_A = (
    "{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
    "{nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: NotIn, values: [a]}]}]}}}"
)


def lint(folder: Path, files: dict[str, str]) -> CommandResult:
    write(folder, {f"compute/{name}": text for name, text in files.items()})
    return run(folder, "compute", "lint", "compute")


def test_a_valid_folder_has_no_findings(tmp_path: Path) -> None:
    result = lint(tmp_path, {"a.yaml": VALID.format("a"), "b.yml": VALID.format("b"), "deep/c.json": '{"name": "c"}'})
    assert result == CommandResult(0, "3 compute resources: no warnings, no violations\n", "")


def test_a_single_file_can_be_checked(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": VALID.format("a")})
    assert run(tmp_path, "compute", "lint", "a.yaml") == CommandResult(
        0, "1 compute resource: no warnings, no violations\n", ""
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: a\nfoo: 1", "compute/x.yaml: foo: unknown field 'foo'"),
        ("description: b", "compute/x.yaml: name: is missing"),
        ("name: a b", "compute/x.yaml: name: invalid name 'a b'"),
        ("name: a\nrequirements: {resources: {gpu: 0.5}}", "compute/x.yaml: requirements.resources.gpu.devices: "),
        ("name: a\nrequirements: {profile: b}", "compute/x.yaml: requirements.profile: "),
        ("name: a\nworkload_types: [train]", "compute/x.yaml: workload_types.0: "),
        ("name: a\nscope: nowhere", "compute/x.yaml: scope: invalid scope 'nowhere'"),
        ("kind: Nonsense", "compute/x.yaml: kind: unknown kind 'Nonsense'"),
        ("[", "compute/x.yaml: "),
        ("", "contains no compute resources"),
        ("kind: Policy", "contains no compute resources"),
        (f"name: a\nrequirements: {{node_selector: {{zone: a}}, affinity: {NOT_ZONE_A}}}", "contradict each other"),
        (
            "name: a\nrequirements: {envs: {A: x}, secrets: [A]}",
            "envs.A: A is set both as an env (compute resource a) and as a secret (compute resource a)",
        ),
        (
            "name: a\nrequirements: {resources: {extended: {nvidia.com/gpu: 1}}}",
            "resources.extended.nvidia.com/gpu: nvidia.com/gpu is a GPU resource",
        ),
        (
            "name: a\nrequirements: {volumes: [{volume_type: empty_dir, name: v, mount_path: /fairlead}]}",
            "volumes.v.mount_path: /fairlead is reserved for the platform",
        ),
    ],
)
def test_invalid_compute_resources_are_reported(tmp_path: Path, text: str, message: str) -> None:
    result = lint(tmp_path, {"x.yaml": text})
    assert (result.code, result.out) == (1, "")
    assert message in result.err


def test_duplicate_names_are_reported(tmp_path: Path) -> None:
    result = lint(tmp_path, {"a.yaml": VALID.format("a"), "b.yaml": VALID.format("a")})
    assert result.code == 1
    assert "compute/b.yaml: name: " in result.err
    assert "compute/a.yaml" in result.err


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (
            "rules: {resources.gpu: {max: 2}}",
            "resources.gpu.devices: 4 (from the compute resource a); the platform policy allows at most 2",
        ),
        ("switches: {existing_volumes: block}", "volumes.v.volume_type: "),
        ("rules: {resources.gpuu: {max: 2}}", "compute/policy.yaml: rules.resources.gpuu: "),
    ],
)
def test_policies_in_the_folder_are_taken_into_account(tmp_path: Path, policy: str, message: str) -> None:
    volumes = "[{volume_type: shared_volume, name: v, mount_path: /v}]"
    text = f"name: a\nrequirements: {{resources: {{gpu: 4}}, volumes: {volumes}}}"
    result = lint(tmp_path, {"a.yaml": text, "policy.yaml": f"kind: Policy\n{policy}"})
    assert result.code == 1
    assert message in result.err


def test_values_required_by_a_policy_are_a_warning(tmp_path: Path) -> None:
    files = {"a.yaml": "name: a", "policy.yaml": "kind: Policy\nrules: {resources.cpu: {required: true}}"}
    result = lint(tmp_path, files)
    assert result.code == 0
    assert "resources.cpu: is required by the platform policy" in result.err


def test_policies_of_other_scopes_do_not_apply(tmp_path: Path) -> None:
    files = {
        "a.yaml": "name: a\nscope: department/x",
        "p.yaml": "kind: Policy\nscope: department/y\nrules: {profile: {options: [b]}}",
    }
    assert lint(tmp_path, files).code == 0


def test_warnings_go_to_stderr_and_do_not_change_the_exit_code(tmp_path: Path) -> None:
    volumes = "[{volume_type: shared_volume, name: v, mount_path: /v}]"
    result = lint(tmp_path, {"a.yaml": f"name: a\nrequirements: {{resources: {{mem: 64}}, volumes: {volumes}}}"})
    assert result.code == 0
    assert "resources.mem.requests: 64 bytes is very little" in result.err
    assert "compute/a.yaml: a: volumes.v.volume_type: " in result.err
    assert "no warnings" not in result.out


def test_gpu_shares_are_checked_against_the_clusters_in_scope(tmp_path: Path) -> None:
    share = "name: a\nscope: {}\nrequirements: {{resources: {{gpu: {{memory: 50%}}}}}}"
    clusters = "kind: Cluster\nname: shared\ngpu_sharing: hami\n---\nkind: Cluster\nname: whole"
    for scope, code in (("cluster/shared", 0), ("cluster/whole", 1)):
        assert lint(tmp_path, {"a.yaml": share.format(scope), "clusters.yaml": clusters}).code == code


def test_gpu_shares_are_not_checked_without_clusters(tmp_path: Path) -> None:
    result = lint(tmp_path, {"a.yaml": "name: a\nrequirements: {resources: {gpu: {memory: 50%}}}"})
    assert result == CommandResult(0, "1 compute resource: no warnings, no violations\n", "")


def test_explain_describes_what_a_pod_gets(tmp_path: Path) -> None:
    policy = "kind: Policy\nlimit_factor: {mem: 2}\nrules: {resources.gpu: {max: 0}}"
    write(tmp_path, {"compute/a.yaml": VALID.format("a"), "compute/p.yaml": policy})
    result = run(tmp_path, "compute", "lint", "compute", "--explain")
    assert result.code == 1
    lines = result.out.splitlines()
    assert lines[:2] == ["a", "  1 whole GPU per pod."]
    assert "! Killed above 128 GiB (out of memory)." in lines
    assert "  Default limit: 2x request (platform policy)." in lines


def test_all_violations_are_reported_with_file_and_compute_resource(tmp_path: Path) -> None:
    files = {
        "a.yaml": "name: a\nfoo: 1",
        "b.yaml": "name: b\nrequirements: {envs: {A: x}, secrets: [A]}",
        "c.yaml": "[",
    }
    result = lint(tmp_path, files)
    assert result.err.startswith("3 violations\n")
    assert [
        part
        for part in ("compute/a.yaml: foo", "compute/b.yaml: b: envs.A", "compute/c.yaml: ")
        if part not in result.err
    ] == []


@pytest.mark.parametrize(("folder", "message"), [("nowhere", "cannot be read"), ("empty", "has no YAML files")])
def test_an_empty_or_missing_folder_is_a_violation(tmp_path: Path, folder: str, message: str) -> None:
    (tmp_path / "empty").mkdir()
    result = run(tmp_path, "compute", "lint", folder)
    assert result.code == 1
    assert message in result.err
