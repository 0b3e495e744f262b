"""Patterns over letters, each with the matches that it has: worked out by hand.

A row is a letter, and rows are numbered from 1 on. A variable accepts the lower case of its name, or the letters that
are told (``A=ab``); ``*`` is no condition. Matches are told as their rows with variables, ``a match | the next one``; a
match without rows is ``()``, and its row. ``{...}`` around a row says that it is left out of what comes out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A pattern, the rows it is looked for in, and what is found."""

    pattern: str
    rows: str
    expected: str
    defines: str = ""
    after: str = ""
    behind: str = ""
    """What stands behind PATTERN (...)."""

    def __str__(self) -> str:
        return " ".join(filter(None, [self.pattern, self.rows, self.defines, self.after, self.behind]))


C = Case

CONCATENATION = [
    C("A", "a", "A1"),
    C("A", "b", ""),
    C("A", "aa", "A1 | A2"),
    C("A", "", ""),
    C("A B", "ab", "A1 B2"),
    C("A B", "aab", "A2 B3"),
    C("A B", "abab", "A1 B2 | A3 B4"),
    C("A B", "ba", ""),
    C("A B C", "abcabc", "A1 B2 C3 | A4 B5 C6"),
    C("A B A", "ababa", "A1 B2 A3"),
    C("A B A", "abaaba", "A1 B2 A3 | A4 B5 A6"),
    C("(A B) C", "abc", "A1 B2 C3"),
    C("A (B C)", "abc", "A1 B2 C3"),
    C("((A))", "a", "A1"),
    C("A () B", "ab", "A1 B2"),
    C("a B", "ab", "A1 B2"),
    C("A a", "aa", "A1 A2"),
    C('"a" b', "ab", "a1 B2"),
    C("A B", "ab", "A1 B2", "a=a,b=b"),
    C('"A" B', "ab", "A1 B2"),
    C("A Z", "ab", "A1 Z2", "Z=*"),
    C("Z Z", "xyz", "Z1 Z2", "Z=*"),
]

QUANTIFIERS = [
    C("A*", "aab", "A1 A2 | ()3"),
    C("A*", "b", "()1"),
    C("A+", "aab", "A1 A2"),
    C("A+", "b", ""),
    C("A?", "aab", "A1 | A2 | ()3"),
    C("A*?", "aa", "()1 | ()2"),
    C("A+?", "aa", "A1 | A2"),
    C("A??", "a", "()1"),
    C("A{2}", "aaaaa", "A1 A2 | A3 A4"),
    C("A{2,}", "aaaaa", "A1 A2 A3 A4 A5"),
    C("A{2,}?", "aaaaa", "A1 A2 | A3 A4"),
    C("A{,2}", "aaab", "A1 A2 | A3 | ()4"),
    C("A{,2}?", "a", "()1"),
    C("A{,}", "aab", "A1 A2 | ()3"),
    C("A{,}? B", "aab", "A1 A2 B3"),
    C("A{2,3}", "aaaaa", "A1 A2 A3 | A4 A5"),
    C("A{2,3}?", "aaaaa", "A1 A2 | A3 A4"),
    C("A{1}", "aa", "A1 | A2"),
    C("A{3}", "aa", ""),
    C("A+ B", "aab", "A1 A2 B3"),
    C("A* B", "b", "B1"),
    C("A* B", "aab", "A1 A2 B3"),
    C("A? B", "aab", "A2 B3"),
    C("A+? B", "aab", "A1 A2 B3"),
    C("A*? B", "aab", "A1 A2 B3"),
    C("A+ B+", "aabb", "A1 A2 B3 B4"),
    C("A+ B+?", "aabb", "A1 A2 B3"),
    C("A B* C", "abbc", "A1 B2 B3 C4"),
    C("A B* C", "ac", "A1 C2"),
    C("A B+ C", "acabc", "A3 B4 C5"),
    C("A B? C", "abcac", "A1 B2 C3 | A4 C5"),
    C("(A B)+", "ababa", "A1 B2 A3 B4"),
    C("(A B)* A", "ababa", "A1 B2 A3 B4 A5"),
    C("(A B){2}", "ababab", "A1 B2 A3 B4"),
    C("(A+ B)+", "aabab", "A1 A2 B3 A4 B5"),
    C("(A B?)+", "aab", "A1 A2 B3"),
    C("(A | B)+", "abba", "A1 B2 B3 A4"),
    C("(A*)*", "aa", "A1 A2"),
    C("(A*)+", "aa", "A1 A2"),
    C("(A?)*", "aab", "A1 A2 | ()3"),
    C("(A? B?)*", "abba", "A1 B2 B3 A4"),
    C("(A??)*", "a", "A1"),
    C("(() | A)*", "a", "A1"),
    C("(A?){2}", "aa", "A1 A2"),
    C("(A??){2}", "aa", "()1 | ()2"),
    C("(A??){1,}", "aa", "A1 A2"),
    C("A* A", "aaa", "A1 A2 A3"),
    C("A+ A+ A", "aaa", "A1 A2 A3"),
    C("A{2,3} A", "aaa", "A1 A2 A3"),
    C("A{2,3} A", "aaaa", "A1 A2 A3 A4"),
    C("A{2,3}? A", "aaaa", "A1 A2 A3"),
    C("(A+)+ B", "aaaac", ""),
    C("A{10}", "a" * 9, ""),
    C("A{3}{- B -}", "aaab", "A1 A2 A3 {B4}"),
]

