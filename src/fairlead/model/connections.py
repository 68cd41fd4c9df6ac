"""Connections to Kubernetes API servers."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Connection:
    """The address and credentials of an API server. Certificates and keys are PEM."""

    server: str
    ca: str | None = None
    token: str = field(default="", repr=False)
    token_file: str | None = None  # a file whose token is rotated by the cluster
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    tls_server_name: str | None = None
    insecure: bool = False
