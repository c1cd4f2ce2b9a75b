"""Processes that listen on the port, answer reads of vectors, and pass everything else to the writer."""
