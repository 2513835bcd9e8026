/** Short messages about what has just been done. */
import { CircleAlert, CircleCheck, X } from "lucide-react"
import { create } from "zustand"
import { asProblem } from "@/api/problem"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { Button } from "./button"
import { problemTitle } from "./feedback"

interface Note {
  id: number
  text?: string
  error?: unknown
  link?: { label: string; open: () => void }
  /** About something that failed. */
  bad?: boolean
}

const useNotes = create<{ notes: Note[] }>(() => ({ notes: [] }))
let last = 0

export function note(text: string): void {
  show({ text }, 4000)
}

/** With a button that leads to what it is about. It stays longer: the user may be elsewhere. */
export function noteLink(text: string, label: string, open: () => void, bad: boolean): void {
  show({ text, link: { label, open }, bad }, 15_000)
}

/** Shows an error that has no better place. */
export function noteError(error: unknown): void {
  show({ error }, 10_000)
}

function show(what: Omit<Note, "id">, milliseconds: number): void {
  const id = ++last
  useNotes.setState(({ notes }) => ({ notes: [...notes.slice(-3), { id, ...what }] }))
  setTimeout(() => drop(id), milliseconds)
}

function drop(id: number): void {
  useNotes.setState(({ notes }) => ({ notes: notes.filter((each) => each.id !== id) }))
}

export function Toasts() {
  const w = useTexts(commonTexts)
  const notes = useNotes((all) => all.notes)
  return (
    <div
      role="status"
      aria-live="polite"
      className="pointer-events-none fixed right-4 bottom-4 z-60 flex w-80 flex-col gap-2"
    >
      {notes.map(({ id, text, error, link, bad }) => {
        const problem = error ? asProblem(error) : undefined
        return (
          <div key={id} className="pointer-events-auto flex items-start gap-2 rounded-md border bg-card p-3 shadow-lg">
            {problem || bad ? (
              <CircleAlert aria-hidden className="mt-0.5 size-4 shrink-0 text-destructive" />
            ) : (
              <CircleCheck aria-hidden className="mt-0.5 size-4 shrink-0 text-success" />
            )}
            <div className="min-w-0 flex-1 break-words">
              {problem ? (
                <>
                  <p className="font-medium">{problemTitle(problem, w)}</p>
                  <p className="text-[13px] text-muted-foreground">{problem.said}</p>
                </>
              ) : (
                text
              )}
              {link && (
                <Button
                  look="link"
                  size="link"
                  className="block"
                  onClick={() => {
                    drop(id)
                    link.open()
                  }}
                >
                  {link.label}
                </Button>
              )}
            </div>
            <Button look="ghost" size="icon" className="-m-1.5" aria-label={w("close")} onClick={() => drop(id)}>
              <X />
            </Button>
          </div>
        )
      })}
    </div>
  )
}
