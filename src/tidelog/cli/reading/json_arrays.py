"""One JSON array of objects as JSON lines, block by block: the same bytes, but for what separates the objects.

Outside of texts, which cannot hold any, line feeds become spaces, and the commas between objects become line feeds. So
whatever reads JSON lines reads arrays too, in any layout and with the same bounded memory.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

_BLANKS: Final = b" \t\r\n"
_PIECE: Final = 1 << 18
"""Bytes that are looked at together: what is known of each of them takes a multiple of its own memory."""
_SPACE, _NEWLINE, _QUOTE, _COMMA, _ESCAPE = b' \n",\\'


class ArrayLines:
    """Follows the content of an input that is an array."""

    def __init__(self) -> None:
        self._depth = 0
        """How many arrays and objects are open; the array itself is one."""
        self._in_text = False
        self._is_escaped = False
        """Whether the next byte stands behind a backslash that is not itself behind one."""
        self._has_ended = False
        self._has_more = False

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the input as JSON lines; as many bytes."""
        return b"".join(self._piece(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE))

    def _piece(self, data: bytes) -> bytes:
        if self._has_ended:
            self._has_more = self._has_more or bool(data.strip(_BLANKS))
            return b" " * len(data)
        values = np.frombuffer(data, np.uint8).copy()
        quotes = (values == _QUOTE) & ~self._escaped(data, values)
        in_text = (
            np.cumsum(quotes, dtype=np.int32) + self._in_text
        ) % 2 == 1  # the quote that opens a text belongs to it
        outside = ~in_text & ~quotes
        folded = values & ~np.uint8(0x20)  # the bit by which braces differ from brackets
        steps = ((folded == ord("[")).astype(np.int8) - (folded == ord("]"))) * outside
        depth = self._depth + np.cumsum(steps, dtype=np.int32)
        values[outside & (values == _NEWLINE)] = _SPACE
        values[outside & (depth == 1) & (values == _COMMA)] = _NEWLINE
        if self._depth == 0 and (begins := np.flatnonzero(depth == 1)).size:
            values[begins[0]] = _SPACE
        ends = np.flatnonzero((depth == 0) & (steps == -1))
        self._depth, self._in_text = int(depth[-1]), bool(in_text[-1])
        if ends.size:
            end = int(ends[0])
            self._has_ended, self._depth = True, 0
            self._has_more = bool(data[end + 1 :].strip(_BLANKS))
            values[end:] = _SPACE
        return values.tobytes()

    def fault(self) -> str | None:
        """What is wrong with the array, when there is no more input; None if nothing is."""
        if not self._has_ended:
            return "the array is not closed; the input seems to be cut off"
        if self._has_more:
            return "found more behind the end of the array; expected one array of objects, or an object on each line"
        return None

    def _escaped(self, data: bytes, values: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
        """Which bytes stand behind an odd number of backslashes."""
        escaped = np.zeros(len(values), np.bool_)
        if b"\\" not in data:
            escaped[0] = self._is_escaped
            self._is_escaped = False
            return escaped
        places = np.arange(len(values) + 1)
        is_escape = np.concatenate([values == _ESCAPE, [False]])
        # Behind each byte: how many backslashes in a row end there.
        last_other = np.maximum.accumulate(np.where(is_escape, -1, places))
        run = np.where(is_escape, places - last_other, 0)
        # A row that began in an earlier block counts on.
        run[: int(np.argmin(is_escape))] += self._is_escaped
        escaped[1:] = run[: len(values) - 1] % 2 == 1
        escaped[0] = self._is_escaped
        self._is_escaped = bool(run[len(values) - 1] % 2)
        return escaped
