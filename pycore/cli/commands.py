"""A command made of subcommands, each a module of its own that is imported when it is asked for."""

import difflib
import importlib
from collections.abc import Mapping
from typing import Any

import click


class Commands(click.Group):
    """Subcommands by name: `--help` and a wrong name cost nothing.

    `package`: where their modules lie, each with a `command`. `lines`: name -> what --help shows of it.
    """

    def __init__(self, *, package: str, lines: Mapping[str, str], **settings: Any) -> None:
        super().__init__(**settings)
        self.package, self.lines = package, dict(lines)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.lines)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return importlib.import_module(f"{self.package}.{module(name)}").command if name in self.lines else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple:
        """The command that the first argument names; a wrong one is answered with the nearest."""
        if args and args[0] not in self.lines and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], self.lines, 2, 0.5)
            raise click.UsageError(f"there is no command {args[0]!r}; commands: {', '.join(self.lines)}."
                                   + (f" Did you mean {' or '.join(near)}?" if near else ""), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.lines.items()))


def module(name: str) -> str:
    """The module of a subcommand: 'pack-inspect' lies in pack_inspect.py."""
    return name.replace("-", "_")
