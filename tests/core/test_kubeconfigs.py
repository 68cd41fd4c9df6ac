"""Kubeconfigs: a context becomes a connection, or all violations are reported without secrets."""

import json
from typing import Any

import pytest

from fairlead.core import kubeconfigs
from fairlead.errors import RequestRejected
from fairlead.model.connections import Connection
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
    chosen = kubeconfigs.select_context(document)
    minified = kubeconfigs.minify(chosen)
    assert "elsewhere" not in json.dumps(minified)
    assert "aws" not in json.dumps(minified)
    assert "extensions" not in json.dumps(minified)
    assert parse(minified) == parse(document)


def test_a_serialized_kubeconfig_gives_the_same_connection() -> None:
    chosen = kubeconfigs.select_context(make_kubeconfig(), "main")
    assert kubeconfigs.parse_serialized(kubeconfigs.serialize_kubeconfig(chosen)) == (
        "main",
        kubeconfigs.to_connection(chosen),
    )


BAD: list[tuple[str, dict[str, Any], str | None, list[tuple[str, str]]]] = [
    ("no such context", {}, "mian", [("context", "unknown_context")]),
    ("an empty context", {}, "", [("kubeconfig.current-context", "required")]),
    ("no current context", {"current-context": ""}, None, [("kubeconfig.current-context", "required")]),
    (
        "a current context that is not there",
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
        "a context that says nothing",
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
        "a cluster that is not there",
        {"contexts": [{"name": "main", "context": {"cluster": "two", "user": "ada"}}]},
        None,
        [("kubeconfig.contexts[0].context.cluster", "unknown_cluster")],
    ),
    (
        "a user that is not there",
        {"contexts": [{"name": "main", "context": {"cluster": "one", "user": "adda"}}]},
        None,
        [("kubeconfig.contexts[0].context.user", "unknown_user")],
    ),
    (
        "two clusters of one name",
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
        (f"a server at {host}", {"cluster": {"server": f"https://{host}"}}, None, [(f"{CLUSTER}.server", "url")])
        for host in ("999.1.1.1", "[::::]:6443", "a..b:6443", f"{'a' * 64}.b", "h:99999", "h:0", "-a.b")
    ),
    *(
        (
            f"a name {name[:5]!r}",
            {"cluster": {**CA, "tls-server-name": name}},
            None,
            [(f"{CLUSTER}.tls-server-name", "host")],
        )
        for name in (".", "a\0b", "a" * 300)
    ),
    ("a server with a query", {"cluster": {"server": f"{SERVER}?a=b"}}, None, [(f"{CLUSTER}.server", "url")]),
    ("a password in the address", {"cluster": {"server": "https://a:planted@b"}}, None, [(f"{CLUSTER}.server", "url")]),
    ("in the open to others", {"cluster": {"server": "http://10.0.0.1:80"}}, None, [(f"{CLUSTER}.server", "tls")]),
    (
        "like this machine, and another",
        {"cluster": {"server": "http://localhost.example:80"}},
        None,
        [(f"{CLUSTER}.server", "tls")],
    ),
    (
        "a file of authorities",
        {"cluster": {"server": SERVER, "certificate-authority": "/etc/ca.crt"}},
        None,
        [(f"{CLUSTER}.certificate-authority", "file")],
    ),
    (
        "no base64",
        {"cluster": {**CA, "certificate-authority-data": "planted!"}},
        None,
        [(f"{CLUSTER}.certificate-authority-data", "base64")],
    ),
    (
        "base64 of no text",
        {"cluster": {**CA, "certificate-authority-data": "/////w=="}},
        None,
        [(f"{CLUSTER}.certificate-authority-data", "base64")],
    ),
    (
        "base64 of no certificate",
        {"cluster": {**CA, "certificate-authority-data": encode("planted")}},
        None,
        [(f"{CLUSTER}.certificate-authority-data", "pem")],
    ),
    (
        "authorities that are a list",
        {"cluster": {**CA, "certificate-authority-data": ["planted"]}},
        None,
        [(f"{CLUSTER}.certificate-authority-data", "base64")],
    ),
    (
        "believe all, and believe one",
        {"cluster": {**CA, "insecure-skip-tls-verify": True}},
        None,
        [(f"{CLUSTER}.insecure-skip-tls-verify", "contradiction")],
    ),
    (
        "neither true nor false",
        {"cluster": {"server": SERVER, "insecure-skip-tls-verify": "yes"}},
        None,
        [(f"{CLUSTER}.insecure-skip-tls-verify", "type")],
    ),
    (
        "a name that is a number",
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
    ("an unknown field", {"cluster": {**CA, "sever": "x"}}, None, [(f"{CLUSTER}.sever", "unknown_field")]),
    # The user
    ("nobody", {"user": {}}, None, [(USER, "required")]),
    ("a program", {"user": {"exec": {"command": "aws"}}}, None, [(f"{USER}.exec", "plugin")]),
    ("a provider", {"user": {"auth-provider": {"name": "oidc"}}}, None, [(f"{USER}.auth-provider", "plugin")]),
    (
        "a password",
        {"user": {"username": "ada", "password": "planted"}},
        None,
        [(f"{USER}.username", "password"), (f"{USER}.password", "password")],
    ),
    ("a file of a token", {"user": {"tokenFile": "/var/token"}}, None, [(f"{USER}.tokenFile", "file")]),
    (
        "a token and a file of a newer one",
        {"user": {"token": TOKEN, "tokenFile": "/var/token"}},
        None,
        [(f"{USER}.tokenFile", "file")],
    ),
    (
        "files of a certificate",
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
    ("a token of two lines", {"user": {"token": "planted\ntoken"}}, None, [(f"{USER}.token", "token")]),
    ("a token that is a number", {"user": {"token": 5}}, None, [(f"{USER}.token", "token")]),
    ("a token with letters of no header", {"user": {"token": "plänted"}}, None, [(f"{USER}.token", "token")]),
    ("somebody else", {"user": {"token": TOKEN, "as": "root"}}, None, [(f"{USER}.as", "not_built")]),
    ("a typo", {"user": {"token": TOKEN, "tokenfile": "x"}}, None, [(f"{USER}.tokenfile", "unknown_field")]),
    # All at once
    (
        "many mistakes",
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


@pytest.mark.parametrize(("parts", "context", "expected"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
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
    shown = repr(parse(make_kubeconfig(user=user)))
    assert TOKEN not in shown
    assert "Tm90IGEga2V5" not in shown
