"""The organization tree: platform > cluster > department > project, and what a cluster can do."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, model_validator

from fairlead.model.names import NAME, DnsLabel, DnsSubdomain, ExtendedResourceName, Image, LabelKey, LabelValue, Name
from fairlead.model.parsing import Flag, Mistake, Strict, refuse, show, wrong
from fairlead.model.urls import NamespaceRule, ServerUrl

PLATFORM = "platform"
KINDS = ("cluster", "department", "project")
RANKS = {kind: rank for rank, kind in enumerate((PLATFORM, *KINDS))}


def parse_scope(value: Any) -> str:
    """A place in the tree: `platform`, `cluster/<name>`, `department/<name>` or `project/<name>`."""
    hint = "write platform, cluster/<name>, department/<name> or project/<name>"
    kind, _, name = value.partition("/") if isinstance(value, str) else ("", "", "")
    if value != PLATFORM and (kind not in KINDS or not NAME.matches(name)):
        raise wrong("scope", f"is no scope: {show(value)}", hint)
    return str(value)


def rank_of(scope: str) -> int:
    """How far down the tree a scope stands; the platform is 0."""
    return RANKS[scope.partition("/")[0]]


def check_products(products: tuple[str, ...]) -> tuple[str, ...]:
    """The products of a type of GPU, of which there is at least one."""
    if not products:
        raise wrong("length", "must name at least one product, found none", "say what the nodes' labels say")
    return products


Products = Annotated[tuple[LabelValue, ...], AfterValidator(check_products)]
ScopeRef = Annotated[
    str,
    PlainValidator(parse_scope),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(platform|(cluster|department|project)/[A-Za-z0-9][A-Za-z0-9._+-]{0,127})$",
            "examples": ["platform", "project/forest"],
        }
    ),
]


class Scope(Strict):
    """A node of the tree. A parent stands further up."""

    KIND: ClassVar[str]

    name: Name
    parent: ScopeRef = PLATFORM

    @property
    def scope(self) -> str:
        """How this place is named as a scope."""
        return f"{self.KIND}/{self.name}"

    @model_validator(mode="after")
    def _check_parent(self) -> Self:
        if rank_of(self.parent) >= RANKS[self.KIND]:
            message = f"a {self.KIND} cannot stand below {self.parent}"
            raise wrong("scope", message, "the tree is platform > cluster > department > project", at="parent")
        return self


class Cluster(Scope):
    """Where runs execute, how it is reached, and what it can do."""

    KIND = "cluster"
    EXAMPLE: ClassVar[Any] = {
        "name": "main",
        "namespace": "ai-{project}",
        "gpu_sharing": "kai",
        "gpu_types": {"A100": ["NVIDIA-A100-SXM4-80GB"]},
    }
    OF_KUBERNETES: ClassVar[tuple[str, ...]] = (  # of which one machine knows nothing
        *("connection", "namespace", "create_namespaces", "server_url", "queueing", "kueue_queue", "autoscaled"),
        *("storage_classes", "runtime_classes"),
    )

    executor: Literal["kubernetes", "local"] = "kubernetes"
    connection: Literal["kubeconfig", "in_cluster"] = "kubeconfig"
    namespace: NamespaceRule = "{project}"
    create_namespaces: Flag = True
    server_url: ServerUrl | None = None
    gpu_resource: ExtendedResourceName = "nvidia.com/gpu"
    gpu_sharing: Literal["none", "kai", "hami"] = "none"
    gpu_product_label: LabelKey = "nvidia.com/gpu.product"
    gpu_types: Mapping[LabelValue, Products] = Field(default_factory=dict)
    queueing: Literal["none", "kueue", "kai"] = "none"
    kai_queue: DnsLabel = "default-queue"
    kueue_queue: DnsLabel = "default"
    autoscaled: Flag = False
    storage_classes: tuple[DnsSubdomain, ...] | None = None
    runtime_classes: tuple[DnsSubdomain, ...] | None = None
    python_image: Image = "python:3.12-slim"

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        refuse(self._find_mistakes())
        return self

    def _find_mistakes(self) -> Iterator[Mistake]:
        """What does not go together."""
        # HAMi calls its resources after the GPU's, with an ending.
        longest = 63 - len("mem-percentage")
        if self.gpu_sharing == "hami" and len(self.gpu_resource.partition("/")[2]) > longest:
            message = f"has more than {longest} characters after the domain, which hami adds to: {self.gpu_resource}"
            yield Mistake("gpu_resource", "too_long", message, "use a shorter name")
        if self.gpu_sharing == "hami" and self.queueing == "kai":
            message = "kai is a scheduler of its own, and gpu_sharing: hami names another: one pod has one"
            yield Mistake("queueing", "contradiction", message, "use gpu_sharing: kai, or queueing: kueue")
        for name in self.OF_KUBERNETES if self.executor == "local" else ():
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                message = f"is for Kubernetes, found {show(value)} with executor: local, which is one machine"
                yield Mistake(name, "contradiction", message, "leave it out, or set executor to kubernetes")


class Department(Scope):
    """A part of the organization that shares policies and compute resources."""

    KIND = "department"
    EXAMPLE: ClassVar[Any] = {"name": "vision", "parent": "cluster/main"}


class Project(Scope):
    """Where functions, secrets and runs live; on Kubernetes, one namespace."""

    KIND = "project"
    EXAMPLE: ClassVar[Any] = {"name": "forest", "parent": "department/vision"}
