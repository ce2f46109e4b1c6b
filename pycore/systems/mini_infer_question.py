"""The question of mini-infer's page: which scene, at which frame, and what each scene is made of."""

from dataclasses import dataclass

from pycore.knobs import knob
from pycore.scenes.bigrams import TEMPERATURES
from pycore.scenes.conversations import PRESETS, TOKENIZERS
from pycore.scenes.faults import FAULTS
from pycore.scenes.stage import POLICIES, Setting

SCENES = ("blocks", "radix", "speculation", "museum", "recorded")
SCENE, EVENTS, POOL = "Scene", "Block tables", "Pool and scheduler"
PROMPTS, SPECULATION, MUSEUM, RECORDED, BYTES = ("Prefix cache", "Speculation", "Bug museum", "Recorded events",
                                                  "What it would weigh")
SCRIPT = """add A 10 +8
step 2
add B 13 +6 like A 8
fork A as A2
step 3
add C 12 +7
step 2
abort B
add D 9 +5 like A 8
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The question, every field with its meaning, unit and range."""

    scene: str = knob("blocks", "Scene", choices=SCENES, group=SCENE,
                      help="blocks: block tables. radix: the prefix cache. speculation: drafts accepted and rejected. "
                           "museum: famous faults. recorded: a file that an engine wrote.")
    frame: int = knob(0, "Frame", low=0, high=100_000, group=SCENE, zero="the one that shows most",
                      help="Which picture of the scene, counted from 1; beyond the last means the last.")

    script: str = knob(SCRIPT, "Events", long=True, group=EVENTS,
                       help="One event a line: add NAME PROMPT +OUTPUT [like NAME TOKENS] [priority N], fork NAME as NEW, "
                            "abort NAME, step [N]. What is left runs to its end.")
    policy: str = knob("chunked", "Policy", choices=tuple(POLICIES), group=POOL,
                      help="Who advances in each step. slo-aware is the engine's alone: a scene has no clock.")
    block_size: int = knob(4, "Block", unit="tokens", low=1, high=64, group=POOL, help="Tokens in a block.")
    blocks: int = knob(12, "Blocks", low=1, high=256, group=POOL, help="Blocks of the pool.")
    prefix_cache: bool = knob(True, "Prefix cache", group=POOL, help="Blocks of equal prefixes are found again.")
    step_tokens: int = knob(16, "Tokens a step", unit="tokens", low=1, high=4096, group=POOL,
                            help="Most tokens that one step computes.")
    sequences: int = knob(8, "Sequences", low=1, high=64, group=POOL, help="Most sequences that run at the same time.")
    longest: int = knob(40, "Longest text", unit="tokens", low=2, high=8192, group=POOL,
                        help="Prompt and output of one request at most; what a contiguous allocation reserves for each.")
    preemption: str = knob("recompute", "Preemption", choices=("recompute", "swap"), group=POOL,
                           help="What happens to a sequence that loses its blocks.")
    host_blocks: int = knob(8, "Host blocks", low=1, high=256, group=POOL,
                            help="Blocks of host memory for preemption by swap.")

    conversation: str = knob("system-prompt", "Preset", choices=tuple(PRESETS), group=PROMPTS,
                             help="Prompts that share prefixes, where none are typed.")
    prompts: str = knob("", "Prompts", long=True, group=PROMPTS, zero="the preset",
                        help="One prompt a line, asked one after the other. A line that begins with > goes on where the one "
                             "before it was answered; a line * asks for a second answer to it.")
    tokenizer: str = knob("words", "Tokens are", choices=TOKENIZERS, group=PROMPTS,
                          help="How prompts are cut: words and marks, characters, or bytes.")
    answer_tokens: int = knob(4, "Answer", unit="tokens", low=1, high=64, group=PROMPTS,
                              help="Tokens each prompt is answered with.")
    together: int = knob(1, "Together", low=1, high=16, group=PROMPTS, help="Prompts that arrive at the same time.")

    draft_tokens: int = knob(4, "Draft tokens", unit="tokens", low=1, high=16, group=SPECULATION,
                             help="Guesses a step (k, or gamma).")
    similarity: int = knob(70, "Similarity", unit="%", low=0, high=100, group=SPECULATION,
                           help="How much of the draft's distribution is the target's own; the rest knows no context.")
    temperature: str = knob("1", "Temperature", choices=TEMPERATURES, group=SPECULATION, help="Of both models. 0 = greedy.")
    seed: int = knob(1, "Seed", low=0, high=2**31 - 1, group=SPECULATION, help="Same seed, same draws.")
    steps: int = knob(12, "Steps", low=1, high=64, group=SPECULATION, help="Steps that are shown.")
    batch: int = knob(8, "Batch", unit="sequences", low=1, high=4096, group=SPECULATION,
                      help="Sequences decoded together, for what speculation is worth on the card.")
    context: int = knob(2048, "Context", unit="tokens", low=64, high=1 << 20, group=SPECULATION,
                        help="Tokens that each of them holds.")
    gpu: str = knob("rtx 4090", "Accelerator", suggestions="accelerators", group=SPECULATION,
                    help="The card whose step times say at which batch speculation stops paying.")
    draft_model: str = knob("llama-3.2-1b", "Draft model", suggestions="models", group=SPECULATION,
                            help="Whose step times the guesses cost.")

    fault: str = knob("positions-restart", "Fault", choices=tuple(FAULTS), group=MUSEUM, help="Which fault is brought back.")
    broken: bool = knob(True, "Broken", group=MUSEUM, help="no = the same requests on the repaired engine.")

    events: str = knob("", "Event file", long=True, group=RECORDED, zero="none",
                       help="What an engine wrote with --events FILE: JSON lines.")
    first_step: int = knob(0, "First step", low=0, high=1 << 24, group=RECORDED, zero="the beginning",
                           help="From which step of the file pictures are taken: a page holds some hundreds.")
    model: str = knob("llama-3.1-8b", "Model", suggestions="models", group=BYTES,
                      help="Whose keys and values the tokens are weighed as, and the target of speculation.")


def setting(query: Query) -> Setting:
    """What the scheduler is made with."""
    swap = query.preemption == "swap"
    return Setting(blocks=query.blocks, block_size=query.block_size, policy=query.policy,
                   prefix_caching=query.prefix_cache, step_tokens=query.step_tokens, sequences=query.sequences,
                   longest=query.longest, preemption=query.preemption, host_blocks=query.host_blocks if swap else 0)
