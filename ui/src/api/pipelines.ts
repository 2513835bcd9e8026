/** Kubeflow Pipelines' API (v2beta1): pipelines, experiments, runs and recurring runs. */
import { queryOptions } from "@tanstack/react-query"
import { cookie, reload, sessionExpired } from "./client"
import { Problem } from "./problem"

const ROOT = "/apis/v2beta1/"
const POLL_MILLISECONDS = 2000
const OPTIONS = 200

export type StorageState = "AVAILABLE" | "ARCHIVED"
export type RunState = "PENDING" | "RUNNING" | "SUCCEEDED" | "FAILED" | "CANCELING" | "CANCELED" | "SKIPPED" | "PAUSED"
export type Value = string | number | boolean | null | Value[] | { [name: string]: Value }

export interface Pipeline {
  pipeline_id: string
  display_name: string
  name: string
  description?: string
  created_at: string
  namespace: string
  /** What the user may do, by the names of the rules; none if it is left out. */
  may?: string[]
}

export interface PipelineVersion {
  pipeline_id: string
  pipeline_version_id: string
  display_name: string
  name: string
  description?: string
  created_at: string
  pipeline_spec?: Record<string, unknown>
}

export interface Experiment {
  experiment_id: string
  display_name: string
  description?: string
  created_at: string
  namespace: string
  storage_state: StorageState
  last_run_created_at?: string
  /** What the user may do, by the names of the rules; none if it is left out. */
  may?: string[]
}

/** What runs and recurring runs are made from. */
export interface Source {
  display_name: string
  description?: string
  experiment_id?: string
  pipeline_spec?: Record<string, unknown>
  pipeline_version_reference?: { pipeline_id: string; pipeline_version_id?: string }
  runtime_config?: { parameters?: Record<string, Value>; pipeline_root?: string }
}

export interface PipelineRun extends Source {
  run_id: string
  experiment_id: string
  storage_state: StorageState
  created_at: string
  scheduled_at?: string
  finished_at?: string
  state: RunState
  error?: { message: string }
  recurring_run_id?: string
  namespace?: string
  /** How often it was retried. */
  retries?: number
  /** What the user may do, by the names of the rules; none if it is left out. */
  may?: string[]
  state_history?: { update_time: string; state: RunState; error?: { message: string } }[]
}

export interface Trigger {
  cron_schedule?: { cron: string; start_time?: string; end_time?: string }
  periodic_schedule?: { interval_second: string; start_time?: string; end_time?: string }
}

export interface RecurringRun extends Source {
  recurring_run_id: string
  experiment_id: string
  created_at: string
  trigger: Trigger
  max_concurrency: string
  no_catchup?: boolean
  status: "ENABLED" | "DISABLED"
  error?: { message: string }
  namespace: string
  /** What the user may do, by the names of the rules; none if it is left out. */
  may?: string[]
}

export interface Artifact {
  name: string
  uri: string
  type: { schemaTitle?: string; instanceSchema?: string }
  metadata: Record<string, Value>
}

export interface TaskValues {
  parameterValues: Record<string, Value>
  artifacts?: Record<string, { artifacts: Artifact[] }>
}

/** A task, iteration or nested pipeline of a run. */
export interface RunTask {
  task_id: string
  display_name: string
  state: "PENDING" | "RUNNING" | "SUCCEEDED" | "SKIPPED" | "FAILED"
  parent_task_id?: string
  start_time?: string
  end_time?: string
  error?: { message: string }
  node: {
    name: string
    kind: "root" | "dag" | "loop" | "container" | "importer" | "skipped"
    component: string
    iteration: number | null
    cached: boolean
    attempts: string[]
    inputs: TaskValues
    outputs: TaskValues
  }
}

export function isOver(state: RunState | RunTask["state"]): boolean {
  return state === "SUCCEEDED" || state === "FAILED" || state === "CANCELED" || state === "SKIPPED"
}

