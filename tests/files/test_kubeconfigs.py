"""Loading kubeconfigs as kubectl does: several files are merged, and referenced files are embedded."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fairlead.errors import RequestRejected
from fairlead.files import kubeconfigs
from fairlead.files.kubeconfigs import find_paths, load_kubeconfig
from tests.kubeconfigs import CERTIFICATE, KEY, SERVER, TOKEN, encode, make_kubeconfig


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document), "utf-8")
    return path


def violations_of(*paths: Path, context: str | None = None) -> list[tuple[str, str]]:
    with pytest.raises(RequestRejected) as caught:
        load_kubeconfig(paths, context)
    assert all(violation.hint for violation in caught.value.violations)
    return [(violation.path, violation.rule) for violation in caught.value.violations]


def test_kubeconfig_paths_are_those_of_kubectl(tmp_path: Path) -> None:
    assert find_paths(Path("a"), "b:c", tmp_path) == [Path("a")]
    assert find_paths(None, "b:c", tmp_path) == [Path("b"), Path("c")]
    for empty in (None, "", ":"):
        assert find_paths(None, empty, tmp_path) == [tmp_path / ".kube" / "config"]


def test_only_the_selected_context_is_sent(tmp_path: Path) -> None:
    path = write(tmp_path / "config", make_kubeconfig())
    loaded = load_kubeconfig([path])
    assert (loaded.context, loaded.files, loaded.connection.server) == ("main", (path,), SERVER)
    assert "elsewhere" not in loaded.text
    sent = kubeconfigs.select_context(yaml.safe_load(loaded.text))
    assert kubeconfigs.to_connection(sent) == loaded.connection


def test_files_are_embedded_from_the_folder_of_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {"pki/ca.crt": CERTIFICATE, "pki/ada.crt": CERTIFICATE, "ada.key": KEY}.items():
        (tmp_path / "kube" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "kube" / name).write_text(text, "utf-8")
    document = make_kubeconfig(
        cluster={"server": SERVER, "certificate-authority": "pki/ca.crt"},
        user={"client-certificate": "pki/ada.crt", "client-key": str(tmp_path / "kube" / "ada.key")},
    )
    write(tmp_path / "kube" / "config", document)
    monkeypatch.chdir(tmp_path)
    loaded = load_kubeconfig([Path("kube/config")])
    assert (loaded.connection.ca, loaded.connection.certificate, loaded.connection.key) == (
        CERTIFICATE,
        CERTIFICATE,
        KEY,
    )
    assert "pki" not in loaded.text


def test_embedded_data_overrides_a_file_and_a_token_file_overrides_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("newer\n", "utf-8")
    document = make_kubeconfig(
        cluster={"server": SERVER, "certificate-authority": "gone", "certificate-authority-data": encode(CERTIFICATE)},
        user={"token": TOKEN, "tokenFile": "token"},
    )
    loaded = load_kubeconfig([write(tmp_path / "config", document)])
    assert (loaded.connection.ca, loaded.connection.token) == (CERTIFICATE, "newer")


def test_several_files_are_merged_and_the_first_takes_precedence(tmp_path: Path) -> None:
    first = {"contexts": [{"name": "mine", "context": {"cluster": "one", "user": "ada"}}], "current-context": "mine"}
    second = make_kubeconfig()
    third = make_kubeconfig(cluster={"server": "https://third.example"}, user={"token": "third"})
    paths = [write(tmp_path / name, document) for name, document in (("a", first), ("b", second), ("c", third))]
    loaded = load_kubeconfig([tmp_path / "gone", *paths])
    assert (loaded.context, loaded.connection.server, loaded.connection.token) == ("mine", SERVER, TOKEN)
    assert loaded.files == tuple(paths)
    assert load_kubeconfig(paths, "main").context == "main"


def test_unreadable_kubeconfigs_are_rejected(tmp_path: Path) -> None:
    assert violations_of(tmp_path / "gone") == [("kubeconfig", "file")]
    assert violations_of(tmp_path) == [("kubeconfig", "file")]
    for text, rule in (
        (b"a: [", "yaml"),
        (b"\0", "yaml"),
        (b"", "mapping"),
        (b"- a", "mapping"),
        (b"a: 1\n---\nb: 2", "mapping"),
    ):
        (tmp_path / "config").write_bytes(text)
        assert violations_of(tmp_path / "config") == [("kubeconfig", rule)], text


def test_all_missing_files_are_reported_together(tmp_path: Path) -> None:
    document = make_kubeconfig(
        cluster={"server": SERVER, "certificate-authority": "ca.crt"},
        user={"client-certificate": "ada.crt", "client-key": "ada.key"},
    )
    assert violations_of(write(tmp_path / "config", document)) == [
        ("kubeconfig.clusters[1].cluster.certificate-authority", "file"),
        ("kubeconfig.users[1].user.client-certificate", "file"),
        ("kubeconfig.users[1].user.client-key", "file"),
    ]


def test_files_that_are_too_large_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"x" * (1 << 20) + b"xx")
    document = make_kubeconfig(cluster={"server": SERVER, "certificate-authority": "ca.crt"})
    assert violations_of(write(tmp_path / "config", document)) == [
        ("kubeconfig.clusters[1].cluster.certificate-authority", "file")
    ]


def test_exec_plugins_are_rejected(tmp_path: Path) -> None:
    path = write(tmp_path / "config", make_kubeconfig())
    assert violations_of(path, context="other") == [("kubeconfig.users[0].user.exec", "plugin")]
