"""The composition root: everything that a server is made of is put together here, from its settings, and started."""

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
from fairlead import background, hosting, logs
from fairlead.adapters import keyrings
from fairlead.adapters.database import migrating
from fairlead.adapters.database.stores import DatabaseStore
from fairlead.adapters.identity.logins import OidcLogin
from fairlead.adapters.identity.oidc import OidcAuthenticator
from fairlead.adapters.kubernetes.executors import ExecutorConfig, open_executor
from fairlead.adapters.local.executors import LocalExecutor
from fairlead.adapters.local.machines import describe_isolation, find_machine
from fairlead.adapters.local.pod_to_spec import find_runtime
from fairlead.composing import Entrance, Execution, build_services, make_id, now
from fairlead.controllers.clocks import StableClock
from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.controllers.folders import WatchedFolder
from fairlead.controllers.launch_specs import load_secret_values
from fairlead.controllers.retention import Retention
from fairlead.controllers.runs import RunController, ServerIdentity
from fairlead.controllers.schedules import Scheduler
from fairlead.errors import FairleadError
from fairlead.model.records import ScopeRecord
from fairlead.model.scopes import PLATFORM
from fairlead.ports import Keyring, Principal, Store
from fairlead.server.applications import create_application
from fairlead.server.proxy.websockets import MAX_MESSAGE_BYTES
from fairlead.server.run_events import RunEvents
from fairlead.services.config_files import FOLDER, Apply
from fairlead.services.calls import Call
from fairlead.services.first_run import FirstRun
from fairlead.settings import Settings, describe_mistakes, problems_of, unknown_variables

PAGE = Path(__file__).with_name("_ui")
WATCHER = Call(principal=Principal("fairlead", via="folder"), trusted=True)
KEEPER = Call(principal=Principal("fairlead", via="keys"), trusted=True)


@dataclass(frozen=True)
class Server:
    """A server that is ready to serve."""

    app: FastAPI
    store: DatabaseStore
    token: str
    link_word: str | None
    executor: LocalExecutor | None
    executors: ExecutorRegistry


def build_server(settings: Settings, url: str) -> Server:
    """Open the database, bring it up to date, found the platform, and put the application together."""
    store = DatabaseStore(settings.database_url)
    migrating.migrate(store.engine)
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

    keyring, run_events, executor = _open_keyring(settings), RunEvents(), _open_executor(settings)
    server_id = hosting.keep_id(settings.data, make_id)
    secrets_of, keep_objects = (
        partial(load_secret_values, store, keyring),
        timedelta(minutes=settings.keep_objects_minutes),
    )
    config = ExecutorConfig(store, settings.data / "clusters", now, secrets_of, keep_objects)

    def enqueue(run_id: str) -> None:
        controller.enqueue(run_id)

    connect = partial(open_executor, config, enqueue)
    given = {} if executor is None else {"local": executor}
    executors = ExecutorRegistry(given, store, keyring, connect if settings.execute else None)
    controller = RunController(
        store,
        keyring,
        executors,
        identity=ServerIdentity(server_id, socket.gethostname(), url),
        clock=now,
        make_id=make_id,
        tell=run_events.publish,
        stable_clock=StableClock(now),
    )

    def tell(run_id: str) -> None:
        controller.enqueue(run_id)
        run_events.publish(run_id)

    if executor is not None:
        executor.subscribe(controller.enqueue)
    execution = Execution(executors, tell, server_id)
    services, founding = build_services(store, keyring, _open_entrance(settings), describe, execution)
    keep = {"keep_runs": timedelta(days=settings.keep_runs_days), "keep_logs": timedelta(days=settings.keep_logs_days)}
    retention = Retention(store, executors, clock=StableClock(now), **keep)
    scheduler = Scheduler(store, services.schedules.occur, now)
    if settings.folder is not None:
        if not settings.folder.is_dir():
            raise FairleadError(f"there is no folder {settings.folder}", "make it, or set folder to another one")
        how = Apply(manager=FOLDER, prune=True)
        folder = WatchedFolder(settings.folder, lambda library: services.config_files.apply(WATCHER, library, how), now)
    founding.found([*settings.admins, f"user:{settings.local_user}"])
    hosting.check_platform(settings.data, _read_platform_id(store))
    token, word = _keep_token(settings, founding)
    executors.refresh()  # or whoever asks first about a run on a cluster would hear that nothing is known of it
    app = create_application(
        services,
        check_ready=lambda: _check_ready(store),
        make_id=make_id,
        url=url,
        reads_are_local=store.dialect == "sqlite",
        background=lambda: background.beside(folder, controller, retention, scheduler),
        run_events=run_events,
        page=PAGE,
        served_host=settings.served_host,
    )
    return Server(app, store, token, word if settings.auth == "local" else None, executor, executors)


