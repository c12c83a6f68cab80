"""What is drawn: widgets that render the lines that are visible and nothing else."""
