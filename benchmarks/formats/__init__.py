"""The contestants: ways to keep an Arrow table on disk, all behind the interface of :mod:`formats.base`.

Everyone works on the same two CPUs (:data:`formats.base.THREADS`) and has its documented best settings for each task.
"""
