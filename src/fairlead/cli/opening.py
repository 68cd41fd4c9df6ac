"""`fairlead open`: the web page of the server in a browser, signed in."""

import os
import sys
import webbrowser
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from fairlead.cli.nouns import Json, connect
from fairlead.cli.printing import print_done

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")  # without any, Python would show the page in the terminal


def open_(
    path: str = "/",
    /,
    *,
    only_print: Annotated[bool, Parameter(name="--print", negative=(), show_default=False)] = False,
    as_json: Json = False,
) -> int:
    """Open the web page in a browser, which is signed in as you.

    Parameters
    ----------
    path
        Where in it to begin, such as /policies.
    only_print
        Open nothing, and print the address: it signs in once, within 15 minutes.
    """
    link = connect().post("/sessions/link", {"next": path})
    if only_print:
        return print_done(link["url"], link, as_json)
    if not _show(link["url"]):
        print("no browser can be opened here: open this address in one, once and within 15 minutes", file=sys.stderr)
        return print_done(link["url"], link, as_json)
    parts = urlsplit(link["url"])
    return print_done(f"opened {parts.scheme}://{parts.netloc}{path or '/'} in a browser", link, as_json)


def _show(url: str) -> bool:
    """Show an address in a browser, where there is one beside the terminal."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in DISPLAYS):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
