"""Promises put to the test, one module for each way to do it; every one has a `CHECK`."""
