"""The README cannot drift: its map is generated, its commands exist."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from studios import readme, render

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_map_is_what_the_generator_writes():
    assert readme.written(TEXT) == TEXT
    assert readme.products() and all(f"studios/{name}/" in TEXT for name in readme.products())


def test_every_dataset_has_a_card_and_a_product():
    named = {folder for name in readme.products() for folder in render.studio(name).DATA}
    assert named == {path.parent.name for path in (ROOT / "data").glob("*/README.md")}
    assert named == {path.name for path in (ROOT / "data").iterdir() if path.is_dir()}


def test_every_make_target_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    assert set(re.findall(r"make ([a-z-]+)", TEXT)) <= targets


def test_every_command_shown_is_understood():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    shown = [line for name in scripts for line in re.findall(rf"^    ({name} .*?)(?:\s+#.*)?$", TEXT, re.M)]
    assert len(shown) >= 10
    for line in shown:
        name, *words = [word for word in shlex.split(line) if not word.startswith("--")][:3]
        module = scripts[name].partition(":")[0]
        for depth in (1, 2):  # a group's subcommand may have subcommands of its own: 'export perfetto'
            code = f"from {module} import main; main({[*words[:depth], '--help']!r})"
            result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
            if result.returncode == 0 and all(option in result.stdout for option in re.findall(r"--[a-z-]+", line)):
                break
        else:
            raise AssertionError(f"{line!r}: {result.stdout or result.stderr}")


def test_what_is_said_not_to_fit_does_not_fit():
    said = re.findall(r"^    infersize (plan .*?)\s+# exit status 1", TEXT, re.M)
    assert said
    for line in said:
        code = f"from pycore.cli.infersize import main; main({shlex.split(line)!r})"
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=False).returncode == 1
