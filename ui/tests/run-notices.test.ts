import { expect, test } from "vitest"
import { RunNotices } from "@/lib/run-notices"

const run = (state: string, more: object = {}) => ({
  id: "r",
  name: "r",
  state,
  owner_id: "ann",
  retries: 0,
  message: "",
  ...more,
})

test("a run is told about once, when it ends", () => {
  const notices = new RunNotices()
  const told = ["waiting", "running", "succeeded", "succeeded", "running", "failed"].map((state) =>
    notices.isNews(run(state), "ann", "all"),
  )
  expect(told).toEqual([false, false, true, false, false, true])
})

test("not about runs of others, ends that were there before, or what was not chosen", () => {
  const notices = new RunNotices()
  expect(notices.isNews(run("failed"), "ann", "all")).toBe(false)
  for (const owner_id of ["bob"]) {
    notices.isNews(run("running", { owner_id }), "ann", "all")
    expect(notices.isNews(run("failed", { owner_id }), "ann", "all")).toBe(false)
  }
  const ends = (state: string, choice: "failed" | "off") => {
    notices.isNews(run("running"), "ann", choice)
    return notices.isNews(run(state), "ann", choice)
  }
  expect([ends("succeeded", "failed"), ends("failed", "failed"), ends("failed", "off")]).toEqual([false, true, false])
})

test("a run that goes on when the page is opened is told about when it ends", () => {
  const notices = new RunNotices()
  notices.goOn([{ id: "r" }])
  expect([notices.isNews(run("failed"), "ann", "failed"), notices.isNews(run("failed"), "ann", "failed")]).toEqual([
    true,
    false,
  ])
})
