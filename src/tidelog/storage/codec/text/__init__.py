"""Text and bytes columns: arrays of strings or binary to and from pieces."""

from __future__ import annotations

from tidelog.storage.codec.text.decoder import TextOverflowError, decode_text
from tidelog.storage.codec.text.encoder import encode_text

__all__ = ["TextOverflowError", "decode_text", "encode_text"]
