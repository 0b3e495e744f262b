"""What the bytes of a container are: units, blocks, macro blocks, address pages, commits."""
