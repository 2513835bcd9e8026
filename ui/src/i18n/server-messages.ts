import type { Language } from "@/app/preferences"
import chinese from "./server-messages.zh.json"
import { interpolate } from "./translate"

interface Found {
  code?: string | null
  message: string
  fix?: string
  arguments?: Record<string, unknown> | null
}

const CHINESE: Record<string, string[]> = chinese

/** What is wrong, and what to write instead. English comes from the server itself. */
export function serverMessage(found: Found, language: Language): string {
  const { message, fix } = serverMessageParts(found, language)
  return fix ? `${message}${language === "zh" ? "；" : "; "}${fix}` : message
}

export function serverMessageParts(found: Found, language: Language): { message: string; fix: string } {
  const known = language === "zh" && found.code ? CHINESE[found.code] : undefined
  if (!known) return { message: capital(found.message), fix: found.fix ?? "" }
  const args = Object.fromEntries(Object.entries(found.arguments ?? {}).map(([name, value]) => [name, shown(value)]))
  return { message: interpolate(known[0] ?? "", args), fix: interpolate(known[1] ?? "", args) }
}

function shown(value: unknown): string {
  return Array.isArray(value) ? value.join("、") : String(value)
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** A status message: its parts are codes with values, found by the server (`message_parts`). */
export function statusMessage(
  message: string,
  parts: { code: string; arguments: Record<string, unknown> }[],
  language: Language,
): string {
  if (language !== "zh") return message
  return parts.map((part) => serverMessageParts({ ...part, message }, language).message).join("")
}
