"""The kubelet API's log endpoint, which the API server calls."""

import ssl
from collections.abc import Callable
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.cluster.kubelet import logfiles
from tests.cluster.kubelet.pods import Pod

Find = Callable[[str, str], Pod | None]


def make_server(find: Find, port: int, pki: Path) -> uvicorn.Server:
    """A log server for clients with a cluster certificate."""

    async def serve_log(request: Request) -> Response:
        namespace, name, container = (request.path_params[part] for part in ("namespace", "pod", "container"))
        return _serve_log(find(namespace, name), name, container, dict(request.query_params))

    app = Starlette(routes=[Route("/containerLogs/{namespace}/{pod}/{container}", serve_log)])
    config = uvicorn.Config(
        app,
        host="127.0.0.1",
        port=port,
        ssl_certfile=pki / "kubelet.crt",
        ssl_keyfile=pki / "kubelet.key",
        ssl_ca_certs=str(pki / "ca.crt"),
        ssl_cert_reqs=ssl.CERT_REQUIRED,
        log_config=None,
        access_log=False,
        ws="none",
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


def _serve_log(pod: Pod | None, name: str, container: str, params: dict[str, str]) -> Response:
    if pod is None:
        return PlainTextResponse(f'pod "{name}" does not exist\n', 404)
    slot = pod.slots.get(container)
    if slot is None:
        return PlainTextResponse(f'container "{container}" not found in pod "{name}"\n', 404)
    previous = params.get("previous") == "true"
    log = slot.previous if previous else slot.log
    if log is None:
        if previous:
            return PlainTextResponse(f'previous terminated container "{container}" in pod "{name}" not found', 400)
        reason = slot.state.get("waiting", {}).get("reason", "ContainerCreating")
        return PlainTextResponse(f'container "{container}" in pod "{name}" is waiting to start: {reason}', 400)

    def has_ended() -> bool:
        return "running" not in slot.state or slot.log is not log

    return StreamingResponse(
        logfiles.read(log.file, logfiles.parse_options(params), has_ended), media_type="text/plain"
    )
