"""`python -m dygcn.serving.readers`: one reader; the writer starts it and speaks to it by its pipes."""

from dygcn.serving.readers.process import main

main()