def up(settings: Settings) -> int:
    """Serve until told to end."""
    os.umask(0o077)  # what the server writes is for its own user
    with hosting.alone(settings.data), hosting.listening(settings.host, settings.port) as (listener, url):
        found = settings.data / "server.json"
        found.unlink(missing_ok=True)  # of a server that was killed
        server = build_server(settings, settings.public_url or url)
        hosting.write_private(found, json.dumps({"url": url, "pid": os.getpid()}))
        _greet(settings, server, url)
        configuration = uvicorn.Config(
            server.app,
            ws="wsproto",
            ws_max_size=MAX_MESSAGE_BYTES,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
            server_header=False,
        )
        # Uvicorn ends by the signal that it was sent, once more; what is below must still be done.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        serving = uvicorn.Server(configuration)
        server.app.state.is_shutting_down = lambda: serving.should_exit
        if settings.idle_seconds is not None:
            background.end_when_idle(
                lambda: setattr(serving, "should_exit", True),
                lambda: server.app.state.metrics.idle_seconds,
                server.store,
                settings.idle_seconds,
            )
        try:
            serving.run(sockets=[listener])
        except KeyboardInterrupt:
            pass
        finally:
            found.unlink(missing_ok=True)
            if server.executor is not None:
                server.executor.close()
            server.executors.close()
            server.store.close()
    return 0


def rotate_keys(settings: Settings) -> int:
    """Seal every secret with a new key. With keys from a variable: with the first of them."""
    with _platform(settings) as store:
        if settings.secret_keys is None:
            keyrings.rotate_key_file(settings.key_file)
        count = build_services(store, _open_keyring(settings))[0].secrets.reseal(KEEPER)
    kept = "older keys are kept until `fairlead keys forget`"
    if settings.secret_keys is not None:
        kept = "older keys can be taken out of FAIRLEAD_SECRET_KEYS"
    print(f"{count} secret{'' if count == 1 else 's'} sealed with the new key; {kept}")
    return 0


def forget_keys(settings: Settings) -> int:
    """Forget every key but the one that seals, where no secret needs another."""
    if settings.secret_keys is not None:
        raise FairleadError("the keys are in FAIRLEAD_SECRET_KEYS", "take the older ones out of it")
    with _platform(settings) as store:
        needed = build_services(store, _open_keyring(settings))[0].secrets.count_stale(KEEPER)
    if needed:
        message = f"{needed} secret{' is' if needed == 1 else 's are'} sealed with an older key"
        raise FairleadError(message, "run `fairlead keys rotate` first")
    forgotten = keyrings.forget_old_keys(settings.key_file)
    print(f"{len(forgotten)} older key{'' if len(forgotten) == 1 else 's'} forgotten")
    return 0


COMMANDS = {"up": up, "rotate-keys": rotate_keys, "forget-keys": forget_keys}


