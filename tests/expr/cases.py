"""Expressions to be compared with DuckDB, for every operator and function."""

from __future__ import annotations

INTEGERS = ("a", "b", "i", "l", "ua", "ub", "ui", "ul")
NUMBERS = (*INTEGERS, "f", "d", "e", "m", "n", "k")
INSTANTS = ("dt", "ts", "tu", "t_s", "t_ms", "t_ns", "tz", "tzb")
LITERALS = ("1", "300", "(-5)", "3000000000", "1.5", "1e0", "'1'", "NULL")
LENGTHS = ("ts - tu", "interval '1 month 2 days 03:04:05.678'", "interval '-14 months'")
UNITS = (
    *("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"),
    *("decade", "century", "millennium", "isoyear"),
)

CASES: dict[str, list[str]] = {}
"""Texts by the operator or function they are about."""


def _add(name: str, *texts: str) -> None:
    CASES.setdefault(name, []).extend(texts)


for _operator in ("+", "-", "*", "/", "//", "%", "**", "&"):
    _few = ("a", "ul", "f", "n")
    _add(_operator, *(f"{x} {_operator} {y}" for x in NUMBERS for y in (*_few, *LITERALS)))
    _add(_operator, *(f"{x} {_operator} {y}" for x in ("s", "q", "dt", "ts") for y in ("s", "dt", "i", "'x'", "NULL")))
_add("|", "a | 3", "i | l", "ul | 1", "a | ua", "f | 1")
_add("<<", "a << 1", "b << 2", "i << a", "ua << 1", "1 << 31", "l << 62", "ui << 40")
_add(">>", "a >> 1", "l >> a", "ua >> 9", "i >> 40", "i >> (-1)")
_add("~", "~a", "~ui", "~l", "~f")
_add("+", "+i", "+m")
_add("-", *(f"-{x}" for x in (*NUMBERS, "s", "q")), "- - i", "-2147483648", "-(ts - tu)", "dt - dt", "dt - 5", "dt + i")
_add("+", "2 + 3 * 4 % 5", "1 - 2 - 3", "5 / 2", "5 // 2", "2 * 3 ** 2", "- 5 % 3", "7 // 2 * 2", "127::tinyint + 1")

for _operator in ("<", "<=", "=", "<>", ">", ">="):
    _add(_operator, *(f"{x} {_operator} {y}" for x in NUMBERS for y in ("ul", "d", "n", "300", "1.5")))
    _add(_operator, *(f"{x} {_operator} {x}" for x in ("s", "z", "q", *INSTANTS, "(ts - tu)")))
    _add(_operator, *(f"{x} {_operator} '2020-01-01'" for x in INSTANTS), f"s {_operator} 'a'", f"s {_operator} NULL")
    _add(_operator, f"q {_operator} 1", f"(ts - tu) {_operator} interval '30 days'", f"tz {_operator} dt")
for _name in ("is distinct from", "is not distinct from"):
    _add(_name, *(f"{x} {_name} {y}" for x in ("a", "d", "m", "i") for y in ("i", "d", "1", "NULL")))
    _add(_name, f"s {_name} t", f"q {_name} p", f"ts {_name} tz", f"s {_name} NULL")
_add("and", "q and p", "q and not p or q", "i and q", "q and null", "null and null", "q and i > 1 and d < 3")
_add("or", "q or p", "i or null", "q or null", "i = 1 or i = 3 and a = 1")
_add("not", "not q", "not i", "not d", "not null", "not q = p", "not i is null", "not i > 1")
for _name in ("is true", "is not true", "is false", "is not false", "is null", "is not null"):
    _add(_name, f"q {_name}", f"i > 1 {_name}", f"null {_name}", f"d {_name}")
