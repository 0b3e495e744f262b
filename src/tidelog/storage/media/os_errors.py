"""From an operating-system error to a :class:`StorageError` that says what to do."""

from __future__ import annotations

import errno

from tidelog.model.errors import StorageError

_HINTS = {
    errno.ENOSPC: "free space on the device",
    errno.EDQUOT: "free space under the quota or raise it",
    errno.EFBIG: "raise the file size limit of the process or of the file system",
    errno.EIO: "check the device; what was written since the last successful sync may be lost",
    errno.EROFS: "the file system is mounted read-only: open for reading, or remount it",
    errno.EACCES: "check the permissions of the file and of the directories above it",
    errno.EPERM: "check the permissions, and that the file system supports the operation",
    errno.EMFILE: "the process has too many open files: close some or raise the limit (ulimit -n)",
    errno.ENFILE: "the system has too many open files: close some or raise the limit (fs.file-max)",
    errno.ENOTSUP: "the file system does not support it: keep the store on a local file system",
    errno.ENOLCK: "the file system does not support locks: keep the store on a local file system",
    errno.EMLINK: "the file has too many hard links",
    errno.EXDEV: "both names must be on one file system",
    errno.ENODEV: "the file system does not support memory mapping: open it without",
}


def storage_error(action: str, error: OSError) -> StorageError:
    """A :class:`StorageError` with the errno of ``error``; ``action`` says what failed, with the file."""
    reason = error.strerror or str(error) or type(error).__name__
    hint = _HINTS.get(error.errno) if error.errno is not None else None
    failure = StorageError(f"cannot {action}: {reason}" + (f"; {hint}" if hint else ""))
    failure.errno = error.errno
    return failure
