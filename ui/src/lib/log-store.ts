/**
 * Stores a log of any length. The text is kept in blobs, which browsers move to disk when there are many; only the
 * offsets of the blocks and the blocks used last are in memory.
 */

const BLOCK_BYTES = 1 << 20
/** Longer lines are cut. */
const LONGEST_BYTES = 16 << 20
const KEPT = 6
const NEWLINE = 10

interface Block {
  content: Blob
  /** The number of its first line, from 0. */
  first: number
  lines: number
}

export class LogStore {
  private readonly blocks: Block[] = []
  private readonly loaded = new Map<Block, string[]>()
  private coming: Uint8Array[] = []
  private comingBytes = 0
  /** Complete lines of the last block. */
  private comingLines = 0
  private comingText: string[] | undefined
  private first = 0
  private open = false
  private readonly encoder = new TextEncoder()
  private readonly decoder = new TextDecoder()

  constructor(
    private readonly blockBytes = BLOCK_BYTES,
    private readonly longestBytes = LONGEST_BYTES,
  ) {}

  /** The number of lines, including one that has not ended. */
  get count(): number {
    return this.first + this.comingLines + (this.open ? 1 : 0)
  }

  append(piece: Uint8Array | string): void {
    const bytes = typeof piece === "string" ? this.encoder.encode(piece) : piece
    if (!bytes.length) return
    this.comingText = undefined
    this.coming.push(bytes)
    this.comingBytes += bytes.length
    for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) this.comingLines += 1
    this.open = bytes[bytes.length - 1] !== NEWLINE
    if (this.comingBytes >= this.blockBytes && (this.comingLines || this.comingBytes >= this.longestBytes)) this.close()
  }

  /** The lines from `from` up to, but not including, `to`. */
  async lines(from: number, to: number): Promise<string[]> {
    const found: string[] = []
    for (const block of this.blocks) {
      if (block.first >= to) break
      if (block.first + block.lines <= from) continue
      const lines = await this.load(block)
      for (let at = Math.max(from, block.first); at < Math.min(to, block.first + block.lines); at++)
        found.push(lines[at - block.first] ?? "")
    }
    const lines = this.text()
    for (let at = Math.max(from, this.first); at < Math.min(to, this.count); at++)
      found.push(lines[at - this.first] ?? "")
    return found
  }

  /** Yields the numbers of the lines from `from` on that contain the text (ignoring case), and how far it has searched. */
  async *search(wanted: string, from = 0): AsyncGenerator<{ found: number[]; next: number }> {
    const sought = wanted.toLowerCase()
    const inside = (lines: string[], first: number) => {
      const found: number[] = []
      lines.forEach((line, at) => {
        if (first + at >= from && plain(line).toLowerCase().includes(sought)) found.push(first + at)
      })
      return found
    }
    for (const block of [...this.blocks]) {
      const next = block.first + block.lines
      if (next > from) yield { found: inside(await this.load(block, false), block.first), next }
    }
    // A line that has not ended may still come to contain it.
    const whole = this.text().slice(0, this.comingLines)
    yield { found: inside(whole, this.first), next: this.first + this.comingLines }
  }

  private close(): void {
    const bytes = this.joined()
    const cut = this.comingLines ? bytes.lastIndexOf(NEWLINE) + 1 : bytes.length
    const lines = this.comingLines || 1
    this.blocks.push({ content: new Blob([bytes.slice(0, cut)]), first: this.first, lines })
    const rest = bytes.slice(cut)
    this.first += lines
    this.coming = rest.length ? [rest] : []
    this.comingBytes = rest.length
    this.comingLines = 0
    this.comingText = undefined
    this.open = rest.length > 0
  }

  private joined(): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.comingBytes)
    let at = 0
    for (const piece of this.coming) {
      bytes.set(piece, at)
      at += piece.length
    }
    return bytes
  }

  private text(): string[] {
    if (this.comingText) return this.comingText
    const bytes = this.joined()
    this.coming = bytes.length ? [bytes] : []
    this.comingText = split(this.decoder.decode(bytes))
    return this.comingText
  }

  private async load(block: Block, keep = true): Promise<string[]> {
    const known = this.loaded.get(block)
    const lines = known ?? split(this.decoder.decode(await block.content.arrayBuffer()))
    if (!keep) return lines
    this.loaded.delete(block)
    this.loaded.set(block, lines) // as the most recently used
    for (const old of this.loaded.keys()) {
      if (this.loaded.size <= KEPT) break
      this.loaded.delete(old)
    }
    return lines
  }
}

function split(text: string): string[] {
  const lines = text.split("\n")
  if (lines.at(-1) === "") lines.pop()
  return lines
}

const CONTROL = /\u001b\[[0-9;:?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g

/** The readable text of a line: without colours, and with only the last text of an overwritten line (progress bars). */
export function plain(line: string): string {
  return overwritten(line.includes("\u001b") ? line.replace(CONTROL, "") : line)
}

/** What remains of a line after carriage returns. */
export function overwritten(line: string): string {
  if (!line.includes("\r")) return line
  return line.split("\r").findLast((part) => part !== "") ?? ""
}
