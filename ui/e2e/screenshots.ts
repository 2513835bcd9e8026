/** Screenshots of every page in both languages and themes, and on small screens. To add a page, add a line to PAGES. */
import { existsSync } from "node:fs"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, type Page, test } from "@playwright/test"
import { accessProblems, api, STEPS, signIn } from "./people"
import { FILES, newRepository, README } from "./repositories"
import { PASSWORD } from "./setup"

const FOLDER = process.env.SCREENSHOTS ?? fileURLToPath(new URL("../screenshots", import.meta.url))
const url = (path = "") => `${process.env.MUSTER_URL}${path}`

interface Made {
  workflow: string
  /** The workflow of the runs. */
  checked: string
  run: string
  review: string
  cluster: string
  dispatched: string
}

const PAGES: [name: string, path: (made: Made) => string, prepare?: (page: Page) => Promise<unknown>][] = [
  ["home", () => "/"],
  ["workflows", () => "/workflows"],
  ["workflows-nothing-found", () => "/workflows?q=nothing"],
  ["workflow", ({ workflow }) => `/workflows/${workflow}`],
  ["workflow-history", ({ checked }) => `/workflows/${checked}?tab=runs`],
  ["version", ({ workflow }) => `/workflows/${workflow}/versions/2?node=train`],
  ["version-yaml", ({ workflow }) => `/workflows/${workflow}/versions/2?tab=yaml`],
  ["diff", ({ workflow }) => `/workflows/${workflow}/diff?before=1&after=2`],
  ["editor-empty", () => "/workflows/new"],
  [
    "editor",
    ({ workflow }) => `/workflows/${workflow}/new-version`,
    async (page) => {
      await page.locator(".react-flow__node").filter({ hasText: "report" }).click()
      const form = page
        .getByRole("group", { name: /^(Editor|编辑器)$/ })
        .getByRole("button")
        .last()
      if ((page.viewportSize()?.width ?? 0) < 768) await form.click() // on a phone, the form is a pane of its own
      await page.locator("[data-field=command]").fill("echo $nobody && echo done")
      await page.locator("[data-field=image]").fill("")
      await page.waitForTimeout(1500)
    },
  ],
  ["pipelines", () => "/pipelines"],
  ["pipeline-experiments", () => "/pipelines/experiments"],
  ["pipeline-runs", () => "/pipelines/runs"],
  ["pipeline-run-new", () => "/pipelines/runs/new?recurring=true"],
  ["runs", () => "/runs"],
  ["run", ({ run }) => `/runs/${run}?node=check&tab=log`],
  ["run-timeline", ({ run }) => `/runs/${run}?node=check&tab=details&view=timeline`],
  ["run-new", ({ workflow }) => `/runs/new?workflow=${workflow}`],
  ["modules", () => "/modules"],
  ["modules-nothing-found", () => "/modules?q=nothing"],
  ["module", () => "/modules/hash-text"],
  ["module-parameters", () => "/modules/hash-text?tab=parameters"],
  ["module-versions", () => "/modules/hash-text?tab=versions"],
  ["module-failed", () => "/modules/clean-corpus"],
  ["module-private", () => "/modules/split-dataset?tab=log"],
  ["module-new", () => "/modules/new", (page) => page.locator("main button[type=submit]").click()],
  ["module-edit", () => "/modules/split-dataset/edit"],
  ["reviews", () => "/reviews?state=all"],
  ["review", ({ review }) => `/reviews/${review}`],
  ["review-source", ({ review }) => `/reviews/${review}?tab=source`],
  ["schedules", () => "/schedules"],
  ["schedule", () => "/schedules/user-ann/nightly-report"],
  ["schedule-new", () => "/schedules/new"],
  ["jobs", () => "/jobs"],
  ["job", () => "/jobs/user-ann/pytorchjob/resnet-finetune"],
  ["job-logs", () => "/jobs/user-ann/pytorchjob/resnet-finetune?tab=logs"],
  ["job-events", () => "/jobs/user-ann/pytorchjob/resnet-finetune?tab=events"],
  ["job-yaml", () => "/jobs/user-ann/pytorchjob/resnet-finetune?tab=yaml"],
  ["job-usage", () => "/jobs/user-ann/pytorchjob/resnet-finetune?tab=usage"],
  ["job-form", () => "/jobs/new?example=pytorchjob"],
  ["job-failed", () => "/jobs/user-ann/pytorchjob/mnist-from-nowhere"],
  ["job-waiting", () => "/jobs/user-ann/pytorchjob/llm-pretrain"],
  [
    "job-new",
    () => "/jobs/new?example=pytorchjob",
    async (page) => {
      const field = page.locator("textarea").last() // the manifest, below the form
      await field.fill((await field.inputValue()).replace("replicas: 2", "replicas: two"))
      await page.locator("[data-mark]").waitFor()
    },
  ],
  ["dispatch", () => "/dispatch"],
  ["dispatch-job", ({ dispatched }) => `/dispatch/${dispatched}`],
  ["dispatch-job-log", ({ dispatched }) => `/dispatch/${dispatched}?tab=log`],
  ["notebooks", () => "/notebooks"],
  ["notebook", () => "/notebooks/user-ann/research"],
  ["notebook-new", () => "/notebooks/new"],
  ["tensorboards", () => "/tensorboards"],
  ["tensorboard", () => "/tensorboards/user-ann/curves"],
  ["volumes", () => "/volumes"],
  ["volume", () => "/volumes/user-ann/datasets?path=mnist"],
  ["cluster", () => "/cluster"],
  ["cluster-nodes", () => "/cluster?tab=nodes"],
  ["cluster-queues", () => "/cluster?tab=queues"],
  ["cluster-virtual", ({ cluster }) => `/cluster/virtual/${cluster}?range=1h`],
  ["account-tokens", () => "/account?tab=tokens"],
  ["account-notifications", () => "/account?tab=notifications"],
  ["account-teams", () => "/account?tab=teams"],
  ["import", () => "/workflows/new?type=yaml"],
  ["not-found", () => "/no/such/page"],
]

