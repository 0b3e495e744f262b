"""What kernels of several modules need of memory: words at any byte of an array, and the bits of words.

Nothing is checked: whoever calls sees to it that the bytes are there.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

from tidelog.jit import u64, void


def place_of(context: Any, builder: Any, type: Any, array: Any, index: Any, pointee: Any) -> Any:
    """A pointer to what stands ``index`` bytes behind the start of an array; for intrinsics."""
    base = builder.bitcast(context.make_array(type)(context, builder, array).data, ir.IntType(8).as_pointer())
    return builder.bitcast(builder.gep(base, [index]), pointee.as_pointer())


def _type_load(_typing: Any, array: Any, index: Any) -> Any:
    """The eight bytes of ``array`` at ``index`` as a little-endian word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = place_of(context, builder, signature.args[0], arguments[0], arguments[1], ir.IntType(64))
        return builder.load(place, align=1)

    return u64(array, index), generate


def _type_load_big_endian(_typing: Any, array: Any, index: Any) -> Any:
    """The eight bytes of ``array`` at ``index`` as a big-endian word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = place_of(context, builder, signature.args[0], arguments[0], arguments[1], ir.IntType(64))
        return builder.bswap(builder.load(place, align=1))

    return u64(array, index), generate


def _type_store(_typing: Any, array: Any, index: Any, word: Any) -> Any:
    """Writes a word as eight bytes of ``array`` at ``index``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = place_of(context, builder, signature.args[0], arguments[0], arguments[1], ir.IntType(64))
        builder.store(arguments[2], place, align=1)
        return context.get_dummy_value()

    return void(array, index, u64), generate


def _copier(size: int) -> Any:
    """An intrinsic that copies ``size`` bytes: ``copy(target, at, source, start)``."""

    def typed(_typing: Any, target: Any, at: Any, source: Any, start: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.VectorType(ir.IntType(8), size)
            target, source = (
                place_of(context, builder, signature.args[k], arguments[k], arguments[k + 1], word) for k in (0, 2)
            )
            builder.store(builder.load(source, align=1), target, align=1)
            return context.get_dummy_value()

        return void(target, at, source, start), generate

    return intrinsic(typed)


def _counter(operation: str) -> Any:
    """An intrinsic that counts bits of a word; zeros before or behind the ones are 64 if there is none."""

    def typed(_typing: Any, word: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            rest = () if operation == "ctpop" else (ir.Constant(ir.IntType(1), 0),)
            return getattr(builder, operation)(arguments[0], *rest)

        return u64(u64), generate

    return intrinsic(typed)


load: Any = intrinsic(_type_load)
load_big_endian: Any = intrinsic(_type_load_big_endian)
store: Any = intrinsic(_type_store)
copy8: Any = _copier(8)
copy16: Any = _copier(16)
copy32: Any = _copier(32)
trailing_zeros: Any = _counter("cttz")
leading_zeros: Any = _counter("ctlz")
count_ones: Any = _counter("ctpop")
