"""`fairlead run` and `fairlead runs` on a real server."""

import json
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal, write

PROGRAMS = {
    "train.py": "import sys\ndef main(n=1):\n    print('step', n)\n    return {'n': n}\nif __name__ == '__main__':\n"
    "    print(sys.argv[1:])\n    sys.exit(int(sys.argv[-1]))\n",
}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, terminal: Terminal) -> None:
    """A program in the terminal's working folder."""
    write(tmp_path, PROGRAMS)


def test_a_function_is_called_with_its_inputs_and_its_result_shown(terminal: Terminal) -> None:
    result = terminal("run", "train.py:main", "--input", "n=3", "--mem", "64Mi", "--mem-limit", "256Mi")
    assert result.code == 0, result
    assert result.out == "step 3\n"
    assert 'result: {"n": 3}' in result.err


def test_the_exit_code_of_a_program_is_that_of_the_command(terminal: Terminal) -> None:
    result = terminal("run", "train.py", "--", "--lr", "7")
    assert (result.code, result.out) == (7, "['--lr', '7']\n")


@pytest.mark.parametrize("option", ["--memory", "--profil", "--lr"])
def test_misspelled_options_are_rejected_and_not_passed_to_the_program(terminal: Terminal, option: str) -> None:
    before = terminal.read("runs", "ls", "--filter", "function=train", "--limit", "1")
    result = terminal("run", "train.py", option, "1")
    assert result.code != 0
    assert option in result.out + result.err
    after = terminal.read("runs", "ls", "--filter", "function=train", "--limit", "1")
    assert [run["id"] for run in before] == [run["id"] for run in after]


def test_positional_arguments_for_a_function_are_rejected(terminal: Terminal) -> None:
    assert "use --input NAME=VALUE" in terminal.fail("run", "train.py:main", "n=3")


def test_a_misspelled_project_is_not_created(terminal: Terminal) -> None:
    assert "did you mean default?" in terminal.fail("run", "train.py:main", "--project", "defualt")
    assert "defualt" not in terminal.succeed("projects", "ls")


def test_a_part_of_an_id_is_sufficient(terminal: Terminal) -> None:
    run_id = terminal.succeed("run", "train.py:main", "--detach").strip()
    assert terminal.read("runs", "show", run_id[-8:])["id"] == run_id
    assert terminal.read("runs", "show", run_id[:20])["id"] == run_id
    assert "list runs with fairlead runs ls" in terminal.fail("runs", "show", "zzzz")


def test_a_preview_creates_no_run(terminal: Terminal) -> None:
    before = len(terminal.read("runs", "ls", "--limit", "500"))
    plan = terminal.read("run", "train.py:main", "--preview", "--cpu", "1")
    assert {setting["path"]: setting["value"] for setting in plan["settings"]}["resources.cpu.requests"] == "1"
    assert len(terminal.read("runs", "ls", "--limit", "500")) == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("envs: [{name: A}]\n", "envs is neither a mapping nor a list of name-value pairs"),
        ("volumes: {a: b}\n", "volumes is not a list"),
        ("resources: [1]\n", "resources is not a mapping"),
        ("function: x\n", "sets function"),
        ("- 1\n", "must contain one mapping"),
    ],
)
def test_invalid_request_files_are_rejected(terminal: Terminal, tmp_path: Path, text: str, message: str) -> None:
    write(tmp_path, {"more.yaml": text})
    assert message in terminal.fail("run", "train.py:main", "-f", "more.yaml")


def test_a_run_can_be_repeated(terminal: Terminal) -> None:
    result = terminal("run", "train.py:main", "--input", "n=5", "--json")
    run = json.loads(result.out)
    assert run["result"] == {"n": 5}
    assert terminal("runs", "again", run["id"]).out == "step 5\n"
    assert terminal.succeed("runs", "logs", run["id"]) == "step 5\n"
    assert json.loads(terminal.succeed("runs", "result", run["id"])) == {"n": 5}


def test_pull_settings_are_options(terminal: Terminal) -> None:
    options = ["--pull-policy", "Always", "--pull-secret", "REGISTRY", "--pull-secret", "OTHER"]
    for program in (["serve", "--image", "registry.example/lab/serve:1"], ["train.py:main"]):
        plan = json.loads(terminal("run", *program, *options, "--preview", "--json").out)
        values = {setting["path"]: setting["value"] for setting in plan["settings"]}
        assert values["function.pull_policy"] == "Always"
        assert {"function.pull_secrets.REGISTRY", "function.pull_secrets.OTHER"} <= values.keys()
    assert "did you mean Always?" in terminal.fail("run", "train.py:main", "--pull-policy", "always", "--preview")


