"""A plugin for pytest: properties are tried on ``--few`` examples at most, where a build is slow."""

from hypothesis import settings


def pytest_addoption(parser):
    parser.addoption("--few", type=int, help="examples of a property, at most")


def pytest_configure(config):
    most = config.getoption("--few")
    if most is not None:
        cap_examples(most)


def cap_examples(most):
    """Have all settings that are made from now on ask for so many examples at most."""
    whole = settings.__init__

    def init(self, parent=None, **result):
        if "max_examples" in result:
            result["max_examples"] = min(most, result["max_examples"])
        whole(self, parent, **result)

    settings.__init__ = init
    settings.register_profile("few", max_examples=most)
    settings.load_profile("few")