CHOICES = [
    C("A | B", "ab", "A1 | B2"),
    C("A | B", "c", ""),
    C("A | A B", "ab", "A1"),
    C("A B | A", "ab", "A1 B2"),
    C("A B | A", "aa", "A1 | A2"),
    C("(A | B) C", "bc", "B1 C2"),
    C("A B | C D", "cdab", "C1 D2 | A3 B4"),
    C("A | B | C", "cab", "C1 | A2 | B3"),
    C("X | Y", "a", "X1", "X=a,Y=a"),
    C("Y | X", "a", "Y1", "X=a,Y=a"),
    C("X Y", "aa", "X1 Y2", "X=a,Y=a"),
    C("X* Y", "aaa", "X1 X2 Y3", "X=a,Y=a"),
    C("X*? Y", "aaa", "Y1 | Y2 | Y3", "X=a,Y=a"),
    C("X+? Y+", "aaa", "X1 Y2 Y3", "X=a,Y=a"),
    C("X+ Y+", "aaaa", "X1 X2 X3 Y4", "X=a,Y=a"),
    C("(X | Y)+", "aaa", "X1 X2 X3", "X=a,Y=a"),
    C("(X | Y)+", "aba", "X1 Y2 X3", "X=a,Y=ab"),
    C("X* | Y", "b", "()1", "X=a,Y=b"),
    C("X+ | Y", "baa", "Y1 | X2 X3", "X=a,Y=b"),
    C("() | A", "a", "()1"),
    C("A | ()", "ab", "A1 | ()2"),
    C("(A | B)*? C", "abc", "A1 B2 C3"),
    C("A (B | C D) E", "acde", "A1 C2 D3 E4"),
    C("A (B | B C) D", "abcd", "A1 B2 C3 D4"),
    C("(A | A B)(C | B C)", "abc", "A1 B2 C3"),
    C("A (B C | B) C", "abc", "A1 B2 C3"),
    C("PERMUTE(A)", "a", "A1"),
    C("PERMUTE(A, B)", "ab", "A1 B2"),
    C("PERMUTE(A, B)", "ba", "B1 A2"),
    C("PERMUTE(A, B, C)", "cab", "C1 A2 B3"),
    C("PERMUTE(A, B, C)", "cbaabc", "C1 B2 A3 | A4 B5 C6"),
    C("PERMUTE(A, B)+", "abba", "A1 B2 B3 A4"),
    C("PERMUTE(X, Y)", "aa", "X1 Y2", "X=a,Y=a"),
    C("PERMUTE(A B, C)", "cab", "C1 A2 B3"),
    C("PERMUTE(A B, C)", "acb", ""),
    C("PERMUTE(A | B, C)", "cb", "C1 B2"),
    C("PERMUTE(A+, B)", "baab", "B1 A2 A3"),
    C("PERMUTE(A?, B)", "b", "B1"),
    C("PERMUTE(A, B) C", "bac", "B1 A2 C3"),
    C("permute(A, B)", "ba", "B1 A2"),
]

