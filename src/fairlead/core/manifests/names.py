"""Names of Kubernetes objects: always valid and unique, whatever the project and function names are."""

import hashlib
import re
from functools import lru_cache

from fairlead.model.names import LABEL_VALUE
from fairlead.model.urls import PROJECT

PREFIX = "fairlead.dev"
RUN_LABEL = f"{PREFIX}/run"
SECRET_NAME = f"{PREFIX}/secret"  # annotation with the secret's name in the project
MAX_LENGTH = 63  # the limit for DNS labels and for label values
MAX_RUN_LENGTH = MAX_LENGTH - len("-9999")  # Kubernetes appends an index to the names of an indexed Job's pods
HASHED = re.compile(r"-[0-9a-f]{8}$")


def slug(text: str, max_length: int = MAX_LENGTH) -> str:
    """A DNS label that starts with a letter. If the text had to be changed, a hash is appended."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    # Service names must start with a letter, and a run's Service has the same name as the run.
    if not plain[:1].isalpha():
        plain = f"r-{plain}".rstrip("-")
    # A name that already looks like it ends with a hash also gets one, so that it cannot collide with a hashed name.
    if plain == text and len(plain) <= max_length and not HASHED.search(plain):
        return plain
    return f"{plain[: max_length - 9].rstrip('-')}-{_hash(text, 8)}"


@lru_cache(maxsize=256)  # each plan computes the same name a dozen times
def run_name(function: str, run_id: str) -> str:
    """The name of a run's main object, which is also the prefix for the names of its other objects."""
    # The suffix has no hyphen, so it cannot be confused with the end of a function name or with a hash.
    # An ID that looks like a hash is hashed, so that it cannot collide with the hash of another ID.
    plain = re.fullmatch(r"(?![0-9a-f]{24}$)[a-z0-9]{1,40}", run_id)
    ending = run_id if plain else _hash(run_id, 24)
    return f"{slug(function, MAX_RUN_LENGTH - 1 - len(ending))}-{ending}"


@lru_cache(maxsize=256)
def namespace(project: str, template: str) -> str:
    """The namespace of a project, from the namespace template of its cluster."""
    before, _, after = template.partition(PROJECT)
    max_length = MAX_LENGTH - len(before) - len(after)
    name = f"{before}{slug(project, max_length)}{after}"
    # The kube- prefix is reserved for Kubernetes. A project must never use one of those namespaces.
    return f"{before}{slug(f'project {project}', max_length)}{after}" if name.startswith("kube-") else name


@lru_cache(maxsize=1024)
def label_value(text: str) -> str:
    """The text if it is a valid label value, else a unique label value for it."""
    return text if LABEL_VALUE.matches(text) else slug(text)


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
