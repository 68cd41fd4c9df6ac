"""The command line interface. Each command is in its own module, which is imported only when the command runs."""

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
    help_format="plaintext",  # shown as written, without interpreting it as Markdown
)
# Commands are import paths, so that `fairlead --help` imports none of them. This is why their help is repeated here.
app.command("fairlead.cli.local_planning:preview", name="preview", help="Show a run's plan without submitting it.")

app.command("fairlead.cli.run_command:run", name="run", help="Run a program with the requested compute.")
app.command("fairlead.cli.runs:why", name="why", help="Explain why a run is waiting, and suggest changes.")
app.command("fairlead.cli.fit:fit", name="fit", help="Check whether a run fits now, later or never.")
app.command("fairlead.cli.servers:up", name="up", help="Start a server on this machine.")
app.command("fairlead.cli.runs:open_", name="open", help="Open the web UI or a served run in a browser.")
app.command("fairlead.cli.documents:apply", name="apply", help="Apply configuration files to the server.")
app.command("fairlead.cli.documents:export", name="export", help="Export the server configuration as files.")

keys = App(name="keys", help="Manage the key that encrypts secrets.")
keys.command("fairlead.cli.servers:rotate", name="rotate", help="Encrypt all secrets with a new key.")
keys.command("fairlead.cli.servers:forget", name="forget", help="Delete old keys.")
app.command(keys)

NOUNS = {
    "runs": ("fairlead.cli.runs:runs", "List, follow, explain and stop runs."),
    "compute": ("fairlead.cli.compute:compute", "Manage compute resources."),
    "templates": ("fairlead.cli.compute:templates", "Manage templates."),
    "policy": ("fairlead.cli.clusters:policy", "Show and delete policies."),
    "functions": ("fairlead.cli.project_objects:functions", "Manage a project's functions."),
    "schedules": ("fairlead.cli.project_objects:schedules", "Manage a project's schedules."),
    "secrets": ("fairlead.cli.project_objects:secrets", "Manage a project's secrets."),
    "volumes": ("fairlead.cli.project_objects:volumes", "Manage a project's shared volumes."),
    "projects": ("fairlead.cli.clusters:projects", "Manage projects."),
    "departments": ("fairlead.cli.clusters:departments", "Manage departments."),
    "nodes": ("fairlead.cli.nodes:nodes", "Show nodes and free capacity."),
    "clusters": ("fairlead.cli.clusters:clusters", "Manage and check clusters."),
}
for _name, (_path, _help) in NOUNS.items():
    app.command(_path, name=_name, help=_help)

app.command("fairlead.cli.servers:completion", name="completion", help="Print the shell completion script.")


def run(words: Sequence[str] | None = None) -> int:
    """Run a command, by default from the process arguments, and print errors. Return the exit code."""
    try:
        # The exit code is returned instead of being passed to sys.exit(), because main() still has to flush stdout.
        status: int = app(words, result_action="return_int_as_exit_code_else_zero")
    except Exception as error:
        # Imported late: the errors import the model, which would slow down --help.
        from fairlead.cli.output import print_error
        from fairlead.errors import FairleadError

        if not isinstance(error, FairleadError):
            raise
        status = print_error(error)
    return status


def main() -> None:
    """The entry point of the `fairlead` script."""
    # Print characters that the terminal's encoding lacks as escapes instead of failing.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = run()
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader closed the pipe, for example `head`
            print(f"cannot write the output: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        # Otherwise Python would flush stdout again at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)
