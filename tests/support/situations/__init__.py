"""What tests of situations share: an oracle straight from the definitions, and random queries."""
