"""Running functions of tidelog in the processes of Spark: beside the driver, or as tasks.

Only public parts of PySpark are used, so everything works through Spark Connect, where the client may not even see the
store. Functions and what they take and give are pickled, so they live in modules, and tidelog is the same everywhere.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import pyarrow as pa

from tidelog.model.errors import NotFoundError, TidelogError
from tidelog.spark.runtime.errors import own_errors
from tidelog.spark.runtime.session import is_remote
from tidelog.spark.runtime.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Parameters = ParamSpec("_Parameters")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_ANSWERS: Final = "number bigint, answer binary"


def beside_the_store(
    session: SparkSession,
    function: Callable[_Parameters, _Result],
    *arguments: _Parameters.args,
    **named: _Parameters.kwargs,
) -> _Result:
    """Call a function where the store is: in this process, which is the driver's, or with Spark Connect in a task."""
    if not is_remote(session):
        return function(*arguments, **named)
    return in_tasks(session, partial(_call, function), [(arguments, named)])[0]


def _call(function: Callable[..., _Result], given: tuple[tuple[Any, ...], dict[str, Any]]) -> _Result:
    return function(*given[0], **given[1])


def in_tasks(
    session: SparkSession, function: Callable[[_Item], _Result], items: Sequence[_Item], imports: Sequence[str] = ()
) -> list[_Result]:
    """The results of a function for some items, each in a task of its own; see :func:`outcomes`.

    Raises the first error of tidelog's that it raised, after all tasks have ended.
    """
    found: list[_Result] = []
    for outcome in outcomes(session, function, items, imports):
        if isinstance(outcome, TidelogError):
            raise outcome
        found.append(outcome)
    return found


def outcomes(
    session: SparkSession, function: Callable[[_Item], _Result], items: Sequence[_Item], imports: Sequence[str] = ()
) -> list[_Result | TidelogError]:
    """What became of a function for some items, each in a task of its own: results, and errors of tidelog's.

    ``imports`` are imported there first. Spark may run a task again, or twice at once: whatever the function does must
    be harmless then. Other errors fail the job.
    """
    if not items:
        return []
    numbers = session.range(0, len(items), 1, len(items))
    work = partial(_run, pickle.dumps(function), [pickle.dumps(item) for item in items], tuple(imports))
    with own_errors():
        rows = numbers.mapInArrow(work, _ANSWERS).collect()
    answers = {row["number"]: bytes(row["answer"]) for row in rows}
    return [pickle.loads(answers[number]) for number in range(len(items))]


def _run(
    function: bytes, items: Sequence[bytes], imports: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """What a task does; batches have the numbers of its items."""
    import_all(imports)
    call = pickle.loads(function)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            try:
                answer = call(pickle.loads(items[number]))
            except TidelogError as error:  # to try again would not help
                answer = error.with_traceback(None)
            packed = pa.array([pickle.dumps(answer)], pa.binary())
            yield pa.record_batch([pa.array([number], pa.int64()), packed], ["number", "answer"])
    settle()


def import_all(modules: Iterable[str]) -> None:
    """Import modules by name, such as those that register user-defined aggregates.

    Raises :class:`NotFoundError` for those that are not there.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except (ImportError, TypeError, ValueError) as error:
            raise NotFoundError(
                f"the module {module!r} of imports cannot be imported: {error}; expected the name of one that is "
                "installed where tasks run"
            ) from error
