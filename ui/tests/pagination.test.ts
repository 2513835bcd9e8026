import { describe, expect, it } from "vitest"
import { listState } from "@/lib/pagination"

interface Address {
  q?: string | undefined
  tab?: string | undefined
  sort?: string | undefined
  pages?: string | undefined
}

function at(address: Address) {
  const went: { to: Address; replace: boolean }[] = []
  const list = listState(address, ({ search, replace }) => went.push({ to: search(address), replace }), "-created", 10)
  return { ...list, went }
}

describe("the state of a list", () => {
  it("is the first page in the usual order by default", () => {
    expect(at({}).asked).toEqual({ sort: "-created", cursor: "", limit: 10 })
  })

  it("follows the address", () => {
    expect(at({ sort: "name", pages: "a,b" }).asked).toEqual({ sort: "name", cursor: "b", limit: 10 })
  })

  it("starts at the first page after a change of filter or order, without a history entry", () => {
    const { filter, shown, went } = at({ q: "x", pages: "a,b" })
    filter({ q: "y" })
    shown.onSort("name")
    expect(went).toEqual([
      { to: { q: "y", pages: undefined }, replace: true },
      { to: { q: "x", sort: "name", pages: undefined }, replace: true },
    ])
  })

  it("clears all filters, and keeps the order and the tab", () => {
    const { clear, went } = at({ q: "x", tab: "runs", sort: "name", pages: "a" })
    clear?.()
    expect(went).toEqual([{ to: { q: undefined, tab: "runs", sort: "name", pages: undefined }, replace: true }])
    expect(at({ tab: "runs", sort: "name", pages: "a" }).clear).toBeUndefined()
  })

  it("searches from the first page, and forgets an empty search", () => {
    const { q, find, went } = at({ q: "x", pages: "a" })
    expect(q).toBe("x")
    find("y")
    find("")
    expect(went.map(({ to }) => to)).toEqual([
      { q: "y", pages: undefined },
      { q: undefined, pages: undefined },
    ])
  })

  it("adds a history entry for each page", () => {
    const { shown, went } = at({ q: "x", pages: "a" })
    shown.onPages(shown.place.next("b"))
    shown.onPages(shown.place.previous || undefined)
    expect(went).toEqual([
      { to: { q: "x", pages: "a,b" }, replace: false },
      { to: { q: "x", pages: undefined }, replace: false },
    ])
  })
})
