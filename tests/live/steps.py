"""Steps of a state machine that are written down, where a search would take long to come upon them."""


def step(name, **arguments):
    """A rule, or a check, and what it is given."""
    return name, arguments


def take(machine, steps):
    """Take the steps, from the first rule to the end of the machine."""
    one = machine()
    try:
        for name, arguments in steps:
            getattr(one, name)(**arguments)
    finally:
        one.teardown()
