from __future__ import annotations

import pytest

from muster.platform.graphs.shell import mentions, variables_in


@pytest.mark.parametrize(
    ("text", "used", "known"),
    [
        ("echo $a ${b} ${c:-1} ${#d} \"$e\"", ["a", "b", "c", "d", "e"], set()),
        ("echo '$a' \\$b $1 $? $$ $(date)", [], set()),
        ("awk '{print $name}' $file", ["file"], set()),
        ("x=1; export y=2\nfor i in $x; do echo $i; done", ["x", "i"], {"x", "y", "i"}),
        ("while read -r line rest; do echo $line; done", ["line"], {"line", "rest"}),
        ("echo \"it's $a\"", ["a"], set()),
        ("cat <<'EOF'\n$quoted\nEOF\necho $a", ["a"], set()),
        ("cat <<EOF\n$a\nEOF", ["a"], set()),
        (": ${a:=1}", ["a"], {"a"}),
    ],
)  # fmt: skip
def test_which_variables_a_text_uses_and_sets(text: str, used: list[str], known: set[str]) -> None:
    found = variables_in(text)
    assert (found.used, found.set) == (used, known)


def test_a_name_counts_as_a_whole_word() -> None:
    assert mentions("python -c 'os.environ[\"lr\"]'", "lr")
    assert not mentions("echo $lr_max", "lr")
