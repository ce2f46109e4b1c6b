"""Which numbers a device computes in by itself. Imitated, 16 bits cost several times what 32 do."""

import platform

import torch

ASKED = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}
X86 = ("x86_64", "amd64", "i386", "i686")


def computed(numbers: torch.dtype, device: torch.device | str) -> torch.dtype:
    """The numbers asked for, or float32 where the device would only imitate them."""
    return numbers if native(numbers, device) else torch.float32


def native(numbers: torch.dtype, device: torch.device | str) -> bool:
    """Whether a device has arithmetic for such numbers."""
    kind = torch.device(device).type
    if numbers not in ASKED or kind == "mps":
        return True
    if kind == "cuda":
        return numbers == torch.float16 or torch.cuda.is_bf16_supported(including_emulation=False)
    if numbers == torch.bfloat16 and platform.machine().lower() in X86:
        # oneDNN says yes wherever there is AVX-512, and there converts every number to float32 and back.
        return any(_says(torch.cpu, one) for one in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return _says(torch.ops.mkldnn, ASKED[numbers])


def _says(place: object, name: str) -> bool:
    """The answer of one of torch's own questions; no where this version does not have it."""
    asked = getattr(place, name, None)
    return bool(asked is not None and asked())
