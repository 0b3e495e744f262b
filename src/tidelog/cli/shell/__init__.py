"""The parts of ``tidelog shell``: what is typed, completed, run and shown."""
