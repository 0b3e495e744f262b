"""The way into a container: blocks through the encoding threads into the growing end of a file."""
