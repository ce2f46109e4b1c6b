"""What sched-sim says of a question can be asked again: its workload's line, its command, its address, its points."""

import json

import pytest

from pycore.cli import errors
from pycore.cli import sched_sim as program

SMALL = ["--workload", "poisson rate=8 prompt=256 output=32", "--limit", "60"]
STABLE = ["requests", "completed", "dropped", "makespan_s", "ttft_ms", "tpot_ms", "itl_ms", "e2e_ms",
          "throughput_tokens_per_s", "goodput_requests_per_s", "preemptions", "prefix_hit_ratio", "steps"]


@pytest.fixture
def run(capsys):
    """Run the program in this process: (exit status, standard output, standard error)."""
    def call(*arguments):
        status = errors.run(program.sched_sim, [str(one) for one in arguments], "sched-sim")
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err and "Internal fault" not in captured.err, captured.err
        return status, captured.out, captured.err

    return call


@pytest.fixture
def document(run):
    """Run with --json: the object."""
    def call(*arguments):
        status, out, err = run(*arguments, "--json")
        assert status == 0, err
        return json.loads(out)

    return call


def stable(found):
    """The figures that a script reads."""
    return {key: found[key] for key in STABLE}


# The workload's line -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [["--workload", "stall", "--limit", "5"], ["--workload", "stall", "--limit", "9"],
                                   ["--workload", "chat", "--limit", "40", "--seed", "0"],
                                   ["--workload", "chat seed=0", "--limit", "40"]])
def test_the_workload_that_is_said_gives_the_same_run(document, asked):
    found = document("run", *asked)
    assert stable(document("run", "--workload", found["workload"])) == stable(found)