ANCHORS = [
    C("^ A", "aa", "A1"),
    C("^ A", "ba", ""),
    C("A $", "aa", "A2"),
    C("A$", "aa", "A2"),
    C("^ A+ $", "aaa", "A1 A2 A3"),
    C("^ A+ $", "aab", ""),
    C("^A B$", "ab", "A1 B2"),
    C("A ^ B", "ab", ""),
    C("A $ B", "ab", ""),
    C("^ | A", "aa", "()1 | A2"),
    C("(^ A | B)", "aab", "A1 | B3"),
    C("A (B | $)", "aba", "A1 B2 | A3"),
    C("A* $", "aba", "A3"),
    C("^ $", "", ""),
    C("^ $", "a", ""),
    C("(^)* A", "a", "A1"),
    C("$ | A", "a", "A1"),
]

SKIPS = [
    C("A B", "abab", "A1 B2 | A3 B4", after="SKIP PAST LAST ROW"),
    C("A+", "aaa", "A1 A2 A3 | A2 A3 | A3", after="SKIP TO NEXT ROW"),
    C("A B+", "abb", "A1 B2 B3", after="SKIP TO NEXT ROW"),
    C("A A", "aaaa", "A1 A2 | A3 A4"),
    C("A A", "aaaa", "A1 A2 | A2 A3 | A3 A4", after="SKIP TO NEXT ROW"),
    C("A B C", "abcabc", "A1 B2 C3 | A4 B5 C6", after="SKIP TO C"),
    C("X Y", "aaa", "X1 Y2 | X2 Y3", "X=a,Y=a", "SKIP TO Y"),
    C("X Y+", "aaaa", "X1 Y2 Y3 Y4 | X2 Y3 Y4 | X3 Y4", "X=a,Y=a", "SKIP TO FIRST Y"),
    C("X Y+", "aaaa", "X1 Y2 Y3 Y4", "X=a,Y=a", "SKIP TO LAST Y"),
    C("X Y+", "aaaa", "X1 Y2 Y3 Y4", "X=a,Y=a", "SKIP TO Y"),
    C("X Y{2}", "aaaaa", "X1 Y2 Y3 | X3 Y4 Y5", "X=a,Y=a", "SKIP TO LAST Y"),
    C("X Y Z", "aaaaa", "X1 Y2 Z3 | X3 Y4 Z5", "X=a,Y=a,Z=a", "SKIP TO LAST U", "SUBSET U = (Y, Z)"),
    C("X Y Z", "aaaa", "X1 Y2 Z3 | X2 Y3 Z4", "X=a,Y=a,Z=a", "SKIP TO FIRST U", "SUBSET U = (Y, Z)"),
    C("A*", "ab", "A1 | ()2", after="SKIP TO NEXT ROW"),
    C("A* B?", "aab", "A1 A2 B3 | A2 B3 | B3", after="SKIP TO NEXT ROW"),
    C("(A B)?", "cab", "()1 | A2 B3 | ()3", after="SKIP TO LAST B"),
    C("A B", "aabab", "A2 B3 | A4 B5", after="SKIP TO LAST B"),
    C("x y", "aaa", "X1 Y2 | X2 Y3", "X=a,Y=a", "SKIP TO Y"),
]

