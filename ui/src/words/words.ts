/**
 * Every text of the UI, in both languages side by side. An area has a file here:
 *
 *   export const runWords = words({ title: ["Runs", "运行实例"], count: ["{n} run||{n} runs", "{n} 个运行实例"] })
 *
 *   const w = useWords(runWords)
 *   w("title"), w("count", { n: 3 })
 *
 * `||` parts what is said of one and of many, by `n`.
 */
import { useCallback } from "react"
import { type Language, usePreferences } from "@/app/preferences"

export type Pair = readonly [en: string, zh: string]
export type Words<K extends string = string> = Readonly<Record<K, Pair>>
export type Arguments = Record<string, string | number>
export type Say<K extends string> = (key: K, args?: Arguments) => string

export function words<K extends string>(all: Record<K, Pair>): Words<K> {
  return all
}

export function useWords<K extends string>(all: Words<K>): Say<K> {
  const language = usePreferences((preferences) => preferences.language)
  return useCallback((key, args) => said(all[key], language, args), [all, language])
}

/** For texts that are not in a dictionary, such as the labels of a node's fields. */
export function useText(): (pair: Pair, args?: Arguments) => string {
  const language = usePreferences((preferences) => preferences.language)
  return useCallback((pair, args) => said(pair, language, args), [language])
}

export function said(pair: Pair, language: Language, args: Arguments = {}): string {
  return filled(pair[language === "zh" ? 1 : 0], args)
}

export function filled(text: string, args: Arguments): string {
  const [one = "", many] = text.split("||")
  const chosen = many !== undefined && args.n !== 1 ? many : one
  return chosen.replace(/\{(\w+)\}/g, (whole, name: string) => String(args[name] ?? whole))
}
