"""The organization tree (platform > cluster > department > project), cluster configuration, roles and permissions."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, model_validator

from fairlead.model.names import (
    NAME,
    DnsLabel,
    DnsSubdomain,
    ExtendedResourceName,
    Image,
    LabelKey,
    LabelValue,
    Name,
    NamespaceTemplate,
    ServerUrl,
)
from fairlead.model.parsing import Flag, Mistake, StrictModel, field_error, parse_text, raise_mistakes, short_repr
from fairlead.model.records import ScopeRecord

PLATFORM = "platform"
KINDS = ("cluster", "department", "project")  # from the top down, so that the position determines the rank
RANKS = {kind: rank for rank, kind in enumerate((PLATFORM, *KINDS))}

MAX_SUBJECT_LENGTH = 256


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
        *("storage_classes", "runtime_classes", "gpu_sharing"),
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


class Role(StrEnum):
    """A role for a user or group. It applies to a scope and every scope inside it."""

    ADMIN = "admin"
    EDITOR = "editor"
    MEMBER = "member"
    VIEWER = "viewer"


class Permission(StrEnum):
    """A permission at a scope. The value completes the sentence "you may not ... <scope>"."""

    VIEW = "view"
    SHARE = "share compute resources, templates and policies in"
    RUN = "run workloads in"
    ADMINISTER = "administer"


ROLE_PERMISSIONS = {
    Role.ADMIN: frozenset(Permission),
    # Editors manage compute resources, and members submit runs. Neither role includes the other.
    Role.EDITOR: frozenset({Permission.VIEW, Permission.SHARE}),
    Role.MEMBER: frozenset({Permission.VIEW, Permission.RUN}),
    Role.VIEWER: frozenset({Permission.VIEW}),
}


def parse_subject(value: Any) -> str:
    """Parse the subject of a grant: `user:<name>` or `group:<name>`."""
    text = parse_text(value)
    kind, _, name = text.partition(":")
    if kind not in ("user", "group") or not name or len(text) > MAX_SUBJECT_LENGTH or not name.isprintable():
        raise field_error("subject", f"invalid subject {short_repr(value)}", "use user:<name> or group:<name>")
    return text


Subject = Annotated[
    str, PlainValidator(parse_subject), WithJsonSchema({"type": "string", "pattern": "^(user|group):.+$"})
]


class Grant(StrictModel):
    """Grants a role to a user or group at a scope."""

    EXAMPLE: ClassVar[Any] = {"subject": "user:ada@example.org", "role": "member", "scope": "project/forest"}

    subject: Subject
    role: Role
    scope: ScopeRef = PLATFORM


@dataclass(frozen=True)
class ScopeTree:
    """The parent of each scope. The platform is the root and has no parent."""

    parents: Mapping[str, str] = field(default_factory=dict)

    def path(self, scope: str) -> list[str]:
        """A scope and its ancestors, from the platform down."""
        path = [scope]
        while (parent := self.parents.get(path[-1])) is not None:
            path.append(parent)
        # Files do not have to define the platform, and an unknown scope is treated as a child of the platform.
        return [*([] if PLATFORM in path else [PLATFORM]), *reversed(path)]

    def are_related(self, one: str, other: str) -> bool:
        """Whether one of two scopes contains the other, or they are the same."""
        return one in self.path(other) or other in self.path(one)

    def descendants(self, scope: str) -> list[str]:
        """All scopes inside a scope, nearest first."""
        descendants: list[str] = []
        waiting = [scope]
        while waiting:
            children = self.children.get(waiting.pop(0), [])
            descendants += children
            waiting += children
        return descendants

    def projects_in(self, scope: str) -> list[str]:
        """The names of the projects inside a scope."""
        return sorted(inner.partition("/")[2] for inner in self.descendants(scope) if inner.startswith("project/"))

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """The children of each scope."""
        children: dict[str, list[str]] = {}
        for scope, parent in self.parents.items():
            children.setdefault(parent, []).append(scope)
        return children

    def cluster_of(self, scope: str) -> str | None:
        """The cluster that contains a scope, or the scope itself if it is a cluster; None if there is none."""
        return next((ancestor for ancestor in self.path(scope) if ancestor.startswith("cluster/")), None)


def read_cluster(record: ScopeRecord) -> Cluster:
    """Convert a scope record to a cluster."""
    return Cluster.model_validate({"name": record.name, "parent": record.parent or PLATFORM, **record.details})


@dataclass(frozen=True)
class Permissions:
    """The roles of one caller by scope."""

    tree: ScopeTree
    roles: Mapping[str, frozenset[Role]] = field(default_factory=dict)

    def may(self, permission: Permission, scope: str) -> bool:
        """Whether the caller has the permission through a role in the scope or in a scope that contains it."""
        return any(
            permission in ROLE_PERMISSIONS[role]
            for ancestor in self.tree.path(scope)
            for role in self.roles.get(ancestor, ())
        )

    def sees(self, scope: str) -> bool:
        """Whether the caller has a role in the scope, in a scope that contains it, or in one inside it."""
        return self.visible is None or scope in self.visible

    @cached_property
    def visible(self) -> frozenset[str] | None:
        """The visible scopes: those with a role, all scopes inside them, and all that contain them. None means all."""
        # With None, lists need no scope condition.
        if PLATFORM in self.roles:
            return None
        # The scopes above are included, because their policies and compute resources apply to the caller's runs.
        return frozenset(
            related for scope in self.roles for related in (*self.tree.path(scope), *self.tree.descendants(scope))
        )

    def scopes_with(self, permission: Permission) -> frozenset[str] | None:
        """The scopes in which the caller has the permission. None means all."""
        granted = [
            scope for scope, roles in self.roles.items() if any(permission in ROLE_PERMISSIONS[role] for role in roles)
        ]
        if PLATFORM in granted:
            return None
        return frozenset(inner for scope in granted for inner in (scope, *self.tree.descendants(scope)))


def permissions_of(
    user: str, groups: Iterable[str], grants: Iterable[tuple[str, str, str]], tree: ScopeTree
) -> Permissions:
    """Collect the roles of a user and their groups from all grants, given as (subject, role, scope)."""
    subjects = {f"user:{user}", *(f"group:{group}" for group in groups)}
    roles: dict[str, set[Role]] = {}
    for subject, role, scope in grants:
        if subject in subjects:
            roles.setdefault(scope, set()).add(Role(role))
    return Permissions(tree, {scope: frozenset(granted) for scope, granted in roles.items()})
