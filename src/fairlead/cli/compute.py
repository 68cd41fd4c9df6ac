"""`fairlead compute` and `fairlead templates`: compute resources, templates, and the commands that both share."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.nodes import show_fits
from fairlead.cli.objects import (
    Force,
    Json,
    ListOptions,
    ObjectCommands,
    WithListOptions,
    connect_to_server,
    forced,
    gather,
    print_item,
    print_items,
    print_list,
)
from fairlead.cli.output import Item, print_done, print_sentences
from fairlead.errors import NotFound, RequestRejected, Unreadable
from fairlead.files import documents, yamls
from fairlead.model.assets import ComputeResource
from fairlead.model.plans import Sentence, Violation

WRITTEN = ("name", "description", "scope", "workload_types", "requirements")  # the fields that users set
SHARED_COLUMNS = {"RUNS": "workloads", "DESCRIPTION": "description", "AGE": "created_at"}
REVISIONS = {"REVISION": "number", "NAME": "name", "BY": "created_by", "AGE": "created_at"}
RUNS = {
    "RUN": "id",
    "FUNCTION": "function",
    "ACTION": "action",
    "STATE": "state",
    "SCOPE": "scope",
    "BY": "created_by",
    "AGE": "created_at",
}

KIND = "ComputeResource"
DEFAULT_PROJECT = "default"
UNKNOWN = {"fits_now": None}  # not available on the cluster, or it is unclear which cluster to query
# The field that an amount without a field name sets.
AMOUNTS = {"cpu": "requests", "mem": "requests", "gpu": "devices"}


@dataclass(frozen=True)
class Asset(ObjectCommands):
    """Commands for objects with revisions: compute resources and templates."""

    def copy(self, name: str, new: str, /, *, scope: str | None = None, as_json: Json = False) -> int:
        """Copy an object.

        Parameters
        ----------
        scope
            The scope of the copy. Default: the original's scope.
        """
        change = {"name": new} if scope is None else {"name": new, "scope": scope}
        answer = connect_to_server().post(self.at(name, "copy"), change)
        return print_done(f"copied {self.one} {name} to {new}", answer, as_json)

    def archive(
        self, name: str, /, *, successor: str | None = None, force: Force = False, as_json: Json = False
    ) -> int:
        """Archive an object: users can no longer choose it, but runs that use it continue.

        Parameters
        ----------
        successor
            The replacement for requests that still refer to the archived object.
        """
        answer = connect_to_server().post(self.at(name, "archive"), {"successor": successor}, **forced(force))
        after = f"; {successor} replaces it" if successor else ""
        return print_done(f"archived {self.one} {name}{after}", answer, as_json)

    def restore(self, name: str, /, *, force: Force = False, as_json: Json = False) -> int:
        """Restore an archived object."""
        answer = connect_to_server().post(self.at(name, "restore"), {}, **forced(force))
        return print_done(f"restored {self.one} {name}", answer, as_json)

    def explain(self, name: str, /, *, as_json: Json = False) -> int:
        """Explain what a pod gets, and what may kill it."""
        record = connect_to_server().get(self.at(name))
        fields = {field: record[field] for field in WRITTEN if record.get(field) is not None}
        # The route explains drafts, because forms need explanations before saving. Send the stored object as a draft.
        answer = connect_to_server().post(f"{self.path}/check", fields)
        if as_json:
            return print_item(answer, as_json)
        print_sentences(Sentence(**sentence) for sentence in answer["sentences"])
        return 0

    def revisions(self, name: str, /, *, as_json: Json = False) -> int:
        """List the revisions of an object, newest first."""
        return print_items(connect_to_server().get(self.at(name, "revisions")), REVISIONS, "revisions", as_json)

    def workloads(self, name: str, /, *, list_options: WithListOptions = None, as_json: Json = False) -> int:
        """List active runs that use an object."""
        return print_list(self.at(name, "workloads"), RUNS, "runs", list_options, as_json)

    @property
    def changes(self) -> tuple[Callable[..., int], ...]:
        """The commands other than ls and show, in the order shown in the help."""
        common = self.copy, self.rename, self.archive, self.restore, self.rm
        return self.explain, *common, self.revisions, self.workloads


TEMPLATES = Asset(
    "template",
    "/templates",
    {"NAME": "name", "SCOPE": "scope", "COMPUTE": "compute_resource", **SHARED_COLUMNS},
)

templates = gather("templates", TEMPLATES.ls, TEMPLATES.show, *TEMPLATES.changes)


@dataclass(frozen=True)
class ComputeOptions:
    """Options for compute resource settings. Settings whose options are omitted keep their values."""

    scope: Annotated[
        str | None,
        Parameter(help="The scope where the compute resource can be used, such as platform or project/forest."),
    ] = None
    description: Annotated[str | None, Parameter(help="A description.")] = None
    cpu: Annotated[str | None, Parameter(help="CPU request in cores, such as 8 or 500m.")] = None
    mem: Annotated[str | None, Parameter(help="Memory request, such as 32Gi.")] = None
    gpu: Annotated[str | None, Parameter(help="Number of GPUs.")] = None
    file: Annotated[Path | None, Parameter(name=["--file", "-f"], help="A YAML document with all other fields.")] = None

    @property
    def amounts(self) -> dict[str, str]:
        """The resources that were given as options."""
        return {name: value for name in AMOUNTS if (value := getattr(self, name)) is not None}

    @property
    def fields(self) -> dict[str, Any]:
        """The file's fields, overridden by options; without amounts."""
        options = {} if self.file is None else _load(self.file)
        return options | {
            name: value for name in ("scope", "description") if (value := getattr(self, name)) is not None
        }


