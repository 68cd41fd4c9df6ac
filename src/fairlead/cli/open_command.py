"""`fairlead open`: open the web UI or a served run in a browser, signed in."""

import sys
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from fairlead.cli.object_commands import Json, connect
from fairlead.cli.printing import print_done
from fairlead.cli.runs import RUNS, find_id
from fairlead.errors import NotFound
from fairlead.sdk import opening


def open_(
    what: str = "/",
    /,
    *,
    only_print: Annotated[bool, Parameter(name="--print", negative=(), show_default=False)] = False,
    as_json: Json = False,
) -> int:
    """Open the web UI or a served run in a browser, signed in as you.

    Parameters
    ----------
    what
        A web UI path, such as /policies, or a run ID.
    only_print
        Print the URL instead. It works once, within 15 minutes for the web UI or 1 minute for a run.
    """
    is_page = "/" in what or not what  # run IDs contain no slash
    if is_page:
        link, lasts = connect().post("/sessions/link", {"next": what}), "15 minutes"
    else:
        link, lasts = connect().post(RUNS.at(_find_run(what), "open"), None), "a minute"
    if only_print:
        return print_done(link["url"], link, as_json)
    if not opening.show(link["url"]):
        print(f"no browser found: open this URL, which works once, within {lasts}", file=sys.stderr)
        return print_done(link["url"], link, as_json)
    # The query is left out, because it contains the one-time code.
    parts = urlsplit(link["url"])
    path = (what or "/") if is_page else "/"
    return print_done(f"opened {parts.scheme}://{parts.netloc}{path} in a browser", link, as_json)


def _find_run(text: str) -> str:
    try:
        return find_id(text)
    except NotFound as error:
        hint = f"list runs with fairlead runs ls; for a web UI path, use fairlead open /{text}"
        raise NotFound(str(error), hint) from None
