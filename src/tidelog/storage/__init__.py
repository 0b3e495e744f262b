"""The block container: a compressed, addressable, crash-proof log in one file.

``Container`` writes, ``ContainerReader`` reads one of its commits, ``FileMedium`` says where files are.
See docs/design/001-container.md for the design and docs/format.md for the bytes.
"""

from __future__ import annotations

from tidelog.storage.format.commit import Commit
from tidelog.storage.media.file_medium import FileMedium
from tidelog.storage.media.medium import Medium
from tidelog.storage.read.check import Finding
from tidelog.storage.read.reader import ContainerReader
from tidelog.storage.read.recovery import Recovery
from tidelog.storage.write.container import Container, Options

__all__ = ["Commit", "Container", "ContainerReader", "FileMedium", "Finding", "Medium", "Options", "Recovery"]
