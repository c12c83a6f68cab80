"""What both ends of a wire share: frames, errors, the JSON of the port. Knows the vocabulary, the rules, the port."""
