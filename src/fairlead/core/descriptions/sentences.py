"""A plan in plain sentences: what a pod will get and what may end it, field by field, on every cluster in question."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from fairlead.core.descriptions import amounts, container, gpus, placement
from fairlead.core.descriptions.facts import Facts, format_list
from fairlead.core.policies.merging import EffectiveRule
from fairlead.model.plans import Layer, Plan, Sentence
from fairlead.model.scopes import Cluster

Describer = Callable[[Facts], Iterator[Sentence]]


def describe_plans(
    plans: Sequence[tuple[Cluster | None, Plan]], own: Layer, rules: Mapping[str, EffectiveRule]
) -> tuple[Sentence, ...]:
    """What plans of one thing mean, each for its cluster. What they do not all say is told with the clusters' names.

    Own: the layer of the thing itself, whose name is said nowhere.
    """
    every = [
        Facts({setting.path: setting for setting in plan.settings}, cluster, own, rules) for cluster, plan in plans
    ]
    return tuple(sentence for teller in DESCRIBERS for sentence in _join(every, teller))


def _join(every: Sequence[Facts], teller: Describer) -> Iterator[Sentence]:
    told: dict[Sentence, list[str]] = {}
    for facts in every:
        for sentence in dict.fromkeys(teller(facts)):
            told.setdefault(sentence, []).append("" if facts.cluster is None else facts.cluster.name)
    for sentence, clusters in told.items():
        if len(clusters) == len(every):
            yield sentence
        else:
            where = f"cluster{'s' if len(clusters) > 1 else ''} {format_list(clusters)}"
            yield replace(sentence, text=f"On {where}: {_continue(sentence.text)}")


def _continue(text: str) -> str:
    """A sentence after a colon."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


DESCRIBERS: tuple[Describer, ...] = (
    container.describe_profile,
    gpus.describe_gpus,
    amounts.describe_cpu,
    amounts.describe_memory,
    amounts.describe_disk,
    amounts.describe_shared_memory,
    amounts.describe_extended,
    placement.describe_nodes,
    placement.describe_affinity,
    container.describe_volumes,
    container.describe_variables,
    container.describe_ids,
    placement.describe_classes,
)
