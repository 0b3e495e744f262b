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

    def shorter(self, content: Bytes) -> Bytes:
        """The compressed image of ``content``, or itself unless a twentieth is saved."""
        if len(content) == 0:
            return content
        image = self._codec.compress(pa.py_buffer(content))
        return np.frombuffer(image, np.uint8) if 20 * image.size <= 19 * len(content) else content


def expand(stored: Bytes, size: int, compression: int) -> Bytes:
    """The ``size`` bytes that ``stored`` stands for; it is them, not their image, if it has that many bytes."""
    if len(stored) == size:
        return stored
    if compression not in (Compression.LZ4, Compression.ZSTD):
        raise CorruptionError(f"text is compressed by method {compression}; known are 1 (LZ4) and 2 (Zstandard)")
    if not len(stored) < size <= LARGEST_TEXT:
        raise CorruptionError(
            f"{len(stored)} compressed bytes of text claim to expand to {size}; at least one byte more and at most "
            f"{LARGEST_TEXT} were expected"
        )
    try:
        return np.frombuffer(
            _codecs.readers[Compression(compression)].decompress(pa.py_buffer(stored), decompressed_size=size),
            np.uint8,
        )
    except (OSError, pa.ArrowException) as error:
        raise CorruptionError(f"{len(stored)} compressed bytes of text do not expand to {size}: {error}") from error
