"""Real processes on real files, all committing at once: nothing is lost, and everybody sees it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from support.children import child
from tidelog.storage.media.file_medium import FileMedium
from tidelog.store.catalogue import Catalogue
from tidelog.store.manifest.manifest import ManifestLog

PROCESSES, COMMITS, STREAMS = 3, 25, 4

SCRIPT = """
import pyarrow as pa
from tidelog.model import Schema
from tidelog.model.errors import ExistsError
from tidelog.store.catalogue import Catalogue
from tidelog.store.manifest.manifest import Change

def say(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()

root, me, commits, streams = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
say("ready")
sys.stdin.readline()
catalogue = Catalogue.create(FileMedium(root))  # all at once
schema = Schema(pa.schema([("ts", pa.int64())]), "ts")
for i in range(streams):
    try:
        catalogue.create_stream(f"s{i}", schema)
        say(f"created s{i}")
    except ExistsError:
        pass
log = catalogue.manifests(catalogue.find("s0"))
for i in range(commits):
    made = log.commit(lambda manifest: Change(next_seq=manifest.next_seq + 1, transactions={me: i}))
    assert made.transactions[me] == i
    say(f"made {made.number}")
"""


def test_nothing_is_lost(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with ExitStack() as stack:
        workers = [stack.enter_context(child(SCRIPT, root, f"p{i}", COMMITS, STREAMS)) for i in range(PROCESSES)]
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("go\n")
            worker.stdin.flush()
        # Meanwhile this process reads, and must never see less than it saw before, nor half of a commit.
        said: list[str] = []
        log: ManifestLog | None = None
        seen = 0
        for worker in workers:
            assert worker.stdout is not None
            for line in worker.stdout:
                said.append(line.strip())
                if log is None and line.startswith("made"):
                    catalogue = Catalogue.open(FileMedium(root))
                    log = catalogue.manifests(catalogue.find("s0"))
                if log is not None:
                    manifest = log.load()
                    assert manifest.number >= seen
                    assert (
                        manifest.next_seq == manifest.number - 1 == sum(n + 1 for n in manifest.transactions.values())
                    )
                    seen = manifest.number
                    if line.startswith("made"):
                        assert seen >= int(line.split()[1])
        assert [worker.wait() for worker in workers] == [0] * PROCESSES
    created = [line for line in said if line.startswith("created")]
    assert sorted(created) == [f"created s{i}" for i in range(STREAMS)]
    made = sorted(int(line.split()[1]) for line in said if line.startswith("made"))
    assert made == list(range(2, PROCESSES * COMMITS + 2))
    catalogue = Catalogue.open(FileMedium(root))
    manifest = catalogue.manifests(catalogue.find("s0")).load()
    assert manifest.transactions == {f"p{i}": COMMITS - 1 for i in range(PROCESSES)}
    assert catalogue.check() == []
    assert catalogue.orphans() == []
    assert not [name for name in catalogue.medium.names() if name.endswith(".tmp")]
