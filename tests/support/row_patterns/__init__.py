"""Row patterns by brute force, and random ones to compare with."""
