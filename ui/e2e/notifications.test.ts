import { expect } from "@playwright/test"
import { expectAccessible, fresh, posted, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const document = {
  format: 1,
  nodes: [{ name: "work", image: "python:3.11", command: "sleep 2; exit 3" }],
  edges: [],
}

test("a message in the page says that a run has ended, once the user wants it", async ({ page }) => {
  test.setTimeout(240_000)
  await page.goto(url("/account?tab=notifications"))
  await page.getByRole("button", { name: "Only failures" }).click()
  await expect(page.getByText("Messages appear in the page instead")).toBeVisible()
  const name = fresh("notice")
  const made = await posted(page, "workflows", { name, version: { document } })
  await posted(page, "runs", { workflow: made.workflow_id, name })
  await expect(page.getByText(`${name} failed`)).toBeVisible({ timeout: 120_000 })
  await page.getByRole("button", { name: "Open run" }).click()
  await expect(page.getByRole("heading", { name })).toBeVisible()
})

test("a webhook is added, tested, edited and deleted", async ({ page }) => {
  test.setTimeout(240_000)
  await page.goto(url("/account?tab=notifications"))
  await page.getByRole("button", { name: "Add webhook" }).click()
  const dialog = page.getByRole("dialog")
  await dialog.getByRole("button", { name: "Save" }).click()
  await expect(dialog.getByText("Enter a name")).toBeVisible()
  const name = fresh("chat")
  await dialog.getByLabel("Name").fill(name)
  await expect(dialog.getByText("Enter a name")).toBeHidden()
  await dialog.getByLabel("URL").fill("http://127.0.0.1:9/hook?token=hidden")
  await dialog.getByRole("button", { name: "Generate" }).click()
  await expect(dialog.getByLabel(/^Secret/)).toHaveValue(/^whsec_/)
  await expectAccessible(page)
  await dialog.getByRole("button", { name: "Save" }).click()
  const row = page.getByRole("row").filter({ hasText: name })
  await expect(row).toContainText("http://127.0.0.1:9/…")
  await expect(page.locator("body")).not.toContainText("hidden")
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 })
    await expectAccessible(page)
  }
  await page.setViewportSize({ width: 1440, height: 900 })
  await row.getByRole("button", { name: `Actions: ${name}` }).click()
  await page.getByRole("menuitem", { name: "Send test" }).click()
  await expect(page.getByRole("dialog")).toContainText("it is in the server's own network", { timeout: 60_000 })
  await expectAccessible(page)
  await page.getByRole("button", { name: "Close" }).click()
  await row.getByRole("button", { name: `Actions: ${name}` }).click()
  await page.getByRole("menuitem", { name: "Delete" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click()
  await expect(row).toBeHidden()
})
