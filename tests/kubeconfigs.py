"""Valid kubeconfigs for tests, with replaceable parts."""

import base64
from typing import Any

# Fake values with a valid format, which is all that is checked before a connection.
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nTm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN RSA PRIVATE KEY-----\nTm90IGEga2V5\n-----END RSA PRIVATE KEY-----\n"
SERVER = "https://127.0.0.1:6443"
TOKEN = "planted-token-of-fairlead"


def encode(text: str) -> str:
    """Base64-encoded text, as in kubeconfigs."""
    return base64.b64encode(text.encode()).decode()


def make_kubeconfig(
    *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, **parts: Any
) -> dict[str, Any]:
    """A kubeconfig with two contexts; `main` is the current one. Arguments replace parts."""
    cluster_fields = (
        cluster if cluster is not None else {"server": SERVER, "certificate-authority-data": encode(CERTIFICATE)}
    )
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "preferences": {},
        "contexts": [
            {"name": "other", "context": {"cluster": "other", "user": "other"}},
            {"name": "main", "context": {"cluster": "one", "user": "ada", "namespace": "default"}},
        ],
        "clusters": [
            {"name": "other", "cluster": {"server": "https://elsewhere.example:6443"}},
            {"name": "one", "cluster": cluster_fields},
        ],
        "users": [
            {"name": "other", "user": {"exec": {"command": "aws", "apiVersion": "v1"}}},
            {"name": "ada", "user": user if user is not None else {"token": TOKEN}},
        ],
        **parts,
    }
