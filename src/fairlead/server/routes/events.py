"""What changes, over HTTP."""

from typing import Any

from fastapi import Response
from fastapi.responses import StreamingResponse

from fairlead.server import event_stream
from fairlead.server.middleware import is_head
from fairlead.server.request_context import Context
from fairlead.server.routing import make_router, responses
from fairlead.server.streaming import send_events

# One server-sent event: a run as it is now, or that one is gone.
EVENT: dict[str, Any] = {
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["ready", "run", "gone", "many", "error"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
}
_STREAM = responses(None) | {"response_class": StreamingResponse}
_STREAM["responses"][200]["content"] = {"text/event-stream": {"schema": EVENT}}

router = make_router("runs")


@router.get("/events", name="watch_events", **_STREAM)
async def watch(context: Context, project: str | None = None) -> Response:
    """Tell of runs as they change, as server-sent events: `run` with the run as it is now, `gone` with its id.

    First comes `ready`: what is read after it is out of date only until the next event. `many`: more changed than is
    told, read lists anew. It ends after five minutes, and is asked for again.
    """
    scope = None if project is None else f"project/{project}"
    begun = await context.run_in_thread(
        context.services.run_feed.begin, scope
    )  # what is wrong is told now, not in the middle
    # Who only asks for the headers waits for no event.
    seconds: float = 0.0 if is_head(context.request) else context.request.app.state.stream_seconds
    return send_events(event_stream.feed(context, scope, begun, seconds))
