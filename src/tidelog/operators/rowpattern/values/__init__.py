"""Values of expressions over matches, and the rows that come out."""
