"""Small containers with known content, for tests of what survives."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pyarrow as pa

from support.media.recording import RecordingMedium
from tidelog.storage import Commit, Container, ContainerReader, Medium, Options

NAME = "events.tl"

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.timestamp("us"), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("text", pa.string()),
    ]
)

TINY = Options(leaf_rows=8, run_rows=16, macro_size=8192, fanout=3, commit_every=1 << 30)
"""So small that a few blocks make split frames, several macro blocks and three levels of address pages."""


def batch(dice: random.Random, rows: int) -> pa.RecordBatch:
    """Rows with nulls and text; now and then one so long that the frame does not fit a macro block."""
    long = "".join(dice.choices("abcdefgh0123456789", k=dice.choice([20, 3000, 12000])))
    return pa.record_batch(
        [
            pa.array(sorted(dice.randrange(1 << 40) for _ in range(rows)), pa.timestamp("us")),
            pa.array([dice.choice([None, round(dice.uniform(-9, 9), 2), dice.random()]) for _ in range(rows)]),
            pa.array([dice.choice([None, "", "up", "down", long]) for _ in range(rows)], pa.string()),
        ],
        schema=SCHEMA,
    )


@dataclass
class Expected:
    """What a container must hold: the model that tests compare with."""

    appended: list[pa.RecordBatch | bytes] = field(default_factory=list)
    updates: list[tuple[int, dict[int, pa.RecordBatch | bytes]]] = field(default_factory=list)
    """(number of the flush that covers them, new contents by id)."""
    pending: dict[int, pa.RecordBatch | bytes] = field(default_factory=dict)

    def flushed(self, commit: Commit) -> None:
        if self.pending:
            self.updates.append((commit.number, self.pending))
            self.pending = {}

    def at(self, commit: Commit) -> list[pa.RecordBatch | bytes]:
        """The blocks at a commit."""
        blocks = self.appended[: commit.next_id]
        for number, contents in self.updates:
            if number <= commit.number:
                for id, content in contents.items():
                    blocks[id] = content
        return blocks


class History:
    """Writes a container at random, keeping the model, and marks in the medium's log what each flush acknowledged."""

    def __init__(self, medium: RecordingMedium, seed: int, options: Options = TINY) -> None:
        self.medium = medium
        self.options = options
        self.expected = Expected()
        self._dice = random.Random(seed)
        self._container = Container.create(medium, NAME, SCHEMA, options)
        medium.mark(0)

    def run(self, steps: int) -> Expected:
        """Take random steps, then flush and close."""
        for _ in range(steps):
            self._dice.choice(
                [self.append, self.append, self.extend, self.node, self.update, self.flush, self.flush, self.reopen]
            )()
        self.flush()
        self._container.close()
        return self.expected

    def abandon(self) -> None:
        """Free what a failed run holds, without flushing."""
        self._container.close()

    def append(self) -> None:
        content = batch(self._dice, self._dice.randrange(1, 12))
        assert self._container.append(content) == len(self.expected.appended)
        self.expected.appended.append(content)

    def extend(self) -> None:
        content = batch(self._dice, self._dice.randrange(0, 40))
        leaves = [content.slice(at, self.options.leaf_rows) for at in range(0, len(content), self.options.leaf_rows)]
        first = len(self.expected.appended)
        assert self._container.extend(content) == range(first, first + len(leaves))
        self.expected.appended.extend(leaves)

    def node(self) -> None:
        content = self._dice.choice([b"", b"ab" * 4000, self._dice.randbytes(30), self._dice.randbytes(5000)])
        assert self._container.append(content) == len(self.expected.appended)
        self.expected.appended.append(content)

    def update(self) -> None:
        if not self.expected.appended:
            return
        id = self._dice.randrange(len(self.expected.appended))
        is_node = isinstance(self.expected.appended[id], bytes)
        content = self._dice.randbytes(700) if is_node else batch(self._dice, self._dice.randrange(1, 12))
        self._container.update(id, content)
        self.expected.pending[id] = content

    def flush(self) -> None:
        commit = self._container.flush(meta=self._dice.randbytes(3))
        self.expected.flushed(commit)
        self.medium.mark(commit.number)

    def reopen(self) -> None:
        self.flush()
        self._container.close()
        self._container = Container.open(self.medium, NAME, self.options)


def assert_scans(container: Container | ContainerReader, blocks: list[pa.RecordBatch | bytes]) -> None:
    """The leaves come out of a scan as they went in."""
    assert container.blocks == len(blocks)
    reader = container.view() if isinstance(container, Container) else container
    leaves = [content for content in blocks if not isinstance(content, bytes)]
    scanned = pa.Table.from_batches(reader.scan(), SCHEMA)
    assert scanned.equals(pa.Table.from_batches(leaves, SCHEMA))


def assert_holds(container: Container | ContainerReader, blocks: list[pa.RecordBatch | bytes]) -> None:
    """Every block is there and equal, one by one and in a scan."""
    assert_scans(container, blocks)
    reader = container.view() if isinstance(container, Container) else container
    for id, content in enumerate(blocks):
        if isinstance(content, bytes):
            assert container.read_node(id) == content
        else:
            assert reader.read(id).equals(content)


def reopened(medium: Medium, options: Options = TINY) -> Container:
    return Container.open(medium, NAME, options)
