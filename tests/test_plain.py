"""Functions that stand in for kernels have the same effect, to the bit; and for a first question they are enough."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog
from support.profiles import scaled
from tidelog import lazy
from tidelog.index import kernels as index_kernels
from tidelog.index import plain as index_plain
from tidelog.storage.format import block
from tidelog.storage.format import kernels as storage_kernels
from tidelog.storage.format import plain as storage_plain
from tidelog.storage.summary import kernels as summary_kernels
from tidelog.storage.summary import plain as summary_plain

WORDS = st.integers(0, (1 << 64) - 1)
DOUBLES = st.floats(width=64)
SEEDS = st.integers(0, 1 << 32)


def same(kernels: Any, plain: Any, name: str, arguments: list[Any], results: list[int]) -> Any:
    """Call both; the arguments at the places ``results`` are what they fill."""
    mine = [each.copy() if at in results else each for at, each in enumerate(arguments)]
    theirs = [each.copy() if at in results else each for at, each in enumerate(arguments)]
    found, expected = getattr(plain, name)(*mine), getattr(kernels, name)(*theirs)
    assert found == expected
    for at in results:
        np.testing.assert_array_equal(mine[at], theirs[at], strict=True)
    assert getattr(plain, name).steps(*arguments) >= 0
    return expected


def entries_of(random: np.random.Generator, count: int, columns: int) -> npt.NDArray[np.uint64]:
    """Entries of few different words, so that they are equal, the largest and so on now and then."""
    special = np.array(
        [
            0,
            1,
            2,
            1 << 63,
            (1 << 63) - 1,
            (1 << 64) - 1,
            *np.array([1.5, -2.5, np.inf, -np.inf, 1e308]).view(np.uint64),
        ],
        np.uint64,
    )
    entries = random.choice(special, (count, 2 + 7 * columns))
    entries[:, 1] = random.integers(0, 5, count)
    for column in range(columns):
        at = 2 + 7 * column
        entries[:, at] = random.integers(0, 32, count)
        entries[:, at + 1] = np.minimum(random.integers(0, 3, count), entries[:, 1])
        entries[:, at + 2] = np.minimum(random.integers(0, 2, count), entries[:, 1] - entries[:, at + 1])
    return entries


@given(SEEDS, st.integers(0, 12))
@settings(max_examples=scaled(200))
def test_entries_are_merged(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    columns = 4
    kinds = random.integers(0, 5, columns).astype(np.uint8)
    chosen = np.sort(random.choice(columns, random.integers(0, columns + 1), replace=False)).astype(np.int64)
    entries = entries_of(random, count, columns)
    first, last = sorted(random.integers(0, count + 1, 2).tolist())
    out = entries_of(random, 1, columns)[0] * np.uint64(random.integers(0, 2))
    same(index_kernels, index_plain, "merge_into", [entries, first, last, kinds, chosen, out], [5])
    firsts = random.integers(0, count + 1, 3)
    lasts = np.maximum(firsts, random.integers(0, count + 1, 3))
    many = np.zeros((3, entries.shape[1]), np.uint64)
    same(index_kernels, index_plain, "merge_ranges", [entries, firsts, lasts, kinds, chosen, many], [5])


@given(SEEDS, st.integers(0, 9))
@settings(max_examples=scaled(30))
def test_entries_are_made_of_summaries(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    summaries = random.integers(0, 1 << 64, (count, 6 * 3), np.uint64)
    kinds = random.integers(0, 5, 3).astype(np.uint8)
    ids, rows = random.integers(-1, 1 << 40, count), random.integers(0, 1 << 40, count)
    same(index_kernels, index_plain, "put_leaves", [summaries, kinds, ids, rows, np.zeros((count, 23), np.uint64)], [4])


@given(SEEDS, st.integers(1, 5), st.booleans())
@settings(max_examples=scaled(60))
def test_frames_are_opened(seed: int, leaves: int, damage: bool) -> None:
    random = np.random.default_rng(seed)
    rows = [int(each) for each in random.integers(1, 40, leaves)]
    cuts = np.append(0, np.cumsum(rows)).astype(np.int64)
    batch = pa.record_batch({"x": random.random(cuts[-1]), "y": random.integers(0, 9, cuts[-1]).astype(str).tolist()})
    frames = block.encode_leaves(batch, cuts, 7)
    words = np.frombuffer(bytes(frames.content), np.uint64).copy()
    if damage:
        bit = int(random.integers(0, 64))
        words[random.integers(0, len(words))] ^= np.uint64(1 << bit)
    offsets = np.array(frames.bounds[:-1], np.int64)
    lengths = np.diff(frames.bounds).astype(np.int64)
    ids = np.arange(7, 7 + leaves, dtype=np.int64)
    arguments = [words, offsets, lengths, ids, np.full(leaves, -5, np.int64)]
    outcome = same(storage_kernels, storage_plain, "open_frames", arguments, [4])
    if not damage:
        assert outcome == storage_kernels.OK
    columns = np.array([1, 0, *([2] if damage else [])], np.int64)
    shape = (len(columns), leaves)
    found = [words, offsets, columns, np.zeros(shape, np.int64), np.zeros(shape, np.int64)]
    if outcome == storage_kernels.OK:
        same(storage_kernels, storage_plain, "locate_pieces", found, [3, 4])


@given(
    st.lists(st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-2, 2)), max_size=12), SEEDS, st.booleans()
)
@settings(max_examples=scaled(100))
def test_integers_are_summarised(values: list[int], seed: int, keep_sum: bool) -> None:
    array = np.array(values, np.int64)
    for flip in (0, -(1 << 63)):
        arguments = [array, *_runs(len(array), seed), flip, keep_sum]
        out = np.full((len(arguments[2]) - 1, 6), 9, np.uint64)
        same(summary_kernels, summary_plain, "summarise_integers", [*arguments, out], [5])


@given(st.lists(st.one_of(DOUBLES, st.sampled_from([0.0, -0.0, 1e300, 0.1])), max_size=300), SEEDS)
@settings(max_examples=scaled(100))
def test_floats_are_summarised(values: list[float], seed: int) -> None:
    array = np.array(values, np.float64)
    mask, cuts = _runs(len(array), seed)
    out = np.full((len(cuts) - 1, 6), 9, np.uint64)
    same(summary_kernels, summary_plain, "summarise_floats", [array, array.view(np.int64), mask, cuts, out], [4])


@given(
    st.lists(st.binary(max_size=12) | st.sampled_from([b"", b"\0", b"same text", b"same texts"]), max_size=12), SEEDS
)
@settings(max_examples=scaled(200))
def test_texts_are_summarised(values: list[bytes], seed: int) -> None:
    data = np.frombuffer(b"".join(values), np.uint8)
    offsets = np.append(0, np.cumsum([len(each) for each in values])).astype(np.int64)
    mask, cuts = _runs(len(values), seed)
    out = np.full((len(cuts) - 1, 6), 9, np.uint64)
    same(summary_kernels, summary_plain, "summarise_text", [data, offsets, mask, cuts, out], [4])


def _runs(rows: int, seed: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """A mask, or none, and cuts."""
    random = np.random.default_rng(seed)
    mask = random.integers(0, 2, rows).astype(np.uint8) if random.integers(0, 2) else np.empty(0, np.uint8)
    return mask, np.sort(np.append(random.integers(0, rows + 1, 2), [0, rows])).astype(np.int64)


FIRST_QUESTION = """
import sys, tidelog
with tidelog.open(sys.argv[1], read_only=True) as store:
    found = store.stream("s").aggregate(None, None, ["count(*)", "avg(x)", "max(name)", "sum(n)", "min(ts)"])
