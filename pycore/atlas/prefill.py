"""The work of reading a prompt, against English: products grow with its tokens, attention with their square.

The shape is the model's own, from its catalogued config; the counting is `pycore.roofline`'s (16-bit, one device, causal
attention, each window as the model has it, one row of logits). Premiums above 1 therefore cost more than themselves, the
more so the longer the prompt.
"""

from pycore import catalog
from pycore.atlas.measures import tokens_for
from pycore.atlas.table import Row, english
from pycore.ledger import Term, term, total
from pycore.nouns import Model, Parallel
from pycore.roofline.step import prompt_pairs
from pycore.roofline.work import AttentionWork, Work, work


@term("Matrix products", "FLOP")
def linear_flop(tokens, flop_per_token, logits_flop):
    """tokens × flop_per_token + logits_flop

    flop_per_token: 2 × the parameters that a token passes through, without embedding and head.
    """
    return tokens * flop_per_token + logits_flop


@term("Attention, every token to all before it", "FLOP")
def full_attention_flop(layers, heads, score_dim, value_dim, index_flop, tokens):
    """layers × (2 × heads × (score_dim + value_dim) + index_flop) × tokens × (tokens + 1) ÷ 2

    index_flop: of a sparse-attention indexer, which looks at every earlier token; 0 in other models.
    """
    return layers * (2 * heads * (score_dim + value_dim) + index_flop) * tokens * (tokens + 1) / 2


@term("Attention within a window", "FLOP")
def windowed_attention_flop(layers, heads, score_dim, value_dim, index_flop, tokens, window):
    """layers × (2 × heads × (score_dim + value_dim) × pairs + index_flop × all pairs), pairs within the window"""
    pairs = prompt_pairs(tokens, 0, window)
    return layers * (2 * heads * (score_dim + value_dim) * pairs + index_flop * tokens * (tokens + 1) / 2)


@term("Linear attention", "FLOP")
def state_flop(layers, flop_per_token, tokens):
    """layers × flop_per_token × tokens"""
    return layers * flop_per_token * tokens


def attention_flop(group: AttentionWork, tokens: int) -> Term:
    """FLOP of one attention group."""
    if group.kind == "linear":
        return state_flop(layers=group.layers, flop_per_token=group.state_flop, tokens=tokens)
    shape = {"layers": group.layers, "heads": group.heads, "score_dim": group.prompt_score_dim,
             "value_dim": group.prompt_value_dim, "index_flop": group.index_flop, "tokens": tokens}
    return full_attention_flop(**shape) if group.window is None else windowed_attention_flop(**shape, window=group.window)


def shape_of(model: Model) -> Work:
    """The model's work a step, 16-bit on one device."""
    kept = catalog.kv_format("bf16")
    return work(model, catalog.weight_format("bf16"), kept, kept, Parallel())


def prefill_flop(model: Model, tokens: int) -> Term:
    """FLOP to read a prompt of `tokens`, products and attention apart."""
    shape = shape_of(model)
    parts = (linear_flop(tokens=tokens, flop_per_token=shape.token_flop, logits_flop=shape.head_flop),
             *(attention_flop(group, tokens) for group in shape.attention))
    return total("Work of the prompt", parts)


@term("Prefill work against English", "")
def prefill_ratio(prompt_flop, english_flop):
    """prompt_flop ÷ english_flop"""
    return prompt_flop / english_flop


def prefill_work(row: Row, model: Model, english_tokens: int) -> Term:
    """Work of a prompt against the same prompt in English of `english_tokens` tokens, as if the model had that tokenizer.

    The prompt has english_tokens × premium tokens, rounded up.
    """
    return prefill_ratio(prompt_flop=prefill_flop(model, longer(row, english_tokens)),
                         english_flop=prefill_flop(model, english_tokens))


def longer(row: Row, english_tokens: int) -> int:
    """Tokens in the language of a prompt that takes `english_tokens` in English, rounded up."""
    return -(-english_tokens * row.tokens // english(row.tokenizer).tokens)


def english_prompt(row: Row, prompt_words: float) -> int:
    """Tokens of so many English words under the row's tokenizer, at least 1."""
    return max(1, round(tokens_for(english(row.tokenizer), prompt_words).value))
