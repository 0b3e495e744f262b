"""Streams on disk: splits, manifests, the tail, snapshots."""
