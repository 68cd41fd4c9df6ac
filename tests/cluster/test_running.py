"""Runs submitted with the SDK to a cluster, with a real server and real objects."""

from pathlib import Path

from fairlead.model.runs import State
from tests.cluster.platforms import Platform


def test_python_function_in_a_pod_returns_its_result(platform: Platform, tmp_path: Path) -> None:
    source = tmp_path / "train.py"
    source.write_text("def main(epochs):\n    print('epoch', epochs)\n    return {'loss': 0.5}\n")
    run = platform.project.function("train", source=str(source), handler="main").run(inputs={"epochs": 3})
    run.wait(timeout=60)
    assert (run.state, run.result) == (State.COMPLETED, {"loss": 0.5})
    assert "".join(run.logs()) == "epoch 3\n"


def test_history_of_a_run_contains_each_state_once(platform: Platform) -> None:
    run = platform.run(function={"name": "quick", "kind": "container", "image": "example.test/succeed"})
    platform.until(run, "completed")
    states = [event["state"] for event in platform.api("GET", f"/runs/{run.id}/events")]
    assert [state for state in states if state != "starting"] == ["queued", "pending", "running", "completed"]


def test_result_too_large_for_a_termination_message_is_uploaded(platform: Platform, tmp_path: Path) -> None:
    source = tmp_path / "large.py"
    source.write_text(
        "import os\n"
        "def main(size):\n"
        "    with open(os.environ['FAIRLEAD_OUTPUT'] + '/model.bin', 'wb') as file:\n"
        "        file.write(b'x' * size)\n"
        "    if size < 10:\n"
        "        raise ValueError('y' * 7000)\n"
        "    return {'text': 'x' * size}\n"
    )
    function = platform.project.function("large", source=str(source), handler="main")
    run = function.run(inputs={"size": 20_000}).wait(timeout=60)
    assert run.result == {"text": "x" * 20_000}
    (file,) = platform.api("GET", f"/runs/{run.id}/files")
    assert (file["path"], file["size"]) == ("model.bin", 20_000)
    failed = platform.until(function.run(inputs={"size": 1}).id, "failed")
    assert failed["message"].startswith("ValueError: yyyy")
    assert platform.api("GET", f"/runs/{failed['id']}/result")["error"]["message"] == "y" * 7000
