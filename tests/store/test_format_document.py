"""What docs/format.md says of logs of documents: a reader written from it alone finds what the store knows."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import struct
import zlib
from typing import Any

from support.format.reader import read_journal
from support.media.memory import MemoryMedium
from support.streams.history import SCHEMA, SMALL, table
from tidelog.engine.store import Store
from tidelog.engine.stream import Stream, writer_of
from tidelog.model import to_batches
from tidelog.model.times.interval import Interval
from tidelog.store.bulk import BulkWriter, commit_bulk
from tidelog.store.manifest.sequence_set import SeqSet

State = dict[str, Any]


def read_log(medium: MemoryMedium, directory: str, kind: str) -> tuple[list[State], State]:
    """The deltas of a log behind its last state, and that state."""
    names = [name for name in medium.names(f"{directory}/") if name.endswith(".json")]
    assert names
    documents = []
    for name in names:
        with medium.open(name) as file:
            content = bytes(file.read(0, file.size()))
        document = json.loads(content)
        before = content[: content.rindex(b',"hash"')]
        assert document["hash"] == hashlib.blake2b(before, digest_size=16).hexdigest()
        assert (document["format"], document["kind"]) == (3, kind)
        assert name == f"{directory}/{document['number']:020d}.json"
        assert not documents or document["previous"] == documents[-1]["hash"]
        before = [each["number"] for each in documents if "state" in each]
        assert not before or document["checkpoint"] == before[-1]
        documents.append(document)
    assert documents[-1].get("state") or documents[-1]["checkpoint"] == before[-1]
    last = max(index for index, document in enumerate(documents) if "state" in document)
    return [{**document["delta"], "at": document["at"]} for document in documents[last + 1 :]], documents[last]["state"]


def rows_of(columns: State) -> list[State]:
    """Splits, an object for each."""
    count = len(columns["name"])
    columns = dict(columns)
    for name in ("root", "entry"):
        if name in columns:
            whole, at, contents = base64.b64decode(columns[name]["bytes"]), 0, []
            for size in columns[name]["sizes"]:
                contents.append(whole[at : at + size])
                at += size
            assert at == len(whole)
            columns[name] = contents
    return [{name: values[index] for name, values in columns.items()} for index in range(count)]


def read_manifest(medium: MemoryMedium, directory: str) -> State:
    deltas, state = read_log(medium, f"{directory}/manifest", "tidelog stream manifest")
    state["splits"] = {split["name"]: split for split in rows_of(state["splits"])}
    for name in ("gone", "deleted_seen"):
        state[name] = SeqSet(map(tuple, state[name]))
    for delta in deltas:
        at = state["at"] = delta["at"]
        if "tail_block" in delta:
            state["tail_block"] = delta["tail_block"]
            state["tail_seq"] = delta["tail_block"][0]
        moved = "deleted_before" in delta and (
            state["deleted_before"] is None or delta["deleted_before"] > state["deleted_before"]
        )
        if moved:
            state["deleted_before"] = delta["deleted_before"]
            seen = delta.get("deleted_seen", [[0, state["next_seq"]]])
            state["deleted_seen"] |= SeqSet(map(tuple, seen))
        for name in delta.get("remove", []):
            del state["splits"][name]
            state["removed"][name] = at
        for name in delta.get("condemn", []):
            state["removed"].setdefault(name, at)
        for name in delta.get("forget", []):
            state["removed"].pop(name, None)
        for split in rows_of(delta["add"]) if "add" in delta else []:
            state["splits"][split["name"]] = split
            reached = split["seq_max"] + 1
            state["next_seq"] = max(state["next_seq"], reached)
            if state["tail_block"] and split["seq_max"] < state["tail_block"][1]:
                state["tail_seq"] = max(state["tail_seq"], reached)
        if "schema" in delta:
            state["schemas"].append(delta["schema"])
        state["options"] = delta.get("options", state["options"])
        state["gone"] |= SeqSet(map(tuple, delta.get("gone", [])))
        state["deletions"] = [each for each in state["deletions"] if each not in delta.get("undelete", [])]
        state["deletions"] += [each for each in delta.get("delete", []) if each not in state["deletions"]]
        state["next_seq"] = max(state["next_seq"], delta.get("next_seq", 0), *(delta.get("tail_block") or [0]))
        state["transactions"] |= delta.get("transactions", {})
    return state


def lived(medium: MemoryMedium, seed: int) -> Stream:
    dice = random.Random(seed)
    stream = Store(medium).create_stream("s", SCHEMA, "ts", **{**SMALL, "grace": 0, "late_merge": "never"})
    now = 0
    for step in range(40):
        rows = [(now + index // 2, step * 100 + index) for index in range(dice.choice([1, 20, 60]))]
        now += len(rows) // 2
        kind = dice.choice("aaalod")
        if kind == "a":
            stream.append(table(rows))
            stream.append(table([(now - dice.randrange(400), step * 100 + 90 + index) for index in range(9)]))
            stream.flush()
        elif kind == "d":
            stream.delete_before(now - 300)
        else:
            writer = BulkWriter(writer_of(stream).context)
            for batch in to_batches(table(rows), stream.schema):
                writer.append(batch)
            overwrite = Interval(now - 60, now - 20) if kind == "o" else None
            job = ("job", step)
            commit_bulk(
                writer_of(stream).manifests, writer.finish(), transaction=job, overwrite=overwrite, outside="append"
            )
        if step % 9 == 8:
            Store(medium).sweep()
    return stream


def test_manifests_are_as_the_document_says() -> None:
    kinds: set[str] = set()
    for seed in range(3):
        medium = MemoryMedium()
        stream = lived(medium, seed)
        found, known = read_manifest(medium, writer_of(stream).context.directory), writer_of(stream).manifests.load()
        assert list(found["splits"]) == list(known.splits)
        for file, split in found["splits"].items():
            info = known.splits[file]
            assert (split["time_min"], split["time_max"]) == (info.time_min, info.time_max)
            assert (split["seq_min"], split["seq_max"]) == (info.seq_min, info.seq_max)
            assert (split["rows"], split["bytes"], split["kind"]) == (info.rows, info.bytes, info.kind)
            for name, default in {"seq_base": 0, "clean_at": 0, "dead_bytes": 0, "schema": 0, "states": ""}.items():
                assert split.get(name, default) == getattr(info, name)
            assert (split["root"], split["entry"]) == (info.root, info.entry)
            assert (split["sampled"], tuple(split["correlation"])) == (info.sampled, info.correlation)
            boundary = info.boundary
            assert split.get("boundary") == (None if boundary is None else [boundary.start, boundary.end])
            kinds.add(split["kind"])
        assert found["schemas"] == [known.schema.to_dict()]
        assert found["options"] == known.options.to_dict()
        assert (found["deleted_before"], found["deleted_seen"]) == (known.deleted_before, known.deleted_seen)
        assert found["gone"] == known.gone
        marks = [(Interval(start, end), SeqSet(map(tuple, some))) for start, end, some, *_ in found["deletions"]]
        assert marks == [(mark.interval, mark.numbers) for mark in known.deletions]
        assert (found["next_seq"], found["tail_seq"]) == (known.next_seq, known.tail_seq)
        assert tuple(found["tail_block"]) == known.tail_block
        assert (found["transactions"], found["removed"]) == (known.transactions, known.removed)
        assert found["gone"] or found["deletions"]
    assert kinds == {"regular", "late", "loaded"}


def test_the_catalogue_is_as_the_document_says() -> None:
    medium = MemoryMedium()
    store = Store(medium)
    for number in range(12):
        store.create_stream(f"s{number}", SCHEMA, "ts", grace=5)
    store.drop_stream("s3")
    for number in range(4, 9):
        store.rename_stream(f"s{number}", f"t{number}")
    deltas, state = read_log(medium, "catalogue", "tidelog catalogue")
    streams = {entry["name"]: entry for entry in state["streams"]}
    dropped = {entry["id"]: entry for entry in state["dropped"]}
    for delta in deltas:
        for entry in delta.get("add", []):
            streams[entry["name"]] = entry
        for name, grace in delta.get("drop", []):
            entry = streams.pop(name)
            dropped[entry["id"]] = {"name": name, "id": entry["id"], "at": delta["at"], "grace": grace}
        for old, new in delta.get("rename", []):
            streams[new] = {**streams.pop(old), "name": new}
    assert sorted(streams) == store.streams()
    for name, entry in streams.items():
        assert writer_of(store.stream(name)).context.directory == f"streams/{entry['id']}"
    assert [(entry["name"], entry["grace"]) for entry in dropped.values()] == [("s3", 5)]


def read_heads(medium: MemoryMedium, directory: str) -> list[State]:
    """What the records of a tail's newest journal say besides their rows."""
    name = max(name for name in medium.names(f"{directory}/tail/") if "journal-" in name)
    with medium.open(name) as file:
        payloads = read_journal(bytes(file.read(0, file.size())))
    return [json.loads(payload[8 : 8 + struct.unpack_from("<I", payload)[0]]) for payload in payloads]


