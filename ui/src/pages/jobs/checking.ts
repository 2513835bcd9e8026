import { useEffect, useState } from "react"
import { type CheckedManifest, checkJobs } from "@/api/jobs"

export interface Checked {
  problems: CheckedManifest["problems"]
  jobs: CheckedManifest["jobs"]
  busy: boolean
  error?: unknown
}

const NOTHING: Checked = { problems: [], jobs: [], busy: false }

/** What the server says of a manifest, after each pause in writing. */
export function useChecked(text: string): Checked {
  const [found, setFound] = useState<Checked>(NOTHING)
  useEffect(() => {
    if (!text.trim()) return setFound(NOTHING)
    const asked = new AbortController()
    setFound((before) => ({ ...before, busy: true }))
    const timer = setTimeout(() => {
      checkJobs(text, asked.signal)
        .then(({ problems, jobs }) => setFound({ problems, jobs, busy: false }))
        .catch((error: unknown) => !asked.signal.aborted && setFound({ ...NOTHING, error }))
    }, 350)
    return () => {
      clearTimeout(timer)
      asked.abort()
    }
  }, [text])
  return found
}
