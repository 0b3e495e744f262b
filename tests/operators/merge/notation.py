"""Elements as they are written in papers: ``i(A,6,20) a(A,6,20→25) s(11)``."""

from __future__ import annotations

import re

from tidelog.operators.merge.codes import NEVER
from tidelog.operators.merge.elements import Element, adjust, insert, stable

_ELEMENT = re.compile(r"([ias])\(([^)]*)\)")


def element(text: str) -> Element:
    (found,) = elements(text)
    return found


def elements(text: str) -> list[Element]:
    found = []
    for kind, inside in _ELEMENT.findall(text):
        parts = [each.strip() for each in inside.split(",")]
        if kind == "s":
            found.append(stable(_time(parts[0])))
        elif kind == "i":
            found.append(insert(parts[0], _time(parts[1]), _time(parts[2])))
        else:
            old, end = parts[2].split("→")
            found.append(adjust(parts[0], _time(parts[1]), _time(old), _time(end)))
    return found


def _time(text: str) -> int:
    return NEVER if text == "∞" else int(text)
