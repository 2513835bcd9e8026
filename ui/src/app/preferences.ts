/** What somebody prefers in this browser: the language and the theme. */
import { create } from "zustand"

export type Language = "en" | "zh"
export type Theme = "light" | "dark" | "system"

interface Preferences {
  language: Language
  theme: Theme
  setLanguage: (language: Language) => void
  setTheme: (theme: Theme) => void
}

const LANGUAGE = "muster.language"
const THEME = "muster.theme"
const dark = globalThis.matchMedia?.("(prefers-color-scheme: dark)") // there is none where tests run

export const usePreferences = create<Preferences>((set) => ({
  language: firstLanguage(),
  theme: (stored(THEME) as Theme | null) ?? "system",
  setLanguage: (language) => set({ language: store(LANGUAGE, language) }),
  setTheme: (theme) => set({ theme: store(THEME, theme) }),
}))

/** Keeps the page's own attributes as they should be, from now on. */
export function applyPreferences(): void {
  apply(usePreferences.getState())
  usePreferences.subscribe(apply)
  dark?.addEventListener("change", () => apply(usePreferences.getState()))
}

export function useIsDark(): boolean {
  const theme = usePreferences((all) => all.theme)
  return isDark(theme)
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

function stored(key: string): string | null {
  try {
    return localStorage.getItem(key)
  } catch {
    return null // a browser that keeps nothing still shows pages
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
