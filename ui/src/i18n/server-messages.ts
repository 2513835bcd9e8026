/**
 * Messages of the server in the user's language. A message travels as a code with values, next to its English text;
 * server-messages.zh.json has the Chinese text of every code (a test compares it with the server's catalog).
 */
import type { Language } from "@/app/preferences"
import { nodeFieldLabel } from "@/graph/node-fields"
import { auditKindTexts } from "./admin"
import { moduleTexts } from "./modules"
import { runTexts } from "./runs"
import chinese from "./server-messages.zh.json"
import { interpolate, type Text } from "./translate"

interface ServerMessage {
  code?: string | null
  message: string
  fix?: string
  arguments?: Record<string, unknown> | null
}

/** A part of a status message: a code with values. The code `text` is any other text. */
export interface MessagePart {
  code: string
  arguments: Record<string, unknown>
}

interface StatusText {
  message: string
  message_parts?: readonly MessagePart[]
}

const CHINESE: Record<string, string[]> = chinese

/** What is wrong and what to do about it, in one sentence. */
export function serverMessage(found: ServerMessage, language: Language): string {
  const { message, fix } = serverMessageParts(found, language)
  return fix ? `${message}${language === "zh" ? "；" : "; "}${fix}` : message
}

export function serverMessageParts(found: ServerMessage, language: Language): { message: string; fix: string } {
  const known = language === "zh" && found.code ? CHINESE[found.code] : undefined
  if (!known) return { message: capitalize(found.message), fix: found.fix ?? "" }
  const args = Object.fromEntries(
    Object.entries(found.arguments ?? {}).map(([name, value]) => [name, chineseValue(name, value)]),
  )
  return { message: interpolate(known[0] ?? "", args), fix: interpolate(known[1] ?? "", args) }
}

/** A message that a controller has written, such as why a node failed. The server has found the codes in it. */
export function statusMessage({ message, message_parts: parts }: StatusText, language: Language): string {
  if (language !== "zh" || !parts) return message
  return parts.map(chinesePart).join("")
}

function chinesePart({ code, arguments: values }: MessagePart): string {
  if (code === "text") return chinesePunctuation(String(values.text))
  return serverMessageParts({ code, arguments: values, message: "" }, "zh").message
}

const PUNCTUATION: Record<string, string> = { ", ": "，", ".": "。", ": ": "：", "; ": "；", " ": "" }

/** Punctuation between two parts, and a reason in parentheses. Any other text stays as it is. */
function chinesePunctuation(text: string): string {
  const reason = /^ \((\w+)\)(: )?$/.exec(text)
  if (reason) return `（${reason[1]}）${reason[2] ? "：" : ""}`
  return PUNCTUATION[text] ?? text
}

const SCOPES: Record<string, string> = { read: "读取", write: "写入", admin: "管理" }

/** Names in the server's vocabulary (kinds, states, fields, scopes) as the Chinese UI calls them. */
function chineseValue(name: string, value: unknown): string {
  if (Array.isArray(value)) return value.map((each) => chineseValue(name.replace(/s$/, ""), each)).join("、")
  const text = String(value)
  switch (name) {
    case "kind":
      return chineseOf(auditKindTexts as Readonly<Record<string, Text>>, text)
    case "state":
      return chineseOf(
        { ...moduleTexts, ...runTexts },
        text.replace(/ (\w)/g, (_, letter) => letter.toUpperCase()),
      )
    case "field":
      return nodeFieldLabel(text)?.[1] ?? text
    case "scope":
      return SCOPES[text] ?? text
    default:
      return text
  }
}

function chineseOf(texts: Readonly<Record<string, Text>>, key: string): string {
  return Object.hasOwn(texts, key) ? (texts[key] as Text)[1] : key
}

function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
