"""A workload in words: every figure that sets it is said, whatever it is made of."""

import re
from dataclasses import replace

import pytest

from pycore.simulation.presets import PRESETS
from pycore.simulation.spoken import ordinal, spoken
from pycore.simulation.workload import parse

LINES = (*PRESETS, "batch requests=5 prompt=uniform:3-9", "closed users=1 think=0s requests=3", "gamma rate=0.5 cv=3 requests=7",
         "onoff rate=4 on=2s off=6s prompt=lognormal:p50=800,p90=2000 output=150 requests=160 urgent=0.25 predict=noise:0.5",
         "poisson rate=4 prompt=lognormal:2600 requests=200 prefix=0.4:2048:12 long=100@21,50@112 turns=3 predict=none",
         "poisson rate=8 prompt=trace:azure-code output=trace:azure-code requests=9", "replay trace=azure-code speed=2")


@pytest.mark.parametrize("line", LINES)
def test_every_figure_of_a_workload_is_said_and_none_of_its_syntax(line):
    workload = parse(line)
    said = spoken(workload, 1234).replace(",", "")
    assert said.startswith("1234 requests") and "=" not in said and ":" not in said
    for number in figures(workload):
        assert re.search(rf"(?<![\d.]){re.escape(number)}(?![\d]|\.\d)", said), (number, said)


def figures(workload) -> list[str]:
    """Numbers that must be there, as they are written."""
    found = [str(round(value)) for drawn in (workload.prompt, workload.output) for name in ("tokens", "low", "high", "mean", "p50", "p90")
             if (value := getattr(drawn, name, None)) is not None] if workload.arrivals != "replay" else []
    found += [str(size) for size, _ in workload.long]
    found += [str(workload.prefix.tokens)] if workload.prefix else []
    found += [str(workload.users)] if workload.arrivals == "closed" else []
    found += [f"{workload.rate:g}"] if workload.arrivals in ("poisson", "gamma", "onoff") else []
    return found + ([str(workload.turns)] if workload.turns > 1 else [])


def test_a_long_prompt_behind_the_last_request_is_not_said():
    stall = parse("long-prompt-stall")
    assert "9th" in spoken(replace(stall, requests=9), 9) and "9th" not in spoken(replace(stall, requests=8), 8)


def test_a_log_of_ones_own_is_called_what_it_is():
    assert spoken(parse("replay trace=trace"), 19366, "your trace") == "19,366 requests of your trace, as they arrived"
    assert spoken(parse("batch requests=1"), 1).startswith("1 request, all at once")


@pytest.mark.parametrize(("number", "text"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (11, "11th"), (112, "112th"), (121, "121st")])
def test_places_are_counted_as_people_do(number, text):
    assert ordinal(number) == text