function pytorch(name: string, command: string, workers: number, gpus = 0): string {
  const container = { name: "pytorch", image: "python:3.11", command: ["sh", "-c", command] }
  const limits = gpus ? { resources: { limits: { "nvidia.com/gpu": gpus } } } : {}
  const replica = { restartPolicy: "Never", template: { spec: { containers: [{ ...container, ...limits }] } } }
  const runPolicy = gpus ? { schedulingPolicy: { minAvailable: workers + 1 } } : {}
  const spec = { runPolicy, pytorchReplicaSpecs: { Master: replica, Worker: { replicas: workers, ...replica } } }
  return JSON.stringify({ apiVersion: "kubeflow.org/v1", kind: "PyTorchJob", metadata: { name }, spec })
}

const NIGHTLY = `apiVersion: argoproj.io/v1alpha1
kind: Workflow
metadata: {generateName: nightly-}
spec:
  entrypoint: say
  templates:
  - {name: say, container: {image: "python:3.11", command: [echo, done]}}
`

const JOBS = [
  pytorch("resnet-finetune", 'for i in $(seq 1 900); do echo "epoch $i, rank $RANK: loss 0.$i"; sleep 1; done', 3),
  pytorch("mnist-from-nowhere", "echo reading /data/mnist; echo FileNotFoundError: /data/mnist >&2; exit 3", 1),
  pytorch("llm-pretrain", "true", 7, 8),
]

const BOSS = "boss"
const ADMIN_PAGES: typeof PAGES = [
  ["admin-users", () => "/admin"],
  ["admin-user-new", () => "/admin?open=new"],
  ["admin-team", () => "/teams/vision"],
  ["admin-storage", () => "/admin?tab=storage"],
  ["admin-clusters", () => "/admin?tab=clusters"],
  ["admin-cluster-edit", ({ cluster }) => `/admin?tab=clusters&open=${cluster}`],
  ["admin-tokens", () => "/admin?tab=tokens"],
  ["admin-audit", () => "/admin?tab=audit"],
  [
    "cluster-node",
    () => "/cluster?tab=nodes",
    (page) => page.getByRole("main").getByRole("region").getByRole("link").first().click(),
  ],
]

