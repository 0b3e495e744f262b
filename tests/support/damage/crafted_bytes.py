"""Stores in which one thing was changed and every checksum over it made right again, as no disk and no crash does it.

Run as a program, in a process of its own that may crash: ``crafted_bytes.py SEED COUNT``. Each changed store is opened,
scanned, aggregated, checked and appended to. Whatever is read is fine, and so is an error of tidelog's own; anything
else is printed, with the change that led to it, and ends the process with 1.
"""

from __future__ import annotations

import faulthandler
import hashlib
import json
import random
import resource
import struct
import sys
import traceback
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from support.damage.damaged_stores import AGGREGATES, Files, medium_of, sample, table
from tidelog.engine.store import Store
from tidelog.model.errors import TidelogError
from tidelog.storage.format import kernels

MEMORY = 12 << 30
"""Bytes of address space that are more than enough; who asks for more has believed a length."""

LONGEST = 60
"""Seconds after which a store counts as one that cannot be got out of."""

STRIDE = 4096
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 3, 2**31, 2**53, 2**63, 2**64, -(2**63), -(2**70), 0.5, 1e308, "", "x", "../../x",
    "a/b", "\x00", "timestamp", "int64", [], [[]], [1], [0, 1], [1, 2, 3], ["x"], {}, {"x": 1}, [None], [[1, 0]],
]  # fmt: skip

Crafted = tuple[str, dict[str, bytes]]


