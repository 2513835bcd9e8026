/** Real git repositories to build modules from. */
import { execFileSync } from "node:child_process"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const MAIN = `import argparse, hashlib, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--text", required=True)
given = parser.parse_args()
pathlib.Path("/tmp/workflow_space/digest.txt").write_text(hashlib.sha256(given.text.encode()).hexdigest())
print("hashed", given.text)
`

export const README = `# Hash a text

Answers the **SHA-256** of a text, as [sha256sum](https://www.gnu.org/software/coreutils/) does.

| parameter | meaning |
| --------- | ------- |
| \`text\`    | what to hash |
| \`digest\`  | 64 hexadecimal digits |

## Example

\`\`\`sh
python3 main.py --text=hello
\`\`\`

1. Put the module into a workflow.
2. Connect \`text\` with an initial parameter.
`

/** Content that no page may render or load. */
export const UNWANTED =
  '\n![a picture](https://pictures.example.com/hash.png) <script>document.title = "stolen"</script>\n'

export const FILES = {
  Dockerfile: 'FROM python:3.11-slim\nWORKDIR /app\nCOPY . /app\nENTRYPOINT ["python3", "main.py"]\n',
  "README.md": README,
  "main.py": MAIN,
}

export interface Repository {
  path: string
  /** Writes the files and commits them. */
  commit: (files: Record<string, string>) => void
}

export function newRepository(
  name: string,
  files: Record<string, string> = FILES,
  folder = process.env.MUSTER_REPOSITORIES as string,
): Repository {
  const path = join(folder, name)
  const git = (...words: string[]) => {
    const who = ["-c", "user.name=ann", "-c", "user.email=ann@example.com", "-c", "commit.gpgsign=false"]
    execFileSync("git", [...who, ...words], { cwd: path, stdio: "pipe" })
  }
  const commit = (files: Record<string, string>) => {
    for (const [file, content] of Object.entries(files)) writeFileSync(join(path, file), content)
    git("add", "--all")
    git("commit", "--quiet", "--message", "more")
  }
  mkdirSync(path)
  git("init", "--quiet", "--initial-branch=main")
  commit(files)
  return { path, commit }
}
