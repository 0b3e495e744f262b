"""Aggregates bound to columns, and the registry of their code.

A :class:`Binding` is data: it can be written down, compared and kept where the code is not. :func:`register` makes code
known under its id; nothing is ever imported because data names it.
"""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from tidelog.aggregates.base import REQUIRED, Aggregate, Dependent, Incremental, Needs, Virtual
from tidelog.model.arguments import flag, found, integer, text
from tidelog.model.errors import ExistsError, InputError, NotFoundError, did_you_mean

_A = TypeVar("_A", bound=type[Aggregate])

_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*\Z")
_ID: Final = re.compile(r"[\w.]+:[a-z_][a-z0-9_]*\Z")
_SCALARS: Final = (str, int, float, bool, type(None))

RESERVED: Final = frozenset(("count", "sum", "avg", "min", "max", "mean", "variance", "stddev"))
"""Functions of SQL that queries would find before an aggregate of the same name; other ones are registered here."""

_lock = threading.Lock()
_by_id: dict[str, type[Aggregate]] = {}
_by_name: dict[str, type[Aggregate]] = {}
_revision = 0


@dataclass(frozen=True, slots=True)
class Binding:
    """An aggregate applied to columns of a stream. Immutable; equal ones compute the same."""

    id: str
    columns: tuple[str, ...]
    parameters: tuple[tuple[str, Any], ...] = ()
    """All parameters by name, in the order of the aggregate's own list."""

    @property
    def name(self) -> str:
        """The call that asks for it, e.g. ``approx_quantile(price, 0.9, 200)``."""
        function = self.id.rpartition(":")[2]
        return f"{function}({', '.join([*map(_identifier, self.columns), *(_literal(v) for _, v in self.parameters)])})"

    def renamed(self, names: Mapping[str, str]) -> Binding:
        """The same aggregate of columns that have new names, given by their old ones."""
        return Binding(self.id, tuple(names.get(column, column) for column in self.columns), self.parameters)

    def to_dict(self) -> dict[str, Any]:
        """The binding as JSON values."""
        return {"id": self.id, "columns": list(self.columns), "parameters": dict(self.parameters), "name": self.name}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Binding:
        """The binding that :meth:`to_dict` described; raises :class:`InputError` for anything else."""
        try:
            stated = values if isinstance(values, Mapping) else {}
            id, columns, parameters = stated["id"], stated["columns"], stated.get("parameters", {})
            sound = bool(_ID.match(id)) and all(isinstance(each, str) for each in columns)
            sound = sound and all(isinstance(value, _SCALARS) for value in parameters.values())
        except (KeyError, TypeError, AttributeError):
            sound = False
        if not sound:
            raise InputError(
                f"found {values!r} for an aggregate; expected its 'id' (module:name), 'columns' and 'parameters'"
            )
        return cls(id, tuple(columns), tuple(parameters.items()))


def _identifier(column: str) -> str:
    return column if _NAME.match(column) else '"' + column.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else json.dumps(value)


# The registry. ----------------------------------------------------------------------------------------


def register(kind: _A) -> _A:
    """Make an aggregate known under its id and its name; to be used as a decorator of its class.

    Registering again under the same id replaces the code, for streams that are open too. Raises :class:`InputError` for
    a class that is no complete aggregate or depends on itself, and :class:`ExistsError` if another one has its name.
    """
    if not isinstance(kind, type) or not issubclass(kind, Incremental | Virtual):
        what = getattr(kind, "__name__", repr(kind))
        raise InputError(f"{what} is no aggregate; derive a class from Incremental, Dependent or Virtual")
    if getattr(kind, "__abstractmethods__", None):
        missing = ", ".join(sorted(kind.__abstractmethods__))
        raise InputError(f"the aggregate {kind.__name__} does not define {missing}")
    name = getattr(kind, "name", "")
    if not isinstance(name, str) or not _NAME.match(name):
        raise InputError(f"{kind.__name__} has the name {name!r}; expected one of small letters, digits and _")
    if name in RESERVED:
        raise ExistsError(f"{name!r} is a function of SQL, which queries would call; give {kind.__name__} another name")
    _check_members(kind)
    id = kind.__dict__.get("id", "")
    id = f"{kind.__module__}:{name}" if isinstance(id, str) and not id else id
    if not isinstance(id, str) or not _ID.match(id) or id.rpartition(":")[2] != name:
        # What is stored of an aggregate is its id, so that has to tell what queries call it.
        raise InputError(f"{kind.__name__} has the id {id!r}; expected a module and its name, as in 'module:{name}'")
    if issubclass(kind, Dependent | Virtual) and not kind.depends_on:
        raise InputError(f"{id} names no aggregate that it depends on; derive it from Incremental")
    global _revision
    with _lock:
        other = _by_name.get(name)
        if other is not None and other.id != id:
            raise ExistsError(f"the aggregate {other.id} has the name {name!r} already; give {id} another one")
        _refuse_cycle(id, kind)
        kind.id = id
        _by_id[id] = _by_name[name] = kind
        _revision += 1
    return kind


