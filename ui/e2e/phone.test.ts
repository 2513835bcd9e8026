/**
 * Every page fits on a phone, in Chinese and at night: its lists need no scrolling sideways, and axe finds nothing. On a
 * tablet, no panel collapses.
 */
import { expect, test } from "@playwright/test"
import { accessProblems, api, fresh, STEPS, signIn } from "./people"
import { PASSWORD } from "./setup"

const url = (path = "") => `${process.env.MUSTER_URL}${path}`
const LONG = "a-very-long-name-without-any-blanks-in-it-that-has-to-be-broken-somewhere"

test.use({ viewport: { width: 390, height: 844 }, hasTouch: true })

test("no page is wider than a phone, and no panel collapses on a tablet", async ({ page }) => {
  test.setTimeout(360_000)
  const boss = fresh("phone").replace(" ", "-")
  const post = <T = { id: string }>(path: string, body: unknown) => api()<T>("POST", path, body)
  await post("users", { name: boss, password: PASSWORD, role: "admin", display_name: LONG })
  const team = await post("teams", { name: fresh("crew").replace(" ", "-"), description: LONG })
  await api()("PUT", `teams/${team.id}/members/${boss}`, { role: "leader" })
  const cluster = await post("clusters", {
    name: fresh(LONG).slice(-90),
    sku: { cpu: 1, memory: "1Gi", "example.com/a-long-resource-name": 1 },
    description: LONG,
  })
  await post("storage", { name: fresh(LONG).slice(-90), path: `/${LONG}/${LONG}`, claim: LONG })
  await post("categories", { name: fresh(LONG).slice(-90), description: LONG })
  await post("tokens", { name: LONG })
  const { workflow_id } = await post<{ workflow_id: string }>("workflows", {
    name: fresh(LONG).slice(-90),
    version: { document: STEPS },
  })
  const short = { format: 1, nodes: [{ name: "say", image: "python:3.11", command: `echo ${LONG}; exit 1` }] }
  const small = await post<{ workflow_id: string }>("workflows", { name: fresh("small"), version: { document: short } })
  const run = await post("runs", { workflow: small.workflow_id, name: LONG })
  const [node] = (await api()<{ items: { name: string }[] }>("GET", "nodes")).items

  const wide = async () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth)
  /** The lists that have to be scrolled sideways. */
  const wideLists = async () =>
    page.evaluate(() =>
      [...document.querySelectorAll(".table-or-cards")]
        .map((table) => table.parentElement as HTMLElement)
        .filter((frame) => frame.scrollWidth > frame.clientWidth)
        .map((frame) => `${frame.ariaLabel} by ${frame.scrollWidth - frame.clientWidth}`),
    )
  const found: string[] = []
  const look = async (path: string) => {
    const over = await wide()
    if (over > 0) found.push(`${path} by ${over}`)
    for (const list of await wideLists()) found.push(`${path}: ${list}`)
    for (const problem of await accessProblems(page)) found.push(`${path}: ${problem}`)
  }
  await page.goto(url("/sign-in"))
  await page.evaluate(() => {
    localStorage.setItem("muster.language", "zh")
    localStorage.setItem("muster.theme", "dark")
  })
  await page.reload()
  await expect(page.getByRole("heading").first()).toBeVisible()
  await look("/sign-in")
  await signIn(page, boss)
  const paths = [
    "/",
    "/workflows",
    `/workflows/${workflow_id}`,
    `/workflows/${workflow_id}/versions/1`,
    `/workflows/${workflow_id}/versions/1?tab=yaml`,
    `/workflows/${workflow_id}/versions/1/copy`,
    "/workflows/new",
    "/workflows/new?type=yaml",
    "/runs",
    "/schedules",
    "/pipelines",
    "/pipelines/runs",
    "/pipelines/experiments",
    "/notebooks",
    "/tensorboards",
    "/volumes",
    "/dispatch",
    `/runs/${run.id}?node=say&tab=log`,
    `/runs/${run.id}?node=say&tab=details&view=timeline`,
    `/runs/new?workflow=${workflow_id}`,
    "/modules",
    "/modules/new",
    "/reviews",
    "/jobs",
    "/jobs/new",
    "/cluster",
    "/cluster?tab=nodes",
    "/cluster?tab=queues",
    "/cluster?tab=groups",
    `/cluster/nodes/${node?.name}`,
    `/cluster/virtual/${cluster.id}`,
    ...["users", "teams", "categories", "storage", "clusters", "tokens", "audit"].map((tab) => `/admin?tab=${tab}`),
    "/admin?open=new",
    `/admin?tab=clusters&open=${cluster.id}`,
    `/teams/${team.id}`,
    ...["profile", "password", "tokens", "sessions", "teams"].map((tab) => `/account?tab=${tab}`),
    "/no/such/page",
  ]
  for (const path of paths) {
    await page.goto(url(path))
    await expect(page.getByRole("heading").first()).toBeVisible()
    await expect(page.getByText("加载中…")).toHaveCount(0)
    await look(path)
  }

  await page.evaluate(() => localStorage.setItem("muster.language", "en"))
  await page.setViewportSize({ width: 1024, height: 768 })
  const panel = (role: "region" | "complementary" | "tabpanel", name: string) => page.getByRole(role, { name })
  for (const [path, panels] of [
    [`/runs/${run.id}?node=say&tab=log`, [panel("tabpanel", "Graph"), panel("complementary", "Details")]],
    [`/workflows/${workflow_id}/versions/1?node=train`, [panel("region", "Graph"), panel("complementary", "Details")]],
    ["/workflows/new", [panel("region", "Canvas"), panel("complementary", "Basics")]],
    ["/workflows/new?type=yaml", [page.getByLabel("Argo Workflow"), panel("complementary", "Basics")]],
    ["/jobs/new?example=pytorchjob", [panel("region", "Form"), page.getByLabel("Manifest")]],
  ] as const) {
    await page.goto(url(path))
    for (const [index, each] of panels.entries()) {
      await expect(each).toBeVisible()
      const { width, height } = (await each.boundingBox()) ?? { width: 0, height: 0 }
      if (width < 280 || height < 280) found.push(`${path}: panel ${index} is ${width} by ${height}`)
    }
    if ((await wide()) > 0) found.push(`${path} at 1024 px`)
  }
  expect(found).toEqual([])
})
