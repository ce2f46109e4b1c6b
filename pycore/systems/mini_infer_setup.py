"""What mini-infer is told at its start: one declaration, from which the options of its commands and their checks follow.

It knows no torch: the engine that is made of it stands in `runtime.mini_infer.setup`, and the command line can list the
choices where no engine is installed.
"""

from dataclasses import dataclass

from pycore.errors import InputError
from pycore.knobs import knob
from pycore.serving.policies.contract import Policy
from pycore.serving.policies.named import BY_NAME

POLICIES = tuple(BY_NAME)
NUMBERS = ("float32", "float16", "bfloat16")
KV_FORMATS = (*NUMBERS, "fp8", "int8", "int4")
LINEARS = ("auto", "float32", "int8", "int8-fine")
MOST_BLOCK_TOKENS = 1024
N_GRAM = "n-gram"
MODEL, MEMORY, SCHEDULING, SPECULATION = "Model", "Memory", "Scheduling", "Speculation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Every choice at start. `pycore.knobs.parse` reads them and checks each; `checked` says what does not go together."""

    model: str = knob("smollm2-135m", "Model", group=MODEL,
                      help="smollm2-135m (fetched once), a folder as transformers writes it, a .gguf file, or a Hub name.")
    dtype: str = knob("float32", "Weights", choices=NUMBERS, group=MODEL,
                      help="Numbers of weights and arithmetic. What has no arithmetic for 16 bits computes in float32.")
    device: str = knob("auto", "Device", group=MODEL,
                       help="Where it runs: auto (a GPU that torch can use, else the CPU), cpu, cuda, cuda:1, mps.")
    linear: str = knob("auto", "Projections", choices=LINEARS, group=MODEL,
                       help="auto = the weights' own numbers, by the fastest way of multiplying that this CPU has. "
                            "float32 = torch's own way. int8 = 8-bit weights and inputs on a CPU: faster, another text. "
                            "int8-fine = inputs in 16 bits: nearly the same text, slower for long prompts.")
    kv_format: str = knob("auto", "Keys and values", choices=("auto", *KV_FORMATS), group=MEMORY,
                          help="Numbers that keys and values are kept in. auto = as the weights.")
    kv_blocks: int = knob(0, "Blocks", low=0, high=1 << 24, group=MEMORY, zero="by memory",
                          help="Blocks of keys and values.")
    kv_memory_bytes: int = knob(0, "Memory for blocks", unit="bytes", low=0, high=1 << 44, group=MEMORY,
                                zero="what the sequences can fill, at most a quarter of what is free",
                                help="Bytes for blocks of keys and values, where their number is not given.")
    block_size: int = knob(16, "Block", unit="tokens", low=1, high=MOST_BLOCK_TOKENS, group=MEMORY,
                           help="Tokens in a block.")
    host_blocks: int = knob(0, "Blocks on the host", low=0, high=1 << 24, group=MEMORY,
                            help="Blocks of main memory that preemption by swap may use.")
    max_model_length: int = knob(0, "Longest text", unit="tokens", low=0, high=1 << 24, group=SCHEDULING,
                                 zero="the model's context", help="Prompt and output of one request.")
    max_batched_tokens: int = knob(512, "Tokens a step", unit="tokens", low=1, high=1 << 20, group=SCHEDULING,
                                   help="Most tokens that one step computes, prompts and decodes together.")
    max_sequences: int = knob(16, "Sequences", low=1, high=1 << 16, group=SCHEDULING,
                              help="Most sequences that run at the same time.")
    policy: str = knob("chunked", "Scheduler", choices=POLICIES, group=SCHEDULING, help="Who advances in each step.")
    prefix_caching: bool = knob(True, "Prefix cache", group=SCHEDULING, help="Blocks of equal prefixes are shared.")
    preemption: str = knob("recompute", "Preemption", choices=("recompute", "swap"), group=SCHEDULING,
                           help="What happens to a sequence that loses its blocks.")
    draft: str = knob("", "Draft", group=SPECULATION, zero="none",
                      help=f"What drafts tokens ahead: a model as above with the same tokenizer, or {N_GRAM} (what followed "
                           "the same tokens earlier in the text). Empty for none.")
    draft_tokens: int = knob(4, "Draft tokens", unit="tokens", low=1, high=32, group=SPECULATION,
                             help="Tokens drafted for each sequence and step.")
    seed: int = knob(0, "Seed", low=0, high=2**63 - 1, group=SCHEDULING,
                     help="From which requests without a seed of their own take theirs, in order of arrival.")

    def checked(self) -> "Choices":
        """Itself. Raises InputError for choices that do not go together."""
        if self.kv_blocks and self.kv_memory_bytes:
            raise InputError("kv_memory_bytes", self.kv_memory_bytes, "accepted: blocks or their memory, not both")
        if self.preemption == "swap" and not self.host_blocks:
            raise InputError("host_blocks", self.host_blocks, "accepted: at least 1 for preemption by swap")
        if self.host_blocks and self.preemption != "swap":
            raise InputError("host_blocks", self.host_blocks, "accepted: 0, or preemption by swap, which uses them")
        if self.max_sequences > self.max_batched_tokens:
            raise InputError("max_batched_tokens", self.max_batched_tokens,
                             f"accepted: at least one for each of {self.max_sequences} sequences")
        return self


def policy(name: str) -> Policy:
    """A policy by its name in POLICIES."""
    return BY_NAME[name]()
