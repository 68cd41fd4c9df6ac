"""The terminal door. Each command lives in a module of its own, which is loaded when the command is used."""

import io
import os
import sys

from cyclopts import App

import fairlead

app = App(
    name="fairlead",
    help="Fairlead gives every AI run the compute it asked for.",
    version=fairlead.__version__,
    help_format="plaintext",
)
app.command("fairlead.cli.previews:preview", name="preview", help="What would run, with which values, and why.")

app.command("fairlead.cli.servers:up", name="up", help="Serve on this machine.")
app.command("fairlead.cli.documents:apply", name="apply", help="Make the server as files say.")
app.command("fairlead.cli.documents:export", name="export", help="Write what the server keeps as files.")

keys = App(name="keys", help="The key with which secrets are sealed.")
keys.command("fairlead.cli.servers:rotate", name="rotate", help="Seal every secret with a new key.")
keys.command("fairlead.cli.servers:forget", name="forget", help="Forget older keys.")
app.command(keys)

compute = App(name="compute", help="Compute resources: what administrators offer by name.")
compute.command(
    "fairlead.cli.compute:lint", name="lint", help="Check definitions of compute resources before they are used."
)
app.command(compute)


def main() -> None:
    """Run the command that was typed."""
    # What a terminal's encoding cannot show is shown as an escape, not as a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = app()
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # whoever read the output had seen enough
            print(f"cannot write the output: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        # Python would try once more to write what is left when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
