"""Stores in which something is a link, a pipe or a directory that should be a file, as in an archive from somebody.

It is said, it is not waited for, and nothing outside of the store is touched.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidelog
from tidelog.model.errors import CorruptionError, StorageError, TidelogError
from tidelog.storage.media import directories
from tidelog.storage.media.file_medium import FileMedium
from tidelog.store.log.documents import decode, encode
from tidelog.store.log.newest_mark import MARK
from tidelog.store.tail.record import Publisher, TailRecord

SCHEMA = pa.schema([("ts", pa.int64()), ("x", pa.float64())])
ROWS = 400
FILES = (
    "marker",
    "catalogue",
    "its mark",
    "manifest",
    "closed split",
    "open split",
    "its lock",
    "journal",
    "published",
)
FILES += ("lock",)
DIRECTORIES = ("catalogue", "streams", "streams/s", "streams/s/manifest", "streams/s/splits", "streams/s/tail")
NUMBERED = ("catalogue", "manifest", "journal")
"""Files that are found by listing them: one that has become a directory is one that is missing."""


@pytest.fixture(autouse=True)
def never_hangs() -> Iterator[None]:
    """A pipe that is opened and waited for fails the test, and not the suite."""

    def give_up(*arguments: object) -> None:
        raise AssertionError("something in the store is waited for")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(240)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store as a crash leaves it, with every kind of file: closed splits, an open one, a journal with rows."""
    place = tmp_path_factory.mktemp("sample") / "store"
    with tidelog.open(place, maintenance="manual") as store:
        stream = store.create_stream("s", SCHEMA, "ts", split=100, leaf_rows=8, fanout=4)
        for start in range(0, ROWS, 50):
            stream.append({"ts": list(range(start, start + 50)), "x": [0.5] * 50})
        stream.flush()
        return Path(shutil.copytree(place, place.with_name("copy")))


@pytest.fixture
def place(sample: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sample, tmp_path / "store"))


def stream_of(place: Path) -> Path:
    [found] = (place / "streams").iterdir()
    return found


def file_of(place: Path, kind: str) -> Path:
    """The file of a kind that is used first."""
    stream = stream_of(place)
    splits = sorted((stream / "splits").glob("*.tide"))
    return {
        "marker": place / "tidelog.json",
        "catalogue": max((place / "catalogue").glob("*.json")),
        "its mark": place / "catalogue" / MARK,
        "manifest": max((stream / "manifest").glob("*.json")),
        "closed split": splits[0],
        "open split": splits[-1],
        "its lock": splits[-1].with_name(f"{splits[-1].name}.lock"),
        "journal": max((stream / "tail").glob("journal-*")),
        "published": stream / "tail" / "published",
        "lock": stream / "tail" / "lock",
    }[kind]


def replace_file(file: Path, by: str, outside: Path) -> None:
    """Put something else in the place of a file; ``outside`` gets what it was."""
    shutil.copy(file, outside)
    file.unlink()
    if by == "link":
        file.symlink_to(outside)
    elif by == "dangling link":
        file.symlink_to(outside.with_name("nothing there"))
    elif by == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()


def use(place: Path, copy: Path) -> list[TidelogError | str]:
    """Read, write, keep in order, copy and check a store; everything that was said about it."""
    said: list[TidelogError | str] = []

    def read() -> None:
        with tidelog.open(place, read_only=True) as store:
            assert store.stream("s").scan().read_all().num_rows == ROWS

    def write() -> None:
        with tidelog.open(place, maintenance="manual") as store:
            stream = store.stream("s")
            stream.append({"ts": list(range(ROWS, ROWS + 150)), "x": [1.0] * 150})
            stream.flush()

    def keep_in_order() -> None:
        with tidelog.open(place, maintenance="manual") as store:
            store.remove_orphans(0)
            store.stream("s").delete_before(150)
            store.stream("s").configure(grace=0)
            store.maintain()
            store.sweep()

    def back_up() -> None:
        with tidelog.open(place, read_only=True) as store:
            store.backup(copy, link=True)

    def check() -> None:
        with tidelog.open(place, read_only=True) as store:
            said.extend(map(str, store.check()))

    steps: tuple[Callable[[], Any], ...] = (read, write, back_up, check, keep_in_order)
    for step in steps:
        try:
            step()
        except TidelogError as error:
            said.append(error)
    return said


@pytest.mark.parametrize("by", ["link", "dangling link", "pipe", "directory"])
@pytest.mark.parametrize("kind", FILES)
def test_what_is_no_file_is_refused(place: Path, tmp_path: Path, kind: str, by: str) -> None:
    file, outside = file_of(place, kind), tmp_path / "outside"
    replace_file(file, by, outside)
    content = outside.read_bytes()
    said = use(place, tmp_path / "copy")
    assert outside.read_bytes() == content
    assert sorted(each.name for each in tmp_path.iterdir() if each.name != "copy") == ["outside", "store"]
    found = {"link": "a symbolic link", "dangling link": "a symbolic link", "pipe": "a named pipe"}.get(by, f"a {by}")
    expected = [f"{file.name} is {found}; expected a file"]
    if by == "directory" and kind in NUMBERED:
        expected.append(f"{file.name} is missing")
    assert any(text in str(each) for text in expected for each in said), said
    assert all(isinstance(each, StorageError) for each in said if not isinstance(each, str)), said


