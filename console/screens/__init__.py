"""The screens: what is where, and what each key does there."""
