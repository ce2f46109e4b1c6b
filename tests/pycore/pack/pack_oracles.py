"""What several tests of pycore.pack share: arrays that hurt, and the reference programs."""

import numpy as np

rng = np.random.default_rng(20261130)


def weights(rows: int = 16, columns: int = 512, scale: float = 0.02) -> np.ndarray:
    """Heavy-tailed rows, and rows that break quantisers: zeros, constants, ties, one sign, outliers, a lone spike."""
    values = (rng.standard_t(4, size=(rows, columns)) * scale).astype(np.float32)
    values[0, : columns // 2] = 0
    values[1] = np.float32(scale)
    values[2] = np.round(values[2] / scale * 4) / 4 * scale
    values[3] = np.abs(values[3])
    values[4] = -np.abs(values[4])
    values[5] = np.abs(values[5]) + 10 * scale
    values[6, ::32] *= 100
    values[7] = 0
    values[7, 5] = -scale
    return values


def ggml(name: str, values: np.ndarray) -> bytes:
    """The bytes that ggml's reference quantiser (as packaged by libgguf) writes."""
    import libgguf

    return bytes(libgguf.quantize_rows_raw(libgguf.GGMLQuantizationType[name], values, *values.shape))


def ggml_back(name: str, data: bytes, shape: tuple[int, int]) -> np.ndarray:
    """What ggml reads from bytes."""
    import libgguf

    kind = libgguf.GGMLQuantizationType[name]
    return np.frombuffer(libgguf.dequantize_rows_raw(kind, data, *shape), np.float32).reshape(shape)
