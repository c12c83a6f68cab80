"""Words for the operator, made of data: cleaned, counted, cut."""
