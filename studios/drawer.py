"""The Python drawer: a reader's own lines in the interpreter that computed the page, `query` and `answer` at hand."""

import ast
import contextlib
import io
import json
import traceback
import types
from collections.abc import Awaitable, Callable
from typing import Any

from pycore.cache import Needs, place
from pycore.errors import StudioError
from pycore.knobs import from_url
from studios.render import studio

LIMIT = 100_000
Bring = Callable[[str, str], Awaitable[Any]]
NAMES: dict[str, Any] = {"__name__": "__console__", "__builtins__": __builtins__}
"""What the reader's lines have bound so far: a console keeps its names from one run to the next."""


async def run(message: str, bring: Bring | None = None) -> str:
    """Run a "run" message (site/bridge/protocol.d.ts); the reply as JSON text. `await` works at the top level.

    `bring(name, path)` fetches a file that the question needs (`pycore.cache.Needs`); without a path, a package.
    """
    asked = json.loads(message)
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        error = await executed(asked, bring)
    text = output.getvalue()
    if len(text) > LIMIT:
        text = text[:LIMIT] + f"\n... {len(text) - LIMIT:,} more characters"
    return json.dumps({"type": "ran", "id": asked["id"], "output": text, "error": error}, ensure_ascii=False)


async def executed(asked: dict, bring: Bring | None) -> bool:
    """Bind, compile, run, show the last expression. True where it ended in an error (which is printed)."""
    try:
        await bind(asked["studio"], asked["form"], bring)
        await execute(asked["code"])
    except StudioError as error:
        print(error)
        return True
    except BaseException as error:  # SystemExit and KeyboardInterrupt of the reader's lines must not end the worker
        print(in_own_lines(error))
        return True
    return False


async def bind(name: str, form: str, bring: Bring | None) -> None:
    """Set `query` and `answer` to the page's present question."""
    view = studio(name)
    query = from_url(view.Query, form)
    for page in view.steps(query):
        if isinstance(page, Needs) and bring:
            for file in page.files:
                await bring(file, str(place(file)))
            for package in page.packages:
                await bring(package, "")
    NAMES.update(query=query, answer=page.answer)


async def execute(code: str) -> None:
    """Run lines; where the last statement is an expression, its value is printed as a console does."""
    tree = ast.parse(code, "<drawer>")
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    await evaluate(tree, "exec")
    if last is not None:
        value = await evaluate(ast.Expression(last.value), "eval")
        if value is not None:
            NAMES["_"] = value
            print(repr(value))


async def evaluate(tree: ast.AST, mode: str) -> Any:
    """Value of a compiled tree, awaited where it holds a top-level `await`."""
    code = compile(tree, "<drawer>", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    value = eval(code, NAMES)  # noqa: S307 - running the reader's own lines is what a drawer is for
    return await value if isinstance(value, types.CoroutineType) and code.co_flags & 0x80 else value


def in_own_lines(error: BaseException) -> str:
    """The error as a console shows it, told by the reader's own lines: what libraries did below them is left out."""
    shown = traceback.TracebackException.from_exception(error)
    shown.stack = traceback.StackSummary.from_list([frame for frame in shown.stack if frame.filename == "<drawer>"])
    shown.__context__ = shown.__cause__ = None
    return "".join(shown.format()).rstrip()
