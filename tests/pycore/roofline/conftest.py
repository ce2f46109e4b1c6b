"""Deployments by name, for the tests of speed."""

import pytest

from pycore import catalog
from pycore.nouns import Deployment, Parallel


@pytest.fixture(scope="session")
def make():
    """A function from names to a deployment."""

    def deployment(model="llama-3.1-8b", weights="bf16", gpu="h100", *, tensor=1, pipeline=1, data=1, expert=False,
                   engine="vllm", sequences=16, prompt=1024, output=256, cache="auto"):
        kept = catalog.kv_format(cache)
        return Deployment(
            model=catalog.model(model), weights=catalog.weight_format(weights), keys=kept, values=kept,
            accelerator=catalog.accelerator(gpu), engine=engine, context=prompt + output, sequences=sequences,
            prompt=prompt, output=output,
            parallel=Parallel(tensor=tensor, pipeline=pipeline, data=data, expert=expert))

    return deployment
