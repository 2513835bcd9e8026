import { memo } from "react"
import { type Piece, pieces } from "@/lib/ansi"
import { classes } from "@/lib/classes"

const SHOWN = 2000

/** What of a line is shown in its row. */
export function isLong(text: string): boolean {
  return text.length > SHOWN
}

/** A line with its colours; of a very long one the beginning. */
export const LogLine = memo(function LogLine({ text, whole }: { text: string; whole?: boolean }) {
  return pieces(whole ? text : text.slice(0, SHOWN)).map((piece, index) => (
    <span
      key={index}
      className={
        classes(
          piece.bold && "font-bold",
          piece.dim && "opacity-75",
          piece.italic && "italic",
          piece.underlined && "underline",
        ) || undefined
      }
      style={colours(piece)}
    >
      {piece.text}
    </span>
  ))
})

function colours({ colour, background }: Piece): { color?: string; background?: string } | undefined {
  if (colour === undefined && background === undefined) return undefined
  const css = (value: number | string | undefined) => (typeof value === "number" ? `var(--ansi-${value})` : value)
  // On a background of its own, what has no colour of its own is read best in the theme's background.
  return { color: css(colour) ?? "var(--background)", background: css(background) }
}