_add(
    "in", "i in (1,2,3)", "i in (1,null)", "i not in (1,null)", "i in (1,2.5,3)", "d in (1.5,'nan',2,0)", "null in (1)"
)
_add(
    "in", "s in ('a',t)", "i in (a,b,3)", "ts in ('1970-01-01','2020-01-01')", "q in (true)", "a in (1,300)", "m in (3)"
)
_add("between", "i between 0 and 10", "i between a and b", "d between 0 and 'nan'", "s between 'a' and 'b'")
_add("between", "ts between '1970-01-01' and '2020-01-01'", "i not between 1 and 3", "i between null and 0")
_add("case", "case i when 1 then 'x' when null then 'y' end", "case when q then 1 when p then 2 end")
_add("case", "case when i > 0 then cast(s as int) else 0 end", "case a when 1 then m else 2 end")
_add(
    "case", *(f"case when q then {x} else {y} end" for x in ("a", "l", "m", "f", "d") for y in ("b", "ul", "n", "300"))
)
_add("case", "case when q then ts else dt end", "case when q then ts - tu end")
_add("if", "if(p,i,1.5)")
_add("fdiv", "fdiv(i,a)")
_add("fmod", "fmod(f,e)")
_add("nullif", "nullif(i,1)", "nullif(a,b)", "nullif(s,'a')", "nullif(d,0)")
for _name in ("coalesce", "greatest", "least"):
    _add(
        _name, *(f"{_name}({x},{y})" for x in (*NUMBERS, "1") for y in ("a", "ul", "d", "n", "1", "300", "'1'", "NULL"))
    )
    _add(
        _name,
        *(f"{_name}({x},{y})" for x in INSTANTS for y in INSTANTS),
        f"{_name}(s,t)",
        f"{_name}(q,p)",
        f"{_name}(i)",
    )
_add(
    "coalesce", "coalesce(i, cast(s as int))", "ifnull(i,a)", "coalesce(null,null)", "coalesce(ts - tu, interval 1 day)"
)

_TYPES = (
    *("TINYINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL(5,2)"),
    *("DECIMAL(18,4)", "DECIMAL(30,10)", "DECIMAL(3,0)", "VARCHAR", "BOOLEAN"),
)
_WIDEST = ("9999999999999999999999999999999999.9999", "12345678901234567890123456789012345678.")
for _digits in _WIDEST:
    _add("-", f"-{_digits}", f"- - {_digits}", f"-{_digits} < 0")
    _add("cast", *(f"cast('{_sign}{_digits}' as decimal(38, {4 if '.9' in _digits else 0}))" for _sign in ("", "-")))
_add("cast", *(f"{f}({x} as {t})" for x in (*NUMBERS, "s", "t", "q") for t in _TYPES for f in ("cast", "try_cast")))
_add("cast", *(f"try_cast(s as {t})" for t in ("DATE", "TIMESTAMP", "INTERVAL", "TIMESTAMPTZ", "TIMESTAMP_S")))
_add("cast", *(f"cast({x} as VARCHAR)" for x in ("z", "ts - tu", *INSTANTS)), "z::varchar::blob", "t::blob")
_add("cast", *(f"cast({x} as {t})" for x in INSTANTS for t in ("DATE", "TIMESTAMP", "TIMESTAMP_NS", "TIMESTAMPTZ")))
_add("cast", *(f"cast({x} as {t})" for x in ("ts", "t_ms", "dt") for t in ("TIMESTAMP_S", "TIMESTAMP_MS")))
_add(
    "cast",
    *(
        f"'{text}'::{t}"
        for t, texts in {
            "INTEGER": (" 12 ", "1.5", "2.5", "1e3", "0x1F", "1_000", "+5", "", "abc", "99999999999", "1__0"),
            "TINYINT": ("127", "128", "-128"),
            "DOUBLE": (" 1.5 ", "1e400", "inf", "-Infinity", "NaN", "1_0.5", ".5", "5.", "e5", "1e"),
            "DECIMAL(5,1)": ("1.25", "1e2", " 1 ", "123456", "-0.05", "x"),
            "BOOLEAN": ("true", "T", "yes", "1", "f", "no", "on", " true"),
            "DATE": ("2020-01-01", "2020-1-1", " 2020-01-01 ", "2020/01/01", "20200101", "2020-02-30", "0001-01-01"),
            "TIMESTAMP": (
                *("2020-01-01T10:00:00Z", "2020-01-01 10:00", "2020-01-01 10:00:00.1234567", "2020-01-01 25:00:00"),
                *("2020-01-01 10:00:00+02", "2020-01-01", "2020-01-01 24:00:00", "x"),
            ),
            "TIMESTAMPTZ": ("2020-01-01 10:00:00+02:30", "2020-01-01 10:00:00", "2020-07-01 10:00:00 Europe/Berlin"),
            "TIMESTAMP_NS": ("2020-01-01 10:00:00.123456789",),
            "TIMESTAMP_S": ("2020-01-01 10:00:00.9",),
            "BLOB": (r"a\xFFb", "é", "\\"),
            "INTERVAL": (
                *("1 year 2 months 3 days 04:05:06.7", "-2 hours 30 minutes", "1.5 days", "1.5 months", "5", "1:30"),
                *("1 day ago", "10us", "3 decades", "", "abc", "1 week 2 quarters"),
            ),
        }.items()
        for text in texts
    ),
)
_add("cast", *(f"{x}::varchar" for x in ("1e15", "1e16", "1e-4", "1e-5", "0.1::float", "1e20::float", "1.50", "true")))

