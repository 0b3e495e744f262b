from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.media.crash import RecordingMedium
from support.profiles import scaled
from support.streams.manifests import SCHEMA, WIDER, Hand, put_split
from tidelog.model import Interval, Schema
from tidelog.model.errors import (
    ConflictError,
    CorruptionError,
    ExistsError,
    InputError,
    NewerReleaseError,
    NotFoundError,
    SchemaError,
    TidelogError,
)
from tidelog.store.log.file_names import new_file_name, stem_of
from tidelog.store.manifest.ledger import SPLITS, ManifestLedger
from tidelog.store.manifest.manifest import Change, Deletion, Manifest, ManifestLog, SplitInfo, split_path
from tidelog.store.manifest.options import StreamOptions
from tidelog.store.manifest.sequence_set import SeqSet

HERE = "streams/s"


@pytest.fixture
def medium() -> RecordingMedium:
    return RecordingMedium()


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
def log(medium: RecordingMedium, clock: Hand) -> ManifestLog:
    log = ManifestLog(medium, HERE, clock=clock)
    log.create(SCHEMA, StreamOptions(split="1d"))
    return log


def fresh(log: ManifestLog) -> Manifest:
    """The newest manifest as another process reads it."""
    return ManifestLog(log.medium, log.directory, clock=log.clock).load()


def always(**values: Any) -> Callable[[Manifest], Change]:
    return lambda manifest: Change(**values)


class TestCreating:
    def test_the_first_manifest(self, log: ManifestLog, clock: Hand) -> None:
        manifest = fresh(log)
        assert manifest == Manifest(number=1, at=clock.now, schemas=(SCHEMA,), options=StreamOptions(split="1d"))
        assert manifest.schema == SCHEMA
        assert manifest.rows == 0
        assert log.check() == []
        assert log.exists()

    def test_no_manifest_no_stream(self, medium: RecordingMedium) -> None:
        log = ManifestLog(medium, HERE)
        assert not log.exists()
        with pytest.raises(NotFoundError, match="there is no tidelog stream manifest in streams/s/manifest"):
            log.load()

    def test_twice(self, log: ManifestLog) -> None:
        with pytest.raises(ExistsError):
            log.create(WIDER)
        assert fresh(log).schema == SCHEMA

    def test_options_that_do_not_fit_create_nothing(self, medium: RecordingMedium) -> None:
        with pytest.raises(InputError, match="no column 'nope'"):
            ManifestLog(medium, HERE).create(SCHEMA, StreamOptions(aggregates=["nope"]))
        assert medium.log == []


