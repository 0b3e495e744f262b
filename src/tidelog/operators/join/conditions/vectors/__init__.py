"""What the machine for conditions does with vectors."""
