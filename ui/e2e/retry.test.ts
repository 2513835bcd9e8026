import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, type Page } from "@playwright/test"
import { api, fresh, posted, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const state = (page: Page, name: string, is: string) =>
  page.locator(".react-flow__node").filter({ hasText: name }).locator(`[data-state=${is}]`)

test("a retry runs failed nodes again, and not those that succeeded", { tag: "@smoke" }, async ({ page }) => {
  test.setTimeout(240_000)
  const folder = await mkdtemp(join(tmpdir(), "muster-retry-"))
  const root = fresh("retry").replaceAll(" ", "-")
  await api()("POST", "storage", { name: root, path: folder })
  const step = (name: string, command: string) => ({ name, image: "python:3.11", command, storage: [{ root }] })
  const document = {
    format: 1,
    nodes: [
      step("prepare", `echo prepared >> ${folder}/prepared`),
      step("check", `cat ${folder}/data || { echo there is no data; exit 7; }`),
      step("publish", "echo published"),
    ],
    edges: [
      { from: "prepare", to: "check" },
      { from: "check", to: "publish" },
    ],
  }
  const { workflow_id } = await posted(page, "workflows", { name: fresh("retry"), version: { document } })
  const { id } = await posted(page, "runs", { workflow: workflow_id, name: fresh("retry") })
  await page.goto(url(`/runs/${id}?node=check&tab=log`))
  await expect(state(page, "check", "failed")).toBeVisible({ timeout: 90_000 })
  await expect(state(page, "publish", "skipped")).toBeVisible({ timeout: 30_000 })
  await expect(page.getByRole("log")).toContainText("there is no data", { timeout: 30_000 })

  // The node that failed is still there: its owner looks into it, and repairs the data.
  await page.getByRole("tab", { name: "Containers" }).click()
  await page.getByRole("button", { name: /^Terminal in / }).click()
  const terminal = page.getByRole("application", { name: /^Terminal in / })
  await expect(terminal.locator(".xterm-rows")).toContainText(/[$#]/)
  await page.keyboard.type(`echo enough data > ${folder}/data; exit\n`)
  await expect(page.getByText("The shell ended with exit code 0.")).toBeVisible()
  await page.getByRole("button", { name: "Close" }).click()
  await page.getByRole("tab", { name: "Log" }).click()
  await page.getByRole("button", { name: "Retry", exact: true }).click()
  await expect(page.getByText("retried 1 time")).toBeVisible({ timeout: 60_000 })
  await expect(state(page, "publish", "succeeded")).toBeVisible({ timeout: 90_000 })
  await expect(state(page, "check", "succeeded")).toBeVisible()
  await expect(page.getByRole("log")).toContainText("enough data", { timeout: 30_000 })
  await page.getByLabel("Attempts").selectOption({ index: 0 })
  await expect(page.getByRole("log")).toContainText("there is no data")
  expect(await readFile(join(folder, "prepared"), "utf8")).toBe("prepared\n")
  await rm(folder, { recursive: true, force: true })
})
