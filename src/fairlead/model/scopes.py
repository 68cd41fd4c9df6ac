"""The organization tree: platform > cluster > department > project, and cluster configuration."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, model_validator

from fairlead.model.names import NAME, DnsLabel, DnsSubdomain, ExtendedResourceName, Image, LabelKey, LabelValue, Name
from fairlead.model.parsing import Flag, Mistake, StrictModel, field_error, raise_mistakes, short_repr
from fairlead.model.urls import NamespaceTemplate, ServerUrl

PLATFORM = "platform"
KINDS = ("cluster", "department", "project")  # from the top down, so that the position determines the rank
RANKS = {kind: rank for rank, kind in enumerate((PLATFORM, *KINDS))}


def parse_scope(value: Any) -> str:
    """Parse a scope: `platform`, `cluster/<name>`, `department/<name>` or `project/<name>`."""
    hint = "use platform, cluster/<name>, department/<name> or project/<name>"
    kind, _, name = value.partition("/") if isinstance(value, str) else ("", "", "")
    if value != PLATFORM and (kind not in KINDS or not NAME.matches(name)):
        raise field_error("scope", f"invalid scope {short_repr(value)}", hint)
    return str(value)


def rank_of(scope: str) -> int:
    """The level of a scope in the tree; the platform is 0."""
    return RANKS[scope.partition("/")[0]]


def check_products(products: tuple[str, ...]) -> tuple[str, ...]:
    """Reject an empty list of products for a GPU type."""
    # The product list becomes an affinity with the In operator, for which Kubernetes requires at least one value.
    if not products:
        raise field_error("length", "must have at least one product, found none", "add a product from the node labels")
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


class Scope(StrictModel):
    """A node in the organization tree. Its parent must be on a higher level."""

    KIND: ClassVar[str]

    name: Name
    parent: ScopeRef = PLATFORM

    @property
    def scope(self) -> str:
        """The reference to this scope, such as `project/forest`."""
        return f"{self.KIND}/{self.name}"

    @model_validator(mode="after")
    def _check_parent(self) -> Self:
        if rank_of(self.parent) >= RANKS[self.KIND]:
            message = f"a {self.KIND} cannot be inside {self.parent}"
            hint = "use a higher level: platform > cluster > department > project"
            raise field_error("scope", message, hint, path="parent")
        return self


class Cluster(Scope):
    """A cluster that executes runs: connection, namespaces, GPU sharing and queueing."""

    KIND = "cluster"
    EXAMPLE: ClassVar[Any] = {
        "name": "main",
        "namespace": "ai-{project}",
        "gpu_sharing": "kai",
        "gpu_types": {"A100": ["NVIDIA-A100-SXM4-80GB"]},
    }
    KUBERNETES_FIELDS: ClassVar[tuple[str, ...]] = (  # meaningless with executor: local
        *("connection", "namespace", "create_namespaces", "server_url", "queueing", "kueue_queue", "autoscaled"),
        *("storage_classes", "runtime_classes"),
    )

    executor: Literal["kubernetes", "local"] = "kubernetes"
    connection: Literal["kubeconfig", "in_cluster"] = "kubeconfig"  # in_cluster: the server is a pod in this cluster
    namespace: NamespaceTemplate = "{project}"
    create_namespaces: Flag = True
    server_url: ServerUrl | None = None  # None: pods cannot download large code or upload files
    gpu_resource: ExtendedResourceName = "nvidia.com/gpu"
    gpu_sharing: Literal["none", "kai", "hami"] = "none"
    gpu_product_label: LabelKey = "nvidia.com/gpu.product"
    gpu_types: Mapping[LabelValue, Products] = Field(default_factory=dict)
    queueing: Literal["none", "kueue", "kai"] = "none"
    kai_queue: DnsLabel = "default-queue"
    kueue_queue: DnsLabel = "default"
    autoscaled: Flag = False  # nodes may be added, so runs that fit no existing node are not rejected
    storage_classes: tuple[DnsSubdomain, ...] | None = None  # None: all
    runtime_classes: tuple[DnsSubdomain, ...] | None = None  # None: all
    python_image: Image = "python:3.12-slim"

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        raise_mistakes(self._find_mistakes())
        return self

    def _find_mistakes(self) -> Iterator[Mistake]:
        """Contradictions between fields."""
        # HAMi appends a suffix to the GPU resource name, and Kubernetes allows 63 characters after the domain.
        max_length = 63 - len("mem-percentage")
        if self.gpu_sharing == "hami" and len(self.gpu_resource.partition("/")[2]) > max_length:
            message = f"must have at most {max_length} characters after the domain for hami, found {self.gpu_resource}"
            yield Mistake("gpu_resource", "too_long", message, "use a shorter name")
        if self.gpu_sharing == "hami" and self.queueing == "kai":
            message = "kai and gpu_sharing: hami need different schedulers, but a pod has only one"
            yield Mistake("queueing", "contradiction", message, "use gpu_sharing: kai, or queueing: kueue")
        # Default values are accepted, because forms send all fields.
        for name in self.KUBERNETES_FIELDS if self.executor == "local" else ():
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                message = f"must not be set with executor: local, found {short_repr(value)}"
                yield Mistake(name, "contradiction", message, "remove it, or set executor to kubernetes")


class Department(Scope):
    """A department: a group of projects that share policies and compute resources."""

    KIND = "department"
    EXAMPLE: ClassVar[Any] = {"name": "vision", "parent": "cluster/main"}


class Project(Scope):
    """A project with functions, secrets and runs. On Kubernetes, each project has its own namespace."""

    KIND = "project"
    EXAMPLE: ClassVar[Any] = {"name": "forest", "parent": "department/vision"}
