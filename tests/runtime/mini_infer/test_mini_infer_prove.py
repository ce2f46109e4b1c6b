"""`mini-infer prove`: equalities hold on every architecture, and each of five faults is found, named and placed."""

import json

import pytest
import torch

from pycore.cli import errors
from pycore.cli.mini_infer import mini_infer
from runtime.mini_infer import engine as engines
from runtime.mini_infer import make_model, prove, step
from runtime.mini_infer.cache import Cache
from runtime.mini_infer.kv_formats import kv_format
from runtime.mini_infer.prove import Court, proofs
from runtime.mini_infer.witness import Comparison

NAMES = ["together", "prefix hit", "chunked", "preempted", "swapped", "everything", "samples", "blocks of 8", "blocks of 32",
         "speculation", "simulator"]


def court(model, **more):
    beginning = tuple((at * at * 7 + 5) % 64 for at in range(30))
    prompts = tuple(beginning + tuple((seed * 29 + at * 13) % 64 for at in range(seed)) for seed in range(4))
    return Court(model=model, kept=None, prompts=prompts, tokens=12, **more)


def found(model, **more):
    return {one.name: one for one in proofs(court(model, **more))}


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Qwen3"])
def test_every_equality_holds_and_every_way_was_taken(pairs, kind):
    held = found(pairs[kind][0])
    assert list(held) == NAMES
    for one in held.values():
        assert one.holds and one.happened and one.first is None and not one.words, one
        assert one.compared >= 4 * 12 or one.name == "simulator"
        assert one.largest is None or 0 <= one.largest < 1e-5


def test_keys_and_values_of_four_bits_are_read_alike_on_every_way(random_model, tmp_path):
    random_model("Qwen3", head_dim=32).save_pretrained(tmp_path)
    from runtime.mini_infer import files
    model = files.load(tmp_path)
    judged = Court(model=model, kept=kv_format("int4", 32), prompts=court(model).prompts, tokens=12, tolerance=prove.ROUNDED)
    assert all(one.holds for one in proofs(judged))


def no_copies(monkeypatch):
    whole = Cache.move
    monkeypatch.setattr(Cache, "move", lambda self, plan: whole(self, plan.__class__(step=plan.step, swapped_in=plan.swapped_in, swapped_out=plan.swapped_out)))


def positions_restart(monkeypatch):
    whole = step.batch

    def restarted(items, *arguments):
        made = whole(items, *arguments)
        first = [at - item.start for item in items for at in range(item.start, item.start + item.count)]
        hit = [item.start > 0 and not item.decode for item in items for _ in range(item.count)]
        positions = torch.where(torch.tensor(hit), torch.tensor(first), made.positions)
        return step.Batch(tokens=made.tokens, positions=positions, slots=made.slots, groups=made.groups, last=made.last)

    monkeypatch.setattr(step, "batch", restarted)


def swaps_lost(monkeypatch):
    whole = Cache.move
    monkeypatch.setattr(Cache, "move", lambda self, plan: whole(self, plan.__class__(step=plan.step, copies=plan.copies, swapped_out=plan.swapped_out)))


def every_guess_kept(monkeypatch):
    def kept(samplers, guesses, logits):
        whole = engines_accepted(samplers, guesses, logits)
        return tuple(tuple(said[:1]) + tuple(type(said[0])(token=token) for token in guess.tokens) if guess.tokens else said
                     for said, guess in zip(whole, guesses, strict=True))

    engines_accepted = engines.accepted
    monkeypatch.setattr(engines, "accepted", kept)


def other_pool(monkeypatch):
    whole = prove.differences
    monkeypatch.setattr(prove, "differences", lambda engine, trace, played: whole(Court.engine(court(engine.model)), trace, played))


