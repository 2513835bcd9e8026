from __future__ import annotations

import subprocess
import sys

from tools.attack_table import BEGIN, END, ROOT, Attack, replace_table, to_markdown


def test_the_table_is_grouped_by_file_and_escaped() -> None:
    table = to_markdown([Attack("node", "A path with | and \n", "test_paths"), Attack("rbac", "A role", "test_roles")])
    assert table.startswith("2 cases.")
    assert "| A path with \\| and \\\\n | `test_paths` |" in table
    assert table.index("test_node.py") < table.index("test_rbac.py")


def test_only_the_table_is_replaced() -> None:
    assert replace_table(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\n\nnew\n{END}\nb"


def test_the_document_lists_every_attack() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.attack_table", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
