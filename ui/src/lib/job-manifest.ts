/**
 * What the form of a training job shows of its manifest, and how it changes it. The text is the truth: a change keeps
 * comments and fields that the form does not know. Where a kind has its roles is what the server says.
 */
import { Document, isAlias, isCollection, isMap, isScalar, isSeq, type Node, parseAllDocuments, visit } from "yaml"

export interface JobKind {
  word: string
  kind: string
  api_version: string
  container: string
  roles: { name: string; path: string[] }[]
  restart_path: string[]
  restart_policies: string[]
  default_restart: string
}

export type Path = (string | number)[]

export interface FormVariable {
  name: string
  value: string
}

export interface FormRole {
  name: string
  /** Where the manifest has it, or would have it. */
  path: Path
  /** Where its training container is. */
  container: Path
  isThere: boolean
  /** Undefined if the manifest leaves it out. */
  replicas?: string
  image: string
  command: string
  restart: string
  restartPath: Path
  limits: Record<string, string>
  env: FormVariable[]
  /** The number of variables whose values come from elsewhere. They are kept. */
  otherEnv: number
}

export interface FormJob {
  kind: JobKind
  name: string
  roles: FormRole[]
}

export type ReadJob =
  | { state: "job"; job: FormJob }
  /** The form cannot show it: nothing is written, it is no YAML, it has several documents, or another kind. */
  | { state: "empty" | "unreadable" | "several" | "unknown" }

export function readJob(text: string, kinds: readonly JobKind[]): ReadJob {
  if (!text.trim()) return { state: "empty" }
  const document = only(text)
  if (typeof document === "string") return { state: document }
  const root = document.toJS() as unknown
  const kind = kinds.find((each) => each.kind === at(root, ["kind"]) && each.api_version === at(root, ["apiVersion"]))
  if (!kind) return { state: "unknown" }
  const roles = kind.roles.map((role) => readRole(root, kind, role))
  return { state: "job", job: { kind, name: asText(at(root, ["metadata", "name"])), roles } }
}

function readRole(root: unknown, kind: JobKind, { name, path: wanted }: JobKind["roles"][number]): FormRole {
  const path = written(root, wanted)
  const role = at(root, path)
  const list = at(role, ["template", "spec", "containers"])
  const containers = Array.isArray(list) ? list : []
  const named = containers.findIndex((each) => at(each, ["name"]) === kind.container)
  const index = Math.max(0, named)
  const trainer = containers[index] as unknown
  const variables = at(trainer, ["env"])
  const env = (Array.isArray(variables) ? variables : []) as unknown[]
  const plain = env.filter((each) => at(each, ["valueFrom"]) === undefined)
  const limits = at(trainer, ["resources", "limits"])
  return {
    name,
    path,
    container: [...path, "template", "spec", "containers", index],
    isThere: isObject(role),
    replicas: at(role, ["replicas"]) === undefined ? undefined : asText(at(role, ["replicas"])),
    image: asText(at(trainer, ["image"])),
    command: commandText(at(trainer, ["command"])),
    restart: asText(at(role, kind.restart_path)),
    restartPath: [...path, ...kind.restart_path],
    limits: isObject(limits)
      ? Object.fromEntries(Object.entries(limits).map(([key, value]) => [key, asText(value)]))
      : {},
    env: plain.map((each) => ({ name: asText(at(each, ["name"])), value: asText(at(each, ["value"])) })),
    otherEnv: env.length - plain.length,
  }
}

/** The path of a role as it is written: `worker` is `Worker`. */
function written(root: unknown, path: string[]): Path {
  const around = at(root, path.slice(0, -1))
  const last = path.at(-1) as string
  const key = isObject(around)
    ? Object.keys(around).find((each) => each.toLowerCase() === last.toLowerCase())
    : undefined
  return [...path.slice(0, -1), key ?? last]
}

/** A command of a shell as its text; another one as a list. */
export function commandText(command: unknown): string {
  if (!Array.isArray(command)) return ""
  const words = command.map(asText)
  if (words.length === 3 && /^(\/bin\/)?(ba)?sh$/.test(words[0] as string) && words[1] === "-c")
    return words[2] as string
  return JSON.stringify(words)
}

