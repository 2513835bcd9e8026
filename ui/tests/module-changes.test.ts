import { describe, expect, it } from "vitest"
import { comparedWith, moduleChanges } from "@/pages/reviews/module-changes"

const version = {
  git_url: "https://git.example.com/hash.git",
  git_ref: "main",
  git_commit: "a1",
  dockerfile: "Dockerfile",
  build_dir: "/",
  readme_path: "README.md",
  entrypoint: ["python3", "main.py"],
  env: [{ name: "LEVEL", value: "1", secret: false }],
  inputs: [{ name: "text", description: "what to hash" }],
  outputs: [{ name: "digest", path: "/tmp/digest", type: "text", description: "" }],
  readme: "# Hash\n",
}

const told = (...args: Parameters<typeof moduleChanges>) =>
  moduleChanges(...args).map(({ field, name, action }) => `${action} ${field}${name ? ` ${name}` : ""}`)

describe("what changed", () => {
  it("nothing", () => expect(told(version, { ...version })).toEqual([]))

  it.each([
    [{ git_ref: "v2", git_commit: "b2" }, ["changed git_ref", "changed git_commit"]],
    [{ entrypoint: ["sh"] }, ["changed entrypoint"]],
    [{ inputs: [] }, ["removed inputs text"]],
    [{ inputs: [...version.inputs, { name: "salt", description: "" }] }, ["added inputs salt"]],
    [{ inputs: [{ name: "text", description: "other" }] }, ["changed inputs text"]],
    [{ env: [{ name: "LEVEL", value: "2", secret: false }] }, ["changed env LEVEL"]],
    [{ outputs: [{ name: "digest", path: "/tmp/other", type: "file", description: "" }] }, ["changed outputs digest"]],
    [{ readme: "# Hash\n\nMore.\n" }, ["changed readme"]],
  ])("%j", (change, expected) => expect(told(version, { ...version, ...change })).toEqual(expected))

  it("of the first version: everything", () => {
    expect(told(undefined, version)).toContain("added inputs text")
    expect(new Set(moduleChanges(undefined, version).map(({ action }) => action))).toEqual(new Set(["added"]))
  })

  it("secrets are not shown", () => {
    const secret = { ...version, env: [{ name: "KEY", value: "hunter2", secret: true }] }
    expect(JSON.stringify(moduleChanges(version, secret))).not.toContain("hunter2")
  })
})

it.each([
  [[], 1, undefined],
  [[[1, "in review"]], 1, undefined],
  [
    [
      [1, "published"],
      [2, "in review"],
    ],
    2,
    1,
  ],
  [
    [
      [1, "published"],
      [2, "published"],
      [3, "rejected"],
    ],
    3,
    2,
  ],
  [
    [
      [1, "published"],
      [2, "published"],
    ],
    2,
    1,
  ],
  [[[1, "published"]], 1, undefined],
  [
    [
      [1, "in review"],
      [2, "published"],
    ],
    1,
    2,
  ],
  [
    [
      [1, "deprecated"],
      [2, "private"],
      [3, "in review"],
    ],
    3,
    1,
  ],
] as [[number, string][], number, number | undefined][])("of %j, %i is compared with %s", (versions, number, other) =>
  expect(
    comparedWith(
      versions.map(([number, state]) => ({ number, state })),
      number,
    ),
  ).toBe(other),
)
