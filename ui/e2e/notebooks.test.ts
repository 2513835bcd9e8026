import { expect } from "@playwright/test"
import { expectAccessible, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`

/** An image that no machine has: with one of the list, the server would install an environment, which takes minutes. */
const IMAGE = "registry.example/team/lab:1"

test("a notebook is created from the form, stopped, started and deleted", async ({ page }) => {
  const name = `lab-${Date.now().toString(36)}`
  await page.goto(url("/notebooks"))
  await page.getByRole("link", { name: "New notebook" }).first().click()
  await expectAccessible(page)
  await page.getByLabel("Name", { exact: true }).fill("Not Valid")
  await page.getByRole("button", { name: "Create" }).click()
  await expect(page.getByLabel("Name", { exact: true })).toHaveAttribute("aria-invalid", "true")
  await page.getByLabel("Name", { exact: true }).fill(name)
  await page.getByLabel("Another image", { exact: false }).first().check()
  await page.getByRole("textbox", { name: "Another image" }).fill(IMAGE)
  await page.getByLabel("Memory").fill("2Gi")
  await page.getByLabel("Stop when idle").selectOption({ label: "After 4 hours" })
  await page.getByRole("button", { name: "Create" }).click()

  await expect(page.getByRole("heading", { name })).toBeVisible()
  await expect(page.locator("header").getByText(/Starting|Failed/)).toBeVisible()
  await expect(page.getByText("500m CPU · 2Gi")).toBeVisible()
  await expect(page.getByText("After 240 minutes")).toBeVisible()
  await expect(page.getByRole("link", { name: `${name}-home` })).toBeVisible()
  await expectAccessible(page)
  await page.locator("header").getByRole("button", { name: "Stop" }).click()
  await expect(page.locator("header").getByText("Stopped")).toBeVisible()
  await page.locator("header").getByRole("button", { name: "Edit", exact: true }).click()
  await expect(page.getByText("Changes take effect when it is started.")).toBeVisible()
  await expectAccessible(page)
  await expect(page.getByRole("textbox", { name: "Another image" })).toHaveValue(IMAGE)
  await page.getByLabel("Memory").fill("3Gi")
  await page.getByLabel("Stop when idle").selectOption({ label: "Never" })
  await page.getByRole("button", { name: "Save" }).click()
  await expect(page.getByText("500m CPU · 3Gi")).toBeVisible()
  await expect(page.getByText("Stop when idle: Never")).toBeVisible()
  await expect(page.locator("header").getByText("Stopped")).toBeVisible()
  await page.locator("header").getByRole("button", { name: "Start", exact: true }).click()
  await expect(page.locator("header").getByText(/Starting|Failed/)).toBeVisible()
  await page.getByRole("tab", { name: "Events" }).click()
  await expectAccessible(page)

  await page.getByRole("link", { name: "Volumes" }).click()
  await page.getByRole("link", { name: `${name}-home` }).click()
  await expect(page.getByRole("link", { name, exact: true })).toBeVisible() // what uses it
  await page.getByRole("link", { name, exact: true }).click()
  await page
    .locator("header")
    .getByRole("button", { name: `Actions: ${name}` })
    .click()
  await page.getByRole("menuitem", { name: "Delete with home volume" }).click()
  await page.getByRole("button", { name: "Delete with home volume" }).click()
  await expect(page.getByText(`Deleted “${name}”`)).toBeVisible()
})

test("a TensorBoard on a volume that does not exist is refused", async ({ page }) => {
  const name = `board-${Date.now().toString(36)}`
  await page.goto(url("/tensorboards"))
  await page.getByRole("button", { name: "New TensorBoard" }).first().click()
  await page.getByLabel("Name").fill(name)
  await page.getByLabel("Where the logs are").selectOption({ label: "A folder or URL" })
  await page.getByLabel("Folder or URL").fill("pvc://nothing-there/logs")
  await page.getByRole("button", { name: "Create" }).click()
  await expect(page.getByRole("dialog")).toContainText("nothing-there")
  await expectAccessible(page)
})