class TestSplits:
    def test_added_and_removed(self, log: ManifestLog, clock: Hand) -> None:
        one = put_split(log.medium, HERE, seq_max=19, root=b"\0root", entry=b"\xffentry")
        two = put_split(log.medium, HERE, seq_min=20, seq_max=40, boundary=Interval(None, 100), kind="loaded")
        two = replace(two, seq_base=20)
        assert log.commit(always(add=(one, two))) == fresh(log)
        assert fresh(log).splits == {one.name: one, two.name: two}
        assert fresh(log).next_seq == 41
        assert fresh(log).rows == 20
        clock.now += 5
        manifest = log.commit(always(remove=(one.name,)))
        assert manifest == fresh(log)
        assert manifest.splits == {two.name: two}
        assert manifest.removed == {one.name: clock.now}
        assert log.commit(always(forget=(one.name,))).removed == {}
        assert fresh(log).next_seq == 41

    def test_what_is_gone_cannot_be_removed(self, log: ManifestLog) -> None:
        # Two compactions of the same split: the second finds its input gone and gives up.
        split = put_split(log.medium, HERE)
        log.commit(always(add=(split,)))
        log.commit(always(remove=(split.name,)))
        with pytest.raises(ConflictError, match="not in the manifest any more"):
            log.commit(always(remove=(split.name,), add=(put_split(log.medium, HERE),)))
        assert fresh(log).number == 3

    def test_a_split_is_added_once(self, log: ManifestLog) -> None:
        split = put_split(log.medium, HERE)
        log.commit(always(add=(split,)))
        with pytest.raises(ConflictError, match="already"):
            log.commit(always(add=(split,)))
        log.commit(always(remove=(split.name,)))
        with pytest.raises(ConflictError, match="write it again"):
            log.commit(always(add=(split,)))

    def test_what_was_given_up_cannot_be_added(self, log: ManifestLog) -> None:
        split = put_split(log.medium, HERE)
        log.commit(always(condemn=(split.name + ".lock",)))  # one file of the stem stands for all
        with pytest.raises(ConflictError, match="given up because it was not added in time"):
            log.commit(always(add=(split,)))
        log.medium.remove(split_path(HERE, split.name))
        log.commit(always(forget=(split.name + ".lock",)))
        with pytest.raises(NotFoundError, match="write and sync it first"):
            log.commit(always(add=(split,)))

    def test_a_split_of_the_stream_cannot_be_given_up(self, log: ManifestLog) -> None:
        split = put_split(log.medium, HERE)
        log.commit(always(add=(split,)))
        with pytest.raises(ConflictError, match="is a split of the stream"):
            log.commit(always(condemn=(split.name,)))

    def test_a_split_without_its_file_is_a_finding(self, log: ManifestLog) -> None:
        split = put_split(log.medium, HERE)
        log.commit(always(add=(split,)))
        assert log.check() == []
        log.medium.remove(split_path(HERE, split.name))
        (finding,) = log.check()
        assert finding.file == split_path(HERE, split.name)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"name": "a/b"}, "file name"),
            ({"name": ""}, "file name"),
            ({"kind": "odd"}, "found kind 'odd'"),
            ({"rows": 0}, "some rows"),
            ({"rows": 11}, "a number for each row"),
            ({"time_min": 100}, "expected each to ascend"),
            ({"seq_min": -1}, "expected each to ascend"),
            ({"seq_base": -1}, "expected a base from 0"),
            ({"seq_base": 1}, "expected a base from 0"),
            ({"boundary": Interval(0, 99)}, r"not all inside its boundary \[0, 99\)"),
        ],
    )
    def test_splits_that_cannot_be(self, values: dict[str, Any], message: str) -> None:
        good: dict[str, Any] = {
            "name": "7.tide",
            "rows": 10,
            "bytes": 7,
            "time_min": 0,
            "time_max": 99,
            "seq_min": 0,
            "seq_max": 9,
            "kind": "regular",
            "created_at": 0.0,
        }
        assert SplitInfo(**good).interval == Interval(0, 100)
        with pytest.raises(InputError, match=message):
            SplitInfo(**{**good, **values})

    @given(
        st.binary(max_size=50),
        st.binary(max_size=50),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(0, 2**62),
        st.floats(0, 1e12),
    )
    def test_splits_as_json(self, root: bytes, entry: bytes, time: int, seq: int, at: float) -> None:
        for boundary in (None, Interval(time, time + 1), Interval(None, time + 1)):
            split = SplitInfo(
                name="7.tide",
                rows=1,
                bytes=0,
                time_min=time,
                time_max=time,
                seq_min=seq,
                seq_max=seq,
                kind="late",
                boundary=boundary,
                root=root,
                entry=entry,
                created_at=at,
            )
            assert stored_and_read([split]) == (split,)


def stored_and_read(splits: list[SplitInfo]) -> tuple[SplitInfo, ...]:
    return SPLITS.from_dict(json.loads(json.dumps(SPLITS.to_dict(splits))))


