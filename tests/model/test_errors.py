"""Messages about names."""

from __future__ import annotations

from tidelog.model.errors import did_you_mean, listed

MANY = [f"sensors/{number:05d}" for number in range(10_000)]


def test_a_close_name_is_asked_for() -> None:
    assert did_you_mean("Prise", ["price", "volume"]) == "did you mean 'price'?"


def test_few_names_are_all_told() -> None:
    assert did_you_mean("zzz", ["price", "volume"]) == "known are 'price', 'volume'"
    assert did_you_mean("zzz", []) == "there are none"


def test_of_many_names_some_are_told_and_how_many_there_are() -> None:
    found = did_you_mean("zzz", MANY)
    assert found.startswith("known are 'sensors/00000', 'sensors/00001', ")
    assert found.endswith(" and 9,988 others")
    assert len(found) < 300
    assert listed(MANY[:12]) == ", ".join(map(repr, MANY[:12]))
    assert listed(MANY[:13]).endswith("'sensors/00011' and 1 others")


def test_names_that_have_the_text_in_them_come_first() -> None:
    assert did_you_mean("777", MANY).startswith("known are 'sensors/00777', 'sensors/01777', ")


def test_long_names_are_cut() -> None:
    assert len(did_you_mean("zzz", ["x" * 100_000] * 20)) < 2_000
    assert "(100,000 characters)" in did_you_mean("x" * 99_999, ["x" * 100_000])
