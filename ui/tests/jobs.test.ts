import { describe, expect, it } from "vitest"
import type { JobMember, JobRole } from "@/api/jobs"
import { jobTexts } from "@/i18n/jobs"
import { translate } from "@/i18n/translate"
import { kindLook, kindTitle } from "@/pages/jobs/badges"
import { chosenPods, podsToShowFirst } from "@/pages/jobs/logs"
import { EXAMPLES, freshly } from "@/pages/jobs/new"
import { reasonSentence } from "@/pages/jobs/overview"

function member(pod: string, more: Partial<JobMember> = {}): JobMember {
  const none = {
    uid: pod,
    word: "",
    host: "",
    started: null,
    finished: null,
    exit_code: null,
    message: "",
    message_parts: [],
    containers: [],
  }
  return { index: 0, pod, state: "running", restarts: 0, ...none, ...more }
}

function role(name: string, ...members: JobMember[]): JobRole {
  return { name, replicas: members.length, restart: "Never", members }
}

describe("which logs are shown first", () => {
  it.each<[string, JobRole[], string[]]>([
    [
      "the first of each role",
      [role("Master", member("m-0")), role("Worker", member("w-0"), member("w-1"))],
      ["m-0", "w-0"],
    ],
    ["the first two of a single role", [role("Worker", member("w-0"), member("w-1"), member("w-2"))], ["w-0", "w-1"]],
    [
      "those that failed",
      [role("Master", member("m-0")), role("Worker", member("w-0"), member("w-1", { state: "failed" }))],
      ["w-1"],
    ],
    [
      "those that are started again and again",
      [role("Worker", member("w-0"), member("w-1", { restarts: 3 }))],
      ["w-1"],
    ],
    [
      "not those that got there in the end",
      [role("Worker", member("w-0", { restarts: 1, state: "succeeded" }))],
      ["w-0"],
    ],
    [
      "at most four",
      [role("Worker", ...[0, 1, 2, 3, 4, 5].map((n) => member(`w-${n}`, { state: "failed" })))],
      ["w-0", "w-1", "w-2", "w-3"],
    ],
    ["none, if there are no replicas", [], []],
  ])("%s", (_, roles, pods) => expect(podsToShowFirst(roles)).toEqual(pods))

  it("the Pods in the address come first, if they exist", () => {
    const roles = [role("Worker", member("w-0"), member("w-1"), member("w-2"))]
    expect(chosenPods(roles, "w-2,w-9")).toEqual(["w-2"])
    expect(chosenPods(roles, "-")).toEqual([])
    expect(chosenPods(roles, undefined)).toEqual(["w-0", "w-1"])
  })
})

describe("kinds", () => {
  it("every example has the badge of its kind", () => {
    for (const { word } of EXAMPLES) expect(kindLook(word).className).not.toContain("bg-muted")
    expect(kindLook("paddlejob.batch.paddlepaddle.org").letters).toBe("Pd")
    expect(kindLook("otherjob").letters).toBe("ot")
  })

  it("of two kinds with one name, the second shows its group", () => {
    expect(kindTitle("PaddleJob", "paddlejob")).toBe("PaddleJob")
    expect(kindTitle("PaddleJob", "paddlejob.batch.paddlepaddle.org")).toBe("PaddleJob (batch.paddlepaddle.org)")
  })
})

it("an example gets a new name and is otherwise unchanged", () => {
  for (const example of EXAMPLES) {
    const [before, after] = [example.text.split("\n"), freshly(example, "ab12").split("\n")]
    const changed = after.filter((line, index) => line !== before[index])
    expect(changed).toHaveLength(1)
    expect(changed[0]).toMatch(/^ {2}name: [a-z-]+-example-ab12$/)
  }
})

it.each([
  [
    { code: "gang waits", detail: "no room", about: "" },
    "The gang is waiting for resources: no room",
    "成组（gang）正在等待资源：no room",
  ],
  [
    { code: "suspended", detail: "", about: "" },
    "The job is suspended. Resume it to continue.",
    "任务已挂起，点击“恢复”继续。",
  ],
  [{ code: "pod", detail: "it ended", about: "a-worker-0" }, "a-worker-0: it ended", "a-worker-0：it ended"],
  [{ code: "failed", detail: "it has failed", about: "" }, "it has failed", "it has failed"],
])("%o has a text in both languages", (reason, english, chinese) => {
  const given = { ...reason, detail_parts: [{ code: "text", arguments: { text: reason.detail } }], text: "" }
  expect(reasonSentence(given, (key, args) => translate(jobTexts[key], "en", args), "en")).toBe(english)
  expect(reasonSentence(given, (key, args) => translate(jobTexts[key], "zh", args), "zh")).toBe(chinese)
})
