"""Kubeconfigs: a context becomes a connection, or all violations are reported without secrets."""

import json
from typing import Any

import pytest

from fairlead.errors import RequestRejected
from fairlead.files import kubeconfigs
from fairlead.model.project_objects import Connection
from tests.kubeconfigs import CERTIFICATE, KEY, SERVER, TOKEN, encode, make_kubeconfig

CLUSTER, USER = "kubeconfig.clusters[1].cluster", "kubeconfig.users[1].user"
CA = {"server": SERVER, "certificate-authority-data": encode(CERTIFICATE)}


def parse(document: Any, context: str | None = None) -> Connection:
    return kubeconfigs.to_connection(kubeconfigs.select_context(document, context))


def test_the_current_context_becomes_a_connection() -> None:
    assert parse(make_kubeconfig()) == Connection(server=SERVER, ca=CERTIFICATE, token=TOKEN)


def test_a_client_certificate_authenticates() -> None:
    user = {"client-certificate-data": encode(CERTIFICATE), "client-key-data": encode(KEY)}
    connection = parse(make_kubeconfig(user=user))
    assert (connection.certificate, connection.key, connection.token) == (CERTIFICATE, KEY, "")


def test_base64_may_be_broken_into_lines() -> None:
    text = encode(CERTIFICATE)
    cluster = {"server": SERVER, "certificate-authority-data": f"{text[:20]}\n  {text[20:]}\n"}
    assert parse(make_kubeconfig(cluster=cluster)).ca == CERTIFICATE


def test_server_path_and_tls_options_are_kept() -> None:
    cluster = {"server": "https://10.0.0.1/k8s/", "tls-server-name": "kubernetes", "insecure-skip-tls-verify": True}
    connection = parse(make_kubeconfig(cluster=cluster))
    assert (connection.server, connection.tls_server_name, connection.insecure) == (
        "https://10.0.0.1/k8s",
        "kubernetes",
        True,
    )


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]", "LOCALHOST"])
def test_plain_http_is_allowed_for_localhost(host: str) -> None:
    assert parse(make_kubeconfig(cluster={"server": f"http://{host}:8080"})).server == f"http://{host}:8080"


def test_extensions_and_other_contexts_are_removed() -> None:
    document = make_kubeconfig(cluster={**CA, "extensions": [{"name": "minikube", "extension": {}}]})
    selected = kubeconfigs.select_context(document)
    minified = kubeconfigs.minify(selected)
    assert "elsewhere" not in json.dumps(minified)
    assert "aws" not in json.dumps(minified)
    assert "extensions" not in json.dumps(minified)
    assert parse(minified) == parse(document)


def test_a_serialized_kubeconfig_gives_the_same_connection() -> None:
    selected = kubeconfigs.select_context(make_kubeconfig(), "main")
    assert kubeconfigs.parse_serialized(kubeconfigs.serialize_kubeconfig(selected)) == (
        "main",
        kubeconfigs.to_connection(selected),
    )


