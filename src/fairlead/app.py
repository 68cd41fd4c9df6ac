"""The composition root: builds a server from its settings and runs it."""

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError

import fairlead
from fairlead import hosting, listeners
from fairlead.adapters import keyrings
from fairlead.adapters.database import migrating
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.adapters.identity.logins import OidcLogin
from fairlead.adapters.identity.oidc import OidcAuthenticator
from fairlead.adapters.kubernetes.executor import ExecutorConfig, open_executor
from fairlead.adapters.local.allocation import find_runtime
from fairlead.adapters.local.executor import LocalExecutor
from fairlead.adapters.local.machines import describe_isolation, find_machine
from fairlead.controllers import background
from fairlead.controllers.background import Scheduler, StableClock, WatchedFolder
from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.controllers.launch_specs import load_secret_values
from fairlead.controllers.retention import Retention
from fairlead.controllers.runs import RunController, ServerIdentity
from fairlead.errors import FairleadError
from fairlead.model.records import ScopeRecord
from fairlead.model.scopes import PLATFORM
from fairlead.ports import Keyring, Principal, Store
from fairlead.run_events import RunEvents
from fairlead.server.application import create_application
from fairlead.server.http.connection_limits import ConnectionLimits, ConnectionTable
from fairlead.server.http.http_protocol import LimitedHttpProtocol, LimitedWebSocketProtocol
from fairlead.server.proxy.websockets import MAX_MESSAGE_BYTES
from fairlead.services.access.tokens import FirstRun
from fairlead.services.config_files import FOLDER, ApplyOptions
from fairlead.services.registry import ExecutionOptions, SignInOptions, build_services, make_id, now
from fairlead.services.transactions.unit_of_work import Call
from fairlead.settings import Settings, describe_validation_errors, find_problems, find_unknown_variables

LISTEN_BACKLOG = 2048
WEB_UI = Path(__file__).with_name("_ui")  # built by `make ui` or with the wheel; may be missing in a checkout
# Calls that the server itself makes: `trusted` grants all permissions, and `via` appears in the audit log.
FOLDER_SYNC = Call(principal=Principal("fairlead", via="folder"), trusted=True)
KEY_ROTATION = Call(principal=Principal("fairlead", via="keys"), trusted=True)


@dataclass(frozen=True)
class ServerInstance:
    """The parts of a server that is ready to run."""

    app: FastAPI
    store: DatabaseStore
    token: str
    sign_in_code: str | None
    executor: LocalExecutor | None
    executors: ExecutorRegistry


