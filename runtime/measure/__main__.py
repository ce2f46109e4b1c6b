"""`python -m runtime.measure --facts DIR [--check]`: every generator of this package, one after the other."""

import argparse
import pkgutil
import subprocess
import sys
from pathlib import Path


def generators() -> list[str]:
    """Names of this package's modules that generate from the folder of facts: those that take --facts."""
    folder = Path(__file__).parent
    return [module.name for module in pkgutil.iter_modules([str(folder)]) if module.name != "__main__"
            and '"--facts"' in (folder / f"{module.name}.py").read_text(encoding="utf-8")]


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
    for name in generators():
        print(f"{name}: ", end="", flush=True)
        command = [sys.executable, "-m", f"runtime.measure.{name}", "--facts", str(facts)]
        if subprocess.run(command + ["--check"] * options.check, check=False).returncode:
            failed.append(name)
    if failed:
        print("failed: " + ", ".join(failed), file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
