"""Text and bytes columns: arrays of strings or binary, with 32- or 64-bit offsets, to and from pieces.

Each block is encoded by itself, in the way a look at its values suggests. All numbers are little endian. Every part of
a body starts at a multiple of 8 and is padded with zero bytes, the last one too. A *stream* is a piece of integers
(:mod:`tidelog.storage.codec.numeric`). Bytes are stored compressed (1 LZ4 raw block, 2 Zstandard frame) only where that
saves a twentieth: what is stored in as many bytes as it has is not compressed. The text of one block is less than
2 GiB. Null slots have no bytes; in streams they repeat the row before.

``TEXT_DICTIONARY``: few distinct values. Parameter 0. The body:

======  ====  ==========================================================================================
offset  type  field
======  ====  ==========================================================================================
0       u32   number of distinct values, at least 1
4       u32   bytes of all distinct values
8       u32   bytes they are stored in
12      u32   compression
16      u32   bytes of the stream of indexes
20      u32   bytes of the stream of sizes
24      ...   stream of indexes: for each row the number of its value, in order of first appearance
...     ...   stream of sizes: the bytes of each distinct value
...     ...   the distinct values, one after the other
======  ====  ==========================================================================================

``TEXT_CONSTANT``: one distinct value. The same body with both streams left out: the value follows the head. A piece
without a valid row has this encoding and no body.

``TEXT_TEMPLATE``: lines that differ in numbers, where that is clearly shorter than compressed text. See
:mod:`tidelog.storage.codec.text.template`.

``TEXT_PLAIN``: everything else. The parameter is the number of vectors of a segment (the last segment may have
fewer), so that a reader of some vectors expands only their segments. The body, for ``v`` vectors of 1,024 rows in
``s`` segments:

======  ====  ==========================================================================================
offset  type  field
======  ====  ==========================================================================================
0       u32   bytes of the stream of lengths
4       u32   compression
8       u32   for each of the ``v`` vectors: bytes of its text
8+4v    u32   for each of the ``s`` segments: bytes it is stored in
...     ...   stream of lengths: the bytes of each row
...     ...   the segments, each starting at a multiple of 8
======  ====  ==========================================================================================
"""

from __future__ import annotations

from tidelog.storage.codec.text.decoder import TextOverflowError, decode_coded_text, decode_text, decode_text_rows
from tidelog.storage.codec.text.encoder import encode_text

__all__ = ["TextOverflowError", "decode_coded_text", "decode_text", "decode_text_rows", "encode_text"]
