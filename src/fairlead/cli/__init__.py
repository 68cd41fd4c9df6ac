"""The terminal door. Each command lives in a module of its own, which is loaded when the command is used."""

import io
import os
import sys
from collections.abc import Sequence

from cyclopts import App

import fairlead

app = App(
    name="fairlead",
    help="Fairlead gives every AI run the compute it asked for.",
    version=fairlead.__version__,
    help_format="plaintext",
)
app.command("fairlead.cli.previews:preview", name="preview", help="What would run, with which values, and why.")

app.command("fairlead.cli.running:run", name="run", help="Run a program with the compute it asks for.")
app.command("fairlead.cli.runs:why", name="why", help="Why a run is where it is, and what would help.")
app.command("fairlead.cli.fit:fit", name="fit", help="Would it run now, later or never, and why not.")
app.command("fairlead.cli.servers:up", name="up", help="Serve on this machine.")
app.command("fairlead.cli.opening:open_", name="open", help="Open the web page, or what a run serves, in a browser.")
app.command("fairlead.cli.documents:apply", name="apply", help="Make the server as files say.")
app.command("fairlead.cli.documents:export", name="export", help="Write what the server keeps as files.")

keys = App(name="keys", help="The key with which secrets are sealed.")
keys.command("fairlead.cli.servers:rotate", name="rotate", help="Seal every secret with a new key.")
keys.command("fairlead.cli.servers:forget", name="forget", help="Forget older keys.")
app.command(keys)

NOUNS = {
    "runs": ("fairlead.cli.runs:runs", "Runs: what they do and did, and why."),
    "compute": ("fairlead.cli.compute:compute", "Compute resources: what administrators offer by name."),
    "templates": ("fairlead.cli.assets:templates", "Templates: starting points that users may change."),
    "policy": ("fairlead.cli.policies:policy", "Policies: what is allowed at a scope."),
    "functions": ("fairlead.cli.holdings:functions", "Functions that a project keeps."),
    "schedules": ("fairlead.cli.schedules:schedules", "Schedules: what a project submits again and again."),
    "secrets": ("fairlead.cli.holdings:secrets", "Secrets of a project."),
    "volumes": ("fairlead.cli.holdings:volumes", "Volumes that the runs of a project may share."),
    "projects": ("fairlead.cli.scopes:projects", "Projects: where functions, secrets and runs live."),
    "departments": ("fairlead.cli.scopes:departments", "Departments: they share policies and compute resources."),
    "nodes": ("fairlead.cli.nodes:nodes", "Nodes: what is free where runs are executed."),
    "clusters": ("fairlead.cli.clusters:clusters", "Clusters: where runs execute, and how the server gets there."),
}
for _name, (_path, _help) in NOUNS.items():
    app.command(_path, name=_name, help=_help)

app.command("fairlead.cli.completions:completion", name="completion", help="Print the completion for a shell.")


def run(words: Sequence[str] | None = None) -> int:
    """Run the command that these words say, or those that were typed. What went wrong is told here, once for all."""
    try:
        status: int = app(words, result_action="return_int_as_exit_code_else_zero")
    except Exception as error:
        # Only now: to load the errors loads the model, for which no help should wait.
        from fairlead.cli.printing import print_error
        from fairlead.errors import FairleadError

        if not isinstance(error, FairleadError):
            raise
        status = print_error(error)
    return status


def main() -> None:
    """Run the command that was typed."""
    # What a terminal's encoding cannot show is shown as an escape, not as a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = run()
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # whoever read the output had seen enough
            print(f"cannot write the output: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        # Python would try once more to write what is left when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
