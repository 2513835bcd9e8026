/** How a file of a run is shown: as an image, a table, JSON or text; or not at all. */

export type Preview =
  | { kind: "image"; type: string }
  | { kind: "table"; rows: string[][]; isCut: boolean }
  | { kind: "text"; text: string; isCut: boolean }
  | { kind: "binary" }
  | { kind: "folder" }

export const MOST_BYTES = 1_000_000
export const MOST_IMAGE_BYTES = 10_000_000
const MOST_ROWS = 500

const IMAGES: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  svg: "image/svg+xml",
}

/** The type of an image by the name of its file; undefined if it is none. */
export function imageType(name: string): string | undefined {
  return IMAGES[ending(name)]
}

/** `isCut`: the file has more bytes than these. */
export function previewOf(name: string, bytes: Uint8Array, isCut: boolean): Preview {
  const type = imageType(name)
  if (type) return isCut ? { kind: "binary" } : { kind: "image", type }
  if (bytes.includes(0)) return { kind: "binary" }
  const text = new TextDecoder().decode(isCut ? bytes.subarray(0, bytes.lastIndexOf(10) + 1 || bytes.length) : bytes)
  const end = ending(name)
  if (end === "csv" || end === "tsv") {
    const rows = parseTable(text, end === "csv" ? "," : "\t", MOST_ROWS + 1)
    return { kind: "table", rows: rows.slice(0, MOST_ROWS), isCut: isCut || rows.length > MOST_ROWS }
  }
  return { kind: "text", text: end === "json" && !isCut ? formatted(text) : text, isCut }
}

/** Rows of comma-separated values; quoted values may have commas, quotes and line ends in them. */
export function parseTable(text: string, separator: string, most: number): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  let value = ""
  let quoted = false
  const endRow = () => {
    row.push(value)
    value = ""
    if (row.length > 1 || row[0] !== "") rows.push(row)
    row = []
  }
  for (let at = 0; at < text.length && rows.length < most; at++) {
    const letter = text[at]
    if (quoted) {
      if (letter !== '"') value += letter
      else if (text[at + 1] === '"') value += text[++at]
      else quoted = false
    } else if (letter === '"' && value === "") quoted = true
    else if (letter === separator) {
      row.push(value)
      value = ""
    } else if (letter === "\n") endRow()
    else if (letter !== "\r") value += letter
  }
  if (rows.length < most && (value || row.length)) endRow()
  return rows
}

function formatted(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

function ending(name: string): string {
  return name.split("/").at(-1)?.split(".").slice(1).at(-1)?.toLowerCase() ?? ""
}
