from dygcn_lab.costs import counts

LINES, FILES = 41_860, 251  # the budget: whoever adds lines removes others, or raises it and says why


def test_the_product_stays_within_its_budget():
    found = counts.count_wings().values()
    assert sum(lines for lines, _ in found) <= LINES
    assert sum(files for _, files in found) <= FILES


def test_the_counter_counts_docstrings_and_neither_comments_nor_blank_lines(tmp_path):
    path = tmp_path / "one.py"
    path.write_text('"""Head."""\n\n# why\n    # deep\nx = 1  # said\n\t\n')
    assert counts.count_lines(path) == 2


def test_imports_run_in_no_circle_and_a_name_is_of_one_class():
    assert counts.find_circles() == []
    assert counts.find_double_names() == {}
