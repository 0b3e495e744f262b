"""Files of events as batches of a stream's schema: formats, inference, and where exactly a row is bad."""

from __future__ import annotations
