"""What the Gantt draws, as whole numbers: lanes of requests, and the steps of every server, on one time axis.

The drawing thins, the numbers do not: at most `LANES` requests are drawn (the same ones under every policy, those that
waited longest among them) and at most `BINS` groups of steps a server. Times are whole microseconds.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pycore.simulation.records import DECODE, PREFILL, SWAP_IN, SWAP_OUT, Gap, RequestRecord, Result, Server, span_bounds
from studios.explain import help_field, plain

LANES, BINS = 40, 600
WORST = 10  # of the drawn requests, those that waited longest under some policy
FINEST = 20_000  # of a crowded picture nothing is kept that is narrower than the whole divided by this
CROWDED = 3_000  # marks of one policy

MARKS = ("prefill", "decode", "swap in", "swap out", "waiting to start", "held back", "preempted", "KV in flight")
"""Kinds of marks, by the number that stands for them in a scene."""
WAITING, HELD, LOST, FLIGHT = 4, 5, 6, 7
WORK = {PREFILL: 0, DECODE: 1, SWAP_IN: 2, SWAP_OUT: 3}

Mark = tuple[int, int, int, int]  # kind, start, length, tokens (work) or index of a text (idle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One request under one policy."""

    id: str = help_field("the request's name")
    tokens: str = help_field("'6,000 → 60': prompt and answer")
    arrival: int = help_field("us")
    first: int = help_field("first token, us; -1 where none came")
    end: int = help_field("last token or the moment it was given up, us")
    fate: str = help_field("'' where it finished, else what became of it")
    marks: tuple[Mark, ...] = help_field("work and idle time in order")


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The steps of one server, grouped where there are many."""

    name: str = help_field("the server's name")
    blocks: int = help_field("blocks of its KV pool")
    group: int = help_field("steps in a group")
    most_waiting: int = help_field("longest queue")
    most_tokens: int = help_field("most tokens of a step")
    bins: tuple[tuple[int, ...], ...] = help_field(
        "start, end, prefill tokens, decodes, blocks used, cached besides, running, waiting: most of each in the group")


def idle(results: Sequence[Result]) -> dict[str, tuple[int, int]]:
    """By request: how long it stood still under the policy where that was worst (ns), and which that is. Who never stood
    still is left out."""
    worst: dict[str, tuple[int, int]] = {}
    for number, result in enumerate(results):
        for one in result.requests:
            length = sum([gap.end_ns - gap.start_ns for gap in one.gaps])
            if length > worst.get(one.id, (0,))[0]:
                worst[one.id] = (length, number)
    return worst


def drawn(everyone: Sequence[RequestRecord], worst: dict[str, tuple[int, int]]) -> tuple[str, ...]:
    """Ids of the requests to draw, in order of arrival. `worst`: see `idle`."""
    if len(everyone) <= LANES:
        return tuple(one.id for one in everyone)
    longest = sorted(worst, key=lambda name: (-worst[name][0], name))[:WORST]
    rest = LANES - len(longest)
    spread = [everyone[index * len(everyone) // rest].id for index in range(rest)]
    chosen = {*longest, *spread}
    return tuple(one.id for one in everyone if one.id in chosen)


def lanes(result: Result, names: Iterable[str], texts: dict[str, int]) -> tuple[Lane, ...]:
    """The lanes of the named requests. `texts` collects the reasons in words, by their index."""
    wanted = dict.fromkeys(names)
    records = [one for one in result.requests if one.id in wanted]
    pieces = [marks(result, one, texts) for one in records]
    if sum(map(len, pieces)) > CROWDED:
        pieces = [merged(piece, result.makespan_ns // 1000 // FINEST) for piece in pieces]
    return tuple(lane(one, piece) for one, piece in zip(records, pieces, strict=True))


def lane(record: RequestRecord, pieces: Sequence[Mark]) -> Lane:
    """One request under one policy."""
    end = record.finished_ns if record.finished else record.dropped_ns
    fate = "" if record.finished else record.dropped or "unfinished"
    last = pieces[-1][1] + pieces[-1][2] if pieces else record.arrival_ns // 1000
    return Lane(id=plain(record.id, 40), tokens=f"{record.prompt_tokens:,} → {record.output_tokens:,}",
                arrival=record.arrival_ns // 1000, fate=plain(fate, 80), marks=tuple(pieces),
                first=-1 if record.first_token_ns is None else record.first_token_ns // 1000,
                end=last if end is None else end // 1000)


def marks(result: Result, record: RequestRecord, texts: dict[str, int]) -> list[Mark]:
    """Work and idle time of a request by their start, us."""
    found = []
    for span in record.spans:
        start, end = span_bounds(result, span)
        found.append((WORK[span.kind], start // 1000, end // 1000 - start // 1000, span.tokens))
    for gap in record.gaps:
        kind = idle_kind(gap, record)
        text = texts.setdefault(reason_text(gap), len(texts))
        found.append((kind, gap.start_ns // 1000, gap.end_ns // 1000 - gap.start_ns // 1000, text))
    return sorted(found, key=lambda mark: (mark[1], mark[0]))


def idle_kind(gap: Gap, record: RequestRecord) -> int:
    """Which mark stands for a gap."""
    if gap.reason in ("preempted", "swapped out"):
        return LOST
    if gap.reason == "KV in flight":
        return FLIGHT
    begun = record.first_scheduled_ns
    return WAITING if begun is None or gap.start_ns < begun else HELD


def reason_text(gap: Gap) -> str:
    return plain(gap.reason + (f" of {gap.behind}" if gap.behind and gap.reason == "behind prefill" else
                               f" (behind {gap.behind})" if gap.behind else ""), 80)


def merged(pieces: Sequence[Mark], shortest: int) -> list[Mark]:
    """Neighbouring marks as one where they are too narrow to be seen; the longer of two lends its kind."""
    out: list[Mark] = []
    for kind, start, length, count in pieces:
        if out and length < shortest and out[-1][2] < shortest:
            before = out[-1]
            longer = (kind, count) if length > before[2] else (before[0], before[3])
            out[-1] = (longer[0], before[1], start + length - before[1], longer[1])
        else:
            out.append((kind, start, length, count))
    return out


def strip(server: Server) -> Strip:
    """A server's steps in at most `BINS` groups."""
    steps = server.steps
    group = max(1, -(-len(steps) // BINS))
    bins = []
    for at in range(0, len(steps), group):
        part = steps[at:at + group]
        used = max(one.blocks_used for one in part)
        held = max(one.blocks_used + one.blocks_cached for one in part)
        bins.append((part[0].start_ns // 1000, part[-1].end_ns // 1000, max(one.prefill_tokens for one in part),
                     max(one.decode_sequences for one in part), used, held - used, max(one.running for one in part),
                     max(one.waiting for one in part)))
    return Strip(name=plain(server.name, 40), blocks=server.blocks, group=group, bins=tuple(bins),
                 most_waiting=max((one[7] for one in bins), default=0),
                 most_tokens=max((one[2] + one[3] for one in bins), default=0))


def as_json(runs: Iterable[dict], texts: dict[str, int], span: int) -> str:
    """The scene for the player: numbers in flat lists, starts as the distance from what stands before them."""
    return json.dumps({"span": span, "kinds": MARKS, "texts": list(texts), "runs": list(runs)},
                      ensure_ascii=False, separators=(",", ":"))


def run_json(label: str, its_lanes: Sequence[Lane], strips: Sequence[Strip], band: tuple[int, int, str] | None) -> dict:
    """One policy for the player."""
    return {"label": label, "band": band, "lanes": [
        {"id": one.id, "tokens": one.tokens, "arrival": one.arrival, "first": one.first, "end": one.end,
         "fate": one.fate, "marks": flat_marks(one.marks)} for one in its_lanes], "strips": [
        {"name": one.name, "blocks": one.blocks, "group": one.group, "tokens": one.most_tokens,
         "waiting": one.most_waiting, "bins": flat_bins(one.bins)} for one in strips]}


def flat_marks(pieces: Sequence[Mark]) -> list[int]:
    """Marks in one list, each start as the distance from the end before it."""
    out, at = [], 0
    for kind, start, length, count in pieces:
        out += (kind, start - at, length, count)
        at = start + length
    return out


def flat_bins(bins: Sequence[tuple[int, ...]]) -> list[int]:
    """Groups of steps in one list: distance from the end before, length, counts."""
    out, at = [], 0
    for start, end, *counts in bins:
        out += (start - at, end - start, *counts)
        at = end
    return out
