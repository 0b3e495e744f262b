"""Fetch what a statement selects from a store, in batches, and print how many rows came: STORE STATEMENT."""

from __future__ import annotations

import sys

import tidelog

with tidelog.open(sys.argv[1], maintenance="manual") as store:
    print(sum(batch.num_rows for batch in store.sql(sys.argv[2]).reader()))
