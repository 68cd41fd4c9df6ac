"""What all objects of a run have in common: name, namespace, labels."""

from typing import Any

from fairlead.core.drafts import Draft
from fairlead.core.manifests import names


def name_of(draft: Draft, suffix: str = "") -> str:
    """The name of the run's main object, or of one that belongs to it."""
    return names.run_name(draft.function.name, draft.run_id) + (f"-{suffix}" if suffix else "")


def render_metadata(draft: Draft, suffix: str = "", **noted: str) -> dict[str, Any]:
    """Name, namespace and labels, and annotations of ours where there is something to note."""
    annotations = render_names(draft) | {f"{names.PREFIX}/{name}": text for name, text in noted.items()}
    metadata = {
        "name": name_of(draft, suffix),
        "namespace": names.namespace(draft.snapshot.project, draft.cluster.namespace),
        "labels": render_labels(draft),
    }
    return metadata | ({"annotations": annotations} if annotations else {})


def render_names(draft: Draft) -> dict[str, str]:
    """The names in full where the labels could not hold them, as annotations."""
    originals = {"project": draft.snapshot.project, "function": draft.function.name}
    return {f"{names.PREFIX}/{kind}-name": name for kind, name in originals.items() if names.label_value(name) != name}


def render_labels(draft: Draft) -> dict[str, str]:
    """The labels by which everything of a run is found."""
    return draft.resolution.values("labels")
