"""One sequence of rows in ranges of time, searched side by side."""