def test_shares_and_the_newest_time_are_as_the_document_says() -> None:
    medium = MemoryMedium()
    stream = Store(medium).create_stream("s", SCHEMA, "ts", lateness=10, too_late="aside")
    times = [[100, 50, 101, 51, 102, 52, 103, 53, 104, 54, 105], [-7], [106, 60]]
    for number, each in enumerate(times):
        stream.append(table([(time, index) for index, time in enumerate(each)]), producer="p q", number=number)
    found: State = {}
    for head in read_heads(medium, writer_of(Store(medium).stream("s.late")).context.directory):
        assert "newest" not in head
        for sender, (forgotten, shares) in head.get("shares", {}).items():
            assert (sender, forgotten) == (f"{writer_of(stream).context.directory} p q", -1)
            found |= shares
    assert list(found) == ["0", "1", "2"]
    for share, each in zip(found.values(), times, strict=True):
        rows, check, bits = share
        assert (rows, check) == (len(each), zlib.crc32(struct.pack(f"<{rows}q", *each)))
        taken = zlib.decompress(base64.b64decode(bits))
        late = [time for index, time in enumerate(each) if taken[index // 8] >> index % 8 & 1]
        assert late == [time for time in each if time < 90]
    stream.flush()
    assert read_heads(medium, writer_of(stream).context.directory)[-1]["newest"] == 106
