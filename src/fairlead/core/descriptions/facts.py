"""What sentences are made of: the settings of a plan by path, where it would run, and the rules that hold there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairlead.core.policies.merging import EffectiveRule
from fairlead.model.plans import Layer, Sentence, Setting, Source
from fairlead.model.scopes import Cluster


@dataclass(frozen=True)
class Facts:
    """One plan. No cluster: where it will run is not known."""

    settings: Mapping[str, Setting]
    cluster: Cluster | None
    own: Layer  # of the thing that is told about: what it says itself needs no source
    rules: Mapping[str, EffectiveRule] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether one machine executes it, without Kubernetes."""
        return self.cluster is not None and self.cluster.executor == "local"

    def value(self, path: str) -> Any:
        """A resolved value, None where there is none."""
        setting = self.settings.get(path)
        return None if setting is None else setting.value

    def below(self, section: str) -> dict[str, Setting]:
        """What was said below a section, by the rest of its path; without what the platform itself sets."""
        return {
            path.removeprefix(f"{section}."): setting
            for path, setting in self.settings.items()
            if path.startswith(f"{section}.") and is_set(setting)
        }

    def locked_by(self, *paths: str) -> Source | None:
        """Whose rule keeps those who submit a run from saying anything at one of these paths."""
        rules = (self.rules.get(path) for path in paths)
        return next((rule.locked for rule in rules if rule is not None and rule.locked is not None), None)


def is_set(setting: Setting | None) -> bool:
    """Whether somebody asked for it: it has a value, and not only because every pod has one."""
    return setting is not None and setting.value is not None and setting.source.layer is not Layer.ENFORCED


def describe_source(facts: Facts, path: str, setting: Setting | None) -> Iterator[Sentence]:
    """Whose it is, where it is not said by the thing that is told about."""
    if setting is None or setting.source.layer in (facts.own, Layer.USER, Layer.ENFORCED):
        return
    source = setting.source
    if source.layer is Layer.COMPUTE_RESOURCE:
        yield Sentence(path, "note", f"Set by {source}, which wins.")
    elif source.layer is Layer.POLICY:
        yield Sentence(path, "note", f"That is the default of the {source}.")
    else:
        yield Sentence(path, "note", f"That is the {source}.")


def format_list(words: Sequence[str], last: str = "and", most: int = 5) -> str:
    """Words in a sentence: `a, b and c`; of many, the first few and how many more."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
        last = "and"
    return f" {last} ".join(filter(None, (", ".join(words[:-1]), words[-1])))
