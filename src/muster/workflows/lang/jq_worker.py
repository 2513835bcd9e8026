"""The process that runs one jq filter with libjq. `muster.workflows.lang.jq` starts it as a script.

It reads `{"filter": ..., "input": ...}` from standard input, where `input` is JSON text. It writes a line with
`{"value": ...}` for each result, and a last line with `{"error": ...}` if the filter fails. Before it compiles the
filter, it gives up what a filter must not reach: the environment, files, and memory and CPU time beyond its limits.
"""

import json
import os
import resource
import sys

_PRELUDE = (
    'def _refuse($name): error("\\($name) is not available here"); '
    'def env: {}; def input: _refuse("input"); def inputs: _refuse("inputs"); def debug: _refuse("debug"); '
    'def debug(f): _refuse("debug"); def stderr: _refuse("stderr"); def input_filename: _refuse("input_filename"); '
    'def input_line_number: _refuse("input_line_number"); def modulemeta: _refuse("modulemeta"); '
    'def get_search_list: _refuse("get_search_list"); def halt: error("halt error: null"); '
    'def halt_error: error("halt error: \\(tostring)"); def halt_error(f): halt_error; {} as $ENV |\n'
)
"""Comes before the filter, on its own line. After it, `import` and `include` are syntax errors, since they must come
first in a program."""


def main() -> None:
    library, memory, seconds, longest = sys.argv[1], *map(int, sys.argv[2:5])
    sys.path.append(library)
    import jq  # type: ignore[import-not-found]

    task = json.load(sys.stdin)
    os.environ.clear()
    for limit, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        resource.setrlimit(limit, (most, most))
    written = 0
    try:
        for value in jq.compile(_PRELUDE + task["filter"]).input_text(task["input"]):
            line = json.dumps({"value": value})
            written += len(line)
            if written > longest:
                raise ValueError(f"the filter returns more than {longest} characters")
            sys.stdout.write(line + "\n")
    except ValueError as error:
        sys.stdout.write(json.dumps({"error": str(error)}) + "\n")


if __name__ == "__main__":
    main()
