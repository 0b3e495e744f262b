"""The block container: a compressed, addressable, crash-proof log in one file.

``Container`` writes, ``ContainerReader`` reads one of its commits, ``FileMedium`` says where files are.
See docs/design/001-container.md for the design and docs/format.md for the bytes.
"""

from __future__ import annotations

from tidelog.storage.check import Finding
from tidelog.storage.commit import Commit
from tidelog.storage.container import Container, Options
from tidelog.storage.media import FileMedium, Medium
from tidelog.storage.reader import ContainerReader
from tidelog.storage.recovery import Recovery

__all__ = ["Commit", "Container", "ContainerReader", "FileMedium", "Finding", "Medium", "Options", "Recovery"]
