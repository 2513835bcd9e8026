/** Kubernetes events. */
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import { Badge } from "./badge"
import { Time } from "./time"

export interface KubernetesEvent {
  type: string
  reason: string
  object: string
  message: string
  time: string | null
  count: number
}

export function EventList({ events, className }: { events: readonly KubernetesEvent[]; className?: string }) {
  const c = useTexts(commonTexts)
  if (!events.length) return <p className="text-[13px] text-muted-foreground">{c("noEvents")}</p>
  return (
    <ul className={className}>
      {events.map((event, index) => (
        <li key={index} className="px-4 py-2 text-[13px]">
          <p className="flex flex-wrap items-center gap-2">
            <Badge tone={event.type === "Warning" ? "warning" : "plain"}>{event.reason}</Badge>
            <span className="min-w-0 break-all text-muted-foreground">{event.object}</span>
            <span className="ml-auto whitespace-nowrap text-muted-foreground">
              <Time at={event.time} />
              {event.count > 1 && ` × ${event.count}`}
            </span>
          </p>
          <p className="break-words">{event.message}</p>
        </li>
      ))}
    </ul>
  )
}
