"""Logical merge: one stream out of physically different copies of it (docs/design/013).

``elements`` is what streams are made of, ``table`` what a prefix of them means, and ``compatibility`` what a merged
stream must be. ``reference`` has the algorithms element by element, ``batches`` the same for whole arrays.
"""
