"""From the values of a ``pipeline.toml`` to the objects: every key known, every value of its type, or told where not.

The keys of a table are the fields of its class. So what is written down about an object holds for the file.
"""

from __future__ import annotations

import dataclasses
import importlib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tidelog.model.errors import did_you_mean
from tidelog.spark.pipeline.description.objects import Pipeline, Scalar, Sink, Source
from tidelog.spark.pipeline.description.steps import Step, step_kinds
from tidelog.spark.pipeline.file.document import Document
from tidelog.spark.pipeline.file.positions import KeyPath
from tidelog.spark.pipeline.file.problems import PipelineError, Problem
from tidelog.spark.pipeline.sql.analysis import Sql

_TABLES: Final = ("pipeline", "spark", "sources", "steps", "sinks")
_PIPELINE_KEYS: Final = ("name", "checkpoint", "trigger", "modules")
_SPARK_KEYS: Final = ("master", "config")
_WORDS: Final[Mapping[type, str]] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}


def load(path: str | Path) -> Pipeline:
    """The pipeline of a file; relative paths in it start from its directory.

    Modules that it names are imported. Raises :class:`PipelineError` with all that is wrong with the file's form, and
    :class:`StorageError` when there is none. Whether the pipeline makes sense is asked by :func:`check`.
    """
    file = Path(path)
    return decode(Document.read(file), base=str(file.parent))


def decode(document: Document, base: str = ".") -> Pipeline:
    """The pipeline of a document; see :func:`load`."""
    values = document.values()
    decoder = _Decoder()
    pipeline = decoder.pipeline(values, document, base)
    if decoder.problems or pipeline is None:
        raise PipelineError(
            sorted((document.locate(each) for each in decoder.problems), key=lambda each: (each.line, each.column))
        )
    return pipeline


