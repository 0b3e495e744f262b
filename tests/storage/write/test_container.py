"""What a container promises its users, one promise a test; crashes and damage are tested elsewhere."""

from __future__ import annotations

import _thread
import datetime
import decimal
import gc
import json
import multiprocessing
import os
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.recording import RecordingMedium
from support.profiles import scaled
from support.storage.containers import NAME, SCHEMA, TINY, History, assert_holds, reopened
from tidelog import threads
from tidelog.model.errors import (
    ClosedError,
    ExistsError,
    InputError,
    LockedError,
    NotFoundError,
    SchemaError,
    StorageError,
)
from tidelog.storage import Container, ContainerReader, FileMedium, Options
from tidelog.storage.codec import Ints
from tidelog.storage.codec.text import TextOverflowError
from tidelog.storage.format import block
from tidelog.storage.read import source
from tidelog.storage.write.encoding import RUNS_AHEAD
from tidelog.storage.write.updates import LeafUpdate


def rows(start: int, count: int) -> pa.RecordBatch:
    numbers = np.arange(start, start + count)
    return pa.record_batch(
        [
            pa.array(numbers * 1000, pa.timestamp("us")),
            pa.array(np.round(np.sin(numbers), 3)),
            pa.array([f"row {i % 50}" for i in range(start, start + count)]),
        ],
        schema=SCHEMA,
    )


@pytest.fixture
def medium(tmp_path: Path) -> FileMedium:
    return FileMedium(tmp_path)


@pytest.fixture
def container(medium: FileMedium) -> Iterator[Container]:
    with Container.create(medium, NAME, SCHEMA, Options(leaf_rows=4096)) as container:
        yield container


@pytest.mark.parametrize("mapped", [False, True])
def test_histories_survive_on_real_files(tmp_path: Path, mapped: bool) -> None:
    medium = FileMedium(tmp_path, mapped=mapped)
    medium.mark = lambda value: None  # type: ignore[attr-defined]
    expected = History(medium, 9).run(60)  # type: ignore[arg-type]
    with reopened(medium) as container:
        assert container.recovery.is_clean
        assert_holds(container, expected.at(container.recovery.commit))
        assert container.snapshot().check() == []


@settings(max_examples=scaled(25))
@given(seed=st.integers(0, 1 << 30), steps=st.integers(1, 60))
def test_random_histories_against_the_model(seed: int, steps: int) -> None:
    medium = RecordingMedium()
    expected = History(medium, seed).run(steps)
    with ContainerReader.open(medium, NAME) as reader:
        assert_holds(reader, expected.at(reader.commit))
        assert reader.check() == []


def test_a_large_batch_is_cut_into_leaves_and_comes_back(container: Container) -> None:
    batch = rows(0, 150_000)
    assert container.extend(batch) == range(37)
    commit = container.flush()
    assert (commit.next_id, commit.rows) == (37, 150_000)
    reader = container.snapshot()
    assert pa.Table.from_batches(reader.scan()).equals(pa.Table.from_batches([batch]))
    assert reader.read(36).num_rows == 150_000 - 36 * 4096
    assert reader.read(5).equals(batch.slice(5 * 4096, 4096))


def test_a_read_decodes_only_what_is_asked_for(container: Container) -> None:
    batch = rows(0, 4096)
    container.append(batch)
    container.flush()
    reader = container.snapshot()
    assert reader.read(0, ["text"]).equals(batch.select(["text"]))
    assert reader.read(0, ["value", "ts"]).equals(batch.select(["value", "ts"]))
    for start, stop in [(0, 0), (0, 1), (1023, 1025), (1024, 2048), (4000, 4096), (0, 4096), (2048, 2048)]:
        assert reader.read(0, rows=(start, stop)).equals(batch.slice(start, stop - start))
    assert reader.read(0, []).num_rows == 4096
    assert [b.schema.names for b in reader.scan(columns=["value"])] == [["value"]]
    with pytest.raises(InputError, match="rows 0 to 4096"):
        reader.read(0, rows=(0, 4097))
    with pytest.raises(NotFoundError, match="no column 'colour'; known are 'ts', 'value', 'text'"):
        reader.read(0, ["colour"])


def test_small_blocks_are_encoded_together_but_stay_apart(container: Container) -> None:
    parts = [rows(i * 7, 7) for i in range(100)]
    assert [container.append(part) for part in parts] == list(range(100))
    container.flush()
    assert all(container.view().read(i).equals(part) for i, part in enumerate(parts))
    assert len(list(container.snapshot().scan())) < 10


