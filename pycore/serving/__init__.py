"""The control plane: which request advances by how many tokens in each step. No clock, no torch, no cost, no randomness.

    scheduler.add(request)            -> Sequence    waits, or is refused with the reason
    scheduler.schedule(now_ns)        -> StepPlan    who advances, block tables, copies, evictions, who was held back and why
    scheduler.complete(plan, now_ns)  -> events      tokens out, requests finished, blocks freed

A simulator, a torch engine and a page that draws blocks drive the same code; time and tokens are passed in.
"""
