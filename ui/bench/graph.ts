/**
 * Graphs of 1,000 and 10,000 nodes: the time until they can be used, and how smoothly they move, beside React Flow
 * alone with as many nodes. BENCH_NODES sets the larger number.
 */
import { readFile, rm } from "node:fs/promises"
import { join } from "node:path"
import { expect, type Page } from "@playwright/test"
import react from "@vitejs/plugin-react"
import { build } from "vite"
import { painted } from "../e2e/far"
import { fresh, test } from "../e2e/people"
import { busy, csrf, frames, post, since, told, url } from "./measure"
import { rows } from "./shape"

const NODES = 1000
const MANY = Number(process.env.BENCH_NODES ?? 10_000)

const { names, edges } = rows(NODES)
const graph = (command: string) => ({
  format: 1,
  nodes: names.map((name) => ({ name, image: "python:3.11", command })),
  edges,
})

/** An Argo Workflow with many tasks. They are skipped, so that a run of it does not take an hour. */
function manifest(count: number): string {
  const { names, edges } = rows(count)
  const before = new Map<string, string[]>(names.map((name) => [name, []]))
  for (const { from, to } of edges) before.get(to)?.push(from)
  const tasks = names.map((name, index) => {
    const depends = before.get(name)?.join(" && ")
    const when = index ? ', when: "1 == 2"' : ""
    return `      - {name: ${name}, template: say${depends ? `, depends: ${depends}` : ""}${when}}\n`
  })
  return `\
apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: big-}
spec:
  entrypoint: main
  templates:
  - name: say
    container: {image: busybox, command: ["true"]}
  - name: main
    dag:
      tasks:
${tasks.join("")}`
}

/** Milliseconds from entering the address until a node responds to a click. */
async function opened(page: Page, address: string, isFloor = false): Promise<string> {
  await page.goto("about:blank")
  const before = await busy(page)
  await page.goto(new URL(address, url("/")).href, { waitUntil: "commit" })
  const seen = await page.waitForFunction(painted, null, { polling: "raf" })
  const { x, y, at } = (await seen.jsonValue()) as { x: number; y: number; at: number }
  if (isFloor) return `drawn ${at.toFixed(0)} ms (work ${(await since(page, before)).toFixed(0)} ms)`
  await page.mouse.click(x, y)
  const chosen = () =>
    (/[?&]node=/.test(location.search) || document.querySelector("aside [data-field=command]")) && performance.now()
  const done = await page.waitForFunction(chosen, null, { polling: "raf" })
  const used = (await done.jsonValue()) as number
  return `drawn ${at.toFixed(0)} ms, interactive ${used.toFixed(0)} ms (work ${(await since(page, before)).toFixed(0)} ms)`
}

/** `steps` is the number of moves of the mouse in each part. */
async function moved(page: Page, steps = 60): Promise<void> {
  const box = await page.locator(".react-flow__pane").boundingBox()
  if (!box) throw new Error("there is no graph")
  const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 }
  const pan = async () => {
    await page.mouse.move(box.x + 8, box.y + 8)
    await page.mouse.down()
    for (let step = 1; step <= steps; step++) await page.mouse.move(box.x + 8 + step * 6, box.y + 8 + (step % 30) * 8)
    await page.mouse.up()
  }
  const zoom = async (wheel: number) => {
    await page.mouse.move(middle.x, middle.y)
    for (let step = 0; step < steps; step++) await page.mouse.wheel(0, (wheel * 60) / steps)
  }
  told("pan, all in view", await frames(page, pan))
  told("zoom in", await frames(page, () => zoom(-45)))
  told("pan, near", await frames(page, pan))
  told("zoom out", await frames(page, () => zoom(45)))
}

test("a version to look at", async ({ page }) => {
  const { workflow_id } = await post(page, "workflows", { name: fresh("bench"), version: { document: graph("true") } })
  const first = await opened(page, `/workflows/${workflow_id}/versions/1`)
  const again = await opened(page, `/workflows/${workflow_id}/versions/1`)
  console.log(`\nversion: ${first}; again ${again}`)
  await moved(page)
})

