"""The registry of aggregates, bindings and their texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidelog.aggregates import Binding, Incremental, Needs, Virtual, bind, find, named, register, unregister
from tidelog.aggregates.binding import closure, instance
from tidelog.expr import ExpressionError, parse_binding
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
