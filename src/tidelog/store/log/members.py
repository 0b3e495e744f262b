"""What documents hold, as JSON: the members of an object are the fields of its class, and a field's type says its form.

So a member is declared once, as a field. A :class:`Form` writes values of a type and reads them back, and raises for
what it cannot have written; :func:`form_of` makes those of optional values, tuples and mappings from those of what is
in them. A type that is ``Annotated`` with a function has its values checked by it when they are read. What this release
does not know is refused: a member that is ignored could mean that rows are elsewhere, or gone.
"""

from __future__ import annotations

import base64
import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise, repeat, starmap
from typing import Any, Final, Generic, TypeAlias, TypeVar

from tidelog.model.errors import InputError, NewerReleaseError

T = TypeVar("T")


class Form:
    """How values of a type are stored."""

    def __init__(self, write: Callable[[Any], Any], read: Callable[[Any], Any]) -> None:
        self.write = write
        """A value as JSON values."""
        self.read = read
        """The value that was written."""

    def write_all(self, values: list[Any]) -> Any:
        """Values as JSON values."""
        return list(map(self.write, values))

    def read_all(self, column: Any) -> Sequence[Any]:
        """The values that were written."""
        return list(map(self.read, column))


class Plain(Form):
    """Values that JSON has, of these types and no others."""

    def __init__(self, *kinds: type) -> None:
        super().__init__(lambda value: value, self._checked)
        self.kinds = frozenset(kinds)

    def _checked(self, value: Any) -> Any:
        if type(value) not in self.kinds:
            raise TypeError(
                f"found {value!r:.80}; expected {' or '.join(sorted(each.__name__ for each in self.kinds))}"
            )
        return value

    def write_all(self, values: list[Any]) -> Any:
        """The values as they are."""
        return values

    def read_all(self, column: Any) -> Sequence[Any]:
        """The values as they are, if all are of the types."""
        if not (type(column) is list and self.kinds.issuperset(map(type, column))):
            return super().read_all(column)  # which tells of the first that is not
        return column


class _Bytes(Form):
    """Bytes in Base64; those of many objects one behind the other, with how many each of them has."""

    def __init__(self) -> None:
        super().__init__(_base64, lambda text: base64.b64decode(text, validate=True))

    def write_all(self, values: list[Any]) -> Any:
        """An object of all sizes, and all bytes."""
        return {"sizes": list(map(len, values)), "bytes": _base64(b"".join(values))}

    def read_all(self, column: Any) -> Sequence[Any]:
        """The bytes of each."""
        whole = base64.b64decode(column["bytes"])
        ends = list(accumulate(column["sizes"], initial=0))
        if ends[-1] != len(whole):
            raise InputError(f"found {len(whole)} bytes for splits that have {ends[-1]}; expected as many")
        return [whole[start:end] for start, end in pairwise(ends)]


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


Forms: TypeAlias = Mapping[Any, Form]
"""Forms by the types that fields are declared with."""

JSON: Final[Forms] = {
    int: Plain(int),
    float: Plain(float, int),
    str: Plain(str),
    bytes: _Bytes(),
    dict[str, Any]: Plain(dict),
}
"""The forms of what is no class of the store's."""


def keyed(key: str, many: Form) -> Form:
    """The form of a mapping whose values tell their keys, in a member of theirs: that of the values in their order."""
    return Form(
        lambda values: many.write(values.values()),
        lambda stored: {getattr(each, key): each for each in many.read(stored)},
    )


def form_of(hint: Any, forms: Forms) -> Form:
    """The form of a field that was declared with a type, from given ones and those of :data:`JSON`."""
    known = forms.get(hint) or JSON.get(hint)
    if known is not None:
        return known
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        stored, check = form_of(arguments[0], forms), arguments[1]
        return Form(stored.write, lambda value: check(stored.read(value)))
    if origin in (types.UnionType, typing.Union):
        [wanted] = [each for each in arguments if each is not types.NoneType]
        form = form_of(wanted, forms)
        if isinstance(form, Plain):
            return Plain(*form.kinds, types.NoneType)
        return Form(
            lambda value: None if value is None else form.write(value),
            lambda value: None if value is None else form.read(value),
        )
    if origin is tuple and arguments[-1] is ...:
        each = form_of(arguments[0], forms)
        return Form(lambda values: each.write_all(list(values)), lambda values: tuple(each.read_all(values)))
    if origin is tuple:
        places = [form_of(each, forms) for each in arguments]
        return Form(
            lambda values: [form.write(value) for form, value in zip(places, values, strict=True)],
            lambda values: tuple(form.read(value) for form, value in zip(places, values, strict=True)),
        )
    if origin is not None and issubclass(origin, Mapping):
        key, value = (form_of(each, forms) for each in arguments)
        return Form(
            lambda values: dict(zip(map(key.write, values), value.write_all(list(values.values())), strict=True)),
            lambda values: dict(zip(map(key.read, values), value.read_all(list(values.values())), strict=True)),
        )
    raise TypeError(f"there is no form for {hint}")


