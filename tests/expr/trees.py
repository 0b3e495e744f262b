"""Random expressions as SQL text, by the kind of their result."""

from __future__ import annotations

from hypothesis import strategies as st

NUMBER_COLUMNS = ("a", "b", "i", "l", "ua", "ub", "ui", "ul", "f", "d", "e", "m", "n")
NUMBER_LITERALS = ("0", "1", "-1", "2", "7", "300", "1.5", "-0.25", "1e0", "2.5e2", "NULL")
TEXT_COLUMNS, TEXT_LITERALS = ("s", "t"), ("''", "'a'", "'añ'", "'x%'", "'12'")
INSTANT_COLUMNS = ("dt", "ts", "tu", "t_s", "t_ms", "tz")
INSTANT_LITERALS = ("date '2020-02-29'", "timestamp '1999-12-31 23:59:59.5'")

_comparisons = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "is distinct from", "is not distinct from"])


def _of(columns: tuple[str, ...], literals: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.sampled_from(columns) | st.sampled_from(literals)


@st.composite
def numbers(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(_of(NUMBER_COLUMNS, NUMBER_LITERALS))
    inner = numbers(depth - 1)
    form = draw(st.integers(0, 7))
    if form <= 2:
        return f"({draw(inner)}) {draw(st.sampled_from(['+', '-', '*', '/', '//', '%']))} ({draw(inner)})"
    if form == 3:
        return f"{draw(st.sampled_from(['abs', 'sign', '-', 'floor', 'round', 'trunc']))}({draw(inner)})"
    if form == 4:
        return f"case when {draw(booleans(depth - 1))} then {draw(inner)} else {draw(inner)} end"
    if form == 5:
        return f"{draw(st.sampled_from(['coalesce', 'greatest', 'least', 'nullif']))}({draw(inner)}, {draw(inner)})"
    if form == 6:
        return f"{draw(st.sampled_from(['length', 'strlen', 'ascii']))}({draw(texts(depth - 1))})"
    type_ = draw(st.sampled_from(["TINYINT", "INTEGER", "BIGINT", "DOUBLE", "FLOAT", "DECIMAL(9,3)", "VARCHAR"]))
    return f"{draw(st.sampled_from(['cast', 'try_cast']))}({draw(inner)} as {type_})"


@st.composite
def texts(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(_of(TEXT_COLUMNS, TEXT_LITERALS))
    inner = texts(depth - 1)
    form = draw(st.integers(0, 4))
    if form == 0:
        return f"({draw(inner)}) || ({draw(inner)})"
    if form == 1:
        return f"{draw(st.sampled_from(['lower', 'upper', 'trim', 'hex']))}({draw(inner)})"
    if form == 2:
        return f"substr({draw(inner)}, {draw(st.integers(-3, 4))}, {draw(st.integers(-2, 4))})"
    if form == 3:
        return f"case when {draw(booleans(depth - 1))} then {draw(inner)} else {draw(inner)} end"
    return f"replace({draw(inner)}, {draw(inner)}, {draw(inner)})"


@st.composite
def instants(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(_of(INSTANT_COLUMNS, INSTANT_LITERALS))
    inner = draw(instants(depth - 1))
    form = draw(st.integers(0, 2))
    if form == 0:
        length = draw(st.sampled_from(["1 day", "-13 months", "1 month 2 days 03:00:00.5"]))
        return f"({inner}) {draw(st.sampled_from('+-'))} interval '{length}'"
    if form == 1:
        return f"date_trunc('{draw(st.sampled_from(['hour', 'day', 'week', 'month', 'decade']))}', {inner})"
    return f"coalesce({inner}, {draw(instants(depth - 1))})"


@st.composite
def booleans(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.integers(0, 9))
    if depth == 0 or kind == 0:
        return draw(st.sampled_from(["q", "p", "true", "false", "null", "i > 1", "s like 'a%'", "d >= 0"]))
    if kind <= 2:
        return f"({draw(booleans(depth - 1))}) {draw(st.sampled_from(['and', 'or']))} ({draw(booleans(depth - 1))})"
    if kind == 3:
        return f"not ({draw(booleans(depth - 1))})"
    of = draw(st.sampled_from([numbers, texts, instants]))(depth - 1)
    if kind <= 6:
        return f"({draw(of)}) {draw(_comparisons)} ({draw(of)})"
    if kind == 7:
        return f"({draw(of)}) {draw(st.sampled_from(['is null', 'is not null']))}"
    if kind == 8:
        return f"({draw(of)}) between ({draw(of)}) and ({draw(of)})"
    return f"({draw(of)}) in ({', '.join(draw(st.lists(of, min_size=1, max_size=4)))})"
