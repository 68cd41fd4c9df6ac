"""Fuzzes the requirements language: what is read, what is planned, and what a preview answers over HTTP.

Nothing is raised but what says what is wrong, every violation says where, what and what to do, every answer comes at
once, and what is accepted survives a round trip.
"""

import contextlib
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import structlog
from hypothesis import HealthCheck, Phase, given, settings
from pydantic import ValidationError

from fairlead.adapters.database.migrating import migrate
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.core import explanations
from fairlead.core.drafts import Snapshot
from fairlead.core.planning import plan_run
from fairlead.model.parsing import violations_of
from fairlead.model.plans import Plan
from fairlead.model.requests import RunRequest
from tests.core.properties.strategies import snapshots
from tests.core.properties.test_planning import with_amounts
from tests.fuzzing.grammars import broken_requests, is_json
from tests.fuzzing.rounds import waiting
from tests.server.samples import fill
from tests.server.sites import Site, open_site

SECONDS = 1.0  # of the processor
HANG_SECONDS = 60.0  # of the clock, also on a busy machine
EXAMPLES = 200
NEEDED = ("rule", "message", "hint")
JSON = {"Content-Type": "application/json"}
OF_THE_WHOLE = ("body", "mapping", "too_many")  # what has no place of its own


def fuzz_planning(seed: int, examples: int = EXAMPLES) -> int:
    """One round of reading and planning; how many requests were tried."""

    @hypothesis.seed(seed)
    @_limit(examples)
    @given(broken_requests(), snapshots())
    def examine(asked: Any, snapshot: Snapshot) -> None:
        with _in_time(asked, 3 * SECONDS):  # it is planned twice, and explained
            check_request(asked, snapshot)

    examine()
    return examples


def fuzz_previews(site: Site, seed: int, examples: int = EXAMPLES) -> int:
    """Run one round of previews on a server, and return their number."""

    @hypothesis.seed(seed)
    @_limit(examples)
    @given(broken_requests().filter(is_json))
    def examine(asked: Any) -> None:
        with _in_time(asked, SECONDS):
            check_preview(site, asked)

    examine()
    return examples


def check_request(asked: Any, snapshot: Snapshot) -> None:
    """Raise AssertionError unless a request is refused in words, or is planned and reads back as it was."""
    try:
        request = RunRequest.model_validate(asked)
    except ValidationError as error:
        violations = violations_of(error, RunRequest)
        assert violations, "it was refused, and nothing is wrong with it"
        return check_violations([_said(violation) for violation in violations])
    printed = json.loads(json.dumps(request.to_data(), allow_nan=False))
    again = RunRequest.model_validate(printed)
    assert json.loads(json.dumps(again.to_data())) == printed
    plan, second = (plan_run(each, snapshot, "r7") for each in (request, again))
    assert _decided(second) == _decided(plan)
    assert bool(plan.violations) != bool(plan.manifests)
    json.dumps(explanations.to_data(plan), allow_nan=False)
    explanations.explain(plan, "title").encode()
    return check_violations([_said(violation) for violation in plan.violations])


def check_preview(site: Site, asked: Any) -> None:
    """Raise AssertionError unless a server answers with a plan, or says what is wrong."""
    answer = site.ask("POST", "/projects/alpha/runs/preview", content=json.dumps(asked).encode(), headers=JSON)
    assert answer.status_code in (200, 400, 413, 422), f"{answer.status_code}: {answer.text}"
    assert "Traceback" not in answer.text
    told = answer.json()
    if answer.status_code in (200, 422):
        check_violations(told["violations"])
    else:
        assert told["detail"], told
        assert told["hint"], told
    if answer.status_code == 200 and not told["violations"]:
        assert told["token"], told


def check_violations(violations: Sequence[Mapping[str, Any]]) -> None:
    """Raise AssertionError unless each violation has a path, a rule, a message and a hint."""
    for violation in violations:
        missing = [name for name in NEEDED if not violation.get(name)]
        assert not missing, f"without {missing}: {violation}"
        assert violation["path"] or violation["rule"] in OF_THE_WHOLE, violation
        json.dumps(violation).encode()


@contextlib.contextmanager
def open_fuzzed_site() -> Iterator[Site]:
    """A server in this process, with a fully configured project."""
    with tempfile.TemporaryDirectory() as folder, structlog.testing.capture_logs():
        url = f"sqlite:///{Path(folder, 'fairlead.db')}"
        store = DatabaseStore(url)
        migrate(store.engine)
        with open_site(store) as site:
            fill(site, "alpha")
            yield site
        store.close()


def _limit(examples: int) -> settings:
    return settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


@contextlib.contextmanager
def _in_time(asked: Any, seconds: float) -> Iterator[None]:
    began = time.process_time()
    with waiting(HANG_SECONDS, asked):
        yield
    took = time.process_time() - began
    assert took < seconds, f"took {took:.2f} s of the processor: {str(asked)[:2000]}"


def _decided(plan: Plan) -> Any:
    """A plan without the spelling of amounts, which may change when they are parsed and printed again."""
    found = [(item.path, item.rule) for item in (*plan.violations, *plan.warnings)]
    return [(item.path, item.value) for item in plan.settings], found, with_amounts(plan.manifests)


def _said(violation: Any) -> Mapping[str, Any]:
    return {name: getattr(violation, name) for name in ("path", *NEEDED)}
