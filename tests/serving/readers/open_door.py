"""A seeded bug: reader processes that let everybody read."""

from dygcn.serving.readers.process import main
from dygcn.serving.service import reader_processes
from dygcn.serving.service.auth import Authorizer


def open_door():
    """Have the writer start such readers."""
    reader_processes._MODULE = __name__


if __name__ == "__main__":
    Authorizer.allows_read = lambda self, authorization, host: True
    main()
