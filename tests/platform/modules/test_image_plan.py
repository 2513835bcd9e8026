from __future__ import annotations

from typing import Any

import pytest

from muster.platform.modules.building import place_of_code
from muster.platform.modules.dockerfile import DockerfileError
from muster.platform.modules.image_plan import RuleError, plan_image

RUN = 'ENTRYPOINT ["run"]\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"FROM a\n{RUN}", {"entrypoint": ("run",), "working_dir": "", "env": {}, "source": "", "ignored": ()}),
        ('FROM a\nENTRYPOINT ["one"]\nENTRYPOINT ["two", "b c"]', {"entrypoint": ("two", "b c")}),
        (f"FROM a AS one\n{RUN}FROM one\nUSER b", {"entrypoint": ("run",), "ignored": ("line 4: USER",)}),
        ('FROM a AS one\nENTRYPOINT ["old"]\nCMD x\nFROM b\nENTRYPOINT ["new"]', {"entrypoint": ("new",)}),
        (f"FROM a\nHEALTHCHECK CMD x\nONBUILD CMD y\n{RUN}", {"entrypoint": ("run",)}),
        (f"FROM a\nRUN <<EOF\nCMD x\nEOF\n{RUN}", {"ignored": ("line 2: RUN",)}),
        (f"FROM a\nWORKDIR /a\nWORKDIR b\nWORKDIR ../c\n{RUN}", {"working_dir": "/a/c"}),
        (f"FROM a\nENV HOME=/h\nWORKDIR $HOME/${{X:-y}}\n{RUN}", {"working_dir": "/h/y", "env": {"HOME": "/h"}}),
        (f"ARG D=/d\nFROM a\nARG D\nWORKDIR ${{D}}\n{RUN}", {"working_dir": "/d"}),
        (f"FROM a\nENV A=1 B=\"two words\" C='$A' D=\"$A!\"\nENV E=\"$A!\"\n{RUN}",
         {"env": {"A": "1", "B": "two words", "C": "$A", "D": "!", "E": "1!"}}),
        (f"FROM a\nENV A all of this\n{RUN}", {"env": {"A": "all of this"}}),
        (f"FROM a\nENV A=x\\ y B=\\$A\n{RUN}", {"env": {"A": "x y", "B": "$A"}}),
        (f"FROM a\nWORKDIR /app\nCOPY . .\n{RUN}", {"source": "", "target": "/app"}),
        (f"FROM a\nCOPY src/ /app/\n{RUN}", {"source": "src", "target": "/app"}),
        (f"FROM a\nWORKDIR /app\nCOPY requirements.txt /tmp/\nCOPY [\"src\", \".\"]\n{RUN}",
         {"source": "src", "target": "/app"}),
        (f"FROM a\nCOPY --from=b /x /app\n{RUN}", {"source": "", "target": ""}),
    ],
)  # fmt: skip
def test_what_the_image_will_be(text: str, expected: dict[str, Any]) -> None:
    plan = plan_image(text)
    assert {name: getattr(plan, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FROM a", "there is no ENTRYPOINT"),
        (f"FROM a AS one\n{RUN}FROM b", "there is no ENTRYPOINT"),
        (f"FROM a\n{RUN}CMD [\"x\"]", "line 3: a module has no CMD"),
        (f"FROM a AS one\nCMD x\nFROM one\n{RUN}", "line 2: a module has no CMD"),
        (f"FROM a\n{RUN}cmd x", "line 3: a module has no CMD"),
        (f"FROM a\n{RUN}CM\\\nD x", "line 3: a module has no CMD"),
        ("FROM a\nENTRYPOINT python main.py", "line 2: in this form ENTRYPOINT loses the arguments"),
        ("FROM a\nENTRYPOINT ['python']", "line 2: in this form ENTRYPOINT loses the arguments"),
        ("FROM a\nENTRYPOINT []", "line 2: ENTRYPOINT is empty"),
        ("FROM a\nENTRYPOINT [\"\"]", "line 2: ENTRYPOINT is empty"),
    ],
)  # fmt: skip
def test_rules(text: str, message: str) -> None:
    with pytest.raises(RuleError) as error:
        plan_image(text)
    assert str(error.value).startswith(message)


def test_variables_that_cannot_be_read() -> None:
    with pytest.raises(DockerfileError, match="line 2: write ENV NAME=VALUE"):
        plan_image(f"FROM a\nENV A=1 b\n{RUN}")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("WORKDIR /app\n", "/app"),
        ("WORKDIR /opt/x/../y/\n", "/opt/y"),
        ("COPY . /srv\n", "/srv"),
        ("WORKDIR /\nCOPY . /srv\n", "/srv"),
        ("", "/app"),
    ],
)
def test_where_the_code_is_put_without_an_image(text: str, place: str) -> None:
    assert place_of_code(plan_image(f"FROM a\n{text}{RUN}")) == place


@pytest.mark.parametrize("folder", ["/usr", "/etc", "/tmp", "/tmp/workflow_space", "/proc/self", "/dev/shm"])
def test_folders_that_a_container_needs_are_not_covered(folder: str) -> None:
    with pytest.raises(RuleError, match="write WORKDIR /app"):
        place_of_code(plan_image(f"FROM a\nWORKDIR {folder}\n{RUN}"))
