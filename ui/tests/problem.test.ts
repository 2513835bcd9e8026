import { describe, expect, it } from "vitest"
import { Problem, withoutField } from "@/api/problem"

const field = (name: string) => ({ field: name, message: "wrong" })
const problem = (...fields: string[]) => new Problem(422, "invalid", "", "", fields.map(field))

describe("an error without a field that is corrected", () => {
  it.each([
    [problem("a", "b"), "a", ["b"]],
    [problem("a"), "a", undefined],
    [problem("a"), "b", ["a"]],
    [problem(), "a", []],
  ])("%# leaves the others", (error, corrected, expected) =>
    expect((withoutField(error, corrected) as Problem | undefined)?.fields.map(({ field }) => field)).toEqual(expected),
  )
})

it("a missing object has a kind", () => {
  const missing = new Problem(404, "not-found", "", "x", [], { code: "missing", arguments: { kind: "run" } })
  expect(missing.missingKind).toBe("run")
  expect(problem().missingKind).toBeUndefined()
})
