"""What the operator sees: the Textual app and the command line."""
