"""What the operator sees: the Textual app and the command line."""

import os

# Before Textual is imported: what a key changes is painted within 8 ms instead of 17; nothing without a change.
os.environ.setdefault("TEXTUAL_FPS", "120")
