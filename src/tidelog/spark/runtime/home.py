"""A home for a Spark of this machine whose Python workers load the PySpark that runs here.

Spark puts ``python/lib/pyspark.zip`` of its home first on the path of every Python process that it starts. Python keeps
no compiled modules of what is in an archive, so each of them compiles PySpark anew, most of a second of work; and there
is one for every kind of question to a data source. A home is a directory of links to the real one, in which the places
of the archives are directories that lead to the packages they hold copies of.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path


def light_home(cache: Path) -> Path | None:
    """A home below ``cache`` for the PySpark of this process, made once; None if there is nothing to gain, or no place.

    It is named by what it leads to: when that moves, another one is made.
    """
    import py4j  # type: ignore[import-untyped]
    import pyspark

    real, *others = [Path(package.__path__[0]) for package in (pyspark, py4j)]
    links = {}
    for package in (real, *others):
        for archive in (real / "python" / "lib").glob(f"{package.name}*.zip"):
            links[f"python/lib/{archive.name}/{package.name}"] = package
    if not (links and (real / "jars").is_dir()):  # it was not installed as a package, or its Spark is elsewhere
        return None
    # Its ``conf`` may come later.
    links |= {name: real / name for name in ("conf", *os.listdir(real)) if name not in ("python", "__pycache__")}
    told = "\n".join(f"{name} {target}" for name, target in sorted(links.items()))
    home = cache / hashlib.sha256(told.encode()).hexdigest()[:16]
    if not home.exists():
        try:
            _make(home, links)
        except OSError:
            return None
    return home


def _make(home: Path, links: dict[str, Path]) -> None:
    """Make a directory of links, complete once it has its name, whoever else makes it at the same time."""
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=home.parent, prefix=".home-"))
    try:
        for name, target in links.items():
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            (draft / name).symlink_to(target)
        draft.chmod(0o755)
        draft.rename(home)
    except OSError:
        shutil.rmtree(draft, ignore_errors=True)
        if not home.exists():
            raise
