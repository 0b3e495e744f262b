"""What is kept of the output of processes that nobody is to hear."""

from __future__ import annotations

import os
import threading

from tidelog.spark.runtime.muffling import Muffled


def test_all_that_was_written_is_told_however_late_it_is_read() -> None:
    may_read = threading.Event()

    class Late(Muffled):
        def _read(self, source: int) -> None:
            may_read.wait()
            super()._read(source)

    muffled = Late()
    with muffled:
        os.write(1, b"one\n")
        os.write(2, b"two\n")
    threading.Timer(0.05, may_read.set).start()
    assert muffled.text() == "one\ntwo\n"
