"""Browsers: whether there is one beside the terminal, and an address in it."""

import os
import sys
import webbrowser

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")  # without any, Python would show the page in the terminal


def show(url: str) -> bool:
    """Show an address in a browser, where there is one; whether there was."""
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in DISPLAYS):
        return False
    try:
        return webbrowser.open(url)
    except webbrowser.Error:
        return False