INVALID_KUBECONFIGS: list[tuple[str, dict[str, Any], str | None, list[tuple[str, str]]]] = [
    ("unknown context", {}, "mian", [("context", "unknown_context")]),
    ("an empty context", {}, "", [("kubeconfig.current-context", "required")]),
    ("no current context", {"current-context": ""}, None, [("kubeconfig.current-context", "required")]),
    (
        "unknown current context",
        {"current-context": "gone"},
        None,
        [("kubeconfig.current-context", "unknown_context")],
    ),
    (
        "a current context that is not a string",
        {"current-context": 5},
        None,
        [("kubeconfig.current-context", "required")],
    ),
    ("contexts that are not a list", {"contexts": {"main": {}}}, None, [("kubeconfig.contexts", "list")]),
    ("no contexts", {"contexts": None}, "main", [("kubeconfig.contexts", "list")]),
    ("contexts that are not mappings", {"contexts": ["main"]}, "main", [("context", "unknown_context")]),
    (
        "a context without fields",
        {"contexts": [{"name": "main"}]},
        None,
        [("kubeconfig.contexts[0].context", "mapping")],
    ),
    (
        "a context without a cluster",
        {"contexts": [{"name": "main", "context": {"user": "ada"}}]},
        None,
        [("kubeconfig.contexts[0].context.cluster", "required")],
    ),
    (
        "unknown cluster",
        {"contexts": [{"name": "main", "context": {"cluster": "two", "user": "ada"}}]},
        None,
        [("kubeconfig.contexts[0].context.cluster", "unknown_cluster")],
    ),
    (
        "unknown user",
        {"contexts": [{"name": "main", "context": {"cluster": "one", "user": "adda"}}]},
        None,
        [("kubeconfig.contexts[0].context.user", "unknown_user")],
    ),
    (
        "two clusters with the same name",
        {"clusters": [{"name": "one", "cluster": CA}, {"name": "one", "cluster": CA}]},
        None,
        [("kubeconfig.clusters[1].name", "duplicate")],
    ),
    ("another kind of document", {"kind": "Pod"}, None, [("kubeconfig", "mapping")]),
    # The cluster
    ("no server", {"cluster": {}}, None, [(f"{CLUSTER}.server", "required")]),
    ("a server that is not a URL", {"cluster": {"server": "main"}}, None, [(f"{CLUSTER}.server", "url")]),
    ("a server that is a number", {"cluster": {"server": 6443}}, None, [(f"{CLUSTER}.server", "url")]),
    ("another protocol", {"cluster": {"server": "ftp://10.0.0.1"}}, None, [(f"{CLUSTER}.server", "url")]),
    *(
        (f"invalid host {host}", {"cluster": {"server": f"https://{host}"}}, None, [(f"{CLUSTER}.server", "url")])
        for host in ("999.1.1.1", "[::::]:6443", "a..b:6443", f"{'a' * 64}.b", "h:99999", "h:0", "-a.b")
    ),
    *(
        (
            f"invalid TLS server name {name[:5]!r}",
            {"cluster": {**CA, "tls-server-name": name}},
            None,
            [(f"{CLUSTER}.tls-server-name", "host")],
        )
        for name in (".", "a\0b", "a" * 300)
    ),
    ("a server with a query", {"cluster": {"server": f"{SERVER}?a=b"}}, None, [(f"{CLUSTER}.server", "url")]),
    (
        "a password in the server URL",
        {"cluster": {"server": "https://a:planted@b"}},
        None,
        [(f"{CLUSTER}.server", "url")],
    ),
    ("plain HTTP to another host", {"cluster": {"server": "http://10.0.0.1:80"}}, None, [(f"{CLUSTER}.server", "tls")]),
    (
        "plain HTTP to a host that starts with localhost",
        {"cluster": {"server": "http://localhost.example:80"}},
        None,
        [(f"{CLUSTER}.server", "tls")],
    ),
    (
        "a CA file",
        {"cluster": {"server": SERVER, "certificate-authority": "/etc/ca.crt"}},
        None,
        [(f"{CLUSTER}.certificate-authority", "file")],
    ),
    (
        "CA data that is not base64",
        {"cluster": {**CA, "certificate-authority-data": "planted!"}},
        None,
        [(f"{CLUSTER}.certificate-authority-data", "base64")],
    ),
    (
        "CA data that is not text",
        {"cluster": {**CA, "certificate-authority-data": "/////w=="}},
        None,
        [(f"{CLUSTER}.certificate-authority-data", "base64")],
    ),
    (
        "CA data that is not a certificate",
        {"cluster": {**CA, "certificate-authority-data": encode("planted")}},
        None,
        [(f"{CLUSTER}.certificate-authority-data", "pem")],
    ),
    (
        "CA data that is a list",
        {"cluster": {**CA, "certificate-authority-data": ["planted"]}},
        None,
        [(f"{CLUSTER}.certificate-authority-data", "base64")],
    ),
    (
        "insecure and with CA data",
        {"cluster": {**CA, "insecure-skip-tls-verify": True}},
        None,
        [(f"{CLUSTER}.insecure-skip-tls-verify", "contradiction")],
    ),
    (
        "insecure is not a boolean",
        {"cluster": {"server": SERVER, "insecure-skip-tls-verify": "yes"}},
        None,
        [(f"{CLUSTER}.insecure-skip-tls-verify", "type")],
    ),
    (
        "a TLS server name that is a number",
        {"cluster": {**CA, "tls-server-name": 5}},
        None,
        [(f"{CLUSTER}.tls-server-name", "text")],
    ),
    (
        "a proxy",
        {"cluster": {**CA, "proxy-url": "http://proxy:3128"}},
        None,
        [(f"{CLUSTER}.proxy-url", "not_built")],
    ),
    ("an unknown cluster field", {"cluster": {**CA, "sever": "x"}}, None, [(f"{CLUSTER}.sever", "unknown_field")]),
    # The user
    ("no credentials", {"user": {}}, None, [(USER, "required")]),
    ("an exec plugin", {"user": {"exec": {"command": "aws"}}}, None, [(f"{USER}.exec", "plugin")]),
    ("an auth provider", {"user": {"auth-provider": {"name": "oidc"}}}, None, [(f"{USER}.auth-provider", "plugin")]),
    (
        "a username and a password",
        {"user": {"username": "ada", "password": "planted"}},
        None,
        [(f"{USER}.username", "password"), (f"{USER}.password", "password")],
    ),
    ("a token file", {"user": {"tokenFile": "/var/token"}}, None, [(f"{USER}.tokenFile", "file")]),
    (
        "a token and a token file",
        {"user": {"token": TOKEN, "tokenFile": "/var/token"}},
        None,
        [(f"{USER}.tokenFile", "file")],
    ),
    (
        "certificate and key files",
        {"user": {"client-certificate": "a.crt", "client-key": "a.key"}},
        None,
        [(f"{USER}.client-certificate", "file"), (f"{USER}.client-key", "file")],
    ),
    (
        "a certificate without its key",
        {"user": {"client-certificate-data": encode(CERTIFICATE)}},
        None,
        [(f"{USER}.client-key-data", "required")],
    ),
    (
        "a certificate whose key is a file",
        {"user": {"client-certificate-data": encode(CERTIFICATE), "client-key": "a.key"}},
        None,
        [(f"{USER}.client-key", "file")],
    ),
    ("a token with a line break", {"user": {"token": "planted\ntoken"}}, None, [(f"{USER}.token", "token")]),
    ("a token that is a number", {"user": {"token": 5}}, None, [(f"{USER}.token", "token")]),
    (
        "a token with characters not allowed in a header",
        {"user": {"token": "plänted"}},
        None,
        [(f"{USER}.token", "token")],
    ),
    ("impersonation", {"user": {"token": TOKEN, "as": "root"}}, None, [(f"{USER}.as", "not_built")]),
    (
        "an unknown user field",
        {"user": {"token": TOKEN, "tokenfile": "x"}},
        None,
        [(f"{USER}.tokenfile", "unknown_field")],
    ),
    # Several violations
    (
        "several violations",
        {"cluster": {"server": "main", "proxy-url": "http://x"}, "user": {"exec": {"command": "aws"}, "token": "a b"}},
        None,
        [
            (f"{CLUSTER}.proxy-url", "not_built"),
            (f"{CLUSTER}.server", "url"),
            (f"{USER}.exec", "plugin"),
            (f"{USER}.token", "token"),
        ],
    ),
]


