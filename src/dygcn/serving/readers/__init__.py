"""Reader processes: they accept connections, answer reads of vectors, and forward all else to the writer."""
