"""A plan in plain sentences: what a pod will get and what may end it, field by field, on every cluster in question."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from fairlead.core.policies.merging import EffectiveRule
from fairlead.core.telling import amounts, contents, gpus, placing
from fairlead.core.telling.facts import Facts, listed
from fairlead.model.plans import Layer, Plan, Sentence
from fairlead.model.scopes import Cluster

Teller = Callable[[Facts], Iterator[Sentence]]


def tell(
    plans: Sequence[tuple[Cluster | None, Plan]], own: Layer, rules: Mapping[str, EffectiveRule]
) -> tuple[Sentence, ...]:
    """What plans of one thing mean, each for its cluster. What they do not all say is told with the clusters' names.

    Own: the layer of the thing itself, whose name is said nowhere.
    """
    every = [
        Facts({setting.path: setting for setting in plan.settings}, cluster, own, rules) for cluster, plan in plans
    ]
    return tuple(sentence for teller in TELLERS for sentence in _join(every, teller))


def _join(every: Sequence[Facts], teller: Teller) -> Iterator[Sentence]:
    told: dict[Sentence, list[str]] = {}
    for facts in every:
        for sentence in dict.fromkeys(teller(facts)):
            told.setdefault(sentence, []).append("" if facts.cluster is None else facts.cluster.name)
    for sentence, clusters in told.items():
        if len(clusters) == len(every):
            yield sentence
        else:
            where = f"cluster{'s' if len(clusters) > 1 else ''} {listed(clusters)}"
            yield replace(sentence, text=f"On {where}: {_continue(sentence.text)}")


def _continue(text: str) -> str:
    """A sentence after a colon."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


TELLERS: tuple[Teller, ...] = (
    contents.tell_profile,
    gpus.tell_gpus,
    amounts.tell_cpu,
    amounts.tell_memory,
    amounts.tell_disk,
    amounts.tell_shared_memory,
    amounts.tell_extended,
    placing.tell_nodes,
    placing.tell_affinity,
    contents.tell_volumes,
    contents.tell_variables,
    contents.tell_ids,
    placing.tell_classes,
)
