"""`mini-infer serve`: an OpenAI-compatible server on one model."""

import os
from typing import Any

import click

from pycore.cli.mini_infer import engine, model
from pycore.cli.mini_infer.say import say
from pycore.cli.mini_infer.setup_options import setup_options
from pycore.cli.options import QuestionCommand
from pycore.errors import InputError

KEY_VARIABLE = "MINI_INFER_API_KEY"
NEEDED = ("fastapi", "uvicorn", "prometheus_client")
AT_HOME = ("127.", "::1", "localhost")
SERVER = ("host", "port", "api_key", "cors_origin", "model_name", "queue", "most_body_mebibytes", "drain_seconds")

EPILOG = """\b
Examples:
  mini-infer serve                                        # smollm2-135m on http://127.0.0.1:8000/v1
  mini-infer serve ./qwen3 --port 8080 --max-sequences 8
  curl http://127.0.0.1:8000/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"messages": [{"role": "user", "content": "What is the capital of France?"}]}'

\b
Paths: /v1/chat/completions, /v1/completions, /v1/models, /health, /metrics (Prometheus, under vLLM's names).
Ctrl-C or SIGTERM: new requests get 503, those under way are finished for --drain-seconds; a second one ends at once.
"""


@click.command(cls=QuestionCommand, epilog=EPILOG)
@click.argument("word", metavar="[MODEL]", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="NAME",
              help="Address to listen on; 0.0.0.0 lets other machines in.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 takes any free one.")
@click.option("--api-key", multiple=True, metavar="KEY",
              help=f"Key that /v1 asks for; may be given several times. {KEY_VARIABLE} does the same unseen.")
@click.option("--cors-origin", multiple=True, metavar="ORIGIN",
              help="Origin whose pages may call the server, such as http://localhost:3000; * for all. None by default.")
@click.option("--model-name", metavar="NAME", help="The model's name for clients; by default what --model says.")
@click.option("--queue", type=click.IntRange(0, 1 << 20), default=256, show_default=True,
              help="Texts that may wait for a seat; beyond that clients are told to come back (429).")
@click.option("--most-body-mebibytes", type=click.IntRange(1, 1024), default=4, show_default=True,
              help="Largest body of a request.")
@click.option("--drain-seconds", type=click.IntRange(0, 86400), default=30, show_default=True,
              help="How long requests under way may go on when the server is told to end.")
@model.events_option
@setup_options()
def command(word: str | None, events: str | None, **options: Any) -> None:
    """An OpenAI-compatible server: completions, chats, streams, metrics (needs torch)."""
    own = {name: options.pop(name) for name in SERVER}
    chosen = model.chosen_by(options, word)
    serving = engine.part("server.serving", *NEEDED)
    settings = engine.part("server.application").Settings(
        keys=keys(own["api_key"]), origins=own["cors_origin"], most_body_bytes=own["most_body_mebibytes"] << 20)
    with serving.bind(own["host"], own["port"]) as place:  # before the model is read: a port in use is said at once
        if not own["host"].startswith(AT_HOME) and not settings.keys:
            say(f"Anybody who reaches {own['host']} may use this server: no --api-key is set.")
        found = model.opened(chosen)
        made = serving.server(found.engine, found.source.words, settings, name=own["model_name"] or chosen.model,
                              queue=own["queue"], seed=chosen.seed, drain_seconds=own["drain_seconds"])
        with model.recorded(found, events):
            serving.serve(made, place, say)


def keys(given: tuple[str, ...]) -> tuple[str, ...]:
    """The keys that are accepted. Raises InputError for an empty one, which anybody has."""
    found = given or ((os.environ[KEY_VARIABLE],) if KEY_VARIABLE in os.environ else ())
    if not given and found == ("",):
        raise InputError("api_key", f"an empty {KEY_VARIABLE}", "accepted: printable characters, or the variable not set")
    if any(not key.strip() or not key.isprintable() for key in found):
        raise InputError("api_key", "an empty or unprintable key", "accepted: printable characters")
    return found
