"""The simulated crashes themselves: what must survive, what may be lost, and that both really happen."""

from __future__ import annotations

import errno
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.media.content import PAGE, Content
from support.media.crash import Crash, RecordingMedium, kills, power_losses, random_power_losses
from support.profiles import scaled
from tidelog.model.errors import StorageError


def contents(crashes: Iterable[Crash], name: str = "f") -> set[bytes | None]:
    """What the file may contain; None stands for its absence."""
    found: set[bytes | None] = set()
    for crash in crashes:
        medium = crash.medium()
        if medium.exists(name):
            with medium.open(name) as file:
                found.add(file.read(0, file.size()))
        else:
            found.add(None)
    return found


def now(medium: RecordingMedium) -> list[int]:
    return [len(medium.log)]


def durable_file(data: bytes = b"") -> RecordingMedium:
    medium = RecordingMedium()
    with medium.create("f") as file:
        file.write(0, data)
        file.sync()
    medium.sync_names()
    return medium


class TestContent:
    @settings(max_examples=scaled(150))
    @given(st.data())
    def test_behaves_like_a_byte_array(self, data: st.DataObject) -> None:
        content, model = Content(), bytearray()
        sizes = st.integers(0, 3 * PAGE) | st.sampled_from([PAGE - 1, PAGE, PAGE + 1, 2 * PAGE])
        copies = []
        for _ in range(data.draw(st.integers(0, 8))):
            if data.draw(st.booleans()):
                offset, size = data.draw(sizes), data.draw(sizes)
                piece = bytes([data.draw(st.integers(1, 255))]) * size
                content.write(offset, piece)
                if piece:
                    model.extend(bytes(max(0, offset + size - len(model))))
                    model[offset : offset + size] = piece
            else:
                size = data.draw(sizes)
                content.resize(size)
                model = model[:size] + bytearray(max(0, size - len(model)))
            copies.append((content.copy(), bytes(model)))
            offset, size = data.draw(sizes), data.draw(sizes)
            assert content.read(offset, size) == model[offset : offset + size]
        for copy, expected in copies:
            assert bytes(copy) == expected


