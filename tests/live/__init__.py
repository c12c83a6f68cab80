"""What is on the screens as plain data, and the lines that are made of it."""
