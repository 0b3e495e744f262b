from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

from harness import Sample, measure, peak_private_memory
from harness.measuring import own_cpu_seconds, with_servants

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


def test_cpu_time_counts_children() -> None:
    own = time.process_time()
    _, sample = measure(lambda: subprocess.run([sys.executable, "-c", BUSY], check=True))
    assert sample.cpu >= 0.3
    assert sample.wall >= 0.3
    assert time.process_time() - own < 0.3


def test_cpu_time_counts_all_threads() -> None:
    start = own_cpu_seconds()
    matrix = np.ones((300, 300))
    _, sample = measure(lambda: matrix @ matrix, loops=3)
    assert sample.loops == 3
    assert 0 < sample.cpu * 3 <= own_cpu_seconds() - start


def test_the_work_of_another_process_is_seen() -> None:
    # Started before and waited for after the measurement: it is not ours.
    code = "import sys, time\nprint(flush=True)\nwhile time.process_time() < 60: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()

        def work() -> None:
            start = time.process_time()
            while time.process_time() - start < 0.4:
                pass

        _, sample = measure(work)
        other.kill()
    assert sample.others > 0.1
    assert sample.disturbed


def test_the_work_of_servants_is_own_work_even_if_they_go_on() -> None:
    busy = "end = time.process_time() + 0.3\n    while time.process_time() < end: pass"
    code = f"import sys, time\nfor _ in sys.stdin:\n    {busy}\n    print(flush=True)"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as servant:
        assert servant.stdin is not None
        assert servant.stdout is not None

        def work() -> None:
            servant.stdin.write(b"work\n")
            servant.stdin.flush()
            servant.stdout.readline()

        with with_servants():
            _, counted = measure(work)
        _, not_counted = measure(work)
        servant.stdin.close()
    assert counted.cpu > 0.2
    assert not_counted.cpu < 0.2
    assert not_counted.others > 0.2


def test_a_few_ticks_are_no_disturbance() -> None:
    assert not Sample(wall=0.01, cpu=0.01, others=0.03, steal=0.0).disturbed
    assert Sample(wall=1.0, cpu=1.0, others=0.1, steal=0.1).disturbed
    assert not Sample(wall=1.0, cpu=1.0, others=0.1, steal=0.0).disturbed
    assert Sample(wall=0.01, cpu=0.01, others=0.02, steal=0.0, loops=10).disturbed


def test_private_memory_is_seen_at_its_peak() -> None:
    with peak_private_memory() as risen:
        memory = np.ones(64 << 20, np.uint8)
        assert risen() >= 60 << 20
        del memory
    assert risen() >= 60 << 20
