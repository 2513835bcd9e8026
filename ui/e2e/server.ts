/** Starts a real `muster up` in its own folder, for tests and screenshots. */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const MUSTER = process.env.MUSTER ?? fileURLToPath(new URL("../../.venv/bin/muster", import.meta.url))
const START_MILLISECONDS = 120_000

export interface Server {
  url: string
  /** The one-time link of the first admin. */
  link: string
  /** The token of the local admin. */
  token: string
  /** A folder of git repositories that everyone may build modules from. */
  repositories: string
  stop: () => Promise<void>
}

export async function startServer(): Promise<Server> {
  const home = await mkdtemp(join(tmpdir(), "muster-ui-"))
  const repositories = join(home, "repositories")
  await mkdir(repositories)
  await writeFile(join(home, "config.yaml"), `modules:\n  builder: folder\n  localRepositories: [${repositories}]\n`)
  const server = spawn(MUSTER, ["up"], {
    env: { ...process.env, MUSTER_HOME: home, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe"],
  })
  const stop = async () => {
    const gone = new Promise((resolve) => server.once("exit", resolve))
    if (server.exitCode === null && server.kill("SIGTERM")) await gone
    await rm(home, { recursive: true, force: true, maxRetries: 3 })
  }
  try {
    const said = await until(server, /first login (\S+)/)
    const link = /first login (\S+)/.exec(said)?.[1] ?? ""
    const url = new URL(link).origin
    const token = (await readFile(join(home, "platform", "local-token"), "utf8")).trim()
    await fetch(`${url}/api/v1/health`) // the first request loads the platform
    return { url, link, token, repositories, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The platform's API, as a script with a token uses it. */
export function client(url: string, token: string) {
  return async <T = Record<string, unknown>>(method: string, path: string, body?: unknown): Promise<T> => {
    const response = await fetch(`${url}/api/v1/${path}`, {
      method,
      headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return (text ? JSON.parse(text) : undefined) as T
  }
}

function until(server: ChildProcess, pattern: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = ""
    const hear = (piece: Buffer) => {
      said += piece.toString()
      if (pattern.test(said)) resolve(said)
    }
    server.stdout?.on("data", hear)
    server.stderr?.on("data", hear)
    server.once("exit", (code) => reject(new Error(`muster up ended with ${code}:\n${said}`)))
    setTimeout(() => reject(new Error(`muster up did not say where it is:\n${said}`)), START_MILLISECONDS).unref()
  })
}