class TestPowerLoss:
    def test_synced_bytes_survive_every_time(self) -> None:
        medium = durable_file(b"synced")
        assert contents(power_losses(medium, now(medium))) == {b"synced"}
        assert contents(random_power_losses(medium, 50, 1, now(medium))) == {b"synced"}

    def test_an_unsynced_write_is_lost_kept_or_torn(self) -> None:
        medium = durable_file(b"0123456789")
        medium.open("f", writable=True).write(8, b"abcd")
        assert contents(power_losses(medium, now(medium))) == {
            b"0123456789",  # lost
            b"01234567abcd",  # kept
            b"0123456789\0\0",  # the length without the bytes
            b"01234567a9",  # torn behind one, two, three bytes
            b"01234567ab",
            b"01234567abc",
        }

    def test_unsynced_writes_are_lost_independently(self) -> None:
        medium = durable_file(b"....")
        with medium.open("f", writable=True) as file:
            for i in range(4):
                file.write(i, b"x")
        every = {bytes(b"x"[0] if kept >> i & 1 else b"."[0] for i in range(4)) for kept in range(16)}
        assert contents(random_power_losses(medium, 400, 3, now(medium))) == every
        extremes = contents(power_losses(medium, now(medium)))
        assert extremes >= {b"....", b"xxxx", b"x...", b"...x", b".xxx", b"x.xx", b"xx.x", b"xxx.", b"xx.."}

    def test_sectors_of_a_write_are_lost_independently(self) -> None:
        medium = durable_file()
        medium.open("f", writable=True).write(0, b"a" * 512 + b"b" * 512 + b"c" * 512)
        found = contents(random_power_losses(medium, 400, 3, now(medium)))
        for first in (b"a", b"\0"):
            for second in (b"b", b"\0"):
                assert first * 512 + second * 512 + b"c" * 512 in found
                assert first * 512 + second * 512 + bytes(512) in found
        extremes = contents(power_losses(medium, now(medium)))
        assert b"a" * 512 + bytes(512) + b"c" * 512 in extremes
        assert bytes(512) + b"b" * 512 + b"c" * 512 in extremes

    def test_a_file_may_be_longer_than_its_bytes_or_shorter(self) -> None:
        medium = durable_file(b"old")
        with medium.open("f", writable=True) as file:
            file.write(3, b"A" * 600)
            file.write(603, b"B" * 600)
        found = contents(random_power_losses(medium, 500, 3, now(medium)))
        assert b"old" + bytes(600) + b"B" * 600 in found
        assert b"old" + bytes(1200) in contents(power_losses(medium, now(medium)))
        assert b"old" + b"A" * 600 in found
        assert b"old" in found

    def test_an_unsynced_truncate_may_not_have_happened(self) -> None:
        medium = durable_file(b"0123456789")
        with medium.open("f", writable=True) as file:
            file.truncate(4)
            file.write(4, b"x")
        found = contents(random_power_losses(medium, 200, 3, now(medium)))
        assert found >= {b"0123456789", b"0123", b"0123x", b"0123x56789"}
        assert contents(power_losses(medium, now(medium))) >= {b"0123456789", b"0123x", b"0123x56789"}

    def test_a_truncate_that_was_synced_has_happened(self) -> None:
        medium = durable_file(b"0123456789")
        with medium.open("f", writable=True) as file:
            file.truncate(4)
            file.sync()
            file.truncate(10)
        assert contents(power_losses(medium, now(medium))) == {b"0123", b"0123" + bytes(6)}

    def test_a_sync_covers_only_its_own_file(self) -> None:
        medium = durable_file(b"")
        with medium.open("f", writable=True) as file, medium.create("g") as other:
            file.write(0, b"x")
            other.write(0, b"y")
            other.sync()
        assert None in contents(power_losses(medium, now(medium)), "g")
        assert b"" in contents(power_losses(medium, now(medium)))

    def test_a_write_through_makes_nothing_else_durable(self) -> None:
        medium = durable_file(b"....")
        with medium.open("f", writable=True) as file:
            file.write(0, b"x")
            file.write_through(1, b"yy")
            file.write(3, b"z")
        found = contents(random_power_losses(medium, 100, 1, now(medium)))
        assert found == {b".yy.", b".yyz", b"xyy.", b"xyyz"}
        assert contents(power_losses(medium, now(medium))) == found

    def test_a_failed_write_through_is_never_durable(self) -> None:
        medium = durable_file(b"..")
        with medium.open("f", writable=True) as file:
            medium.inject("sync")
            with pytest.raises(StorageError):
                file.write_through(0, b"x")
        with medium.open("f", writable=True) as file:
            file.write(1, b"y")
            file.sync()
        assert contents(power_losses(medium, now(medium))) == {b".y", b"xy"}

    def test_every_position_of_the_log_is_visited(self) -> None:
        medium = RecordingMedium()
        with medium.create("f") as file:
            file.write(0, b"a")
            file.sync()
            medium.sync_names()
            medium.mark("durable")
            file.write(1, b"b")
        by_position: dict[int, set[bytes | None]] = {}
        for crash in power_losses(medium):
            assert crash.marks == (("durable",) if crash.position >= 5 else ())
            by_position.setdefault(crash.position, set()).update(contents([crash]))
        assert by_position == {
            0: {None},
            1: {None, b""},
            2: {None, b"", b"\0", b"a"},
            3: {None, b"a"},
            5: {b"a"},  # the position before the mark promises less and is skipped
            6: {b"a", b"a\0", b"ab"},
        }

    def test_a_sync_covers_what_came_before_it_began(self) -> None:
        medium = durable_file(b"")
        with medium.open("f", writable=True) as file:
            file.write(0, b"a")

            def write_meanwhile(kind: str, name: str) -> None:
                if kind == "sync":
                    medium.before = None
                    file.write(1, b"b")

            medium.before = write_meanwhile
            file.sync()
        assert contents(power_losses(medium, now(medium))) == {b"a", b"a\0", b"ab"}

    def test_same_seed_same_states(self) -> None:
        medium = durable_file(b"0123456789")
        with medium.open("f", writable=True) as file:
            for i in range(10):
                file.write(i * 100, b"x" * 150)
        one = [str(crash) for crash in random_power_losses(medium, 5, 42)]
        assert one == [str(crash) for crash in random_power_losses(medium, 5, 42)]
        assert one != [str(crash) for crash in random_power_losses(medium, 5, 43)]

    def test_media_of_a_crash_are_independent(self) -> None:
        medium = durable_file(b"abc")
        medium.open("f", writable=True).write(0, b"x")
        for crash in power_losses(medium, now(medium)):
            first = crash.medium()
            before = contents([crash])
            first.open("f", writable=True).write(0, b"changed")
            first.remove("f")
            assert contents([crash]) == before
        assert medium.open("f").read(0, 9) == b"xbc"

    @settings(max_examples=scaled(100))
    @given(st.data(), st.integers(0, 2**32))
    def test_no_byte_comes_from_nowhere(self, data: st.DataObject, seed: int) -> None:
        # An independent account of what each byte may be: its durable value, that of a pending write, or zero.
        durable = data.draw(st.binary(max_size=60))
        medium = durable_file(durable)
        allowed = [{byte} for byte in durable] + [{0} for _ in range(200)]
        settled = [True] * 260
        with medium.open("f", writable=True) as file:
            for _ in range(data.draw(st.integers(0, 6))):
                offset = data.draw(st.integers(0, 100))
                piece = data.draw(st.binary(min_size=1, max_size=60))
                file.write(offset, piece)
                for i, byte in enumerate(piece):
                    allowed[offset + i].add(byte)
                    settled[offset + i] = False
        for crash in [*power_losses(medium, now(medium)), *random_power_losses(medium, 20, seed, now(medium))]:
            (found,) = contents([crash])
            assert found is not None
            assert len(found) >= len(durable)
            for i, byte in enumerate(found):
                assert byte in allowed[i], crash
                assert not settled[i] or byte == (durable[i] if i < len(durable) else 0), crash


