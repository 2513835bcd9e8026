import { expect, test as stranger } from "@playwright/test"
import { api, expectAccessible, fresh, signIn, test } from "./people"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`

interface Cluster {
  id: string
  name: string
}

/** A virtual cluster, and a run of ann that uses two of its SKUs. */
async function used(
  page: Parameters<typeof signIn>[0],
): Promise<{ cluster: Cluster; run: string; end: () => Promise<unknown> }> {
  const cluster = await api()<{ id: string; name: string }>("POST", "clusters", {
    name: fresh("small"),
    sku: { cpu: "10m", memory: "16Mi" },
    total: 4,
  })
  const task = { type: "compute", cluster: cluster.name, skus: 2 }
  const document = { format: 1, nodes: [{ name: "wait", image: "python:3.11", command: "sleep 120", task }] }
  const csrf = (await page.context().cookies()).find(({ name }) => name === "muster_csrf")?.value as string
  const post = async (path: string, data: unknown) => {
    const answer = await page.request.post(url(`/api/v1/${path}`), { data, headers: { "X-CSRF-Token": csrf } })
    expect(answer.ok(), await answer.text()).toBe(true)
    return (await answer.json()) as Record<string, string>
  }
  const { workflow_id } = await post("workflows", { name: fresh("sleeper"), version: { document } })
  const run = await post("runs", { workflow: workflow_id, name: "a long one" })
  return { cluster, run: run.id as string, end: () => post(`runs/${run.id}/stop`, {}) }
}

test("SKU usage is shown on the start page, the virtual cluster and the node; names only with permission", async ({
  page,
  browser,
}) => {
  test.setTimeout(180_000)
  const { cluster, end } = await used(page)
  await page.goto(url("/"))
  await expect(page.getByRole("meter", { name: cluster.name })).toHaveAttribute("aria-valuenow", "2")
  await expectAccessible(page)
  await page.getByRole("link", { name: cluster.name }).click()
  await expect(page.getByRole("heading", { name: cluster.name })).toBeVisible()
  await expect(page.getByText("2 of 4", { exact: true })).toBeVisible()
  await expect(page.getByRole("link", { name: "a long one" })).toBeVisible()
  await expect(page.getByRole("img", { name: /in use: 2 now/ })).toBeVisible()
  await expect(page.getByText("Show as table")).toBeVisible({ timeout: 60_000 }) // usage is measured twice a minute
  await page.getByText("Show as table").click()
  await expect(page.getByRole("columnheader", { name: "Peak" })).toBeVisible()
  await page.getByLabel("Time range", { exact: true }).selectOption("1h")
  await expect(page).toHaveURL(/range=1h/)
  await expectAccessible(page)

  await page.getByRole("link", { name: "Cluster", exact: true }).first().click()
  await expect(page.getByText("1 of 1 nodes ready")).toBeVisible()
  await page.getByRole("tab", { name: "Nodes" }).click()
  await expect(page).toHaveURL(url("/cluster?tab=nodes"))
  const node = page.getByRole("region", { name: "Nodes" }).getByRole("link")
  const nodeName = (await node.textContent()) ?? ""
  await expectAccessible(page)
  await node.click()
  await expect(page.getByRole("row", { name: /a long one/ })).toContainText(/run-\w+-wait/)
  await expect(page.getByText("MemoryPressure")).toBeVisible()
  await expectAccessible(page)

  const other = await browser.newPage()
  await signIn(other, "bob")
  await other.goto(url(`/cluster/nodes/${nodeName}`))
  await expect(other.getByRole("row", { name: /a long one/ })).toContainText("Not shared with you")
  await other.close()

  await page.goto(url("/cluster?tab=queues"))
  await expect(page.getByRole("row", { name: new RegExp(cluster.name) })).toContainText("20m CPU")
  await expectAccessible(page)
  await end()
})

test("waiting gangs say why, and filters are in the address", async ({ page }) => {
  await page.goto(url("/cluster?tab=groups&phase=Running"))
  await expect(page.getByLabel("State")).toHaveValue("Running")
  await expect(page.getByText("No results")).toBeVisible()
  await page.getByRole("button", { name: "Clear filters" }).click()
  await expect(page.getByText("No PodGroups")).toBeVisible()
  await expectAccessible(page)
})

stranger("the cluster in Chinese, at night", async ({ browser }) => {
  const context = await browser.newContext()
  await context.addInitScript(() => {
    localStorage.setItem("muster.language", "zh")
    localStorage.setItem("muster.theme", "dark")
  })
  const page = await context.newPage()
  await signIn(page, "ann")
  await page.goto(url("/cluster"))
  await expect(page.getByRole("heading", { name: "集群" })).toBeVisible()
  await expect(page.getByText("1 台机器中 1 台就绪")).toBeVisible()
  await expectAccessible(page)
  await context.close()
})
