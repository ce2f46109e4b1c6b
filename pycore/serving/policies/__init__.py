"""Scheduling policies: in which order to admit, how to compose a step, whom to preempt. One small module each.

The contract is three methods, on an object without state of its own:

    key(sequence) -> tuple         its place among those who wait, smallest first; fixed while it waits
    compose(step) -> None          build a step with the verbs of step.py
    victim(candidates) -> Sequence whom to preempt when a running sequence needs a block; oldest admission first
    settled: bool                  while nobody finishes, arrives or leaves, who cannot be admitted now stays so
"""