for _name in (
    *("abs", "sign", "ceil", "floor", "round", "trunc", "isnan", "isinf", "isfinite", "signbit", "bit_count", "sqrt"),
):
    _add(_name, *(f"{_name}({x})" for x in (*NUMBERS, "1", "1.5", "s")))
for _name in (
    *("cbrt", "exp", "ln", "log", "log2", "log10", "sin", "cos", "tan", "cot", "asin", "acos", "atan", "sinh", "cosh"),
    *("tanh", "asinh", "acosh", "atanh", "degrees", "radians", "even", "gamma", "lgamma"),
):
    _add(_name, *(f"{_name}({x})" for x in ("a", "d", "e", "f", "m", "1", "NULL")))
for _name in ("pow", "atan2", "log", "gcd", "lcm", "xor", "nextafter", "mod"):
    _pairs = (
        ("a", "b"),
        ("i", "l"),
        ("d", "e"),
        ("m", "n"),
        ("i", "2"),
        ("ul", "l"),
        ("f", "f"),
        ("e", "2"),
        ("i", "NULL"),
    )
    _add({"pow": "**", "mod": "%"}.get(_name, _name), *(f"{_name}({x},{y})" for x, y in _pairs))
for _name in ("round", "trunc"):
    _add(_name, *(f"{_name}({x},{p})" for x in NUMBERS for p in ("0", "1", "-1", "2", "a")))
_add("isinf", "isinf(ts)", "isfinite(dt)")
_add("factorial", "factorial(a)", "factorial(5)", "factorial(33)", "factorial(34)")
_add("pi", "pi()", "pi() * e")

for _name in (
    "lower",
    "upper",
    "length",
    "strlen",
    "bit_length",
    "reverse",
    "ascii",
    "unicode",
    "md5",
    "sha1",
    "sha256",
):
    _add(_name, *(f"{_name}({x})" for x in ("s", "t", "'x'", "NULL", "i")))
for _name in ("octet_length", "to_base64", "decode"):
    _add(_name, f"{_name}(z)")
_add("hex", "hex(s)", "hex(i)", "hex(l)", "hex(ul)", "hex(z)")
_add("bin", "bin(l)", "bin(t)", "bin(ul)")
_add("chr", "chr(ub)", "chr(i)", "chr(a)", "chr(65)")
_add("encode", "encode(s)")
_add("unhex", "unhex(hex(z))", "unhex('616')")
_add("from_base64", "from_base64(to_base64(z))", "from_base64('x')")
for _place in (-12, -3, 0, 1, 2, 9):
    _add("substr", f"substr(s,{_place})", *(f"substr(s,{_place},{n})" for n in (-2, 0, 1, 9)))
    _add("left", f"left(s,{_place})")
    _add("right", f"right(s,{_place})")
    _add("repeat", f"repeat(s,{_place})", f"repeat(z,{_place})")
    _add("split_part", f"split_part(s,',',{_place})", f"split_part(s,'',{_place})")
    _add("lpad", f"lpad(s,{_place},'xy')")
    _add("rpad", f"rpad(s,{_place},'xy')")
_add("substr", "substr(s,a)", "substr(s,a,b)", "substring(s from 2 for 1)")
_add("left", "left(s,a)")
_add("right", "right(s,i)")
_add("lpad", "lpad(s,ua,t)", "lpad(s,5,'')")
_add("rpad", "rpad(s,ua,t)")
_add("split_part", "split_part(s,t,2)", "split_part(s,',',a)")
for _name in ("contains", "starts_with", "ends_with", "strpos", "levenshtein"):
    _add(_name, *(f"{_name}(s,{y})" for y in ("t", "'a'", "''", "'ñ'", "','", "s")))
_add("strpos", "position('b' in s)", "instr(s,'b')")
_add("hamming", "hamming(s,t)", "hamming(s,'ab')")
for _name in ("trim", "ltrim", "rtrim"):
    _add(_name, f"{_name}(s)", *(f"{_name}(s,{y})" for y in ("t", "'a'", "''", "' '", "'aé'")))
