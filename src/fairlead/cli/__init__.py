"""The terminal door. Each command lives in a module of its own, which is loaded when the command is used."""

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

compute = App(name="compute", help="Compute resources: what administrators offer by name.")
compute.command(
    "fairlead.cli.compute:lint", name="lint", help="Check definitions of compute resources before they are used."
)
app.command(compute)


def main() -> None:
    """Run the command that was typed."""
    sys.exit(app())
