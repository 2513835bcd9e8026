/** Times as people write them. */
import type { Language } from "@/app/preferences"
import { commonTexts } from "@/i18n/common"
import { translate } from "@/i18n/translate"

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 365 * 86400],
  ["month", 30 * 86400],
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
]

export function locale(language: Language): string {
  return language === "zh" ? "zh-CN" : "en-GB"
}

const formats = new Map<string, Intl.DateTimeFormat>()

/** Making one takes milliseconds, so they are kept. */
function formatOf(language: Language, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const key = JSON.stringify([language, options])
  const known = formats.get(key) ?? new Intl.DateTimeFormat(locale(language), options)
  formats.set(key, known)
  return known
}

export function moment(at: string, language: Language): string {
  return formatOf(language, { dateStyle: "medium", timeStyle: "medium" }).format(new Date(at))
}

export function day(at: string, language: Language): string {
  return formatOf(language, { dateStyle: "medium" }).format(new Date(at))
}

/** "3 minutes ago"; "just now" for less than a minute. */
export function ago(at: string, now: number, language: Language): string {
  const seconds = (new Date(at).getTime() - now) / 1000
  const format = new Intl.RelativeTimeFormat(locale(language), { numeric: "auto" })
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit)
  }
  return translate(commonTexts.agoSeconds, language)
}

/** "3m12s", like kubectl. */
export function duration(milliseconds: number): string {
  const all = Math.max(0, Math.round(milliseconds / 1000))
  const parts: [number, string][] = [
    [Math.floor(all / 86400), "d"],
    [Math.floor(all / 3600) % 24, "h"],
    [Math.floor(all / 60) % 60, "m"],
    [all % 60, "s"],
  ]
  const first = parts.findIndex(([value]) => value > 0)
  if (first < 0) return "0s"
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value}${unit}`)
    .join("")
}

/** Times for `<input type="datetime-local">`: local time without a time zone. */
export function toLocalInput(moment: string | undefined): string {
  const at = moment ? new Date(moment) : undefined
  if (!at || Number.isNaN(at.getTime())) return ""
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16)
}

export function fromLocalInput(local: string): string | undefined {
  const at = new Date(local)
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString()
}

const SECOND = 1000
const AXIS_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400]

/** Where an axis of this length has its labels, in milliseconds from its start: at most `most` round times. */
export function axisTicks(length: number, most = 5): number[] {
  const days = 86_400 * SECOND
  const step =
    AXIS_STEPS.map((seconds) => seconds * SECOND).find((each) => length / each < most) ??
    Math.ceil(length / days / most) * days
  const ticks: number[] = []
  for (let at = 0; at <= length * 0.97; at += step) ticks.push(at)
  return ticks
}
