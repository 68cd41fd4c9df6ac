"""Measures the CPU time of a plan on one core, compared with only parsing the YAML of the same request.

Each figure is from the least disturbed of many short rounds in which all cases take turns: other processes on the
machine can only add time, and they add it to all cases alike. The last column is the ratio to YAML in the same run.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import yaml

from fairlead.files import documents, snapshots, yamls
from fairlead.model import explanations
from fairlead.model.requests import Function, RunRequest
from fairlead.planning.plan import plan_run
from fairlead.resolution.drafts import Snapshot

ROUNDS = 20
CASE_SECONDS = 0.03
GOAL_SECONDS = 0.0005
HERE = Path(__file__).parent


def main() -> None:
    """Measure and print."""
    library = documents.load_library([(HERE / "platform.yaml", "ComputeResource")])
    base, problems = snapshots.build_snapshot(library, "forest")
    assert not library.violations, library.violations
    assert not problems, problems
    snapshot = replace(base, code=documents.load_code(HERE, Function(name="bench"))[0])
    print(f"{'':34}{'per second':>12}{'milliseconds':>14}{'x YAML':>8}")
    for name in ("small", "full"):
        _print(name, _measure(_cases(HERE / f"{name}.yaml", snapshot)))


def _cases(path: Path, snapshot: Snapshot) -> dict[str, Callable[[], object]]:
    text = path.read_bytes()
    [data] = yamls.parse_documents(text)
    request = RunRequest.model_validate(data)
    plan = plan_run(request, snapshot, "bench")
    assert plan.manifests, plan.violations
    return {
        "only YAML, PyYAML's C loader": lambda: yaml.load(text, Loader=yaml.CSafeLoader),
        "our strict YAML": lambda: yamls.parse_documents(text),
        "the request's model": lambda: RunRequest.model_validate(data),
        "plan without manifests": lambda: plan_run(request, snapshot, "bench", render=False),
        "plan with manifests": lambda: plan_run(request, snapshot, "bench"),
        "model and plan with manifests": lambda: plan_run(RunRequest.model_validate(data), snapshot, "bench"),
        "plan as JSON data": lambda: explanations.to_data(plan),
        "plan as text": lambda: explanations.explain(plan, path.stem),
    }


def _measure(cases: dict[str, Callable[[], object]]) -> dict[str, float]:
    rounds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, run in cases.items():
            start, count = time.process_time(), 0
            while (spent := time.process_time() - start) < CASE_SECONDS:
                run()
                count += 1
            rounds[name].append(spent / count)
    return {name: min(seconds) for name, seconds in rounds.items()}


def _print(title: str, measured: dict[str, float]) -> None:
    yaml_seconds = next(iter(measured.values()))
    print(f"\n{title} request")
    for name, seconds in measured.items():
        print(f"  {name:32}{1 / seconds:12,.0f}{seconds * 1000:14.3f}{seconds / yaml_seconds:8.2f}")
    full = measured["plan with manifests"]
    print(
        f"  goal: a plan with manifests in under {GOAL_SECONDS * 1000} ms: {'met' if full < GOAL_SECONDS else 'MISSED'}"
    )


if __name__ == "__main__":
    main()
