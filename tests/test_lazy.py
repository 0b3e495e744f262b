"""Kernels are loaded when they are first used: by whichever thread, once, and wholly."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from tidelog import lazy

Made = Callable[[str], ModuleType]

SOURCE = Path(lazy.__file__).parent


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Imports a module of kernels with this source, in a package of its own."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(lazy, "_PACKAGE", "made_up.")
    (tmp_path / "made_up").mkdir()
    (tmp_path / "made_up" / "__init__.py").touch()

    def run(source: str) -> ModuleType:
        (tmp_path / "made_up" / "kernels.py").write_text(source)
        from made_up import kernels  # type: ignore[import-not-found]

        assert isinstance(kernels, ModuleType)
        return kernels

    yield run
    for name in ("made_up.kernels", "made_up", "made_up_notes"):
        sys.modules.pop(name, None)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What modules have noted while they ran."""
    notes = ModuleType("made_up_notes")
    notes.found = []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "made_up_notes", notes)
    return notes.found  # type: ignore[no-any-return]


NOTING = "import made_up_notes\nmade_up_notes.found.append('run')\n"


def test_a_module_runs_at_the_first_use(made: Made, runs: list[str]) -> None:
    kernels = made(NOTING + "def double(x):\n    return 2 * x\n")
    assert kernels.__name__ == "made_up.kernels"
    assert kernels.__file__ is not None
    assert runs == []
    assert kernels.double(4) == 8
    assert runs == ["run"]
    assert type(kernels) is ModuleType, "it costs no more than any other"
    assert isinstance(kernels.__loader__, SourceFileLoader)
    with pytest.raises(AttributeError, match="no attribute 'treble'"):
        _ = kernels.treble
    assert runs == ["run"]


def test_what_tools_ask_of_any_module_does_not_run_it(made: Made, runs: list[str]) -> None:
    kernels = made(NOTING)
    assert not hasattr(kernels, "__path__")
    assert not hasattr(kernels, "__wrapped__")
    assert kernels.__spec__ is not None
    assert kernels.__spec__.loader.get_source("made_up.kernels") == NOTING  # type: ignore[union-attr]
    assert runs == []


def test_one_that_has_not_run_can_be_sent(made: Made, runs: list[str]) -> None:
    kernels = made(NOTING)
    assert pickle.loads(pickle.dumps(kernels)) is kernels
    assert runs == []


def test_a_name_that_nobody_defines_is_an_error(made: Made, runs: list[str]) -> None:
    kernels = made(NOTING + "ONE = 1\n")
    with pytest.raises(AttributeError, match="no attribute 'TWO'"):
        _ = kernels.TWO
    assert runs == ["run"]


def test_a_module_that_fails_is_run_again(made: Made, runs: list[str]) -> None:
    kernels = made(
        NOTING + "if len(made_up_notes.found) == 1:\n    raise OSError('the cache')\ndef f():\n    return 5\n"
    )
    with pytest.raises(OSError, match="the cache"):
        kernels.f()
    assert kernels.f() == 5
    assert runs == ["run", "run"]


def test_threads_wait_for_the_one_that_runs_it(made: Made, runs: list[str]) -> None:
    """All of them come while the module is running; none gets less than all of it, and it runs once."""
    notes = sys.modules["made_up_notes"]
    notes.entered, notes.go_on = threading.Event(), threading.Event()  # type: ignore[attr-defined]
    wait = "def early():\n    return 1\nmade_up_notes.entered.set()\nassert made_up_notes.go_on.wait(60)\n"
    kernels = made(NOTING + wait + "def late():\n    return 2\n")
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(lambda: kernels.late())
        assert notes.entered.wait(60)
        assert kernels.early() == 1, "what is there may be used"
        others = [pool.submit(lambda: kernels.late()) for _ in range(3)]
        notes.go_on.set()
        assert [each.result(60) for each in (first, *others)] == [2] * 4
    assert runs == ["run"]


def test_threads_that_need_different_ones() -> None:
    """All of them import Numba, which does not bear to be imported by two threads at once."""
    script = (
        "import importlib, sys, threading; from tidelog import lazy; lazy.install()\n"
        "sys.setswitchinterval(1e-5)\n"
        "modules = [importlib.import_module(name) for name in sys.argv[1:]]\n"
        "start = threading.Barrier(len(modules))\n"
        "def use(module):\n"
        "    start.wait()\n"
        "    try:\n"
        "        lazy._run(module)\n"
        "    except BaseException as error:\n"
        "        print(module.__name__, repr(error))\n"
        "threads = [threading.Thread(target=use, args=[module]) for module in modules]\n"
        "assert 'numba' not in sys.modules\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(sum(type(module) is lazy._Unloaded for module in modules))\n"
    )
    files = sorted(SOURCE.rglob("kernels.py"))
    names = [".".join(("tidelog", *file.relative_to(SOURCE).with_suffix("").parts)) for file in files]
    run = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True, check=False)
    assert run.stdout.splitlines() == ["0"], run.stderr


def test_all_can_be_loaded_at_once() -> None:
    script = (
        "import sys, tidelog, tidelog.engine.store; from tidelog import lazy\n"
        "mine = lambda: [m for n, m in sys.modules.items() if n.startswith('tidelog.') and n.endswith('.kernels')]\n"
        "print('numba' in sys.modules, sum(type(m) is lazy._Unloaded for m in mine()) == len(mine()) > 0)\n"
        "lazy.load_kernels(); lazy.install()\n"
        "print('numba' in sys.modules, any(type(m) is lazy._Unloaded for m in mine()), len(mine()))\n"
        "print(sum(isinstance(finder, lazy._Kernels) for finder in sys.meta_path))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    modules = len(list(SOURCE.rglob("kernels.py")))
    assert run.stdout.splitlines() == ["False True", f"True False {modules}", "1"], run.stderr


def test_modules_of_kernels_that_import_each_other_fail_as_others_do(made: Made, runs: list[str]) -> None:
    kernels = made(NOTING + "from made_up.kernels import late\ndef late():\n    return 1\n")
    with pytest.raises(ImportError, match="late"):
        kernels.late()
