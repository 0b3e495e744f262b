"""Logical merge: one stream out of physically different copies of it (docs/design/013).

``elements`` is what streams are made of, ``columns`` the same in Arrow, ``table`` what a prefix of them means, and
``compatibility`` what a merged stream must be. ``reference`` has the algorithms element by element, ``batches`` the
same for whole arrays, ``payloads`` what elements carry. ``operator`` puts them together.
"""
