"""Texts of the command line: numbers, formats of files, and errors in the spelling of options."""

import pytest

from dygcn.cli.main import with_options
from dygcn.cli.options import format_of
from dygcn.cli.printing import plain


def test_numbers_for_people():
    shown = [plain(one) for one in (1234567, 12.34567, 12345.67, True, "x")]
    assert shown == ["1,234,567", "12.35", "12,346", "yes", "x"]


def test_a_format_by_its_first_bytes():
    begins = b"src,dst\n1,2\n", b"src\tdst\n", b' {"src": 1}', b"PAR1\x15"
    assert list(map(format_of, begins)) == ["csv", "tsv", "ndjson", "parquet"]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ('say which they are: src="user", dst="the item"', "say which they are: --src user --dst 'the item'"),
        ("there is no column 'usr', as src= says", "there is no column 'usr', as --src says"),
        ("say shared_ids=True", "say --shared-ids"),
        ('say kinds=("user", "item")', "say --kinds user,item"),
        ("say width=3", "say width=3"),
    ],
)
def test_keywords_become_the_options_that_a_command_has(message, shown):
    assert with_options(message, ["src", "dst", "shared_ids", "kinds"]) == shown