loaded = {"numba", "llvmlite", "sqlglot", "pandas", "typer"} & set(sys.modules)
print(sorted(loaded), found["count(*)"], found["sum(n)"])
"""


@pytest.mark.parametrize("rows", [10, 3_000, 200_000])
@pytest.mark.parametrize("split", [None, 1_000_000])
def test_a_first_question_needs_no_compiler_and_no_grammar(tmp_path: Path, rows: int, split: int | None) -> None:
    schema = pa.schema([("ts", pa.int64()), ("x", pa.float64()), ("name", pa.string()), ("n", pa.int32())])
    with tidelog.open(tmp_path, maintenance="manual") as store:
        stream = store.create_stream("s", schema, "ts", **({} if split is None else {"split": split}))
        at = np.arange(rows)
        names = pa.array(at % 7).cast(pa.string())
        stream.append(pa.table({"ts": at * 100, "x": at / 8, "name": names, "n": at.astype(np.int32)}))
    done = subprocess.run([sys.executable, "-c", FIRST_QUESTION, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["[]", str(rows), str(rows * (rows - 1) // 2)], done.stderr
    command = [sys.executable, "-X", "importtime", "-m", "tidelog.cli", "aggregate", "count(*)", "avg(x)", "--format"]
    told = subprocess.run([*command, "json", "-s", tmp_path, "-n", "s"], capture_output=True, text=True, check=False)
    assert f'"count(*)": {rows}' in told.stdout
    loaded = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert "tidelog.engine.store" in loaded
    assert not loaded & {"numba", "llvmlite", "sqlglot"}


class TestStandingIn:
    @pytest.fixture
    def made(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        """A module of kernels in a package of its own, with one that stands in."""
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(lazy, "_PACKAGE", "stood_in.")
        monkeypatch.setattr(lazy, "_COMPILER", "stood_in.nothing")
        monkeypatch.setattr(lazy, "_plain_work", 0)
        monkeypatch.setattr(lazy, "MOST_PLAIN_WORK", 100)
        (tmp_path / "stood_in").mkdir()
        (tmp_path / "stood_in" / "__init__.py").touch()
        (tmp_path / "stood_in" / "kernels.py").write_text(
            "import stood_in\nstood_in.runs = 1\n"
            "def double(x):\n    return 'kernel', 2 * x\ndef other():\n    return 5\n"
        )
        (tmp_path / "stood_in" / "plain.py").write_text(
            "from tidelog.lazy import stands_in\n@stands_in(lambda x: x)\ndef double(x):\n    return 'plain', 2 * x\n"
            "def other():\n    return 6\n"
        )
        import stood_in  # type: ignore[import-not-found]
        from stood_in import kernels

        yield stood_in, kernels
        lazy._plain_modules.pop("stood_in.kernels", None)
        for name in ("stood_in.plain", "stood_in.kernels", "stood_in"):
            sys.modules.pop(name, None)

    def test_a_little_work_is_done_without_kernels(self, made: Any) -> None:
        package, kernels = made
        double = kernels.double
        assert [kernels.double(30), double(30), kernels.double(30)] == [("plain", 60)] * 3
        assert not hasattr(package, "runs")
        assert kernels.double(30) == ("kernel", 60), "with this it would be more than a little"
        assert package.runs == 1
        assert kernels.double(1) == double(1) == ("kernel", 2)

    def test_much_work_loads_them_at_once(self, made: Any) -> None:
        assert made[1].double(101) == ("kernel", 202)

    def test_only_what_says_so_stands_in(self, made: Any) -> None:
        assert made[1].other() == 5
        assert made[1].double(1) == ("kernel", 2)

    def test_nothing_stands_in_where_others_are_loaded(self, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lazy, "_COMPILER", "sys")
        assert made[1].double(1) == ("kernel", 2)
