"""What is on the screens, as plain data kept true from events; no Textual here."""
