"""The input for descriptions: a plan's settings, its cluster and the rules that apply."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.model.plans import Layer, Sentence, Setting, Source
from fairlead.model.scopes import Cluster
from fairlead.resolution.policy_merging import EffectiveRule


@dataclass(frozen=True)
class Facts:
    """The facts about one plan. `cluster` is None if the run has no cluster yet."""

    settings: Mapping[str, Setting]
    cluster: Cluster | None
    own: Layer  # the layer of the described object; its values need no source
    rules: Mapping[str, EffectiveRule] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether the run uses the local executor, without Kubernetes."""
        return self.cluster is not None and self.cluster.executor == "local"

    def value(self, path: str) -> Any:
        """The resolved value at a path, or None."""
        setting = self.settings.get(path)
        return None if setting is None else setting.value

    def section(self, section: str) -> dict[str, Setting]:
        """The settings in a section, keyed by the rest of the path, without enforced settings."""
        return {
            path.removeprefix(f"{section}."): setting
            for path, setting in self.settings.items()
            if path.startswith(f"{section}.") and is_set(setting)
        }

    def locked_by(self, *paths: str) -> Source | None:
        """The source of a rule that locks one of the paths, or None."""
        rules = (self.rules.get(path) for path in paths)
        return next((rule.locked for rule in rules if rule is not None and rule.locked is not None), None)


def is_set(setting: Setting | None) -> bool:
    """Whether a setting has a value that is not enforced by the platform."""
    return setting is not None and setting.value is not None and setting.source.layer is not Layer.ENFORCED


def describe_source(facts: Facts, path: str, setting: Setting | None) -> Iterator[Sentence]:
    """A note with the source of a value, unless the described object sets it."""
    # The request is only a placeholder for the description, and enforced settings apply to every run.
    if setting is None or setting.source.layer in (facts.own, Layer.USER, Layer.ENFORCED):
        return
    source = setting.source
    if source.layer is Layer.COMPUTE_RESOURCE:
        yield Sentence(path, "note", f"(set by {source})")
    elif source.layer is Layer.POLICY:
        yield Sentence(path, "note", f"({source} default)")
    else:
        yield Sentence(path, "note", f"({source})")


def format_list(words: Sequence[str], last: str = "and", most: int = 5) -> str:
    """Join words for a sentence, as in `a, b and c`. Long lists end with the number of words left out."""
    if len(words) > most:
        # One word fewer than `most`, because the count of the others takes the last place.
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
        last = "and"
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1])))
