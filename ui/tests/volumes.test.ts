import { describe, expect, it } from "vitest"
import { downloadLink, pathIn, trailOf } from "@/api/volumes"

describe("paths in a volume", () => {
  it("escapes percent signs of new names, as the API asks for", () => {
    expect(pathIn("", "100%.txt")).toBe("100%25.txt")
    expect(pathIn("a%FF", "b")).toBe("a%FF/b")
  })

  it("shows the folders above, and keeps what is not text", () => {
    expect(trailOf("100%25/%FF/数据")).toEqual([
      { name: "100%", path: "100%25" },
      { name: "%FF", path: "100%25/%FF" },
      { name: "数据", path: "100%25/%FF/数据" },
    ])
    expect(trailOf("")).toEqual([])
  })

  it("links to files and to archives of folders", () => {
    const place = { namespace: "user-ann", name: "data" }
    expect(downloadLink(place, { kind: "file", path: "a b%25&c" })).toBe(
      "/api/v1/volumes/user-ann/data/files/content?path=a+b%2525%26c",
    )
    expect(downloadLink(place, { kind: "folder", path: "" })).toBe("/api/v1/volumes/user-ann/data/files/archive?path=")
  })
})
