import { expect, it } from "vitest"
import { canUse } from "@/components/badge"
import { sizeText } from "@/lib/amounts"
import { EMPTY_MODULE, formFaults } from "@/pages/modules/form-state"

const filled = { ...EMPTY_MODULE, name: "hash-text", category: "text", git_url: "https://git.example.com/hash.git" }

it.each([
  [{}, {}],
  [{ name: "" }, { name: "required" }],
  [{ name: "Hash" }, { name: "nameRule" }],
  [{ name: "-hash" }, { name: "nameRule" }],
  [{ name: "a".repeat(64) }, { name: "nameRule" }],
  [{ name: "a" }, {}],
  [{ category: "" }, { category: "required" }],
  [{ git_url: " " }, { git_url: "required" }],
  [{ build_dir: "" }, {}],
  [{ env: [{ name: "", value: "", secret: false }] }, { "env[0].name": "required" }],
  [
    {
      inputs: [
        { name: "text", description: "" },
        { name: "", description: "" },
      ],
    },
    { "inputs[1].name": "required" },
  ],
  [{ outputs: [{ name: "out", path: "", type: "text" as const, description: "" }] }, { "outputs[0].path": "required" }],
])("%j: %j", (change, faults) => expect(formFaults({ ...filled, ...change })).toEqual(faults))

it("an empty form has the usual defaults", () => {
  expect(Object.keys(formFaults(EMPTY_MODULE)).sort()).toEqual(["category", "git_url", "name"])
})

it.each([
  ["published", false, true],
  ["published", true, true],
  ["private", true, true],
  ["private", false, false],
  ["rejected", true, true],
  ["deprecated", true, false],
  ["building", true, false],
  ["build failed", true, false],
])("%s, own %s: usable %s", (state, own, usable) => expect(canUse(state, own)).toBe(usable))

it.each([
  [0, "0 B"],
  [999, "999 B"],
  [1_234, "1.23 kB"],
  [123_456_789, "123 MB"],
  [999_600, "1 MB"],
])("%i bytes are %s", (bytes, told) => expect(sizeText(bytes)).toBe(told))
