"""The registry of aggregates, bindings and their texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidelog.aggregates import Binding, Incremental, Needs, Virtual, bind, find, named, register, unregister
from tidelog.aggregates.binding import closure, instance
from tidelog.expr import ExpressionError, parse_binding
from tidelog.expr.aggregates.builtin import ALIASES, BUILT_IN
from tidelog.model.errors import ExistsError, InputError, NotFoundError


@pytest.fixture
def made() -> Iterator[list[Any]]:
    """Aggregates that are registered for a test."""
    kinds: list[Any] = []
    yield kinds
    for kind in kinds:
        unregister(kind)


class Total(Incremental):
    name = "test_total"
    state = np.dtype("<f8")

    def init(self, columns: Sequence[Any], cuts: Any) -> Any:
        return np.add.reduceat(columns[0].astype(np.float64), cuts[:-1])

    def merge(self, states: Any, cuts: Any) -> Any:
        return np.add.reduceat(states, cuts[:-1])

    def eval(self, state: Any) -> Any:
        return float(state)


def virtual(name: str, *needed: str) -> type[Virtual]:
    """A virtual aggregate that depends on others of this module."""

    def eval(self: Any, *results: Any) -> Any:
        return results

    needs = tuple(Needs(f"{__name__}:{each}") for each in needed)
    return type(name, (Virtual,), {"name": name, "depends_on": needs, "eval": eval, "__module__": __name__})


def test_ids_are_module_and_name(made: list[Any]) -> None:
    made.append(register(Total))
    assert Total.id == f"{__name__}:test_total"
    assert find(Total.id) is Total
    assert named("test_total") is Total


def test_another_one_of_the_same_name_is_refused(made: list[Any]) -> None:
    made.append(register(Total))
    other = type("Other", (Total,), {"id": "elsewhere:test_total"})
    with pytest.raises(ExistsError, match="has the name 'test_total' already"):
        register(other)
    again = type("Again", (Total,), {"id": Total.id})
    assert register(again) is named("test_total")


def test_cycles_are_refused(made: list[Any]) -> None:
    made.append(register(virtual("test_a", "test_b")))
    made.append(register(virtual("test_b", "test_c")))
    with pytest.raises(InputError, match=r"test_c -> .*test_a -> .*test_b -> .*test_c"):
        register(virtual("test_c", "test_a"))
    with pytest.raises(InputError, match="depends on itself"):
        register(virtual("test_d", "test_d"))


def test_incomplete_classes_are_refused() -> None:
    class Half(Incremental):
        name = "test_half"

        def init(self, columns: Sequence[Any], cuts: Any) -> Any:
            return columns

    with pytest.raises(InputError, match="does not define eval, merge"):
        register(Half)
    with pytest.raises(InputError, match="names no aggregate"):
        register(virtual("test_nothing"))
    with pytest.raises(InputError, match="expected one of small letters"):
        register(type("Loud", (Total,), {"name": "Test Total"}))


@pytest.mark.parametrize("name", [*BUILT_IN, *ALIASES])
def test_names_of_functions_of_sql_are_taken(name: str) -> None:
    with pytest.raises(ExistsError, match=name):
        register(type("Mine", (Total,), {"name": name, "id": f"test:{name}"}))


def test_ids_end_in_the_name_that_queries_use() -> None:
    with pytest.raises(InputError, match="as in 'module:test_total'"):
        register(type("Renamed", (Total,), {"id": "test:another"}))


@pytest.mark.parametrize("found", [3, "largest", int])
def test_what_is_no_class_of_an_aggregate_is_refused(found: Any) -> None:
    with pytest.raises(InputError, match="is no aggregate; derive a class"):
        register(found)
    if not isinstance(found, str):
        with pytest.raises(InputError, match="expected its name or its class"):
            bind(found, "x")


def test_only_the_code_with_the_same_id_is_forgotten(made: list[Any]) -> None:
    made.append(register(Total))
    unregister(type("Other", (Total,), {"id": "elsewhere:test_total"}))
    assert named("test_total") is find(Total.id) is Total


def test_code_that_fails_or_has_no_states_is_told_apart_from_defects_here(made: list[Any]) -> None:
    class Failing(Total):
        name = "test_failing"
        id = "test:test_failing"

        def __init__(self, types: Sequence[pa.DataType]) -> None:
            raise ZeroDivisionError("of no use")

    class Stateless(Total):
        name = "test_stateless"
        id = "test:test_stateless"
        state: Any = "<f8"

    made += [register(Failing), register(Stateless)]
    with pytest.raises(InputError, match=r"test_failing fails for test_failing\(x\): ZeroDivisionError: of no use"):
        instance(bind(Failing, "x"), lambda _: pa.float64())
    with pytest.raises(InputError, match="are of '<f8'; expected a NumPy type"):
        instance(bind(Stateless, "x"), lambda _: pa.float64())


def test_columns_of_dependencies_are_those_there_are(made: list[Any]) -> None:
    wrong = virtual("test_wrong", "test_total")
    wrong.depends_on = (Needs(f"{__name__}:test_total", (1,)),)
    made += [register(Total), register(wrong)]
    with pytest.raises(InputError, match=r"its columns \(1,\), by position; it has 1"):
        closure([bind(wrong, "x")])


def test_a_closure_has_dependencies_first() -> None:
    found = closure([bind("stddev_samp", "x"), bind("geometric_mean", "x"), bind("var_pop", "x")])
    names = [each.id.partition(":")[2] for each in found]
    assert names == ["moments", "stddev_samp", "sum_of_logarithms", "row_count", "geometric_mean", "var_pop"]


def test_states_have_whole_words() -> None:
    class Odd(Total):
        name = "test_odd"
        id = "test:test_odd"
        state = np.dtype("<f4")

    register(Odd)
    try:
        with pytest.raises(InputError, match="multiple of 8"):
            instance(bind(Odd, "x"), lambda _: pa.float64())
    finally:
        unregister(Odd)


def test_texts_and_json_give_bindings_back() -> None:
    binding = parse_binding('second_largest("My Price")')
    assert binding == bind("second_largest", "My Price")
    assert parse_binding(binding.name) == binding
    assert Binding.from_dict(binding.to_dict()) == binding
    assert parse_binding("stddev(x)") == bind("stddev_samp", "x")


@pytest.mark.parametrize("value", ["it's", "back\\slash", "two\nlines", 'a "b"', "", None, True, -3, 1.5, 1e300])
def test_names_are_calls_whatever_the_parameters(made: list[Any], value: Any) -> None:
    kind = type("Named", (Total,), {"name": "test_named", "id": "test:test_named", "parameters": {"value": 0}})
    made.append(register(kind))
    binding = bind(kind, "x", value=value)
    assert parse_binding(binding.name) == binding
    assert Binding.from_dict(binding.to_dict()) == binding


@pytest.mark.parametrize("value", [math.inf, math.nan, [1], b"bytes"])
def test_parameters_are_what_can_be_written_down(value: Any) -> None:
    with pytest.raises(InputError, match="expected a finite number, a text"):
        bind("approx_quantile", "x", fraction=value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x + 1", "expected a call"),
        ("second_larget(x)", "did you mean 'second_largest'"),
        ("second_largest(x, y)", "takes 1 column, found 2"),
        ("second_largest(x, 3)", "found 1 columns and 1 values"),
        ("second_largest(x + 1)", "expected names of columns"),
    ],
)
def test_what_is_no_binding_is_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        parse_binding(text)


@pytest.mark.parametrize(
    "values",
    [{}, {"id": "x", "columns": []}, {"id": "m:n", "columns": [1]}, {"id": "m:n", "columns": "x", "parameters": 1}],
)
def test_json_that_is_no_binding_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="for an aggregate"):
        Binding.from_dict(values)


def test_unknown_names_and_types() -> None:
    with pytest.raises(NotFoundError, match="there is no aggregate 'nothing'"):
        bind("nothing", "x")
    with pytest.raises(InputError, match="numbers or times"):
        instance(bind("second_largest", "x"), lambda _: pa.string())
