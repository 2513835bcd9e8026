/** A run on a real Kubernetes, from a click: the Argo controller runs it, and Muster's operator trains with two Pods. */
import { test as base, expect, type Page } from "@playwright/test"
import { expectAccessible, fresh, listen, signIn } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const node = (page: Page, name: string) => page.locator(".react-flow__node").filter({ hasText: name })
/** Pods start slowly on a machine that runs a whole cluster. */
const STARTS = 600_000

base("a run with a training node succeeds from a click", async ({ page }, info) => {
  const complaints = listen(page)
  page.context().setDefaultTimeout(STARTS)
  await signIn(page, process.env.MUSTER_USER as string)
  const name = fresh("moons")
  const see = (what: string) => page.screenshot({ path: info.outputPath(`${what}.png`) })

  await page.goto(url(`/workflows/${process.env.MUSTER_WORKFLOW}/versions/1`))
  await page.getByRole("link", { name: "Run", exact: true }).click()
  await page.getByLabel("Run name").fill(name)
  await page.getByRole("button", { name: "Create" }).click()
  await expect(page.getByRole("heading", { name })).toBeVisible()

  const painted = (of: string, state: string) => node(page, of).locator(`[data-state=${state}]`)
  await expect(painted("prepare", "succeeded")).toBeVisible({ timeout: STARTS })
  await expect(painted("train", "running")).toBeVisible({ timeout: STARTS })
  await node(page, "train").click()
  const panel = page.getByRole("complementary", { name: "Details" })
  await panel.getByRole("tab", { name: "Containers" }).click()
  await expect(panel.getByRole("heading", { name: /-(master|worker)-0$/ })).toHaveCount(2, { timeout: STARTS })
  await see("running")
  await expect(painted("train", "succeeded")).toBeVisible({ timeout: STARTS })
  await expect(page.locator("main").getByText("Succeeded", { exact: true }).first()).toBeVisible({ timeout: STARTS })
  await see("succeeded")

  await panel.getByRole("tab", { name: "Events" }).click()
  await expect(panel.getByText("Scheduled").first()).toBeVisible()
  await see("events")
  await panel.getByRole("tab", { name: "Log" }).click()
  await expect(panel.getByRole("log")).toContainText("training on moons")
  await expect(panel.getByRole("log")).toContainText("all 2 replicas have the same model")
  await see("log")
  await expectAccessible(page)
  await page.setViewportSize({ width: 390, height: 844 })
  await see("phone")
  expect(complaints).toEqual([])
})
