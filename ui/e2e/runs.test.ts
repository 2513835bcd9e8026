import { expect, type Page } from "@playwright/test"
import { expectAccessible, fresh, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const node = (page: Page, name: string) => page.locator(".react-flow__node").filter({ hasText: name })

/** A workflow that runs in the sandbox on any machine; it needs no image. */
const document = {
  format: 1,
  parameters: [{ name: "who", default: "world" }],
  nodes: [
    {
      name: "say",
      image: "python:3.11",
      command: "echo hello $who; echo $who > /tmp/who; for i in 1 2 3 4 5; do echo line $i; sleep 1; done",
      inputs: [{ name: "who", from: { parameter: "who" } }],
      outputs: [{ name: "who", path: "/tmp/who" }],
    },
    {
      name: "break",
      image: "python:3.11",
      command: "echo will break $who; exit 3",
      retries: 1,
      inputs: [{ name: "who", from: { node: "say", output: "who" } }],
    },
  ],
  edges: [{ from: "say", to: "break" }],
}

test("a run is created, watched, inspected, retried and copied", { tag: "@smoke" }, async ({ page }) => {
  test.setTimeout(240_000)
  const name = fresh("run story")
  const csrf = (await page.context().cookies()).find((cookie) => cookie.name === "muster_csrf")?.value as string
  const made = await page.request.post(url("/api/v1/workflows"), {
    data: { name, version: { document } },
    headers: { "X-CSRF-Token": csrf },
  })
  const { workflow_id } = (await made.json()) as { workflow_id: string }

  await page.goto(url(`/workflows/${workflow_id}/versions/1`))
  await page.getByRole("link", { name: "Run", exact: true }).click()
  await page.getByLabel("Run name").fill(`${name} 1`)
  await page.getByLabel("who").fill("muster")
  await expectAccessible(page)
  await page.getByRole("button", { name: "Create" }).click()
  await expect(page.getByRole("heading", { name: `${name} 1` })).toBeVisible()

  // On a slow machine it has ended before its graph is drawn.
  await expect(node(page, "say").locator("[data-state=running], [data-state=succeeded]")).toBeVisible({
    timeout: 60_000,
  })
  await node(page, "say").click()
  await page.getByRole("tab", { name: "Log" }).click()
  await expect(page.getByRole("log")).toContainText("hello muster", { timeout: 30_000 })
  await expect(page.getByRole("log")).toContainText("line 5", { timeout: 60_000 })
  await expect(node(page, "say").locator("[data-state=succeeded]")).toBeVisible({ timeout: 60_000 })
  await expect(node(page, "break").locator("[data-state=failed]")).toBeVisible({ timeout: 60_000 })
  await expect(node(page, "break")).toContainText("break(1)")
  await expect(page.getByText("break failed with exit code 3")).toBeVisible()
  await expect(page.getByRole("region", { name: "Last lines of the log" })).toContainText("will break muster")
  await expectAccessible(page)

  await node(page, "break").click()
  await page.getByRole("tab", { name: "Inputs and outputs" }).click()
  await expect(page.getByText("from say.who")).toBeVisible()
  await page.getByRole("tab", { name: "Details" }).click()
  await expect(page.getByText("exit code 3").first()).toBeVisible()
  await page.getByRole("tab", { name: "Containers" }).click()
  await page.getByRole("tab", { name: "Events" }).click()
  await page.getByRole("tab", { name: "Timeline" }).click()
  await expectAccessible(page)

  await page.getByRole("button", { name: "Retry" }).click()
  await expect(page.getByText("retried 1 time")).toBeVisible({ timeout: 60_000 })
  await expect(page.locator("main").getByText("Failed").first()).toBeVisible({ timeout: 60_000 })

  await page.getByRole("button", { name: "Copy" }).click()
  await expect(page.getByLabel("who")).toHaveValue("muster")
  await page.getByLabel("Run name").fill(`${name} 2`)
  await page.getByRole("button", { name: "Create" }).click()
  await expect(page.getByRole("heading", { name: `${name} 2` })).toBeVisible()
  await page.getByRole("button", { name: "Stop" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Stop" }).click()

  await expect(page.getByText("Stopped by ann")).toBeVisible({ timeout: 60_000 })

  await page.goto(url("/runs"))
  const row = page.getByRole("row").filter({ hasText: `${name} 2` })
  await expect(row).toContainText("Stopped", { timeout: 60_000 })
  await expectAccessible(page)
})
