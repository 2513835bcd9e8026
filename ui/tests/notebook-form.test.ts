import { describe, expect, test } from "vitest"
import type { Notebook } from "@/api/workspaces"
import { formMounts, onlyChanges } from "@/pages/notebooks/new"

const NOTEBOOK = {
  image: "registry/lab:1",
  image_name: "",
  cluster: "",
  skus: 0,
  resources: { cpu: "500m", memory: "1Gi" },
  gpus: 0,
  home: "lab-home",
  mounts: [{ path: "/home/jovyan", claim: "lab-home", folder: "", sub_path: "", read_only: false }],
  cull_idle_minutes: 60,
} as unknown as Notebook

const FORM = {
  image: "registry/lab:1",
  cluster: "",
  skus: 0,
  cpu: "500m",
  memory: "1Gi",
  gpus: 0,
  mounts: [],
  cull_idle_minutes: 60,
}

describe("what an edited notebook sends", () => {
  test.each([
    ["nothing", {}, {}],
    ["the image", { image: "pytorch" }, { image: "pytorch" }],
    ["the idle time", { cull_idle_minutes: 0 }, { cull_idle_minutes: 0 }],
    ["all resources", { memory: "2Gi" }, { cluster: "", skus: 0, cpu: "500m", memory: "2Gi", gpus: 0 }],
    [
      "a virtual cluster",
      { cluster: "gpus", skus: 2, cpu: "", memory: "" },
      { cluster: "gpus", skus: 2, cpu: "", memory: "", gpus: 0 },
    ],
  ])("%s", (_, changed, sent) => {
    expect(onlyChanges(NOTEBOOK, { ...FORM, ...changed }, [])).toEqual(sent)
  })

  test("its storage, if the form can express it", () => {
    const mount = { root: "", claim: "data", path: "/data", read_only: true }
    expect(onlyChanges(NOTEBOOK, { ...FORM, mounts: [mount] }, [])).toEqual({ mounts: [mount] })
    expect(onlyChanges(NOTEBOOK, { ...FORM, mounts: [] }, undefined)).toEqual({})
  })
})

describe("the storage of a notebook in the form", () => {
  const mounted = (more: object) => ({ ...NOTEBOOK, mounts: [...NOTEBOOK.mounts, { path: "/x", ...more }] }) as Notebook

  test("has volumes and storage roots, but not the home", () => {
    expect(formMounts(NOTEBOOK, [])).toEqual([])
    const volume = mounted({ claim: "data", folder: "", sub_path: "", read_only: true })
    expect(formMounts(volume, [])).toEqual([{ id: 0, source: "claim:data", path: "/x", readOnly: true }])
    const root = mounted({ claim: "", folder: "/nfs/x", sub_path: "", read_only: false })
    expect(formMounts(root, [{ name: "x", path: "/x" }])).toEqual([
      { id: 0, source: "root:x", path: "/x", readOnly: false },
    ])
  })

  test("is left alone if it cannot be expressed", () => {
    expect(formMounts(mounted({ claim: "", folder: "/etc", sub_path: "", read_only: false }), [])).toBeUndefined()
    expect(formMounts(mounted({ claim: "data", folder: "", sub_path: "in", read_only: false }), [])).toBeUndefined()
  })
})
