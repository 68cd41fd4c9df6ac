"""`fairlead compute`: what administrators offer by name."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.assets import SHARED_COLUMNS, Asset
from fairlead.cli.nodes import show_fits
from fairlead.cli.nouns import Asked, Asking, Force, Json, connect, forced, gather, print_items
from fairlead.cli.printing import print_done
from fairlead.cli.tables import Item
from fairlead.errors import NotFound, RequestRejected, Unreadable
from fairlead.files import documents, yamls
from fairlead.model.compute_resources import ComputeResource
from fairlead.model.plans import Violation

KIND = "ComputeResource"
DEFAULT_PROJECT = "default"
UNKNOWN = {"fits_now": None}
# The part of a resource that a bare amount means.
AMOUNTS = {"cpu": "requests", "mem": "requests", "gpu": "devices"}


@dataclass(frozen=True)
class Said:
    """What is said of a compute resource; left out, it stays as it is."""

    scope: Annotated[str | None, Parameter(help="Who may use it: platform, department/vision, project/forest.")] = None
    description: Annotated[str | None, Parameter(help="What it is good for.")] = None
    cpu: Annotated[str | None, Parameter(help="Cores to reserve, such as 8 or 500m.")] = None
    mem: Annotated[str | None, Parameter(help="Memory to reserve, such as 32Gi.")] = None
    gpu: Annotated[str | None, Parameter(help="How many GPUs.")] = None
    file: Annotated[Path | None, Parameter(name=["--file", "-f"], help="A document that says everything else.")] = None

    @property
    def amounts(self) -> dict[str, str]:
        """The resources that are said by options."""
        return {name: value for name in AMOUNTS if (value := getattr(self, name)) is not None}

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that are said, those of the file first; amounts are not among them."""
        said = {} if self.file is None else _load(self.file)
        return said | {name: value for name in ("scope", "description") if (value := getattr(self, name)) is not None}


Saying = Annotated[Said | None, Parameter(name="*")]


def ls(
    *,
    asked: Asking = None,
    project: Annotated[str | None, Parameter(env_var="FAIRLEAD_PROJECT", help="Where they are to fit now.")] = None,
    cluster: Annotated[str | None, Parameter(help="Where they are to fit now.")] = None,
    as_json: Json = False,
) -> int:
    """List those that you see, with how many more of each fit now where the runs of a project are executed."""
    asked = asked or Asked()
    found = list(islice(connect().list(COMPUTE.path, **asked.parameters), asked.limit))
    fits = _count_fits(project, cluster)
    offers = [fits.get(item["name"], UNKNOWN) for item in found]
    told = [{"fits_now": offer["fits_now"]} if as_json else {"fits": show_fits(offer)} for offer in offers]
    items = [item | more for item, more in zip(found, told, strict=True)]
    return print_items(items, COMPUTE.columns, "compute resources", as_json)


def create(name: str | None = None, /, *, said: Saying = None, as_json: Json = False) -> int:
    """Create a compute resource.

    Parameters
    ----------
    name
        Its name. Left out, the one in the file.
    """
    said = said or Said()
    fields = said.fields | ({} if name is None else {"name": name})
    if said.amounts:
        fields["requirements"] = _take(said.amounts, fields.get("requirements", {}))
    answer = connect().post(COMPUTE.path, fields)
    return print_done(f"created {COMPUTE.one} {answer['name']} at {answer['scope']}", answer, as_json)


def edit(name: str, /, *, said: Saying = None, force: Force = False, as_json: Json = False) -> int:
    """Change a compute resource: what is not said stays as it is."""
    said = said or Said()
    fields, server, revision = said.fields, connect(), None
    if said.amounts:
        present = server.get(COMPUTE.at(name))
        # Requirements are replaced as a whole: what somebody else changed in the meantime must not get lost.
        revision = present["revision"]
        fields["requirements"] = _take(said.amounts, fields.get("requirements", present["requirements"]))
    if not fields:
        raise Unreadable("nothing is said that could change", "say what, such as --mem 64Gi, or -f FILE")
    answer = server.patch(COMPUTE.at(name), fields, revision=revision, **forced(force))
    return print_done(f"{COMPUTE.one} {answer['name']} is at revision {answer['revision']}", answer, as_json)


def _count_fits(project: str | None, cluster: str | None) -> dict[str, Item]:
    """By name, how many more of each compute resource fit now."""
    said = {name: value for name, value in (("project", project), ("cluster", cluster)) if value is not None}
    try:
        found = connect().get("/capacity", **(said or {"project": DEFAULT_PROJECT}))
    except NotFound:
        if said:
            raise
        return {}  # nobody asked for that project
    return {offer["name"]: offer for entry in found for offer in entry["compute_resources"]}


def _load(file: Path) -> dict[str, Any]:
    """The fields that the one document in a file says, its requirements in their canonical form."""
    loaded = yamls.load_file(file)
    if isinstance(loaded, Violation):
        raise RequestRejected([loaded])
    [said, *more] = loaded or [None]
    if more or not isinstance(said, dict) or said.get("kind", KIND) != KIND:
        hint = "keep one document in it; several, and other kinds: fairlead apply -f FILE"
        raise RequestRejected([Violation("", "file", "is not one compute resource", hint, location=str(file))])
    fields = {ComputeResource.spell(name): value for name, value in said.items() if name != "kind"}
    violations: list[Violation] = []
    parsed = documents.parse_object(ComputeResource, {"name": "unnamed", **fields}, str(file), violations)
    if violations:
        raise RequestRejected(violations)
    return fields | ({"requirements": parsed.requirements.to_data()} if "requirements" in fields else {})


def _take(amounts: dict[str, str], requirements: dict[str, Any]) -> dict[str, Any]:
    """Requirements with other amounts. What else a resource says stays, such as its limit."""
    resources = dict(requirements.get("resources", {}))
    for name, amount in amounts.items():
        resources[name] = resources.get(name, {}) | {AMOUNTS[name]: amount}
    return requirements | {"resources": resources}


def _gpus(item: Item) -> Any:
    """How many GPUs, or how much of one."""
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
compute.command("fairlead.cli.linting:lint", name="lint", help="Check definitions in files before they are used.")
