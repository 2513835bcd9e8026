import { describe, expect, it } from "vitest"
import { grpcProblem } from "@/api/pipelines"
import { failure, Problem, UNREACHABLE, withoutField } from "@/api/problem"

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

describe("an error of the pipelines' API", () => {
  const body = (...details: object[]) => JSON.stringify({ code: 3, message: "said in English", details })

  it("has the code and the values of its message", () => {
    const metadata = { message: "x", arguments: JSON.stringify({ kind: "pipeline run", name: "r" }) }
    const found = grpcProblem(404, "", body({ reason: "missing", metadata }))
    expect([found.code, found.missingKind, found.fields]).toEqual(["missing", "pipeline run", []])
  })

  it("names the fields that are wrong", () => {
    const wrong = (field: string) => ({ reason: "pipelines.type", metadata: { field, message: "this must be text" } })
    const found = grpcProblem(400, "", body(wrong("a"), wrong("b")))
    expect(found.fields.map(({ field }) => field)).toEqual(["a", "b"])
    expect([found.kind, found.code, found.detail]).toEqual(["invalid", undefined, "said in English"])
  })

  it("may be from a proxy", () => {
    expect(grpcProblem(502, "Bad Gateway", "<html>").detail).toBe("<html>")
  })
})

it("shows an error instead of what was loaded only if the server has refused to send it again", () => {
  const refused = new Problem(404, "not-found", "", "")
  const restarting = new Problem(503, "unavailable", "", "")
  expect(failure({ error: null, data: 1 })).toBeUndefined()
  expect(failure({ error: refused, data: 1 })).toBe(refused)
  expect([UNREACHABLE, restarting].map((error) => failure({ error, data: 1 }))).toEqual([undefined, undefined])
  expect(failure({ error: UNREACHABLE })).toBe(UNREACHABLE)
})
