"""The operator in the way of ISEQ: the same derivation, buffers and output as ours, another search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from questions.situations.iseq import kernels
from tidelog.operators.base import Shape
from tidelog.operators.situations.checks import relations_of
from tidelog.operators.situations.matching import Matcher
from tidelog.operators.situations.operator import SituationsOperator
from tidelog.operators.situations.syntax import Mode, Situations

NAME = "ISEQ"


class _Scanning(Matcher):
    def find(self, *arguments: Any) -> None:
        """Scan."""
        kernels.scan_matches(*arguments)


def operator_of(table: pa.Table, query: Situations) -> SituationsOperator:
    """The operator of a query, whose matches come out at their last ends."""
    query = replace(query, mode=Mode.COMPLETED)
    found = SituationsOperator(Shape(table.schema, "t"), query)
    found.matcher = _Scanning(query, relations_of(query), found.matcher.derived)
    found.use_threads(1)
    return found
