import { describe, expect, it } from "vitest"
import { interpolate, type Texts } from "@/i18n/translate"

const files = import.meta.glob<Record<string, unknown>>("../src/i18n/*.ts", { eager: true })

const dictionaries: [string, Texts][] = Object.entries(files).flatMap(([file, exported]) =>
  Object.entries(exported)
    .filter(([name]) => name.endsWith("Texts") && name !== "useTexts")
    .map(([name, words]): [string, Texts] => [`${file.split("/").at(-1)} ${name}`, words as Texts]),
)

function dictionary(words: Texts, language: 0 | 1): Record<string, string> {
  return Object.fromEntries(
    Object.entries(words)
      .filter(([, pair]) => pair[language])
      .map(([key, pair]) => [key, pair[language]]),
  )
}

const placeholders = (text: string) => [...new Set(text.match(/\{\w+\}/g))].sort()

describe.each(dictionaries)("%s", (_, words) => {
  const [english, chinese] = [dictionary(words, 0), dictionary(words, 1)]

  it("has the same keys in both languages", () => expect(Object.keys(chinese)).toEqual(Object.keys(english)))

  it("uses the same values in both languages", () => {
    for (const key of Object.keys(english))
      expect([key, placeholders(chinese[key] ?? "")]).toEqual([key, placeholders(english[key] ?? "")])
  })
})

it("there are dictionaries", () => expect(dictionaries.length).toBeGreaterThan(3))

it.each([
  ["{n} run||{n} runs", 1, "1 run"],
  ["{n} run||{n} runs", 2, "2 runs"],
  ["{n} run||{n} runs", 0, "0 runs"],
  ["{n} 个", 1, "1 个"],
  ["{other}", 1, "{other}"],
])("%s of %i is %s", (text, n, told) => expect(interpolate(text, { n })).toBe(told))
