"""Real git repositories to build modules from."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

DOCKERFILE = 'FROM python:3.11-slim\nWORKDIR /app\nCOPY . /app\nENTRYPOINT ["python3", "main.py"]\n'
MAIN = """\
import argparse, hashlib, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--text", required=True)
given = parser.parse_args()
digest = hashlib.sha256(given.text.encode()).hexdigest()
pathlib.Path("/tmp/workflow_space/digest.txt").write_text(digest)
print(f"hashed {given.text}")
"""
FILES = {"Dockerfile": DOCKERFILE, "README.md": "# Hash\n\nHashes a text.\n", "main.py": MAIN}


class GitRepository:
    def __init__(self, path: Path, files: Mapping[str, str] | None = None) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit(FILES if files is None else files)

    def commit(self, files: Mapping[str, str] | None = None, **links: str) -> str:
        """Writes the files (and links, by their targets) and commits everything. Returns the commit."""
        for name, content in (files or {}).items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(content)
        for name, target in links.items():
            (self.path / name).symlink_to(target)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "more")
        return self.git("rev-parse", "HEAD")

    def git(self, *words: str) -> str:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "ann@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        done = subprocess.run(["git", *words], cwd=self.path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()
