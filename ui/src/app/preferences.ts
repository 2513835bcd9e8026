/** Preferences kept in the browser: language, theme and notifications. */
import { useSyncExternalStore } from "react"
import { create } from "zustand"
import type { NoticeChoice } from "@/lib/run-notices"

export type Language = "en" | "zh"
export type Theme = "light" | "dark" | "system"

interface Preferences {
  language: Language
  theme: Theme
  /** Which of the user's runs cause a notification in this browser when they end. */
  notices: NoticeChoice
  setNotices: (notices: NoticeChoice) => void
  setLanguage: (language: Language) => void
  setTheme: (theme: Theme) => void
}

const LANGUAGE = "muster.language"
const THEME = "muster.theme"
const NOTICES = "muster.notices"
const dark = globalThis.matchMedia?.("(prefers-color-scheme: dark)") // undefined in unit tests

export const usePreferences = create<Preferences>((set) => ({
  language: firstLanguage(),
  theme: (stored(THEME) as Theme | null) ?? "system",
  notices: firstNotices(),
  setNotices: (notices) => set({ notices: store(NOTICES, notices) }),
  setLanguage: (language) => set({ language: store(LANGUAGE, language) }),
  setTheme: (theme) => set({ theme: store(THEME, theme) }),
}))

/** Applies language and theme to the document, now and whenever they change. */
export function applyPreferences(): void {
  apply(usePreferences.getState())
  usePreferences.subscribe(apply)
  dark?.addEventListener("change", () => apply(usePreferences.getState()))
}

/** Follows the preference, and the system's theme if that is the preference. */
export function useIsDark(): boolean {
  const theme = usePreferences((all) => all.theme)
  return useSyncExternalStore(followSystem, () => isDark(theme))
}

function followSystem(told: () => void): () => void {
  dark?.addEventListener("change", told)
  return () => dark?.removeEventListener("change", told)
}

function isDark(theme: Theme): boolean {
  return theme === "dark" || (theme === "system" && dark?.matches === true)
}

function apply({ language, theme }: Preferences): void {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en"
  document.documentElement.classList.toggle("dark", isDark(theme))
}

function firstLanguage(): Language {
  const chosen = stored(LANGUAGE)
  if (chosen === "en" || chosen === "zh") return chosen
  return (globalThis.navigator?.language ?? "").toLowerCase().startsWith("zh") ? "zh" : "en"
}

function firstNotices(): NoticeChoice {
  const chosen = stored(NOTICES)
  return chosen === "failed" || chosen === "all" ? chosen : "off"
}

function stored(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null // storage may be disabled in the browser
  }
}

function store<T extends string>(key: string, value: T): T {
  try {
    localStorage.setItem(key, value)
  } catch {
    // see above
  }
  return value
}
