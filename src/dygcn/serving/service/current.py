"""The settings that may change while the service runs: one home, which everyone asks again each time."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from dygcn.errors import DygcnError
from dygcn.serving.observing.events import note
from dygcn.serving.service.settings import Http, Limits, ServiceSettings

_LOG = logging.getLogger(__name__)


class CurrentSettings:
    """The limits, the tokens and the names, as they are now.

    Everything else of the settings is read once, at the start.

    Examples
    --------
    >>> current = CurrentSettings(ServiceSettings(folder="friends"))
    >>> current.watch(lambda: print(current.limits.ids))
    >>> current.replace(ServiceSettings(folder="friends", limits=Limits(ids=5)))
    5
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._watchers: list[Callable[[], None]] = []

    @property
    def limits(self) -> Limits:
        """How much is taken in at once."""
        return self._settings.limits

    @property
    def http(self) -> Http:
        """Who may come, and by which names; where to listen is not changed."""
        return self._settings.http

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have a function called after every change."""
        self._watchers.append(watcher)

    def replace(self, settings: ServiceSettings) -> None:
        """Take the limits, tokens and names of other settings, and leave the rest."""
        http = msgspec.structs.replace(
            self._settings.http, tokens=settings.http.tokens, names=settings.http.names
        )
        self._settings = msgspec.structs.replace(self._settings, limits=settings.limits, http=http)
        for watcher in self._watchers:
            watcher()

    def reload(self, read: Callable[[], ServiceSettings] | None) -> bool:
        """Read the settings again; say whether they were taken. Settings that cannot be used change nothing.

        Parameters
        ----------
        read
            Returns checked settings, or raises; None: there is no file.
        """
        if read is None:
            _LOG.warning("SIGHUP: there is no settings file to read again; `dygcn run FILE` has one")
            return False
        try:
            settings = read()
        except DygcnError as error:
            note("settings.refused", error=str(error))
            return False
        before = self.http, self.limits
        self.replace(settings)
        now = self.http, self.limits
        changed = [name for name, a, b in zip(("http", "limits"), before, now, strict=True) if a != b]
        note("settings.reloaded", changed=" ".join(changed) or "nothing")  # names, never values
        later = self._not_taken(settings)
        if later:
            _LOG.warning("SIGHUP: a restart is needed for changes of: %s", ", ".join(later))
        return True

    def _not_taken(self, settings: ServiceSettings) -> list[str]:
        """Return the names of settings that differ from those that are used."""
        pairs = (("", self._settings, settings), ("http.", self._settings.http, settings.http))
        return [
            f"{prefix}{name}"
            for prefix, ours, theirs in pairs
            for name in ours.__struct_fields__
            if name not in ("http", "limits") and getattr(ours, name) != getattr(theirs, name)
        ]
