"""Compression of text bytes with the codecs Arrow brings along, which release the GIL."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa

from tidelog.model.errors import CorruptionError
from tidelog.storage.codec.arena import Bytes
from tidelog.storage.codec.text.layout import LARGEST_TEXT, Compression

HIGHEST_LEVEL = 22
"""Of Zstandard."""


class _Codecs(threading.local):
    """Codec objects of a thread: Arrow does not say that they may be shared."""

    def __init__(self) -> None:
        self.by_level: dict[int, pa.Codec] = {}
        self.readers = {Compression.LZ4: pa.Codec("lz4_raw"), Compression.ZSTD: pa.Codec("zstd")}


_codecs = _Codecs()


class Compressor:
    """Compresses for one level: 0 is LZ4, everything above a level of Zstandard."""

    def __init__(self, level: int) -> None:
        if not 0 <= level <= HIGHEST_LEVEL:
            raise ValueError(
                f"compression level {level} is not one of 0 (LZ4) to {HIGHEST_LEVEL} (Zstandard); use 1 if in doubt"
            )
        self.compression = Compression.ZSTD if level else Compression.LZ4
        codec = _codecs.by_level.get(level)
        if codec is None:
            codec = pa.Codec("zstd", compression_level=level) if level else pa.Codec("lz4_raw")
            _codecs.by_level[level] = codec
        self._codec = codec

    def shorter(self, content: memoryview) -> memoryview | pa.Buffer:
        """The compressed image of ``content``, or itself unless a twentieth is saved."""
        if len(content) == 0:
            return content
        image = self._codec.compress(pa.py_buffer(content))
        return image if 20 * image.size <= 19 * len(content) else content


_LARGEST_RATIO = {Compression.LZ4: 255, Compression.ZSTD: LARGEST_TEXT}
"""Bytes that a compressed byte can at most stand for."""


def expand(stored: Bytes, size: int, compression: int) -> Bytes:
    """The ``size`` bytes that ``stored`` stands for; it is them, not their image, if it has that many bytes.

    Raises :class:`CorruptionError` if it does not expand to that size. The one lie that stays unnoticed is an LZ4 block
    of fewer bytes than claimed, which Arrow does not report: the bytes missing from it are arbitrary.
    """
    if len(stored) == size:
        return stored
    if compression not in _LARGEST_RATIO:
        raise CorruptionError(f"text is compressed by method {compression}; known are 1 (LZ4) and 2 (Zstandard)")
    method = Compression(compression)
    largest = min(len(stored) * _LARGEST_RATIO[method], LARGEST_TEXT)
    if not len(stored) < size <= largest:
        raise CorruptionError(
            f"{len(stored)} bytes of text compressed by {method.name} claim to expand to {size}; "
            f"{len(stored) + 1} to {largest} are possible"
        )
    try:
        text = _codecs.readers[method].decompress(pa.py_buffer(stored), decompressed_size=size)
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(
            f"{len(stored)} bytes of text compressed by {method.name} do not expand to {size}: {error}"
        ) from error
    return np.frombuffer(text, np.uint8)
