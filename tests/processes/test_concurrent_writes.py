"""Concurrent writers: exactly one succeeds, the others get an error, and servers see each other's changes."""

import signal
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from tests.processes.machines import Machine, RunningServer, make_resource

CLIENTS = 8


def send_concurrently(
    clients: list[httpx2.Client], send: Callable[[int, httpx2.Client], httpx2.Response]
) -> list[httpx2.Response]:
    """Send requests at the same time, over open connections, and return the responses."""
    ready = threading.Barrier(len(clients))

    def send_one(number: int) -> httpx2.Response:
        clients[number].get("/me")
        ready.wait(60)
        return send(number, clients[number])

    with ThreadPoolExecutor(len(clients)) as threads:
        return list(threads.map(send_one, range(len(clients))))


def count_statuses(responses: list[httpx2.Response]) -> Counter[int]:
    """The number of responses by status code."""
    return Counter(response.status_code for response in responses)


def test_exactly_one_of_many_concurrent_writers_succeeds(machine: Machine, database: tuple[str, ...]) -> None:
    server = machine.up(*database)
    clients = [server.client() for _ in range(CLIENTS)]
    _check_edits(clients)
    _check_creations(clients)
    _check_replacements(clients)
    _check_deletions(clients)
    _check_same_key(clients)
    _check_counting(clients)
    for client in clients:
        client.close()


def _check_edits(clients: list[httpx2.Client]) -> None:
    """If several edits have the same If-Match, one succeeds and the others fail."""
    created = clients[0].post("/compute-resources", json=make_resource("edited"))
    for round_number in range(3):
        tag = clients[0].get("/compute-resources/edited").headers["etag"]

        def edit(
            number: int, client: httpx2.Client, tag: str = tag, round_number: int = round_number
        ) -> httpx2.Response:
            body = {
                "description": f"by {number} in round {round_number}"
            }  # always a new value, because an equal value is not a change
            return client.patch("/compute-resources/edited", json=body, headers={"If-Match": tag})

        responses = send_concurrently(clients, edit)
        assert count_statuses(responses) == {200: 1, 412: CLIENTS - 1}
        accepted = next(response.json() for response in responses if response.status_code == 200)
        assert clients[0].get("/compute-resources/edited").json()["description"] == accepted["description"]
    history = clients[0].get("/compute-resources/edited/revisions").json()
    assert [revision["number"] for revision in history] == [4, 3, 2, 1]
    assert created.status_code == 201


def _check_creations(clients: list[httpx2.Client]) -> None:
    """If several clients create an object with the same name, one succeeds."""
    for path, body in (
        ("/compute-resources", make_resource("wanted")),
        ("/templates", make_resource("wanted")),
        ("/departments", {"name": "wanted", "parent": "cluster/local"}),
        ("/projects/default/volumes", {"name": "wanted", "size": "1Gi"}),
        ("/roles", {"subject": "user:wanted", "role": "viewer", "scope": "project/default"}),
    ):
        responses = send_concurrently(clients, lambda _, client, path=path, body=body: client.post(path, json=body))  # type: ignore[misc]
        assert count_statuses(responses) == {201: 1, 409: CLIENTS - 1}, path


def _check_replacements(clients: list[httpx2.Client]) -> None:
    """If several clients create a scope's policy, one succeeds and the others must send If-Match."""
    body = {"rules": {"resources.gpu": {"max": 2}}}
    responses = send_concurrently(clients, lambda _, client: client.put("/policies/project/default", json=body))
    assert count_statuses(responses) == {200: 1, 428: CLIENTS - 1}


def _check_deletions(clients: list[httpx2.Client]) -> None:
    """If several clients delete an object, one succeeds. An object in use is not deleted."""
    responses = send_concurrently(clients, lambda _, client: client.delete("/compute-resources/edited"))
    assert count_statuses(responses) == {204: 1, 404: CLIENTS - 1}
    template = make_resource("referencing", requirements={"profile": "wanted"})

    def create_or_delete(number: int, client: httpx2.Client) -> httpx2.Response:
        return client.delete("/compute-resources/wanted") if number else client.post("/templates", json=template)

    referenced, *deleted = send_concurrently(clients, create_or_delete)
    exists = clients[0].get("/compute-resources/wanted").status_code == 200
    if referenced.status_code == 201:
        assert exists
        assert count_statuses(deleted) == {409: CLIENTS - 1}
    else:
        assert not exists
        assert referenced.status_code == 422


def _check_same_key(clients: list[httpx2.Client]) -> None:
    """A request with an idempotency key is executed once, and all callers get the same response."""
    body, headers = make_resource("once"), {"Idempotency-Key": "the-same-key"}
    responses = send_concurrently(
        clients, lambda _, client: client.post("/compute-resources", json=body, headers=headers)
    )
    assert count_statuses(responses) == {201: CLIENTS}
    assert len({response.json()["id"] for response in responses}) == 1


def _check_counting(clients: list[httpx2.Client]) -> None:
    """Writers of different objects do not block each other, and no edit without If-Match is lost."""
    responses = send_concurrently(
        clients, lambda n, client: client.post("/compute-resources", json=make_resource(f"own-{n}"))
    )
    assert count_statuses(responses) == {201: CLIENTS}
    responses = send_concurrently(
        clients, lambda n, client: client.patch("/compute-resources/own-0", json={"description": f"by {n}"})
    )
    # Without If-Match, the last edit overrides the others, and each edit is a separate revision.
    assert count_statuses(responses) == {200: CLIENTS}
    assert clients[0].get("/compute-resources/own-0").json()["revision"] == CLIENTS + 1


