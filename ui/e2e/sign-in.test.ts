import { expect, test as stranger } from "@playwright/test"
import { expectAccessible, listen, test } from "./people"
import { PASSWORD } from "./setup"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`

stranger("the one-time link lets the first admin choose a password, once", { tag: "@smoke" }, async ({ page }) => {
  const complaints = listen(page)
  await page.goto(process.env.MUSTER_LINK as string)
  await expect(page.getByText("Choose a password for the account “admin”.")).toBeVisible()
  await expectAccessible(page)
  await page.getByLabel(/Password/).fill("short")
  await page.getByRole("button", { name: "Set password" }).click()
  await expect(page.getByText("use at least 10")).toBeVisible()
  await page.getByLabel(/Password/).fill(PASSWORD)
  await page.getByRole("button", { name: "Set password" }).click()
  await expect(page.getByRole("heading", { name: "Hello, admin" })).toBeVisible()
  await page.context().clearCookies()
  await page.goto(`${process.env.MUSTER_LINK}`)
  await page.reload()
  await expect(page.getByRole("heading", { name: "This link is not valid" })).toBeVisible()
  expect(complaints).toEqual([])
})

stranger("users who are not signed in are sent to the sign-in page, and back", { tag: "@smoke" }, async ({ page }) => {
  await page.goto(url("/workflows?q=nothing"))
  await expect(page.getByRole("heading", { name: "Sign in to Muster" })).toBeVisible()
  await expectAccessible(page)
  await page.getByLabel("Account").fill("ann")
  await page.getByLabel("Password").fill("wrong password")
  await page.getByRole("button", { name: "Sign in" }).click()
  await expect(page.getByRole("alert")).toHaveText("Wrong account name or password.")
  await page.getByLabel("Password").fill(PASSWORD)
  await page.getByRole("button", { name: "Sign in" }).click()
  await expect(page).toHaveURL(url("/workflows?q=nothing"))
  await expect(page.getByText("No results")).toBeVisible()
  await page.getByRole("button", { name: "Account of ann" }).click()
  await page.getByRole("menuitem", { name: "Sign out" }).click()
  await expect(page).toHaveURL(url("/sign-in"))
  await page.goto(url("/"))
  await expect(page).toHaveURL(url("/sign-in"))
})

test("language and theme can be changed and are remembered", { tag: "@smoke" }, async ({ page }) => {
  await page.goto(url("/"))
  await expect(page.getByRole("link", { name: "Workflows", exact: true })).toBeVisible()
  await page.getByRole("button", { name: "Language" }).click()
  await page.getByRole("menuitemcheckbox", { name: "中文" }).click()
  await expect(page.getByRole("link", { name: "工作流", exact: true })).toBeVisible()
  await expect(page.locator("html")).toHaveAttribute("lang", "zh-CN")
  await page.getByRole("button", { name: "主题" }).click()
  await page.getByRole("menuitemcheckbox", { name: "深色" }).click()
  await expect(page.locator("html")).toHaveClass(/dark/)
  await expectAccessible(page)
  await page.reload()
  await expect(page.getByRole("heading", { name: "ann，您好" })).toBeVisible()
  await expect(page.locator("html")).toHaveClass(/dark/)
})

test("an unknown address shows a page that says so", { tag: "@smoke" }, async ({ page }) => {
  await page.goto(url("/no/such/page"))
  await expect(page.getByRole("heading", { name: "Page not found" })).toBeVisible()
  await page.getByRole("link", { name: "Go to the start page" }).click()
  await expect(page.getByRole("heading", { name: "Hello, ann" })).toBeVisible()
})