interface ListQuery {
  q?: string
  /** Equal to these values. */
  where?: Record<string, string | undefined>
  experiment?: string
  /** Everything that the user may see, unless one is given; '' for their own. */
  namespace?: string
  /** `name`, or `-name` for descending. */
  sort?: string
  cursor?: string
  limit?: number
}

/** The query parameters of a list: a search is a filter on the name. */
export function listParameters(query: ListQuery) {
  const { q, where = {}, experiment, namespace = "-", sort = "", cursor, limit = 50 } = query
  const predicates = Object.entries(where)
    .filter(([, value]) => value)
    .map(([key, value]) => ({ operation: "EQUALS", key, string_value: value }))
  const search = q ? [{ operation: "IS_SUBSTRING", key: "display_name", string_value: q }] : []
  const all = [...predicates, ...search]
  const order = sort.startsWith("-") ? `${sort.slice(1)} desc` : sort
  return new URLSearchParams({
    ...(experiment ? { experiment_id: experiment } : { namespace }),
    page_size: String(limit),
    ...(order ? { sort_by: order } : {}),
    ...(all.length ? { filter: JSON.stringify({ predicates: all }) } : {}),
    ...(cursor ? { page_token: cursor } : {}),
  })
}

async function send<T>(
  method: string,
  path: string,
  { body, signal }: { body?: unknown; signal?: AbortSignal } = {},
): Promise<T> {
  const headers: Record<string, string> = method === "GET" ? {} : { "X-CSRF-Token": cookie("muster_csrf") ?? "" }
  const isForm = body instanceof FormData
  if (body !== undefined && !isForm) headers["Content-Type"] = "application/json"
  const sent = isForm ? body : body === undefined ? undefined : JSON.stringify(body)
  const response = await fetch(ROOT + path, { method, headers, body: sent, signal })
  if (!response.ok) throw await problemOf(response)
  return (await response.json()) as T
}

const KINDS: Record<number, string> = {
  400: "invalid",
  401: "unauthenticated",
  403: "forbidden",
  404: "not-found",
  409: "conflict",
  429: "too-many-requests",
  503: "unavailable",
}

interface ErrorInfo {
  reason?: string
  metadata?: { field?: string; message?: string; arguments?: string }
}

async function problemOf(response: Response): Promise<Problem> {
  if (response.status === 401) sessionExpired()
  return grpcProblem(response.status, response.statusText, await response.text())
}

/** This API has errors of gRPC: `{code, message, details}`. A detail has the code of a message, and its values. */
export function grpcProblem(status: number, title: string, text: string): Problem {
  const kind = KINDS[status] ?? "http"
  try {
    const said = JSON.parse(text) as { message?: string; details?: ErrorInfo[] }
    const errors = (said.details ?? []).map(({ reason, metadata }) => ({
      field: metadata?.field ?? "",
      message: metadata?.message ?? "",
      code: reason,
      arguments: metadata?.arguments ? (JSON.parse(metadata.arguments) as Record<string, unknown>) : null,
    }))
    const [first] = errors
    const sentence = errors.length === 1 && first ? { code: first.code, arguments: first.arguments } : {}
    return new Problem(
      status,
      kind,
      title,
      String(said.message ?? ""),
      errors.filter(({ field }) => field),
      sentence,
    )
  } catch {
    // It is not from this API: for example from a proxy in front of it.
    return new Problem(status, kind, title, text.slice(0, 500))
  }
}

const part = (text: string) => encodeURIComponent(text)

async function page<T>(path: string, key: string, query: URLSearchParams, signal: AbortSignal) {
  const found = await send<Record<string, unknown>>("GET", `${path}?${query}`, { signal })
  return {
    items: (found[key] ?? []) as T[],
    next: (found.next_page_token as string | undefined) ?? null,
    total: Number(found.total_size ?? 0),
  }
}

function listQuery<T>(path: string, key: string, query: ListQuery, kind = path) {
  return queryOptions({
    queryKey: ["kfp", kind, "list", query],
    queryFn: ({ signal }) => page<T>(path, key, listParameters(query), signal),
  })
}

