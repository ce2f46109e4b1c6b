"""Where downloads and other slow results are kept (as for the commands), and the one error of the build."""

from pycore.cache import cache_folder, put

__all__ = ["BuildError", "cache_folder", "put"]


class BuildError(Exception):
    """The build cannot go on; the message says what to do. Shown without a traceback."""
