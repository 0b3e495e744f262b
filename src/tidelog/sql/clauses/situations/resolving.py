"""A clause that was read, over an input of known columns, as the query that the operators of situations take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from tidelog.expr import Expression, ExpressionError, UnsupportedError, parse
from tidelog.model.errors import TidelogError, TimeError, did_you_mean
from tidelog.operators.base import Operator, Shape
from tidelog.operators.situations.errors import SituationError
from tidelog.operators.situations.operator import DeriveOperator, SituationsOperator
from tidelog.operators.situations.syntax import (
    Constraint,
    Definition,
    Derivation,
    Mode,
    Situations,
    default_returned,
)
from tidelog.sql.clauses.constants import Constants
from tidelog.sql.clauses.context import Context
from tidelog.sql.clauses.situations.clause import SITUATIONS
from tidelog.sql.clauses.situations.expressions import Names, Taker
from tidelog.sql.clauses.situations.lengths import ticks_of
from tidelog.sql.clauses.situations.pattern import mask_of_relations
from tidelog.sql.clauses.zones import check_zone
from tidelog.sql.text.tree import Node, beginning


@dataclass(frozen=True, slots=True)
class Resolved:
    """A query about situations, and what makes its operator."""

    query: Situations | Derivation
    columns: tuple[str, ...]
    """The columns of the input that it needs, in their order, its time among them; behind them computed ones."""
    computed: Mapping[str, str]
    """Columns to partition by that are computed of others first: expressions by their names."""
    sources: tuple[str, ...]
    """The columns of the input that these, and those that are not computed, are made of."""
    make: Callable[[], Operator]
    """Gives a new operator over these columns, always an equal one; can be pickled."""

    def over(self, shape: Shape) -> Operator:
        """A new operator over rows that have these columns, and perhaps more."""
        return operator_of(self.query, shape)


def operator_of(query: Situations | Derivation, shape: Shape) -> Operator:
    """A new operator for a query."""
    return SituationsOperator(shape, query) if isinstance(query, Situations) else DeriveOperator(shape, query)


def resolve(clause: Node, schema: pa.Schema, time: str, context: Context) -> Resolved:
    """The query of a clause over rows of a schema with a time. Raises what the context's ``refuse`` makes, at the place
    in the text that breaks a rule."""
    return _Resolving(clause, schema, time, context).resolved()


@dataclass(frozen=True, slots=True)
class _Resolving:
    clause: Node
    schema: pa.Schema
    time: str
    context: Context

    def resolved(self) -> Resolved:
        names = Names.of(self.clause, self.schema)
        keys = [self._key(each, names) for each in self.clause["partition"]]
        computed = {name: each for name, each in keys if each is not None}
        fields = [pa.field(name, each.type) for name, each in computed.items()]
        found = _Resolving(self.clause, pa.schema([*self.schema, *fields]), self.time, self.context)
        return found.over_keys(names, tuple(dict.fromkeys(name for name, _ in keys)), computed)

    def over_keys(self, names: Names, partition: tuple[str, ...], computed: Mapping[str, Expression]) -> Resolved:
        """The query over rows that have the columns that are computed."""
        taker = Taker(Names(names.alias, names.situations, names.columns, partition, names.used), self.context)
        query = self._situations(taker) if self.clause["word"] == SITUATIONS else self._derivation(taker)
        used = {*names.used, *partition, self.time}
        columns = tuple(name for name in self.schema.names if name in used)
        shape = Shape(pa.schema([self.schema.field(name) for name in columns]), self.time)
        make = partial(operator_of, query, shape)
        try:
            make()
        except SituationError as error:
            raise self.context.refuse(str(error), self._place(error)) from None
        except TidelogError as error:  # of aggregates that users define
            raise self.context.refuse(str(error).partition("\n")[0], self.clause) from None
        sources = {name for each in computed.values() for name in each.columns} | {*columns}
        return Resolved(
            query,
            columns,
            {name: str(each) for name, each in computed.items()},
            tuple(name for name in self.schema.names if name in sources and name not in computed),
            make,
        )

    def _situations(self, taker: Taker) -> Situations:
        clause = self.clause
        definitions = self._definitions(taker)
        constraints = tuple(self._constraint(each, taker.names) for each in clause["constraints"])
        within = self._ticks(clause["within"], "WITHIN")
        if within < 1:
            raise self.context.refuse(
                "found WITHIN of no length; expected how long a match may last", clause["within_place"]
            )
        self._check_output(taker.names, definitions)
        returned = tuple(taker.returned(each["name"], each["expression"]) for each in clause["returned"])
        for each in clause["returned"]:
            check_zone(each["expression"], self.schema, self.context, "situation")
        return Situations(
            definitions,
            constraints,
            within,
            returned or default_returned(definitions),
            tuple(taker.names.partition),
            Mode[clause["mode"]],
        )

    def _derivation(self, taker: Taker) -> Derivation:
        definitions = self._definitions(taker)
        self._check_output(taker.names, definitions)
        returned = tuple((each["name"], taker.call(each["expression"])) for each in self.clause["returned"])
        for each in self.clause["returned"]:
            check_zone(each["expression"], self.schema, self.context, "situation")
        return Derivation(definitions, returned, tuple(taker.names.partition))

    # -- parts --------------------------------------------------------------------------------------------------------

    def _definitions(self, taker: Taker) -> tuple[Definition, ...]:
        found: list[Definition] = []
        for each in self.clause["definitions"]:
            name = each["name"]
            if any(name.lower() == other.name.lower() for other in found):
                raise self.context.refuse(f"found two definitions of {name}; give one of them another name", each)
            found.append(self._definition(each, taker))
        return tuple(found)

    def _definition(self, node: Node, taker: Taker) -> Definition:
        name, written = node["name"], node["condition"]
        check_zone(written, self.schema, self.context, "situation")
        condition = taker.condition(written, name)
        try:
            kind = parse(condition, self.schema).type
        except ExpressionError as error:
            message = str(error).partition("\n")[0]
            advice = ""
            if isinstance(error, UnsupportedError):
                advice = "; compute it in a query in parentheses that is the input"
            raise self.context.refuse(
                f"found a condition of {name} that cannot be: {message}{advice}", beginning(written)
            ) from None
        if not pa.types.is_boolean(kind) and not pa.types.is_null(kind):
            raise self.context.refuse(
                f"found a condition of {name} of type {kind}; expected one that is true or false", beginning(written)
            )
        least = 0 if node["least"] is None else self._ticks(node["least"], f"the least length of {name}")
        most = None if node["most"] is None else self._ticks(node["most"], f"the greatest length of {name}")
        if most is not None and most < max(least, 1):
            raise self.context.refuse(
                f"found a situation {name} that lasts at least {least} and at the most {most} ticks; expected a longer "
                "one at the most",
                beginning(node["most"]),
            )
        return Definition(name, condition, least, most)

    def _constraint(self, node: Node, names: Names) -> Constraint:
        first, second = (self._situation(node[each], names) for each in ("first", "second"))
        if first == second:
            raise self.context.refuse(
                f"found a relation of {first} to itself; expected one to another situation", node["second"]
            )
        return Constraint(first, mask_of_relations(node["relations"], self.clause["dialect"]), second)

    def _situation(self, node: Node, names: Names) -> str:
        found = names.situations.get(node["name"].lower())
        if found is None:
            raise self.context.refuse(
                f"found {node['name']} in PATTERN, which is not defined; "
                f"{did_you_mean(node['name'], list(names.situations.values()))}",
                node,
            )
        return found

    def _key(self, node: Node, names: Names) -> tuple[str, Expression | None]:
        """A column to partition by, and how it is computed; None if it is one of the input."""
        if node.get("class") != "COLUMN_REF":
            return self._computed_key(node, names)
        parts = node["column_names"]
        if len(parts) == 2 and parts[0].lower() == names.alias.lower():
            parts = parts[1:]
        if len(parts) != 1:
            raise self.context.refuse(
                f"found {'.'.join(parts)} behind PARTITION BY; expected columns of the input, or what is computed of "
                "them",
                beginning(node),
            )
        found = names.columns.get(parts[0].lower())
        if found is None:
            raise self.context.refuse(
                f"no column {parts[0]!r}; {did_you_mean(parts[0], list(names.columns.values()))}", node
            )
        return found, None

    def _computed_key(self, node: Node, names: Names) -> tuple[str, Expression]:
        check_zone(node, self.schema, self.context, "situation")
        own = Names(names.alias, names.situations, names.columns)
        text = Taker(own, self.context).key(node)
        name = self.context.parser.print_expression({**node, "alias": ""})
        try:
            found = parse(text, self.schema)
        except ExpressionError as error:
            raise self.context.refuse(
                f"found what to partition by that cannot be: {str(error).partition(chr(10))[0]}; compute it in a query "
                "in parentheses that is the input",
                beginning(node),
            ) from None
        if found.is_constant:
            raise self.context.refuse(
                f"found {name} behind PARTITION BY, which is the same for all rows; expected columns, or what is "
                "computed of them",
                beginning(node),
            )
        if name.lower() in names.columns:
            raise self.context.refuse(
                f"found {name} behind PARTITION BY, and a column of that name; give it another one in a query in "
                "parentheses that is the input",
                beginning(node),
            )
        return name, found

    def _ticks(self, node: Node, what: str) -> int:
        def refuse(message: str, place: Node) -> Exception:
            return self.context.refuse(f"found {what} {message}", beginning(place))

        constants = Constants(self.context.parser, self.context.connect, refuse)
        clock = Shape(self.schema, self.time).clock
        try:
            return ticks_of(node, clock, constants)
        except TimeError as error:
            raise refuse(f"that cannot be: {error}", node) from None

    def _check_output(self, names: Names, definitions: tuple[Definition, ...]) -> None:
        """Raise for columns that would come out under one name."""
        taken: dict[str, str] = {}
        if self.clause["word"] == SITUATIONS:
            taken["match_time"] = "the time of the match"
            if self.clause["mode"] == Mode.EARLY.name:
                taken |= {f"{each.name}_is_open".lower(): f"whether {each.name} goes on" for each in definitions}
        else:
            taken |= dict.fromkeys(("situation", "start_time", "end_time"), "a column of every situation")
        for node in self.clause["partition"]:
            name = node["column_names"][-1] if node.get("class") == "COLUMN_REF" else ""
            if name.lower() in taken:
                raise self.context.refuse(
                    f"found column {name} to partition by, and {taken[name.lower()]} comes out under that name; give "
                    "it another one in a query in parentheses that is the input",
                    node,
                )
        taken |= {name.lower(): "a column of the partition" for name in names.partition}
        for each in self.clause["returned"]:
            name = each["name"].lower()
            if name in taken:
                raise self.context.refuse(
                    f"found column {each['name']}, which is {taken[name]} that comes out as well; give it another name",
                    each,
                )
            taken[name] = "a column"

    def _place(self, error: SituationError) -> Node:
        """The part of the clause that an error of the operator is about."""
        parts = self.clause.get(error.part)
        if isinstance(parts, list) and error.number < len(parts):
            return beginning(parts[error.number]) if "type" in parts[error.number] else parts[error.number]
        return self.clause
