/** Tells the user when one of their runs ends: by a notification of the browser, or in the page. */
import { useNavigate } from "@tanstack/react-router"
import { useEffect } from "react"
import { api, data, useMe } from "@/api/client"
import { noteLink } from "@/components/toasts"
import { notificationTexts } from "@/i18n/notifications"
import { useTexts } from "@/i18n/translate"
import { type ChangedRun, RunNotices } from "@/lib/run-notices"
import { usePreferences } from "./preferences"

const TITLES = { succeeded: "succeededTitle", failed: "failedTitle", stopped: "stoppedTitle" } as const

const MOST_GOING = 200

/** Whether the browser can show notifications here; it needs HTTPS, or the same machine. */
export function canNotify(): boolean {
  return "Notification" in window && window.isSecureContext
}

/** Nothing is requested from the server unless the user has turned it on. */
export function useRunNotifications(): void {
  const w = useTexts(notificationTexts)
  const choice = usePreferences((all) => all.notices)
  const me = useMe().user.id
  const navigate = useNavigate()
  useEffect(() => {
    if (choice === "off") return
    const notices = new RunNotices()
    const source = new EventSource("/api/v1/runs/events")
    const query = { owner: me, state: ["waiting", "running"] as ("waiting" | "running")[], limit: MOST_GOING }
    // The events begin now, and the only one left of a run that goes on already may be its end.
    source.addEventListener("open", () => {
      void api
        .GET("/api/v1/runs", { params: { query } })
        .then(data)
        .then(({ items }) => notices.goOn(items))
        .catch(() => undefined) // the events tell of most runs
    })
    source.addEventListener("run", (event) => {
      const run = JSON.parse(event.data as string) as ChangedRun
      if (!notices.isNews(run, me, choice)) return
      const title = w(TITLES[run.state as keyof typeof TITLES], { name: run.name })
      const open = () => void navigate({ to: "/runs/$run", params: { run: run.id } })
      if (!tellByBrowser(title, run, open)) noteLink(title, w("open"), open, run.state === "failed")
    })
    return () => source.close()
  }, [choice, me, navigate, w])
}

/** Returns whether it could. Of several tabs, the browser shows one notification: they have the same tag. */
function tellByBrowser(title: string, run: ChangedRun, open: () => void): boolean {
  if (!canNotify() || Notification.permission !== "granted") return false
  try {
    const shown = new Notification(title, { body: run.message, tag: `muster-run-${run.id}-${run.retries}` })
    shown.onclick = () => {
      window.focus()
      open()
      shown.close()
    }
    return true
  } catch {
    return false // Chrome on Android allows them only in a service worker
  }
}
