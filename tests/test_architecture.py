"""The rules of DESIGN section 3, enforced: who may import whom, what an import pulls in, how large a module may be."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Lowest first; a module may import from its own layer and from those before it.
LAYERS = (
    ("pycore.errors", "pycore.units", "pycore.comma_separated", "pycore.nesting", "pycore.kept"),
    ("pycore.ledger", "pycore.knobs", "pycore.nouns", "pycore.cache", "pycore.packages"),
    ("pycore.matching", "pycore.facts", "pycore.catalog", "pycore.config_json", "pycore.stats", "pycore.tokens",
     "pycore.pack"),
    ("pycore.layout", "pycore.vram", "pycore.roofline"),
    ("pycore.speculative", "pycore.cost", "pycore.hub", "pycore.serving"),
    ("pycore.matrix", "pycore.simulation", "pycore.atlas", "pycore.quality"),
    ("pycore.scenes",),
    ("pycore.systems",),
    ("pycore.cli",),
)
OUTER = {"pycore": {"pycore"}, "runtime": {"pycore", "runtime"}, "studios": {"pycore", "studios"},
         "site": {"pycore", "studios"}}
CORE_THIRD_PARTY = {"pycore.cli": {"click", "rich"}}
LIMIT_LINES, LIMIT_FUNCTION_LINES = 400, 60
GENERIC_BRIDGE_LINES = 900


def modules(package: str) -> list[Path]:
    return sorted(path for path in (ROOT / package).rglob("*.py"))


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, *, everywhere: bool = True) -> set[str]:
    """Dotted names that a file imports; with everywhere=False only those at module level."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = ast.walk(tree) if everywhere else tree.body
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer(name: str) -> int | None:
    for index, names in enumerate(LAYERS):
        if any(name == known or name.startswith(known + ".") for known in names):
            return index
    return None


def test_layers_import_downwards_only():
    faults = []
    for path in modules("pycore"):
        own = layer(dotted(path))
        if dotted(path) == "pycore":
            continue
        assert own is not None, f"{dotted(path)} is in no layer; add it to LAYERS"
        faults += [f"{dotted(path)} imports {name}" for name in imports(path)
                   if (other := layer(name)) is not None and other > own]
    assert not faults, faults


@pytest.mark.parametrize("package", sorted(OUTER))
def test_packages_import_only_what_stands_below(package):
    ours = {"pycore", "studios", "runtime", "build", "tests"}
    faults = [f"{dotted(path)} imports {name}" for path in modules(package) for name in imports(path)
              if name.split(".")[0] in ours - OUTER[package]]
    assert not faults, faults


def test_test_modules_differ_by_name():
    """pytest imports them by base name: two of one name cannot be collected in one run."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(set(names)) == len(names), sorted({name for name in names if names.count(name) > 1})


def test_core_needs_only_the_standard_library_at_import():
    faults = []
    for path in modules("pycore"):
        allowed = next((names for prefix, names in CORE_THIRD_PARTY.items() if dotted(path).startswith(prefix)), set())
        roots = {name.split(".")[0] for name in imports(path, everywhere=False)}
        faults += [f"{dotted(path)} imports {root}" for root in roots - sys.stdlib_module_names - {"pycore"} - allowed]
    assert not faults, faults


def test_importing_the_core_pulls_in_nothing_heavy():
    code = ("import sys, pycore, pycore.systems.infersize\n"
            "heavy = {'numpy', 'torch', 'jinja2', 'click', 'rich', 'asyncio', 'http.client', 'pydantic'} & set(sys.modules)\n"
            "print(','.join(sorted(heavy)))")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.strip() == ""


def test_module_size_budget():
    packages = ("pycore", "studios", "runtime")
    files = [path for package in packages for path in modules(package)] + [ROOT / "build.py"]
    large = {dotted(path): count for path in files
             if (count := len(path.read_text(encoding="utf-8").splitlines())) > LIMIT_LINES}
    assert not large, large


def test_function_size_budget():
    large = {}
    for package in ("pycore", "studios", "runtime"):
        for path in modules(package):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    length = node.end_lineno - node.lineno + 1
                    if length > LIMIT_FUNCTION_LINES:
                        large[f"{dotted(path)}.{node.name}"] = length
    assert not large, large


def test_every_module_and_public_function_says_what_it_is():
    faults = []
    for package in ("pycore", "studios", "runtime"):
        for path in modules(package):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            if path.name != "__init__.py" and not ast.get_docstring(tree):
                faults.append(f"{dotted(path)}: module docstring")
            for node in tree.body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                    if not ast.get_docstring(node) and not short(node):
                        faults.append(f"{dotted(path)}.{node.name}: docstring")
    assert not faults, faults


def short(node: ast.AST) -> bool:
    """A function of three lines whose name says it all needs no docstring."""
    return isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno <= 3


def test_public_functions_are_annotated():
    faults = []
    for package in ("pycore", "studios", "runtime"):
        for path in modules(package):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                    arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
                    if node.returns is None or any(argument.annotation is None for argument in arguments):
                        if not any("term" in ast.unparse(decorator) for decorator in node.decorator_list):
                            faults.append(f"{dotted(path)}.{node.name}")
    assert not faults, faults


def test_bridge_stays_small_and_names_no_product():
    products = [path.parent.name for path in (ROOT / "studios").glob("*/view.py")]
    lines = 0
    for path in sorted((ROOT / "site" / "bridge").glob("*.mjs")):
        text = path.read_text(encoding="utf-8")
        lines += len(text.splitlines())
        named = [product for product in products if product in text]
        assert not named, f"{path.name} names {named}"
    assert lines <= GENERIC_BRIDGE_LINES, f"{lines} lines of JavaScript in site/bridge"


def test_commands_are_the_index_of_products():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    products = {path.parent.name for path in (ROOT / "studios").glob("*/view.py")}
    assert {product.replace("_", "-") for product in products} <= set(scripts)


def test_wheel_and_page_carry_the_same_data():
    sys.path.insert(0, str(ROOT / "site"))
    from builder.pack import DATASETS

    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    carried = config["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert carried == {f"data/{name}": f"pycore/data/{name}" for name in DATASETS}


def test_no_registry_address_in_the_repository():
    hosts = ["registry." + "npmjs", "pypi" + ".org", "files." + "pythonhosted", "deb." + "debian"]
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=True).stdout.split("\n")
    faults = []
    for name in filter(None, tracked):
        path = ROOT / name
        if path.is_file():
            text = path.read_bytes().decode("utf-8", errors="ignore")
            faults += [f"{name}: {host}" for host in hosts if host in text]
    assert not faults, faults


def test_ruff_finds_nothing():
    places = ["pycore", "studios", "runtime", "site", "tests", "build.py"]
    result = subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", "--output-format", "concise", *places],
                            capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
