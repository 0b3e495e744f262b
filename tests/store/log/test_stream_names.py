from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.model.errors import InputError
from tidelog.store.log.file_names import born_at, new_file_name, stem_of
from tidelog.store.log.stream_names import check_stream_name, escape_name, new_stream_id, stream_born_at, unescape_name

names = st.text(min_size=1, max_size=255)


@given(names)
@example("Röhre 7")
@example("..")
@example("a/b\0%41")
def test_escaping_is_reversible_and_safe(name: str) -> None:
    escaped = escape_name(name)
    assert unescape_name(escaped) == name
    assert re.fullmatch(r"[a-z0-9_%-]+", escaped)


@given(st.lists(st.text(st.sampled_from("aAäÄ%4.1"), min_size=1, max_size=4), unique=True))
def test_no_two_names_collide_where_case_is_ignored(some: list[str]) -> None:
    assert len({escape_name(name).casefold() for name in some}) == len(some)


def test_the_documented_example() -> None:
    assert escape_name("Röhre 7") == "%52%c3%b6hre%207"


@pytest.mark.parametrize("text", ["A", "%4", "%4G", "a.b", "%61", "%c3", "%C3%B6", "ö", "a~b"])
def test_what_is_no_escaped_name_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="no escaped name"):
        unescape_name(text)


@given(names, st.integers(0, 2**53 // 1000))
def test_ids_are_unique_tell_their_age_and_fit_into_a_directory(name: str, seconds: int) -> None:
    one, other = new_stream_id(name, seconds), new_stream_id(name, seconds)
    assert one != other
    assert len(one) <= 255
    assert stream_born_at(one) == seconds
    hint = one.rpartition("~")[0]
    assert escape_name(name).startswith(hint)
    assert hint == escape_name(name) or len(hint) > 170


def test_a_character_is_not_cut_into_unreadable_pieces() -> None:
    for shift in range(3):
        hint = new_stream_id("a" * shift + "Z" * 200, 0).rpartition("~")[0]
        assert unescape_name(hint).strip("aZ") == ""


@pytest.mark.parametrize("name", ["", "x" * 256, "\ud800", 7])
def test_names_no_stream_can_have(name: str) -> None:
    with pytest.raises(InputError, match="found"):
        check_stream_name(name)


def test_names_of_files_tell_their_age() -> None:
    name = new_file_name(1_790_000_000.25)
    assert re.fullmatch(r"1790000000250-[0-9a-f]{16}\.tide", name)
    assert born_at(name) == 1_790_000_000.25
    assert born_at(f"streams/x/splits/{name}.lock") == 1_790_000_000.25
    assert stem_of(f"a/{name}.lock") == stem_of(name)
    assert born_at("7.tide") is None
    assert born_at("notes") is None
    assert new_file_name(1.0) != new_file_name(1.0)
