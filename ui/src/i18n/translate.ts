/**
 * Every text of the UI, in both languages side by side. Each area has a file here:
 *
 *   export const runTexts = texts({ title: ["Runs", "运行实例"], count: ["{n} run||{n} runs", "{n} 个运行实例"] })
 *
 *   const t = useTexts(runTexts)
 *   t("title"), t("count", { n: 3 })
 *
 * `||` separates singular and plural, by `n`.
 */
import { useCallback } from "react"
import { type Language, usePreferences } from "@/app/preferences"

export type Text = readonly [en: string, zh: string]
export type Texts<K extends string = string> = Readonly<Record<K, Text>>
export type Arguments = Record<string, string | number>
export type Translate<K extends string> = (key: K, args?: Arguments) => string

export function texts<K extends string>(all: Record<K, Text>): Texts<K> {
  return all
}

export function useTexts<K extends string>(all: Texts<K>): Translate<K> {
  const language = usePreferences((preferences) => preferences.language)
  return useCallback((key, args) => translate(all[key], language, args), [all, language])
}

/** For texts that are not in a dictionary, such as the labels of a node's fields. */
export function useTranslate(): (pair: Text, args?: Arguments) => string {
  const language = usePreferences((preferences) => preferences.language)
  return useCallback((pair, args) => translate(pair, language, args), [language])
}

export function translate(pair: Text, language: Language, args: Arguments = {}): string {
  return interpolate(pair[language === "zh" ? 1 : 0], args)
}

export function interpolate(text: string, args: Arguments): string {
  if (!text.includes("{") && !text.includes("||")) return text
  const [one = "", many] = text.split("||")
  const chosen = many !== undefined && args.n !== 1 ? many : one
  return chosen.replace(/\{(\w+)\}/g, (whole, name: string) => String(args[name] ?? whole))
}
