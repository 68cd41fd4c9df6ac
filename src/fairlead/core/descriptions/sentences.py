"""Descriptions of plans in sentences: what each pod gets and what may stop it, on each cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from fairlead.core.descriptions import amounts, container, gpus, placement
from fairlead.core.descriptions.facts import Facts, format_list
from fairlead.model.plans import Layer, Plan, Sentence
from fairlead.model.scopes import Cluster
from fairlead.resolution.policy_merging import EffectiveRule

Describer = Callable[[Facts], Iterator[Sentence]]


def describe_plans(
    plans: Sequence[tuple[Cluster | None, Plan]], own: Layer, rules: Mapping[str, EffectiveRule]
) -> tuple[Sentence, ...]:
    """Describe the plans of one object on several clusters. Sentences that differ start with the cluster names.

    `own` is the layer of the described object. Values from that layer need no source.
    """
    facts_of_clusters = [
        Facts({setting.path: setting for setting in plan.settings}, cluster, own, rules) for cluster, plan in plans
    ]
    return tuple(sentence for describe in DESCRIBERS for sentence in _merge(facts_of_clusters, describe))


def _merge(facts_of_clusters: Sequence[Facts], describe: Describer) -> Iterator[Sentence]:
    clusters_of: dict[Sentence, list[str]] = {}
    for facts in facts_of_clusters:
        # A sentence that occurs twice on a cluster must be counted only once.
        for sentence in dict.fromkeys(describe(facts)):
            clusters_of.setdefault(sentence, []).append("" if facts.cluster is None else facts.cluster.name)
    for sentence, clusters in clusters_of.items():
        if len(clusters) == len(facts_of_clusters):
            yield sentence
        else:
            names = f"cluster{'s' if len(clusters) > 1 else ''} {format_list(clusters)}"
            yield replace(sentence, text=f"On {names}: {_uncapitalize(sentence.text)}")


def _uncapitalize(text: str) -> str:
    """The sentence with a lowercase first letter, unless the first word is an acronym."""
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