_add("trim", "trim(both 'a' from s)", "trim(leading ' ' from s)", "trim(trailing 'c' from s)")
_add("replace", "replace(s,'a','b')", "replace(s,'','b')", "replace(s,t,'_')", "replace(s,'a',NULL)")
_add("translate", "translate(s,'ab','x')", "translate(s,t,'zz')", "translate(s,'añ','ñq')")
_add(
    "concat",
    "concat(s,t)",
    "concat(s,i,q,d,m,dt,ts)",
    "concat(s,NULL)",
    "concat(NULL,NULL)",
    "concat(z,z)",
    "concat(z,s)",
)
_add(
    "concat_ws",
    "concat_ws('-',s,t)",
    "concat_ws(t,s,i)",
    "concat_ws(NULL,s)",
    "concat_ws(',',NULL)",
    "concat_ws('é',s,NULL,t)",
)
_add(
    "||", "s||t", "s||i", "i||s", "q||'x'", "s||NULL", "z||z", *(f"{x}||''" for x in ("d", "f", "m", "k", "dt", "t_ns"))
)
_PATTERNS = ("a%", "%a", "%a%", "a", "%", "", "_", "__%", "A_c", "x%z", "%,b%", "añ%", "a_🦆_", "%%", "a.*", "(%")
_add("like", *(f"s like '{p}'" for p in _PATTERNS), *(f"s not like '{p}'" for p in _PATTERNS[:6]))
_add(
    "like",
    "s like coalesce(NULL, 'a%')",
    "s like 'x$%y$_z' escape '$'",
    "s like '%$%%' escape '$'",
    "s like 'a' escape ''",
    "s like NULL",
)
_add("ilike", *(f"s ilike '{p.upper()}'" for p in _PATTERNS), "s ilike 'X$%%' escape '$'")
for _pattern in ("a", "^a", "b.*c$", "[ab],", "(a)(,)", "ñ.", "", "(?i)ABC", "(", r"\d+", ".", "a|b", "x%"):
    _add(
        "regexp_matches", f"regexp_matches(s,'{_pattern}')", f"s ~ '{_pattern}'", f"regexp_matches(s,'{_pattern}','i')"
    )
    _add("regexp_full_match", f"regexp_full_match(s,'{_pattern}')", f"s similar to '{_pattern}'")
    _add("regexp_replace", rf"regexp_replace(s,'{_pattern}','<\0>')", f"regexp_replace(s,'{_pattern}','Q','g')")
    _add("regexp_extract", f"regexp_extract(s,'{_pattern}')", *(f"regexp_extract(s,'{_pattern}',{n})" for n in (1, 2)))
_add("regexp_replace", r"regexp_replace(s,'(a)(.)','\2\1')", "regexp_replace(s,'A','x','gi')")
_add("regexp_extract", "regexp_extract(s,'(x)?',1)", "regexp_extract(s,'a',10)", "regexp_extract(s,'[(](a)|(b)',2)")
_add("regexp_extract", "regexp_extract(s,'(?P<n>a)(,)',2)", "regexp_extract(s,'(?:a)(,)',1)")
_add("regexp_matches", "regexp_matches(s,'a','q')", "regexp_matches(s,'a.c','l')", "s !~ 'a'")

_PARTS = (
    *("year", "month", "day", "hour", "minute", "second", "millisecond", "microsecond", "quarter", "week", "dayofweek"),
    *("isodow", "dayofyear", "decade", "century", "millennium", "era", "isoyear", "yearweek", "epoch", "julian"),
)
for _name in _PARTS:
    _add(_name, *(f"{_name}({x})" for x in INSTANTS))
    _add(
        "date_part",
        f"date_part('{_name}',ts)",
        f"extract({_name} from dt)",
        *(f"date_part('{_name}',{x})" for x in LENGTHS),
    )
for _name in ("dayname", "monthname", "last_day", "epoch_ms", "epoch_us", "epoch_ns", "nanosecond"):
    _add(_name, *(f"{_name}({x})" for x in INSTANTS))
for _unit in UNITS:
    _add("date_trunc", *(f"date_trunc('{_unit}',{x})" for x in (*INSTANTS, *LENGTHS)))
    _add(
        "date_diff",
        *(f"date_diff('{_unit}',{x},{y})" for x, y in (("dt", "dt - 5"), ("ts", "tu"), ("tz", "tzb"), ("t_s", "t_ns"))),
    )
    if _unit != "isoyear":
        _add(
            "date_sub",
            *(f"date_sub('{_unit}',{x},{y})" for x, y in (("ts", "tu"), ("tu", "ts"), ("dt", "date '2020-02-29'"))),
        )
for _unit in ("Y", "years", "dow", "doy", "us", "ms", "s", "m", "h", "d", "w", "mon", "foo", ""):
    _add("date_part", f"date_part('{_unit}',ts)")
    _add("date_trunc", f"date_trunc('{_unit}',ts)")
    _add("date_diff", f"date_diff('{_unit}',ts,tu)")