class TestNames:
    def test_a_name_is_lost_until_its_directory_is_synced(self) -> None:
        medium = RecordingMedium()
        with medium.create("f") as file:
            file.write(0, b"synced")
            file.sync()
        assert contents(power_losses(medium, now(medium))) == {None, b"synced"}
        medium.sync_names()
        assert contents(power_losses(medium, now(medium))) == {b"synced"}

    def test_a_removed_name_may_come_back(self) -> None:
        medium = durable_file(b"abc")
        medium.remove("f")
        assert contents(power_losses(medium, now(medium))) == {None, b"abc"}
        medium.sync_names()
        assert contents(power_losses(medium, now(medium))) == {None}

    def test_a_name_may_lead_to_any_file_it_led_to(self) -> None:
        medium = durable_file(b"old")
        medium.remove("f")
        with medium.create("f") as file:
            file.write(0, b"new")
            file.sync()
        assert contents(power_losses(medium, now(medium))) == {b"old", None, b"new"}

    def test_links_are_names_of_their_own(self) -> None:
        medium = durable_file(b"abc")
        medium.link("f", "g")
        medium.remove("f")
        pairs = set()
        for crash in random_power_losses(medium, 100, 1, now(medium)):
            state = crash.medium()
            pairs.add((state.exists("f"), state.exists("g")))
        assert pairs == {(True, False), (True, True), (False, True), (False, False)}
        assert contents(random_power_losses(medium, 50, 1, now(medium)), "g") == {None, b"abc"}

    def test_each_directory_is_synced_on_its_own(self) -> None:
        medium = RecordingMedium()
        medium.make_directory("d/e")
        for name in ("a", "d/b", "d/e/c"):
            medium.create(name).close()
        medium.sync_names("d")
        sure = {name for name in ("a", "d/b", "d/e/c") if None not in contents(power_losses(medium, now(medium)), name)}
        assert sure == {"d/b"}
        for crash in power_losses(medium, now(medium)):
            crash.medium().sync_names("d/e")  # directories are durable at once


