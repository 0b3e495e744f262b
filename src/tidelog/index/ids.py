"""Where everything is in a tree whose blocks are numbered in post-order: arithmetic instead of pointers.

With fan-out ``F``, leaves are written one after another, and a node follows directly behind its ``F``-th child. Leaf
and node ordinals count from 0 on each level; level 0 are the leaves. (spec/event-store.md 2.6)

>>> [leaf_id(k, 2) for k in range(7)], [node_id(1, m, 2) for m in range(3)], node_id(2, 0, 2)
([0, 1, 3, 4, 7, 8, 10], [2, 5, 9], 6)
"""

from __future__ import annotations

from tidelog.storage.codec import Ints

NIL = -1
"""No block."""


def leaf_id(ordinal: int, fanout: int) -> int:
    """The block id of a leaf: the leaves before it and the nodes that they have filled."""
    id = ordinal
    while ordinal:
        ordinal //= fanout
        id += ordinal
    return id


def leaf_ids(ordinals: Ints, fanout: int) -> Ints:
    """The block ids of many leaves."""
    found = ordinals.copy()
    rest = ordinals // fanout
    while rest.any():
        found += rest
        rest = rest // fanout
    return found


def node_id(level: int, ordinal: int, fanout: int) -> int:
    """The block id of a node: it follows its last leaf and the nodes of the levels between. Of a leaf on level 0."""
    return leaf_id((ordinal + 1) * fanout**level - 1, fanout) + level


def locate(id: int, fanout: int) -> tuple[int, int]:
    """Level and ordinal of the block with this id."""
    sizes = [1]  # blocks of a full subtree, by its level
    while sizes[-1] <= id:
        sizes.append(sizes[-1] * fanout + 1)
    level, leaves, rest = len(sizes) - 1, 0, id
    while rest != sizes[level] - 1:  # the root of a subtree is its last block
        level -= 1
        subtrees, rest = divmod(rest, sizes[level])
        leaves += subtrees * fanout**level
    return level, leaves // fanout**level


def parent(level: int, ordinal: int, fanout: int) -> tuple[int, int]:
    """Level and ordinal of the node over a block."""
    return level + 1, ordinal // fanout


def neighbours(level: int, ordinal: int, fanout: int) -> tuple[int, int]:
    """The ids of the blocks left and right on the same level; NIL at the left end."""
    left = node_id(level, ordinal - 1, fanout) if ordinal else NIL
    return left, node_id(level, ordinal + 1, fanout)


def counts(blocks: int, fanout: int) -> list[int]:
    """How many of the first ``blocks`` blocks are on each level, up to the highest that has any."""
    if not blocks:
        return [0]
    level, ordinal = locate(blocks - 1, fanout)
    leaves = (ordinal + 1) * fanout**level
    found = [leaves]
    # The last block may be a child whose parent would have come next: levels above it lack one.
    for each in range(1, leaves.bit_length() + 1):
        full = leaves // fanout**each
        if each > level and full and leaves % fanout**each == 0:
            full -= 1
        if not full:
            break
        found.append(full)
    return found
