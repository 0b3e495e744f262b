"""``MATCH_RECOGNIZE``: the text of the clause, its rules, and its place in a statement."""
