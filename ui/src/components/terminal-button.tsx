/** Opens a terminal in a running Pod. The terminal itself is loaded then. */

import { SquareTerminal } from "lucide-react"
import { lazy, Suspense, useState } from "react"
import { commonTexts } from "@/i18n/common"
import { useTexts } from "@/i18n/translate"
import type { TerminalPlace } from "@/lib/terminal"
import { Button } from "./button"
import { Dialog } from "./dialog"
import { Loading } from "./feedback"

const Terminal = lazy(() => import("./terminal"))

export function TerminalButton({ place }: { place: TerminalPlace }) {
  const w = useTexts(commonTexts)
  const [open, setOpen] = useState(false)
  return (
    <>
      <Button look="ghost" size="small" onClick={() => setOpen(true)} aria-label={w("terminalOf", { pod: place.pod })}>
        <SquareTerminal />
        {w("terminal")}
      </Button>
      <Dialog open={open} onClose={() => setOpen(false)} title={w("terminal")} lead={place.pod} wide>
        <Suspense fallback={<Loading />}>
          <Terminal place={place} />
        </Suspense>
      </Dialog>
    </>
  )
}