class TestMarks:
    def test_deleted_before_never_moves_back(self, log: ManifestLog) -> None:
        assert log.commit(always(deleted_before=-5)).deleted_before == -5
        assert log.commit(always(deleted_before=0)).deleted_before == 0
        assert log.commit(always(deleted_before=-3)).deleted_before == 0
        assert fresh(log).deleted_before == 0

    def test_what_was_seen_when_it_was_deleted(self, log: ManifestLog) -> None:
        log.commit(always(next_seq=10))
        assert log.commit(always(deleted_before=3, deleted_seen=SeqSet())).deleted_seen == SeqSet()
        assert fresh(log).deleted_seen == SeqSet()
        log.commit(always(deleted_before=5, deleted_seen=SeqSet([(2, 4)])))
        log.commit(always(deleted_before=4, deleted_seen=SeqSet([(7, 8)])))  # has been deleted before
        assert fresh(log).deleted_seen == SeqSet([(2, 4)])
        log.commit(always(deleted_before=6))
        assert fresh(log).deleted_seen == SeqSet.below(10)
        log.commit(always(gone=SeqSet([(2, 3)])))
        log.commit(always(gone=SeqSet([(3, 4), (9, 10)])))
        assert fresh(log).gone == SeqSet([(2, 4), (9, 10)])
        for number in range(20):  # and as checkpoints say it
            log.commit(always(next_seq=11 + number))
        assert fresh(log) == log.load()
        assert log.check() == []

    def test_blocks_of_the_tail(self, log: ManifestLog) -> None:
        log.commit(always(tail_block=(3, 50)))
        log.commit(always(add=(put_split(log.medium, HERE, seq_min=3, seq_max=30),)))
        loaded = put_split(log.medium, HERE, seq_min=60, seq_max=70, seq_base=60)
        log.commit(always(add=(loaded,)))
        found = fresh(log)
        assert (found.tail_block, found.tail_seq, found.next_seq) == ((3, 50), 31, 71)
        log.commit(always(tail_block=(80, 90)))
        found = fresh(log)
        assert (found.tail_block, found.tail_seq, found.next_seq) == ((80, 90), 80, 90)
        for _ in range(16):
            log.commit(always(next_seq=log.load().next_seq + 1))
        assert fresh(log) == log.load()
        assert log.check() == []

    def test_deletions(self, log: ManifestLog) -> None:
        one, two = Deletion(Interval(0, 10), SeqSet([(2, 5), (7, 8)])), Deletion(Interval(None, None), SeqSet.below(7))
        log.commit(always(delete=(one, two, one)))
        assert fresh(log).deletions == (one, two)
        log.commit(always(undelete=(one,)))
        assert fresh(log).deletions == (two,)

    def test_deletions_of_nothing_are_refused(self) -> None:
        with pytest.raises(InputError, match="is of nothing"):
            Deletion(Interval(5, 5), SeqSet.below(7))
        with pytest.raises(InputError, match="is of nothing"):
            Deletion(Interval(5, 6), SeqSet())

    def test_deletions_as_json(self) -> None:
        one = Deletion(Interval(0, None), SeqSet([(2, 5), (7, 8)]))
        assert one.to_list() == [0, None, [[2, 5], [7, 8]]]
        assert Deletion.from_list(one.to_list()) == one
        with pytest.raises(InputError, match="expected ascending pairs"):
            Deletion.from_list([0, 1, [3]])

    def test_deletions_in_deletions(self) -> None:
        large = Deletion(Interval(0, 10), SeqSet.below(9))
        for start, end, numbers, inside in (
            (0, 10, [(0, 9)], True),
            (2, 3, [(1, 2), (4, 5)], True),
            (2, 11, [(1, 2)], False),
            (None, 10, [(1, 2)], False),
            (2, None, [(1, 2)], False),
            (2, 3, [(1, 2), (8, 10)], False),
        ):
            assert large.includes(Deletion(Interval(start, end), SeqSet(numbers))) == inside
        assert Deletion(Interval(), SeqSet.below(9)).includes(large)

    def test_sequence_numbers_never_move_back(self, log: ManifestLog) -> None:
        assert log.commit(always(next_seq=10)).next_seq == 10
        assert log.commit(always(next_seq=5)).next_seq == 10
        assert fresh(log).next_seq == 10


class TestTransactions:
    def test_each_is_committed_once(self, log: ManifestLog) -> None:
        log.commit(always(transactions={"q": 1}))
        log.commit(always(transactions={"p": 7, "q": 3}))
        with pytest.raises(ConflictError, match="transaction 3 of 'q' is not new: 3 was committed already; skip it"):
            log.commit(always(transactions={"q": 3}, next_seq=100))
        assert fresh(log).transactions == {"p": 7, "q": 3}
        assert fresh(log).next_seq == 0


