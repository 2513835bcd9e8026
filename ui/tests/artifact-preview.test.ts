import { describe, expect, test } from "vitest"
import { imageType, parseTable, previewOf } from "@/lib/artifact-preview"
import { axisTicks } from "@/lib/times"

const bytes = (text: string) => new TextEncoder().encode(text)

describe("the preview of a file", () => {
  test("is decided by its ending and its content", () => {
    expect(previewOf("/out/plot.PNG", bytes("x"), false)).toEqual({ kind: "image", type: "image/png" })
    expect(previewOf("/out/a.json", bytes('{"a":1}'), false)).toEqual({
      kind: "text",
      text: '{\n  "a": 1\n}',
      isCut: false,
    })
    expect(previewOf("/out/a.json", bytes("{broken"), false)).toMatchObject({ text: "{broken" })
    expect(previewOf("/out/model", bytes("a\0b"), false)).toEqual({ kind: "binary" })
    expect(previewOf("/out/a.csv", bytes("a,b\n1,2\n"), false)).toEqual({
      kind: "table",
      rows: [
        ["a", "b"],
        ["1", "2"],
      ],
      isCut: false,
    })
  })

  test("ends with a whole line if the file is longer", () => {
    expect(previewOf("log.txt", bytes("one\ntw"), true)).toEqual({ kind: "text", text: "one\n", isCut: true })
    expect(previewOf("plot.png", bytes("x"), true)).toEqual({ kind: "binary" })
  })

  test.each([
    ["plot.jpeg", "image/jpeg"],
    ["plot", undefined],
    ["/png/readme", undefined],
    [".png", "image/png"],
  ])("%s is the image %s", (name, type) => expect(imageType(name)).toBe(type))
})

test("quoted values have separators, quotes and line ends in them", () => {
  expect(parseTable('a,"b, c","say ""hi"""\r\n"two\nlines",,\n', ",", 10)).toEqual([
    ["a", "b, c", 'say "hi"'],
    ["two\nlines", "", ""],
  ])
  expect(parseTable("a\tb\nc\td", "\t", 1)).toEqual([["a", "b"]])
})

test("an axis has a few round times", () => {
  expect(axisTicks(1000)).toEqual([0])
  expect(axisTicks(9000)).toEqual([0, 2000, 4000, 6000, 8000])
  expect(axisTicks(3 * 3_600_000).map((each) => each / 60_000)).toEqual([0, 60, 120])
  expect(axisTicks(100 * 86_400_000).length).toBeLessThan(7)
})
