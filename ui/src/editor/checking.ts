/** Has the server look at the graph while it is drawn. */
import { useEffect, useState } from "react"
import { checkGraph } from "@/api/workflows"
import { written } from "@/graph/drawing"
import type { CanvasStore } from "./store"

const QUIET_MILLISECONDS = 350

/** The problem, if it could not be checked. */
export function useChecking(store: CanvasStore): unknown {
  const [failed, setFailed] = useState<unknown>()
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let asked: AbortController | undefined
    const check = async () => {
      asked?.abort()
      const mine = new AbortController()
      asked = mine
      const { drawing } = store.getState()
      if (!drawing.nodes.length && !drawing.parameters.length) {
        store.setState({ problems: [], checking: false })
        return
      }
      store.setState({ checking: true })
      try {
        const problems = await checkGraph(written(drawing), mine.signal)
        store.setState({ problems, checking: false })
        setFailed(undefined)
      } catch (error) {
        if (mine.signal.aborted) return
        store.setState({ checking: false })
        setFailed(error)
      }
    }
    const later = () => {
      clearTimeout(timer)
      timer = setTimeout(check, QUIET_MILLISECONDS)
    }
    void check()
    const stop = store.subscribe((now, before) => {
      if (now.drawing !== before.drawing) later()
    })
    return () => {
      stop()
      clearTimeout(timer)
      asked?.abort()
    }
  }, [store])
  return failed
}
