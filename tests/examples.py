"""How many examples properties are tried on: fewer where a build is slow, more where somebody hunts."""

from hypothesis import settings


def scale_examples(most=None, times=1):
    """Have all settings that are made from now on ask for `times` their examples, at most for `most`."""
    whole = settings.__init__

    def scaled(examples):
        return min(examples * times, most or examples * times)

    def init(self, parent=None, **result):
        if "max_examples" in result:
            result["max_examples"] = scaled(result["max_examples"])
        whole(self, parent, **result)

    settings.register_profile("scaled", max_examples=scaled(settings.default.max_examples))
    settings.load_profile("scaled")
    settings.__init__ = init
