"""Merges of whole batches: inputs that join and leave around a kernel, as in the reference's driver.

Payloads are numbers here, by which events of one start are in order; whoever calls keeps what they stand for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.model.errors import InputError
from tidelog.operators.merge import codes
from tidelog.operators.merge.batches import kernels
from tidelog.operators.merge.codes import (
    ADJUST,
    BEFORE,
    CAUSE,
    END,
    FREE,
    INSERT,
    JOIN,
    JOINED,
    KIND,
    LEFT,
    MAX_STABLE,
    MAX_START,
    NEVER,
    NUMBER,
    OUT_STABLE,
    PAYLOAD,
    PENDING,
    PHASE,
    REACHED,
    STABLE,
    TOP,
)
from tidelog.operators.merge.reference.driver import Counters, Phase
from tidelog.operators.state import State

Rows: TypeAlias = npt.NDArray[np.int64]
"""Elements as columns: their kinds, payloads, starts, ends and old ends; behind these, what they were given for."""

PHASES: Final[tuple[Phase, ...]] = ("pending", "joined", "left")
_FEWEST: Final = 64


@dataclass(frozen=True)
class Policy:
    """What is told before it is certain, as :mod:`tidelog.operators.merge.reference.policies` has it in words."""

    code: int = codes.LAZY
    share: float = 1.0
    delay: int = 0


class Conflict(Exception):  # it says where, and becomes an error that says what
    """A row is another event of a key and start that its input has already; those before it have been taken."""

    def __init__(self, name: str, start: int) -> None:
        super().__init__(name, start)
        self.name, self.start = name, start


class BatchMerge(ABC):
    """A merge of batches; see :class:`tidelog.operators.merge.reference.driver.Merge` for what is the same."""

    ordered = False
    """Whether a pending input's inserts wait until it has joined."""

    def __init__(self) -> None:
        self._columns: dict[str, int] = {}
        """The column of each input that is known by name."""
        self._count = 0
        self._names: set[str] = set()
        self._inputs = np.zeros((0, codes.INPUT_FIELDS), np.int64)
        self._merge = np.zeros(codes.MERGE_FIELDS, np.int64)
        self._merge[[MAX_STABLE, OUT_STABLE, codes.NEWEST, MAX_START]] = BEFORE
        self._merge[codes.LEADS] = -1
        self._nodes = np.full((4, _FEWEST), -1, np.int64)
        self._ends = np.full((_FEWEST, 0), BEFORE, np.int64)
        self._slots = np.zeros(2 * _FEWEST, np.int64)
        self._free = np.zeros(_FEWEST, np.int64)
        self._todo = np.zeros(_FEWEST, np.int64)
        self._waiting: dict[str, list[Rows]] = {}
        self._given: list[Rows] = []
        self._snapshots = 0

    @property
    def max_stable(self) -> int:
        """The largest stable of a joined input."""
        return int(self._merge[MAX_STABLE])

    @property
    def stable(self) -> int:
        """The last stable that was given."""
        return int(self._merge[OUT_STABLE])

    @property
    def size(self) -> int:
        """How many payloads and starts are remembered."""
        return int(self._merge[TOP] - self._merge[FREE])

    @property
    def first_start(self) -> int:
        """The least start that is remembered; :data:`NEVER` if there is none."""
        top = int(self._merge[TOP])
        return int(self._nodes[0, :top][self._nodes[1, :top] >= 0].min(initial=NEVER))

    @property
    def waits(self) -> bool:
        """Whether inserts wait until their input has joined."""
        return any(rows.shape[1] for each in self._waiting.values() for rows in each)

    @property
    def first_join(self) -> int | None:
        """The least time at which a pending input joins."""
        pending = self._inputs[self._inputs[:, PHASE] == PENDING, JOIN]
        return int(pending.min()) if len(pending) else None

    @property
    def memory(self) -> int:
        """The bytes of what is remembered, but for payloads."""
        return sum(each.nbytes for each in (self._nodes, self._ends, self._slots, self._free, self._todo))

    @property
    def names(self) -> list[str]:
        """The inputs that have not left."""
        return [name for name, column in self._columns.items() if self._inputs[column, PHASE] != LEFT]

    def progress(self) -> int:
        """How far the output is, for those who want to join."""
        return max(int(self._merge[MAX_STABLE]), int(self._merge[MAX_START])) if self.ordered else self.max_stable

    def phase(self, name: str) -> Phase:
        """Whether an input has joined."""
        return PHASES[int(self._inputs[self._column(name), PHASE])]

    def reached(self, name: str) -> int:
        """The last stable of an input."""
        return int(self._inputs[self._column(name), REACHED])

    def counters(self, name: str) -> Counters:
        """What is odd about an input."""
        own = self._inputs[self._column(name)]
        return Counters(
            *(
                int(own[each])
                for each in (codes.LATE, codes.FALLBACKS, codes.CLAMPS, codes.UNKNOWN_ENDS, codes.REPEATED_KEYS)
            )
        )

    def attach(self, name: str, join: int = BEFORE) -> None:
        """Take an input in, which has all events that end at ``join`` or later: everything, by default."""
        if name in self._names:
            raise InputError(f"there was an input {name!r} before; one that comes back needs another name")
        column = self._free_column()
        self._inputs[column] = 0
        is_joined = join == BEFORE or join <= self.progress()
        self._inputs[column, [PHASE, REACHED, NUMBER, JOIN]] = (
            JOINED if is_joined else PENDING,
            BEFORE,
            self._count,
            join,
        )
        self._count += 1
        self._names.add(name)
        self._columns[name] = column

    def _free_column(self) -> int:
        """The column of an input that has left and of which nothing is remembered, or a new one."""
        for name, column in self._columns.items():
            used = self._nodes[1, : self._merge[TOP]] >= 0
            entries = self._ends[: self._merge[TOP], column]
            if self._inputs[column, PHASE] == LEFT and (entries[used] == self._nothing).all():
                if self._merge[codes.LEADS] == column:
                    self._merge[codes.LEADS] = -1
                del self._columns[name]
                return column
        self._inputs = np.concatenate([self._inputs, np.zeros((1, codes.INPUT_FIELDS), np.int64)])
        self._ends = np.concatenate([self._ends, np.full((len(self._ends), 1), self._nothing, np.int64)], axis=1)
        return len(self._inputs) - 1

    _nothing = BEFORE
    """What an input has of a node that it does not have."""

    def detach(self, name: str) -> None:
        """Let an input go; whatever it still sends is dropped."""
        self._inputs[self._column(name), PHASE] = LEFT
        self._waiting.pop(name, None)

    def force_join(self, name: str) -> Rows:
        """Have a pending input join now; events that end before its join time may be missing in the output."""
        if self.phase(name) == "pending":
            self._join(name)
            self._promote()
        return self.take()

    def push(self, name: str, rows: Rows) -> Rows:
        """What comes out by the elements of an input.

        Raises :class:`Conflict` for a second event of a key, where rows tell by ``CHECK``; what came out by those
        before it is given by :meth:`take`.
        """
        column = self._column(name)
        if self._inputs[column, PHASE] == LEFT:
            return _none()
        self._check(rows)
        if self.ordered and self._inputs[column, PHASE] == PENDING:
            stables = rows[END, rows[KIND] == STABLE]
            if len(stables):
                self._inputs[column, REACHED] = max(int(self._inputs[column, REACHED]), int(stables.max()))
            self._waiting.setdefault(name, []).append(rows[:, rows[KIND] == INSERT])
        else:
            self._run(column, rows)
        return self.take()

    def _check(self, rows: Rows) -> None:
        if (rows[KIND] == ADJUST).any():
            raise InputError("found an adjust; this algorithm takes inserts alone: choose R3 or R4 for revisions")

    def _run(self, column: int, rows: Rows) -> None:
        rows = np.ascontiguousarray(rows)
        row, size = 0, rows.shape[1]
        while row < size:
            self._make_room(size - row)
            out = np.empty((CAUSE + 1, size - row + self._most_changes() + 1), np.int64)
            places = np.zeros(2, np.int64)
            stops = int((self._inputs[:, PHASE] == PENDING).any())
            why = self._call(rows, row, column, stops, out, places)
            row = int(places[0])
            if places[1]:
                self._given.append(out[:, : places[1]])
            if why == codes.MOVED:
                self._promote()
            elif why == codes.CONFLICT:
                raise Conflict(self._name(column), int(rows[codes.START, row]))

    def _name(self, column: int) -> str:
        return next(name for name, own in self._columns.items() if own == column)

    def _most_changes(self) -> int:
        """How many elements a stable can give at the most, besides itself."""
        return self.size

    @abstractmethod
    def _call(self, rows: Rows, row: int, column: int, stops: int, out: Rows, places: Rows) -> int:
        """Call the kernel."""

    def _make_room(self, rows: int) -> None:
        """Room for as many more nodes as there are rows."""
        need = self.size + rows
        if need > self._nodes.shape[1]:
            self._resize(max(2 * self._nodes.shape[1], need + need // 2))

    def _resize(self, capacity: int) -> None:
        top = int(self._merge[TOP])
        used = np.flatnonzero(self._nodes[1, :top] >= 0)
        nodes = np.full((4, capacity), -1, np.int64)
        nodes[:, : len(used)] = self._nodes[:, used]
        ends = np.full((capacity, self._ends.shape[1]), self._nothing, np.int64)
        ends[: len(used)] = self._ends[used]
        self._nodes, self._ends = nodes, ends
        self._slots = np.zeros(1 << (2 * capacity - 1).bit_length(), np.int64)
        self._free, self._todo = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
        self._merge[TOP], self._merge[FREE] = len(used), 0
        kernels.index_nodes(self._nodes, self._slots, len(used))

    def _join(self, name: str) -> None:
        column, given = self._column(name), len(self._given)
        self._inputs[column, PHASE] = JOINED
        for rows in self._waiting.pop(name, []):
            self._run(column, rows)
        reached = int(self._inputs[column, REACHED])
        if reached > self.max_stable:
            self._run(column, stable_rows(reached))
        for rows in self._given[given:]:
            rows[CAUSE] = -1

    def _promote(self) -> None:
        again = True
        while again:
            again = False
            for name, column in sorted(self._columns.items(), key=lambda each: int(self._inputs[each[1], NUMBER])):
                own = self._inputs[column]
                if own[PHASE] == PENDING and int(own[JOIN]) <= self.progress():
                    self._join(name)
                    again = True

    def _column(self, name: str) -> int:
        if name not in self._columns:
            told = "has left, and nothing is known of it any more" if name in self._names else "was never attached"
            raise InputError(f"the input {name!r} {told}; attach one under another name")
        return self._columns[name]

    def take(self) -> Rows:
        """What has come out and was not given."""
        given, self._given = self._given, []
        return _none() if not given else given[0] if len(given) == 1 else np.concatenate(given, axis=1)

    def payloads(self) -> npt.NDArray[np.int64]:
        """The payloads that are remembered, perhaps several times."""
        known = [
            self._nodes[1, : self._merge[TOP]],
            *(rows[PAYLOAD] for each in self._waiting.values() for rows in each),
        ]
        found = np.concatenate(known)
        return found[found >= 0]

    def snapshot(self) -> State:
        """All that is known."""
        self._snapshots += 1
        top = int(self._merge[TOP])
        used = np.flatnonzero(self._nodes[1, :top] >= 0)
        waiting = {name: np.concatenate(rows, axis=1) for name, rows in self._waiting.items()}
        core: dict[str, Any] = {
            "columns": self._columns,
            "names": sorted(self._names),
            "count": self._count,
            "snapshots": self._snapshots,
            "inputs": self._inputs.tolist(),
            "merge": self._merge.tolist(),
            "nodes": len(used),
            "waiting": {name: rows.shape[1] for name, rows in waiting.items()},
        }
        parts = [self._nodes[:, used], self._ends[used], *waiting.values()]
        whole = np.concatenate([np.ascontiguousarray(part).ravel() for part in parts])
        return State(core, {f"nodes {self._snapshots}": pa.py_buffer(whole.tobytes())})

    def restore(self, state: State) -> None:
        """Go on from a snapshot."""
        core = state.core
        self._columns, self._names = dict(core["columns"]), set(core["names"])
        self._count, self._snapshots = core["count"], core["snapshots"]
        self._inputs = np.array(core["inputs"], np.int64).reshape(-1, codes.INPUT_FIELDS)
        self._merge = np.array(core["merge"], np.int64)
        whole = np.frombuffer(state.chunks[f"nodes {self._snapshots}"], np.int64)
        count, columns = core["nodes"], len(self._inputs)
        self._nodes = whole[: 4 * count].reshape(4, count)
        self._ends = whole[4 * count : (4 + columns) * count].reshape(count, columns)
        self._merge[TOP], self._merge[FREE] = count, 0
        place = (4 + columns) * count
        for name, size in core["waiting"].items():
            self._waiting[name] = [whole[place : place + 5 * size].reshape(5, size).copy()]
            place += 5 * size
        self._resize(max(2 * count, _FEWEST))


class Keyed(BatchMerge):
    """R3."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__()
        self._policy = policy or Policy()

    def _check(self, rows: Rows) -> None:
        """All kinds of elements are taken."""

    def _call(self, rows: Rows, row: int, column: int, stops: int, out: Rows, places: Rows) -> int:
        policy = self._policy
        why: int = kernels.merge_keyed(
            rows, row, column, policy.code, policy.share, policy.delay, stops, self._nodes, self._ends, self._slots,
            self._free, self._todo, self._inputs, self._merge, out, places,
        )  # fmt: skip
        return why


class Ordered(BatchMerge):
    """R0, R1, R2 and R2dup, by how events of one start are told from one another."""

    ordered = True
    _nothing = 0

    def __init__(self, ties: int) -> None:
        super().__init__()
        self._ties = ties

    def _call(self, rows: Rows, row: int, column: int, stops: int, out: Rows, places: Rows) -> int:
        why: int = kernels.merge_ordered(
            rows, row, column, self._ties, stops, self._nodes, self._ends, self._slots, self._free, self._inputs,
            self._merge, out, places,
        )  # fmt: skip
        return why


class Disordered(BatchMerge):
    """R2d and, where events are counted, R2ddup."""

    _nothing = 0

    def __init__(self, *, counted: bool = False) -> None:
        super().__init__()
        self._ties = codes.COUNTED if counted else codes.DISTINCT

    def _call(self, rows: Rows, row: int, column: int, stops: int, out: Rows, places: Rows) -> int:
        why: int = kernels.merge_disordered(
            rows, row, column, self._ties, stops, self._nodes, self._ends, self._slots, self._free, self._inputs,
            self._merge, out, places,
        )  # fmt: skip
        return why


def stable_rows(time: int) -> Rows:
    """A stable."""
    return np.array([[STABLE], [0], [BEFORE], [time], [BEFORE]], np.int64)


def rows_of(elements: Sequence[Sequence[Any]]) -> Rows:
    """Elements, whose payloads are numbers, as columns."""
    if not elements:
        return np.empty((5, 0), np.int64)
    return np.array([(kind, payload or 0, start, end, old) for kind, payload, start, end, old in elements], np.int64).T


def _none() -> Rows:
    return np.empty((CAUSE + 1, 0), np.int64)
