"""Continuous operators: state machines over batches of rows, written once for every runtime (docs/design/010).

``base`` is what an operator is, ``state`` what is kept of one, ``arrivals`` what time means while rows arrive, and
``conformance`` what holds every operator, and every runtime, to the same rows.
"""
