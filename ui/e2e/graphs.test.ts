/** Graphs: of imported Argo Workflows, on screens of every size. */
import { expect, type Page } from "@playwright/test"
import { expectAccessible, fresh, posted, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const node = (page: Page, name: string) => page.locator(".react-flow__node").filter({ hasText: name })

const SIZES = [
  { width: 1440, height: 900 },
  { width: 1024, height: 768 },
  { width: 390, height: 844 },
]

/** Tasks, steps inside of a task, a loop over them, a condition, a node that is retried, and an exit handler. */
const MANIFEST = `\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: shapes-}
spec:
  entrypoint: main
  onExit: say
  templates:
  - name: main
    dag:
      tasks:
      - {name: prepare, template: say}
      - {name: shard, template: train-and-test, depends: prepare, withItems: [red, green]}
      - {name: flaky, template: once-more, depends: prepare}
      - {name: never, template: say, depends: flaky, when: "1 == 2"}
      - {name: report, template: say, depends: shard && flaky}
  - name: train-and-test
    steps:
    - - {name: train, template: say}
    - - {name: test-a, template: say}
      - {name: test-b, template: say}
  - name: once-more
    retryStrategy: {limit: "2"}
    script: {image: busybox, command: [sh], source: "test {{retries}} -gt 0"}
  - name: say
    container: {image: busybox, command: [echo, hello]}
`

const drawnEdges = (page: Page) =>
  page.locator(".react-flow__edge").evaluateAll((all) => all.map((edge) => edge.getAttribute("data-id")).sort())

/** Fails if a card covers another one, or is outside of the graph. */
async function expectApart(page: Page): Promise<void> {
  const boxes = await page
    .locator(".react-flow__node")
    .evaluateAll((all) => all.map((each) => each.getBoundingClientRect().toJSON() as DOMRect))
  const over = boxes.some((a, index) =>
    boxes.slice(index + 1).some((b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom),
  )
  expect(over).toBe(false)
}

async function inBothThemes(page: Page, check: () => Promise<void>): Promise<void> {
  for (const scheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: scheme })
    await page.locator(scheme === "dark" ? "html.dark" : "html:not(.dark)").waitFor()
    // Colours change gradually: axe would see the ones in between.
    await page.evaluate(async () => {
      await new Promise(requestAnimationFrame)
      const ends = (each: Animation) => each.effect?.getTiming().iterations !== Number.POSITIVE_INFINITY
      await Promise.allSettled(
        document
          .getAnimations()
          .filter(ends)
          .map((each) => each.finished),
      )
    })
    await check()
  }
}

const shot = (page: Page, name: string) => page.screenshot({ path: `test-results/${name}.png` })

test("an imported Argo workflow is drawn as a version and as a run", { tag: "@smoke" }, async ({ page }) => {
  test.setTimeout(180_000)
  const { workflow_id } = await posted(page, "workflows", { name: fresh("shapes"), version: { manifest: MANIFEST } })
  await page.goto(url(`/workflows/${workflow_id}/versions/1`))
  for (const name of ["prepare", "shard", "flaky", "never", "report", "onExit"])
    await expect(node(page, name)).toBeVisible()
  await expect(node(page, "shard")).toContainText("Loop over 2")
  await expect(node(page, "never").getByRole("img", { name: "Only if 1 == 2" })).toBeVisible()
  expect(await drawnEdges(page)).toEqual([
    "flaky>never",
    "flaky>report",
    "never>onExit",
    "prepare>flaky",
    "prepare>shard",
    "report>onExit",
    "shard>report",
  ])
  await page.getByRole("button", { name: "Show what is inside shard" }).click()
  await expect(node(page, "test-b")).toBeVisible()
  await expectApart(page)
  expect(await drawnEdges(page)).toContain("shard[0].train>shard[1].test-b")
  await node(page, "never").click()
  await expect(page.getByRole("complementary", { name: "Details" })).toContainText("1 == 2")
  await inBothThemes(page, () => expectAccessible(page))
  await shot(page, "version")

  const run = await posted(page, "runs", { workflow: workflow_id, name: fresh("shapes") })
  await page.goto(url(`/runs/${run.id}`))
  await expect(page.locator("main").getByText("Succeeded").first()).toBeVisible({ timeout: 120_000 })
  await expect(node(page, "flaky")).toContainText("(1)")
  await expect(node(page, "shard")).toContainText("Succeeded · 6 of 6 done")
  await expect(node(page, "never")).toContainText("Skipped")
  await page.getByRole("button", { name: "Show what is inside shard" }).click()
  await page.getByRole("button", { name: "Show what is inside 1:green" }).click()
  await node(page, "test-a").click()
  await expect(page).toHaveURL(/node=shard/)
  await page.getByRole("tab", { name: "Log" }).click()
  await expect(page.getByRole("log")).toContainText("hello")
  await expectApart(page)
  await page.reload()
  await expect(node(page, "test-a")).toBeVisible() // what is around the selected node is open
  await node(page, "shard").first().click()
  await expect(page.getByRole("complementary", { name: "Details" })).toContainText("6 of 6 done")
  await inBothThemes(page, () => expectAccessible(page))
  await shot(page, "run")
})

for (const size of SIZES)
  test(`the graph of a version and its details fit into ${size.width} pixels`, async ({ page }) => {
    await page.setViewportSize(size)
    const { workflow_id } = await posted(page, "workflows", { name: fresh("sizes"), version: { manifest: MANIFEST } })
    await page.goto(url(`/workflows/${workflow_id}/versions/1`))
    await expect(node(page, "report")).toBeVisible()
    const graph = await page.getByRole("region", { name: "Graph" }).boundingBox()
    expect(graph?.width).toBeGreaterThan(size.width * 0.45)
    expect(graph?.height).toBeGreaterThan(300)
    await node(page, "report").click()
    await expect(page.getByRole("complementary", { name: "Details" })).toContainText("say")
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    expect(wide).toBeLessThanOrEqual(0)
    await inBothThemes(page, () => expectAccessible(page))
    await shot(page, `version-${size.width}`)
  })
