"""Kernels of masks."""

from __future__ import annotations

from typing import Any

from tidelog.jit import array_in, array_out, boolean, i32, kernel, u64, void


@kernel(void(array_in(boolean), array_in(i32), array_out(boolean)))
def pick(truths: Any, places: Any, out: Any) -> None:
    """The truth at each place; places are those of ``truths``."""
    for i in range(len(places)):
        out[u64(i)] = truths[u64(places[u64(i)])]
