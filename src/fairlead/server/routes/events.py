"""Route for the event stream of runs."""

from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse

from fairlead.server import event_stream
from fairlead.server.middleware import is_head
from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses
from fairlead.server.streaming import send_events

# A server-sent event: a changed run, or the ID of a deleted one.
EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["ready", "run", "deleted", "reload", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
_STREAM = responses(None) | {"response_class": StreamingResponse}
_STREAM["responses"][200]["content"] = {"text/event-stream": {"schema": EVENT}}

router = make_router("runs")


@router.get("/events", name="watch_events", **_STREAM)
async def watch(context: Context, project: str | None = None) -> Response:
    """Stream changes to runs as server-sent events: `run` with the changed run, `deleted` with the ID of a deleted one.

    The first event is `ready`: no changes after it are missed. `reload` means that too much has changed: read the lists
    again. The stream ends after five minutes; then reconnect.
    """
    scope = None if project is None else f"project/{project}"
    # Errors must be found before the stream starts.
    start = await context.run_in_thread(context.services.run_feed.begin, scope)
    # A HEAD request must not wait for events.
    seconds: float = 0.0 if is_head(context.request) else context.request.app.state.stream_seconds
    return send_events(event_stream.stream_run_changes(context, scope, start, seconds))