@pytest.mark.parametrize("by", ["link", "pipe", "file"])
@pytest.mark.parametrize("name", DIRECTORIES)
def test_what_is_no_directory_is_refused(place: Path, tmp_path: Path, name: str, by: str) -> None:
    directory = place.joinpath(*(stream_of(place).name if part == "s" else part for part in name.split("/")))
    outside = tmp_path / "outside"
    shutil.move(directory, outside)
    if by == "link":
        directory.symlink_to(outside)
    elif by == "pipe":
        os.mkfifo(directory)
    else:
        directory.write_bytes(b"")
    before = {each: each.read_bytes() for each in outside.rglob("*") if each.is_file()}
    said = use(place, tmp_path / "copy")
    assert {each: each.read_bytes() for each in outside.rglob("*") if each.is_file()} == before
    found = {"link": "a symbolic link", "pipe": "a named pipe"}.get(by, "a file")
    assert any(f"{directory.name} is {found}; expected a directory" in str(each) for each in said), said
    assert all(isinstance(each, StorageError) for each in said if not isinstance(each, str)), said


def test_directories_are_entered_one_by_one_where_the_system_cannot(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directories, "_syscall", None)
    test_what_is_no_directory_is_refused(place, tmp_path, "streams/s/splits", "link")


def test_links_that_nothing_names_are_not_followed(place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    old = outside / "1000000000000-0123456789abcdef.tide"
    old.write_bytes(b"precious")
    stream = stream_of(place)
    (stream / "splits" / "more").symlink_to(outside)
    (stream / "splits" / old.name).symlink_to(old)
    (place / "streams" / "x~1000000000000-0123456789abcdef").symlink_to(outside)
    (place / "tidelog.json.1000000000000-0123456789abcdef.tmp").symlink_to(old)
    with tidelog.open(place, maintenance="manual") as store:
        store.remove_orphans(0)
        store.stream("s").configure(grace=0)
        store.maintain()
        store.sweep()
        assert store.stream("s").scan().read_all().num_rows == ROWS
        assert store.check() == []
    assert old.read_bytes() == b"precious"


def test_the_directory_of_a_store_may_be_a_link(place: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(place)
    assert use(tmp_path / "alias", tmp_path / "copy") == []
    with tidelog.open(tmp_path / "alias", read_only=True) as store:
        assert store.stream("s").scan().read_all().num_rows == ROWS  # 150 went, 150 came


def test_hard_links_are_files(place: Path, tmp_path: Path) -> None:
    for number, kind in enumerate(FILES):
        os.link(file_of(place, kind), tmp_path / f"other name {number}")
    assert use(place, tmp_path / "copy") == []


class TestNamesInDocuments:
    """Whatever a document says, with a right checksum, is inside of the store."""

    NAMES = ("../../outside", "/etc/passwd", "..", "", ".hidden", "a/b", "nul\0", "half \ud800", 7, None)

    def rewrite(self, place: Path, directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
        """Change what a log ends with, with everything that says that it is whole."""
        file, log = max(directory.glob("*.json")), str(directory.relative_to(place))
        kind = "tidelog catalogue" if directory.name == "catalogue" else "tidelog stream manifest"
        document, _ = decode(kind, f"{log}/{file.name}", int(file.stem), file.read_bytes())
        change(document.delta)
        file.write_bytes(encode(kind, log, document)[0])

    @pytest.mark.parametrize("name", NAMES)
    def test_a_directory_of_a_stream(self, place: Path, tmp_path: Path, name: object) -> None:
        self.rewrite(place, place / "catalogue", lambda delta: delta["add"][0].update(id=name))
        self.refused(place)

    @pytest.mark.parametrize("member", ["condemn", "forget"])
    @pytest.mark.parametrize("name", NAMES)
    def test_a_directory_that_is_to_be_removed(self, place: Path, member: str, name: object) -> None:
        self.rewrite(place, place / "catalogue", lambda delta: delta.update({member: [name]}))
        self.refused(place)

    @pytest.mark.parametrize("member", ["remove", "condemn", "forget"])
    @pytest.mark.parametrize("name", NAMES)
    def test_a_file_that_is_to_be_removed(self, place: Path, member: str, name: object) -> None:
        self.rewrite(place, stream_of(place) / "manifest", lambda delta: delta.update({member: [name]}))
        self.refused(place)

    @pytest.mark.parametrize("name", NAMES)
    def test_a_closed_split(self, place: Path, name: object) -> None:
        self.rewrite(place, stream_of(place) / "manifest", lambda delta: delta["add"]["name"].__setitem__(0, name))
        self.refused(place)

    @pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", ".hidden", "half \ud800"])
    def test_an_open_split_in_what_is_published(self, place: Path, name: str) -> None:
        tail = f"streams/{stream_of(place).name}/tail"
        journal = f"{tail}/{file_of(place, 'journal').name}"
        self.publish(place, TailRecord(journal, 1, {name: (1, 0)}))
        self.refused(place)

    @pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "tidelog.json", "streams/other/tail/journal-1", ""])
    def test_a_journal_in_what_is_published(self, place: Path, name: str) -> None:
        self.publish(place, TailRecord(name, 1, {}))
        self.refused(place)

    def publish(self, place: Path, record: TailRecord) -> None:
        publisher = Publisher(FileMedium(place), f"streams/{stream_of(place).name}/tail/published")
        publisher.publish(record)
        publisher.close()

    def refused(self, place: Path) -> None:
        with pytest.raises(CorruptionError, match="makes no sense"), tidelog.open(place, read_only=True) as store:
            store.stream("s").scan().read_all()
