"""Damaged files: a clear error or the right data, never wrong data, a hang or a crash of the interpreter."""

from __future__ import annotations

import random

import pytest

from support.media.memory import MemoryMedium
from support.media.recording import RecordingMedium
from support.storage.containers import NAME, TINY, Expected, History, assert_holds, assert_scans, reopened
from tidelog.model.errors import CorruptionError, NewerReleaseError, TidelogError
from tidelog.storage import Container, ContainerReader


@pytest.fixture(scope="module")
def written() -> tuple[bytes, Expected]:
    medium = RecordingMedium()
    expected = History(medium, 3).run(25)
    with medium.open(NAME) as file:
        return file.read(0, file.size()), expected


def medium_with(content: bytes) -> MemoryMedium:
    medium = MemoryMedium()
    with medium.create(NAME) as file:
        file.write(0, content)
    return medium


def read_all(content: bytes, expected: Expected) -> str:
    """Read everything there is in a file; says how it ended."""
    try:
        with ContainerReader.open(medium_with(content), NAME) as reader:
            try:
                assert_holds(reader, expected.at(reader.commit))
            except TidelogError:
                assert reader.check() != [], "what cannot be read, check must find"
                raise
            return f"commit {reader.commit.number}"
    except TidelogError:
        return "refused"


def test_flipped_bits_anywhere(written: tuple[bytes, Expected]) -> None:
    content, expected = written
    dice = random.Random(11)
    ends = []
    for _ in range(250):
        damaged = bytearray(content)
        damaged[dice.randrange(len(damaged))] ^= 1 << dice.randrange(8)
        ends.append(read_all(bytes(damaged), expected))
    assert 30 < ends.count("refused") < 250, "some hit data, some padding"


def test_flipped_bits_in_every_structure(written: tuple[bytes, Expected]) -> None:
    """A bit of each 32-bit word at the start of every stride, where headers, directories and slots stand."""
    content, expected = written
    refused = 0
    for offset in range(0, len(content), 4096):
        for word in range(0, 128, 24):
            damaged = bytearray(content)
            damaged[offset + word] ^= 0x10
            refused += read_all(bytes(damaged), expected) == "refused"
    assert refused > 50


def test_truncation_anywhere(written: tuple[bytes, Expected]) -> None:
    content, expected = written
    dice = random.Random(12)
    for _ in range(100):
        assert read_all(content[: dice.randrange(len(content))], expected) == "refused"
    for size in (0, 1, 63, 64, 4096, 12288, len(content) - 1):
        assert read_all(content[:size], expected) == "refused"


def test_garbage_behind_the_end_is_dropped(written: tuple[bytes, Expected]) -> None:
    content, expected = written
    medium = medium_with(content + random.Random(1).randbytes(10_000))
    with reopened(medium) as container:
        assert container.recovery.dropped_bytes == 10_000
        assert container.recovery.reason
        assert_scans(container, expected.at(container.recovery.commit))


def test_swapped_and_repeated_strides(written: tuple[bytes, Expected]) -> None:
    content, expected = written
    dice = random.Random(13)
    strides = len(content) // 4096
    for _ in range(100):
        damaged = bytearray(content)
        a, b = dice.randrange(3, strides), dice.randrange(3, strides)
        damaged[a * 4096 : (a + 1) * 4096] = content[b * 4096 : (b + 1) * 4096]
        read_all(bytes(damaged), expected)


def test_recover_goes_back_to_an_intact_commit(written: tuple[bytes, Expected]) -> None:
    content, expected = written
    with ContainerReader.open(medium_with(content), NAME) as reader:
        last = reader.commit
    damaged = bytearray(content)
    damaged[last.offset + 40] ^= 1
    medium = medium_with(bytes(damaged))
    with pytest.raises(CorruptionError, match=r"Container\.recover"):
        Container.open(medium, NAME, TINY)
    with Container.recover(medium, NAME, TINY) as container:
        commit = container.recovery.commit
        assert commit.number == last.number - 1
        assert container.recovery.dropped_bytes >= 4096
        assert_holds(container, expected.at(commit))
        assert container.snapshot().check() == []
    with reopened(medium) as container:
        assert container.recovery.is_clean


def test_a_foreign_file_is_refused_by_name() -> None:
    with pytest.raises(CorruptionError, match="is not a container"):
        Container.open(medium_with(b"PAR1" + bytes(100_000)), NAME)


def test_a_newer_format_is_refused(written: tuple[bytes, Expected]) -> None:
    import struct
    import zlib

    head = bytearray(written[0][:64])
    struct.pack_into("<II", head, 8, 99, 0)
    struct.pack_into("<I", head, 12, zlib.crc32(head))
    with pytest.raises(NewerReleaseError, match="version 99"):
        Container.open(medium_with(bytes(head) + written[0][64:]), NAME)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_soak_flipped_bytes(written: tuple[bytes, Expected], seed: int) -> None:
    content, expected = written
    dice = random.Random(seed)
    for _ in range(3000):
        damaged = bytearray(content)
        for _ in range(dice.choice([1, 1, 2, 8])):
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
        read_all(bytes(damaged), expected)