EXCLUSION = [
    C("A {- B -} C", "abc", "A1 {B2} C3"),
    C("{- A -}", "a", "{A1}"),
    C("{- A+ -} B", "aab", "{A1} {A2} B3"),
    C("A {- B+ -} C", "abbc", "A1 {B2} {B3} C4"),
    C("(A {- B -})+", "abab", "A1 {B2} A3 {B4}"),
    C("{- A -} | B", "ba", "B1 | {A2}"),
    C("A ({- B -} | B) C", "abc", "A1 {B2} C3"),
    C("A {- {- B -} C -} D", "abcd", "A1 {B2} {C3} D4"),
    C("{- A | B -} C", "bc", "{B1} C2"),
    C("A {- B -}* C", "abbc", "A1 {B2} {B3} C4"),
    C("{- A* -}", "b", "()1"),
    C("X {- X -} X", "aaa", "X1 {X2} X3", "X=a"),
    C("PERMUTE({- A -}, B)", "ba", "B1 {A2}"),
]

STRATEGIES = [
    C("A B* C", "abaccbc", "A3 C4"),
    C("A B* C", "abacbc", "A1 B2 C4", behind="SKIP TILL NEXT"),
    C("A B* C", "abacbc", "A1 B2 B5 C6", behind="SKIP TILL ANY"),
    C("A B* C", "abacbc", "A3 C4", behind="CONTIGUOUS"),
    C("A C", "abc", "A1 C3", behind="SKIP TILL NEXT"),
    C("A C", "abc", "A1 C3", behind="SKIP TILL ANY"),
    C("A C", "abcc", "A1 C3", behind="SKIP TILL NEXT"),
    C("A B? C", "axbxc", "A1 B3 C5", behind="SKIP TILL NEXT"),
    C("A B? C", "axcxb", "A1 C3", behind="SKIP TILL NEXT"),
    C("A B+", "abxb", "A1 B2 B4", behind="SKIP TILL NEXT"),
    C("A B+?", "abxb", "A1 B2", behind="SKIP TILL NEXT"),
    C("A (B | C) D", "acbd", "A1 C2 D4", behind="SKIP TILL NEXT"),
    C("A (B | C) D", "acbd", "A1 B3 D4", behind="SKIP TILL ANY"),
    C("A B | A C", "acb", "A1 C2", behind="SKIP TILL NEXT"),
    C("A B | A C", "acb", "A1 B3", behind="SKIP TILL ANY"),
    C("A X* B", "acb", "A1 X2 B3", "X=*", behind="SKIP TILL NEXT"),
    C("A X* B", "acbdb", "A1 X2 X3 X4 B5", "X=*", behind="SKIP TILL NEXT"),
    C("A X*? B", "acb", "A1 X2 B3", "X=*", behind="SKIP TILL NEXT"),
    C("A X*? B", "acb", "A1 B3", "X=*", behind="SKIP TILL ANY"),
    C("A B $", "axbx", "", behind="SKIP TILL NEXT"),
    C("A B $", "axxb", "A1 B4", behind="SKIP TILL NEXT"),
    C("PERMUTE(A, B)", "bxa", "B1 A3", behind="SKIP TILL NEXT"),
    C("A {- B -} C", "axbxc", "A1 {B3} C5", behind="SKIP TILL NEXT"),
    C("A A", "axaxaxa", "A1 A3 | A5 A7", behind="SKIP TILL NEXT"),
    C("A A", "axaxa", "A1 A3 | A3 A5", after="SKIP TO NEXT ROW", behind="SKIP TILL NEXT"),
    C("A B", "aabb", "A1 B3", behind="SKIP TILL NEXT"),
    C("A B", "aabb", "A1 B3 | A2 B3", after="SKIP TO NEXT ROW", behind="SKIP TILL NEXT"),
    C("A*", "xa", "()1 | A2", behind="SKIP TILL NEXT"),
]