def test_the_writer_reads_what_is_not_flushed_yet(container: Container) -> None:
    container.extend(rows(0, 10_000))
    id = container.append(b"a node")
    assert container.view().read(2).equals(rows(8192, 10_000 - 8192))
    assert container.read_node(id) == b"a node"
    assert sum(batch.num_rows for batch in container.view().scan()) == 10_000
    assert container.snapshot().blocks == 0


def test_updates_show_to_later_commits_only(container: Container) -> None:
    container.extend(rows(0, 8192))
    container.flush()
    before = container.snapshot()
    container.update(1, rows(5, 10))
    assert container.view().read(1).equals(rows(5, 10))
    unflushed = container.snapshot()
    commit = container.flush()
    after = container.snapshot()
    for reader in (before, unflushed):
        assert reader.read(1).equals(rows(4096, 4096))
        assert reader.rows == 8192
    assert after.read(1).equals(rows(5, 10))
    assert (after.rows, commit.rows) == (4106, 4106)
    assert commit.dead_bytes > 0
    assert container.snapshot().check() == []


@pytest.mark.parametrize("refused", [0, 1, 9])
def test_leaves_are_updated_together_or_not_at_all(container: Container, refused: int) -> None:
    container.extend(rows(0, 40_960))
    container.flush()
    container.update(3, rows(0, 7))

    def change(number: int, old: pa.RecordBatch, cuts: Ints) -> tuple[pa.RecordBatch, Ints]:
        if number == refused:
            raise InputError("refused")
        assert cuts.tolist() == [0, old.num_rows]
        return pa.concat_batches([old, rows(number, 1)]), np.array([0, old.num_rows + 1])

    updates = [LeafUpdate(np.array([number]), partial(change, number)) for number in range(10)]
    with pytest.raises(InputError, match="refused"):
        container.update_leaves(updates)
    expected = [rows(0, 7) if id == 3 else rows(4096 * id, 4096) for id in range(10)]
    for _ in range(2):
        assert [container.view().read(id) for id in range(10)] == expected
        assert container.flush().rows == 9 * 4096 + 7
        assert container.snapshot().check() == []
    others = [update for number, update in enumerate(updates) if number != refused]
    assert [leaves[0].tolist() for leaves in container.update_leaves(others)] == [
        [expected[number].num_rows + 1] for number in range(10) if number != refused
    ]
    for number in range(10):
        if number != refused:
            expected[number] = pa.concat_batches([expected[number], rows(number, 1)])
    assert container.flush().rows == 9 * 4096 + 7 + 9
    assert [container.view().read(id) for id in range(10)] == expected
    assert container.snapshot().check() == []


def test_many_updates_keep_the_chain_of_tables_short(medium: FileMedium) -> None:
    with Container.create(medium, NAME, SCHEMA, TINY) as container:
        container.extend(rows(0, 200))
        for round in range(100):
            container.update(round % 25, rows(round, 3))
            container.flush()
        assert container.snapshot().check() == []
    with ContainerReader.open(medium, NAME) as reader:
        assert [reader.read(i)["ts"][0].value for i in range(25)] == [(75 + i) * 1000 for i in range(25)]


def test_frames_larger_than_many_macro_blocks(medium: FileMedium) -> None:
    noise = np.random.default_rng(0).integers(32, 127, 300_000, dtype=np.uint8).tobytes().decode()
    batch = pa.record_batch([pa.array([0], pa.timestamp("us")), pa.array([1.5]), pa.array([noise])], schema=SCHEMA)
    with Container.create(medium, NAME, SCHEMA, TINY) as container:
        for content in (rows(0, 3), batch, rows(3, 3)):
            container.append(content)
        container.append(os.urandom(100_000))
        container.flush()
        assert container.view().read(1).equals(batch)
        assert container.snapshot().check() == []


def test_wide_rows_make_smaller_leaves(container: Container) -> None:
    text = "x" * 20_000
    batch = pa.record_batch(
        [pa.array(range(1000), pa.timestamp("us")), pa.nulls(1000, pa.float64()), pa.array([text] * 1000)],
        schema=SCHEMA,
    )
    ids = container.extend(batch)
    assert 2 <= len(ids) < 10
    assert pa.Table.from_batches(container.view().scan()).equals(pa.Table.from_batches([batch]))