class TestSchemasAndOptions:
    def test_versions_of_the_schema(self, log: ManifestLog) -> None:
        log.commit(always(schema=WIDER))
        assert fresh(log).schemas == (SCHEMA, WIDER)
        log.commit(always(schema=WIDER, next_seq=1))
        assert fresh(log).schemas == (SCHEMA, WIDER)
        with pytest.raises(SchemaError):
            log.commit(always(schema=SCHEMA))

    def test_options_must_fit(self, log: ManifestLog) -> None:
        log.commit(always(options=StreamOptions(leaf_rows=7)))
        assert fresh(log).options.leaf_rows == 7
        with pytest.raises(TidelogError, match="no column 'y'"):
            log.commit(always(options=StreamOptions(aggregates=["y"])))
        log.commit(always(options=StreamOptions(aggregates=["y"]), schema=WIDER))

    def test_a_log_opens_where_a_zone_is_not_known(self, medium: RecordingMedium) -> None:
        schema = Schema.from_json(
            Schema(pa.schema([("ts", pa.timestamp("us", "Europe/Berlin"))]), "ts")
            .to_json()
            .replace("Berlin", "Atlantis")
        )
        log = ManifestLog(medium, HERE)
        log.create(schema)
        assert fresh(log).schema.timezone == "Europe/Atlantis"


@pytest.mark.parametrize("count", [1, 2, 3, 4, 30])
def test_what_was_loaded_never_changes(log: ManifestLog, count: int) -> None:
    """Readers that catch up with many commits take shortcuts, which those who have older manifests must not notice."""
    first, second = (put_split(log.medium, HERE) for _ in range(2))
    log.commit(always(add=(first, second)))
    log.commit(always(remove=(first.name,)))
    reader = ManifestLog(log.medium, HERE, clock=log.clock)
    known: list[tuple[Manifest, bytes]] = []
    for step in range(4):
        for index in range(count):
            split = put_split(log.medium, HERE)
            if index % 3 == 2:
                log.commit(always(next_seq=1000 + step))
            log.commit(always(add=(split,)))
            if index % 4 == 1:
                log.commit(always(remove=(split.name,)))
        found = reader.load()
        assert found == log.load() == fresh(log)
        known.append((found, pickle.dumps(found)))
        for before, copy in known:
            assert before == pickle.loads(copy)
            assert before.removed.stems == {stem_of(name) for name in before.removed}


def test_empty_changes_are_no_commits(log: ManifestLog) -> None:
    assert log.commit(always()).number == 1
    assert log.commit(lambda manifest: None).number == 1
    assert log.commit(always(transactions={})).number == 1


def test_manifests_can_be_sent_to_other_processes(log: ManifestLog) -> None:
    log.commit(always(add=(put_split(log.medium, HERE),), delete=(Deletion(Interval(0, None), SeqSet.below(3)),)))
    assert pickle.loads(pickle.dumps(log.load())) == log.load()


def test_a_damaged_manifest_is_named(log: ManifestLog) -> None:
    log.commit(always(next_seq=1))
    name = "streams/s/manifest/00000000000000000002.json"
    with log.medium.open(name, writable=True) as file:
        file.write(50, b"?")
    with pytest.raises(CorruptionError, match=name):
        fresh(log)
    with pytest.raises(CorruptionError, match=name):
        ManifestLog(log.medium, HERE).commit(always(next_seq=2))


