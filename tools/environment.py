"""Brings ``.venv`` to the state that ``requirements.lock`` describes; run through ``tools/setup``.

Two states exist. ``demo`` has at least what ``make demo`` needs and leaves other packages alone; ``full`` has
exactly the locked packages. Every package, the installer (uv) and the build back ends included, is pinned by
the lock and checked against its hashes. A stamp in ``.venv`` makes the next call return at once for as
long as the lock, ``pyproject.toml``, the interpreter and the place of the working tree stay the same.

Standard library only: this runs before anything is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCK = ROOT / "requirements.lock"
PYPROJECT = ROOT / "pyproject.toml"
STAMP = VENV / "tidelog-environment.json"

SATISFIED_BY = {"demo": ("demo", "full"), "full": ("full",)}
"""For each state, the states of ``.venv`` that will do."""


class SetupError(Exception):
    """Set-up cannot go on; the message says why and what to do."""


def locked(package: str, lock: str) -> str:
    """The entry of ``package`` (pin, marker and hashes) in the text of a lock file."""
    entry: list[str] = []
    for line in lock.splitlines():
        if entry or line.startswith(f"{package}=="):
            entry.append(line)
            if not line.endswith("\\"):
                return "\n".join(entry) + "\n"
    raise SetupError(f"requirements.lock has no entry for {package}; `make lock` writes a complete one")


def pinned_version(entry: str) -> str:
    """The version an entry of a lock file names."""
    return entry.split("==", 1)[1].split(maxsplit=1)[0]


def fingerprint(interpreter: str) -> str:
    """Identifies everything the content of ``.venv`` depends on."""
    parts = [LOCK.read_bytes(), PYPROJECT.read_bytes(), str(ROOT).encode(), interpreter.encode()]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def is_current(state: str, expected: str) -> bool:
    """Whether the stamp says that ``.venv`` is in ``state``, or in one that includes it."""
    try:
        stamp = json.loads(STAMP.read_text())
        return stamp["fingerprint"] == expected and stamp["state"] in SATISFIED_BY[state]
    except (OSError, ValueError, TypeError, KeyError):
        return False  # no stamp, or not one of ours: set up again


def write_stamp(state: str, expected: str) -> None:
    """Record that ``.venv`` is in ``state``; all at once, since a later call trusts it."""
    draft = STAMP.with_suffix(".new")
    draft.write_text(json.dumps({"state": state, "fingerprint": expected}) + "\n")
    draft.replace(STAMP)


def venv_version() -> str | None:
    """The version of the interpreter in ``.venv``, or None when there is none that runs."""
    with contextlib.suppress(OSError):
        question = "import sys; print(sys.version.split()[0], sys.implementation.cache_tag)"
        answer = subprocess.run([PYTHON, "-c", question], capture_output=True, text=True, check=False)
        if answer.returncode == 0:
            return answer.stdout.strip()
    return None


def run(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    """Run a command in the project's root; its failure ends the set-up."""
    done = subprocess.run(list(command), cwd=ROOT, env=environment, check=False)
    if done.returncode != 0:
        shown = " ".join(str(word) for word in command)
        raise SetupError(f"this command failed with status {done.returncode}; its output is above\n  {shown}")


def make_venv() -> None:
    """Create ``.venv``, over whatever does not work there."""
    if VENV.exists():
        print(f"{VENV} has no interpreter that runs: making it anew", flush=True)
    print(f"Making .venv with Python {sys.version.split()[0]} ({sys.executable})", flush=True)
    run(sys.executable, "-m", "venv", "--clear", VENV)


def ensure_uv() -> None:
    """Have the locked version of uv in ``.venv``, brought there by pip."""
    entry = locked("uv", LOCK.read_text())
    question = "from importlib.metadata import version; print(version('uv'))"
    installed = subprocess.run([PYTHON, "-c", question], capture_output=True, text=True, check=False)
    if installed.stdout.strip() == pinned_version(entry):
        return
    if subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True, check=False).returncode != 0:
        run(PYTHON, "-m", "ensurepip")  # a venv made by other tools may have no pip
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(entry)
        requirements.flush()
        checked = ["--require-hashes", "--no-deps", "-r", requirements.name]
        run(PYTHON, "-m", "pip", "install", "--quiet", *checked)


def uv_environment() -> dict[str, str]:
    """The environment uv runs in: it does not read pip's configuration, so the package index travels here."""
    environment = dict(os.environ)
    environment.pop("VIRTUAL_ENV", None)
    # Once here instead of once in every process, which may not be able, or allowed, to keep what it compiles.
    environment["UV_COMPILE_BYTECODE"] = "1"
    environment["UV_COMPILE_BYTECODE_TIMEOUT"] = "300"
    if not environment.keys() & {"UV_DEFAULT_INDEX", "UV_INDEX_URL"}:
        index = pip_setting("index-url")
        if index:
            environment["UV_DEFAULT_INDEX"] = index
    certificates = pip_setting("cert")
    if certificates:
        environment.setdefault("SSL_CERT_FILE", certificates)
    return environment


def pip_setting(name: str) -> str | None:
    """What pip has been told, by a configuration file or the environment; None when nothing."""
    listing = subprocess.run(
        [PYTHON, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    settings = dict(line.split("=", 1) for line in listing.splitlines() if "=" in line)
    for section in (":env:", "install", "global"):
        value = settings.get(f"{section}.{name}")
        if value:
            return value.strip("'\"")
    return None


def install(state: str) -> None:
    """Install what ``state`` asks for, and tidelog itself from this working tree."""
    environment = uv_environment()
    uv: list[str | Path] = [PYTHON, "-m", "uv", "pip"]
    target: list[str | Path] = ["--python", PYTHON, "--build-constraints", LOCK]
    if state == "full":
        run(*uv, "sync", *target, "--require-hashes", LOCK, environment=environment)
    else:
        # As constraints the lock's pins and hashes hold for what is installed, and the rest is left out.
        wanted: list[str | Path] = ["-r", PYPROJECT, "--extra", "spark", "--group", f"{PYPROJECT}:{state}"]
        run(*uv, "install", *target, "--require-hashes", *wanted, "-c", LOCK, environment=environment)
    run(*uv, "install", *target, "--quiet", "--no-deps", "--editable", ROOT, environment=environment)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep other set-ups of this working tree waiting."""
    with LOCK.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def bring_to(state: str) -> None:
    """Make ``.venv`` satisfy ``state``."""
    with alone():
        version = venv_version()
        if version is not None and is_current(state, fingerprint(version)):
            return
        if version is None:
            make_venv()
            version = venv_version()
            if version is None:
                raise SetupError(f"{PYTHON} was made but does not run; remove {VENV} and try again")
        print(f"Installing the locked packages ({state}) into .venv", flush=True)
        STAMP.unlink(missing_ok=True)  # an interrupted set-up must not pass for a finished one
        ensure_uv()
        install(state)
        write_stamp(state, fingerprint(version))


def main(arguments: Sequence[str]) -> int:
    """Entry point: the state wanted is the only argument."""
    if len(arguments) != 1 or arguments[0] not in SATISFIED_BY:
        print(f"usage: tools/setup {'|'.join(SATISFIED_BY)}", file=sys.stderr)
        return 2
    try:
        bring_to(arguments[0])
    except SetupError as error:
        print(f"set-up of .venv failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