class TestKills:
    def test_nothing_done_is_lost_and_the_last_write_may_be_torn(self) -> None:
        medium = RecordingMedium()
        with medium.create("f") as file:
            file.write(0, b"one")
            file.write(3, b"two")
        assert contents(kills(medium)) == {None, b"", b"o", b"on", b"one", b"onet", b"onetw", b"onetwo"}
        assert contents(kills(medium, now(medium))) == {b"onet", b"onetw", b"onetwo"}

    def test_what_was_not_synced_is_still_pending(self) -> None:
        medium = durable_file(b"")
        medium.open("f", writable=True).write(0, b"ab")
        for crash in kills(medium, now(medium)):
            survivor = crash.medium()
            assert contents([crash]) <= {b"ab", b"a"}
            assert b"" in contents(power_losses(survivor, now(survivor)))
            with survivor.open("f", writable=True) as file:
                file.sync()
            assert contents(power_losses(survivor, now(survivor))) == contents([crash])


class TestFaults:
    def test_the_chosen_operation_fails_and_no_other(self) -> None:
        medium = durable_file(b"")
        with medium.open("f", writable=True) as file:
            fault = medium.inject("write", 3, errno=errno.ENOSPC, keep=2)
            file.write(0, b"aaa")
            file.write(3, b"bbb")
            with pytest.raises(StorageError) as failure:
                file.write(6, b"ccc")
            assert failure.value.errno == errno.ENOSPC
            file.write(8, b"ddd")
            assert file.read(0, 99) == b"aaabbbccddd"
            assert fault.fired == 1

    def test_lasting_faults_and_faults_of_one_file(self) -> None:
        medium = durable_file(b"")
        other = medium.create("g")
        fault = medium.inject("write", 2, errno=errno.ENOSPC, lasting=True, name="f")
        with medium.open("f", writable=True) as file:
            file.write(0, b"a")
            for _ in range(3):
                other.write(0, b"fine")
                with pytest.raises(StorageError):
                    file.write(0, b"b")
        assert fault.fired == 3

    @pytest.mark.parametrize("kind", ["create", "truncate", "link", "remove", "sync_names", "make_directory"])
    def test_other_failing_operations_change_nothing(self, kind: str) -> None:
        medium = durable_file(b"abc")
        file = medium.open("f", writable=True)
        before = len(medium.log)
        fault = medium.inject(kind)
        with pytest.raises(StorageError, match=kind):
            {
                "create": lambda: medium.create("g"),
                "truncate": lambda: file.truncate(0),
                "link": lambda: medium.link("f", "g"),
                "remove": lambda: medium.remove("f"),
                "sync_names": medium.sync_names,
                "make_directory": lambda: medium.make_directory("d"),
            }[kind]()
        assert fault.fired == 1
        assert len(medium.log) == before
        assert medium.names() == ["f"]
        assert file.read(0, 9) == b"abc"

    def test_what_a_failed_sync_forgot_is_never_durable(self) -> None:
        medium = durable_file(b"....")
        with medium.open("f", writable=True) as file:
            file.write(0, b"x")
            medium.inject("sync")
            with pytest.raises(StorageError):
                file.sync()
        with medium.open("f", writable=True) as file:
            assert file.read(0, 9) == b"x..."  # still in the memory of the system
            file.write(1, b"yy")
            file.sync()
            file.write(3, b"z")
        found = contents(random_power_losses(medium, 100, 1, now(medium)))
        assert found == {b".yy.", b".yyz", b"xyy.", b"xyyz"}
        assert contents(power_losses(medium, now(medium))) == found

    def test_a_hook_sees_every_operation(self) -> None:
        medium = RecordingMedium()
        seen: list[tuple[str, str]] = []
        medium.before = lambda kind, name: seen.append((kind, name))
        medium.make_directory("d")
        with medium.create("d/f") as file:
            file.write(0, b"x")
            file.truncate(0)
            file.sync()
        medium.sync_names("d")
        medium.link("d/f", "d/g")
        medium.remove("d/f")
        assert [kind for kind, _ in seen] == [
            "make_directory",
            "create",
            "write",
            "truncate",
            "sync",
            "sync_names",
            "link",
            "remove",
        ]
        assert all(medium.counts[kind] == 1 for kind, _ in seen)
