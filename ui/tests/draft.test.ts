import { describe, expect, it } from "vitest"
import { type Draft, draftKey, readDraft, removeDraft, withoutSecrets, writeDraft } from "@/editor/draft"

function storage() {
  const kept = new Map<string, string>()
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
    removeItem: (key: string) => void kept.delete(key),
  }
}

const key = draftKey("ann", "/workflows/new")
const draft = (at: number): Draft => ({
  at,
  mode: "graph",
  document: { format: 1, nodes: [{ name: "a" }] },
  manifest: "",
  name: "v2",
  description: "",
  workflow: { name: "mine" },
})

describe("a draft", () => {
  it("is found again, until it is removed", () => {
    const kept = storage()
    writeDraft(kept, key, draft(1000))
    expect(readDraft(kept, key, 2000)).toEqual(draft(1000))
    expect(readDraft(kept, draftKey("bob", "/workflows/new"), 2000)).toBeUndefined()
    removeDraft(kept, key)
    expect(readDraft(kept, key, 2000)).toBeUndefined()
  })

  it("is forgotten after a month", () => {
    const kept = storage()
    writeDraft(kept, key, draft(0))
    expect(readDraft(kept, key, 31 * 86_400_000)).toBeUndefined()
  })

  it.each(["", "{", "null", "7", "{}", '{"document":{}}'])("that reads %j is none", (text) => {
    const kept = storage()
    kept.setItem(key, text)
    expect(readDraft(kept, key, 0)).toBeUndefined()
  })

  it("does without a storage that is full", () => {
    const full = {
      ...storage(),
      setItem: () => {
        throw new Error("quota")
      },
    }
    expect(() => writeDraft(full, key, draft(0))).not.toThrow()
  })

  it("has no values of secret variables", () => {
    const env = [
      { name: "A", value: "shown" },
      { name: "B", value: "hunter2", secret: true },
    ]
    expect(JSON.stringify(withoutSecrets({ format: 1, nodes: [{ name: "a", env }] }))).toBe(
      '{"format":1,"nodes":[{"name":"a","env":[{"name":"A","value":"shown"},{"name":"B","secret":true}]}]}',
    )
  })
})
