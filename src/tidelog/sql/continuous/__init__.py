"""Continuous queries: statements that are asked of what arrives as well as of history, as plans of operators.

What one may contain is the list here, and anything else is an error that names it:

* ``SELECT`` of columns, ``*``, and expressions (docs/expressions.md), one of which is the time of the rows as it is;
* ``FROM`` a stream, or a query in parentheses that is such a query itself;
* ``FROM TUMBLE(...)``, ``HOP`` or ``SESSION``: rows with their windows;
* ``FROM WINDOW_JOIN(TABLE ..., TABLE ..., ...)``, and ``a ASOF [NEAREST] [LEFT] JOIN b ... [TOLERANCE ...]``, of
  streams and queries in parentheses;
* ``FROM LOGICAL_MERGE(TABLE ..., TABLE ..., ...)``: one stream of several copies of it;
* ``FROM stream MATCH_RECOGNIZE (...)``: matches of a row pattern, as soon as they are certain, with the time at which
  they were, ``match_time``;
* ``JOIN`` and ``LEFT JOIN`` with a table that is given, by equal columns;
* ``WHERE`` a condition;
* ``GROUP BY`` windows, ``window``, ``session_window`` or ``count_window``, or the ``window_start, window_end`` of
  ``TUMBLE`` and the like, perhaps beside other expressions, with aggregates and ``HAVING``: a row for each window, when
  the watermark has passed its end;
* ``UNION ALL`` of such, which gives their rows in the order of time.

Constants may be parameters. Rows keep their time, and their numbers, ``_seq``, until they are united or joined.
"""

from tidelog.sql.continuous.plans import Continuous
from tidelog.sql.continuous.reading import read_continuous

__all__ = ["Continuous", "read_continuous"]
