"""Where a run stands in a queue of its cluster, in sentences: what is taken, who is before it, and who holds what."""

from collections.abc import Callable, Iterator, Sequence

from fairlead.core.fitting.formatting import describe_amount, name_resource
from fairlead.model.queues import QueuePosition, QueueWorkload, QuotaUsage

MOST_NAMED = 5

Sees = Callable[[str], bool]  # whether the reader may know of the runs of a project


def describe_queue_position(queue_position: QueuePosition, sees: Sees) -> Iterator[str]:
    """All that is known at this moment, for a reader who may know of the runs of some projects only."""
    for resource, asked in queue_position.asks.items():
        shares = [share for share in queue_position.shares if share.resource == resource]
        if shares and all(asked > share.quota - share.taken for share in shares):
            yield _describe_shares(queue_position, asked, shares)
            if holders := [party for party in queue_position.holders if party.holds.get(resource)]:
                yield f"{_name_all(resource)} there: {_describe_parties(holders, sees, resource)}"
    if queue_position.waits:
        yield _describe_place(queue_position, sees)
    if queue_position.says:
        yield f"Kueue says: {queue_position.says}"
    if queue_position.blind:
        yield f"what is in its queue cannot be seen: {queue_position.blind}"


def _describe_shares(queue_position: QueuePosition, asked: int, shares: Sequence[QuotaUsage]) -> str:
    resource = shares[0].resource
    asks = f"asks for {describe_amount(resource, asked)} {name_resource(resource, asked)}"
    counts = [
        f"{describe_amount(resource, share.taken)} of {describe_amount(resource, share.quota)}" for share in shares
    ]
    told = counts[0]
    if len(shares) > 1:
        told = ", ".join(f"{count} of flavor {share.flavor}" for count, share in zip(counts, shares, strict=True))
    lent = f"; others of cohort {queue_position.cohort} share what is left" if queue_position.cohort else ""
    return f"{asks}; {told} are taken in {queue_position.pool}{lent}"


def _describe_place(queue_position: QueuePosition, sees: Sees) -> str:
    place = f"it is number {len(queue_position.ahead) + 1} in {queue_position.pool}"
    if not queue_position.ahead:
        return place
    rule = "" if queue_position.strict else "; what fits may go before what does not"
    return f"{place}, behind {_describe_parties(queue_position.ahead, sees)}{rule}"


def _describe_parties(parties: Sequence[QueueWorkload], sees: Sees, resource: str | None = None) -> str:
    """Those that the reader may know of by name, and how many others there are; with what they hold of a resource."""
    named = [party for party in parties if party.project and sees(party.project)][:MOST_NAMED]
    told = [f"run {party.name}{_describe_held([party], resource)}" for party in named]
    others = [party for party in parties if party not in named]
    if others:
        noun = f"{len(others)} other{'s' * (len(others) > 1)}" if named else f"{len(others)} of others"
        told.append(noun + _describe_held(others, resource))
    return f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else told[0]


def _describe_held(parties: Sequence[QueueWorkload], resource: str | None) -> str:
    if resource is None:
        return ""
    return f" ({describe_amount(resource, sum(party.holds.get(resource, 0) for party in parties))})"


def _name_all(resource: str) -> str:
    return f"who holds {name_resource(resource, 0)}"
