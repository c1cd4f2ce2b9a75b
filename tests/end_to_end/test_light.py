"""What importing and starting costs, in fresh processes."""

import os
import subprocess
import sys


def run(script, *arguments, **environment):
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_import_is_light():
    script = (
        "import sys, dygcn\n"
        "heavy = {'torch', 'numba', 'pyarrow', 'pandas', 'click', 'rich', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    run(script)


WORK = (
    "import sys, tempfile, dygcn\n"
    "live = dygcn.fit([(i % 40, (i * 7) % 90) for i in range(400)], dim=8, memory=None)\n"
    "live.update(add=[(1, 2)], remove=[(2, 14)])\n"
    "live.nearest(1)\n"
    "with tempfile.TemporaryDirectory() as folder:\n"
    "    live.save(folder + '/x'); dygcn.load(folder + '/x').update(add=[(3, 4)])\n"
)


def test_to_ask_a_folder_needs_neither_fitting_nor_durability(tmp_path):
    folder = str(tmp_path / "friends")
    run(f"import dygcn; dygcn.fit([('ann', 'bob'), ('bob', 'cat')], dim=8).save({folder!r})")
    unused = (
        "dygcn.engine.training dygcn.engine.measures dygcn.live.durable.embedding dygcn.engine.events.wire"
    )
    unused += " dygcn_lab pyarrow.parquet pyarrow.dataset ssl pandas torch"
    for command in (["info", folder], ["nearest", folder, "ann"]):
        script = (
            "import sys\n"
            "from dygcn.cli import main\n"
            f"main({command!r}, standalone_mode=False)\n"
            f"print('loaded:', *sorted(set({unused.split()!r}) & set(sys.modules)))"
        )
        assert run(script).splitlines()[-1] == "loaded:"


def test_fit_update_and_load_never_import_torch():
    script = (
        "import sys; sys.modules['torch'] = None\n"
        + WORK
        + "assert sys.modules['torch'] is None\nprint('fine')"
    )
    assert run(script) == "fine"


def test_the_paper_s_rules_need_torch_to_fit_and_not_to_serve(tmp_path):
    fit = (
        "import dygcn, sys\n"
        "def fit(rule):\n"
        "    events = [(i % 40, (i * 7) % 90, i // 20, 1) for i in range(400)]\n"
        "    recipe = dygcn.RollingRecipe(rounds=2)\n"
        "    exact = dygcn.fit(events, dim=8, features='hashed')\n"
        "    base = dygcn.Embedding(list(exact), exact.vectors())\n"
        "    return dygcn.fit(events, rule=rule, base=base, recipe=recipe)\n"
        "for rule in ('rolling', 'spectral'):\n"
        "    folder = sys.argv[1] + '/' + rule\n"
    )
    serve = (
        "    live = dygcn.load(folder)\n"
        "    live.update(add=[(1, 2), (1, 777)], remove=[(2, 14)])\n"
        "    live.nearest(777); live.score(1, 2)\n"
        "    live.restart(dygcn.Embedding(list(live), live.vectors()))\n"
        "    try:\n        fit(rule)\n    except dygcn.errors.MissingExtra as error:\n        print(error)"
    )
    run(fit + "    fit(rule).save(folder)", str(tmp_path))
    missing = 'torch is not installed. Run: pip install "dygcn[torch]"'
    shown = run("import sys; sys.modules['torch'] = None\n" + fit + serve, str(tmp_path))
    assert shown.splitlines() == [missing, missing]


def test_judging_the_exact_rule_needs_the_core_install_only(tmp_path):
    block = (
        "import sys\n"
        "for name in 'torch torch_geometric scipy sklearn gensim pycleora matplotlib jinja2'.split():\n"
        "    sys.modules[name] = None\n"
        "from dygcn.cli import main\n"
    )
    shown = run(block + "main(['judge', 'hepth-collab', '--quick', '--json'])")
    assert '"score.auc.new-warm.uniform"' in shown
    script = block + (
        "try:\n    main(['reproduce', 'table2', '--quick', '--out', sys.argv[-1]])\n"
        "except SystemExit as ended:\n    print(ended.code)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out")], capture_output=True, text=True, env=os.environ
    )
    assert result.stdout.strip() == "1"
    assert result.stderr.strip() == 'error: jinja2 is not installed. Run: pip install "dygcn-lab[evidence]"'
    assert not (tmp_path / "out").exists()  # said before any work


def test_nothing_is_compiled_and_nothing_is_kept(tmp_path):
    """An empty home stays empty, and no compiler is imported."""
    ask = WORK + "print({'Cython', 'cython', 'llvmlite', 'numba'} & set(sys.modules))"
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    assert run(ask, **home) == "set()"
    assert list(tmp_path.iterdir()) == []
