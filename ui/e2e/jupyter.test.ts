/** Seed 002 by mouse, in the real JupyterLab and the real TensorBoard: code is cloned and trained, and its curve shown.
 * The first run installs both from the package index, which takes minutes; later runs use the same environments. */
import { execFileSync } from "node:child_process"
import { readFile } from "node:fs/promises"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { test as base, expect, type Locator, type Page } from "@playwright/test"
import { expectAccessible, listen, signIn } from "./people"
import { newRepository } from "./repositories"
import { client, type Server, startServer } from "./server"
import { PASSWORD } from "./setup"

const HOME = fileURLToPath(new URL("../../.environments/ui-home", import.meta.url))
const MINUTE = 60_000
const INSTALLED = 20 * MINUTE
const NOTEBOOK = "mnist"
const SETTINGS = `workspaces:
  images:
    - name: jupyter
      title: JupyterLab
      image: muster.dev/jupyter-tests
      contents: [Python, JupyterLab, TensorBoard]
      requirements: ["jupyterlab>=4.2,<5", "tensorboard>=2.16,<3", "setuptools<81"]
`

/** Fits a line, and writes what it found. */
const TRAIN = `import json
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(200, 3))
y = x @ [1.0, -2.0, 0.5]
weights = np.zeros(3)
for step in range(100):
    weights -= 0.1 * x.T @ (x @ weights - y) / len(y)
json.dump({"weights": weights.round(2).tolist()}, open("result.json", "w"))
print("trained", weights)
`

const WRITE_LOGS = `from tensorboard.summary import Writer

writer = Writer("logs/first")
for step in range(50):
    writer.add_scalar("train/loss", 1 / (1 + step), step)
writer.close()
print("wrote", step + 1)
`

const test = base.extend<{ page: Page }, { muster: Server }>({
  muster: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the names of fixtures from a pattern.
    async ({}, use) => {
      const server = await startServer({ kept: HOME, settings: SETTINGS })
      await client(server.url, server.token)("POST", "users", { name: "ann", password: PASSWORD })
      await use(server)
      await server.stop()
    },
    { scope: "worker", timeout: 5 * MINUTE },
  ],
  page: async ({ page, muster }, use) => {
    const complaints = listen(page)
    await signIn(page, "ann", muster.url)
    await use(page)
    expect(complaints).toEqual([])
  },
})

test.describe.configure({ mode: "serial" })

test("a repository is cloned and its train.py run in a notebook's terminal", async ({ page, muster }) => {
  test.setTimeout(INSTALLED + 10 * MINUTE)
  await page.goto(`${muster.url}/notebooks`)
  await page.getByRole("link", { name: "New notebook" }).first().click()
  await page.getByLabel("Name", { exact: true }).fill(NOTEBOOK)
  await page.getByRole("button", { name: "Create" }).click()
  await expect(page.getByRole("heading", { name: NOTEBOOK })).toBeVisible()
  const lab = await openWhenRunning(page)

  const notebook = await newNotebook(lab)
  await run(notebook, "print(6 * 7)", "42")
  const repository = newRepository("mnist", { "train.py": TRAIN }, muster.repositories)
  const { address, close } = await serve(repository.path)
  await openTerminal(lab)
  await lab.keyboard.type(`git clone ${address} code && cd code && python train.py`)
  await lab.keyboard.press("Enter")

  await page.getByRole("link", { name: `${NOTEBOOK}-home` }).click()
  await reloadUntil(page.getByRole("button", { name: "code", exact: true }))
  await page.getByRole("button", { name: "code", exact: true }).click()
  await reloadUntil(page.getByRole("link", { name: "result.json" }))
  close()
  await lab.getByRole("tab", { name: /^Untitled/ }).click()
  await run(notebook, "print(open('code/result.json').read())", "[1.0, -2.0, 0.5]")
})

