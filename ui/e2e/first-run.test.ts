import { expect } from "@playwright/test"
import { api, expectAccessible, signIn, test } from "./people"
import { PASSWORD } from "./setup"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`

test("a new user runs the example with one click, finds its nodes, and runs it again", async ({ page }) => {
  test.setTimeout(180_000)
  const name = `new${Date.now().toString(36)}`
  await api()("POST", "users", { name, password: PASSWORD })
  await page.context().clearCookies()
  await signIn(page, name)
  await page.goto(url("/"))
  await expectAccessible(page)
  await page.getByRole("button", { name: "Run the example" }).click()
  await expect(page.getByRole("heading", { name: `Example of ${name} v1` })).toBeVisible()
  const report = page.locator(".react-flow__node").filter({ hasText: "report" })
  await expect(report.locator("[data-state=succeeded]")).toBeVisible({ timeout: 120_000 })

  await page.getByRole("searchbox", { name: "Search nodes" }).fill("REPORT")
  await expect(page.getByText("1 of 3 nodes")).toBeVisible()
  await page.getByRole("searchbox", { name: "Search nodes" }).press("Enter")
  await page.getByRole("tab", { name: "Log" }).click()
  await expect(page.getByRole("log")).toContainText("the model is y =", { timeout: 30_000 })
  await page.getByRole("tab", { name: "Timeline" }).click()
  await page.getByLabel("Failed only").check()
  await expect(page.getByText("0 of 3 nodes")).toBeVisible()

  await page.getByRole("button", { name: "Resubmit" }).click()
  await expect(page.getByRole("heading", { name: `Example of ${name} v1 #2` })).toBeVisible()
})
