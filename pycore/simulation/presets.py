"""Workloads by name, each a line that `workload.parse` reads. Where the figures are somebody's, that is said."""

PRESETS = {
    # Lengths and rate of the Azure 2023 conversation trace (means 1,155 and 211, medians 1,020 and 129, 5.5 a second);
    # that a third of the prompts share an instruction is assumed.
    "chat": "poisson rate=5.5 prompt=lognormal:1155,p50=1020 output=lognormal:211,p50=129 requests=400 prefix=0.3:512 "
            "ttft=1s tpot=50ms",
    # Lengths of the Azure 2023 code trace. Its gaps have a CV of 13; 4 here, so that 400 requests hold several bursts.
    "code": "gamma rate=2.5 cv=4 prompt=lognormal:2048,p50=1469 output=lognormal:28,p50=13 requests=400 ttft=500ms "
            "tpot=50ms",
    # Assumed: retrieved passages of some thousands of tokens, one instruction for all.
    "rag": "poisson rate=1.5 prompt=lognormal:p50=5000,p90=10000 output=lognormal:256 requests=200 prefix=1:512 ttft=3s "
           "tpot=50ms",
    # Assumed: loops of ten calls, each reading all before it, over one description of the tools.
    "agents": "closed users=16 think=500ms prompt=lognormal:512 output=lognormal:128 requests=320 prefix=1:2048 turns=10 "
              "ttft=1s tpot=50ms",
    # Made up to show one thing: everybody waits while the ninth request's prompt is read.
    "long-prompt-stall": "deterministic rate=4 prompt=128 output=200 requests=24 long=16384@9 ttft=1s tpot=50ms",
}
