"""How fast is the search for a pattern beside other engines that know sequences: Flink SQL and Siddhi?

Neither can live in this environment, so they take part only where they are named: ``BENCH_FLINK_PYTHON`` is a Python
with ``apache-flink``, ``BENCH_SIDDHI_JARS`` a folder with the jars of Siddhi (the wheel ``PySiddhi`` has them), beside
a ``javac`` and a ``java``. They are timed by themselves, within processes of their own, the second time they search.

All of them have to find as many matches, or there is no answer. No row fits two variables of the pattern, so that it
makes no difference what an engine does about matches that overlap, or which it prefers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv as pv

from harness import Bench, Bound, Comparison, Figures, Question
from questions.patterns import clauses
from tidelog.operators.rowpattern.evaluate import evaluate

FLINK, SIDDHI = "Flink SQL", "Siddhi"
TITLES: Final = {FLINK: "a run beside Flink", SIDDHI: "a run beside Siddhi"}
PLACES: Final = {FLINK: "BENCH_FLINK_PYTHON", SIDDHI: "BENCH_SIDDHI_JARS"}

_CHILD: Final = Path(__file__).parents[2] / "children" / "flink_pattern.py"
_JAVA: Final = """
import io.siddhi.core.*;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.nio.file.*;
import java.util.*;

public class Search {
    static long found = 0;

    public static void main(String[] arguments) throws Exception {
        List<String> lines = Files.readAllLines(Path.of(arguments[0]));
        Object[][] rows = new Object[lines.size()][];
        for (int at = 0; at < rows.length; at++) {
            String[] parts = lines.get(at).split(",");
            rows[at] = new Object[] {Long.parseLong(parts[0]), Long.parseLong(parts[2]), Double.parseDouble(parts[3])};
        }
        SiddhiAppRuntime runtime = new SiddhiManager().createSiddhiAppRuntime(
            "define stream S (t long, symbol long, price double);"
            + "from every a=S[symbol == 1L], b=S[symbol >= 2L and symbol < 20L]+, c=S[symbol >= 24L]"
            + " select a.t as f, c.t as l, c.price as price insert into Found;");
        runtime.addCallback("Found", new StreamCallback() {
            @Override
            public void receive(Event[] events) {
                found += events.length;
            }
        });
        InputHandler input = runtime.getInputHandler("S");
        runtime.start();
        double seconds = 0;
        for (int round = 0; round < 2; round++) {
            found = 0;
            long began = System.nanoTime();
            for (Object[] row : rows) input.send(row.clone());
            seconds = (System.nanoTime() - began) / 1e9;
        }
        System.out.println(seconds + " " + found);
        System.exit(0);
    }
}
"""


def ask(bench: Bench, events: int, engine: str, bound: Bound) -> None:
    """Time an engine and ours in turns, over the same rows: of a file for Flink, which reads one, else in memory."""
    with tempfile.TemporaryDirectory(dir=bench.workspace.root) as folder:
        path = Path(folder) / "rows.csv"
        table = clauses.rows(events)
        pv.write_csv(table, path, pv.WriteOptions(include_header=False))
        mine, theirs = _raced(bench.repetitions, path if engine == FLINK else table, engine, _ENGINES[engine](path))
    rates = Figures(tuple(events / 1e3 / seconds for seconds in mine))
    peers = {engine: Figures(tuple(events / 1e3 / seconds for seconds in theirs))} if theirs else {}
    note = "the same number of matches" if peers else f"{engine} is missing: {PLACES[engine]} does not say where it is"
    comparisons = [Comparison(engine, (engine,), bound)] if peers else []
    bench.answer(Question(TITLES[engine], "k rows/s", events, rates, peers, comparisons, note=note))


def _raced(
    repetitions: int, rows: Path | pa.Table, engine: str, search: Callable[[], tuple[float, int]] | None
) -> tuple[list[float], list[float]]:
    mine, theirs = [], []
    matches = _search(rows)  # to warm up
    for _ in range(repetitions):
        began = time.perf_counter()
        _search(rows)
        mine.append(time.perf_counter() - began)
        if search is not None:
            seconds, found = search()
            if found != matches:
                raise RuntimeError(f"{engine} finds {found:,} matches where there are {matches:,}")
            theirs.append(seconds)
    return mine, theirs


def _search(rows: Path | pa.Table) -> int:
    if isinstance(rows, Path):
        rows = pv.read_csv(rows, pv.ReadOptions(column_names=clauses.SCHEMA.names)).cast(clauses.SCHEMA)
    found = evaluate(clauses.disjoint(), rows.to_batches(max_chunksize=clauses.BATCH))
    return sum(batch.num_rows for batch in found)


def _flink(path: Path) -> Callable[[], tuple[float, int]] | None:
    python = os.environ.get(PLACES[FLINK])
    return None if python is None else lambda: _seconds([python, str(_CHILD), str(path)])


def _siddhi(path: Path) -> Callable[[], tuple[float, int]] | None:
    jars = os.environ.get(PLACES[SIDDHI])
    if jars is None:
        return None
    folder = path.parent / "siddhi"
    folder.mkdir(exist_ok=True)
    source = folder / "Search.java"
    source.write_text(_JAVA)
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac is None or java is None:
        raise RuntimeError("Siddhi wants javac and java on the PATH")
    subprocess.run([javac, "-cp", f"{jars}/*", "-d", str(folder), str(source)], check=True, capture_output=True)
    return lambda: _seconds([java, "-cp", f"{jars}/*:{folder}", "Search", str(path)])


def _seconds(command: list[str]) -> tuple[float, int]:
    """How long a search took, and how many matches it found."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, matches = done.stdout.strip().splitlines()[-1].split()
    return float(seconds), int(matches)


_ENGINES: Final = {FLINK: _flink, SIDDHI: _siddhi}
