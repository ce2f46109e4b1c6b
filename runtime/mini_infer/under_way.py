"""One text under way, as the engine's thread follows it for those who wait on the event loop."""

from pycore.serving.sequence import Sequence as Scheduled
from runtime.mini_infer.answers import Answer, Ask, Piece, Record
from runtime.mini_infer.generation import Output
from runtime.mini_infer.stream import TextStream
from runtime.mini_infer.words import Words


class Sample:
    """One text under way, on the engine's side: its stream, its times (nanoseconds of the engine's clock)."""

    def __init__(self, answer: Answer, place: int, index: int, ask: Ask, words: Words):
        self.answer, self.place, self.index, self.ask = answer, place, index, ask
        self.stream = TextStream(words, stops=ask.stops, end=ask.end, include_stop=ask.include_stop,
                                 min_tokens=ask.min_tokens, begun=ask.begun)
        self.sequence: Scheduled | None = None
        self.asked_ns = answer.asked_ns
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def last(self, output: Output, text: str) -> Piece:
        """The piece that ends it: `text` and what was held back, in which a stop string may yet be found."""
        if output.finish in ("error", "refused"):
            return Piece(index=self.index, text=text, choice=output.choice, finish=output.finish, reason=output.reason)
        text += self.stream.flush()
        stop, finish = self.stream.stopped or self.stream.ended, output.finish
        if finish == "length" and self.stream.stopped is not None:
            finish = "stop"
        return Piece(index=self.index, text=text, choice=output.choice, finish=finish, reason=output.reason,
                     stop=stop if finish == "stop" else None)

    def waited(self, now_ns: int) -> float:
        """Seconds since its last token; since it was asked for, before the first."""
        return (now_ns - (self.asked_ns if self.last_ns is None else self.last_ns)) / 1e9

    def came(self, now_ns: int) -> None:
        """A token of it came."""
        self.first_ns = now_ns if self.first_ns is None else self.first_ns
        self.last_ns = now_ns

    def record(self, finish: str, now_ns: int) -> Record:
        """What there is to say of it now that it is over."""
        def since(moment: int | None) -> float | None:
            return None if moment is None else (moment - self.asked_ns) / 1e9

        scheduled = self.sequence.first_scheduled_ns if self.sequence else None
        samples = None if self.index % self.ask.samples else self.ask.samples
        return Record(finish=finish, prompt_tokens=len(self.ask.prompt), max_tokens=self.ask.max_tokens,
                      samples=samples, tokens=self.stream.count, seconds=since(now_ns), scheduled=since(scheduled),
                      first_token=since(self.first_ns))
