"""Small container files that are read whole: the same rows as a reader of each has, or none."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.recording import RecordingMedium
from support.profiles import scaled
from support.storage.containers import NAME, SCHEMA, TINY, History, batch
from tidelog.model.errors import CorruptionError, NotFoundError, TidelogError
from tidelog.storage import Container, ContainerReader, Options
from tidelog.storage.format.meter import ReadMeter
from tidelog.storage.read.images import Images, Wanted

ROOMY = Options(leaf_rows=8, run_rows=16)
"""Macro blocks and address pages of the usual size: nothing is split, and no page is full."""


def write(medium: RecordingMedium, name: str, rows: pa.RecordBatch, options: Options = ROOMY) -> Wanted:
    with Container.create(medium, name, SCHEMA, options) as container:
        container.extend(rows)
        container.append(b"a node")
        container.flush(b"meta of " + name.encode())
        return Wanted(name, container.size, b"meta of " + name.encode())


@settings(max_examples=scaled(25))
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8), seed=st.integers(0, 1 << 30))
def test_files_together_have_the_rows_of_each(sizes: list[int], seed: int) -> None:
    medium, dice = RecordingMedium(), random.Random(seed)
    contents = [batch(dice, size) for size in sizes]
    wanted = [write(medium, f"{index}.tl", rows) for index, rows in enumerate(contents)]
    images, meter = Images(medium, wanted), ReadMeter()
    assert all(images.is_plain(index) and images.has_leaves_of(index, SCHEMA) for index in range(len(sizes)))
    order = dice.sample(range(len(sizes)), len(sizes))
    found, counts = images.decode(order, SCHEMA, meter)
    assert counts.tolist() == [sizes[index] for index in order]
    assert found.equals(pa.concat_batches([contents[index] for index in order]))
    assert meter.blocks == sum(-(-size // 8) for size in sizes)


@settings(max_examples=scaled(40))
@given(seed=st.integers(0, 1 << 30), steps=st.integers(1, 12), is_roomy=st.booleans())
def test_random_histories_against_a_reader(seed: int, steps: int, is_roomy: bool) -> None:
    """Whatever was updated, split or left to address pages is not plain; what is plain has the rows of the commit."""
    medium = RecordingMedium()
    expected = History(medium, seed, ROOMY if is_roomy else TINY).run(steps)
    with ContainerReader.open(medium, NAME) as reader:
        commit = reader.commit
    images = Images(medium, [Wanted(NAME, commit.end, commit.meta)])
    blocks = expected.at(commit)
    leaves = [content for content in blocks if not isinstance(content, bytes)]
    if not images.is_plain(0):
        assert not blocks or expected.updates or not is_roomy
    elif leaves:
        assert images.decode([0], SCHEMA, ReadMeter())[0].equals(pa.concat_batches(leaves))


def test_another_commit_than_the_one_that_is_wanted_is_left_to_a_reader() -> None:
    medium = RecordingMedium()
    known = write(medium, "a.tl", batch(random.Random(1), 20))
    assert not Images(medium, [Wanted("a.tl", known.size, b"another")]).is_plain(0)


def test_other_columns_are_noticed() -> None:
    medium = RecordingMedium()
    images = Images(medium, [write(medium, "a.tl", batch(random.Random(1), 20))])
    renamed = SCHEMA.set(1, SCHEMA.field(1).with_name("other"))
    assert images.has_leaves_of(0, renamed)
    assert not images.has_leaves_of(0, SCHEMA.set(1, pa.field("value", pa.int64())))
    assert not images.has_leaves_of(0, SCHEMA.set(1, SCHEMA.field(1).with_nullable(False)))
    assert not images.has_leaves_of(0, SCHEMA.remove(2))
    assert images.has_leaves_of(0, SCHEMA)


def test_a_file_that_is_gone_or_short() -> None:
    medium = RecordingMedium()
    known = write(medium, "a.tl", batch(random.Random(1), 20))
    with pytest.raises(NotFoundError):
        Images(medium, [known, Wanted("b.tl", 4096, b"")])
    with pytest.raises(CorruptionError, match=r"a.tl ends at \d+, but bytes up to"):
        Images(medium, [Wanted("a.tl", known.size + 1, known.meta)])


def test_damage_is_told_or_left_to_a_reader_and_never_read() -> None:
    """One byte of every 61 of the file changed, one after the other, beside a file that is whole."""
    medium, dice = RecordingMedium(), random.Random(3)
    contents = [batch(dice, 30), batch(dice, 30)]
    wanted = [write(medium, f"{index}.tl", rows) for index, rows in enumerate(contents)]
    told: list[str] = []
    left = 0
    with medium.open("1.tl", writable=True) as file:
        for at in range(0, wanted[1].size, 61):
            good = file.read(at, 1)
            file.write(at, bytes([good[0] ^ 0x5A]))
            try:
                images = Images(medium, wanted)
                assert images.is_plain(0)
                if images.is_plain(1):
                    found, _ = images.decode([0, 1], SCHEMA, ReadMeter())
                    assert found.equals(pa.concat_batches(contents)), f"byte {at} was changed unnoticed"
                else:
                    left += 1
            except TidelogError as error:
                told.append(str(error))
            file.write(at, good)
    assert told
    assert all("1.tl" in message for message in told)
    assert left
