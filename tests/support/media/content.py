"""Bytes of simulated files: pages that are shared between copies, and images that are built on first use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

PAGE = 4096
_ZEROS = bytes(PAGE)


class Content:
    """Growable bytes in immutable pages; a copy shares all pages, so it costs one list copy.

    Bytes behind ``size`` in the last page are zero, so that growing never shows old bytes.
    """

    __slots__ = ("_pages", "size")

    def __init__(self, data: bytes = b"") -> None:
        self._pages: list[bytes] = []
        self.size = 0
        self.write(0, data)

    def copy(self) -> Content:
        twin = Content()
        twin._pages = self._pages.copy()
        twin.size = self.size
        return twin

    def read(self, offset: int, length: int) -> bytes:
        stop = min(offset + length, self.size)
        if stop <= offset:
            return b""
        first, last = offset // PAGE, (stop - 1) // PAGE
        pages = self._pages[first] if first == last else b"".join(self._pages[first : last + 1])
        return pages[offset - first * PAGE : stop - first * PAGE]

    def write(self, offset: int, data: bytes) -> None:
        if not data:
            return
        stop = offset + len(data)
        if stop > self.size:
            self.resize(stop)
        for page in range(offset // PAGE, (stop - 1) // PAGE + 1):
            start = page * PAGE
            piece = data[max(start - offset, 0) : start + PAGE - offset]
            if len(piece) < PAGE:
                inside = max(offset - start, 0)
                old = self._pages[page]
                piece = old[:inside] + piece + old[inside + len(piece) :]
            self._pages[page] = piece

    def resize(self, size: int) -> None:
        """Cut, or extend with zeros."""
        count = -(-size // PAGE)
        if size < self.size:
            del self._pages[count:]
            if size % PAGE:
                self._pages[-1] = self._pages[-1][: size % PAGE].ljust(PAGE, b"\0")
        else:
            self._pages.extend([_ZEROS] * (count - len(self._pages)))
        self.size = size

    def __bytes__(self) -> bytes:
        return self.read(0, self.size)


class Image:
    """A content that is built when it is first asked for, and must not be changed then."""

    __slots__ = ("_build", "_content", "_digest")

    def __init__(self, build: Callable[[], Content]) -> None:
        self._build = build
        self._content: Content | None = None
        self._digest: bytes | None = None

    @classmethod
    def of(cls, content: Content) -> Image:
        image = cls(lambda: content)
        image._content = content
        return image

    @property
    def content(self) -> Content:
        if self._content is None:
            self._content = self._build()
        return self._content

    @property
    def digest(self) -> bytes:
        """A hash of the content: equal for equal ones."""
        if self._digest is None:
            content = self.content
            self._digest = hashlib.blake2b(content.read(0, content.size), digest_size=16).digest()
        return self._digest
