"""Rules about the names of a row pattern, checked before anything is computed."""

from __future__ import annotations

import pyarrow as pa

from tidelog.model.errors import did_you_mean
from tidelog.operators.rowpattern.syntax import Rows
from tidelog.sql.clauses.grouping import Refuse
from tidelog.sql.clauses.row_pattern.clause import CALL
from tidelog.sql.clauses.row_pattern.expressions import Names
from tidelog.sql.clauses.row_pattern.grammar import parts_of
from tidelog.sql.text.tree import Node, nodes


def names_of(clause: Node, schema: pa.Schema, refuse: Refuse) -> Names:
    """What names mean inside of a clause. Raises for variables and subsets that cannot be."""
    variables: dict[str, str] = {}
    for part in parts_of(clause["pattern"]):
        if part["kind"] == "variable":
            name = part["name"] if part["is_quoted"] else part["name"].upper()
            known = variables.setdefault(part["name"].upper(), name)
            if known != name:
                raise refuse(
                    f"found variables {known} and {name}, which differ in case alone; give one of them another name",
                    part,
                )
    subsets: dict[str, frozenset[str]] = {}
    for subset in clause["subsets"]:
        name = subset["name"].upper()
        if name in variables:
            raise refuse(f"found subset {subset['name']}, which is a variable of the pattern", subset)
        if name in subsets:
            raise refuse(f"found subset {subset['name']} twice", subset)
        for member in subset["members"]:
            if member["name"].upper() not in variables:
                raise refuse(
                    f"found {member['name']} in a subset, which is no variable of the pattern; "
                    f"{did_you_mean(member['name'].upper(), list(variables))}",
                    member,
                )
        subsets[name] = frozenset(variables[each["name"].upper()] for each in subset["members"])
    return Names(variables, subsets, {name.lower(): name for name in schema.names})


def check_clause(clause: Node, names: Names, refuse: Refuse) -> None:
    """Raise for definitions, measures, skips and patterns that cannot be."""
    defined: set[str] = set()
    for each in clause["defines"]:
        name = each["name"].upper()
        if name not in names.variables:
            what = "a subset, which has no condition of its own" if name in names.subsets else "not in the pattern"
            raise refuse(
                f"found a condition of {each['name']}, which is {what}; {did_you_mean(name, list(names.variables))}",
                each,
            )
        if name in defined:
            raise refuse(f"found two conditions of {each['name']}; expected one, perhaps with AND", each)
        defined.add(name)
    measured: set[str] = set()
    for each in clause["measures"]:
        if each["name"].lower() in measured:
            raise refuse(f"found two measures {each['name']}; give one of them another name", each)
        measured.add(each["name"].lower())
    skip = clause["skip"]
    if skip is not None and "name" in skip and names.rows(skip["name"]) is None:
        name = skip["name"].upper()
        advice = {"FIRST": "expected a variable behind it", "LAST": "expected a variable behind it"}
        advice |= dict.fromkeys(("NEXT", "ROW"), "expected SKIP TO NEXT ROW, or a variable")
        raise refuse(
            f"found SKIP TO {skip['name']}, which is no variable of the pattern; "
            f"{advice.get(name) or names.suggestion(name)}",
            skip,
        )
    timeouts = clause["timeouts"]
    if timeouts is not None and clause["within"] is None:
        raise refuse("found EMIT TIMEOUTS, and nothing that times out; expected WITHIN and a length", timeouts)
    if timeouts is not None and clause["rows"] == Rows.WITH_UNMATCHED.name:
        raise refuse(
            "found EMIT TIMEOUTS with ALL ROWS PER MATCH WITH UNMATCHED ROWS, where rows of partial matches would "
            "come out twice; expected one of both",
            timeouts,
        )
    if "frame" in clause:
        _check_window(clause, refuse)
    for part in parts_of(clause["pattern"]):
        if part["kind"] == "exclusion" and clause["rows"] == Rows.WITH_UNMATCHED.name:
            raise refuse(
                "found an exclusion {- -} with ALL ROWS PER MATCH WITH UNMATCHED ROWS, where it could not be told what "
                "was left out; expected one of both",
                part,
            )


def _check_window(clause: Node, refuse: Refuse) -> None:
    """Raise for what patterns of windows do not have."""
    for part in parts_of(clause["pattern"]):
        if part["kind"] == "anchor":
            sign = "^" if part["is_start"] else "$"
            raise refuse(
                f"found the anchor {sign} in the pattern of a window, whose frames have no ends of theirs", part
            )
    for node in nodes([clause["measures"], clause["defines"]]):
        if node.get("class") == CALL and node["function_name"].lower() == "match_number":
            raise refuse("found MATCH_NUMBER() in a window, in which each row has its own match, or none", node)
