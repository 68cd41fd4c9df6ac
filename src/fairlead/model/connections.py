"""Connections to Kubernetes API servers."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Connection:
    """The address and credentials of an API server. Certificates and keys are in PEM format."""

    server: str
    ca: str | None = None  # None: the system's certificate authorities
    token: str = field(default="", repr=False)
    token_file: str | None = None  # Kubernetes rotates the token in this file, so the client rereads it every minute
    certificate: str | None = None
    key: str | None = field(default=None, repr=False)
    tls_server_name: str | None = None  # the name in the server certificate, if it is not the host of `server`
    insecure: bool = False
