"""A stream that is written, deleted from, merged, killed and read all the time: nothing is lost, nothing piles up."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.streams import soak_process
from support.streams.soak_process import GATED, GATED_OPTIONS, KEPT, NAME, OPTIONS, SCHEMA, STEP, has_all, look, rows_of
from tidelog.engine.store import Store

MEMORY = 400 << 20
"""What a process may have for itself: some batches, the caches, the libraries."""
FILES = 1500
"""Files of the stream, with those that wait for the end of their grace period."""
BYTES = 200 << 20


@contextmanager
def process(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    # Beside other tests they take what is left of the machine.
    command = ["nice", "-n", "10", sys.executable, "-W", "error", soak_process.__file__, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        try:
            yield started
        finally:
            started.kill()


def said(started: subprocess.Popen[str]) -> list[int]:
    assert started.stdout is not None
    line = started.stdout.readline().split()
    assert line, "the process ended; its standard error says why"
    return [int(word) for word in line if word != "ready"]


class Campaign:
    """Lets writers write, one after the other, and kills each at some moment."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.dice = random.Random(seed)
        self.batch = -1
        """The last batch that was acknowledged."""
        self.kills = self.most_memory = self.most_files = self.most_bytes = 0
        with Store.open(directory) as store:
            store.create_stream(NAME, SCHEMA, "ts", **OPTIONS)
            store.create_stream(GATED, SCHEMA, "ts", **GATED_OPTIONS)

    def write_and_kill(self, seconds: float) -> None:
        with process("write", self.directory, self.batch + 1, self.dice.randrange(1 << 30)) as writer:
            assert writer.stdout is not None
            killer = threading.Timer(seconds, writer.kill)
            for line in writer.stdout:
                if not killer.is_alive() and not killer.finished.is_set():
                    killer.start()  # begun with the first batch, however long the process takes to come
                self.batch, memory = map(int, line.split())
                self.most_memory = max(self.most_memory, memory)
                assert memory < MEMORY, f"the writer has {memory} bytes of its own"
                self.check_disk()
        assert writer.returncode == -9, "the writer failed; its standard error says why"
        self.kills += 1
        with Store.open(self.directory) as store:
            store.remove_orphans(older_than=0)  # nobody writes, so what belongs to nothing is of those killed

    def check_disk(self) -> None:
        if self.batch % 50 == 0:
            sizes = []
            for path in self.directory.rglob("*"):
                try:
                    sizes.append(path.stat().st_size)
                except FileNotFoundError:  # swept up while we looked
                    continue
            self.most_files = max(self.most_files, len(sizes))
            self.most_bytes = max(self.most_bytes, sum(sizes))
            assert len(sizes) < FILES, f"there are {len(sizes)} files after batch {self.batch}"
            assert sum(sizes) < BYTES, f"there are {sum(sizes)} bytes after batch {self.batch}"


def run(directory: Path, seconds: float, life: tuple[float, float], readers: int, seed: int) -> Campaign:
    """So many seconds, or longer where the machine is so busy that hardly anything was done by then."""
    campaign = Campaign(directory, seed)
    began = time.monotonic()
    with ExitStack() as stack:
        attached = [stack.enter_context(process("read", directory)) for _ in range(readers)]
        for reader in attached:
            said(reader)
        while time.monotonic() < began + seconds or campaign.kills < 2 or campaign.batch <= 20:
            campaign.write_and_kill(campaign.dice.uniform(*life))
        for reader in attached:
            assert reader.stdin is not None
            reader.stdin.close()
            looks, *seen, memory = said(reader)
            assert looks >= 1
            assert has_all(seen, campaign.batch), "what was flushed was not seen"
            assert memory < MEMORY
            assert reader.wait() == 0
    with Store.open(directory) as store:
        stream = store.stream(NAME)
        assert has_all(look(store), campaign.batch)
        assert store.check() == []
        stream.delete_before(max(0, campaign.batch * STEP - KEPT))
        stream.compact()
        store.maintain()
        assert store.check() == []
        assert has_all(look(store), campaign.batch)
    return campaign


def test_soak_for_a_minute(tmp_path: Path) -> None:
    """With lives long enough for automatic maintenance, and for files whose grace period is over."""
    run(tmp_path / "store", 60, (0.2, 16.0), readers=1, seed=1)


@pytest.mark.soak
def test_soak_for_an_hour(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    campaign = run(tmp_path / "store", 3600, (0.2, 60.0), readers=2, seed=2)
    assert campaign.kills > 20
    rows = 2 * sum(len(rows_of(batch)) for batch in range(campaign.batch + 1))
    files, size, memory = campaign.most_files, campaign.most_bytes >> 20, campaign.most_memory >> 20
    with capsys.disabled():
        sys.stdout.write(
            f"\n{campaign.batch + 1} batches, {rows} rows in all streams, {campaign.kills} kills; at most {memory} MB "
            f"of memory, {files} files, {size} MB on disk\n"
        )
