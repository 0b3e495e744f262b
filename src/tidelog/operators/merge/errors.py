"""What inputs of a merge can be found out at: promises that an input breaks, by itself or beside others."""

from __future__ import annotations

from tidelog.model.errors import InputError


class MergeError(InputError):
    """An input of a merge is not what it is said to be; nothing of the batch was taken. ``input`` is its name."""

    def __init__(self, message: str, *, input: str, row: int | None = None) -> None:
        super().__init__(f"input {input!r}: {message}", row=row)
        self.input = input


class BehindStableError(MergeError):
    """An element speaks of times that the input itself has said to be settled."""


class OrderError(MergeError):
    """Events of an input are not in the order that the algorithm needs."""


class RevisionError(MergeError):
    """An input that is said to have inserts alone adjusts an event."""


class RepeatedKeyError(MergeError):
    """An input has two events of one key and start."""


class DisagreementError(MergeError):
    """Two inputs differ in what both have said to be settled: they are not copies of one stream."""
