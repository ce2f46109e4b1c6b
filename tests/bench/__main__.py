"""`python -m tests.bench [NAME ...]`: every benchmark, or those named. Ratios hold; absolute times are this machine's."""

import importlib
import sys

NAMES = ("sizing", "scheduling", "tokens", "packing", "engine", "browser", "live")


def main() -> None:
    """Run the benchmarks named on the command line."""
    names = sys.argv[1:] or NAMES
    for name in names:
        if name not in NAMES:
            raise SystemExit(f"no benchmark {name!r}; there are: {', '.join(NAMES)}")
        importlib.import_module(f"tests.bench.{name}").main()


if __name__ == "__main__":
    main()
