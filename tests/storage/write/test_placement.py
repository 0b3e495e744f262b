"""Frames that are put many at a time are where they would be if each had been put alone."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.crash import RecordingMedium
from support.profiles import scaled
from tidelog.storage.format.kernels import hash64
from tidelog.storage.format.macro_block import DATA, MOVED
from tidelog.storage.format.translation import Addresses, TranslationTree
from tidelog.storage.format.units import STRIDE, Place
from tidelog.storage.write.placement import Placement

MACRO = 2 * STRIDE
FANOUT = 5


@settings(max_examples=scaled(100))
@given(st.integers(0, 2**32 - 1), st.sampled_from([60, MACRO // 16, MACRO // 4]))
def test_a_run_is_put_like_its_frames(seed: int, longest: int) -> None:
    """Lengths are in words of 8 bytes; after some runs what was put is written, however little it is."""
    choose = np.random.default_rng(seed)
    found = [
        (choose.integers(1, longest, choose.integers(1, 40), endpoint=True).tolist(), bool(choose.integers(2)))
        for _ in range(choose.integers(1, 6))
    ]
    written = []
    for at_once in (True, False):
        medium = RecordingMedium()
        file = medium.create("f")
        placement = Placement(file, MACRO, Place(0, 0, 0), TranslationTree(FANOUT, no_pages))
        dice = np.random.default_rng(3)
        id = 0
        addresses: list[int] = []
        for lengths, seals in found:
            words = dice.integers(0, 1 << 63, sum(lengths)).astype(np.uint64)
            frames = words.view(np.uint8).data
            bounds = [8 * bound for bound in accumulate(lengths, initial=0)]
            starts = accumulate(lengths, initial=0)
            digests = [int(hash64(words, start, length)) for start, length in zip(starts, lengths, strict=False)]
            is_new = bool(dice.integers(2))
            ids = range(id, id + len(lengths)) if is_new else [int(each) for each in dice.integers(0, 99, len(lengths))]
            kind = DATA if is_new else MOVED
            if at_once:
                addresses += placement.put_run(ids, frames, bounds, kind, digests)
            else:
                for i, digest in enumerate(digests):
                    addresses.append(placement.put(ids[i], frames[bounds[i] : bounds[i + 1]], kind, digest))
            if is_new:
                id += len(lengths)
            placement.settle()
            if seals:
                placement.seal()
        placement.seal()
        written.append((file.read(0, file.size()), placement.place, addresses, placement.tree.next_id, id))
    assert written[0] == written[1]
    assert written[0][3] == written[0][4]
    assert len(written[0][2]) == sum(len(lengths) for lengths, _ in found)


def no_pages(position: int) -> Addresses:
    raise AssertionError(f"nothing asks for the page at {position}")
