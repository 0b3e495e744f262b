"""Windows: aggregates of stretches of time, of numbers of rows, and of sessions.

``frames`` says which windows there are, ``sliding`` merges slices into windows, and the operators stand in ``timed``,
``counted`` and ``sessions``; ``slices`` are what all of them keep. All aggregates are those of the store
(:class:`tidelog.aggregates.contract.Fold`).
"""
