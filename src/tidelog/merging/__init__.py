"""Logical merge of streams in memory: one stream out of physically different copies of it (docs/merging.md).

:func:`merge` is also ``tidelog.merge``. A stream is an iterable of Arrow batches, of plain events or of *elements*, by
which events are inserted, adjusted and declared stable; the functions ``from_…`` make elements of other models, and
:func:`reconstitute` tells which events a stream of elements stands for.
"""

from __future__ import annotations

from tidelog.merging.adapters import from_add_modify_finalize, from_changes, from_open_close, from_snapshots
from tidelog.merging.merged import Merged, MergeStats, RepeatsWarning, merge
from tidelog.merging.reconstitution import reconstitute
from tidelog.merging.sources import Source
from tidelog.merging.stored import stored
from tidelog.operators.feedback import Flow, Scan
from tidelog.operators.merge.columns import element_shape
from tidelog.operators.merge.errors import (
    BehindStableError,
    DisagreementError,
    MergeError,
    OrderError,
    RepeatedKeyError,
    RevisionError,
)
from tidelog.operators.properties import Order, Properties

__all__ = [
    "BehindStableError",
    "DisagreementError",
    "Flow",
    "MergeError",
    "MergeStats",
    "Merged",
    "Order",
    "OrderError",
    "Properties",
    "RepeatedKeyError",
    "RepeatsWarning",
    "RevisionError",
    "Scan",
    "Source",
    "element_shape",
    "from_add_modify_finalize",
    "from_changes",
    "from_open_close",
    "from_snapshots",
    "merge",
    "reconstitute",
    "stored",
]
