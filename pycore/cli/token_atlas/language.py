"""`token-atlas language NAME`: one language under every tokenizer, and one of them told in full."""

from typing import Any

import click

from pycore import catalog
from pycore.atlas.grid import chosen
from pycore.atlas.languages import Language, language
from pycore.atlas.story import Story, story
from pycore.cli import output
from pycore.cli.errors import flag
from pycore.cli.options import QuestionCommand
from pycore.cli.token_atlas import asking
from pycore.ledger import Term, terms_in
from pycore.systems.token_atlas import Query
from pycore.units import significant

FIELDS = ("tokenizer", "columns", "context", "model", "prompt", "price")
EPILOG = """\b
Examples:
  token-atlas language hi                      a code, or
  token-atlas language hindi                   a name, or
  token-atlas language hin_Deva                FLORES's own code
  token-atlas language tamil --tokenizer gemma3 --context 32k
  token-atlas language burmese --explain "prefill work"
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("name")
@asking.explained
@asking.options(*FIELDS)
def command(name: str, explain: str | None, **options: Any) -> None:
    """One language under every tokenizer, every figure explained."""
    as_json = flag(options, "as_json")
    query, spoken = asking.read(options | {"language": name}), language(name)
    stories = told(query, spoken)
    own = next(one for one in stories if one.tokenizer.name == chosen(query.tokenizer, "tokenizer")[0].name)
    if explain is not None:
        asking.explain(tuple(terms_in(own)), explain)
    elif as_json:
        output.write_json(asking.setting(query) | {
            "language": spoken.code, "name": spoken.name, "script": spoken.script_name, "family": spoken.family,
            "words_are_spaced": spoken.spaced, "tokenizers": [document(one) for one in stories],
            "terms": [one.as_dict() for one in terms_in(own)]})
    else:
        show(query, spoken, stories, own)


def told(query: Query, spoken: Language) -> list[Story]:
    """The story under each column asked for, and under --tokenizer. Raises UnknownName."""
    names = dict.fromkeys(one.name for one in (*chosen(query.columns), chosen(query.tokenizer, "tokenizer")[0]))
    model = catalog.model(query.model)
    return [story(spoken.code, one, context=query.context, model=model, prompt_words=query.prompt, price=query.price)
            for one in names]


def document(found: Story) -> dict[str, Any]:
    """One tokenizer's figures as plain numbers."""
    value = asking.value
    return {
        "tokenizer": found.tokenizer.name, "label": found.tokenizer.label, "exact": found.tokenizer.exact,
        "tokens": value(found.tokens), "english_tokens": value(found.english_tokens),
        "premium": value(found.premium), "premium_interval": asking.interval(found.premium),
        "absolute": value(found.absolute), "absolute_interval": asking.interval(found.absolute),
        "fertility": value(found.fertility), "tokens_per_character": value(found.per_character),
        "tokens_per_byte": value(found.per_byte), "split_percent": value(found.split),
        "single_byte_percent": value(found.fallback), "context_fits": value(found.context),
        "context_fits_unit": found.context.unit, "context_english_words": value(found.content),
        "decode_time": value(found.decode), "prefill_work": value(found.prefill),
        "prompt_tokens": value(found.prompt), "prompt_usd": value(found.cost),
        "sentence_premiums": {f"p{percent}": at for percent, at in found.spread},
        "sentences": found.sentences, "round_trips": found.round_trips,
    }


def show(query: Query, spoken: Language, stories: list[Story], own: Story) -> None:
    """Every tokenizer in a line, then one of them in full."""
    output.line(f"{spoken.name} ({spoken.code}): {spoken.script_name} script, {spoken.family}", style="bold")
    output.line()
    output.table(("tokenizer", "premium", "95 %", "against GPT-4o English", "tokens/word", "tokens/character",
                  f"{significant(query.context)} tokens hold"), [
        (one.tokenizer.name, f"{one.premium.value:.2f}", ends(one.premium), f"{one.absolute.value:.2f}",
         number(one.fertility), number(one.per_character), one.context.text) for one in stories],
        right=(1, 2, 3, 4, 5, 6), indent=0)
    output.heading(f"Under {own.tokenizer.label}")
    output.table(("", "", ""), [(one.name, one.text, output.ranged(one)) for one in terms_in(own)], right=(1,))
    spread = ", ".join(f"{percent} %: {significant(at)}" for percent, at in own.spread)
    asking.sentence(f"Single sentences differ: premium at percentiles {spread}.")
    if own.round_trips is not None:
        asking.sentence(f"{own.round_trips:,} of {own.sentences:,} sentences decode to what was read.")
    if own.tokenizer.note:
        asking.sentence(own.tokenizer.note)
    output.line()
    output.line("How a figure came about: --explain NAME, such as --explain premium.")


def number(term: Term | None) -> str:
    """A figure to three digits without its unit; a dash where it has no meaning."""
    return "–" if term is None else significant(term.value)


def ends(term: Term) -> str:
    """'1.55 to 1.61', or nothing."""
    return "" if term.low is None else f"{term.low:.2f} to {term.high:.2f}"
