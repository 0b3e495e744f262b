"""Positions in TOML: the same keys as the standard library finds, each where it was written."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.pipeline.file.positions import KeyPath, positions

SAMPLE = '''\
# comment with [brackets] and key = "x"
top = 1
"quoted key" = 'it''s'
[a]
text = "say \\"hi\\" # no comment" # a comment
list = [1, [2, "]"], { deep = true, "x.y" = 3 },
  # inside
  4, ]
[a.b . "c d"]
long = """
one "quoted" \\""" word
two""\"""
raw = \'\'\'# not a comment
[nor.a.table]\'\'\'
when = 1979-05-27 07:32:00
dotted.key.path = { x = [ ], y = {} }
[[many]]
n = 1
[[many.inner]]
k = 1
[[many.inner]]
k = 2
[[many]]
[many.sub]
z = -1.5e3
'''.replace("it''s", "its")


def paths_of(value: Any, path: KeyPath = ()) -> set[KeyPath]:
    """All paths of what the standard library has read."""
    found = {path} if path else set()
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        found |= paths_of(each, (*path, key))
    return found


def value_at(value: Any, path: KeyPath) -> Any:
    for key in path:
        value = value[key]
    return value


def check(text: str) -> None:
    values, found = tomllib.loads(text), positions(text)
    assert set(found) == paths_of(values)
    for path, entry in found.items():
        value = value_at(values, path)
        if text[entry.value] == "[" and entry.value == entry.key:
            continue  # a header, or an element that is a list
        if isinstance(path[-1], str) and entry.key != entry.value:
            assert isinstance(value, dict) or tomllib.loads(f"x = {text[entry.value : entry.end]}")["x"] == value
        elif isinstance(path[-1], int):
            assert tomllib.loads(f"x = {text[entry.value : entry.end]}")["x"] == value


def test_a_sample_with_everything() -> None:
    check(SAMPLE)
    found = positions(SAMPLE)

    def line(*path: str | int) -> int:
        return SAMPLE.count("\n", 0, found[path].key) + 1

    assert line("a", "list", 2, "deep") == 6
    assert line("a", "list", 3) == 8
    assert line("a", "b", "c d", "long") == 10
    assert line("a", "b", "c d", "when") == 15
    assert line("many", 0, "inner", 1, "k") == 22
    assert line("many", 1, "sub", "z") == 25


names = st.text("ab_-1", min_size=1, max_size=3) | st.text("ä b.\"#='[", min_size=1, max_size=4)


def quoted(name: str) -> str:
    if name.replace("_", "").replace("-", "").isalnum() and name.isascii():
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


texts = st.text("xy#[]{}=,'\n \"", max_size=8)


@st.composite
def scalars(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 5))
    if kind == 0:
        return str(draw(st.integers(-99, 99)))
    if kind == 1:
        return draw(st.sampled_from(["true", "1.5", "inf", "1979-05-27", "07:32:00", "1979-05-27 07:32:00Z"]))
    text = draw(texts)
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if kind == 2:
        return '"' + escaped.replace("\n", "\\n") + '"'
    if kind == 3:
        return '"""' + draw(st.sampled_from(["", "\n"])) + escaped + '"""'
    literal = text.replace("'", "")
    return f"'''{literal}'''" if kind == 4 else "'" + literal.replace("\n", "") + "'"


blank = st.sampled_from(["", " ", "\n", " # c ]\n "])


@st.composite
def arrays(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(inner, max_size=3))
    body = ",".join(draw(blank) + item + draw(blank) for item in items)
    return f"[{body}{draw(st.sampled_from(['', ','])) if items else ''}{draw(blank)}]"


@st.composite
def inline_tables(draw: st.DrawFn, inner: st.SearchStrategy[str]) -> str:
    pairs = draw(st.dictionaries(names, inner, max_size=3))
    return "{" + ", ".join(f" {quoted(name)} = {value} " for name, value in pairs.items()) + "}"


values = st.recursive(scalars(), lambda inner: arrays(inner) | inline_tables(inner), max_leaves=5)


@st.composite
def documents(draw: st.DrawFn) -> str:
    lines = []
    for headers, name in enumerate(draw(st.lists(names, max_size=4))):
        header = f"t{headers % 3}.{quoted(name)}"
        lines.append(draw(st.sampled_from([f"[{header}]", f"[[{header}]]", f"[ {header} ] # c"])))
        for key, value in draw(st.dictionaries(names, values, max_size=3)).items():
            lines.append(
                f"{draw(st.sampled_from(['', '  ']))}{quoted(key)} = {value}{draw(st.sampled_from(['', ' # c']))}"
            )
    return "\n".join(lines) + "\n"


@given(documents())
def test_any_document(text: str) -> None:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # a table that is there twice
    check(text)


@pytest.mark.parametrize("text", ["", "\n\n", "# only", "a=1", "a.b.c=1\na.b.d=2", "[x]\n[x.y]\n[x.y.z]"])
def test_small_documents(text: str) -> None:
    check(text)