test("the editor", async ({ page }) => {
  const { workflow_id } = await post(page, "workflows", { name: fresh("bench"), version: { document: graph("true") } })
  const seen = await opened(page, `/workflows/${workflow_id}/new-version`)
  console.log(`\neditor: ${seen}`)
  await moved(page)
  await page.getByRole("button", { name: "Fit to screen" }).click()
  await page.waitForTimeout(500)
  const { x, y } = (await page.evaluate(painted)) as { x: number; y: number }
  const drag = await frames(page, async () => {
    await page.mouse.move(x, y)
    await page.mouse.down()
    for (let step = 1; step <= 60; step++) await page.mouse.move(x + step * 4, y + step * 3)
    await page.mouse.up()
  })
  told("drag a node", drag)
  const typing = await frames(page, () =>
    page.locator("[data-field=command]").pressSequentially("echo a few words to type", { delay: 0 }),
  )
  told("type a command", typing)
})

test("a run that goes", async ({ page }) => {
  const { workflow_id } = await post(page, "workflows", {
    name: fresh("bench"),
    version: { document: graph("sleep 0.2") },
  })
  const { id } = await post(page, "runs", { workflow: workflow_id, name: fresh("bench") })
  const seen = await opened(page, `/runs/${id}`)
  console.log(`\nrun: ${seen}, while it goes`)
  await moved(page)
  await page.request.post(url(`/api/v1/runs/${id}/stop`), { headers: { "X-CSRF-Token": await csrf(page) } })
  await expect(page.locator("main").getByText("Stopped").first()).toBeVisible({ timeout: 120_000 })
  const over = await opened(page, `/runs/${id}`)
  console.log(`run: ${over}, when it is over`)
  await moved(page)
})

test(`React Flow alone, ${MANY} nodes`, async ({ page }) => {
  const folder = test.info().outputPath("floor")
  const root = new URL("floor", import.meta.url).pathname
  await build({
    root,
    base: "/",
    configFile: false,
    logLevel: "error",
    plugins: [react()],
    build: { outDir: folder, emptyOutDir: true },
  })
  await page.route("http://floor.test/**", async (route) => {
    const { pathname } = new URL(route.request().url())
    const path = join(folder, pathname === "/" ? "index.html" : pathname)
    const contentType = path.endsWith(".js") ? "text/javascript" : path.endsWith(".css") ? "text/css" : "text/html"
    await route.fulfill({ body: await readFile(path), contentType })
  })
  console.log(`\nReact Flow alone, ${MANY} nodes: ${await opened(page, `http://floor.test/?nodes=${MANY}`, true)}`)
  await moved(page, 6) // a step takes it seconds
  await rm(folder, { recursive: true })
})

test(`an Argo workflow of ${MANY} tasks, as a version and as a run`, async ({ page }) => {
  const { workflow_id } = await post(page, "workflows", {
    name: fresh("bench"),
    version: { manifest: manifest(MANY) },
  })
  const timed = async (path: string) => {
    const began = performance.now()
    const response = await page.request.get(url(`/api/v1/${path}`))
    const bytes = (await response.body()).length
    return `${(performance.now() - began).toFixed(0)} ms, ${(bytes / 1e6).toFixed(1)} MB`
  }
  const version = `workflows/${workflow_id}/versions/1`
  console.log(`\nAPI: version ${await timed(version)}; its graph ${await timed(`${version}/graph`)}`)
  console.log(`version of ${MANY} tasks: ${await opened(page, `/workflows/${workflow_id}/versions/1`)}`)
  console.log(`again: ${await opened(page, `/workflows/${workflow_id}/versions/1`)}`)
  await moved(page)
  const { id } = await post(page, "runs", { workflow: workflow_id, name: fresh("bench") })
  await page.goto(url(`/runs/${id}`))
  await expect(page.locator("main").getByText("Succeeded").first()).toBeVisible({ timeout: 240_000 })
  console.log(`API: run ${await timed(`runs/${id}`)}; its graph ${await timed(`runs/${id}/graph`)}`)
  console.log(`run of ${MANY} tasks: ${await opened(page, `/runs/${id}`)}`)
  await moved(page)
})
