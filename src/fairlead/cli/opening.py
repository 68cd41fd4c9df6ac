"""`fairlead open`: the web page of the server in a browser, signed in; or what a run serves."""

import sys
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from fairlead.cli.nouns import Json, connect
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
    """Open the web page in a browser, which is signed in as you; or what a run serves.

    Parameters
    ----------
    what
        Where in the page to begin, such as /policies; or the id of a run.
    only_print
        Open nothing, and print the address. It lets in once: to the page within 15 minutes, to a run within one.
    """
    is_page = "/" in what or not what
    if is_page:
        link, lasts = connect().post("/sessions/link", {"next": what}), "15 minutes"
    else:
        link, lasts = connect().post(RUNS.at(_find_run(what), "open"), None), "a minute"
    if only_print:
        return print_done(link["url"], link, as_json)
    if not opening.show(link["url"]):
        print(f"no browser can be opened here: open this address in one, once and within {lasts}", file=sys.stderr)
        return print_done(link["url"], link, as_json)
    parts = urlsplit(link["url"])
    path = (what or "/") if is_page else "/"
    return print_done(f"opened {parts.scheme}://{parts.netloc}{path} in a browser", link, as_json)


def _find_run(text: str) -> str:
    try:
        return find_id(text)
    except NotFound as error:
        hint = f"see fairlead runs ls; for a part of the web page, say fairlead open /{text}"
        raise NotFound(str(error), hint) from None
