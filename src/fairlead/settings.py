"""Server settings from `fairlead.toml` and FAIRLEAD_ variables. Only `app.py` reads them."""

import getpass
import ipaddress
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from fairlead.model.names import is_host, is_loopback
from fairlead.model.parsing import collect_mistakes, short_repr, suggest_names
from fairlead.model.quantities import Duration, Quantity, Seconds, parse_bytes, parse_count, parse_cpu
from fairlead.ports import OWN_USERS

# Environment variables that the CLI, the SDK and runs read.
OTHER_VARIABLES = (
    *("FAIRLEAD_URL", "FAIRLEAD_TOKEN", "FAIRLEAD_PROJECT", "FAIRLEAD_RUN", "FAIRLEAD_EXAMPLES"),
    *("FAIRLEAD_HOME", "FAIRLEAD_OUTPUT", "FAIRLEAD_SERVER_USER"),
)
SHOWN_VALUES = (  # settings whose invalid values may be shown, because they are not secret
    *("host", "port", "auth", "log_level", "admins", "capacity", "max_processes", "python", "idle_seconds", "execute"),
    *("readable_paths", "max_connections", "trusted_proxies", "reserve_after"),
    *("keep_runs_days", "keep_logs_days", "keep_objects_minutes"),
)
CAPACITY = {"cpu": parse_cpu, "mem": parse_bytes, "disk": parse_bytes, "gpu": parse_count, "runs": parse_count}


class Settings(BaseSettings):
    """All settings of a server with their defaults."""

    model_config = SettingsConfigDict(
        env_prefix="FAIRLEAD_",
        toml_file="fairlead.toml",
        extra="forbid",  # so that a misspelled setting in the file is an error
        frozen=True,
        env_ignore_empty=True,  # compose files and charts pass empty variables for settings without a value
        arbitrary_types_allowed=True,
    )

    host: str = Field("127.0.0.1", description="the address to listen on")
    port: int = Field(8470, ge=0, le=65535, description="the port to listen on; 0 for any free port")
    public_url: str | None = Field(None, description="the URL at which clients reach the server")
    served_host: str | None = Field(
        None,
        description="the domain under which each served run gets its own host name, such as apps.example.com; "
        "its wildcard DNS record must point to the server",
    )
    data: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("fairlead")),
        description="the folder for the database, this machine's token and the secret keys",
    )
    database: str | None = Field(
        None, description="the database URL postgresql://...; by default a SQLite file in the data folder"
    )
    auth: Literal["local", "tokens", "oidc"] = Field(
        "local",
        description="who can sign in: only local users, anyone with a token, or also users of an OpenID Connect issuer",
    )
    # Without NoDecode, pydantic-settings would expect JSON in the variable.
    admins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="platform administrators: user:<name> or group:<name>, separated by commas"
    )
    oidc_issuer: str | None = Field(None, description="the URL of the OpenID Connect issuer")
    oidc_audience: str | None = Field(None, description="the audience that the issuer's tokens must have")
    # `sub` is the only claim that OpenID Connect guarantees is never reassigned to a different user.
    oidc_user_claim: str = Field("sub", description="the claim that contains the user name")
    oidc_groups_claim: str = Field("groups", description="the claim that contains the user's groups")
    oidc_client_id: str | None = Field(None, description="the client ID for browser sign-in through the issuer")
    oidc_client_secret: SecretStr | None = Field(None, description="the client secret, if the client has one")
    secret_keys: str | None = Field(
        None, description="base64 keys for encrypting secrets, separated by commas; the first key encrypts new values"
    )
    secret_key_file: Path | None = Field(None, description="a file with the keys for encrypting secrets, one per line")
    folder: Path | None = Field(None, description="a folder of config files, applied at startup and on every change")
    execute: bool = Field(True, description="whether this server executes runs on its own machine")
    capacity: Annotated[dict[str, Quantity], NoDecode] = Field(
        default_factory=dict,
        description="the resources of this machine that runs may use, such as "
        "cpu=8,mem=32Gi,disk=100Gi,gpu=1,runs=20; by default all of them",
    )
    max_processes: int = Field(
        4096, ge=10, description="the maximum number of processes and threads of one run on this machine"
    )
    python: Path = Field(
        default_factory=lambda: Path(sys.executable),
        description="the interpreter for Python functions; by default the server's own",
    )
    id_table: Path = Field(
        Path("/var/lib/fairlead-ids/ids.db"),
        description="the table of user and group IDs of runs, shared by all servers that run as root on this machine",
    )
    readable_paths: Annotated[tuple[Path, ...], NoDecode] = Field(
        (),
        description="files and folders that runs on this machine may read, even inside hidden folders such as the home "
        "folder, separated by commas",
    )
    reserve_after: Seconds = Field(
        Duration(300),
        description="how long a run waits before this machine reserves what it requests, such as 90, 5m or 1h",
    )
    keep_runs_days: float = Field(90, gt=0, description="days after which a run that has ended is deleted")
    keep_logs_days: float = Field(30, gt=0, description="days after which a run's log and files are deleted")
    keep_objects_minutes: float = Field(
        60, ge=0, description="minutes after which a finished run's Kubernetes objects are deleted"
    )
    max_connections: int | None = Field(
        None,
        ge=16,
        description="the maximum number of client connections; by default as many as the limit for open files allows",
    )
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="addresses or networks of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto headers are "
        "trusted, separated by commas",
    )
    idle_seconds: float | None = Field(
        None,
        gt=0,
        description="seconds without runs or requests after which the server shuts down; by default never",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="the minimum log level")

    @field_validator("admins", "trusted_proxies", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for proxy in value:
            try:
                ipaddress.ip_network(proxy)
            except ValueError:
                hint = "write an IP address or a network, such as 10.0.0.5 or 10.0.0.0/24"
                raise ValueError(f"invalid address {short_repr(proxy)}: {hint}") from None
        return value

    @field_validator("readable_paths", mode="before")
    @classmethod
    def _read_paths(cls, value: object) -> object:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, (list, tuple)):
            raise ValueError("write paths separated by commas, such as /home/ada/data")
        paths = [Path(str(part).strip()) for part in parts if str(part).strip()]
        if missing := [str(path) for path in paths if not path.is_absolute() or not path.exists()]:
            raise ValueError(f"{short_repr(missing[0])} does not exist: write absolute paths, such as /home/ada/data")
        return tuple(paths)

    @field_validator("served_host")
    @classmethod
    def _read_served_host(cls, value: str | None) -> str | None:
        name = None if value is None else value.lower().removesuffix(".")
        if name is not None and not is_host(f"{'0' * 32}.{name}"):  # checked with a label as long as a run ID
            raise ValueError(f"invalid host name {short_repr(value)}: write it without a scheme, port or wildcard")
        return name

    @field_validator("capacity", mode="before")
    @classmethod
    def _read_capacity(cls, value: object) -> object:
        if isinstance(value, str):
            parts = [part.partition("=") for part in value.split(",") if part.strip()]
            value = {name.strip(): amount.strip() for name, _, amount in parts}
        if not isinstance(value, dict):
            raise ValueError("write amounts as name=amount, such as cpu=8,mem=32Gi")
        return {name: _parse_amount(name, amount) for name, amount in value.items()}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Options override variables, which override the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def database_url(self) -> str:
        """The database URL."""
        return self.database or f"sqlite:///{self.data / 'fairlead.db'}"

    @property
    def is_local(self) -> bool:
        """Whether the server is reachable only from this machine."""
        return is_loopback(self.host)

    @property
    def key_file(self) -> Path:
        """The file with the keys that encrypt secrets."""
        return self.secret_key_file or self.data / "secret.key"

    @property
    def local_user(self) -> str:
        """The user who starts the server, an administrator. The suffix is not allowed in names from an issuer."""
        try:
            name = getpass.getuser()
        except (KeyError, OSError):  # a user ID without a name, which is common in containers
            name = f"uid-{os.getuid()}"
        return f"{name}{OWN_USERS}"


