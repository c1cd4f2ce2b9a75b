from tests import house


def test_the_product_stays_within_its_budget():
    paths = house.modules()
    assert sum(map(house.count_lines, paths)) <= house.LINES
    assert len(paths) <= house.FILES


def test_the_counter_counts_docstrings_and_neither_comments_nor_blank_lines(tmp_path):
    path = tmp_path / "one.py"
    path.write_text('"""Head."""\n\n# why\n    # deep\nx = 1  # said\n\t\n')
    assert house.count_lines(path) == 2
