"""What the columns of a join are called, and who says them by which name.

Columns of the left side keep their names; one of the right side whose name is taken gets a number behind it, ``k_1``,
as DuckDB has it. In the selection around, each is also known by the name of its side, ``r.k``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tidelog.sql.clauses.grouping import Refuse, own_nodes
from tidelog.sql.clauses.inputs import Input
from tidelog.sql.text.tree import NOWHERE, Node, Parser, nodes


class Names:
    """The columns of some sides, under names that are all different."""

    def __init__(self, sides: Sequence[Input], hidden: Sequence[str] = ()) -> None:
        """``hidden`` are columns of the last side that are told once, as those of the first."""
        self.sides = list(sides)
        self.by_side: list[dict[str, str]] = []
        """For each side the names of its columns here."""
        taken: set[str] = set()
        for side in sides:
            own: dict[str, str] = {}
            for name in side.schema.names:
                own[name] = unused(name, taken)
                taken.add(own[name].lower())
            self.by_side.append(own)
        lower = [each.lower() for each in hidden]
        self.hidden = [own for name, own in self.by_side[-1].items() if name.lower() in lower]
        """Columns that ``*`` does not stand for."""

    def resolved(self, node: Node) -> tuple[int, list[str]] | None:
        """The side that a column is of, and its name here, with what is behind it; None if it is none."""
        names = node["column_names"]
        known = [each for each in self.sides if len(names) > 1 and names[0].lower() == each.alias.lower()]
        rest = names[1:] if known else names
        hits = [
            (place, own)
            for place, side in enumerate(self.sides)
            if (not known or side is known[0]) and (own := side.column(rest[0])) is not None
        ]
        if not hits or (len(hits) > 1 and not self.hidden):
            return None
        place, own = hits[0]
        return place, [self.by_side[place][own], *rest[1:]]

    def put_columns(self, select: Node, alias: str, refuse: Refuse, parser: Parser) -> None:
        """Have a selection name columns as they are called here, of a relation of some name."""
        aliases = {side.alias.lower(): place for place, side in enumerate(self.sides) if side.alias}
        for item in select["select_list"]:
            columns = [node["column_names"] for node in nodes(item) if node.get("class") == "COLUMN_REF"]
            if not item["alias"] and any(len(each) > 1 and each[0].lower() in aliases for each in columns):
                is_column = item.get("class") == "COLUMN_REF"
                item["alias"] = item["column_names"][-1] if is_column else parser.print_expression(item)
        for node in _visible(select, aliases):
            if node.get("class") == "COLUMN_REF" and len(node["column_names"]) > 1:
                self._put_column(node, aliases, alias, refuse)
            elif node.get("class") == "STAR" and not node["relation_name"]:
                node["exclude_list"] += [each for each in self.hidden if each not in node["exclude_list"]]
                for each in node["qualified_exclude_list"]:
                    place = aliases.get(each["table"].lower())
                    own = None if place is None else self.sides[place].column(each["column"])
                    if place is not None and own is not None:
                        each.update(table=alias, column=self.by_side[place][own])
        select["select_list"] = [
            each for item in select["select_list"] for each in self._expanded(item, aliases, alias, refuse, parser)
        ]

    def _put_column(self, node: Node, aliases: Mapping[str, int], alias: str, refuse: Refuse) -> None:
        first, name, *rest = node["column_names"]
        place = aliases.get(first.lower())
        if place is None:
            return
        own = self.sides[place].column(name)
        if own is None:
            known = ", ".join(self.sides[place].schema.names)
            raise refuse(f"there is no column {name!r} of {self.sides[place].alias}; it has {known}", node)
        node["column_names"] = [alias, self.by_side[place][own], *rest]

    def _expanded(
        self, item: Node, aliases: Mapping[str, int], alias: str, refuse: Refuse, parser: Parser
    ) -> Iterator[Node]:
        """A column of a selection, or all that ``l.*`` stands for."""
        place = aliases.get(item["relation_name"].lower()) if item.get("class") == "STAR" else None
        if place is None:
            yield item
            return
        if any(item[each] for each in ("replace_list", "rename_list", "expr", "columns", "qualified_exclude_list")):
            raise refuse(f"found more than EXCLUDE behind {item['relation_name']}.*; name the columns instead", item)
        excluded = {each.lower() for each in item["exclude_list"]}
        for name, own in self.by_side[place].items():
            if name.lower() not in excluded:
                column = copy.deepcopy(parser.expression("x"))
                column.update(column_names=[alias, own], alias=name, query_location=NOWHERE)
                yield column

    def wanted(self, select: Node, also: Sequence[str] = ()) -> list[dict[str, str]]:
        """For each side the columns, and their names here, that a selection may name, and some more."""
        own = [node for node in nodes(select) if "class" in node or node["type"] == "JOIN"]
        if any(node.get("class") == "STAR" for node in own_nodes(select)):
            return self.by_side
        mentioned = {name.lower() for node in own for name in node.get("column_names", ())}
        mentioned |= {name.lower() for node in own for name in node.get("using_columns", ())}
        mentioned |= {name.lower() for name in also}
        whole = {node["column_names"][0].lower() for node in own if len(node.get("column_names", ())) == 1}
        if any(node.get("ref_type") == "NATURAL" for node in own) or whole & {
            each.alias.lower() for each in self.sides
        }:
            return self.by_side
        return [
            {name: here for name, here in side.items() if here.lower() in mentioned or name.lower() in mentioned}
            for side in self.by_side
        ]


def _visible(value: Any, aliases: Mapping[str, int], *, outermost: bool = True) -> Iterator[Node]:
    """The nodes below one that see some relations: not those of selections with others of these names."""
    if isinstance(value, list):
        for each in value:
            yield from _visible(each, aliases, outermost=False)
        return
    if not isinstance(value, dict):
        return
    if not outermost and value.get("type") == "SELECT_NODE":
        tables = [node for node in nodes(value["from_table"]) if node["type"] in ("BASE_TABLE", "SUBQUERY")]
        if any((each.get("alias") or each.get("table_name") or "").lower() in aliases for each in tables):
            return
    if "type" in value:
        yield value
    for each in value.values():
        yield from _visible(each, aliases, outermost=False)


def unused(name: str, taken: set[str]) -> str:
    """A name that is not taken: itself, or with a number behind it."""
    own, number = name, 0
    while own.lower() in taken:
        number += 1
        own = f"{name}_{number}"
    return own
