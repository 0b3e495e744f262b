"""Modules of kernels are loaded when something of theirs is first used, not when they are imported.

Loading them, from the cache at that, takes a process a second: Numba, its compiler, and machine code to link. Much of
what tidelog does calls no kernel: listing streams, planning what tasks of Spark are to read, committing what they have
written. A process that does only such things does not pay for kernels.

:func:`install` puts a finder in front of Python's own, which gives a module ``tidelog.….kernels`` as an empty one. The
first use of a name runs the module; from then on it is a module like any other, and costs what any other does. Nothing
but kernels is loaded in this way: constants that others need too stand in plain modules, which kernels import.

For a little work, such as that of a first question, kernels need not be loaded either: a module ``plain`` beside one of
kernels may have functions of the same names and of the same effect that are written in Python alone. They are called
as long as no kernels at all are loaded, which takes the most the first time, until a process has done with them what
loading would have cost.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE: Final = f"{__name__.partition('.')[0]}."

_RUNNING: Final = threading.RLock()
"""Held by the thread that runs a module of kernels, so that one of them runs at a time.

They all import Numba, parts of which import one another in circles. Python lets a thread that would wait in such a
circle for another one go on with what is there of a module, so of two threads that import Numba at once one may fail.
"""


class _Unloaded(ModuleType):
    """A module that has been imported and not yet been run."""

    def __getattr__(self, name: str) -> Any:
        # Python and its tools ask any module for such names; kernels have none of them.
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        instead = _plain(self, name)
        if instead is not None:
            return instead
        _run(self)
        return ModuleType.__getattribute__(self, name)  # by now it is one, unless it is running

    def __reduce__(self) -> tuple[Any, ...]:
        """By name, as those do it who send functions to other processes, but only for modules of the usual type."""
        return importlib.import_module, (self.__name__,)


class _Deferring(Loader):
    """Runs a module not when it is imported but when :func:`_run` is called."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        # Threads that encode leaves come to a module at the same time. Names that are there already may be used while
        # the rest is loaded; who needs another one waits. Reentrant: a module may look at its own names while it runs.
        self.lock = threading.RLock()
        self.is_running = False

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Unloaded(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet."""

    def __getattr__(self, name: str) -> Any:
        """Whatever else is asked of a loader, its source for example, the real one answers."""
        return getattr(self.loader, name)


class _Kernels(MetaPathFinder):
    """Finds modules of kernels where Python finds them, and defers them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not (fullname.startswith(_PACKAGE) and fullname.endswith(".kernels")):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Deferring(spec.loader)
        return spec


_COMPILER: Final = f"{_PACKAGE}jit"
"""The module that all kernels need, and nothing else."""

MOST_PLAIN_WORK: Final = 100_000
"""What a process does in functions of modules ``plain``, in steps of about a microsecond: a third of what loading the
kernels takes."""

_plain_work = 0
_plain_modules: dict[str, ModuleType | None] = {}

Measure: TypeAlias = Callable[..., int]


def stands_in(steps: Measure) -> Callable[[F], F]:
    """Decorates a function of a module ``plain``; ``steps`` tells, of the same arguments, about how much work it is."""

    def decorate(function: F) -> F:
        function.steps = steps  # type: ignore[attr-defined]  # functions have any attributes
        return function

    return decorate


def _plain(module: ModuleType, name: str) -> Callable[..., Any] | None:
    """What stands in for a kernel that is not loaded; None if nothing does."""
    known = module.__name__
    if known not in _plain_modules:
        beside = f"{known.rpartition('.')[0]}.plain"
        _plain_modules[known] = importlib.import_module(beside) if importlib.util.find_spec(beside) else None
    function: Any = getattr(_plain_modules[known], name, None)
    if not hasattr(function, "steps"):
        return None

    def call(*arguments: Any) -> Any:
        global _plain_work
        steps = function.steps(*arguments)
        if _plain_work + steps > MOST_PLAIN_WORK or type(module) is not _Unloaded or _COMPILER in sys.modules:
            _run(module)
            return getattr(module, name)(*arguments)
        _plain_work += steps  # threads may lose some of it, which does no harm
        return function(*arguments)

    return call


@contextmanager
def without_collecting() -> Iterator[None]:
    """Inside, no garbage is collected: imports make many objects, all of which stay, and looking through them again
    and again takes a tenth of their time.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def install() -> None:
    """Load kernels late from now on; modules that are loaded already stay as they are. Again, it does nothing."""
    if not any(isinstance(finder, _Kernels) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Kernels())


def kernel_modules() -> list[str]:
    """The names of all modules that have kernels."""
    package = Path(__file__).parent
    files = sorted(package.rglob("kernels.py"))
    return [".".join((package.name, *file.relative_to(package).with_suffix("").parts)) for file in files]


def kernels_of(name: str) -> dict[str, Callable[[], Any]]:
    """What loads each of the kernels of a module that are not loaded yet, by name; the module is loaded by this."""
    module = importlib.import_module(name)
    if type(module) is _Unloaded:
        _run(module)
    return {
        each: value.load_kernel
        for each, value in vars(module).items()
        if hasattr(value, "load_kernel") and not isinstance(value, type)
    }


def load_kernels() -> None:
    """Load all kernels: now, rather than in the middle of something.

    For processes that are forked or measured later. Loads nothing else than the packages the kernels stand in.
    """
    for name in kernel_modules():
        for load in kernels_of(name).values():
            load()


def _run(module: ModuleType) -> None:
    """Run a module, unless somebody has; if another thread is at it, wait until that is done.

    What running it raises is raised here, and then it is run again the next time, as with any module.
    """
    assert module.__spec__ is not None
    deferring = module.__spec__.loader
    if not isinstance(deferring, _Deferring):
        return  # somebody has
    with _RUNNING, deferring.lock:
        if type(module) is not _Unloaded or deferring.is_running:
            return
        deferring.is_running = True
        try:
            deferring.loader.exec_module(module)
            module.__class__ = ModuleType  # type: ignore[assignment]
            module.__spec__.loader = module.__loader__ = deferring.loader
        finally:
            deferring.is_running = False