/** A list in JSON is taken as it is; everything else is a text for the shell that was there before, or for sh. */
export function commandOf(text: string, before: unknown): string[] | undefined {
  if (!text.trim()) return undefined
  if (text.trimStart().startsWith("[")) {
    try {
      const words = JSON.parse(text) as unknown
      if (Array.isArray(words) && words.every((word) => typeof word === "string")) return words
    } catch {
      // A text that only begins like a list.
    }
  }
  const shell = Array.isArray(before) && before.length === 3 && before[1] === "-c" ? asText(before[0]) : "sh"
  return [shell, "-c", text]
}

/** Sets a field of the only document of a manifest; undefined removes it, and what is empty then. */
export function setField(text: string, path: Path, value: unknown): string {
  return changed(text, (document) => put(document, path, value))
}

export function setCommand(text: string, role: FormRole, command: string): string {
  return changed(text, (document) => {
    const before = at(document.toJS() as unknown, [...role.container, "command"])
    put(document, [...role.container, "command"], commandOf(command, before))
  })
}

/** Sets a limit, and the request of the same resource if there is one. */
export function setLimit(text: string, role: FormRole, resource: string, amount: string): string {
  return changed(text, (document) => {
    const resources = [...role.container, "resources"]
    put(document, [...resources, "limits", resource], amount.trim() || undefined)
    if (document.hasIn([...resources, "requests", resource]))
      put(document, [...resources, "requests", resource], amount.trim() || undefined)
  })
}

/** Sets the variables with values. Those whose values come from elsewhere are kept, after them. */
export function setEnv(text: string, role: FormRole, variables: readonly FormVariable[]): string {
  return changed(text, (document) => {
    const path = [...role.container, "env"]
    const list = document.getIn(path)
    const others = isSeq(list) ? list.items.filter((each) => isMap(each) && each.has("valueFrom")) : []
    const all = [...variables.map(({ name, value }) => document.createNode({ name, value })), ...others]
    put(document, path, all.length ? document.createNode(all) : undefined)
  })
}

/** Adds a role as another one of the job is, or removes it. */
export function setRole(text: string, job: FormJob, role: FormRole, isThere: boolean): string {
  return changed(text, (document) => {
    if (!isThere) return put(document, role.path, undefined)
    const like = job.roles.find((each) => each.isThere)
    const template = like && (at(document.toJS() as unknown, [...like.path, "template"]) as unknown)
    const fresh = { spec: { containers: [{ name: job.kind.container, image: "python:3.11" }] } }
    put(document, role.path, document.createNode({ replicas: 1, template: template ?? fresh }))
  })
}

/** The same job as another kind: its roles have other names and places, and their containers another name. */
export function setKind(text: string, job: FormJob, kind: JobKind): string {
  return changed(text, (document) => {
    const root = document.toJS() as unknown
    const there = job.roles.filter((role) => role.isThere)
    const found = there.map((role) => ({ role, content: at(root, role.path) }))
    for (const { path } of there) put(document, path, undefined)
    put(document, ["apiVersion"], kind.api_version)
    put(document, ["kind"], kind.kind)
    const free = [...kind.roles]
    for (const { role, content } of found) {
      const same = free.findIndex((each) => each.name.toLowerCase() === role.name.toLowerCase())
      const [next] = free.splice(Math.max(0, same), 1)
      if (!next) continue
      const renamed = withContainer(content, job.kind.container, kind.container)
      put(document, next.path, document.createNode(moved(renamed, job.kind, kind)))
    }
  })
}

function withContainer(role: unknown, before: string, after: string): unknown {
  const copy = structuredClone(role)
  const containers = at(copy, ["template", "spec", "containers"])
  if (Array.isArray(containers))
    for (const each of containers) if (isObject(each) && each.name === before) each.name = after
  return copy
}

/** Puts the restart policy where the other kind has it. */
function moved(role: unknown, before: JobKind, after: JobKind): unknown {
  const policy = at(role, before.restart_path)
  if (!isObject(role) || policy === undefined || before.restart_path.join() === after.restart_path.join()) return role
  const from = at(role, before.restart_path.slice(0, -1))
  if (isObject(from)) delete from[before.restart_path.at(-1) as string]
  const to = at(role, after.restart_path.slice(0, -1))
  if (isObject(to) && after.restart_policies.includes(asText(policy))) to[after.restart_path.at(-1) as string] = policy
  return role
}

