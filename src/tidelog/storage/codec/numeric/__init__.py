"""Columns of numbers and streams of integers <-> pieces."""

from __future__ import annotations

from tidelog.storage.codec.numeric.codec import decode_numbers, encode_numbers
from tidelog.storage.codec.numeric.decoder import decode_integers
from tidelog.storage.codec.numeric.encoder import encode_integers

__all__ = ["decode_integers", "decode_numbers", "encode_integers", "encode_numbers"]
