"""How conversion code says that a value does not fit, before it is known where that value stands."""

from __future__ import annotations

from tidelog.model.errors import InputError


class Misfit(Exception):
    """A value does not fit its column; ``row`` is its position in what was being converted.

    Internal: callers that know the column and the first row turn it into an :class:`InputError`.
    """

    def __init__(self, reason: str, row: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row

    def located(self, column: str, first_row: int = 0) -> InputError:
        """The error for users, when the converted values are those of ``column`` from ``first_row`` on."""
        row = first_row + self.row
        return InputError(f"column {column!r}, row {row}: {self.reason}", column=column, row=row)
