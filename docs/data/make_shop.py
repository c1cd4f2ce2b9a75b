"""Makes shop.parquet: who bought which article when, out of the data set online-retail.

Run it from the root of a clone, with the folder of the data set: ``python docs/data/make_shop.py FOLDER``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

TARGET = Path(__file__).with_name("shop.parquet")
BEGIN = "2011-10-01"  # ten weeks before the end: enough to fit on nine and to follow for one


def purchases(edges: pd.DataFrame, nodes: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each customer, article and moment, by the numbers and codes of the shop."""
    original = nodes.set_index("id")["original"]
    table = pd.DataFrame(
        {
            "time": pd.to_datetime(edges["t"], unit="s").astype("datetime64[ms]"),
            "customer": original.loc[edges["src"]].astype("int64").to_numpy(),
            "article": original.loc[edges["dst"]].to_numpy(),
        }
    )
    table = table[table.time >= BEGIN].drop_duplicates()
    return table.sort_values(["time", "customer", "article"], ignore_index=True)


def main(folder: str) -> None:
    """Write the table."""
    edges, nodes = (pd.read_parquet(Path(folder) / f"{name}.parquet") for name in ("edges", "nodes"))
    purchases(edges, nodes).to_parquet(TARGET, compression="zstd", compression_level=19, index=False)


if __name__ == "__main__":
    main(sys.argv[1])
