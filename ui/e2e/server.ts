/** Starts a real `muster up` in its own folder, for tests and screenshots. */
import { type ChildProcess, execFile, spawn } from "node:child_process"
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const MUSTER = process.env.MUSTER ?? fileURLToPath(new URL("../../.venv/bin/muster", import.meta.url))
const START_MILLISECONDS = 120_000
const END_MILLISECONDS = 60_000

/** What starts Pods: it has to go before them, or it starts others. */
const OWNERS = "workflows,pytorchjobs,tfjobs,mpijobs,xgboostjobs,paddlejobs,jobs,notebooks,tensorboards"
const ENVIRONMENTS = "workspace-environments"

export interface Server {
  url: string
  /** The one-time link of the first admin. */
  link: string
  /** The token of the local admin. */
  token: string
  /** A folder of git repositories that everyone may build modules from. */
  repositories: string
  stop: () => Promise<void>
  /** Kills the server, as a crash does. */
  kill: () => Promise<void>
  /** Starts it again at the same address. */
  start: () => Promise<void>
}

interface Options {
  /** A data directory of which the environments of notebooks are kept: they take minutes to install. */
  kept?: string
  /** More lines of the settings. */
  settings?: string
}

export async function startServer({ kept, settings = "" }: Options = {}): Promise<Server> {
  const home = kept ?? (await mkdtemp(join(tmpdir(), "muster-ui-")))
  if (kept) {
    await mkdir(kept, { recursive: true })
    if ((await readdir(kept)).includes("store")) {
      // A run that was killed has left its Pods: only a server of theirs can end them.
      await command(home, "up", "-d")
      await endPods(home)
      await command(home, "down")
    }
    await clear(home)
  }
  const repositories = join(home, "repositories")
  await mkdir(repositories)
  const modules = `modules:\n  builder: folder\n  localRepositories: [${repositories}]\n`
  // The tests ask what a check says, not how long it takes on a machine that does other things as well.
  const patient = "budgets:\n  checkSeconds: 120\n"
  await writeFile(join(home, "config.yaml"), modules + patient + settings)
  const run = (...words: string[]) =>
    spawn(MUSTER, ["up", ...words], { env: environment(home), stdio: ["ignore", "pipe", "pipe"] })
  let server = run()
  const end = async (signal: NodeJS.Signals) => {
    const gone = new Promise((resolve) => server.once("exit", resolve))
    if (server.exitCode === null && server.kill(signal)) await gone
  }
  const stop = async () => {
    if (server.exitCode === null) await endPods(home)
    await end("SIGTERM")
    if (kept) await clear(home)
    else await rm(home, { recursive: true, force: true, maxRetries: 3 })
  }
  try {
    const said = await until(server, /first login (\S+)/)
    const link = /first login (\S+)/.exec(said)?.[1] ?? ""
    const url = new URL(link).origin
    const token = (await readFile(join(home, "platform", "local-token"), "utf8")).trim()
    await fetch(`${url}/api/v1/health`) // the first request loads the platform
    const start = async () => {
      server = run("--port", new URL(url).port)
      await until(server, /web +http/)
    }
    return { url, link, token, repositories, stop, kill: () => end("SIGKILL"), start }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Pods outlive their server, so without this a later server could meet them at an address that it gives to others. */
async function endPods(home: string): Promise<void> {
  for (const kinds of [OWNERS, "pods"])
    await command(home, "delete", kinds, "--all", "-A", "--now", `--timeout=${END_MILLISECONDS / 1000}s`)
}

async function clear(home: string): Promise<void> {
  for (const name of await readdir(home))
    if (name !== ENVIRONMENTS) await rm(join(home, name), { recursive: true, force: true, maxRetries: 3 })
}

const environment = (home: string) => ({ ...process.env, MUSTER_HOME: home, NO_COLOR: "1" })

/** Runs a command of `muster` to its end. It may fail: there may be nothing to end. */
function command(home: string, ...words: string[]): Promise<void> {
  const options = { env: environment(home), timeout: 2 * END_MILLISECONDS }
  return new Promise((resolve) => execFile(MUSTER, words, options, () => resolve()))
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
