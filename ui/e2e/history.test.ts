import { expect, type Page } from "@playwright/test"
import { api, expectAccessible, fresh, posted, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`

/** One quick node, which fails if it is told to. */
const document = {
  format: 1,
  parameters: [{ name: "code", default: "0" }],
  nodes: [
    {
      name: "work",
      image: "python:3.11",
      command: "exit $code",
      inputs: [{ name: "code", from: { parameter: "code" } }],
    },
  ],
  edges: [],
}

async function ended(run: string): Promise<void> {
  await expect
    .poll(async () => (await api()("GET", `runs/${run}`)).state, { timeout: 60_000 })
    .toMatch(/succeeded|failed/)
}

const row = (page: Page, name: string) => page.getByRole("row").filter({ hasText: name })

test("the history of a workflow's runs, found by state, version and tag", async ({ page }) => {
  test.setTimeout(240_000)
  const name = fresh("history")
  const made = await posted(page, "workflows", { name, version: { document } })
  const workflow = made.workflow_id as string
  await page.goto(url(`/workflows/${workflow}`))
  await expect(page.getByRole("region", { name: "Recent runs" })).toBeHidden()
  await page.getByRole("tab", { name: "Runs" }).click()
  await expect(page.getByText("No runs yet")).toBeVisible()
  await expectAccessible(page)

  // Tags are typed when a run is created.
  await page.getByRole("main").getByRole("link", { name: "Run", exact: true }).click()
  await page.getByLabel("Run name").fill(`${name} good`)
  const tags = page.getByRole("combobox", { name: /^Tags/ })
  await tags.fill("a b")
  await tags.press("Enter")
  await expect(page.getByText("Use KEY or KEY=VALUE")).toBeVisible()
  await tags.fill("baseline")
  await expect(page.getByText("Use KEY or KEY=VALUE")).toBeHidden()
  await tags.press("Enter")
  await tags.fill("data=june,")
  await expect(page.getByRole("list", { name: "Tags" })).toContainText("data=june")
  await expectAccessible(page)
  await page.getByRole("button", { name: "Create", exact: true }).click()
  await expect(page.getByRole("heading", { name: `${name} good` })).toBeVisible()
  await expect(page.getByRole("list", { name: "Tags" })).toContainText("baseline")
  const good = page.url().split("/runs/")[1] as string
  const bad = await posted(page, "runs", { workflow, name: `${name} bad`, parameters: { code: "3" } })
  await Promise.all([ended(good), ended(bad.id as string)])

  // They are edited afterwards.
  await page.goto(url(`/runs/${bad.id}`))
  await page.getByRole("button", { name: "Add tag" }).click()
  await page.getByRole("dialog").getByRole("combobox").fill("data=may")
  await expectAccessible(page)
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click()
  await expect(page.getByRole("dialog")).toBeHidden()
  await expect(page.getByRole("list", { name: "Tags" })).toHaveText("data=may")

  await page.goto(url(`/workflows/${workflow}?tab=runs`))
  const strip = page.getByRole("region", { name: "Recent runs" })
  await expect(strip.getByRole("link")).toHaveCount(2)
  await expect(strip.getByRole("link", { name: new RegExp(`^${name} bad: Failed, .*, version v1`) })).toBeVisible()
  await expect(strip).toContainText("50 % succeeded")
  for (const width of [1440, 1024, 390]) {
    await page.setViewportSize({ width, height: 900 })
    await expect(row(page, `${name} good`)).toBeVisible()
    const wide = await page.evaluate(() => window.document.documentElement.scrollWidth)
    expect(wide, `nothing sticks out at ${width}`).toBeLessThanOrEqual(width)
    await expectAccessible(page)
  }
  await page.setViewportSize({ width: 1440, height: 900 })
  await page.getByLabel("State").selectOption("failed")
  await expect(row(page, `${name} good`)).toBeHidden()
  await expect(row(page, `${name} bad`)).toBeVisible()
  await page.getByLabel("State").selectOption("")
  await page.getByLabel("Tag", { exact: true }).selectOption("baseline")
  await expect(row(page, `${name} bad`)).toBeHidden()
  await expect(row(page, `${name} good`)).toBeVisible()
  await page.getByLabel("Version", { exact: true }).selectOption("1")
  await expect(row(page, `${name} good`)).toBeVisible()

  // The list of everything that ran has them, too; a click on one filters it.
  await page.goto(url(`/runs?workflow=${workflow}`))
  await row(page, `${name} bad`).getByRole("button", { name: "data=may" }).click()
  await expect(row(page, `${name} good`)).toBeHidden()
  await expect(page).toHaveURL(/tag=data/)
  await expectAccessible(page)
})

test("others see the tags of a run, and cannot edit them", async ({ page }) => {
  const made = await posted(page, "workflows", { name: fresh("tags of others"), version: { document } })
  const run = await api()("POST", "runs", { workflow: made.workflow_id, tags: ["baseline"] })
  await page.goto(url(`/runs/${run.id}`))
  await expect(page.getByRole("list", { name: "Tags" })).toHaveText("baseline")
  await expect(page.getByRole("button", { name: "Edit tags" })).toBeHidden()
})
