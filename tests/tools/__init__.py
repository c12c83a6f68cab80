"""Commands that measure, draw, break and ask more than the suite does, and the short forms that the suite plays."""
