import { readFile } from "node:fs/promises"
import { expect } from "@playwright/test"
import { expectAccessible, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`

test("a volume is created, filled, browsed and deleted", async ({ page }) => {
  const name = `story-${Date.now().toString(36)}`
  await page.goto(url("/volumes"))
  await page.getByRole("button", { name: "New volume" }).first().click()
  await page.getByLabel("Name").fill("Not Valid")
  await page.getByRole("button", { name: "Create" }).click()
  await expect(page.getByText("is not a valid name of a volume")).toBeVisible()
  await page.getByLabel("Name").fill(name)
  await page.getByLabel("Size").fill("1Gi")
  await expectAccessible(page)
  await page.getByRole("button", { name: "Create" }).click()
  await expect(page.getByRole("heading", { name })).toBeVisible()
  await expect(page.locator("header").getByText("Bound")).toBeVisible()
  await expect(page.getByText("This folder is empty")).toBeVisible()

  await page.getByRole("button", { name: "New folder" }).click()
  await page.getByLabel("Name of the folder").fill("数据 100%")
  await page.getByRole("button", { name: "Create" }).click()
  await page.getByRole("button", { name: "数据 100%", exact: true }).click()
  await expect(page.getByRole("navigation", { name: "Path in the volume" })).toContainText("数据 100%")
  const files = [1, 2].map((number) => ({
    name: `part-${number}.txt`,
    mimeType: "text/plain",
    buffer: Buffer.from(`hello ${number}`),
  }))
  await page.locator("input[type=file]").setInputFiles(files)
  await expect(page.getByText("Uploaded")).toHaveCount(2)
  await expectAccessible(page)
  await page
    .locator("input[type=file]")
    .setInputFiles([{ name: "part-1.txt", mimeType: "text/plain", buffer: Buffer.from("replaced") }])
  await expect(page.getByText("There is already a file of this name.")).toBeVisible()
  await page.getByRole("button", { name: "Replace it" }).click()
  await expect(page.getByText("Uploaded")).toHaveCount(3)

  const downloading = page.waitForEvent("download")
  await page.getByRole("link", { name: "part-1.txt" }).click()
  const downloaded = await downloading
  expect(downloaded.suggestedFilename()).toBe("part-1.txt")
  expect(await readFile(await downloaded.path(), "utf8")).toBe("replaced")

  await page.getByRole("button", { name: "Actions: part-2.txt" }).click()
  await page.getByRole("menuitem", { name: "Rename" }).click()
  await page.getByLabel("New name").fill("part-1.txt")
  await page.getByRole("button", { name: "Rename" }).click()
  await expect(page.getByRole("alert")).toContainText('There is already a "数据 100%/part-1.txt"')
  await page.getByLabel("New name").fill("second.txt")
  await page.getByRole("button", { name: "Rename" }).click()
  await expect(page.getByRole("link", { name: "second.txt" })).toBeVisible()
  await page.getByRole("button", { name: "Actions: second.txt" }).click()
  await page.getByRole("menuitem", { name: "Delete" }).click()
  await page.getByRole("button", { name: "Delete" }).click()
  await expect(page.getByRole("link", { name: "second.txt" })).toHaveCount(0)
  await page.getByRole("navigation", { name: "Path in the volume" }).getByRole("button", { name }).click()
  await expect(page.getByText("2 files in 1 folders")).toHaveCount(0)

  await page
    .locator("header")
    .getByRole("button", { name: `Actions: ${name}` })
    .click()
  await page.getByRole("menuitem", { name: "Delete volume" }).click()
  await page.getByRole("button", { name: "Delete volume" }).click()
  await expect(page.getByText(`Deleted “${name}”`)).toBeVisible()
})
