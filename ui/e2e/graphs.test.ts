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
  const cover = async () => {
    const boxes = await page
      .locator(".react-flow__node")
      .evaluateAll((all) => all.map((each) => each.getBoundingClientRect().toJSON() as DOMRect))
    return boxes.some((a, index) =>
      boxes.slice(index + 1).some((b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom),
    )
  }
  await expect.poll(cover).toBe(false) // the layout takes a moment
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

async function connect(page: Page, from: string, to: string): Promise<void> {
  const start = await node(page, from).locator(".react-flow__handle-bottom").boundingBox()
  const end = await node(page, to).locator(".react-flow__handle-top").boundingBox()
  if (!start || !end) throw new Error("there is no such node")
  await page.mouse.move(start.x + start.width / 2, start.y + start.height / 2)
  await page.mouse.down()
  await page.mouse.move(end.x, end.y + 20, { steps: 8 })
  await page.mouse.move(end.x + end.width / 2, end.y + end.height / 2, { steps: 4 })
  await page.mouse.up()
}

test("nodes that are added by click do not cover each other, and a refused line says why", async ({ page }) => {
  await page.goto(url("/workflows/new"))
  for (const name of ["first", "second", "third", "fourth"]) {
    await page.getByRole("button", { name: /Plain node/ }).click()
    await page.getByLabel("Task name").fill(name)
  }
  await expect(page.locator(".react-flow__node")).toHaveCount(4)
  await page.getByRole("button", { name: "Fit to screen" }).click()
  await page.waitForTimeout(400) // the view moves
  await expectApart(page)
  await connect(page, "first", "second")
  await connect(page, "second", "third")
  await expect(page.locator(".react-flow__edge")).toHaveCount(2)
  await connect(page, "third", "first")
  await expect(page.getByText("This line would close a cycle: third → first → second → third")).toBeVisible()
  await connect(page, "first", "second")
  await expect(page.getByText("These nodes are already connected.")).toBeVisible()
  await expect(page.locator(".react-flow__edge")).toHaveCount(2)
})

test("an edge leads around the nodes between its ends", async ({ page }) => {
  const at = (name: string, y: number) => ({ name, image: "python:3.11", command: "true", position: { x: 0, y } })
  const written = {
    format: 1,
    nodes: [at("top", 0), at("middle", 120), at("bottom", 240)],
    edges: [
      { from: "top", to: "middle" },
      { from: "top", to: "bottom" },
    ],
  }
  const { workflow_id } = await posted(page, "workflows", { name: fresh("around"), version: { document: written } })
  for (const path of [`/workflows/${workflow_id}/versions/1`, `/workflows/${workflow_id}/new-version`]) {
    await page.goto(url(path))
    await expect(node(page, "bottom")).toBeVisible()
    const covered = await page.evaluate(() => {
      const boxes = [...document.querySelectorAll(".react-flow__node")].map((each) => each.getBoundingClientRect())
      const lines = document.querySelectorAll<SVGPathElement>(".react-flow__edge-path")
      return [...lines].some((line) => {
        const matrix = line.getScreenCTM() as DOMMatrix
        return Array.from({ length: 41 }, (_, index) =>
          line.getPointAtLength((line.getTotalLength() * index) / 40).matrixTransform(matrix),
        ).some(({ x, y }) =>
          boxes.some((box) => x > box.left + 3 && x < box.right - 3 && y > box.top + 6 && y < box.bottom - 6),
        )
      })
    })
    expect(covered).toBe(false)
    await expect(page.locator(".react-flow__edge")).toHaveCount(2)
  }
  await shot(page, "around")
})

for (const size of SIZES)
  test(`the editor fits into ${size.width} pixels`, async ({ page }) => {
    await page.setViewportSize(size)
    await page.goto(url("/workflows/new"))
    const small = size.width < 1280
    for (const name of ["first", "second"]) {
      if (small) await page.getByRole("button", { name: "Add nodes" }).click()
      await page.getByRole("button", { name: /Plain node/ }).click()
      if (size.width < 768) await page.getByRole("button", { name: "Settings" }).click()
      await page.getByLabel("Task name").fill(name)
      if (size.width < 768) await page.getByRole("button", { name: "Canvas", exact: true }).click()
    }
    await page.getByRole("button", { name: "Fit to screen" }).click()
    await page.waitForTimeout(400) // the view moves
    await expect(page.locator(".react-flow__node")).toHaveCount(2)
    await expectApart(page)
    const canvas = await page.getByTestId("canvas").boundingBox()
    expect(canvas?.width).toBeGreaterThan(Math.min(350, size.width * 0.9))
    expect(canvas?.height).toBeGreaterThan(200)
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
    expect(wide).toBeLessThanOrEqual(0)
    await inBothThemes(page, () => expectAccessible(page))
    await shot(page, `editor-${size.width}`)
    await page.evaluate(() => localStorage.clear()) // no draft for the next one
  })
