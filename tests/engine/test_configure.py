"""Options that change while a stream is there: how long what is kept."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from support.media.memory import MemoryMedium
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model.errors import GrainError, InputError, ReadOnlyError, TimeError
from tidelog.store.manifest.manifest import Manifest
from tidelog.store.split.coarse import write_coarse
from tidelog.store.upkeep import coarsening
from tidelog.store.upkeep.maintenance import Due, Maintenance

SCHEMA = pa.schema([pa.field("ts", pa.int64(), nullable=False), ("n", pa.int64())])
SMALL: dict[str, Any] = {"leaf_rows": 8, "fanout": 3, "split": 100}


def filled(store: Store, **options: Any) -> Stream:
    """A stream with the times 0 to 999."""
    stream = store.create_stream("s", SCHEMA, "ts", **SMALL, **options)
    stream.append(pa.table([list(range(1000)), list(range(1000))], schema=SCHEMA))
    stream.flush()
    return stream


def test_retention_can_be_given_changed_and_taken_back() -> None:
    medium = MemoryMedium()
    with Store(medium, maintenance="manual") as store:
        stream = filled(store)
        stream.maintain()
        assert len(stream) == 1000
        stream.configure(retention=500)
        assert stream.options.retention == 500
        assert len(stream) == 1000, "it is for those who look after the stream to enforce it"
        stream.maintain()
        kept = stream.scan().read_all()["ts"].to_pylist()
        assert 499 <= len(kept) <= 500 + 500 // 16 + 1
        assert kept == list(range(kept[0], 1000))
        stream.configure(retention=None)
        stream.append({"ts": 100_000, "n": 0})
        stream.maintain()
        assert len(stream) == len(kept) + 1
    with Store(medium, maintenance="manual") as store:
        stream = store.stream("s")
        assert stream.options.retention is None
        stream.configure(retention=500)
    with Store(medium, maintenance="manual") as store:
        assert store.stream("s").options.retention == 500
        store.maintain()
        assert store.stream("s").scan().read_all()["ts"].to_pylist() == [100_000]
        assert store.check() == []


def test_old_events_can_be_reduced_from_now_on() -> None:
    with Store(MemoryMedium(), maintenance="manual") as store:
        stream = filled(store)
        stream.configure(coarse_after=300, coarse_grain=50)
        stream.maintain()
        assert stream.aggregate(0, 700, ["count(*)", "sum(n)"]) == {"count(*)": 700, "sum(n)": sum(range(700))}
        with pytest.raises(GrainError):
            stream.scan(0, 100).read_all()
        assert stream.scan(700).read_all()["n"].to_pylist() == list(range(700, 1000))


@pytest.mark.parametrize("options", [{"retention": 100}, {"coarse_after": 100}])
def test_what_was_due_by_options_of_before_is_not_done_any_more(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last moment at which that can be told is the commit; until then somebody may have changed his mind."""
    with Store(MemoryMedium(), maintenance="manual") as store:
        stream = filled(store, **options)
        due = Maintenance._due

        def changed_meanwhile(self: Maintenance, manifest: Manifest) -> Due:
            found = due(self, manifest)
            assert found.delete_before is not None or found.coarsen_before is not None
            stream.configure(**dict.fromkeys(options))
            return found

        with monkeypatch.context() as patch:
            patch.setattr(Maintenance, "_due", changed_meanwhile)
            stream.maintain()
        assert stream.scan().read_all()["n"].to_pylist() == list(range(1000))
        stream.configure(**options)
        stream.maintain()
        with pytest.raises(GrainError) if "coarse_after" in options else nullcontext():
            assert stream.scan().read_all().num_rows < 200


def test_splits_are_not_reduced_once_that_is_not_wanted_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(MemoryMedium(), maintenance="manual") as store:
        stream = filled(store, coarse_after=100)
        written: list[str] = []

        def write(medium: Any, path: str, coarse: Any) -> int:
            written.append(path)
            if len(written) == 3:
                stream.configure(coarse_after=None)
            return write_coarse(medium, path, coarse)

        monkeypatch.setattr(coarsening, "write_coarse", write)
        stream.maintain()
        kinds = [split.kind for split in writer_of(stream).manifests.load().splits.values()]
        assert (len(written), kinds.count("coarse")) == (3, 2)
        assert store.check() == []


def test_a_writer_elsewhere_goes_on_and_looks_after_the_stream_as_it_is_told_now(tmp_path: Path) -> None:
    with tidelog.open(tmp_path, maintenance="manual") as store, tidelog.open(tmp_path, maintenance="manual") as other:
        stream = filled(store)
        other.stream("s").configure(retention=100, grace="1h")
        stream.append({"ts": 1000, "n": 1000})
        stream.flush()
        stream.maintain()
        assert stream.aggregate(None, None, "min(ts)")["min(ts)"] >= 893
        assert other.stream("s").scan().read_all() == stream.scan().read_all()
        assert writer_of(stream).manifests.load().options.grace == 3600
        assert stream.check() == []


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"split": "1h"}, InputError, "the option 'split' is fixed when a stream is created; retention, coarse_after"),
        ({"retention": 9, "leaf_rows": 5}, InputError, "the option 'leaf_rows' is fixed"),
        ({"retentoin": 9}, InputError, "there is no option 'retentoin'; did you mean 'retention'"),
        ({"retention": 0}, TimeError, "option retention: found 0; expected more than zero"),
        ({"retention": "soon"}, TimeError, "option retention: found 'soon', which is no duration"),
        ({"grace": None}, TimeError, "option grace: found None"),
    ],
)
def test_what_cannot_be_changed_is_refused(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with Store(MemoryMedium(), maintenance="manual") as store:
        stream = filled(store, retention=5000)
        before = writer_of(stream).manifests.load()
        with pytest.raises(error, match=text):
            stream.configure(**options)
        assert writer_of(stream).manifests.load() == before
        assert stream.options == before.options


def test_the_same_again_commits_nothing() -> None:
    with Store(MemoryMedium(), maintenance="manual") as store:
        stream = filled(store, retention=5000)
        number = writer_of(stream).manifests.load().number
        stream.configure(retention=5000)
        stream.configure()
        assert writer_of(stream).manifests.load().number == number


def test_who_only_reads_changes_nothing() -> None:
    medium = MemoryMedium()
    with Store(medium, maintenance="manual") as store:
        filled(store)
    with Store(medium, read_only=True) as store, pytest.raises(ReadOnlyError):
        store.stream("s").configure(retention=5)
