import { describe, expect, it } from "vitest"
import { resourceText } from "@/pages/notebooks/list"
import { toMount, usualPath } from "@/pages/notebooks/new"

describe("a notebook", () => {
  it("shows what it requests: SKUs of a virtual cluster, or amounts", () => {
    const none = { cluster: "", skus: 0, resources: {}, gpus: 0 }
    expect(resourceText({ ...none, cluster: "a100", skus: 2 })).toBe("2 × a100")
    expect(resourceText({ ...none, cluster: "a100" })).toBe("1 × a100")
    expect(resourceText({ ...none, resources: { cpu: "2", memory: "4Gi" }, gpus: 1 })).toBe("2 CPU · 4Gi · 1 GPU")
    expect(resourceText({ ...none, resources: { cpu: "500m" } })).toBe("500m CPU")
  })

  it("mounts a volume or a storage root", () => {
    expect(toMount({ source: "claim:data", path: " /d ", readOnly: true })).toEqual({
      root: "",
      claim: "data",
      path: "/d",
      read_only: true,
    })
    expect(toMount({ source: "root:a:b", path: "", readOnly: false })).toEqual({
      root: "a:b",
      claim: "",
      path: "",
      read_only: false,
    })
  })

  it("says where something is mounted if no path is given", () => {
    const roots = [{ name: "shared", path: "/mnt/shared" }]
    expect(usualPath("claim:data", roots)).toBe("/data/data")
    expect(usualPath("root:shared", roots)).toBe("/mnt/shared")
    expect(usualPath("root:gone", roots)).toBe("")
  })
})
