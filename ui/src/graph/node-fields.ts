/**
 * Every field of a node, described once: its label in both languages, where the form shows it and how it is edited,
 * what a new node starts with, and what the card on the canvas shows. The form, the comparison of versions and the
 * details of a run are made from this table; types, defaults and limits come from the server's schema (schema.ts).
 *
 * A field that the schema has and this table does not have is a type error.
 */
import type { Text } from "@/i18n/translate"
import type { GraphNode, NodeKind, Training } from "./document"
import { NODE_RULES, TRAINING_KINDS } from "./schema"

export type NodeFieldName = Exclude<keyof GraphNode, "kind" | "position">

export interface NodeField {
  label: Text
  section: SectionName
  /** How it is edited. Fields with parts of their own ("parts") have a component in the editor. */
  control: "line" | "text" | "code" | "number" | "choice" | "tick" | "parts"
  hint?: Text
  placeholder?: string
  /** The kinds of nodes that have it; all kinds if left out. */
  kinds?: readonly NodeKind[]
  /** Labels of the values of a "choice". */
  choices?: Readonly<Record<string, Text>>
  /** The value in a new node of a kind. */
  initial?: (kind: NodeKind) => unknown
  /** The text below the name on the canvas. The first field that returns one wins. */
  summary?: (node: GraphNode) => string | undefined
}

export const SECTIONS = {
  general: ["General", "常规"],
  inputs: ["Input parameters", "输入参数"],
  outputs: ["Output parameters", "输出参数"],
  flow: ["Condition and loop", "条件与循环"],
  resources: ["Resources", "资源"],
  env: ["Environment variables", "环境变量"],
  storage: ["Storage", "数据存储"],
} as const satisfies Record<string, Text>

export type SectionName = keyof typeof SECTIONS

const PROGRAMS: readonly NodeKind[] = ["plain", "training"]

export const NODE_FIELDS: Readonly<Record<NodeFieldName, NodeField>> = {
  name: {
    label: ["Task name", "任务名称"],
    section: "general",
    control: "line",
    initial: (kind) => (kind === "training" ? "train" : "step"),
  },
  module: {
    label: ["Module", "模块"],
    section: "general",
    control: "parts",
    kinds: ["module"],
    summary: (node) =>
      node.kind === "module" ? (node.module ? `${node.module.name} · v${node.module.version}` : "–") : undefined,
  },
  training: {
    label: ["Training job", "训练任务"],
    section: "general",
    control: "parts",
    kinds: ["training"],
    initial: (kind) => (kind === "training" ? newTraining() : undefined),
    summary: (node) => {
      if (node.kind !== "training" || !node.training) return undefined
      const count = node.training.roles.reduce((sum, role) => sum + (role.replicas ?? 1), 0)
      return `${node.training.kind} × ${count}`
    },
  },
  command: {
    label: ["Command", "执行命令"],
    hint: ["Shell command. Refer to inputs as $name.", "Shell 命令。用 $参数名 引用输入参数。"],
    section: "general",
    control: "code",
    kinds: PROGRAMS,
  },
  image: {
    label: ["Image", "镜像地址"],
    placeholder: "python:3.11",
    section: "general",
    control: "line",
    kinds: PROGRAMS,
    summary: (node) => node.image || undefined,
  },
  description: { label: ["Description", "描述"], section: "general", control: "text" },
  metricsPattern: {
    label: ["Pattern of metrics", "指标匹配模式"],
    hint: [
      "How metrics are found in log lines: a regular expression (RE2) whose named groups are metrics. Lines such as loss=0.1 need none.",
      "从日志行提取指标的 RE2 正则表达式，命名分组即指标。形如 loss=0.1 的日志无需设置。",
    ],
    placeholder: "iter (?P<step>\\d+): loss (?P<loss>\\S+)",
    section: "general",
    control: "line",
  },
  inputs: { label: ["Input parameters", "输入参数"], section: "inputs", control: "parts" },
  outputs: { label: ["Output parameters", "输出参数"], section: "outputs", control: "parts" },
  task: { label: ["Task type", "任务类型"], section: "resources", control: "parts" },
  retries: { label: ["Retries", "重试次数"], section: "resources", control: "number" },
  timeout: {
    label: ["Timeout", "超时时间"],
    hint: [
      "How long one attempt may run: seconds, or a duration such as 30m or 1h30m. Each retry has the same time again.",
      "单次执行的最长时间：秒数，或 30m、1h30m 这样的时长。每次重试重新计时。",
    ],
    placeholder: "30m",
    section: "resources",
    control: "line",
  },
  condition: { label: ["Condition", "执行条件"], section: "flow", control: "parts" },
  loop: { label: ["Loop", "循环"], section: "flow", control: "parts" },
  env: { label: ["Environment variables", "环境变量"], section: "env", control: "parts" },
  storage: { label: ["Storage", "数据存储"], section: "storage", control: "parts" },
}

export const NODE_FIELD_NAMES = Object.keys(NODE_FIELDS) as NodeFieldName[]

export interface FieldRule {
  type?: string
  enum?: readonly string[]
  default?: unknown
  minimum?: number
  maximum?: number
  maxLength?: number
}

/** The rules of a field in the server's schema. */
export function ruleOf(name: NodeFieldName): FieldRule {
  return NODE_RULES[name]
}

export function hasField(kind: NodeKind, name: NodeFieldName): boolean {
  return NODE_FIELDS[name].kinds?.includes(kind) ?? true
}

/** The fields that a new node of a kind starts with. */
export function newNode(kind: NodeKind): GraphNode {
  const fields = NODE_FIELD_NAMES.map((name) => [name, NODE_FIELDS[name].initial?.(kind)] as const)
  return { name: "", kind, ...Object.fromEntries(fields.filter(([, value]) => value !== undefined)) }
}

const SUMMARIES = NODE_FIELD_NAMES.flatMap((name) => NODE_FIELDS[name].summary ?? [])

/** What a node is, in short: the image, the module's version, the job. */
export function summaryOf(node: GraphNode): string {
  for (const summary of SUMMARIES) {
    const text = summary(node)
    if (text !== undefined) return text
  }
  return "–"
}

/** The label of a field, by its name in a document; undefined for what is not a field of a node. */
export function nodeFieldLabel(name: string): Text | undefined {
  return Object.hasOwn(NODE_FIELDS, name) ? NODE_FIELDS[name as NodeFieldName].label : undefined
}

export function trainingKinds(): string[] {
  return [...new Set(TRAINING_KINDS.map(({ kind }) => kind))]
}

/** The API versions that have a kind, the default first. */
export function apiVersionsOf(kind: string): string[] {
  return TRAINING_KINDS.filter((each) => each.kind === kind).map(({ apiVersion }) => apiVersion)
}

export function rolesOf(kind: string, apiVersion?: string): readonly string[] {
  const known = TRAINING_KINDS.filter((each) => each.kind === kind)
  return (known.find((each) => each.apiVersion === apiVersion) ?? known[0])?.roles ?? []
}

function newTraining(): Training {
  const kind = trainingKinds()[0] ?? ""
  return { kind, roles: rolesOf(kind).map((name) => ({ name, replicas: 1 })) }
}
