"""The block container: a compressed, addressable, crash-proof log in one file."""