WithOptions = Annotated[ComputeOptions | None, Parameter(name="*")]


def ls(
    *,
    list_options: WithListOptions = None,
    project: Annotated[
        str | None, Parameter(env_var="FAIRLEAD_PROJECT", help="Count the runs that fit on this project's cluster.")
    ] = None,
    cluster: Annotated[str | None, Parameter(help="Count the runs that fit on this cluster.")] = None,
    as_json: Json = False,
) -> int:
    """List compute resources, and how many runs of each could start now."""
    list_options = list_options or ListOptions()
    records = list(islice(connect_to_server().list(COMPUTE.path, **list_options.parameters), list_options.limit))
    # The number of runs depends on the cluster and is not part of the record, so it takes a second request.
    fits = _count_fits(project, cluster)
    offers = [fits.get(item["name"], UNKNOWN) for item in records]
    # JSON output contains the plain number; the table adds a + if there may be more.
    extra = [{"fits_now": offer["fits_now"]} if as_json else {"fits": show_fits(offer)} for offer in offers]
    items = [item | more for item, more in zip(records, extra, strict=True)]
    return print_items(items, COMPUTE.columns, "compute resources", as_json)


def create(name: str | None = None, /, *, options: WithOptions = None, as_json: Json = False) -> int:
    """Create a compute resource.

    Parameters
    ----------
    name
        The name. Default: the name in the file.
    """
    options = options or ComputeOptions()
    fields = options.fields | ({} if name is None else {"name": name})
    if options.amounts:
        fields["requirements"] = _with_amounts(options.amounts, fields.get("requirements", {}))
    answer = connect_to_server().post(COMPUTE.path, fields)
    return print_done(f"created {COMPUTE.one} {answer['name']} in {answer['scope']}", answer, as_json)


def edit(name: str, /, *, options: WithOptions = None, force: Force = False, as_json: Json = False) -> int:
    """Change a compute resource. Omitted settings keep their values."""
    options = options or ComputeOptions()
    fields, server, revision = options.fields, connect_to_server(), None
    if options.amounts:
        present = server.get(COMPUTE.at(name))
        # PATCH replaces requirements as a whole, so send the revision to detect concurrent changes.
        revision = present["revision"]
        fields["requirements"] = _with_amounts(options.amounts, fields.get("requirements", present["requirements"]))
    if not fields:
        raise Unreadable("nothing to change", "set an option, such as --mem 64Gi or -f FILE")
    answer = server.patch(COMPUTE.at(name), fields, revision=revision, **forced(force))
    return print_done(f"{COMPUTE.one} {answer['name']} is at revision {answer['revision']}", answer, as_json)


def _count_fits(project: str | None, cluster: str | None) -> dict[str, Item]:
    """How many more runs of each compute resource fit now, by name."""
    parameters = {name: value for name, value in (("project", project), ("cluster", cluster)) if value is not None}
    try:
        clusters = connect_to_server().get("/capacity", **(parameters or {"project": DEFAULT_PROJECT}))
    except NotFound:
        if parameters:
            raise
        return {}  # the default project does not exist
    return {offer["name"]: offer for entry in clusters for offer in entry["compute_resources"]}


def _load(file: Path) -> dict[str, Any]:
    """Load the only document in a file, with its requirements in canonical form."""
    loaded = yamls.load_file(file)
    if isinstance(loaded, Violation):
        raise RequestRejected([loaded])
    [document, *more] = loaded or [None]
    if more or not isinstance(document, dict) or document.get("kind", KIND) != KIND:
        hint = "write exactly one ComputeResource document, or use fairlead apply -f FILE"
        raise RequestRejected(
            [Violation("", "file", "must contain exactly one compute resource", hint, location=str(file))]
        )
    fields = {ComputeResource.canonical_name(name): value for name, value in document.items() if name != "kind"}
    violations: list[Violation] = []
    # Parsed into canonical form, so that amounts from options can be merged. The name may be an argument instead.
    parsed = documents.parse_object(ComputeResource, {"name": "unnamed", **fields}, str(file), violations)
    if violations:
        raise RequestRejected(violations)
    return fields | ({"requirements": parsed.requirements.to_data()} if "requirements" in fields else {})


def _with_amounts(amounts: dict[str, str], requirements: dict[str, Any]) -> dict[str, Any]:
    """Replace amounts in requirements, but keep all other fields, such as limits."""
    resources = dict(requirements.get("resources", {}))
    for name, amount in amounts.items():
        resources[name] = resources.get(name, {}) | {AMOUNTS[name]: amount}
    return requirements | {"resources": resources}


def _gpus(item: Item) -> Any:
    """Format the GPU count or share."""
    gpu = item["requirements"].get("resources", {}).get("gpu", {})
    memory = gpu.get("memory", {})
    return gpu.get("mig") or memory.get("request") or memory.get("limit") or gpu.get("devices")


COMPUTE = Asset(
    "compute resource",
    "/compute-resources",
    {
        "NAME": "name",
        "SCOPE": "scope",
        "CPU": "requirements.resources.cpu.requests",
        "MEM": "requirements.resources.mem.requests",
        "GPU": _gpus,
        "FITS NOW": "fits",
        **SHARED_COLUMNS,
    },
)

compute = gather("compute", ls, COMPUTE.show, create, edit, *COMPUTE.changes)
# Given as an import path, because the module imports the planner.
compute.command("fairlead.cli.local_planning:lint", name="lint", help="Check compute resource definitions in files.")