def spoiled(value: Any, dice: random.Random) -> Any:
    """A JSON value in which one thing is something else, missing, or there twice."""
    if isinstance(value, dict) and value and dice.random() < 0.9:
        name = dice.choice(sorted(value))
        changed = dict(value)
        roll = dice.random()
        if roll < 0.15:
            del changed[name]
        elif roll < 0.2:
            changed[name + "x"] = changed.pop(name)
        else:
            changed[name] = spoiled(value[name], dice)
        return changed
    if isinstance(value, list) and value and dice.random() < 0.8:
        place = dice.randrange(len(value))
        roll = dice.random()
        if roll < 0.15:
            return value[:place] + value[place + 1 :]
        if roll < 0.3:
            return [*value, value[place]]
        return [*value[:place], spoiled(value[place], dice), *value[place + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and dice.random() < 0.4:
        return value + dice.choice([-1, 1, 1 << 20, -(1 << 40)])
    if isinstance(value, str) and value and dice.random() < 0.4:
        place = dice.randrange(len(value))
        return value[:place] + dice.choice(["", "A", "/", "0"]) + value[place + 1 :]
    return dice.choice(ODD)


def scrambled(content: bytes, dice: random.Random) -> bytes:
    """Bytes of which a few are others."""
    changed = bytearray(content)
    for _ in range(dice.choice([1, 1, 2, 4])):
        at = dice.randrange(len(changed))
        roll = dice.random()
        if roll < 0.4:
            changed[at] ^= 1 << dice.randrange(8)
        elif roll < 0.7:
            width = dice.choice([2, 4, 8])
            value = dice.choice([0, 1, (1 << 8 * width) - 1, 1 << (8 * width - 1), dice.getrandbits(8 * width)])
            at -= at % width
            changed[at : at + width] = (value & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        else:
            changed[at] = dice.randrange(256)
    return bytes(changed[: len(content)])


def document(files: Files, dice: random.Random) -> Crafted:
    """A document of the catalogue or of a manifest; those behind it are chained to it."""
    name = dice.choice([name for name in files if name.endswith(".json") and "/" in name])
    out = dict(files)
    directory = name.rpartition("/")[0]
    out.pop(f"{directory}/newest", None)
    previous: str | None = None
    for each in sorted(other for other in files if other.startswith(directory + "/") and other >= name):
        if not each.endswith(".json"):
            continue
        body = json.loads(files[each])
        del body["hash"]
        if each == name:
            body = spoiled(body, dice)
            if not isinstance(body, dict):
                body = {"x": body}
        else:
            body["previous"] = previous
        try:
            text = json.dumps(body, separators=(",", ":"), allow_nan=False)[:-1].encode("ascii")
        except ValueError:
            text = b'{"x":1'
        if each == name and dice.random() < 0.1:
            text = scrambled(text, dice)
        previous = hashlib.blake2b(text, digest_size=16).hexdigest()
        out[each] = text + b',"hash":"' + previous.encode() + b'"}\n'
    return f"document {name}", out


def journal(files: Files, dice: random.Random) -> Crafted:
    """A record of a journal: its text or its rows."""
    name = dice.choice([name for name in files if "/journal-" in name and "gone~" not in name])
    content = files[name]
    salt = content[16:32]
    records, at = [], 64
    while at + 32 <= len(content):
        size, _, number, synced = struct.unpack_from("<IIQQ", content, at)
        if number != len(records) + 1:
            break
        records.append((synced, content[at + 32 : at + 32 + size]))
        at += 32 + size + -size % 8
    chosen = dice.randrange(len(records))
    chain, built = zlib.crc32(salt), content[:64]
    for number, (synced, record) in enumerate(records, 1):
        payload = record
        if number == chosen + 1:
            (length, _) = struct.unpack_from("<II", payload)
            rows = payload[8 + length :]
            if rows and dice.random() < 0.6:
                payload = payload[: 8 + length] + scrambled(rows, dice)
            elif dice.random() < 0.8:
                text = json.dumps(spoiled(json.loads(payload[8 : 8 + length]), dice)).encode()
                text += b" " * (-len(text) % 8)
                payload = struct.pack("<II", len(text), 0) + text + rows
            else:
                payload = scrambled(payload, dice)
        head = struct.pack("<IIQQI", len(payload), zlib.crc32(payload), number, min(synced, len(built)), chain)
        chain = zlib.crc32(salt + head)
        built += head + chain.to_bytes(4, "little") + payload + bytes(-len(payload) % 8)
    return f"journal {name} record {chosen + 1}", {**files, name: built}


def published(files: Files, dice: random.Random) -> Crafted:
    """A tail record."""
    name = dice.choice([name for name in files if name.endswith("/published") and "gone~" not in name])
    content = bytearray(files[name])
    for slot in (0, 65536):
        length, _, number = struct.unpack_from("<IIQ", content, slot)
        if number:
            text = json.dumps(spoiled(json.loads(bytes(content[slot + 16 : slot + 16 + length])), dice)).encode()
            body = struct.pack("<Q", number) + text
            slot_bytes = struct.pack("<II", len(text), zlib.crc32(body)) + body
            content[slot : slot + len(slot_bytes)] = slot_bytes
    return f"published {name}", {**files, name: bytes(content)}


def preface(files: Files, dice: random.Random) -> Crafted:
    """What a container says about itself."""
    name = dice.choice([name for name in files if name.endswith(".tide")])
    content = bytearray(files[name])
    (size,) = struct.unpack_from("<I", content, 24)
    if dice.random() < 0.8:
        description = json.loads(bytes(content[12288 : 12288 + size]))
        text = json.dumps(spoiled(description, dice)).encode()
        text = text[: 4096 - 1] if len(text) > 4096 else text
        content[12288 : 12288 + len(text)] = text
        struct.pack_into("<II", content, 24, len(text), zlib.crc32(text))
    else:
        at = dice.choice([16, 20, 24])
        struct.pack_into("<I", content, at, dice.choice([0, 1, 2, 1 << 31, (1 << 32) - 1, 4096]))
        (size,) = struct.unpack_from("<I", content, 24)
        struct.pack_into("<I", content, 28, zlib.crc32(content[12288 : 12288 + size]))
    struct.pack_into("<I", content, 12, 0)
    struct.pack_into("<I", content, 12, zlib.crc32(content[:64]))
    return f"preface {name}", {**files, name: bytes(content)}


def seal(content: bytearray, offset: int) -> int:
    """Make the checksum of the head of a unit right; returns it."""
    (length,) = struct.unpack_from("<I", content, offset + 20)
    head = bytearray(content[offset : offset + max(32, length)])
    struct.pack_into("<I", head, 24, 0)
    crc = zlib.crc32(head, zlib.crc32(offset.to_bytes(8, "little")))
    struct.pack_into("<I", content, offset + 24, crc)
    return crc


def units_of(content: bytes) -> list[int]:
    (size,) = struct.unpack_from("<I", content, 24)
    offset = (12288 + size + STRIDE - 1) // STRIDE * STRIDE
    found = []
    while offset + 32 <= len(content) and content[offset : offset + 4] in (b"TLMB", b"TLAP", b"TLCM"):
        found.append(offset)
        offset += struct.unpack_from("<I", content, offset + 4)[0]
    return found


def unit(files: Files, dice: random.Random) -> Crafted:
    """The head of a unit: a commit record, a macro block, an address page. Slots and the chain follow."""
    name = dice.choice([name for name in files if name.endswith(".tide")])
    content = bytearray(files[name])
    units = units_of(content)
    chosen = dice.choice(units[-2:] if dice.random() < 0.5 else units)
    (length,) = struct.unpack_from("<I", content, chosen + 20)
    start = 32 if dice.random() < 0.85 else 0
    content[chosen + start : chosen + length] = scrambled(bytes(content[chosen + start : chosen + length]), dice)
    crc = None
    for offset in (each for each in units if each >= chosen):
        if crc is not None:
            struct.pack_into("<I", content, offset + 16, crc)
        crc = seal(content, offset)
        if content[offset : offset + 4] == b"TLCM":
            slots(content, offset, crc)
    return f"unit at {chosen} of {name}", {**files, name: bytes(content)}


def slots(content: bytearray, offset: int, crc: int) -> None:
    """Make the slot that names a commit name it still."""
    for at in (4096, 8192):
        if struct.unpack_from("<Q", content, at + 16)[0] * STRIDE == offset:
            struct.pack_into("<I", content, at + 24, crc)
            struct.pack_into("<I", content, at + 4, 0)
            struct.pack_into("<I", content, at + 4, zlib.crc32(content[at : at + 32]))


def digest(content: bytes) -> int:
    words = np.frombuffer(content + bytes(-len(content) % 8), np.uint64).copy()
    return int(kernels.hash64(words, 0, len(words)))


def frame(files: Files, dice: random.Random) -> Crafted:
    """The frame of a block: its head, a summary, a piece of a column, the content of a node."""
    name = dice.choice([name for name in files if name.endswith(".tide")])
    content = bytearray(files[name])
    units = units_of(content)
    blocks = [offset for offset in units if content[offset : offset + 4] == b"TLMB"]
    chosen = dice.choice(blocks)
    (count,) = struct.unpack_from("<I", content, chosen + 32)
    place = dice.randrange(count)
    start = chosen + 48 + 24 * count
    for each in range(place):
        start += struct.unpack_from("<I", content, chosen + 48 + 24 * each + 8)[0]
    (size,) = struct.unpack_from("<I", content, chosen + 48 + 24 * place + 8)
    image = bytearray(content[start : start + size])
    (head_length,) = struct.unpack_from("<I", image, 20)
    (pieces,) = struct.unpack_from("<H", image, 28)
    if dice.random() < 0.5 and head_length < size:
        piece = dice.randrange(pieces)
        at, length = struct.unpack_from("<II", image, 32 + 16 * piece)
        image[at : at + length] = scrambled(bytes(image[at : at + length]), dice)
        struct.pack_into("<Q", image, 32 + 16 * piece + 8, digest(bytes(image[at : at + length])))
    else:
        image[16:head_length] = scrambled(bytes(image[16:head_length]), dice)
    struct.pack_into("<Q", image, 0, digest(bytes(image[8:head_length])))
    content[start : start + size] = image
    struct.pack_into("<Q", content, chosen + 48 + 24 * place + 16, digest(bytes(image)))
    crc = None
    for offset in (each for each in units if each >= chosen):
        if crc is not None:
            struct.pack_into("<I", content, offset + 16, crc)
        crc = seal(content, offset)
        if content[offset : offset + 4] == b"TLCM":
            slots(content, offset, crc)
    return f"frame {place} at {chosen} of {name}", {**files, name: bytes(content)}


def coarse(files: Files, dice: random.Random) -> Crafted:
    """A split of entries."""
    name = dice.choice([name for name in files if name.endswith(".coarse")])
    content = bytearray(scrambled(files[name], dice))
    if dice.random() < 0.5:
        content = bytearray(files[name])
        (size,) = struct.unpack_from("<I", content, 8)
        notes = json.dumps(spoiled(json.loads(bytes(content[32 : 32 + size])), dice)).encode()
        notes += b" " * (-len(notes) % 8)
        content = content[:32] + notes + content[32 + size :]
        struct.pack_into("<I", content, 8, len(notes))
    struct.pack_into("<I", content, 12, zlib.crc32(content[16:]))
    return f"coarse {name}", {**files, name: bytes(content)}


def marker(files: Files, dice: random.Random) -> Crafted:
    text = json.dumps(spoiled(json.loads(files["tidelog.json"]), dice)).encode()
    return "marker", {**files, "tidelog.json": scrambled(text, dice) if dice.random() < 0.3 else text}


MAKERS: list[Callable[[Files, random.Random], Crafted]] = [
    document, document, document, journal, journal, journal, published, preface, preface, unit, unit, frame, frame,
    frame, coarse, marker,
]  # fmt: skip


def use(files: Files) -> None:
    """Do with a store what can be done; errors of tidelog's own are fine."""

    def attempt(action: Callable[[], object]) -> None:
        try:
            action()
        except TidelogError as error:
            if not str(error):
                raise RuntimeError("an error that tells nothing") from error

    medium = medium_of(files)

    def read() -> None:
        with Store(medium, read_only=True) as store:
            for name in store.streams():
                attempt(lambda name=name: store.stream(name).scan(start=400).read_all())
                attempt(lambda name=name: store.stream(name).aggregate(None, None, AGGREGATES))
                attempt(lambda name=name: store.stream(name).aggregate(450, 1000, AGGREGATES, where="id > 3"))
                attempt(lambda name=name: store.stream(name).stats())
            attempt(store.check)

    def write() -> None:
        store = Store(medium, maintenance="manual")
        for name in store.streams():
            attempt(lambda name=name: store.stream(name).append(table([(7000, 1, "x"), (450, 2, "late")])))
            attempt(lambda name=name: store.stream(name).flush())
            attempt(lambda name=name: store.stream(name).compact())
        attempt(store.close)

    attempt(read)
    attempt(write)


def main(seed: int, count: int) -> int:
    faulthandler.enable()
    whole = sample()
    use(whole.files)  # everything is loaded
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    failures: dict[str, str] = {}
    for index in range(count):
        dice = random.Random(f"{seed} {index}")
        what, files = dice.choice(MAKERS)(whole.files, dice)
        sys.stderr.write(f"\n{seed} {index}: {what}")
        sys.stderr.flush()
        faulthandler.dump_traceback_later(LONGEST, exit=True)
        try:
            use(files)
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} at {last.filename}:{last.lineno}"
            if key not in failures:
                failures[key] = f"{seed} {index}: {what}\n{traceback.format_exc()}"
    faulthandler.cancel_dump_traceback_later()
    for failure in failures.values():
        sys.stdout.write(failure + "\n")
    sys.stdout.write(f"{count} stores, {len(failures)} kinds of failures\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
