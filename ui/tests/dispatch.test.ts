import { describe, expect, it } from "vitest"
import type { DispatchState } from "@/api/dispatch"
import { dispatchTexts } from "@/i18n/dispatch"
import { kindName, percent, placeName, shownState } from "@/pages/dispatch/badges"

describe("the state of a dispatched job", () => {
  it.each<[DispatchState, string | null, DispatchState]>([
    ["running", null, "running"],
    ["running", "2026-01-01T00:00:00Z", "cancelling"],
    ["waiting", "2026-01-01T00:00:00Z", "cancelling"],
    ["succeeded", "2026-01-01T00:00:00Z", "succeeded"],
    ["failed", "2026-01-01T00:00:00Z", "failed"],
    ["cancelled", "2026-01-01T00:00:00Z", "cancelled"],
  ])("is %s, cancelled at %s: shown as %s", (state, cancel_requested, shown) => {
    expect(shownState({ state, cancel_requested })).toBe(shown)
  })

  it("has a text in both languages", () => {
    const states: DispatchState[] = ["waiting", "starting", "preparing", "running", "submitting", "stopping"]
    states.push("cancelling", "restarting", "succeeded", "failed", "cancelled")
    for (const state of states) expect(dispatchTexts[state]).toHaveLength(2)
  })
})

it("names the clusters as their users do", () => {
  expect(["cluster", "local", "aihc", "timaker", "other"].map((name) => placeName(name, "here"))).toEqual([
    "here",
    "here",
    "Baidu AIHC",
    "timaker",
    "other",
  ])
})

it("names what runs", () => {
  expect([kindName("container", "Container"), kindName("PyTorchJob", "Container")]).toEqual(["Container", "PyTorchJob"])
})

it.each([
  [0, "0%"],
  [0.333, "33%"],
  [1, "100%"],
  [1.7, "100%"],
  [-1, "0%"],
])("shows the progress %d as %s", (progress, text) => {
  expect(percent(progress)).toBe(text)
})