/**
 * Whether a problem of the server is about this field or a part of it: `spec.x[Master].y[0].image` is
 * `["spec", "x", "Master", "y", 0, "image"]`. Keys of maps are in brackets.
 */
export function isAbout(problem: string, path: Path): boolean {
  const said = [...problem.matchAll(/\[([^\]]*)\]|[^.[\]]+/g)].map((match) => match[1] ?? match[0])
  // A key in brackets may have dots in it, as nvidia.com/gpu has; a key after a dot is split at them.
  const wanted = path.flatMap((part) => (problem.includes(`[${part}]`) ? [String(part)] : String(part).split(".")))
  return wanted.length > 0 && wanted.every((part, index) => said[index] === part)
}

function changed(text: string, change: (document: Document) => void): string {
  const document = only(text)
  if (typeof document === "string") return text
  expandAliases(document)
  change(document)
  return document.toString({ lineWidth: 0, flowCollectionPadding: false })
}

function only(text: string): Document | "unreadable" | "several" {
  // Kubernetes reads YAML 1.1, where `no` is false: a text "no" is written with quotes.
  const documents = parseAllDocuments(text, { compat: "yaml-1.1" })
  if (!Array.isArray(documents) || documents.length === 0) return "unreadable"
  if (documents.length > 1) return "several"
  const [document] = documents
  return document && !document.errors.length && isMap(document.contents) ? (document as Document) : "unreadable"
}

/** Two roles may share a template by an alias. A change of one must not change the other. */
function expandAliases(document: Document): void {
  let has = false
  visit(document, {
    Alias: (_, alias) => {
      has = true
      const copy = alias.resolve(document)?.clone() as Node | undefined
      if (copy && "anchor" in copy) delete copy.anchor
      return copy
    },
  })
  if (has)
    visit(document, {
      Node: (_, node) => {
        if (!isAlias(node) && node.anchor) delete node.anchor
      },
    })
}

/** Sets a value, with what is missing around it; without a value, removes it and what is empty then. */
function put(document: Document, path: Path, value: unknown): void {
  if (value === undefined) {
    document.deleteIn(path)
    const around = path.slice(0, -1)
    const left = around.length > 1 ? document.getIn(around) : undefined
    if (isCollection(left) && left.items.length === 0 && isEmptyRemoved(around)) put(document, around, undefined)
    return
  }
  for (let depth = 1; depth < path.length; depth++) {
    const inner = path.slice(0, depth)
    if (isCollection(document.getIn(inner))) continue
    document.setIn(inner, document.createNode(typeof path[depth] === "number" ? [] : {}))
  }
  const known = document.getIn(path, true)
  if (isScalar(known) && (typeof value === "string" || typeof value === "number")) known.value = value
  else document.setIn(path, value)
}

/** Containers and roles are not removed with their last field. */
function isEmptyRemoved(path: Path): boolean {
  return ["env", "limits", "requests", "resources", "metadata"].includes(String(path.at(-1)))
}

function at(value: unknown, path: Path): unknown {
  let inner = value
  for (const part of path) {
    if (typeof inner !== "object" || inner === null) return undefined
    inner = (inner as Record<string | number, unknown>)[part]
  }
  return inner
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
}

function asText(value: unknown): string {
  return value === undefined || value === null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value)
}

/** A manifest of a kind to start with: one replica of its workers. */
export function skeleton(kind: JobKind, suffix: string): string {
  const document = new Document({
    apiVersion: kind.api_version,
    kind: kind.kind,
    metadata: { name: `${kind.kind.toLowerCase()}-${suffix}` },
  })
  const role = kind.roles.find(({ name }) => name.toLowerCase() === "worker") ?? kind.roles[0]
  const container = { name: kind.container, image: "python:3.11", command: ["sh", "-c", "echo hello"] }
  if (role)
    put(document, role.path, document.createNode({ replicas: 1, template: { spec: { containers: [container] } } }))
  return document.toString()
}
