"""Running a program in this process. A test module says which: `PROGRAM = (program.sched_sim, "sched-sim")`."""

import json

import pytest

from pycore.cli import errors


@pytest.fixture
def run(capsys, request):
    """Run the module's program: (exit status, standard output, standard error)."""
    def call(*arguments):
        main, name = request.module.PROGRAM
        status = errors.run(main, [str(one) for one in arguments], name)
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
        return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    return call
