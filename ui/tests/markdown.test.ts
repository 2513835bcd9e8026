import { createElement } from "react"
import { renderToStaticMarkup } from "react-dom/server"
import { describe, expect, it } from "vitest"
import { Markdown } from "@/components/markdown"
import { entities, headingId, linkAddress, withoutTags } from "@/lib/markdown-parser"

const drawn = (text: string) => renderToStaticMarkup(createElement(Markdown, { text }))

describe("addresses of links", () => {
  it.each([
    ["https://example.com/a", "https://example.com/a"],
    ["HTTP://example.com", "http://example.com/"],
    ["mailto:ann@example.com", "mailto:ann@example.com"],
    ["#usage", "#readme-usage"],
    ["#%E7%94%A8%E6%B3%95", "#readme-用法"],
    ["javascript:alert(1)", undefined],
    [" javascript:alert(1)", undefined],
    ["java\nscript:alert(1)", undefined],
    ["data:text/html,<script>", undefined],
    ["docs/more.md", undefined],
    ["//example.com", undefined],
    ["/api/v1/session", undefined],
    ["https://", undefined],
  ])("%s: %s", (href, address) => expect(linkAddress(href)).toBe(address))
})

describe("the text of HTML", () => {
  it.each([
    ["<p align=center>Hello <b>you</b></p>", "Hello you"],
    ["<!-- note -->text", "text"],
    ["<script>alert(1)</script>after", "after"],
    ["<script>alert(1)", ""],
    ["<STYLE>body{}</STYLE >x", "x"],
    ["a<br>b", "a\nb"],
    ["3 < 4", "3 < 4"],
    ["<img src=x onerror=alert(1)", ""],
  ])("%s: %s", (html, said) => expect(withoutTags(html)).toBe(said))
})

it.each([
  ["a &amp;lt; b", "a &lt; b"],
  ["&#x20;&#32;", "  "],
  ["&#0;&#xD800;", "&#0;&#xD800;"],
  ["&nothing;", "&nothing;"],
])("%s is %j", (text, meant) => expect(entities(text)).toBe(meant))

it("headings have the same ids as on GitHub", () =>
  expect(headingId("What's new? 说明 2")).toBe("readme-whats-new-说明-2"))

describe("drawn", () => {
  it("as elements", () => {
    const text =
      "# Title\n\nSome *text* with `code`.\n\n1. one\n2. two\n\n| a | b |\n| - | -: |\n| 1 | 2 |\n\n```sh\nls <x>\n```\n\n> said\n\n- [x] done\n- [ ] open"
    const html = drawn(text)
    for (const part of [
      "<h2",
      "<em>text</em>",
      "<ol",
      "<li",
      "<table",
      "ls &lt;x&gt;",
      "<blockquote",
      'type="checkbox"',
    ])
      expect(html).toContain(part)
  })

  it.each([
    "<script>alert(1)</script>",
    "<img src=https://example.com/x.png onerror=alert(1)>",
    "text <b onclick=alert(1)>bold</b>",
    "[x](javascript:alert(1))",
    "![x](https://example.com/x.png)",
    '<iframe src="https://example.com"></iframe>',
    "[x]: javascript:alert(1)\n\n[x]",
    "<a href='javascript:alert(1)'>x</a>",
  ])("harmlessly: %s", (text) => expect(drawn(text)).not.toMatch(/<script|<img|<iframe|onerror|onclick|href="java/i))

  it("HTML inside a line keeps its text", () => expect(drawn("a <kbd>Ctrl</kbd> b")).toContain("a Ctrl b"))

  it.each([
    ["a <script>alert(1)</script> b", "a  b"],
    ["a <STYLE>x</style> b", "a  b"],
    ["a <script>x</style>y</script> b", "a  b"],
    ["a <script>x", "a "],
    ["a </script> b", "a  b"],
  ])("programs inside a line are left out: %s", (text, said) => expect(drawn(text)).toContain(`<p>${said.trimEnd()}`))

  it("the same for every input", () => {
    for (const text of ["", "\n\n", "[", "|", "```", "\u0000", "&#x110000;", "- ".repeat(500)])
      expect(() => drawn(text)).not.toThrow()
  })
})
