"""Any operator over DataFrames: a job where they are all there, a streaming query where they are streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tidelog.model.arguments import found, integer, names, one_of, text
from tidelog.model.errors import InputError, SchemaError
from tidelog.operators.base import Operator
from tidelog.spark.operators.batch import (
    behind_marked_keys,
    first_of,
    marked_keys,
    marking_keys_of,
    prepared,
    rest_of,
    run_batch,
)
from tidelog.spark.operators.columns import delay_of, shape_of
from tidelog.spark.operators.inputs import Input, check_names, checked
from tidelog.spark.operators.streaming import METRICS, SHARES, Continuing, run_rowwise, run_streaming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MakeOf: TypeAlias = Callable[..., Operator]
"""Gives a new operator for the shapes of its inputs, always an equal one."""
Late: TypeAlias = Literal["drop", "keep"]

LATE_RULES: Final = ("drop", "keep")
_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKS_DB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The state store without which Spark has no ``transformWithState``."""


def run_operator(
    frames: DataFrame | Sequence[DataFrame],
    make: MakeOf,
    *,
    time: str | Sequence[str] | None = None,
    lateness: Any = None,
    late: Late = "drop",
    idle_timeout: float | None = None,
    tasks: int | None = None,
    imports: Sequence[str] = (),
    metrics: str = METRICS,
) -> DataFrame:
    """What comes out of a continuous operator for the rows of one or several DataFrames, batches or streams.

    ``make`` is called with the shape of each input, and gives a new operator, always an equal one; it is pickled, and
    ``imports`` are modules that tasks import before. ``time`` is the column of time, of all inputs or of each; without
    it that with a watermark, that of a stream of tidelog's, or the only timestamp. Rows without a time are left out.
    Rows of one time are in the order of ``_seq``, if there is such a column.

    An operator that has keys is divided by them; one that looks only so far behind and ahead, by ranges of time, for
    which the inputs are read once at the call; others are run by one task. ``tasks`` is how many there are; of a
    streaming query it must not change as long as its checkpoint is used.

    Of streams, ``lateness`` is how far behind the newest row others may be, for all inputs or for each: a text such as
    ``"10m"``, or ticks; by default the delay of the DataFrame's watermark, or zero. Rows later than that are dropped
    and counted: ``observedMetrics`` of a query's progress has, under ``metrics``, ``rows``, ``late_rows`` and
    ``state_bytes``. With ``late="keep"`` they come out too, in a column ``_late``, a struct with a field for each
    input, which is null for all other rows. ``idle_timeout`` is after how many seconds an input that is silent no
    longer holds the others back.

    Raises :class:`InputError` and :class:`SchemaError` for what cannot be run.
    """
    return run_query(
        frames,
        make,
        "",
        time=time,
        lateness=lateness,
        late=late,
        idle_timeout=idle_timeout,
        tasks=tasks,
        imports=imports,
        metrics=metrics,
    )


def run_query(
    frames: DataFrame | Sequence[DataFrame],
    make: MakeOf,
    query: str,
    *,
    time: str | Sequence[str] | None,
    lateness: Any,
    late: Late,
    idle_timeout: float | None = None,
    tasks: int | None,
    imports: Sequence[str],
    metrics: str,
) -> DataFrame:
    """:func:`run_operator` for a query of ours, whose text says what its state is of."""
    inputs = inputs_of(frames, time)
    shapes = [each.shape for each in inputs]
    one_of("late", late, LATE_RULES)
    modules = names("imports", imports, "module")
    if tasks is not None:
        tasks = integer("tasks", tasks, 1)
    if idle_timeout is not None and (isinstance(idle_timeout, bool) or not isinstance(idle_timeout, int | float)):
        raise found("idle_timeout", idle_timeout, "seconds, as a number")
    return run(
        inputs,
        partial(make, *shapes),
        lateness=_lateness(lateness, inputs),
        late=late,
        idle_timeout=idle_timeout,
        tasks=tasks,
        imports=modules,
        metrics=text("metrics", metrics),
        query=query,
    )


