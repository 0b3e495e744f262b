"""The engine: stores and streams as users see them."""

from __future__ import annotations
