"""Names of Kubernetes objects: always valid, and different for different things, however odd those are called."""

import hashlib
import re

from fairlead.model.names import LABEL_VALUE

LONGEST = 63
HASHED = re.compile(r"-[0-9a-f]{8}$")


def slug(text: str, longest: int = LONGEST) -> str:
    """A DNS label that begins with a letter. What had to be changed ends in a hash of the original."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"r-{plain}".rstrip("-")
    # A name that looks like one of ours with a hash gets one too, so that it cannot be taken for it.
    if plain == text and len(plain) <= longest and not HASHED.search(plain):
        return plain
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: longest - 9].rstrip('-')}-{digest}"


def run_name(function: str, run_id: str) -> str:
    """The name of a run's main object, and the beginning of the names of all that belong to it."""
    ending = slug(run_id, 40) if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", run_id) else run_id
    return f"{slug(function, LONGEST - 1 - len(ending))}-{ending}"


def namespace(project: str) -> str:
    """The namespace of a project."""
    return slug(project)


def label_value(text: str) -> str:
    """The text itself where a label can hold it, else a label that stands for it."""
    return text if LABEL_VALUE.matches(text) else slug(text)
