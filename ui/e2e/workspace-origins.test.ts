/** A workspace in a real browser: its pages cannot act on the platform as the user who looks at them. And terminals. */
import { createServer } from "node:net"
import { expect, type Page } from "@playwright/test"
import { test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`

interface Job {
  namespace: string
  word: string
  name: string
  roles: { members: { pod: string; uid: string; state: string }[] }[]
}

/** Tries everything that the user could do, and shows what came of it. */
const PAGE = `<!doctype html><title>notebook</title><h1>notebook</h1><pre id=said></pre><script>
const platform = new URLSearchParams(location.search).get("platform")
const said = {}
const attempt = async (name, work) => { try { said[name] = await work() } catch (error) { said[name] = "refused" } }
const asked = (path, more) => fetch(platform + path, { credentials: "include", ...more })
;(async () => {
  await attempt("own", async () => (await fetch("/own")).status)
  await attempt("read", async () => (await (await asked("/api/v1/session")).json()).user.name)
  await attempt("blind", async () => (await asked("/api/v1/tokens", { mode: "no-cors", method: "POST", body: '{"name":"stolen"}' })).status)
  await attempt("write", async () => (await asked("/api/v1/tokens", { method: "POST", body: '{"name":"stolen"}',
    headers: { "Content-Type": "application/json", "X-CSRF-Token": "x" } })).status)
  await attempt("stream", () => new Promise((resolve, reject) => {
    const source = new EventSource(platform + "/api/v1/runs/events", { withCredentials: true })
    source.onopen = () => resolve("open")
    source.onerror = () => { source.close(); reject(new Error()) }
  }))
  await attempt("socket", () => new Promise((resolve, reject) => {
    const socket = new WebSocket(platform.replace("http", "ws") + "/api/v1/pods/default/x/terminal")
    socket.onopen = () => resolve("open")
    socket.onerror = () => reject(new Error())
  }))
  await attempt("frame", () => new Promise((resolve) => {
    const frame = document.createElement("iframe")
    frame.onload = () => { try { resolve(frame.contentDocument.title) } catch { resolve("refused") } }
    frame.src = platform + "/"
    document.body.append(frame)
  }))
  said.cookies = document.cookie
  document.cookie = "muster_session=evil; path=/; domain=localhost"
  document.querySelector("#said").textContent = JSON.stringify(said)
})()
</script>`

const SERVER = `
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Type", "text/html"); self.end_headers()
        self.wfile.write(os.environ["PAGE"].encode())
http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), Page).serve_forever()
`

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === "object" && address ? address.port : 0))
    })
  })
}

/** A job with one Pod that serves the page. */
async function serve(page: Page): Promise<Job> {
  const port = await freePort()
  const container = {
    name: "pytorch",
    image: "python:3.11",
    command: ["python3", "-c", SERVER],
    env: [
      { name: "PAGE", value: PAGE },
      { name: "PORT", value: String(port) },
    ],
  }
  const name = `lab-${Date.now().toString(36)}`
  const template = {
    metadata: { annotations: { "workspaces.muster.dev/port": String(port) } },
    spec: { containers: [container] },
  }
  const manifest = JSON.stringify({
    apiVersion: "kubeflow.org/v1",
    kind: "PyTorchJob",
    metadata: { name },
    spec: { pytorchReplicaSpecs: { Master: { replicas: 1, restartPolicy: "Never", template } } },
  })
  const [made] = await ask<Job[]>(page, "POST", "jobs", { manifest })
  if (!made) throw new Error("no job")
  let job = made
  await expect
    .poll(
      async () => {
        job = await ask<Job>(page, "GET", `jobs/${made.namespace}/${made.word}/${made.name}`)
        return job.roles[0]?.members[0]?.state
      },
      { timeout: 30_000 },
    )
    .toBe("running")
  return job
}

/** A request of the page of the platform, as its user. */
function ask<T>(page: Page, method: string, path: string, body?: unknown): Promise<T> {
  return page.evaluate(
    async ({ method, path, body }) => {
      const csrf = /muster_csrf=(\w+)/.exec(document.cookie)?.[1] ?? ""
      const response = await fetch(`/api/v1/${path}`, {
        method,
        headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
        body: body === undefined ? undefined : JSON.stringify(body),
      })
      if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`)
      return response.json()
    },
    { method, path, body },
  )
}

test("a page of a workspace cannot act on the platform as its visitor", { tag: "@smoke" }, async ({
  page,
  context,
}) => {
  test.setTimeout(120_000)
  await page.goto(url("/jobs"))
  const job = await serve(page)
  const uid = job.roles[0]?.members[0]?.uid ?? ""
  const platform = new URL(url()).origin
  const path = `/?platform=${encodeURIComponent(platform)}`
  const opened = await ask<{ url: string }>(page, "POST", `workspaces/${uid}/open`, { path })

  const notebook = await context.newPage()
  await notebook.goto(opened.url)
  await expect(notebook.getByRole("heading", { name: "notebook" })).toBeVisible()
  expect(new URL(notebook.url()).hostname).toBe(`${uid}.localhost`)
  expect(notebook.url()).not.toContain("ticket")
  await expect(notebook.locator("#said")).toContainText("cookies", { timeout: 30_000 })
  const said = JSON.parse((await notebook.locator("#said").textContent()) ?? "")
  expect(said).toEqual({
    own: 200,
    read: "refused",
    blind: "refused", // by Cross-Origin-Resource-Policy; the server has refused it, too: see below
    write: "refused",
    stream: "refused",
    socket: "refused",
    frame: "refused",
    cookies: "",
  })

  // The user is still who they were, and nothing was made in their name.
  await page.reload()
  const tokens = await ask<{ items: { name: string }[] }>(page, "GET", "tokens")
  expect(tokens.items.map((token) => token.name)).not.toContain("stolen")
  await notebook.goto(opened.url) // the ticket is spent
  await expect(notebook.getByText("used already")).toBeVisible()
  await ask(page, "DELETE", `jobs/${job.namespace}/${job.word}/${job.name}`).catch(() => undefined)
})

test("a terminal opens in a running Pod", { tag: "@smoke" }, async ({ page }) => {
  test.setTimeout(120_000)
  await page.goto(url("/jobs"))
  const job = await serve(page)
  await page.goto(url(`/jobs/${job.namespace}/${job.word}/${job.name}?tab=logs`))
  await page.getByRole("button", { name: /^Terminal in / }).click()
  const terminal = page.getByRole("application", { name: /^Terminal in / })
  await expect(terminal.locator(".xterm-rows")).toContainText(/[$#]/)
  await page.keyboard.type("echo $((6 * 7))\n")
  await expect(terminal.locator(".xterm-rows")).toContainText("42")
  await page.keyboard.type("exit\n")
  await expect(page.getByText("The shell ended with exit code 0.")).toBeVisible()
})