FAULTS = {no_copies: {"samples"}, positions_restart: {"prefix hit", "chunked", "everything"}, swaps_lost: {"swapped"},
          every_guess_kept: {"speculation"}, other_pool: {"simulator"}}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_where_it_shows_and_its_first_logit_is_said(pairs, monkeypatch, fault):
    fault(monkeypatch)
    failed = {name: one for name, one in found(pairs["Qwen2"][0]).items() if not one.holds}
    assert failed.keys() >= FAULTS[fault], failed
    for name in FAULTS[fault] - {"simulator"}:
        first = failed[name].first
        assert first is not None and 0 <= first.prompt < 4 and 0 <= first.place < 12
        assert first.said[0] != first.said[1] or abs(first.reference - first.other) > 0


def test_a_way_that_was_not_taken_proves_nothing(pairs):
    short = Court(model=pairs["Llama"][0], kept=None, prompts=((1, 2, 3),), tokens=2)
    missed = {one.name: one for one in proofs(short) if not one.holds}
    assert {"together", "chunked"} <= missed.keys()
    assert "it never happened: chunk, mixed" in missed["chunked"].words and not missed["chunked"].happened


def rows(*values):
    return [torch.tensor(value) for value in values]


def test_a_tie_ends_a_comparison_and_a_real_difference_fails_it():
    tie = Comparison(tolerance=1e-4)
    tie.take(0, ([0, 1], rows([1.0, 0.99999], [0.0, 1.0])), ([1, 0], rows([0.99999, 1.0], [5.0, 1.0])))
    assert tie.holds and tie.ties == 1 and tie.compared == 1
    wrong = Comparison(tolerance=1e-4)
    wrong.take(2, ([0, 1], rows([1.0, 0.5], [0.0, 1.0])), ([0, 1], rows([1.0, 0.5], [0.2, 1.0])))
    assert not wrong.holds and (wrong.first.prompt, wrong.first.place, wrong.first.token) == (2, 1, 0)
    assert (wrong.first.reference, wrong.first.other) == (0.0, pytest.approx(0.2))
    broken = Comparison(tolerance=1e-4)
    broken.take(0, ([0], rows([1.0, 0.5])), ([0], rows([1.0, float("nan")])))
    assert not broken.holds and broken.first.token == 1
    short = Comparison(tolerance=1e-4)
    short.take(0, ([0, 1], rows([1.0, 0.5], [0.0, 1.0])), ([0], rows([1.0, 0.5])))
    assert not short.holds and short.lengths == ["answer 0 has 1 tokens, the reference 2"]
    assert not Comparison(tolerance=1e-4).holds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("model") / "tiny"
    make_model.make(place, make_model.sizes("qwen2", layers=2, width=32, heads=2, kv_heads=1, context=128))
    return place


def call(capsys, *arguments):
    status = errors.run(mini_infer, [str(one) for one in arguments], "mini-infer")
    return status, *capsys.readouterr()


def test_the_command_says_each_equality_and_exits_with_0(folder, capsys):
    status, out, err = call(capsys, "prove", folder, "--prompt", "Another text of some more tokens, to be sure.", "--json")
    document = json.loads(out)
    assert status == 0 and document["holds"] and document["prompts"] == 5 and document["tolerance"] == prove.EXACT
    assert [one["name"] for one in document["proofs"]] == NAMES


def test_the_command_shows_the_first_differing_logit_and_exits_with_1(folder, capsys, monkeypatch):
    no_copies(monkeypatch)
    status, out, err = call(capsys, "prove", folder)
    assert status == 1 and "FAILS  samples:" in out and "of 11 fail: samples." in out
    assert "token" in out and "the reference has" in out


def test_what_cannot_be_proved_is_refused_by_name(folder, capsys):
    status, out, err = call(capsys, "prove", folder, "--prompt", "")
    assert status == 2 and "prompt" in err and not out
    status, out, err = call(capsys, "prove", folder, "--prompt", "a b " * 4000)
    assert status == 2 and "prompt" in err and "128 tokens" in err
    status, out, err = call(capsys, "prove", folder, "--max-tokens", 500)
    assert status == 2 and "max_tokens" in err.replace("-", "_") and "at most" in err