def build_server(settings: Settings, url: str) -> ServerInstance:
    """Open and migrate the database, create the platform on the first start, and build the application."""
    store = DatabaseStore(settings.database_url)
    migrating.migrate(store.engine)
    # Set below, but before a request can call describe().
    folder: WatchedFolder | None = None

    def describe() -> dict[str, Any]:
        return {
            "version": fairlead.__version__,
            "url": url,
            "auth": settings.auth,
            "database": store.dialect,
            "oidc_issuer": settings.oidc_issuer,
            "folder": None if folder is None else folder.describe(),
        }

    keyring, run_events = _open_keyring(settings), RunEvents()
    executor = _open_executor(settings, run_events)
    server_id = hosting.load_server_id(settings.data, make_id)
    secrets_of = partial(load_secret_values, store, keyring)
    keep_objects = timedelta(minutes=settings.keep_objects_minutes)
    config = ExecutorConfig(store, settings.data / "clusters", now, secrets_of, keep_objects)
    connect = partial(open_executor, config, run_events)
    local_executors = {} if executor is None else {"local": executor}
    connects = connect if settings.execute else None
    executors = ExecutorRegistry(local_executors, store, keyring, connects, server_id=server_id)
    controller = RunController(
        store,
        keyring,
        executors,
        identity=ServerIdentity(server_id, socket.gethostname(), url),
        clock=now,
        make_id=make_id,
        run_events=run_events,
        reserve_after=settings.reserve_after,
        stable_clock=StableClock(now),  # idle workspaces must not be stopped because the clock jumped
    )
    execution = ExecutionOptions(executors, run_events, server_id)
    services, first_run = build_services(store, keyring, _sign_in_options(settings), describe, execution)
    keep = {"keep_runs": timedelta(days=settings.keep_runs_days), "keep_logs": timedelta(days=settings.keep_logs_days)}
    retention = Retention(store, executors, clock=StableClock(now), **keep)
    scheduler = Scheduler(store, services.schedules.submit_due_runs, now)
    follow_clusters = services.cluster_changes.follow
    if settings.folder is not None:
        # At startup, a missing folder is a mistake in the settings. If it is unmounted later, the watch waits for it.
        if not settings.folder.is_dir():
            raise FairleadError(f"folder {settings.folder} does not exist", "create it, or set folder to another path")
        # The folder is the complete configuration: an object is deleted when its document is.
        options = ApplyOptions(manager=FOLDER, prune=True)
        folder = WatchedFolder(
            settings.folder, lambda library: services.config_files.apply(FOLDER_SYNC, library, options), now
        )
    first_run.initialize([*settings.admins, f"user:{settings.local_user}"])
    # This must come after `initialize`, which creates the platform ID on the first start.
    hosting.check_platform(settings.data, _read_platform_id(store))
    token, sign_in_code = _load_token(settings, first_run)
    executors.refresh()  # otherwise no cluster would be connected yet at the first request
    app = create_application(
        services,
        check_ready=lambda: _check_ready(store),
        make_id=make_id,
        url=url,
        reads_are_local=store.dialect == "sqlite",  # querying a local file is faster than switching to a thread
        background=lambda: background.run_background_tasks(folder, controller, retention, scheduler, follow_clusters),
        page=WEB_UI,
        served_host=settings.served_host,
    )
    return ServerInstance(app, store, token, sign_in_code if settings.auth == "local" else None, executor, executors)


class _HttpServer(uvicorn.Server):
    """The HTTP server. Removes server.json before it shuts down, so that clients no longer find it."""

    def __init__(self, configuration: uvicorn.Config, server_file: Path) -> None:
        super().__init__(configuration)
        self._server_file = server_file

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # The addresses stay open, so a client that connects now would wait for the next server.
        self._server_file.unlink(missing_ok=True)
        await super().shutdown(sockets)


def up(settings: Settings) -> int:
    """Run the server until it is stopped."""
    os.umask(0o077)  # the server's files are private to its user
    with (
        # The lock comes first, so that a second server neither opens the database nor takes the port.
        hosting.lock_data_folder(settings.data),
        listeners.open_listeners(settings.data, settings.host, settings.port, os.environ) as (sockets, url),
    ):
        _check_sockets(settings, sockets)
        server = build_server(settings, settings.public_url or url)
        server_file = settings.data / hosting.SERVER_FILE
        # Written only once the server is ready, because clients read it to find the server. They use the local address.
        hosting.write_private(server_file, json.dumps({"url": url, "pid": os.getpid()}))
        _print_greeting(settings, server, url)
        configuration = uvicorn.Config(
            server.app,
            **_protocol_options(settings),
            log_config=None,  # `configure_logging` has already configured logging
            access_log=False,  # the middleware writes the access log, without one-time codes in URLs
            timeout_graceful_shutdown=5,  # a WebSocket or a long request must not delay a restart
            server_header=False,
        )
        # Uvicorn raises the signal again after it shuts down; without a handler, the cleanup below would not run.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        serving = _HttpServer(configuration, server_file)
        # Streams check this and end, because otherwise they would delay the shutdown.
        server.app.state.is_shutting_down = lambda: serving.should_exit
        if settings.idle_seconds is not None:
            background.shut_down_when_idle(
                lambda: setattr(serving, "should_exit", True),
                lambda: server.app.state.metrics.idle_seconds,
                server.store,
                settings.idle_seconds,
            )
        try:
            serving.run(sockets=sockets)
        except KeyboardInterrupt:
            pass
        finally:
            server_file.unlink(missing_ok=True)
            if server.executor is not None:
                server.executor.close()
            server.executors.close()
            server.store.close()
    return 0


