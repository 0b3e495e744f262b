"""What a snapshot consists of: trees of splits and rows in memory, all asked in the same way."""