test("a notebook's logs are a chart in TensorBoard", async ({ page, muster }) => {
  test.setTimeout(INSTALLED + 10 * MINUTE)
  await page.goto(`${muster.url}/notebooks`)
  await page.getByRole("link", { name: NOTEBOOK, exact: true }).click()
  const lab = await openWhenRunning(page)
  await run(await newNotebook(lab), WRITE_LOGS, "wrote 50")

  await page.getByRole("link", { name: "TensorBoards" }).click()
  await page.getByRole("button", { name: "New TensorBoard" }).first().click()
  await page.getByLabel("Name").fill("curves")
  await page.getByLabel("Where the logs are").selectOption({ label: `Volume: ${NOTEBOOK}-home` })
  await page.getByRole("button", { name: "Create" }).click()
  await expect(page.getByRole("heading", { name: "curves" })).toBeVisible()
  const board = await openWhenRunning(page)
  const card = board.locator("scalar-card", { hasText: "train/loss" }).first()
  await expect(card).toBeVisible({ timeout: MINUTE })
  await expect(card.locator("line-chart").first()).toBeVisible()
  const chart = await card.locator("line-chart").first().boundingBox()
  if (!chart) throw new Error("the chart has no place")
  await board.mouse.move(chart.x + chart.width / 2, chart.y + chart.height / 2)
  await expect(board.getByRole("row", { name: /first/ }).first()).toBeVisible()
})

/** Connects to a workspace from its page. */
async function openWhenRunning(page: Page): Promise<Page> {
  await expect(page.locator("header").getByText("Running")).toBeVisible({ timeout: INSTALLED })
  await expectAccessible(page)
  const opening = page.waitForEvent("popup")
  await page.getByRole("button", { name: "Open", exact: true }).click()
  const opened = await opening
  const own = new URL(page.url()).origin
  await opened.waitForURL((at) => at.protocol === "http:" && at.origin !== own, { timeout: 2 * MINUTE })
  return opened
}

/** Returns the panel of a new notebook. */
async function newNotebook(lab: Page): Promise<Locator> {
  await lab
    .getByRole("button", { name: "New Launcher" })
    .first()
    .click({ timeout: 2 * MINUTE })
  await lab.locator(".jp-LauncherCard[data-category=Notebook]:visible").first().click()
  const notebook = lab.locator(".jp-NotebookPanel:visible")
  await expect(notebook.locator(".cm-content").first()).toBeVisible({ timeout: MINUTE })
  await expect(lab.getByText("| Idle")).toBeVisible({ timeout: 2 * MINUTE }) // cells are not run before there is a kernel
  return notebook
}

/** Runs code in the last cell, and waits for what it prints. */
async function run(notebook: Locator, code: string, printed: string): Promise<void> {
  await notebook.locator(".jp-CodeCell .cm-content").last().click()
  await notebook.page().keyboard.insertText(code) // not key by key: the editor would close brackets and indent
  await notebook.page().keyboard.press("Shift+Enter")
  await expect(notebook.locator(".jp-OutputArea-output").last()).toContainText(printed, { timeout: 2 * MINUTE })
}

async function openTerminal(lab: Page): Promise<void> {
  await lab.getByRole("menuitem", { name: "File" }).click()
  await lab.locator(".lm-Menu-itemLabel").getByText("New", { exact: true }).hover()
  await lab.locator(".lm-Menu-itemLabel").getByText("Terminal", { exact: true }).click()
  await lab.locator(".jp-Terminal .xterm-screen").click({ timeout: MINUTE })
}

/** The files of a volume change without the page's knowledge. */
async function reloadUntil(shown: Locator): Promise<void> {
  await expect(async () => {
    await shown.page().reload()
    await expect(shown).toBeVisible({ timeout: 5_000 })
  }).toPass({ timeout: 2 * MINUTE })
}

/** Serves a repository by HTTP, as files. */
async function serve(repository: string): Promise<{ address: string; close: () => void }> {
  execFileSync("git", ["update-server-info"], { cwd: repository })
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "", "http://localhost")
    readFile(join(repository, ".git", pathname)).then(
      (content) => response.end(content),
      () => response.writeHead(404).end(),
    )
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const { port } = server.address() as AddressInfo
  return { address: `http://127.0.0.1:${port}/`, close: () => server.close() }
}
