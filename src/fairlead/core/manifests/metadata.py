"""Metadata for a run's objects: name, namespace, labels and annotations."""

from typing import Any

from fairlead.model import names
from fairlead.resolution.drafts import Draft


def name_of(draft: Draft, suffix: str = "") -> str:
    """The name of a run's main object, or with a suffix, the name of another object."""
    return names.run_name(draft.function.name, draft.run_id) + (f"-{suffix}" if suffix else "")


def render_metadata(draft: Draft, suffix: str = "", **annotated: str) -> dict[str, Any]:
    """Name, namespace, labels and annotations of an object."""
    annotations = render_names(draft) | {f"{names.PREFIX}/{name}": text for name, text in annotated.items()}
    metadata = {
        "name": name_of(draft, suffix),
        "namespace": names.namespace(draft.snapshot.project, draft.cluster.namespace),
        "labels": render_labels(draft),
    }
    return metadata | ({"annotations": annotations} if annotations else {})


def render_names(draft: Draft) -> dict[str, str]:
    """Annotations with the full project and function names if these are not valid label values."""
    originals = {"project": draft.snapshot.project, "function": draft.function.name}
    return {f"{names.PREFIX}/{kind}-name": name for kind, name in originals.items() if names.label_value(name) != name}


def render_labels(draft: Draft) -> dict[str, str]:
    """The labels that all of a run's objects have."""
    return draft.resolution.values("labels")
