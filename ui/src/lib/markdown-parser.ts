/** Reads untrusted Markdown into tokens. It is rendered as elements, never as HTML. */
import { lexer, type Token } from "marked"

export type { Token } from "marked"

export function readMarkdown(text: string): Token[] {
  return lexer(text.replace(/^\uFEFF/, ""), { gfm: true })
}

/** The address of a link: another site, an email address, or a heading of the same text. Anything else is not a link. */
export function linkAddress(href: string): string | undefined {
  const address = href.trim()
  if (/^#\S/.test(address)) return `#${headingId(decoded(address.slice(1)))}`
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return undefined
  return URL.canParse(address) ? new URL(address).href : undefined
}

/** The id of a heading, as on GitHub, so that tables of contents work; never an id of the page itself. */
export function headingId(text: string): string {
  return `readme-${text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-")}`
}

/** The text of HTML without its tags. */
export function withoutTags(html: string): string {
  return entities(
    html
      .replace(/<!--[\s\S]*?(-->|$)/g, "")
      .replace(/<(script|style|template)\b[\s\S]*?(<\/\1\s*>|$)/gi, "")
      .replace(/<br\s*\/?>/gi, "\n")
      .replace(/<\/?[a-z][^>]*(>|$)/gi, ""),
  ).trim()
}

/** Drops scripts and styles, of which only the tags are tokens. */
export function withoutScripts(tokens: Token[]): Token[] {
  let inside = ""
  return tokens.filter((token) => {
    const tag = token.type === "html" ? /^<(\/?)(script|style|template)\b/i.exec(token.raw) : null
    if (tag && !inside && !tag[1]) inside = (tag[2] as string).toLowerCase()
    else if (tag?.[1] && tag[2]?.toLowerCase() === inside) inside = ""
    else return !inside
    return false
  })
}

const NAMED: Record<string, string> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  reg: "®",
  trade: "™",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  laquo: "«",
  raquo: "»",
  middot: "·",
  bull: "•",
  rarr: "→",
  larr: "←",
  times: "×",
  deg: "°",
}

/** Decodes entities, which tokens keep as they were written. */
export function entities(text: string): string {
  return text.replace(/&(#x[0-9a-f]{1,6}|#\d{1,7}|[a-z]{2,8});/gi, (whole, name: string) => {
    if (!name.startsWith("#")) return NAMED[name.toLowerCase()] ?? whole
    const code = name[1]?.toLowerCase() === "x" ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1))
    return code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) ? String.fromCodePoint(code) : whole
  })
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
