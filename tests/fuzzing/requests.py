"""Fuzz request parsing and planning, and previews over HTTP.

Only validation errors are raised, every violation has a path, a message and a hint, every response arrives in time,
and accepted requests survive a round trip.
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
from fairlead.model import explanations
from fairlead.model.parsing import violations_of
from fairlead.model.plans import Plan
from fairlead.model.requests import RunRequest
from fairlead.planning.plan import plan_run
from fairlead.resolution.drafts import Snapshot
from tests.fuzzing.grammars import is_json, mutated_requests
from tests.fuzzing.rounds import time_limit
from tests.properties.strategies import snapshots
from tests.properties.test_planning import with_amounts
from tests.server.samples import fill
from tests.server.sites import Site, open_site

SECONDS = 1.0  # of CPU time
HANG_SECONDS = 60.0  # of wall time, even on a busy machine
EXAMPLES = 200
REQUIRED_FIELDS = ("rule", "message", "hint")
JSON = {"Content-Type": "application/json"}
RULES_WITHOUT_PATH = ("body", "mapping", "too_many")  # violations that concern the complete request


def fuzz_planning(seed: int, examples: int = EXAMPLES) -> int:
    """Run one round of parsing and planning, and return the number of requests."""

    @hypothesis.seed(seed)
    @_settings(examples)
    @given(mutated_requests(), snapshots())
    def check(requested: Any, snapshot: Snapshot) -> None:
        with _cpu_limit(requested, 3 * SECONDS):  # it is planned twice, and explained
            check_request(requested, snapshot)

    check()
    return examples


def fuzz_previews(site: Site, seed: int, examples: int = EXAMPLES) -> int:
    """Run one round of previews on a server, and return their number."""

    @hypothesis.seed(seed)
    @_settings(examples)
    @given(mutated_requests().filter(is_json))
    def check(requested: Any) -> None:
        with _cpu_limit(requested, SECONDS):
            check_preview(site, requested)

    check()
    return examples


def check_request(requested: Any, snapshot: Snapshot) -> None:
    """Raise AssertionError unless a request is rejected with messages, or is planned and round-trips."""
    try:
        request = RunRequest.model_validate(requested)
    except ValidationError as error:
        violations = violations_of(error, RunRequest)
        assert violations, "rejected without violations"
        return check_violations([_fields_of(violation) for violation in violations])
    data = json.loads(json.dumps(request.to_data(), allow_nan=False))
    reparsed = RunRequest.model_validate(data)
    assert json.loads(json.dumps(reparsed.to_data())) == data
    plan, second = (plan_run(item, snapshot, "r7") for item in (request, reparsed))
    assert _decisions_of(second) == _decisions_of(plan)
    assert bool(plan.violations) != bool(plan.manifests)
    json.dumps(explanations.to_data(plan), allow_nan=False)
    explanations.explain(plan, "title").encode()
    return check_violations([_fields_of(violation) for violation in plan.violations])


def check_preview(site: Site, requested: Any) -> None:
    """Raise AssertionError unless a server responds with a plan or a valid error."""
    response = site.request(
        "POST", "/projects/alpha/runs/preview", content=json.dumps(requested).encode(), headers=JSON
    )
    assert response.status_code in (200, 400, 413, 422), f"{response.status_code}: {response.text}"
    assert "Traceback" not in response.text
    data = response.json()
    if response.status_code in (200, 422):
        check_violations(data["violations"])
    else:
        assert data["detail"], data
        assert data["hint"], data
    if response.status_code == 200 and not data["violations"]:
        assert data["token"], data


def check_violations(violations: Sequence[Mapping[str, Any]]) -> None:
    """Raise AssertionError unless each violation has a path, a rule, a message and a hint."""
    for violation in violations:
        missing = [name for name in REQUIRED_FIELDS if not violation.get(name)]
        assert not missing, f"without {missing}: {violation}"
        assert violation["path"] or violation["rule"] in RULES_WITHOUT_PATH, violation
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


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


@contextlib.contextmanager
def _cpu_limit(requested: Any, seconds: float) -> Iterator[None]:
    started = time.process_time()
    with time_limit(HANG_SECONDS, requested):
        yield
    elapsed = time.process_time() - started
    assert elapsed < seconds, f"took {elapsed:.2f} s of CPU time: {str(requested)[:2000]}"


def _decisions_of(plan: Plan) -> Any:
    """A plan without the exact spelling of amounts, which may change when they are parsed and printed again."""
    findings = [(item.path, item.rule) for item in (*plan.violations, *plan.warnings)]
    return [(item.path, item.value) for item in plan.settings], findings, with_amounts(plan.manifests)


def _fields_of(violation: Any) -> Mapping[str, Any]:
    return {name: getattr(violation, name) for name in ("path", *REQUIRED_FIELDS)}
