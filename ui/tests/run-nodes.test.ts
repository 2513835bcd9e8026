import { describe, expect, it } from "vitest"
import { failedNode, filterNodes } from "@/lib/run-nodes"

const node = (name: string, state: "succeeded" | "failed" | "skipped", finished: string | null = null) => ({
  name,
  state,
  finished,
})

describe("the node that made a run fail", () => {
  it.each([
    [[], undefined],
    [[node("a", "succeeded")], undefined],
    [[node("b", "failed", "2026-01-01T00:00:09Z"), node("a", "failed", "2026-01-01T00:00:03Z")], "a"],
    [[node("b", "failed"), node("a", "failed", "2026-01-01T00:00:03Z")], "a"],
    [[node("b", "failed"), node("c", "skipped")], "b"],
  ])("of %j is %s", (nodes, expected) => expect(failedNode(nodes)?.name).toBe(expected))
})

describe("a filter", () => {
  const nodes = [node("Train A", "succeeded"), node("train b", "failed"), node("report", "skipped")]
  it.each([
    [{}, ["Train A", "train b", "report"]],
    [{ q: " TRAIN " }, ["Train A", "train b"]],
    [{ failedOnly: true }, ["train b"]],
    [{ q: "report", failedOnly: true }, []],
  ])("%j shows %j", (filter, expected) => expect(filterNodes(nodes, filter).map(({ name }) => name)).toEqual(expected))
})
