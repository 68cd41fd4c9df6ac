"""Names of Kubernetes objects: always valid, and different for different things, however odd those are called."""

import hashlib
import re
from functools import lru_cache

from fairlead.model.names import LABEL_VALUE
from fairlead.model.urls import PROJECT

PREFIX = "fairlead.dev"
RUN_LABEL = f"{PREFIX}/run"
SECRET_NAME = f"{PREFIX}/secret"  # an annotation: the secret of the project that is the value of a Secret
LONGEST = 63
LONGEST_RUN = LONGEST - len("-9999")  # the pods of an indexed Job are called after it, with their index
HASHED = re.compile(r"-[0-9a-f]{8}$")


def slug(text: str, longest: int = LONGEST) -> str:
    """A DNS label that begins with a letter. What had to be changed ends in a hash of the original."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if not plain[:1].isalpha():
        plain = f"r-{plain}".rstrip("-")
    # A name that looks like one of ours with a hash gets one too, so that it cannot be taken for it.
    if plain == text and len(plain) <= longest and not HASHED.search(plain):
        return plain
    return f"{plain[: longest - 9].rstrip('-')}-{_hash(text, 8)}"


@lru_cache(maxsize=256)  # all objects of a run ask for the same names, a dozen times a plan
def run_name(function: str, run_id: str) -> str:
    """The name of a run's main object, and the beginning of the names of all that belong to it."""
    # Without a hyphen in it, it cannot be taken for the end of the function's name, nor for the hash of another one.
    plain = re.fullmatch(r"(?![0-9a-f]{24}$)[a-z0-9]{1,40}", run_id)
    ending = run_id if plain else _hash(run_id, 24)
    return f"{slug(function, LONGEST_RUN - 1 - len(ending))}-{ending}"


@lru_cache(maxsize=256)
def namespace(project: str, rule: str) -> str:
    """The namespace of a project, as the rule of its cluster has it."""
    before, _, after = rule.partition(PROJECT)
    longest = LONGEST - len(before) - len(after)
    name = f"{before}{slug(project, longest)}{after}"
    # Kubernetes keeps kube- for itself; a project must never land in one of its own namespaces.
    return f"{before}{slug(f'project {project}', longest)}{after}" if name.startswith("kube-") else name


@lru_cache(maxsize=1024)
def label_value(text: str) -> str:
    """The text itself where a label can hold it, else a label that stands for it."""
    return text if LABEL_VALUE.matches(text) else slug(text)


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:length]
