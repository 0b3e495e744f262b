from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from harness import Bench, Bound, Case, Comparison, Figures, Question, main


def run(ask, *arguments: str, tmp_path: Path) -> tuple[int, str]:
    output = io.StringIO()
    console = Console(file=output)
    status = main("example", ask, ["--dir", str(tmp_path), *arguments], console=console)
    return status, output.getvalue()


def asking(ours: float, *, floor: float = 1.0, judged_at: int = 0, missing: bool = False):
    def ask(bench: Bench) -> None:
        if missing:
            bench.missing["peer"] = "No module named 'peer'"
        peers = {} if missing else {"peer": Figures((10.0,) * bench.repetitions)}
        bench.answer(
            Question(
                "speed",
                "GB/s",
                bench.size(1000, 10),
                Figures((ours,) * bench.repetitions),
                peers,
                [Comparison("fastest", ("peer",), Bound(floor, 2 * floor, judged_at))],
            )
        )

    return ask


def test_strict_fails_below_a_floor_and_says_so(tmp_path: Path) -> None:
    status, output = run(asking(5.0), "--strict", tmp_path=tmp_path)
    assert status == 1
    assert "BELOW FLOOR" in output
    assert "ratio [quartiles]" in output
    assert "0.50 [0.50 - 0.50]" in output
    assert "FAILED: speed against fastest: the better quartile is 0.50, the floor 1" in output


def test_without_strict_a_floor_missed_is_only_told(tmp_path: Path) -> None:
    status, output = run(asking(5.0), tmp_path=tmp_path)
    assert status == 0
    assert "BELOW FLOOR" in output


def test_strict_passes_when_floors_hold(tmp_path: Path) -> None:
    assert run(asking(10.0), "--strict", tmp_path=tmp_path)[0] == 0
    assert "target met" in run(asking(20.0), "--strict", tmp_path=tmp_path)[1]


def test_quick_runs_are_not_judged_below_the_size_of_a_floor(tmp_path: Path) -> None:
    status, output = run(asking(5.0, judged_at=1000), "--strict", "--quick", tmp_path=tmp_path)
    assert status == 0
    assert "not judged below 1,000" in output
    assert run(asking(5.0, judged_at=1000), "--strict", "--events", "1_000", tmp_path=tmp_path)[0] == 1


def test_strict_fails_when_a_required_peer_is_missing(tmp_path: Path) -> None:
    status, output = run(asking(20.0, missing=True), "--strict", tmp_path=tmp_path)
    assert status == 1
    assert "peer is required but missing: No module named 'peer'" in output
    assert run(asking(20.0, missing=True), tmp_path=tmp_path)[0] == 0


def test_json_has_every_repetition(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    run(asking(15.0), "--json", str(path), "--repetitions", "6", tmp_path=tmp_path)
    (question,) = json.loads(path.read_text())["questions"]
    assert question["ours"]["values"] == [15.0] * 6
    (judgement,) = question["judgements"]
    assert judgement["ratios"] == [1.5] * 6
    assert (judgement["peer"], judgement["verdict"]) == ("peer", "floor met")


def test_a_race_reaches_the_table_and_leaves_nothing_on_disk(tmp_path: Path) -> None:
    work = tmp_path / "work"

    def ask(bench: Bench) -> None:
        assert bench.workspace.root.parent == work.resolve()
        cases = [Case(name, lambda directory: (directory / "x").write_bytes(b"x")) for name in ("ours", "peer")]
        outcomes = bench.race("write", cases, writes=True)
        figures = {name: Figures.of(outcome, lambda sample: 1 / sample.wall) for name, outcome in outcomes.items()}
        comparison = Comparison("peer", ("peer",))
        bench.answer(Question("write", "1/s", 0, figures["ours"], {"peer": figures["peer"]}, [comparison]))

    _, output = run(ask, tmp_path=work)
    assert "wall" in output
    assert "cpu" in output
    assert not any(work.iterdir())


def test_quick_runs_may_repeat_less(tmp_path: Path) -> None:
    found: list[int] = []
    for arguments in (["--quick"], [], ["--quick", "--repetitions", "6"]):
        options = ["--dir", str(tmp_path), *arguments]
        main("test", lambda bench: found.append(bench.repetitions), options, quick_repetitions=2)
    assert found == [2, 5, 6]


def test_fewer_than_five_repetitions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(asking(1.0), "--repetitions", "4", tmp_path=tmp_path)
    assert "a ratio needs 5 repetitions or more, found 4" in capsys.readouterr().err


def test_only_chooses_by_name(tmp_path: Path) -> None:
    wanted: list[bool] = []

    def ask(bench: Bench) -> None:
        wanted.extend(bench.wants(name) for name in ("scan sensor", "scan log", "recovery"))

    run(ask, "--only", "scan s", "--only", "recovery", tmp_path=tmp_path)
    assert wanted == [True, False, True]
