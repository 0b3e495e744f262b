"""How much CPU a new process takes to its first answer: in Python and on the command line, against DuckDB in Python.

CPU seconds, user and system, of the child alone: on a busy machine they grow by half or so, where the clock would tell
nothing. Kernels and bytecode are there already, as after the first time. ``python benchmarks/startup.py --help`` tells
the options.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import tidelog
from harness import Bench, Bound, Comparison, Figures, Question, Sample, main, measure

FULL, QUICK = 1_000_000, 100_000
DUCKDB = "DuckDB in Python"
IMPORTS = "import pyarrow"
PYTHON_LIMIT = Bound(0.4, 0.3)
"""CPU seconds of ``import tidelog``, alone and with opening a store and one aggregate; judged at any size, which hardly
matters."""
COMMAND_LIMIT = Bound(0.6, 0.5)
"""The same by ``tidelog aggregate``."""

_ASK = """
import sys, tidelog
with tidelog.open(sys.argv[1], read_only=True) as store:
    print(store.stream("s").aggregate(None, None, ["count(*)", "avg(x)"])["count(*)"])
"""
_IMPORT = """
import sys, tidelog
assert "duckdb" not in sys.modules, "import tidelog has loaded DuckDB"
print(int(sys.argv[1]))
"""
_RANGE = """
import sys, tidelog
with tidelog.open(sys.argv[1], read_only=True) as store:
    print(store.stream("s").aggregate(7, None, ["count(*)", "avg(x)"])["count(*)"] + 7)
"""
_ASK_DUCKDB = """
import sys, duckdb
print(duckdb.connect(sys.argv[1], read_only=True).execute("SELECT count(*), avg(x) FROM s").fetchall()[0][0])
"""
_COMMAND = ["-m", "tidelog.cli", "aggregate", "count(*)", "avg(x)", "--format", "json", "--stream", "s", "--store"]


def ask(bench: Bench) -> None:
    """All questions about starting."""
    events = bench.size(FULL, QUICK)
    place = bench.workspace.fresh()
    store, table = str(place / "store"), str(place / "table.duckdb")
    values = pa.table({"ts": range(events), "x": pa.array(range(events), pa.float64())})
    with tidelog.open(store, maintenance="manual") as made:
        made.create_stream("s", pa.schema([("ts", pa.int64()), ("x", pa.float64())]), "ts").append(values)
    has_duckdb = _fill_duckdb(table, values)
    if not has_duckdb:
        bench.missing[DUCKDB] = "duckdb is not installed"
    # Bytecode is where an installation would have it, whatever the environment says.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(place / "bytecode")
    ours = {
        "import tidelog": ["-c", _IMPORT, str(events)],
        "first aggregate": ["-c", _ASK, store],
        "first aggregate of a range": ["-c", _RANGE, store],
        "tidelog aggregate": [*_COMMAND, store],
    }
    contestants = {
        **{name: command for name, command in ours.items() if bench.wants(name)},
        IMPORTS: ["-c", f"import pyarrow; print({events})"],
        **({DUCKDB: ["-c", _ASK_DUCKDB, table]} if has_duckdb else {}),
    }
    figures: dict[str, Figures] = {}
    runs: dict[str, list[tuple[float, Sample]]] = {name: [] for name in contestants}
    for repetition in range(-1, bench.repetitions):  # in turns, so that all of them meet the same weather
        for name, command in contestants.items():
            bench.on_progress(f"{name}: {repetition + 1} of {bench.repetitions}")
            run = measure(lambda command=command: _cpu_seconds(command, environment, events))  # type: ignore[misc]
            if repetition >= 0:
                runs[name].append(run)
    for name, found in runs.items():
        figures[name] = Figures(tuple(value for value, _ in found), tuple(sample for _, sample in found))
    peers = {name: figures[name] for name in (DUCKDB, IMPORTS) if name in figures}
    for name, limit in (
        ("import tidelog", PYTHON_LIMIT),
        ("first aggregate", PYTHON_LIMIT),
        ("first aggregate of a range", None),
        ("tidelog aggregate", COMMAND_LIMIT),
    ):
        if name in figures:
            comparisons = [Comparison("limit", (), limit), *(Comparison(peer, (peer,)) for peer in (DUCKDB, IMPORTS))]
            bench.answer(
                Question(name, "CPU seconds", events, figures[name], peers, comparisons, higher_is_better=False)
            )


def _fill_duckdb(path: str, values: pa.Table) -> bool:
    try:
        import duckdb
    except ImportError:
        return False
    with duckdb.connect(path) as connection:
        connection.register("given", values)
        connection.execute("CREATE TABLE s AS SELECT * FROM given")
    return True


def _cpu_seconds(arguments: list[str], environment: dict[str, str], events: int) -> float:
    """User and system seconds of a Python process, which must tell how many events there are."""
    told = Path(environment["PYTHONPYCACHEPREFIX"]).with_name("told")
    with told.open("wb") as output:
        process = subprocess.Popen([sys.executable, *arguments], stdout=output, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or str(events) not in told.read_text():
        raise RuntimeError(f"{arguments} ended with {process.returncode} and said {told.read_text()!r}")
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main("startup", ask, quick_repetitions=2))