function oneQuery<T>(kind: string, path: string) {
  return queryOptions({
    queryKey: ["kfp", kind, "one", path],
    queryFn: ({ signal }) => send<T>("GET", path, { signal }),
  })
}

export const pipelinesQuery = (query: ListQuery) => listQuery<Pipeline>("pipelines", "pipelines", query)
export const pipelineQuery = (id: string) => oneQuery<Pipeline>("pipelines", `pipelines/${part(id)}`)
export const experimentsQuery = (query: ListQuery) => listQuery<Experiment>("experiments", "experiments", query)
export const experimentQuery = (id: string) => oneQuery<Experiment>("experiments", `experiments/${part(id)}`)
export const recurringRunsQuery = (query: ListQuery) => listQuery<RecurringRun>("recurringruns", "recurringRuns", query)
export const recurringRunQuery = (id: string) => oneQuery<RecurringRun>("recurringruns", `recurringruns/${part(id)}`)

/** What a form offers: the first ones by name. */
export const pipelineOptionsQuery = pipelinesQuery({ sort: "display_name", limit: OPTIONS })
export const experimentOptionsQuery = experimentOptions()

/** Those of one namespace, or all. */
export function experimentOptions(namespace?: string) {
  return experimentsQuery({
    sort: "display_name",
    limit: OPTIONS,
    where: { storage_state: "AVAILABLE" },
    ...(namespace === undefined ? {} : { namespace }),
  })
}

export const runsQuery = (query: ListQuery) => ({
  ...listQuery<PipelineRun>("runs", "runs", query),
  refetchInterval: POLL_MILLISECONDS,
})

export const runQuery = (id: string) =>
  queryOptions({
    ...oneQuery<PipelineRun>("runs", `runs/${part(id)}`),
    refetchInterval: ({ state }) => (state.data && isOver(state.data.state) ? false : POLL_MILLISECONDS),
  })

/** `over`: whether the run has ended, so that its tasks do not change any more. */
export const runTasksQuery = (id: string, over: boolean) =>
  queryOptions({
    queryKey: ["kfp", "runs", "tasks", id, over],
    queryFn: async ({ signal }) => {
      const found = await send<{ nodes?: RunTask[] }>("GET", `runs/${part(id)}/nodes`, { signal })
      return found.nodes ?? []
    },
    placeholderData: (before) => before,
    refetchInterval: over ? false : POLL_MILLISECONDS,
  })

/** The versions of a pipeline, newest first, with their specs. */
export const versionsQuery = (pipeline: string) =>
  queryOptions({
    queryKey: ["kfp", "pipelines", "versions", pipeline],
    queryFn: ({ signal }) =>
      page<PipelineVersion>(
        `pipelines/${part(pipeline)}/versions`,
        "pipeline_versions",
        new URLSearchParams({ page_size: String(OPTIONS), sort_by: "created_at desc" }),
        signal,
      ),
  })

export const versionQuery = (pipeline: string, version: string) => ({
  ...oneQuery<PipelineVersion>("pipelines", `pipelines/${part(pipeline)}/versions/${part(version)}`),
  staleTime: Number.POSITIVE_INFINITY,
})

/** A live log as a text; finished logs are read by the log viewer. */
export const logQuery = (address: string) =>
  queryOptions({
    queryKey: ["kfp", "log", address],
    queryFn: async ({ signal }) => {
      const response = await fetch(address, { signal })
      if (!response.ok) throw await problemOf(response)
      return response.text()
    },
    refetchInterval: POLL_MILLISECONDS,
  })

/** `round`: how often the run had been retried, if the log is of a Pod that a retry replaced. */
export function logAddress(run: string, task: string, attempt: number, round?: number): string {
  const earlier = round === undefined ? "" : `&round=${round}`
  return `${ROOT}runs/${part(run)}/nodes/${part(task)}/log?attempt=${attempt}${earlier}`
}