class _Decoder:
    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def pipeline(self, values: Mapping[str, Any], document: Document, base: str) -> Pipeline | None:
        self._unknown(values, _TABLES, (), "the file")
        general = self._table(values.get("pipeline", {}), ("pipeline",))
        spark = self._table(values.get("spark", {}), ("spark",))
        self._unknown(general, _PIPELINE_KEYS, ("pipeline",), "[pipeline]")
        self._unknown(spark, _SPARK_KEYS, ("spark",), "[spark]")
        given = self._fields(Pipeline, {**general, **spark}, lambda key: (self._home(key), key))
        self._import(given.get("modules", ()))
        sources = [
            self._object(Source, each, ("sources", name), {"name": name})
            for name, each in self._table(values.get("sources", {}), ("sources",)).items()
        ]
        sinks = [
            self._object(Sink, each, ("sinks", name), {"name": name})
            for name, each in self._table(values.get("sinks", {}), ("sinks",)).items()
        ]
        steps = [self._step(each, ("steps", index)) for index, each in enumerate(self._array(values.get("steps", [])))]
        for key in ("name", "checkpoint"):
            if key not in general:
                self._add(("pipeline",), f"[pipeline] lacks the key {key!r}; {_MISSING[key]}")
        for table, found in (("sources", sources), ("sinks", sinks)):
            if not found and table not in {each.path[0] for each in self.problems if each.path}:
                self._add((table,), f"there is no table [{table}.NAME]; expected one at least")
        if self.problems:
            return None
        return Pipeline(**given, sources=sources, sinks=sinks, steps=steps, base=base, document=document)  # type: ignore[arg-type]

    def _home(self, key: str) -> str:
        return "spark" if key in _SPARK_KEYS else "pipeline"

    def _import(self, modules: Iterable[str]) -> None:
        for index, module in enumerate(modules):
            try:
                importlib.import_module(module)
            except ImportError as error:
                self._add(("pipeline", "modules", index), f"module {module!r} cannot be imported: {error}")

    def _step(self, value: Any, path: KeyPath) -> Step | None:
        if not isinstance(value, Mapping):
            self._mistyped(path, value, "a table, [[steps]]")
            return None
        kind = value.get("kind", Sql.kind if "sql" in value else None)
        known = step_kinds()
        if kind is None:
            named = " or ".join(f"kind = {each!r}" for each in known if each != Sql.kind)
            self._add(path, f"the step says neither sql = '...' nor what kind it is; expected sql, or {named}")
            return None
        if not isinstance(kind, str) or kind not in known:
            self._add((*path, "kind"), f"there is no kind of step {kind!r}; {did_you_mean(str(kind), known)}")
            return None
        rest = {key: each for key, each in value.items() if key != "kind"}
        step: Step | None = self._object(known[kind], rest, path, {})
        return step

    def _object(self, cls: type[Any], value: Any, path: KeyPath, named: Mapping[str, str]) -> Any:
        """An object of a table, or None after a problem."""
        if not isinstance(value, Mapping):
            self._mistyped(path, value, f"a table, [{'.'.join(map(str, path))}]")
            return None
        before = len(self.problems)
        names = [field.name for field in dataclasses.fields(cls) if field.name not in named]
        self._unknown(value, names, path, _spoken(path))
        given = self._fields(cls, {key: each for key, each in value.items() if key in names}, lambda key: (*path, key))
        for field in dataclasses.fields(cls):
            is_needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            if is_needed and field.name not in {*value, *named}:
                hint = _MISSING.get(field.name, "expected one")
                self._add(path, f"{_spoken(path)} lacks the key {field.name!r}; {hint}")
        return cls(**given, **named) if len(self.problems) == before else None

    def _fields(self, cls: type[Any], values: Mapping[str, Any], path_of: Any) -> dict[str, Any]:
        hints = typing.get_type_hints(cls, localns={"Step": Step})
        known = {field.name for field in dataclasses.fields(cls)}
        return {key: self._value(hints[key], value, path_of(key)) for key, value in values.items() if key in known}

    def _value(self, hint: Any, value: Any, path: KeyPath) -> Any:
        """A value if it is of the type of a field."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            wanted = [each for each in arguments if each is not type(None)]
            if len(wanted) == 1:
                return self._value(wanted[0], value, path)
        if dataclasses.is_dataclass(hint):
            return self._object(typing.cast("type[Any]", hint), value, path, {})
        if origin is tuple:
            if isinstance(value, list):
                return tuple(self._value(arguments[0], each, (*path, at)) for at, each in enumerate(value))
            return self._mistyped(path, value, "a list of texts, such as ['a', 'b']")
        if origin is not None and issubclass(origin, Mapping):
            return self._options(value, path)
        if isinstance(value, bool) != (hint is bool) or not isinstance(value, (int, float) if hint is float else hint):
            return self._mistyped(path, value, _WORDS[hint])
        return value

    def _options(self, value: Any, path: KeyPath) -> Mapping[str, Scalar]:
        found: dict[str, Scalar] = {}
        for key, each in self._table(value, path).items():
            if isinstance(each, Mapping):  # spark.sql.x = 1 makes tables of tables
                found.update({f"{key}.{rest}": inner for rest, inner in self._options(each, (*path, key)).items()})
            elif isinstance(each, str | int | float | bool):
                found[key] = each
            else:
                self._mistyped((*path, key), each, "a text, a number, true or false")
        return found

    def _table(self, value: Any, path: KeyPath) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        self._mistyped(path, value, "a table")
        return {}

    def _array(self, value: Any) -> list[Any]:
        if isinstance(value, list):
            return value
        self._mistyped(("steps",), value, "an array of tables, [[steps]]")
        return []

    def _unknown(self, values: Mapping[str, Any], known: Iterable[str], path: KeyPath, what: str) -> None:
        names = list(known)
        for key in values:
            if key not in names:
                self._add((*path, key), f"{what} has no key {key!r}; {did_you_mean(key, names)}")

    def _mistyped(self, path: KeyPath, value: Any, expected: str) -> Any:
        self._add(path, f"{str(path[-1])!r} is {_shown(value)}; expected {expected}")

    def _add(self, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(path, message))


_MISSING: Final = {
    "name": "expected name = '...'; it is what messages and metrics say",
    "checkpoint": "expected a directory that remembers how far the pipeline has come, such as 'state'",
    "format": "expected csv, json, parquet, tidelog, or another that Spark knows",
    "input": "expected the name of a source or of a step",
    "keys": "expected the columns that tell events apart, such as ['id']",
    "sql": "expected a query",
    "column": "expected a timestamp column",
    "delay": "expected a duration such as '10m'",
}


def _spoken(path: KeyPath) -> str:
    if path[0] == "steps":
        return "the step"
    return f"[{'.'.join(map(str, path))}]"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
