"""Sizes of the parts of frames, as kernels go by them too."""

from __future__ import annotations

HEAD_BYTES = 32
"""Bytes of a frame before its column directory."""
ENTRY_BYTES = 16
"""Bytes of one entry of the column directory."""
SUMMARY_BYTES = 48
"""Bytes of one column's summary."""

OK = -1
"""What a kernel says of frames that are as they were written."""
