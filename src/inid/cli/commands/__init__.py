"""The commands, one file each: its options, its help and examples, and what it does."""
