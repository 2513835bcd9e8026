import { describe, expect, it } from "vitest"
import type { DispatchState } from "@/api/dispatch"
import { dispatchTexts } from "@/i18n/dispatch"
import { kindName, percent, placeName, reasonOf, shownState } from "@/pages/dispatch/badges"
import { newJob } from "@/pages/dispatch/submit"

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

describe("why a job waits", () => {
  const told = {
    reason: "waits for GPUs on aihc",
    reason_parts: [{ code: "status.dispatch-room", arguments: { resources: "GPUs", adapter: "aihc" } }],
  }

  it("is said in the user's language", () => {
    expect(reasonOf(told, "en")).toBe("waits for GPUs on aihc")
    expect(reasonOf(told, "zh")).toBe("等待 aihc 上的资源：GPUs")
  })
})

describe("a job of the form", () => {
  it("has what was filled in", () => {
    const form = new FormData()
    const filled = {
      name: " train ",
      adapter: "aihc",
      image: "a:1",
      command: "cd /x\r\npython t.py",
      gpu: "2",
      timeout: "60",
    }
    for (const [name, value] of Object.entries(filled)) form.set(name, value)
    const job = newJob(form, [
      ["SEED", "7"],
      ["", "ignored"],
    ])
    expect(job).toMatchObject({ name: "train", adapter: "aihc", image: "a:1", env: { SEED: "7" }, timeout: 60 })
    expect(job.command).toEqual(["sh", "-c", "cd /x\npython t.py"])
    expect(job.resources).toMatchObject({ cpu: 1, memory: "1Gi", gpu: 2, nodes: 1 })
  })

  it("has defaults for the rest", () => {
    const form = new FormData()
    for (const name of ["name", "image", "command"]) form.set(name, "x")
    expect(newJob(form, [])).toMatchObject({ team: "", priority: 0, retries: 0, timeout: null, env: {} })
  })
})
