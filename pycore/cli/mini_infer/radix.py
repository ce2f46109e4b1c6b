"""`mini-infer radix`: prompts that share prefixes, and what the cache gives back of them."""

from typing import Any

import click

from pycore.cli import output
from pycore.cli.mini_infer import drawing
from pycore.cli.options import QuestionCommand
from pycore.scenes.film import TreeNode
from pycore.systems.mini_infer import Answer
from pycore.systems.mini_infer_question import BYTES, POOL, PROMPTS

EPILOG = """\b
Examples:
  mini-infer radix
  mini-infer radix --conversation multi-turn --block-size 8
  mini-infer radix --prompts prompts.txt --together 2

\b
One prompt a line. A line that begins with > goes on where the one before it was answered; a line * asks for a second answer.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@drawing.options(PROMPTS, POOL, BYTES)
def command(pictures: bool, url: bool, as_json: bool, **options: Any) -> None:
    """The prefix cache: prompts that share prefixes; hits, splits, copies on write, evictions."""
    query = drawing.read(options, scene="radix")
    drawing.show(query, {"pictures": pictures, "url": url, "as_json": as_json}, lambda found: show(found, pictures=pictures))


def show(found: Answer, *, pictures: bool) -> None:
    """As text."""
    drawing.film(found, pictures=pictures)
    output.heading("The cache in this picture (one line a run of blocks without a fork)")
    for node in found.frame.tree:
        output.line(drawn(node))
    reuse(found)


def drawn(node: TreeNode) -> str:
    """'  [0 1] system prompt ... (held by 2, hit)'"""
    marks = [f"held by {max(node.references)}"] * any(node.references) + [node.mark] * bool(node.mark)
    return (f"  {'    ' * node.depth}[{' '.join(map(str, node.blocks))}] {' '.join(node.tokens)}"
            + (f"  ({', '.join(marks)})" if marks else ""))


def reuse(found: Answer) -> None:
    """What each prompt found."""
    conversation = found.conversation
    output.heading(f"{conversation.hit:,} of {conversation.asked:,} prompt tokens were found again")
    output.table(("", "prompt", "shared", "found", "not to a block's end", "evicted or not there yet"), [
        (one.sequence, one.prompt, one.shared, one.hit, one.ragged, one.lost) for one in conversation.reuse],
        right=(1, 2, 3, 4, 5))