def _protocol_options(settings: Settings) -> dict[str, Any]:
    """Uvicorn's options for connections and protocols."""
    limits = ConnectionLimits.for_files(hosting.raise_file_limit(), settings.max_connections, settings.trusted_proxies)
    return {
        "http": partial(LimitedHttpProtocol, table=ConnectionTable(limits)),
        "ws": LimitedWebSocketProtocol,  # wsproto, like the proxy for served runs
        "ws_max_size": MAX_MESSAGE_BYTES,
        # The server accepts this many connections at once before it counts them.
        "backlog": min(LISTEN_BACKLOG, limits.total),
        "proxy_headers": bool(settings.trusted_proxies),
        "forwarded_allow_ips": list(settings.trusted_proxies),
    }


def rotate_keys(settings: Settings) -> int:
    """Encrypt every secret with a new key, or with the first key of FAIRLEAD_SECRET_KEYS."""
    with _open_store(settings) as store:
        if settings.secret_keys is None:
            # Older keys stay in the file, because a running server and database backups still need them.
            keyrings.rotate_key_file(settings.key_file)
        count = build_services(store, _open_keyring(settings))[0].secrets.reseal(KEY_ROTATION)
    old_keys = "run `fairlead keys forget` to delete older keys"
    if settings.secret_keys is not None:
        old_keys = "you can remove older keys from FAIRLEAD_SECRET_KEYS"
    print(f"{count} secret{'' if count == 1 else 's'} encrypted with the new key; {old_keys}")
    return 0


def forget_keys(settings: Settings) -> int:
    """Delete all keys except the current one, unless a secret still needs an older key."""
    if settings.secret_keys is not None:
        raise FairleadError("the keys are in FAIRLEAD_SECRET_KEYS", "remove older keys from it")
    with _open_store(settings) as store:
        # Checked before anything is deleted, because a secret without its key is lost.
        stale = build_services(store, _open_keyring(settings))[0].secrets.count_stale(KEY_ROTATION)
    if stale:
        message = f"{stale} secret{' is' if stale == 1 else 's are'} encrypted with an older key"
        raise FairleadError(message, "run `fairlead keys rotate` first")
    deleted = keyrings.forget_old_keys(settings.key_file)
    print(f"{len(deleted)} older key{'' if len(deleted) == 1 else 's'} deleted")
    return 0


COMMANDS = {"up": up, "rotate-keys": rotate_keys, "forget-keys": forget_keys}


def main() -> int:
    """Run a command, such as `python -m fairlead.app up`. Options override variables, which override the file."""
    parser = argparse.ArgumentParser(prog="fairlead.app")
    parser.add_argument("command", choices=tuple(COMMANDS))
    for name in ("host", "port", "data", "database", "folder", "auth", "capacity", "idle-seconds"):
        # Values stay text: pydantic parses and checks them like values from variables and the file.
        parser.add_argument(f"--{name}")
    options = vars(parser.parse_args())
    command = options.pop("command")
    problems = find_unknown_variables(os.environ)
    try:
        settings = Settings(**{name: value for name, value in options.items() if value is not None})
        problems += find_problems(settings)
    except ValidationError as error:
        problems += describe_validation_errors(error)
    except ValueError as error:  # the file is not valid TOML or UTF-8
        problems.append(f"cannot read fairlead.toml: {error}")
    # Report all problems at once, so that an administrator can fix them all before the next start.
    if problems:
        print("\n".join(f"error: {problem}" for problem in problems), file=sys.stderr)
        return 2
    hosting.configure_logging(settings.log_level)
    try:
        return COMMANDS[command](settings)
    except FairleadError as error:
        print(error.terminal_text, file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename or 'a file'}: {(error.strerror or str(error)).lower()}", file=sys.stderr)
    return 1


