"""The session tools, written once against the port; console, agents and command line all go through `dispatch` (T1)."""