def test_a_stored_function_runs_again_by_its_name(terminal: Terminal) -> None:
    terminal("run", "train.py:main", "--name", "kept-one", "--input", "n=3")
    Path(terminal.folder, "train.py").unlink()
    result = terminal("run", "--function", "kept-one", "--input", "n=4")
    assert (result.code, result.out) == (0, "step 4\n")
    run_counts = {item["name"]: item["runs"] for item in terminal.read("functions", "ls")}
    assert run_counts["kept-one"] == 2
    assert "did you mean kept-one?" in terminal.fail("run", "--function", "kept-on")
    assert "--image" in terminal.fail("run", "--function", "kept-one", "--image", "a:1")
    assert "--function" in terminal.fail("run")
    assert "deleted function kept-one" in terminal.succeed("functions", "rm", "kept-one")


def test_a_stored_script_receives_arguments(terminal: Terminal) -> None:
    terminal("run", "train.py", "--name", "kept-script", "--", "0")
    result = terminal("run", "--function", "kept-script", "--", "--lr", "7")
    assert (result.code, result.out) == (7, "['--lr', '7']\n")


REQUEST = """
function: {source: lib/train.py, handler: main}
inputs: {n: 8}
resources: {mem: 64Mi}
"""


def test_a_request_file_is_run_with_the_code_next_to_it(terminal: Terminal, tmp_path: Path) -> None:
    write(tmp_path, {"requests/by-eight.yaml": REQUEST, "requests/lib/train.py": PROGRAMS["train.py"]})
    result = terminal("run", "requests/by-eight.yaml", "--json")
    run = json.loads(result.out)
    assert (result.code, run["function"], run["result"]) == (0, "by-eight", {"n": 8})
    # Options override the file, and a name by itself refers to a stored function.
    assert terminal("run", "requests/by-eight.yaml", "-i", "n=9", "--name", "by-nine").out == "step 9\n"
    write(tmp_path, {"again.yml": "function: by-nine\ninputs: {n: 7}\n"})
    assert terminal("run", "again.yml").out == "step 7\n"
    # Another run's code, by its digest.
    code = terminal.read("runs", "show", run["id"])["code"]
    function = {"name": "by-digest", "source": "train.py", "handler": "main", "code": code}
    write(tmp_path, {"kept.json": json.dumps({"function": function})})
    assert terminal("run", "kept.json").out == "step 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resources: {mem: 64Mi}\n", "more.yaml has no function\n  -> add a function to the file"),
        ("function: {source: train.py, color: red}\n", "more.yaml: function.color"),
        ("function: {source: ../train.py}\n", "more.yaml: function.source"),
        ("function: {name: 5}\n", "more.yaml: function.name"),
        ("function: 5\n", "more.yaml: function"),
        ("function: {name: no-such-one}\n", "function 'no-such-one' does not exist in"),
        ("function: {source: away.py}\n", "away.py does not exist"),
        ("function: train\nprofil: x\n", "more.yaml: profil"),
        ("[", "more.yaml"),
    ],
)
def test_violations_of_a_request_are_reported_with_its_file(
    terminal: Terminal, tmp_path: Path, text: str, message: str
) -> None:
    write(tmp_path, {"more.yaml": text})
    assert message in terminal.fail("run", "more.yaml")


def test_a_workspace_needs_no_program(terminal: Terminal, tmp_path: Path) -> None:
    write(tmp_path, {"notebooks/one.ipynb": "{}", "lab.yaml": "action: workspace\nfunction: {source: notebooks}\n"})
    for args in ([], ["notebooks"], ["lab.yaml"], ["--name", "lab", "--image", "quay.io/jupyter/scipy-notebook"]):
        plan = terminal.read("run", *args, "--action", "workspace", "--preview")
        assert plan["violations"] == [], args
    write(tmp_path, {"image.yaml": "action: workspace\nfunction: {image: quay.io/jupyter/scipy-notebook}\n"})
    plan = terminal.read("run", "image.yaml", "--preview")
    assert {setting["path"]: setting["value"] for setting in plan["settings"]}["function.kind"] == "python"
    assert "no handler is set" in terminal.fail("run", "notebooks")
    assert "specify a file" in terminal.fail("run", "--action", "serve")
