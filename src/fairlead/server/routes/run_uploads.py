"""What a run that is executed elsewhere hands over, over HTTP. It fetches its code where users read it."""

from typing import IO, Annotated

from fastapi import Depends, Response

from fairlead.server.request_bodies import SpooledBody
from fairlead.server.request_context import RunContext
from fairlead.server.routing import answers, make_router
from fairlead.services.handovers import Handed

router = make_router("runs")
Left = Annotated[IO[bytes], Depends(SpooledBody("application/octet-stream"))]


@router.put("/runs/{run_id}/handover/{path:file}", name="hand_over_file", **answers(Handed, writing=True))
async def hand_over(context: RunContext, run_id: str, path: str, left: Left) -> Response:
    """Keep what a run leaves: `result.json`, `error.json`, or a file of its output. Only the run itself may do so."""
    return await context.answer(context.services.handovers.put, run_id, path, left)