for _width in ("1 day", "2 weeks", "7 hours", "1 month", "5 months", "90 seconds", "0 days", "-1 day", "1 month 1 day"):
    _add("time_bucket", *(f"time_bucket(interval '{_width}',{x})" for x in ("dt", "ts", "t_s", "tz")))
    _add("time_bucket", f"time_bucket(interval '{_width}',ts,interval '6 hours')")
    _add("time_bucket", f"time_bucket(interval '{_width}',ts,timestamp '2001-05-06 07:08:09')")
for _length in ("1 day", "1 month", "-1 month", "13 months 5 days", "05:06:07.89", "300000 years", "-5 microseconds"):
    _add("+", *(f"{x} + interval '{_length}'" for x in INSTANTS), f"interval '{_length}' + (ts - tu)")
    _add("-", *(f"{x} - interval '{_length}'" for x in ("dt", "ts", "tz")), f"-interval '{_length}'")
    _add("*", f"interval '{_length}' * a", f"1.5 * interval '{_length}'", f"interval '{_length}' * e")
    _add("/", f"interval '{_length}' / 3", f"interval '{_length}' / e", f"interval '{_length}' / a")
_add("-", "ts - tu", "tu - ts", "tz - tzb", "t_s - t_ns", "dt - ts", "ts - dt")
_add("+", "ts + to_days(a)", "dt + interval (a) month", "ts + interval (i) day")
_add("date_add", "date_add(dt, interval 1 day)")
for _name in (
    "to_years",
    "to_months",
    "to_quarters",
    "to_decades",
    "to_centuries",
    "to_millennia",
    "to_weeks",
    "to_days",
):
    _add(_name, f"{_name}(a)", f"{_name}(i)", f"{_name}(3)")
for _name in ("to_hours", "to_minutes", "to_microseconds"):
    _add(_name, f"{_name}(a)", f"{_name}(b)")
for _name in ("to_seconds", "to_milliseconds"):
    _add(_name, f"{_name}(d)", f"{_name}(e)", f"{_name}(i)")
_add("make_date", "make_date(year(ts),month(ts),day(ts))", "make_date(2020,a,b)", "make_date(b)")
_add("make_timestamp", "make_timestamp(year(ts),1,2,3,4,e)", "make_timestamp(2020,1,2,a,4,5)", "make_timestamp(i)")
_add("make_timestamp_ms", "make_timestamp_ms(i)", "make_timestamp_ms(l)")
_add("make_timestamp_ns", "make_timestamp_ns(i)")
_add("to_timestamp", "to_timestamp(d)", "to_timestamp(e)", "to_timestamp(i)")
_add("epoch_ms", "epoch_ms(l)", "epoch_ms(i)", "epoch_ms(ts - tu)")
for _zone in ("Europe/Berlin", "UTC", "America/New_York", "Foo"):
    _add("timezone", *(f"{x} at time zone '{_zone}'" for x in ("ts", "tz", "t_s", "dt", "tzb")))
_add("timezone", *(f"timestamp '2020-{d} 02:30:00' at time zone 'Europe/Berlin'" for d in ("03-29", "10-25")))
_FORMATS = [
    "Y",
    "y",
    "m",
    "d",
    "H",
    "I",
    "M",
    "S",
    "f",
    "g",
    "j",
    "a",
    "A",
    "b",
    "B",
    "p",
    "w",
    "u",
    "U",
    "W",
    "V",
    "G",
    "%",
    "c",
    "x",
    "X",
    "-d",
    "-m",
    "-H",
    "-I",
    "-M",
    "-S",
    "-y",
    "-j",
    "z",
]
_add(
    "strftime",
    *(f"strftime(ts,'<%{f}>')" for f in _FORMATS),
    "strftime(dt,'%Y-%m')",
    "strftime('%Y',ts)",
    "strftime(tz,'%H')",
)
_add("strftime", "strftime(ts,'')", "strftime(ts,'%q')")

ALL = tuple(dict.fromkeys(text for texts in CASES.values() for text in texts))

UNSUPPORTED = (
    *(
        "now()",
        "s[1]",
        "ts::time",
        "random()",
        "[1,2]",
        "i between symmetric 1 and 2",
        "s glob 'a'",
        "s collate nocase",
    ),
    *(
        "s like t",
        "regexp_matches(s,t)",
        "date_part(s,ts)",
        "count(*) over ()",
        "exists(select 1)",
        "x -> 1",
        "i::uuid",
    ),
)
"""What DuckDB knows and tidelog refuses."""
