import { useBlocker } from "@tanstack/react-router"
import { editorWords } from "@/words/editor"
import { useWords } from "@/words/words"
import { Button } from "./button"
import { Dialog } from "./dialog"

/** Asks before a page is left on which something is not saved. */
export function LeaveGuard({ changed }: { changed: boolean }) {
  const w = useWords(editorWords)
  const blocker = useBlocker({
    shouldBlockFn: ({ current, next }) => changed && current.pathname !== next.pathname,
    enableBeforeUnload: changed,
    withResolver: true,
  })
  return (
    <Dialog
      open={blocker.status === "blocked"}
      onClose={() => blocker.reset?.()}
      title={w("leaveTitle")}
      actions={
        <>
          <Button onClick={() => blocker.reset?.()}>{w("stay")}</Button>
          <Button look="danger" onClick={() => blocker.proceed?.()}>
            {w("leave")}
          </Button>
        </>
      }
    >
      {w("leaveHelp")}
    </Dialog>
  )
}
