/** What a browser loads on its first visit. */
import { expect } from "@playwright/test"
import { fresh, posted, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const MOST_BYTES = 400_000

test("the list of runs loads less than 400 kB of compressed JavaScript", { tag: "@smoke" }, async ({ page }) => {
  const name = fresh("first load")
  const document = { format: 1, nodes: [{ name: "only", image: "python:3.11", command: "true" }] }
  const { workflow_id } = await posted(page, "workflows", { name, version: { document } })
  await posted(page, "runs", { workflow: workflow_id, name })
  const scripts: { path: string; bytes: Promise<number>; packed: boolean; kept: boolean }[] = []
  page.on("response", (response) => {
    const headers = response.headers()
    if (!headers["content-type"]?.includes("javascript")) return
    scripts.push({
      path: new URL(response.url()).pathname,
      // The bytes on the wire, not after decompression.
      bytes: response
        .request()
        .sizes()
        .then(({ responseBodySize }) => responseBodySize),
      packed: headers["content-encoding"] === "gzip",
      kept: headers["cache-control"]?.includes("immutable") ?? false,
    })
  })
  await page.goto(url("/runs"))
  await expect(page.getByRole("link", { name, exact: true }).first()).toBeVisible()
  const sizes = await Promise.all(scripts.map(async ({ path, bytes }) => ({ path, bytes: await bytes })))
  const whole = sizes.reduce((sum, { bytes }) => sum + bytes, 0)
  console.log(`the list of runs loads ${(whole / 1000).toFixed(0)} kB of JavaScript in ${sizes.length} files`)
  expect(whole).toBeGreaterThan(50_000)
  expect(whole, JSON.stringify(sizes)).toBeLessThan(MOST_BYTES)
  const large = new Set(sizes.filter(({ bytes }) => bytes > 2_000).map(({ path }) => path))
  expect(scripts.filter(({ path, packed }) => large.has(path) && !packed)).toEqual([])
  expect(scripts.filter(({ kept }) => !kept)).toEqual([])
  expect(sizes.filter(({ path }) => /elk|layout-/.test(path))).toEqual([])
})