def find_problems(settings: Settings) -> list[str]:
    """Return the reasons why a server cannot start with these settings."""
    problems = []
    # With local authentication, the sign-in link is for the person who started the server on this machine.
    if not settings.is_local and settings.auth == "local":
        problems.append(
            f"host is {settings.host}, which other machines can reach, but auth is local: set auth to tokens or oidc, "
            "or leave host at 127.0.0.1"
        )
    if settings.auth == "oidc" and not (settings.oidc_issuer and settings.oidc_audience):
        problems.append("auth is oidc, but oidc_issuer or oidc_audience is not set: set both")
    problems += [
        f"{name} is set, but auth is {settings.auth}: set auth to oidc"
        for name in ("oidc_issuer", "oidc_client_id", "oidc_client_secret")
        if settings.auth != "oidc" and getattr(settings, name)
    ]
    if settings.oidc_client_secret and not settings.oidc_client_id:
        problems.append("oidc_client_secret is set, but oidc_client_id is not: set both, or remove the secret")
    # A redirect URI must be registered with the issuer, so it cannot be derived from a request's Host header.
    if settings.oidc_client_id and not (settings.is_local or settings.public_url):
        problems.append(
            f"oidc_client_id is set and host is {settings.host}, but public_url is not set: set public_url to the "
            "server URL that browsers use, so that the issuer can redirect them there"
        )
    problems += [
        f"invalid entry {name!r} in admins: write user:<name> or group:<name>"
        for name in settings.admins
        if name.partition(":")[0] not in ("user", "group") or not name.partition(":")[2]
    ]
    return problems


def find_unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Report variables that have our prefix but are not settings. They are probably typos."""
    settings = {f"FAIRLEAD_{name.upper()}" for name in Settings.model_fields}
    known = settings | set(OTHER_VARIABLES)
    return [
        f"unknown setting {name}: {suggest_names(name, settings, 'see the documentation')}"
        for name in sorted(environment)
        if name.startswith("FAIRLEAD_") and name not in known
    ]


def describe_validation_errors(error: ValidationError) -> list[str]:
    """Describe each validation error. Most values are not shown because they may be secrets."""
    return [_describe(details) for details in error.errors(include_url=False)]


def _parse_amount(name: str, amount: object) -> Quantity:
    if name not in CAPACITY and "/" not in name:
        raise ValueError(f"unknown resource {short_repr(name)}: {suggest_names(name, CAPACITY, 'use one of {known}')}")
    parse = CAPACITY.get(name, parse_count)
    mistakes = list(collect_mistakes(name, parse, amount))
    if mistakes:
        raise ValueError("; ".join(f"{mistake.path} {mistake.message}: {mistake.hint}" for mistake in mistakes))
    return parse(amount)


def _describe(details: ErrorDetails) -> str:
    name = ".".join(map(str, details["loc"]))
    if details["type"] == "extra_forbidden":
        return f"unknown setting {name}: {suggest_names(name, Settings.model_fields, 'see the documentation')}"
    if details["type"] == "value_error":  # raised by the validators above
        return f"{name}: {details['ctx']['error']}"
    value = f", found {short_repr(details['input'])}" if name in SHOWN_VALUES else ""
    return f"{name}: {details['msg'].lower()}{value}"
