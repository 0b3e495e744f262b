"""Published and worked examples of logical merge: what each element makes a merge give."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from operators.merge.notation import element, elements
from support.merging.adapters import open_close
from tidelog.operators.merge.codes import INSERT, NEVER
from tidelog.operators.merge.compatibility import check_keyed
from tidelog.operators.merge.elements import Element
from tidelog.operators.merge.reference import policies
from tidelog.operators.merge.reference.cleanse import Cleanse
from tidelog.operators.merge.reference.counted import R4
from tidelog.operators.merge.reference.driver import Merge
from tidelog.operators.merge.reference.keyed import R3, SeparateR3
from tidelog.operators.merge.reference.ordered import R0, R1, R2, R2D, R2Dup
from tidelog.operators.merge.table import Table, table_of

TABLE_1 = (
    "2 i(A,6,7); 2 i(B,8,15); 1 i(B,8,∞); 2 a(A,6,7→12); 1 i(A,6,12); 1 a(B,8,∞→10); 2 a(B,8,15→10); 1 s(11);"
    "1 s(∞); 2 s(∞)"
)
TABLE_2 = "1 i(A,6,10); 2 i(A,6,12); 2 i(B,7,14); 1 a(A,6,10→15); 2 a(A,6,12→15); 2 s(16)"
THIRD = (
    "2 i(A,2,12); 2 i(B,3,10); 2 i(C,4,18); 2 i(E,17,21); 2 s(11);"
    "1 i(A,2,16); 1 i(B,3,10); 1 i(C,4,18); 1 i(D,15,20); 1 s(14)"
)

# What goes in, and what comes out by each of it; "=" is the same, "-" nothing. Inputs attach when they first appear.
CASES: dict[str, tuple[Callable[[], Merge], str, str]] = {
    "V1 lazy": (R3, TABLE_1, "=; =; -; -; -; -; -; a(A,6,7→12) a(B,8,15→10) s(11); =; -"),
    "V1 aggressive": (
        lambda: R3(policies.Aggressive()),
        TABLE_1,
        "=; =; a(B,8,15→∞); =; -; =; -; =; =; -",
    ),
    "V1 fully frozen": (
        lambda: R3(policies.FullyFrozen()),
        TABLE_1,
        "-; -; -; -; -; -; -; i(B,8,10) s(6); i(A,6,12) s(∞); -",
    ),
    "V1 half frozen": (
        lambda: R3(policies.HalfFrozen()),
        TABLE_1,
        "-; -; -; -; -; -; -; i(A,6,12) i(B,8,10) s(11); =; -",
    ),
    "V2 aggressive": (
        lambda: R3(policies.Aggressive()),
        TABLE_2,
        "=; a(A,6,10→12); =; a(A,6,12→15); -; =",
    ),
    "V2 fully frozen": (lambda: R3(policies.FullyFrozen()), TABLE_2, "-; -; -; -; -; i(A,6,15) i(B,7,14) s(16)"),
    "V2 half frozen": (lambda: R3(policies.HalfFrozen()), TABLE_2, "-; -; -; -; -; i(A,6,15) i(B,7,14) s(16)"),
    "V2 lazy": (R3, TABLE_2, "=; -; =; -; -; a(A,6,10→15) s(16)"),
    "V2 leader": (lambda: R3(policies.FollowLeader()), TABLE_2, "=; -; -; =; -; i(B,7,14) s(16)"),
    "V2 all": (lambda: R3(policies.Fraction(1.0)), TABLE_2, "-; =; -; -; -; a(A,6,12→15) i(B,7,14) s(16)"),
    "V3 open ended": (
        lambda: R3(policies.OpenEnded()),
        THIRD,
        "-; -; -; -; i(A,2,∞) i(B,3,10) i(C,4,∞) s(11); -; -; -; -; =",
    ),
    "V3 lazy": (R3, THIRD, "=; =; =; =; =; -; -; -; =; a(A,2,12→16) s(14)"),
    "V3 fully frozen": (lambda: R3(policies.FullyFrozen()), THIRD, "-; -; -; -; i(B,3,10) s(2); -; -; -; -; -"),
    "V4": (
        R0,
        "1 i(a,1,5); 2 i(a,1,5); 2 i(b,2,4); 2 s(3); 1 i(b,2,4); 1 s(2); 1 i(c,3,9); 2 i(c,3,9); 2 s(10)",
        "=; -; =; =; -; -; =; -; =",
    ),
    "V5": (R0, "1 i(a,1,5); 1 s(4); 2 i(a,1,5); 2 i(b,3,9); 1 i(c,6,8)", "=; =; -; -; ="),
    "V6": (
        R1,
        "1 i(a,5,9); 1 i(b,5,9); 2 i(a,5,9); 2 i(b,5,9); 2 i(c,5,9); 1 i(c,5,9); 1 s(6); 2 i(d,7,8); 2 s(6)",
        "=; =; -; -; =; -; =; =; -",
    ),
    "V7": (R1, "1 i(a,5,9); detach 1; 2 i(a,5,9); 2 i(b,5,9)", "=; -; -; ="),
    "V8": (
        R2,
        "1 i(a,5,9); 2 i(b,5,8); 2 i(a,5,9); 1 i(b,5,8); 1 i(c,6,9); 2 s(6); 2 i(d,6,7)",
        "=; =; -; -; =; =; =",
    ),
    "V8 several": (R2Dup, "1 i(a,5,9); 1 i(a,5,9); 2 i(a,5,9); 2 i(a,5,9); 2 i(a,5,9)", "=; =; -; -; ="),
    "V8 in any order": (R2D, "1 i(a,5,9); 2 i(b,3,8); 1 i(b,3,8); 2 i(a,5,9); 1 s(4); 2 i(c,3,9)", "=; =; -; -; =; -"),
    "V9": (
        R3,
        "1 i(X,5,9); 2 i(Y,5,9); 2 s(6); 1 a(X,5,9→5); 1 i(Y,5,9); 1 s(8); 1 s(10)",
        "=; =; a(X,5,9→5) s(6); -; -; =; =",
    ),
    "V10": (R3, "1 i(A,2,10); 1 s(10); 1 a(A,2,10→14); 1 s(11); 1 s(15)", "=; =; -; a(A,2,10→14) s(11); ="),
    "V11": (
        R3,
        "1 i(A,2,12); 2 s(1); 1 s(6); 2 i(B,8,9); 2 s(10); 1 a(A,2,12→20); 1 i(B,8,9); 1 s(15); 1 s(21)",
        "=; =; =; =; =; -; -; a(A,2,12→20) s(15); =",
    ),
    "V12": (
        R3,
        "1 i(A,1,9); 1 i(B,6,20); 2 i(A,1,4); 1 s(5); detach 1; 2 a(A,1,4→7); 2 s(3); 2 i(C,4,5); 2 i(B,6,12); 2 s(8);"
        "2 s(13)",
        "=; =; -; =; -; -; -; -; -; a(A,1,9→7) s(8); a(B,6,20→12) s(13)",
    ),
    "V13": (
        R3,
        "1 i(A,1,∞); 2 i(A,1,30); 2 s(5); 1 s(9); 2 a(A,1,30→∞); 2 s(∞); 1 i(A,1,3)",
        "=; -; =; =; -; =; -",
    ),
    "V14": (
        R3,
        "1 i(A,5,9); 1 a(A,5,9→5); 1 i(A,5,12); 1 s(6); 1 s(13)",
        "=; -; -; =; a(A,5,9→12) s(13)",
    ),
    "V14 aggressive": (
        lambda: R3(policies.Aggressive()),
        "1 i(A,5,9); 1 a(A,5,9→5); 2 i(A,5,12); 2 s(6); 1 i(A,5,8); 1 a(A,5,8→5); 1 i(A,5,12); 2 s(13)",
        "=; =; =; =; a(A,5,12→8); -; a(A,5,8→12); =",
    ),
    "V15": (
        R3,
        "1 i(A,0,10); 1 s(5); 1 a(A,0,10→20); 1 s(15); 1 a(A,0,20→30); 1 s(25); 1 s(31)",
        "=; =; -; a(A,0,10→20) s(15); -; a(A,0,20→30) s(25); =",
    ),
    "V16": (
        R3,
        "1 i(A,2,8); 1 s(5); attach 2 10; 2 i(B,6,12); 2 s(11); 1 i(B,6,12); 1 s(10); detach 1; 2 s(13)",
        "=; =; -; =; -; -; s(10) s(11); -; =",
    ),
    "V17": (
        R3,
        "1 i(B,1,9); 2 i(B,1,9); 2 i(X,5,9); detach 2; 3 i(B,1,9); 3 s(6); 3 s(10)",
        "=; -; =; -; -; a(X,5,9→5) s(6); =",
    ),
    "V18": (
        R4,
        "1 i(A,6,20); 1 i(A,6,20); 2 i(A,6,25); 2 i(A,6,12); 2 i(A,6,30); 1 a(A,6,20→12); 1 s(10); 2 a(A,6,30→6);"
        "2 a(A,6,25→20); 2 s(15); 1 s(21)",
        "=; =; -; -; =; -; a(A,6,20→6) s(10); -; -; a(A,6,30→12) s(15); =",
    ),
    "V18 exact": (
        lambda: R4(policies.Exact()),
        "1 i(A,6,20); 1 i(A,6,20); 2 i(A,6,25); 2 i(A,6,12); 2 i(A,6,30); 1 a(A,6,20→12); 1 s(10)",
        "=; =; -; -; =; -; a(A,6,20→6) a(A,6,30→12) s(10)",
    ),
    "V19": (
        R4,
        "1 i(A,6,20); 1 a(A,6,20→6); 1 i(A,6,30); 2 i(A,6,30); 1 s(10); 2 s(12); 2 s(31)",
        "=; -; -; -; =; =; a(A,6,20→30) s(31)",
    ),
    "V22": (
        lambda: R3(policies.FullyFrozen()),
        "1 i(A,1,20); 1 i(B,2,4); 2 i(B,2,9); 1 s(6); 2 a(B,2,9→4); 1 i(C,7,9); 1 s(12); 1 s(21)",
        "-; -; -; i(B,2,4) s(1); -; -; i(C,7,9); i(A,1,20) s(21)",
    ),
    "V24": (R3, "1 i(A,2,20); 2 i(A,2,7); 1 s(10); 2 s(12)", "=; -; =; a(A,2,20→10) s(12)"),
    "V25": (R3, "1 s(3); 2 a(A,5,9→12); 1 i(A,5,12); 1 s(13)", "=; i(A,5,12); -; ="),
    "V26": (
        lambda: R3(policies.Lagging(3)),
        "1 i(A,1,6); 1 s(5); 1 a(A,1,6→8); 1 s(8); 1 s(12)",
        "=; s(2); -; s(5); a(A,1,6→8) s(9)",
    ),
}


def run(merge: Merge, script: str) -> list[list[Element]]:
    """What each step gives."""
    steps = [each.strip() for each in script.split(";")]
    later = {step.split()[1] for step in steps if step.startswith("attach")}
    for name in dict.fromkeys(step.split()[0] for step in steps):
        if name.isdigit() and name not in later:
            merge.attach(name)
    given = []
    for step in steps:
        what, _, rest = step.partition(" ")
        if what == "attach":
            name, join = rest.split()
            merge.attach(name, int(join))
            given.append([])
        elif what == "detach":
            merge.detach(rest)
            given.append([])
        else:
            given.append(merge.push(what, element(rest)))
    return given


def expected(script: str, told: str) -> list[list[Element]]:
    found = []
    for step, out in zip(script.split(";"), told.split(";"), strict=True):
        found.append(elements(step) if out.strip() == "=" else elements(out))
    return found


@pytest.mark.parametrize("case", CASES)
def test_each_element_makes_a_merge_give_what_it_should(case: str) -> None:
    make, script, told = CASES[case]
    assert run(make(), script) == expected(script, told)


@pytest.mark.parametrize("case", [name for name, (make, _, _) in CASES.items() if make is R3])
def test_an_index_for_each_input_gives_the_same(case: str) -> None:
    _, script, told = CASES[case]
    assert run(SeparateR3(), script) == expected(script, told)


def test_what_elements_mean() -> None:
    assert table_of(elements("i(A,6,20) a(A,6,20→30) a(A,6,30→25)")).events == {("A", 6, 25): 1}
    merge = R3()
    given = [each for step in run(merge, TABLE_1) for each in step]
    assert table_of(given).events == {("A", 6, 12): 1, ("B", 8, 10): 1}
    assert merge.size == 0


def test_counters_tell_what_is_odd() -> None:
    clamped, missing = R3(), R3()
    run(clamped, CASES["V24"][1])
    assert clamped.inputs["2"].counters.clamps == 1
    run(missing, CASES["V11"][1])
    assert missing.inputs["2"].counters.fallbacks == 1
    late = R0()
    run(late, CASES["V5"][1])
    assert late.inputs["2"].counters.late == 2


def _table(text: str, at: int) -> Table:
    table = table_of(elements(text))
    table.stable = at
    return table


def test_v3_verdicts() -> None:
    one = _table("i(A,2,16) i(B,3,10) i(C,4,18) i(D,15,20)", 14)
    two = _table("i(A,2,12) i(B,3,10) i(C,4,18) i(E,17,21)", 11)
    assert check_keyed([one, two], _table("i(A,2,∞) i(B,3,10) i(C,4,∞)", 11)) is None
    assert check_keyed([one, two], _table("i(A,2,∞) i(B,3,10) i(C,4,8)", 11)) is not None
    assert check_keyed([one, two], _table("i(A,2,16) i(B,3,10) i(C,4,18) i(D,15,20) i(E,17,21)", 14)) is None
    told = check_keyed([one, two], _table("i(A,2,12) i(C,4,18) i(D,15,20)", 13))
    assert told is not None
    assert told.startswith("C2")
    assert check_keyed([one, two], _table("i(A,2,16) i(C,4,18) i(D,15,20)", 13)) == (
        "C3: ('B', 3) ends at 10 on an input for good, in the output at None"
    )
    assert check_keyed([one], _table("i(A,2,16) i(B,3,10) i(C,4,18)", 12)) is None
    assert check_keyed([two], _table("i(A,2,12) i(B,3,10) i(C,4,18)", 12)) is not None


def test_v20_cleanse() -> None:
    cleanse = Cleanse()
    script = elements("i(X,1,100) i(Y,5,6) i(W,3,9) a(W,3,9→4) s(10) a(X,1,100→50) s(60)")
    assert [cleanse.push(each) for each in script] == [
        [], [], [], [], elements("s(1)"), [], elements("i(X,1,50) i(W,3,4) i(Y,5,6) s(60)"),
    ]  # fmt: skip


def test_v21_opens_and_closes() -> None:
    one = [("open", "A", 1), ("close", "A", 4), ("open", "B", 2), ("close", "B", 5), ("open", "C", 3)]
    other = [("open", "B", 2), ("close", "B", 6), ("open", "A", 1), ("open", "C", 3), ("close", "A", 4)]
    other.append(("close", "B", 5))
    wanted = {("A", 1, 4): 1, ("B", 2, 5): 1, ("C", 3, NEVER): 1}
    assert table_of(open_close(one)).events == wanted
    found = list(open_close(other))
    assert found == elements("i(B,2,∞) a(B,2,∞→6) i(A,1,∞) i(C,3,∞) a(A,1,∞→4) a(B,2,6→5)")
    assert table_of(found).events == wanted


def test_v23_two_workers() -> None:
    """A on one, B on the other: stables go to both, and the whole is as far as the least of them."""
    workers = [R3(), R3()]
    for worker in workers:
        worker.attach("1")
        worker.attach("2")
    reached, gathered = -1, []
    script = [
        (0, "1", "i(A,1,9)"), (1, "1", "i(B,2,4)"), (0, "1", "s(5)"), (1, "2", "i(B,2,4)"), (1, "2", "s(3)"),
        (1, "1", "s(5)"), (0, "2", "s(3)"), (0, "1", "s(10)"), (1, "1", "s(10)"),
    ]  # fmt: skip
    for place, name, text in script:
        given = workers[place].push(name, element(text))
        inserts = [each for each in given if each.kind == INSERT]
        least = min(each.stable for each in workers)
        gathered.append((len(inserts), least if least > reached else None))
        reached = max(reached, least)
    assert gathered == [
        (1, None), (1, None), (0, None), (0, None), (0, 3), (0, 5), (0, None), (0, None), (0, 10),
    ]  # fmt: skip