async function make(page: Page): Promise<Made> {
  const csrf = (await page.context().cookies()).find((cookie) => cookie.name === "muster_csrf")?.value as string
  const post = async (path: string, data: unknown) =>
    (await (
      await page.request.post(url(`/api/v1/${path}`), { data, headers: { "X-CSRF-Token": csrf } })
    ).json()) as Record<string, string>
  const texts = [
    ["MNIST 训练", "Prepare the data, train with four replicas, report"],
    ["Nightly evaluation", "Evaluates the latest model on yesterday's data"],
    ["数据清洗", "清洗并划分数据集"],
    ["Embedding refresh", ""],
  ]
  let workflow = ""
  for (const [name, description] of texts) {
    const stored = await post("workflows", { name, description, version: { document: STEPS } })
    workflow ||= stored.workflow_id as string
  }
  const [first, ...rest] = STEPS.nodes
  const nodes = [{ ...first, command: "echo $greeting | tr a-z A-Z > /tmp/said" }, ...rest]
  await post(`workflows/${workflow}/versions`, { description: "louder", document: { ...STEPS, nodes } })
  const check = "for i in 1 2 3; do echo checking part $i; done; exit 1"
  const short = {
    format: 1,
    nodes: [
      { name: "prepare", image: "python:3.11", command: "echo ready; sleep 1" },
      { name: "train", image: "python:3.11", command: "for i in 1 2 3; do echo epoch $i; sleep 1; done" },
      { name: "check", image: "python:3.11", command: check, retries: 1 },
      { name: "publish", image: "python:3.11", command: "echo published" },
    ],
    edges: [
      { from: "prepare", to: "train" },
      { from: "prepare", to: "check" },
      { from: "train", to: "publish" },
      { from: "check", to: "publish" },
    ],
  }
  const { workflow_id } = await post("workflows", { name: "Release check", version: { document: short } })
  const { id: run } = await post("runs", { workflow: workflow_id, name: "Release check, Monday" })
  await post("runs", { workflow: workflow_id, name: "Release check, Tuesday" })
  for (const manifest of JOBS) await post("jobs", { manifest })
  await post("webhooks", {
    name: "Team chat",
    url: "https://hooks.example.com/services/T0/B0",
    states: ["failed", "stopped"],
  })
  await post("schedules", {
    name: "nightly-report",
    schedules: ["0 3 * * *"],
    timezone: "Europe/Berlin",
    manifest: NIGHTLY,
  })
  const dispatched = await makeDispatched(post)
  await makeVolumes(page, post, csrf)
  const cluster = await makeResources()
  await page.waitForTimeout(12_000)
  return {
    workflow,
    checked: workflow_id as string,
    run: run as string,
    review: await makeModules(post),
    cluster,
    dispatched,
  }
}

/** Creates volumes, one of them with files; a notebook that starts, one that is stopped, and a TensorBoard. */
async function makeVolumes(
  page: Page,
  post: (path: string, data: unknown) => Promise<Record<string, string>>,
  csrf: string,
): Promise<void> {
  await post("volumes", { name: "checkpoints", size: "200Gi" })
  await post("volumes", { name: "datasets", size: "50Gi" })
  const place = "volumes/user-ann/datasets"
  while (((await (await page.request.get(url(`/api/v1/${place}`))).json()) as { state: string }).state !== "bound")
    await page.waitForTimeout(100)
  await post("notebooks", { name: "research", mounts: [{ claim: "datasets" }] })
  await post("notebooks", { name: "vision", image: "pytorch", gpus: 1 })
  await post("notebooks/user-ann/vision/stop", {})
  await post("tensorboards", { name: "curves", logs: [{ path: "pvc://datasets/logs" }] })
  for (const path of ["mnist", "mnist/raw", "mnist/处理后"]) await post(`${place}/folders`, { path })
  for (const [path, size] of [
    ["mnist/train.bin", 47_040_016],
    ["mnist/labels.csv", 60_008],
    ["mnist/README.md", 812],
  ])
    await page.request.put(url(`/api/v1/${place}/files/content?path=${path}`), {
      data: Buffer.alloc(size as number),
      headers: { "X-CSRF-Token": csrf },
    })
}

