"""What a server is started with: `fairlead.toml`, or variables that begin with FAIRLEAD_. Only `app.py` reads them."""

import getpass
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

from fairlead.model.hosts import is_host, is_loopback
from fairlead.model.numbers import parse_bytes, parse_count, parse_cpu
from fairlead.model.parsing import collect, nearest, show
from fairlead.model.quantities import Quantity
from fairlead.ports import OWN_USERS

# What other parts of Fairlead read: the doors, and runs.
OTHER_VARIABLES = (
    *("FAIRLEAD_URL", "FAIRLEAD_TOKEN", "FAIRLEAD_PROJECT", "FAIRLEAD_RUN", "FAIRLEAD_EXAMPLES"),
    *("FAIRLEAD_HOME", "FAIRLEAD_OUTPUT"),
)
SHOWN = (
    *("host", "port", "auth", "log_level", "admins", "capacity", "python", "idle_seconds", "execute"),
    *("keep_runs_days", "keep_logs_days", "keep_objects_minutes"),
)
CAPACITY = {"cpu": parse_cpu, "mem": parse_bytes, "disk": parse_bytes, "gpu": parse_count, "runs": parse_count}


class Settings(BaseSettings):
    """Every setting, with the value that it has where nobody sets it."""

    model_config = SettingsConfigDict(
        env_prefix="FAIRLEAD_",
        toml_file="fairlead.toml",
        extra="forbid",
        frozen=True,
        env_ignore_empty=True,
        arbitrary_types_allowed=True,
    )

    host: str = Field("127.0.0.1", description="the address to listen on")
    port: int = Field(8470, ge=0, le=65535, description="the port to listen on; 0 for any free one")
    public_url: str | None = Field(None, description="the address under which others reach the server")
    served_host: str | None = Field(
        None,
        description="the name below which each run that serves something has a host of its own for browsers, such as "
        "apps.example.com; every name below it must lead to the server",
    )
    data: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("fairlead")),
        description="the folder for the database, the token of this machine and the key of the secrets",
    )
    database: str | None = Field(
        None, description="the database: postgresql://..., or a SQLite file in the data folder where it is not said"
    )
    auth: Literal["local", "tokens", "oidc"] = Field(
        "local", description="who is let in: only this machine, whoever has a token, or whoever an issuer knows as well"
    )
    admins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="who governs the platform: user:<name> or group:<name>, with commas between them"
    )
    oidc_issuer: str | None = Field(None, description="the issuer of OpenID Connect tokens")
    oidc_audience: str | None = Field(None, description="the audience that its tokens must be for")
    oidc_user_claim: str = Field("sub", description="the claim that names the user")
    oidc_groups_claim: str = Field("groups", description="the claim that lists the groups of the user")
    oidc_client_id: str | None = Field(None, description="as whom the server is known to the issuer: browsers sign in")
    oidc_client_secret: SecretStr | None = Field(None, description="the secret of that client, where it has one")
    secret_keys: str | None = Field(
        None, description="the keys of the secrets in base64, the sealing one first, with commas between them"
    )
    secret_key_file: Path | None = Field(None, description="the file with the keys of the secrets, one in each line")
    folder: Path | None = Field(
        None, description="a folder with documents that is applied when the server starts and when it changes"
    )
    execute: bool = Field(True, description="whether this server executes runs on the machine that it is on")
    capacity: Annotated[dict[str, Quantity], NoDecode] = Field(
        default_factory=dict,
        description="what of this machine runs may use, such as cpu=8,mem=32Gi,disk=100Gi,gpu=1,runs=20, "
        "where that is not all that it has",
    )
    python: Path = Field(
        default_factory=lambda: Path(sys.executable),
        description="the interpreter with which Python functions run; the one of the server where it is not said",
    )
    keep_runs_days: float = Field(90, gt=0, description="after how many days a run that has ended is forgotten")
    keep_logs_days: float = Field(30, gt=0, description="after how many days its log and files are")
    keep_objects_minutes: float = Field(
        60, ge=0, description="after how many minutes the objects of a run that has ended are removed from its cluster"
    )
    idle_seconds: float | None = Field(
        None,
        gt=0,
        description="end the server when for so long nothing runs and nobody asks; not said: never",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="what the log tells")

    @field_validator("admins", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("served_host")
    @classmethod
    def _read_served_host(cls, value: str | None) -> str | None:
        name = None if value is None else value.lower().removesuffix(".")
        if name is not None and not is_host(f"{'0' * 32}.{name}"):  # as the host of a run would be
            raise ValueError(f"{show(value)} is no name of hosts: write it without a scheme, a port and a star")
        return name

    @field_validator("capacity", mode="before")
    @classmethod
    def _read_capacity(cls, value: object) -> object:
        if isinstance(value, str):
            parts = [part.partition("=") for part in value.split(",") if part.strip()]
            value = {name.strip(): amount.strip() for name, _, amount in parts}
        if not isinstance(value, dict):
            raise ValueError("write amounts by name, such as cpu=8,mem=32Gi")
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
        """What is typed wins over variables, variables over the file."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)

    @property
    def database_url(self) -> str:
        """Where the database is."""
        return self.database or f"sqlite:///{self.data / 'fairlead.db'}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return is_loopback(self.host)

    @property
    def key_file(self) -> Path:
        """Where the keys of the secrets are."""
        return self.secret_key_file or self.data / "secret.key"

    @property
    def local_user(self) -> str:
        """Who starts the server, and so governs it: a name that no issuer may give to anybody."""
        return f"{getpass.getuser()}{OWN_USERS}"


def _parse_amount(name: str, amount: object) -> Quantity:
    if name not in CAPACITY and "/" not in name:
        raise ValueError(f"there is no {show(name)}: {nearest(name, CAPACITY, 'name one of {known}')}")
    parse = CAPACITY.get(name, parse_count)
    mistakes = list(collect(name, parse, amount))
    if mistakes:
        raise ValueError("; ".join(f"{mistake.at} {mistake.message}: {mistake.hint}" for mistake in mistakes))
    return parse(amount)


def problems_of(settings: Settings) -> list[str]:
    """What keeps a server from being started with these settings."""
    problems = []
    if not settings.is_local and settings.auth == "local":
        problems.append(
            f"host is {settings.host}, which others can reach, and auth is local: set auth to tokens or oidc, "
            "or leave host at 127.0.0.1"
        )
    if settings.auth == "oidc" and not (settings.oidc_issuer and settings.oidc_audience):
        problems.append("auth is oidc, and oidc_issuer or oidc_audience is not set: set both")
    problems += [
        f"{name} is set, and auth is {settings.auth}: set auth to oidc"
        for name in ("oidc_issuer", "oidc_client_id", "oidc_client_secret")
        if settings.auth != "oidc" and getattr(settings, name)
    ]
    if settings.oidc_client_secret and not settings.oidc_client_id:
        problems.append("oidc_client_secret is set, and oidc_client_id is not: set both, or leave the secret out")
    if settings.oidc_client_id and not (settings.is_local or settings.public_url):
        problems.append(
            f"oidc_client_id is set, host is {settings.host} and public_url is not set: set public_url to the address "
            "that browsers use, to which the issuer sends them back"
        )
    problems += [
        f"admins has {name!r}, which is neither a user nor a group: write user:<name> or group:<name>"
        for name in settings.admins
        if name.partition(":")[0] not in ("user", "group") or not name.partition(":")[2]
    ]
    return problems


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables with our prefix that mean nothing: a typo would otherwise be ignored."""
    settings = {f"FAIRLEAD_{name.upper()}" for name in Settings.model_fields}
    known = settings | set(OTHER_VARIABLES)
    return [
        f"there is no setting {name}: {nearest(name, settings, 'see the documentation')}"
        for name in sorted(environment)
        if name.startswith("FAIRLEAD_") and name not in known
    ]


def describe_mistakes(error: ValidationError) -> list[str]:
    """What is wrong with the settings, one sentence for each. Most values are not repeated: they may be secrets."""
    return [_describe(found) for found in error.errors(include_url=False)]


def _describe(found: ErrorDetails) -> str:
    name = ".".join(map(str, found["loc"]))
    if found["type"] == "extra_forbidden":
        return f"there is no setting {name}: {nearest(name, Settings.model_fields, 'see the documentation')}"
    if found["type"] == "value_error":  # said by us
        return f"{name}: {found['ctx']['error']}"
    shown = f", found {show(found['input'])}" if name in SHOWN else ""
    return f"{name}: {found['msg'].lower()}{shown}"
