"""What all objects of a run have in common: name, namespace, labels."""

from typing import Any

from fairlead.core.drafts import Draft
from fairlead.core.manifests import names


def name_of(draft: Draft, suffix: str = "") -> str:
    """The name of the run's main object, or of one that belongs to it."""
    return names.run_name(draft.function.name, draft.run_id) + (f"-{suffix}" if suffix else "")


def render_metadata(draft: Draft, suffix: str = "") -> dict[str, Any]:
    """Name, namespace and labels; the names in full where the labels could not hold them."""
    originals = {"project": draft.snapshot.project, "function": draft.function.name}
    changed = {
        f"{names.PREFIX}/{kind}-name": name for kind, name in originals.items() if names.label_value(name) != name
    }
    metadata = {
        "name": name_of(draft, suffix),
        "namespace": names.namespace(draft.snapshot.project),
        "labels": render_labels(draft),
    }
    return metadata | ({"annotations": changed} if changed else {})


def render_labels(draft: Draft) -> dict[str, str]:
    """The labels by which everything of a run is found."""
    return draft.resolution.values("labels")
