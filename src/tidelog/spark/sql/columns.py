"""What a plan reads of each table: the columns that are used, and conditions that its rows have to satisfy anyway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from tidelog.sql.text.tree import Node

_USED: Final = "used"
"""The key under which a scan is told which of its columns are used."""


def kind(node: Node) -> str:
    """What an operator is."""
    return str(node["type"]).removeprefix("LOGICAL_")


def children(node: Node) -> Sequence[Node]:
    """The operators below."""
    found: Sequence[Node] = node.get("children", ())
    return found


def scans(root: Node) -> Iterator[Node]:
    """All scans of tables."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if is_scan(node):
            yield node
        waiting += children(node)


def is_scan(node: Node) -> bool:
    """Whether an operator reads a table that was mentioned."""
    return kind(node) == "GET" and node["qname"]["path"][-1] == "seq_scan"


def table(scan: Node) -> str:
    """The name of the table that is scanned."""
    return str(scan["function_data"]["table"])


def positions(scan: Node) -> list[int]:
    """The places of the columns of a scan in its table; others than its columns are None of ours."""
    return [int(each["index"]) for each in scan.get("column_indexes", ())]


def used(scan: Node) -> set[int]:
    """Which of the columns of a scan are used, by their place among these."""
    found: set[int] = scan[_USED]
    return found


def width(node: Node) -> int:
    """How many columns an operator has."""
    what = kind(node)
    below = children(node)
    if what == "GET":
        return len(node.get("column_indexes", ()))
    if what == "PROJECTION":
        return len(node.get("expressions", ()))
    if what in ("FILTER", "ORDER_BY", "LIMIT", "DISTINCT", "SAMPLE", "TOP_N"):
        return width(below[0])
    if what in ("COMPARISON_JOIN", "ANY_JOIN", "ASOF_JOIN", "CROSS_PRODUCT", "POSITIONAL_JOIN"):
        how = node.get("join_type", "INNER")
        if how in ("SEMI", "ANTI"):
            return width(below[0])
        return width(below[0]) + (1 if how == "MARK" else len(shown_of_right(node)))
    if what == "AGGREGATE_AND_GROUP_BY":
        return sum(len(node.get(each, ())) for each in ("groups", "expressions", "grouping_functions"))
    if what in ("WINDOW", "UNNEST"):
        return width(below[0]) + len(node.get("expressions", ()))
    if what in ("UNION", "EXCEPT", "INTERSECT"):
        return width(below[0])
    if what == "MATERIALIZED_CTE":
        return width(below[1])
    if what == "CTE_REF":
        return len(node["chunk_types"])
    if what == "EXPRESSION_GET":
        return len(node["expr_types"])
    if what == "DUMMY_SCAN":
        return 1
    if what == "EMPTY_RESULT":
        return len(node.get("return_types", ()))
    return width(below[0]) if below else 0


def shown_of_right(join: Node) -> list[int]:
    """The columns of the right side that a join has, by their places there."""
    return join.get("right_projection_map") or list(range(width(children(join)[1])))


def refs(expression: Any) -> Iterator[int]:
    """The columns that expressions use."""
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if each.get("expression_class") == "BOUND_REF":
                yield int(each["index"])
            elif each.get("expression_class") != "BOUND_LAMBDA":  # its columns are its own, and its data has it again
                waiting += [value for name, value in each.items() if name != "function_data"]
        elif isinstance(each, list):
            waiting += each


def mark_used(root: Node) -> None:
    """Tell every scan which of its columns are used."""
    _Marking().mark(root, set(range(width(root))))


class _Marking:
    def __init__(self) -> None:
        self._named: dict[int, set[int]] = {}
        """Columns of queries with a name that are used, by the number of the query."""

    def mark(self, node: Node, wanted: set[int]) -> None:
        what, below = kind(node), children(node)
        if what == "GET":
            node[_USED] = node.get(_USED, set()) | wanted
        elif what == "PROJECTION":
            expressions = node.get("expressions", [])
            self.mark(below[0], {ref for place in wanted for ref in refs(expressions[place])})
        elif what in ("FILTER", "ORDER_BY", "LIMIT"):
            self.mark(below[0], wanted | set(refs([node.get("expressions"), node.get("orders")])))
        elif what == "AGGREGATE_AND_GROUP_BY":
            self.mark(below[0], set(refs([node.get("groups"), node.get("expressions")])))
        elif what in ("WINDOW", "UNNEST"):
            own = width(below[0])
            self.mark(below[0], {each for each in wanted if each < own} | set(refs(node["expressions"])))
        elif what in ("COMPARISON_JOIN", "CROSS_PRODUCT", "ASOF_JOIN"):
            self._mark_join(node, wanted)
        elif what == "UNION" and node.get("setop_all"):
            for each in below:
                self.mark(each, wanted)
        elif what == "MATERIALIZED_CTE":
            self.mark(below[1], wanted)
            self.mark(below[0], self._named.get(node["table_index"], set()))
        elif what == "CTE_REF":
            self._named.setdefault(node["cte_index"], set()).update(wanted)
        else:
            for each in below:
                self.mark(each, set(range(width(each))))

    def _mark_join(self, node: Node, wanted: set[int]) -> None:
        left, right = children(node)
        own = width(left)
        conditions = node.get("conditions", [])
        lefts = {each for each in wanted if each < own} | set(refs([each.get("left") for each in conditions]))
        shown = shown_of_right(node)
        rights = {shown[each - own] for each in wanted if each >= own} if node.get("join_type") != "MARK" else set()
        rights |= set(refs([each.get("right") for each in conditions]))
        if any("left" not in each for each in conditions):  # conditions of another form
            lefts, rights = set(range(own)), set(range(width(right)))
        self.mark(left, lefts)
        self.mark(right, rights)


