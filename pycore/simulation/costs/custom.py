"""A cost model of one's own, as JSON: coefficients of a linear model, or a table of measured steps.

    {"kind": "coefficients", "source": "our log of 2026-05", "microseconds":
        {"step": 900, "sequence": 4, "token": 11.5, "cached_token": 0.0021, "prompt_pair": 0.00012, "prompt_step": 0}}

    {"kind": "steps", "source": "our profiler", "microseconds":
        [[prompt_tokens, prompt_tokens_cached_before, decoding_sequences, their_mean_context, time], ...]}

Coefficients that are absent are 0. A table is linear between its rows on each axis; below the smallest measured shape
the smallest holds, beyond the largest the last two points go on as a line (`limits_passed` says so), and a step that
both reads a prompt and decodes is refused where no row does both: nothing is made up.
"""

import json
from dataclasses import dataclass

from pycore.errors import InputError, NotKnown
from pycore.ledger import term
from pycore.nesting import deeper
from pycore.roofline.step import prompt_pairs
from pycore.simulation.costs.interpolate import Grid, grid
from pycore.simulation.costs.tables import MICRO, equal_work
from pycore.simulation.costs.work import StepCost, StepWork, whole_ns
from pycore.units import significant

FIELD = "cost_table"
COEFFICIENTS = ("step", "sequence", "token", "cached_token", "prompt_pair", "prompt_step")
DEEPEST = 8  # levels of JSON; the format needs three
MOST_ROWS, MOST_MICROSECONDS = 100_000, 1e12
SHAPE = 'accepted: {"kind": "coefficients" or "steps", "source": text, "microseconds": ...}'


@term("Step time", "µs", basis="given", source="a table of one's own")
def linear_us(step, sequence, sequences, token, tokens, cached_token, cached, prompt_pair, pairs, prompt_step, prompts):
    "step + sequence × sequences + token × tokens + cached_token × cached + prompt_pair × pairs + prompt_step × prompts"
    return (step + sequence * sequences + token * tokens + cached_token * cached + prompt_pair * pairs
            + prompt_step * prompts)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearCost:
    """`step_ns` by coefficients in microseconds: a step, a sequence, a token run through the model, a cached token read
    (decoding contexts, and what prompts have cached before), a (query, key) pair of prompts, a step that reads some."""

    source: str
    step: float = 0.0
    sequence: float = 0.0
    token: float = 0.0
    cached_token: float = 0.0
    prompt_pair: float = 0.0
    prompt_step: float = 0.0

    def step_ns(self, work: StepWork) -> int:
        micro = linear_us.plain(
            self.step, self.sequence, work.sequences, self.token, work.decoding + work.prompt_tokens,
            self.cached_token, work.cached + sum([before for _, before in work.chunks]), self.prompt_pair,
            sum([prompt_pairs(tokens, before, None) for tokens, before in work.chunks]),
            self.prompt_step, 1 if work.chunks else 0)
        return whole_ns(micro * MICRO)

    def limits_passed(self, longest: int, sequences: int, tokens: int) -> tuple[str, ...]:
        """None: coefficients hold everywhere, says who gives them."""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTable:
    """`step_ns` by interpolation in a table of whole steps, microseconds."""

    source: str
    steps: Grid

    def step_ns(self, work: StepWork) -> int:
        """Raises NotKnown of a step that the table has nothing like."""
        tokens, decoding = work.prompt_tokens, work.decoding
        context = work.cached / decoding if decoding else 0.0
        before = 0.0
        if tokens:
            pairs = sum([size * (cached + size / 2) for size, cached in work.chunks])
            before = max(0.0, equal_work.plain(pairs, tokens))
            tokens = self.like(tokens, decoding)
        elif not decoding:
            return 1
        return whole_ns(self.steps(tokens, before, decoding, context) * MICRO)

    def like(self, tokens: int, decoding: int) -> int:
        """Prompt tokens to look up: at least the fewest measured without decoding. Raises NotKnown."""
        prompts = [count for count in self.steps.prompts if count]
        if not prompts:
            raise NotKnown("the table has no step that reads a prompt", FIELD)
        if decoding and not any(max(self.steps.sequences[count]) for count in prompts):
            raise NotKnown("the table has no step that reads a prompt beside decoding: give such rows, or choose a "
                           "policy that does not mix them", FIELD)
        if not decoding and not all(self.steps.sequences[count][0] == 0 for count in prompts):
            raise NotKnown("the table has no step that only reads a prompt, for every number of prompt tokens", FIELD)
        return tokens if decoding else max(tokens, int(prompts[0]))

    def limits_passed(self, longest: int, sequences: int, tokens: int) -> tuple[str, ...]:
        """What lies beyond the largest rows, in words."""
        grid_ends = (("context", longest, max(cells.at[-1] for cells in self.steps.lines.values())),
                     ("sequences together", sequences, max(counts[-1] for counts in self.steps.sequences.values())),
                     ("prompt tokens a step", tokens, self.steps.prompts[-1]))
        return tuple(f"{name} {asked:,} is beyond the table's last row, {significant(end)}: the last two points go on "
                     "as a line" for name, asked, end in grid_ends if asked > end)


def read_cost(text: str) -> StepCost:
    """A cost model from JSON text. Raises InputError naming what is wrong and where."""
    if deeper(text, DEEPEST):
        raise InputError(FIELD, text[:40], f"accepted: JSON of at most {DEEPEST} levels")
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(FIELD, text[:40], f"accepted: JSON ({error})") from error
    if not isinstance(given, dict) or given.get("kind") not in ("coefficients", "steps"):
        raise InputError(FIELD, text[:40], SHAPE)
    source = given.get("source")
    if not isinstance(source, str) or not source.strip():
        raise InputError(FIELD, source, "a source is needed: where the numbers come from, in words")
    read = read_coefficients if given["kind"] == "coefficients" else read_steps
    return read(given.get("microseconds"), source.strip())


def finite(value: object, where: str) -> float:
    """A number of microseconds or a count. Raises InputError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_MICROSECONDS:
        raise InputError(FIELD, value, f"{where}: accepted: a number from 0 to {MOST_MICROSECONDS:g}")
    return float(value)


def read_coefficients(given: object, source: str) -> LinearCost:
    """Coefficients by name."""
    if not isinstance(given, dict) or not given:
        raise InputError(FIELD, given, f"microseconds: accepted: an object with any of {', '.join(COEFFICIENTS)}")
    unknown = [name for name in given if name not in COEFFICIENTS]
    if unknown:
        raise InputError(FIELD, unknown[0], f"microseconds: accepted: any of {', '.join(COEFFICIENTS)}")
    return LinearCost(source=source, **{name: finite(value, name) for name, value in given.items()})


def read_steps(given: object, source: str) -> StepTable:
    """Rows of measured steps."""
    if not isinstance(given, list) or not 0 < len(given) <= MOST_ROWS:
        raise InputError(FIELD, type(given).__name__, f"microseconds: accepted: 1 to {MOST_ROWS:,} rows")
    rows = []
    for number, row in enumerate(given, 1):
        if not isinstance(row, list) or len(row) != 5:
            raise InputError(FIELD, row, f"row {number}: accepted: [prompt tokens, cached before, decoding, context, "
                                         "microseconds]")
        rows.append(tuple(finite(value, f"row {number}") for value in row))
    try:
        return StepTable(source=source, steps=grid(rows))
    except ValueError as error:
        raise InputError(FIELD, f"{len(rows)} rows", f"accepted: distinct shapes, some decoding ({error})") from error
