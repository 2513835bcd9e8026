import { describe, expect, it } from "vitest"
import {
  commandOf,
  commandText,
  type FormJob,
  type FormRole,
  isAbout,
  type JobKind,
  readJob,
  setCommand,
  setEnv,
  setField,
  setKind,
  setLimit,
  setRole,
} from "@/lib/job-manifest"

const role = (name: string, ...path: string[]) => ({ name, path })
const PYTORCH: JobKind = {
  word: "pytorchjob",
  kind: "PyTorchJob",
  api_version: "kubeflow.org/v1",
  container: "pytorch",
  roles: [
    role("Master", "spec", "pytorchReplicaSpecs", "Master"),
    role("Worker", "spec", "pytorchReplicaSpecs", "Worker"),
  ],
  restart_path: ["restartPolicy"],
  restart_policies: ["Always", "OnFailure", "Never", "ExitCode"],
  default_restart: "OnFailure",
}
const PADDLE: JobKind = {
  ...PYTORCH,
  word: "paddlejob.batch.paddlepaddle.org",
  kind: "PaddleJob",
  api_version: "batch.paddlepaddle.org/v1",
  container: "paddle",
  roles: [role("ps", "spec", "ps"), role("worker", "spec", "worker")],
  restart_path: ["template", "spec", "restartPolicy"],
  restart_policies: ["Always", "OnFailure", "Never"],
}
const KINDS = [PYTORCH, PADDLE]

const TEXT = `\
# Our job
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: digits # the best one
spec:
  runPolicy: {backoffLimit: 3}
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template: &replica
        spec:
          containers:
            - name: sidecar
              image: busybox
            - name: pytorch
              image: torch:2
              command: [sh, -c, "python train.py"]
              env:
                - {name: LR, value: "0.1"}
                - name: TOKEN
                  valueFrom: {secretKeyRef: {name: s, key: k}}
    worker:
      replicas: 2
      template: *replica
`

function job(text: string): FormJob {
  const read = readJob(text, KINDS)
  if (read.state !== "job") throw new Error(read.state)
  return read.job
}

const part = (text: string, name: string) => job(text).roles.find((each) => each.name === name) as FormRole

describe("what the form shows", () => {
  it.each([
    ["  \n", "empty"],
    ["a: [", "unreadable"],
    ["just words", "unreadable"],
    [`${TEXT}---\n${TEXT}`, "several"],
    ["kind: Pod", "unknown"],
  ])("%j is %s", (text, state) => {
    expect(readJob(text, KINDS).state).toBe(state)
  })

  it("roles, by the paths of the server, in the case in which they are written", () => {
    const { name, roles } = job(TEXT)
    expect(name).toBe("digits")
    expect(
      roles.map((each) => [each.name, each.isThere, each.replicas, each.image, each.command, each.restart]),
    ).toEqual([
      ["Master", true, "1", "torch:2", "python train.py", "Never"],
      ["Worker", true, "2", "torch:2", "python train.py", ""],
    ])
    expect(part(TEXT, "Worker").path).toEqual(["spec", "pytorchReplicaSpecs", "worker"])
    expect(part(TEXT, "Master").container.at(-1)).toBe(1)
    expect(part(TEXT, "Master").env).toEqual([{ name: "LR", value: "0.1" }])
    expect(part(TEXT, "Master").otherEnv).toBe(1)
  })
})

