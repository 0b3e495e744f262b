"""The search for matches: a pattern as a program, and the machine that runs it."""
