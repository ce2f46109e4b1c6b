"""What would have removed a gap: one rule a reason, by what the request was doing and what stood before it.

A rule names a policy of this product (`scheduler`) or another field of the question; a value of '' means "more of it".
Rules are stated, not proved: `why.under` looks up what the same request saw under the policies that were really run.
"""

from dataclasses import dataclass

from pycore.simulation.records import RequestRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """`field` = `value` of the question, and the rule in words. `field` '' where nothing on the page removes it."""

    field: str
    value: str
    rule: str

    @property
    def policy(self) -> str:
        """The policy it names, '' where it is no policy."""
        return self.value if self.field == "scheduler" else ""


def change(field: str, value: str, rule: str) -> Remedy:
    return Remedy(field=field, value=value, rule=rule)


def remedy(reason: str, *, policy: str, decoding: bool, request: RequestRecord,
           blocker: RequestRecord | None) -> Remedy:
    """The rule for a gap of `request` under `policy` (named as in the question); `decoding`: its first token was out."""
    if reason == "behind prefill":
        return behind_prompt(policy, decoding, request, blocker)
    if reason == "KV in flight" and policy == "disaggregated":
        return change("scheduler", "chunked", "its KV was on the link between two pools: on one pool nothing moves; "
                                              "a faster link shortens it")
    if reason in CAPACITY:
        return CAPACITY[reason]
    if reason == "token budget":
        return out_of_tokens(policy, decoding)
    if reason == "step under way":
        return under_way(policy)
    if reason == "policy":
        return passed_over(policy)
    return change("", "", "time between two steps of its server, of no policy's making")


CAPACITY = {
    "no blocks": change("kv_blocks", "", "the KV pool had no room: more blocks (a smaller weight format, a larger card)"),
    "batch full": change("max_sequences", "", "every seat was taken: more sequences at a time"),
    "preempted": change("preemption", "swap", "its blocks were taken and its tokens computed again: swapping keeps them, "
                                              "more KV blocks avoid it"),
    "swapped out": change("kv_blocks", "", "its blocks were moved to the host to make room: more KV blocks avoid it"),
    "KV in flight": change("kv_blocks", "", "its blocks came back from the host: more KV blocks and they stay"),
    "output in flight": change("", "", "its last token was computed and on its way out"),
}
"""Room, a seat or the link was short: no order of service makes more of it."""


def behind_prompt(policy: str, decoding: bool, request: RequestRecord, blocker: RequestRecord | None) -> Remedy:
    """Another's prompt took the step."""
    if decoding and policy != "chunked":
        return change("scheduler", "chunked", "a whole prompt held up its decode: in chunks, decodes ride along")
    if decoding:
        return change("scheduler", "disaggregated", "prompts took the step's tokens: on servers of their own they cannot")
    if blocker is not None and blocker.output_tokens > request.output_tokens and policy != "sjf":
        return change("scheduler", "sjf", "it asked for fewer tokens than the one before it: shortest first lets it pass")
    if policy not in ("slo-aware", "priority") and request.deadline_ns is not None:
        return change("scheduler", "slo-aware", "prompts were read in order of arrival: by deadline, the urgent go first")
    return change("replicas", "", "prompts queue for one server and this one's turn was fair: another replica reads it")


def out_of_tokens(policy: str, decoding: bool) -> Remedy:
    """Decodes (or earlier chunks) spent the step's tokens."""
    if policy == "chunked":
        return change("chunk_budget", "", "the step's token budget was spent on others: a larger chunk budget has room")
    if not decoding and policy == "decode-first":
        return change("scheduler", "chunked", "what decodes left of the step was too small for a whole prompt: chunks fit")
    return change("max_batched_tokens", "", "the step's tokens were spent on others: allow more a step")


def under_way(policy: str) -> Remedy:
    """It came while a step ran."""
    if policy == "chunked":
        return change("chunk_budget", "", "it came while a step ran: smaller chunks make shorter steps")
    return change("scheduler", "chunked", "it came while a step ran: chunks bound how long a step can be")


def passed_over(policy: str) -> Remedy:
    """The policy chose others."""
    if policy == "fcfs":
        return change("scheduler", "decode-first", "prompts go first under fcfs: decode-first gives running ones the step")
    return change("scheduler", "fcfs", f"{policy} preferred others: in order of arrival nobody is passed over")
