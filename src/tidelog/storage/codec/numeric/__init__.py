"""Columns of numbers and streams of integers <-> pieces.

Every column is a sequence of words: booleans (one byte, 0 or 1), integers, dates, times, timestamps and durations
as they are, floats by their bit patterns, 128-bit decimals as two words. A piece
(:mod:`tidelog.storage.codec.piece`) holds the words of one block; the encoding in its head says how. All numbers are
little endian, all parts start at multiples of 8, all arithmetic is modulo 2**64.

Vectors
-------
A *vector* stands for n <= 1,024 words (all of a body but the last stand for 1,024)::

    0   u8   width w of the packed residuals in bits, 0 to 64
    1   u8   flags: bits 0-1 order k, bit 2 wide reference, bit 3 factor, bits 4-5 log2 of the bytes of a high part
    2   u16  number of exceptions
    4   i32  reference (0 if wide)
    8        u64 reference if wide; k x u64 state; u64 factor if flagged
    ..       packed residuals: 16 * ceil(ceil(n / 16) * w / 64) words
    ..       u16 position of each exception, padded with zeros to 8 bytes
    ..       high part of each exception, signed, padded with zeros to 8 bytes

Residual i stands in row i // 16 of lane i % 16. The rows of a lane are packed one after the other, lowest bits
first, into 64-bit words; word j of all 16 lanes stands in words 16 * j to 16 * j + 15. An exception's residual does not
fit w bits: its high part, shifted left by w, is added to the packed one. With step(i) = reference + factor *
residual(i), where the factor is 1 unless given, the words are::

    order 0:  value(i) = step(i)
    order 1:  value(i) = value(i - 1) + step(i)                                   state: value(-1)
    order 2:  d(i) = d(i - 1) + step(i);  value(i) = value(i - 1) + d(i)          state: value(-1), d(-1)
    order 3:  e(i) = e(i - 1) + step(i);  d(i) = d(i - 1) + e(i);
              value(i) = value(i - 1) + d(i)                                      state: value(-1), d(-1), e(-1)

Bodies
------
RAW         the words as they are, padded with zeros to 8 bytes.
PACKED      vectors. (Integers; narrow ones are widened, with their sign if they have one.)
DECIMAL     u32 number of listed patches, u32 offset of the patches from the start of the body (0: none); vectors;
            patches. The float is the integer divided by ten to the power of the parameter, 0 to 15, computed in
            double precision; single-precision floats are rounded from that.
ORDERED     the same with other integers: the bit pattern, as a signed number of its width, if it is not negative; -0.0
            is the lowest number of that width; for other negative floats it is the lowest number less the pattern.
RUNS        a pair of streams: the word of each run, the length of each run.
DICTIONARY  a pair of streams: the distinct words (1,024 at most), for each row the index of its word.
HALVES      a pair of streams: the low words, the high words.
SHUFFLED    u64 length; so many bytes, a raw LZ4 block (parameter 1), padded with zeros to 8: the lowest bytes of all
            words, then the second bytes, and so on.

A *pair of streams* is a u64 length of the first stream, the first stream, the second stream. A *stream* is a piece of
signed 64-bit words, RAW or PACKED, without nulls.

*Patches* put back the bits of floats that have no integer (NaN, infinities; -0.0 and whatever is not decimal in
DECIMAL)::

    0   u64  1 if a bitmap follows, else 0
    ..       if so: u64 bits common to many rows, and ceil(rows / 64) words with a bit for each row that has them
    ..       u64 bits of each listed patch
    ..       u32 row of each listed patch, padded with zeros to 8 bytes

What is chosen
--------------
The order, the reference, the factor (a common divisor, such as the 1,000 of milliseconds kept in microseconds) and
the width are chosen for each vector, from samples; DECIMAL (with its exponent), ORDERED, RUNS and DICTIONARY for each
block. SHUFFLED is tried where the others save little. RAW is what remains, so that no piece is larger than its values,
its bitmap and its head.
"""

from __future__ import annotations

from tidelog.storage.codec.numeric.chosen import decode_number_rows, decode_stream_rows
from tidelog.storage.codec.numeric.codec import decode_number_columns, decode_numbers, encode_numbers
from tidelog.storage.codec.numeric.decoder import decode_integers
from tidelog.storage.codec.numeric.encoder import encode_integers

__all__ = [
    "decode_integers",
    "decode_number_columns",
    "decode_number_rows",
    "decode_numbers",
    "decode_stream_rows",
    "encode_integers",
    "encode_numbers",
]