WITHIN = [
    C("A B", "ab", "A1 B2", behind="WITHIN 1"),
    C("A B", "ab", "", behind="WITHIN 0"),
    C("A", "a", "A1", behind="WITHIN 0"),
    C("A+", "aaaaa", "A1 A2 A3 | A4 A5", behind="WITHIN 2"),
    C("A+ B", "aaab", "A2 A3 B4", behind="WITHIN 2"),
    C("A B* C", "abbbcabc", "A6 B7 C8", behind="WITHIN 3"),
    C("A B* C", "abbbc", "A1 B2 B3 B4 C5", behind="WITHIN 4"),
    C("A B+", "abbb", "A1 B2 B3", behind="WITHIN 2"),
    C("A B", "axxb", "", behind="SKIP TILL NEXT WITHIN 2"),
    C("A B", "axxb", "A1 B4", behind="SKIP TILL NEXT WITHIN 3"),
    C("A B", "axxb", "A1 B4", behind="WITHIN 3 SKIP TILL NEXT"),
    C("A B+ C?", "abbbc", "A1 B2 B3", behind="WITHIN 2"),
    C("(A B | A)", "axb", "A1", behind="SKIP TILL ANY WITHIN 1"),
    C("(A B | A)", "axb", "A1 B3", behind="SKIP TILL ANY WITHIN 2"),
]

ALL = "ALL MATCHES"
ALL_MATCHES = [
    C("A B* C", "abacbc", "A3 C4", after=ALL),
    C("A B* C", "abacbc", "A1 B2 C4 | A3 C4", after=ALL, behind="SKIP TILL NEXT"),
    C(
        "A B* C",
        "abacbc",
        "A1 C4 | A1 C6 | A1 B2 C4 | A1 B2 C6 | A1 B5 C6 | A1 B2 B5 C6 | A3 C4 | A3 C6 | A3 B5 C6",
        after=ALL,
        behind="SKIP TILL ANY",
    ),
    C("A+", "aaa", "A1 A2 A3 | A1 A2 | A1 | A2 A3 | A2 | A3", after=ALL),
    C("A+?", "aa", "A1 | A1 A2 | A2", after=ALL),
    C("A B* C", "abbc", "A1 B2 B3 C4", after=ALL),
    C("X Y* Z", "aaa", "X1 Y2 Z3 | X1 Z2 | X2 Z3", "X=a,Y=a,Z=a", ALL),
    C("X | Y", "a", "X1", "X=a,Y=a", ALL),
    C("PERMUTE(X, Y)", "aa", "X1 Y2", "X=a,Y=a", ALL),
    C("X X | X Y", "ab", "X1 Y2", "X=a,Y=ab", ALL),
    C("A*", "ba", "A2", after=ALL),
    C("A B", "aabb", "A1 B3 | A2 B3", after=ALL, behind="SKIP TILL NEXT"),
    C("A B", "aabb", "A1 B3 | A1 B4 | A2 B3 | A2 B4", after=ALL, behind="SKIP TILL ANY"),
    C("A B+", "abb", "A1 B2", after=ALL, behind="SKIP TILL NEXT"),
    C("A X* B", "acbdb", "A1 X2 B3", "X=*", ALL, "SKIP TILL NEXT"),
    C("A B", "abxb", "A1 B2", after=ALL, behind="SKIP TILL ANY WITHIN 2"),
    C("A B", "axbxb", "A1 B3", after=ALL, behind="SKIP TILL ANY WITHIN 3"),
    C("^ A+ $", "aa", "A1 A2", after=ALL),
    # A run of three, then a row that begins another one before the first could have ended: neither is lost.
    C("A B C", "abcxabc", "A1 B2 C3 | A5 B6 C7", after=ALL),
]

CASES = [
    *CONCATENATION,
    *QUANTIFIERS,
    *CHOICES,
    *ANCHORS,
    *SKIPS,
    *EXCLUSION,
    *STRATEGIES,
    *WITHIN,
    *ALL_MATCHES,
]