/** Creates jobs of the dispatcher that run, wait and fail. Returns the one that fails. */
async function makeDispatched(post: (path: string, data: unknown) => Promise<Record<string, string>>): Promise<string> {
  const job = (name: string, command: string, more = {}) =>
    post("dispatch/jobs", { name, image: "python:3.11", command: ["sh", "-c", command], ...more })
  await job("nightly-evaluation", "for i in $(seq 1 900); do echo batch $i; sleep 1; done", { priority: 10 })
  await job("llm-pretrain-8x", "true", { resources: { gpu: 8 } })
  await post("dispatch/jobs", { name: "resnet-on-two", manifest: JOBS[0] })
  const failing = await job("tokenize-corpus", "echo reading the corpus; echo 'KeyError: text' >&2; exit 1")
  return failing.id as string
}

/** Creates modules in several states, and reviews for ann to decide. Returns the pending one. */
async function makeModules(post: (path: string, data: unknown) => Promise<Record<string, string>>): Promise<string> {
  const admin = api()
  for (const name of ["数据处理", "Evaluation"]) await admin("POST", "categories", { name })
  await admin("POST", "teams", { name: "nlp" })
  await admin("PUT", "teams/nlp/members/ann", { role: "leader" })
  const hash = newRepository("hash-text")
  const broken = newRepository("clean-corpus", { ...FILES, Dockerfile: "FROM python:3.11-slim\nCMD python3 main.py\n" })
  const inputs = [{ name: "text", description: "what to hash" }]
  const outputs = [{ name: "digest", path: "/tmp/workflow_space/digest.txt", description: "SHA-256 in hexadecimal" }]
  const module = { category: "数据处理", git_ref: "main", git_url: hash.path, inputs, outputs, team: "nlp" }
  const env = [
    { name: "LEVEL", value: "info" },
    { name: "ACCESS_KEY", value: "hunter2" },
  ]
  await admin("POST", "modules", { ...module, name: "hash-text", description: "Answers the SHA-256 of a text", env })
  await admin("POST", "modules", {
    ...module,
    name: "tokenize",
    category: "Evaluation",
    description: "将文本切分为词元，支持中文与英文",
  })
  await post("modules", {
    ...module,
    name: "split-dataset",
    description: "Splits a dataset into train, validation and test parts",
  })
  await post("modules", { ...module, name: "clean-corpus", git_url: broken.path, description: "去除重复与空白样本" })
  for (const name of ["hash-text", "tokenize", "split-dataset", "clean-corpus"]) await built(name)
  for (const [name, decision, reason] of [
    ["hash-text", "approve", ""],
    ["tokenize", "reject", "The readme does not say which languages it knows"],
  ] as const) {
    const asked = await admin<{ id: string }>("POST", `modules/${name}/versions/1/review`, {
      message: "Ready for everybody",
    })
    await post(`reviews/${asked.id}/${decision}`, { reason })
  }
  hash.commit({ "README.md": `${README}\n## Limits\n\nTexts of up to 1 MB.\n` })
  await admin("PATCH", "modules/hash-text", {
    inputs: [...inputs, { name: "salt", description: "put before the text" }],
  })
  await built("hash-text")
  return (
    await admin<{ id: string }>("POST", "modules/hash-text/versions/2/review", { message: "It takes a salt now" })
  ).id

  async function built(name: string): Promise<void> {
    while ((await admin<{ state: string }>("GET", `modules/${name}/versions/latest`)).state === "building")
      await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** The names of the pages to look at, separated by commas; all if it is not set. */
const ONLY = process.env.PAGES?.split(",") ?? []

/** What the pages show, made once for a server: a test that fails gets the next one a process of its own. */
async function madeOnce(page: Page): Promise<Made> {
  const file = join(process.env.MUSTER_REPOSITORIES as string, "made.json") // goes with the server
  if (existsSync(file)) return JSON.parse(await readFile(file, "utf8")) as Made
  const made = await make(page)
  await writeFile(file, JSON.stringify(made))
  return made
}

for (const language of ["en", "zh"])
  for (const theme of ["light", "dark"])
    for (const width of language === "en" && theme === "light" ? [1440, 1024, 390] : [1440, 390])
      test(`screenshots, ${language}, ${theme}, ${width} px`, async ({ browser }) => {
        await mkdir(FOLDER, { recursive: true })
        const context = await browser.newContext({ viewport: { width, height: width < 500 ? 844 : 900 } })
        await context.addInitScript(
          ([language, theme]) => {
            localStorage.setItem("muster.language", language as string)
            localStorage.setItem("muster.theme", theme as string)
          },
          [language, theme],
        )
        const page = await context.newPage()
        const wrong: string[] = []
        const shoot = async (name: string) => {
          const size = width === 1440 ? "" : `.${width}`
          await page.screenshot({ path: `${FOLDER}/${name}.${language}.${theme}${size}.png` })
          wrong.push(...(await accessProblems(page)).map((problem) => `${name}: ${problem}`))
        }
        await page.goto(url("/sign-in"))
        await page.waitForLoadState("networkidle")
        await shoot("sign-in")
        await signIn(page, "ann")
        const made = await madeOnce(page)
        for (const [user, pages] of [
          ["ann", PAGES],
          [BOSS, ADMIN_PAGES],
        ] as const) {
          await signIn(page, user)
          for (const [name, path, prepare] of pages.filter(([name]) => !ONLY.length || ONLY.includes(name))) {
            await page.goto(url(path(made)))
            await page.waitForLoadState("networkidle")
            // One page that cannot be prepared hides no finding of the others.
            await prepare?.(page)?.catch((error) => wrong.push(`${name}: ${error}`))
            await page.waitForTimeout(300)
            await shoot(name)
          }
        }
        await context.close()
        expect(wrong).toEqual([])
      })

/** Creates what admins manage: a team, virtual clusters (one in use), storage. */
async function makeResources(): Promise<string> {
  const admin = api()
  await admin("POST", "users", { name: BOSS, password: PASSWORD, role: "admin", display_name: "Grace Chen" })
  await admin("POST", "users", { name: "dora", display_name: "Dora Li", email: "dora@example.com" })
  await admin("POST", "teams", { name: "vision", description: "Images and video" })
  await admin("PUT", "teams/vision/members/ann", { role: "leader" })
  await admin("PUT", "teams/vision/members/bob", { role: "member" })
  const cluster = await admin<{ id: string }>("POST", "clusters", {
    name: "CPU",
    sku: { cpu: "100m", memory: "64Mi" },
    total: 8,
    description: "For everyday work",
  })
  await admin("POST", "clusters", {
    name: "RTX2080x8",
    sku: { gpu: 1, cpu: 10, memory: "80G" },
    team: "vision",
    total: 8,
  })
  await admin("POST", "storage", { name: "datasets", path: "/nfs/data", description: "共享数据", read_only: true })
  await admin("POST", "storage", { name: "scratch", path: "/scratch", claim: "scratch", team: "vision" })
  const task = { type: "compute", cluster: "CPU", skus: 3 }
  const document = { format: 1, nodes: [{ name: "serve", image: "python:3.11", command: "sleep 900", task }] }
  const { workflow_id } = await admin<{ workflow_id: string }>("POST", "workflows", {
    name: "Feature server",
    version: { document },
  })
  await admin("POST", "runs", { workflow: workflow_id })
  return cluster.id
}
