"""The command line: one file spells it, the others do what it says."""