def _check_members(kind: type[Aggregate]) -> None:
    """Raise :class:`InputError` for a class whose members are not what :class:`Aggregate` says."""
    own = kind.__name__
    kind.arity = integer(f"arity of {own}", kind.arity, 0)
    for member in ("sees_nulls", "by_place", "by_value", "is_reproducible"):
        flag(f"{member} of {own}", getattr(kind, member))
    if not isinstance(kind.parameters, Mapping):
        raise found(f"parameters of {own}", kind.parameters, "names and defaults such as {'fraction': 0.5}")
    for name, value in kind.parameters.items():
        if not isinstance(name, str) or not (value is REQUIRED or isinstance(value, _SCALARS)):
            raise found(f"parameter {name!r} of {own}", value, "a number, a text, a boolean, None or REQUIRED")
    if isinstance(kind.depends_on, str) or not isinstance(kind.depends_on, Sequence):
        raise found(f"depends_on of {own}", kind.depends_on, "a list of Needs such as [Needs('module:name')]")
    for need in kind.depends_on:
        if not isinstance(need, Needs) or not isinstance(need.id, str):
            raise found(f"depends_on of {own}", need, "Needs with the id of an aggregate: Needs('module:name')")
        if not (need.columns is None or isinstance(need.columns, tuple | list)):
            raise found(f"columns of {need.id} in depends_on of {own}", need.columns, "positions such as (0,), or None")
        for place in need.columns or ():
            integer(f"a column of {need.id} in depends_on of {own}", place, 0)


def unregister(kind: type[Aggregate]) -> None:
    """Forget the code with an aggregate's id, as if it had never been registered."""
    if not isinstance(kind, type) or not issubclass(kind, Aggregate):
        raise found("an aggregate", kind, "its class")
    global _revision
    with _lock:
        _revision += 1
        if _by_id.pop(kind.id, None) is not None:
            _by_name.pop(kind.name, None)


def _refuse_cycle(id: str, kind: type[Aggregate]) -> None:
    """Raise if an aggregate depended on itself once it is registered; what is not known yet depends on nothing."""
    path: list[str] = []

    def visit(each: str, code: type[Aggregate] | None) -> None:
        path.append(each)
        for needed in code.depends_on if code is not None else ():
            if needed.id == id:
                raise InputError(f"{id} depends on itself: {' -> '.join([*path, id])}; break the cycle")
            visit(needed.id, _by_id.get(needed.id))
        path.pop()

    visit(id, kind)


def revision() -> int:
    """A number that is another one whenever what is registered has changed."""
    return _revision


def find(id: str) -> type[Aggregate] | None:
    """The code with an id, if it is registered."""
    text("the id of an aggregate", id, "a text such as 'module:name'")
    return _by_id.get(id)


def named(name: str) -> type[Aggregate] | None:
    """The code that queries call by a name, if it is registered."""
    text("the name of an aggregate", name)
    return _by_name.get(name)


def names() -> list[str]:
    """The names of all registered aggregates."""
    return sorted(_by_name)


def missing(id: str) -> NotFoundError:
    """The error for an aggregate without code."""
    module = id.partition(":")[0]
    return NotFoundError(
        f"the code of the aggregate {id} is not here; import {module!r}, which registers it, and ask again. "
        "Everything else can be asked without it"
    )


# Binding. ---------------------------------------------------------------------------------------------


