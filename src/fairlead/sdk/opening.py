"""Open URLs in a browser on this machine."""

import os
import sys
import webbrowser

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")  # without one of these, `webbrowser` falls back to a text browser


def show(url: str) -> bool:
    """Open a URL in a browser. Return False if there is none."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in DISPLAYS):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