def main() -> int:
    """`python -m fairlead.app up` and other commands, with options that win over variables and the file."""
    parser = argparse.ArgumentParser(prog="fairlead.app")
    parser.add_argument("command", choices=tuple(COMMANDS))
    for name in ("host", "port", "data", "database", "folder", "auth", "capacity", "idle-seconds"):
        parser.add_argument(f"--{name}")
    said = vars(parser.parse_args())
    command = said.pop("command")
    problems = unknown_variables(os.environ)
    try:
        settings = Settings(**{name: value for name, value in said.items() if value is not None})
        problems += problems_of(settings)
    except ValidationError as error:
        problems += describe_mistakes(error)
    except ValueError as error:  # the file is no TOML, or no text
        problems.append(f"fairlead.toml cannot be read: {error}")
    if problems:
        print("\n".join(f"error: {problem}" for problem in problems), file=sys.stderr)
        return 2
    logs.configure(settings.log_level)
    try:
        return COMMANDS[command](settings)
    except FairleadError as error:
        print(error.terminal_text, file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename or 'a file'}: {(error.strerror or str(error)).lower()}", file=sys.stderr)
    return 1


@contextlib.contextmanager
def _platform(settings: Settings) -> Iterator[DatabaseStore]:
    """The database of a server that was started before. An empty one is not what anybody means."""
    if settings.database is None and not (settings.data / "fairlead.db").exists():
        raise FairleadError(f"there is no database in {settings.data}", "say which one it is: --data or --database")
    with contextlib.closing(DatabaseStore(settings.database_url)) as store:
        if migrating.current(store.engine) is None:
            raise FairleadError("the database is empty", "say which one it is: --data or --database")
        migrating.migrate(store.engine)
        yield store


def _open_keyring(settings: Settings) -> Keyring:
    if settings.secret_keys is not None:
        return keyrings.AesKeyring(keyrings.parse_keys(settings.secret_keys))
    if not settings.key_file.exists():
        keyrings.create_key_file(settings.key_file)
    return keyrings.AesKeyring.from_file(settings.key_file)


def _open_entrance(settings: Settings) -> Entrance:
    link = settings.auth == "local"
    if settings.oidc_issuer is None or settings.oidc_audience is None:
        return Entrance(link=link)
    identity = OidcAuthenticator(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        user_claim=settings.oidc_user_claim,
        groups_claim=settings.oidc_groups_claim,
        clock=now,
    )
    client, secret = settings.oidc_client_id, settings.oidc_client_secret
    login = OidcLogin(identity, client, secret.get_secret_value() if secret else None) if client else None
    return Entrance(identity, login, link)


def _keep_token(settings: Settings, founding: FirstRun) -> tuple[str, str]:
    """The token of this machine, in a file that only its owner can read; and a word to sign in with."""
    file = settings.data / "token"
    known = file.read_bytes().decode("utf-8", "replace").strip() if file.exists() else None
    machine = f"{socket.gethostname()}:{settings.data.resolve()}"
    token, word = founding.let_in(settings.local_user, machine, known)
    if token != known:
        hosting.write_private(file, token + "\n")
    return token, word


def _read_platform_id(store: Store) -> str:
    with store.reading() as tx:
        platform = tx.get(ScopeRecord, scope=PLATFORM)
    assert platform is not None, "a platform was founded"
    return platform.id


def _check_ready(store: Store) -> None:
    with store.reading() as tx:
        _ = tx.generation


def _open_executor(settings: Settings) -> LocalExecutor | None:
    if not settings.execute:
        return None
    runtime = find_runtime(settings.python, os.environ)
    return LocalExecutor(settings.data, find_machine(settings.data, settings.capacity), runtime)


def _greet(settings: Settings, server: Server, url: str) -> None:
    """What a person who started the server wants to know. The token itself only on a terminal: it lasts."""
    file = settings.data / "token"
    shown = f"{server.token}  (also in {file})" if sys.stdout.isatty() else str(file)
    lines = [f"Fairlead {fairlead.__version__} serves at {url}", f"  token    {shown}"]
    if server.link_word is not None:
        lines.append(f"  sign in  {url}/login?code={server.link_word}  (works once, within 15 minutes)")
    if server.executor is not None:
        lines.append(f"  runs     {describe_isolation(server.executor.machine, is_root=server.executor.is_root)}")
    lines.append(f'  try      curl -H "Authorization: Bearer $(cat {file})" {url}/api/v1/me')
    print("\n".join(lines), flush=True)


if __name__ == "__main__":
    sys.exit(main())
