"""Answers from one moment of a stream: snapshots, and what is asked of them."""
