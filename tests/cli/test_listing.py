"""The list of commands: what it says is what the commands say, and it costs no import."""

import subprocess
import sys

import click
from click.testing import CliRunner

from dygcn.cli import main
from dygcn.cli.main import COMMANDS, LAB_COMMANDS, joined


def test_lines_are_the_commands_own():
    for name, line in COMMANDS.items():
        command = main.get_command(click.Context(main), name)
        assert command.get_short_help_str(limit=1000) == line, name
    for name, line in LAB_COMMANDS.items():
        assert joined()[name].load().get_short_help_str(limit=1000) == line, name
    assert list(COMMANDS) == sorted(COMMANDS)
    assert list(LAB_COMMANDS) == sorted(LAB_COMMANDS)


def test_without_the_laboratory_its_commands_say_what_to_install(monkeypatch):
    monkeypatch.setattr(sys.modules["dygcn.cli.main"], "joined", dict)
    for name in LAB_COMMANDS:
        done = CliRunner().invoke(main, [name, "--quick"])
        assert (done.exit_code, done.stderr) == (
            2,
            f"error: `dygcn {name}` comes with the laboratory: pip install dygcn-lab\n",
        )
    shown = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    assert "Commands of the laboratory (pip install dygcn-lab): bench Measure what updates cost." in shown
    assert CliRunner().invoke(main, ["benhc"]).exit_code == 2


def test_help_shows_whole_lines():
    shown = " ".join(CliRunner().invoke(main, ["--help"]).output.split())
    for name, line in (COMMANDS | LAB_COMMANDS).items():
        assert f"{name} {line}" in shown


def test_listing_imports_no_command():
    script = (
        "import sys, click\n"
        "from dygcn.cli import main\n"
        "context = click.Context(main, info_name='dygcn')\n"
        "assert 'token' in main.get_help(context)\n"
        "found = [one.value for one in main.shell_complete(context, 're')]\n"
        "assert found == ['recommend', 'refit', 'reproduce', 'restore']\n"
        "print(*sorted(name for name in sys.modules if name.startswith('dygcn') or name == 'numba'))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["dygcn", "dygcn._extras", "dygcn.cli", "dygcn.cli.main", "dygcn.errors"]


def test_help_loads_no_library_of_numbers():
    script = (
        "import sys\n"
        "from dygcn.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'numba', 'pyarrow', 'msgspec', 'torch', 'scipy', 'pandas', 'rich'}\n"
        "print('loaded:', *sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Print the k nodes nearest" in done.stdout
    assert done.stdout.splitlines()[-1] == "loaded:"


def test_a_word_completes_to_a_command_with_its_line():
    found = main.shell_complete(click.Context(main), "se")
    assert [(one.value, one.help) for one in found] == [("serve", COMMANDS["serve"])]
