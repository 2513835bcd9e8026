import { expect, type Page } from "@playwright/test"
import { expectAccessible, posted, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
let made = 0
const named = (stem: string) => `${stem}-${Date.now().toString(36)}${made++}`

async function submit(page: Page, name: string, command: string): Promise<string> {
  const job = await posted(page, "dispatch/jobs", { name, image: "python:3.11", command: ["sh", "-c", command] })
  return job.id as string
}

test("a dispatched job is listed, followed, cancelled and restarted", { tag: "@smoke" }, async ({ page }) => {
  test.setTimeout(120_000)
  const name = named("dispatched")
  await page.goto(url("/dispatch"))
  await expectAccessible(page)
  const id = await submit(page, name, "for i in 1 2 3; do echo step $i; sleep 1; done; sleep 600")

  // The list follows the server.
  const row = page.getByRole("row").filter({ hasText: name })
  await expect(row).toContainText("This cluster")
  await expect(row).toContainText("Running", { timeout: 60_000 })
  await expect(row).toContainText("ann")
  await expectAccessible(page)

  await row.getByRole("link", { name }).click()
  await expect(page).toHaveURL(new RegExp(`/dispatch/${id}$`))
  await expect(page.getByRole("heading", { name })).toBeVisible()
  const history = page.getByRole("region", { name: "History" })
  await expect(history.getByText("Waiting").first()).toBeVisible()
  await expectAccessible(page)
  await page.getByRole("tab", { name: "Log" }).click()
  await expect(page.getByRole("log", { name: `Log of ${name}` })).toContainText("step 3", { timeout: 60_000 })
  await expectAccessible(page)
  await page.getByRole("tab", { name: "Request" }).click()
  await expect(page.getByRole("region", { name: "Request" })).toContainText("python:3.11")

  await page.getByRole("button", { name: "Cancel job" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Cancel job" }).click()
  await expect(page.locator("header").getByText("Cancelled")).toBeVisible({ timeout: 60_000 })
  await page.getByRole("button", { name: "Restart" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Restart" }).click()
  await expect(page.getByText("Attempt 2").first()).toBeVisible({ timeout: 60_000 })

  // On a phone, nothing is wider than the screen.
  await page.setViewportSize({ width: 390, height: 844 })
  for (const path of ["/dispatch", `/dispatch/${id}`]) {
    await page.goto(url(path))
    await expect(page.getByText(name).first()).toBeVisible()
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390)
    await expectAccessible(page)
  }
  await page.getByRole("button", { name: "Cancel job" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Cancel job" }).click()
  await expect(page.locator("header").getByText(/Cancel/)).toBeVisible({ timeout: 60_000 })
})

test("a job is submitted with the form", async ({ page }) => {
  test.setTimeout(120_000)
  const name = named("from-form")
  await page.goto(url("/dispatch"))
  await page.getByRole("button", { name: "Submit job" }).first().click()
  const form = page.getByRole("dialog")
  await expectAccessible(page)
  await form.getByLabel("Name", { exact: true }).fill(name)
  await form.getByLabel("Image").fill("python:3.11")
  await form.getByLabel("Command").fill("echo hello $WHO; sleep 600")
  await form.getByRole("button", { name: "Add variable" }).click()
  await form.getByLabel("Variable").first().fill("WHO")
  await form.getByLabel("Value").first().fill("world")
  await form.getByLabel("Memory").fill("much")
  await form.getByRole("button", { name: "Submit", exact: true }).click()
  await expect(form.getByLabel("Memory")).toHaveAttribute("aria-invalid", "true")
  await form.getByLabel("Memory").fill("64Mi")
  await form.getByRole("button", { name: "Submit", exact: true }).click()
  await expect(page.getByRole("heading", { name })).toBeVisible()
  await page.getByRole("tab", { name: "Log" }).click()
  await expect(page.getByRole("log", { name: `Log of ${name}` })).toContainText("hello world", { timeout: 60_000 })

  await page.getByRole("button", { name: "Cancel job" }).click()
  await page.getByRole("dialog").getByRole("button", { name: "Cancel job" }).click()
  await expect(page.locator("header").getByText("Cancelled")).toBeVisible({ timeout: 60_000 })
})
