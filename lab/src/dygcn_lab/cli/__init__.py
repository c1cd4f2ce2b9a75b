"""Commands that join `dygcn` when the laboratory is installed (entry points of the group dygcn.commands)."""
