from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import Case, Workspace, bytes_on_disk, race


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(tmp_path) as workspace:
        yield workspace


def test_cases_are_interleaved_and_each_repetition_starts_with_another(workspace: Workspace) -> None:
    runs: list[str] = []
    cases = [Case(name, lambda _, name=name: runs.append(name)) for name in "abc"]
    outcomes = race(cases, workspace, 3, writes=True)
    warm_up, *repetitions = ["".join(runs[i : i + 3]) for i in range(0, len(runs), 3)]
    assert warm_up == "abc"
    assert repetitions == ["abc", "bca", "cab"]
    assert [len(outcome.samples) for outcome in outcomes.values()] == [3, 3, 3]


def test_writers_get_fresh_directories_that_are_removed(workspace: Workspace) -> None:
    seen: list[Path] = []

    def write(directory: Path) -> None:
        assert not any(directory.iterdir())
        seen.append(directory)
        (directory / "file").write_bytes(bytes(len(seen)))

    outcome = race([Case("a", write)], workspace, 2, writes=True, keep_last=True)["a"]
    assert len(set(seen)) == 3
    assert [directory.exists() for directory in seen] == [False, False, True]
    assert outcome.directory == seen[-1]
    assert outcome.sizes == [2, 3]  # the warm-up's does not count


def test_what_comes_before_a_run_is_not_timed_and_finds_its_directory(workspace: Workspace) -> None:
    def before(directory: Path) -> None:
        (directory / "given").touch()

    case = Case("a", lambda directory: (directory / "given").unlink(), before=before)
    assert race([case], workspace, 2, writes=True)["a"].sizes == [0, 0]


def test_short_reads_are_repeated_until_they_can_be_timed(workspace: Workspace) -> None:
    runs = 0

    def read(_: Path) -> None:
        nonlocal runs
        runs += 1

    outcome = race([Case("a", read)], workspace, 2, shortest=0.001)["a"]
    assert all(sample.loops > 1 for sample in outcome.samples)
    assert runs == 1 + sum(1 + sample.loops for sample in outcome.samples)


def test_the_warm_up_is_checked_and_a_wrong_result_stops_the_race(workspace: Workspace) -> None:
    checked: list[int] = []
    race([Case("a", lambda _: 42, check=checked.append)], workspace, 2, writes=True)
    assert checked == [42]

    def refuse(result: int) -> None:
        raise AssertionError(f"found {result}")

    with pytest.raises(AssertionError, match="found 42"):
        race([Case("a", lambda _: 42, check=refuse)], workspace, 2, writes=True)


def test_the_workspace_leaves_nothing_behind_even_after_an_error(tmp_path: Path) -> None:
    def fail() -> None:
        with Workspace(tmp_path) as workspace:
            (workspace.fresh() / "file").write_bytes(b"x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not any(tmp_path.iterdir())


def test_nothing_outside_the_workspace_is_removed(workspace: Workspace, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    with pytest.raises(ValueError, match="is not below the workspace"):
        workspace.remove(outside)
    with pytest.raises(ValueError, match="is not below the workspace"):
        workspace.remove(workspace.root)
    assert outside.exists()


def test_holes_do_not_count_as_bytes_on_disk(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"x" * 10_000)
    with open(tmp_path / "sparse", "wb") as file:
        file.truncate(1 << 30)
    assert 10_000 <= bytes_on_disk(tmp_path) < 1 << 20
