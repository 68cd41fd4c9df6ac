"""How a Kubernetes API server is reached."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Connection:
    """An API server, and as whom it is spoken to. Texts of certificates and keys are PEM."""

    server: str
    ca: str | None = None
    token: str = field(default="", repr=False)
    token_file: str | None = None  # a token that is replaced by another one from time to time
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    tls_server_name: str | None = None
    insecure: bool = False
