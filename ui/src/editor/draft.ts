/**
 * Drafts of the editor, kept in the browser: an expired login, a closed tab or a crash loses nothing. The values of
 * secret variables are left out, because other programs on the machine may read the browser's storage.
 */
import type { GraphDocument } from "@/graph/document"

export interface Draft {
  /** When it was written, in milliseconds. */
  at: number
  mode: "graph" | "yaml"
  document: GraphDocument
  manifest: string
  name: string
  description: string
  /** The fields of a new workflow. */
  workflow?: Record<string, string>
}

type Storage = Pick<globalThis.Storage, "getItem" | "setItem" | "removeItem">

const KEPT_MILLISECONDS = 30 * 86_400_000

/** `place`: the address of the page, so that every page has a draft of its own. */
export function draftKey(user: string, place: string): string {
  return `muster draft ${user} ${place}`
}

export function writeDraft(storage: Storage, key: string, draft: Draft): void {
  try {
    storage.setItem(key, JSON.stringify({ ...draft, document: withoutSecrets(draft.document) }))
  } catch {
    // The storage is full or forbidden. Editing goes on without drafts.
  }
}

export function readDraft(storage: Storage, key: string, now: number): Draft | undefined {
  try {
    const draft = JSON.parse(storage.getItem(key) ?? "null") as Draft | null
    if (!draft || !Array.isArray(draft.document?.nodes) || now - draft.at > KEPT_MILLISECONDS) return undefined
    return draft
  } catch {
    return undefined
  }
}

export function removeDraft(storage: Storage, key: string): void {
  try {
    storage.removeItem(key)
  } catch {
    // There is no storage, and so no draft.
  }
}

export function withoutSecrets(document: GraphDocument): GraphDocument {
  return {
    ...document,
    nodes: document.nodes?.map((node) =>
      node.env?.some((variable) => variable.secret)
        ? { ...node, env: node.env.map((each) => (each.secret ? { ...each, value: undefined } : each)) }
        : node,
    ),
  }
}
