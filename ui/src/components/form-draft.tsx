/**
 * Drafts of forms, kept in the browser: an expired login, a closed tab or a restart of the server loses nothing. Leave
 * secret values out of what is kept, because other programs on the machine may read the browser's storage.
 */
import { useEffect, useRef, useState } from "react"
import { useMe } from "@/api/client"
import { draftKey, removeDraft } from "@/editor/draft"
import { editorTexts } from "@/i18n/editor"
import { useTexts } from "@/i18n/translate"
import { Button } from "./button"
import { Time } from "./time"

const KEPT_MILLISECONDS = 30 * 86_400_000
const PAUSE_MILLISECONDS = 400

interface Kept<T> {
  at: number
  value: T
}

/** Offers what was typed on this page before, and keeps what is typed now. */
export interface FormDraft<T> {
  offered?: Kept<T>
  restore: () => void
  discard: () => void
  /** After the form was saved. */
  forget: () => void
}

/** `changed`: whether there is something to lose. `restore` puts a draft into the form. */
export function useFormDraft<T>(value: T, changed: boolean, restore: (value: T) => void): FormDraft<T> {
  const key = draftKey(useMe().user.id, location.pathname)
  const [offered, setOffered] = useState(() => read<T>(key))
  const isSaved = useRef(false)
  const text = JSON.stringify(value)
  useEffect(() => {
    if (!changed || offered) return
    const keep = () => {
      if (isSaved.current) return
      try {
        localStorage.setItem(key, `{"at":${Date.now()},"value":${text}}`)
      } catch {
        // The storage is full or forbidden. The form works without drafts.
      }
    }
    const timer = setTimeout(keep, PAUSE_MILLISECONDS)
    return () => {
      clearTimeout(timer)
      keep() // the page may be left before the pause is over
    }
  }, [key, text, changed, offered])
  const forget = () => {
    isSaved.current = true
    removeDraft(localStorage, key)
  }
  return {
    offered,
    restore: () => {
      if (offered) restore(offered.value)
      setOffered(undefined)
    },
    discard: () => {
      removeDraft(localStorage, key)
      setOffered(undefined)
    },
    forget,
  }
}

function read<T>(key: string): Kept<T> | undefined {
  try {
    const kept = JSON.parse(localStorage.getItem(key) ?? "null") as Kept<T> | null
    return kept && Date.now() - kept.at < KEPT_MILLISECONDS ? kept : undefined
  } catch {
    return undefined
  }
}

export function DraftOffer<T>({ draft }: { draft: FormDraft<T> }) {
  const w = useTexts(editorTexts)
  if (!draft.offered) return null
  return (
    <div role="status" className="flex flex-wrap items-center gap-3 rounded-md border bg-accent px-3 py-2">
      <span className="flex-1">
        {w("draftFound")} <Time at={new Date(draft.offered.at).toISOString()} />
      </span>
      <Button size="small" look="primary" onClick={draft.restore}>
        {w("restoreDraft")}
      </Button>
      <Button size="small" onClick={draft.discard}>
        {w("discardDraft")}
      </Button>
    </div>
  )
}