class TestNewerReleases:
    """What a newer release may write is told from damage: nobody should restore a backup because of it."""

    @pytest.mark.parametrize(
        ("change", "key", "value", "found"),
        [
            ({"next_seq": 5}, "tiers", [1], "a delta with 'tiers'"),
            ({"options": StreamOptions()}, "options", {"tiering": "s3"}, "options with 'tiering'"),
            ({"options": StreamOptions()}, "options", {"durability": "quorum"}, "found durability 'quorum'"),
            ({"schema": WIDER}, "schema", {"version": 2}, "a stored schema of version 2"),
            ({"schema": WIDER}, "schema", {"columns": [{"name": "ts", "type": "uuid", "nullable": False}]}, "uuid"),
            ({"add": ()}, "add", {"kind": ["tiered"]}, "a split of the kind 'tiered'"),
            ({"add": ()}, "add", {"bloom": ["AA=="]}, "splits with 'bloom'"),
        ],
    )
    def test_in_deltas(
        self,
        log: ManifestLog,
        monkeypatch: pytest.MonkeyPatch,
        change: dict[str, Any],
        key: str,
        value: Any,
        found: str,
    ) -> None:
        written = ManifestLedger.change_to_dict

        def newer(self: ManifestLedger, wanted: Change) -> dict[str, Any]:
            values = written(self, wanted)
            return {**values, key: {**values.get(key, {}), **value} if isinstance(value, dict) else value}

        with monkeypatch.context() as patch:
            patch.setattr(ManifestLedger, "change_to_dict", newer)
            log.commit(always(**(change if change != {"add": ()} else {"add": (put_split(log.medium, HERE),)})))
        self.expect(log, f"0002.json has .*{found}")

    @pytest.mark.parametrize(
        ("key", "value", "found"),
        [
            ("tiers", [1], "a state with 'tiers'"),
            ("options", {"tiering": "s3"}, "options with 'tiering'"),
            ("schemas", [{"version": 2}], "a stored schema of version 2"),
            ("splits", {"bloom": ["AA=="]}, "splits with 'bloom'"),
            ("splits", {"kind": ["tiered"]}, "a split of the kind 'tiered'"),
        ],
    )
    def test_in_checkpoints(
        self, log: ManifestLog, monkeypatch: pytest.MonkeyPatch, key: str, value: Any, found: str
    ) -> None:
        written = ManifestLedger.state_to_dict

        def newer(self: ManifestLedger, state: Manifest) -> dict[str, Any]:
            values = written(self, state)
            return {**values, key: {**values.get(key, {}), **value} if isinstance(value, dict) else value}

        log.commit(always(add=(put_split(log.medium, HERE),)))
        with monkeypatch.context() as patch:
            patch.setattr(ManifestLedger, "state_to_dict", newer)
            while log.load().number < 17:
                log.commit(always(next_seq=log.load().next_seq + 1))
        self.expect(log, f"0017.json has .*{found}")

    def expect(self, log: ManifestLog, message: str) -> None:
        for attempt in (fresh, lambda log: ManifestLog(log.medium, HERE).commit(always(next_seq=2000))):
            with pytest.raises(NewerReleaseError, match=message) as caught:
                attempt(log)
            assert "written by a newer release; use that one" in str(caught.value)
            assert "backup" not in str(caught.value)
        assert len(ManifestLog(log.medium, HERE).check()) == 1