@pytest.mark.parametrize(
    ("parts", "context", "expected"),
    [case[1:] for case in INVALID_KUBECONFIGS],
    ids=[case[0] for case in INVALID_KUBECONFIGS],
)
def test_unusable_kubeconfigs_are_rejected_with_a_hint(
    parts: dict[str, Any], context: str | None, expected: list[tuple[str, str]]
) -> None:
    with pytest.raises(RequestRejected) as caught:
        parse(make_kubeconfig(**parts), context)
    assert [(violation.path, violation.rule) for violation in caught.value.violations] == expected
    for violation in caught.value.violations:
        assert violation.hint, violation
        assert "planted" not in f"{violation.message} {violation.hint}", violation


@pytest.mark.parametrize("document", [None, [], "x", 5, {"kind": "List"}])
def test_other_documents_are_rejected(document: Any) -> None:
    with pytest.raises(RequestRejected, match="must be a mapping of kind Config"):
        parse(document)


def test_known_contexts_are_in_the_hint() -> None:
    with pytest.raises(RequestRejected) as caught:
        parse(make_kubeconfig(), "production")
    assert caught.value.violations[0].hint == "known: main, other"
    with pytest.raises(RequestRejected) as caught:
        parse(make_kubeconfig(), "mian")
    assert caught.value.violations[0].hint == "did you mean main?"


def test_the_hint_for_exec_plugins_names_the_alternative() -> None:
    with pytest.raises(RequestRejected) as caught:
        parse(make_kubeconfig(), "other")
    (violation,) = caught.value.violations
    assert violation.path == "kubeconfig.users[0].user.exec"
    assert "fairlead clusters rbac" in (violation.hint or "")


def test_a_connection_does_not_show_its_secrets() -> None:
    user = {"token": TOKEN, "client-certificate-data": encode(CERTIFICATE), "client-key-data": encode(KEY)}
    text = repr(parse(make_kubeconfig(user=user)))
    assert TOKEN not in text
    assert "Tm90IGEga2V5" not in text
