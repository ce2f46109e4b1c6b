"""The local server's fixtures, for the tests of this folder."""

from hub_server import hub, server  # noqa: F401
