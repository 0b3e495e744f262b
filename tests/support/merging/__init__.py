"""What tests of merges share."""
