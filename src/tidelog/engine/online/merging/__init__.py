"""Merges of live sources into a stream: what is read, the merge step by step, and inputs that come and go."""
