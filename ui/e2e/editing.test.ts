import { expect } from "@playwright/test"
import { api, expectAccessible, fresh, posted, signIn, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const document = (command: string) => ({
  format: 1,
  nodes: [{ name: "say", image: "python:3.11", command, position: { x: 0, y: 0 } }],
})

test("nothing that was typed is lost: a missing name, an expired login, a version of someone else", {
  tag: "@smoke",
}, async ({ page, browser }) => {
  test.setTimeout(120_000)
  const name = fresh("edited")
  await page.goto(url("/workflows/new"))
  await page.getByRole("button", { name: /Plain node/ }).click()
  const problems = page.getByRole("region", { name: "Problems" })
  await expect(problems).toContainText("to fill in")
  await expect(problems).not.toContainText("error")
  await page.getByLabel("Command").first().fill("echo hello")
  await page.getByLabel("Image").fill("python:3.11")
  await page.getByRole("button", { name: "Save" }).click()
  await expect(page.getByRole("alert").filter({ hasText: "Enter a name for the workflow" })).toBeVisible()
  await expect(page.getByLabel("Workflow name")).toBeFocused()
  await page.getByLabel("Workflow name").fill(name)
  await expect(page.getByRole("alert")).toHaveCount(0)

  await test.step("the login expires", async () => {
    await page.waitForFunction((name) => Object.values(localStorage).some((text) => String(text).includes(name)), name)
    await page.context().clearCookies()
    await page.getByRole("button", { name: "Save" }).click()
    await expect(page.getByRole("heading", { name: /Sign in/ })).toBeVisible()
    await signIn(page, "ann")
    await page.goto(url("/workflows/new"))
    await page.getByRole("button", { name: "Restore draft" }).click()
    await expect(page.getByLabel("Workflow name")).toHaveValue(name)
    await page.getByRole("button", { name: "Save" }).click()
    await expect(page.getByRole("heading", { name: `${name} · v1` })).toBeVisible()
  })

  await test.step("someone else saves a version meanwhile", async () => {
    await page.getByRole("link", { name: "New version" }).click()
    await expect(page.locator(".react-flow__node")).toBeVisible()
    await posted(page, `workflows/${encodeURIComponent(name)}/versions`, { document: document("echo theirs") })
    await page.getByLabel("What changed in this version").fill("mine")
    await page.getByRole("button", { name: "Save" }).click()
    const dialog = page.getByRole("dialog")
    await expect(dialog).toContainText("ann saved v2 while you were editing")
    await expect(dialog.getByRole("link", { name: "Compare" })).toHaveAttribute("href", /before=%221%22&after=%222%22/)
    await expectAccessible(page)
    await dialog.getByRole("button", { name: "Save as a newer version" }).click()
    await expect(page.getByRole("heading", { name: `${name} · v3` })).toBeVisible()
  })

  await test.step("another user is offered a copy instead of what they may not do", async () => {
    const found = await api()<{ id: string }>("GET", `workflows/${encodeURIComponent(name)}`)
    const context = await browser.newContext()
    const other = await context.newPage()
    await signIn(other, "bob")
    await other.goto(url(`/workflows/${found.id}`))
    await expect(other.getByRole("link", { name: "Save as new workflow" })).toBeVisible()
    await expect(other.getByRole("link", { name: "New version" })).toHaveCount(0)
    await expect(other.getByRole("button", { name: "More" })).toHaveCount(0)
    await other.goto(url("/runs/no-such-run"))
    await expect(other.getByRole("alert")).toContainText("Run not found")
    await other.getByRole("link", { name: "Back to runs" }).click()
    await expect(other.getByRole("heading", { name: "Runs" })).toBeVisible()
    await context.close()
  })
})