def bind(function: str | type[Aggregate], *columns: str, **parameters: Any) -> Binding:
    """An aggregate, by its name or class, applied to columns; e.g. ``bind("approx_quantile", "price", fraction=0.9)``.

    Raises :class:`NotFoundError` for an unknown name, :class:`InputError` for a wrong number of columns or parameters.
    """
    if isinstance(function, str):
        kind = named(function)
        if kind is None:
            raise NotFoundError(f"there is no aggregate {function!r}; {did_you_mean(function, names())}")
    elif isinstance(function, type) and issubclass(function, Aggregate):
        kind = function
    else:
        raise InputError(f"found {function!r} for an aggregate; expected its name or its class")
    if len(columns) != kind.arity:
        raise InputError(f"{kind.name} takes {kind.arity} column{'s' * (kind.arity != 1)}, found {len(columns)}")
    for name, value in parameters.items():
        if name not in kind.parameters:
            raise InputError(f"{kind.name} has no parameter {name!r}; {did_you_mean(name, kind.parameters)}")
        if not isinstance(value, _SCALARS) or (isinstance(value, float) and not math.isfinite(value)):
            raise InputError(
                f"{kind.name}: found {value!r} for {name}; expected a finite number, a text, a boolean or None"
            )
    values = {**kind.parameters, **parameters}
    for name, value in values.items():
        if value is REQUIRED:
            raise InputError(f"{kind.name} needs a value for {name}; it takes {_call_of(kind)}")
    return Binding(kind.id, tuple(columns), tuple(values.items()))


def bind_positional(kind: type[Aggregate], columns: Sequence[str], values: Sequence[Any]) -> Binding:
    """:func:`bind` with the values of parameters in their order, as a call in a query has them."""
    if len(values) > len(kind.parameters):
        raise InputError(f"{kind.name} takes {_call_of(kind)}, found {len(columns)} columns and {len(values)} values")
    return bind(kind, *columns, **dict(zip(kind.parameters, values, strict=False)))


def _call_of(kind: type[Aggregate]) -> str:
    return f"{kind.name}({', '.join([*('column' for _ in range(kind.arity)), *kind.parameters])})"


def needed_by(binding: Binding, kind: type[Aggregate]) -> list[Binding]:
    """The bindings that one depends on. Raises :class:`NotFoundError` if the code of one is not there."""
    own = dict(binding.parameters)
    found = []
    for need in kind.depends_on:
        code = find(need.id)
        if code is None:
            raise missing(need.id)
        wanted = range(len(binding.columns)) if need.columns is None else need.columns
        if any(not 0 <= each < len(binding.columns) for each in wanted):
            raise InputError(f"{kind.id} gives {need.id} its columns {wanted}, by position; it has {kind.arity}")
        columns = tuple(binding.columns[each] for each in wanted)
        shared = {name: value for name, value in own.items() if name in code.parameters}
        found.append(bind(code, *columns, **shared))
    return found


def closure(bindings: Sequence[Binding]) -> list[Binding]:
    """Bindings and all that they depend on, each once, those that others depend on before them.

    Raises :class:`NotFoundError` if the code of one is not registered.
    """
    found: dict[Binding, None] = {}

    def visit(binding: Binding) -> None:
        if binding in found:
            return
        kind = find(binding.id)
        if kind is None:
            raise missing(binding.id)
        for each in needed_by(binding, kind):
            visit(each)
        found[binding] = None

    for binding in bindings:
        visit(binding)
    return list(found)


def instance(binding: Binding, type_of: Callable[[str], pa.DataType]) -> Aggregate:
    """The aggregate of a binding, for columns of the types that ``type_of`` tells.

    Raises :class:`NotFoundError` without its code, :class:`InputError` if it cannot be applied to such columns.
    """
    kind = find(binding.id)
    if kind is None:
        raise missing(binding.id)
    if len(binding.columns) != kind.arity:
        raise InputError(f"{binding.id} takes {kind.arity} columns, found {', '.join(binding.columns)}")
    types = [type_of(column) for column in binding.columns]
    try:
        made = kind(types, **dict(binding.parameters))
    except (InputError, NotFoundError):
        raise
    except Exception as error:  # of code that is not ours, and may have changed since the binding was stored
        raise InputError(
            f"the code of {binding.id} fails for {binding.name}: {type(error).__name__}: {error}; correct it, or keep "
            "the parameters that it had"
        ) from error
    if isinstance(made, Incremental):
        state = getattr(made, "state", None)
        if not isinstance(state, np.dtype) or state.itemsize == 0 or state.itemsize % 8 or state.hasobject:
            raise InputError(
                f"the states of {binding.id} are of {state!r}; expected a NumPy type of a fixed width, a multiple of "
                "8 bytes"
            )
    if isinstance(made, Dependent):
        for each in needed_by(binding, kind):
            other = find(each.id)
            if each.columns != binding.columns or other is None or not issubclass(other, Incremental):
                raise InputError(f"{binding.id} depends on {each.id}, which must have states, of the same columns")
            if other.sees_nulls != kind.sees_nulls:
                raise InputError(f"{binding.id} and {each.id}, on which it depends, must agree on nulls")
    return made
