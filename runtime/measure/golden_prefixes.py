"""What prompts of the two vLLM runs shared: totals that LLMServingSim logged, an assignment that adds up to them.

The 300 ShareGPT requests hold several turns of some conversations, so that later prompts repeat earlier ones. The
engine's log does not say which; LLMServingSim's replay of the same workload prints, each second, prefix-cache hits and
requested tokens so far (its "requested" equals the prompts' running sum exactly). `ASSIGNED` is one assignment of
parents and shared blocks, found by a seeded search, whose sums per second are those of the log: the totals are facts,
which request inside a second is inferred. Eight other assignments move no figure of `pycore.simulation.golden` by more
than 1.6 points.
"""

LOG_SOURCE = ("casys-kaist/LLMServingSim @5daddb21a545658d5150b535712d0494584b5278 (MIT) "
              "bench/examples/RTXPRO6000/Llama-3.1-8B/outputs/sim.log")

LOGGED = (  # second, hit tokens so far, prompt tokens so far
    (4, 0, 42722), (5, 448, 47897), (6, 448, 59046), (7, 1424, 66724), (8, 2272, 74534), (9, 3216, 82887),
    (10, 3216, 95457), (11, 3600, 99086), (12, 3600, 103870), (13, 3600, 104567), (15, 4432, 106210),
    (16, 4432, 108409), (18, 4432, 110159), (19, 4432, 112407), (20, 5808, 116805), (21, 5808, 118819),
    (22, 5808, 121609), (23, 5840, 126364), (24, 6448, 133290), (25, 6448, 134715), (26, 8208, 144907),
    (27, 10384, 155550), (28, 11104, 163049), (29, 11104, 168045), (30, 11360, 176303), (31, 11952, 183455),
    (32, 13264, 193496), (33, 13776, 201182), (34, 15872, 205163), (35, 15872, 212268), (36, 15872, 218710),
    (37, 15872, 221245), (38, 15872, 223301), (39, 15872, 223825), (40, 15872, 225480), (41, 16464, 228259),
    (42, 16464, 230661), (43, 16464, 232365), (44, 16464, 235428), (45, 18096, 239970), (46, 19264, 246703),
    (47, 19264, 249770), (48, 19520, 256657), (49, 19520, 257239),
)

ASSIGNED = {  # request: (earlier request of the same conversation, full blocks of 16 tokens shared)
    46: (23, 28), 66: (60, 19), 69: (3, 42), 79: (48, 53), 86: (73, 36), 94: (78, 23), 113: (45, 24), 128: (14, 52),
    139: (7, 86), 155: (147, 2), 161: (42, 38), 168: (159, 46), 175: (44, 64), 177: (6, 81), 178: (104, 55),
    190: (70, 45), 201: (109, 16), 212: (201, 37), 217: (178, 82), 233: (126, 32), 237: (1, 64), 235: (57, 67),
    265: (149, 37), 281: (147, 51), 280: (168, 51), 285: (265, 73), 294: (120, 16),
}