describe("a change in the form", () => {
  it("keeps comments and unknown fields", () => {
    const after = setField(TEXT, ["metadata", "name"], "letters")
    expect(after).toContain("# Our job")
    expect(after).toContain("name: letters # the best one")
    expect(after).toContain("backoffLimit: 3")
  })

  it("of one role does not change another that shares its template", () => {
    const worker = part(TEXT, "Worker")
    const after = setField(TEXT, [...worker.container, "image"], "torch:3")
    expect([part(after, "Master").image, part(after, "Worker").image]).toEqual(["torch:2", "torch:3"])
    expect(after).not.toMatch(/[&*]replica/)
  })

  it("sets limits, and requests that are there; an empty one is removed", () => {
    const master = part(TEXT, "Master")
    const requests = setField(TEXT, [...master.container, "resources", "requests", "cpu"], "1")
    const after = setLimit(setLimit(requests, master, "cpu", "2"), master, "memory", "4Gi")
    expect(part(after, "Master").limits).toEqual({ cpu: "2", memory: "4Gi" })
    expect(after).toMatch(/requests:\s+cpu: "?2"?/)
    const none = setLimit(setLimit(after, master, "cpu", ""), master, "memory", " ")
    expect(none).not.toContain("resources")
  })

  it("sets variables and keeps those from elsewhere", () => {
    const after = setEnv(TEXT, part(TEXT, "Master"), [
      { name: "LR", value: "1" },
      { name: "N", value: "no" },
    ])
    expect(part(after, "Master").env).toEqual([
      { name: "LR", value: "1" },
      { name: "N", value: "no" },
    ])
    expect(part(after, "Master").otherEnv).toBe(1)
    expect(after).toContain('value: "no"')
    const none = setEnv(setField(TEXT, [...part(TEXT, "Master").container, "env"], undefined), part(TEXT, "Master"), [])
    expect(part(none, "Master").env).toEqual([])
  })

  it("adds and removes roles", () => {
    const without = setRole(TEXT, job(TEXT), part(TEXT, "Worker"), false)
    expect(part(without, "Worker").isThere).toBe(false)
    const again = setRole(without, job(without), part(without, "Worker"), true)
    expect([part(again, "Worker").replicas, part(again, "Worker").image]).toEqual(["1", "torch:2"])
  })

  it("of the kind moves roles, containers and restart policies", () => {
    const after = setKind(TEXT, job(TEXT), PADDLE)
    const { kind, roles } = job(after)
    expect(kind).toBe(PADDLE)
    expect(roles.map((each) => [each.name, each.replicas, each.image, each.restart])).toEqual([
      ["ps", "1", "torch:2", "Never"],
      ["worker", "2", "torch:2", ""],
    ])
    expect(after).toContain("name: paddle")
    expect(after).toContain("backoffLimit: 3")
    expect(after).not.toContain("pytorchReplicaSpecs:\n    Master")
  })

  it("leaves a text alone that it cannot read", () => {
    expect(setField("a: [", ["metadata", "name"], "x")).toBe("a: [")
  })
})

describe("commands", () => {
  it.each([
    [["sh", "-c", "echo a"], "echo a"],
    [["/bin/bash", "-c", "echo a"], "echo a"],
    [["python", "x.py"], '["python","x.py"]'],
    [undefined, ""],
  ])("%j is shown as %s", (command, text) => {
    expect(commandText(command)).toBe(text)
    expect(commandOf(text, command)).toEqual(command)
  })

  it("a text that only begins like a list is one for the shell", () => {
    expect(commandOf("[ -f x ] && y", undefined)).toEqual(["sh", "-c", "[ -f x ] && y"])
    const without = setCommand(TEXT, part(TEXT, "Master"), "")
    expect([part(without, "Master").command, part(without, "Worker").command]).toEqual(["", "python train.py"])
  })
})

it.each([
  ["spec.x.Master.template.spec.containers[0].image", true],
  ["spec.x.Master.template.spec.containers[0].image.y", true],
  ["spec.x.Master.template.spec.containers[0].imagee", false],
  ["spec.x.Master.template.spec.containers[1].image", false],
  ["spec.x[Master].template.spec.containers[0].image", true],
  ["spec.x[Worker].template.spec.containers[0].image", false],
  ["spec.x[Master].template.spec.containers[0].imagePullPolicy", false],
])("%s is about the image: %s", (problem, is) => {
  expect(isAbout(problem, ["spec", "x", "Master", "template", "spec", "containers", 0, "image"])).toBe(is)
})

it("finds the field of a resource whose name has dots", () => {
  const path = ["spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"]
  expect(isAbout("spec.containers[0].resources.limits[nvidia.com/gpu]", path)).toBe(true)
  expect(isAbout("spec.containers[0].resources.limits[memory]", path)).toBe(false)
})