@contextlib.contextmanager
def _open_store(settings: Settings) -> Iterator[DatabaseStore]:
    """Open the database of an existing server. Rejects an empty database: the user probably meant another one."""
    if settings.database is None and not (settings.data / "fairlead.db").exists():
        raise FairleadError(f"no database found in {settings.data}", "set --data or --database")
    with contextlib.closing(DatabaseStore(settings.database_url)) as store:
        if migrating.current_revision(store.engine) is None:
            raise FairleadError("the database is empty", "set --data or --database")
        migrating.migrate(store.engine)
        yield store


def _open_keyring(settings: Settings) -> Keyring:
    if settings.secret_keys is not None:
        return keyrings.AesKeyring(keyrings.parse_keys(settings.secret_keys))
    if not settings.key_file.exists():
        keyrings.create_key_file(settings.key_file)
    return keyrings.AesKeyring.from_file(settings.key_file)


def _sign_in_options(settings: Settings) -> SignInOptions:
    link = settings.auth == "local"
    if settings.oidc_issuer is None or settings.oidc_audience is None:
        return SignInOptions(link=link)
    authenticator = OidcAuthenticator(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        user_claim=settings.oidc_user_claim,
        groups_claim=settings.oidc_groups_claim,
        clock=now,
    )
    client, secret = settings.oidc_client_id, settings.oidc_client_secret
    login = OidcLogin(authenticator, client, secret.get_secret_value() if secret else None) if client else None
    return SignInOptions(authenticator, login, link)


def _load_token(settings: Settings, first_run: FirstRun) -> tuple[str, str]:
    """Return this machine's token, stored in a file that only its owner can read, and a one-time sign-in code."""
    file = settings.data / "token"
    # The content of a corrupt file matches no token, so a new token replaces it.
    stored = file.read_bytes().decode("utf-8", "replace").strip() if file.exists() else None
    # Used as the token's name, so that a lost token for the same machine and folder is revoked.
    machine = f"{socket.gethostname()}:{settings.data.resolve()}"
    token, sign_in_code = first_run.issue_local_token(settings.local_user, machine, stored)
    if token != stored:
        hosting.write_private(file, token + "\n")
    return token, sign_in_code


def _read_platform_id(store: Store) -> str:
    with store.reading() as tx:
        platform = tx.get(ScopeRecord, scope=PLATFORM)
    assert platform is not None, "the first start creates the platform"
    return platform.id


def _check_ready(store: Store) -> None:
    with store.reading() as tx:
        _ = tx.generation  # a small query that fails if the database is unreachable


def _check_sockets(settings: Settings, sockets: list[socket.socket]) -> None:
    """Reject sockets from systemd that need other authentication, as `find_problems` does for the host setting."""
    if settings.auth == "local" and not listeners.is_local_only(sockets):
        message = "systemd passed a socket that other machines can reach, but auth is local"
        raise FairleadError(message, "set auth to tokens or oidc, or use ListenStream=127.0.0.1:8470")


def _open_executor(settings: Settings, run_events: RunEvents) -> LocalExecutor | None:
    if not settings.execute:
        return None
    runtime = find_runtime(settings.python, os.environ, settings.readable_paths)
    machine = find_machine(settings.data, settings.capacity, settings.max_processes)
    return LocalExecutor(settings.data, machine, runtime, run_events, settings.id_table)


def _print_greeting(settings: Settings, server: ServerInstance, url: str) -> None:
    """Print addresses and commands for the person who started the server. The token is shown only on a terminal."""
    file = settings.data / "token"
    # If stdout is not a terminal, it is probably a log file, and the token must not appear there.
    shown = f"{server.token}  (also in {file})" if sys.stdout.isatty() else str(file)
    lines = [f"Fairlead {fairlead.__version__} is listening on {url}", f"  token    {shown}"]
    if server.sign_in_code is not None:
        lines.append(f"  sign in  {url}/login?code={server.sign_in_code}  (works once, within 15 minutes)")
    if server.executor is not None:
        lines.append(f"  runs     {describe_isolation(server.executor.machine, is_root=server.executor.is_root)}")
    lines.append(f'  try      curl -H "Authorization: Bearer $(cat {file})" {url}/api/v1/me')
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())