def run(
    inputs: Sequence[Input],
    make: Callable[[], Operator],
    *,
    lateness: Sequence[int] = (),
    late: Late = "drop",
    idle_timeout: float | None = None,
    tasks: int | None = None,
    imports: Sequence[str] = (),
    metrics: str = METRICS,
    query: str = "",
) -> DataFrame:
    """:func:`run_operator` for inputs whose shapes are known; ``lateness`` in ticks, for each.

    ``query`` is a text that must not change as long as there is a state.
    """
    kinds = {each.frame.isStreaming for each in inputs}
    if len(kinds) > 1:
        raise InputError("some inputs are streams, and others are not; expected either")
    checked(inputs)
    if kinds == {False}:
        return run_batch(inputs, make, tasks=tasks, imports=imports)
    needs = make().needs
    allowed = tuple(lateness) or (0,) * len(inputs)
    is_plain = late == "drop" and all(each.beat is None and each.place is None for each in inputs)
    if needs.keys is None and is_plain:
        # What may be done to rows one by one is done by the tasks that read them. All rows tell how far time is, so
        # none may be left out before they are counted.
        if marked_keys(make) is not None:
            own = prepared(inputs[0], partial(marking_keys_of, make), imports)
            inputs, make = [own], partial(behind_marked_keys, make)
        elif make().split() is not None:
            inputs, make = [prepared(inputs[0], partial(first_of, make), imports)], partial(rest_of, make)
        needs = make().needs  # there may be keys that were computed
    shares = 1 if needs.keys is None else tasks or SHARES
    how = Continuing(make, allowed, shares, idle_timeout, tuple(imports), late == "keep", query=query)
    if needs.keys == () and not needs.order:
        return run_rowwise(inputs, how)
    if needs.keys == ():  # rows are by themselves, but wait for those of other inputs
        how = replace(how, shares=1)
    check_provider(inputs[0].frame)
    return run_streaming(inputs, how, metrics)


def check_provider(frame: DataFrame) -> None:
    """Raise unless the session has the state store that continuous queries need."""
    provider = frame.sparkSession.conf.get(_PROVIDER, None)
    if provider != ROCKS_DB:
        raise InputError(
            f"the state store of this session is {provider}; expected RocksDB, which continuous queries need: "
            f"spark.conf.set({_PROVIDER!r}, {ROCKS_DB!r})"
        )


def inputs_of(frames: Any, time: Any) -> list[Input]:
    """DataFrames as inputs, each with its time."""
    own = [frames] if hasattr(frames, "mapInArrow") else list(frames)
    if not own or not all(hasattr(each, "mapInArrow") for each in own):
        raise found("frames", frames, "a DataFrame, or several")
    times = [time] * len(own) if time is None or isinstance(time, str) else list(time)
    if len(times) != len(own):
        raise InputError(f"found {len(times)} columns of time for {len(own)} inputs")
    found_inputs = []
    for number, (frame, column) in enumerate(zip(own, times, strict=True)):
        what = "the DataFrame" if len(own) == 1 else f"DataFrame {number}"
        check_names(frame, what)
        try:
            shape = shape_of(frame.schema, column, what)
        except SchemaError:
            raise
        except Exception as error:
            raise SchemaError(f"{what} has columns that Arrow does not have: {error}") from error
        found_inputs.append(Input(frame, shape, name=f"input{number}" if len(own) > 1 else "input"))
    return found_inputs


def _lateness(given: Any, inputs: Sequence[Input]) -> list[int]:
    each = list(given) if isinstance(given, list | tuple) else [given] * len(inputs)
    if len(each) != len(inputs):
        raise InputError(f"found {len(each)} values of lateness for {len(inputs)} inputs")
    return [lateness_of(value, own) for value, own in zip(each, inputs, strict=True)]


def lateness_of(value: Any, own: Input) -> int:
    """The lateness of an input, in ticks; None stands for the delay of its watermark."""
    clock = own.shape.clock
    if value is not None:
        return clock.duration(value)
    delay = delay_of(own.frame.schema, own.shape.time)
    return 0 if delay is None or clock.unit is None else delay
