"""The questions of the benchmarks, one module a kind; each module's functions answer through a ``Bench``."""
