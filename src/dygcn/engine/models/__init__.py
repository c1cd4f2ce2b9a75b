"""What was learned: one matrix for each order, the readout that uses them, and their files."""