def conditions(root: Node) -> dict[int, list[Node]]:
    """Conditions about the columns of scans, by ``id``: rows that do not satisfy them need not be read.

    The plan has them as well, further up.
    """
    pushing = _Pushing()
    pushing.push(root, [])
    return pushing.found


class _Pushing:
    def __init__(self) -> None:
        self.found: dict[int, list[Node]] = {}
        self._mentions: dict[int, list[list[Node]]] = {}
        """Of queries with a name, the conditions of each mention."""

    def push(self, node: Node, above: list[Node]) -> None:
        """Take conditions about the columns of an operator as far down as that changes nothing."""
        what, below = kind(node), children(node)
        if what == "GET":
            self.found.setdefault(id(node), []).extend(above)
        elif what == "FILTER":
            self.push(below[0], [*above, *_conjuncts(node.get("expressions", []))])
        elif what == "ORDER_BY":
            self.push(below[0], above)
        elif what == "PROJECTION":
            self.push(below[0], _moved(above, _plain(node.get("expressions", []))))
        elif what == "AGGREGATE_AND_GROUP_BY":
            groups = node.get("groups", [])
            is_plain = groups and len(node.get("grouping_sets", ())) <= 1
            self.push(below[0], _moved(above, _plain(groups)) if is_plain else [])
        elif what == "UNION":
            for each in below:
                self.push(each, above)
        elif what in ("COMPARISON_JOIN", "CROSS_PRODUCT"):
            self._push_join(node, above)
        elif what == "CTE_REF":
            self._mentions.setdefault(node["cte_index"], []).append(above)
        elif what == "MATERIALIZED_CTE":
            self.push(below[1], above)
            mentions = self._mentions.get(node["table_index"], [])
            self.push(below[0], mentions[0] if len(mentions) == 1 else [])
        else:
            for each in below:
                self.push(each, [])

    def _push_join(self, node: Node, above: list[Node]) -> None:
        left, right = children(node)
        own, how = width(left), node.get("join_type", "INNER")
        keeps_left = how in ("INNER", "LEFT", "SEMI", "ANTI", "MARK", "SINGLE")
        self.push(left, _moved(above, {at: at for at in range(own)}) if keeps_left else [])
        shown = enumerate(shown_of_right(node))
        rights = {own + at: place for at, place in shown} if how in ("INNER", "RIGHT") else {}
        self.push(right, _moved(above, rights))


def _plain(expressions: Sequence[Node]) -> dict[int, int]:
    """Of expressions that are columns as they are, the places of these."""
    return {at: each["index"] for at, each in enumerate(expressions) if each["expression_class"] == "BOUND_REF"}


def _conjuncts(expressions: Iterable[Node]) -> Iterator[Node]:
    for each in expressions:
        if each["type"] == "CONJUNCTION_AND":
            yield from _conjuncts(each["children"])
        else:
            yield each


def _moved(above: Iterable[Node], places: dict[int, int]) -> list[Node]:
    """Conditions about other numbers of the same columns; those about further columns are left out."""
    return [_renumbered(each, places) for each in above if set(refs(each)) <= places.keys()]


def _renumbered(value: Any, places: dict[int, int]) -> Any:
    if isinstance(value, dict):
        if value.get("expression_class") == "BOUND_REF":
            return {**value, "index": places[value["index"]]}
        if value.get("expression_class") == "BOUND_LAMBDA":
            return value
        return {name: each if name == "function_data" else _renumbered(each, places) for name, each in value.items()}
    if isinstance(value, list):
        return [_renumbered(each, places) for each in value]
    return value
