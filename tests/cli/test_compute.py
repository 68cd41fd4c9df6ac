"""`fairlead compute lint`: compute resources are checked before anybody uses them."""

from pathlib import Path

import pytest

from tests.cli.terminal import Answer, run, write

GOOD = "kind: ComputeResource\nname: {}\nrequirements: {{resources: {{gpu: 1, mem: 64Gi}}}}\n"
NOT_ZONE_A = (
    "{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
    "{nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: NotIn, values: [a]}]}]}}}"
)


def lint(folder: Path, files: dict[str, str]) -> Answer:
    write(folder, {f"compute/{name}": text for name, text in files.items()})
    return run(folder, "compute", "lint", "compute")


def test_a_good_folder_is_said_to_be_good(tmp_path: Path) -> None:
    answer = lint(tmp_path, {"a.yaml": GOOD.format("a"), "b.yml": GOOD.format("b"), "deep/c.json": '{"name": "c"}'})
    assert answer == Answer(0, "3 compute resources: no warnings, no violations\n", "")


def test_one_file_can_be_checked_alone(tmp_path: Path) -> None:
    write(tmp_path, {"a.yaml": GOOD.format("a")})
    assert run(tmp_path, "compute", "lint", "a.yaml") == Answer(
        0, "1 compute resource: no warnings, no violations\n", ""
    )


@pytest.mark.parametrize(
    ("text", "said"),
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
            "envs.A: A is set as env (compute resource a) and as secret (compute resource a)",
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
def test_each_kind_of_problem_is_found(tmp_path: Path, text: str, said: str) -> None:
    answer = lint(tmp_path, {"x.yaml": text})
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err


def test_one_name_in_two_files_is_found(tmp_path: Path) -> None:
    answer = lint(tmp_path, {"a.yaml": GOOD.format("a"), "b.yaml": GOOD.format("a")})
    assert answer.code == 1
    assert "compute/b.yaml: name: " in answer.err
    assert "compute/a.yaml" in answer.err


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (
            "rules: {resources.gpu: {max: 2}}",
            "resources.gpu.devices: 4 (from the compute resource a); the platform policy allows at most 2",
        ),
        ("switches: {existing_volumes: block}", "volumes.v.volume_type: "),
        ("rules: {resources.gpuu: {max: 2}}", "compute/policy.yaml: rules.resources.gpuu: "),
    ],
)
def test_policies_in_the_folder_are_taken_into_account(tmp_path: Path, policy: str, said: str) -> None:
    volumes = "[{volume_type: shared_volume, name: v, mount_path: /v}]"
    text = f"name: a\nrequirements: {{resources: {{gpu: 4}}, volumes: {volumes}}}"
    answer = lint(tmp_path, {"a.yaml": text, "policy.yaml": f"kind: Policy\n{policy}"})
    assert answer.code == 1
    assert said in answer.err


def test_what_a_policy_requires_may_be_said_by_users(tmp_path: Path) -> None:
    files = {"a.yaml": "name: a", "policy.yaml": "kind: Policy\nrules: {resources.cpu: {required: true}}"}
    answer = lint(tmp_path, files)
    assert answer.code == 0
    assert "resources.cpu: is required by the platform policy" in answer.err


def test_a_policy_that_does_not_reach_a_compute_resource_is_not_its_problem(tmp_path: Path) -> None:
    files = {
        "a.yaml": "name: a\nscope: department/x",
        "p.yaml": "kind: Policy\nscope: department/y\nrules: {profile: {options: [b]}}",
    }
    assert lint(tmp_path, files).code == 0


def test_warnings_are_said_on_stderr_and_do_not_change_the_answer(tmp_path: Path) -> None:
    volumes = "[{volume_type: shared_volume, name: v, mount_path: /v}]"
    answer = lint(tmp_path, {"a.yaml": f"name: a\nrequirements: {{resources: {{mem: 64}}, volumes: {volumes}}}"})
    assert answer.code == 0
    assert "resources.mem.requests: 64 bytes is very little" in answer.err
    assert "compute/a.yaml: a: volumes.v.volume_type: " in answer.err
    assert "no warnings" not in answer.out


def test_a_share_is_judged_by_the_clusters_that_it_is_offered_on(tmp_path: Path) -> None:
    share = "name: a\nscope: {}\nrequirements: {{resources: {{gpu: {{memory: 50%}}}}}}"
    clusters = "kind: Cluster\nname: shared\ngpu_sharing: hami\n---\nkind: Cluster\nname: whole"
    for scope, code in (("cluster/shared", 0), ("cluster/whole", 1)):
        assert lint(tmp_path, {"a.yaml": share.format(scope), "clusters.yaml": clusters}).code == code


def test_where_no_cluster_is_described_shares_are_not_judged(tmp_path: Path) -> None:
    answer = lint(tmp_path, {"a.yaml": "name: a\nrequirements: {resources: {gpu: {memory: 50%}}}"})
    assert answer == Answer(0, "1 compute resource: no warnings, no violations\n", "")


def test_what_a_pod_gets_is_explained_where_that_is_asked(tmp_path: Path) -> None:
    policy = "kind: Policy\nlimit_factor: {mem: 2}\nrules: {resources.gpu: {max: 0}}"
    write(tmp_path, {"compute/a.yaml": GOOD.format("a"), "compute/p.yaml": policy})
    answer = run(tmp_path, "compute", "lint", "compute", "--explain")
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert lines[:2] == ["a", "  1 whole GPU per pod."]
    assert "! Killed above 128 GiB (out of memory)." in lines
    assert "  Default limit: 2x request (platform policy)." in lines


def test_several_problems_are_said_at_once_each_with_its_file_and_compute_resource(tmp_path: Path) -> None:
    files = {
        "a.yaml": "name: a\nfoo: 1",
        "b.yaml": "name: b\nrequirements: {envs: {A: x}, secrets: [A]}",
        "c.yaml": "[",
    }
    answer = lint(tmp_path, files)
    assert answer.err.startswith("3 violations\n")
    assert [
        part
        for part in ("compute/a.yaml: foo", "compute/b.yaml: b: envs.A", "compute/c.yaml: ")
        if part not in answer.err
    ] == []


@pytest.mark.parametrize(("folder", "said"), [("nowhere", "cannot be read"), ("empty", "has no YAML files")])
def test_a_folder_with_nothing_to_check_is_a_problem(tmp_path: Path, folder: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    answer = run(tmp_path, "compute", "lint", folder)
    assert answer.code == 1
    assert said in answer.err
