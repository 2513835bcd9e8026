import { describe, expect, it } from "vitest"
import { pieces } from "@/lib/ansi"
import { LogStore, plain } from "@/lib/log-store"
import { elementHeight, offsetOf, rowsAt, scrolledTo } from "@/lib/virtual-scroll"

async function found(store: LogStore, wanted: string, from = 0): Promise<number[]> {
  const all: number[] = []
  for await (const { found } of store.search(wanted, from)) all.push(...found)
  return all
}

describe("a log", () => {
  const written = Array.from({ length: 1000 }, (_, at) => `line ${at} 中文 ${"x".repeat(at % 30)}`)

  for (const size of [1, 7, 64, 1000, 100_000])
    it(`gives back its lines, whatever pieces they came in: ${size} bytes`, async () => {
      const store = new LogStore(500)
      const bytes = new TextEncoder().encode(`${written.join("\n")}\n`)
      for (let from = 0; from < bytes.length; from += size) store.append(bytes.slice(from, from + size))
      expect(store.count).toBe(1000)
      expect(await store.lines(0, 1000)).toEqual(written)
      expect(await store.lines(333, 336)).toEqual(written.slice(333, 336))
      expect(await store.lines(998, 1200)).toEqual(written.slice(998))
      expect(await found(store, "LINE 77")).toEqual([77, ...Array.from({ length: 10 }, (_, at) => 770 + at)])
      expect(await found(store, "line 77", 775)).toEqual([775, 776, 777, 778, 779])
    })

  it("counts a last line that has not ended", async () => {
    const store = new LogStore(10)
    store.append("one\ntw")
    expect([store.count, await store.lines(0, 9)]).toEqual([2, ["one", "tw"]])
    expect(await found(store, "tw")).toEqual([])
    store.append("o\n\n")
    expect([store.count, await store.lines(0, 9)]).toEqual([3, ["one", "two", ""]])
    expect(await found(store, "two")).toEqual([1])
  })

  it("cuts off a line that never ends", async () => {
    const store = new LogStore(10, 30)
    for (let at = 0; at < 10; at++) store.append("x".repeat(7))
    expect(store.count).toBe(2)
    expect((await store.lines(0, 2)).map((line) => line.length)).toEqual([35, 35])
  })
})

describe("a line", () => {
  it("is read without colours, and with its last text if it was overwritten", () => {
    expect(plain("\u001b[1;31mred\u001b[0m and \u001b]8;;http://x\u0007link\u001b]8;;\u0007")).toBe("red and link")
    expect(plain("10%\r50%\r100%\r")).toBe("100%")
  })

  it("is split into pieces of one style", () => {
    expect(pieces("plain")).toEqual([{ text: "plain" }])
    expect(pieces("\u001b[1;31mred\u001b[0m no \u001b[92mbright")).toEqual([
      { text: "red", bold: true, colour: 1 },
      { text: " no " },
      { text: "bright", colour: 10 },
    ])
    expect(pieces("\u001b[38;5;196ma\u001b[48;2;1;2;3mb\u001b[39;49mc")).toEqual([
      { text: "a", colour: "rgb(255 0 0)" },
      { text: "b", colour: "rgb(255 0 0)", background: "rgb(1 2 3)" },
      { text: "c", colour: undefined, background: undefined },
    ])
    expect(pieces("\u001b[2K\u001b[1Gdone")).toEqual([{ text: "done" }])
  })
})

describe("rows", () => {
  const few = { count: 100, row: 20, seen: 500 }
  const many = { count: 10_000_000, row: 20, seen: 500 }

  it("follow the scroll bar exactly if there are few", () => {
    expect([elementHeight(few), offsetOf(700, few), scrolledTo(700, few)]).toEqual([2000, 700, 700])
    expect(rowsAt(700, few, 0)).toEqual({ from: 35, to: 60 })
  })

  it("can all be reached, however many there are", () => {
    expect(elementHeight(many)).toBe(8_000_000)
    expect(offsetOf(8_000_000 - 500, many)).toBe(200_000_000 - 500)
    expect(offsetOf(scrolledTo(123_456_780, many), many)).toBeCloseTo(123_456_780, 3)
    expect(rowsAt(200_000_000 - 500, many, 0)).toEqual({ from: 9_999_975, to: 10_000_000 })
  })
})
