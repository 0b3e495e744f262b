"""What users write for the directory of a store."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog
from tidelog.model.errors import InputError


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("", "found an empty text for a store; .* '.' for the current one"),
        (":memory:", "found ':memory:' for a store: stores are directories, .* tempfile.TemporaryDirectory"),
        ("s3://bucket/events", "found the address 's3://bucket/events' for a store: stores are directories of a local"),
        ("file:///tmp/events", "found the address"),
        ("duckdb+x-1.y://a", "found the address"),
        (Path("s3://bucket/events"), "found the address 's3:/bucket/events'"),
        (5, r"found 5 \(int\) for a store; expected the path of a directory"),
        (None, r"found None \(NoneType\) for a store"),
        (b"events", r"found b'events' \(bytes\) for a store"),
        ("a\0b", "null character"),
        ("\ud800", "no file can be called"),
        ("~nobody-of-that-name/events", "there is no such user; a directory of that name is './~nobody"),
    ],
)
def test_what_is_no_directory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: object, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=reason):
        tidelog.open(path)  # type: ignore[arg-type]  # that is what is tried
    assert list(tmp_path.iterdir()) == []
    with tidelog.open("store") as store, pytest.raises(InputError):
        store.backup(path)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        tidelog.restore("store", path)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a:b", "s3", "c:/x".replace("/", "-"), "x:memory:", "%s", "a b", "ä", "-"])
def test_odd_names_of_directories_are_taken(tmp_path: Path, name: str) -> None:
    with tidelog.open(tmp_path / name) as store:
        assert store.streams() == []
    assert (tmp_path / name / "tidelog.json").exists()


def test_the_home_directory_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    tidelog.open("~/events").close()
    tidelog.open(Path("~") / "events", read_only=True).close()
    assert (tmp_path / "events" / "tidelog.json").exists()
    with tidelog.open("~/events") as store:
        store.backup("~/copy")
    tidelog.restore("~/copy", "~/again")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "copy", "events"]
