"""What is said after a change of a tail has ended before its time."""

from __future__ import annotations

from tidelog.model.errors import NotStoredError, StorageError, TidelogError


def refusal(failure: BaseException) -> StorageError:
    """What is said to whoever comes after a failure."""
    error = StorageError(
        f"the stream had a failure before ({_told(failure)}); what was flushed is safe: close it, and open it again"
    )
    error.errno = getattr(failure, "errno", None)
    return error


def not_stored(name: str, rows: int, failure: BaseException | None) -> NotStoredError:
    """What is said of rows that stream ``name`` has accepted and that are not known to be stored."""
    reason = "its rows were given up" if failure is None else _told(failure)
    error = NotStoredError(
        f"{rows} rows that were appended to stream {name!r} since the last flush are not known to be stored "
        f"({reason}); what was flushed is safe. Open the stream again (store.stream({name!r})), look what it has, and "
        "append the others once more",
        rows=rows,
    )
    error.errno = getattr(failure, "errno", None)
    error.__cause__ = failure
    return error


def _told(failure: BaseException) -> str:
    """A failure in a few words; interrupts have only their name."""
    return str(failure) if isinstance(failure, TidelogError) else f"{type(failure).__name__} {failure}".rstrip()
