"""Files that are kept open: so many and no more, and never one less while somebody reads it."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import weakref
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.media.descriptors import open_below
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import CorruptionError
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.read.parts import split_trees
from tidelog.store.read.parts.split_trees import SplitTrees
from tidelog.store.split import open_files
from tidelog.store.split.open_files import OpenFiles, allowed

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64())])


class Holder:
    """Has files by number; some are being read."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.read: set[int] = set()

    def let_go(self, key: int) -> bool:
        if key in self.read:
            return False
        self.open.discard(key)
        return True


steps = st.lists(
    st.tuples(st.sampled_from(["open", "use", "read", "done", "close"]), st.integers(0, 2), st.integers(0, 5)),
    max_size=60,
)


@given(steps=steps, limit=st.integers(1, 6))
def test_those_not_used_for_longest_are_let_go(steps: list[tuple[str, int, int]], limit: int) -> None:
    files, holders = OpenFiles(lambda: limit), [Holder() for _ in range(3)]
    order: list[tuple[int, int]] = []
    """The model: what is open, least recently used first."""
    for step, index, key in steps:
        holder, entry = holders[index], (index, key)
        if step == "open" and key not in holder.open:
            holder.open.add(key)
            order.append(entry)
            for old in list(order):
                if len(order) > limit and old[1] not in holders[old[0]].read:
                    order.remove(old)
            files.opened(holder, key)
        elif step == "use" and key in holder.open:
            order.remove(entry)
            order.append(entry)
            files.used(holder, key)
        elif step == "read" and key in holder.open:
            holder.read.add(key)
        elif step == "done":
            holder.read.discard(key)
        elif step == "close" and key in holder.open and key not in holder.read:
            holder.open.discard(key)
            order.remove(entry)
            files.closed(holder, key)
        assert {(index, key) for index, each in enumerate(holders) for key in each.open} == set(order)
        assert len(files) == len(order)


def test_what_is_gone_with_its_holder_is_not_counted() -> None:
    files, holder, other = OpenFiles(lambda: 3), Holder(), Holder()
    for key in range(3):
        files.opened(holder, key)
    gone = weakref.ref(holder)
    del holder
    assert gone() is None
    for key in range(3):
        other.open.add(key)
        files.opened(other, key)
    assert other.open == {0, 1, 2}
    assert len(files) == 3


def test_by_what_the_system_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    for descriptors, files in [(1024, 256), (10, 8), (1 << 20, 1024), (resource.RLIM_INFINITY, 1024)]:
        monkeypatch.setattr(open_files.resource, "getrlimit", lambda _, found=descriptors: (found, found))
        assert allowed() == files


def load(stream: Stream, splits: int, rows: int = 20) -> None:
    infos = []
    for index in range(splits):
        with BulkWriter(writer_of(stream).context) as writer:
            times = list(range(index * rows, (index + 1) * rows))
            writer.append(pa.record_batch([times, times], schema=SCHEMA))
            infos += writer.finish()
    commit_bulk(writer_of(stream).manifests, infos)


def open_splits(store: Path) -> int:
    """Descriptors of splits of a store that this process has."""
    return sum("/splits/" in path for path in open_below(store))


def test_a_tree_that_is_read_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if its file is removed, and many others are read meanwhile; those are closed."""
    monkeypatch.setattr(split_trees, "FILES", OpenFiles(lambda: 2))
    with Store.open(tmp_path, maintenance="manual") as store:
        stream = store.create_stream("s", SCHEMA, "ts", durability="none", leaf_rows=1)
        load(stream, 12)
        context, infos = writer_of(stream).context, list(writer_of(stream).manifests.load().splits.values())
        trees, others = SplitTrees(context), SplitTrees(context)
        read = trees.tree(context, infos[0])
        context.medium.remove(context.path(infos[0].name))
        for info in infos[1:] * 2:
            assert others.tree(context, info).row(0, ["n"]).to_pylist() == [{"n": info.time_min}]
        assert trees.tree(context, infos[0]) is read
        assert read.row(7, ["n"]).to_pylist() == [{"n": 7}]
        gc.collect()
        assert open_splits(tmp_path) == 2 * 2  # a descriptor and a map for each
        del read
        for info in infos[1:3]:
            others.tree(context, info)
        with pytest.raises(CorruptionError):  # not kept for nobody
            trees.tree(context, infos[0])


READ_ALL = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
import tidelog
streams, splits = int(sys.argv[2]), int(sys.argv[3])
with tidelog.open(sys.argv[1], read_only=True) as store:
    for _ in range(2):
        for index in range(streams):
            stream = store.stream(f"s{index}")
            assert stream.aggregate(3, splits * 20 - 3, ["count(*)"]) == {"count(*)": splits * 20 - 6}
            assert stream.scan().read_all().num_rows == splits * 20 + 1
print(len(os.listdir("/proc/self/fd")))
"""


def test_many_streams_with_few_descriptors(tmp_path: Path) -> None:
    """Each stream has splits, and a journal and a publication that whoever wrote it has left."""
    streams, splits = 20, 2
    with Store.open(tmp_path, maintenance="manual") as store:
        for index in range(streams):
            stream = store.create_stream(f"s{index}", SCHEMA, "ts", durability="none")
            load(stream, splits)
            stream.append({"ts": 10_000, "n": 1})
            stream.flush()
    command = [sys.executable, "-W", "error", "-c", READ_ALL, str(tmp_path), str(streams), str(splits)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 64
