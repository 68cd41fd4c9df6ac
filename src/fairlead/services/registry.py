"""Builds a server's services from a store, a keyring and executors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import uuid_utils

from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.files.documents import load_program
from fairlead.ports import Authenticator, Executors, Keyring, Login, Store
from fairlead.run_events import RunEvents
from fairlead.services.access.grants import Audits, Grants
from fairlead.services.access.tokens import FirstRun, Logins, Tokens
from fairlead.services.catalog.compute_resources import ComputeResources, Templates
from fairlead.services.catalog.policies import PlatformSettings, Policies
from fairlead.services.catalog.snapshots import Snapshots
from fairlead.services.config_files import ConfigFiles
from fairlead.services.organization.clusters import Connections
from fairlead.services.organization.project_objects import Secrets, Volumes
from fairlead.services.organization.scopes import Scopes
from fairlead.services.runs.capacity import CapacityReports
from fairlead.services.runs.cluster_changes import ClusterChanges
from fairlead.services.runs.executions import Executions, RunFeed, RunUploads
from fairlead.services.runs.fit import Explanations, FitChecks
from fairlead.services.runs.functions import CodeStore, Functions
from fairlead.services.runs.runs import Runs
from fairlead.services.runs.schedules import Schedules
from fairlead.services.runs.serving import Serving
from fairlead.services.transactions.unit_of_work import UnitOfWorkFactory


@dataclass(frozen=True)
class Services:
    """The server's use cases, by kind of object."""

    units: UnitOfWorkFactory
    run_events: RunEvents
    scopes: Scopes
    connections: Connections
    compute_resources: ComputeResources
    templates: Templates
    policies: Policies
    secrets: Secrets
    volumes: Volumes
    runs: Runs
    cluster_changes: ClusterChanges
    fit_checks: FitChecks
    executions: Executions
    serving: Serving
    explanations: Explanations
    run_feed: RunFeed
    capacity: CapacityReports
    run_uploads: RunUploads
    stored_code: CodeStore
    functions: Functions
    schedules: Schedules
    grants: Grants
    tokens: Tokens
    logins: Logins
    audits: Audits
    settings: PlatformSettings
    config_files: ConfigFiles


def now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def make_id() -> str:
    """Return a unique ID. IDs sort by creation time."""
    # Sorting by time keeps inserts at the end of indexes and gives the queue order. Python's own uuid7 needs 3.14.
    return uuid_utils.uuid7().hex


@dataclass(frozen=True)
class ExecutionOptions:
    """The executors, and the event bus for changes to runs."""

    executors: Executors = field(default_factory=lambda: ExecutorRegistry({}))
    run_events: RunEvents = field(default_factory=RunEvents)
    server_id: str = ""


@dataclass(frozen=True)
class SignInOptions:
    """Ways to sign in besides the server's tokens: an OpenID Connect issuer, and one-time links."""

    authenticator: Authenticator | None = None
    login: Login | None = None
    link: bool = False


def build_services(
    store: Store,
    keyring: Keyring,
    sign_in: SignInOptions | None = None,
    describe: Callable[[], dict[str, Any]] = dict,
    execution: ExecutionOptions | None = None,
) -> tuple[Services, FirstRun]:
    """Build all services. Without an executor, runs stay queued."""
    execution, sign_in = execution or ExecutionOptions(), sign_in or SignInOptions()
    units = UnitOfWorkFactory(store, now, make_id, sign_in.authenticator)
    snapshots = Snapshots(load_program(), execution.executors)
    executions = Executions(units, execution.executors, execution.server_id)
    scopes, policies, tokens = Scopes(units), Policies(units), Tokens(units, monotonic)
    compute_resources, templates, codes = ComputeResources(units), Templates(units), CodeStore(units)
    runs = Runs(units, snapshots, execution.executors, keyring, execution.run_events)
    services = Services(
        units=units,
        run_events=execution.run_events,
        scopes=scopes,
        compute_resources=compute_resources,
        templates=templates,
        policies=policies,
        secrets=Secrets(units, keyring),
        volumes=Volumes(units),
        runs=runs,
        cluster_changes=ClusterChanges(units, runs, execution.run_events),
        fit_checks=FitChecks(units, snapshots, execution.executors),
        executions=executions,
        serving=Serving(units, executions, keyring),
        explanations=Explanations(executions, snapshots),
        run_feed=RunFeed(units),
        capacity=CapacityReports(units, execution.executors, snapshots),
        run_uploads=RunUploads(units, keyring),
        connections=Connections(units, keyring, execution.executors),
        stored_code=codes,
        functions=Functions(units, codes),
        schedules=Schedules(units, runs, execution.run_events),
        grants=Grants(units),
        tokens=tokens,
        logins=Logins(tokens, sign_in.login, link=sign_in.link),
        audits=Audits(units),
        settings=PlatformSettings(units, describe),
        config_files=ConfigFiles(units, scopes, policies, compute_resources, templates),
    )
    return services, FirstRun(units, scopes, tokens)
