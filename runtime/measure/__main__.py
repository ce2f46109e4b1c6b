"""`python -m runtime.measure --facts DIR [--check]`: every generator of this package, one after the other."""

import argparse
import pkgutil
import subprocess
import sys
from pathlib import Path

SUPPORT = {"tables", "__main__"}


def main() -> int:
    """Run every generator; exit status 1 when any differs or fails."""
    parser = argparse.ArgumentParser(prog="python -m runtime.measure", description=__doc__)
    parser.add_argument("--facts", required=True, type=Path, help="the folder of public facts (or the one above it)")
    parser.add_argument("--check", action="store_true", help="compare with what is committed, write nothing")
    options = parser.parse_args()
    facts = options.facts / "facts" if (options.facts / "facts").is_dir() else options.facts
    if not facts.is_dir():
        parser.error(f"--facts: {facts} is not a folder")
    failed = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name not in SUPPORT:
            print(f"{module.name}: ", end="", flush=True)
            command = [sys.executable, "-m", f"runtime.measure.{module.name}", "--facts", str(facts)]
            if subprocess.run(command + ["--check"] * options.check, check=False).returncode:
                failed.append(module.name)
    if failed:
        print("failed: " + ", ".join(failed), file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