def refuse_unknown(what: str, values: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise :class:`NewerReleaseError` if something stored has members that this release does not know.

    The message is a clause, to be completed by whoever knows the name of the file.
    """
    unknown = [name for name in values if name not in known]
    if unknown:
        raise NewerReleaseError(f"{what} with {', '.join(map(repr, unknown))}, which this release does not know")


def _forms(cls: type[Any], forms: Forms, apart: Collection[str] = ()) -> dict[str, Form]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return {each: form_of(hints[each], forms) for each in cls.__dataclass_fields__ if each not in apart}


def _defaults(cls: type[Any]) -> dict[str, Any]:
    found = {}
    for each in dataclasses.fields(cls):
        if each.default is not dataclasses.MISSING:
            found[each.name] = each.default
        elif each.default_factory is not dataclasses.MISSING:
            found[each.name] = each.default_factory()
    return found


class Record(Form, Generic[T]):
    """Objects of a dataclass as JSON objects, with a member for each field but those ``apart``.

    If it is ``sparse``, what an object leaves at its default is left out.
    """

    def __init__(
        self, cls: type[T], what: str, forms: Forms = JSON, *, apart: Collection[str] = (), sparse: bool = False
    ) -> None:
        super().__init__(self.to_dict, self.from_dict)
        self._cls = cls
        self._what = what
        self._forms = _forms(cls, forms, apart)
        self._defaults = _defaults(cls) if sparse else {}
        self._needed = [name for name in self._forms if name not in self._defaults]

    def to_dict(self, value: T) -> dict[str, Any]:
        """An object as JSON values."""
        found = {name: getattr(value, name) for name in self._forms}
        return {
            name: self._forms[name].write(each)
            for name, each in found.items()
            if name not in self._defaults or each != self._defaults[name]
        }

    def from_dict(self, values: Mapping[str, Any], **apart: Any) -> T:
        """The object that was written, with values for its other fields."""
        refuse_unknown(self._what, values, self._forms)
        for name in self._needed:
            if name not in values:
                raise KeyError(name)
        return self._cls(**{name: self._forms[name].read(each) for name, each in values.items()}, **apart)


class Columns(Form, Generic[T]):
    """Many objects of a dataclass, in order, as one JSON object, with a list for each field of what all of them have.

    Lists of numbers and a few long texts are read in a tenth of the time that as many objects take. A list is left out
    if all have the default.
    """

    def __init__(self, cls: type[T], what: str, forms: Forms) -> None:
        super().__init__(self.to_dict, self.from_dict)
        self._cls = cls
        self._what = what
        self._forms = _forms(cls, forms)
        self._defaults = _defaults(cls)

    def to_dict(self, objects: Iterable[T]) -> dict[str, Any]:
        """Objects as JSON values."""
        every = list(objects)
        columns: dict[str, Any] = {}
        for name, form in self._forms.items():
            values = [getattr(each, name) for each in every]
            if name not in self._defaults or any(value != self._defaults[name] for value in values):
                columns[name] = form.write_all(values)
        return columns

    def from_dict(self, columns: Mapping[str, Any]) -> tuple[T, ...]:
        """The objects that were written; raises :class:`KeyError` or :class:`ValueError` for what cannot be."""
        refuse_unknown(self._what, columns, self._forms)
        count = len(columns[next(iter(self._forms))])
        values = [
            repeat(self._defaults[name], count)
            if name in self._defaults and name not in columns
            else form.read_all(columns[name])
            for name, form in self._forms.items()
        ]
        return tuple(starmap(self._cls, zip(*values, strict=True)))
