"""`python -m dygcn.serving.readers`: one reader process, which the writer starts and controls by pipes."""

from dygcn.serving.readers.process import main

main()
