import { useQuery } from "@tanstack/react-query"
import { useMemo } from "react"
import { endSession, type Session, sessionsQuery } from "@/api/admin"
import { Badge } from "@/components/badge"
import { Button } from "@/components/button"
import type { Column } from "@/components/data-table"
import { Listing } from "@/components/listing"
import { Time } from "@/components/time"
import { note, noteError } from "@/components/toasts"
import { browserName } from "@/lib/browsers"
import { accountWords } from "@/words/admin"
import { commonWords } from "@/words/common"
import { useWords } from "@/words/words"

export function Sessions() {
  const w = useWords(accountWords)
  const c = useWords(commonWords)
  const found = useQuery(sessionsQuery({ limit: 200 }))
  const columns = useMemo((): Column<Session>[] => {
    const end = async (session: Session) => {
      try {
        await endSession(session)
        note(w("ended"))
      } catch (error) {
        noteError(error)
      }
    }
    return [
      {
        id: "browser",
        header: w("browser"),
        cell: (session) => (
          <span className="inline-flex items-center gap-2" title={session.browser}>
            {browserName(session.browser)}
            {session.current && <Badge tone="primary">{w("thisOne")}</Badge>}
          </span>
        ),
      },
      { id: "address", header: w("address"), cell: (session) => session.address },
      { id: "created", header: c("created"), cell: (session) => <Time at={session.created} /> },
      { id: "used", header: w("lastSeen"), cell: (session) => <Time at={session.last_used} /> },
      {
        id: "actions",
        header: c("actions"),
        hideHeader: true,
        className: "text-right",
        cell: (session) =>
          !session.current && (
            <Button size="small" onClick={() => void end(session)}>
              {w("end")}
            </Button>
          ),
      },
    ]
  }, [w, c])
  return (
    <>
      <p className="text-muted-foreground">{w("sessionsHelp")}</p>
      <Listing label={w("sessions")} found={found} columns={columns} rowId={(session) => session.id} empty={null} />
    </>
  )
}