@pytest.fixture
def pair(machine: Machine, postgresql_url: str) -> tuple[RunningServer, RunningServer]:
    """Two servers on one database, each with its own data folder."""
    first = machine.up("--database", postgresql_url, data="first")
    return first, machine.up("--database", postgresql_url, data="second")


def test_writes_are_immediately_visible_to_the_other_server(pair: tuple[RunningServer, RunningServer]) -> None:
    with pair[0].client() as client, pair[1].client() as other_client:
        assert client.get("/me").status_code == 200, "the second server locked the token of the first one out"
        _check_shared_writes(client, other_client)
        _check_shared_permissions(pair, client, other_client)
        _check_races(pair)


def _check_shared_writes(client: httpx2.Client, other_client: httpx2.Client) -> None:
    for number in range(10):
        name = f"shared-{number}"
        assert client.post("/compute-resources", json=make_resource(name)).status_code == 201
        response = other_client.get(f"/compute-resources/{name}")
        assert response.status_code == 200
        headers = {"If-Match": response.headers["etag"]}
        assert (
            other_client.patch(f"/compute-resources/{name}", json={"description": "b"}, headers=headers).status_code
            == 200
        )
        assert client.get(f"/compute-resources/{name}").json()["description"] == "b"
        assert client.delete(f"/compute-resources/{name}", headers=headers).status_code == 412
        assert other_client.delete(f"/compute-resources/{name}").status_code == 204
        assert client.get(f"/compute-resources/{name}").status_code == 404
    assert client.post("/departments", json={"name": "vision", "parent": "cluster/local"}).status_code == 201
    assert other_client.post("/projects", json={"name": "forest", "parent": "department/vision"}).status_code == 201
    assert client.get("/projects/forest").status_code == 200
    # Stale cached snapshots are not used after a change either.
    function = {"name": "f", "kind": "container", "image": "registry.example.org/a:1"}
    request = {"function": function, "profile": "planned"}
    assert client.post("/compute-resources", json=make_resource("planned")).status_code == 201
    first = other_client.post("/projects/forest/runs/preview", json=request)
    assert first.status_code == 200, first.text
    changed = {"requirements": {"resources": {"cpu": 7, "mem": "9Gi"}}}
    assert client.patch("/compute-resources/planned", json=changed).status_code == 200
    second = other_client.post("/projects/forest/runs/preview", json=request)
    assert '"9Gi"' in second.text
    assert '"9Gi"' not in first.text


def _check_shared_permissions(
    pair: tuple[RunningServer, RunningServer], client: httpx2.Client, other_client: httpx2.Client
) -> None:
    created = client.post("/tokens", json={"name": "for ada", "user": "ada"}).json()
    with pair[0].client(created["token"]) as ada_here, pair[1].client(created["token"]) as ada_there:
        assert ada_there.get("/me").json()["user"] == "ada"
        assert ada_there.get("/projects/forest").status_code == 404
        role = client.post("/roles", json={"subject": "user:ada", "role": "viewer", "scope": "project/forest"}).json()
        assert ada_there.get("/projects/forest").status_code == 200
        assert ada_here.get("/projects/forest").status_code == 200
        assert other_client.delete(f"/roles/{role['id']}").status_code == 204
        assert ada_here.get("/projects/forest").status_code == 404
        assert ada_there.get("/projects/forest").status_code == 404
        assert other_client.delete(f"/tokens/{created['id']}").status_code == 204
        assert ada_here.get("/me").status_code == 401
        assert ada_there.get("/me").status_code == 401


def _check_races(pair: tuple[RunningServer, RunningServer]) -> None:
    clients = [pair[number % 2].client() for number in range(CLIENTS)]
    body = make_resource("raced")
    responses = send_concurrently(clients, lambda _, client: client.post("/compute-resources", json=body))
    assert count_statuses(responses) == {201: 1, 409: CLIENTS - 1}
    headers = {"If-Match": '"1"'}
    responses = send_concurrently(
        clients,
        lambda n, client: client.patch("/compute-resources/raced", json={"description": f"by {n}"}, headers=headers),
    )
    assert count_statuses(responses) == {200: 1, 412: CLIENTS - 1}
    for client in clients:
        client.close()


def test_two_servers_can_start_concurrently_on_an_empty_database(empty_postgresql_url: str, machine: Machine) -> None:
    options = ("--database", empty_postgresql_url)
    with ThreadPoolExecutor(2) as threads:
        servers = list(threads.map(lambda name: machine.up(*options, data=name), ["first", "second"]))
    for server in servers:
        with server.client() as client:
            assert client.get("/me").status_code == 200
            assert client.get("/scopes", params={"total": "true"}).json()["total"] == 3
            admins = client.get("/roles").json()["items"]
            assert len(admins) == 1
        server.stop()


def test_second_server_on_a_data_folder_is_rejected_without_affecting_the_first(machine: Machine) -> None:
    first = machine.up()
    ended = machine.app("up", "--port", "0", "--data", str(first.data), seconds=15)
    assert ended.code == 1, ended
    assert ended.err.startswith(f"error: another server is already using the data folder {first.data}\n")
    with first.client() as client:
        assert client.get("/me").status_code == 200
    assert (first.data / "server.json").exists()
    first.stop(signal.SIGKILL)
    machine.up().stop()  # files left by a killed server do not prevent a start
