/** Colours of terminals (ANSI escape sequences). */
import { overwritten } from "./log-store"

export interface Piece {
  text: string
  /** 0 to 7 are the plain colours, 8 to 15 the bright ones; others are CSS colours. */
  colour?: number | string
  background?: number | string
  bold?: boolean
  dim?: boolean
  italic?: boolean
  underlined?: boolean
}

type Look = Omit<Piece, "text">

const CODES = /\u001b\[([0-9;:?]*)([ -/]*[@-~])|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g

/** Splits a line into pieces of one style. Every line starts without a style: earlier lines may not be loaded. */
export function pieces(written: string): Piece[] {
  const line = overwritten(written)
  if (!line.includes("\u001b")) return [{ text: line }]
  const found: Piece[] = []
  let look: Look = {}
  let from = 0
  const add = (text: string) => text && found.push({ text, ...look })
  for (const code of line.matchAll(CODES)) {
    add(line.slice(from, code.index))
    from = code.index + code[0].length
    if (code[2] === "m") look = changed(look, code[1] ?? "")
  }
  add(line.slice(from))
  return found
}

function changed(before: Look, codes: string): Look {
  const numbers = codes.split(/[;:]/).map((code) => Number(code || 0))
  let look = { ...before }
  for (let at = 0; at < numbers.length; at++) {
    const code = numbers[at] as number
    if (code === 0) look = {}
    else if (code === 1) look.bold = true
    else if (code === 2) look.dim = true
    else if (code === 3) look.italic = true
    else if (code === 4) look.underlined = true
    else if (code === 22) look = { ...look, bold: undefined, dim: undefined }
    else if (code === 23) look.italic = undefined
    else if (code === 24) look.underlined = undefined
    else if (code >= 30 && code <= 37) look.colour = code - 30
    else if (code >= 90 && code <= 97) look.colour = code - 82
    else if (code === 39) look.colour = undefined
    else if (code >= 40 && code <= 47) look.background = code - 40
    else if (code >= 100 && code <= 107) look.background = code - 92
    else if (code === 49) look.background = undefined
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(numbers.slice(at + 1))
      if (code === 38) look.colour = colour
      else look.background = colour
      at += used
    }
  }
  return look
}

/** A colour of the 256-colour palette or a true colour, and how many numbers it used. */
function extended([kind, ...rest]: number[]): [colour: number | string | undefined, used: number] {
  if (kind === 2)
    return [
      `rgb(${rest
        .slice(0, 3)
        .map((each) => each ?? 0)
        .join(" ")})`,
      4,
    ]
  const [index] = rest
  if (kind !== 5 || index === undefined) return [undefined, 1]
  if (index < 16) return [index, 2]
  if (index >= 232) return [grey(index - 232), 2]
  const part = (value: number) => (value ? 55 + value * 40 : 0)
  const cube = index - 16
  return [`rgb(${part(Math.floor(cube / 36))} ${part(Math.floor(cube / 6) % 6)} ${part(cube % 6)})`, 2]
}

function grey(step: number): string {
  const value = 8 + step * 10
  return `rgb(${value} ${value} ${value})`
}
