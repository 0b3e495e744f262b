"""Queries about situations as people may write them: in either dialect, in any case, with lengths in several forms."""

from __future__ import annotations

import numpy as np

from tidelog.operators.situations.relations import NAMES, each_of, inverse
from tidelog.operators.situations.syntax import Aggregate, Constraint, Definition, Instant, Situations

_SWAPPED = {"finishes": "finished by", "finished by": "finishes"}


def parts_of(query: Situations, dice: np.random.Generator, or_sign: str = "|") -> str:
    """What stands between the parentheses of SITUATIONS; of the stand-alone language, what is behind FROM."""
    dialect = str(dice.choice(["ALLEN", "THESIS"]))
    partition = f"PARTITION BY {', '.join(query.partition)} " if query.partition else ""
    definitions = ", ".join(_definition(each, dice) for each in query.definitions)
    constraints = " AND ".join(_constraint(each, dialect, dice, or_sign) for each in query.constraints)
    returned = ", ".join(f"{_value(each.terms[0])} AS {each.name}" for each in query.returned)
    options = [f"MODE {query.mode.name}", f"RELATIONS {dialect}"]
    if dialect == "ALLEN" and dice.random() < 0.5:
        options.pop()
    return (
        f"{partition}ORDER BY t DEFINE {definitions}\nPATTERN {constraints}\nWITHIN {_length(query.within, dice)}\n"
        f"RETURN {returned} {' '.join(options)}"
    )


def _definition(each: Definition, dice: np.random.Generator) -> str:
    condition = each.condition if dice.random() < 0.5 else f"({each.condition} AND t BETWEEN -1 AND 1000000)"
    if each.least and each.most is not None:
        return f"{each.name} AS {condition} BETWEEN {each.least} ticks AND '{each.most} ticks'"
    if each.most is not None:
        return f"{each.name} AS {condition} AT MOST {_length(each.most, dice)}"
    bound = f" AT LEAST {_length(each.least, dice)}" if each.least else ""
    return f"{each.name} AS {condition}{bound}"


def _constraint(each: Constraint, dialect: str, dice: np.random.Generator, or_sign: str) -> str:
    first, mask, second = each.first, each.relations, each.second
    if dice.random() < 0.3:
        first, mask, second = second, inverse(mask), first
    known = {relation: name for name, relation in NAMES.items()}
    names = [known[relation] for relation in each_of(mask)]
    if dialect == "THESIS":
        names = [_SWAPPED.get(name, name) for name in names]
    dice.shuffle(names)
    written = [name.upper() if dice.random() < 0.3 else name for name in names]
    return f"{first.lower()} {f' {or_sign} '.join(written)} {second}"


def _length(ticks: int, dice: np.random.Generator) -> str:
    return str(dice.choice([f"{ticks}", f"{ticks} ticks", f"{ticks}tick", f"'{ticks} ticks'"]))


def _value(term: Aggregate | Instant) -> str:
    if isinstance(term, Instant):
        return f"{term.situation}.{term.bound.value}"
    return term.call.replace("count(*)", f"count({term.situation}.*)")
