"""What the command tells on a terminal while it works."""