class TestCheckpoints:
    """What documents say of splits, a list for each member, is what was committed."""

    @given(st.data())
    @settings(max_examples=scaled(40))
    def test_splits_as_columns(self, data: st.DataObject) -> None:
        splits = [
            SplitInfo(
                name=f"{index}.tide",
                rows=data.draw(st.integers(1, 5)),
                bytes=data.draw(st.integers(5, 2**40)),
                time_min=-(2**63) if data.draw(st.booleans()) else 0,
                time_max=data.draw(st.integers(0, 2**63 - 1)),
                seq_min=data.draw(st.integers(10, 20)),
                seq_max=data.draw(st.integers(30, 2**62)),
                seq_base=data.draw(st.sampled_from([0, 0, 7])),
                kind=data.draw(st.sampled_from(["regular", "late", "loaded", "compacted", "coarse"])),
                boundary=data.draw(st.sampled_from([None, Interval(None, None), Interval(-(2**63), 2**63)])),
                root=data.draw(st.binary(max_size=20)),
                entry=data.draw(st.binary(max_size=20)),
                states=data.draw(st.sampled_from(["", "0123456789abcdef"])),
                created_at=data.draw(st.floats(0, 1e12)),
                clean_at=data.draw(st.sampled_from([0, 3])),
                dead_bytes=data.draw(st.sampled_from([0, 5])),
                schema=data.draw(st.sampled_from([0, 1])),
                sampled=data.draw(st.sampled_from([0, 10])),
                correlation=data.draw(st.sampled_from([(), (0.5, None)])),
            )
            for index in range(data.draw(st.integers(0, 4)))
        ]
        assert list(stored_and_read(splits)) == splits

    def test_columns_that_do_not_fit_are_refused(self) -> None:
        columns = SPLITS.to_dict([SplitInfo("7.tide", 1, 7, 0, 9, 0, 0, "late", 0.0)])
        for broken in (
            {**columns, "rows": [1, 2]},
            {**columns, "schema": []},
            {**columns, "root": {"sizes": [3], "bytes": ""}},
            {name: values for name, values in columns.items() if name != "bytes"},
        ):
            with pytest.raises((InputError, ValueError, KeyError)):
                SPLITS.from_dict(broken)
        for name in ("rows", "created_at", "seq_max", "name"):
            with pytest.raises(TypeError, match="found \\['7'\\]; expected"):
                SPLITS.from_dict({**columns, name: [["7"]]})

    def test_thousands_of_splits(self, log: ManifestLog) -> None:
        first = put_split(log.medium, HERE, entry=bytes(400))
        names = [new_file_name(index) for index in range(2000)]
        for name in names:
            log.medium.create(split_path(HERE, name)).close()
        for start in range(0, 2000, 10):
            log.commit(always(add=tuple(replace(first, name=name) for name in names[start : start + 10])))
        found = fresh(log)
        assert found == log.load()
        assert list(found.splits) == names
        assert log.check() == []
        whole = []
        for name in log.medium.names(f"{HERE}/manifest/"):
            with log.medium.open(name) as file:
                whole += [file.size()] if file.size() > 50_000 else []
        assert sum(whole[:-1]) < 200 * (10 * 700 + 8192), "each costs no more than the deltas behind it"


# A machine of several committers that load, wait and commit in any order, against a plain model. ---------


@dataclass
class Model:
    """What the stream should be, in the plainest terms."""

    splits: dict[str, SplitInfo] = field(default_factory=dict)
    removed: dict[str, float] = field(default_factory=dict)
    next_seq: int = 0
    bound: int | None = None
    deletions: list[Deletion] = field(default_factory=list)
    transactions: dict[str, int] = field(default_factory=dict)
    commits: int = 1


def below(state: Manifest | Model) -> SeqSet:
    return SeqSet.below(state.next_seq + 1)