@pytest.mark.parametrize("mapped", [False, True])
def test_a_scan_of_long_texts_decodes_a_few_blocks_at_a_time(
    tmp_path: Path, mapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many blocks a file has: nobody knows how long texts are, but that they are not shorter than stored."""
    stored = 1 << 20
    monkeypatch.setattr(source, "_TASK_STORED_BYTES", stored)
    dice = np.random.default_rng(1)
    texts = [dice.bytes(1 << 16).hex() for _ in range(64)]
    with Container.create(FileMedium(tmp_path, mapped=mapped), NAME, SCHEMA, Options(leaf_rows=4)) as container:
        for start in range(0, 64, 4):
            few = rows(start, 4)
            container.append(few.set_column(2, few.schema.field(2), pa.array(texts[start : start + 4])))
        container.flush()
        with container.snapshot() as reader:
            batches = list(reader.scan())
    assert max(batch.nbytes for batch in batches) < 4 * stored
    assert [text for batch in batches for text in batch.column(2).to_pylist()] == texts


def test_metadata_travels_with_the_commit(container: Container, medium: FileMedium) -> None:
    assert container.flush(b"root 7").meta == b"root 7"
    container.append(rows(0, 1))
    assert container.flush().meta == b"root 7"
    with ContainerReader.open(medium, NAME) as reader:
        assert reader.commit.meta == b"root 7"


def test_a_flush_without_news_writes_nothing(container: Container) -> None:
    container.append(rows(0, 5))
    first = container.flush()
    assert container.flush() is first


def test_a_description_is_kept(medium: FileMedium) -> None:
    Container.create(medium, NAME, SCHEMA, description={"stream": "trades", "n": 1}).close()
    with ContainerReader.open(medium, NAME) as reader:
        assert reader.description["notes"] == {"stream": "trades", "n": 1}
        assert reader.schema.equals(SCHEMA)


def test_summaries_come_from_frames_without_decoding(container: Container) -> None:
    container.extend(rows(0, 10_000))
    container.append(b"a node between")
    container.append(rows(10_000, 1))
    container.flush()
    ids, counts, table = container.snapshot().summaries()
    assert ids.tolist() == [0, 1, 2, 4]
    assert counts.tolist() == [4096, 4096, 1808, 1]
    assert table.shape == (4, 3)
    assert table["nulls"].sum() == 0


def test_bad_input_is_refused_and_nothing_is_written(container: Container) -> None:
    other = pa.record_batch({"ts": [1], "value": [1.0]})
    for action in (container.append, container.extend, lambda batch: container.update(0, batch)):
        container.append(rows(0, 1)) if not container.blocks else None
        with pytest.raises(InputError, match="expected ts: timestamp"):
            action(other)
    with pytest.raises(InputError, match="at least one row"):
        container.append(rows(0, 0))
    assert container.extend(rows(0, 0)) == range(1, 1)
    with pytest.raises(NotFoundError, match="ids are 0 to 0"):
        container.update(1, rows(0, 1))
    with pytest.raises(NotFoundError):
        container.view().read(-1)
    assert container.append(rows(0, 1)) == 1
    node = container.append(b"node")
    with pytest.raises(InputError, match="use read_node"):
        container.view().read(node)
    with pytest.raises(InputError, match="use read"):
        container.read_node(0)


def test_types_that_cannot_be_stored_are_refused_by_name(medium: FileMedium) -> None:
    with pytest.raises(SchemaError):
        Container.create(medium, NAME, pa.schema([("xs", pa.list_(pa.int64()))]))
    with pytest.raises(SchemaError, match="'d' has type dictionary"):
        Container.create(medium, NAME, pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))]))
    assert medium.names() in ([], [NAME + ".lock"])


@pytest.mark.parametrize(
    "wrong", [{"macro_size": 5000}, {"macro_size": 0}, {"fanout": 1}, {"leaf_rows": 0}, {"commit_every": 0}]
)
def test_options_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        Options(**wrong)


def test_one_writer_at_a_time(container: Container, medium: FileMedium) -> None:
    with pytest.raises(LockedError):
        Container.open(medium, NAME)
    container.close()
    Container.open(medium, NAME).close()
    with pytest.raises(ExistsError):
        Container.create(medium, NAME, SCHEMA)


def test_use_after_close(container: Container) -> None:
    container.close()
    container.close()
    for action in (container.flush, container.snapshot, container.view, lambda: container.append(b"")):
        with pytest.raises(ClosedError):
            action()


def test_opening_what_is_not_there(medium: FileMedium) -> None:
    with pytest.raises(NotFoundError):
        Container.open(medium, "nothing.tl")
    with pytest.raises(NotFoundError):
        ContainerReader.open(medium, "nothing.tl")


def test_an_abandoned_scan_frees_its_resources(container: Container) -> None:
    container.extend(rows(0, 500_000))
    container.flush()
    before = _thread._count()
    for _ in range(20):
        scan = container.snapshot().scan()
        assert next(scan).num_rows
        del scan
    gc.collect()
    assert _thread._count() <= before + threads.THREADS


def test_scans_of_ranges_of_blocks(container: Container) -> None:
    container.extend(rows(0, 20 * 4096))
    container.flush()
    reader = container.snapshot()
    for first, last in [(0, 1), (3, 9), (19, 20), (19, 100), (5, 5), (7, 3)]:
        scanned = pa.Table.from_batches(reader.scan(first, last), SCHEMA)
        wanted = rows(0, 20 * 4096).slice(first * 4096, max(0, min(last, 20) - first) * 4096)
        assert scanned.equals(pa.Table.from_batches([wanted]))


def test_the_block_cache_keeps_to_its_budget(medium: FileMedium) -> None:
    with Container.create(medium, NAME, SCHEMA, Options(leaf_rows=4096)) as container:
        container.extend(rows(0, 40 * 4096))
    with ContainerReader.open(medium, NAME, cache_bytes=200_000) as reader:
        for _ in range(3):
            for id in range(40):
                reader.read(id, ["ts"])
        assert 100_000 < reader._cache.bytes <= 200_000
        one, again, elsewhere = (reader.read(id, ["ts"]).column(0).buffers()[1].address for id in (39, 39, 0))
        assert one == again != elsewhere
    with ContainerReader.open(medium, NAME, cache_bytes=0) as reader:
        reader.read(0)
        assert reader._cache.bytes == 0


def test_threads_may_write_and_read_at_once(container: Container) -> None:
    errors: list[BaseException] = []

    def write(worker: int) -> None:
        try:
            for step in range(30):
                container.append(rows(worker * 10_000 + step, 50))
                if step % 10 == 9:
                    container.flush()
        except BaseException as error:
            errors.append(error)

    def read() -> None:
        try:
            for _ in range(30):
                reader = container.snapshot()
                assert sum(batch.num_rows for batch in reader.scan()) == reader.rows == 50 * reader.blocks
        except BaseException as error:
            errors.append(error)

    started = [threading.Thread(target=write, args=(i,)) for i in range(3)] + [threading.Thread(target=read)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert not errors
    assert container.flush().rows == 3 * 30 * 50


def _read_while_written(
    root: str, queue: multiprocessing.Queue[object], stop: multiprocessing.synchronize.Event
) -> None:
    """In another process: every snapshot must be whole, and never older than one seen before."""
    seen = -1
    looks = 0
    try:
        while not stop.is_set() or looks < 3:
            with ContainerReader.open(FileMedium(root), NAME) as reader:
                assert reader.commit.number >= seen
                seen = reader.commit.number
                total = sum(batch.num_rows for batch in reader.scan(columns=["ts"]))
                assert total == reader.rows, (total, reader.rows)
            looks += 1
        queue.put(looks)
    except BaseException as error:
        queue.put(repr(error))


def test_other_processes_read_commits_while_writing_goes_on(medium: FileMedium) -> None:
    context = multiprocessing.get_context("spawn")
    queue, stop = context.Queue(), context.Event()
    options = Options(commit_every=200_000, macro_size=16_384, fanout=16)
    with Container.create(medium, NAME, SCHEMA, options) as container:
        reader = context.Process(target=_read_while_written, args=(str(medium.root), queue, stop))
        reader.start()
        for round in range(60):
            container.extend(rows(round * 20_000, 20_000))
            container.update(round, rows(0, 100))
            if round % 5 == 0:
                container.flush()
        stop.set()
        looks = queue.get(timeout=120)
        reader.join()
        assert isinstance(looks, int), looks


def test_memory_stays_bounded_while_writing(medium: FileMedium) -> None:
    """Only a few runs are encoded ahead: the queue of unplaced ones never grows with the input."""
    with Container.create(medium, NAME, SCHEMA) as container:
        batch = rows(0, 65_536)
        for _ in range(30):
            container.extend(batch)
            assert container._line.running <= threads.THREADS + RUNS_AHEAD
        assert len(container._line._spare_words) <= threads.THREADS + 1


def test_every_column_type_goes_through(medium: FileMedium) -> None:
    columns = {
        "bool": pa.array([True, None, False]),
        **{f"{kind}{bits}": pa.array([1, None, 100], getattr(pa, f"{kind}{bits}")())
           for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
        "float32": pa.array([1.5, None, float("nan")], pa.float32()),
        "float64": pa.array([-0.0, None, float("inf")]),
        "string": pa.array(["a", None, "ü" * 40]),
        "large_string": pa.array(["a", None, ""], pa.large_string()),
        "binary": pa.array([b"\x00\xff", None, b""]),
        "large_binary": pa.array([b"\x00", None, b"\xfe" * 99], pa.large_binary()),
        **{f"timestamp_{unit}": pa.array([0, None, -1], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
        "zoned": pa.array([0, None, 1], pa.timestamp("us", "Europe/Berlin")),
        "date32": pa.array([datetime.date(2020, 1, 1), None, datetime.date(1900, 1, 1)]),
        "date64": pa.array([datetime.date(2020, 1, 1), None, datetime.date(1900, 1, 1)], pa.date64()),
        "decimal": pa.array([decimal.Decimal("1.23"), None, decimal.Decimal("-" + "9" * 36)], pa.decimal128(38, 2)),
        "all_null": pa.nulls(3, pa.int64()),
    }  # fmt: skip
    batch = pa.record_batch(columns)
    with Container.create(medium, NAME, batch.schema) as container:
        container.append(batch)
        container.flush()
        again = container.view().read(0)
        assert again.schema.equals(batch.schema)
        for name in batch.schema.names:
            if "float" in name:
                bits = f"uint{name[-2:]}"
                assert again[name].view(bits).equals(batch[name].view(bits))
            else:
                assert again[name].equals(batch[name]), name
        assert container.snapshot().check() == []


def test_a_scan_is_cut_smaller_where_a_batch_could_not_hold_the_text(
    container: Container, monkeypatch: pytest.MonkeyPatch
) -> None:
    container.extend(rows(0, 10 * 4096))
    container.flush()
    decode = block.decode_leaves

    def with_less_room(frames: block.OpenFrames, *arguments: Any, **options: Any) -> list[pa.Array]:
        if len(frames.rows) > 3:
            raise TextOverflowError("as if these were more than 2 GiB")
        return decode(frames, *arguments, **options)

    monkeypatch.setattr(block, "decode_leaves", with_less_room)
    batches = list(container.snapshot().scan())
    assert pa.Table.from_batches(batches).equals(pa.Table.from_batches([rows(0, 10 * 4096)]))
    assert max(batch.num_rows for batch in batches) == 2 * 4096  # a task of 8 blocks, halved twice


@pytest.mark.parametrize("mapped", [False, True])
def test_split_frames_are_read_like_whole_ones(tmp_path: Path, mapped: bool) -> None:
    medium = FileMedium(tmp_path, mapped=mapped)
    with Container.create(medium, NAME, SCHEMA, Options(leaf_rows=4096, macro_size=16_384)) as container:
        container.extend(rows(0, 50_000))
        container.append(b"a node " * 100)
        container.extend(rows(50_000, 50_000))
        container.flush()
        reader = container.snapshot()
        expected = pa.Table.from_batches([rows(0, 100_000)])
        for columns in (["ts"], ["text"], ["value", "text"]):
            assert pa.Table.from_batches(reader.scan(columns=columns)).equals(expected.select(columns))
            assert reader.read(3, columns).equals(rows(3 * 4096, 4096).select(columns))
        assert reader.summaries()[1].sum() == 100_000


def test_nodes_made_later_know_all_leaves_before_them(container: Container) -> None:
    seen: list[tuple[int, list[int], int]] = []
    container.on_leaves = lambda first, counts, table: seen.append((first, counts.tolist(), len(table)))
    ids = []
    for start in range(0, 60_000, 20_000):
        container.extend(rows(start, 20_000))
        ids.append(container.append_later(lambda: json.dumps(seen).encode()))
    container.flush()
    reader = container.snapshot()
    leaves = 0
    for number, id in enumerate(ids):
        told = json.loads(reader.read_node(id))
        leaves += sum(len(counts) for _, counts, _ in told[number:])
        assert id == leaves + number
        assert sum(sum(counts) for _, counts, _ in told) == 20_000 * (number + 1)
        assert all(len(counts) == records for _, counts, records in told)
    assert pa.Table.from_batches(reader.scan()).equals(pa.Table.from_batches([rows(0, 60_000)]))


def test_a_node_that_cannot_be_made_poisons_the_container(container: Container) -> None:
    def fail() -> bytes:
        raise RuntimeError("no such node")

    container.append_later(fail)
    with pytest.raises(RuntimeError, match="no such node"):
        container.flush()
    with pytest.raises(StorageError, match="failed write before"):
        container.append(b"more")


def test_a_view_shows_what_is_not_durable_yet(container: Container) -> None:
    container.extend(rows(0, 10_000))
    container.flush()
    container.extend(rows(10_000, 10_000))
    view, durable = container.view(), container.snapshot()
    container.extend(rows(20_000, 10_000))
    assert pa.Table.from_batches(view.scan()).equals(pa.Table.from_batches([rows(0, 20_000)]))
    assert view.rows == 20_000
    assert pa.Table.from_batches(durable.scan()).equals(pa.Table.from_batches([rows(0, 10_000)]))


def test_commits_are_made_in_the_background(tmp_path: Path) -> None:
    with Container.create(FileMedium(tmp_path), NAME, SCHEMA, Options(commit_every=1000)) as container:
        container.extend(rows(0, 100_000))
        container.view()
        container.extend(rows(100_000, 100_000))
        container.view()
        assert container.snapshot().commit.number > 0


def test_a_container_can_be_cut_back_to_an_earlier_commit(tmp_path: Path) -> None:
    medium = FileMedium(tmp_path)
    places = []
    with Container.create(medium, NAME, SCHEMA, TINY) as container:
        for start in range(0, 500, 100):
            container.extend(rows(start, 100))
            places.append(container.next_commit())
            commit = container.flush()
            assert (commit.number, commit.position) == places[-1] == container.next_commit()
    with ContainerReader.open(medium, NAME, at=places[1]) as reader:
        assert pa.Table.from_batches(reader.scan()).equals(pa.Table.from_batches([rows(0, 200)]))
    with Container.open_at(medium, NAME, *places[2], TINY) as container:
        assert container.recovery.dropped_bytes > 0
        container.extend(rows(300, 50))
    with reopened(medium) as container:
        assert container.recovery.is_clean
        assert container.snapshot().check() == []
        assert pa.Table.from_batches(container.view().scan()).equals(pa.Table.from_batches([rows(0, 350)]))
    with Container.open_at(medium, NAME, 0, 0, TINY) as container:
        assert container.blocks == 0
    with reopened(medium) as container:
        assert container.recovery.is_clean
        assert container.blocks == 0


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.0005, 0.3, 1.0])
def test_selecting_gives_exactly_the_rows_that_pass(tmp_path: Path, mapped: bool, share: float) -> None:
    dice = np.random.default_rng(7)
    medium = FileMedium(tmp_path, mapped=mapped)
    with Container.create(medium, NAME, SCHEMA, Options(leaf_rows=3000, macro_size=65_536)) as container:
        container.extend(rows(0, 40_000))
        container.append(b"a node")
        container.extend(rows(40_000, 40_000))
        container.update(3, rows(9000, 3000))  # elsewhere in the file
        container.flush()
        reader = container.snapshot()
        ids, counts, _ = reader.summaries()
        chosen = np.sort(dice.choice(len(ids), 15, replace=False))
        wanted = set(np.flatnonzero(dice.random(80_000) < share).tolist())
        every = pa.Table.from_batches([rows(0, 80_000)])
        first_column = every.column(0).to_pylist()
        place = {value: index for index, value in enumerate(first_column)}
        assert len(place) == 80_000

        def test(batch: pa.RecordBatch) -> Any:
            return np.array([place[value] in wanted for value in batch.column(0).to_pylist()], np.bool_)

        starts = np.cumsum(counts) - counts
        expected = [row for leaf in chosen for row in range(starts[leaf], starts[leaf] + counts[leaf]) if row in wanted]
        name = SCHEMA.names[0]
        for columns in (list(SCHEMA.names), [SCHEMA.names[-1]], [name]):
            found = list(reader.select(ids[chosen], columns, [name], test))
            assert all(batch.num_rows for batch in found)
            schema = pa.schema([SCHEMA.field(each) for each in columns])
            assert pa.Table.from_batches(found, schema).equals(
                every.select(columns).take(pa.array(expected, pa.int64()))
            )
