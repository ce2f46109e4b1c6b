"""Torch's threads do not wait for each other for milliseconds where another program has a processor."""

import os
import subprocess
import sys

import pytest

import runtime

SAID = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@pytest.mark.skipif(sys.platform != "linux", reason="torch brings GNU's OpenMP on Linux only")
@pytest.mark.parametrize(("said", "turns"), [({}, str(runtime.SPINS)), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "passive"}, "0")])
@pytest.mark.parametrize("module", ["runtime.mini_infer.setup", "runtime.quantbench.linear", "runtime.models.gguf"])
def test_torchs_openmp_takes_the_turns_that_are_settled_and_the_users_own_first(module, said, turns):
    """What libgomp itself says that it has taken."""
    environment = {name: value for name, value in os.environ.items() if name not in SAID} | said | {"OMP_DISPLAY_ENV": "verbose"}
    code = f"import {module}, torch"
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert f"GOMP_SPINCOUNT = '{turns}'" in result.stderr


def test_commands_settle_it_too():
    """No command imports torch by another way than through `runtime`."""
    for name in ("mini_infer", "quantbench"):
        code = (f"import pkgutil, importlib, sys, pycore.cli.{name} as group\n"
                "for one in pkgutil.walk_packages(group.__path__, group.__name__ + '.'): importlib.import_module(one.name)\n"
                "assert 'runtime' in sys.modules or 'torch' not in sys.modules")
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
