"""Images of a disk after a loss of power: opened, compared with what writers had said, and written on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dygcn.errors import DygcnError
from dygcn.live.durable.opening import open as open_folder
from dygcn_lab.soak.check import Tally
from dygcn_lab.soak.promises.disk import write_image
from dygcn_lab.soak.promises.disk_trace import Call
from dygcn_lab.soak.promises.life import Event
from dygcn_lab.soak.promises.script import STREAM, History

_AGAIN = 5  # one image in so many is closed and opened once more


def memory_folder() -> str | None:
    """Return a folder in memory, if there is one: no check needs what it writes to be on a disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass(slots=True)
class WriterReport:
    """What writers had said at a moment."""

    begun: int = -1
    acknowledged: int = -1

    def take(self, said: Event) -> None:
        """Take something that a writer said."""
        if said.what == "begun":
            self.begun = max(self.begun, said.step)
        elif said.what == "acknowledged":
            self.acknowledged = max(self.acknowledged, said.step)

    def hear(self, call: Call) -> None:
        """Take what a writer said, if a recorded call is that."""
        if call.kind == "note":
            self.take(msgspec.json.decode(call.data, type=Event))


@dataclass(slots=True)
class ImageTally(Tally):
    """What was found in images; `wrong` counts states that are those of no step."""

    images: int = 0
    refused: int = 0  # they do not open
    lost: int = 0  # what was acknowledged is not there

    @property
    def bad(self) -> int:
        """All that is wrong."""
        return self.refused + self.lost + self.wrong


class Examiner:
    """Opens images and compares them with a run that nothing interrupted."""

    def __init__(self, history: History, workdir: Path, tally: ImageTally) -> None:
        self._history, self._tally = history, tally
        self._image = workdir / "image"

    def examine(self, where: str, report: WriterReport, files: dict[str, bytes]) -> None:
        """Open one image, look, and go on writing."""
        shutil.rmtree(self._image, ignore_errors=True)
        write_image(files, self._image)
        self._tally.images += 1
        try:
            place = self._open(report.acknowledged, report.begun, where, goes_on=True)
            if place is not None and self._tally.images % _AGAIN == 0:
                self._open(place, place, f"{where}, opened again", goes_on=False)
        except DygcnError as error:
            self._tally.refused += 1
            self._tally.note(f"{where}: {type(error).__name__}: {error}".replace(str(self._image), "image"))

    def _open(self, first: int, last: int, where: str, goes_on: bool) -> int | None:
        """Open the image; return the step that it stands at, behind what was written to it now."""
        history, tally = self._history, self._tally
        with open_folder(self._image) as live:
            position, digest = live.streams.get(STREAM, -1), live.digest()
            place = history.place(digest, position, first, last)
            if place is None:
                lost = position < history.script.last_message(first)
                tally.lost += lost
                tally.wrong += not lost
                tally.note(f"{where}: {first} was acknowledged, {position} is there, digest {digest[:8]}")
                return None
            for group in self._next_groups(place) if goes_on else ():
                history.script.send(live, group)
                place = group[-1]
            return place

    def _next_groups(self, place: int) -> Iterator[list[int]]:
        number = place + 1
        for _ in range(2):
            group = self._history.script.group(number)
            number = group[-1] + 1
            yield group
