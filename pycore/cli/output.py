"""How commands print: plain text and tables that hold anything a user typed without acting on it, and JSON.

Nothing here reads markup: a name such as '[red]x[/red]' or an escape sequence is shown, not obeyed. Colour only on a
terminal (and never when NO_COLOR is set). `rich` is loaded when a table is first made, so that --help stays quick.
"""

import json
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from pycore.ledger import Term
from pycore.units import GB, GIB, show

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 160
GAP = 4  # at most, between columns, as rich draws them
NARROWEST = 16


def plain(text: object) -> str:
    """`text` with control and formatting characters written out ('\\x1b'), line breaks and tabs kept."""
    return "".join(letter if letter in "\n\t" or printable(letter) else escaped(letter) for letter in str(text))


def printable(letter: str) -> bool:
    """False for controls, surrogates and invisible formatting such as text-direction overrides."""
    return unicodedata.category(letter) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def escaped(letter: str) -> str:
    """A character as Python writes it in a string."""
    return letter.encode("unicode_escape", "backslashreplace").decode("ascii")


def console(least_width: int = 0) -> "Console":
    """A rich console that takes no markup, at least so wide. Wide where nobody watches: a pipe gets whole rows."""
    from rich.console import Console

    settings = {"markup": False, "highlight": False, "emoji": False}
    made = Console(**settings)
    width = max(least_width, made.width if made.is_terminal else PIPE_WIDTH)
    return Console(**settings, width=width)


def line(text: object = "", *, style: str | None = None) -> None:
    """One line of text; `style` is a rich style such as 'bold'."""
    if style is None:
        click.echo(plain(text))
        return
    from rich.text import Text

    console().print(Text(plain(text), style=style), soft_wrap=True)


def heading(text: str) -> None:
    """A section's title after an empty line."""
    line()
    line(text, style="bold")


def table(columns: Sequence[str], rows: Iterable[Sequence[object] | None], *, right: Iterable[int] = (),
          indent: int = 2) -> None:
    """Aligned columns without frames. `right`: the columns whose cells stand right (numbers). A row None is a rule.

    Text wraps on a narrow terminal; a number is never cut: the table is then wider than the terminal.
    """
    from rich import box
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    numbers = set(right)
    cells = [None if row is None else [plain(one) for one in row] for row in rows]
    least = least_widths(columns, cells, numbers)
    made = Table(box=box.SIMPLE_HEAD, show_header=any(columns), pad_edge=False, show_edge=False, header_style="dim")
    for index, column in enumerate(columns):
        made.add_column(Text(plain(column)), justify="right" if index in numbers else "left", min_width=least[index],
                        no_wrap=index in numbers)
    for row in cells:
        if row is None:
            made.add_section()
        else:
            made.add_row(*map(Text, row))
    screen = console(indent + sum(least) + GAP * (len(least) - 1))
    with screen.capture() as captured:
        screen.print(Padding(made, (0, 0, 0, indent), expand=False))
    click.echo("\n".join(row.rstrip() for row in captured.get().splitlines()),
               color=True if screen.is_terminal else None)


def least_widths(columns: Sequence[str], rows: Sequence[Sequence[str] | None], numbers: set[int]) -> list[int]:
    """The width each column must have: all of a number, of a text at most NARROWEST."""
    widths = [max([len(column), *(len(row[index]) for row in rows if row is not None)])
              for index, column in enumerate(columns)]
    return [width if index in numbers else min(width, NARROWEST) for index, width in enumerate(widths)]


def write_json(document: Mapping[str, Any]) -> None:
    """One JSON object on standard output; numbers JSON cannot write become null."""
    click.echo(json.dumps(finite(document), indent=2))


def finite(value: Any) -> Any:
    """The value with infinities and nan replaced by None, tuples by lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return value


def with_range(term: Term | None, unknown: str = "not known") -> str:
    """'24.1 ms (19.8 to 30.2 ms)', or `unknown`."""
    if term is None:
        return unknown
    return term.text + (f" ({text})" if (text := ranged(term)) else "")


def ranged(term: Term | None) -> str:
    """'19.8 to 30.2 ms', a shared unit said once; '' where the value is exact or not known."""
    if term is None or term.low is None or term.low == term.high:
        return ""
    low, high = show(term.low, term.unit), show(term.high, term.unit)
    number, _, unit = low.partition(" ")
    return f"{number if unit == high.partition(' ')[2] else low} to {high}"


def gib(value: float) -> str:
    """Bytes in GiB with three decimals, so that a column adds up to the eye."""
    return f"{value / GIB:,.3f}"


def gb(value: float) -> str:
    """Bytes in GB with three decimals."""
    return f"{value / GB:,.3f}"


def bar(share: float, width: int = 24) -> str:
    """A text bar of `share` (0..1) of `width` characters."""
    filled = round(max(0.0, min(1.0, share)) * width)
    return "█" * filled + "·" * (width - filled)