class Committers(RuleBasedStateMachine):
    """Three logs on one medium. Any commit may be interrupted, before it is made, by commits of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.medium = RecordingMedium()
        self.clock = Hand()
        self.logs = [ManifestLog(self.medium, HERE, clock=self.clock) for _ in range(3)]
        self.logs[0].create(SCHEMA, StreamOptions(grace=50))
        self.model = Model()

    def commit(self, who: int, rivals: int, decide: Callable[[Manifest], Change]) -> Manifest:
        """Commit, while others come first ``rivals`` times; what each of them adds is a number given out."""
        left = [rivals]

        def change(manifest: Manifest) -> Change:
            if left[0]:
                left[0] -= 1
                self.logs[(who + 1) % 3].commit(lambda theirs: Change(next_seq=theirs.next_seq + 1))
                self.model.next_seq += 1
                self.model.commits += 1
            return decide(manifest)

        made = self.logs[who].commit(change)
        self.model.commits += 1
        return made

    @rule(who=st.integers(0, 2), rivals=st.integers(0, 2), count=st.integers(1, 3), rows=st.integers(1, 5))
    def add(self, who: int, rivals: int, count: int, rows: int) -> None:
        # Numbers are given out by the manifest the commit builds on: rebasing must give other ones.
        blanks = [put_split(self.medium, HERE, self.clock.now) for _ in range(count)]

        def decide(manifest: Manifest) -> Change:
            numbered = []
            for i, blank in enumerate(blanks):
                first = manifest.next_seq + i * rows
                numbered.append(replace(blank, rows=rows, seq_min=first, seq_max=first + rows - 1))
            return Change(add=tuple(numbered))

        made = self.commit(who, rivals, decide)
        for blank in blanks:
            split = made.splits[blank.name]
            assert (split.seq_min, split.seq_max) == (self.model.next_seq, self.model.next_seq + rows - 1)
            self.model.next_seq += rows
            self.model.splits[split.name] = split

    @rule(who=st.integers(0, 2), rivals=st.integers(0, 2), data=st.data())
    def compact(self, who: int, rivals: int, data: st.DataObject) -> None:
        if len(self.model.splits) < 2:
            return
        inputs = data.draw(st.lists(st.sampled_from(sorted(self.model.splits)), min_size=1, max_size=3, unique=True))
        merged = put_split(self.medium, HERE, self.clock.now, seq_max=self.model.next_seq + 10)
        self.commit(who, rivals, lambda manifest: Change(remove=tuple(inputs), add=(merged,)))
        for name in inputs:
            del self.model.splits[name]
            self.model.removed[name] = self.clock.now
        self.model.splits[merged.name] = merged
        self.model.next_seq = max(self.model.next_seq, merged.seq_max + 1)

    @rule(who=st.integers(0, 2), data=st.data())
    def compact_what_a_rival_compacts(self, who: int, data: st.DataObject) -> None:
        if not self.model.splits:
            return
        name = data.draw(st.sampled_from(sorted(self.model.splits)))
        first = [True]

        def change(manifest: Manifest) -> Change:
            if first:
                first.clear()
                self.logs[(who + 1) % 3].commit(lambda theirs: Change(remove=(name,)))
            return Change(remove=(name,), next_seq=manifest.next_seq + 1000)

        with pytest.raises(ConflictError):
            self.logs[who].commit(change)
        del self.model.splits[name]
        self.model.removed[name] = self.clock.now
        self.model.commits += 1

    @rule(who=st.integers(0, 2), rivals=st.integers(0, 2), bound=st.integers(-50, 50))
    def delete_before(self, who: int, rivals: int, bound: int) -> None:
        self.commit(who, rivals, lambda manifest: Change(deleted_before=bound))
        self.model.bound = bound if self.model.bound is None else max(bound, self.model.bound)

    @rule(who=st.integers(0, 2), rivals=st.integers(0, 2), start=st.integers(-50, 50), length=st.integers(1, 50))
    def overwrite(self, who: int, rivals: int, start: int, length: int) -> None:
        interval = Interval(start, start + length)
        made = self.commit(who, rivals, lambda manifest: Change(delete=(Deletion(interval, below(manifest)),)))
        deletion = Deletion(interval, below(self.model))
        assert deletion in made.deletions
        if deletion not in self.model.deletions:
            self.model.deletions.append(deletion)

    @rule(who=st.integers(0, 2), rivals=st.integers(0, 2), producer=st.sampled_from("pq"), number=st.integers(0, 6))
    def transact(self, who: int, rivals: int, producer: str, number: int) -> None:
        if number > self.model.transactions.get(producer, -1):
            self.commit(who, rivals, lambda manifest: Change(transactions={producer: number}))
            self.model.transactions[producer] = number
        else:
            with pytest.raises(ConflictError):
                self.logs[who].commit(lambda manifest: Change(transactions={producer: number}))

    @rule(who=st.integers(0, 2), seconds=st.sampled_from([1.0, 30.0, 60.0]))
    def time_passes_and_someone_prunes(self, who: int, seconds: float) -> None:
        self.clock.now += seconds
        self.logs[who].prune()

    @invariant()
    def everybody_sees_the_model(self) -> None:
        for log in (*self.logs, ManifestLog(self.medium, HERE, clock=self.clock)):
            manifest = log.load()
            assert manifest.number == self.model.commits
            assert manifest.splits == self.model.splits
            assert manifest.removed == self.model.removed
            assert manifest.next_seq == self.model.next_seq
            assert manifest.deleted_before == self.model.bound
            assert list(manifest.deletions) == self.model.deletions
            assert manifest.transactions == self.model.transactions

    def teardown(self) -> None:
        assert self.logs[0].check() == []


TestCommitters = Committers.TestCase
TestCommitters.settings = settings(max_examples=scaled(25), stateful_step_count=40)
