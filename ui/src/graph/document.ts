/** A graph document, as docs/graph.md describes it. */

export interface GraphDocument {
  format: 1
  type?: "graph" | "yaml"
  parameters?: Parameter[]
  nodes?: GraphNode[]
  edges?: { from: string; to: string }[]
  manifest?: string
}

export interface Parameter {
  name: string
  description?: string
  default?: string
  required?: boolean
}

export type NodeKind = "plain" | "module" | "training"

export interface GraphNode {
  name: string
  kind?: NodeKind
  description?: string
  command?: string
  image?: string
  task?: Task
  retries?: number
  env?: Variable[]
  inputs?: Input[]
  outputs?: Output[]
  storage?: Mount[]
  module?: { name: string; version: string }
  training?: Training
  position?: Position
}

export interface Task {
  type?: "monitor" | "compute"
  cluster?: string
  skus?: number
}

export interface Variable {
  name: string
  value?: string
  secret?: boolean
}

export interface Source {
  parameter?: string
  node?: string
  output?: string
}

export interface Input {
  name: string
  description?: string
  from?: Source
  value?: string
}

export interface Output {
  name: string
  path?: string
  type?: "text" | "file"
  description?: string
}

export interface Mount {
  root: string
  path?: string
  readOnly?: boolean
}

export interface Training {
  kind: string
  apiVersion?: string
  roles: Role[]
}

export interface Role {
  name: string
  replicas?: number
  command?: string
  image?: string
  task?: Task
}

export interface Position {
  x: number
  y: number
}

/** The training jobs there are, with the roles that each has. */
export const TRAINING_KINDS: Record<string, string[]> = {
  PyTorchJob: ["Master", "Worker"],
  TFJob: ["Chief", "Master", "PS", "Worker", "Evaluator"],
  TensorFlowJob: ["Chief", "Master", "PS", "Worker", "Evaluator"],
  XGBoostJob: ["Master", "Worker"],
  MPIJob: ["Launcher", "Worker"],
  PaddleJob: ["Master", "Worker"],
  JAXJob: ["Worker"],
}

export function isGraph(document: GraphDocument): boolean {
  return (document.type ?? "graph") === "graph"
}

export const EMPTY: GraphDocument = { format: 1, parameters: [], nodes: [], edges: [] }