/** The content of an output artifact. `at` is its position, if the output is a list. */
export function artifactAddress(run: string, task: string, name: string, at = 0): string {
  return `${ROOT}runs/${part(run)}/nodes/${part(task)}/artifacts/${part(at ? `${name}[${at}]` : name)}`
}

/** That a task of a run wrote an artifact, or read it. */
export interface ArtifactUse {
  run_id: string
  task_id: string
  direction: "input" | "output"
  key: string
}

/** Which tasks wrote and read an artifact, in all runs. Known when a run has ended. */
export const artifactUsesQuery = (uri: string) =>
  queryOptions({
    queryKey: ["kfp", "runs", "artifact-uses", uri],
    queryFn: async ({ signal }) => {
      const found = await send<{ artifacts?: ArtifactUse[] }>("GET", `artifacts?${new URLSearchParams({ uri })}`, {
        signal,
      })
      return found.artifacts ?? []
    },
  })

const LARGEST_SHOWN = 5_000_000

/** The content of an artifact as text, if it is small enough to be shown. */
export const artifactTextQuery = (address: string) =>
  queryOptions({
    queryKey: ["kfp", "artifact", address],
    queryFn: async ({ signal }) => {
      const response = await fetch(address, { signal })
      if (!response.ok) throw await problemOf(response)
      const text = await response.text()
      if (text.length > LARGEST_SHOWN) throw new Problem(413, "too-large", "", "The artifact is too large to be shown.")
      return text
    },
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  })

function changed(...kinds: string[]): void {
  void reload(...kinds.map((kind) => ["kfp", kind]))
}

interface NewPackage {
  file: File
  name: string
  description: string
}

function upload<T>(path: string, { file, name, description }: NewPackage, more: Record<string, string>): Promise<T> {
  const form = new FormData()
  form.append("uploadfile", file)
  const query = new URLSearchParams(Object.entries({ name, description, ...more }).filter(([, value]) => value))
  return send<T>("POST", `pipelines/${path}?${query}`, { body: form })
}

export async function uploadPipeline(sent: NewPackage, namespace: string): Promise<Pipeline> {
  const made = await upload<Pipeline>("upload", sent, { namespace })
  changed("pipelines")
  return made
}

export async function uploadVersion(sent: NewPackage, pipeline: string): Promise<PipelineVersion> {
  const made = await upload<PipelineVersion>("upload_version", sent, { pipelineid: pipeline })
  changed("pipelines")
  return made
}

export async function deletePipeline(id: string): Promise<void> {
  await send("DELETE", `pipelines/${part(id)}?cascade=true`)
  changed("pipelines")
}

export async function deleteVersion(pipeline: string, version: string): Promise<void> {
  await send("DELETE", `pipelines/${part(pipeline)}/versions/${part(version)}`)
  changed("pipelines")
}

export async function createExperiment(body: {
  display_name: string
  description: string
  namespace: string
}): Promise<Experiment> {
  const made = await send<Experiment>("POST", "experiments", { body })
  changed("experiments")
  return made
}

export async function createRun(body: Source): Promise<PipelineRun> {
  const made = await send<PipelineRun>("POST", "runs", { body })
  changed("runs", "experiments")
  return made
}

export async function createRecurringRun(
  body: Source & { trigger: Trigger; max_concurrency: string; no_catchup: boolean; mode: "ENABLE" | "DISABLE" },
): Promise<RecurringRun> {
  const made = await send<RecurringRun>("POST", "recurringruns", { body })
  changed("recurringruns")
  return made
}

type Verb = "archive" | "unarchive" | "terminate" | "retry" | "enable" | "disable"

/** Calls a method such as `runs/ID:retry`. */
export async function act(kind: "runs" | "experiments" | "recurringruns", id: string, verb: Verb): Promise<void> {
  await send("POST", `${kind}/${part(id)}:${verb}`)
  changed(kind, "runs")
}

export async function remove(kind: "runs" | "experiments" | "recurringruns", id: string): Promise<void> {
  await send("DELETE", `${kind}/${part(id)}`)
  changed(kind)
}
